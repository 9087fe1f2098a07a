//! The topology as an operator's tool gives it: a line for each node,
//! `ID HOST PORT master|slave PRIMARY|- [SLOTS...]`, as kvrocks-controller writes it.

use super::map::{Map, Node, is_id};
use super::slots::SLOTS;
use std::collections::BTreeMap;

/// The map that `text` describes, with `version`, for the node that has `known`; `needs_all` if
/// each slot has to be somebody's.
///
/// # Errors
/// Says what is wrong with the text, and where.
pub(crate) fn of_topology(
    text: &str,
    version: i64,
    known: &Map,
    needs_all: bool,
) -> Result<Map, String> {
    let mut nodes: BTreeMap<String, Node> = BTreeMap::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let wrong = |why: String| format!("line {}: {why}", number + 1);
        let node = node_of(line, version).map_err(wrong)?;
        for other in nodes.values() {
            if let Some(slot) = node.slots.first_shared(&other.slots) {
                let (one, two) = (&other.id, &node.id);
                return Err(wrong(format!(
                    "slot {slot} belongs to both node {one} and node {two}"
                )));
            }
            if other.address() == node.address() {
                return Err(wrong(format!("two nodes are at {}", node.address())));
            }
        }
        if nodes.insert(node.id.clone(), node).is_some() {
            return Err(wrong("a node is there twice".into()));
        }
    }
    check(&nodes, needs_all)?;
    let me = known.me();
    let by_address = || nodes.values().find(|node| node.address() == me.address());
    let Some(mine) = nodes.get(&me.id).or_else(by_address).cloned() else {
        let (id, address) = (&me.id, me.address());
        return Err(format!("no node has the id {id} or the address {address} of this server"));
    };
    let mut map = Map::new(mine);
    (map.version, map.nodes) = (version, nodes);
    (map.migrating, map.importing) = (known.migrating.clone(), known.importing.clone());
    map.settle();
    Ok(map)
}

/// The topology of a file: `version N`, and the lines of the nodes behind it. `known` itself, if
/// that is not older.
///
/// # Errors
/// Says what is wrong with the text.
pub(super) fn of_file(text: &str, known: &Map, needs_all: bool) -> Result<Map, String> {
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    let version = first.trim().strip_prefix("version ").and_then(|n| n.trim().parse().ok());
    let version: i64 = version.filter(|n| *n >= 0).ok_or("the first line is not 'version N'")?;
    if version < known.version {
        return Ok(known.clone());
    }
    of_topology(rest, version, known, needs_all)
}

fn node_of(line: &str, version: i64) -> Result<Node, String> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [id, host, port, role, primary, slots @ ..] = &words[..] else {
        return Err(format!("'{line}' is not 'ID HOST PORT master|slave PRIMARY|- [SLOTS...]'"));
    };
    if !is_id(id) {
        return Err(format!("'{id}' is no id of 40 hexadecimal digits"));
    }
    let port = port.parse::<u16>().ok().filter(|port| *port > 0);
    let port = port.ok_or_else(|| format!("node {id} has no port from 1 to 65535"))?;
    let mut node = Node::new(id, host, port);
    (node.epoch, node.revision) = (version.unsigned_abs(), version.unsigned_abs() + 1);
    match (*role, *primary) {
        ("master", "-") => {}
        ("slave" | "replica", primary) if is_id(primary) => {
            node.primary = Some(primary.to_string());
        }
        _ => return Err(format!("node {id} is neither 'master -' nor 'slave ID'")),
    }
    slots.iter().try_for_each(|range| node.slots.add_range(range))?;
    if node.primary.is_some() && !node.slots.is_empty() {
        return Err(format!("node {id} is a replica and has slots"));
    }
    Ok(node)
}

/// Refuses replicas of nobody, and slots that nobody has.
fn check(nodes: &BTreeMap<String, Node>, needs_all: bool) -> Result<(), String> {
    for node in nodes.values() {
        if let Some(primary) = &node.primary {
            match nodes.get(primary) {
                None => return Err(format!("node {} is a replica of nobody here", node.id)),
                Some(primary) if primary.primary.is_some() => {
                    return Err(format!("node {} is a replica of a replica", node.id));
                }
                Some(_) => {}
            }
        }
    }
    let is_free = |slot: &u16| !nodes.values().any(|node| node.slots.contains(*slot));
    match (0..SLOTS).find(is_free) {
        Some(slot) if needs_all => Err(format!(
            "slot {slot} belongs to no node; give it to one, or serve with \
             --cluster-partial-coverage"
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_topology_is_said() {
        let (a, b) = ("a".repeat(40), "b".repeat(40));
        let known = Map::new(Node::new(&a, "h", 1));
        let of = |text: &str| of_topology(text, 3, &known, true);
        let good = format!("{a} h 1 master - 0-8191\n{b} h 2 master - 8192-16383\n");
        let map = of(&good).unwrap();
        assert_eq!((map.served(), map.version, map.is_mine(0)), (16384, 3, true));
        let moved = good.replace(&a, &"c".repeat(40));
        assert_eq!(of(&moved).unwrap().me, "c".repeat(40), "it is known by its address");
        for (text, why) in [
            (good.replace("8192-", "8191-"), "slot 8191 belongs to both"),
            (good.replace("0-8191", "0-8190"), "slot 8191 belongs to no node"),
            (good.replace("16383", "16384"), "is no slot"),
            (good.replace(" h 2", " h 1"), "two nodes are at h:1"),
            (good.replace("h 2 master -", "h 2 slave x"), "neither"),
            (format!("{good}{a} h 3 master -"), "there twice"),
            (format!("{good}{} h 3 slave {}", "d".repeat(40), "e".repeat(40)), "of nobody"),
            (good.replace(&a, "abc"), "no id"),
            (good.replace("h 1", "x 9").replace(&a, &"f".repeat(40)), "of this server"),
            (String::new(), "belongs to no node"),
        ] {
            let said = of(&text).unwrap_err();
            assert!(said.contains(why), "{said} / {why}");
        }
    }
}
