//! The admin port.

use crate::support::{Client, Probe, Source, config, start_with};
use silica::tune::recommend::WHY_METRICS;
use silica::{DEFAULT_KEYSPACE, Durability, OpenOptions};
use silica_server::{Config, Mode, Server};
use std::collections::{BTreeMap, BTreeSet};
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

    let models = json(&server, "/models");
    assert_eq!((&models[0]["db"], &models[0]["engine"]), (&0.into(), &"wip".into()));
    let figures = models[0]["figures"].as_array().unwrap();
    let shown = figures.iter().find(|figure| figure["name"] == "written: log").unwrap();
    assert!((shown["measured"].as_f64().unwrap() / measured - 1.0).abs() < 1e-9, "{shown}");
    assert!(figures.iter().any(|figure| figure["name"] == "write amplification"), "{figures:?}");
    let words = models[0]["words"].as_array().unwrap();
    assert!(words[0].as_str().unwrap().starts_with("The model predicts"), "{words:?}");

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
    // Nobody keeps what the models need of this engine.
    assert!(http(&server, "GET /why").1.contains("no database"));
    assert_eq!(http(&server, "GET /secrets").0, "HTTP/1.1 404 Not Found");
    assert_eq!(http(&server, "POST /metrics").0, "HTTP/1.1 405 Method Not Allowed");
    server.stop();
}

#[test]
fn the_dashboard_is_one_page_that_loads_nothing_from_elsewhere() {
    let server = with_admin();
    for path in ["/", "/dashboard"] {
        let (status, page) = http(&server, &format!("GET {path}"));
        assert_eq!(status, "HTTP/1.1 200 OK");
        assert!(page.contains("</html>") && page.contains("class Chart"), "{page}");
        for asset in ["src=", "@import", "url(", "<link rel=\"stylesheet", "eval(", "/* STYLE"] {
            assert!(!page.contains(asset), "{asset} on the page");
        }
        // The names of SVG are no addresses.
        let rest = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!rest.contains("http://") && !rest.contains("https://"), "an address on the page");
    }
    let mut socket = TcpStream::connect(server.admin_addr().expect("it listens")).unwrap();
    socket.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    assert!(text.contains("Content-Security-Policy: default-src 'none';"), "{text}");
    server.stop();
}

/// The JSON that a page of the admin port has.
fn json(server: &Server, path: &str) -> serde_json::Value {
    let (status, body) = http(server, &format!("GET {path}"));
    assert_eq!(status, "HTTP/1.1 200 OK", "{path}: {body}");
    serde_json::from_str(&body).expect("it is JSON")
}

/// Words of `text` that begin with `silica_`.
fn metric_names(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_part(c)).filter(|word| word.starts_with("silica_"));
    words.map(String::from).collect()
}

#[test]
fn every_metric_of_the_dashboard_for_grafana_exists() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/grafana/silica.json");
    let text = std::fs::read_to_string(file).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    let server = with_admin();
    let mut known = metric_names(&http(&server, "GET /metrics").1);
    let suffix = |metric: &silica::Metric| match metric.kind {
        silica::MetricKind::Counter => "_total",
        _ => "",
    };
    known
        .extend(silica::metrics().iter().map(|m| format!("silica_engine_{}{}", m.name, suffix(m))));
    known.extend(WHY_METRICS.iter().map(|(name, ..)| format!("silica_{name}")));
    let panels = dashboard["panels"].as_array().unwrap();
    let exprs = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let used: BTreeSet<String> =
        exprs.flat_map(|target| metric_names(target["expr"].as_str().unwrap())).collect();
    assert!(used.len() > 25, "{used:?}");
    let unknown: Vec<_> = used.difference(&known).collect();
    assert!(unknown.is_empty(), "no such metrics: {unknown:?}");
    server.stop();
}

