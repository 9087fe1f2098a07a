//! redis-server and we answer the same scripts with the same replies.

use crate::redis::Redis;
use crate::support::{Client, Probe, config, show, start_with};

/// Scripts with a key `k` and the argument `7`. What differs between runs (addresses, times,
/// the order of a table) is not among them.
const CASES: &[&str] = &[
    // Values.
    "return {1,2,{3,'x'}, 3.99, true, false, nil, 5}",
    "return {tostring(1/0), 2^53, -3.7, 1e20}",
    "return {false, true, {ok='fine'}, {err='bad'}}",
    "return {ok='ab\\r\\ncd'}",
    "return {err='ab\\r\\ncd'}",
    "return {err='thing'}",
    "return redis.error_reply('-My Err')",
    "return redis.error_reply('My Err')",
    "return redis.error_reply()",
    "return redis.status_reply('ok')",
    "return redis.status_reply(1)",
    "return {ok=5}",
    "return cjson.null",
    "return function() end",
    "return nil",
    "return false",
    "return true",
    "return 'a\\0b'",
    "return {double=3.5}",
    "return {double=1/0}",
    "return {map={a=1}}",
    "return {set={a=true}}",
    "return {big_number='123'}",
    "return {verbatim_string={string='abc',format='txt'}}",
    "redis.setresp(3) return {true, false}",
    "redis.setresp(3) return tostring(redis.call('get','nokey'))",
    "return tostring(redis.call('get','nokey'))",
    "return #redis.call('mget', 'nokey', 'nokey2')",
    "return KEYS[1]..ARGV[1]..#KEYS..#ARGV",
    "KEYS[2]='x' return KEYS[2]",
    "KEYS = 3",
    // Commands.
    "return redis.call('set', KEYS[1], 'v')",
    "return redis.call('set', KEYS[1], 1.5)",
    "return redis.call('set', KEYS[1], 10/3)",
    "return {redis.call('set', KEYS[1], 3), type(redis.call('get', KEYS[1]))}",
    "return redis.call('incrby', KEYS[1], ARGV[1])",
    "return {redis.call('append', KEYS[1], 'abc'), redis.call('strlen', KEYS[1]), \
     redis.call('getrange', KEYS[1], 0, 1)}",
    "redis.call('setex', KEYS[1], 100, 'x') return {redis.call('ttl', KEYS[1]), \
     redis.call('persist', KEYS[1]), redis.call('ttl', KEYS[1])}",
    "redis.call('mset', 'a', 1, 'b', 2) return redis.call('mget', 'a', 'b', 'c')",
    "redis.call('mset', 'a', 1, 'b', 2) redis.call('rename', 'a', 'c') return \
     {redis.call('exists', 'a', 'b', 'c'), redis.call('get', 'c')}",
    "redis.call('setbit', KEYS[1], 7, 1) return {redis.call('getbit', KEYS[1], 7), \
     redis.call('bitcount', KEYS[1])}",
    "return {redis.call('setnx', KEYS[1], 1), redis.call('setnx', KEYS[1], 2), \
     redis.call('getset', KEYS[1], 3), redis.call('getdel', KEYS[1])}",
    "return redis.call('set', KEYS[1], 'v', 'NX', 'GET')",
    "return redis.call('echo', 12345678901234567)",
    "return redis.call('echo', 1e15)",
    "return redis.call('type', KEYS[1])",
    "return redis.call('object', 'encoding', 'nokey')",
    "return redis.call('ping')",
    "return redis.call('select', 0)",
    // Errors.
    "return redis.call('nosuch')",
    "return redis.pcall('nosuch')",
    "return redis.call('get')",
    "return redis.pcall('get', 'a', 'b')",
    "return redis.call()",
    "return redis.call({})",
    "return redis.call('echo', true)",
    "redis.call('set', KEYS[1], 'abc') return redis.call('incr', KEYS[1])",
    "\n\nreturn redis.call('set')",
    "local ok, e = pcall(redis.call, 'incr', 'nosuch', 3) return {tostring(ok), e}",
    "return {pcall(function() error('x') end)}",
    "return {pcall(function() error({err='X'}) end)}",
    "error('boom')",
    "error({err='MY thing'})",
    "error('x', 0)",
    "error()",
    "local function f() error('deep') end\nf()",
    "return nil + 1",
    "local t = setmetatable({}, {__index = function() error('idx') end}) return t.x",
    "return redis.call('eval', 'return 1', 0)",
    "return redis.call('subscribe', 'x')",
    "return redis.call('multi')",
    "return redis.call('auth', 'x')",
    "return redis.call('config', 'get', 'x')",
    "return redis.call('client', 'id')",
    "return redis.call('script', 'flush')",
    "this is bad",
    "return 'unfinished",
    "#!lua flags=no-writes\nreturn redis.call('set', KEYS[1], 'b')",
    "#!lua flags=nope\nreturn 1",
    "#!py\nreturn 1",
    "#!lua name=x\nreturn 1",
    "#!lua",
    // The sandbox.
    "x = 1",
    "return x",
    "string.x = 1",
    "redis.call = nil",
    "rawset(_G, 'x', 1)",
    "setmetatable(_G, {})",
    "return os.time()",
    "return require('x')",
    "return print('x')",
    "return tostring(getmetatable('').__index == string)",
    "return tostring(loadstring(string.dump(function() return 1 end)))",
    "return loadstring('return KEYS[1]')()",
    "local names = {} for name in pairs(_G) do names[#names + 1] = name end table.sort(names) \
     return #names > 30",
    "return _VERSION",
    // The table redis.
    "return redis.sha1hex('')",
    "return redis.sha1hex()",
    "return redis.log(1, 'x')",
    "return redis.log('x')",
    "return redis.log(9, 'x')",
    "return redis.setresp(4)",
    "return redis.setresp(3)",
    "return redis.replicate_commands()",
    "return redis.set_repl(1)",
    "return redis.breakpoint()",
    "return redis.acl_check_cmd('get', 'x')",
    "return redis.acl_check_cmd('nosuch', 'x')",
    "return redis.acl_check_cmd()",
    // Libraries.
    "return cjson.encode({1,2,nil,4})",
    "return cjson.encode({[1]=1,[100]=2})",
    "return cjson.encode({})",
    "return cjson.encode({{}, {1}, 'x', true, 1.25, cjson.null})",
    "return cjson.encode({1e100, 0.1, 1/3, 123456789012345678, -0.5, 2^53, 1e15, 1e-7})",
    "return cjson.encode({[1.5]=1})",
    "return cjson.encode({a=1/0})",
    "return cjson.encode('a/b\"\\\\\\1\\127é')",
    "return cjson.encode(cjson.decode('{\"a\":[1,{\"b\":null}]}'))",
    "return cjson.decode('[1,2')",
    "return cjson.decode('{\"a\" 1}')",
    "return cjson.decode('[1,]')",
    "return cjson.decode('\"abc')",
    "return cjson.decode('\"a\\\\x\"')",
    "return cjson.decode('[1] x')",
    "return cjson.decode('')",
    "return cjson.decode('[tru]')",
    "return cjson.decode('[1e400, 0x10, 012, -5]')[1] and cjson.decode('[0x10, 012, -5]')",
    "local t = {} for i = 1, 1001 do t = {t} end return cjson.encode(t)",
    "local s = string.rep('[', 1001)..string.rep(']', 1001) return cjson.decode(s)",
    "return {cmsgpack.unpack(cmsgpack.pack(1, 'x', {1,{a=true}}, false, -5, 2^40))}",
    "return cmsgpack.pack(0,127,128,255,256,65535,65536,2^32,2^53,-1,-32,-33, \
     -129,-32769,-2^31-1,0.5,0.1,{},{1},{a=1},string.rep('x',40),string.rep('y',300))",
    "return cmsgpack.unpack('\\217')",
    "return cmsgpack.unpack('\\199')",
    "return {cmsgpack.unpack_limit(cmsgpack.pack(1,2,3),2)}",
    "return {cmsgpack.unpack_one(cmsgpack.pack(1,2,3))}",
    "local t = {} for i = 1, 20 do t = {t} end return cmsgpack.pack(t)",
    "return struct.pack('>I2hbBHlLifd', 1, -2, 3, 4, 5, 6, 7, 8, 9.5, 10.25)",
    "return struct.pack('<!8bi8bs', 1, 2, 3, 'text')",
    "return {struct.unpack('<i2bHc0', '\\255\\255\\1\\3\\0abc')}",
    "return struct.size('!8 b l')",
    "return struct.unpack('z', 'abc')",
    "return struct.unpack('>I4', 'abc')",
    "return bit.tohex(255,4)..bit.tohex(-1,-8)..bit.tobit(2^31)",
    "return {bit.bnot(0), bit.band(255,15), bit.bor(1,6), bit.bxor(5,1), bit.lshift(1,31), \
     bit.rshift(-1,28), bit.arshift(-16,2), bit.rol(1,33), bit.ror(1,1), bit.bswap(1)}",
    "return {bit.tobit(0.5), bit.tobit(1.5), bit.tobit(2^40+3), bit.tobit(-2^33-1)}",
    "math.randomseed(5) return math.random(100)..' '..math.random(100)..' '..math.random()",
    "return table.concat({1,2,3}, ',')..string.format('%5.1f|%q', 3.14159, 'a\"b')",
    // Programs that people run: the unlock and the extension of redlock and of redis-py's Lock, and
    // counters of rate limiters.
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return \
     0 end",
    "redis.call('set', KEYS[1], ARGV[1]) if redis.call('get', KEYS[1]) == ARGV[1] then return \
     redis.call('pexpire', KEYS[1], 5000) else return 0 end",
    "redis.call('set', KEYS[1], ARGV[1], 'px', 10000) local token = redis.call('get', KEYS[1]) if \
     not token or token ~= ARGV[1] then return 0 end local expiration = redis.call('pttl', \
KEYS[1]) if expiration < 0 then return 1 end return redis.call('pexpire', KEYS[1], 20000)",
    "local current = redis.call('incrby', KEYS[1], ARGV[1]) if tonumber(current) == \
     tonumber(ARGV[1]) then redis.call('expire', KEYS[1], 60) end return {current, \
redis.call('ttl', KEYS[1])}",
    "redis.call('set', KEYS[1], 0, 'EX', ARGV[1], 'NX') local consumed = redis.call('incrby', \
     KEYS[1], 1) return {consumed, redis.call('pttl', KEYS[1]) > 6000}",
];

