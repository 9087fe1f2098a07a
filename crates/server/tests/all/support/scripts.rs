//! Requests with the replies that Redis 7 gives to them, for tests on several servers.

/// When keys expire.
pub(crate) const EXPIRY: &str = "
TTL a -> :-2
SET a 1 -> OK
TTL a -> :-1
EXPIRETIME a -> :-1
SET a 1 EX 100 -> OK
TTL a -> :100
SET a 2 PX 100500 XX KEEPTTL -> -ERR syntax error
SET a 2 KEEPTTL -> OK
TTL a -> :100
INCR a -> :3
APPEND a 0 -> :2
TTL a -> :100
SET a 1 -> OK
PTTL a -> :-1
SET a 1 EXAT 33177117420 -> OK
EXPIRETIME a -> :33177117420
PEXPIRETIME a -> :33177117420000
SET a 1 PXAT 33177117420123 GET -> '1'
PEXPIRETIME a -> :33177117420123
EXPIRETIME a -> :33177117420
PERSIST a -> :1
PERSIST a -> :0
PERSIST missing -> :0
EXPIRE a 100 XX -> :0
EXPIRE a 100 GT -> :0
EXPIRE a 100 LT -> :1
EXPIRE a 100 NX -> :0
EXPIRE a 200 LT -> :0
EXPIRE a 200 GT XX -> :1
TTL a -> :200
EXPIRE a 1 NX XX -> -ERR NX and XX, GT or LT options at the same time are not compatible
EXPIRE a 1 GT LT -> -ERR GT and LT options at the same time are not compatible
EXPIRE a 1 FOO -> -ERR Unsupported option FOO
EXPIRE a x -> -ERR value is not an integer or out of range
EXPIRE a 9223372036854775807 -> -ERR invalid expire time in 'expire' command
PEXPIRE a 9223372036854775807 -> -ERR invalid expire time in 'pexpire' command
EXPIREAT a 33177117420 -> :1
PEXPIREAT a 33177117420001 -> :1
PEXPIRETIME a -> :33177117420001
PEXPIRE a 50000 -> :1
TTL a -> :50
EXPIRE missing 1 -> :0
EXPIRE a -1 -> :1
EXISTS a -> :0
";

/// Writes that set an expiry.
pub(crate) const EXPIRING_WRITES: &str = "
SETEX b 100 v -> OK
TTL b -> :100
PSETEX b 60000 w -> OK
TTL b -> :60
GET b -> 'w'
SETEX b 0 v -> -ERR invalid expire time in 'setex' command
PSETEX b -1 v -> -ERR invalid expire time in 'psetex' command
SETEX b x v -> -ERR value is not an integer or out of range
SET b v EX 0 -> -ERR invalid expire time in 'set' command
SET b v EX -5 NX -> -ERR invalid expire time in 'set' command
SET b v PX 9223372036854775807 -> -ERR invalid expire time in 'set' command
SET b v EX 10 PX 10 -> -ERR syntax error
SET b v KEEPTTL EX 10 -> -ERR syntax error
GETEX b -> 'w'
TTL b -> :60
GETEX b PERSIST -> 'w'
TTL b -> :-1
GETEX b EX 30 -> 'w'
TTL b -> :30
GETEX b EX -> -ERR syntax error
GETEX b FOO 1 -> -ERR syntax error
GETEX b EX 0 -> -ERR invalid expire time in 'getex' command
GETEX b PXAT 1 -> 'w'
EXISTS b -> :0
GETEX b -> nil
SET c 1 PXAT 1 -> OK
EXISTS c -> :0
SET d 1 -> OK
TOUCH d none d -> :2
";

