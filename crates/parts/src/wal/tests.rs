//! Power cuts around the change of segments.

use super::*;
use silica_base::{ErrorKind, Prng, Result, test_size};
use silica_device::sim::{SimDevice, SimOptions};
use silica_device::{Device, LogFile};
use std::sync::Mutex;

const STORE: u64 = 7;
const SEGMENT_BYTES: u64 = 4096;

/// A log with what a manifest says of it, and what was appended.
#[derive(Default)]
struct Book {
    named: Mutex<Vec<u64>>,
    /// Payloads by sequence number, from 1 on.
    appended: Vec<Vec<u8>>,
    /// As many of them were acknowledged as durable.
    synced: usize,
    /// As many of them are not needed any more.
    released: usize,
    /// Segments that got the file of an earlier one.
    recycled: u64,
}

impl Book {
    fn register(&self, number: u64) -> Result<()> {
        self.named.lock().expect("no panic").push(number);
        Ok(())
    }

    /// Opens the log; what is lost was not acknowledged, and nothing is out of its order.
    fn open(&mut self, device: &SimDevice) -> Result<(Wal<SimDevice>, Appender<Log>)> {
        let named = self.named.lock().expect("no panic").clone();
        for name in device.list()? {
            if is_spare(&name) || number_of(&name).is_some_and(|number| !named.contains(&number)) {
                device.remove(&name)?;
            }
        }
        let list = open_segments(device, STORE, &named)?;
        let first = list.first().map_or(1, |segment| segment.first_sequence()) as usize;
        assert!(first <= self.released + 1, "begins at {first}, needs {}", self.released + 1);
        let mut found = Vec::new();
        let recovered = replay(device, &list, None, 0, &mut |_, payload| {
            found.push(payload.to_vec());
            Ok(())
        })?;
        let last = first - 1 + found.len();
        assert!(last >= self.synced, "{last} of {} synced records", self.synced);
        assert_eq!(recovered.next_sequence as usize, last + 1);
        assert!(self.appended[first - 1..].starts_with(&found), "records in their order");
        self.appended.truncate(last);
        // Recovery made them durable.
        self.synced = last;
        let end = list.last().map_or(0, |segment| segment.end());
        let wal = Wal::new(std::sync::Arc::new(device.clone()), STORE, SEGMENT_BYTES, list, end);
        wal.set_recovered(last as u64, recovered.end);
        let next = named.last().map_or(1, |number| number + 1);
        Ok((wal, Appender::new(last as u64 + 1, next)))
    }

    fn append(
        &mut self,
        wal: &Wal<SimDevice>,
        appender: &mut Appender<Log>,
        payload: Vec<u8>,
    ) -> Result<()> {
        let mut record = vec![0; RECORD_ROOM_BYTES];
        record.extend_from_slice(&payload);
        // It may get to the medium also where the append fails.
        self.appended.push(payload);
        wal.append(appender, &mut record, &|number| {
            wal.sync(&|| Ok(()))?;
            self.register(number)
        })?;
        Ok(())
    }

    /// Random work with the log until the power goes.
    fn work(&mut self, device: &SimDevice, prng: &mut Prng, steps: usize) -> Result<()> {
        let (wal, mut appender) = self.open(device)?;
        // Positions behind records, to release what lies below.
        let mut ends = Vec::new();
        for _ in 0..steps {
            let len = if prng.one_in(40) { 6000 } else { prng.below(500) as usize };
            let payload = (0..len).map(|_| prng.next_u64() as u8 | 1).collect();
            self.append(&wal, &mut appender, payload)?;
            ends.push((wal.end(), self.appended.len()));
            if prng.one_in(4) {
                wal.prepare(&|number| self.register(number))?;
            }
            if prng.one_in(9) {
                let count = self.appended.len();
                wal.sync(&|| Ok(()))?;
                self.synced = count;
            }
            if prng.one_in(12) {
                self.release(&wal, &ends, !prng.one_in(4));
            }
        }
        self.recycled += wal.recycled();
        Ok(())
    }

