//! MEMORY: where the memory goes.

use super::{Cx, Keyspace, introspect};
use crate::burst::Args;
use silica::device::return_freed_memory;
use silica::engine::{MetricVisitor, Result};
use silica_proto::Reply;

pub(crate) fn help(cx: &mut Cx<'_>, _: Args<'_>) {
    introspect::help(cx, "memory");
}

/// The figures of MEMORY STATS, by name.
fn figures(keys: &Keyspace<'_>) -> Result<Vec<(String, u64)>> {
    let (service, config) = (keys.service, &keys.service.options);
    let resident = service.resident_bytes();
    let clients = service.budget.used() as u64;
    let mut entries = 0;
    let mut budgets = Vec::new();
    for db in 0..service.databases.count() {
        let Some(engine) = service.databases.opened(db) else { continue };
        if let Some(admin) = engine.as_admin() {
            entries += admin.estimate()?.estimate;
        }
        let mut wanted = Wanted { name: "memory_budget_bytes", value: 0.0 };
        engine.metrics(&mut wanted);
        budgets.push((format!("db.{db}.memory_budget_bytes"), wanted.value as u64));
    }
    let per_key = resident.saturating_sub(clients).checked_div(entries).unwrap_or(0);
    let mut figures: Vec<(String, u64)> = [
        ("total.allocated", resident),
        ("clients.normal", clients),
        ("clients.bytes.max", config.clients_bytes_max as u64),
        (
            "stores.bytes.max",
            service.memory_bytes().saturating_sub(config.clients_bytes_max as u64),
        ),
        ("keys.count", entries),
        ("keys.bytes-per-key", per_key),
        ("dataset.bytes", resident.saturating_sub(clients)),
    ]
    .map(|(name, value)| (name.to_string(), value))
    .to_vec();
    figures.append(&mut budgets);
    Ok(figures)
}

/// The value of one metric.
struct Wanted {
    name: &'static str,
    value: f64,
}

impl MetricVisitor for Wanted {
    fn metric(&mut self, name: &'static str, value: f64) {
        if name == self.name {
            self.value = value;
        }
    }
}

pub(crate) fn stats(keys: &Keyspace<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let figures = figures(keys)?;
    reply.map(figures.len());
    for (name, value) in figures {
        reply.bulk(name.as_bytes());
        reply.integer(value as i64);
    }
    Ok(())
}

/// What is wrong with the memory of this process, if anything is.
fn complaints(resident: u64, memory_max: u64, clients: u64, clients_max: u64) -> Vec<String> {
    let mut list = Vec::new();
    if memory_max > 0 && resident > memory_max + memory_max / 10 {
        list.push(format!(
            "Resident memory ({resident} bytes) is more than a tenth above the number that was \
             set ({memory_max} bytes)."
        ));
    }
    if clients > clients_max / 4 * 3 {
        list.push(format!(
            "Clients hold {clients} of the {clients_max} bytes that they may: what needs more is \
             refused. Look at tot-mem in CLIENT LIST, or give more (--client-memory)."
        ));
    }
    list
}

pub(crate) fn doctor(keys: &Keyspace<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let (service, config) = (keys.service, &keys.service.options);
    let clients = service.budget.used() as u64;
    let list = complaints(
        service.resident_bytes(),
        service.memory_bytes(),
        clients,
        config.clients_bytes_max as u64,
    );
    match list.is_empty() {
        true => reply.verbatim(b"Nothing is wrong with the memory of this server.\n"),
        false => reply.verbatim((list.join("\n") + "\n").as_bytes()),
    }
    Ok(())
}

/// MEMORY PURGE: what was freed goes back to the system.
pub(crate) fn purge(_: &Keyspace<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    return_freed_memory();
    reply.ok();
    Ok(())
}

/// MEMORY MALLOC-STATS.
pub(crate) fn allocator(cx: &mut Cx<'_>, _: Args<'_>) {
    cx.reply.verbatim(b"Stats not supported for the current allocator");
}

#[cfg(test)]
mod tests {
    use super::complaints;

    #[test]
    fn only_what_is_wrong_is_complained_about() {
        assert!(complaints(109, 100, 75, 100).is_empty());
        assert!(complaints(1 << 40, 0, 0, 100).is_empty(), "no number was set");
        assert!(complaints(111, 100, 0, 100)[0].contains("Resident"));
        assert!(complaints(0, 100, 76, 100)[0].contains("Clients hold 76"));
    }
}
