//! What a primary does to keys before they expire, and a replica hears of later.

use std::time::Duration;

/// What there is before the replica falls behind, and what is done then. Keys that begin with `x`
/// expire before it goes on.
pub(crate) const LATE: &[(&str, &str)] = &[
    ("RPUSH xK a b c", "LMOVE xK tK LEFT RIGHT"),
    ("RPUSH xK a b c", "RPOPLPUSH xK tK"),
    ("RPUSH xK a b c", "BLMOVE xK tK LEFT RIGHT 1"),
    ("RPUSH xK a b c;RPUSH tK d", "LMPOP 2 xK tK LEFT COUNT 5"),
    ("RPUSH xK a b c;RPUSH tK d", "BLPOP xK tK 1"),
    ("SADD xK a b", "SMOVE xK tK a"),
    ("ZADD xK 1 a 2 b;ZADD tK 1 c", "ZMPOP 2 xK tK MIN"),
    ("ZADD xK 1 a 2 b;ZADD tK 1 c", "BZPOPMAX xK tK 1"),
    ("SADD xK a b;SADD uK b c", "SUNIONSTORE tK xK uK"),
    ("SADD xK a b;SADD uK b c", "SINTERSTORE tK xK uK"),
    ("SADD xK a b;SADD uK b c", "SDIFFSTORE tK uK xK"),
    ("ZADD xK 1 a;ZADD uK 2 b", "ZUNIONSTORE tK 2 xK uK"),
    ("ZADD xK 1 a;ZADD uK 2 a", "ZINTERSTORE tK 2 xK uK"),
    ("ZADD xK 1 a;ZADD uK 2 a 3 b", "ZDIFFSTORE tK 2 uK xK"),
    ("ZADD xK 1 a 2 b", "ZRANGESTORE tK xK 0 5"),
    ("GEOADD xK 13.4 52.5 a", "GEOSEARCHSTORE tK xK FROMLONLAT 13 52 BYRADIUS 100 km"),
    ("RPUSH xK c a b", "SORT xK ALPHA STORE tK"),
    ("RPUSH uK 2 1;SET x1K 9;SET x2K 3", "SORT uK BY x*K STORE tK"),
    ("PFADD xK a b;PFADD uK c", "PFMERGE tK uK xK"),
    ("SET xK abc;SET uK d", "BITOP OR tK xK uK"),
    ("SET xK a", "RENAME xK yK"),
    ("RPUSH xK a", "RENAME xK yK;PERSIST yK"),
    ("SET xK a", "RENAMENX xK yK;PERSIST yK"),
    ("RPUSH xK a", "COPY xK yK;PERSIST yK"),
    ("RPUSH xK a", "MOVE xK 1;SELECT 1;PERSIST xK;SELECT 0"),
    ("SET xK a", "COPY xK yK DB 1;SELECT 1;PERSIST yK;SELECT 0"),
    ("SET xK a", "PERSIST xK"),
    ("RPUSH xK a", "PERSIST xK"),
    ("HSET xK f v", "EXPIRE xK 1000;HSET xK g w"),
    ("SET xK a", "GETEX xK EX 1000;APPEND xK b"),
    ("RPUSH xK a b", "LSET xK 0 c;LTRIM xK 0 0;PERSIST xK"),
    ("XADD xK 1-1 f v", "XGROUP CREATE xK g 0;XADD xK 2-1 f v;PERSIST xK"),
    ("HSET xK n 1", "MULTI;HINCRBY xK n 4;PERSIST xK;EXEC"),
    ("ZADD xK 1 a", "EVAL redis.call('zincrby',KEYS[1],3,'a')redis.call('persist',KEYS[1]) 1 xK"),
];

/// How long keys live: longer than it takes to send all of it on a machine that has much to do.
pub(crate) const LIFE: Duration = Duration::from_secs(10);

/// Requests of the lines of `text` about the keys of number `nth`.
pub(crate) fn lines(text: &str, nth: usize) -> Vec<String> {
    let of = |word: &str| match word.strip_suffix('K').filter(|kind| kind.len() <= 2) {
        Some(kind) => format!("{kind}:{nth}"),
        None => word.to_string(),
    };
    text.split(';').map(|line| line.split(' ').map(of).collect::<Vec<_>>().join(" ")).collect()
}
