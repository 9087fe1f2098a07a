//! Which node runs a request.

use super::map::Map;
use super::slots::slot_of;

pub(crate) const CROSS_SLOT: &str = "CROSSSLOT Keys in request don't hash to the same slot";
pub(crate) const TRY_AGAIN: &str = "TRYAGAIN Multiple keys request during rehashing of slot";
const UNBOUND: &str = "CLUSTERDOWN Hash slot not served";
const DOWN: &str = "CLUSTERDOWN The cluster is down";

/// The slots of a request's keys.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct KeySlots {
    first: Option<u16>,
    /// Its keys are of several slots.
    crosses: bool,
    keys: usize,
}

impl KeySlots {
    /// Adds a key.
    #[inline]
    pub(crate) fn add(&mut self, key: &[u8]) {
        let slot = slot_of(key);
        self.crosses |= self.first.is_some_and(|first| first != slot);
        self.first.get_or_insert(slot);
        self.keys += 1;
    }
}

/// What a request says of itself.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Asked {
    /// ASKING came before it.
    pub(crate) asking: bool,
    /// Its connection has sent READONLY.
    pub(crate) read_only: bool,
    pub(crate) changes: bool,
    /// What it names are channels, which are not in the store.
    pub(crate) of_channels: bool,
}

/// Who runs a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    Here,
    /// Not this node: the error says who.
    Refuse(String),
    /// This node, if all of its keys are there; if none is, the answer is this.
    Leaving(String),
    /// This node, if all of its keys are there, or it has one.
    Arriving,
}

impl Map {
    /// Who runs a request with keys of `slots`; `needs_all` if nothing is served as long as some
    /// slots are not.
    pub(crate) fn route(&self, slots: &KeySlots, asked: Asked, needs_all: bool) -> Route {
        let Some(slot) = slots.first else { return Route::Here };
        let Some(owner) = self.owner(slot) else { return Route::Refuse(UNBOUND.into()) };
        if slots.crosses {
            return Route::Refuse(CROSS_SLOT.into());
        }
        if needs_all && self.served() < usize::from(super::slots::SLOTS) {
            return Route::Refuse(DOWN.into());
        }
        if self.is_mine(slot) {
            let to = self.migrating.get(&slot).and_then(|id| self.nodes.get(id));
            return match to.filter(|_| !asked.of_channels) {
                Some(to) => Route::Leaving(format!("ASK {slot} {}", to.address())),
                None => Route::Here,
            };
        }
        if asked.asking && self.importing.contains_key(&slot) {
            return if slots.keys == 1 { Route::Here } else { Route::Arriving };
        }
        let is_replica = self.me().primary.as_ref() == Some(&owner.id);
        if is_replica && asked.read_only && !asked.changes {
            return Route::Here;
        }
        Route::Refuse(format!("MOVED {slot} {}", owner.address()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::map::Node;

    fn two() -> Map {
        let mut me = Node::new(&"a".repeat(40), "10.0.0.1", 1);
        me.slots.add_range("0-8191").unwrap();
        let mut other = Node::new(&"b".repeat(40), "10.0.0.2", 2);
        (other.epoch, me.epoch) = (2, 1);
        other.slots.add_range("8192-16383").unwrap();
        let mut map = Map::new(me);
        map.merge(&Map::new(other), |_| true);
        map
    }

    fn route(map: &Map, keys: &[&str], asking: bool) -> Route {
        let mut slots = KeySlots::default();
        keys.iter().for_each(|key| slots.add(key.as_bytes()));
        map.route(&slots, Asked { asking, ..Asked::default() }, true)
    }

    #[test]
    fn each_slot_has_its_node() {
        // `bar` is in slot 5061, `foo` in 12182.
        let mut map = two();
        assert_eq!(route(&map, &["bar"], false), Route::Here);
        assert_eq!(route(&map, &[], false), Route::Here);
        let moved = Route::Refuse("MOVED 12182 10.0.0.2:2".into());
        assert_eq!(route(&map, &["foo"], false), moved);
        assert_eq!(route(&map, &["foo", "bar"], false), Route::Refuse(CROSS_SLOT.into()));
        map.migrating.insert(5061, "b".repeat(40));
        map.importing.insert(12182, "b".repeat(40));
        let ask = Route::Leaving("ASK 5061 10.0.0.2:2".into());
        assert_eq!(route(&map, &["bar"], false), ask);
        assert_eq!(route(&map, &["foo"], false), moved);
        assert_eq!(route(&map, &["foo"], true), Route::Here);
        assert_eq!(route(&map, &["{foo}a", "{foo}b"], true), Route::Arriving);
        map.free(&[5061, 7]);
        assert_eq!(route(&map, &["bar"], false), Route::Refuse(UNBOUND.into()));
        assert_eq!(route(&map, &["foo"], false), Route::Refuse(DOWN.into()));
    }
}
