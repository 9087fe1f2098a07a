//! Commands about the cluster that this node is a part of.

pub(crate) mod replicas;
pub(crate) mod show;

use crate::burst::Args;
use crate::cluster::{Cluster, Map, Node, SLOTS, SlotSet, is_id, new_id, of_topology};
use crate::push::Kind;
use crate::resp::{Cx, Keyspace, introspect, whole, wrong_number, wrong_subcommand};
use silica::engine::Result;
use silica_proto::{Reply, parse_i64};
use std::sync::Arc;

pub(crate) const DISABLED: &str = "ERR This instance has cluster support disabled";
const UNKNOWN: &str = "ERR Unknown node";
const INVALID_SLOT: &str = "ERR Invalid or out of range slot";
const NOT_PRIMARY: &str = "ERR You can use SETSLOT only with masters.";
/// Keys that GETKEYSINSLOT returns at most.
const KEYS_MAX: i64 = 100_000;

/// What a change comes to: the text of an error, if it is refused.
type Changed<T = ()> = std::result::Result<T, String>;

/// The cluster; without one the request is answered.
fn cluster_of(cx: &mut Cx<'_>) -> Option<Arc<Cluster>> {
    let cluster = cx.service.cluster.clone();
    if cluster.is_none() {
        cx.reply.error(DISABLED);
    }
    cluster
}

/// Answers with what `work` says of the cluster, or OK.
fn change(
    keys: &Keyspace<'_>,
    reply: &mut Reply<'_>,
    work: impl FnOnce(&Cluster) -> Changed,
) -> Result<()> {
    match keys.service.cluster.as_ref() {
        None => reply.error(DISABLED),
        Some(cluster) => match work(cluster) {
            Ok(()) => reply.ok(),
            Err(text) => reply.error(&text),
        },
    }
    Ok(())
}

pub(crate) fn help(cx: &mut Cx<'_>, _: Args<'_>) {
    if cluster_of(cx).is_some() {
        introspect::help(cx, "cluster");
    }
}

/// ASKING.
pub(crate) fn asking(cx: &mut Cx<'_>, _: Args<'_>) {
    if cluster_of(cx).is_some() {
        cx.session.asking = true;
        cx.reply.ok();
    }
}

/// READONLY.
pub(crate) fn readonly(cx: &mut Cx<'_>, _: Args<'_>) {
    if cluster_of(cx).is_some() {
        cx.session.read_only = true;
        cx.reply.ok();
    }
}

/// READWRITE.
pub(crate) fn readwrite(cx: &mut Cx<'_>, _: Args<'_>) {
    if cluster_of(cx).is_some() {
        cx.session.read_only = false;
        cx.reply.ok();
    }
}

fn text(args: Args<'_>, index: usize) -> String {
    String::from_utf8_lossy(args.get(index)).into_owned()
}

fn slot(args: Args<'_>, index: usize) -> Changed<u16> {
    let number = parse_i64(args.get(index)).and_then(|slot| u16::try_from(slot).ok());
    number.filter(|slot| *slot < SLOTS).ok_or_else(|| INVALID_SLOT.into())
}

/// The slots that ADDSLOTS, DELSLOTS and their forms with ranges name.
fn named_slots(args: Args<'_>) -> Changed<Vec<u16>> {
    let is_ranges = text(args, 1).to_ascii_lowercase().ends_with("range");
    let mut slots = Vec::new();
    if is_ranges {
        if !args.len().is_multiple_of(2) {
            return Err(wrong_number(&format!("cluster|{}", text(args, 1).to_ascii_lowercase())));
        }
        for index in (2..args.len()).step_by(2) {
            let (first, last) = (slot(args, index)?, slot(args, index + 1)?);
            if first > last {
                return Err(format!(
                    "ERR start slot number {first} is greater than end slot number {last}"
                ));
            }
            slots.extend(first..=last);
        }
    } else {
        for index in 2..args.len() {
            slots.push(slot(args, index)?);
        }
    }
    Ok(slots)
}

