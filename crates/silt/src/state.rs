//! What the manifest says: the store's identity and the files that live.
//!
//! `docs/formats/silt-manifest.md` has the bytes of snapshots and edits.

use silica_base::{Error, ErrorKind, Format, HashSeed, Result, read_varint, write_varint};
use silica_parts::manifest::{Ledger, Maker};
use silica_parts::store_log::{LogEdit, LogLedger, LogState};
use silica_parts::value_log;

/// What a manifest of this engine says of its maker.
pub(crate) const MAKER: Maker = Maker(*b"silt");

/// How the payload of a snapshot begins; edits are of the same version.
pub(crate) const FORMAT: Format =
    Format { name: "SILT manifest", magic: b"", version_bytes: 1, version: 1, steps: &[] };

/// The stores of one partition. Files are numbers; younger stores come first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PartitionState {
    /// Records of the log below this position are in the stores already.
    pub(crate) floor: u64,
    pub(crate) hash_stores: Vec<u64>,
    pub(crate) sorted_store: Option<u64>,
}

/// Everything the manifest says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoreState {
    pub(crate) store_id: u64,
    pub(crate) seed: HashSeed,
    pub(crate) partition_bits: u32,
    /// Log segments that live, ascending.
    pub(crate) log_segments: Vec<u64>,
    /// The value log.
    pub(crate) values: value_log::State,
    pub(crate) partitions: Vec<PartitionState>,
    /// Everything below this log position was durable at some moment, so recovery has to reach it.
    pub(crate) durable_end: u64,
}

/// One change of the state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Edit {
    /// A log segment was created.
    LogSegment(u64),
    /// Log segments below this number are not needed any more.
    ReleaseLog(u64),
    /// A value-log segment was created.
    ValueSegment(u32),
    /// A value-log segment is not needed any more.
    ReleaseValueSegment(u32),
    /// Nothing points to so many bytes of these value-log segments.
    ValueDead(Vec<(u32, u64)>),
    /// A partition has other stores now.
    Partition(u32, PartitionState),
    /// Every entry is gone; the log counts from this position on.
    Clear(u64),
    /// The log is durable up to this position.
    DurableEnd(u64),
}

impl StoreState {
    /// The state of a new store.
    pub(crate) fn new(store_id: u64, seed: HashSeed, partition_bits: u32) -> Self {
        StoreState {
            store_id,
            seed,
            partition_bits,
            log_segments: Vec::new(),
            values: value_log::State::default(),
            partitions: vec![PartitionState::default(); 1 << partition_bits],
            durable_end: 0,
        }
    }

    /// Makes a change.
    pub(crate) fn apply(&mut self, edit: &Edit) {
        match edit {
            Edit::LogSegment(number) => self.log_segments.push(*number),
            Edit::ReleaseLog(below) => self.log_segments.retain(|n| n >= below),
            Edit::ValueSegment(number) => self.values.add(*number),
            Edit::ReleaseValueSegment(number) => self.values.release(*number),
            Edit::ValueDead(dead) => self.values.set_dead(dead),
            Edit::Partition(index, state) => {
                if let Some(partition) = self.partitions.get_mut(*index as usize) {
                    *partition = state.clone();
                }
            }
            Edit::Clear(floor) => {
                let empty = PartitionState { floor: *floor, ..PartitionState::default() };
                self.partitions.fill(empty);
                self.values.all_dead();
            }
            Edit::DurableEnd(end) => self.durable_end = self.durable_end.max(*end),
        }
    }

    /// Numbers of all hash and sorted store files that live.
    pub(crate) fn table_files(&self) -> impl Iterator<Item = u64> {
        self.partitions.iter().flat_map(|p| p.hash_stores.iter().copied().chain(p.sorted_store))
    }

