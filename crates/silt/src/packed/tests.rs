use super::*;
use crate::test_support::{Sizes, damages, device, frames};
use silica_base::{AlignedBuf, ErrorKind, Result};
use silica_device::Device;
use silica_device::sim::{FaultKind, SimDevice, SimFile};
use std::sync::Arc;

const ID: u64 = 99;

type Frames = [(Vec<u8>, Vec<u8>)];

fn write(device: &SimDevice, frames: &Frames, layout: Layout) -> Result<Vec<Place>> {
    let mut writer = PackedWriter::create(device, "t", ID, FileKind::SortedStore, layout)?;
    let places = frames.iter().map(|(_, f)| writer.append(f)).collect::<Result<Vec<_>>>()?;
    let section: Vec<u8> = (0..10_000u32).map(|i| i as u8).collect();
    let sections = [
        (SectionKind::TagFilter, section.as_slice()),
        (SectionKind::ChunkRanks, b"".as_slice()),
        (SectionKind::MissFilter, b"end".as_slice()),
    ];
    let reader = writer.finish(&sections, b"meta")?;
    assert_eq!(reader.footer(), PackedReader::open(device, "t", ID)?.footer());
    Ok(places)
}

fn open(device: &SimDevice) -> Result<Arc<PackedReader<SimFile>>> {
    PackedReader::open(device, "t", ID).map(Arc::new)
}

/// The frame of `key`, and how many reads that took.
fn get(
    reader: &PackedReader<SimFile>,
    mut extent: Extent,
    key: &[u8],
) -> Result<(Option<Vec<u8>>, u32)> {
    let mut buf = AlignedBuf::zeroed(0);
    for reads in 1.. {
        reader.read(extent, &mut buf)?;
        match reader.find(&mut buf, extent, key)? {
            Found::Entry(frame) => {
                let mut out = Vec::new();
                frame.encode(&mut out);
                return Ok((Some(out), reads));
            }
            Found::Absent => return Ok((None, reads)),
            Found::More(wider) => extent = wider,
        }
    }
    unreachable!("a search ends")
}

fn scan(reader: &Arc<PackedReader<SimFile>>, read_ahead: usize) -> Result<Vec<(u64, Vec<u8>)>> {
    let mut scan = reader.scan(0, read_ahead);
    let mut out = Vec::new();
    while scan.advance()? {
        assert_eq!(scan.flags(), 0);
        out.push((scan.chunk(), scan.frame_bytes().to_vec()));
    }
    assert!(!scan.advance()?, "the end stays the end");
    Ok(out)
}

const SHAPES: [(usize, Sizes); 10] = [
    (0, Sizes::Equal(1)),
    (1, Sizes::Equal(0)),
    (1, Sizes::Equal(20_000)),
    (1000, Sizes::Equal(53)),
    (60, Sizes::Equal(1024)),
    // A frame that fills the payload exactly: 8 bytes of key, 4 of header.
    (5, Sizes::Equal(PAYLOAD_BYTES - 12)),
    (5, Sizes::Equal(2 * PAYLOAD_BYTES - 12)),
    (2000, Sizes::Mixed(100)),
    (150, Sizes::Mixed(4000)),
    (400, Sizes::Wild),
];

#[test]
fn everything_appended_is_scanned_and_found() -> Result<()> {
    for (shape, (count, sizes)) in SHAPES.into_iter().enumerate() {
        for layout in [Layout::Aligned, Layout::Straddling] {
            let device = device();
            let frames = frames(count, sizes, shape as u64);
            let places = write(&device, &frames, layout)?;
            let reader = open(&device)?;
            let footer = reader.footer();
            assert_eq!((footer.entries as usize, footer.meta.as_slice()), (count, &b"meta"[..]));
            assert_eq!(device.peek("t").map(|b| b.len() as u64), Some(reader.file_bytes()));
            for read_ahead in [0, 3 * CHUNK_BYTES, READ_AHEAD_BYTES] {
                let expected: Vec<_> =
                    places.iter().zip(&frames).map(|(p, f)| (p.chunk, f.1.clone())).collect();
                assert_eq!(scan(&reader, read_ahead)?, expected, "{sizes:?} {layout:?}");
            }
            let mut reads = 0;
            for (rank, (place, (key, frame))) in places.iter().zip(&frames).enumerate() {
                let (found, n) = get(&reader, reader.extent(place.chunk), key)?;
                assert_eq!(found.as_ref(), Some(frame), "{sizes:?} {layout:?} {rank}");
                reads += n;
                assert_eq!(get(&reader, reader.extent(place.chunk), b"absent")?.0, None);
                let exact = reader.extent_of_rank(rank as u64);
                assert_eq!(exact.is_some(), footer.entry_bytes_equal > 0);
                if let Some(extent) = exact {
                    assert_eq!((extent.chunk, extent.at), (place.chunk, place.offset));
                    assert_eq!(get(&reader, extent, key)?, (Some(frame.clone()), 1));
                    assert_eq!(get(&reader, extent, b"absent")?, (None, 1));
                }
            }
            assert!(reads as usize <= count + count / 500, "{reads} reads for {count}");
        }
    }
    Ok(())
}

