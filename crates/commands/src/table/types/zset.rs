//! Commands on sorted sets, and SORT.

use crate::resp::types::{sort, zset};
use crate::table::{Command, FIRST_OF_MANY, NUMBERED, ONE, Run, TWO};

pub(super) static COMMANDS: &[Command] = table! {
    "bzmpop" -5 "write blocking movablekeys / numbered-second" NUMBERED "sorted-set" "7.0.0"
        Run::Type(&zset::BZMPOP),
        "Takes members as ZMPOP does, and waits until there are some.";
    "bzpopmax" -3 "write noscript blocking fast" FIRST_OF_MANY "sorted-set" "5.0.0"
        Run::Type(&zset::BZPOPMAX),
        "Takes the member with the highest score, and waits until there is one.";
    "bzpopmin" -3 "write noscript blocking fast" FIRST_OF_MANY "sorted-set" "5.0.0"
        Run::Type(&zset::BZPOPMIN),
        "Takes the member with the lowest score, and waits until there is one.";
    "sort" -2 "write denyoom movablekeys / stores looks-up dangerous list set sortedset" ONE
        "generic" "1.0.0" Run::Type(&sort::SORT),
        "Returns or stores the elements of a list, a set or a sorted set in another order.";
    "sort_ro" -2 "readonly movablekeys / looks-up dangerous list set sortedset" ONE "generic"
        "7.0.0" Run::Type(&sort::SORT_RO),
        "Returns the elements of a list, a set or a sorted set in another order.";
    "zadd" -4 "write denyoom fast" ONE "sorted-set" "1.2.0" Run::Type(&zset::ZADD),
        "Adds members to a sorted set, or gives them other scores.";
    "zcard" 2 "readonly fast" ONE "sorted-set" "1.2.0" Run::Type(&zset::ZCARD),
        "Counts the members of a sorted set.";
    "zcount" 4 "readonly fast" ONE "sorted-set" "2.0.0" Run::Type(&zset::ZCOUNT),
        "Counts the members with scores in a range.";
    "zdiff" -3 "readonly movablekeys / numbered-first" NUMBERED "sorted-set" "6.2.0"
        Run::Type(&zset::ZDIFF), "Returns the members of a sorted set that no other has.";
    "zdiffstore" -4 "write denyoom movablekeys / numbered-second into-first" ONE "sorted-set"
        "6.2.0" Run::Type(&zset::ZDIFFSTORE),
        "Stores the members of a sorted set that no other has.";
    "zincrby" 4 "write denyoom fast" ONE "sorted-set" "1.2.0" Run::Type(&zset::ZINCRBY),
        "Adds to the score of a member.";
    "zinter" -3 "readonly movablekeys / numbered-first" NUMBERED "sorted-set" "6.2.0"
        Run::Type(&zset::ZINTER), "Returns the members that all of several sorted sets have.";
    "zintercard" -3 "readonly movablekeys / numbered-first" NUMBERED "sorted-set" "7.0.0"
        Run::Type(&zset::ZINTERCARD), "Counts the members that all of several sorted sets have.";
    "zinterstore" -4 "write denyoom movablekeys / numbered-second into-first" ONE "sorted-set"
        "2.0.0" Run::Type(&zset::ZINTERSTORE),
        "Stores the members that all of several sorted sets have.";
    "zlexcount" 4 "readonly fast" ONE "sorted-set" "2.8.9" Run::Type(&zset::ZLEXCOUNT),
        "Counts the members in a range of names, where all have one score.";
    "zmpop" -4 "write movablekeys / numbered-first" NUMBERED "sorted-set" "7.0.0"
        Run::Type(&zset::ZMPOP),
        "Takes the first or last members of the first sorted set among several that has some.";
    "zmscore" -3 "readonly fast" ONE "sorted-set" "6.2.0" Run::Type(&zset::ZMSCORE),
        "Returns the scores of members.";
    "zpopmax" -2 "write fast" ONE "sorted-set" "5.0.0" Run::Type(&zset::ZPOPMAX),
        "Takes the members with the highest scores.";
    "zpopmin" -2 "write fast" ONE "sorted-set" "5.0.0" Run::Type(&zset::ZPOPMIN),
        "Takes the members with the lowest scores.";
    "zrandmember" -2 "readonly" ONE "sorted-set" "6.2.0" Run::Type(&zset::ZRANDMEMBER),
        "Returns members by chance.";
    "zrange" -4 "readonly" ONE "sorted-set" "1.2.0" Run::Type(&zset::ZRANGE),
        "Returns the members in a range of ranks, scores or names.";
    "zrangebylex" -4 "readonly" ONE "sorted-set" "2.8.9" Run::Type(&zset::ZRANGEBYLEX),
        "Returns the members in a range of names, where all have one score.";
    "zrangebyscore" -4 "readonly" ONE "sorted-set" "1.0.5" Run::Type(&zset::ZRANGEBYSCORE),
        "Returns the members with scores in a range.";
    "zrangestore" -5 "write denyoom / into-first" TWO "sorted-set" "6.2.0"
        Run::Type(&zset::ZRANGESTORE), "Stores the members in a range of a sorted set.";
    "zrank" 3 "readonly fast" ONE "sorted-set" "2.0.0" Run::Type(&zset::ZRANK),
        "Returns how many members come before one.";
    "zrem" -3 "write fast" ONE "sorted-set" "1.2.0" Run::Type(&zset::ZREM),
        "Removes members of a sorted set.";
    "zremrangebylex" 4 "write" ONE "sorted-set" "2.8.9" Run::Type(&zset::ZREMRANGEBYLEX),
        "Removes the members in a range of names, where all have one score.";
    "zremrangebyrank" 4 "write" ONE "sorted-set" "2.0.0" Run::Type(&zset::ZREMRANGEBYRANK),
        "Removes the members in a range of ranks.";
    "zremrangebyscore" 4 "write" ONE "sorted-set" "1.2.0" Run::Type(&zset::ZREMRANGEBYSCORE),
        "Removes the members with scores in a range.";
    "zrevrange" -4 "readonly" ONE "sorted-set" "1.2.0" Run::Type(&zset::ZREVRANGE),
        "Returns the members in a range of ranks, the highest score first.";
    "zrevrangebylex" -4 "readonly" ONE "sorted-set" "2.8.9" Run::Type(&zset::ZREVRANGEBYLEX),
        "Returns the members in a range of names, the last one first.";
    "zrevrangebyscore" -4 "readonly" ONE "sorted-set" "2.2.0"
        Run::Type(&zset::ZREVRANGEBYSCORE),
        "Returns the members with scores in a range, the highest one first.";
    "zrevrank" 3 "readonly fast" ONE "sorted-set" "2.0.0" Run::Type(&zset::ZREVRANK),
        "Returns how many members come behind one.";
    "zscan" -3 "readonly" ONE "sorted-set" "2.8.0" Run::Type(&zset::ZSCAN),
        "Returns some members with their scores, and where to go on.";
    "zscore" 3 "readonly fast" ONE "sorted-set" "1.2.0" Run::Type(&zset::ZSCORE),
        "Returns the score of a member.";
    "zunion" -3 "readonly movablekeys / numbered-first" NUMBERED "sorted-set" "6.2.0"
        Run::Type(&zset::ZUNION), "Returns the members that any of several sorted sets has.";
    "zunionstore" -4 "write denyoom movablekeys / numbered-second into-first" ONE "sorted-set"
        "2.0.0" Run::Type(&zset::ZUNIONSTORE),
        "Stores the members that any of several sorted sets has.";
};
