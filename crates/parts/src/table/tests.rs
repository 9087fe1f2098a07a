use super::*;
use crate::BlockCache;
use crate::frame::{POINTER, TOMBSTONE};
use silica_base::{AlignedBuf, BLOCK_BYTES, ErrorKind, HashSeed, Prng, test_size};
use silica_device::sim::{FaultKind, SimDevice, SimOptions};
use silica_device::{Device, DeviceFile, Lifetime, Mode};
use std::collections::BTreeMap;
use std::sync::Arc;

type Model = BTreeMap<(Vec<u8>, std::cmp::Reverse<u64>), Owned>;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Owned {
    flags: u8,
    expires_unix_ms: u64,
    user_bits: u32,
    value: Vec<u8>,
}

const FILE_ID: u64 = 77;
const SEED: HashSeed = HashSeed([3; 16]);
const OPTIONS: TableOptions = TableOptions {
    block_bytes: BLOCK_BYTES,
    sequence_base: 1000,
    filter_bits: 0,
    compression: Compression::None,
    seed: SEED,
    lifetime: Lifetime::Medium,
};
const COMPRESSIONS: [Compression; 3] = [Compression::None, Compression::Lz4, Compression::Zstd];

fn version<'a>(model: (&'a (Vec<u8>, std::cmp::Reverse<u64>), &'a Owned)) -> Version<'a> {
    let ((key, sequence), owned) = model;
    Version {
        key,
        sequence: sequence.0,
        flags: owned.flags,
        expires_unix_ms: owned.expires_unix_ms,
        user_bits: owned.user_bits,
        value: &owned.value,
    }
}

fn write(device: &SimDevice, name: &str, model: &Model, options: &TableOptions) -> Table<File> {
    let mut builder = TableBuilder::create(device, name, FILE_ID, options).expect("a new file");
    for entry in model {
        builder.add(&version(entry)).expect("added");
    }
    builder.finish().expect("finished")
}

type File = <SimDevice as Device>::File;

/// Looks a key up, and calls `then` with what is found.
fn get<T>(
    table: &Table<File>,
    key: &[u8],
    sequence: u64,
    then: impl FnOnce(Option<Version<'_>>) -> T,
) -> T {
    let (mut buf, mut plain, mut block) = (AlignedBuf::zeroed(0), Vec::new(), table.block_of(key));
    loop {
        table.read(table.place(block), &mut buf).expect("read");
        let bytes = table.check(block, &buf, &mut plain).expect("a block");
        match table.search(block, bytes, key, sequence).expect("searched") {
            Lookup::Found(version) => return then(Some(version)),
            Lookup::Absent => return then(None),
            Lookup::Next => block += 1,
        }
    }
}

/// Random versions: `keys` keys of a kind, some with many versions.
fn random(prng: &mut Prng, keys: u64, kind: u64) -> Model {
    let mut model = Model::new();
    for _ in 0..keys {
        let mut key = match kind {
            0 => prng.next_u64().to_be_bytes().to_vec(),
            1 => format!("user/{:012}", prng.below(1 << 30)).into_bytes(),
            2 => vec![0; prng.below(40) as usize],
            _ => (0..prng.below(30)).map(|_| b"ab\0\xFF"[prng.below(4) as usize]).collect(),
        };
        if prng.one_in(50) {
            key.resize(300 + prng.below(9000) as usize, 7);
        }
        let versions = if prng.one_in(20) { prng.below(200) } else { 1 };
        for _ in 0..versions.max(1) {
            let len = match prng.below(40) {
                0 => prng.below(30_000),
                1..5 => prng.below(1500),
                _ => prng.below(100),
            };
            let owned = Owned {
                flags: [0, 0, TOMBSTONE, POINTER][prng.below(4) as usize],
                expires_unix_ms: [0, 1 << 40][prng.below(2) as usize],
                user_bits: [0, 0, u32::MAX][prng.below(3) as usize],
                value: (0..len).map(|n| (n * 7) as u8).collect(),
            };
            let sequence = if prng.one_in(9) { 0 } else { 1000 + prng.below(1 << 20) };
            model.insert((key.clone(), std::cmp::Reverse(sequence)), owned);
        }
    }
    model
}

/// The newest version in the model of a key up to a sequence number.
fn newest<'a>(model: &'a Model, key: &[u8], sequence: u64) -> Option<Version<'a>> {
    let from = (key.to_vec(), std::cmp::Reverse(sequence));
    model.range(from..).next().map(version).filter(|found| found.key == key)
}

