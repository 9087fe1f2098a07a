//! The top layer in memory: which leaf a key belongs to.
//!
//! The paper takes a radix tree. This is a tree of two levels: chunks of up to 256 separators, and
//! a root that lists the chunks. Separators are cut to what tells two leaves apart, and compared
//! behind what they share, eight bytes at a time; so both levels of ten million entries fit into a
//! processor's second-level cache, and a search touches some six lines.
//!
//! 1. Readers lock nothing: the root is a published value, a chunk has an optimistic lock.
//! 2. A chunk covers the same range of keys from its making until it is retired. Splits, joins and
//!    longer prefixes make new chunks, publish a root that has them, and then retire the old ones.
//! 3. Whoever changes which node a key belongs to holds the locks of the nodes and of the chunk.
//!    So a node's version that was read before the chunk was found unchanged is of the right node.
//! 4. Separator 0 of the first chunk is the empty key and is never removed.

mod chunk;
mod search;

pub(crate) use search::Seek;

use self::chunk::{CHUNK_MAX, Chunk, Entry};
use self::search::{Packed, Separators, window_of};
use super::lock::{begin_read, end_read, retire};
use super::nodes::Nodes;
use super::sync::Backoff;
use silica_base::{Published, shared_len};
use std::sync::{Arc, Mutex, MutexGuard};

/// The chunks in order.
struct Root {
    chunks: Vec<Arc<Chunk>>,
    lows: Packed,
    prefix: Box<[u8]>,
    windows: Vec<(u64, usize)>,
}

impl Separators for Root {
    #[inline(always)]
    fn len(&self) -> usize {
        self.chunks.len()
    }

    #[inline(always)]
    fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    #[inline(always)]
    fn window(&self, at: usize) -> u64 {
        self.windows[at].0
    }

    #[inline(always)]
    fn rest_len(&self, at: usize) -> usize {
        self.windows[at].1
    }

    fn place_by_whole(&self, key: &[u8], seek: Seek) -> usize {
        self.lows.place(key, seek)
    }
}

impl Root {
    fn of(chunks: Vec<Arc<Chunk>>) -> Root {
        let mut lows = Packed::default();
        for (at, chunk) in chunks.iter().enumerate() {
            lows.insert(at, chunk.whole().get(0));
        }
        let prefix: Box<[u8]> = match lows.len() {
            0..=2 => Box::default(),
            len => {
                let (first, last) = (lows.get(1), lows.get(len - 1));
                first[..shared_len(first, last)].into()
            }
        };
        let windows = (0..lows.len()).map(|at| window_of(lows.get(at), prefix.len())).collect();
        Root { chunks, lows, prefix, windows }
    }
}

/// What a leaf covers.
#[derive(Debug, Default)]
pub(crate) struct Bounds {
    /// Its node.
    pub(crate) node: u32,
    /// The version that the node had.
    pub(crate) version: u64,
    /// The first key that belongs to it.
    pub(crate) lower: Vec<u8>,
    /// The first key behind it that does not; `None` at the end of all keys.
    pub(crate) upper: Option<Vec<u8>>,
}

/// The top layer.
pub(crate) struct Top {
    root: Published<Root>,
    /// Held by whoever replaces the root.
    restructure: Mutex<()>,
}

/// The root as it is for one call.
pub(crate) struct View<'t> {
    root: &'t Root,
}

/// A node that a search found, and what the search has to find unchanged.
#[derive(Clone, Copy)]
pub(crate) struct Found<'t> {
    pub(crate) node: u32,
    chunk: &'t Chunk,
    seen: u64,
}

impl Found<'_> {
    /// True if the node still was the key's a moment ago.
    #[inline(always)]
    pub(crate) fn holds(&self) -> bool {
        end_read(&self.chunk.lock, self.seen)
    }
}

impl<'t> View<'t> {
    /// The number of the chunk of `key`.
    #[inline(always)]
    pub(crate) fn chunk_of(&self, key: &[u8]) -> usize {
        self.root.place(key, Seek::At)
    }

