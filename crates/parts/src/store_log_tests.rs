//! A store of nothing but its log: what survives power cuts, torn records, failing syncs and a full
//! disk.

use super::*;
use crate::manifest::{Maker, Manifest};
use crate::wal::{self, Appender, RECORD_ROOM_BYTES};
use silica_base::test_size;
use silica_device::sim::{FaultKind, SimDevice, SimOptions};
use silica_device::{DeviceFile, Mode};

const MAKER: Maker = Maker(*b"test");
const STORE: u64 = 7;
const SEGMENT_BYTES: u64 = 4096;
const VALUE_SEGMENT_BYTES: u64 = 2048;
/// Longer values lie apart.
const INLINE_BYTES_MAX: usize = 300;

#[derive(Debug, Clone, Default)]
struct State {
    segments: Vec<u64>,
    values: value_log::State,
    durable_end: u64,
}

fn numbers(bytes: &[u8]) -> Vec<u64> {
    let number = |chunk: &[u8]| u64::from_le_bytes(chunk.try_into().expect("8 bytes"));
    bytes.chunks_exact(8).map(number).collect()
}

fn bytes_of(numbers: impl IntoIterator<Item = u64>) -> Vec<u8> {
    numbers.into_iter().flat_map(u64::to_le_bytes).collect()
}

impl State {
    fn decode(bytes: &[u8]) -> State {
        let mut numbers = numbers(bytes).into_iter();
        let mut next = || numbers.next().expect("a number");
        let (durable_end, count) = (next(), next());
        let segments = (0..count).map(|_| next()).collect();
        let (next_value, count) = (next() as u32, next());
        let values = (0..count).map(|_| next() as u32).collect();
        let dead = Default::default();
        let values = value_log::State { segments: values, next: next_value, dead };
        State { segments, values, durable_end }
    }
}

impl Ledger for State {
    type Edit = LogEdit;

    fn apply(&mut self, edit: &LogEdit) {
        match edit {
            LogEdit::LogSegment(number) => self.segments.push(*number),
            LogEdit::ReleaseLog(below) => self.segments.retain(|number| number >= below),
            LogEdit::DurableEnd(end) => self.durable_end = *end,
            LogEdit::ValueSegment(number) => self.values.add(*number),
            LogEdit::ReleaseValueSegment(number) => self.values.release(*number),
            LogEdit::ValueDead(dead) => self.values.set_dead(dead),
        }
    }

    fn encode(&self) -> Vec<u8> {
        let State { segments, values, durable_end } = self;
        let log = [*durable_end, segments.len() as u64].into_iter().chain(segments.clone());
        let apart = [u64::from(values.next), values.segments.len() as u64];
        let apart = apart.into_iter().chain(values.segments.iter().map(|n| u64::from(*n)));
        bytes_of(log.chain(apart))
    }

    fn encode_edit(edit: &LogEdit) -> Vec<u8> {
        let (tag, rest) = match edit {
            LogEdit::LogSegment(number) => (0, vec![*number]),
            LogEdit::ReleaseLog(below) => (1, vec![*below]),
            LogEdit::DurableEnd(end) => (2, vec![*end]),
            LogEdit::ValueSegment(number) => (3, vec![u64::from(*number)]),
            LogEdit::ReleaseValueSegment(number) => (4, vec![u64::from(*number)]),
            LogEdit::ValueDead(dead) => {
                (5, dead.iter().flat_map(|(number, bytes)| [u64::from(*number), *bytes]).collect())
            }
        };
        bytes_of([tag].into_iter().chain(rest))
    }

    fn decode_edit(bytes: &[u8]) -> Result<LogEdit> {
        let numbers = numbers(bytes);
        Ok(match numbers[0] {
            0 => LogEdit::LogSegment(numbers[1]),
            1 => LogEdit::ReleaseLog(numbers[1]),
            2 => LogEdit::DurableEnd(numbers[1]),
            3 => LogEdit::ValueSegment(numbers[1] as u32),
            4 => LogEdit::ReleaseValueSegment(numbers[1] as u32),
            _ => {
                let pairs = numbers[1..].chunks_exact(2);
                LogEdit::ValueDead(pairs.map(|pair| (pair[0] as u32, pair[1])).collect())
            }
        })
    }
}

impl LogLedger for State {
    fn log_state(&mut self) -> LogState<'_> {
        let State { segments, values, durable_end } = self;
        LogState { segments, values, durable_end }
    }

    fn values(&self) -> &value_log::State {
        &self.values
    }

    fn durable_end(&self) -> u64 {
        self.durable_end
    }
}

struct Store {
    journal: StoreLog<SimDevice, State>,
    appender: Appender<<SimDevice as Device>::Log>,
    /// Numbers of the entries in the log when it was opened.
    found: Vec<u64>,
}

