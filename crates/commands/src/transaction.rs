//! Transactions: what comes between MULTI and EXEC runs as one step.
//!
//! The requests are planned when they come, and kept. EXEC hands them over together. They run by
//! the same code as all others, but on an [`Overlay`] of the entries of all their keys, inside one
//! atomic update of these: so nobody sees half of a transaction, and after a crash it is there as
//! a whole or not at all. The engine may ask for the update several times; each time the requests
//! run anew on what is there then.
//!
//! EXEC runs nothing if a key that the connection watches was written meanwhile
//! ([`crate::watch`]).

use crate::budget::out_of_memory;
use crate::budget::{Budget, Claim, SMALL_BYTES};
use crate::burst::{Args, Input, Output, Request};
use crate::engine_calls::{atomic, claim_entries};
use crate::exec::HoldAll;
use crate::overlay::Overlay;
use crate::replication::{Effects, Mask};
use crate::resp::events::Event;
use crate::resp::scripts::Step;
use crate::resp::topics::kind_of;
use crate::service::Service;
use crate::watch::Watches;
use silica::engine::{Durability, Engine, Error, ErrorKind, Result, Update};
use silica_proto::Span;
use silica_types::is_inner;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of requests that a transaction may hold.
const BYTES_MAX: usize = 64 << 20;
/// Memory of a queued request, of an argument, and of a key beside its bytes.
const REQUEST_BYTES: usize = 2 * size_of::<Request>();
const ARG_BYTES: usize = 2 * size_of::<Span>();
const KEY_BYTES: usize = 64;

/// The requests since MULTI.
pub(crate) struct Queue {
    pub(crate) input: Input,
    /// How many they are.
    pub(crate) count: usize,
    /// One was refused: EXEC runs none.
    pub(crate) refused: bool,
    /// The change of users that was the last at MULTI.
    pub(crate) acl_version: u64,
    /// Those of its requests that are messages for channels.
    pub(crate) announced: Vec<usize>,
    keys: BTreeSet<Vec<u8>>,
    /// The database that SELECT has chosen for what comes behind it, and after EXEC.
    pub(crate) selected: Option<u8>,
    /// The databases that its requests are for, a bit each; all if one is about a whole database.
    pub(crate) databases: u32,
    /// Some of its requests work on objects.
    pub(crate) has_objects: bool,
    /// What all of it takes.
    claim: Claim,
}

impl Queue {
    /// Without requests; `acl_version` is the last change of users.
    pub(crate) fn new(acl_version: u64, budget: &Arc<Budget>) -> Self {
        Queue {
            input: Input::default(),
            count: 0,
            refused: false,
            acl_version,
            announced: Vec::new(),
            keys: BTreeSet::new(),
            selected: None,
            databases: 0,
            has_objects: false,
            claim: Claim::new(budget),
        }
    }

    /// Memory held, which is counted by its claim.
    pub(crate) fn held_bytes(&self) -> usize {
        self.claim.bytes()
    }

    /// Claims the memory of a request with `bytes` bytes of arguments.
    pub(crate) fn claim(&mut self, bytes: usize) -> std::result::Result<(), String> {
        self.claim.keep(bytes + REQUEST_BYTES)
    }

    /// Keeps a request's arguments, of which `keys` are keys; the place of their first span.
    pub(crate) fn keep<'a>(
        &mut self,
        args: Args<'_>,
        keys: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> std::result::Result<usize, String> {
        let bytes: usize = args.from(0).map(<[u8]>::len).sum();
        if self.input.bytes.len() + bytes > BYTES_MAX {
            return Err(format!(
                "ERR a transaction holds at most {BYTES_MAX} bytes of requests; send them in \
                 several transactions"
            ));
        }
        let of_keys: usize = keys.clone().map(|key| key.len() + KEY_BYTES).sum();
        self.claim(bytes + args.len() * ARG_BYTES + of_keys)?;
        let first = self.input.spans.len();
        for arg in args.from(0) {
            let start = self.input.bytes.len() as u32;
            self.input.spans.push(Span { start, len: arg.len() as u32 });
            self.input.bytes.extend_from_slice(arg);
        }
        self.keys.extend(keys.map(<[u8]>::to_vec));
        Ok(first)
    }

    /// The only database that it and `watches` are about, or `usual` if it is about none; `None`
    /// if it is about several.
    pub(crate) fn only_database(&self, watches: Option<&Watches>, usual: u8) -> Option<u8> {
        let all = self.databases | watches.map_or(0, Watches::asked);
        match all.count_ones() {
            0 => Some(usual),
            1 => Some(all.trailing_zeros() as u8),
            _ => None,
        }
    }