#[test]
fn lookups_and_cursors_agree_with_a_sorted_map() {
    for seed in 0..test_size(8, 40, 1000) {
        let mut prng = Prng::new(seed);
        let keys = 1 + prng.below(600);
        let model = random(&mut prng, keys, seed % 4);
        let device = SimDevice::new(seed, SimOptions::default());
        let options = TableOptions {
            block_bytes: BLOCK_BYTES * [1, 1, 4][prng.below(3) as usize],
            sequence_base: 1 + prng.below(1000),
            filter_bits: [0, 1, 9][prng.below(3) as usize],
            compression: COMPRESSIONS[prng.below(3) as usize],
            seed: SEED,
            lifetime: Lifetime::Long,
        };
        let written = write(&device, "t", &model, &options);
        let table = Arc::new(Table::open(&device, "t", FILE_ID).expect("it opens"));
        assert_eq!(table.footer(), written.footer());
        assert_eq!(table.footer().versions, model.len() as u64);
        for block in 1..table.blocks() {
            let separator = table.separator(block);
            assert!(table.block_of(&separator) <= block, "{separator:?}");
            if let Some((_, shorter)) = separator.split_last() {
                assert!(table.block_of(shorter) < block, "{separator:?} without its last byte");
            }
        }
        look_up(&mut prng, &model, &table);
        let cursor = table.cursor(1 << (12 + prng.below(8)));
        walk(&mut prng, &model, cursor);
        let cache = Arc::new(BlockCache::new(prng.below(1 << 18), 1 << 18));
        for _ in 0..2 {
            let cursor = table.cursor_through(&cache, 1 << (12 + prng.below(8)));
            walk(&mut prng, &model, cursor);
        }
    }
}

fn look_up(prng: &mut Prng, model: &Model, table: &Table<File>) {
    let known: Vec<_> = model.keys().collect();
    for _ in 0..300 {
        let (key, sequence) = known[prng.below(known.len() as u64) as usize];
        let mut key = key.clone();
        let sequence = [sequence.0, sequence.0 + 1, u64::MAX, 0, sequence.0.saturating_sub(1)]
            [prng.below(5) as usize];
        match prng.below(6) {
            0 => key.push(0),
            1 => drop(key.pop()),
            2 if !key.is_empty() => *key.last_mut().expect("it is not empty") ^= 1,
            _ => {}
        }
        table.filter().inspect(|filter| filter.prefetch(SEED.low(&key)));
        get(table, &key, sequence, |found| {
            assert!(found.is_none() || table.may_contain(SEED.low(&key)), "{key:?} passes");
            assert_eq!(found, newest(model, &key, sequence), "{key:?} at {sequence}");
        });
    }
}

fn walk(prng: &mut Prng, model: &Model, mut cursor: Cursor<File>) {
    let all: Vec<Version<'_>> = model.iter().map(version).collect();
    let mut at = cursor.seek_to_first().expect("read").then_some(0);
    for _ in 0..2 * all.len() + 200 {
        let i = match prng.below(200) {
            0 => {
                let key = &all[prng.below(all.len() as u64) as usize];
                let sequence = key.sequence + prng.below(3);
                let place = all.iter().position(|v| {
                    (v.key, std::cmp::Reverse(v.sequence)) >= (key.key, std::cmp::Reverse(sequence))
                });
                let is_forward = prng.one_in(2);
                if prng.one_in(2) {
                    read_first(&mut cursor, key.key, is_forward);
                }
                if is_forward {
                    assert_eq!(cursor.seek(key.key, sequence).expect("read"), place.is_some());
                    place
                } else {
                    let before = place.unwrap_or(all.len()).checked_sub(1);
                    let found = cursor.seek_before(key.key, sequence).expect("read");
                    assert_eq!(found, before.is_some());
                    before
                }
            }
            1 => cursor.seek_to_last().expect("read").then(|| all.len() - 1),
            2..30 => {
                let Some(i) = at else { continue };
                let before = cursor.retreat().expect("read").then(|| i - 1);
                assert_eq!(before.is_some(), i > 0);
                before
            }
            _ => {
                let Some(i) = at else { continue };
                let next = cursor.advance().expect("read").then(|| i + 1);
                assert_eq!(next.is_some(), i + 1 < all.len());
                next
            }
        };
        if let Some(i) = i {
            assert_eq!(cursor.version(), all[i]);
        }
        at = i.or_else(|| cursor.seek_to_first().expect("read").then_some(0));
    }
}

