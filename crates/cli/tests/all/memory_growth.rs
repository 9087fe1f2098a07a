//! Promise 7 for every kind of state that a client can make grow: a server that was given 64 MiB
//! stays below 110 % of it, refuses in words what does not fit, and goes on serving.
//!
//! Each kind has a server of its own and asks it for several times what it may have.

use crate::support::{Client, Reply, Server, encode, scratch};
use std::any::Any;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

const MEMORY_KIB: u64 = 64 << 10;
const MIB: usize = 1 << 20;

/// A number of the process's status file, in KiB.
fn status_kib(pid: u32, field: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("Linux has it");
    let line = text.lines().find(|line| line.starts_with(field)).expect("a field of the file");
    line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number of KiB")
}

/// What a kind makes grow, against a durable store and against a cache.
struct Kind {
    name: &'static str,
    /// Of the memory that was set.
    percent_max: u64,
    grow: fn(&Server),
}

/// Runs a kind on a store and on a cache of 64 MiB; what is over the promise, in words.
fn measure(kind: &Kind, is_cache: bool) -> Option<String> {
    let of = if is_cache { "cache" } else { "store" };
    let path = scratch(&format!("growth-{}-{of}", kind.name)).join("data");
    let server = match is_cache {
        true => Server::start_cache(&path, "64MiB", &[]),
        false => Server::start(&path, &["--memory", "64MiB"]),
    };
    let before = status_kib(server.pid(), "VmRSS:");
    let grown = catch_unwind(AssertUnwindSafe(|| {
        (kind.grow)(&server);
        // Whatever was refused, the server serves.
        assert_eq!(ask(&mut server.client(), &[b"PING"]), Reply::Status("PONG".into()));
    }));
    let highest = status_kib(server.pid(), "VmHWM:");
    let (mib, limit) = (|kib: u64| kib >> 10, MEMORY_KIB * kind.percent_max / 100);
    let wrong = grown.is_err();
    println!(
        "{of}: {}: {} MiB before, {} at most{}",
        kind.name,
        mib(before),
        mib(highest),
        if wrong { ", and wrong" } else { "" }
    );
    drop(server);
    let _ = std::fs::remove_dir_all(path.parent().expect("a scratch directory"));
    (wrong || highest > limit).then(|| {
        let why = grown.err().map(|why| panic_text(&*why)).unwrap_or_default();
        format!("{} ({of}): {highest} KiB of {limit} KiB {why}", kind.name)
    })
}

