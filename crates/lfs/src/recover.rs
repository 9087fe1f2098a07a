//! Making a file system, and finding it again: the newest checkpoint, and the log behind it.
//!
//! Invariants (docs/formats/lfs.md has the crash argument):
//!
//! 1. Sequences rise by one from batch to batch; a checkpoint's batches and those of the log behind
//!    it have no gap.
//! 2. A commit counts if all its batches are there and, unless a later batch says that it was
//!    synced, all pages that it speaks of are what was written. The first commit that does not
//!    count ends the log.
//! 3. The pages that a checkpoint maps are synced before it is written, and it is synced before
//!    the log and the checkpoint before it are given back.
//! 4. A segment of files is given back only if it has no live page in a state that is durable, and
//!    if no log is read that speaks of it without having been synced.
//! 5. Opening writes a checkpoint before it gives back anything that the log speaks of, so that
//!    opening again after a power cut finds the same tree.

use crate::batch::{HEADER_BYTES, Header, Part, batch_pages, page_sum};
use crate::core::{Lfs, LfsOptions, Writer};
use crate::fault::LfsResult;
use crate::ground::{Fetch, Ground};
use crate::node::{Attributes, Directory, Ino, Kind, Node, ROOT, Time};
use crate::record::Record;
use crate::space::{Space, Use};
use crate::tree::{Inodes, Tree};
use silica_base::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

/// Bytes that a segment has at least: records as long as a path have to fit it.
pub const SEGMENT_BYTES_MIN: usize = 16 << 10;
/// First pages that are read side by side.
const READS: usize = 256;

/// A batch that was found whole.
struct Batch {
    header: Header,
    segment: u32,
    body: Vec<u8>,
}

/// What a look at the device found.
#[derive(Default)]
struct Found {
    batches: Vec<Batch>,
    newest: u64,
}

fn not_ours(detail: &str) -> Error {
    let message = format!("there is no Silica file system on the device: {detail}");
    Error::new(ErrorKind::NotFound, message)
}

impl<G: Ground> Lfs<G> {
    /// Makes an empty file system with the number `id`, which no other one has. Everything that
    /// the device holds is lost. The root directory is made by `uid` and `gid` at `now`.
    ///
    /// # Errors
    /// `Config` if segments are smaller than [`SEGMENT_BYTES_MIN`]; `Full` if there are too few of
    /// them; what the device said.
    pub fn create(ground: G, id: u64, owner: (u32, u32), now: Time) -> LfsResult<Self> {
        for segment in ground.found() {
            ground.trim(*segment)?;
        }
        ground.tend(u32::MAX)?;
        let root = Attributes {
            kind: Kind::Directory,
            mode: 0o755,
            uid: owner.0,
            gid: owner.1,
            rdev: 0,
            links: 2,
            size: 0,
            accessed: now,
            modified: now,
            changed: now,
            created: now,
        };
        let mut tree = Tree { next_ino: ROOT + 1, ..Tree::default() };
        let mut node = Node::new(root);
        *node.directory_mut().expect("a directory") = Directory::new(ROOT);
        tree.nodes.insert(ROOT, node);
        let space = check(&ground)?;
        let lfs = Self::assemble(ground, id, LfsOptions::default(), tree, space, 1);
        let mut writer = lfs.lock();
        lfs.checkpoint(&mut writer)?;
        drop(writer);
        Ok(lfs)
    }

    /// Opens the file system of a device.
    ///
    /// # Errors
    /// `NotFound` if there is none; `Unsupported` if a newer release wrote it; `Corruption` if its
    /// checkpoint cannot be read; what the device said.
    pub fn open(ground: G, options: LfsOptions) -> LfsResult<Self> {
        let found = look(&ground)?;
        let (id, first, last) = newest_checkpoint(&found)?;
        let mut tree = Tree::default();
        let mut next = first;
        for batch in &found.batches {
            let Header { part, checkpoint, sequence, .. } = batch.header;
            if part == Part::Checkpoint && checkpoint == first && sequence == next {
                apply(&mut tree, &batch.body)?;
                next += 1;
            }
        }
        let log = log_behind(&found, id, last);
        let committed = count_committed(&ground, id, &log);
        for batch in &log[..committed] {
            apply(&mut tree, &batch.body)?;
        }
        let orphans = drop_orphans(&mut tree);
        let space = check(&ground)?;
        let lfs = Self::assemble(ground, id, options, tree, space, found.newest + 1);
        lfs.claim(&found, first, last, !log.is_empty() || orphans > 0)?;
        Ok(lfs)
    }

