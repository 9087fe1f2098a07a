//! FAILOVER: a primary hands its role to one of its replicas, and no write is lost.
//!
//! 1. Writes of clients wait (`waiting-for-sync`), until a replica has all of the stream.
//! 2. While nobody uses the databases, and if that is so still, this server becomes a replica of
//!    that one (`failover-in-progress`). With FORCE it does so after the timeout in any case.
//! 3. Its link says `PSYNC id offset FAILOVER`, by which the other one takes writes from then on.
//!    Writes of clients go on and find a replica. If the other one refuses, or is not reached, this
//!    server is the primary again.

use super::{Effects, Phase, Replication};
use crate::resp::replicaof;
use crate::service::Service;
use silica::engine::Result;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

/// How often the replicas are looked at.
const LOOK: Duration = Duration::from_millis(5);
/// Milliseconds after which they are asked once more how far they are, if there is more.
const ASK_MS: u64 = 50;

/// How far a failover is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Step {
    #[default]
    Nothing,
    WaitingForSync,
    InProgress,
}

/// The failover that is under way, if any.
#[derive(Debug, Default)]
pub(super) struct Failover {
    step: Step,
    /// Grows with each, so that the thread of one that was ended sees that.
    number: u64,
}

/// What FAILOVER asks for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wish {
    /// The replica that takes over; any if there is none.
    pub(crate) target: Option<(String, u16)>,
    /// It takes over after the timeout even if it has not all.
    pub(crate) is_forced: bool,
    /// Milliseconds after which it is given up; `None` for never.
    pub(crate) timeout_ms: Option<u64>,
}

impl Replication {
    fn failover(&self) -> MutexGuard<'_, Failover> {
        self.failover.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How far a failover is, as INFO says it.
    pub(crate) fn failover_state(&self) -> &'static str {
        match self.failover().step {
            Step::Nothing => "no-failover",
            Step::WaitingForSync => "waiting-for-sync",
            Step::InProgress => "failover-in-progress",
        }
    }

    /// True while writes wait for the end of a failover: nothing is added to the stream that need
    /// not be.
    pub(crate) fn is_failing_over(&self) -> bool {
        self.failover().step != Step::Nothing
    }

    /// True if the link is to ask its primary to take over.
    pub fn hands_over(&self) -> bool {
        self.failover().step == Step::InProgress
    }

    /// A replica that has all of the stream: the one that is wished for, or any.
    fn is_ready(&self, wish: &Wish) -> Option<(String, u16)> {
        let offset = self.offset();
        let is_wished = |address: &(String, u16)| wish.target.as_ref().is_none_or(|t| t == address);
        let has_all = |feed: &&Arc<super::Feed>| {
            matches!(feed.phase(), Phase::Online(_)) && feed.acknowledged.load(Relaxed) >= offset
        };
        let feeds = self.replicas();
        feeds.iter().filter(has_all).map(|feed| feed.address()).find(is_wished)
    }

    /// Why `wish` cannot be fulfilled, if that is so.
    fn refuse_failover(&self, wish: &Wish) -> Option<&'static str> {
        if self.is_replica() {
            return Some("ERR FAILOVER is not valid when server is a replica.");
        }
        let replicas = self.replicas();
        if replicas.is_empty() {
            return Some("ERR FAILOVER requires connected replicas.");
        }
        if wish.is_forced && (wish.timeout_ms.is_none() || wish.target.is_none()) {
            return Some(
                "ERR FAILOVER with force option requires both a timeout and target HOST and IP.",
            );
        }
        let target = wish.target.as_ref()?;
        match replicas.iter().find(|feed| feed.address() == *target) {
            None => Some("ERR FAILOVER target HOST and PORT is not a replica."),
            Some(feed) if !matches!(feed.phase(), Phase::Online(_)) => {
                Some("ERR FAILOVER target replica is not online.")
            }
            Some(_) => None,
        }
    }
}

impl Service {
    /// Begins a failover: writes of clients wait from now on.
    ///
    /// # Errors
    /// The reply that says why it is not possible.
    pub(crate) fn begin_failover(self: &Arc<Self>, wish: Wish) -> std::result::Result<(), String> {
        let replication = &self.replication;
        let number = {
            let mut failover = replication.failover();
            if failover.step != Step::Nothing {
                return Err("ERR FAILOVER already in progress.".into());
            }
            if let Some(text) = replication.refuse_failover(&wish) {
                return Err(text.into());
            }
            failover.step = Step::WaitingForSync;
            failover.number += 1;
            failover.number
        };
        self.pause.set_failover(true);
        log::info!("a failover begins: writes of clients wait");
        let service = Arc::clone(self);
        let thread = std::thread::Builder::new().name("silica-failover".into());
        match thread.spawn(move || service.fail_over(number, &wish)) {
            Ok(thread) => {
                let threads = &replication.threads;
                threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
                Ok(())
            }
            Err(error) => {
                self.end_failover();
                Err(format!("ERR starting a thread: {error}"))
            }
        }
    }

    /// Ends the failover that is under way, and goes on as primary; false if there is none.
    ///
    /// # Errors
    /// Those of the databases.
    pub fn abort_failover(&self, why: &str) -> Result<bool> {
        let step = self.replication.failover().step;
        match step {
            Step::Nothing => return Ok(false),
            Step::WaitingForSync => {}
            Step::InProgress => replicaof::set(self, None)?,
        }
        log::warn!("the failover is given up: {why}");
        self.end_failover();
        Ok(true)
    }

    /// A failover is over: requests that have waited run.
    pub fn end_failover(&self) {
        let step = std::mem::take(&mut self.replication.failover().step);
        if step != Step::Nothing {
            self.pause.set_failover(false);
            self.front.resume();
        }
    }

    /// The thread of failover `number`.
    fn fail_over(&self, number: u64, wish: &Wish) {
        let replication = &self.replication;
        let began_ms = self.monotonic_ms();
        let (mut asked_at, mut asked_ms) = (None, 0);
        loop {
            let is_on = {
                let failover = replication.failover();
                failover.step == Step::WaitingForSync && failover.number == number
            };
            if !is_on || self.is_stopping() {
                return;
            }
            if replication.is_ready(wish).is_some() && self.hand_over(number, wish, false) {
                return;
            }
            let now_ms = self.monotonic_ms();
            if wish.timeout_ms.is_some_and(|ms| now_ms - began_ms >= ms) {
                if wish.is_forced {
                    self.hand_over(number, wish, true);
                } else if let Err(error) = self.abort_failover("no replica had all in time") {
                    log::error!("{error}");
                }
                return;
            }
            // What was under way when writes stopped comes behind the first request.
            if asked_at != Some(replication.offset()) && now_ms - asked_ms >= ASK_MS {
                let mut effects = Effects::default();
                effects.push(None, &[b"REPLCONF", b"GETACK", b"*"]);
                self.tell_replicas(&mut effects, false);
                (asked_at, asked_ms) = (Some(replication.offset()), now_ms);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Follows the replica that takes over, if one still has all, or if it `must`; true if so.
    fn hand_over(&self, number: u64, wish: &Wish, must: bool) -> bool {
        self.databases.alone(|| {
            let ready = self.replication.is_ready(wish);
            let target = if must { wish.target.clone() } else { ready };
            let Some((host, port)) = target else { return false };
            {
                let mut failover = self.replication.failover();
                if failover.step != Step::WaitingForSync || failover.number != number {
                    return false;
                }
                failover.step = Step::InProgress;
            }
            log::info!("{host}:{port} is to take over");
            replicaof::follow(self, &host, port)
        })
    }
}
