//! The admin port: what the server counts, over HTTP, in the text format of Prometheus.

use silica::engine::{Error, ErrorKind, MetricKind, MetricVisitor, Result};
use silica::tune::recommend::{WHY_METRICS, Why};
use silica_commands::Service;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use tiny_http::{Header, Method, Request, Response};

const ABOUT: &str = "silica: /metrics has every counter in the text format of Prometheus; /why \
                     has what the models predict of each database beside what it measured\n";

/// The thread that answers on the admin port.
pub(crate) struct Admin {
    http: Arc<tiny_http::Server>,
    thread: Option<JoinHandle<()>>,
}

impl Admin {
    /// Listens on `address`, which must be a loopback one: there is no password.
    pub(crate) fn start(service: &Arc<Service>, address: SocketAddr) -> Result<Admin> {
        if !address.ip().is_loopback() {
            let text = format!(
                "the admin port has no password, so it listens on loopback only: {address} is not; \
                 use 127.0.0.1 and a proxy"
            );
            return Err(Error::new(ErrorKind::Config, text));
        }
        let http = tiny_http::Server::http(address).map_err(|e| {
            Error::new(
                ErrorKind::Io,
                format!("listen on {address} for the admin port: {e}; choose another port"),
            )
        })?;
        let http = Arc::new(http);
        let (service, requests) = (Arc::clone(service), Arc::clone(&http));
        let thread = thread::Builder::new().name("silica-admin".into()).spawn(move || {
            for request in requests.incoming_requests() {
                answer(&service, request);
            }
        });
        let thread = thread.map_err(|e| {
            Error::new(ErrorKind::Io, format!("start the admin port's thread: {e}"))
        })?;
        Ok(Admin { http, thread: Some(thread) })
    }

    /// The address that is listened on, with its real port.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.http.server_addr().to_ip()
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        self.http.unblock();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("the admin port's thread panicked");
        }
    }
}

fn answer(service: &Service, request: Request) {
    let path = request.url().split('?').next().unwrap_or_default();
    let (status, text) = match (request.method(), path) {
        (Method::Get | Method::Head, "/metrics") => (200, metrics(service)),
        (Method::Get | Method::Head, "/why") => (200, why(service)),
        (Method::Get | Method::Head, "/") => (200, ABOUT.to_string()),
        (Method::Get | Method::Head, _) => (404, format!("not found; {ABOUT}")),
        _ => (405, "only GET\n".to_string()),
    };
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    let mut response = Response::from_string(text).with_status_code(status);
    if let Ok(header) = Header::from_bytes("Content-Type", kind) {
        response.add_header(header);
    }
    // A client that is gone wants no answer.
    let _ = request.respond(response);
}

/// Everything that is counted.
fn metrics(service: &Service) -> String {
    let mut out = String::new();
    let now_ms = service.unix_ms();
    let gauges = [
        ("uptime_seconds", "time since the start", (now_ms - service.started_ms) / 1000),
        ("connected_clients", "open connections", service.client_count() as u64),
        ("clients_bytes", "bytes held for clients", service.budget.used() as u64),
        ("clients_bytes_max", "their limit", service.options.clients_bytes_max as u64),
        ("memory_bytes_max", "memory in all that was set", service.options.memory_bytes),
        ("resident_bytes", "resident memory of the process", service.resident_bytes()),
    ];
    for (name, doc, value) in gauges {
        head(&mut out, &format!("silica_{name}"), doc, MetricKind::Gauge);
        line(&mut out, format_args!("silica_{name} {value}"));
    }
    for (name, doc, value) in service.stats.described() {
        let name = format!("silica_{}_total", name.trim_start_matches("total_"));
        head(&mut out, &name, doc, MetricKind::Counter);
        line(&mut out, format_args!("{name} {value}"));
    }
    engines(service, &mut out);
    models(service, &mut out);
    out
}

/// The databases that are open, with what the models say of them.
fn explained(service: &Service) -> Vec<(usize, &'static str, Result<Why>)> {
    let of = |db| {
        let engine = service.databases.opened(db)?.descriptor().name;
        Some((db, engine, service.databases.why(db)?))
    };
    (0..service.databases.count()).filter_map(of).collect()
}

/// Prediction beside measurement, for people.
fn why(service: &Service) -> String {
    let mut out = String::new();
    for (db, engine, why) in explained(service) {
        line(&mut out, format_args!("database {db}, engine {engine}"));
        match why {
            Ok(why) => line(&mut out, format_args!("{why}")),
            Err(e) => line(&mut out, format_args!("nothing is known: {e}\n")),
        }
    }
    if out.is_empty() {
        out.push_str("no database is open that the models know; use one first\n");
    }
    out
}

/// What the models say of each open database, for Prometheus.
fn models(service: &Service, out: &mut String) {
    let all = explained(service);
    for (name, is_counter, doc) in WHY_METRICS {
        let name_here = format!("silica_{name}");
        let kind = if is_counter { MetricKind::Counter } else { MetricKind::Gauge };
        let mut is_headed = false;
        for (db, engine, why) in &all {
            let Ok(why) = why else { continue };
            for (labels, value) in why.samples(name) {
                if !is_headed {
                    head(out, &name_here, doc, kind);
                    is_headed = true;
                }
                let labels = labels.iter().map(|(label, of)| format!(",{label}=\"{of}\""));
                let labels = labels.collect::<String>();
                let those = format_args!("db=\"{db}\",engine=\"{engine}\"{labels}").to_string();
                line(out, format_args!("{name_here}{{{those}}} {value}"));
            }
        }
    }
}

/// The metrics of all engines, each with those of the others of its name.
fn engines(service: &Service, out: &mut String) {
    let mut values = Values::default();
    for db in 0..service.databases.count() {
        if let Some(engine) = service.databases.opened(db) {
            values.labels = format!("db=\"{db}\",engine=\"{}\"", engine.descriptor().name);
            engine.metrics(&mut values);
        }
    }
    for metric in silica::metrics() {
        let Some(samples) = values.samples.get(metric.name) else { continue };
        let suffix = if metric.kind == MetricKind::Counter { "_total" } else { "" };
        let name = format!("silica_engine_{}{suffix}", metric.name);
        head(out, &name, metric.doc, metric.kind);
        for (labels, value) in samples {
            line(out, format_args!("{name}{{{labels}}} {value}"));
        }
    }
}

/// Samples by metric, each with its labels.
#[derive(Default)]
struct Values {
    labels: String,
    samples: BTreeMap<&'static str, Vec<(String, f64)>>,
}

impl MetricVisitor for Values {
    fn metric(&mut self, name: &'static str, value: f64) {
        self.samples.entry(name).or_default().push((self.labels.clone(), value));
    }
}

fn head(out: &mut String, name: &str, doc: &str, kind: MetricKind) {
    let kind = if kind == MetricKind::Counter { "counter" } else { "gauge" };
    line(out, format_args!("# HELP {name} {doc}"));
    line(out, format_args!("# TYPE {name} {kind}"));
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a string takes every write");
    out.push('\n');
}