/// Refuses the first of `slots` for which `refuse` says why, or that is named twice.
fn check_slots(slots: &[u16], refuse: impl Fn(u16) -> Option<String>) -> Changed {
    let mut seen = SlotSet::default();
    for slot in slots {
        if let Some(text) = refuse(*slot) {
            return Err(text);
        }
        if seen.contains(*slot) {
            return Err(format!("ERR Slot {slot} specified multiple times"));
        }
        seen.insert(*slot);
    }
    Ok(())
}

/// CLUSTER ADDSLOTS and ADDSLOTSRANGE.
pub(crate) fn addslots(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    change(keys, reply, |cluster| {
        let slots = named_slots(args)?;
        cluster.change(keys.service, |map| {
            if map.me().primary.is_some() {
                return Err("ERR this node is a replica, which serves no slots of its own".into());
            }
            check_slots(&slots, |slot| {
                map.owner(slot).map(|_| format!("ERR Slot {slot} is already busy"))
            })?;
            map.take(&slots);
            Ok(())
        })
    })
}

/// CLUSTER DELSLOTS and DELSLOTSRANGE.
pub(crate) fn delslots(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    change(keys, reply, |cluster| {
        let slots = named_slots(args)?;
        cluster.change(keys.service, |map| {
            check_slots(&slots, |slot| match map.owner(slot) {
                Some(_) => None,
                None => Some(format!("ERR Slot {slot} is already unassigned")),
            })?;
            map.free(&slots);
            Ok(())
        })
    })
}

/// True if the database has a key.
fn has_keys(keys: &Keyspace<'_>) -> bool {
    // A store that cannot be asked is not called empty.
    whole::any_key(keys).unwrap_or(true)
}

/// CLUSTER FLUSHSLOTS.
pub(crate) fn flushslots(keys: &Keyspace<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    change(keys, reply, |cluster| {
        if has_keys(keys) {
            return Err("ERR DB must be empty to perform CLUSTER FLUSHSLOTS.".into());
        }
        cluster.change(keys.service, |map| {
            let all: Vec<u16> = (0..SLOTS).filter(|slot| map.owner(*slot).is_some()).collect();
            map.free(&all);
            Ok(())
        })
    })
}

/// CLUSTER BUMPEPOCH.
pub(crate) fn bumpepoch(keys: &Keyspace<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let Some(cluster) = &keys.service.cluster else {
        reply.error(DISABLED);
        return Ok(());
    };
    let bumped = cluster.change(keys.service, |map| match map.has_highest_epoch() {
        true => Ok(format!("STILL {}", map.me().epoch)),
        false => Ok(format!("BUMPED {}", map.bump_epoch())),
    });
    match bumped {
        Ok(text) => reply.simple(&text),
        Err(text) => reply.error(&text),
    }
    Ok(())
}

/// CLUSTER SET-CONFIG-EPOCH.
pub(crate) fn set_config_epoch(
    keys: &Keyspace<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    change(keys, reply, |cluster| {
        let epoch = parse_i64(args.get(2)).and_then(|epoch| u64::try_from(epoch).ok());
        let epoch = epoch
            .ok_or_else(|| format!("ERR Invalid config epoch specified: {}", text(args, 2)))?;
        cluster.change(keys.service, |map| {
            if map.nodes.len() > 1 {
                return Err("ERR The user can assign a config epoch only when the node does not \
                            know any other node."
                    .into());
            }
            if map.me().epoch != 0 {
                return Err("ERR Node config epoch is already non-zero".into());
            }
            map.change_me().epoch = epoch;
            map.settle();
            Ok(())
        })
    })
}

/// Keys of `slot` on this node, `max` at most.
fn keys_of_slot(
    keys: &Keyspace<'_>,
    cluster: &Cluster,
    slot: u16,
    max: usize,
) -> Result<Vec<Box<[u8]>>> {
    cluster.keys.list(keys, &keys.service.databases.watchers[0], slot, max)
}

