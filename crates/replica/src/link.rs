//! The thread that has the link.
//!
//! Invariants:
//!
//! 1. The thread does what the role says, and looks at its version all the time: a link under an
//!    old version ends, and nothing that it brought is applied any more (the commands see to that).
//! 2. The position is the service's alone: whatever ended a link, the next one asks for what stands
//!    behind the last request that was applied.

use crate::handshake::{Agreed, shake_hands};
use crate::syncer::Syncer;
use crate::transfer::receive;
use crate::wire::Wire;
use silica_commands::replication::{LinkState, Role};
use silica_commands::{Follower, Service};
use silica_engine::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long the thread waits after an attempt that failed: at first, and at most.
const WAIT_FIRST: Duration = Duration::from_millis(100);
const WAIT_MAX: Duration = Duration::from_secs(3);
/// How long it waits for a role at a time.
const ROLE_WAIT: Duration = Duration::from_millis(200);
/// How often the primary is told how far the replica is.
const ACKS: Duration = Duration::from_secs(1);
/// How long it takes at most to connect.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// A server's side that follows. Dropped, it ends its link.
pub struct Replica {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Replica {
    /// Follows whom the role of `service` says, from now on and whenever it changes.
    ///
    /// # Errors
    /// Fails if no thread can be started.
    pub fn start(service: Arc<Service>) -> Result<Replica> {
        let stop = Arc::new(AtomicBool::new(false));
        let syncer = Syncer::start(Arc::clone(&service))?;
        let link = Link { service, stop: Arc::clone(&stop), syncer };
        let thread = thread::Builder::new().name("silica-replica".into());
        let spawned = thread.spawn(move || link.run());
        let thread =
            spawned.map_err(|e| Error::io("starting the thread that follows a primary", e))?;
        Ok(Replica { stop, thread: Some(thread) })
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            log::error!("the thread that follows a primary panicked");
        }
    }
}

impl std::fmt::Debug for Replica {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Replica")
    }
}

struct Link {
    service: Arc<Service>,
    stop: Arc<AtomicBool>,
    syncer: Syncer,
}

impl Link {
    fn is_over(&self) -> bool {
        self.stop.load(Relaxed) || self.service.is_stopping()
    }

    fn run(&self) {
        let replication = &self.service.replication;
        let (mut role, mut version) = replication.role();
        let mut follower = None;
        let mut wait = WAIT_FIRST;
        while !self.is_over() {
            let seen = version;
            match &role {
                Role::Primary => follower = None,
                Role::Replica { host, port } => {
                    let began = Instant::now();
                    let ended = self.follow((host, *port), version, &mut follower);
                    self.note_end(&ended);
                    self.give_up_failover(&ended);
                    // A link that held for long was no failure.
                    if began.elapsed() > 2 * WAIT_MAX {
                        wait = WAIT_FIRST;
                    }
                    (role, version) = self.wait_for_role(version, wait);
                    wait = (2 * wait).min(WAIT_MAX);
                }
            }
            if role == Role::Primary {
                (role, version) = replication.wait_for_role(version, ROLE_WAIT);
            }
            if version != seen {
                wait = WAIT_FIRST;
            }
        }
    }

