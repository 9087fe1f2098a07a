//! Every counter in the text format of Prometheus.

use super::replicas;
use super::why::explained;
use silica::engine::{MetricKind, MetricVisitor};
use silica::tune::recommend::WHY_METRICS;
use silica_commands::Service;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Everything that is counted.
pub(super) fn metrics(service: &Service) -> String {
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
    out += &replicas::metrics(&service.info(&["replication"]).unwrap_or_default());
    engines(service, &mut out);
    models(service, &mut out);
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