    /// Lets go of what was synced, as after a flush.
    fn release(&mut self, wal: &Wal<SimDevice>, ends: &[(u64, usize)], keeps: bool) {
        let is_synced = |(_, count): &&(u64, usize)| *count <= self.synced;
        let Some((floor, count)) = ends.iter().rev().find(is_synced) else { return };
        // A floor is where the oldest entry that is needed lies.
        let next = ends.iter().find(|(_, c)| c > count);
        let floor = next.map_or(*floor, |(end, _)| (*end).max(*floor) - 8);
        self.released = self.released.max(*count);
        self.let_go(wal, floor, keeps);
    }

    /// Lets go of all segments below `floor`; their numbers.
    fn let_go(&mut self, wal: &Wal<SimDevice>, floor: u64, keeps: bool) -> Vec<u64> {
        let gone = wal.release_below(floor);
        let numbers: Vec<u64> = gone.iter().map(|segment| segment.number).collect();
        self.named.lock().expect("no panic").retain(|number| !numbers.contains(number));
        wal.retire(gone, keeps);
        numbers
    }
}

type Log = <SimDevice as Device>::Log;

#[test]
fn a_power_cut_anywhere_around_a_change_of_segments_leaves_a_prefix() {
    let (mut changes, mut recycled) = (0, 0);
    for seed in 0..test_size(600, 6_000, 60_000) {
        let mut prng = Prng::new(seed);
        let mut device = SimDevice::new(seed, SimOptions::default());
        let mut book = Book::default();
        for _ in 0..6 {
            // Sometimes only the process dies; what it left is to be durable once it was found.
            if prng.one_in(3) {
                book.work(&device, &mut prng, 40).expect("nothing fails");
            } else {
                device.cut_at_op(device.op_count() + 1 + prng.below(120));
                // The open may be cut, too.
                let _ = book.work(&device, &mut prng, 150);
                device.power_cut();
            }
            device = device.reopen();
            book.open(&device).expect("what a power cut leaves opens");
            changes += book.named.lock().expect("no panic").len();
        }
        recycled += book.recycled;
    }
    assert!(changes > 3000, "{changes} segments");
    assert!(recycled > 300, "{recycled} recycled segments");
}

/// Two segments, the second of them made ahead, each with a few records; nothing synced but the
/// first `synced` records. The bytes of the two.
fn two_segments(synced: usize) -> (SimDevice, Book, Vec<usize>) {
    let device = SimDevice::new(1, SimOptions::default());
    let mut book = Book::default();
    let (wal, mut appender) = book.open(&device).expect("opens");
    let mut offsets = Vec::new();
    for n in 0..6 {
        if n == synced {
            wal.sync(&|| Ok(())).expect("a sync");
        }
        book.append(&wal, &mut appender, vec![n as u8 + 1; 1000]).expect("an append");
        offsets.push((wal.end() % SEGMENT_BYTES) as usize - 1024);
        wal.prepare(&|number| book.register(number)).expect("made ahead");
    }
    assert_eq!(*book.named.lock().expect("no panic"), [1, 2, 3]);
    let names: Vec<bool> = wal.segments().iter().map(|segment| segment.continues).collect();
    assert_eq!(names, [false, true], "the second one was made ahead");
    drop(wal);
    (device.reopen(), book, offsets)
}

#[test]
fn what_follows_a_lost_tail_in_the_next_segment_is_never_replayed() {
    let (device, mut book, offsets) = two_segments(2);
    // The last record of the first segment is lost, its sector never got to the medium.
    device.poke(&name(1), offsets[2] as u64, &[0; 1024]);
    let (wal, mut appender) = book.open(&device).expect("a torn tail is no damage");
    assert_eq!(book.appended.len(), 2);
    // What goes on from here is not mixed with the rest of the old second segment, also where
    // that has records with the sequence numbers that come next.
    for n in 10..14 {
        book.append(&wal, &mut appender, vec![n; 1000]).expect("an append");
    }
    wal.sync(&|| Ok(())).expect("a sync");
    book.synced = 6;
    drop(wal);
    book.open(&device.reopen()).expect("opens");
    assert_eq!(book.appended.len(), 6);
}

#[test]
fn a_durable_record_that_is_missing_before_a_segment_made_ahead_is_damage() {
    let (device, mut book, offsets) = two_segments(4);
    device.poke(&name(1), offsets[2] as u64, &[0; 1024]);
    let error = book.open(&device).err().expect("it was durable");
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
}

