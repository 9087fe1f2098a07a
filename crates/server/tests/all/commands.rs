//! Every command over a real socket, against the texts that clients know.

use crate::scripts;
use crate::support;
use crate::support::{Client, Probe, config, script, show, start, start_with};
use silica_proto::Value;
use silica_server::Mode;

/// On the loop itself, and through the workers.
fn on_both(lines: &str) {
    for may_wait in [false, true] {
        let (server, _) = start_with(config(), Probe::new(may_wait));
        script(&mut Client::connect(&server), lines);
        server.stop();
    }
}

#[test]
fn strings() {
    on_both(
        "GET a -> nil
         SET a 1 -> OK
         get a -> '1'
         SET a 2 NX -> nil
         SET a 2 XX -> OK
         SET a 3 GET -> '2'
         SET new 1 GET -> nil
         SET new 2 nx get -> '1'
         GET new -> '1'
         SET b 1 XX -> nil
         SET b 1 NX XX -> -ERR syntax error
         SET b 1 FOO -> -ERR syntax error
         SET b 1 EX -> -ERR syntax error
         SETNX a 9 -> :0
         SETNX c 9 -> :1
         MSETNX m1 1 c 2 -> :0
         EXISTS m1 -> :0
         MSETNX m1 1 m2 2 m1 3 -> :1
         MGET m1 m2 -> ['3' '2']
         MSETNX m1 -> -ERR wrong number of arguments for 'msetnx' command
         MSETNX m1 1 m2 -> -ERR wrong number of arguments for 'msetnx' command
         GETSET c 10 -> '9'
         GETSET nope 1 -> nil
         GETDEL nope -> '1'
         GETDEL nope -> nil
         MSET k1 v1 k2 v2 k1 v3 -> OK
         MSET k1 v1 k2 -> -ERR wrong number of arguments for 'mset' command
         MGET k1 missing k2 -> ['v3' nil 'v2']
         EXISTS k1 k1 missing -> :2
         DEL k1 k1 missing -> :1
         UNLINK k2 -> :1
         STRLEN a -> :1
         STRLEN missing -> :0
         APPEND s Hello -> :5
         APPEND s World -> :10
         GETRANGE s 0 4 -> 'Hello'
         SUBSTR s -5 -1 -> 'World'
         GETRANGE missing 0 -1 -> ''
         GETRANGE s a 1 -> -ERR value is not an integer or out of range
         SETRANGE s 5 _____ -> :10
         GET s -> 'Hello_____'
         SETRANGE s -1 x -> -ERR offset is out of range
         SETRANGE s 536870912 x -> -ERR string exceeds maximum allowed size (proto-max-bulk-len)
         TYPE s -> string
         TYPE missing -> none",
    );
}

#[test]
fn expiry() {
    on_both(scripts::EXPIRY);
}

#[test]
fn writes_that_set_an_expiry() {
    on_both(scripts::EXPIRING_WRITES);
}

#[test]
fn a_key_is_gone_when_its_time_is_over() {
    let server = start();
    let mut client = Client::connect(&server);
    let began = std::time::Instant::now();
    // On a busy machine the time may be over before the next request. The server's clock tells
    // whole milliseconds.
    let is_over = || began.elapsed().as_millis() >= 59;
    assert_eq!(client.ask("SET a 1 PX 60"), "OK");
    assert_eq!(client.ask("SET b 1 PX 60"), "OK");
    let left = client.ask("PTTL a").trim_start_matches(':').parse::<i64>().unwrap();
    assert!((1..=60).contains(&left) || is_over(), "{left}");
    while client.ask("MGET a b") == "['1' '1']" {
        assert!(began.elapsed().as_secs() < 20, "they stay");
    }
    assert!(is_over(), "they are gone too early");
    while client.ask("MGET a b") != "[nil nil]" {
        assert!(began.elapsed().as_secs() < 20, "one of them stays");
    }
    assert_eq!(client.ask("TTL a"), ":-2");
    assert_eq!(client.ask("SET a 2 NX"), "OK");
    assert_eq!(client.ask("INCR b"), ":1");
    assert_eq!(client.ask("TTL b"), ":-1");
    assert_eq!(client.ask("KEYS *"), "['a' 'b']");
    server.stop();
}

#[test]
fn bits() {
    on_both(scripts::BITS);
}

#[test]
fn bitfields() {
    on_both(scripts::BITFIELDS);
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    on_both(scripts::CONTRADICTIONS);
}

#[test]
fn moving() {
    on_both(scripts::MOVING);
}

#[test]
fn numbers() {
    on_both(scripts::NUMBERS);
}

#[test]
fn subsequences() {
    on_both(scripts::SUBSEQUENCES);
}