    fn assemble(
        ground: G,
        id: u64,
        options: LfsOptions,
        tree: Tree,
        space: Space,
        next_sequence: u64,
    ) -> Self {
        let page_bytes = ground.page_bytes();
        let mut writer = Writer::new(space, tree.next_ino, next_sequence);
        for node in tree.nodes.values() {
            writer.weight += node.weight();
            let runs = node.content().into_iter().flat_map(|content| content.extents.iter());
            runs.for_each(|run| writer.space.add(&run));
        }
        let kept_back = ground.over_provisioned();
        let capacity = writer.space.capacity(writer.weight, ground.usable(), kept_back);
        let most = options.dirty_bytes_max / page_bytes as u64;
        Lfs {
            id,
            options,
            page_bytes,
            dirty_pages_max: most.min(capacity / 32).max(4),
            inodes: Inodes::new(tree),
            writer: Mutex::new(writer),
            durable: Mutex::new(0),
            synced: AtomicU64::new(next_sequence - 1),
            ground,
        }
    }

    /// Says of every segment that was found what it is, and gives back what is not needed.
    fn claim(&self, found: &Found, first: u64, last: u64, is_changed: bool) -> LfsResult<()> {
        let mut writer = self.lock();
        let mut by_part: BTreeMap<u32, Use> = BTreeMap::new();
        for Batch { header, segment, .. } in &found.batches {
            let needed = match header.part {
                Part::Checkpoint if header.checkpoint == first => Use::Checkpoint,
                Part::Log if header.sequence > last => Use::Log,
                _ => Use::Free,
            };
            let use_ = by_part.entry(*segment).or_insert(Use::Free);
            *use_ = if needed == Use::Free { *use_ } else { needed };
        }
        let mut dead = Vec::new();
        for segment in self.ground.found().to_vec() {
            let live = writer.space.of(segment).live;
            let use_ = match by_part.get(&segment) {
                _ if live > 0 => Use::Closed,
                Some(use_) => *use_,
                None => Use::Closed,
            };
            writer.space.of(segment).use_ = use_;
            match use_ {
                Use::Log => writer.log_segments.push(segment),
                Use::Checkpoint => writer.checkpoint_segments.push(segment),
                Use::Free => dead.push(segment),
                _ => {}
            }
        }
        for segment in dead {
            self.ground.trim(segment)?;
        }
        if is_changed {
            return self.checkpoint(&mut writer);
        }
        Ok(self.release_dead(&mut writer)?)
    }

    /// Ends the file system in order: the next opening has only a checkpoint to read.
    ///
    /// # Errors
    /// What the device said.
    pub fn close(&self) -> LfsResult<()> {
        let mut writer = self.change()?;
        if writer.change > writer.committed || writer.log_pages > 0 {
            self.checkpoint(&mut writer)?;
        }
        Ok(())
    }
}

fn check<G: Ground>(ground: &G) -> Result<Space> {
    let bytes = ground.segment_pages() as usize * ground.page_bytes();
    if bytes < SEGMENT_BYTES_MIN || ground.segment_pages() < 4 {
        let message = format!(
            "a segment of {} pages of {} bytes is too small for a file system; blocks need \
             {SEGMENT_BYTES_MIN} bytes and 4 pages",
            ground.segment_pages(),
            ground.page_bytes()
        );
        return Err(Error::new(ErrorKind::Config, message));
    }
    let space = Space::new(ground);
    if space.capacity(1000, ground.usable(), ground.over_provisioned()) == 0 {
        let message = format!(
            "{} usable blocks are too few for a file system; use a device of more blocks",
            ground.usable()
        );
        return Err(Error::new(ErrorKind::Full, message));
    }
    Ok(space)
}

/// Reads all batches of all segments that were found.
fn look<G: Ground>(ground: &G) -> Result<Found> {
    let mut begun = Vec::new();
    let mut refused = None;
    for some in ground.found().chunks(READS) {
        let fetch = |segment: &u32| Fetch::new(0, *segment, 0, 1, ground.page_bytes());
        ground.read(some.iter().map(fetch).collect(), &mut |fetch, result| {
            match result.map(|()| Header::decode(&fetch.pages)) {
                Ok(Ok(Some(header))) => begun.push((header.sequence, fetch.segment)),
                Ok(Ok(None)) => {}
                Ok(Err(error)) => refused = Some(error),
                // A page that was torn by a power cut was no part of anything.
                Err(error) if error.kind() != ErrorKind::Closed => {}
                Err(error) => refused = Some(error),
            }
        });
    }
    if let Some(error) = refused {
        return Err(error);
    }
    begun.sort_unstable();
    let mut found = Found::default();
    for (_, segment) in begun {
        walk(ground, segment, &mut found)?;
    }
    silica_base::compact_sort_by_key(&mut found.batches, |batch| batch.header.sequence);
    Ok(found)
}