    /// Asks the processor for what a search in chunk `at` reads first.
    #[inline(always)]
    pub(crate) fn prefetch(&self, at: usize) {
        self.root.chunks[at].prefetch();
    }

    /// Asks the processor for what a search of `key` in chunk `at` reads next.
    #[inline(always)]
    pub(crate) fn prefetch_block(&self, at: usize, key: &[u8]) {
        self.root.chunks[at].prefetch_block(key);
    }

    /// The node of `key`, which is in chunk `at`; `None` while somebody changes the chunk.
    #[inline(always)]
    pub(crate) fn find_in(&self, at: usize, key: &[u8], seek: Seek) -> Option<Found<'t>> {
        let chunk: &'t Chunk = &self.root.chunks[at];
        chunk.prefetch();
        let seen = begin_read(&chunk.lock)?;
        chunk.prefetch_block(key);
        let place = chunk.place(key, seek);
        Some(Found { node: chunk.node(place), chunk, seen })
    }
}

impl Top {
    /// The top layer of these leaves, in order: their lowest keys and nodes. The first is the empty
    /// key.
    pub(crate) fn new(entries: &[Entry]) -> Self {
        let root = Root::of(entries.chunks(CHUNK_MAX / 2).flat_map(Chunk::make).collect());
        Top { root: Published::new(root), restructure: Mutex::new(()) }
    }

