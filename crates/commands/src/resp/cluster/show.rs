//! Commands that tell what this node knows of the cluster, and change nothing.

use super::{UNKNOWN, cluster_of};
use crate::burst::Args;
use crate::cluster::{Cluster, Health, Map, Node, range_text, slot_of};
use crate::resp::Cx;
use crate::service::Service;
use silica_proto::Reply;
use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

/// CLUSTER MYID.
pub(crate) fn myid(cx: &mut Cx<'_>, _: Args<'_>) {
    let Some(cluster) = cluster_of(cx) else { return };
    cx.reply.bulk(cluster.map().me.as_bytes());
}

/// CLUSTER KEYSLOT.
pub(crate) fn keyslot(cx: &mut Cx<'_>, args: Args<'_>) {
    if cluster_of(cx).is_some() {
        cx.reply.integer(i64::from(slot_of(args.get(2))));
    }
}

/// CLUSTER INFO.
pub(crate) fn info(cx: &mut Cx<'_>, _: Args<'_>) {
    let Some(cluster) = cluster_of(cx) else { return };
    let map = cluster.map();
    let served = map.served();
    let slots_that_are = |wanted: Health| -> usize {
        let primaries = map.nodes.values().filter(|node| node.primary.is_none());
        let some = primaries.filter(|node| cluster.health(cx.service, &map, node) == wanted);
        some.map(|node| map.slots_of(node).len()).sum()
    };
    let (unheard, failed) = (slots_that_are(Health::Unheard), slots_that_are(Health::Failed));
    let lost = cluster.lost.slots().iter().count();
    let removed = cluster.lost.removed.load(Relaxed);
    let (sent, taken) = (cluster.links.sent.load(Relaxed), cluster.links.taken.load(Relaxed));
    let mut out = String::new();
    let mut line = |name: &str, value: &dyn std::fmt::Display| {
        write!(out, "{name}:{value}\r\n").expect("a string takes every write");
    };
    line("cluster_state", &if cluster.is_ok(&map) { "ok" } else { "fail" });
    line("cluster_slots_assigned", &served);
    line("cluster_slots_ok", &(served - unheard - failed));
    line("cluster_slots_pfail", &unheard);
    line("cluster_slots_fail", &failed);
    line("cluster_known_nodes", &map.nodes.len());
    line("cluster_size", &map.size());
    line("cluster_current_epoch", &map.current_epoch());
    line("cluster_my_epoch", &map.me().epoch);
    line("cluster_stats_messages_sent", &sent);
    line("cluster_stats_messages_received", &taken);
    line("total_cluster_links_buffer_limit_exceeded", &0);
    line("silica_lost_slots_to_empty", &lost);
    line("silica_lost_keys_removed", &removed);
    line("silica_map_syncs", &cluster.syncs.load(Relaxed));
    cx.reply.verbatim(out.as_bytes());
}

/// A node's line of CLUSTER NODES.
fn line(service: &Service, cluster: &Cluster, map: &Map, node: &Node) -> String {
    let Node { id, host, port, primary, .. } = node;
    let is_me = *id == map.me;
    let role = if primary.is_some() { "slave" } else { "master" };
    let mut flags = if is_me { format!("myself,{role}") } else { role.to_string() };
    flags += match cluster.health(service, map, node) {
        Health::Up => "",
        Health::Unheard => ",fail?",
        Health::Failed => ",fail",
    };
    // Of a replica Redis shows the epoch of its primary.
    let of = primary.as_ref().and_then(|id| map.nodes.get(id)).unwrap_or(node);
    let epoch = of.epoch;
    let primary = primary.as_deref().unwrap_or("-");
    let link = if is_me || cluster.links.is_up(id) { "connected" } else { "disconnected" };
    let mut line = format!("{id} {host}:{port}@{port} {flags} {primary} 0 0 {epoch} {link}");
    for range in map.slots_of(node).ranges() {
        line.push(' ');
        line.push_str(&range_text(range));
    }
    if is_me {
        for (slot, to) in &map.migrating {
            write!(line, " [{slot}->-{to}]").expect("a string takes every write");
        }
        for (slot, from) in &map.importing {
            write!(line, " [{slot}-<-{from}]").expect("a string takes every write");
        }
    }
    line
}

/// CLUSTER NODES.
pub(crate) fn nodes(cx: &mut Cx<'_>, _: Args<'_>) {
    let Some(cluster) = cluster_of(cx) else { return };
    let map = cluster.map();
    let lines = map.nodes.values().map(|node| line(cx.service, &cluster, &map, node) + "\n");
    cx.reply.verbatim(lines.collect::<String>().as_bytes());
}

