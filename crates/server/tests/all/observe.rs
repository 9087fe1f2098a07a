//! What took long, and what is said about memory and settings.

use crate::support;
use crate::support::{Client, Probe, config, request, shared, start, start_with};
use std::time::Duration;

/// Runs lines while whatever takes `micros` is logged, and nothing before or after.
fn logged(client: &mut Client, micros: u64, lines: &[&str]) {
    client.ask(&format!("CONFIG SET slowlog-log-slower-than {micros}"));
    for line in lines {
        client.ask(line);
    }
    client.ask("CONFIG SET slowlog-log-slower-than -1");
}

#[test]
fn slow_requests_are_logged() {
    for may_wait in [false, true] {
        let probe = Probe { delay: Duration::from_millis(20), ..Probe::new(may_wait) };
        let (server, _) = start_with(config(), probe);
        let mut client = Client::connect(&server);
        client.ask("CLIENT SETNAME me");
        logged(&mut client, 1 << 60, &["GET quick"]);
        assert_eq!(client.ask("SLOWLOG LEN"), ":0");
        // On a busy machine a quick request may take long, but not each time.
        let mut before = 0;
        let is_alone = (0..20).any(|_| {
            client.ask("SLOWLOG RESET");
            logged(&mut client, 15_000, &["GET slow", "TIME"]);
            let len: usize = client.ask("SLOWLOG LEN")[1..].parse().unwrap();
            before += len;
            len == 1
        });
        assert!(is_alone, "TIME is not slow");
        let entry = client.ask("SLOWLOG GET");
        let peer = client.socket.local_addr().unwrap();
        assert!(entry.contains(&format!("['GET' 'slow'] '{peer}' 'me']")), "{entry}");
        // The newest are kept, and only so many.
        client.ask("CONFIG SET slowlog-max-len 2");
        logged(&mut client, 0, &["GET a", "GET b", "GET c"]);
        assert_eq!(client.ask("SLOWLOG LEN"), ":2");
        let newest = client.ask("SLOWLOG GET 1");
        assert!(
            newest.contains("['GET' 'c']") && newest.starts_with(&format!("[[:{} :", before + 2)),
            "{newest}"
        );
        client.ask("SLOWLOG RESET");
        assert_eq!(client.ask("SLOWLOG LEN"), ":0");
        server.stop();
    }
}

#[test]
fn the_log_tells_how_many_ran_together() {
    let server = start();
    let mut client = Client::connect(&server);
    client.ask("CONFIG SET slowlog-log-slower-than 0");
    client.send(&[request(&[b"GET", b"x"]), request(&[b"GET", b"y"])].concat());
    client.replies(2);
    client.ask("CONFIG SET slowlog-log-slower-than -1");
    let newest = client.ask("SLOWLOG GET 1");
    assert!(newest.contains("['GET' 'x' '... (1 more requests in the burst)']"), "{newest}");
    server.stop();
}

#[test]
fn the_log_tells_the_stages_of_reads_if_asked() {
    for may_wait in [false, true] {
        let probe = Probe { delay: Duration::from_millis(5), ..Probe::new(may_wait) };
        let (server, _) = start_with(shared(), probe);
        let mut client = Client::connect(&server);
        let shown = |client: &mut Client| {
            logged(client, 0, &["GET slow"]);
            client.ask("SLOWLOG GET 1")
        };
        assert!(!shown(&mut client).contains("stages"), "nobody asked");
        client.ask("CONFIG SET slowlog-stages 1");
        let entry = shown(&mut client);
        let (_, stages) = entry.split_once("'... (stages: ").unwrap_or_else(|| panic!("{entry}"));
        assert_eq!(stages.contains("queue "), may_wait, "only workers are waited for: {entry}");
        let (_, device) = stages.split_once("device ").unwrap_or_else(|| panic!("{entry}"));
        let micros: f64 = device.split(' ').next().unwrap().parse().unwrap();
        assert!(micros >= 5000.0, "{entry}");
        // A command of its own tells it of one key.
        let told = client.ask("SILICA.STAGES slow");
        assert!(told.contains("engine ") && told.contains("stage device "), "{told}");
        client.ask("CONFIG SET slowlog-stages 0");
        assert!(!shown(&mut client).contains("stages"));
        server.stop();
    }
}