    /// Calls `look` with the top layer, which waits for nothing.
    #[inline(always)]
    pub(crate) fn view<T>(&self, look: impl FnOnce(View<'_>) -> T) -> T {
        self.root.read(|root| look(View { root }))
    }

    /// The node of `key` and a version of it at which it was that.
    #[inline]
    pub(crate) fn find(&self, key: &[u8], nodes: &Nodes) -> (u32, u64) {
        let mut backoff = Backoff::default();
        loop {
            let found = self.view(|view| {
                let found = view.find_in(view.chunk_of(key), key, Seek::At)?;
                let version = begin_read(nodes.get(found.node).lock_word())?;
                found.holds().then_some((found.node, version))
            });
            if let Some(found) = found {
                return found;
            }
            backoff.pause();
        }
    }

    /// What the leaf covers that `key` belongs to, or with [`Seek::Before`] the keys right before
    /// it; `None` stands for the end of all keys.
    pub(crate) fn bounds(
        &self,
        key: Option<&[u8]>,
        seek: Seek,
        nodes: &Nodes,
        bounds: &mut Bounds,
    ) {
        let mut backoff = Backoff::default();
        while !self.try_bounds(key, seek, nodes, bounds) {
            backoff.pause();
        }
    }

    /// As [`Top::bounds`], without waiting; false if the node is locked or the chunk changes.
    pub(crate) fn try_bounds(
        &self,
        key: Option<&[u8]>,
        seek: Seek,
        nodes: &Nodes,
        bounds: &mut Bounds,
    ) -> bool {
        self.root.read(|root| bounds_in(root, key, seek, nodes, bounds)).is_some()
    }

    /// The node of `key`, and its right neighbour with its separator if both are in one chunk.
    pub(crate) fn neighbours(&self, key: &[u8]) -> Option<(u32, u32, Vec<u8>)> {
        self.root.read(|root| {
            let chunk = &root.chunks[root.place(key, Seek::At)];
            let seen = begin_read(&chunk.lock)?;
            let place = chunk.place(key, Seek::At);
            let separator = {
                let whole = chunk.whole();
                (place + 1 < whole.len()).then(|| whole.get(place + 1).to_vec())?
            };
            let found = (chunk.node(place), chunk.node(place + 1), separator);
            end_read(&chunk.lock, seen).then_some(found)
        })
    }

    /// A leaf begins at `separator` from here on. The caller holds the lock of the node that the
    /// separator belonged to.
    pub(crate) fn insert(&self, separator: &[u8], node: u32) {
        let chunk = self.lock_chunk(separator);
        if chunk.insert(separator, node) {
            chunk.unlock();
            return;
        }
        let mut entries = chunk.entries();
        let place = entries.partition_point(|entry| *entry.0 < *separator);
        entries.insert(place, (separator.to_vec(), node));
        let restructure = self.restructure();
        self.replace(&[chunk], Chunk::make(&entries));
        drop(restructure);
    }

    /// The leaf at `separator` is one with that before it. The caller holds the locks of both
    /// nodes, which [`Top::neighbours`] found in one chunk; false if they are not any more.
    pub(crate) fn remove(&self, separator: &[u8], left: u32, right: u32) -> bool {
        let chunk = self.lock_chunk(separator);
        let place = chunk.place(separator, Seek::At);
        let is_there = place > 0
            && chunk.node(place) == right
            && chunk.node(place - 1) == left
            && chunk.whole().get(place) == separator;
        if is_there {
            chunk.remove(separator);
        }
        chunk.unlock();
        is_there
    }

    /// The separator behind that of `key`, and its node.
    pub(crate) fn behind(&self, key: &[u8]) -> Option<Entry> {
        let mut backoff = Backoff::default();
        loop {
            let found = self.root.read(|root| {
                let at = root.place(key, Seek::At);
                let within = root.chunks[at].peek(|chunk| chunk.place(key, Seek::At) + 1)?;
                match (within, root.chunks.get(at + 1)) {
                    (None, Some(next)) => next.peek(|_| 0),
                    (found, _) => Some(found),
                }
            });
            match found {
                Some(found) => return found,
                None => backoff.pause(),
            }
        }
    }

    /// Leaves begin at these separators from here on, which are in order. The caller holds the
    /// locks of the nodes that they belonged to.
    pub(crate) fn insert_all(&self, new: Vec<Entry>) {
        let mut left = new.as_slice();
        while let Some((first, _)) = left.first() {
            let chunk = self.lock_chunk(first);
            let end = self.root.read(|root| {
                let at = root.chunks.iter().position(|other| Arc::ptr_eq(other, &chunk));
                let behind = at.expect("a chunk that is locked is in the root") + 1;
                (behind < root.len()).then(|| root.lows.get(behind).to_vec())
            });
            let is_within = |entry: &Entry| end.as_ref().is_none_or(|end| entry.0 < *end);
            let (own, rest) = left.split_at(left.partition_point(is_within));
            let mut entries = chunk.entries();
            entries.extend_from_slice(own);
            entries.sort_unstable();
            let restructure = self.restructure();
            self.replace(&[chunk], Chunk::make(&entries));
            drop(restructure);
            left = rest;
        }
    }

    /// Separators and nodes of the chunk of `key`, and where the next chunk begins.
    pub(crate) fn listing(&self, key: &[u8]) -> (Vec<Entry>, Option<Vec<u8>>) {
        let chunk = self.lock_chunk(key);
        let end = self.root.read(|root| {
            let behind = root.place(key, Seek::At) + 1;
            (behind < root.len()).then(|| root.lows.get(behind).to_vec())
        });
        let entries = chunk.entries();
        chunk.unlock();
        (entries, end)
    }

    /// True if `separator` is that of `node`. The answer holds while the caller has the node's
    /// lock.
    pub(crate) fn names(&self, separator: &[u8], node: u32) -> bool {
        let chunk = self.lock_chunk(separator);
        let place = chunk.place(separator, Seek::At);
        let is_it = chunk.node(place) == node && chunk.whole().get(place) == separator;
        chunk.unlock();
        is_it
    }

    fn restructure(&self) -> MutexGuard<'_, ()> {
        self.restructure.lock().expect("no panic while locked")
    }

    fn lock_chunk(&self, key: &[u8]) -> Arc<Chunk> {
        loop {
            let chunk = self.root.read(|root| Arc::clone(&root.chunks[root.place(key, Seek::At)]));
            if chunk.lock() {
                return chunk;
            }
        }
    }

