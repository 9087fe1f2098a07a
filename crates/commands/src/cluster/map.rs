//! The map of a cluster: nodes, what each claims, and who serves which slot.
//!
//! Invariants:
//! 1. A node's record is changed by that node alone, which counts its `revision` up; of two records
//!    of one node the one with the higher revision is taken. (A map that an operator sets by
//!    CLUSTERX SETNODES replaces all records, and its version decides instead.)
//! 2. A slot belongs to the claimant with the highest epoch; of equal epochs, to the smaller id.
//!    All nodes that have the same records agree.
//! 3. A node that finds another one in possession of a slot that it claims gives its claim up.

use super::slots::{SLOTS, SlotSet};
use silica_base::checksum;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// First line of a map, with the version of the format.
const HEADER: &str = "silica-cluster 1";
/// Digits of an id.
const ID_LEN: usize = 40;

/// How a change of the map comes into its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// Within a second: other nodes say it again.
    Later,
    /// Before it takes effect, and durably within a second.
    Written,
    /// Durably before it takes effect.
    Synced,
}

/// What a node says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    /// 40 hexadecimal digits.
    pub(crate) id: String,
    /// Empty if it does not know how others reach it.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Decides between claims; Redis calls it the configuration epoch.
    pub(crate) epoch: u64,
    pub(crate) revision: u64,
    /// The node that it is a replica of.
    pub(crate) primary: Option<String>,
    pub(crate) slots: SlotSet,
}

impl Node {
    pub(crate) fn new(id: &str, host: &str, port: u16) -> Self {
        let (id, host, slots) = (id.to_string(), host.to_string(), SlotSet::default());
        Node { id, host, port, epoch: 0, revision: 1, primary: None, slots }
    }

    /// Where clients find it.
    pub(crate) fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

/// All nodes and slots, as one node knows them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Map {
    /// The id of the node itself, which is among `nodes`.
    pub(crate) me: String,
    pub(crate) nodes: BTreeMap<String, Node>,
    /// The highest epoch that was seen.
    pub(crate) epoch: u64,
    /// The version that CLUSTERX SETNODES gave it; -1 if nobody did.
    pub(crate) version: i64,
    /// Slots that this node hands over, and to whom.
    pub(crate) migrating: BTreeMap<u16, String>,
    /// Slots that this node takes over, and from whom.
    pub(crate) importing: BTreeMap<u16, String>,
    /// Nodes to which this node has lately handed slots over. After a start nothing is served until
    /// they have told what they serve: which slots those were is not durable at once.
    pub(super) heirs: BTreeSet<String>,
    /// Slots whose claims by others this node was told to forget; until those others say more.
    ignored: SlotSet,
    /// Owners that this node was told of, of slots that no other node claims yet.
    told: BTreeMap<u16, String>,
    /// The ids in their order, and of each slot the owner's place among them, counted from 1.
    ids: Vec<String>,
    owners: Vec<u16>,
    /// This node's own place.
    mine: u16,
    served: usize,
}

