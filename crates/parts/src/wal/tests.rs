//! Power cuts around the change of segments.

use super::*;
use silica_base::{ErrorKind, Prng, Result, test_size};
use silica_device::Device;
use silica_device::sim::{SimDevice, SimOptions};
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
            if number_of(&name).is_some_and(|number| !named.contains(&number)) {
                device.remove(&name)?;
            }
        }
        let list = open_segments(device, STORE, &named)?;
        let first = list.first().map_or(1, |segment| segment.first_sequence) as usize;
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
                self.release(device, &wal, &ends)?;
            }
        }
        Ok(())
    }

    /// Lets go of what was synced, as after a flush.
    fn release(
        &mut self,
        device: &SimDevice,
        wal: &Wal<SimDevice>,
        ends: &[(u64, usize)],
    ) -> Result<()> {
        let is_synced = |(_, count): &&(u64, usize)| *count <= self.synced;
        let Some((floor, count)) = ends.iter().rev().find(is_synced) else { return Ok(()) };
        // A floor is where the oldest entry that is needed lies.
        let next = ends.iter().find(|(_, c)| c > count);
        let floor = next.map_or(*floor, |(end, _)| (*end).max(*floor) - 8);
        self.released = self.released.max(*count);
        let gone = wal.release_below(floor);
        self.named.lock().expect("no panic").retain(|number| !gone.contains(number));
        gone.iter().try_for_each(|number| device.remove(&name(*number)))
    }
}

type Log = <SimDevice as Device>::Log;

#[test]
fn a_power_cut_anywhere_around_a_change_of_segments_leaves_a_prefix() {
    let mut changes = 0;
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
    }
    assert!(changes > 3000, "{changes} segments");
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
    assert_eq!(wal.release_below(wal.end()), [1]);
    device.remove(&name(1)).expect("removed");
    book.named.lock().expect("no panic").retain(|number| *number != 1);
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
    assert!(wal.release_below(wal.end()).is_empty(), "the second one does not say where it begins");
    book.append(&wal, &mut appender, vec![2; 1000]).expect("an append");
    assert_eq!(wal.release_below(wal.end()), [1, 2], "they go together");
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