/// Bits of values.
pub(crate) const BITS: &str = "
SETBIT a 7 1 -> :0
GET a -> '\\x01'
SETBIT a 7 0 -> :1
SETBIT a 23 1 -> :0
STRLEN a -> :3
GETBIT a 23 -> :1
GETBIT a 22 -> :0
GETBIT a 9999 -> :0
GETBIT missing 1 -> :0
GETBIT a -1 -> -ERR bit offset is not an integer or out of range
SETBIT a 4294967296 1 -> -ERR bit offset is not an integer or out of range
SETBIT a 1 2 -> -ERR bit is not an integer or out of range
SET b foobar -> OK
BITCOUNT b -> :26
BITCOUNT b 0 0 -> :4
BITCOUNT b 1 1 -> :6
BITCOUNT b 1 1 BYTE -> :6
BITCOUNT b 5 30 BIT -> :17
BITCOUNT b -2 -1 -> :7
BITCOUNT b 3 1 -> :0
BITCOUNT b 1 -> -ERR syntax error
BITCOUNT b 1 1 X -> -ERR syntax error
BITCOUNT b x 1 -> -ERR value is not an integer or out of range
BITCOUNT missing -> :0
BITPOS b 1 -> :1
BITPOS b 0 -> :0
BITPOS b 1 2 -> :17
BITPOS b 1 2 2 -> :17
BITPOS b 1 7 15 BIT -> :9
BITPOS b 0 1 1 BIT -> :-1
BITPOS missing 1 -> :-1
BITPOS missing 0 -> :0
BITPOS b 2 -> -ERR The bit argument must be 1 or 0.
BITPOS b x -> -ERR value is not an integer or out of range
BITPOS b 1 9 12 -> :-1
SET d abc -> OK
BITOP AND t b d -> :6
GET t -> '`bc\\x00\\x00\\x00'
BITOP OR t b d -> :6
GET t -> 'goobar'
BITOP XOR b b d -> :6
BITOP XOR b b d -> :6
GET b -> 'foobar'
BITOP NOT t d d -> -ERR BITOP NOT must be called with a single source key.
BITOP NOT t d -> :3
BITOP NOT t t -> :3
GET t -> 'abc'
BITOP AND t none nothing -> :0
EXISTS t -> :0
BITOP NAND t d -> -ERR syntax error
";

/// Integers inside values.
pub(crate) const BITFIELDS: &str = "
BITFIELD f INCRBY i5 100 1 GET u4 0 -> [:1 :0]
BITFIELD f SET i8 #0 100 GET i8 #0 -> [:0 :100]
BITFIELD f INCRBY i8 #0 100 -> [:-56]
BITFIELD f OVERFLOW SAT INCRBY i8 #0 -100 -> [:-128]
BITFIELD f OVERFLOW FAIL INCRBY i8 #0 -1 -> [nil]
BITFIELD f OVERFLOW SAT INCRBY u2 100 3 INCRBY u2 100 3 -> [:3 :3]
BITFIELD f OVERFLOW NO GET u2 1 -> -ERR Invalid OVERFLOW type specified
BITFIELD f GET u64 0 -> -ERR Invalid bitfield type. Use something like i16 u8. \
            Note that u64 is not supported but i64 is.
BITFIELD f GET i64 0 -> [:-9223372036854775808]
BITFIELD f GET u8 x -> -ERR bit offset is not an integer or out of range
BITFIELD f SET u8 0 -> -ERR syntax error
BITFIELD f SET u8 0 x -> -ERR value is not an integer or out of range
BITFIELD f -> []
BITFIELD f GET u65 -> -ERR syntax error
BITFIELD g OVERFLOW SAT SET i8 0 200 GET i8 0 SET i8 0 -200 GET i8 0 -> [:0 :127 :127 :-128]
BITFIELD g OVERFLOW SAT SET u8 0 -1 GET u8 0 OVERFLOW WRAP SET u8 0 -2 GET u8 0 -> \
    [:128 :255 :255 :254]
BITFIELD g OVERFLOW FAIL SET u4 0 16 SET u4 0 -1 SET i4 0 -9 SET i4 0 8 -> [nil nil nil nil]
BITFIELD g OVERFLOW FAIL SET u4 0 15 SET i4 4 -8 -> [:15 :-2]
BITFIELD g GET u8 0 OVERFLOW FAIL INCRBY u8 0 8 -> [:248 nil]
BITFIELD g OVERFLOW SAT SET u63 0 -1 GET u63 0 INCRBY u63 0 1 -> \
    [:8935141660703064064 :9223372036854775807 :9223372036854775807]
BITFIELD g OVERFLOW SAT INCRBY u63 0 -9223372036854775808 INCRBY u63 0 -1 -> [:0 :0]
BITFIELD g SET i64 0 9223372036854775807 OVERFLOW FAIL INCRBY i64 0 1 -> [:0 nil]
BITFIELD g OVERFLOW SAT INCRBY i64 0 1 OVERFLOW WRAP INCRBY i64 0 1 -> \
    [:9223372036854775807 :-9223372036854775808]