/// CLUSTER COUNTKEYSINSLOT.
pub(crate) fn countkeysinslot(
    keys: &Keyspace<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    match (&keys.service.cluster, slot(args, 2)) {
        (None, _) => reply.error(DISABLED),
        (_, Err(_)) => reply.error("ERR Invalid slot"),
        (Some(cluster), Ok(slot)) => {
            reply.integer(keys_of_slot(keys, cluster, slot, usize::MAX)?.len() as i64);
        }
    }
    Ok(())
}

/// CLUSTER GETKEYSINSLOT.
pub(crate) fn getkeysinslot(
    keys: &Keyspace<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let max = parse_i64(args.get(3)).filter(|max| *max >= 0);
    match (&keys.service.cluster, slot(args, 2), max) {
        (None, ..) => reply.error(DISABLED),
        (Some(cluster), Ok(slot), Some(max)) => {
            let found = keys_of_slot(keys, cluster, slot, max.min(KEYS_MAX) as usize)?;
            let told: Vec<_> = found.iter().filter(|key| keys.may_tell(key)).collect();
            reply.array(told.len());
            told.iter().for_each(|key| reply.bulk(key));
        }
        _ => reply.error("ERR Invalid slot or number of keys"),
    }
    Ok(())
}

/// CLUSTER SETSLOT.
pub(crate) fn setslot(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let wrong = "ERR Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP";
    change(keys, reply, |cluster| {
        let slot = slot(args, 2)?;
        let map = cluster.map();
        if map.me().primary.is_some() {
            return Err(NOT_PRIMARY.into());
        }
        if args.len() == 4 && args.is(3, "stable") {
            return cluster.change(keys.service, |map| {
                map.migrating.remove(&slot);
                map.importing.remove(&slot);
                Ok(())
            });
        }
        if args.len() != 5 {
            return Err(wrong.into());
        }
        let id = text(args, 4);
        if args.is(3, "node") {
            return set_owner(keys, cluster, slot, &id);
        }
        let is_migrating = args.is(3, "migrating");
        if !is_migrating && !args.is(3, "importing") {
            return Err(wrong.into());
        }
        cluster.change(keys.service, |map| {
            match (is_migrating, map.is_mine(slot)) {
                (true, false) => return Err(format!("ERR I'm not the owner of hash slot {slot}")),
                (false, true) => {
                    return Err(format!("ERR I'm already the owner of hash slot {slot}"));
                }
                _ => {}
            }
            let node = map.nodes.get(&id);
            let node = node.ok_or_else(|| format!("ERR I don't know about node {id}"))?;
            if node.primary.is_some() {
                return Err("ERR Target node is not a master".into());
            }
            if id == map.me {
                return Err(format!("ERR node {id} is this node; name the other one"));
            }
            if is_migrating {
                map.begin_to_leave(slot, &id);
                cluster.note_leaving(keys.service);
            } else {
                map.importing.insert(slot, id);
            }
            Ok(())
        })
    })
}

/// CLUSTER SETSLOT n NODE.
fn set_owner(keys: &Keyspace<'_>, cluster: &Cluster, slot: u16, id: &str) -> Changed {
    let map = cluster.map();
    let node = map.nodes.get(id).ok_or_else(|| format!("{UNKNOWN} {id}"))?;
    if node.primary.is_some() {
        return Err("ERR Target node is not a master".into());
    }
    let leaves = map.is_mine(slot) && *id != map.me;
    if leaves {
        let error = |error| crate::engine_calls::error_text(&error);
        if !keys_of_slot(keys, cluster, slot, 1).map_err(error)?.is_empty() {
            return Err(format!(
                "ERR Can't assign hashslot {slot} to a different node while I still hold keys for \
                 this hash slot."
            ));
        }
    }
    cluster.change(keys.service, |map| {
        if *id != map.me {
            if map.owner(slot).is_none_or(|owner| owner.id != *id) {
                map.leave_to(slot, id);
            }
            return Ok(());
        }
        if map.importing.contains_key(&slot) && !map.has_highest_epoch() {
            // Whoever hears of it believes the newer epoch.
            map.bump_epoch();
        }
        if !map.is_mine(slot) {
            map.take(&[slot]);
        }
        map.migrating.remove(&slot);
        map.importing.remove(&slot);
        Ok(())
    })
}