/// Reads the batches of a segment, up to the first that is not whole.
fn walk<G: Ground>(ground: &G, segment: u32, found: &mut Found) -> Result<()> {
    let (page_bytes, written) = (ground.page_bytes(), ground.written(segment));
    let mut at = 0;
    while at < written {
        let Some(first) = fetch_pages(ground, segment, at, 1)? else { return Ok(()) };
        let Ok(Some(header)) = Header::decode(&first) else { return Ok(()) };
        let pages = batch_pages(header.body_bytes as usize, page_bytes);
        if pages > written - at {
            found.newest = found.newest.max(header.sequence);
            return Ok(());
        }
        let bytes = match pages {
            1 => Some(first),
            _ => fetch_pages(ground, segment, at, pages)?,
        };
        let place = u64::from(segment) * u64::from(ground.segment_pages()) + u64::from(at);
        let Some(bytes) = bytes.filter(|bytes| header.verify(bytes, place)) else { return Ok(()) };
        found.newest = found.newest.max(header.sequence);
        let body = bytes[HEADER_BYTES..HEADER_BYTES + header.body_bytes as usize].to_vec();
        found.batches.push(Batch { header, segment, body });
        at += pages;
    }
    Ok(())
}

/// Reads pages; `None` if they cannot be read.
fn fetch_pages<G: Ground>(
    ground: &G,
    segment: u32,
    at: u32,
    count: u32,
) -> Result<Option<Vec<u8>>> {
    let mut found = Ok(None);
    let fetch = Fetch::new(0, segment, at, count, ground.page_bytes());
    ground.read(vec![fetch], &mut |fetch, result| {
        found = match result {
            Ok(()) => Ok(Some(fetch.pages[..].to_vec())),
            Err(error) if error.kind() == ErrorKind::Closed => Err(error),
            Err(_) => Ok(None),
        };
    });
    found
}

/// The file system's number, and the first and the last sequence of its newest whole checkpoint.
fn newest_checkpoint(found: &Found) -> Result<(u64, u64, u64)> {
    let checkpoints = || {
        let is_part = |batch: &&Batch| batch.header.part == Part::Checkpoint;
        found.batches.iter().filter(is_part).map(|batch| batch.header)
    };
    let ends = checkpoints().filter(|header| header.is_last);
    let whole = ends.filter(|end| {
        let is_part = |h: &Header| h.checkpoint == end.checkpoint && h.id == end.id;
        let count = checkpoints().filter(is_part).count() as u64;
        count == end.sequence - end.checkpoint + 1
    });
    let newest = whole.max_by_key(|end| end.sequence);
    match newest {
        Some(end) => Ok((end.id, end.checkpoint, end.sequence)),
        None if found.batches.is_empty() => {
            Err(not_ours("make one with `silica lfs create`, which erases the device"))
        }
        None => Err(Error::corruption("the file system", 0, "no whole checkpoint can be read")),
    }
}

/// Batches of the log that follow a checkpoint without a gap.
fn log_behind(found: &Found, id: u64, last: u64) -> Vec<&Batch> {
    let mut log: Vec<&Batch> = Vec::new();
    for batch in &found.batches {
        let next = last + 1 + log.len() as u64;
        let Header { part, id: of, sequence, .. } = batch.header;
        if part == Part::Log && of == id && sequence == next {
            log.push(batch);
        }
    }
    log
}

/// How many of the batches are part of commits that count.
fn count_committed<G: Ground>(ground: &G, id: u64, log: &[&Batch]) -> usize {
    let synced = log.iter().map(|batch| batch.header.synced).max().unwrap_or(0);
    let mut committed = 0;
    for (i, batch) in log.iter().enumerate() {
        if batch.header.sequence > synced && !are_pages_there(ground, id, &batch.body) {
            break;
        }
        if batch.header.is_last {
            committed = i + 1;
        }
    }
    committed
}

/// True if all pages that the records speak of are what was written.
fn are_pages_there<G: Ground>(ground: &G, id: u64, body: &[u8]) -> bool {
    let pages_of_segment = u64::from(ground.segment_pages());
    let mut rest = body;
    while let Some(record) = Record::decode(&mut rest) {
        let Record::Map { at, sums, .. } = record else { continue };
        for (at, sum) in (at..).zip(sums.chunks_exact(4)) {
            let (segment, page) = ((at / pages_of_segment) as u32, (at % pages_of_segment) as u32);
            if segment >= ground.segments() || page >= ground.written(segment) {
                return false;
            }
            let read = fetch_pages(ground, segment, page, 1).ok().flatten();
            let is_there = |bytes: Vec<u8>| page_sum(id, at, &bytes).to_le_bytes() == sum;
            if !read.is_some_and(is_there) {
                return false;
            }
        }
    }
    true
}

fn apply(tree: &mut Tree, body: &[u8]) -> Result<()> {
    let mut rest = body;
    while let Some(record) = Record::decode(&mut rest) {
        tree.apply(&record);
    }
    match rest.is_empty() {
        true => Ok(()),
        false => Err(Error::corruption("a batch of the log", 0, "a record cannot be read")),
    }
}

/// Drops inodes that only an opening held. Returns how many there were.
fn drop_orphans(tree: &mut Tree) -> usize {
    let is_orphan = |(ino, node): (&Ino, &Node)| (node.attributes.links == 0).then_some(*ino);
    let orphans: Vec<Ino> = tree.nodes.iter().filter_map(is_orphan).collect();
    for ino in &orphans {
        tree.nodes.remove(ino);
    }
    orphans.len()
}
