//! Errors of scripts, word for word Redis 7.0.15's.

use crate::support::{answer, interpreter, run};
use silica_lua::{Failure, Library};

fn check(cases: &[(&str, &str)]) {
    for (script, want) in cases {
        assert_eq!(answer(script), *want, "{script}");
    }
}

#[test]
fn errors_say_where() {
    check(&[
        ("error('boom')", "-ERR user_script:1: boom script: s, on @user_script:1."),
        ("error({err='MY thing'})", "-MY thing script: s, on @user_script:1."),
        ("error('x', 0)", "-ERR x script: s, on @user_script:1."),
        ("error()", "-ERR nil script: s, on @user_script:1."),
        (
            "local function f() error('deep') end\nf()",
            "-ERR user_script:1: deep script: s, on @user_script:1.",
        ),
        (
            "return nil + 1",
            "-ERR user_script:1: attempt to perform arithmetic on a nil value script: s, on \
             @user_script:1.",
        ),
        ("\nreturn redis.call('FAIL')", "-WRONG it failed script: s, on @user_script:2."),
        (
            "return redis.call()",
            "-ERR Please specify at least one argument for this redis lib call script: s, on \
             @user_script:1.",
        ),
        (
            "return redis.call({})",
            "-ERR Lua redis lib command arguments must be strings or integers script: s, on \
             @user_script:1.",
        ),
        (
            "return redis.pcall('ECHO', true)",
            "-ERR Lua redis lib command arguments must be strings or integers",
        ),
        ("return redis.sha1hex()", "-ERR wrong number of arguments script: s, on @user_script:1."),
        ("return redis.log(9,'x')", "-ERR Invalid debug level. script: s, on @user_script:1."),
        (
            "return redis.setresp(4)",
            "-ERR RESP version must be 2 or 3. script: s, on @user_script:1.",
        ),
        (
            "return redis.acl_check_cmd('nosuch')",
            "-ERR Invalid command passed to redis.acl_check_cmd() script: s, on @user_script:1.",
        ),
        ("return redis.status_reply(1)", "-ERR wrong number or type of arguments"),
        (
            "local f = load('return 1') return f",
            "-ERR user_script:1: bad argument #1 to 'load' (function expected, got string) \
             script: s, on @user_script:1.",
        ),
    ]);
    let syntax = run(&mut interpreter(), "this is bad").unwrap_err();
    assert_eq!(syntax, Failure::Syntax("user_script:1: '=' expected near 'is'".into()));
}

#[test]
fn errors_of_libraries_say_where() {
    let at = " script: s, on @user_script:1.";
    let cases = [
        ("cjson.encode({[1]=1,[100]=2})", "Cannot serialise table: excessively sparse array"),
        ("cjson.encode({a=1/0})", "Cannot serialise number: must not be NaN or Inf"),
        (
            "cjson.encode({[true]=1})",
            "Cannot serialise boolean: table key must be a number or string",
        ),
        ("cjson.encode(function() end)", "Cannot serialise function: type not supported"),
        ("cjson.encode()", "bad argument #1 to 'encode' (expected 1 argument)"),
        ("cjson.decode('[1,2')", "Expected comma or array end but found T_END at character 5"),
        ("cjson.decode('')", "Expected value but found T_END at character 1"),
        ("cjson.decode('{\"a\" 1}')", "Expected colon but found T_NUMBER at character 6"),
        ("cjson.decode('nul')", "Expected value but found invalid token at character 1"),
        ("cjson.decode('[1,]')", "Expected value but found T_ARR_END at character 4"),
        (
            "cjson.decode('\"abc')",
            "Expected value but found unexpected end of string at character 5",
        ),
        (
            "cjson.decode('\"a\\\\x\"')",
            "Expected value but found invalid escape code at character 3",
        ),
        ("cjson.decode('[1] x')", "Expected the end but found invalid token at character 5"),
        ("cjson.decode('{1:2}')", "Expected object key string but found T_NUMBER at character 2"),
        ("cjson.decode('[-]')", "Expected value but found invalid number at character 2"),
        (
            "cjson.decode(string.rep('[',1001)..string.rep(']',1001))",
            "Found too many nested data structures (1001) at character 1001",
        ),
        (
            "cjson.decode('\"\\\\ud83d\"')",
            "Expected value but found invalid unicode escape code at character 2",
        ),
        ("struct.unpack('z', 'abc')", "bad argument #1 to 'unpack' (invalid format option 'z')"),
        ("struct.pack('>I33', 1)", "integral size 33 is larger than limit of 32"),
        ("struct.unpack('>I4', 'abc')", "bad argument #2 to 'unpack' (data string too short)"),
        ("struct.pack('i')", "bad argument #2 to 'pack' (number expected, got no value)"),
        ("struct.size('s')", "bad argument #1 to 'size' (option 's' has no fixed size)"),
        ("bit.bor()", "bad argument #1 to 'bor' (number expected, got no value)"),
        ("bit.band('x')", "bad argument #1 to 'band' (number expected, got string)"),
        ("cmsgpack.unpack('\\217')", "Missing bytes in input."),
        ("cmsgpack.unpack('\\199')", "Bad data format in input."),
        ("cmsgpack.pack()", "bad argument #0 to 'pack' (MessagePack pack needs input.)"),
    ];
    for (script, want) in cases {
        let want = format!("-ERR user_script:1: {want}{at}");
        assert_eq!(answer(&format!("return {script}")), want, "{script}");
    }
}