/// The value of entry `n`: every third one lies apart.
fn value(n: u64) -> Vec<u8> {
    let len = match n % 3 {
        0 => 400 + n as usize % 90,
        _ => n as usize * 37 % INLINE_BYTES_MAX,
    };
    vec![n as u8 | 1; len]
}

impl Store {
    fn open(device: &SimDevice) -> Result<Store> {
        let device = Arc::new(device.clone());
        let book = match Manifest::open(device.clone(), MAKER)? {
            Some(opened) => {
                let state = State::decode(&opened.snapshot);
                Book::open(opened, state)?
            }
            None => Book::create(device.clone(), MAKER, State::default())?,
        };
        let state = book.state().clone();
        for name in device.list()? {
            let is_log = wal::number_of(&name).is_some_and(|n| !state.segments.contains(&n));
            let value = value_log::number_of(&name);
            let is_value = value.is_some_and(|n| !state.values.segments.contains(&n));
            if is_log || is_value || wal::is_spare(&name) {
                device.remove(&name)?;
            }
        }
        let list = wal::open_segments(&*device, STORE, &state.segments)?;
        let values = ValueLog::open(device.clone(), STORE, VALUE_SEGMENT_BYTES, &state.values)?;
        let cut = values.find_lost(&list, state.durable_end, &|_, _| true)?;
        let mut records = Vec::new();
        let recovered = wal::replay(&*device, &list, cut, state.durable_end, &mut |_, payload| {
            records.push(payload.to_vec());
            Ok(())
        })?;
        let end = list.last().map_or(0, |segment| segment.end());
        let log = Wal::new(device, STORE, SEGMENT_BYTES, list, end);
        log.set_recovered(recovered.next_sequence - 1, recovered.end);
        let next_segment = state.segments.last().map_or(1, |number| number + 1);
        let appender = Appender::new(recovered.next_sequence, next_segment);
        let journal = StoreLog::new(log, values, book);
        let mut store = Store { journal, appender, found: Vec::new() };
        for record in &records {
            store.check_record(record)?;
        }
        if cut.is_some() {
            store.append(&mut vec![0; RECORD_ROOM_BYTES])?;
            store.journal.sync_log()?;
        }
        Ok(store)
    }

    /// A record has one entry, whole, or nothing where a cut was sealed.
    fn check_record(&mut self, payload: &[u8]) -> Result<()> {
        for found in wal::frames(payload) {
            let (_, frame) = found.expect("a whole frame");
            let n = u64::from_be_bytes(frame.key.try_into().expect("a number"));
            let apart = match frame.is_pointer() {
                true => self.journal.load_value(&frame)?,
                false => None,
            };
            let found = apart.as_deref().unwrap_or(frame.value);
            assert_eq!(frame.is_pointer(), value(n).len() > INLINE_BYTES_MAX);
            assert_eq!(found, value(n), "entry {n}");
            self.found.push(n);
        }
        Ok(())
    }

    fn append(&mut self, record: &mut Vec<u8>) -> Result<()> {
        let Store { journal, appender, .. } = self;
        let register = |number| {
            journal.sync_log()?;
            journal.edit(&[LogEdit::LogSegment(number)])
        };
        journal.log.append(appender, record, &register).map(|_| ())
    }

    fn put(&mut self, n: u64) -> Result<()> {
        let (key, value) = (n.to_be_bytes(), value(n));
        let is_apart = value.len() > INLINE_BYTES_MAX;
        let stored =
            self.journal.store_values([is_apart.then_some((&key[..], &value[..]))].into_iter())?;
        let mut frame = Frame::put(&key, &value);
        if let Some(pointer) = stored.pointer(0) {
            frame = Frame { flags: crate::frame::POINTER, ..Frame::put(&key, pointer) };
        }
        let mut record = vec![0; RECORD_ROOM_BYTES];
        frame.encode(&mut record);
        self.append(&mut record)
    }
}

/// What a script has done.
#[derive(Debug, Default)]
struct Progress {
    /// Entries that were put, or may have been.
    put: u64,
    /// Entries that are durable.
    synced: u64,
    /// Entries below may be gone.
    released: u64,
    /// Segments of the log that went.
    segments_gone: usize,
}

impl Progress {
    /// Checks what an opening has found: no gap, nothing invented, nothing lost that was durable.
    fn check(&self, found: &[u64], what: &str) {
        let first = found.first().copied().unwrap_or(self.released);
        assert!(first <= self.released, "{what}: begins at {first}, {self:?}");
        assert!(found.windows(2).all(|pair| pair[1] == pair[0] + 1), "{what}: a gap in {found:?}");
        let end = first + found.len() as u64;
        assert!(end >= self.synced && end <= self.put, "{what}: ends at {end}, {self:?}");
    }

