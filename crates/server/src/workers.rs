//! The I/O workers: a few threads that call engines which may wait for a device.

use crate::loops::Message;
use crate::shared::Shared;
use silica_commands::Executor;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The life of a worker thread.
pub(crate) fn work(shared: Arc<Shared>) {
    let mut executor = Executor::new(Arc::clone(&shared.service));
    while let Some(mut burst) = shared.pool.take() {
        let lane = burst.lane;
        // A panic is our bug; the clients of this burst pay for it, nobody else.
        if catch_unwind(AssertUnwindSafe(|| executor.run(&mut burst))).is_err() {
            log::error!("a request made an engine panic; its connections are closed");
            burst.broken = true;
            executor = Executor::new(Arc::clone(&shared.service));
        }
        shared.pool.done(lane);
        shared.loops.inboxes[burst.from].send(Message::Done(burst));
    }
}
