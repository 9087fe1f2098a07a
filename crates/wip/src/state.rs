//! What the manifest says: the store's identity, its buckets and their tables.
//!
//! `docs/formats/wip-manifest.md` has the bytes of snapshots and edits.

use crate::deleted::DeletedRange;
use crate::policy::LEVEL_MAX;
use silica_base::{Error, ErrorKind, Format, HashSeed, Result, write_varint};
use silica_engine::{HISTORIES_MAX, HistoryLink};
use silica_parts::Fields;
use silica_parts::manifest::{Ledger, Maker};
use silica_parts::store_log::{LogEdit, LogLedger, LogState};
use silica_parts::value_log;
use std::collections::{BTreeMap, BTreeSet};

/// What a manifest of this engine says of its maker.
pub(crate) const MAKER: Maker = Maker(*b"wip\0");

/// How the payload of a snapshot begins; edits are of the same version, or of an older one.
const FORMAT: Format = Format {
    name: "WipDB manifest",
    magic: b"",
    version_bytes: 1,
    version: 2,
    steps: &[add_histories],
};

/// A table, or the part of it with keys from `lower` on and before `upper`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PartState {
    pub(crate) table: u64,
    pub(crate) lower: Vec<u8>,
    pub(crate) upper: Option<Vec<u8>>,
    /// How often its entries were merged.
    pub(crate) level: u8,
    /// Bytes of tables that nobody needs because of it, estimated.
    pub(crate) dead_bytes: u64,
    /// The sequence number of all versions of a table that was ingested; else 0.
    pub(crate) sequence: u64,
}

/// A bucket: the keys from its first one on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BucketState {
    /// Records of the log below this position are in the tables already.
    pub(crate) floor: u64,
    /// Runs, the newest first.
    pub(crate) runs: Vec<Vec<PartState>>,
    /// Ranges that were deleted below the floor.
    pub(crate) deleted: Vec<DeletedRange>,
}

/// Everything the manifest says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreState {
    pub(crate) store_id: u64,
    pub(crate) seed: HashSeed,
    /// Log segments that live, ascending.
    pub(crate) log_segments: Vec<u64>,
    /// The value log.
    pub(crate) values: value_log::State,
    /// Buckets by their lowest key; the first one's is empty.
    pub(crate) buckets: BTreeMap<Vec<u8>, BucketState>,
    /// Everything below this log position was durable at some moment, so recovery has to reach it.
    pub(crate) durable_end: u64,
    /// Greater than the number of every table that was ever named: a number is never used again.
    pub(crate) next_table: u64,
    /// Histories of the changes, the oldest first; none if nobody ever asked for changes.
    pub(crate) histories: Vec<HistoryLink>,
}

/// One change of the state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// A log segment was created.
    LogSegment(u64),
    /// Log segments below this number are not needed any more.
    ReleaseLog(u64),
    /// The log is durable up to this position.
    DurableEnd(u64),
    /// Every entry is gone; the log counts from this position on.
    Clear(u64),
    /// A value-log segment was created.
    ValueSegment(u32),
    /// A value-log segment is not needed any more.
    ReleaseValueSegment(u32),
    /// Nothing points to so many bytes of these value-log segments.
    ValueDead(Vec<(u32, u64)>),
    /// A history of the changes begins; those before it are forgotten if it `is_apart`.
    History { link: HistoryLink, is_apart: bool },
    /// Buckets that begin at these keys are no more, and these are there.
    Buckets { gone: Vec<Vec<u8>>, new: Vec<(Vec<u8>, BucketState)> },
}

impl StoreState {
    /// The state of a new store of one bucket.
    #[cfg(test)]
    pub(crate) fn new(store_id: u64, seed: HashSeed) -> Self {
        Self::with_buckets(store_id, seed, 1)
    }

    /// The state of a new store of `count` buckets, which share the keys by their first eight
    /// bytes.
    pub(crate) fn with_buckets(store_id: u64, seed: HashSeed, count: u64) -> Self {
        let lower = |n: u64| ((u128::from(n) << 64) / u128::from(count)) as u64;
        let lowers = (1..count).map(|n| lower(n).to_be_bytes().to_vec());
        let lowers = std::iter::once(Vec::new()).chain(lowers);
        StoreState {
            store_id,
            seed,
            log_segments: Vec::new(),
            values: value_log::State::default(),
            buckets: silica_base::compact_map(lowers.map(|lower| (lower, BucketState::default()))),
            durable_end: 0,
            next_table: 1,
            histories: Vec::new(),
        }
    }