#[test]
fn sections_are_read_whole_and_in_parts() -> Result<()> {
    let device = device();
    write(&device, &frames(50, Sizes::Mixed(500), 3), Layout::Aligned)?;
    let reader = open(&device)?;
    let section = reader.section(SectionKind::TagFilter)?.expect("written");
    assert_eq!(section, (0..10_000u32).map(|i| i as u8).collect::<Vec<_>>());
    let payload = PAYLOAD_BYTES as u64;
    for range in [0..0, 0..1, 5..4088, 4087..4089, payload..2 * payload, 9_999..10_000, 3..9_000] {
        let part = reader.section_range(SectionKind::TagFilter, range.clone())?;
        let expected = &section[range.start as usize..range.end as usize];
        assert_eq!(part.as_deref(), Some(expected), "{range:?}");
    }
    assert!(reader.section_range(SectionKind::TagFilter, 9_999..10_001).is_err());
    assert_eq!(reader.section(SectionKind::ChunkRanks)?, Some(Vec::new()));
    assert_eq!(reader.section(SectionKind::MissFilter)?, Some(b"end".to_vec()));
    assert_eq!(reader.section(SectionKind::DenseIndex)?, None);
    Ok(())
}

/// Every operation on a damaged file ends in an error or in the right answer; true where at
/// least one found the damage.
fn check(device: &SimDevice, frames: &Frames, places: &[Place]) -> bool {
    let reader = match open(device) {
        Ok(reader) => reader,
        Err(e) => {
            assert_eq!(e.kind(), ErrorKind::Corruption, "{e}");
            return true;
        }
    };
    let mut found = reader.verify_sections().is_err();
    match scan(&reader, 2 * CHUNK_BYTES) {
        Ok(all) => assert!(all.iter().map(|e| &e.1).eq(frames.iter().map(|f| &f.1))),
        Err(_) => found = true,
    }
    for (place, (key, frame)) in places.iter().zip(frames) {
        match get(&reader, reader.extent(place.chunk), key) {
            Ok((value, _)) => assert_eq!(value.as_ref(), Some(frame)),
            Err(_) => found = true,
        }
    }
    found
}

#[test]
fn all_damage_is_found_and_no_wrong_entry_is_given() -> Result<()> {
    for (layout, sizes) in [(Layout::Aligned, Sizes::Mixed(900)), (Layout::Straddling, Sizes::Wild)]
    {
        let device = device();
        let frames = frames(9, sizes, 4);
        let places = write(&device, &frames, layout)?;
        assert!(!check(&device, &frames, &places), "no damage, no error");
        let missed = damages(&device, "t", 7, |d| check(d, &frames, &places));
        assert_eq!(missed, Vec::<String>::new());
    }
    Ok(())
}

#[test]
fn another_file_with_the_same_bytes_is_refused() -> Result<()> {
    let device = device();
    write(&device, &frames(3, Sizes::Mixed(90), 4), Layout::Aligned)?;
    assert!(PackedReader::open(&device, "t", ID + 1).is_err());
    Ok(())
}

#[test]
fn a_device_that_says_no_gives_errors() -> Result<()> {
    let frames = frames(3000, Sizes::Mixed(2000), 4);
    for kind in [FaultKind::Eio, FaultKind::ShortWrite, FaultKind::Enospc] {
        let refused = (1..).take_while(|nth| {
            let device = device();
            device.fail_at(kind, *nth);
            write(&device, &frames, Layout::Straddling).is_err()
        });
        assert!(refused.count() >= 3, "a buffer is written several times");
    }
    let device = device();
    device.fail_at(FaultKind::FailedSync, 1);
    assert!(write(&device, &frames, Layout::Aligned).is_err());
    device.remove("t")?;
    write(&device, &frames, Layout::Aligned)?;
    device.fail_at(FaultKind::ReadEio, 2);
    assert!(scan(&open(&device)?, READ_AHEAD_BYTES).is_err());
    Ok(())
}

#[test]
fn a_scan_reads_ahead_more_and_more() -> Result<()> {
    let device = device();
    write(&device, &frames(20_000, Sizes::Equal(400), 4), Layout::Aligned)?;
    let reader = open(&device)?;
    let reads = || device.counters().snapshot();
    let before = reads();
    let mut scan = reader.scan(0, READ_AHEAD_BYTES);
    assert!(scan.advance()?);
    assert_eq!(reads().bytes_read - before.bytes_read, 8 * CHUNK_BYTES as u64);
    while scan.advance()? {}
    let bytes = reader.footer().data_chunks * CHUNK_BYTES as u64;
    assert_eq!(reads().bytes_read - before.bytes_read, bytes, "nothing is read twice");
    assert!(reads().reads - before.reads < 15);
    Ok(())
}