#[test]
fn objects() {
    on_both(scripts::OBJECTS);
    on_both(
        "SET a 1234567 -> OK
         OBJECT IDLETIME a -> -ERR idle time not tracked: no entry keeps the time of its last access
         MEMORY USAGE a -> :24
         MEMORY USAGE a SAMPLES 0 -> :24
         MULTI -> OK
         OBJECT ENCODING a -> QUEUED
         EXEC -> ['int']",
    );
}

#[test]
fn what_commands_tell() {
    on_both(scripts::TOLD);
}

#[test]
fn what_writes_survive() {
    on_both(
        "WAIT 0 0 -> :0
         WAIT 1 100 -> :0
         WAIT x 100 -> -ERR value is not an integer or out of range
         WAIT 1 -1 -> -ERR timeout is negative
         WAITAOF 2 0 0 -> -ERR value is out of range, value must between 0 and 1
         WAITAOF 0 0 -1 -> -ERR timeout is negative
         WAITAOF 0 0 x -> -ERR value is not an integer or out of range",
    );
    for (may_wait, class) in [(true, "power"), (false, "none")] {
        let (server, _) = start_with(config(), Probe::new(may_wait));
        let mut client = Client::connect(&server);
        assert_eq!(client.ask("SET a 1"), "OK");
        let info = client.text("INFO persistence");
        assert!(info.contains(&format!("\r\ndurability_class:{class}\r\n")), "{info}");
        let answer = client.ask("WAITAOF 1 0 0");
        match may_wait {
            true => assert_eq!(answer, "[:1 :0]"),
            false => assert!(answer.contains("does not survive a power cut"), "{answer}"),
        }
        server.stop();
    }
}

#[test]
fn restoring() {
    on_both(scripts::RESTORING);
}

#[test]
fn users() {
    on_both(scripts::USERS);
    on_both(
        "ACL SAVE -> -ERR This Redis instance is not configured to use an ACL file. You may want \
            to specify users via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming \
            you have a Redis configuration file set) in order to store users in the Redis \
            configuration.
         ACL SETUSER x (+get -> -ERR Unmatched parenthesis in acl selector starting at '(+get'.
         ACL CAT pubsub -> ['psubscribe' 'publish' 'pubsub|channels' 'pubsub|numpat' \
            'pubsub|numsub' 'pubsub|shardchannels' 'pubsub|shardnumsub' 'punsubscribe' 'spublish' \
             'ssubscribe' 'subscribe' 'sunsubscribe' 'unsubscribe']",
    );
}

#[test]
fn settings() {
    on_both(scripts::SETTINGS);
}

#[test]
fn what_we_do_not_have_is_said() {
    on_both(
        "bgrewriteaof a b -> -ERR unknown command 'bgrewriteaof', with args beginning with: 'a' 'b' 
         NOPE -> -ERR unknown command 'NOPE', with args beginning with: ",
    );
}

#[test]
fn transactions() {
    on_both(scripts::TRANSACTIONS);
    on_both(
        "MULTI -> OK
         INFO -> -ERR 'info' cannot be part of a transaction here
         EXEC -> -EXECABORT Transaction discarded because of previous errors.
         MULTI -> OK
         RESET -> RESET
         EXEC -> -ERR EXEC without MULTI",
    );
}

/// Clients move amounts between accounts in transactions while others look: the sum never changes.
#[test]
fn nobody_sees_half_of_a_transaction() {
    for may_wait in [false, true] {
        let (server, _) = start_with(config(), Probe::new(may_wait));
        Client::connect(&server).ask("MSET a 1000 b 1000");
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut client = Client::connect(&server);
                    for round in 0..200 {
                        client.send(b"MULTI\r\nDECRBY a 7\r\nINCRBY b 7\r\nEXEC\r\n");
                        client.replies(4);
                        // Where keys have owners a read of several is one step in a transaction.
                        client.send(b"MULTI\r\nMGET a b\r\nEXEC\r\n");
                        let in_transaction = client.replies(3).pop().map(|reply| show(&reply));
                        let seen = match config().mode {
                            Mode::Crcw => client.ask("MGET a b"),
                            _ => in_transaction.unwrap_or_default(),
                        };
                        let sum: i64 = seen.split('\'').filter_map(|n| n.parse::<i64>().ok()).sum();
                        assert_eq!(sum, 2000, "round {round}: {seen}");
                    }
                });
            }
        });
        assert_eq!(Client::connect(&server).ask("GET b"), "'5200'");
        server.stop();
    }
}

