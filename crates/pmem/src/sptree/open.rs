//! A store is made or opened (section 4.4.6).
//!
//! The root page names the first leaf; from there the leaves are linked, each with its lowest key.
//! An opening makes folded nodes of the leaves that the region's copy of the top layer names, and
//! serves at once (`unfold.rs`). It walks all links instead, which takes one line a leaf, if there
//! is no copy, or if the log may have records that count: they are of leaves that have to be known.
//!
//! Each leaf is checked, and its filter made, when it is first touched, by a user or by background
//! work. Splits and merges change their words together, so there is nothing to repair.

use super::anchors::Anchors;
use super::buffers::Buffers;
use super::leaf::{Leaf, is_possible};
use super::log::{Found, Log, Marks};
use super::nodes::Nodes;
use super::options::Config;
use super::plan::{too_many_leaves, write_marked_leaf};
use super::replay::replay;
use super::root::{self, Closing, Root};
use super::top::Top;
use super::tree::{OPEN, SpTree, Upkeep};
use super::{counts::Counts, entry, history::History, write};
use crate::space::{Kind, Opened, ROOT, Settings, Space};
use silica_base::{Biased, Error, HashSeed, Result, Striped};
use silica_device::region::{Region, Regions};
use silica_engine::transaction::CommitTurns;
use silica_engine::{Capabilities, Descriptor, Environment, Limits, OptionValues};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};

/// Anchors that an opening looks at, at most: some 10 ms. Of more, a part is as good.
const ANCHORS_MAX: usize = 8192;
/// Leaves whose first lines are asked for ahead.
const LEAVES_AHEAD: usize = 16;
/// The region's name.
pub(crate) const NAME: &str = "sptree";
/// What an opening finds.
#[derive(Default)]
struct Walked {
    /// Lowest keys and nodes, in order.
    leaves: Vec<(Vec<u8>, u32)>,
    entries: u64,
    /// `entries` are those of all leaves.
    is_counted: bool,
    /// Nodes that stand for leaves behind theirs, too.
    folded: u64,
    unchecked: u64,
    /// Marks of the leaves.
    marks: Vec<u32>,
}

/// What is in memory of a store.
struct Parts {
    seed: HashSeed,
    nodes: Nodes,
    buffers: Buffers,
    log: Log,
    anchors: Anchors,
    walked: Walked,
}

impl Parts {
    /// Reads a store, or makes it.
    fn read<R: Region>(
        space: &Space<R>,
        new_seed: HashSeed,
        config: &Config,
        was_settled: bool,
    ) -> Result<Parts> {
        let (nodes, buffers) = (Nodes::new(), Buffers::new());
        let region_bytes = Config::region_bytes(config.memory_bytes);
        // Its first word is stored last, so a region without it never was a store.
        if space.region().load(ROOT) == 0 {
            let first = write_marked_leaf(space, (b"", &[], 0), 0, &mut Vec::new())?;
            let Root { seed, first_leaf } = root::make(space, new_seed, first)?;
            let node = nodes.make(first_leaf, false).ok_or_else(too_many_leaves)?;
            let leaves = vec![(Vec::new(), node)];
            let walked = Walked { leaves, is_counted: true, ..Walked::default() };
            let Found { log, .. } = Log::open(space, region_bytes, Marks::Of(&[]))?;
            return Ok(Parts { seed, nodes, buffers, log, anchors: Anchors::default(), walked });
        }
        let Root { seed, first_leaf } = root::read(space)?;
        if config.buffers_percent > 0 {
            let upgrade = root::upgrade(space);
            if !upgrade.is_empty() {
                space.commit(&upgrade)?;
            }
        }
        let anchors = Anchors::open(space)?;
        let closing = if was_settled { root::closing(space) } else { Closing::default() };
        let has_records = Log::is_there(space) && closing.next_mark.is_none();
        if !has_records && let Some(mut walked) = anchored(space, &nodes, first_leaf, &anchors)? {
            walked.is_counted = closing.entries.is_some();
            walked.entries = closing.entries.unwrap_or(0);
            let next_mark = closing.next_mark.unwrap_or(1);
            let Found { log, .. } = Log::open(space, region_bytes, Marks::From(next_mark))?;
            return Ok(Parts { seed, nodes, buffers, log, anchors, walked });
        }
        let mut walked = walk(space, &nodes, first_leaf)?;
        anchors.retain(space, &sorted_leaves(&nodes, &walked.leaves));
        let marks = std::mem::take(&mut walked.marks);
        let Found { log, records } = Log::open(space, region_bytes, Marks::Of(&marks))?;
        let leaves = walked.leaves.iter().zip(marks).map(|((_, number), mark)| (*number, mark));
        let added = replay(space, &log, &nodes, &buffers, leaves, records)?;
        walked.entries = walked.entries.wrapping_add_signed(added);
        Ok(Parts { seed, nodes, buffers, log, anchors, walked })
    }
}

fn sorted_leaves(nodes: &Nodes, leaves: &[(Vec<u8>, u32)]) -> Vec<u64> {
    let mut sorted: Vec<u64> = leaves.iter().map(|(_, node)| nodes.get(*node).leaf()).collect();
    sorted.sort_unstable();
    sorted
}

