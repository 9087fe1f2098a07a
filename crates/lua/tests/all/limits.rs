//! Memory and time.

use crate::support::{Fake, MEMORY_BYTES, run};
use silica_lua::{Answer, Call, Failure, Interpreter, Source, Stop};
use std::cell::Cell;
use std::rc::Rc;

#[test]
fn memory_is_bounded_and_free_again() {
    let mut lua = Interpreter::new(MEMORY_BYTES, Box::new(|_| None)).unwrap();
    let hungry = [
        "local t = {} while true do t[#t+1] = string.rep('x', 1000) end",
        "return string.rep('x', 100000000)",
        "local s = 'x' while true do s = s..s end",
        "local t = {} for i = 1, 1e9 do t[i] = i end",
    ];
    for script in hungry {
        assert_eq!(run(&mut lua, script), Err(Failure::Memory), "{script}");
        assert!(lua.held_bytes() <= MEMORY_BYTES);
        assert_eq!(run(&mut lua, "return 1"), Ok(Answer::Integer(1)));
    }
    lua.collect_garbage();
    assert!(lua.held_bytes() < 1 << 20, "{} bytes are held", lua.held_bytes());
}

#[test]
fn no_script_catches_its_end() {
    let stops = Rc::new(Cell::new(false));
    let seen = Rc::clone(&stops);
    let poll = move |_| seen.get().then_some(Stop::Killed);
    let mut lua = Interpreter::new(MEMORY_BYTES, Box::new(poll)).unwrap();
    let endless = [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "while true do xpcall(function() while true do end end, function(e) return e end) end",
        "local c = coroutine.wrap(function() while true do end end) c()",
        "while true do local c = coroutine.create(function() while true do end end) \
         coroutine.resume(c) end",
        "while true do redis.pcall('ECHO', 'x') end",
        "local function f() return pcall(f) end while true do f() end",
        "local t = setmetatable({}, {__index = function(t, k) while true do end end}) return t",
    ];
    for script in endless {
        assert_eq!(run(&mut lua, "return 1"), Ok(Answer::Integer(1)));
        stops.set(true);
        assert_eq!(run(&mut lua, script), Err(Failure::Stopped(Stop::Killed)), "{script}");
        stops.set(false);
    }
}

#[test]
fn deep_values_end() {
    let mut lua = Interpreter::new(MEMORY_BYTES, Box::new(|_| None)).unwrap();
    run(&mut lua, "local t = {} t[1] = t return t").unwrap();
    let bottomless = "local function f() return 1 + f() end return f()";
    let error = run(&mut lua, bottomless).unwrap_err().to_string();
    assert!(error.contains("stack overflow"), "{error}");
    let call = Call { name: "s", keys: &[], args: &[] };
    let source = Source::Script("levels", b"for i = 0, 3 do redis.log(i, 'x', i) end");
    let mut host = Fake::default();
    lua.run(&call, source, &mut host).unwrap();
    assert_eq!(host.logged.len(), 4);
    assert_eq!(host.logged[2].1, b"x 2");
}