#[test]
fn status_has_the_numbers_of_info() {
    let server = with_admin();
    let mut client = Client::connect(&server);
    client.ask("CLIENT SETNAME <b>tester</b>");
    client.ask("CONFIG SET slowlog-log-slower-than 0");
    for i in 0..20 {
        client.ask(&format!("SET key{i} value{i}"));
        client.ask(&format!("MGET key{i} missing{i}"));
    }
    client.ask("CONFIG SET slowlog-log-slower-than 100000");
    let info = client.text("INFO");
    let status = json(&server, "/status");
    let mut compared = 0;
    for line in info.lines() {
        let Some((name, value)) = line.split_once(':') else { continue };
        let is_moving = ["uptime", "used_", "server_time", "instantaneous", "mem_", "total_net"]
            .iter()
            .chain(&["burst", "total_commands", "open_descriptors", "clients_bytes", "read_bursts"])
            .any(|start| name.starts_with(start));
        let sections = ["server", "clients", "memory", "persistence", "stats", "cpu"];
        let found = sections.iter().find_map(|section| status[section].get(name));
        let of_database =
            name.strip_prefix("db0_").and_then(|name| status["databases"][0].get(name));
        let Some(found) = found.or(of_database).filter(|_| !is_moving) else { continue };
        let shown = found.as_str().map_or_else(|| found.to_string(), str::to_string);
        let is_equal = shown == value || shown.parse::<f64>().ok() == value.parse().ok();
        assert!(is_equal, "{name}: INFO has {value}, the page {shown}");
        compared += 1;
    }
    assert!(compared > 60, "{compared} fields");
    assert_eq!(status["stats"]["keyspace_misses"], 20);
    assert_eq!(status["databases"][0]["puts"], 20.0);
    let clients = status["client_list"].as_array().unwrap();
    assert_eq!(clients.len(), 1, "who reads the page is no client");
    assert_eq!(clients[0]["name"], "<b>tester</b>");
    let slow = status["slow_requests"].as_array().unwrap();
    let has = |part: &str| slow.iter().any(|s| s["request"].as_str().unwrap().contains(part));
    assert!(slow.len() == 20 && has("MGET key19 missing19"), "{slow:?}");
    server.stop();
}

#[test]
fn the_history_has_what_was_done_in_each_second() {
    let server = with_admin();
    let mut client = Client::connect(&server);
    let of = |history: &serde_json::Value, name: &str| -> Vec<Option<f64>> {
        let values = history["series"][name].as_array().expect(name);
        values.iter().map(serde_json::Value::as_f64).collect()
    };
    // The first row begins with the first sample.
    let rows = |least: usize| loop {
        let history = json(&server, "/history?span=300");
        if history["end_ms"].as_array().unwrap().len() >= least {
            return history;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    };
    let before = rows(1)["end_ms"].as_array().unwrap().len();
    for i in 0..300 {
        client.ask(&format!("SET key{i} value"));
        client.ask(&format!("MGET key{i} missing{i}"));
    }
    let history = rows(before + 2);
    assert_eq!((&history["step_s"], &history["steps"]), (&1.into(), &300.into()));
    let ends: Vec<u64> =
        history["end_ms"].as_array().unwrap().iter().map(|end| end.as_u64().unwrap()).collect();
    assert!(ends.windows(2).all(|pair| pair[0] < pair[1]), "{ends:?}");
    // Rows are rates of spans of about a second.
    let spans = ends.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1000.0);
    let spans: Vec<f64> = std::iter::once(1.0).chain(spans).collect();
    for (name, want) in [("hits", 300.0), ("misses", 300.0), ("writes", 300.0)] {
        let sum: f64 = of(&history, name).iter().zip(&spans).map(|(v, s)| v.unwrap() * s).sum();
        assert!((sum / want - 1.0).abs() < 0.1, "{name}: {sum} of {want}, {ends:?}");
    }
    let ratios: Vec<f64> = of(&history, "hit_ratio").into_iter().flatten().collect();
    assert!(!ratios.is_empty() && ratios.iter().all(|ratio| (ratio - 0.5).abs() < 0.02));
    assert!(of(&history, "p99_us").into_iter().flatten().any(|us| us >= 1.0));
    assert!(of(&history, "clients").iter().flatten().all(|clients| *clients == 1.0));
    // Only what is new.
    let last = ends[ends.len() - 2];
    let newer = json(&server, &format!("/history?span=300&after={last}"));
    let newer = newer["end_ms"].as_array().unwrap();
    assert!(newer.len() < ends.len() && newer[0].as_u64().unwrap() > last, "{newer:?}");
    let (status, text) = http(&server, "GET /history?span=soon");
    assert!(status.contains("400") && text.contains("span=soon"), "{status} {text}");
    server.stop();
}

/// A sample of the bursts that workers run tells where reads spend their time; this engine says
/// that it is always at its device.
#[test]
fn the_history_has_the_stages_of_reads() {
    let admin = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    let server = start_with(Config { admin, ..config() }, Probe::new(true)).0;
    let mut client = Client::connect(&server);
    let started = std::time::Instant::now();
    loop {
        (0..200).for_each(|i| drop(client.ask(&format!("GET key{i}"))));
        let history = json(&server, "/history?span=300");
        let of = |name: &str| history["series"][name].as_array().expect(name).clone();
        let device = of("stage_device_us");
        if let Some(row) = device.iter().position(|us| us.as_f64().is_some_and(|us| us > 0.0)) {
            for other in ["memory", "filter", "index", "cache", "search"] {
                assert_eq!(of(&format!("stage_{other}_us"))[row], 0, "{other}");
            }
            break;
        }
        assert!(started.elapsed().as_secs() < 60, "no burst was sampled: {history}");
    }
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
