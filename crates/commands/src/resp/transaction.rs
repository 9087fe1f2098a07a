//! MULTI, EXEC, DISCARD, WATCH and UNWATCH, where nothing is queued.

use super::Cx;
use crate::burst::Args;
use crate::transaction::Queue;

pub(crate) fn multi(cx: &mut Cx<'_>, _: Args<'_>) {
    if cx.session.queue.is_some() {
        return cx.reply.error("ERR MULTI calls can not be nested");
    }
    let acl_version = cx.session.acl_version;
    cx.session.queue = Some(Box::new(Queue::new(acl_version, &cx.service.budget)));
    cx.reply.ok();
}

/// The planner turns an EXEC with a transaction into a request.
pub(crate) fn exec(cx: &mut Cx<'_>, _: Args<'_>) {
    match cx.session.queue.take() {
        None => cx.reply.error("ERR EXEC without MULTI"),
        Some(_) => {
            let text = "EXECABORT Transaction discarded because of previous errors.";
            cx.session.watches = None;
            cx.reply.error(text);
        }
    }
}

pub(crate) fn discard(cx: &mut Cx<'_>, _: Args<'_>) {
    if cx.session.queue.take().is_none() {
        return cx.reply.error("ERR DISCARD without MULTI");
    }
    cx.session.watches = None;
    cx.reply.ok();
}

/// The planner turns a WATCH outside of a transaction into a request.
pub(crate) fn watch(cx: &mut Cx<'_>, _: Args<'_>) {
    cx.reply.error("ERR WATCH inside MULTI is not allowed");
}

pub(crate) fn unwatch(cx: &mut Cx<'_>, _: Args<'_>) {
    cx.session.watches = None;
    cx.reply.ok();
}