/// True for 40 hexadecimal digits in lower case.
pub(crate) fn is_id(text: &str) -> bool {
    text.len() == ID_LEN && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

impl Map {
    /// The map of a node that knows no other.
    pub(crate) fn new(me: Node) -> Self {
        let mut map = Map {
            me: me.id.clone(),
            nodes: BTreeMap::from([(me.id.clone(), me)]),
            epoch: 0,
            version: -1,
            migrating: BTreeMap::new(),
            importing: BTreeMap::new(),
            heirs: BTreeSet::new(),
            ignored: SlotSet::default(),
            told: BTreeMap::new(),
            ids: Vec::new(),
            owners: Vec::new(),
            mine: 0,
            served: 0,
        };
        map.settle();
        map
    }

    pub(crate) fn me(&self) -> &Node {
        &self.nodes[&self.me]
    }

    /// This node's record, to be changed.
    pub(crate) fn change_me(&mut self) -> &mut Node {
        let me = self.nodes.get_mut(&self.me).expect("the node itself is in its map");
        me.revision += 1;
        me
    }

    /// Who serves `slot`.
    pub(crate) fn owner(&self, slot: u16) -> Option<&Node> {
        self.at(self.owners[usize::from(slot)])
    }

    /// The node at `place`.
    fn at(&self, place: u16) -> Option<&Node> {
        self.nodes.get(&self.ids[usize::from(place.checked_sub(1)?)])
    }

    /// The place of node `id`; 0 if it is not known.
    fn place(&self, id: &str) -> u16 {
        self.ids.binary_search_by(|known| known.as_str().cmp(id)).map_or(0, |at| at as u16 + 1)
    }

    pub(crate) fn is_mine(&self, slot: u16) -> bool {
        self.owners[usize::from(slot)] == self.mine
    }

    /// Slots that somebody serves.
    pub(crate) fn served(&self) -> usize {
        self.served
    }

    /// The slots of `node`, as they are served and not only claimed.
    pub(crate) fn slots_of(&self, node: &Node) -> SlotSet {
        let (mut set, place) = (SlotSet::default(), self.place(&node.id));
        if place > 0 {
            let its = self.owners.iter().zip(0..).filter(|(owner, _)| **owner == place);
            its.for_each(|(_, slot)| set.insert(slot));
        }
        set
    }

    /// First and last slot of each run of neighbours that one node serves, and that node.
    pub(crate) fn ranges(&self) -> Vec<(u16, u16, &Node)> {
        let mut ranges = Vec::new();
        let mut first = 0;
        for run in self.owners.chunk_by(|one, next| one == next) {
            let next = first + run.len() as u16;
            if let Some(node) = self.at(run[0]) {
                ranges.push((first, next - 1, node));
            }
            first = next;
        }
        ranges
    }

    /// Nodes that serve slots.
    pub(crate) fn size(&self) -> usize {
        let mut owners = self.owners.clone();
        owners.sort_unstable();
        owners.dedup();
        owners.iter().filter(|owner| **owner > 0).count()
    }

    /// The highest epoch of all.
    pub(crate) fn current_epoch(&self) -> u64 {
        self.nodes.values().map(|node| node.epoch).max().unwrap_or(0).max(self.epoch)
    }

    /// True if this node has an epoch above all others.
    pub(crate) fn has_highest_epoch(&self) -> bool {
        let (mine, current) = (self.me().epoch, self.current_epoch());
        let count = self.nodes.values().filter(|node| node.epoch == current).count();
        mine == current && mine > 0 && count == 1
    }

    /// Gives this node an epoch above all others; its epoch.
    pub(crate) fn bump_epoch(&mut self) -> u64 {
        let epoch = self.current_epoch() + 1;
        self.epoch = epoch;
        self.change_me().epoch = epoch;
        epoch
    }

    /// Lets this node serve `slots`, whoever did so before.
    pub(crate) fn take(&mut self, slots: &[u16]) {
        let epoch = self.me().epoch;
        let mut others = self.nodes.values().filter(|node| node.id != self.me);
        let is_contested = others
            .any(|node| node.epoch >= epoch && slots.iter().any(|slot| node.slots.contains(*slot)));
        if is_contested {
            self.bump_epoch();
        }
        let me = self.change_me();
        slots.iter().for_each(|slot| me.slots.insert(*slot));
        for slot in slots {
            self.ignored.remove(*slot);
            self.told.remove(slot);
            self.importing.remove(slot);
        }
        self.settle();
    }

    /// Forgets who serves `slots`.
    pub(crate) fn free(&mut self, slots: &[u16]) {
        let me = self.change_me();
        slots.iter().for_each(|slot| me.slots.remove(*slot));
        for slot in slots {
            self.ignored.insert(*slot);
            self.told.remove(slot);
        }
        self.settle();
    }

    /// Begins to hand `slot` over to node `id`.
    pub(crate) fn begin_to_leave(&mut self, slot: u16, id: &str) {
        self.migrating.insert(slot, id.to_string());
        self.heirs.insert(id.to_string());
    }

    /// Notes that `id` serves `slot`, which this node does not. A claim of this node stays until
    /// the other one's is known: the slot would be nobody's for whoever hears of this one first.
    pub(crate) fn leave_to(&mut self, slot: u16, id: &str) {
        self.told.insert(slot, id.to_string());
        self.settle();
    }

    /// Lets this node be a replica of node `id`, and serve no slot itself.
    pub(crate) fn follow(&mut self, id: &str) {
        let me = self.change_me();
        me.primary = Some(id.to_string());
        me.slots = SlotSet::default();
        self.migrating.clear();
        self.importing.clear();
        self.heirs.clear();
        self.settle();
    }

    /// Lets this node, a replica, serve what its primary serves, with an epoch above all others.
    pub(crate) fn take_over(&mut self) {
        let primary = self.me().primary.as_ref().and_then(|id| self.nodes.get(id));
        let slots = primary.map(|primary| self.slots_of(primary)).unwrap_or_default();
        self.bump_epoch();
        let me = self.change_me();
        (me.primary, me.slots) = (None, slots);
        self.settle();
    }

    /// Follows the node that its primary follows by now.
    fn follow_on(&mut self) {
        let primary = self.me().primary.as_ref();
        let next = primary.and_then(|id| self.nodes.get(id)).and_then(|node| node.primary.as_ref());
        let is_primary = |id: &&String| self.nodes.get(*id).is_some_and(|n| n.primary.is_none());
        if let Some(next) = next.filter(|id| **id != self.me).filter(is_primary).cloned() {
            self.follow(&next);
        }
    }

    /// Follows the replica that has taken the slots of this node, or of its primary, over; `before`
    /// is what was known before.
    fn follow_successor(&mut self, before: &Map) {
        let primary = self.me().primary.clone();
        self.follow_on();
        if self.me().primary != primary {
            return;
        }
        let loser = primary.unwrap_or_else(|| self.me.clone());
        let Some(lost) = before.nodes.get(&loser).map(|node| before.slots_of(node)) else { return };
        let Some(first) = lost.iter().next() else { return };
        let place = self.owners[usize::from(first)];
        let Some(id) = self.at(place).map(|owner| owner.id.clone()) else { return };
        let was_its = before.nodes.get(&id).is_some_and(|n| n.primary.as_ref() == Some(&loser));
        let has_all = lost.iter().all(|slot| self.owners[usize::from(slot)] == place);
        if was_its && has_all && id != self.me {
            self.follow(&id);
        }
    }

    /// Forgets a node.
    pub(crate) fn forget(&mut self, id: &str) {
        self.nodes.remove(id);
        self.settle();
    }

    /// Finds the owners of all slots anew. What no owner can have ends: claims that lost, and slots
    /// under way.
    pub(crate) fn settle(&mut self) {
        self.ids = self.nodes.keys().cloned().collect();
        self.mine = self.place(&self.me);
        // The last claim is the best one: of the highest epoch, and of the smallest id.
        let primaries = self.nodes.values().zip(1..).filter(|(node, _)| node.primary.is_none());
        let mut claims: Vec<(&Node, u16)> = primaries.collect();
        claims.sort_by_key(|(node, place)| (node.epoch, Reverse(*place)));
        let mut owners = vec![0; usize::from(SLOTS)];
        for (node, place) in claims {
            let ignored = (place != self.mine).then_some(&self.ignored);
            let slots = ignored.map(|ignored| node.slots.without(ignored));
            let slots = slots.as_ref().unwrap_or(&node.slots);
            slots.iter().for_each(|slot| owners[usize::from(slot)] = place);
        }
        let mine = self.mine;
        let is_lost = |slot: &u16| owners[usize::from(*slot)] != mine;
        let lost: Vec<u16> = self.me().slots.iter().filter(is_lost).collect();
        self.owners = owners;
        for (slot, id) in &self.told {
            let place = self.place(id);
            let owner = &mut self.owners[usize::from(*slot)];
            if (*owner == 0 || *owner == mine) && place > 0 {
                *owner = place;
            }
        }
        self.served = self.owners.iter().filter(|owner| **owner > 0).count();
        if !lost.is_empty() {
            let me = self.change_me();
            lost.iter().for_each(|slot| me.slots.remove(*slot));
        }
        let nodes = &self.nodes;
        let owners = &self.owners;
        let is_mine = |slot: u16| owners[usize::from(slot)] == mine;
        self.migrating.retain(|slot, to| is_mine(*slot) && nodes.contains_key(to));
        self.importing.retain(|slot, from| !is_mine(*slot) && nodes.contains_key(from));
        self.heirs.retain(|id| nodes.contains_key(id));
        self.epoch = self.current_epoch();
    }

    /// Why `other`, which this node has not met, cannot become a part of the cluster, if it cannot.
    pub(crate) fn refuse_stranger(&self, other: &Map) -> Option<String> {
        let strangers = other.nodes.values().filter(|node| !self.nodes.contains_key(&node.id));
        for stranger in strangers {
            for node in self.nodes.values().filter(|node| !other.nodes.contains_key(&node.id)) {
                if let Some(slot) = stranger.slots.first_shared(&node.slots) {
                    return Some(format!(
                        "slot {slot} is claimed by node {} with epoch {} and by node {} with epoch \
                         {}: they are of two clusters; remove it from one of them (CLUSTER \
                         DELSLOTS, CLUSTER RESET) and meet again",
                        node.id, node.epoch, stranger.id, stranger.epoch
                    ));
                }
            }
        }
        None
    }

    /// Takes what `other` knows better; `is_known` says whether a node that is not in this map may
    /// come into it. True if anything changed.
    pub(crate) fn merge(&mut self, other: &Map, may_add: impl Fn(&str) -> bool) -> bool {
        let is_news = |(id, node): &(&String, &Node)| match self.nodes.get(*id) {
            Some(known) => known.revision < node.revision,
            None => may_add(id),
        };
        let news: Vec<&Node> = other.nodes.iter().filter(is_news).map(|(_, node)| node).collect();
        // Most of what is told is known, as each answer has a map.
        let is_known = news.is_empty() && other.epoch <= self.current_epoch();
        if is_known && !self.has_epoch_of_another() && !self.follows_a_replica() {
            return false;
        }
        let before = self.clone();
        for node in news {
            if node.id == self.me {
                // This node has lost its file, or an older one was put back.
                self.change_me().revision = node.revision + 1;
                continue;
            }
            self.ignored = self.ignored.without(&node.slots);
            self.nodes.insert(node.id.clone(), node.clone());
        }
        self.epoch = self.current_epoch().max(other.epoch);
        // Two primaries have one epoch: the one with the smaller id takes a new one, as in Redis.
        if self.has_epoch_of_another() {
            self.bump_epoch();
        }
        self.settle();
        self.follow_successor(&before);
        *self != before
    }

    /// This node is a primary, and one with a larger id has the same epoch.
    fn has_epoch_of_another(&self) -> bool {
        let me = self.me();
        let collides = |node: &Node| {
            node.id > me.id && node.epoch == me.epoch && node.primary.is_none() && me.epoch > 0
        };
        me.primary.is_none() && self.nodes.values().any(collides)
    }

    /// The primary of this node is a replica by now.
    fn follows_a_replica(&self) -> bool {
        let primary = self.me().primary.as_ref().and_then(|id| self.nodes.get(id));
        primary.is_some_and(|primary| primary.primary.is_some())
    }

    /// How this map has to come into the file that has `old`.
    ///
    /// A claim that is given up need not be durable at once if the slot was being handed over: the
    /// file of before says that, or whom to ask first ([`Map::heirs`]). So after a power cut keys
    /// are asked for at the node that has them, and that node says again that the slot is its own.
    ///
    /// That a slot is under way need not be durable at once either, as long as nothing came of it
    /// ([`Map::has_more_under_way`]).
    pub(super) fn keep(&self, old: &Map) -> Keep {
        let rest = |map: &Map| (map.epoch, map.version, map.me.clone());
        let (me, was) = (self.me(), old.me());
        let (gained, lost) = (me.slots.without(&was.slots), was.slots.without(&me.slots));
        let (leaving, was_leaving) = (self.leaving(), old.leaving());
        if rest(self) != rest(old)
            || old.importing.iter().any(|(slot, id)| self.importing.get(slot) != Some(id))
            || !self.heirs.is_subset(&old.heirs)
            || !self.nodes.keys().eq(old.nodes.keys())
            || !gained.is_empty()
            || leaving
                .iter()
                .any(|(slot, id)| was_leaving.get(slot) != Some(id) && !old.heirs.contains(*id))
            || was_leaving.keys().any(|slot| !leaving.contains_key(slot) && !lost.contains(*slot))
        {
            return Keep::Synced;
        }
        if lost.is_empty() {
            return match me == was {
                true if self.has_more_under_way(old) => Keep::Written,
                true => Keep::Later,
                false => Keep::Synced,
            };
        }
        let (revision, slots) = (was.revision, was.slots.clone());
        let is_same = Node { revision, slots, ..me.clone() } == *was;
        let is_anothers = |slot: u16| self.owner(slot).is_some_and(|node| node.id != self.me);
        let were_leaving = lost.iter().all(|slot| was_leaving.contains_key(&slot));
        if is_same && were_leaving && lost.iter().all(is_anothers) {
            return Keep::Written;
        }
        Keep::Synced
    }

    /// True if slots are under way that were not in `old`. The file has to have that, durably,
    /// before a key of theirs is removed here, asked for at the other node, or written here for it.
    pub(super) fn has_more_under_way(&self, old: &Map) -> bool {
        let (leaving, was_leaving) = (self.leaving(), old.leaving());
        leaving.iter().any(|(slot, id)| was_leaving.get(slot) != Some(id))
            || self.importing.iter().any(|(slot, id)| old.importing.get(slot) != Some(id))
    }

    /// True if this node hands a slot over.
    pub(super) fn is_leaving_some(&self) -> bool {
        !self.leaving().is_empty()
    }

    /// Slots that this node hands over, and to whom; those too that it was told to leave, until it
    /// has heard of the other node's claim and given up its own.
    fn leaving(&self) -> BTreeMap<u16, &str> {
        let told = self.told.iter().filter(|(slot, _)| self.me().slots.contains(**slot));
        told.chain(&self.migrating).map(|(slot, id)| (*slot, id.as_str())).collect()
    }

    /// The map as text, for other nodes.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("{HEADER}\nme {}\n", self.me);
        let mut line = |arguments: std::fmt::Arguments<'_>| {
            writeln!(text, "{arguments}").expect("a string takes every write");
        };
        line(format_args!("epoch {}", self.current_epoch()));
        line(format_args!("version {}", self.version));
        for node in self.nodes.values() {
            let Node { id, host, port, epoch, revision, primary, slots } = node;
            let host = if host.is_empty() { "-" } else { host };
            let primary = primary.as_deref().unwrap_or("-");
            let slots = slots.text();
            line(format_args!("node {id} {host} {port} {epoch} {revision} {primary} {slots}"));
        }
        text
    }

    /// The map as its file has it: with slots that are under way, heirs, and a checksum.
    pub(crate) fn file(&self) -> String {
        let mut text = self.text();
        for id in &self.heirs {
            writeln!(text, "heir {id}").expect("a string takes every write");
        }
        let importing = self.importing.iter().map(|(slot, id)| (*slot, id.as_str())).collect();
        for (word, slots) in [("migrating", self.leaving()), ("importing", importing)] {
            for (slot, id) in slots {
                writeln!(text, "{word} {slot} {id}").expect("a string takes every write");
            }
        }
        let sum = checksum(text.as_bytes());
        text + &format!("sum {sum:08x}\n")
    }

    /// Reads a file.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub(crate) fn of_file(text: &str) -> Result<Map, String> {
        let body = text.rfind("sum ").map_or("", |at| &text[..at]);
        let sum = format!("sum {:08x}\n", checksum(body.as_bytes()));
        if text.get(body.len()..) != Some(sum.as_str()) {
            return Err("its checksum is wrong, or its end is missing".into());
        }
        Map::of_text(body)
    }

    /// Reads what [`Map::text`] or [`Map::file`] wrote, but for the checksum.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub(crate) fn of_text(text: &str) -> Result<Map, String> {
        let mut lines = text.lines();
        if lines.next() != Some(HEADER) {
            return Err(format!("it does not begin with '{HEADER}'"));
        }
        let (mut me, mut epoch, mut version) = (String::new(), 0, -1);
        let mut nodes = BTreeMap::new();
        let (mut migrating, mut importing) = (BTreeMap::new(), BTreeMap::new());
        let mut heirs = BTreeSet::new();
        for (number, line) in lines.enumerate() {
            let wrong = |why: String| format!("line {}: {why}", number + 2);
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["me", id] if is_id(id) => me = id.to_string(),
                ["epoch", n] => epoch = n.parse().map_err(|_| wrong(format!("epoch '{n}'")))?,
                ["version", n] => {
                    version = n.parse().map_err(|_| wrong(format!("version '{n}'")))?;
                }
                ["node", ..] => {
                    let node = node_of(&words).map_err(wrong)?;
                    if nodes.insert(node.id.clone(), node).is_some() {
                        return Err(wrong(format!("node {} is there twice", words[1])));
                    }
                }
                ["heir", id] if is_id(id) => drop(heirs.insert(id.to_string())),
                [word @ ("migrating" | "importing"), slot, id] if is_id(id) => {
                    let known = slot.parse().ok().filter(|slot: &u16| *slot < SLOTS);
                    let slot = known.ok_or_else(|| wrong(format!("'{slot}' is no slot")))?;
                    let list = if word == "migrating" { &mut migrating } else { &mut importing };
                    list.insert(slot, id.to_string());
                }
                _ => return Err(wrong(format!("'{line}' is not understood"))),
            }
        }
        let Some(own) = nodes.get(&me).cloned() else {
            return Err("it does not say which of the nodes it is of".into());
        };
        let own = Map::new(own);
        let mut map = Map { nodes, epoch, version, migrating, importing, heirs, ..own };
        map.settle();
        Ok(map)
    }
}