BITFIELD_RO f GET u8 0 GET u8 8 -> [:128 :0]
BITFIELD_RO f SET u8 0 1 -> -ERR BITFIELD_RO only supports the GET subcommand
STRLEN f -> :14
";

/// Options that contradict each other, are said twice, or lack something.
pub(crate) const CONTRADICTIONS: &str = "
SHUTDOWN SAVE NOSAVE -> -ERR syntax error
SHUTDOWN NOW SAVE FORCE NOSAVE -> -ERR syntax error
SHUTDOWN ABORT NOW -> -ERR syntax error
SHUTDOWN FOO -> -ERR syntax error
SHUTDOWN ABORT -> -ERR No shutdown in progress.
SET a 1 -> OK
SET b 1 -> OK
SET a 1 NX XX -> -ERR syntax error
SET a 1 XX NX -> -ERR syntax error
SET a 1 XX XX -> OK
SET a 1 NX NX -> nil
SET a 1 GET GET -> '1'
SET a 1 EX 10 PX 10 -> -ERR syntax error
SET a 1 EX 10 KEEPTTL -> -ERR syntax error
SET a 1 KEEPTTL EX 5 -> -ERR syntax error
SET a 1 KEEPTTL KEEPTTL -> OK
EXPIRE a 10 NX XX -> -ERR NX and XX, GT or LT options at the same time are not compatible
EXPIRE a 10 NX GT -> -ERR NX and XX, GT or LT options at the same time are not compatible
EXPIRE a 10 GT LT -> -ERR GT and LT options at the same time are not compatible
EXPIRE a 10 XX GT -> :0
EXPIRE a 10 NX NX -> :1
GETEX a EX 10 PERSIST -> -ERR syntax error
GETEX a PERSIST EX 10 -> -ERR syntax error
GETEX a EX 10 PX 10 -> -ERR syntax error
GETEX a PERSIST PERSIST -> '1'
TTL a -> :-1
SCAN 0 COUNT 0 -> -ERR syntax error
SCAN 0 COUNT 5 MATCH -> -ERR syntax error
SCAN 0 MATCH a MATCH nothing -> ['0' []]
COPY a b DB 0 REPLACE REPLACE -> :1
COPY a b DB 0 DB 99 -> -ERR DB index is out of range
COPY a b DB x -> -ERR value is not an integer or out of range
COPY a b DB -> -ERR syntax error
RESTORE k 0 x FREQ 1 IDLETIME 1 -> -ERR syntax error
RESTORE k 0 x IDLETIME 1 FREQ 1 -> -ERR syntax error
CLIENT KILL ID 5000 ID 6000 -> :0
CLIENT KILL SKIPME no SKIPME yes ID 5000 -> :0
CLIENT KILL ID 5000 SKIPME -> -ERR syntax error
CLIENT PAUSE 10 WRITE ALL -> \
    -ERR unknown subcommand or wrong number of arguments for 'PAUSE'. Try CLIENT HELP.
CLIENT UNBLOCK 5 TIMEOUT ERROR -> \
    -ERR unknown subcommand or wrong number of arguments for 'UNBLOCK'. Try CLIENT HELP.
CLIENT CACHING foo -> -ERR CLIENT CACHING can be called only when the client is in tracking \
    mode with OPTIN or OPTOUT mode enabled
CLIENT TRACKING on BCAST OPTIN -> -ERR OPTIN and OPTOUT are not compatible with BCAST
CLIENT TRACKING on OPTIN OPTOUT -> -ERR You can't specify both OPTIN mode and OPTOUT mode
LCS a b LEN IDX -> -ERR If you want both the length and indexes, please just use IDX.
LCS a b LEN LEN -> :1
FLUSHALL SYNC ASYNC -> -ERR syntax error
FLUSHDB SYNC SYNC -> -ERR syntax error
MEMORY USAGE none SAMPLES 1 SAMPLES 2 -> nil
MEMORY USAGE none SAMPLES 1 SAMPLES -> -ERR syntax error
SLOWLOG GET 1 2 -> \
    -ERR unknown subcommand or wrong number of arguments for 'GET'. Try SLOWLOG HELP.
PUBSUB CHANNELS a b -> \
    -ERR unknown subcommand or wrong number of arguments for 'CHANNELS'. Try PUBSUB HELP.
PING -> PONG
";