    /// Publishes a root with `new` in the place of `old`, which are locked and lie together.
    fn replace(&self, old: &[Arc<Chunk>], new: Vec<Arc<Chunk>>) {
        let mut chunks = self.root.read(|root| root.chunks.clone());
        let at = chunks.iter().position(|chunk| Arc::ptr_eq(chunk, &old[0]));
        let at = at.expect("a chunk that was not retired is in the root");
        chunks.splice(at..at + old.len(), new);
        drop(self.root.replace(Root::of(chunks), std::thread::yield_now));
        old.iter().for_each(|chunk| retire(&chunk.lock));
    }

    /// Joins neighbouring chunks that have become small, a few at a time; true if it did.
    pub(crate) fn join_small(&self) -> bool {
        let _restructure = self.restructure();
        let chunks = self.root.read(|root| root.chunks.clone());
        for pair in chunks.windows(2) {
            if pair[0].len() + pair[1].len() > CHUNK_MAX / 2 || !pair[0].try_lock() {
                continue;
            }
            if !pair[1].try_lock() {
                pair[0].unlock();
                continue;
            }
            let entries = [pair[0].entries(), pair[1].entries()].concat();
            self.replace(pair, Chunk::make(&entries));
            return true;
        }
        false
    }

    /// All keys belong to `node` from here on. The nodes of before; nobody finds them any more.
    pub(crate) fn reset(&self, node: u32) -> Vec<u32> {
        let _restructure = self.restructure();
        let old = self.root.read(|root| root.chunks.clone());
        // Whoever waits for the restructuring holds the lock of a node: no write is under way.
        old.iter().for_each(|chunk| assert!(chunk.lock(), "chunks of the root are in use"));
        let nodes = old.iter().flat_map(|chunk| chunk.entries()).map(|entry| entry.1).collect();
        self.replace(&old, Chunk::make(&[(Vec::new(), node)]));
        nodes
    }

    /// Leaves that have keys from `lower` on and before `upper`, roughly while they change.
    pub(crate) fn leaves_within(&self, lower: &[u8], upper: Option<&[u8]>) -> u64 {
        if upper.is_some_and(|upper| upper <= lower) {
            return 0;
        }
        let place = |root: &Root, key: &[u8]| {
            let at = root.place(key, Seek::At);
            (at, root.chunks[at].place(key, Seek::At))
        };
        self.root.read(|root| {
            let len = |at: usize| root.chunks[at].len();
            let first = place(root, lower);
            let last = match upper {
                Some(upper) => place(root, upper),
                None => (root.len() - 1, len(root.len() - 1) - 1),
            };
            let before: usize = (first.0..last.0).map(len).sum();
            (before + last.1 + 1).saturating_sub(first.1) as u64
        })
    }

    /// Waits until nobody looks at what a search found before this call.
    pub(crate) fn wait_for_readers(&self) {
        let _restructure = self.restructure();
        let chunks = self.root.read(|root| root.chunks.clone());
        drop(self.root.replace(Root::of(chunks), std::thread::yield_now));
    }

    /// A separator at about this share of all leaves, of 2^32, and how many leaves there are.
    pub(crate) fn near(&self, share: u32) -> (Vec<u8>, usize) {
        self.root.read(|root| {
            let leaves: usize = root.chunks.iter().map(|chunk| chunk.len()).sum();
            let mut place = ((leaves as u64 * u64::from(share)) >> 32) as usize;
            for chunk in &root.chunks {
                if place < chunk.len() {
                    let whole = chunk.whole();
                    return (whole.get(place.min(whole.len() - 1)).to_vec(), leaves);
                }
                place -= chunk.len();
            }
            (Vec::new(), leaves)
        })
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.root.read(|root| {
            let chunks: u64 = root.chunks.iter().map(|chunk| chunk.bytes()).sum();
            chunks + root.lows.bytes() + root.windows.len() as u64 * 24
        })
    }

    /// Number of leaves, roughly while it changes.
    pub(crate) fn leaves(&self) -> u64 {
        self.root.read(|root| root.chunks.iter().map(|chunk| chunk.len() as u64).sum())
    }
}

