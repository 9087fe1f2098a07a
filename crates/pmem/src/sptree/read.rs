//! Gets: no lock is taken and nothing shared is written (sections 4.4.2 and 4.4.4).
//!
//! A burst goes through the levels together: while the lines of one key come, the next key asks for
//! its own.

use super::check::check_node;
use super::entry::Torn;
use super::layout::{Slot, tag_of};
use super::leaf::{Leaf, Meta, Value};
use super::lock::{begin_read, end_read};
use super::nodes::Node;
use super::sync::Backoff;
use super::top::{Seek, View};
use super::tree::SpTree;
use silica_base::Result;
use silica_device::region::Region;
use silica_engine::{EntryRef, GetSink};

/// Keys of a burst that go through the levels together.
const GROUP: usize = 32;
/// Values above this are read by themselves, after the sink was asked.
const LARGE_BYTES: usize = 64 << 10;

/// One key on its way.
#[derive(Clone, Copy, Default)]
struct Probe {
    hash: u64,
    chunk: usize,
    node: u32,
    version: u64,
    candidates: u64,
    stage: Stage,
    /// Where its value is in the group's bytes.
    value: (usize, usize),
    meta: Meta,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    UnderWay,
    Missing,
    Found,
    /// It met a writer, or something that takes longer: it is read by itself.
    Alone,
}

/// Reads `keys`, as of now.
pub(crate) fn read_many<R: Region>(
    tree: &SpTree<R>,
    keys: &[&[u8]],
    sink: &mut dyn GetSink,
) -> Result<()> {
    let mut bytes = Vec::new();
    for (number, group) in keys.chunks(GROUP).enumerate() {
        let mut probes = [Probe::default(); GROUP];
        let probes = &mut probes[..group.len()];
        bytes.clear();
        let mut hashes = [0; GROUP];
        tree.seed.low_many(group, &mut hashes[..group.len()]);
        probes.iter_mut().zip(hashes).for_each(|(probe, hash)| probe.hash = hash);
        tree.top.view(|view| {
            find_nodes(tree, &view, group, probes);
            if tree.buffers.count() > 0 {
                ask_buffers(tree, group, probes, &mut bytes);
            }
            ask_filters(tree, probes);
            match_tags(tree, probes);
            read_slots(tree, group, probes, &mut bytes);
        });
        report(tree, group, probes, &mut bytes, &mut |at, entry| match entry {
            Answer::Ask(len) => sink.wants(number * GROUP + at, len),
            Answer::Found(entry) => {
                sink.found(number * GROUP + at, entry);
                true
            }
        })?;
    }
    Ok(())
}

fn find_nodes<R: Region>(tree: &SpTree<R>, view: &View<'_>, keys: &[&[u8]], probes: &mut [Probe]) {
    for (key, probe) in keys.iter().zip(probes.iter_mut()) {
        probe.chunk = view.chunk_of(key);
        view.prefetch(probe.chunk);
    }
    for (key, probe) in keys.iter().zip(probes.iter()) {
        view.prefetch_block(probe.chunk, key);
    }
    let mut found = [None; GROUP];
    for ((key, probe), found) in keys.iter().zip(probes.iter_mut()).zip(&mut found) {
        *found = view.find_in(probe.chunk, key, Seek::At);
        if let Some(found) = found {
            tree.nodes.prefetch(found.node);
        }
    }
    for (probe, found) in probes.iter_mut().zip(found) {
        probe.stage = Stage::Alone;
        let Some(found) = found else { continue };
        let node = tree.nodes.get(found.node);
        if let Some(version) = begin_read(node.lock_word())
            && found.holds()
            && !node.is_unchecked()
        {
            (probe.node, probe.version, probe.stage) = (found.node, version, Stage::UnderWay);
            if node.buffer() != 0 {
                tree.buffers.prefetch(node.buffer());
            }
        }
    }
}