/// A node of a line's words.
fn node_of(words: &[&str]) -> Result<Node, String> {
    let [_, id, host, port, epoch, revision, primary, slots] = *words else {
        return Err(format!("a node has 7 words, not {}", words.len() - 1));
    };
    if !is_id(id) || !(primary == "-" || is_id(primary)) {
        return Err(format!("'{id}' or '{primary}' is no id of 40 hexadecimal digits"));
    }
    let number = |text: &str| text.parse::<u64>().map_err(|_| format!("'{text}' is no number"));
    let mut node = Node::new(id, if host == "-" { "" } else { host }, 0);
    node.port = port.parse().map_err(|_| format!("'{port}' is no port"))?;
    (node.epoch, node.revision) = (number(epoch)?, number(revision)?);
    node.primary = (primary != "-").then(|| primary.to_string());
    if slots != "-" {
        slots.split(',').try_for_each(|range| node.slots.add_range(range))?;
    }
    Ok(node)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(digit: char) -> String {
        String::from_iter(std::iter::repeat_n(digit, ID_LEN))
    }

    fn map(digit: char, epoch: u64, slots: &str) -> Map {
        let mut node = Node::new(&id(digit), "127.0.0.1", 7000);
        node.epoch = epoch;
        if !slots.is_empty() {
            node.slots.add_range(slots).unwrap();
        }
        Map::new(node)
    }

    #[test]
    fn files_are_read_as_they_were_written_and_not_if_they_are_cut() {
        let mut one = map('a', 1, "0-99");
        one.merge(&map('b', 2, "100-199"), |_| true);
        one.migrating.insert(5, id('b'));
        one.importing.insert(150, id('b'));
        one.begin_to_leave(6, &id('b'));
        let text = one.file();
        assert_eq!(Map::of_file(&text).unwrap(), one);
        for end in 0..text.len() {
            assert!(Map::of_file(&text[..end]).is_err(), "{end}");
        }
        assert!(Map::of_file(&text.replace("0-99", "0-98")).is_err());
    }

    #[test]
    fn the_higher_epoch_has_the_slot_and_the_other_gives_its_claim_up() {
        let mut one = map('a', 1, "0-99");
        let mut two = map('b', 2, "50-60");
        assert!(one.merge(&two, |_| true));
        assert_eq!(one.owner(55).unwrap().id, id('b'));
        assert!(!one.me().slots.contains(55) && one.is_mine(49));
        assert!(two.merge(&one, |_| true));
        assert!(!two.merge(&one, |_| true), "nothing new");
        assert_eq!(two.owner(49).unwrap().id, id('a'));
        assert_eq!(one.served(), 100);
    }

    #[test]
    fn two_nodes_of_one_epoch_get_two() {
        let (mut one, mut two) = (map('a', 3, "0-9"), map('b', 3, "10-19"));
        one.merge(&two, |_| true);
        two.merge(&one, |_| true);
        one.merge(&two, |_| true);
        let epochs = |map: &Map| map.nodes.values().map(|node| node.epoch).collect::<Vec<_>>();
        assert_eq!(epochs(&one), [4, 3]);
        assert_eq!(epochs(&one), epochs(&two));
    }

    #[test]
    fn what_others_say_of_themselves_is_told_from_the_rest() {
        let mut one = map('a', 1, "0-9");
        let mut two = map('b', 2, "10-19");
        let alone = one.clone();
        assert!(one.merge(&two, |_| true));
        assert_eq!(one.keep(&alone), Keep::Synced, "another node");
        let before = one.clone();
        two.free(&[12]);
        assert!(one.merge(&two, |_| true));
        assert_eq!(one.keep(&before), Keep::Later);
        let before = one.clone();
        one.migrating.insert(3, id('b'));
        assert_eq!(one.keep(&before), Keep::Synced, "a slot under way");
        let before = one.clone();
        two.bump_epoch();
        assert!(one.merge(&two, |_| true));
        assert_eq!(one.keep(&before), Keep::Synced, "the highest epoch");
        let before = one.clone();
        two.take(&[9]);
        assert!(one.merge(&two, |_| true));
        assert_eq!(one.keep(&before), Keep::Synced, "its own claim");
        assert_eq!(
            one.ranges().iter().map(|run| (run.0, run.1)).collect::<Vec<_>>(),
            [(0, 8), (9, 11), (13, 19)]
        );
        assert_eq!(
            (one.size(), one.served(), one.has_highest_epoch(), two.has_highest_epoch()),
            (2, 19, false, true)
        );
    }

    /// A slot that was handed over in order comes back from the file of any step as being handed
    /// over: what was moved is asked for at the other node, not answered as missing.
    #[test]
    fn a_slot_that_is_left_is_kept_as_being_handed_over() {
        let (mut one, mut two) = (map('a', 1, "0-9"), map('b', 2, "10-19"));
        assert!(one.merge(&two, |_| true) && two.merge(&one, |_| true));
        let mut before = one.clone();
        one.migrating.insert(5, id('b'));
        assert_eq!(one.keep(&before), Keep::Synced);
        before = one.clone();
        one.leave_to(5, &id('b'));
        assert_eq!((one.keep(&before), one.file()), (Keep::Later, before.file()));
        let again = Map::of_file(&one.file()).unwrap();
        assert_eq!(again.migrating, BTreeMap::from([(5, id('b'))]));
        before = one.clone();
        two.take(&[5]);
        assert!(one.merge(&two, |_| true));
        assert_eq!(one.keep(&before), Keep::Written);
        assert!(
            one.leaving().is_empty() && Map::of_file(&one.file()).unwrap().leaving().is_empty()
        );
        // Without having been handed over, or if it is to stay, the file has it at once.
        before = one.clone();
        two.take(&[6]);
        assert!(one.merge(&two, |_| true));
        assert_eq!(one.keep(&before), Keep::Synced, "it was taken");
        one.leave_to(7, &id('b'));
        before = one.clone();
        one.take(&[7]);
        assert_eq!(one.keep(&before), Keep::Synced, "it stays");
    }

    /// Slots without keys that go to one node: only what that node takes is durable at once, and
    /// the first time that a slot goes to it. What a power cut leaves of the rest says whom to ask.
    #[test]
    fn slots_without_keys_are_handed_over_by_one_sync_each() {
        let (mut one, mut two) = (map('a', 1, "0-9"), map('b', 2, "10-19"));
        assert!(one.merge(&two, |_| true) && two.merge(&one, |_| true));
        let (mut kept, mut durable) = (Vec::new(), one.clone());
        for slot in 0..3 {
            let before = two.clone();
            two.importing.insert(slot, id('a'));
            assert_eq!(two.keep(&before), Keep::Written);
            assert!(two.has_more_under_way(&before));
            let before = two.clone();
            two.take(&[slot]);
            assert_eq!((two.keep(&before), two.has_more_under_way(&before)), (Keep::Synced, false));
            let steps: [&dyn Fn(&mut Map); 3] = [
                &|one| one.begin_to_leave(slot, &id('b')),
                &|one| one.leave_to(slot, &id('b')),
                &|one| assert!(one.merge(&two, |_| true)),
            ];
            for step in steps {
                let before = one.clone();
                step(&mut one);
                kept.push(one.keep(&before));
                if one.keep(&before) == Keep::Synced {
                    durable = one.clone();
                }
                // The other one may have the slot from the first step on.
                let again = Map::of_file(&durable.file()).unwrap();
                assert!(again.heirs.contains(&id('b')), "slot {slot}");
            }
        }
        let all = [Keep::Written, Keep::Later, Keep::Written];
        assert_eq!(kept, [&[Keep::Synced], &all[1..], &all, &all].concat());
        // One that goes to a third node is durable again, and so is the way back.
        let mut before = one.clone();
        one.merge(&map('c', 3, "20-29"), |_| true);
        before.merge(&map('c', 3, "20-29"), |_| true);
        one.begin_to_leave(4, &id('c'));
        assert_eq!(one.keep(&before), Keep::Synced);
        before = one.clone();
        one.migrating.remove(&4);
        assert_eq!(one.keep(&before), Keep::Synced);
        before = one.clone();
        one.heirs.clear();
        assert_eq!(one.keep(&before), Keep::Later);
        one.begin_to_leave(4, &id('c'));
        assert_eq!(one.keep(&before), Keep::Written, "it is one of before");
        // A node that was forgotten tells nothing any more.
        one.forget(&id('c'));
        assert!(one.heirs.is_empty());
    }

    #[test]
    fn a_node_of_another_cluster_is_refused() {
        let (one, two) = (map('a', 1, "0-9"), map('b', 7, "9-12"));
        assert!(one.refuse_stranger(&two).unwrap().contains("slot 9"));
        assert_eq!(one.refuse_stranger(&map('b', 7, "10-12")), None);
    }

    #[test]
    fn a_slot_is_freed_taken_and_handed_over() {
        let (mut one, mut two) = (map('a', 1, "0-9"), map('b', 2, "10-19"));
        one.merge(&two, |_| true);
        two.merge(&one, |_| true);
        // As `redis-cli --cluster fix` does on the node that is to have it.
        two.free(&[5]);
        assert!(two.owner(5).is_none());
        two.take(&[5]);
        assert!(two.is_mine(5));
        one.merge(&two, |_| true);
        assert_eq!(one.owner(5).unwrap().id, id('b'));
        // As reshard does: the target takes, the source leaves.
        one.take(&[15]);
        two.leave_to(15, &id('a'));
        assert_eq!(two.owner(15).unwrap().id, id('a'));
        let mut third = map('c', 3, "");
        third.merge(&two, |_| true);
        assert_eq!(third.owner(15).unwrap().id, id('b'), "never nobody's");
        third.merge(&one, |_| true);
        assert_eq!(third.owner(15).unwrap().id, id('a'));
        two.merge(&one, |_| true);
        assert_eq!(two.owner(15).unwrap().id, id('a'));
    }
}