#[test]
fn peaks_of_latency_are_told() {
    let probe = Probe { delay: Duration::from_millis(3), ..Probe::new(false) };
    let (server, _) = start_with(config(), probe);
    let mut client = Client::connect(&server);
    client.ask("GET slow");
    assert_eq!(client.ask("LATENCY LATEST"), "[]", "it is off");
    client.ask("CONFIG SET latency-monitor-threshold 2");
    client.ask("GET slow");
    client.ask("CONFIG SET latency-monitor-threshold 0");
    assert!(client.ask("LATENCY LATEST").starts_with("[['command' :"));
    assert!(client.ask("LATENCY HISTORY command").starts_with("[[:"));
    assert_eq!(client.ask("LATENCY HISTORY other"), "[]");
    assert_eq!(client.ask("LATENCY RESET other"), ":0");
    assert_eq!(client.ask("LATENCY RESET"), ":1");
    assert_eq!(client.ask("LATENCY LATEST"), "[]");
    server.stop();
}

#[test]
fn memory_is_told() {
    let server = start();
    let mut client = Client::connect(&server);
    client.ask("HELLO 3");
    client.ask("SET a 1");
    let stats = client.ask("MEMORY STATS");
    assert!(stats.contains("'keys.count'=:1"), "{stats}");
    assert!(client.text("MEMORY DOCTOR").contains("Nothing is wrong"));
    server.stop();
}

#[test]
fn policies_are_those_of_engines() {
    for (may_evict, policy) in [(false, "noeviction"), (true, "allkeys-lru")] {
        let mut probe = Probe::new(false);
        probe.descriptor.capabilities.may_evict = may_evict;
        let (server, _) = start_with(config(), probe);
        let mut client = Client::connect(&server);
        let want = format!("['maxmemory-policy' '{policy}']");
        assert_eq!(client.ask("CONFIG GET maxmemory-policy"), want);
        assert!(client.text("INFO memory").contains(&format!("maxmemory_policy:{policy}\r\n")));
        // What it is already may be set; anything else may not.
        let refused = client.ask("CONFIG SET maxmemory-policy volatile-ttl");
        let why = if may_evict { "nearest to allkeys-lru" } else { "evicts nothing" };
        assert!(refused.contains(why), "{refused}");
        assert_eq!(client.ask(&format!("CONFIG SET maxmemory-policy {policy}")), "OK");
        server.stop();
    }
}

#[test]
fn the_number_of_clients_changes_while_it_runs() {
    let server = start();
    let mut client = Client::connect(&server);
    assert_eq!(client.ask("CONFIG SET maxclients 1"), "OK");
    let mut other = Client::connect(&server);
    assert_eq!(support::show(&other.reply().unwrap()), "-ERR max number of clients reached");
    assert_eq!(client.ask("CONFIG SET maxclients 2"), "OK");
    assert_eq!(Client::connect(&server).ask("PING"), "PONG");
    server.stop();
}

#[test]
fn messages_of_a_transaction_are_sent_when_it_is_done() {
    for may_wait in [false, true] {
        let (server, _) = start_with(config(), Probe::new(may_wait));
        let (mut ear, mut mouth) = (Client::connect(&server), Client::connect(&server));
        ear.ask("SUBSCRIBE news");
        mouth.ask("WATCH a");
        mouth.ask("MULTI");
        assert_eq!(mouth.ask("PUBLISH news lost"), "QUEUED");
        assert_eq!(Client::connect(&server).ask("SET a 1"), "OK");
        assert_eq!(mouth.ask("EXEC"), "nil");
        mouth.ask("MULTI");
        for line in ["INCR a", "PUBLISH news first", "PUBLISH other x", "PUBLISH news second"] {
            assert_eq!(mouth.ask(line), "QUEUED");
        }
        assert_eq!(mouth.ask("EXEC"), "[:2 :1 :0 :1]");
        for text in ["first", "second"] {
            let message = support::show(&ear.reply().unwrap());
            assert_eq!(message, format!("['message' 'news' '{text}']"));
        }
        server.stop();
    }
}

#[test]
fn how_long_calls_took_is_counted() {
    let probe = Probe { delay: Duration::from_millis(3), ..Probe::new(false) };
    let (server, _) = start_with(config(), probe);
    let mut client = Client::connect(&server);
    client.ask("CONFIG RESETSTAT");
    for _ in 0..3 {
        client.ask("GET a");
    }
    for line in ["LATENCY HISTOGRAM", "LATENCY HISTOGRAM nope GET"] {
        let told = client.ask(line);
        assert!(told.starts_with("['get' ['calls' :3 "), "{told}");
        // At least the three took more than 2 milliseconds, and the last sum is that of all.
        let numbers = told.split([':', ' ', ']']).filter_map(|word| word.parse().ok());
        let numbers: Vec<u64> = numbers.collect();
        let (calls, (sums, [])) = (numbers[0], numbers[1..].as_chunks::<2>()) else {
            panic!("{told}")
        };
        assert!(calls >= 3 && sums.last().is_some_and(|[_, sum]| *sum == calls), "{told}");
        let quick = sums.iter().filter(|[bound, _]| *bound <= 2048).map(|[_, sum]| *sum).max();
        assert!(calls - quick.unwrap_or(0) >= 3, "{told}");
    }
    client.ask("SET a 1");
    client.ask("OBJECT ENCODING a");
    assert!(
        client.ask("LATENCY HISTOGRAM set").starts_with("['set' ['calls' :1 'histogram_usec' [")
    );
    assert_eq!(client.ask("LATENCY HISTOGRAM config"), "[]", "no engine answers it");
    client.ask("CONFIG RESETSTAT");
    assert!(!client.ask("LATENCY HISTOGRAM").contains("'get'"));
    assert_eq!(client.ask("CONFIG SET latency-tracking no"), "OK");
    client.ask("GET a");
    assert_eq!(client.ask("LATENCY HISTOGRAM get"), "[]");
    server.stop();
}