/// Reads for a cursor what its next search reads first.
fn read_first(cursor: &mut Cursor<File>, key: &[u8], is_forward: bool) {
    let Some((read, mut buf)) = cursor.begin_seek(key, is_forward) else { return };
    let filled = cursor.table().file().read_at(read.offset(), &mut buf).expect("read");
    cursor.end_seek(read, buf, filled).expect("a whole block");
}

#[test]
fn a_search_that_was_read_for_reads_no_more() {
    let device = SimDevice::new(1, SimOptions::default());
    let table = numbered(&device, 1000);
    for is_forward in [true, false] {
        let mut cursor = table.cursor(1 << 16);
        let key = 500u64.to_be_bytes();
        let reads = || device.counters().snapshot().reads;
        let before = reads();
        let (read, mut buf) = cursor.begin_seek(&key, is_forward).expect("nothing was read yet");
        assert_eq!(reads(), before);
        let filled = table.file().read_at(read.offset(), &mut buf).expect("read");
        cursor.end_seek(read, buf, filled).expect("a whole block");
        let is_there = match is_forward {
            true => cursor.seek(&key, u64::MAX),
            false => cursor.seek_before(&key, u64::MAX),
        };
        assert!(is_there.expect("no read"));
        let found = if is_forward { 500u64 } else { 499 };
        assert_eq!(cursor.version().key, found.to_be_bytes());
        assert_eq!((reads(), cursor.take_device_reads()), (before + 1, 1));
        // A part of what was asked for is not taken for all of it.
        let mut cursor = table.cursor(1 << 16);
        let (read, buf) = cursor.begin_seek(&key, is_forward).expect("nothing was read yet");
        let short = buf.len() - 1;
        let error = cursor.end_seek(read, buf, short).expect_err("it is short");
        assert_eq!(error.kind(), silica_base::ErrorKind::Corruption);
    }
}

/// A table of `keys` entries of some hundred bytes each.
fn numbered(device: &SimDevice, keys: u64) -> Arc<Table<File>> {
    let mut builder = TableBuilder::create(device, "t", FILE_ID, &OPTIONS).expect("a file");
    for n in 0..keys {
        let key = n.to_be_bytes();
        let (flags, expires_unix_ms, user_bits) = (0, 0, 0);
        let value = &[n as u8; 100];
        let version =
            Version { key: &key, sequence: 1000, flags, expires_unix_ms, user_bits, value };
        builder.add(&version).expect("added");
    }
    Arc::new(builder.finish().expect("finished"))
}

#[test]
fn who_goes_on_reads_ahead_and_everything_once() {
    const KEYS: u64 = 20_000;
    const AHEAD: usize = 128 << 10;
    for seed in 0..4 {
        let device = SimDevice::new(seed, SimOptions::default());
        let table = numbered(&device, KEYS);
        let before = device.counters().snapshot();
        let mut cursor = table.cursor(AHEAD);
        assert!(cursor.seek_to_first().expect("read"));
        for n in 0..KEYS {
            assert_eq!(cursor.version().key, n.to_be_bytes());
            assert_eq!(cursor.advance().expect("read"), n + 1 < KEYS);
        }
        let after = device.counters().snapshot();
        let bytes = u64::from(table.footer().block_units) * BLOCK_BYTES as u64;
        assert_eq!(after.bytes_read - before.bytes_read, bytes, "each block once");
        let reads = after.reads - before.reads;
        assert!(reads <= bytes / AHEAD as u64 + 8, "{reads} reads");
        assert!(reads >= bytes / AHEAD as u64, "{reads} reads: more at once than allowed");
        assert_eq!(cursor.take_device_reads(), reads);
        // Somewhere else it begins with a block.
        let read_by = |go: &mut dyn FnMut()| {
            let before = device.counters().snapshot().bytes_read;
            go();
            device.counters().snapshot().bytes_read - before
        };
        let mut go = || assert!(cursor.seek(&7777u64.to_be_bytes(), u64::MAX).expect("read"));
        assert!(read_by(&mut go) <= 2 * BLOCK_BYTES as u64);
        // Back, too, each block is read once, in ever longer reads which are no longer than those.
        let mut most = 0;
        assert!(cursor.seek_to_last().expect("read"));
        let all = read_by(&mut || {
            (1..KEYS).for_each(|_| {
                let go = &mut || assert!(cursor.retreat().expect("read"));
                most = most.max(read_by(go));
            });
        });
        assert!(all <= bytes, "{all} of {bytes}");
        assert!(most <= AHEAD as u64 && most > AHEAD as u64 / 2, "{most} bytes at once");
        assert!(!cursor.retreat().expect("no read"));
        // Elsewhere, while a read is under way, forwards and back.
        let mut prng = Prng::new(seed);
        for _ in 0..20 {
            let from = prng.below(KEYS - 3000);
            assert!(cursor.seek(&from.to_be_bytes(), u64::MAX).expect("read"));
            let steps = prng.below(3000);
            (0..steps).for_each(|_| assert!(cursor.advance().expect("read")));
            assert_eq!(cursor.version().key, (from + steps).to_be_bytes());
            for n in (from..from + steps).rev() {
                assert!(cursor.retreat().expect("read"));
                assert_eq!(cursor.version().key, n.to_be_bytes());
            }
        }
    }
}