/// Entries under other names.
pub(crate) const MOVING: &str = "
RENAME a b -> -ERR no such key
SET a 1 EX 100 -> OK
SET b 2 -> OK
RENAMENX a b -> :0
RENAMENX a a -> :0
RENAME a a -> OK
RENAME a b -> OK
MGET a b -> [nil '1']
TTL b -> :100
RENAMENX b c -> :1
COPY c d -> :1
TTL d -> :100
SET e 3 -> OK
COPY e d -> :0
COPY e d REPLACE -> :1
GET d -> '3'
TTL d -> :-1
COPY none d REPLACE -> :0
COPY d d -> -ERR source and destination objects are the same
COPY d e FOO -> -ERR syntax error
";

/// Values that are numbers.
pub(crate) const NUMBERS: &str = "
INCR n -> :1
INCRBY n 41 -> :42
DECR n -> :41
DECRBY n 1 -> :40
INCRBY n x -> -ERR value is not an integer or out of range
DECRBY n -9223372036854775808 -> -ERR decrement would overflow
SET big 9223372036854775807 -> OK
INCR big -> -ERR increment or decrement would overflow
GET big -> '9223372036854775807'
SET text abc -> OK
INCR text -> -ERR value is not an integer or out of range
INCRBYFLOAT f 10.5 -> '10.5'
INCRBYFLOAT f 0.1 -> '10.6'
INCRBYFLOAT f x -> -ERR value is not a valid float
INCRBYFLOAT text 1 -> -ERR value is not a valid float
INCRBYFLOAT f inf -> -ERR increment would produce NaN or Infinity
";

/// Several requests as one step.
pub(crate) const TRANSACTIONS: &str = "
EXEC -> -ERR EXEC without MULTI
DISCARD -> -ERR DISCARD without MULTI
MULTI -> OK
MULTI -> -ERR MULTI calls can not be nested
SET a 1 -> QUEUED
PING -> QUEUED
ECHO x -> QUEUED
INCR a -> QUEUED
GET a -> QUEUED
MGET a b -> QUEUED
SET b 2 EX 100 -> QUEUED
TTL b -> QUEUED
DEL a b a -> QUEUED
EXISTS a b -> QUEUED
MSETNX c 1 d 2 -> QUEUED
MSETNX c 1 e 2 -> QUEUED
RENAME c a -> QUEUED
INCR d x -> -ERR wrong number of arguments for 'incr' command
EXEC -> -EXECABORT Transaction discarded because of previous errors.
GET a -> nil
MULTI -> OK
SET a 1 -> QUEUED
PING -> QUEUED
PING -> QUEUED
ECHO x -> QUEUED
INCR a -> QUEUED
GET a -> QUEUED
MGET a b -> QUEUED
SET b 2 EX 100 -> QUEUED
TTL b -> QUEUED
DEL a b a -> QUEUED
EXISTS a b -> QUEUED
MSETNX c 1 d 2 -> QUEUED
MSETNX c 1 e 2 -> QUEUED
RENAME c a -> QUEUED
INCRBY d x -> QUEUED
INCR d -> QUEUED
EXEC -> [OK PONG PONG 'x' :2 '2' ['2' nil] OK :100 :2 :0 :1 :0 OK \
    -ERR value is not an integer or out of range :3]
MGET a b c d e -> ['1' nil nil '3' nil]
MULTI -> OK
EXEC -> []
MULTI -> OK
SET a 9 -> QUEUED
DISCARD -> OK
GET a -> '1'
MULTI -> OK
FOO -> -ERR unknown command 'FOO', with args beginning with:\x20
SET a 9 -> QUEUED
EXEC -> -EXECABORT Transaction discarded because of previous errors.
WATCH a none -> OK
SET a 5 -> OK
MULTI -> OK
SET a 6 -> QUEUED
EXEC -> nil
GET a -> '5'
WATCH a none -> OK
MULTI -> OK
WATCH b -> -ERR WATCH inside MULTI is not allowed
SET a 6 -> QUEUED
EXEC -> [OK]
SET n 5 -> OK
WATCH n -> OK
INCR n -> :6
DECR n -> :5
MULTI -> OK
SET n 7 -> QUEUED
EXEC -> nil
WATCH n -> OK
SETNX n 6 -> :0
EXPIRE n 100 XX -> :0
MULTI -> OK
SET n 7 -> QUEUED
EXEC -> [OK]
WATCH gone -> OK
SET gone 1 -> OK
DEL gone -> :1
MULTI -> OK
SET n 8 -> QUEUED
EXEC -> nil
WATCH none -> OK
SET none 1 -> OK
UNWATCH -> OK
MULTI -> OK
GET none -> QUEUED
EXEC -> ['1']
WATCH a -> OK
SET a 7 -> OK
MULTI -> OK
DISCARD -> OK
MULTI -> OK
GET a -> QUEUED
EXEC -> ['7']
";