#[test]
fn what_was_refused_is_logged() {
    let server = start();
    let mut admin = Client::connect(&server);
    admin.ask("ACL SETUSER ann on >word ~own* &own* +get +set +multi +publish");
    let mut ann = Client::connect(&server);
    assert!(ann.ask("AUTH ann wrong").starts_with("-WRONGPASS"));
    ann.ask("AUTH ann word");
    ann.ask("CLIENT ID");
    ann.ask("GET other");
    ann.ask("GET other");
    ann.ask("PUBLISH news x");
    ann.ask("MULTI");
    ann.ask("DEL own1");
    let told = admin.ask("ACL LOG");
    let peer = ann.socket.local_addr().unwrap();
    let want = [
        (1, "command", "multi", "del", "ann"),
        (1, "channel", "toplevel", "news", "ann"),
        (2, "key", "toplevel", "other", "ann"),
        (1, "command", "toplevel", "client|id", "ann"),
        (1, "auth", "toplevel", "AUTH", "ann"),
    ];
    let shown = |(count, reason, context, object, user): &(u32, _, _, _, _)| {
        format!(
            "'count' :{count} 'reason' '{reason}' 'context' '{context}' 'object' '{object}' \
             'username' '{user}' 'age-seconds'"
        )
    };
    let mut rest = &told[..];
    for entry in &want {
        let shown = shown(entry);
        let at = rest.find(&shown).unwrap_or_else(|| panic!("{shown} in {rest}"));
        rest = &rest[at..];
    }
    assert_eq!(told.matches("'count'").count(), want.len());
    assert!(rest.contains(&format!("addr={peer}")), "{rest}");
    assert_eq!(admin.ask("ACL LOG 1").matches("'count'").count(), 1);
    assert_eq!(admin.ask("ACL LOG RESET"), "OK");
    assert_eq!(admin.ask("ACL LOG"), "[]");
    server.stop();
}

#[test]
fn calls_of_every_command_are_counted() {
    let server = start();
    let mut client = Client::connect(&server);
    client.send(
        b"SET a x\r\nGET a\r\nGET b\r\nINCR a\r\nGET\r\nGET a\r\nCLIENT ID\r\nCONFIG SET x y\r\n",
    );
    client.replies(8);
    let told = client.text("INFO commandstats");
    let line = |name: &str| {
        let line = told.lines().find(|line| line.starts_with(&format!("cmdstat_{name}:")));
        let line = line.unwrap_or_else(|| panic!("no {name} in {told}"));
        let fields = line.split([':', ',']).skip(1).map(|field| field.split_once('=').unwrap());
        fields.map(|(name, value)| (name, value.parse::<f64>().unwrap())).collect::<Vec<_>>()
    };
    for (name, calls, rejected, failed) in [
        ("get", 3.0, 1.0, 0.0),
        ("set", 1.0, 0.0, 0.0),
        ("incr", 1.0, 0.0, 1.0),
        ("client|id", 1.0, 0.0, 0.0),
        ("config|set", 1.0, 0.0, 1.0),
    ] {
        let [a, (usec, _), (each, _), b, c] = line(name)[..] else { panic!("five fields") };
        assert_eq!((usec, each), ("usec", "usec_per_call"));
        let want = [("calls", calls), ("rejected_calls", rejected), ("failed_calls", failed)];
        assert_eq!([a, b, c], want, "{name}");
    }
    assert!(!told.contains("cmdstat_del:"), "{told}");
    assert!(!client.text("INFO").contains("ommandstats"), "it must be asked for");
    assert!(client.text("INFO all").contains("cmdstat_get:calls=3,"));
    assert_eq!(client.ask("CONFIG RESETSTAT"), "OK");
    assert!(!client.text("INFO commandstats").contains("cmdstat_get"));
    server.stop();
}