#[test]
fn a_segment_goes_only_where_the_one_behind_it_says_where_it_begins() {
    let device = SimDevice::new(1, SimOptions::default());
    let mut book = Book::default();
    let (wal, mut appender) = book.open(&device).expect("opens");
    for n in 0..4 {
        book.append(&wal, &mut appender, vec![n + 1; 1000]).expect("an append");
        wal.prepare(&|number| book.register(number)).expect("made ahead");
    }
    assert!(wal.release_below(wal.end()).is_empty(), "nothing of the second one is durable");
    wal.sync(&|| Ok(())).expect("a sync");
    assert_eq!(book.let_go(&wal, wal.end(), false), [1]);
    assert!(!device.list().expect("a list").contains(&name(1)), "removed");
    book.released = 3;
    book.synced = 4;
    drop(wal);
    book.open(&device.reopen()).expect("its first record says where it begins");
    assert_eq!(book.appended.len(), 4);
}

#[test]
fn a_segment_made_ahead_that_was_not_used_keeps_the_one_before_it() {
    let device = SimDevice::new(1, SimOptions::default());
    let mut book = Book::default();
    let (wal, mut appender) = book.open(&device).expect("opens");
    book.append(&wal, &mut appender, vec![1; 1000]).expect("an append");
    assert!(wal.prepare(&|number| book.register(number)).expect("made ahead"));
    wal.sync(&|| Ok(())).expect("a sync");
    drop(wal);
    let device = device.reopen();
    let (wal, mut appender) = book.open(&device).expect("opens");
    let (mapped, stored) = (wal.mapped_bytes(), wal.file_bytes());
    assert!(wal.release_below(wal.end()).is_empty(), "the second one does not say where it begins");
    // Nobody reads the first one any more.
    assert!(wal.mapped_bytes() < mapped, "{} of {mapped}", wal.mapped_bytes());
    assert_eq!(wal.file_bytes(), stored);
    book.append(&wal, &mut appender, vec![2; 1000]).expect("an append");
    assert_eq!(book.let_go(&wal, wal.end(), false), [1, 2], "they go together");
}

#[test]
fn durable_records_are_missed_however_many_segments_are_empty_before_the_next_one() {
    let device = SimDevice::new(1, SimOptions::default());
    let mut book = Book::default();
    let (wal, mut appender) = book.open(&device).expect("opens");
    while wal.segments().iter().count() < 3 {
        book.append(&wal, &mut appender, Vec::new()).expect("an append");
        wal.prepare(&|number| book.register(number)).expect("made ahead");
    }
    wal.sync(&|| Ok(())).expect("a sync");
    book.append(&wal, &mut appender, Vec::new()).expect("an append that says so");
    drop(wal);
    let zeroes = [0; SEGMENT_BYTES as usize - HEADER_BYTES];
    device.poke(&name(1), HEADER_BYTES as u64, &zeroes);
    device.poke(&name(2), HEADER_BYTES as u64, &zeroes);
    let error = book.open(&device.reopen()).err().expect("they were durable");
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
}

/// Appends records of 1000 bytes to a log, so that a segment has three of them, and lets go of all
/// that is synced: nearly every segment gets the file of an earlier one.
fn recycle(book: &mut Book, device: &SimDevice, records: usize) -> Result<()> {
    let (wal, mut appender) = book.open(device)?;
    let mut ends = Vec::new();
    for n in 0..records {
        book.append(&wal, &mut appender, vec![n as u8 + 1; 1000])?;
        ends.push((wal.end(), book.appended.len()));
        wal.prepare(&|number| book.register(number))?;
        if n % 3 == 2 {
            let count = book.appended.len();
            wal.sync(&|| Ok(()))?;
            book.synced = count;
            book.release(&wal, &ends, true);
        }
    }
    book.recycled += wal.recycled();
    Ok(())
}