/// The longest common subsequence.
pub(crate) const SUBSEQUENCES: &str = "
MSET a ohmytext b mynewtext c 0 d 10010 -> OK
LCS a b -> 'mytext'
LCS a b LEN -> :6
LCS a b IDX -> ['matches' [[[:4 :7] [:5 :8]] [[:2 :3] [:0 :1]]] 'len' :6]
LCS a b IDX MINMATCHLEN 4 -> ['matches' [[[:4 :7] [:5 :8]]] 'len' :6]
LCS a b IDX WITHMATCHLEN -> ['matches' [[[:4 :7] [:5 :8] :4] [[:2 :3] [:0 :1] :2]] 'len' :6]
LCS b a IDX MINMATCHLEN -3 WITHMATCHLEN -> \
    ['matches' [[[:5 :8] [:4 :7] :4] [[:0 :1] [:2 :3] :2]] 'len' :6]
LCS c d IDX -> ['matches' [[[:0 :0] [:4 :4]]] 'len' :1]
LCS a none -> ''
LCS none nothing LEN -> :0
LCS a none IDX -> ['matches' [] 'len' :0]
LCS a a -> 'ohmytext'
LCS a b FOO -> -ERR syntax error
LCS a b IDX MINMATCHLEN -> -ERR syntax error
LCS a b IDX MINMATCHLEN x -> -ERR value is not an integer or out of range
LCS a b LEN IDX -> -ERR If you want both the length and indexes, please just use IDX.
LCS a -> -ERR wrong number of arguments for 'lcs' command
";

/// What is known of entries.
pub(crate) const OBJECTS: &str = "
SET a hello -> OK
OBJECT REFCOUNT a -> :1
OBJECT ENCODING a -> 'embstr'
SET n -12 -> OK
OBJECT ENCODING n -> 'int'
SET n 012 -> OK
OBJECT ENCODING n -> 'embstr'
SET n 9223372036854775808 -> OK
OBJECT ENCODING n -> 'embstr'
SET n 01234567890123456789012345678901234567890123 -> OK
OBJECT ENCODING n -> 'embstr'
SET n 012345678901234567890123456789012345678901234 -> OK
OBJECT ENCODING n -> 'raw'
OBJECT ENCODING none -> nil
OBJECT FREQ none -> nil
OBJECT IDLETIME none -> nil
OBJECT FREQ a -> -ERR An LFU maxmemory policy is not selected, access frequency not tracked. \
    Please note that when switching between policies at runtime LRU and LFU data will take some \
    time to adjust.
OBJECT FOO a -> -ERR unknown subcommand 'FOO'. Try OBJECT HELP.
OBJECT ENCODING -> -ERR wrong number of arguments for 'object|encoding' command
MEMORY USAGE none -> nil
MEMORY USAGE a FOO 1 -> -ERR syntax error
MEMORY USAGE a SAMPLES -> -ERR syntax error
MEMORY USAGE a SAMPLES x -> -ERR value is not an integer or out of range
MEMORY USAGE a SAMPLES -1 -> -ERR syntax error
";

/// What commands tell about commands, and about what was refused.
pub(crate) const TOLD: &str = "
COMMAND GETKEYS OBJECT ENCODING a -> ['a']
COMMAND GETKEYS MEMORY USAGE k -> ['k']
COMMAND GETKEYS BITOP AND a b c -> ['a' 'b' 'c']
COMMAND GETKEYS MSET a 1 b 2 -> ['a' 'b']
COMMAND GETKEYS PING a b c -> -ERR The command has no key arguments
COMMAND GETKEYS nope x -> -ERR Invalid command specified
COMMAND GETKEYS GET a b -> -ERR Invalid number of arguments specified for command
COMMAND LIST FILTERBY FOO x -> -ERR syntax error
COMMAND LIST FILTERBY MODULE x -> []
COMMAND LIST FILTERBY ACLCAT nope -> []
COMMAND LIST FILTERBY PATTERN GETD* -> ['getdel']
COMMAND LIST FILTERBY PATTERN memory|us* -> ['memory|usage']
COMMAND LIST FOO -> -ERR syntax error
ACL LOG x -> -ERR value is not an integer or out of range
ACL LOG -1 -> []
ACL LOG RESET -> OK
ACL LOG 1 2 -> -ERR unknown subcommand or wrong number of arguments for 'LOG'. Try ACL HELP.
LATENCY HISTOGRAM nope -> []
";

