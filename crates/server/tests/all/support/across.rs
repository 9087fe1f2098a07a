//! Requests about several databases, and what Redis answers.

/// MOVE, COPY with DB, SWAPDB.
pub(crate) const DATABASES: &str = "
    FLUSHALL -> OK
    SET a zero EX 1000 -> OK
    MOVE a 0 -> -ERR source and destination objects are the same
    MOVE a 99 -> -ERR DB index is out of range
    MOVE a x -> -ERR value is not an integer or out of range
    MOVE none 1 -> :0
    MOVE a 1 -> :1
    EXISTS a -> :0
    SELECT 1 -> OK
    TTL a -> :1000
    COPY a b DB 2 -> :1
    COPY a b DB 2 -> :0
    SET a one -> OK
    COPY a b DB 2 REPLACE -> :1
    COPY a b DB 99 -> -ERR DB index is out of range
    COPY a a DB 1 -> -ERR source and destination objects are the same
    COPY a a DB 3 -> :1
    COPY none a DB 3 REPLACE -> :0
    SELECT 2 -> OK
    GET b -> 'one'
    SET a two -> OK
    MOVE a 1 -> :0
    DBSIZE -> :2
    SWAPDB 1 2 -> OK
    GET a -> 'one'
    GET b -> nil
    SELECT 1 -> OK
    MGET a b -> ['two' 'one']
    SWAPDB 1 1 -> OK
    SWAPDB 1 99 -> -ERR DB index is out of range
    SWAPDB x 1 -> -ERR invalid first DB index
    SWAPDB 1 x -> -ERR invalid second DB index
    SWAPDB 1 7 -> OK
    DBSIZE -> :0
    SET a seven -> OK
    SWAPDB 7 1 -> OK
    GET a -> 'two'
    FLUSHDB -> OK
    GET a -> nil
    SELECT 7 -> OK
    GET a -> 'seven'
    SELECT 2 -> OK
    GET a -> 'one'
    FLUSHALL -> OK
    SELECT 7 -> OK
    DBSIZE -> :0
    SELECT 0 -> OK
";

/// Transactions on several databases and on whole ones.
pub(crate) const TRANSACTIONS: &str = "
    FLUSHALL -> OK
    SET a zero -> OK
    MULTI -> OK
    SELECT 1 -> QUEUED
    SET a one -> QUEUED
    SELECT 2 -> QUEUED
    SELECT 99 -> QUEUED
    SETNX a two -> QUEUED
    SELECT 0 -> QUEUED
    GET a -> QUEUED
    SELECT 1 -> QUEUED
    EXEC -> [OK OK OK -ERR DB index is out of range :1 OK 'zero' OK]
    GET a -> 'one'
    MULTI -> OK
    SELECT 2 -> QUEUED
    DISCARD -> OK
    GET a -> 'one'
    MULTI -> OK
    SET b 1 -> QUEUED
    DBSIZE -> QUEUED
    FLUSHDB -> QUEUED
    DBSIZE -> QUEUED
    SET c 2 -> QUEUED
    KEYS * -> QUEUED
    RANDOMKEY -> QUEUED
    SWAPDB 1 2 -> QUEUED
    GET a -> QUEUED
    SELECT 2 -> QUEUED
    GET c -> QUEUED
    MOVE c 5 -> QUEUED
    SCAN 0 -> QUEUED
    COPY a b DB 5 -> QUEUED
    EXEC -> [OK :2 OK :0 OK ['c'] 'c' OK 'two' OK '2' :1 ['0' []] :0]
    DBSIZE -> :0
    SELECT 5 -> OK
    GET c -> '2'
    MULTI -> OK
    FLUSHALL -> QUEUED
    INCR n -> QUEUED
    EXEC -> [OK :1]
    DBSIZE -> :1
    SELECT 0 -> OK
    DBSIZE -> :0
    WATCH a -> OK
    SELECT 1 -> OK
    WATCH b -> OK
    MULTI -> OK
    GET b -> QUEUED
    EXEC -> [nil]
    WATCH b -> OK
    SELECT 0 -> OK
    WATCH a -> OK
    SET a 1 -> OK
    SELECT 1 -> OK
    MULTI -> OK
    SELECT 3 -> QUEUED
    SET b 1 -> QUEUED
    EXEC -> nil
    SET x here -> OK
    SELECT 1 -> OK
    GET x -> 'here'
    WATCH x -> OK
    SWAPDB 1 4 -> OK
    MULTI -> OK
    PING -> QUEUED
    EXEC -> nil
    WATCH nothing -> OK
    SWAPDB 1 4 -> OK
    MULTI -> OK
    PING -> QUEUED
    EXEC -> [PONG]
    WATCH x -> OK
    MOVE x 6 -> :1
    MULTI -> OK
    PING -> QUEUED
    EXEC -> nil
    SET x here -> OK
    WATCH x -> OK
    FLUSHDB -> OK
    MULTI -> OK
    PING -> QUEUED
    EXEC -> nil
    WATCH none -> OK
    FLUSHALL -> OK
    MULTI -> OK
    PING -> QUEUED
    EXEC -> [PONG]
    SELECT 0 -> OK
";
