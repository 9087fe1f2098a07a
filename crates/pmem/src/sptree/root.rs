//! The root page: what the store begins with, and what a clean close leaves for the next opening.

use super::layout;
use crate::space::{Change, ROOT, Space};
use silica_base::{Error, Format, HashSeed, Result, checksum};
use silica_device::region::Region;

const FORMAT: Format = Format {
    name: "sptree root",
    magic: b"SiST",
    version_bytes: 4,
    version: 3,
    steps: &[|_| (), |_| ()],
};
/// Offsets in the root page.
const SEED: u64 = ROOT + 8;
const FRONT_SUM: u64 = ROOT + 24;
const FIRST_LEAF: u64 = ROOT + 32;
const ENTRIES: u64 = ROOT + 40;
const NEXT_MARK: u64 = ROOT + 48;
/// Closing words hold the number and one more: 0 is a word that says nothing.
const SAYS_NOTHING: u64 = 0;

/// What the root says.
pub(crate) struct Root {
    pub(crate) seed: HashSeed,
    pub(crate) first_leaf: u64,
}

/// What a clean close knows. It holds only for a region that was settled.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Closing {
    /// Entries of all leaves.
    pub(crate) entries: Option<u64>,
    /// The log has no record that counts, and this is the next mark for a leaf.
    pub(crate) next_mark: Option<u32>,
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

/// The change that makes a leaf the first.
pub(crate) fn first_leaf_word(store: u64, leaf: u64) -> Change {
    Change { offset: FIRST_LEAF, new: layout::checked(store, FIRST_LEAF, leaf) }
}

/// Makes a store of this leaf, which was flushed. Its root.
///
/// # Errors
/// Those of a fence.
pub(crate) fn make<R: Region>(space: &Space<R>, seed: HashSeed, first_leaf: u64) -> Result<Root> {
    let region = space.region();
    let words: [u64; 2] =
        std::array::from_fn(|at| u64::from_le_bytes(*seed.0[8 * at..].first_chunk().expect("8")));
    region.store(SEED, words[0]);
    region.store(SEED + 8, words[1]);
    region.store(FRONT_SUM, front_sum(front(), words));
    region.store(FIRST_LEAF, layout::checked(space.store(), FIRST_LEAF, first_leaf));
    region.flush(ROOT, 64);
    region.fence()?;
    region.store(ROOT, front());
    region.flush(ROOT, 8);
    region.fence()?;
    Ok(Root { seed, first_leaf })
}

/// Reads the root of a store.
///
/// # Errors
/// `Corruption`, `Unsupported` for a newer version.
pub(crate) fn read<R: Region>(space: &Space<R>) -> Result<Root> {
    let region = space.region();
    let front = region.load(ROOT);
    FORMAT.version_of(space.name(), ROOT, &front.to_le_bytes())?;
    let words = [region.load(SEED), region.load(SEED + 8)];
    if region.load(FRONT_SUM) != front_sum(front, words) {
        let detail = "the root does not match its checksum: restore a backup";
        return Err(Error::corruption(space.name(), FRONT_SUM, detail));
    }
    let first_leaf = layout::unchecked(space.store(), FIRST_LEAF, region.load(FIRST_LEAF));
    let first_leaf = first_leaf.ok_or_else(|| {
        Error::corruption(space.name(), FIRST_LEAF, "the first leaf is not known: restore a backup")
    })?;
    let mut seed = HashSeed([0; 16]);
    seed.0[..8].copy_from_slice(&words[0].to_le_bytes());
    seed.0[8..].copy_from_slice(&words[1].to_le_bytes());
    Ok(Root { seed, first_leaf })
}

/// The changes that make a root of an older version one of this, none if it is one: from then on
/// releases that do not know the log, or the copy of the top layer, refuse the store.
pub(crate) fn upgrade<R: Region>(space: &Space<R>) -> Vec<Change> {
    let region = space.region();
    if region.load(ROOT) == front() {
        return Vec::new();
    }
    let words = [region.load(SEED), region.load(SEED + 8)];
    vec![
        Change { offset: ROOT, new: front() },
        Change { offset: FRONT_SUM, new: front_sum(front(), words) },
    ]
}

/// Notes, durably, what the next opening may take for known if the region is settled next.
///
/// # Errors
/// Those of a fence.
pub(crate) fn note_closing<R: Region>(space: &Space<R>, closing: Closing) -> Result<()> {
    let region = space.region();
    let note = |at: u64, known: Option<u64>| {
        let word =
            known.map_or(SAYS_NOTHING, |known| layout::checked(space.store(), at, known + 1));
        region.store(at, word);
        region.flush(at, 8);
    };
    note(ENTRIES, closing.entries);
    note(NEXT_MARK, closing.next_mark.map(u64::from));
    region.fence()
}

/// What a clean close noted. Only for a region that was settled.
pub(crate) fn closing<R: Region>(space: &Space<R>) -> Closing {
    let known = |at: u64| {
        let word = layout::unchecked(space.store(), at, space.region().load(at));
        word.and_then(|word| word.checked_sub(1))
    };
    let next_mark = known(NEXT_MARK).and_then(|mark| u32::try_from(mark).ok());
    Closing { entries: known(ENTRIES), next_mark }
}