#[test]
fn a_power_cut_at_each_operation_of_a_log_that_recycles_leaves_what_was_synced() {
    let (whole, mut book) = (SimDevice::new(0, SimOptions::default()), Book::default());
    recycle(&mut book, &whole, 30).expect("nothing fails");
    assert!(book.recycled >= 6, "{} recycled segments", book.recycled);
    for seed in 0..test_size(10, 100, 1000) {
        // Also where a sector may hold garbage, and where names are lost in their order.
        let options = SimOptions { garble: seed % 3 == 1, names_in_order: seed % 2 == 1 };
        for cut in 1..=whole.op_count() {
            let (device, mut book) = (SimDevice::new(seed, options), Book::default());
            device.cut_at_op(cut);
            // The last operation is a removal, whose failure is nothing to the log.
            let _ = recycle(&mut book, &device, 30);
            assert!(device.is_cut(), "the power went");
            let device = device.reopen();
            // The next run recycles files in which anything may lie.
            recycle(&mut book, &device, 9).expect("what a power cut leaves opens");
            book.open(&device.reopen()).expect("so does what the end of a process leaves");
        }
    }
}

/// The worst that can lie behind the end: the old record is whole, at the offset where the next one
/// would be, and has its sequence number, as it was in a tail that was lost.
#[test]
fn an_old_record_right_behind_the_end_of_a_recycled_segment_is_not_read() {
    let device = SimDevice::new(1, SimOptions::default());
    let create = |log, number, start| {
        let header = segment::Header { number, start, capacity: SEGMENT_BYTES, first_sequence: 5 };
        Segment::create(log, STORE, &header).expect("a header")
    };
    let append = |segment: &Segment<Log>, sequence, byte| {
        let mut record = vec![byte; RECORD_ROOM_BYTES + 1000];
        assert_eq!(segment.next_sequence(), sequence);
        segment.append(4, &mut record).expect("an append").expect("there is room");
    };
    let old = create(device.create_log(&name(1), SEGMENT_BYTES).expect("a log"), 1, 0);
    for sequence in 5..8 {
        append(&old, sequence, 1);
    }
    old.log.sync().expect("a sync");
    let log = device.reuse_log(old.log, &name(1), &name(2)).expect("used again");
    let new = create(log, 2, SEGMENT_BYTES);
    append(&new, 5, 2);
    let end = new.log.len();
    drop(new);
    let device = device.reopen();
    let bytes = device.peek(&name(2)).expect("the file");
    let old_id = segment::file_id(STORE, 1);
    let mut behind = crate::framing::RecordReader::new(old_id, &bytes, end as usize, 6);
    assert_eq!(behind.next_record().expect("whole").payload, [1; 1000], "it lies there");
    let segment = Segment::open(&device, STORE, 2).expect("opens");
    let mut found = Vec::new();
    let visit = &mut |_, payload: &[u8]| {
        found.push(payload.to_vec());
        Ok(())
    };
    let read = segment.read_records(None, visit).expect("no damage");
    assert_eq!(found, [vec![2; 1000]]);
    assert_eq!(read, Recovered { next_sequence: 6, end: SEGMENT_BYTES + end });
}

/// Not by chance: see docs/formats/log.md.
#[test]
fn no_record_checks_under_another_number() {
    use silica_base::Checksum;
    let mut prng = Prng::new(1);
    for _ in 0..100_000 {
        let (store, offset) = (prng.next_u64(), prng.below(1 << 32));
        let number = prng.below(1 << 32);
        // Near ones, far ones, and those that differ by one bit.
        let other = match prng.below(3) {
            0 => (number + 1 + prng.below(8)) % (1 << 32),
            1 => prng.below(1 << 32),
            _ => number ^ 1 << prng.below(32),
        };
        let bytes = prng.next_u64().to_le_bytes();
        let sum = |number| {
            let id = segment::file_id(store, number);
            Checksum::at(id, offset).update(&bytes).finish()
        };
        assert!(number == other || sum(number) != sum(other), "{number} and {other}");
    }
}

/// A log of `count` full segments that is synced, and the appender.
fn full_segments(
    book: &mut Book,
    device: &SimDevice,
    count: usize,
) -> (Wal<SimDevice>, Appender<Log>) {
    let (wal, mut appender) = book.open(device).expect("opens");
    for n in 0..3 * count {
        book.append(&wal, &mut appender, vec![n as u8 + 1; 1000]).expect("an append");
    }
    wal.sync(&|| Ok(())).expect("a sync");
    book.synced = book.appended.len();
    (wal, appender)
}

