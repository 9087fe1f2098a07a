//! A store is made or opened (section 4.4.6).
//!
//! The root page names the first leaf; from there the leaves are linked, each with its lowest key.
//! An opening walks the links, reads one line a leaf, and makes nodes and top layer of it: the
//! store serves at once. Each leaf is checked, and its filter made, when it is first touched, by a
//! user or by background work. Splits and merges change their words together, so there is nothing
//! to repair.

use super::buffers::Buffers;
use super::leaf::{Leaf, is_possible};
use super::log::{Found, Log};
use super::nodes::Nodes;
use super::options::Config;
use super::plan::{too_many_leaves, write_marked_leaf};
use super::replay::replay;
use super::top::Top;
use super::tree::{OPEN, SpTree, Upkeep};
use super::{counts::Counts, entry, history::History, layout, write};
use crate::space::{Change, Kind, Opened, ROOT, Settings, Space};
use silica_base::{Biased, Error, Format, HashSeed, Result, Striped, checksum};
use silica_device::region::{Region, Regions};
use silica_engine::transaction::CommitTurns;
use silica_engine::{Capabilities, Descriptor, Environment, Limits, OptionValues};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};

const FORMAT: Format =
    Format { name: "sptree root", magic: b"SiST", version_bytes: 4, version: 2, steps: &[|_| ()] };
/// The region's name.
const NAME: &str = "sptree";
/// Offsets in the root page.
const SEED: u64 = ROOT + 8;
const FRONT_SUM: u64 = ROOT + 24;
const FIRST_LEAF: u64 = ROOT + 32;

/// What an opening finds.
struct Walked {
    /// Lowest keys and nodes, in order.
    leaves: Vec<(Vec<u8>, u32)>,
    entries: u64,
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
    walked: Walked,
}

impl Parts {
    /// Reads a store, or makes it.
    fn read<R: Region>(space: &Space<R>, new_seed: HashSeed, config: &Config) -> Result<Parts> {
        let (nodes, buffers) = (Nodes::new(), Buffers::new());
        // Its first word is stored last, so a region without it never was a store.
        let (seed, mut walked) = if space.region().load(ROOT) == 0 {
            let first = make(space, new_seed)?;
            let node = nodes.make(first, false).ok_or_else(too_many_leaves)?;
            (
                new_seed,
                Walked {
                    leaves: vec![(Vec::new(), node)],
                    entries: 0,
                    unchecked: 0,
                    marks: Vec::new(),
                },
            )
        } else {
            let (seed, first) = read_root(space, config.buffers_percent > 0)?;
            (seed, walk(space, &nodes, first)?)
        };
        let marks = std::mem::take(&mut walked.marks);
        let region_bytes = Config::region_bytes(config.memory_bytes);
        let Found { log, records } = Log::open(space, region_bytes, &marks)?;
        let leaves = walked.leaves.iter().zip(marks).map(|((_, number), mark)| (*number, mark));
        let added = replay(space.name(), &nodes, &buffers, leaves, records)?;
        walked.entries = walked.entries.wrapping_add_signed(added);
        Ok(Parts { seed, nodes, buffers, log, walked })
    }
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
        match Parts::read(&space, seed, &config) {
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
        let Parts { seed, nodes, buffers, log, walked } = parts;
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
            buffer_bytes_max: AtomicU64::new(0),
            top,
            history: History::default(),
            gate: Biased::new(()),
            counts: Striped::<Counts>::default(),
            entries_at_open: walked.entries,
            unchecked: AtomicU64::new(walked.unchecked),
            next_expiry_ms: AtomicU64::new(u64::MAX),
            memory_bytes: AtomicU64::new(config.memory_bytes),
            state: AtomicU64::new(OPEN),
            commit_turns: Arc::new(CommitTurns::default()),
            upkeep: Mutex::new(Upkeep {
                check_from: Some(Vec::new()),
                sweep_from: None,
                sweep_expiry_ms: u64::MAX,
            }),
            space,
        }
    }

    /// The change that makes a leaf the first.
    pub(crate) fn first_leaf_word(&self, leaf: u64) -> Change {
        let new = layout::checked(self.space.store(), FIRST_LEAF, leaf);
        Change { offset: FIRST_LEAF, new }
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

/// The first eight bytes of the root page, as this version has them.
fn front() -> u64 {
    let mut bytes = [0; 8];
    FORMAT.begin_in(&mut bytes);
    u64::from_le_bytes(bytes)
}

fn front_sum(front: u64, seed: [u64; 2]) -> u64 {
    let bytes: Vec<u8> = [front, seed[0], seed[1]].iter().flat_map(|w| w.to_le_bytes()).collect();
    u64::from(checksum(&bytes))
}

/// Makes an empty store. Its first leaf.
fn make<R: Region>(space: &Space<R>, seed: HashSeed) -> Result<u64> {
    let region = space.region();
    let leaf = write_marked_leaf(space, (b"", &[], 0), 0, &mut Vec::new())?;
    let words: [u64; 2] =
        std::array::from_fn(|at| u64::from_le_bytes(*seed.0[8 * at..].first_chunk().expect("8")));
    region.store(SEED, words[0]);
    region.store(SEED + 8, words[1]);
    region.store(FRONT_SUM, front_sum(front(), words));
    region.store(FIRST_LEAF, layout::checked(space.store(), FIRST_LEAF, leaf));
    region.flush(ROOT, 64);
    region.fence()?;
    region.store(ROOT, front());
    region.flush(ROOT, 8);
    region.fence()?;
    Ok(leaf)
}

/// The seed and the first leaf. A root of an older version becomes one of this if `has_log`: from
/// then on releases that do not know the log refuse it.
fn read_root<R: Region>(space: &Space<R>, has_log: bool) -> Result<(HashSeed, u64)> {
    let region = space.region();
    let old = region.load(ROOT);
    FORMAT.version_of(space.name(), ROOT, &old.to_le_bytes())?;
    let words = [region.load(SEED), region.load(SEED + 8)];
    if region.load(FRONT_SUM) != front_sum(old, words) {
        let detail = "the root does not match its checksum: restore a backup";
        return Err(Error::corruption(space.name(), FRONT_SUM, detail));
    }
    let first = layout::unchecked(space.store(), FIRST_LEAF, region.load(FIRST_LEAF));
    let first = first.ok_or_else(|| {
        Error::corruption(space.name(), FIRST_LEAF, "the first leaf is not known: restore a backup")
    })?;
    if has_log && old != front() {
        space.commit(&[
            Change { offset: ROOT, new: front() },
            Change { offset: FRONT_SUM, new: front_sum(front(), words) },
        ])?;
    }
    let mut seed = HashSeed([0; 16]);
    seed.0[..8].copy_from_slice(&words[0].to_le_bytes());
    seed.0[8..].copy_from_slice(&words[1].to_le_bytes());
    Ok((seed, first))
}

/// Follows the links from the first leaf on.
fn walk<R: Region>(space: &Space<R>, nodes: &Nodes, first: u64) -> Result<Walked> {
    let mut walked = Walked { leaves: Vec::new(), entries: 0, unchecked: 0, marks: Vec::new() };
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