/// CLUSTER MEET.
pub(crate) fn meet(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    change(keys, reply, |cluster| {
        if args.len() > 5 {
            return Err(wrong_subcommand(args));
        }
        let (host, port) = (text(args, 2), text(args, 3));
        if parse_i64(port.as_bytes()).is_none() {
            return Err(format!("ERR Invalid TCP base port specified: {port}"));
        }
        let number = port.parse::<u16>().ok().filter(|port| *port > 0);
        let is_host = !host.is_empty() && !host.contains(|c: char| c.is_whitespace());
        let Some(number) = number.filter(|_| is_host) else {
            return Err(format!("ERR Invalid node address specified: {host}:{port}"));
        };
        cluster.meet(keys.service, &host, number)
    })
}

/// CLUSTER FORGET.
pub(crate) fn forget(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    change(keys, reply, |cluster| {
        let (map, id) = (cluster.map(), text(args, 2));
        if !map.nodes.contains_key(&id) {
            return Err(format!("{UNKNOWN} {id}"));
        }
        if id == map.me {
            return Err("ERR I tried hard but I can't forget myself...".into());
        }
        if map.me().primary.as_ref() == Some(&id) {
            return Err("ERR Can't forget my master!".into());
        }
        cluster.forget(keys.service, &id)
    })
}

/// CLUSTER RESET.
pub(crate) fn reset(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    change(keys, reply, |cluster| {
        let is_hard = args.len() == 3 && args.is(2, "hard");
        if args.len() > 3 || (args.len() == 3 && !is_hard && !args.is(2, "soft")) {
            return Err("ERR syntax error".into());
        }
        let was_replica = cluster.map().me().primary.is_some();
        if !was_replica && has_keys(keys) {
            return Err(
                "ERR CLUSTER RESET can't be called with master nodes containing keys".into()
            );
        }
        let reset = cluster.change(keys.service, |map| {
            let old = map.me().clone();
            let id = if is_hard { new_id() } else { old.id.clone() };
            let mut me = Node::new(&id, &old.host, old.port);
            me.revision = old.revision + 1;
            me.epoch = if is_hard { 0 } else { old.epoch };
            *map = Map::new(me);
            Ok(())
        });
        reset?;
        // What a replica has is another node's.
        if was_replica {
            let cleared = keys.service.databases.alone(|| whole::clear_all(keys));
            cleared.map_err(|error| crate::engine_calls::error_text(&error))?;
        }
        Ok(())
    })
}

/// CLUSTER SAVECONFIG.
pub(crate) fn saveconfig(keys: &Keyspace<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    change(keys, reply, Cluster::save_again)
}

/// CLUSTERX: what tools set from outside, and what nodes tell each other.
pub(crate) fn clusterx(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let Some(cluster) = &keys.service.cluster else {
        reply.error(DISABLED);
        return Ok(());
    };
    let is = |word: &str, lens: std::ops::RangeInclusive<usize>| {
        args.is(1, word) && lens.contains(&args.len())
    };
    match () {
        () if is("version", 2..=2) => reply.integer(cluster.map().version),
        () if is("myid", 2..=2) => reply.bulk(cluster.map().me.as_bytes()),
        () if is("setnodes", 4..=5) => return setnodes(keys, args, reply),
        () if is("setnodeid", 3..=3) => return setnodeid(keys, args, reply),
        () if is("setslot", 6..=6) => return setslot_by_version(keys, args, reply),
        () if is("publish", 4..=4) => {
            let sent = keys.service.publish_here(Kind::Channel, args.get(2), args.get(3));
            match sent {
                Ok(count) => reply.integer(count as i64),
                Err(text) => reply.error(&text),
            }
        }
        () if is("handover", 3..=4) => return replicas::handover(keys, args, reply),
        () if is("report", 5..=usize::MAX) => {
            let words: Vec<String> = (3..args.len()).map(|index| text(args, index)).collect();
            cluster.take_report(keys.service, &text(args, 2), &words);
            reply.ok();
        }
        () if is("state", 3..=3) || is("meet", 4..=4) => return state(keys, args, reply),
        () => reply.error(&wrong_subcommand(args)),
    }
    Ok(())
}