fn spares(device: &SimDevice) -> Vec<String> {
    device.list().expect("a list").into_iter().filter(|name| is_spare(name)).collect()
}

#[test]
fn spares_are_few_and_go_where_they_are_of_no_use() {
    let (device, mut book) = (SimDevice::new(1, SimOptions::default()), Book::default());
    let (wal, mut appender) = full_segments(&mut book, &device, 6);
    assert_eq!(book.let_go(&wal, SEGMENT_BYTES, false), [1], "none is wanted");
    assert_eq!((spares(&device).len(), wal.spare_bytes()), (0, 0));
    assert_eq!(book.let_go(&wal, wal.end(), true), [2, 3, 4, 5]);
    assert_eq!(spares(&device), [spare_name(2), spare_name(3)]);
    assert_eq!(wal.spare_bytes(), 2 * SEGMENT_BYTES);
    assert_eq!(wal.file_bytes(), 3 * SEGMENT_BYTES);
    // One becomes the next segment.
    book.append(&wal, &mut appender, vec![1; 1000]).expect("an append");
    assert_eq!((wal.recycled(), spares(&device).len()), (1, 1));
    // Segments are to be larger, so the other one is of no use.
    wal.set_segment_bytes(2 * SEGMENT_BYTES);
    assert_eq!((spares(&device).len(), wal.spare_bytes()), (0, 0));
    assert_eq!(wal.remove_spares(), 0);
}

#[test]
fn spares_give_their_room_to_a_segment_that_does_not_fit() {
    let (device, mut book) = (SimDevice::new(1, SimOptions::default()), Book::default());
    let (wal, mut appender) = full_segments(&mut book, &device, 4);
    book.let_go(&wal, wal.end(), true);
    assert_eq!(spares(&device).len(), 2);
    device.set_capacity(4 * SEGMENT_BYTES);
    // A record that takes a segment of three times the size.
    book.append(&wal, &mut appender, vec![9; 9000]).expect("there is room without the spares");
    assert_eq!((spares(&device).len(), wal.spare_bytes(), wal.recycled()), (0, 0, 0));
}

#[test]
fn a_segment_that_somebody_reads_is_not_written_over() {
    let (device, mut book) = (SimDevice::new(1, SimOptions::default()), Book::default());
    let (wal, mut appender) = full_segments(&mut book, &device, 2);
    let held = wal.segments();
    let bytes = held.bytes_from(HEADER_BYTES as u64 + 24).expect("the first payload");
    book.let_go(&wal, wal.end(), true);
    assert_eq!(spares(&device).len(), 1);
    let mut fill = |book: &mut Book| {
        (0..3).for_each(|_| book.append(&wal, &mut appender, vec![9; 1000]).expect("an append"));
    };
    fill(&mut book);
    assert_eq!(wal.recycled(), 0, "it is read");
    assert_eq!(bytes[..1000], [1; 1000]);
    drop(held);
    fill(&mut book);
    assert_eq!((wal.recycled(), spares(&device).len()), (1, 0));
}

#[test]
fn a_spare_that_cannot_be_used_is_replaced_by_a_new_file() {
    let (device, mut book) = (SimDevice::new(1, SimOptions::default()), Book::default());
    let (wal, mut appender) = full_segments(&mut book, &device, 2);
    book.let_go(&wal, wal.end(), true);
    device.fail_at(silica_device::sim::FaultKind::Eio, 1);
    book.append(&wal, &mut appender, vec![9; 1000]).expect("an append");
    assert!(!device.faults_pending(), "the file was not renamed");
    assert_eq!((wal.recycled(), spares(&device).len()), (0, 0));
    drop(wal);
    book.released = 3;
    book.open(&device.reopen()).expect("opens");
    assert_eq!(book.appended.len(), 7);
}

