//! Commands about replicas: which node follows which, and who takes whose slots over.

use super::{Changed, UNKNOWN, change, cluster_of, has_keys, text};
use crate::burst::Args;
use crate::cluster::Failover;
use crate::resp::{Cx, Keyspace, SYNTAX};
use silica::engine::Result;
use silica_proto::Reply;

/// CLUSTER COUNT-FAILURE-REPORTS.
pub(crate) fn count_failure_reports(cx: &mut Cx<'_>, args: Args<'_>) {
    let Some(cluster) = cluster_of(cx) else { return };
    let (map, id) = (cluster.map(), text(args, 2));
    match map.nodes.contains_key(&id) {
        true => {
            let reports = cluster.failure_reports(cx.service, &map, &id);
            cx.reply.integer(reports.len() as i64);
        }
        false => cx.reply.error(&format!("{UNKNOWN} {id}")),
    }
}

/// CLUSTER FAILOVER.
pub(crate) fn failover(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    change(keys, reply, |cluster| {
        let how = match args.len() {
            2 => Failover::Agreed,
            3 if args.is(2, "force") => Failover::Force,
            3 if args.is(2, "takeover") => Failover::Takeover,
            _ => return Err(SYNTAX.into()),
        };
        cluster.fail_over(keys.service, how)
    })
}

/// CLUSTERX HANDOVER id [ABORT]: a replica is about to take the slots over, or has given that up.
pub(super) fn handover(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let Some(cluster) = &keys.service.cluster else { return Ok(()) };
    if args.len() == 4 {
        match args.is(3, "abort") {
            true => {
                cluster.end_yield(keys.service);
                reply.ok();
            }
            false => reply.error(SYNTAX),
        }
        return Ok(());
    }
    match cluster.hand_over(keys.service, &text(args, 2)) {
        Ok(told) => reply.bulk(told.as_bytes()),
        Err(error) => reply.error(&error),
    }
    Ok(())
}

/// CLUSTER REPLICATE.
pub(crate) fn replicate(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    change(keys, reply, |cluster| {
        let id = text(args, 2);
        cluster.change(keys.service, |map| -> Changed {
            if map.version >= 0 {
                return Err("ERR the nodes of this cluster are set by CLUSTERX SETNODES; set the \
                            replica there"
                    .into());
            }
            let node = map.nodes.get(&id).ok_or_else(|| format!("{UNKNOWN} {id}"))?;
            if id == map.me {
                return Err("ERR Can't replicate myself".into());
            }
            if node.primary.is_some() {
                return Err("ERR I can only replicate a master, not a replica.".into());
            }
            let is_primary = map.me().primary.is_none();
            if is_primary && (!map.slots_of(map.me()).is_empty() || has_keys(keys)) {
                return Err(
                    "ERR To set a master the node must be empty and without assigned slots.".into(),
                );
            }
            if map.me().primary.as_ref() != Some(&id) {
                map.follow(&id);
            }
            Ok(())
        })
    })
}
