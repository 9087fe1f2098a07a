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

/// Bytes of key, and of key and value, of an entry of a plain run.
const PLAIN_KEY_BYTES: usize = 8;
const PLAIN_BYTES: usize = 16;

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Run {
    pub(crate) bounds: Bounds,
    bytes: Vec<u8>,
    /// All entries have eight bytes of key and eight of value, which lie one behind the other:
    /// where each is need not be noted.
    is_plain: bool,
    /// None if it is plain.
    entries: Vec<Entry>,
}

/// Where an entry of a plain run is.
#[inline(always)]
fn plain_entry(at: usize) -> Entry {
    let start = at * PLAIN_BYTES;
    let key_end = start + PLAIN_KEY_BYTES;
    Entry {
        start,
        key_end,
        value_start: key_end,
        value_end: start + PLAIN_BYTES,
        meta: Meta::default(),
        is_lazy: false,
    }
}

impl Run {
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        if self.is_plain { self.bytes.len() / PLAIN_BYTES } else { self.entries.len() }
    }

    #[inline(always)]
    pub(crate) fn entry(&self, at: usize) -> Entry {
        if self.is_plain { plain_entry(at) } else { self.entries[at] }
    }

    #[inline(always)]
    pub(crate) fn key(&self, at: usize) -> &[u8] {
        let entry = self.entry(at);
        &self.bytes[entry.start..entry.key_end]
    }

    #[inline(always)]
    pub(crate) fn value(&self, at: usize) -> &[u8] {
        let entry = self.entry(at);
        &self.bytes[entry.value_start..entry.value_end]
    }

    /// How many entries come before `key`.
    pub(crate) fn before(&self, key: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.key(middle) < key { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Notes where each entry is, so that some can be changed.
    fn note_places(&mut self) {
        if self.is_plain {
            let len = self.len();
            self.entries.extend((0..len).map(plain_entry));
            self.is_plain = false;
        }
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
        // A plain run has no entry that expires, and no place of one.
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
        leaf.prefetch_whole();
        self.bytes.clear();
        self.entries.clear();
        let bitmap = leaf.bitmap();
        let (ordered, is_in_order) = leaf.ordered(bitmap)?;
        if !is_in_order {
            tree.counts.add(|counts| &counts.sorted, 1);
        }
        self.is_plain = bitmap & !leaf.plain() == 0;
        if self.is_plain {
            self.read_plain(leaf, ordered.slots());
            return Ok(is_in_order);
        }
        self.bytes.reserve(SLOTS * PLAIN_BYTES);
        self.entries.reserve(SLOTS);
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
        Ok(is_in_order)
    }

    /// Copies the entries of slots all of which are plain.
    fn read_plain<R: Region>(&mut self, leaf: &Leaf<'_, R>, slots: &[u8]) {
        self.bytes.resize(slots.len() * PLAIN_BYTES, 0);
        for (bytes, at) in self.bytes.as_chunks_mut::<PLAIN_BYTES>().0.iter_mut().zip(slots) {
            let [head, body] = leaf.pair(usize::from(*at) % SLOTS);
            bytes[..PLAIN_KEY_BYTES].copy_from_slice(&head.to_be_bytes());
            bytes[PLAIN_KEY_BYTES..].copy_from_slice(&body.to_le_bytes());
        }
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
            self.note_places();
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
        self.note_places();
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