    /// Puts `count` entries more and does all that a store does with its log in between.
    fn generation(&mut self, device: &SimDevice, count: u64) -> Result<()> {
        let mut store = Store::open(device)?;
        self.check(&store.found, "an opening");
        // An opening makes durable what it found; what it did not find was never there.
        let last = store.found.last().map_or(self.synced, |last| last + 1);
        (self.put, self.synced) = (last, last);
        let mut ends = Vec::new();
        for n in last..last + count {
            self.put = n + 1;
            store.put(n)?;
            ends.push((n + 1, store.journal.log.end()));
            match n % 10 {
                3 | 7 => {
                    let put = self.put;
                    store.journal.sync_log()?;
                    self.synced = put;
                }
                5 => drop(store.journal.attend_log(true)?),
                8 => self.release(&store, &ends)?,
                9 => store.journal.rewrite_manifest()?,
                _ => {}
            }
        }
        store.journal.close()?;
        self.synced = self.put;
        Ok(())
    }

    /// Lets go of all that is durable but the last entries.
    fn release(&mut self, store: &Store, ends: &[(u64, u64)]) -> Result<()> {
        let is_old = |(n, _): &&(u64, u64)| *n + 8 <= self.synced;
        let Some((n, floor)) = ends.iter().rev().find(is_old) else { return Ok(()) };
        self.released = self.released.max(*n);
        let gone = store.journal.release_log_below(*floor)?;
        self.segments_gone += gone.len();
        store.journal.log.retire(gone, n % 2 == 0);
        Ok(())
    }
}

/// Two generations: the second one goes on in what the first one left.
fn script(device: &SimDevice, progress: &mut Progress) -> Result<()> {
    progress.generation(device, 45)?;
    progress.generation(device, 45)
}

#[test]
fn a_power_cut_at_every_operation_leaves_a_whole_beginning_with_its_values() {
    let dry = SimDevice::new(1, SimOptions::default());
    let mut progress = Progress::default();
    script(&dry, &mut progress).expect("nothing fails");
    assert!(progress.segments_gone > 1, "{progress:?}");
    let stride = test_size(7, 1, 1) as usize;
    for seed in 0..test_size(1, 3, 200) {
        for at in (1..=dry.op_count()).step_by(stride) {
            let device = SimDevice::new(seed * 10_000 + at, SimOptions::default());
            device.cut_at_op(at);
            let mut progress = Progress::default();
            script(&device, &mut progress).expect_err("the power went");
            device.power_cut();
            let device = device.reopen();
            device.cut_at_op(u64::MAX);
            let what = format!("seed {seed}, cut {at}");
            let store = Store::open(&device).unwrap_or_else(|error| panic!("{what}: {error}"));
            progress.check(&store.found, &what);
            drop(store);
            // It goes on, and what it writes then is there the next time.
            progress.generation(&device, 20).unwrap_or_else(|error| panic!("{what}: {error}"));
            let store = Store::open(&device.reopen()).expect("opens");
            progress.check(&store.found, &what);
        }
    }
}

/// A store of six entries, of which the last is in the log, or its value in the value log, only as
/// far as `kept` bytes of it; the others are durable. Whether it was closed, which it says in its
/// manifest. The opening's answer, and how many bytes the last one has.
fn torn(is_apart: bool, kept: usize, is_closed: bool) -> (Result<Vec<u64>>, usize) {
    let device = SimDevice::new(1, SimOptions::default());
    let mut store = Store::open(&device).expect("opens");
    let last = if is_apart { 6 } else { 7 };
    for n in 1..last {
        store.put(n).expect("a put");
    }
    store.journal.sync_log().expect("a sync");
    let segments = store.journal.log.segments();
    let segment = segments.iter().last().expect("a segment");
    let before = segment.log.len();
    store.put(last).expect("a put");
    let (name, start, len) = match is_apart {
        false => (wal::name(segment.number), before, segment.log.len() - before),
        true => {
            let segment = store.journal.values.segments().pop().expect("a segment");
            let len = device.peek(&segment.name()).expect("a file").len() as u64;
            // Behind the record's header and the key.
            (segment.name(), len - 200, 200)
        }
    };
    drop(segments);
    if is_closed {
        store.journal.close().expect("closes");
    }
    drop(store);
    let device = device.reopen();
    let lost = vec![0; (len as usize).saturating_sub(kept)];
    device.poke(&name, start + kept as u64, &lost);
    (Store::open(&device).map(|store| store.found), len as usize)
}