/// The classic use of WATCH: everybody adds one, and tries again where somebody was faster.
#[test]
fn watched_counters_lose_nothing() {
    let (server, _) = start_with(config(), Probe::new(true));
    Client::connect(&server).ask("SET n 0");
    let retries: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = Client::connect(&server);
                    let (mut done, mut retries) = (0, 0);
                    while done < 50 {
                        client.ask("WATCH n");
                        let n: i64 = client.ask("GET n").trim_matches('\'').parse().unwrap();
                        client.ask("MULTI");
                        client.ask(&format!("SET n {}", n + 1));
                        match client.ask("EXEC").as_str() {
                            "nil" => retries += 1,
                            _ => done += 1,
                        }
                    }
                    retries
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(Client::connect(&server).ask("GET n"), "'200'");
    assert!(retries > 0, "nobody was ever faster than another");
    server.stop();
}

#[test]
fn beyond_redis_7() {
    on_both(
        "SET d 1 -> OK
         SET d 2 IFEQ 0 -> nil
         SET d 2 IFEQ 1 -> OK
         SET d 3 IFEQ 0 GET -> '2'
         SET d 3 IFEQ -> -ERR syntax error
         SET d 3 IFEQ 2 NX -> -ERR syntax error
         SET none 3 IFEQ 2 -> nil
         GET d -> '2'",
    );
}

#[test]
fn keyspace() {
    on_both(
        "RANDOMKEY -> nil
         DBSIZE -> :0
         MSET user:1 a user:2 b other c -> OK
         DBSIZE -> :3
         KEYS user:* -> ['user:1' 'user:2']
         KEYS o?her -> ['other']
         SCAN 0 MATCH o* COUNT 100 -> ['0' ['other']]
         SCAN 0 TYPE hash COUNT 100 -> ['0' []]
         SCAN x -> -ERR invalid cursor
         SCAN 0 COUNT 0 -> -ERR syntax error
         SCAN 0 COUNT x -> -ERR value is not an integer or out of range
         SCAN 0 COUNT -> -ERR syntax error
         SCAN 0 FOO 1 -> -ERR syntax error
         SELECT 1 -> OK
         DBSIZE -> :0
         SET only1 x -> OK
         RANDOMKEY -> 'only1'
         SELECT 16 -> -ERR DB index is out of range
         SELECT x -> -ERR value is not an integer or out of range
         SELECT 9 -> OK
         GET a -> nil
         SET a 1 -> -ERR database 9 is on fire
         SELECT 0 -> OK
         FLUSHDB NOW -> -ERR syntax error
         FLUSHDB SYNC -> OK
         DBSIZE -> :0
         SELECT 1 -> OK
         DBSIZE -> :1
         FLUSHALL ASYNC -> OK
         DBSIZE -> :0",
    );
}

#[test]
fn connection() {
    let server = start();
    let mut client = Client::connect(&server);
    script(
        &mut client,
        "PING -> PONG
         PING hi -> 'hi'
         PING a b -> -ERR wrong number of arguments for 'ping' command
         ECHO x -> 'x'
         ECHO -> -ERR wrong number of arguments for 'echo' command
         FOO bar baz -> -ERR unknown command 'FOO', with args beginning with: 'bar' 'baz'\x20
         CLIENT FOO -> -ERR unknown subcommand 'FOO'. Try CLIENT HELP.
         CLIENT SETNAME -> -ERR wrong number of arguments for 'client|setname' command
         CLIENT GETNAME -> nil
         CLIENT SETNAME me -> OK
         CLIENT GETNAME -> 'me'
         CLIENT SETINFO lib-name x -> OK
         CLIENT SETINFO foo x -> -ERR Unrecognized option 'foo'
         CLIENT NO-EVICT on -> OK
         CLIENT NO-EVICT maybe -> -ERR syntax error
         AUTH x -> -ERR AUTH <password> called without any password configured for \
            the default user. Are you sure your configuration is correct?
         HELLO 4 -> -NOPROTO unsupported protocol version
         HELLO x -> -ERR Protocol version is not an integer or out of range
         HELLO 2 FOO -> -ERR Syntax error in HELLO option 'FOO'",
    );
    let name = client.call(&[b"CLIENT", b"SETNAME", b"a b"]);
    assert!(matches!(name, Value::Error(text) if text.contains("cannot contain spaces")));
    let hello = client.ask("HELLO 3 SETNAME other");
    assert!(hello.starts_with("{'server'='redis' 'version'='7.4.0' 'proto'=:3"), "{hello}");
    assert_eq!(client.call(&[b"GET", b"missing"]), Value::Null);
    let list = client.ask("CLIENT LIST");
    assert!(list.contains("name=other") && list.contains("resp=3"), "{list}");
    assert!(client.ask("CLIENT INFO").contains("name=other"));
    assert_eq!(client.ask("RESET"), "RESET");
    assert_eq!(client.ask("CLIENT GETNAME"), "nil");
    assert_eq!(client.ask("QUIT"), "OK");
    assert_eq!(client.reply(), None);
    server.stop();
}