    fn parts(&self) -> impl Iterator<Item = &PartState> {
        self.buckets.values().flat_map(|bucket| &bucket.runs).flatten()
    }

    /// Numbers of all tables that live.
    pub(crate) fn tables(&self) -> BTreeSet<u64> {
        self.parts().map(|part| part.table).collect()
    }

    /// The sequence numbers of tables that were ingested.
    pub(crate) fn ingested(&self) -> BTreeMap<u64, u64> {
        let ingested = self.parts().filter(|part| part.sequence > 0);
        ingested.map(|part| (part.table, part.sequence)).collect()
    }

    /// True if a snapshot payload is of the version that is written.
    pub(crate) fn is_newest(bytes: &[u8]) -> bool {
        FORMAT.version_of("the store", 0, bytes).is_ok_and(|version| version == FORMAT.version)
    }

    /// Reads a snapshot payload.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let bytes = FORMAT.upgraded("the store", 0, bytes)?;
        let mut fields = Fields(&bytes[FORMAT.prefix_bytes()..]);
        decode_state(&mut fields).filter(|_| fields.0.is_empty()).ok_or_else(damaged)
    }
}

impl LogLedger for StoreState {
    fn log_state(&mut self) -> LogState<'_> {
        let StoreState { log_segments: segments, values, durable_end, .. } = self;
        LogState { segments, values, durable_end }
    }

    fn values(&self) -> &value_log::State {
        &self.values
    }

    fn durable_end(&self) -> u64 {
        self.durable_end
    }
}

impl From<LogEdit> for Edit {
    fn from(edit: LogEdit) -> Edit {
        match edit {
            LogEdit::LogSegment(number) => Edit::LogSegment(number),
            LogEdit::ReleaseLog(below) => Edit::ReleaseLog(below),
            LogEdit::DurableEnd(end) => Edit::DurableEnd(end),
            LogEdit::ValueSegment(number) => Edit::ValueSegment(number),
            LogEdit::ReleaseValueSegment(number) => Edit::ReleaseValueSegment(number),
            LogEdit::ValueDead(dead) => Edit::ValueDead(dead),
        }
    }
}

impl Ledger for StoreState {
    type Edit = Edit;