#[test]
fn a_record_torn_at_any_byte_ends_the_log_and_is_damage_after_a_close() {
    for is_apart in [false, true] {
        let last = if is_apart { 6 } else { 7 };
        let (_, len) = torn(is_apart, 0, false);
        let mut whole = 0;
        for kept in 0..=len {
            let what = format!("{kept} bytes of {len}, apart {is_apart}");
            let found = torn(is_apart, kept, false).0.expect("a torn tail is no damage");
            let is_whole = found.last() == Some(&last);
            whole += usize::from(is_whole);
            assert!(is_whole || kept < len, "{what}: it was there");
            assert_eq!(found, (1..last + u64::from(is_whole)).collect::<Vec<_>>(), "{what}");
            match torn(is_apart, kept, true).0 {
                Ok(found) => assert!(is_whole && found.last() == Some(&last), "{what}: lost"),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corruption, "{what}: {error}");
                    assert!(!is_whole, "{what}");
                }
            }
        }
        // Zeroes at its end may be what was there.
        assert!(whole <= 8, "{whole} torn records passed for whole ones");
    }
}

#[test]
fn after_a_failed_sync_nothing_is_taken_until_the_store_is_opened_again() {
    let mut failures = 0;
    for nth in 1.. {
        let device = SimDevice::new(nth, SimOptions::default());
        let mut progress = Progress::default();
        let mut store = Store::open(&device).expect("opens");
        device.fail_at(FaultKind::FailedSync, nth);
        let error = (0..40).find_map(|n| {
            let put = n + 1;
            progress.put = put;
            let step = store.put(n).and_then(|()| store.journal.sync_log());
            step.map(|()| progress.synced = put).err()
        });
        if device.faults_pending() {
            break;
        }
        failures += 1;
        let error = error.expect("a failed sync is an error");
        let journal = &store.journal;
        assert!(journal.log.check().is_err(), "sync {nth}: goes on after {error}");
        let refused = store.put(99).expect_err("it is poisoned");
        assert_eq!(refused.kind(), ErrorKind::Poisoned, "sync {nth}: {refused}");
        let refused = store.journal.sync_log().expect_err("it is poisoned");
        assert_eq!(refused.kind(), ErrorKind::Poisoned, "sync {nth}: {refused}");
        drop(store);
        device.power_cut();
        let device = device.reopen();
        let store = Store::open(&device).unwrap_or_else(|error| panic!("sync {nth}: {error}"));
        progress.check(&store.found, &format!("sync {nth}"));
        drop(store);
        progress.generation(&device, 20).expect("nothing fails any more");
    }
    assert!(failures > 40, "{failures} syncs failed");
}

#[test]
fn a_full_disk_refuses_entries_and_keeps_those_that_it_took() {
    let mut refusals = 0;
    for nth in 1.. {
        let device = SimDevice::new(nth, SimOptions::default());
        let mut store = Store::open(&device).expect("opens");
        device.fail_at(FaultKind::Enospc, nth);
        let mut taken = Vec::new();
        for n in 0..60 {
            match store.put(n) {
                Ok(()) => taken.push(n),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Full, "{error}"),
            }
            store.journal.sync_log().expect("a full disk is no failed sync");
        }
        if device.faults_pending() {
            break;
        }
        refusals += usize::from(taken.len() < 60);
        store.journal.close().expect("closes");
        drop(store);
        let store = Store::open(&device.reopen()).expect("opens");
        assert_eq!(store.found, taken, "call {nth}");
    }
    assert!(refusals > 3, "{refusals} entries were refused");
}

#[test]
fn a_copy_of_the_logs_has_what_there_was_at_its_moment() {
    let device = SimDevice::new(1, SimOptions::default());
    let mut progress = Progress::default();
    progress.generation(&device, 30).expect("nothing fails");
    let mut store = Store::open(&device).expect("opens");
    let found = store.found.clone();
    (30..40).for_each(|n| store.put(n).expect("a put"));
    store.journal.sync_log().expect("a sync");
    let mut cut = store.journal.cut();
    (40..50).for_each(|n| store.put(n).expect("a put"));
    let copy = SimDevice::new(2, SimOptions::default());
    let mut sizes = std::collections::BTreeMap::<String, u64>::new();
    let copied = cut.copy(&mut |piece| {
        let (name, bytes) = match piece {
            Piece::Whole(name) => (name, device.peek(name).expect("a file")),
            Piece::Bytes(name, bytes) => (name, bytes.to_vec()),
        };
        let at = sizes.entry(name.to_owned()).or_default();
        let file = match *at {
            0 => copy.create(name, Mode::Buffered)?,
            _ => copy.open(name, Mode::Buffered)?,
        };
        file.write_at(*at, &bytes)?;
        *at += bytes.len() as u64;
        file.sync()
    });
    copied.expect("a copy");
    Manifest::create(Arc::new(copy.clone()), MAKER, &cut.state.encode()).expect("a manifest");
    copy.sync_dir().expect("a sync");
    let copied = Store::open(&copy).expect("a copy opens");
    assert_eq!(copied.found, [found, (30..40).collect()].concat());
}