#[test]
fn globals_are_protected() {
    let readonly =
        "-ERR user_script:1: Attempt to modify a readonly table script: s, on @user_script:1.";
    let bare = "-ERR Attempt to modify a readonly table script: s, on @user_script:1.";
    check(&[
        ("x=1", readonly),
        ("string.x=1", readonly),
        ("redis.call=nil", readonly),
        ("getmetatable('').__index=1", readonly),
        ("rawset(_G,'x',1)", bare),
        ("setmetatable(_G,{})", bare),
        (
            "return os",
            "-ERR user_script:1: Script attempted to access nonexistent global variable 'os' \
             script: s, on @user_script:1.",
        ),
        ("return tostring(getmetatable('').__index==string)", "true"),
        ("local s = 0 for k in pairs(redis) do s = s + 1 end return s > 15", ":1"),
        ("local s = 0 for k in pairs(_G) do s = s + 1 end return s > 25", ":1"),
        (
            "local names = {} for _, n in ipairs{'io','os','debug','package','require', \
             'dofile','loadfile','print','getfenv','setfenv','newproxy','module'} do \
             names[#names+1] = tostring(rawget(_G, n)) end return table.concat(names, ' ')",
            "nil nil nil nil nil nil nil nil nil nil nil nil",
        ),
        ("return tostring(loadstring(string.dump(function() return 1 end)))", "nil"),
        (
            "local d = string.dump(function() return 1 end) local f = load(function() local p = d \
             d = nil return p end) return tostring(f)",
            "nil",
        ),
        ("return loadstring('return KEYS[1]')()", "k1"),
        ("return pcall(loadstring('y = 1'))", "null"),
    ]);
}

#[test]
fn nothing_is_left_for_the_next_script() {
    let mut lua = interpreter();
    let leave = "table.insert(redis, 1) table.insert(_G, 2) math.randomseed(9) redis.setresp(3) \
                 collectgarbage('stop') return 1";
    run(&mut lua, leave).unwrap();
    let look = "local d = tostring(redis.call('NULL')) \
                return {tostring(rawget(redis, 1)), tostring(rawget(_G, 1)), #redis, d, \
                math.random(100)}";
    let first = run(&mut interpreter(), look).unwrap();
    assert_eq!(run(&mut lua, look).unwrap(), first);
}

#[test]
fn errors_are_caught() {
    check(&[
        ("return {pcall(error, 'x')}", "[null x]"),
        (
            "local ok, e = pcall(redis.call, 'FAIL') return {tostring(ok), e}",
            "[false WRONG it failed]",
        ),
        (
            "local ok, e = pcall(cjson.decode, '[') return e",
            "Expected value but found T_END at character 2",
        ),
        ("local ok, e = pcall(function() error({a=1}) end) return type(e)", "table"),
        ("local ok, e = pcall(function() error({err='X'}) end) return type(e)", "string"),
        (
            "return {xpcall(function() redis.call('FAIL') end, function(e) return type(e)..e.err \
             end)}",
            "[null tableWRONG it failed]",
        ),
        ("return coroutine.wrap(function() return redis.call('ECHO', 'x') end)()", "x"),
        (
            "local c = coroutine.create(function() redis.call('FAIL') end) local ok, e = \
             coroutine.resume(c) return e",
            "WRONG it failed",
        ),
    ]);
}

#[test]
fn libraries_register_functions() {
    let mut lua = interpreter();
    let code = b"\nlocal n = 1\nredis.register_function('f1', function(keys, args) return \
     keys[1]..args[1]..n end)\n\
                 redis.register_function{function_name='f2', \
                 callback=function() return ARGV end, flags={'no-writes'}}";
    let functions = lua.load(code).unwrap();
    let names: Vec<&str> = functions.iter().map(|f| &*f.name).collect();
    assert_eq!((names, &functions[1].flags), (vec!["f1", "f2"], &vec!["no-writes".to_string()]));
    let library = Library { id: 1, code: code.to_vec() };
    let mut call = |name: &str| {
        let call = silica_lua::Call { name, keys: &[b"k"], args: &[b"a"] };
        let source = silica_lua::Source::Function(&library, name);
        lua.run(&call, source, &mut crate::support::Fake::default())
    };
    assert_eq!(call("f1").unwrap(), silica_lua::Answer::Bulk(b"ka1".to_vec()));
    let missing = call("f2").unwrap_err().to_string();
    assert_eq!(
        missing,
        "ERR user_function:4: Script attempted to access nonexistent global variable 'ARGV' \
         script: f2, on @user_function:4."
    );
    let bad = [
        (
            "x=1",
            "ERR Error registering functions: ERR user_function:1: Attempt to modify a readonly \
             table",
        ),
        (
            "redis.call('ping')",
            "ERR Error registering functions: ERR user_function:1: Script attempted to access \
             nonexistent global variable 'call'",
        ),
        (
            "redis.register_function('f7', 1)",
            "ERR Error registering functions: ERR second argument to redis.register_function must \
             be a function",
        ),
        (
            "redis.register_function('f-8', function() end)",
            "ERR Error registering functions: ERR Library names can only contain letters, \
             numbers, or underscores(_) and must be at least one character long",
        ),
    ];
    for (code, want) in bad {
        assert_eq!(lua.load(code.as_bytes()).unwrap_err().to_string(), want);
    }
    assert_eq!(
        run(&mut lua, "return tostring(redis.nosuch)").unwrap(),
        silica_lua::Answer::Bulk(b"nil".to_vec())
    );
}
