//! OBJECT: what is known of an entry besides its value.

use super::{Cx, Values, introspect};
use crate::burst::Args;
use crate::table::{Read, Wants};
use silica_proto::Reply;

pub(crate) static OBJECT: Read = Read::new(1, Wants::Kind, object);

pub(crate) fn help(cx: &mut Cx<'_>, _: Args<'_>) {
    introspect::help(cx, "object");
}

/// The arguments begin with the subcommand.
fn object(args: Args<'_>, values: Values<'_>, reply: &mut Reply<'_>) {
    if values.len_of(0).is_none() {
        reply.null();
    } else if args.is(0, "refcount") {
        reply.integer(1);
    } else if args.is(0, "freq") {
        reply.error(
            "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please \
             note that when switching between policies at runtime LRU and LFU data will take some \
             time to adjust.",
        );
    } else {
        reply.error("ERR idle time not tracked: no entry keeps the time of its last access");
    }
}
