//! Keys of slots that another node has taken with a newer epoch: nobody can reach them here, so a
//! thread removes them, as Redis does, a few at a time. Replicas are told.
//!
//! A slot is noted when its claim is lost, and only then: what a backup has brought, or a map that
//! an operator has set, is left alone. A burst that removes keys looks at the map when it begins
//! (`exec::routing`), so a slot that has come back keeps its keys.

use super::own::{Does, ask};
use super::{Cluster, Map, SlotSet, lock};
use crate::exec::Executor;
use crate::resp::Keyspace;
use crate::service::Service;
use crate::table::{Run, find};
use silica::engine::Result;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Keys that are removed in one burst.
const KEYS: usize = 64;
/// How long the thread rests between two bursts.
const REST: Duration = Duration::from_millis(2);

#[derive(Default)]
struct State {
    slots: SlotSet,
    is_running: bool,
}

/// Slots whose keys are to go.
#[derive(Default)]
pub(crate) struct Lost {
    state: Mutex<State>,
    /// Keys removed since the start, for CLUSTER INFO.
    pub(crate) removed: AtomicU64,
}

impl Lost {
    /// Notes the slots of `old` that another node has in `new`, by a claim of its own.
    pub(super) fn note(&self, old: &Map, new: &Map) {
        if new.version >= 0 || new.me().primary.is_some() || old.me != new.me {
            return;
        }
        let is_claimed = |slot: &u16| {
            let owner = new.owner(*slot);
            owner.is_some_and(|owner| owner.id != new.me && owner.slots.contains(*slot))
        };
        let mut state = lock(&self.state);
        let lost = old.me().slots.without(&new.me().slots);
        lost.iter().filter(is_claimed).for_each(|slot| state.slots.insert(slot));
    }

    /// Begins to remove keys, if there are some to remove.
    pub(super) fn begin(&self, service: &Service) {
        let Some(service) = service.itself() else { return };
        let mut state = lock(&self.state);
        if state.slots.is_empty() || state.is_running {
            return;
        }
        let thread = std::thread::Builder::new().name("silica-lost".into());
        state.is_running = thread.spawn(move || run(&service)).is_ok();
        if !state.is_running {
            log::error!("no thread was started to remove keys of slots that other nodes serve");
        }
    }

    /// Slots whose keys are not removed yet.
    pub(crate) fn slots(&self) -> SlotSet {
        lock(&self.state).slots.clone()
    }

    /// The next slot; nothing if that was the last one, and then the thread ends.
    fn next(&self) -> Option<u16> {
        let mut state = lock(&self.state);
        let slot = state.slots.iter().next();
        state.is_running = slot.is_some();
        slot
    }

    fn done(&self, slot: u16) {
        lock(&self.state).slots.remove(slot);
    }
}

fn run(service: &Arc<Service>) {
    let Some(cluster) = service.cluster.as_ref() else { return };
    let mut executor = Executor::new(Arc::clone(service));
    while let Some(slot) = cluster.lost.next() {
        if service.is_stopping() {
            return;
        }
        match remove(service, cluster, &mut executor, slot) {
            Ok(0) => {}
            Ok(count) => log::info!("{count} keys of slot {slot}, which was lost, are removed"),
            Err(error) => log::warn!("keys of slot {slot}, which was lost, stay: {error}"),
        }
        cluster.lost.done(slot);
    }
}

/// Removes the keys of `slot` as long as it is another node's; how many there were.
fn remove(
    service: &Arc<Service>,
    cluster: &Cluster,
    executor: &mut Executor,
    slot: u16,
) -> Result<u64> {
    let delete = find(b"del").map(|command| command.run).expect("DEL is a command");
    let claim = crate::budget::Claim::new(&service.budget);
    let mut count = 0;
    loop {
        let names = {
            let engine = service.databases.engine(0)?;
            let whole = service.databases.whole(0);
            let keys = Keyspace::of_step((service, &claim), (engine, 0), whole);
            cluster.keys.list(&keys, &service.databases.watchers[0], slot, KEYS)?
        };
        if names.is_empty() || service.is_stopping() {
            return Ok(count);
        }
        let args: Vec<[&[u8]; 2]> = names.iter().map(|name| [&b"del"[..], name]).collect();
        let asked: Vec<(Run, &[&[u8]])> = args.iter().map(|args| (delete, &args[..])).collect();
        let replies = ask(executor, 0, &asked, Does::RemoveLost);
        let Ok(replies) = replies.map_err(|text| log::warn!("removing lost keys: {text}")) else {
            return Ok(count);
        };
        if replies.iter().any(|reply| reply.first() == Some(&b'-')) {
            // It is served here again, or the store takes no deletes.
            return Ok(count);
        }
        count += names.len() as u64;
        cluster.lost.removed.fetch_add(names.len() as u64, Relaxed);
        std::thread::sleep(REST);
    }
}
