//! The admin port.

use crate::support::{Client, Probe, Source, config, start_with};
use silica::{DEFAULT_KEYSPACE, Durability, OpenOptions};
use silica_server::{Config, Mode, Server};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

fn with_admin() -> Server {
    let admin = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    start_with(Config { admin, ..config() }, Probe::new(false)).0
}

/// Status line and body.
fn http(server: &Server, request: &str) -> (String, String) {
    let mut socket = TcpStream::connect(server.admin_addr().expect("it listens")).unwrap();
    socket
        .write_all(format!("{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes())
        .unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
    (head.lines().next().unwrap_or_default().to_string(), body.to_string())
}

/// Samples by name and labels; checks that each has its type told before.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let mut typed = "";
    let mut samples = BTreeMap::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            typed = rest.split(' ').next().unwrap();
        } else if !line.starts_with('#') {
            let (name, value) = line.rsplit_once(' ').expect("a name and a value");
            assert_eq!(name.split('{').next(), Some(typed), "{line}");
            assert!(samples.insert(name.to_string(), value.parse().unwrap()).is_none(), "{line}");
        }
    }
    samples
}

#[test]
fn metrics_tell_what_was_done() {
    let server = with_admin();
    let mut client = Client::connect(&server);
    client.ask("SET a 1");
    client.ask("MGET a b");
    let (status, body) = http(&server, "GET /metrics");
    assert_eq!(status, "HTTP/1.1 200 OK");
    let samples = samples(&body);
    assert_eq!(samples["silica_commands_processed_total"], 2.0);
    assert_eq!(samples["silica_keyspace_hits_total"], 1.0);
    assert_eq!(samples["silica_keyspace_misses_total"], 1.0);
    assert_eq!(samples["silica_connected_clients"], 1.0);
    assert_eq!(samples["silica_engine_puts_total{db=\"0\",engine=\"reference\"}"], 1.0);
    assert_eq!(samples["silica_engine_live_bytes{db=\"0\",engine=\"reference\"}"], 2.0);
    assert!(samples["silica_resident_bytes"] > 1e6);
    assert!(silica::metrics().iter().all(|metric| !metric.doc.contains('\n')), "help is one line");
    server.stop();
}

#[test]
fn why_is_on_the_page_and_among_the_metrics() {
    let directory = std::env::temp_dir().join(format!("silica-why-{}", std::process::id()));
    let options = OpenOptions::new().memory_bytes(64 << 20).durability(Durability::Buffered);
    let store = Arc::new(options.open(&directory).unwrap());
    let admin = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    let mode = Mode::Crcw;
    let server =
        Server::start(Config { admin, mode, ..config() }, Arc::clone(&store) as _).unwrap();
    let mut client = Client::connect(&server);
    for i in 0..500 {
        client.ask(&format!("SET key{i} value{i}"));
        client.ask(&format!("GET key{i}"));
    }
    let why = store.why(DEFAULT_KEYSPACE).unwrap();
    let log = why.figures.iter().find(|figure| figure.name == "written: log").unwrap();
    let (predicted, measured) = (log.predicted, log.measured.unwrap());
    assert!(predicted > 1.0 && measured > 1.0, "{predicted} {measured}");

    let (status, page) = http(&server, "GET /why");
    assert_eq!(status, "HTTP/1.1 200 OK");
    for part in ["database 0, engine wip", "predicted", "written: log", "one option changed:"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let body = http(&server, "GET /metrics").1;
    let samples = samples(&body);
    let of = |name: &str, label: &str| {
        let name = format!("silica_model_{name}{{db=\"0\",engine=\"wip\"{label}}}");
        *samples.get(&name).unwrap_or_else(|| panic!("no {name}: {body}"))
    };
    let label = ",figure=\"written: log\"";
    assert!((of("measured", label) / measured - 1.0).abs() < 1e-9);
    let drift = 100.0 * (of("measured", label) / of("predicted", label) - 1.0);
    assert!((of("drift_percent", label) - drift).abs() < 1e-6);
    assert!(of("throughput", "") > 0.0);
    assert!(of("what_if_written", ",option=\"filter_bits\",value=\"12\"") > 1.0);
    server.stop();
    drop(store);
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn other_requests_are_refused() {
    let server = with_admin();
    assert!(http(&server, "GET /").1.contains("/metrics"));
    // Nobody keeps what the models need of this engine.
    assert!(http(&server, "GET /why").1.contains("no database"));
    assert_eq!(http(&server, "GET /secrets").0, "HTTP/1.1 404 Not Found");
    assert_eq!(http(&server, "POST /metrics").0, "HTTP/1.1 405 Method Not Allowed");
    server.stop();
}

#[test]
fn it_is_not_there_unless_asked_for_and_never_beyond_loopback() {
    let (server, probe) = start_with(config(), Probe::new(false));
    assert_eq!(server.admin_addr(), None);
    server.stop();
    let admin = Some("0.0.0.0:0".parse().unwrap());
    let refused = Server::start(Config { admin, ..config() }, Arc::new(Source::new(probe)));
    let text = refused.expect_err("refused").to_string();
    assert!(text.contains("loopback only") && text.contains("127.0.0.1"), "{text}");
}