/// Requests that are no scripts with one key.
const REQUESTS: &[&str] = &[
    "EVAL return_1",
    "EVAL x a",
    "EVAL x -1",
    "EVAL x 2 a",
    "EVALSHA abc 0",
    "EVALSHA aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 0",
    "SCRIPT LOAD bad+",
    "SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db abc",
    "SCRIPT KILL",
    "SCRIPT FLUSH async",
    "SCRIPT FLUSH x",
    "SCRIPT DEBUG no",
    "SCRIPT foo",
    "FCALL nope 0",
    "FUNCTION DELETE nope",
    "FUNCTION KILL",
    "FUNCTION RESTORE abc",
    "FUNCTION LIST",
    "FUNCTION STATS",
    "FUNCTION FLUSH",
    "FUNCTION FLUSH x",
    "FUNCTION LOAD x",
    "COMMAND GETKEYS EVAL x 2 a b c",
];

/// Libraries, each loaded alone.
const LIBRARIES: &[&str] = &[
    "#!lua name=lib1\nredis.register_function('f1', function(keys, args) return keys[1] end)",
    "#!lua name=lib1\nreturn 1",
    "redis.register_function('f1', 1)",
    "#!lua\nx",
    "#!lua name=lib1\nredis.register_function('f7', 1)",
    "#!lua name=lib1\nredis.call('ping')",
    "#!lua name=lib1\nbad bad",
    "#!lua name=li-b3\nx",
    "#!lua name=lib1\nredis.register_function('f-8', function() end)",
    "#!py name=lib1\nx",
    "#!lua name=lib1 foo=1\nx",
    "#!lua name=lib1\nx=1",
    "#!lua name=lib1\nredis.register_function('f1', function() return ARGV end)",
    "#!lua name=lib1\nredis.register_function('f1', function() error('boo') end)",
    "#!lua name=lib1\n\nredis.register_function('f1', function() return redis.call('get') end)",
    "#!lua name=lib1\nredis.register_function{function_name='f1', callback=function(keys) return \
     redis.call('set', keys[1], 1) end, flags={'no-writes'}}",
    "#!lua name=lib1\nredis.register_function{function_name='f1'}",
    "#!lua name=lib1\nredis.register_function{callback=function() end}",
    "#!lua name=lib1\nredis.register_function('f1')",
    "#!lua name=lib1\nredis.register_function{function_name='f1', callback=function() end, \
     flags={'nope'}}",
];