#[test]
fn what_is_durable_already_is_not_synced_again() {
    let device = SimDevice::new(1, SimOptions::default());
    let mut book = Book::default();
    let (wal, mut appender) = book.open(&device).expect("it opens");
    let syncs = || wal.syncs.load(std::sync::atomic::Ordering::Relaxed);
    let mut append = || {
        book.append(&wal, &mut appender, vec![1; 100]).expect("appended");
        wal.end()
    };
    let sync_to = |end| wal.sync_to(end, &|| Ok(())).expect("synced");
    let (first, second) = (append(), append());
    sync_to(first);
    assert_eq!(syncs(), 1);
    // That one had all that was there.
    sync_to(second);
    assert_eq!(syncs(), 1);
    let third = append();
    sync_to(second);
    assert_eq!(syncs(), 1);
    sync_to(third);
    assert_eq!(syncs(), 2);
    wal.poison();
    assert!(wal.sync_to(first, &|| Ok(())).is_err(), "a failed sync is final");
}

/// A log that threads append to, and what it takes to begin a segment, for who is alone.
struct Beside<'b> {
    book: &'b Book,
    wal: &'b Wal<SimDevice>,
    alone: std::sync::RwLock<()>,
    appender: Mutex<Appender<Log>>,
}

impl Beside<'_> {
    fn append(&self, thread: u64, n: u64) -> Result<()> {
        let mut record = vec![0; RECORD_ROOM_BYTES];
        record.extend_from_slice(&[thread, n].map(u64::to_le_bytes).concat());
        record.resize(record.len() + (n * 7 % 90) as usize, 3);
        let beside = self.alone.read().expect("no panic");
        if self.wal.append_beside_others(&mut record)?.is_some() {
            return Ok(());
        }
        drop(beside);
        let _alone = self.alone.write().expect("no panic");
        let mut appender = self.appender.lock().expect("no panic");
        self.wal.append(&mut appender, &mut record, &|number| {
            self.wal.sync(&|| Ok(()))?;
            self.book.register(number)
        })?;
        Ok(())
    }

    /// Appends and syncs until the power goes; how many were appended and synced.
    fn work(&self, thread: u64, records: u64) -> [u64; 2] {
        let mut told = [0, 0];
        for n in 0..records {
            if self.append(thread, n).is_err() {
                break;
            }
            told[0] = n + 1;
            if (n + thread).is_multiple_of(32) {
                if self.wal.sync(&|| Ok(())).is_err() {
                    break;
                }
                told[1] = told[0];
            }
        }
        told
    }
}

/// Threads append beside each other, and take turns to begin segments; the power goes at some
/// moment. What was acknowledged as synced is there, and each thread's records are a prefix.
#[test]
fn threads_that_append_beside_each_other_leave_no_gap() {
    const THREADS: u64 = 4;
    const RECORDS: u64 = 120;
    for seed in 0..test_size(40, 150, 2000) {
        let device = SimDevice::new(seed, SimOptions::default());
        let mut prng = Prng::new(seed);
        if prng.one_in(2) {
            device.cut_at_op(device.op_count() + 10 + prng.below(THREADS * RECORDS));
        }
        let mut book = Book::default();
        let (wal, appender) = book.open(&device).expect("opens");
        let (alone, appender) = (std::sync::RwLock::new(()), Mutex::new(appender));
        let beside = Beside { book: &book, wal: &wal, alone, appender };
        let told: Vec<[u64; 2]> = std::thread::scope(|scope| {
            let beside = &beside;
            let work = |thread| scope.spawn(move || beside.work(thread, RECORDS));
            let threads: Vec<_> = (0..THREADS).map(work).collect();
            threads.into_iter().map(|thread| thread.join().expect("it ends")).collect()
        });
        drop(beside);
        drop(wal);
        device.power_cut();
        let device = device.reopen();
        let named = book.named.lock().expect("no panic").clone();
        let list = open_segments(&device, STORE, &named).expect("opens");
        let mut found = [0; THREADS as usize];
        let visit = &mut |_, payload: &[u8]| {
            let number = |at: usize| u64::from_le_bytes(payload[at..at + 8].try_into().expect("8"));
            let of = &mut found[number(0) as usize];
            assert_eq!(number(8), *of, "records of thread {} in their order", number(0));
            *of += 1;
            Ok(())
        };
        replay(&device, &list, None, 0, visit).expect("replays");
        for ([appended, synced], found) in told.into_iter().zip(found) {
            // The last one may be there that was not acknowledged.
            assert!((synced..=appended + 1).contains(&found), "{found} of {appended}, {synced}");
        }
    }
}