#[test]
fn where_the_next_version_waits_for_the_device_is_told_before() {
    let mut waits = 0;
    for seed in 0..8 {
        let device = SimDevice::new(seed, SimOptions::default());
        let table = numbered(&device, 20_000);
        let mut cursor = table.cursor(128 << 10).with_first_read(128 << 10);
        let mut is_there = cursor.seek_to_first().expect("a read");
        let mut told = 0;
        while is_there {
            told += u64::from(cursor.would_wait());
            is_there = cursor.advance().expect("a read");
        }
        // Only in the last block of each read, and not where the device is done.
        assert!(told < 20_000 / 16, "{told} of all versions");
        waits += told;
    }
    assert!(waits > 0, "half of the transfers are not done before somebody waits");
}

#[test]
fn who_goes_through_all_has_the_next_read_under_way_from_the_first_one_on() {
    const READ: usize = 32 << 10;
    let waits_in_first = |first_read: usize| {
        let count = |seed| {
            let device = SimDevice::new(seed, SimOptions::default());
            let table = numbered(&device, 5000);
            let mut cursor = table.cursor(READ).with_first_read(first_read);
            let (seek, mut buf) = cursor.begin_seek(&[], true).expect("a read");
            let filled = table.file().read_at(seek.offset(), &mut buf).expect("read");
            cursor.end_seek(seek, buf, filled).expect("a whole read");
            assert!(cursor.seek(&[], u64::MAX).expect("no read"));
            let mut told = 0;
            while cursor.block() * BLOCK_BYTES < first_read {
                told += u64::from(cursor.would_wait());
                assert!(cursor.advance().expect("a read"));
            }
            told
        };
        (0..8).map(count).sum::<u64>()
    };
    assert!(waits_in_first(READ) > 0, "half of the transfers are not done by themselves");
    assert_eq!(waits_in_first(BLOCK_BYTES), 0, "who may soon stop reads nothing for nothing");
}

#[test]
fn a_read_ahead_that_fails_is_reported_where_it_is_needed() {
    const KEYS: u64 = 20_000;
    for calls in 1..30 {
        let device = SimDevice::new(calls, SimOptions::default());
        let table = numbered(&device, KEYS);
        let mut cursor = table.cursor(128 << 10);
        device.fail_at(FaultKind::ReadEio, calls);
        let mut seen = 0;
        let mut more = cursor.seek_to_first();
        while let Ok(true) = more {
            assert_eq!(cursor.version().key, u64::to_be_bytes(seen));
            seen += 1;
            more = cursor.advance();
        }
        match more {
            Ok(_) => assert_eq!(seen, KEYS),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Io),
        }
        device.clear_faults();
        // From there on it goes on.
        for n in (seen.max(1) - 1..KEYS).step_by(777) {
            assert!(cursor.seek(&n.to_be_bytes(), u64::MAX).expect("read"));
            assert_eq!(cursor.version().key, n.to_be_bytes());
        }
    }
}

#[test]
fn a_table_that_is_cut_while_it_is_read_ahead_is_told_to_end_early() {
    for seed in 0..8 {
        let device = SimDevice::new(seed, SimOptions::default());
        let table = numbered(&device, 20_000);
        let mut cursor = table.cursor(128 << 10);
        assert!(cursor.seek_to_first().expect("read"));
        let mut seen = 0;
        let error = loop {
            // While long reads are under way.
            if seen == 5000 {
                let file = device.open("t", Mode::Buffered).expect("the table");
                file.truncate(900 << 10).expect("cut");
            }
            match cursor.advance() {
                Ok(more) => assert!(more, "the end is gone"),
                Err(error) => break error,
            }
            seen += 1;
            assert_eq!(cursor.version().key, u64::to_be_bytes(seen));
        };
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert!(error.to_string().contains("ends early"), "{error}");
    }
}

