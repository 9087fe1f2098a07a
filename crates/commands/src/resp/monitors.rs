//! MONITOR: connections that are shown every request of every client.
//!
//! A request is shown when it is planned, which is in the order of its connection; those of a
//! transaction at EXEC, and those of a script when it has run. Commands of administrators are not
//! shown, and no passwords. If nobody monitors, a request costs a load at most.

use crate::budget::Share;
use crate::burst::Args;
use crate::clients::Client;
use crate::push::{Delivery, Published, Push};
use crate::service::Service;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Memory of a line for one connection beside its bytes.
const LINE_BYTES: usize = 128;

/// The connections that are shown requests.
#[derive(Debug, Default)]
pub(crate) struct Monitors {
    count: AtomicUsize,
    list: Mutex<BTreeMap<u64, Arc<Client>>>,
}

impl Monitors {
    fn list(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Client>>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if somebody monitors.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.count.load(Relaxed) > 0
    }

    pub(crate) fn add(&self, client: Arc<Client>) {
        client.monitors.store(true, Relaxed);
        let mut list = self.list();
        list.insert(client.id, client);
        self.count.store(list.len(), Relaxed);
    }

    pub(crate) fn remove(&self, client: &Client) {
        if client.monitors.swap(false, Relaxed) {
            let mut list = self.list();
            list.remove(&client.id);
            self.count.store(list.len(), Relaxed);
        }
    }

    /// Shows `line` to all; a connection that does not read its lines is dropped by its loop.
    pub(crate) fn show(&self, service: &Service, line: &str) {
        for client in self.list().values() {
            let share = Share::new(&service.budget);
            if share.grow(line.len() + LINE_BYTES).is_err() {
                log::warn!("a line of MONITOR is lost: the clients' memory is full");
                continue;
            }
            let owner = client.owner();
            let delivery = Delivery { to: owner, pattern: None };
            let push = Push::Line { line: line.into(), _share: share };
            service.front.publish(client.loop_index, Arc::new(Published(push)), vec![delivery]);
        }
    }
}

/// The line of a request to database `db` that `source` has sent: an address, or `lua`.
pub(crate) fn line(
    service: &Service,
    db: usize,
    source: &dyn std::fmt::Display,
    args: Args<'_>,
) -> String {
    let now_us = service.unix_us();
    let mut out = format!("{}.{:06} [{db} {source}]", now_us / 1_000_000, now_us % 1_000_000);
    for (at, arg) in args.from(0).enumerate() {
        out.push_str(" \"");
        if is_secret(args, at) {
            out.push_str("(redacted)")
        } else {
            escape(arg, &mut out)
        }
        out.push('"');
    }
    out
}

/// True if argument `at` is a password or the name of a user that comes with one.
fn is_secret(args: Args<'_>, at: usize) -> bool {
    let is_behind_auth = |by: usize| at >= by + 2 && args.is(at - by, "auth");
    (args.is(0, "auth") && at > 0)
        || (args.is(0, "hello") && (is_behind_auth(1) || is_behind_auth(2)))
}

/// Appends `bytes` as Redis quotes them.
fn escape(bytes: &[u8], out: &mut String) {
    for byte in bytes {
        match byte {
            b'\\' | b'"' => out.extend(['\\', char::from(*byte)]),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            7 => out.push_str("\\a"),
            8 => out.push_str("\\b"),
            b' '..=b'~' => out.push(char::from(*byte)),
            _ => write!(out, "\\x{byte:02x}").expect("a string takes every write"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_proto::Span;

    #[test]
    fn bytes_are_quoted_and_secrets_are_hidden() {
        let mut out = String::new();
        escape(b"a \"b\\\n\x01\xe9", &mut out);
        assert_eq!(out, "a \\\"b\\\\\\n\\x01\\xe9");
        let shown = |line: &str| {
            let mut spans = Vec::new();
            for word in line.split(' ') {
                let start = word.as_ptr().addr() - line.as_ptr().addr();
                spans.push(Span { start: start as u32, len: word.len() as u32 });
            }
            let args = Args::new(line.as_bytes(), &spans);
            (0..args.len()).filter(|at| is_secret(args, *at)).collect::<Vec<_>>()
        };
        assert_eq!(shown("AUTH pw"), [1]);
        assert_eq!(shown("hello 3 AUTH user pw SETNAME x"), [3, 4]);
        assert_eq!(shown("set auth pw"), Vec::<usize>::new());
    }
}