/// RESTORE, as far as it has no payload that is right.
pub(crate) const RESTORING: &str = "
SET a hello -> OK
DUMP none -> nil
RESTORE x y z -> -ERR value is not an integer or out of range
RESTORE x -1 z -> -ERR Invalid TTL value, must be >= 0
RESTORE a 0 z -> -BUSYKEY Target key name already exists.
RESTORE a 0 z REPLACE -> -ERR DUMP payload version or checksum are wrong
RESTORE x 0 z -> -ERR DUMP payload version or checksum are wrong
RESTORE x 0 z FOO -> -ERR syntax error
RESTORE x 0 z IDLETIME -1 -> -ERR Invalid IDLETIME value, must be >= 0
RESTORE x 0 z IDLETIME x -> -ERR value is not an integer or out of range
RESTORE x 0 z IDLETIME -> -ERR syntax error
RESTORE x 0 z FREQ 256 -> -ERR Invalid FREQ value, must be >= 0 and <= 255
RESTORE x 0 z IDLETIME 1 FREQ 1 -> -ERR syntax error
GET a -> 'hello'
";

/// Settings that change, and the two logs of what took long.
pub(crate) const SETTINGS: &str = "
CONFIG SET foo 1 -> -ERR Unknown option or number of arguments for CONFIG SET - 'foo'
CONFIG SET slowlog-max-len x -> -ERR CONFIG SET failed (possibly related to argument \
    'slowlog-max-len') - argument couldn't be parsed into an integer
CONFIG SET slowlog-max-len -1 -> -ERR CONFIG SET failed (possibly related to argument \
    'slowlog-max-len') - argument must be between 0 and 9223372036854775807 inclusive
CONFIG SET slowlog-max-len 7 slowlog-max-len 8 -> -ERR CONFIG SET failed (possibly related to \
    argument 'slowlog-max-len') - duplicate parameter
CONFIG SET slowlog-max-len 7 latency-monitor-threshold -5 -> -ERR CONFIG SET failed (possibly \
    related to argument 'latency-monitor-threshold') - argument must be between 0 and \
    9223372036854775807 inclusive
CONFIG GET slowlog-max-len -> ['slowlog-max-len' '128']
CONFIG SET slowlog-max-len 7 -> OK
CONFIG GET slowlog-max-len -> ['slowlog-max-len' '7']
CONFIG SET slowlog-max-len 7 foo -> -ERR syntax error
CONFIG SET databases 3 -> -ERR CONFIG SET failed (possibly related to argument 'databases') - \
    can't set immutable config
CONFIG SET maxclients 0 -> -ERR CONFIG SET failed (possibly related to argument 'maxclients') - \
    argument must be between 1 and 4294967295 inclusive
CONFIG REWRITE -> -ERR The server is running without a config file
CONFIG RESETSTAT -> OK
SLOWLOG RESET -> OK
SLOWLOG LEN -> :0
SLOWLOG GET -> []
SLOWLOG GET -2 -> -ERR count should be greater than or equal to -1
SLOWLOG GET x -> -ERR count should be greater than or equal to -1
LATENCY RESET -> :0
LATENCY LATEST -> []
LATENCY HISTORY command -> []
";

/// Users and what they may do.
pub(crate) const USERS: &str = "
ACL WHOAMI -> 'default'
ACL LIST -> ['user default on nopass ~* &* +@all']
ACL USERS -> ['default']
ACL SETUSER bob +foo -> -ERR Error in ACL SETUSER modifier '+foo': Unknown command or category \
    name in ACL
ACL SETUSER bob foo -> -ERR Error in ACL SETUSER modifier 'foo': Syntax error
ACL SETUSER bob +@foo -> -ERR Error in ACL SETUSER modifier '+@foo': Unknown command or category \
    name in ACL
