//! Lists.

use super::{Compare, Requests, differ};

#[test]
fn lists_are_those_of_redis() {
    differ(&Requests {
        templates: &[
            "LPUSH K V",
            "RPUSH K V V V",
            "LPUSH K V V V V V V",
            "RPUSHX K V",
            "LPUSHX K V V",
            "LPOP K",
            "RPOP K",
            "LPOP K N",
            "RPOP K N",
            "LLEN K",
            "LRANGE K 0 -1",
            "LRANGE K N N",
            "LINDEX K N",
            "LINDEX K V",
            "LSET K N V",
            "LSET K x V",
            "LINSERT K BEFORE V V",
            "LINSERT K AFTER V V",
            "LINSERT K BESIDE V V",
            "LREM K N V",
            "LTRIM K N N",
            "LTRIM K 1 -1",
            "LPOS K V",
            "LPOS K V RANK N",
            "LPOS K V COUNT N MAXLEN N",
            "LPOS K V RANK -1 COUNT 0",
            "RPOPLPUSH K L",
            "LMOVE K L LEFT RIGHT",
            "LMOVE K K RIGHT LEFT",
            "LMOVE K L UP RIGHT",
            "LMPOP 2 K L LEFT",
            "LMPOP 3 K L M RIGHT COUNT 3",
            "LMPOP N K L LEFT COUNT N",
            "BLPOP K L 0.001",
            "BRPOP K 0.001",
            "BLMOVE K L LEFT LEFT 0.001",
            "BRPOPLPUSH K L 0.001",
            "BLMPOP 0.001 2 K L RIGHT COUNT 2",
            "BLPOP K x",
            "BLPOP K -1",
            "LPOP K 1 2",
            "EXISTS K L",
        ],
        compare: |_| Compare::Exactly,
    });
}
