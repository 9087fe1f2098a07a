//! Scripts of clients: what Redis answers to them, and that each is one step.

use crate::support::{Client, Probe, config, show, start_with};
use silica_base::test_size;
use silica_proto::Value;
use silica_server::Server;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

fn servers() -> impl Iterator<Item = Server> {
    [false, true].into_iter().map(|may_wait| start_with(config(), Probe::new(may_wait)).0)
}

fn eval(client: &mut Client, script: &str, keys: &[&str], args: &[&str]) -> String {
    show(&call(client, &[b"EVAL", script.as_bytes()], keys, args))
}

fn call(client: &mut Client, head: &[&[u8]], keys: &[&str], args: &[&str]) -> Value {
    let count = keys.len().to_string();
    let mut all = head.to_vec();
    all.push(count.as_bytes());
    all.extend(keys.iter().chain(args).map(|text| text.as_bytes()));
    client.call(&all)
}

#[test]
fn scripts_are_kept_by_name() {
    for server in servers() {
        let mut client = Client::connect(&server);
        let name = client.call(&[b"SCRIPT", b"LOAD", b"return KEYS[1]..ARGV[1]"]);
        let Value::Bulk(name) = name else { panic!("{name:?}") };
        assert_eq!(show(&call(&mut client, &[b"EVALSHA", &name], &["k"], &["a"])), "'ka'");
        let upper = name.to_ascii_uppercase();
        assert_eq!(show(&call(&mut client, &[b"EVALSHA_RO", &upper], &["k"], &["a"])), "'ka'");
        let exists = show(&client.call(&[b"SCRIPT", b"EXISTS", &name, b"nope"]));
        assert_eq!(exists, "[:1 :0]");
        assert!(client.text("INFO memory").contains("number_of_cached_scripts:1\r\n"));
        assert_eq!(client.ask("SCRIPT FLUSH"), "OK");
        let gone = show(&call(&mut client, &[b"EVALSHA", &name], &["k"], &["a"]));
        assert_eq!(gone, "-NOSCRIPT No matching script. Please use EVAL.");
        let body = "return 7";
        assert_eq!(eval(&mut client, body, &[], &[]), ":7");
        let name = silica_lua_name(body);
        assert_eq!(show(&call(&mut client, &[b"EVALSHA", name.as_bytes()], &[], &[])), ":7");
        server.stop();
    }
}

/// The name that a server gives to a script.
fn silica_lua_name(body: &str) -> String {
    let (server, _) = start_with(config(), Probe::new(false));
    let mut client = Client::connect(&server);
    let Value::Bulk(name) = client.call(&[b"SCRIPT", b"LOAD", body.as_bytes()]) else {
        panic!("no name")
    };
    String::from_utf8(name).unwrap()
}