/// CLUSTER REPLICAS and CLUSTER SLAVES.
pub(crate) fn replicas(cx: &mut Cx<'_>, args: Args<'_>) {
    let Some(cluster) = cluster_of(cx) else { return };
    let map = cluster.map();
    let id = String::from_utf8_lossy(args.get(2));
    match map.nodes.get(&*id) {
        None => cx.reply.error(&format!("{UNKNOWN} {id}")),
        Some(node) if node.primary.is_some() => {
            cx.reply.error("ERR The specified node is not a master");
        }
        Some(_) => {
            let all = map.nodes.values().filter(|node| node.primary.as_deref() == Some(&*id));
            let lines: Vec<String> =
                all.map(|node| line(cx.service, &cluster, &map, node)).collect();
            cx.reply.array(lines.len());
            lines.iter().for_each(|line| cx.reply.bulk(line.as_bytes()));
        }
    }
}

/// The node that serves a slot, and its replicas behind it.
fn with_replicas<'m>(map: &'m Map, node: &'m Node) -> Vec<&'m Node> {
    let is_its = |other: &&Node| other.primary.as_ref() == Some(&node.id);
    std::iter::once(node).chain(map.nodes.values().filter(is_its)).collect()
}

/// CLUSTER SLOTS.
pub(crate) fn slots(cx: &mut Cx<'_>, _: Args<'_>) {
    let Some(cluster) = cluster_of(cx) else { return };
    let map = cluster.map();
    let ranges = map.ranges();
    cx.reply.array(ranges.len());
    for (first, last, owner) in ranges {
        // Clients may read from those that have the data and answer.
        let may_read = |node: &&Node| {
            node.id == owner.id
                || (cluster.health(cx.service, &map, node) == Health::Up
                    && cluster.progress(cx.service, &map, node).1)
        };
        let mut nodes = with_replicas(&map, owner);
        nodes.retain(may_read);
        cx.reply.array(2 + nodes.len());
        cx.reply.integer(i64::from(first));
        cx.reply.integer(i64::from(last));
        for node in nodes {
            cx.reply.array(4);
            cx.reply.bulk(node.host.as_bytes());
            cx.reply.integer(i64::from(node.port));
            cx.reply.bulk(node.id.as_bytes());
            cx.reply.map(0);
        }
    }
}

fn show_node(
    service: &Service,
    (cluster, map): (&Cluster, &Map),
    node: &Node,
    reply: &mut Reply<'_>,
) {
    let (offset, is_whole) = cluster.progress(service, map, node);
    let health: &[u8] = match cluster.health(service, map, node) {
        Health::Up if is_whole => b"online",
        Health::Up => b"loading",
        Health::Unheard | Health::Failed => b"fail",
    };
    let role: &[u8] = if node.primary.is_some() { b"replica" } else { b"master" };
    reply.map(7);
    reply.bulk(b"id");
    reply.bulk(node.id.as_bytes());
    reply.bulk(b"port");
    reply.integer(i64::from(node.port));
    for name in [&b"ip"[..], b"endpoint"] {
        reply.bulk(name);
        reply.bulk(node.host.as_bytes());
    }
    reply.bulk(b"role");
    reply.bulk(role);
    reply.bulk(b"replication-offset");
    reply.integer(offset as i64);
    reply.bulk(b"health");
    reply.bulk(health);
}

/// CLUSTER SHARDS.
pub(crate) fn shards(cx: &mut Cx<'_>, _: Args<'_>) {
    let Some(cluster) = cluster_of(cx) else { return };
    let map = cluster.map();
    let primaries: Vec<&Node> = map.nodes.values().filter(|n| n.primary.is_none()).collect();
    cx.reply.array(primaries.len());
    for primary in primaries {
        cx.reply.map(2);
        cx.reply.bulk(b"slots");
        let ranges = map.slots_of(primary).ranges();
        cx.reply.array(2 * ranges.len());
        for (first, last) in ranges {
            cx.reply.integer(i64::from(first));
            cx.reply.integer(i64::from(last));
        }
        cx.reply.bulk(b"nodes");
        let nodes = with_replicas(&map, primary);
        cx.reply.array(nodes.len());
        for node in nodes {
            show_node(cx.service, (&cluster, &map), node, &mut cx.reply);
        }
    }
}

/// CLUSTER LINKS.
pub(crate) fn links(cx: &mut Cx<'_>, _: Args<'_>) {
    let Some(cluster) = cluster_of(cx) else { return };
    let mut all = Vec::new();
    cluster.links.each(|id, since_ms, waiting| all.push((id.to_string(), since_ms, waiting)));
    cx.reply.array(all.len());
    for (id, since_ms, waiting) in all {
        cx.reply.map(6);
        cx.reply.bulk(b"direction");
        cx.reply.bulk(b"to");
        cx.reply.bulk(b"node");
        cx.reply.bulk(id.as_bytes());
        cx.reply.bulk(b"create-time");
        cx.reply.integer(since_ms as i64);
        cx.reply.bulk(b"events");
        cx.reply.bulk(b"rw");
        cx.reply.bulk(b"send-buffer-allocated");
        cx.reply.integer(waiting as i64);
        cx.reply.bulk(b"send-buffer-used");
        cx.reply.integer(waiting as i64);
    }
}