    /// The snapshot payload.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        FORMAT.begin(&mut out);
        out.extend_from_slice(&self.store_id.to_le_bytes());
        out.extend_from_slice(&self.seed.0);
        write_varint(&mut out, u64::from(self.partition_bits));
        write_varint(&mut out, self.durable_end);
        write_list(&mut out, self.log_segments.iter().copied());
        write_list(&mut out, self.values.segments.iter().map(|n| u64::from(*n)));
        write_varint(&mut out, u64::from(self.values.next));
        write_list(&mut out, self.values.dead.keys().map(|n| u64::from(*n)));
        write_list(&mut out, self.values.dead.values().copied());
        self.partitions.iter().for_each(|p| p.encode(&mut out));
        out
    }

    /// Reads a snapshot payload.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let bytes = FORMAT.upgraded("the store", 0, bytes)?;
        let mut reader = Reader(&bytes[FORMAT.prefix_bytes()..]);
        let store_id = u64::from_le_bytes(reader.bytes()?);
        let seed = HashSeed(reader.bytes()?);
        let partition_bits = reader.narrow()?;
        if partition_bits > 12 {
            return Err(damaged());
        }
        let durable_end = reader.varint()?;
        let log_segments = reader.list()?;
        let values = value_log::State {
            segments: reader.numbers()?,
            next: reader.narrow()?,
            dead: reader.numbers()?.into_iter().zip(reader.list()?).collect(),
        };
        let partitions = (0..1 << partition_bits)
            .map(|_| PartitionState::decode(&mut reader))
            .collect::<Result<_>>()?;
        reader.end()?;
        Ok(StoreState {
            store_id,
            seed,
            partition_bits,
            log_segments,
            values,
            partitions,
            durable_end,
        })
    }
}

impl Ledger for StoreState {
    type Edit = Edit;

    fn apply(&mut self, edit: &Edit) {
        StoreState::apply(self, edit);
    }

    fn encode(&self) -> Vec<u8> {
        StoreState::encode(self)
    }

    fn encode_edit(edit: &Edit) -> Vec<u8> {
        edit.encode()
    }

    fn decode_edit(bytes: &[u8]) -> Result<Edit> {
        Edit::decode(bytes)
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

impl PartitionState {
    fn encode(&self, out: &mut Vec<u8>) {
        write_varint(out, self.floor);
        write_list(out, self.hash_stores.iter().copied());
        write_list(out, self.sorted_store.iter().copied());
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let floor = reader.varint()?;
        let hash_stores = reader.list()?;
        let sorted = reader.list()?;
        if sorted.len() > 1 {
            return Err(damaged());
        }
        Ok(PartitionState { floor, hash_stores, sorted_store: sorted.first().copied() })
    }
}

const LOG_SEGMENT: u8 = 1;
const RELEASE_LOG: u8 = 2;
const VALUE_SEGMENT: u8 = 3;
const RELEASE_VALUE_SEGMENT: u8 = 4;
const PARTITION: u8 = 5;
const CLEAR: u8 = 6;
const DURABLE_END: u8 = 7;
const VALUE_DEAD: u8 = 8;

impl Edit {
    /// The edit payload.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut number = |kind: u8, value: u64| {
            out.push(kind);
            write_varint(&mut out, value);
        };
        match self {
            Edit::LogSegment(n) => number(LOG_SEGMENT, *n),
            Edit::ReleaseLog(n) => number(RELEASE_LOG, *n),
            Edit::ValueSegment(n) => number(VALUE_SEGMENT, u64::from(*n)),
            Edit::ReleaseValueSegment(n) => number(RELEASE_VALUE_SEGMENT, u64::from(*n)),
            Edit::Clear(floor) => number(CLEAR, *floor),
            Edit::DurableEnd(end) => number(DURABLE_END, *end),
            Edit::ValueDead(dead) => {
                number(VALUE_DEAD, dead.len() as u64);
                for (n, bytes) in dead {
                    write_varint(&mut out, u64::from(*n));
                    write_varint(&mut out, *bytes);
                }
            }
            Edit::Partition(index, state) => {
                number(PARTITION, u64::from(*index));
                state.encode(&mut out);
            }
        }
        out
    }