/// What another node knows; the answer is what this one knows.
fn state(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let Some(cluster) = &keys.service.cluster else { return Ok(()) };
    let is_met = args.is(1, "meet");
    let learned = Map::of_text(&text(args, 2)).map_err(|why| format!("ERR {why}"));
    let learned = learned.and_then(|other| {
        if is_met && cluster.map().me().host.is_empty() {
            // By this address it was reached.
            let host = text(args, 3);
            cluster.change(keys.service, |map| {
                map.change_me().host = host;
                Ok(())
            })?;
        }
        cluster.learn(keys.service, &other, is_met)
    });
    match learned {
        Ok(()) => reply.bulk(cluster.map().text().as_bytes()),
        Err(text) => reply.error(&text),
    }
    Ok(())
}

/// CLUSTERX SETNODES.
fn setnodes(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    change(keys, reply, |cluster| {
        let version = parse_i64(args.get(3)).filter(|version| *version >= 0);
        let version = version.ok_or("ERR Invalid version of cluster")?;
        let is_forced = match args.len() {
            4 => false,
            _ if args.is(4, "force") || args.get(4) == b"1" => true,
            _ if args.get(4) == b"0" => false,
            _ => return Err("ERR Invalid command options".into()),
        };
        let needs_all = !cluster.options.serves_parts;
        let text = text(args, 2);
        cluster.change(keys.service, |map| {
            if version < map.version && !is_forced {
                return Err(format!(
                    "ERR Invalid version of cluster: version {} is set already",
                    map.version
                ));
            }
            let new = of_topology(&text, version, map, needs_all)
                .map_err(|why| format!("ERR Invalid cluster nodes info: {why}"))?;
            let is_same = new.nodes.len() == map.nodes.len()
                && new.nodes.values().all(|node| {
                    map.nodes.get(&node.id).is_some_and(|old| {
                        (&old.slots, old.address(), &old.primary)
                            == (&node.slots, node.address(), &node.primary)
                    })
                });
            if version == map.version && !is_forced {
                return match is_same {
                    true => Ok(()),
                    false => Err(format!(
                        "ERR version {version} is set already, with other nodes or slots; set them \
                         with a higher version"
                    )),
                };
            }
            *map = new;
            Ok(())
        })
    })
}

/// CLUSTERX SETNODEID.
fn setnodeid(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    change(keys, reply, |cluster| {
        let id = text(args, 2);
        if !is_id(&id) {
            return Err("ERR Invalid node id: it has 40 hexadecimal digits".into());
        }
        cluster.change(keys.service, |map| {
            if id == map.me {
                return Ok(());
            }
            if map.nodes.contains_key(&id) {
                return Err(format!("ERR node {id} is another node of this cluster"));
            }
            let old = map.me.clone();
            let mut me = map.nodes.remove(&old).expect("the node itself is in its map");
            me.id.clone_from(&id);
            map.nodes.insert(id.clone(), me);
            map.me = id;
            map.settle();
            Ok(())
        })
    })
}

/// CLUSTERX SETSLOT slot NODE id version.
fn setslot_by_version(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    change(keys, reply, |cluster| {
        let (slot, id) = (slot(args, 2)?, text(args, 4));
        let version = parse_i64(args.get(5)).filter(|version| *version >= 0);
        let version = version.ok_or("ERR Invalid version of cluster")?;
        if !args.is(3, "node") {
            return Err("ERR Invalid cluster command options".into());
        }
        cluster.change(keys.service, |map| {
            if version != map.version + 1 {
                return Err(format!(
                    "ERR Invalid version of cluster: the next one is {}",
                    map.version + 1
                ));
            }
            if !map.nodes.contains_key(&id) {
                return Err(format!("{UNKNOWN} {id}"));
            }
            map.nodes.values_mut().for_each(|node| match node.id == id {
                true => node.slots.insert(slot),
                false => node.slots.remove(slot),
            });
            map.version = version;
            map.migrating.remove(&slot);
            map.importing.remove(&slot);
            map.settle();
            Ok(())
        })
    })
}