fn bounds_in(
    root: &Root,
    key: Option<&[u8]>,
    seek: Seek,
    nodes: &Nodes,
    bounds: &mut Bounds,
) -> Option<()> {
    let at = key.map_or(root.len() - 1, |key| root.place(key, seek));
    let chunk = &root.chunks[at];
    let seen = begin_read(&chunk.lock)?;
    let place = key.map_or(chunk.len() - 1, |key| chunk.place(key, seek));
    bounds.node = chunk.node(place);
    bounds.lower.clear();
    let mut upper = bounds.upper.take().unwrap_or_default();
    upper.clear();
    {
        let whole = chunk.whole();
        if place >= whole.len() {
            return None;
        }
        bounds.lower.extend_from_slice(whole.get(place));
        if place + 1 < whole.len() {
            upper.extend_from_slice(whole.get(place + 1));
            bounds.upper = Some(upper);
        } else if at + 1 < root.len() {
            upper.extend_from_slice(root.lows.get(at + 1));
            bounds.upper = Some(upper);
        }
    }
    bounds.version = begin_read(nodes.get(bounds.node).lock_word())?;
    end_read(&chunk.lock, seen).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_base::Prng;
    use std::collections::BTreeMap;

    fn separator(prng: &mut Prng) -> Vec<u8> {
        let mut key = match prng.below(4) {
            0 => b"a common beginning of ".to_vec(),
            1 => b"a common".to_vec(),
            _ => Vec::new(),
        };
        let len = prng.below(12) as usize;
        key.extend((0..len).map(|_| [0, b'a', b'b', 255][prng.below(4) as usize]));
        key
    }

    fn check(top: &Top, nodes: &Nodes, model: &BTreeMap<Vec<u8>, u32>, key: &[u8]) {
        let (lower, node) = model.range(..=key.to_vec()).next_back().expect("the empty key");
        assert_eq!(top.find(key, nodes).0, *node, "{key:?}");
        let mut bounds = Bounds::default();
        top.bounds(Some(key), Seek::At, nodes, &mut bounds);
        let upper = model.range(key.to_vec()..).find(|(upper, _)| **upper != key);
        assert_eq!((&bounds.lower, bounds.node), (lower, *node));
        assert_eq!(bounds.upper.as_ref(), upper.map(|(upper, _)| upper));
        if key.is_empty() {
            return;
        }
        top.bounds(Some(key), Seek::Before, nodes, &mut bounds);
        let (lower, node) = model.range(..key.to_vec()).next_back().expect("the empty key");
        assert_eq!((&bounds.lower, bounds.node), (lower, *node), "before {key:?}");
    }

    #[test]
    fn searches_find_what_a_model_finds() {
        let mut prng = Prng::new(1);
        for round in 0..20 {
            let nodes = Nodes::new();
            let first = nodes.make(4096, false).unwrap();
            let mut model = BTreeMap::from([(Vec::new(), first)]);
            let top = Top::new(&[(Vec::new(), first)]);
            for step in 0..800 {
                let key = separator(&mut prng);
                if !model.contains_key(&key) {
                    let node = nodes.make(4096, false).unwrap();
                    top.insert(&key, node);
                    model.insert(key.clone(), node);
                } else if prng.one_in(2)
                    && let Some((left, right, separator)) = top.neighbours(&key)
                {
                    assert_eq!(model.remove(&separator), Some(right));
                    assert!(top.remove(&separator, left, right));
                }
                check(&top, &nodes, &model, &key);
                check(&top, &nodes, &model, &separator(&mut prng));
                if step % 97 == round {
                    top.join_small();
                }
            }
            assert_eq!(top.leaves(), model.len() as u64);
            let entries: Vec<Entry> = model.clone().into_iter().collect();
            let rebuilt = Top::new(&entries);
            (0..500).for_each(|_| check(&rebuilt, &nodes, &model, &separator(&mut prng)));
        }
    }
}