/// Threads that add to counters by a script which reads, computes and writes; beside it, INCRs.
#[test]
fn each_script_is_one_step() {
    const ADD: &str = "local n = tonumber(redis.call('GET', KEYS[1]) or '0') + 1 \
                       redis.call('SET', KEYS[1], n) return n";
    const ADD_UNDECLARED: &str = "local n = tonumber(redis.call('GET', ARGV[1]) or '0') + 1 \
                                  redis.call('SET', ARGV[1], n) return n";
    let rounds = test_size(300, 1000, 20_000);
    for server in servers() {
        let answers: Vec<Vec<i64>> = thread::scope(|scope| {
            let run = |which: usize| {
                let mut client = Client::connect(&server);
                let mut next = move || match which % 3 {
                    0 => call(&mut client, &[b"EVAL", ADD.as_bytes()], &["n"], &[]),
                    1 => call(&mut client, &[b"EVAL", ADD_UNDECLARED.as_bytes()], &[], &["n"]),
                    _ => client.call(&[b"INCR", b"n"]),
                };
                let mut answers = Vec::new();
                for _ in 0..rounds {
                    match next() {
                        Value::Integer(n) => answers.push(n),
                        other => panic!("{other:?}"),
                    }
                }
                answers
            };
            let threads: Vec<_> = (0..6).map(|which| scope.spawn(move || run(which))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        // Each sees its own additions in their order, and no two the same number.
        assert!(answers.iter().all(|own| own.windows(2).all(|pair| pair[0] < pair[1])));
        let mut all: Vec<i64> = answers.concat();
        all.sort_unstable();
        let want: Vec<i64> = (1..=6 * rounds as i64).collect();
        assert!(all == want, "additions are lost");
        server.stop();
    }
}

/// Money moves between accounts; whoever adds them up in a script finds all of it.
#[test]
fn scripts_see_several_keys_at_one_moment() {
    const MOVE: &str = "local from, to = ARGV[1], ARGV[2] local n = tonumber(redis.call('GET', \
     from)) \
                        if n == 0 then return 0 end redis.call('DECRBY', from, 1) \
                        redis.call('INCRBY', to, 1) return 1";
    const SUM: &str = "local sum = 0 for i = 1, #KEYS do sum = sum + redis.call('GET', KEYS[i]) \
     end \
                       return sum";
    let names = ["a", "b", "c", "d"];
    for server in servers() {
        let mut client = Client::connect(&server);
        names.iter().for_each(|name| assert_eq!(client.ask(&format!("SET {name} 25")), "OK"));
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for first in 0..3 {
                let (server, is_over) = (&server, &is_over);
                scope.spawn(move || {
                    let mut client = Client::connect(server);
                    for n in 0.. {
                        if is_over.load(Ordering::Relaxed) {
                            break;
                        }
                        let (from, to) = (names[(first + n) % 4], names[(first + 3 * n + 1) % 4]);
                        if from != to {
                            let moved = eval(&mut client, MOVE, &[], &[from, to]);
                            assert!([":0", ":1"].contains(&&*moved), "{moved}");
                        }
                    }
                });
            }
            for _ in 0..test_size(200, 1000, 20_000) {
                let sum = show(&call(&mut client, &[b"EVAL_RO", SUM.as_bytes()], &names, &[]));
                if sum != ":100" {
                    is_over.store(true, Ordering::Relaxed);
                    panic!("the sum is {sum}");
                }
            }
            is_over.store(true, Ordering::Relaxed);
        });
        server.stop();
    }
}

#[test]
fn what_a_script_wrote_before_its_error_stays() {
    for server in servers() {
        let mut client = Client::connect(&server);
        let script = "redis.call('SET', KEYS[1], 'x') redis.call('INCR', KEYS[1])";
        let error = eval(&mut client, script, &["k"], &[]);
        assert!(
            error.starts_with("-ERR value is not an integer or out of range script: "),
            "{error}"
        );
        assert_eq!(client.ask("GET k"), "'x'");
        let script = "redis.call('SET', KEYS[1], '1') redis.call('EXPIRE', KEYS[1], 100) \
                      redis.call('INCR', KEYS[1]) redis.call('DEL', KEYS[2]) \
                      return {redis.call('TTL', KEYS[1]), redis.call('EXISTS', KEYS[2])}";
        assert_eq!(client.ask("SET l 1"), "OK");
        assert_eq!(eval(&mut client, script, &["k", "l"], &[]), "[:100 :0]");
        assert_eq!((client.ask("GET k"), client.ask("GET l")), ("'2'".into(), "nil".into()));
        server.stop();
    }
}

#[test]
fn transactions_run_scripts() {
    for server in servers() {
        let mut client = Client::connect(&server);
        let add = "return redis.call('INCRBY', ARGV[1], 5)";
        assert_eq!(client.ask("WATCH w"), "OK");
        assert_eq!(client.ask("MULTI"), "OK");
        assert_eq!(client.ask("SET n 1"), "QUEUED");
        assert_eq!(eval(&mut client, add, &[], &["n"]), "QUEUED");
        assert_eq!(client.ask("SET w 1"), "QUEUED");
        assert_eq!(client.ask("GET n"), "QUEUED");
        assert_eq!(client.ask("EXEC"), "[OK :6 OK '6']");
        let mut other = Client::connect(&server);
        assert_eq!(client.ask("WATCH w"), "OK");
        assert_eq!(other.ask("SET w 2"), "OK");
        assert_eq!(client.ask("MULTI"), "OK");
        assert_eq!(eval(&mut client, add, &[], &["n"]), "QUEUED");
        assert_eq!(client.ask("EXEC"), "nil");
        assert_eq!(client.ask("GET n"), "'6'");
        // A script is a write for those who watch.
        assert_eq!(client.ask("WATCH n"), "OK");
        assert_eq!(eval(&mut other, add, &[], &["n"]), ":11");
        assert_eq!(client.ask("MULTI"), "OK");
        assert_eq!(client.ask("GET n"), "QUEUED");
        assert_eq!(client.ask("EXEC"), "nil");
        server.stop();
    }
}

#[test]
fn endless_scripts_are_killed_and_keep_nobody_waiting() {
    for server in servers() {
        let mut client = Client::connect(&server);
        assert_eq!(client.ask("SCRIPT KILL"), "-NOTBUSY No scripts in execution right now.");
        assert_eq!(client.ask("CONFIG SET busy-reply-threshold 50"), "OK");
        let mut stuck = Client::connect(&server);
        let start = |client: &mut Client, script: &str| {
            client.send(&crate::support::request(&[b"EVAL", script.as_bytes(), b"0"]));
        };
        let endless = "while true do end";
        start(&mut stuck, endless);
        // Others go on, scripts too; one that takes long itself is refused.
        assert_eq!(client.ask("SET a 1"), "OK");
        assert_eq!(eval(&mut client, "return redis.call('GET', 'a')", &[], &[]), "'1'");
        let busy = "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or \
         SHUTDOWN NOSAVE.";
        let mut second = Client::connect(&server);
        // It counts as busy soon.
        thread::sleep(Duration::from_millis(200));
        assert_eq!(eval(&mut second, "while true do end --2", &[], &[]), busy);
        let killed = loop {
            match client.ask("SCRIPT KILL") {
                ok if ok == "OK" => break stuck.reply(),
                other => assert!(other.starts_with("-NOTBUSY"), "{other}"),
            }
        };
        let killed = show(&killed.unwrap());
        assert!(killed.starts_with("-ERR Script killed by user with SCRIPT KILL."), "{killed}");
        // One that has written is not killed, and is not seen before its end.
        start(
            &mut stuck,
            "redis.call('SET', 'a', 2) local n = 0 while n < 4e8 do n = n + 1 end return n",
        );
        let refused = loop {
            match client.ask("SCRIPT KILL") {
                text if text.starts_with("-NOTBUSY") => thread::sleep(Duration::from_millis(1)),
                // Killed before it wrote: again.
                text if text == "OK" => {
                    stuck.reply().unwrap();
                    start(&mut stuck, "redis.call('SET', 'a', 2) while true do end");
                }
                text => break text,
            }
        };
        assert!(refused.starts_with("-UNKILLABLE Sorry the script already executed"), "{refused}");
        assert_eq!(client.ask("GET a"), "'1'");
        // The server stops all the same.
        server.stop();
    }
}

#[test]
fn users_rights_hold_in_scripts() {
    for server in servers() {
        let mut admin = Client::connect(&server);
        let set = "ACL SETUSER u on >pw ~own:* +eval +eval_ro +get +set -del";
        assert_eq!(admin.ask(set), "OK");
        let mut client = Client::connect(&server);
        assert_eq!(client.ask("AUTH u pw"), "OK");
        let set = "return redis.call('SET', ARGV[1], 'v')";
        assert_eq!(eval(&mut client, set, &[], &["own:a"]), "OK");
        let refused = eval(&mut client, set, &[], &["other"]);
        assert!(
            refused.starts_with("-NOPERM The user executing the script can't access"),
            "{refused}"
        );
        let refused = eval(&mut client, "return redis.call('DEL', 'own:a')", &[], &[]);
        assert!(
            refused.starts_with("-NOPERM The user executing the script can't run this"),
            "{refused}"
        );
        let refused = eval(&mut client, "return 1", &["other"], &[]);
        assert!(refused.starts_with("-NOPERM this user has no permissions to access"), "{refused}");
        let may =
            "return {redis.acl_check_cmd('get', 'own:x'), redis.acl_check_cmd('del', 'own:x')}";
        assert_eq!(eval(&mut client, may, &[], &[]), "[:1 nil]");
        server.stop();
    }
}

#[test]
fn hungry_scripts_are_refused_and_the_server_goes_on() {
    let (server, _) = start_with(config(), Probe::new(false));
    let mut client = Client::connect(&server);
    let hungry = [
        "local t = {} for i = 1, 1e9 do t[i] = 'x'..i end",
        "return string.rep('x', 1e9)",
        "redis.call('SET', 'k', string.rep('x', 1e6)) local t = {} while true do \
         t[#t+1] = redis.call('GET', 'k') .. #t end",
    ];
    for script in hungry {
        println!("{script}");
        let refused = eval(&mut client, script, &[], &[]);
        assert!(refused.starts_with("-OOM "), "{refused}");
    }
    assert_eq!(eval(&mut client, "return 1", &[], &[]), ":1");
    server.stop();
}

#[test]
fn commands_of_other_kinds_are_refused_in_scripts() {
    let (server, _) = start_with(config(), Probe::new(false));
    let mut client = Client::connect(&server);
    let refused = [
        ("EVAL return 0", "ERR This Redis command is not allowed from script"),
        ("SUBSCRIBE c", "ERR This Redis command is not allowed from script"),
        ("MULTI", "ERR This Redis command is not allowed from script"),
        ("NOPE", "ERR Unknown Redis command called from script"),
        ("GET", "ERR Wrong number of args calling Redis command from script"),
        ("FLUSHALL", "ERR 'flushall' cannot be part of a script here"),
        ("SELECT 3", "ERR a script acts on one database here; select it before the script"),
    ];
    for (command, want) in refused {
        let words: Vec<String> = command.split(' ').map(|word| format!("'{word}'")).collect();
        let got = eval(&mut client, &format!("return redis.pcall({})", words.join(",")), &[], &[]);
        assert_eq!(got, format!("-{want}"), "{command}");
    }
    client.ask("SET key:1 a");
    let keys = "return {redis.call('KEYS', 'key:*')[1], redis.call('DBSIZE'), redis.call('ECHO', \
     'x'), \
                redis.call('PING').ok, #redis.call('TIME')}";
    assert_eq!(eval(&mut client, keys, &[], &[]), "['key:1' :1 'x' 'PONG' :2]");
    server.stop();
}

#[test]
fn messages_of_scripts_arrive_when_they_have_taken_effect() {
    let (server, _) = start_with(config(), Probe::new(false));
    let (mut client, mut listener) = (Client::connect(&server), Client::connect(&server));
    listener.call(&[b"SUBSCRIBE", b"c"]);
    let publish = "redis.call('SET', 'k', 'v') return redis.call('PUBLISH', 'c', 'hi')";
    assert_eq!(eval(&mut client, publish, &[], &[]), ":1");
    assert_eq!(show(&listener.reply().unwrap()), "['message' 'c' 'hi']");
    server.stop();
}

#[test]
fn functions_are_loaded_and_called() {
    let code: &[u8] = b"#!lua name=lib\nredis.register_function('add', function(keys, args) \
        return redis.call('INCRBY', keys[1], args[1]) end)\nredis.register_function{\
        function_name='look', callback=function(keys) return redis.call('GET', keys[1]) end, \
        flags={'no-writes'}}";
    for server in servers() {
        let mut client = Client::connect(&server);
        assert_eq!(show(&client.call(&[b"FUNCTION", b"LOAD", code])), "'lib'");
        assert_eq!(client.ask("FCALL add 1 n 5"), ":5");
        assert_eq!(client.ask("FCALL_RO look 1 n"), "'5'");
        let refused = "-ERR Can not execute a script with write flag using *_ro command.";
        assert_eq!(client.ask("FCALL_RO add 1 n 5"), refused);
        assert_eq!(client.ask("FCALL nope 0"), "-ERR Function not found");
        let again = show(&client.call(&[b"FUNCTION", b"LOAD", code]));
        assert_eq!(again, "-ERR Library 'lib' already exists");
        let dump = client.call(&[b"FUNCTION", b"DUMP"]);
        let Value::Bulk(dump) = dump else { panic!("{dump:?}") };
        assert_eq!(client.ask("FUNCTION DELETE lib"), "OK");
        assert_eq!(client.ask("FUNCTION LIST"), "[]");
        assert_eq!(show(&client.call(&[b"FUNCTION", b"RESTORE", &dump])), "OK");
        assert_eq!(client.ask("FCALL add 1 n 5"), ":10");
        let want =
            "['running_script' nil 'engines' ['LUA' ['libraries_count' :1 'functions_count' :2]]]";
        assert_eq!(client.ask("FUNCTION STATS"), want);
        assert_eq!(client.ask("FUNCTION FLUSH"), "OK");
        assert_eq!(client.ask("FCALL add 1 n 5"), "-ERR Function not found");
        server.stop();
    }
}
