//! The entries of one leaf in order, copied: what ranges go through (section 4.4.4, scan).
//!
//! The order comes from the leaf's sequence array; if that does not hold, the leaf is sorted, and
//! the order noted for the next range unless a writer has come.

use super::buffers::{Buffer, Buffered};
use super::check::check_node;
use super::entry::Torn;
use super::layout::{SLOTS, Slot};
use super::leaf::{Leaf, Meta, Value};
use super::lock::{end_read, try_lock, unlock};
use super::sync::Backoff;
use super::top::{Bounds, Seek};
use super::tree::SpTree;
use silica_base::Result;
use silica_device::region::Region;

/// Values above this are read when somebody comes to them.
const LAZY_BYTES: usize = 4 << 10;

/// Of when entries are read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    /// The snapshot, if it is one.
    pub(crate) sequence: Option<u64>,
    /// What expires by then is not there.
    pub(crate) unix_ms: u64,
    /// Values are not asked for.
    pub(crate) is_of_keys: bool,
}

/// An entry of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    start: usize,
    key_end: usize,
    value_start: usize,
    value_end: usize,
    pub(crate) meta: Meta,
    /// Its value is large and was not read.
    pub(crate) is_lazy: bool,
}

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Run {
    pub(crate) bounds: Bounds,
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

impl Run {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn entry(&self, at: usize) -> &Entry {
        &self.entries[at]
    }

    pub(crate) fn key(&self, at: usize) -> &[u8] {
        let entry = &self.entries[at];
        &self.bytes[entry.start..entry.key_end]
    }

    pub(crate) fn value(&self, at: usize) -> &[u8] {
        let entry = &self.entries[at];
        &self.bytes[entry.value_start..entry.value_end]
    }

    /// How many entries come before `key`.
    pub(crate) fn before(&self, key: &[u8]) -> usize {
        self.entries.partition_point(|entry| self.bytes[entry.start..entry.key_end] < *key)
    }

    /// Reads the leaf that [`super::top::Top::bounds`] finds.
    ///
    /// # Errors
    /// `Corruption`.
    pub(crate) fn load<R: Region>(
        &mut self,
        tree: &SpTree<R>,
        key: Option<&[u8]>,
        seek: Seek,
        moment: Moment,
    ) -> Result<()> {
        let mut backoff = Backoff::default();
        loop {
            tree.top.bounds(key, seek, &tree.nodes, &mut self.bounds);
            let node = tree.nodes.get(self.bounds.node);
            if node.is_unchecked() {
                check_node(tree, self.bounds.node)?;
                continue;
            }
            let read = tree.top.view(|_| {
                // A leaf that is one now stays within the region until this view ends.
                if !end_read(node.lock_word(), self.bounds.version) {
                    return Ok(false);
                }
                let (leaf, buffer) = (tree.leaf(node.leaf()), tree.buffer_of(node));
                let is_in_order = self.read(tree, &leaf, moment)?;
                buffer.map_or(Ok(()), |buffer| self.read_buffer(&leaf, buffer, moment))?;
                Ok::<_, Torn>(is_in_order)
            });
            if !end_read(node.lock_word(), self.bounds.version) {
                backoff.pause();
                continue;
            }
            let is_in_order = read.map_err(|torn| torn.error(tree.space.name()))?;
            if !is_in_order && tree.config.has_sequences {
                self.note_order(tree, &tree.leaf(node.leaf()));
            }
            break;
        }
        if let Some(sequence) = moment.sequence {
            self.go_back(tree, sequence);
        }
        self.entries.retain(|entry| {
            let expires = entry.meta.expires_unix_ms;
            expires == 0 || expires > moment.unix_ms
        });
        Ok(())
    }

    /// Reads what the leaf has now; true if it knew its order.
    fn read<R: Region>(
        &mut self,
        tree: &SpTree<R>,
        leaf: &Leaf<'_, R>,
        moment: Moment,
    ) -> Result<bool, Torn> {
        self.bytes.clear();
        self.entries.clear();
        self.bytes.reserve(SLOTS * 16);
        self.entries.reserve(SLOTS);
        let bitmap = leaf.bitmap();
        let is_in_order = leaf.is_in_order(bitmap);
        let ordered = leaf.ordered(bitmap)?;
        for at in ordered.slots() {
            let at = usize::from(*at) % 64;
            let slot = leaf.slot(at);
            let start = self.bytes.len();
            if slot.is_plain {
                let value = slot.body.to_le_bytes();
                self.bytes.extend_from_slice([slot.head.to_be_bytes(), value].as_flattened());
                let (key_end, value_end) = (start + 8, start + 16);
                let (meta, value_start) = (Meta::default(), key_end);
                let entry = Entry { start, key_end, value_start, value_end, meta, is_lazy: false };
                self.entries.push(entry);
                continue;
            }
            let entry = self.read_slot(leaf, at, &slot, moment)?;
            self.entries.push(entry);
        }
        if !is_in_order {
            tree.counts.add(|counts| &counts.sorted, 1);
        }
        Ok(is_in_order)
    }

    /// Copies an entry.
    fn read_slot<R: Region>(
        &mut self,
        leaf: &Leaf<'_, R>,
        at: usize,
        slot: &Slot,
        moment: Moment,
    ) -> Result<Entry, Torn> {
        let values_max = if moment.is_of_keys { 0 } else { LAZY_BYTES };
        let start = self.bytes.len();
        leaf.read_key(at, slot, &mut self.bytes)?;
        let key_end = self.bytes.len();
        let (meta, skip, is_lazy) = match leaf.read_value(at, slot, &mut self.bytes, values_max)? {
            Value::Read(meta, skip) => (meta, skip, false),
            Value::Large(_) => (leaf.read_meta(at, slot)?, 0, true),
        };
        let (value_start, value_end) = (key_end + skip, self.bytes.len());
        Ok(Entry { start, key_end, value_start, value_end, meta, is_lazy })
    }

    /// Lays what a buffer has over what its leaf has.
    fn read_buffer<R: Region>(
        &mut self,
        leaf: &Leaf<'_, R>,
        buffer: Buffer<'_>,
        moment: Moment,
    ) -> Result<(), Torn> {
        for (_, Buffered { slot, is_deleted, .. }) in buffer.places() {
            let entry = self.read_slot(leaf, 0, &slot, moment)?;
            let key = &self.bytes[entry.start..entry.key_end];
            let at = self.before(key);
            let is_there = at < self.len() && self.key(at) == key;
            match (is_deleted, is_there) {
                (true, true) => {
                    self.entries.remove(at);
                }
                (true, false) => {}
                (false, true) => self.entries[at] = entry,
                (false, false) => self.entries.insert(at, entry),
            }
        }
        Ok(())
    }

    fn note_order<R: Region>(&self, tree: &SpTree<R>, leaf: &Leaf<'_, R>) {
        let node = tree.nodes.get(self.bounds.node);
        if !try_lock(node.lock_word(), self.bounds.version) {
            return;
        }
        let bitmap = leaf.bitmap();
        if let Ok(ordered) = leaf.sorted(bitmap) {
            leaf.store_order(bitmap, &ordered);
        }
        unlock(node.lock_word());
    }

    /// What was changed since a snapshot becomes what it was.
    fn go_back<R: Region>(&mut self, tree: &SpTree<R>, sequence: u64) {
        let Bounds { lower, upper, .. } = &self.bounds;
        let before = tree.history.before_within(lower, upper.as_deref(), sequence);
        if before.is_empty() {
            return;
        }
        for (key, entry) in before {
            let at = self.before(&key);
            let is_there = at < self.len() && self.key(at) == key;
            let Some(kept) = entry else {
                if is_there {
                    self.entries.remove(at);
                }
                continue;
            };
            let start = self.bytes.len();
            self.bytes.extend_from_slice(&key);
            let key_end = self.bytes.len();
            self.bytes.extend_from_slice(&kept.value);
            let meta = Meta { expires_unix_ms: kept.expires_unix_ms, user_bits: kept.user_bits };
            let value_end = self.bytes.len();
            let entry =
                Entry { start, key_end, value_start: key_end, value_end, meta, is_lazy: false };
            if is_there {
                self.entries[at] = entry;
            } else {
                self.entries.insert(at, entry);
            }
        }
    }
}

/// The keys of a range, those that have expired included. Only for whoever has the gate alone.
///
/// # Errors
/// `Corruption`.
pub(crate) fn keys_within<R: Region>(
    tree: &SpTree<R>,
    lower: &[u8],
    upper: Option<&[u8]>,
) -> Result<Vec<Vec<u8>>> {
    let moment = Moment { sequence: None, unix_ms: 0, is_of_keys: true };
    let (mut keys, mut run, mut from) = (Vec::new(), Run::default(), lower.to_vec());
    let is_within = |key: &[u8]| upper.is_none_or(|upper| key < upper);
    while is_within(&from) {
        run.load(tree, Some(&from), Seek::At, moment)?;
        let first = run.before(&from);
        keys.extend(
            (first..run.len()).map(|at| run.key(at)).filter(|k| is_within(k)).map(Vec::from),
        );
        match run.bounds.upper.take() {
            Some(next) => from = next,
            None => break,
        }
    }
    Ok(keys)
}
