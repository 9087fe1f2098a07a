//! Memcached and we answer the same bytes with the same replies, byte for byte.

use crate::support::cases::META;
use crate::support::memcached::{Memcached, Raw};
use crate::support::{Probe, config, start_with};
use silica_base::{Prng, test_size};
use silica_server::Config;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// What each request is sent with on a connection of its own.
const CASES: &[&str] = &[
    "get\r\n",
    "get \r\n",
    "gets\r\n",
    "gat 10\r\n",
    "gat x a\r\n",
    "bget a\r\n",
    "get a noreply\r\n",
    "  get  a  \r\n",
    "get\ta\r\n",
    "get a\0b\r\n",
    "GET a\r\n",
    "\r\n",
    " \r\n",
    "\n",
    "x\r\n",
    "ab\n",
    "set a 4294967296 0 1\r\nx\r\nget a\r\n",
    "set a 4294967295 0 1\r\nx\r\nget a\r\n",
    "set a 007 +5 01\r\nx\r\nget a\r\n",
    "set a -1 0 1\r\nxy\r\n",
    "set a 0 0 -1\r\nxy\r\n",
    "set a 0 0 x\r\nfoo\r\n",
    "set a 0 0\r\nfoo\r\n",
    "set a 0 0 1 noreply x\r\nfoo\r\n",
    "set a 0 0 1\r\nxy\r\n\r\n",
    "set a 0 0 1\r\nxyz\r\nget a\r\n",
    "set a 0 0 1 noreply\r\nxy\r\n",
    "set a b c noreply\r\n",
    "set a 0 0 noreply x\r\n",
    "set a 0 c noreply noreply\r\n",
    "set a 0 0 3 maybe\r\nfoo\r\nget a\r\n",
    "set a 0 0 3\nfoo\r\nget a\n",
    "set a 0 -1 3\r\nfoo\r\nget a\r\nadd a 0 0 3\r\nbar\r\nget a\r\n",
    "set a 0 100 3\r\nfoo\r\ntouch a -1\r\nget a\r\n",
    "set a 0 2592001 3\r\nfoo\r\nget a\r\n",
    "set a 0 4000000000000 3\r\nfoo\r\n",
    "cas a 0 0 1\r\nfoo\r\n",
    "cas a 0 0 3 x\r\nfoo\r\n",
    "cas a 0 0 3 1\r\nfoo\r\n",
    "cas a 0 0 3 1 noreply\r\nfoo\r\n",
    "delete\r\n",
    "delete a 0\r\n",
    "delete a 1\r\n",
    "delete a 0 noreply\r\n",
    "delete a noreply\r\n",
    "delete a b c d\r\n",
    "incr a\r\n",
    "incr a b\r\n",
    "incr a -1\r\n",
    "incr a 1 2 3\r\n",
    "set a 0 0 2\r\n12\r\nincr a 1\r\ndecr a 1 noreply\r\nget a\r\n",
    "set a 0 0 0\r\n\r\nincr a 1\r\n",
    "set a 0 0 5\r\n12 34\r\nincr a 1\r\nget a\r\n",
    "set a 0 0 3\r\n-12\r\nincr a 1\r\n",
    "set a 0 0 21\r\n000000000000000000012\r\nincr a 1\r\n",
    "set a 0 0 20\r\n00000000000000000012\r\nincr a 1\r\n",
    "set a 0 0 20\r\n18446744073709551615\r\nincr a 1\r\n",
    "set a 5 0 1\r\n1\r\nincr a 99\r\nget a\r\n",
    "touch a\r\n",
    "touch a b\r\n",
    "touch a 1 2 3\r\n",
    "verbosity\r\n",
    "verbosity x\r\n",
    "verbosity 0\r\n",
    "verbosity 0 noreply\r\n",
    "verbosity 0 0 0\r\n",
    "flush_all x\r\n",
    "flush_all -1\r\n",
    "flush_all 0 noreply\r\n",
    "flush_all noreply\r\n",
    "flush_all 1 2 3 4\r\n",
    "stats foo\r\n",
    "stats reset\r\n",
    "stats sizes\r\n",
    "stats detail\r\n",
    "shutdown\r\n",
    "slabs\r\n",
    "lru\r\n",
    "a b c d e f g h i j k l m n o p q r s t u v w x y z\r\n",
    "quit\r\n",
    "quit now\r\n",
    "POST / HTTP/1.1\r\n",
];