/// What a panic said.
fn panic_text(why: &(dyn Any + Send)) -> String {
    let text = why.downcast_ref::<String>().cloned();
    text.or_else(|| why.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default()
}

fn check(kinds: &[Kind]) {
    let chosen = std::env::var("GROWTH").unwrap_or_default();
    let chosen = kinds.iter().filter(|kind| kind.name.contains(&chosen));
    let over: Vec<String> =
        chosen.flat_map(|kind| [measure(kind, false), measure(kind, true)]).flatten().collect();
    assert!(over.is_empty(), "more memory than promised:\n{}", over.join("\n"));
}

/// One request, which must be answered, in whatever way.
fn ask(client: &mut Client, words: &[&[u8]]) -> Reply {
    client.ask(words).unwrap_or_else(|error| {
        let name = String::from_utf8_lossy(words[0]).into_owned();
        panic!("{name} was not answered: {error}")
    })
}

/// A request that is refused for want of memory, in words, on a connection that goes on.
fn refused(client: &mut Client, words: &[&[u8]]) {
    match ask(client, words) {
        Reply::Error(text) => {
            assert!(text.contains("--client-memory"), "the error names what helps: {text}");
        }
        other => panic!("{} was answered with {other:?}", String::from_utf8_lossy(words[0])),
    }
    assert_eq!(ask(client, &[b"PING"]), Reply::Status("PONG".into()));
}

fn is_out_of_memory(reply: &Reply) -> bool {
    matches!(reply, Reply::Error(text) if text.starts_with("OOM"))
}

/// Sends `request` again and again on one connection after the other until it was answered with
/// OOM, at most `times` times on each; the connections that were used.
fn until_refused(
    server: &Server,
    clients: usize,
    times: usize,
    request: impl Fn(usize, usize) -> Vec<Vec<u8>>,
) -> Vec<Client> {
    let mut all = Vec::new();
    let mut refusals = 0;
    for at in 0..clients {
        let mut client = server.client();
        for nth in 0..times {
            let words = request(at, nth);
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            match ask(&mut client, &words) {
                reply if is_out_of_memory(&reply) => {
                    refusals += 1;
                    break;
                }
                Reply::Many(many) => {
                    // Whoever subscribes to several gets a reply for each, up to an error.
                    let more = if words[0].ends_with(b"SUBSCRIBE") { words.len() - 2 } else { 0 };
                    assert!(!many.is_empty());
                    let mut more = (0..more).map(|_| client.reply().expect("a reply"));
                    if more.any(|reply| is_out_of_memory(&reply)) {
                        refusals += 1;
                        break;
                    }
                }
                _ => {}
            }
        }
        all.push(client);
    }
    assert!(refusals > 0, "nothing was refused");
    all
}

/// Stores `count` values of `bytes` bytes, as far as there is room.
fn fill(server: &Server, count: usize, bytes: usize) {
    let mut client = server.client();
    let value = vec![b'v'; bytes];
    for n in 0..count {
        ask(&mut client, &[b"SET", format!("v{n}").as_bytes(), &value]);
    }
}

/// Lets `clients` send `request` at the same time and read what is answered; the errors. Half of
/// them keep their connections at least: as the last resort the one that holds most is dropped.
fn at_once(server: &Server, clients: usize, request: &[u8], replies: usize) -> Vec<String> {
    let all: Vec<Client> = (0..clients).map(|_| server.client()).collect();
    let (mut errors, mut dropped) = (Vec::new(), 0);
    std::thread::scope(|scope| {
        let run = |mut client: Client| {
            // Beside the replies: a client that reads none has its requests wait.
            let mut sender = client.sender().expect("a socket can be cloned");
            scope.spawn(move || drop(sender.write_all(request)));
            let mut errors = Vec::new();
            for _ in 0..replies {
                match client.reply() {
                    Ok(Reply::Error(text)) => errors.push(text),
                    Ok(_) => {}
                    Err(_) => return (errors, true),
                }
            }
            (errors, false)
        };
        let threads: Vec<_> = all.into_iter().map(|c| scope.spawn(move || run(c))).collect();
        for thread in threads {
            let (texts, was_dropped) = thread.join().expect("the client's thread");
            errors.extend(texts);
            dropped += usize::from(was_dropped);
        }
    });
    assert!(2 * dropped <= clients, "{dropped} of {clients} connections were dropped");
    errors
}

/// A connection that is told of all keys that are written.
fn tracking(server: &Server) -> TcpStream {
    let mut client = TcpStream::connect(("127.0.0.1", server.port)).expect("it is accepted");
    client.write_all(b"HELLO 3\r\nCLIENT TRACKING ON BCAST\r\n").expect("the server reads");
    let (mut said, mut piece) = (Vec::new(), [0; 1024]);
    while !said.ends_with(b"+OK\r\n") {
        let count = client.read(&mut piece).expect("an answer");
        assert!(count > 0, "the connection was closed");
        said.extend_from_slice(&piece[..count]);
    }
    client
}

fn encoded(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(&mut bytes, words);
    bytes
}

fn numbered(first: &str, prefix: &str, count: usize) -> Vec<u8> {
    let names: Vec<String> = (0..count).map(|n| format!("{prefix}{n:07}")).collect();
    let mut words: Vec<&[u8]> = vec![first.as_bytes()];
    words.extend(names.iter().map(|name| name.as_bytes()));
    encoded(&words)
}

#[test]
fn values_are_counted_before_they_are_made() {
    check(&[
        Kind {
            name: "setbit",
            percent_max: 110,
            grow: |server| {
                let mut client = server.client();
                refused(&mut client, &[b"SETBIT", b"b", b"4294967295", b"1"]);
                refused(&mut client, &[b"SETRANGE", b"b", b"536870000", b"x"]);
                refused(&mut client, &[b"BITFIELD", b"b", b"SET", b"u8", b"4294967200", b"1"]);
                assert_eq!(ask(&mut client, &[b"BITCOUNT", b"b"]), Reply::Number(0));
            },
        },
        Kind {
            name: "append",
            percent_max: 110,
            grow: |server| {
                let mib = vec![b'x'; MIB];
                let mut client = server.client();
                let mut reply = Reply::Number(0);
                for _ in 0..40 {
                    reply = ask(&mut client, &[b"APPEND", b"a", &mib]);
                    ask(&mut client, &[b"COPY", b"a", b"c", b"REPLACE"]);
                    ask(&mut client, &[b"BITOP", b"NOT", b"d", b"a"]);
                    ask(&mut client, &[b"BITCOUNT", b"a"]);
                    ask(&mut client, &[b"DUMP", b"a"]);
                }
                assert!(matches!(reply, Reply::Error(_)), "{reply:?}");
            },
        },
        Kind {
            name: "mget",
            percent_max: 110,
            grow: |server| {
                fill(server, 40, MIB);
                let keys: Vec<String> = (0..100).map(|n| format!("v{}", n % 40)).collect();
                let mut words: Vec<&[u8]> = vec![b"MGET"];
                words.extend(keys.iter().map(|key| key.as_bytes()));
                at_once(server, 8, &encoded(&words), 1);
                let text = [b"get ", words[1..].join(&b' ').as_slice(), b"\r\n"].concat();
                for _ in 0..8 {
                    let mut client = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
                    client.write_all(&text).unwrap();
                    drop(client);
                }
                at_once(server, 8, &encoded(&[b"PING"]), 1);
            },
        },
    ]);
}

#[test]
fn values_of_several_commands_are_counted() {
    check(&[
        Kind {
            name: "large values",
            percent_max: 110,
            grow: |server| {
                let mib = vec![b'x'; 3 * MIB];
                let mut pipeline = Vec::new();
                for n in 0..4 {
                    let key = format!("l{n}");
                    encode(&mut pipeline, &[b"SET", key.as_bytes(), &mib]);
                    encode(&mut pipeline, &[b"GETSET", key.as_bytes(), &mib]);
                    encode(&mut pipeline, &[b"APPEND", key.as_bytes(), &mib[..1000]]);
                    encode(&mut pipeline, &[b"GET", key.as_bytes()]);
                    encode(&mut pipeline, &[b"GETRANGE", key.as_bytes(), b"0", b"9"]);
                }
                at_once(server, 8, &pipeline, 20);
            },
        },
        Kind {
            name: "large writes",
            percent_max: 110,
            grow: |server| {
                // What each of eight writers has in hand meets what jobs have of the same values.
                let mib = vec![b'x'; 3 * MIB];
                let mut pipeline = Vec::new();
                for n in 0..12 {
                    encode(&mut pipeline, &[b"SET", format!("w{}", n % 8).as_bytes(), &mib]);
                }
                at_once(server, 8, &pipeline, 12);
            },
        },
        Kind {
            name: "growing values",
            percent_max: 110,
            grow: |server| {
                let part = vec![b'x'; MIB / 4];
                let mut pipeline = Vec::new();
                for n in 0..64 {
                    let key = format!("g{}", n % 4);
                    encode(&mut pipeline, &[b"APPEND", key.as_bytes(), &part]);
                }
                at_once(server, 8, &pipeline, 64);
            },
        },
        Kind {
            name: "transactions",
            percent_max: 110,
            grow: |server| {
                fill(server, 20, MIB);
                let mut pipeline = encoded(&[b"MULTI"]);
                for n in 0..100 {
                    let key = format!("v{}", n % 20);
                    encode(&mut pipeline, &[b"GET", key.as_bytes()]);
                }
                encode(&mut pipeline, &[b"EXEC"]);
                at_once(server, 8, &pipeline, 102);
            },
        },
        Kind {
            name: "lcs",
            percent_max: 110,
            grow: |server| {
                let mut client = server.client();
                ask(&mut client, &[b"SET", b"x", &[b'a'; 4000]]);
                ask(&mut client, &[b"SET", b"y", &[b'b'; 4000]]);
                let lcs = encoded(&[b"LCS", b"x", b"y", b"LEN"]);
                at_once(server, 4, &lcs, 1);
                refused(&mut client, &[b"LCS", b"x", b"y", b"LEN"]);
            },
        },
    ]);
}

#[test]
fn requests_are_counted_while_they_come() {
    check(&[
        Kind {
            name: "unfinished",
            percent_max: 110,
            grow: |server| {
                // 100 KB of a request that has announced a little more.
                let start = [&b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$110000\r\n"[..], &[b'x'; 100_000]];
                let (start, rest) = (start.concat(), [&[b'x'; 10_000][..], b"\r\n"].concat());
                let mut all: Vec<Client> = (0..800).map(|_| server.client()).collect();
                all.iter_mut().for_each(|client| client.send(&start).expect("the server reads"));
                let mut kept = 0;
                let mut refused = 0;
                for client in &mut all {
                    if client.send(&rest).is_err() {
                        continue;
                    }
                    match client.reply() {
                        Ok(Reply::Status(_)) => kept += 1,
                        Ok(reply) if is_out_of_memory(&reply) => refused += 1,
                        Ok(other) => panic!("{other:?}"),
                        Err(_) => continue,
                    }
                    let pong = client.ask(&[b"PING"]).expect("the connection is kept");
                    assert_eq!(pong, Reply::Status("PONG".into()));
                }
                assert!(kept > 50 && refused > 300, "{kept} kept, {refused} refused");
                assert!(kept + refused > 780, "{kept} kept, {refused} refused");
            },
        },
        Kind {
            name: "announced",
            percent_max: 110,
            grow: |server| {
                let mut all: Vec<Client> = (0..20).map(|_| server.client()).collect();
                for client in &mut all {
                    client.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$7000000\r\n").unwrap();
                    client.send(&vec![b'x'; 6 * MIB]).expect("the server reads");
                }
                let mut other = server.client();
                assert_eq!(ask(&mut other, &[b"PING"]), Reply::Status("PONG".into()));
                // What could never pass is refused at once, and read past.
                let huge = vec![b'x'; 40 * MIB];
                drop(all);
                refused(&mut other, &[b"SET", b"k", &huge]);
            },
        },
    ]);
}

#[test]
fn many_small_requests_are_counted() {
    check(&[
        Kind {
            name: "many arguments",
            percent_max: 110,
            grow: |server| {
                fill(server, 10, 10);
                for (word, many) in [("DEL", 150_000), ("MGET", 150_000), ("EXISTS", 150_000)] {
                    at_once(server, 6, &numbered(word, "key", many), 1);
                }
                at_once(server, 4, &numbered("MSET", "key", 40_000), 1);
                at_once(server, 1, &numbered("DEL", "key", 500_000), 1);
            },
        },
        Kind {
            name: "small pipelines",
            percent_max: 110,
            grow: |server| {
                let mut pipeline = Vec::new();
                for n in 0..200_000 {
                    encode(&mut pipeline, &[b"INCR", format!("n{}", n % 100).as_bytes()]);
                }
                at_once(server, 8, &pipeline, 200_000);
            },
        },
        Kind {
            name: "keys",
            percent_max: 110,
            grow: |server| {
                let mut client = server.client();
                for first in (0..400).step_by(10) {
                    let mut pipeline = Vec::new();
                    for n in first..first + 10 {
                        let names: Vec<String> =
                            (0..100).map(|m| format!("{n}-{m}-{:0400}", 7)).collect();
                        let mut words: Vec<&[u8]> = vec![b"MSET"];
                        names.iter().for_each(|name| words.extend([name.as_bytes(), b"v"]));
                        encode(&mut pipeline, &words);
                    }
                    client.send(&pipeline).expect("the server reads");
                    (0..10).for_each(|_| drop(client.reply().expect("a reply")));
                }
                at_once(server, 6, &encoded(&[b"KEYS", b"*"]), 1);
                at_once(server, 6, &encoded(&[b"SCAN", b"0", b"COUNT", b"10000"]), 1);
            },
        },
    ]);
}

fn long_name(at: usize, nth: usize) -> Vec<u8> {
    format!("{at}:{nth}:{:02000}", 7).into_bytes()
}

/// A command with `count` long names behind `first`.
fn many(first: &[&[u8]], at: usize, nth: usize, count: usize) -> Vec<Vec<u8>> {
    let mut words: Vec<Vec<u8>> = first.iter().map(|word| word.to_vec()).collect();
    words.extend((0..count).map(|n| long_name(at, nth * count + n)));
    words
}

#[test]
fn what_connections_keep_is_counted() {
    check(&[
        Kind {
            name: "channels",
            percent_max: 110,
            grow: |server| {
                until_refused(server, 20, 20, |at, nth| many(&[b"SUBSCRIBE"], at, nth, 100));
                let mut client = server.client();
                for _ in 0..5 {
                    ask(&mut client, &[b"PUBSUB", b"CHANNELS"]);
                }
            },
        },
        Kind {
            name: "patterns",
            percent_max: 110,
            grow: |server| {
                until_refused(server, 20, 20, |at, nth| many(&[b"PSUBSCRIBE"], at, nth, 100));
            },
        },
        Kind {
            name: "watch",
            percent_max: 110,
            grow: |server| {
                until_refused(server, 40, 10, |at, nth| many(&[b"WATCH"], at, nth, 100));
            },
        },
    ]);
}

#[test]
fn what_transactions_and_trackers_keep_is_counted() {
    check(&[
        Kind {
            name: "multi",
            percent_max: 110,
            grow: |server| {
                until_refused(server, 20, 50, |_, nth| match nth {
                    0 => vec![b"MULTI".to_vec()],
                    _ => vec![b"SET".to_vec(), b"k".to_vec(), vec![b'v'; 100_000]],
                });
            },
        },
        Kind {
            name: "small multi",
            percent_max: 110,
            grow: |server| {
                let mut pipeline = encoded(&[b"MULTI"]);
                for _ in 0..200_000 {
                    encode(&mut pipeline, &[b"INCR", b"n"]);
                }
                encode(&mut pipeline, &[b"DISCARD"]);
                at_once(server, 8, &pipeline, 200_002);
            },
        },
        Kind {
            name: "tracking",
            percent_max: 110,
            grow: |server| {
                until_refused(server, 40, 20, |at, nth| {
                    let mut words: Vec<Vec<u8>> =
                        ["CLIENT", "TRACKING", "ON", "BCAST"].map(|w| w.as_bytes().to_vec()).into();
                    for n in 0..50 {
                        words.extend([b"PREFIX".to_vec(), long_name(at, nth * 50 + n)]);
                    }
                    words
                });
            },
        },
        Kind {
            name: "names",
            percent_max: 110,
            grow: |server| {
                let name = vec![b'n'; MIB];
                let mut all = Vec::new();
                for _ in 0..100 {
                    let mut client = server.client();
                    ask(&mut client, &[b"CLIENT", b"SETNAME", &name]);
                    ask(&mut client, &[b"CLIENT", b"SETINFO", b"LIB-NAME", &name]);
                    all.push(client);
                }
                ask(&mut all[0], &[b"CLIENT", b"LIST"]);
            },
        },
    ]);
}

#[test]
fn what_the_server_keeps_for_clients_is_counted() {
    check(&[
        Kind {
            name: "messages",
            percent_max: 110,
            grow: |server| {
                let mut slow: Vec<Client> = (0..60).map(|_| server.client()).collect();
                for client in &mut slow {
                    ask(client, &[b"SUBSCRIBE", b"ch"]);
                }
                let mut pipeline = Vec::new();
                let message = vec![b'm'; 50_000];
                for _ in 0..200 {
                    encode(&mut pipeline, &[b"PUBLISH", b"ch", &message]);
                }
                at_once(server, 2, &pipeline, 200);
            },
        },
        Kind {
            name: "invalidations",
            percent_max: 110,
            grow: |server| {
                let slow: Vec<TcpStream> = (0..60).map(|_| tracking(server)).collect();
                let mut pipeline = Vec::new();
                for n in 0..4000 {
                    let key = format!("{n}:{:02000}", 7);
                    encode(&mut pipeline, &[b"SET", key.as_bytes(), b"v"]);
                }
                at_once(server, 1, &pipeline, 4000);
                drop(slow);
            },
        },
    ]);
}

#[test]
fn what_logs_and_users_take_is_counted() {
    check(&[
        Kind {
            name: "slow log",
            percent_max: 110,
            grow: |server| {
                let mut client = server.client();
                ask(&mut client, &[b"CONFIG", b"SET", b"slowlog-log-slower-than", b"0"]);
                ask(&mut client, &[b"CONFIG", b"SET", b"slowlog-max-len", b"100000"]);
                let mut words: Vec<&[u8]> = vec![b"EXISTS"];
                words.extend([&[b'k'; 128][..]; 31]);
                let request = encoded(&words);
                for _ in 0..20_000 {
                    client.send(&request).expect("the server reads");
                    client.reply().expect("a reply");
                }
                ask(&mut client, &[b"SLOWLOG", b"GET", b"100000"]);
            },
        },
        Kind {
            name: "users",
            percent_max: 110,
            grow: |server| {
                let pattern = format!("~{:08000}", 7);
                until_refused(server, 1, 20_000, |_, nth| {
                    let words = ["ACL", "SETUSER", &format!("u{nth}"), &pattern];
                    words.map(|word| word.as_bytes().to_vec()).into()
                });
                ask(&mut server.client(), &[b"ACL", b"LIST"]);
            },
        },
        Kind {
            name: "refusals",
            percent_max: 110,
            grow: |server| {
                let mut client = server.client();
                ask(&mut client, &[b"CONFIG", b"SET", b"acllog-max-len", b"100000"]);
                ask(&mut client, &[b"ACL", b"SETUSER", b"ann", b"on", b"nopass", b"+get"]);
                let mut ann = server.client();
                ask(&mut ann, &[b"AUTH", b"ann", b"x"]);
                for first in 0..40 {
                    let mut pipeline = Vec::new();
                    for n in 0..500 {
                        let key = format!("{:01000}", first * 500 + n);
                        encode(&mut pipeline, &[b"GET", key.as_bytes()]);
                    }
                    ann.send(&pipeline).expect("the server reads");
                    (0..500).for_each(|_| drop(ann.reply().expect("a reply")));
                }
                ask(&mut client, &[b"ACL", b"LOG", b"100000"]);
            },
        },
        Kind {
            name: "connections",
            percent_max: 110,
            grow: |server| {
                let mut all = Vec::new();
                for _ in 0..3000 {
                    let Ok(client) = Client::connect(server.port) else { break };
                    all.push(client);
                }
                std::thread::sleep(Duration::from_millis(1));
            },
        },
    ]);
}