    /// The transaction, where the keys in `watches` have not changed; `has_run` is set when it has
    /// run.
    pub(crate) fn into_transaction(
        self,
        watches: Option<Arc<Watches>>,
        has_run: Option<Arc<AtomicBool>>,
    ) -> Transaction {
        let Queue { input, count, keys, announced, has_objects, claim, .. } = self;
        let (changed, events, effects) = Default::default();
        Transaction {
            input,
            count,
            keys,
            announced,
            watches,
            has_objects,
            changed,
            events,
            effects,
            has_run,
            _claim: claim,
        }
    }
}

/// Runs all requests of a transaction on an engine; their replies.
type RunAll<'r> = dyn FnMut(&dyn Engine, &Input) -> Result<Vec<u8>> + 'r;

/// Requests that run as one step.
pub(crate) struct Transaction {
    pub(crate) input: Input,
    /// How many replies they give.
    pub(crate) count: usize,
    keys: BTreeSet<Vec<u8>>,
    announced: Vec<usize>,
    watches: Option<Arc<Watches>>,
    has_objects: bool,
    /// The keys that it has changed.
    changed: Mutex<Vec<Box<[u8]>>>,
    /// What it has done, if somebody wants to know.
    events: Mutex<Vec<Event>>,
    /// What replicas are told of it.
    effects: Mutex<Effects>,
    has_run: Option<Arc<AtomicBool>>,
    _claim: Claim,
}