impl<R: Region> SpTree<R> {
    /// Opens the store in a place for regions, or makes it.
    ///
    /// # Errors
    /// `Corruption`, `Unsupported`, `Full`, `Io`, `Locked`; the message names the fix.
    pub fn open_on<P>(
        regions: &P,
        options: &OptionValues,
        environment: &Environment,
    ) -> Result<SpTree<R>>
    where
        P: Regions<Region = R>,
    {
        let config = Config::new(options);
        let seed = environment.seed;
        let settings = Settings {
            kind: Kind::SpTree,
            store: seed.hash(b"store").low(),
            limit_bytes: Config::region_bytes(config.memory_bytes),
            salvage: false,
        };
        let Opened { space, was_settled, .. } = Space::open_on(regions, NAME, &settings)?;
        match Parts::read(&space, seed, &config, was_settled) {
            Ok(parts) => {
                let mut tree = Self::with(space, parts, config, environment);
                tree.may_be_torn = !was_settled;
                tree.share_memory();
                Ok(tree)
            }
            Err(error) => {
                // What could be believed before this opening can be believed after it.
                if was_settled {
                    space.settle()?;
                }
                Err(error)
            }
        }
    }

    fn with(space: Space<R>, parts: Parts, config: Config, environment: &Environment) -> SpTree<R> {
        let Parts { seed, nodes, buffers, log, anchors, walked } = parts;
        let top = Top::new(&walked.leaves);
        SpTree {
            is_marking: AtomicBool::new(space.is_marking()),
            may_be_torn: false,
            seed,
            clock: Arc::clone(&environment.clock),
            config,
            descriptor: descriptor(space.region().class().survives_power_cut()),
            nodes,
            buffers,
            log,
            anchors,
            buffer_bytes_max: AtomicU64::new(0),
            top,
            history: History::default(),
            gate: Biased::new(()),
            counts: Striped::<Counts>::default(),
            entries_at_open: walked.entries,
            is_counted: walked.is_counted,
            folded: AtomicU64::new(walked.folded),
            unchecked: AtomicU64::new(walked.unchecked),
            next_expiry_ms: AtomicU64::new(u64::MAX),
            memory_bytes: AtomicU64::new(config.memory_bytes),
            state: AtomicU64::new(OPEN),
            commit_turns: Arc::new(CommitTurns::default()),
            upkeep: Mutex::new(Upkeep {
                check_from: Some(Vec::new()),
                sweep_from: None,
                sweep_expiry_ms: u64::MAX,
                ..Upkeep::default()
            }),
            space,
        }
    }
}

fn descriptor(survives_power_cut: bool) -> Descriptor {
    Descriptor {
        name: "sptree",
        capabilities: Capabilities {
            durable: true,
            synced: survives_power_cut,
            kept_at_close: true,
            may_wait: false,
            scan: true,
            ordered: true,
            atomic: true,
            admin: true,
            may_evict: false,
        },
        limits: Limits {
            key_bytes_max: entry::KEY_BYTES_MAX,
            value_bytes_max: entry::VALUE_BYTES_MAX,
            batch_bytes_max: write::BATCH_BYTES_MAX,
        },
    }
}

/// Folded nodes of the first leaf and of the leaves that the copy names; `None` if it names none.
fn anchored<R: Region>(
    space: &Space<R>,
    nodes: &Nodes,
    first: u64,
    anchors: &Anchors,
) -> Result<Option<Walked>> {
    let named = anchors.leaves();
    let stride = named.len().div_ceil(ANCHORS_MAX).max(1);
    let named: Vec<u64> = named.into_iter().step_by(stride).collect();
    if named.is_empty() {
        return Ok(None);
    }
    let first_low = is_possible(space.region(), first).then(|| Leaf::new(space, first).low());
    if !first_low.is_some_and(|low| low.is_ok_and(|(low, _)| low.is_empty())) {
        let detail = "the first leaf is damaged: restore a backup";
        return Err(Error::corruption(space.name(), first, detail));
    }
    let mut found = vec![(Vec::new(), first)];
    for (number, at) in named.iter().enumerate() {
        if let Some(later) = named.get(number + LEAVES_AHEAD) {
            space.region().prefetch(*later);
        }
        // A leaf that is damaged is met, and told of, by the way along the links.
        if let Ok((low, _)) = Leaf::new(space, *at).low()
            && *at != first
        {
            found.push((low, *at));
        }
    }
    found.sort_unstable();
    if found.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        // Two leaves of one key cannot both be of the list: the walk decides.
        return Ok(None);
    }
    let mut walked = Walked { folded: found.len() as u64, ..Walked::default() };
    walked.unchecked = walked.folded;
    for (low, at) in found {
        let number = nodes.make(at, true).ok_or_else(too_many_leaves)?;
        nodes.get(number).fold();
        walked.leaves.push((low, number));
    }
    Ok(Some(walked))
}

/// Follows the links from the first leaf on.
fn walk<R: Region>(space: &Space<R>, nodes: &Nodes, first: u64) -> Result<Walked> {
    let mut walked = Walked { is_counted: true, ..Walked::default() };
    let damaged = |torn: entry::Torn| torn.error(space.name());
    let mut at = Some(first);
    while let Some(leaf) = at {
        if !is_possible(space.region(), leaf) {
            return Err(Error::corruption(space.name(), leaf, "a leaf lies beyond the region"));
        }
        let leaf = Leaf::new(space, leaf);
        let (low, _) = leaf.low().map_err(damaged)?;
        // Keys that grow also end a circle of links.
        let is_next = walked.leaves.last().map_or(low.is_empty(), |(last, _)| *last < low);
        if !is_next {
            let detail = "leaves are not in the order of their keys: restore a backup";
            return Err(Error::corruption(space.name(), leaf.at, detail));
        }
        walked.entries += u64::from(leaf.bitmap().count_ones());
        walked.unchecked += 1;
        walked.marks.push(leaf.mark());
        let node = nodes.make(leaf.at, true).ok_or_else(too_many_leaves)?;
        walked.leaves.push((low, node));
        at = leaf.next().map_err(damaged)?;
    }
    Ok(walked)
}