    /// Waits until the role changes, or `wait` is over.
    fn wait_for_role(&self, version: u64, wait: Duration) -> (Role, u64) {
        let until = Instant::now() + wait;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let (role, now) = self.service.replication.wait_for_role(version, left.min(ROLE_WAIT));
            if now != version || left.is_zero() || self.is_over() {
                return (role, now);
            }
        }
    }

    /// Notes that a link has ended, and why.
    fn note_end(&self, ended: &Result<()>) {
        let mut link = self.service.replication.link();
        if link.state == LinkState::Connected || link.down_since_unix_ms == 0 {
            link.down_since_unix_ms = self.service.unix_ms();
        }
        link.state = LinkState::Connect;
        let Err(error) = ended else { return };
        if error.kind() == ErrorKind::Closed {
            return;
        }
        let text = error.to_string();
        // A reason that comes again and again is told once.
        if link.failed.as_ref() != Some(&text) {
            log::warn!("the link to the primary ends: {text}");
        }
        link.failed = Some(text);
    }

    /// A failover whose target refuses, or cannot be reached, is over: this is the primary again.
    fn give_up_failover(&self, ended: &Result<()>) {
        let Err(error) = ended else { return };
        if self.service.replication.hands_over()
            && let Err(error) = self.service.abort_failover(&error.to_string())
        {
            log::error!("the failover cannot be given up: {error}");
        }
    }

    fn set_state(&self, state: LinkState) {
        self.service.replication.link().state = state;
    }

    /// Follows the primary at `place` until something ends that.
    fn follow(
        &self,
        (host, port): (&str, u16),
        version: u64,
        follower: &mut Option<Follower>,
    ) -> Result<()> {
        let service = &self.service;
        let follower = match follower {
            Some(known) => {
                known.restart(version);
                known
            }
            None => follower.insert(Follower::new(Arc::clone(service), version)?),
        };
        let mut goes_on = || match self.is_over() || service.replication.role().1 != version {
            true => Err(Error::new(ErrorKind::Closed, "the role has changed")),
            false if service.replication.must_relink() => {
                log::info!("the link is made anew, for one that takes commands only");
                Err(Error::new(ErrorKind::Closed, "somebody who follows takes commands only"))
            }
            false => Ok(()),
        };
        self.set_state(LinkState::Connecting);
        let timeout =
            Duration::from_secs(service.replication.settings.timeout_seconds.load(Relaxed).max(1));
        let mut wire = Wire::connect(service, host, port, timeout.min(CONNECT_MAX))?;
        wire.set_timeout(timeout);
        self.agree(follower, &mut wire, &mut goes_on)?;
        // Replicas of this one go on with its stream.
        service.replication.keep();
        {
            let mut link = service.replication.link();
            (link.state, link.failed) = (LinkState::Connected, None);
            (link.down_since_unix_ms, link.last_io_unix_ms) = (0, service.unix_ms());
        }
        self.stream(follower, &mut wire, &mut goes_on)
    }

    /// Agrees with the primary on where to begin, and takes all data if that is it.
    fn agree(
        &self,
        follower: &mut Follower,
        wire: &mut Wire,
        goes_on: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let (replication, name) = (&self.service.replication, wire.name.clone());
        // Nobody is fed with what may have records until it is known what comes.
        let asks_commands = replication.wants_commands();
        replication.set_link_plain_from(0);
        let mut summary = None;
        let agreed = {
            let needs = (follower.is_unsure(), asks_commands);
            let mut summarize = |seed, goes_on: &mut dyn FnMut() -> Result<()>| {
                log::info!("{name} asks what of its data is here already");
                Ok(summary.insert(follower.summarize(seed, goes_on)?).encode())
            };
            shake_hands(&self.service, wire, needs, &mut summarize, goes_on)?
        };
        // Whoever was asked to take over has done so.
        self.service.end_failover();
        match agreed {
            Agreed::Continue { id, records_end } => {
                replication.set_link_plain_from(match records_end {
                    Some(_) if !asks_commands => u64::MAX,
                    end => end.unwrap_or(0),
                });
                if id.is_some_and(|id| replication.rename_history(&id)) {
                    self.service.drop_replicas();
                }
                follower.mark_position()?;
                log::info!("{name} goes on at {}", replication.offset());
            }
            Agreed::Full { id, offset, has_blocks, has_records } => {
                let has_records = has_records && !asks_commands;
                replication.set_link_plain_from(if has_records { u64::MAX } else { 0 });
                self.set_state(LinkState::Sync);
                log::info!("{name} sends all data, up to offset {offset} of {id}");
                let at = (&id[..], offset);
                let blocks = has_blocks.then(|| summary.unwrap_or_default());
                let loaded = receive(&self.service, follower, wire, (at, blocks), goes_on)?;
                log::info!(
                    "all data of {name} is loaded: {} keys, {} entries copied from what was here, \
                     {} libraries, {} values of unknown types passed over",
                    loaded.keys,
                    loaded.copied,
                    loaded.libraries,
                    loaded.skipped
                );
            }
        }
        Ok(())
    }

    /// Applies what comes.
    fn stream(
        &self,
        follower: &mut Follower,
        wire: &mut Wire,
        goes_on: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let service = &self.service;
        // At once: whoever has sent all data waits for a sign that it is there.
        let mut acked: Option<Instant> = None;
        let mut synced = 0;
        self.syncer.restart();
        loop {
            goes_on()?;
            if !wire.buffer.is_empty() {
                follower.feed(&wire.buffer);
                wire.buffer.clear();
                service.replication.link().last_io_unix_ms = service.unix_ms();
                let applied = follower.run();
                if applied.is_err() {
                    // The primary is to know how far it came.
                    let _ = self.acknowledge(wire);
                }
                applied?;
            }
            let is_due = acked.is_none_or(|at| at.elapsed() >= ACKS);
            if follower.take_wants_ack() {
                self.syncer.want(service.replication.offset());
                self.acknowledge(wire)?;
                acked = Some(Instant::now());
            } else if is_due || self.syncer.synced() > synced {
                self.acknowledge(wire)?;
                acked = Some(Instant::now());
            }
            synced = self.syncer.synced();
            wire.read()?;
        }
    }

    fn acknowledge(&self, wire: &mut Wire) -> Result<()> {
        let offset = self.service.replication.offset().to_string();
        let synced = self.syncer.synced().to_string();
        let mut words: Vec<&[u8]> = vec![b"REPLCONF", b"ACK", offset.as_bytes()];
        if synced != "0" {
            words.extend([&b"FACK"[..], synced.as_bytes()]);
        }
        wire.send(&words)
    }
}
