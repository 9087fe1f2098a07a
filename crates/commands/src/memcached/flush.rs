//! Removing everything, now or later.

use super::binary;
use super::expiry::expires;
use crate::burst::{Args, Burst, Input, Output, Request};
use crate::lane::Lane;
use crate::push::Owner;
use crate::resp::Keyspace;
use crate::table::Run;
use silica::engine::{Error, ErrorKind, Result};
use silica_proto::Reply;
use silica_proto::memcached::Request as Head;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// When everything is to be removed.
#[derive(Debug, Default)]
pub(crate) struct Flush(AtomicU64);

impl Flush {
    /// Sets the time in Unix milliseconds; 0 for never.
    fn set(&self, at_ms: u64) {
        self.0.store(at_ms, Relaxed);
    }

    /// True, once, when the time has come.
    pub(crate) fn is_due(&self, now_ms: u64) -> bool {
        let at_ms = self.0.load(Relaxed);
        at_ms != 0 && at_ms <= now_ms && self.0.compare_exchange(at_ms, 0, Relaxed, Relaxed).is_ok()
    }
}

/// Runs `flush_all`: at once, or it sets the time. A later one replaces an earlier one.
pub(crate) fn flush_all(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let delay = match args.head() {
        Head::FlushAll { delay } => delay,
        Head::Binary(packet) => i64::from(packet.expiry),
        _ => 0,
    };
    let at_ms = if delay <= 0 { None } else { expires(delay, keys.service.unix_ms()) };
    keys.service.flush.set(at_ms.unwrap_or(0));
    if at_ms.is_none() {
        clear(keys)?;
    }
    match args.head() {
        Head::Binary(packet) => binary::done(reply.raw(), &packet),
        _ => reply.raw().extend_from_slice(b"OK\r\n"),
    }
    Ok(())
}

fn clear(keys: &Keyspace<'_>) -> Result<()> {
    let Some(admin) = keys.engine.as_admin() else {
        let name = keys.engine.descriptor().name;
        let message = format!("engine '{name}' has no whole-store operations");
        return Err(Error::new(ErrorKind::Unsupported, message));
    };
    admin.clear()
}

/// The flush whose time has come.
fn flush_due(keys: &Keyspace<'_>, _: Args<'_>, _: &mut Reply<'_>) -> Result<()> {
    if let Err(error) = clear(keys) {
        log::error!("flush_all at a set time: {error}");
    }
    Ok(())
}

/// A burst that belongs to no connection and removes everything.
pub(crate) fn burst(from: usize) -> Burst {
    let (silent, long) = (true, true);
    let request = Request { silent, long, ..Request::new(Run::Whole(flush_due), 0, 0) };
    let input = Input { requests: vec![request], ..Input::default() };
    let mut burst = Burst::new(from, Lane::Long);
    let output = Output { end: 1, ..Output::default() };
    burst.push(Owner { slot: usize::MAX, client: 0 }, input, output);
    burst
}
