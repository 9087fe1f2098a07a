//! The I/O workers: threads that call engines which may wait for a device. Each belongs to an
//! event loop, or to requests that may take long, whichever loop they come from. And the thread
//! that syncs what they have written (`commits.rs`).

use crate::loops::Message;
use crate::shared::Shared;
use silica_commands::{Executor, commit};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The life of a thread of the pool `index`.
pub(crate) fn work(shared: Arc<Shared>, index: usize) {
    let pool = shared.pools.at(index);
    let shares_syncs = shared.shares_syncs();
    let mut executor = Executor::new(Arc::clone(&shared.service));
    while let Some(mut burst) = pool.take() {
        let lane = burst.lane;
        // A panic is our bug; the clients of this burst pay for it, nobody else.
        let ran = catch_unwind(AssertUnwindSafe(|| match shares_syncs {
            true => executor.run_to_sync(&mut burst),
            false => {
                executor.run(&mut burst);
                None
            }
        }));
        pool.done(lane);
        match ran {
            Ok(Some(uncommitted)) => {
                shared.commits.push(burst, uncommitted);
                continue;
            }
            Ok(None) => {}
            Err(_) => {
                log::error!("a request made an engine panic; its connections are closed");
                burst.broken = true;
                executor = Executor::new(Arc::clone(&shared.service));
            }
        }
        shared.loops.inboxes[burst.from].send(Message::Done(burst));
    }
}

/// The life of the thread that syncs.
pub(crate) fn sync(shared: Arc<Shared>) {
    let mut taken = Vec::new();
    let mut bursts = Vec::new();
    while shared.commits.take(&mut taken) {
        let mut uncommitted = Vec::with_capacity(taken.len());
        for (burst, its) in taken.drain(..) {
            bursts.push(burst);
            uncommitted.push(its);
        }
        let pairs = bursts.iter_mut().zip(uncommitted);
        // A panic is our bug; the clients of these bursts pay for it, nobody else.
        if catch_unwind(AssertUnwindSafe(|| commit(&shared.service, pairs))).is_err() {
            log::error!("a sync made an engine panic; the connections that wait are closed");
            bursts.iter_mut().for_each(|burst| burst.broken = true);
        }
        for burst in bursts.drain(..) {
            shared.loops.inboxes[burst.from].send(Message::Done(burst));
        }
    }
}