ACL SETUSER bob +client|nope -> -ERR Error in ACL SETUSER modifier '+client|nope': Unknown \
    command or category name in ACL
ACL SETUSER bob %X~a -> -ERR Error in ACL SETUSER modifier '%X~a': Syntax error
ACL SETUSER bob #abc -> -ERR Error in ACL SETUSER modifier '#abc': The password hash must be \
    exactly 64 characters and contain only lowercase hexadecimal characters
ACL SETUSER bob !abc -> -ERR Error in ACL SETUSER modifier '!abc': The password hash must be \
    exactly 64 characters and contain only lowercase hexadecimal characters
ACL SETUSER bob <nopw -> -ERR Error in ACL SETUSER modifier '<nopw': The password you are trying \
    to remove from the user does not exist
ACL SETUSER bob allkeys ~x -> -ERR Error in ACL SETUSER modifier '~x': Adding a pattern after the \
    * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try 'resetkeys' \
    to start with an empty list of patterns
ACL SETUSER bob allchannels &x -> -ERR Error in ACL SETUSER modifier '&x': Adding a pattern after \
    the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. Try \
    'resetchannels' to start with an empty list of channels
ACL GETUSER bob -> nil
ACL SETUSER bob on >pw ~a* %R~r* %W~w* &news* +get -> OK
ACL GETUSER bob -> ['flags' ['on'] 'passwords' \
    ['30c952fab122c3f9759f02a6d95c3758b246b4fee239957b2d4fee46e26170c4'] 'commands' '-@all +get' \
    'keys' '~a* %R~r* %W~w*' 'channels' '&news*' 'selectors' []]
ACL SETUSER sel on nopass ~a* +get (+set ~b*) (%R~c* +get &x*) -> OK
ACL GETUSER sel -> ['flags' ['on' 'nopass'] 'passwords' [] 'commands' '-@all +get' 'keys' '~a*' \
    'channels' '' 'selectors' [['commands' '-@all +set' 'keys' '~b*' 'channels' ''] \
    ['commands' '-@all +get' 'keys' '%R~c*' 'channels' '&x*']]]