#[test]
fn a_write_behind_that_fails_is_reported_at_the_end_at_the_latest() {
    for calls in 1..12 {
        let device = SimDevice::new(calls, SimOptions::default());
        device.fail_at(FaultKind::ShortWrite, calls);
        let mut builder = TableBuilder::create(&device, "t", FILE_ID, &OPTIONS).expect("a file");
        let mut add = |n: u64| {
            let (flags, expires_unix_ms, user_bits) = (0, 0, 0);
            let (key, value) = (&n.to_be_bytes(), &[7; 100]);
            builder.add(&Version { key, sequence: 1000, flags, expires_unix_ms, user_bits, value })
        };
        let added = (0..20_000).try_for_each(&mut add);
        let result = added.and_then(|()| builder.finish().map(|_| ()));
        // Some nine writes of 256 KiB.
        assert_eq!(result.is_err(), calls <= 9, "{calls}: {result:?}");
    }
}

#[test]
fn a_lookup_reads_one_block_and_blocks_are_well_filled() {
    for (value_bytes, unused_percent_max) in [(8, 3), (100, 3), (512, 13), (1024, 13), (3000, 13)] {
        let device = SimDevice::new(1, SimOptions::default());
        let value = vec![1; value_bytes];
        let mut builder = TableBuilder::create(&device, "t", FILE_ID, &OPTIONS).expect("a file");
        for n in 0..2000u64 {
            let key = (n * 0x9E37_79B9).to_be_bytes();
            let version = Version {
                key: &key,
                sequence: 1000 + n,
                flags: 0,
                expires_unix_ms: 0,
                user_bits: 0,
                value: &value,
            };
            builder.add(&version).expect("added");
        }
        let table = builder.finish().expect("finished");
        let content = 2000 * (8 + value_bytes as u64);
        let blocks = u64::from(table.footer().block_units) * BLOCK_BYTES as u64;
        // Besides what is unused, each version has eight bytes of lengths and sequence number.
        let unused = blocks.saturating_sub(content + 2000 * 8) * 100 / blocks;
        assert!(unused <= unused_percent_max, "{unused} % of {value_bytes} unused");
        let before = device.counters().snapshot().reads;
        for n in 0..2000u64 {
            let key = (n * 0x9E37_79B9).to_be_bytes();
            assert!(get(&table, &key, u64::MAX, |found| found.is_some()));
        }
        assert_eq!(device.counters().snapshot().reads - before, 2000);
        let sample = table.sample().expect("it was written").bytes();
        assert!(sample <= 512, "{sample}");
        let memory = table.memory_bytes() - sample;
        assert!(memory <= 9 * table.blocks() + 16, "{memory}");
    }
}

#[test]
fn a_filter_tells_most_keys_that_are_not_there() {
    let device = SimDevice::new(1, SimOptions::default());
    let owned = Owned { flags: 0, expires_unix_ms: 0, user_bits: 0, value: vec![1; 100] };
    let key = |n: u64| (n * 0x9E37_79B9).to_be_bytes().to_vec();
    let model: Model =
        (0..3000).map(|n| ((key(n), std::cmp::Reverse(1000)), owned.clone())).collect();
    let options = TableOptions { filter_bits: 10, ..OPTIONS };
    write(&device, "t", &model, &options);
    let table = Table::open(&device, "t", FILE_ID).expect("it opens");
    assert!(model.keys().all(|(key, _)| table.may_contain(SEED.low(key))));
    let passed = (0..10_000u64).filter(|n| table.may_contain(SEED.low(&n.to_le_bytes()))).count();
    assert!(passed < 40, "{passed} of 10000");
    let bits = 8.0 * table.memory_bytes() as f64 / 3000.0;
    assert!((10.0..20.0).contains(&bits), "{bits} bits a key");
}

/// Opens table `t` and goes through it.
fn walk_all(device: &SimDevice, model: &Model) -> silica_base::Result<()> {
    let mut cursor = Arc::new(Table::open(device, "t", FILE_ID)?).cursor(1 << 16);
    let mut more = cursor.seek_to_first()?;
    let mut versions = model.iter().map(version);
    while more {
        assert_eq!(Some(cursor.version()), versions.next());
        more = cursor.advance()?;
    }
    assert_eq!(versions.next(), None);
    Ok(())
}