/// Cases that are too long to be written down.
fn long_cases() -> Vec<String> {
    let (fits, long) = ("k".repeat(250), "k".repeat(251));
    let mut cases = vec![
        format!("get {}\r\n", "none ".repeat(3000)),
        format!("set {fits} 0 0 1\r\nx\r\nget {fits}\r\n"),
        format!("add a 0 0 2000000\r\n{}\r\nget a\r\n", "x".repeat(2_000_000)),
        format!("set a 0 0 1\r\nx\r\nset a 0 0 2000000\r\n{}\r\nget a\r\n", "x".repeat(2_000_000)),
        format!("set a 0 0 2000000 noreply\r\n{}\r\nget a\r\n", "x".repeat(2_000_000)),
        format!("set a 0 0 700000\r\n{0}\r\nappend a 0 0 700000\r\n{0}\r\n", "x".repeat(700_000)),
    ];
    for command in ["get", "gets", "gat 0", "delete", "get a", "gat 0 a"] {
        cases.push(format!("{command} {long}\r\n"));
    }
    for rest in ["touch K 0", "incr K 1", "incr K x", "set K 0 0 1", "cas K 0 0 1 1", "touch K x"] {
        cases.push(format!("{}\r\n", rest.replace('K', &long)));
    }
    cases
}

/// Both servers, and ours on either kind of engine.
fn both(test: impl Fn(SocketAddr, SocketAddr)) {
    for may_wait in [false, true] {
        let Some(memcached) = Memcached::start() else { return };
        let door = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
        let (server, _) = start_with(Config { memcached: door, ..config() }, Probe::new(may_wait));
        test(memcached.address, server.memcached_addrs()[0]);
        server.stop();
    }
}

/// The replies, without what is each server's own: the uniques of entries, and the blanks that
/// memcached leaves behind a number that got shorter.
fn comparable(replies: &str) -> String {
    let mut lines = Vec::new();
    let mut rest = replies.split("\r\n");
    while let Some(line) = rest.next() {
        let words: Vec<&str> = line.split(' ').collect();
        if let ["VALUE", key, flags, _, ..] = words[..] {
            let unique = if words.len() > 4 { " <unique>" } else { "" };
            let data = rest.next().unwrap_or_default().trim_end_matches(' ');
            lines.push(format!("VALUE {key} {flags} {}{unique}", data.len()));
            lines.push(data.to_string());
        } else if let ["HD" | "VA", ..] = words[..] {
            lines.push(words.into_iter().map(own).collect::<Vec<_>>().join(" "));
        } else {
            lines.push(line.to_string());
        }
    }
    lines.join("\r\n")
}

/// A meta flag without what is each server's own: uniques, and the second in which time is told.
fn own(word: &str) -> String {
    let number = |word: &str| word.get(1..).and_then(|n| n.parse::<u64>().ok());
    match (word.as_bytes().first(), number(word)) {
        (Some(b'c'), Some(_)) => "c<unique>".into(),
        (Some(b't'), Some(n)) => format!("t{}", given(n)),
        _ => word.into(),
    }
}

/// The expiry that a request gave, of which `left` seconds are left: the two servers are not asked
/// in the same second.
fn given(left: u64) -> u64 {
    match left {
        41..=100 => 100,
        2941..=3000 => 3000,
        1_000_000.. => 1_000_000,
        other => other,
    }
}

#[test]
fn single_requests() {
    both(|theirs, ours| {
        let cases = CASES.iter().chain(META).map(|case| case.to_string()).chain(long_cases());
        for case in cases {
            let ask = |address| {
                let mut client = Raw::connect(address);
                client.exchange(b"flush_all\r\n");
                comparable(&client.exchange(case.as_bytes()))
            };
            let shown: String = case.chars().take(100).collect();
            assert_eq!(ask(ours), ask(theirs), "{shown:?}");
        }
    });
}