ACL DRYRUN sel get a1 -> OK
ACL DRYRUN sel set b1 1 -> OK
ACL DRYRUN sel get c1 -> OK
ACL DRYRUN sel get b1 -> 'This user has no permissions to access the \\'b1\\' key'
ACL DRYRUN sel set a1 1 -> 'This user has no permissions to access the \\'a1\\' key'
ACL DRYRUN sel set c1 1 -> 'This user has no permissions to access the \\'c1\\' key'
ACL DRYRUN sel del a1 -> 'This user has no permissions to run the \\'del\\' command'
ACL SETUSER sel (on) -> -ERR Error in ACL SETUSER modifier '(on)': Syntax error
ACL SETUSER sel (+get -> -ERR Unmatched parenthesis in acl selector starting at '(+get'.
ACL SETUSER sel clearselectors (~* +ping) -> OK
ACL LIST -> ['user bob on \
    #30c952fab122c3f9759f02a6d95c3758b246b4fee239957b2d4fee46e26170c4 ~a* %R~r* %W~w* \
    resetchannels &news* -@all +get' 'user default on nopass ~* &* +@all' \
    'user sel on nopass ~a* resetchannels -@all +get (~* resetchannels -@all +ping)']
ACL DELUSER sel -> :1
ACL SETUSER bob +set +append +getset +copy +bitop +rename +del +exists +ttl +bitfield -> OK
ACL SETUSER bob +publish +subscribe +psubscribe +client|id +object +multi +exec -> OK
ACL DRYRUN nope get a -> -ERR User 'nope' not found
ACL DRYRUN bob foo -> -ERR Command 'foo' not found
ACL DRYRUN bob get -> -ERR wrong number of arguments for 'get' command
ACL DRYRUN default get a -> OK
ACL DRYRUN bob get a1 -> OK
ACL DRYRUN bob get b -> 'This user has no permissions to access the \\'b\\' key'
ACL DRYRUN bob mget a1 -> 'This user has no permissions to run the \\'mget\\' command'
ACL DRYRUN bob get r1 -> OK
ACL DRYRUN bob get w1 -> 'This user has no permissions to access the \\'w1\\' key'
ACL DRYRUN bob set r1 1 -> 'This user has no permissions to access the \\'r1\\' key'
ACL DRYRUN bob set w1 1 -> OK
ACL DRYRUN bob set w1 1 GET -> 'This user has no permissions to access the \\'w1\\' key'
ACL DRYRUN bob append w1 1 -> OK
ACL DRYRUN bob getset w1 1 -> 'This user has no permissions to access the \\'w1\\' key'
ACL DRYRUN bob copy r1 w1 -> OK
ACL DRYRUN bob copy w1 r1 -> 'This user has no permissions to access the \\'w1\\' key'
ACL DRYRUN bob copy r1 r2 -> 'This user has no permissions to access the \\'r2\\' key'
ACL DRYRUN bob bitop AND w1 r1 r2 -> OK
ACL DRYRUN bob bitop AND r1 w1 -> 'This user has no permissions to access the \\'r1\\' key'
ACL DRYRUN bob rename a1 w1 -> OK
ACL DRYRUN bob rename w1 a1 -> 'This user has no permissions to access the \\'w1\\' key'
ACL DRYRUN bob del w1 -> OK
ACL DRYRUN bob del w1 r1 -> 'This user has no permissions to access the \\'r1\\' key'
ACL DRYRUN bob exists w1 r1 a1 -> OK
ACL DRYRUN bob exists b -> 'This user has no permissions to access the \\'b\\' key'
ACL DRYRUN bob ttl w1 -> 'This user has no permissions to access the \\'w1\\' key'
ACL DRYRUN bob bitfield r1 GET u8 0 -> OK
ACL DRYRUN bob bitfield r1 SET u8 0 1 -> 'This user has no permissions to access the \\'r1\\' key'
ACL DRYRUN bob object encoding w1 -> OK
ACL DRYRUN bob publish news1 x -> OK
ACL DRYRUN bob publish x y -> 'This user has no permissions to access the \\'x\\' channel'
ACL DRYRUN bob subscribe news1 news2 -> OK
ACL DRYRUN bob psubscribe news* -> OK
ACL DRYRUN bob psubscribe news1 -> 'This user has no permissions to access the \\'news1\\' channel'
ACL DRYRUN bob client id -> OK
ACL DRYRUN bob client list -> 'This user has no permissions to run the \\'client|list\\' command'
ACL DRYRUN bob ping -> 'This user has no permissions to run the \\'ping\\' command'
ACL DRYRUN bob auth x -> OK
ACL CAT foo -> -ERR Unknown category 'foo'
ACL GENPASS 0 -> -ERR ACL GENPASS argument must be the number of bits for the output password, \
    a positive number up to 4096
ACL GENPASS x -> -ERR value is not an integer or out of range
ACL DELUSER default -> -ERR The 'default' user cannot be removed
ACL SETUSER idle -> OK
ACL DELUSER idle nope -> :1
ACL USERS -> ['bob' 'default']
AUTH bob wrong -> -WRONGPASS invalid username-password pair or user is disabled.
AUTH nope pw -> -WRONGPASS invalid username-password pair or user is disabled.
AUTH bob pw -> OK
GET a -> nil
SET a1 1 -> OK
GET b -> -NOPERM this user has no permissions to access one of the keys used as arguments
MGET a -> -NOPERM this user has no permissions to run the 'mget' command
PUBLISH x y -> -NOPERM this user has no permissions to access one of the channels used as arguments
ACL WHOAMI -> -NOPERM this user has no permissions to run the 'acl|whoami' command
CLIENT LIST -> -NOPERM this user has no permissions to run the 'client|list' command
MULTI -> OK
GET a1 -> QUEUED
GET b -> -NOPERM this user has no permissions to access one of the keys used as arguments
EXEC -> -EXECABORT Transaction discarded because of previous errors.
MULTI -> OK
GET a1 -> QUEUED
EXEC -> ['1']
NOPE -> -ERR unknown command 'NOPE', with args beginning with:\x20
GET -> -ERR wrong number of arguments for 'get' command
AUTH default any -> OK
ACL SETUSER bob off -> OK
AUTH bob pw -> -WRONGPASS invalid username-password pair or user is disabled.
ACL SETUSER bob on nopass -> OK
AUTH bob any -> OK
RESET -> RESET
ACL WHOAMI -> 'default'
ACL DELUSER bob -> :1
";
