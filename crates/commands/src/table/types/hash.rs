//! Commands on hashes.

use crate::resp::types::{hash, hash_times};
use crate::table::{Command, ONE, Run};

pub(super) static COMMANDS: &[Command] = table! {
    "hdel" -3 "write fast" ONE "hash" "2.0.0" Run::Type(&hash::HDEL),
        "Removes fields of a hash.";
    "hexists" 3 "readonly fast" ONE "hash" "2.0.0" Run::Type(&hash::HEXISTS),
        "Returns whether a hash has a field.";
    "hexpire" -6 "write denyoom fast" ONE "hash" "7.4.0" Run::Type(&hash_times::HEXPIRE),
        "Sets after how many seconds fields of a hash expire.";
    "hexpireat" -6 "write denyoom fast" ONE "hash" "7.4.0" Run::Type(&hash_times::HEXPIREAT),
        "Sets when fields of a hash expire, in Unix seconds.";
    "hexpiretime" -5 "readonly fast" ONE "hash" "7.4.0" Run::Type(&hash_times::HEXPIRETIME),
        "Returns when fields of a hash expire, in Unix seconds.";
    "hget" 3 "readonly fast" ONE "hash" "2.0.0" Run::Type(&hash::HGET),
        "Returns the value of a field of a hash.";
    "hgetall" 2 "readonly" ONE "hash" "2.0.0" Run::Type(&hash::HGETALL),
        "Returns all fields of a hash and their values.";
    "hgetdel" -5 "write fast" ONE "hash" "8.0.0" Run::Type(&hash_times::HGETDEL),
        "Returns the values of fields of a hash and removes these.";
    "hgetex" -5 "write fast" ONE "hash" "8.0.0" Run::Type(&hash_times::HGETEX),
        "Returns the values of fields of a hash and sets when these expire.";
    "hincrby" 4 "write denyoom fast" ONE "hash" "2.0.0" Run::Type(&hash::HINCRBY),
        "Adds an integer to the value of a field of a hash.";
    "hincrbyfloat" 4 "write denyoom fast" ONE "hash" "2.6.0" Run::Type(&hash::HINCRBYFLOAT),
        "Adds a number to the value of a field of a hash.";
    "hkeys" 2 "readonly" ONE "hash" "2.0.0" Run::Type(&hash::HKEYS),
        "Returns all fields of a hash.";
    "hlen" 2 "readonly fast" ONE "hash" "2.0.0" Run::Type(&hash::HLEN),
        "Returns how many fields a hash has.";
    "hmget" -3 "readonly fast" ONE "hash" "2.0.0" Run::Type(&hash::HMGET),
        "Returns the values of fields of a hash.";
    "hmset" -4 "write denyoom fast" ONE "hash" "2.0.0" Run::Type(&hash::HSET),
        "Sets fields of a hash.";
    "hpersist" -5 "write fast" ONE "hash" "7.4.0" Run::Type(&hash_times::HPERSIST),
        "Makes fields of a hash not expire.";
    "hpexpire" -6 "write denyoom fast" ONE "hash" "7.4.0" Run::Type(&hash_times::HPEXPIRE),
        "Sets after how many milliseconds fields of a hash expire.";
    "hpexpireat" -6 "write denyoom fast" ONE "hash" "7.4.0" Run::Type(&hash_times::HPEXPIREAT),
        "Sets when fields of a hash expire, in Unix milliseconds.";
    "hpexpiretime" -5 "readonly fast" ONE "hash" "7.4.0" Run::Type(&hash_times::HPEXPIRETIME),
        "Returns when fields of a hash expire, in Unix milliseconds.";
    "hpttl" -5 "readonly fast" ONE "hash" "7.4.0" Run::Type(&hash_times::HPTTL),
        "Returns after how many milliseconds fields of a hash expire.";
    "hrandfield" -2 "readonly" ONE "hash" "6.2.0" Run::Type(&hash::HRANDFIELD),
        "Returns fields of a hash by chance.";
    "hscan" -3 "readonly" ONE "hash" "2.8.0" Run::Type(&hash::HSCAN),
        "Returns some fields of a hash, and the cursor for the next ones.";
    "hset" -4 "write denyoom fast" ONE "hash" "2.0.0" Run::Type(&hash::HSET),
        "Sets fields of a hash.";
    "hsetex" -6 "write denyoom fast" ONE "hash" "8.0.0" Run::Type(&hash_times::HSETEX),
        "Sets fields of a hash and when these expire.";
    "hsetnx" 4 "write denyoom fast" ONE "hash" "2.0.0" Run::Type(&hash::HSETNX),
        "Sets a field of a hash unless it is there.";
    "hstrlen" 3 "readonly fast" ONE "hash" "3.2.0" Run::Type(&hash::HSTRLEN),
        "Returns how long the value of a field of a hash is.";
    "httl" -5 "readonly fast" ONE "hash" "7.4.0" Run::Type(&hash_times::HTTL),
        "Returns after how many seconds fields of a hash expire.";
    "hvals" 2 "readonly" ONE "hash" "2.0.0" Run::Type(&hash::HVALS),
        "Returns the values of all fields of a hash.";
};