impl Transaction {
    /// The keys that it has changed.
    pub(crate) fn take_changed(&self) -> Vec<Box<[u8]>> {
        std::mem::take(&mut *self.changed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What it has done, if somebody wanted to know.
    pub(crate) fn take_events(&self) -> Vec<Event> {
        std::mem::take(&mut *self.events.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What replicas are told of it.
    pub(crate) fn effects(&self) -> MutexGuard<'_, Effects> {
        self.effects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the stripes of its keys; `None` if they are not known, as it has scripts.
    pub(crate) fn add_stripes(&self, mask: &mut Mask) -> Option<()> {
        if !self.input.scripts.is_empty() {
            return None;
        }
        self.keys.iter().for_each(|key| mask.add(key));
        let requests = self.input.requests.iter().filter(|request| !request.run.is_ready());
        if requests.map(|request| self.input.args(request)).any(|args| args.is(0, "sort")) {
            *mask = Mask::ALL;
        }
        Some(())
    }

    pub(crate) fn set_events(&self, events: Vec<Event>) {
        *self.events.lock().unwrap_or_else(PoisonError::into_inner) = events;
    }

    fn set_changed(&self, keys: Vec<Box<[u8]>>) {
        *self.changed.lock().unwrap_or_else(PoisonError::into_inner) =
            keys.into_iter().filter(|key| !is_inner(key)).collect();
    }

    /// What has to hold still for it to run.
    pub(crate) fn watches(&self) -> Option<&Watches> {
        self.watches.as_deref()
    }

    /// Says that all of it is done, and sends its messages.
    pub(crate) fn finish(&self, service: &Service) {
        self.has_run.iter().for_each(|has_run| has_run.store(true, Ordering::Release));
        for index in &self.announced {
            let args = self.input.args(&self.input.requests[*index]);
            // Its audience was answered already; without memory nobody gets it.
            service.tell_command(args);
            let (kind, channel) = (kind_of(args), args.get(1));
            if let Err(text) = service.publish(kind, channel, args.get(2)) {
                log::warn!("a message of a transaction is lost: {text}");
            }
        }
        self.input.scripts.iter().for_each(|script| script.publish(service));
    }

    /// Runs all requests with `run`, on database `db` of `engine`; their replies, or `None` where
    /// a watched key has changed.
    pub(crate) fn run(
        &self,
        db: usize,
        engine: &dyn Engine,
        now_ms: u64,
        claim: &Claim,
        (run, turn): (&mut RunAll<'_>, &HoldAll<'_>),
    ) -> Result<Option<Vec<u8>>> {
        if !self.input.scripts.is_empty() || self.has_objects {
            return self.run_as_step(db, engine, now_ms, claim, (run, turn));
        }
        let watched = self.watches.as_ref().map(|watches| (watches, watches.list()));
        let mut names: BTreeSet<&[u8]> = self.keys.iter().map(Vec::as_slice).collect();
        if let Some((_, list)) = &watched {
            names.extend(list.keys_of(db).ok_or_else(watched_elsewhere)?);
        }
        let names: Vec<&[u8]> = names.into_iter().collect();
        let descriptor = *engine.descriptor();
        if names.is_empty() {
            return run(&Overlay::new(descriptor, &[], &[], now_ms), &self.input).map(Some);
        }
        claim_entries(engine, &names, 2, claim)?;
        // What its writes copy.
        claim.grow(self.input.bytes.len()).map_err(out_of_memory)?;
        let (mut replies, mut own, mut changed) = (None, 0, Vec::new());
        atomic(engine)?.update_all(&names, Durability::Buffered, &mut |entries| {
            // Only the last run counts.
            changed.clear();
            let place = |key: &[u8]| names.binary_search(&key).expect("all watched keys are named");
            if let Some((watches, list)) = &watched
                && !watches.hold(list, own, |_, key| entries[place(key)])
            {
                replies = None;
                return vec![Update::Keep; names.len()];
            }
            let overlay = Overlay::new(descriptor, &names, entries, now_ms);
            replies = Some(run(&overlay, &self.input));
            if let Some(Err(_)) = &replies {
                return vec![Update::Keep; names.len()];
            }
            let updates = overlay.updates();
            let written = names.iter().zip(&updates).filter(|(_, u)| **u != Update::Keep);
            changed.extend(written.map(|(key, _)| *key));
            if let Some((_, list)) = &watched {
                // The engine may ask again: what this marks then is no write of anybody else.
                own += changed.iter().filter(|key| list.has(key)).count() as u64;
            }
            updates
        })?;
        self.set_changed(changed.into_iter().map(Into::into).collect());
        replies.transpose()
    }
}

fn watched_elsewhere() -> Error {
    let text = "a key of another database is watched; watch keys after SELECT";
    Error::new(ErrorKind::Unsupported, text)
}

/// Runs of a transaction with scripts whose keys others change each time, after which it fails.
const RUNS_MAX: usize = 1000;

impl Transaction {
    /// Runs all requests on a [`Step`]: scripts may ask for keys that nobody knows beforehand.
    fn run_as_step(
        &self,
        db: usize,
        engine: &dyn Engine,
        now_ms: u64,
        claim: &Claim,
        (run, turn): (&mut RunAll<'_>, &HoldAll<'_>),
    ) -> Result<Option<Vec<u8>>> {
        let claimed = claim.bytes();
        for _ in 0..RUNS_MAX {
            let step = Step::new(engine, now_ms, claim.budget().max() / 4);
            let replies = run(&step, &self.input)?;
            claim.grow(step.held_bytes()).map_err(out_of_memory)?;
            let watched = self.watches.as_ref().map(|watches| (watches, watches.list()));
            let others: Vec<&[u8]> = match &watched {
                Some((_, list)) => list.keys_of(db).ok_or_else(watched_elsewhere)?.collect(),
                None => Vec::new(),
            };
            let (mut are_watches_good, mut own) = (true, 0);
            let changed = others.iter().filter(|key| step.has_told_key(key)).count() as u64;
            (turn.hold)();
            let committed = step.commit(&others, &mut |keys, entries| {
                if let Some((watches, list)) = &watched {
                    are_watches_good = watches.hold(list, own, |_, key| {
                        keys.binary_search(&key).ok().and_then(|at| entries[at])
                    });
                    // The engine may ask again: what this marks then is no write of anybody else.
                    own += if are_watches_good { changed } else { 0 };
                }
                are_watches_good
            })?;
            claim.set(claimed);
            if committed.is_none() && !self.input.scripts.is_empty() {
                (turn.unhold)();
            }
            match committed {
                Some(keys) => {
                    self.set_changed(keys);
                    return Ok(Some(replies));
                }
                None if !are_watches_good => return Ok(None),
                None => {}
            }
        }
        let text = "others have changed the keys of the transaction's scripts during each of its \
                    runs; make it shorter, or use fewer keys that others write";
        Err(Error::new(ErrorKind::Busy, text))
    }
}

impl Output {
    /// The replies to all of `input`, which `wave` runs a part of at a time, or to what it ran
    /// before it returned false; an error where there is no memory for them, and for their copy in
    /// the reply to EXEC.
    pub(crate) fn of_all(
        input: &Input,
        claim: &Claim,
        mut wave: impl FnMut(&mut Output) -> bool,
    ) -> Result<Vec<u8>> {
        let mut replies = Vec::new();
        let mut output = Output { end: input.requests.len(), ..Output::default() };
        let mut counted = SMALL_BYTES;
        while output.next < output.end {
            if !wave(&mut output) {
                break;
            }
            replies.append(&mut output.out);
            output.acknowledgements.clear();
            if replies.len() > counted {
                claim.grow(2 * (replies.len() - counted)).map_err(out_of_memory)?;
                counted = replies.len();
            }
        }
        Ok(replies)
    }
}