/// Looks into write buffers.
fn ask_buffers<R: Region>(
    tree: &SpTree<R>,
    keys: &[&[u8]],
    probes: &mut [Probe],
    bytes: &mut Vec<u8>,
) {
    let under_way = keys.iter().zip(probes).filter(|(_, probe)| probe.stage == Stage::UnderWay);
    for (key, probe) in under_way {
        let node = tree.nodes.get(probe.node);
        let Some(buffer) = tree.buffer_of(node) else { continue };
        let (leaf, start) = (tree.leaf(node.leaf()), bytes.len());
        let found = buffer.find(&leaf, key, tag_of(probe.hash));
        let read = found.and_then(|found| match found {
            Some((_, place)) if place.is_deleted => Ok(Some(None)),
            Some((_, place)) => {
                leaf.read_value(0, &place.slot, bytes, LARGE_BYTES).map(|value| Some(Some(value)))
            }
            None => Ok(None),
        });
        probe.stage = match read {
            _ if !end_read(node.lock_word(), probe.version) => Stage::Alone,
            Ok(None) => continue,
            Ok(Some(None)) => Stage::Missing,
            Ok(Some(Some(Value::Read(meta, skip)))) => {
                (probe.meta, probe.value) = (meta, (start + skip, bytes.len()));
                Stage::Found
            }
            Ok(Some(Some(Value::Large(_)))) | Err(_) => Stage::Alone,
        };
    }
}

fn ask_filters<R: Region>(tree: &SpTree<R>, probes: &mut [Probe]) {
    for probe in probes.iter_mut().filter(|probe| probe.stage == Stage::UnderWay) {
        let node = tree.nodes.get(probe.node);
        if tree.config.has_filters && !node.may_have(probe.hash) {
            let holds = end_read(node.lock_word(), probe.version);
            probe.stage = if holds { Stage::Missing } else { Stage::Alone };
            continue;
        }
        tree.leaf(node.leaf()).prefetch();
    }
}

fn match_tags<R: Region>(tree: &SpTree<R>, probes: &mut [Probe]) {
    for probe in probes.iter_mut().filter(|probe| probe.stage == Stage::UnderWay) {
        let leaf = tree.leaf(tree.nodes.get(probe.node).leaf());
        probe.candidates = leaf.candidates(tag_of(probe.hash));
        if probe.candidates != 0 {
            leaf.prefetch_slot(probe.candidates.trailing_zeros() as usize);
        }
    }
}

fn read_slots<R: Region>(
    tree: &SpTree<R>,
    keys: &[&[u8]],
    probes: &mut [Probe],
    bytes: &mut Vec<u8>,
) {
    let under_way = keys.iter().zip(probes).filter(|(_, probe)| probe.stage == Stage::UnderWay);
    for (key, probe) in under_way {
        let node = tree.nodes.get(probe.node);
        let leaf = tree.leaf(node.leaf());
        let start = bytes.len();
        let read = leaf.find_among(probe.candidates, key).and_then(|found| match found {
            Some((at, slot)) => leaf.read_value(at, &slot, bytes, LARGE_BYTES).map(Some),
            None => Ok(None),
        });
        probe.stage = match read {
            _ if !end_read(node.lock_word(), probe.version) => Stage::Alone,
            Ok(None) => Stage::Missing,
            Ok(Some(Value::Read(meta, skip))) => {
                (probe.meta, probe.value) = (meta, (start + skip, bytes.len()));
                Stage::Found
            }
            Ok(Some(Value::Large(_))) | Err(_) => Stage::Alone,
        };
    }
}

/// What is told of a key.
enum Answer<'a> {
    /// Whether a large value of so many bytes is wanted.
    Ask(usize),
    Found(EntryRef<'a>),
}