    fn apply(&mut self, edit: &Edit) {
        match edit {
            Edit::LogSegment(number) => self.log_segments.push(*number),
            Edit::ReleaseLog(below) => self.log_segments.retain(|n| n >= below),
            Edit::DurableEnd(end) => self.durable_end = self.durable_end.max(*end),
            Edit::Clear(floor) => {
                let empty = BucketState { floor: *floor, ..BucketState::default() };
                self.buckets = BTreeMap::from([(Vec::new(), empty)]);
                self.values.all_dead();
            }
            Edit::ValueSegment(number) => self.values.add(*number),
            Edit::ReleaseValueSegment(number) => self.values.release(*number),
            Edit::ValueDead(dead) => self.values.set_dead(dead),
            Edit::History { link, is_apart } => {
                if *is_apart {
                    self.histories.clear();
                }
                self.histories.push(*link);
                let more = self.histories.len().saturating_sub(HISTORIES_MAX);
                self.histories.drain(..more);
            }
            Edit::Buckets { gone, new } => {
                gone.iter().for_each(|lower| drop(self.buckets.remove(lower)));
                let runs = new.iter().flat_map(|(_, bucket)| &bucket.runs);
                let greatest = runs.flatten().map(|part| part.table).max();
                self.next_table = self.next_table.max(greatest.map_or(0, |number| number + 1));
                self.buckets.extend(new.iter().cloned());
            }
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        FORMAT.begin(&mut out);
        out.extend_from_slice(&self.store_id.to_le_bytes());
        out.extend_from_slice(&self.seed.0);
        write_varint(&mut out, self.durable_end);
        write_varint(&mut out, self.next_table);
        write_varint(&mut out, self.log_segments.len() as u64);
        self.log_segments.iter().for_each(|number| write_varint(&mut out, *number));
        write_varint(&mut out, self.values.segments.len() as u64);
        self.values.segments.iter().for_each(|n| write_varint(&mut out, u64::from(*n)));
        write_varint(&mut out, u64::from(self.values.next));
        write_dead(&mut out, self.values.dead.iter().map(|(number, bytes)| (*number, *bytes)));
        write_varint(&mut out, self.histories.len() as u64);
        self.histories.iter().for_each(|link| write_link(&mut out, link));
        write_varint(&mut out, self.buckets.len() as u64);
        for (lower, bucket) in &self.buckets {
            encode_bucket(&mut out, lower, bucket);
        }
        out
    }

    fn encode_edit(edit: &Edit) -> Vec<u8> {
        let mut out = Vec::new();
        let mut number = |kind: u8, value: u64| {
            out.push(kind);
            write_varint(&mut out, value);
        };
        match edit {
            Edit::LogSegment(n) => number(LOG_SEGMENT, *n),
            Edit::ReleaseLog(n) => number(RELEASE_LOG, *n),
            Edit::DurableEnd(n) => number(DURABLE_END, *n),
            Edit::Clear(n) => number(CLEAR, *n),
            Edit::ValueSegment(n) => number(VALUE_SEGMENT, u64::from(*n)),
            Edit::ReleaseValueSegment(n) => number(RELEASE_VALUE_SEGMENT, u64::from(*n)),
            Edit::ValueDead(dead) => {
                out.push(VALUE_DEAD);
                write_dead(&mut out, dead.iter().copied());
            }
            Edit::History { link, is_apart } => {
                number(HISTORY, u64::from(*is_apart));
                write_link(&mut out, link);
            }
            Edit::Buckets { gone, new } => {
                number(BUCKETS, gone.len() as u64);
                gone.iter().for_each(|lower| write_sized(&mut out, lower));
                write_varint(&mut out, new.len() as u64);
                for (lower, bucket) in new {
                    encode_bucket(&mut out, lower, bucket);
                }
            }
        }
        out
    }

    fn decode_edit(bytes: &[u8]) -> Result<Edit> {
        let mut fields = Fields(bytes);
        decode_edit(&mut fields).filter(|_| fields.0.is_empty()).ok_or_else(damaged)
    }
}

const LOG_SEGMENT: u8 = 1;
const RELEASE_LOG: u8 = 2;
const DURABLE_END: u8 = 3;
const CLEAR: u8 = 4;
const BUCKETS: u8 = 5;
const VALUE_SEGMENT: u8 = 6;
const RELEASE_VALUE_SEGMENT: u8 = 7;
const VALUE_DEAD: u8 = 8;
const HISTORY: u8 = 9;
/// Flags of a part: it ends before a key; its table was ingested.
const HAS_UPPER: u64 = 1;
const IS_INGESTED: u64 = 2;

fn damaged() -> Error {
    Error::new(ErrorKind::Corruption, "the manifest holds what no version of WipDB wrote")
}

fn write_sized(out: &mut Vec<u8>, bytes: &[u8]) {
    write_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn write_upper(out: &mut Vec<u8>, upper: Option<&[u8]>) {
    write_varint(out, u64::from(upper.is_some()));
    upper.iter().for_each(|upper| write_sized(out, upper));
}

fn write_dead(out: &mut Vec<u8>, dead: impl ExactSizeIterator<Item = (u32, u64)>) {
    write_varint(out, dead.len() as u64);
    for (number, bytes) in dead {
        write_varint(out, u64::from(number));
        write_varint(out, bytes);
    }
}

fn write_link(out: &mut Vec<u8>, link: &HistoryLink) {
    out.extend_from_slice(&link.history.to_le_bytes());
    write_varint(out, link.joined);
    write_varint(out, link.first);
}

fn encode_bucket(out: &mut Vec<u8>, lower: &[u8], bucket: &BucketState) {
    write_sized(out, lower);
    write_varint(out, bucket.floor);
    write_varint(out, bucket.runs.len() as u64);
    for run in &bucket.runs {
        write_varint(out, run.len() as u64);
        for part in run {
            write_varint(out, part.table);
            write_sized(out, &part.lower);
            let flag = |is_there: bool, flag: u64| if is_there { flag } else { 0 };
            let is_ingested = part.sequence > 0;
            let flags = flag(part.upper.is_some(), HAS_UPPER) | flag(is_ingested, IS_INGESTED);
            write_varint(out, flags);
            part.upper.iter().for_each(|upper| write_sized(out, upper));
            write_varint(out, u64::from(part.level));
            write_varint(out, part.dead_bytes);
            if is_ingested {
                write_varint(out, part.sequence);
            }
        }
    }
    write_varint(out, bucket.deleted.len() as u64);
    for range in &bucket.deleted {
        write_varint(out, range.position);
        write_sized(out, &range.lower);
        write_upper(out, range.upper.as_deref());
    }
}

fn decode_link(fields: &mut Fields<'_>) -> Option<HistoryLink> {
    let (history, joined) = (fields.u64()?, fields.varint()?);
    Some(HistoryLink { history, joined, first: fields.varint()? })
}

/// Puts an empty list of histories where version 2 has one. Damaged bytes stay as they are, and the
/// decoder refuses them.
fn add_histories(bytes: &mut Vec<u8>) {
    let len = bytes.len();
    let mut fields = Fields(&bytes[FORMAT.prefix_bytes().min(len)..]);
    if decode_before_histories(&mut fields).is_some() {
        let at = len - fields.0.len();
        bytes.insert(at, 0);
    }
}

/// As many of something as a number says that comes first.
fn list<T>(
    fields: &mut Fields<'_>,
    mut one: impl FnMut(&mut Fields<'_>) -> Option<T>,
) -> Option<Vec<T>> {
    let count = fields.varint()?;
    (0..count).map(|_| one(fields)).collect()
}

fn decode_bucket(fields: &mut Fields<'_>) -> Option<(Vec<u8>, BucketState)> {
    let (lower, floor) = (fields.sized()?.to_vec(), fields.varint()?);
    let runs = list(fields, |fields| list(fields, decode_part))?;
    let deleted = list(fields, decode_range)?;
    Some((lower, BucketState { floor, runs, deleted }))
}

fn decode_range(fields: &mut Fields<'_>) -> Option<DeletedRange> {
    let (position, lower) = (fields.varint()?, fields.sized()?.to_vec());
    Some(DeletedRange { lower, upper: decode_upper(fields)?, position })
}

fn decode_upper(fields: &mut Fields<'_>) -> Option<Option<Vec<u8>>> {
    match fields.varint()? {
        0 => Some(None),
        1 => Some(Some(fields.sized()?.to_vec())),
        _ => None,
    }
}

fn decode_part(fields: &mut Fields<'_>) -> Option<PartState> {
    let (table, lower) = (fields.varint()?, fields.sized()?.to_vec());
    let flags = fields.varint().filter(|flags| flags & !(HAS_UPPER | IS_INGESTED) == 0)?;
    let upper = if flags & HAS_UPPER != 0 { Some(fields.sized()?.to_vec()) } else { None };
    let level = u8::try_from(fields.varint()?).ok().filter(|level| *level <= LEVEL_MAX)?;
    let dead_bytes = fields.varint()?;
    let sequence = if flags & IS_INGESTED != 0 { fields.varint()? } else { 0 };
    Some(PartState { table, lower, upper, level, dead_bytes, sequence })
}

/// What stands in a snapshot before the histories: all but these and the buckets.
fn decode_before_histories(fields: &mut Fields<'_>) -> Option<StoreState> {
    let store_id = fields.u64()?;
    let seed = HashSeed(fields.take(16)?.try_into().ok()?);
    let (durable_end, next_table) = (fields.varint()?, fields.varint()?);
    let log_segments = list(fields, |fields| fields.varint())?;
    let values = value_log::State {
        segments: list(fields, narrow)?,
        next: narrow(fields)?,
        dead: list(fields, decode_dead)?.into_iter().collect(),
    };
    let (buckets, histories) = (BTreeMap::new(), Vec::new());
    Some(StoreState {
        store_id,
        seed,
        log_segments,
        values,
        buckets,
        durable_end,
        next_table,
        histories,
    })
}

fn decode_state(fields: &mut Fields<'_>) -> Option<StoreState> {
    let before = decode_before_histories(fields)?;
    let histories = list(fields, decode_link)?;
    let buckets = silica_base::compact_map(list(fields, decode_bucket)?);
    let state = StoreState { histories, buckets, ..before };
    state.buckets.contains_key(&[][..]).then_some(state)
}

fn narrow(fields: &mut Fields<'_>) -> Option<u32> {
    u32::try_from(fields.varint()?).ok()
}

fn decode_dead(fields: &mut Fields<'_>) -> Option<(u32, u64)> {
    Some((narrow(fields)?, fields.varint()?))
}

fn decode_edit(fields: &mut Fields<'_>) -> Option<Edit> {
    let kind = *fields.take(1)?.first()?;
    Some(match kind {
        LOG_SEGMENT => Edit::LogSegment(fields.varint()?),
        RELEASE_LOG => Edit::ReleaseLog(fields.varint()?),
        DURABLE_END => Edit::DurableEnd(fields.varint()?),
        CLEAR => Edit::Clear(fields.varint()?),
        VALUE_SEGMENT => Edit::ValueSegment(narrow(fields)?),
        RELEASE_VALUE_SEGMENT => Edit::ReleaseValueSegment(narrow(fields)?),
        VALUE_DEAD => Edit::ValueDead(list(fields, decode_dead)?),
        HISTORY => {
            let is_apart = fields.varint().filter(|flag| *flag < 2)? == 1;
            Edit::History { link: decode_link(fields)?, is_apart }
        }
        BUCKETS => Edit::Buckets {
            gone: list(fields, |fields| Some(fields.sized()?.to_vec()))?,
            new: list(fields, decode_bucket)?,
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_and_snapshots_round_trip_and_every_cut_is_refused() {
        let part = |table, lower: &[u8], upper: Option<&[u8]>| PartState {
            table,
            lower: lower.to_vec(),
            upper: upper.map(<[u8]>::to_vec),
            level: 1,
            dead_bytes: 3 * table,
            sequence: table / 6,
        };
        let runs =
            vec![vec![part(7, b"", Some(b"m"))], vec![part(5, b"", None), part(6, b"x", None)]];
        let range = |upper: Option<&[u8]>| DeletedRange {
            lower: b"from".to_vec(),
            upper: upper.map(<[u8]>::to_vec),
            position: 800,
        };
        let deleted = vec![range(None), range(Some(b"to"))];
        let bucket = BucketState { floor: 900, runs, deleted };
        let link = |history, at| HistoryLink { history, joined: at, first: 2 * at };
        let edits = [
            Edit::LogSegment(4),
            Edit::LogSegment(5),
            Edit::Buckets {
                gone: vec![b"".to_vec()],
                new: vec![(b"".to_vec(), bucket.clone()), (b"key".to_vec(), bucket)],
            },
            Edit::ReleaseLog(5),
            Edit::DurableEnd(77),
            Edit::ValueSegment(2),
            Edit::ValueSegment(6),
            Edit::ValueDead(vec![(2, 9), (6, 300), (77, 1)]),
            Edit::ReleaseValueSegment(2),
            Edit::History { link: link(1, 4), is_apart: false },
            Edit::History { link: link(u64::MAX, 5), is_apart: true },
            Edit::History { link: link(7, 300), is_apart: false },
        ];
        let mut state = StoreState::new(3, HashSeed([1; 16]));
        for edit in &edits {
            let bytes = StoreState::encode_edit(edit);
            assert_eq!(StoreState::decode_edit(&bytes).expect("decodes"), *edit);
            assert!((0..bytes.len()).all(|cut| StoreState::decode_edit(&bytes[..cut]).is_err()));
            state.apply(edit);
        }
        assert_eq!(state.log_segments, [5]);
        assert_eq!((&state.values.segments[..], state.values.next), (&[6][..], 7));
        assert_eq!(state.values.dead, BTreeMap::from([(6, 300)]));
        assert_eq!(state.tables(), BTreeSet::from([5, 6, 7]));
        assert_eq!(state.ingested(), BTreeMap::from([(6, 1), (7, 1)]));
        assert_eq!(state.histories, [link(u64::MAX, 5), link(7, 300)]);
        let bytes = state.encode();
        assert_eq!(StoreState::decode(&bytes).expect("decodes"), state);
        assert!((0..bytes.len()).all(|cut| StoreState::decode(&bytes[..cut]).is_err()));
        state.apply(&Edit::Clear(100));
        assert!(state.tables().is_empty() && state.buckets[&[][..]].floor == 100);
        assert_eq!(state.values.dead, BTreeMap::from([(6, u64::MAX)]));
    }

    #[test]
    fn a_snapshot_of_version_1_has_no_histories() {
        let mut state = StoreState::new(3, HashSeed([1; 16]));
        for edit in [Edit::LogSegment(400), Edit::ValueSegment(2), Edit::ValueDead(vec![(2, 9)])] {
            state.apply(&edit);
        }
        let mut bytes = state.encode();
        assert!(StoreState::is_newest(&bytes));
        // Version, store id, seed, two numbers, a list of one number of two bytes, one of one, the
        // next segment, and a list of one pair.
        let at = 1 + 8 + 16 + 2 + 3 + 2 + 1 + 3;
        assert_eq!(bytes.remove(at), 0);
        bytes[0] = 1;
        assert!(!StoreState::is_newest(&bytes));
        assert_eq!(StoreState::decode(&bytes).expect("decodes"), state);
        assert!((1..bytes.len()).all(|cut| StoreState::decode(&bytes[..cut]).is_err()));
    }

    #[test]
    fn the_oldest_histories_are_dropped() {
        let mut state = StoreState::new(3, HashSeed([1; 16]));
        for n in 0..HISTORIES_MAX as u64 + 3 {
            let link = HistoryLink { history: n, joined: n, first: n };
            state.apply(&Edit::History { link, is_apart: false });
        }
        assert_eq!((state.histories.len(), state.histories[0].history), (HISTORIES_MAX, 3));
    }
}
