//! Commands of Redis for what Silica does not have, so that the error can say it.

/// What commands work on, and their names.
const MISSING: &[(&str, &str)] = &[
    (
        "lists",
        "blmove blmpop blpop brpop brpoplpush lindex linsert llen lmove lmpop lpop lpos lpush \
         lpushx lrange lrem lset ltrim rpop rpoplpush rpush rpushx",
    ),
    (
        "hashes",
        "hdel hexists hexpire hexpireat hexpiretime hget hgetall hgetdel hgetex hincrby \
         hincrbyfloat hkeys hlen hmget hmset hpersist hpexpire hpexpireat hpexpiretime hpttl \
         hrandfield hscan hset hsetex hsetnx hstrlen httl hvals",
    ),
    (
        "sets",
        "sadd scard sdiff sdiffstore sinter sintercard sinterstore sismember smembers \
         smismember smove spop srandmember srem sscan sunion sunionstore",
    ),
    (
        "sorted sets",
        "bzmpop bzpopmax bzpopmin zadd zcard zcount zdiff zdiffstore zincrby zinter \
         zintercard zinterstore zlexcount zmpop zmscore zpopmax zpopmin zrandmember zrange \
         zrangebylex zrangebyscore zrangestore zrank zrem zremrangebylex zremrangebyrank \
         zremrangebyscore zrevrange zrevrangebylex zrevrangebyscore zrevrank zscan zscore \
         zunion zunionstore",
    ),
    (
        "streams",
        "xack xadd xautoclaim xclaim xdel xgroup xinfo xlen xpending xrange xread xreadgroup \
         xrevrange xsetid xtrim",
    ),
    (
        "positions",
        "geoadd geodist geohash geopos georadius georadiusbymember georadiusbymember_ro \
         georadius_ro geosearch geosearchstore",
    ),
    ("counters of distinct elements", "pfadd pfcount pfdebug pfmerge pfselftest"),
];

/// Commands of Redis that have to do with its cluster, replicas, modules and inner workings.
const OTHERS: &str = "asking bgrewriteaof failover monitor psync readonly \
                      readwrite replconf replicaof restore-asking slaveof swapdb sync";

/// True for the name of a command or subcommand that Redis has and Silica has not: rules about it
/// may stand in lists that were written for Redis.
pub(crate) fn is_known(name: &str) -> bool {
    let command = name.split_once('|').map_or(name, |(container, _)| container);
    let all = MISSING.iter().map(|(_, names)| *names).chain([OTHERS]);
    all.flat_map(|names| names.split_ascii_whitespace()).any(|one| one == command)
}

/// Why there is no command `name`, where Redis has one of a kind that we do not.
pub(crate) fn why(name: &[u8]) -> Option<String> {
    let name = std::str::from_utf8(name).ok()?.to_ascii_lowercase();
    let shown = name.to_ascii_uppercase();
    let is_it = |names: &str| names.split(' ').any(|one| one == name);
    let (kind, _) = MISSING.iter().find(|(_, names)| is_it(names))?;
    Some(format!("ERR {shown} is not supported: Silica stores strings and has no {kind}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table;

    #[test]
    fn every_name_is_one_that_we_do_not_have() {
        for name in MISSING.iter().flat_map(|(_, names)| names.split(' ')) {
            assert!(table::find(name.as_bytes()).is_none(), "{name}");
            assert!(why(name.as_bytes()).is_some(), "{name}");
        }
        let text = why(b"lPush").unwrap();
        assert_eq!(text, "ERR LPUSH is not supported: Silica stores strings and has no lists");
        assert_eq!(why(b"get"), None);
        assert_eq!(why(b"\xFF"), None);
    }
}