/// Tells what was found, and reads by itself what could not be read together.
fn report<R: Region>(
    tree: &SpTree<R>,
    keys: &[&[u8]],
    probes: &[Probe],
    bytes: &mut Vec<u8>,
    tell: &mut dyn FnMut(usize, Answer<'_>) -> bool,
) -> Result<()> {
    let now_ms = if probes.iter().any(|probe| probe.meta.expires_unix_ms != 0) {
        tree.clock.unix_ms()
    } else {
        0
    };
    let (mut hits, mut false_positives) = (0, 0);
    for (at, probe) in probes.iter().enumerate() {
        match probe.stage {
            Stage::Found => {
                let Meta { expires_unix_ms, user_bits } = probe.meta;
                if expires_unix_ms != 0 && expires_unix_ms <= now_ms {
                    continue;
                }
                let value = &bytes[probe.value.0..probe.value.1];
                tell(at, Answer::Found(EntryRef { value, expires_unix_ms, user_bits }));
                hits += 1;
            }
            Stage::Missing => false_positives += u64::from(probe.version_was_searched()),
            Stage::UnderWay => unreachable!("each key has come to an end"),
            Stage::Alone => {}
        }
    }
    for (at, key) in keys.iter().enumerate().filter(|(at, _)| probes[*at].stage == Stage::Alone) {
        bytes.clear();
        let wants = &mut |len| tell(at, Answer::Ask(len));
        let read = read_one(tree, key, probes[at].hash, bytes, wants)?;
        let Some((Meta { expires_unix_ms, user_bits }, start)) = read else { continue };
        if expires_unix_ms != 0 && expires_unix_ms <= tree.clock.unix_ms() {
            continue;
        }
        let value = &bytes[start..];
        tell(at, Answer::Found(EntryRef { value, expires_unix_ms, user_bits }));
        hits += 1;
    }
    let mine = tree.counts.mine();
    mine.add(|counts| &counts.gets, keys.len() as u64);
    mine.add(|counts| &counts.hits, hits);
    mine.add(|counts| &counts.false_positives, false_positives);
    Ok(())
}

impl Probe {
    /// True if the leaf was searched in vain.
    fn version_was_searched(&self) -> bool {
        self.candidates != 0
    }
}

/// How one try to read a key ends.
enum Try {
    Missing,
    /// The node has to be checked first.
    Check(u32),
    Large(usize),
    Found(Meta, usize),
    Torn(Torn),
}

/// Appends the value of `key` to `out`, whether it has expired or not: its meta, and where it
/// begins. A value above a limit is read only if `wants` says so; else the key counts as missing.
///
/// # Errors
/// `Corruption`.
pub(crate) fn read_one<R: Region>(
    tree: &SpTree<R>,
    key: &[u8],
    hash: u64,
    out: &mut Vec<u8>,
    wants: &mut dyn FnMut(usize) -> bool,
) -> Result<Option<(Meta, usize)>> {
    let (start, mut bytes_max) = (out.len(), LARGE_BYTES);
    let mut backoff = Backoff::default();
    loop {
        out.truncate(start);
        match tree.top.view(|view| try_read(tree, &view, key, hash, out, bytes_max)) {
            None => backoff.pause(),
            Some(Try::Missing) => return Ok(None),
            Some(Try::Check(node)) => check_node(tree, node)?,
            Some(Try::Large(len)) if !wants(len) => return Ok(None),
            Some(Try::Large(_)) => bytes_max = usize::MAX,
            Some(Try::Found(meta, skip)) => return Ok(Some((meta, start + skip))),
            Some(Try::Torn(torn)) => return Err(torn.error(tree.space.name())),
        }
    }
}

/// `None` if a writer was at work.
fn try_read<R: Region>(
    tree: &SpTree<R>,
    view: &View<'_>,
    key: &[u8],
    hash: u64,
    out: &mut Vec<u8>,
    bytes_max: usize,
) -> Option<Try> {
    let found = view.find_in(view.chunk_of(key), key, Seek::At)?;
    let node = tree.nodes.get(found.node);
    let version = begin_read(node.lock_word())?;
    if !found.holds() {
        return None;
    }
    if node.is_unchecked() {
        return Some(Try::Check(found.node));
    }
    let leaf = tree.leaf(node.leaf());
    let read = find_slot(tree, node, &leaf, key, hash).and_then(|found| match found {
        Some((at, slot)) => leaf.read_value(at, &slot, out, bytes_max).map(Some),
        None => Ok(None),
    });
    if !end_read(node.lock_word(), version) {
        return None;
    }
    Some(match read {
        Ok(None) => Try::Missing,
        Ok(Some(Value::Read(meta, skip))) => Try::Found(meta, skip),
        Ok(Some(Value::Large(len))) => Try::Large(len),
        Err(torn) => Try::Torn(torn),
    })
}

/// The slot of a key, in the buffer or in the leaf.
fn find_slot<R: Region>(
    tree: &SpTree<R>,
    node: Node<'_>,
    leaf: &Leaf<'_, R>,
    key: &[u8],
    hash: u64,
) -> Result<Option<(usize, Slot)>, Torn> {
    if let Some(buffer) = tree.buffer_of(node)
        && let Some((at, place)) = buffer.find(leaf, key, tag_of(hash))?
    {
        return Ok((!place.is_deleted).then_some((at, place.slot)));
    }
    if tree.config.has_filters && !node.may_have(hash) {
        return Ok(None);
    }
    leaf.find(key, tag_of(hash))
}