/// A random request; `U` stands for the unique of its key that the server last told.
fn request(random: &mut Prng, n: u64) -> (String, String) {
    let class = ["k", "n"][random.below(2) as usize];
    let key = format!("{class}{}", random.below(5));
    let noreply = if random.below(8) == 0 { " noreply" } else { "" };
    let expiry = [0, 0, 100, -1, 3000, 2_000_000_000][random.below(6) as usize];
    let flags = random.below(3);
    // A value that comes once only, since a value that comes back brings its unique back.
    let value = format!("{:010}", 5_000_000_000 + n * 1000);
    let len = value.len();
    let store = |word: &str| format!("{word} {key} {flags} {expiry} {len}{noreply}\r\n{value}\r\n");
    // Numbers do not get shorter: memcached would leave blanks behind them.
    let delta = 1 + random.below(900);
    if random.below(2) == 0 {
        return (key.clone(), meta_request(random, &key, &value));
    }
    let text = match random.below(16) {
        0 | 1 => store("set"),
        2 => store("add"),
        3 => store("replace"),
        4 => format!("append {key} 9 9 4{noreply}\r\n-end\r\n"),
        5 => format!("prepend {key} 9 9 1{noreply}\r\n1\r\n"),
        6 | 7 => format!("cas {key} {flags} {expiry} {len} U{noreply}\r\n{value}\r\n"),
        8 => format!("incr n{} {delta}{noreply}\r\n", random.below(5)),
        9 => format!("decr n{} {delta}{noreply}\r\n", random.below(5)),
        10 => format!("touch {key} {expiry}{noreply}\r\n"),
        11 => format!("delete {key}{noreply}\r\n"),
        12 => format!("gat {expiry} {key} k0 k1\r\n"),
        13 => format!("get k0 k1 k2 {key}\r\n"),
        _ => format!("gets {key}\r\n"),
    };
    (key, text)
}

/// A random meta command.
fn meta_request(random: &mut Prng, key: &str, value: &str) -> String {
    let mut flags = String::new();
    let mut some = |list: &[&str]| {
        for flag in list {
            if random.below(4) == 0 {
                flags.push(' ');
                flags.push_str(flag);
            }
        }
        random.below(6)
    };
    match some(&["k", "Oabc"]) {
        0 | 1 => {
            // Numbers are not marked: memcached keeps the mark of one that is changed in place.
            let marks: &[&str] = if key.starts_with('k') { &["N100", "R200"] } else { &[] };
            some(&["v", "t", "f", "s", "T100", "q", "c"]);
            some(marks);
            format!("mg {key}{flags}\r\n")
        }
        2 | 3 => {
            let mode = ["", " ME", " MR", " MA", " MP", " MS"][some(&["F3", "T100"]) as usize];
            some(&["q", "c", "CU"]);
            some(if key.starts_with('k') { &["I"] } else { &[] });
            format!("ms {key} {}{flags}{mode}\r\n{value}\r\n", value.len())
        }
        4 => {
            some(&["q", "CU", "T100"]);
            some(if key.starts_with('k') { &["I"] } else { &[] });
            format!("md {key}{flags}\r\n")
        }
        _ => {
            let key = key.replace('k', "n");
            let mode = ["", " MI", " MD", " M+", " M-", " D7"][some(&["v", "t", "c"]) as usize];
            some(&["q", "CU", "N100", "J5000000000", "T100"]);
            format!("ma {key}{flags}{mode}\r\n")
        }
    }
}

/// The unique in the answer to a `gets`; not that of an empty entry, which comes again.
fn unique_in(replies: &str) -> Option<u64> {
    let words: Vec<&str> = replies.lines().next()?.split(' ').collect();
    (words.first() == Some(&"VALUE") && words.get(3) != Some(&"0"))
        .then(|| words.get(4)?.parse().ok())
        .flatten()
}

#[test]
fn random_requests() {
    let steps = test_size(1500, 6000, 1_000_000);
    both(|theirs, ours| {
        let mut random = Prng::new(0xCAFE);
        let mut sides = [theirs, ours].map(|address| (Raw::connect(address), BTreeMap::new()));
        let mut log = Vec::new();
        for n in 0..steps {
            let (key, text) = request(&mut random, n);
            log.push(text.clone());
            let answers = sides.each_mut().map(|(client, uniques)| {
                let unique = uniques.get(&key).copied().unwrap_or(1);
                let replies = client.exchange(text.replace('U', &unique.to_string()).as_bytes());
                if let Some(unique) = unique_in(&replies) {
                    uniques.insert(key.clone(), unique);
                }
                comparable(&replies)
            });
            let recent = &log[log.len().saturating_sub(12)..];
            assert_eq!(answers[1], answers[0], "after {recent:#?}");
        }
    });
}