/// The reply without what differs for a reason: Redis 7.0 names no commands of its errors.
fn ask(client: &mut Client, args: &[&[u8]]) -> String {
    show(&client.call(args))
}

#[test]
fn scripts_answer_as_in_redis() {
    let Some(redis) = Redis::start() else {
        println!("skipped: redis-server is not installed (Debian: apt-get install redis-server)");
        return;
    };
    let mut differ = Vec::new();
    for may_wait in [false, true] {
        let (server, _) = start_with(config(), Probe::new(may_wait));
        for dialect in ["2", "3"] {
            let (mut theirs, mut ours) = (redis.connect(), Client::connect(&server));
            for client in [&mut theirs, &mut ours] {
                client.call(&[b"HELLO", dialect.as_bytes()]);
            }
            let mut compare = |args: &[&[u8]]| {
                let (want, got) = (ask(&mut theirs, args), ask(&mut ours, args));
                if want != got {
                    let asked: Vec<_> =
                        args.iter().map(|arg| String::from_utf8_lossy(arg)).collect();
                    differ.push(format!("{}\n  Redis: {want}\n  we:    {got}", asked.join(" ")));
                }
            };
            // The tests' client of RESP3 reads no numbers of any length.
            let is_read = |script: &&&str| dialect == "2" || !script.contains("big_number");
            for script in CASES.iter().filter(is_read) {
                compare(&[b"FLUSHALL"]);
                compare(&[b"EVAL", script.as_bytes(), b"1", b"k", b"7"]);
                compare(&[b"EVAL_RO", script.as_bytes(), b"1", b"k", b"7"]);
                compare(&[b"GET", b"k"]);
            }
            for request in REQUESTS {
                let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
                compare(&args);
            }
            for library in LIBRARIES {
                compare(&[b"FUNCTION", b"FLUSH"]);
                compare(&[b"FUNCTION", b"LOAD", library.as_bytes()]);
                compare(&[b"FUNCTION", b"LOAD", b"REPLACE", library.as_bytes()]);
                compare(&[b"FUNCTION", b"LIST", b"WITHCODE"]);
                compare(&[b"FCALL", b"f1", b"1", b"k"]);
                compare(&[b"FCALL_RO", b"f1", b"1", b"k"]);
            }
        }
        server.stop();
    }
    assert!(differ.is_empty(), "{} differ:\n{}", differ.len(), differ.join("\n"));
}