/// Bytes that are no frames under checksums that fit: what a bug of ours, not of the medium,
/// would leave.
#[test]
fn nonsense_under_valid_checksums_gives_errors_and_no_panics() -> Result<()> {
    let device = device();
    let frames = frames(60, Sizes::Wild, 4);
    write(&device, &frames, Layout::Straddling)?;
    let bytes = device.peek("t").expect("written");
    let data_chunks = open(&device)?.footer().data_chunks;
    let mut prng = silica_base::Prng::new(3);
    for _ in 0..5000 {
        let number = prng.below(data_chunks);
        let start = number as usize * CHUNK_BYTES;
        let mut chunk = bytes[start..start + CHUNK_BYTES].to_vec();
        let from = prng.below(PAYLOAD_BYTES as u64) as usize;
        let len = 1 + prng.below(40) as usize;
        let part = &mut chunk[from..(from + len).min(PAYLOAD_BYTES)];
        match prng.below(3) {
            0 => prng.fill(part),
            1 => part.fill(0xFF),
            _ => part.fill(0),
        }
        let used = if prng.one_in(3) { prng.below(PAYLOAD_BYTES as u64 + 1) } else { 4088 };
        let first = prng.below(used + 1);
        let trailer = chunk::Trailer { first: first as usize, used: used as usize };
        chunk::seal(&mut chunk, ID, number, trailer);
        device.poke("t", start as u64, &chunk);
        let reader = open(&device)?;
        let mut scan = reader.scan(number.saturating_sub(3), 3 * CHUNK_BYTES);
        while let Ok(true) = scan.advance() {
            assert!(!scan.frame_bytes().is_empty() && scan.key().len() <= scan.frame_bytes().len());
        }
        for chunk in number.saturating_sub(1)..(number + 2).min(data_chunks) {
            for key in [frames[0].0.as_slice(), b"absent"] {
                let at = prng.below(PAYLOAD_BYTES as u64) as u32;
                let exact = Extent { at, ..reader.extent(chunk) };
                for extent in [reader.extent(chunk), exact] {
                    let _ = get(&reader, extent, key);
                }
            }
        }
        device.poke("t", start as u64, &bytes[start..start + CHUNK_BYTES]);
    }
    Ok(())
}

#[test]
fn footers_of_random_bytes_are_refused() {
    let mut prng = silica_base::Prng::new(8);
    let mut good = vec![0; CHUNK_BYTES];
    let device = device();
    write(&device, &frames(3, Sizes::Mixed(90), 4), Layout::Aligned).expect("written");
    let bytes = device.peek("t").expect("written");
    let number = bytes.len() / CHUNK_BYTES - 1;
    good.copy_from_slice(&bytes[number * CHUNK_BYTES..]);
    let footer = Footer::open(&good, "t", ID, number as u64).expect("untouched");
    for _ in 0..20_000 {
        let mut chunk = good.clone();
        for _ in 0..1 + prng.below(3) {
            let at = prng.below(160) as usize;
            chunk[at] = prng.next_u64() as u8;
        }
        let used = if prng.one_in(4) { prng.below(200) as usize } else { 152 };
        chunk::seal(&mut chunk, ID, number as u64, chunk::Trailer { first: 0, used });
        if let Ok(other) = Footer::open(&chunk, "t", ID, number as u64) {
            // What does not show is that a count is another.
            assert_eq!(other.data_chunks, footer.data_chunks);
            assert_eq!(other.sections.len(), footer.sections.len());
        }
    }
}

#[test]
fn seeking_without_an_index_takes_few_reads() -> Result<()> {
    let device = device();
    let mut frames = frames(60_000, Sizes::Mixed(100), 8);
    frames.sort();
    let places = write(&device, &frames, Layout::Aligned)?;
    let reader = open(&device)?;
    let position = |key: &[u8]| {
        u128::from(key[0]) << 24
            | u128::from(key[1]) << 16
            | u128::from(key[2]) << 8
            | u128::from(key[3])
    };
    let before = device.counters().snapshot().reads;
    let asked = frames.iter().zip(&places).step_by(293);
    let count = asked.len() as u64;
    for ((key, frame), place) in asked {
        let mut scan = reader.scan(0, 0);
        scan.seek(position(key), (0, u128::from(u32::MAX)), position)?;
        while scan.advance()? && scan.key() != key {
            assert!(position(scan.key()) <= position(key) && scan.chunk() <= place.chunk);
        }
        assert_eq!((scan.frame_bytes(), scan.chunk()), (frame.as_slice(), place.chunk));
    }
    let reads = (device.counters().snapshot().reads - before) as f64 / count as f64;
    assert!(reads < 2.5, "{reads} reads per search of {} chunks", reader.footer().data_chunks);
    Ok(())
}