    /// Reads an edit payload.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let (&kind, rest) = bytes.split_first().ok_or_else(damaged)?;
        let mut reader = Reader(rest);
        let number = reader.varint()?;
        let narrow = u32::try_from(number).map_err(|_| damaged());
        let edit = match kind {
            LOG_SEGMENT => Edit::LogSegment(number),
            RELEASE_LOG => Edit::ReleaseLog(number),
            VALUE_SEGMENT => Edit::ValueSegment(narrow?),
            RELEASE_VALUE_SEGMENT => Edit::ReleaseValueSegment(narrow?),
            CLEAR => Edit::Clear(number),
            DURABLE_END => Edit::DurableEnd(number),
            VALUE_DEAD => Edit::ValueDead(reader.pairs(number)?),
            PARTITION => Edit::Partition(narrow?, PartitionState::decode(&mut reader)?),
            _ => return Err(damaged()),
        };
        reader.end()?;
        Ok(edit)
    }
}

fn write_list(out: &mut Vec<u8>, list: impl ExactSizeIterator<Item = u64>) {
    write_varint(out, list.len() as u64);
    list.for_each(|n| write_varint(out, n));
}

fn damaged() -> Error {
    Error::new(ErrorKind::Corruption, "a manifest record does not hold what it should")
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn varint(&mut self) -> Result<u64> {
        let (value, len) = read_varint(self.0).ok_or_else(damaged)?;
        self.0 = &self.0[len..];
        Ok(value)
    }

    fn narrow(&mut self) -> Result<u32> {
        u32::try_from(self.varint()?).map_err(|_| damaged())
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or_else(damaged)?;
        self.0 = rest;
        Ok(*head)
    }

    fn list(&mut self) -> Result<Vec<u64>> {
        let len = self.varint()?;
        if len > self.0.len() as u64 {
            return Err(damaged());
        }
        (0..len).map(|_| self.varint()).collect()
    }

    fn pairs(&mut self, count: u64) -> Result<Vec<(u32, u64)>> {
        if count > self.0.len() as u64 {
            return Err(damaged());
        }
        (0..count).map(|_| Ok((self.narrow()?, self.varint()?))).collect()
    }

    fn numbers(&mut self) -> Result<Vec<u32>> {
        let narrow = |n| u32::try_from(n).map_err(|_| damaged());
        self.list()?.into_iter().map(narrow).collect()
    }

    fn end(&self) -> Result<()> {
        if self.0.is_empty() { Ok(()) } else { Err(damaged()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn sample() -> StoreState {
        let mut state = StoreState::new(77, HashSeed([5; 16]), 1);
        let partition =
            PartitionState { floor: 4096, hash_stores: vec![9, 8], sorted_store: Some(3) };
        for edit in [
            Edit::LogSegment(4),
            Edit::LogSegment(5),
            Edit::ReleaseLog(5),
            Edit::ValueSegment(2),
            Edit::ValueSegment(6),
            Edit::ValueDead(vec![(2, 9), (6, 300), (77, 1)]),
            Edit::ReleaseValueSegment(2),
            Edit::Partition(1, partition),
            Edit::DurableEnd(900),
        ] {
            assert_eq!(Edit::decode(&edit.encode()).expect("decodes"), edit);
            state.apply(&edit);
        }
        state
    }

    #[test]
    fn state_round_trips_and_every_cut_is_refused() {
        let state = sample();
        assert_eq!((&state.log_segments[..], &state.values.segments[..]), (&[5][..], &[6][..]));
        assert_eq!((state.values.next, &state.values.dead), (7, &BTreeMap::from([(6, 300)])));
        let bytes = state.encode();
        assert_eq!(StoreState::decode(&bytes).expect("decodes"), state);
        assert!((0..bytes.len()).all(|cut| StoreState::decode(&bytes[..cut]).is_err()));
    }

    #[test]
    fn clear_forgets_every_store() {
        let mut state = sample();
        state.apply(&Edit::Clear(5000));
        assert_eq!(state.table_files().count(), 0);
        assert!(state.partitions.iter().all(|p| p.floor == 5000));
    }
}