#[test]
fn replies_can_be_switched_off() {
    let server = start();
    let mut client = Client::connect(&server);
    client.send(b"CLIENT REPLY OFF\r\nSET a 1\r\nPING\r\nFOO\r\nCLIENT REPLY ON\r\nGET a\r\n");
    assert_eq!(client.replies(2), [Value::Simple("OK".into()), Value::Bulk(b"1".to_vec())]);
    client.send(b"CLIENT REPLY SKIP\r\nINCR a\r\nGET a\r\n");
    assert_eq!(client.replies(1), [Value::Bulk(b"2".to_vec())]);
    client.send(b"CLIENT REPLY SKIP\r\nPING\r\nGET a\r\n");
    assert_eq!(client.replies(1), [Value::Bulk(b"2".to_vec())]);
    server.stop();
}

#[test]
fn the_server_describes_itself() {
    let server = start();
    let mut client = Client::connect(&server);
    let Value::Array(commands) = client.call(&[b"COMMAND"]) else { panic!("an array") };
    assert_eq!(client.ask("COMMAND COUNT"), format!(":{}", commands.len()));
    let get = client.ask("COMMAND INFO get nope");
    assert_eq!(get, "[['get' :2 [readonly fast] :1 :1 :1 [@read @string @fast] [] [] []] nil]");
    assert_eq!(client.ask("COMMAND GETKEYS MSET a 1 b 2"), "['a' 'b']");
    assert_eq!(client.ask("COMMAND GETKEYS GET k"), "['k']");
    let docs = client.ask("COMMAND DOCS get");
    assert!(docs.contains("'summary' 'Returns the value of a key.'"), "{docs}");
    assert!(client.ask("COMMAND DOCS").contains("'client|setname'"));
    assert_eq!(client.ask("CONFIG GET save"), "['save' '']");
    assert_eq!(
        client.ask("CONFIG GET max* APPENDONLY maxmemory").matches("'maxmemory'").count(),
        1
    );
    assert_eq!(client.ask("CONFIG GET nothing*"), "[]");
    let refused = client.ask("CONFIG SET databases 1");
    assert!(refused.contains("immutable"), "{refused}");
    assert!(client.ask("CONFIG HELP").contains("RESETSTAT"));
    client.ask("CONFIG RESETSTAT");
    client.ask("SET a 1");
    client.ask("GET a");
    client.text("INFO");
    let info = client.text("INFO");
    for want in ["# Server\r\n", "keyspace_hits:1\r\n", "db0:keys=1,", "db0_puts:1\r\n"] {
        assert!(info.contains(want), "{want} in {info}");
    }
    // Programs that read this know these three fields.
    assert!(info.contains("\r\ndb0:keys=1,expires=0,avg_ttl=0\r\n"), "{info}");
    for name in ["used_memory_peak", "used_cpu_user", "open_descriptors", "pubsub_channels"] {
        let line = info.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
        let value: f64 = line.expect(name).parse().expect("a number");
        assert!(value > 0.0 || name.contains("cpu") || name.contains("pubsub"), "{name}: {value}");
    }
    let clients = client.text("INFO clients");
    assert!(clients.contains("connected_clients:1") && !clients.contains("# Server"));
    assert!(info.contains("\r\nburst_requests:3\r\n"), "{info}");
    assert_eq!(client.ask("CONFIG RESETSTAT"), "OK");
    assert!(client.text("INFO stats").contains("keyspace_hits:0\r\n"));
    let Value::Array(time) = client.call(&[b"TIME"]) else { panic!("an array") };
    assert_eq!(time.len(), 2);
    server.stop();
}

#[test]
fn scan_visits_everything_once_it_is_followed() {
    let server = start();
    let mut client = Client::connect(&server);
    let keys: Vec<String> = (0..500).map(|n| format!("key:{n:03}")).collect();
    for key in &keys {
        client.call(&[b"SET", key.as_bytes(), b"x"]);
    }
    let mut cursor = b"0".to_vec();
    let mut seen = Vec::new();
    loop {
        let reply = client.call(&[b"SCAN", &cursor, b"COUNT", b"37"]);
        let Value::Array(parts) = reply else { panic!("an array") };
        let [Value::Bulk(next), Value::Array(page)] = &parts[..] else { panic!("two parts") };
        seen.extend(page.iter().map(|key| support::show(key).trim_matches('\'').to_string()));
        cursor = next.clone();
        if cursor == b"0" {
            break;
        }
    }
    seen.sort_unstable();
    assert_eq!(seen, keys);
    server.stop();
}

#[test]
fn shutdown_stops_gracefully() {
    let server = start();
    let mut client = Client::connect(&server);
    client.send(b"SET a 1\r\nSHUTDOWN NOSAVE\r\n");
    assert_eq!(client.reply(), Some(Value::Simple("OK".into())));
    assert_eq!(client.reply(), None);
    server.wait();
}