#[test]
fn what_is_damaged_is_named_and_never_believed() {
    for compression in COMPRESSIONS {
        let model = random(&mut Prng::new(5), 150, 1);
        let device = SimDevice::new(5, SimOptions::default());
        let options = TableOptions { filter_bits: 9, compression, ..OPTIONS };
        write(&device, "t", &model, &options);
        let file = device.open("t", Mode::Buffered).expect("the file");
        let mut bytes = vec![0; file.len().expect("its length") as usize];
        file.read_at(0, &mut bytes).expect("read");
        walk_all(&device, &model).expect("it is whole");
        let mut prng = Prng::new(6);
        let refused = |what: &str, at: usize| {
            let error = walk_all(&device, &model).expect_err(what);
            assert_eq!(error.kind(), ErrorKind::Corruption, "{what} at {at}");
            assert!(error.to_string().contains('t'), "{error}");
        };
        let stride = test_size(997, 7, 1) as usize;
        for at in (0..bytes.len()).step_by(stride) {
            file.write_at(at as u64, &[bytes[at] ^ (1 << prng.below(8))]).expect("written");
            refused("a flipped bit", at);
            file.write_at(at as u64, &bytes[at..=at]).expect("written");
        }
        for len in (0..bytes.len()).rev().step_by(stride) {
            file.truncate(len as u64).expect("cut");
            refused("a file that was cut", len);
        }
        file.write_at(0, &bytes).expect("written");
        assert!(Table::open(&device, "t", FILE_ID + 1).is_err(), "another file's id");
        walk_all(&device, &model).expect("it is whole again");
    }
}

#[test]
fn compressed_tables_take_fewer_units_and_lookups_read_one() {
    let mut units = Vec::new();
    for compression in COMPRESSIONS {
        let device = SimDevice::new(1, SimOptions::default());
        let text =
            |n: u64| format!("{{\"name\": \"user {n}\", \"mail\": \"u{}@example.com\"}}", n * n);
        let model: Model = (0..40_000u64)
            .map(|n| {
                let value = text(n).into_bytes();
                let owned = Owned { flags: 0, expires_unix_ms: 0, user_bits: 0, value };
                ((format!("user/{n:08}").into_bytes(), std::cmp::Reverse(1000 + n)), owned)
            })
            .collect();
        let table = write(&device, "t", &model, &TableOptions { compression, ..OPTIONS });
        units.push(table.footer().block_units);
        walk_all(&device, &model).expect("it is whole");
        let mut buf = AlignedBuf::zeroed(0);
        let four = (0..table.blocks()).filter(|n| {
            table.read(table.place(*n), &mut buf).expect("read");
            buf.len() == BLOCK_BYTES
        });
        assert!(four.count() * 20 >= table.blocks() * 19, "most have one unit");
    }
    let [plain, lz4, zstd] = units[..] else { unreachable!() };
    assert!(lz4 * 3 < plain * 2 && zstd * 10 < lz4 * 9, "{units:?}");
}

/// Blocks and indexes whose checksum is right may still hold anything.
#[test]
fn strange_blocks_and_indexes_are_refused_or_read_without_harm() {
    let mut builder = block::BlockBuilder::new(1000);
    let model = random(&mut Prng::new(7), 40, 3);
    let mut index = index::IndexBuilder::default();
    let mut last: Option<&[u8]> = None;
    for entry in model.iter().filter(|(_, owned)| owned.value.len() < 500) {
        let version = version(entry);
        if builder.has_room() {
            builder.push(&version);
        }
        index.begin(last, version.key);
        index.end(1);
        last = Some(version.key);
    }
    let (blocks, sections) = ([builder.finish()], [index.finish()]);
    let mut prng = Prng::new(8);
    for _ in 0..test_size(3000, 20_000, 1_000_000) {
        let strange = silica_base::mutated(&mut prng, &blocks);
        if let Ok(block) = block::Block::new(&strange, 1000) {
            let _ = block.find(b"ab", prng.below(1 << 21));
            let mut spot = block::Spot::default();
            let mut found = spot.seek(&block, b"ab\0", 5000);
            for _ in 0..10_000 {
                match found {
                    Ok(true) => found = spot.advance(&block),
                    _ => break,
                }
            }
            let _ = spot.go_last(&block).and_then(|_| spot.retreat(&block));
        }
        let strange = silica_base::mutated(&mut prng, &sections);
        if let Some(index) = index::Index::decode(&strange) {
            let block = index.find(b"ab\xFF");
            assert!(block < index.blocks());
            let _ = index.place(block);
        }
    }
}
