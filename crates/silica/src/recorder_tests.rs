use super::*;
use silica_tune::trace::TraceReader;
use std::collections::BTreeMap;

const SEED: HashSeed = HashSeed([7; 16]);

fn recorder(options: RecordOptions) -> Recorder {
    Recorder::new(&options, SEED).unwrap()
}

fn one(recorder: &Recorder, kind: TraceKind, key: &[u8]) {
    recorder.record(std::iter::once((kind, key)));
}

/// Operations and keys of a trace, which has no wrong line.
fn read(text: &[u8]) -> Vec<(TraceKind, Vec<u8>)> {
    let mut reader = TraceReader::new(text, "recorded").unwrap();
    let mut events = Vec::new();
    while let Some(event) = reader.next().unwrap() {
        events.push((event.kind, event.key.to_vec()));
    }
    events
}

#[test]
fn what_threads_do_is_in_the_order_of_its_times_over_all_rounds() {
    let recorder = recorder(RecordOptions { real_keys: true, ..RecordOptions::default() });
    let mut text = Vec::new();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4u8)
            .map(|thread| {
                let recorder = &recorder;
                scope.spawn(move || {
                    for turn in 0..5000u32 {
                        let key = [&[b'a' + thread][..], &turn.to_be_bytes()].concat();
                        one(recorder, TraceKind::Put { value_bytes: turn as usize }, &key);
                    }
                })
            })
            .collect();
        while threads.iter().any(|thread| !thread.is_finished()) {
            text.extend(recorder.drain(false).unwrap());
            std::thread::yield_now();
        }
    });
    text.extend(recorder.drain(true).unwrap());
    // The reader refuses times that fall.
    let events = read(&text);
    let report = recorder.report();
    assert_eq!(events.len() as u64 + report.dropped, 20_000);
    assert_eq!((report.operations, report.dropped), (20_000, 0));
    assert_eq!(report.bytes, text.len() as u64);
    let mut last = BTreeMap::new();
    for (kind, key) in events {
        let TraceKind::Put { value_bytes } = kind else { panic!("{kind:?}") };
        assert_eq!(key[1..], (value_bytes as u32).to_be_bytes());
        if let Some(before) = last.insert(key[0], value_bytes) {
            assert_eq!(before + 1, value_bytes, "a thread's operations stay in their order");
        }
    }
    assert_eq!(last.len(), 4);
    // Closed: what comes late is nobody's.
    one(&recorder, TraceKind::Get, b"late");
    assert!(read(&[b"silica-trace 1\n", &recorder.drain(true).unwrap()[..]].concat()).is_empty());
}

#[test]
fn memory_is_fixed_and_what_is_dropped_is_counted() {
    let recorder = recorder(RecordOptions { buffer_bytes: 0, ..RecordOptions::default() });
    let most = 2 * SHARDS * CHUNK_BYTES;
    let held = || -> usize {
        let of = |shard: &Mutex<Shard>| {
            let shard = lock(shard);
            shard.full.iter().map(Vec::capacity).sum::<usize>() + shard.now.capacity()
        };
        recorder.shards.iter().map(of).sum()
    };
    let mut text = Vec::new();
    for round in 1..=3u64 {
        for key in 0..100_000u64 {
            one(&recorder, TraceKind::Get, &key.to_le_bytes());
        }
        assert!(held() <= most && held() > most / 2, "{}", held());
        text.extend(recorder.drain(false).unwrap());
        let report = recorder.report();
        assert!(report.dropped > 0);
        // What has this very nanosecond waits for the next round.
        assert!(round * 100_000 - (report.operations + report.dropped) < 10, "{report:?}");
    }
    text.extend(recorder.drain(true).unwrap());
    let report = recorder.report();
    assert_eq!(report.operations + report.dropped, 300_000);
    assert_eq!(read(&text).len() as u64, report.operations);
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("operations were dropped about here"));
    assert!(text.ends_with("that traces do not have\n"));
}

#[test]
fn keys_are_hidden_but_stay_apart_and_keep_their_length() {
    let recorder = recorder(RecordOptions::default());
    for turn in 0..2 {
        for key in ["secret", "a", "b", "a-key-that-is-much-longer-than-any-hash-of-it-is"] {
            let kind = if turn == 0 { TraceKind::Put { value_bytes: 9 } } else { TraceKind::Get };
            one(&recorder, kind, key.as_bytes());
        }
    }
    one(&recorder, TraceKind::Scan { entries: 12 }, b"secret");
    one(&recorder, TraceKind::Delete, b"");
    recorder.cannot_record();
    let text = recorder.drain(true).unwrap();
    let shown = String::from_utf8(text.clone()).unwrap();
    assert!(!shown.contains("secret") && !shown.contains("longer"), "{shown}");
    let events = read(&text);
    assert_eq!(events.len(), 10);
    for at in 0..4 {
        assert_eq!(events[at].1, events[at + 4].1, "a key stays the same one");
    }
    assert_eq!(events[8], (TraceKind::Scan { entries: 12 }, events[0].1.clone()));
    let lengths: Vec<usize> = events.iter().map(|(_, key)| key.len()).collect();
    assert_eq!(lengths[..4], [8, 8, 8, 48]);
    assert_ne!(events[1].1, events[2].1);
    assert_eq!(recorder.report().unrecorded, 1);
    // Somebody else's secret gives other letters.
    let other = Recorder::new(&RecordOptions::default(), HashSeed([8; 16])).unwrap();
    one(&other, TraceKind::Get, b"secret");
    assert_ne!(read(&other.drain(true).unwrap())[0].1, events[0].1);
}

#[test]
fn of_a_part_of_the_keys_all_operations_are_recorded() {
    let options = RecordOptions { one_key_in: 8, real_keys: true, ..RecordOptions::default() };
    let recorder = recorder(options);
    let mut text = Vec::new();
    for _ in 0..3 {
        for key in 0..8000u64 {
            one(&recorder, TraceKind::Get, &key.to_le_bytes());
        }
        text.extend(recorder.drain(false).unwrap());
    }
    text.extend(recorder.drain(true).unwrap());
    let mut counts = BTreeMap::new();
    read(&text).into_iter().for_each(|(_, key)| *counts.entry(key).or_insert(0) += 1);
    assert!((900..1100).contains(&counts.len()), "{}", counts.len());
    assert!(counts.values().all(|count| *count == 3));
    let mut reader = TraceReader::new(&text[..], "recorded").unwrap();
    reader.next().unwrap();
    assert_eq!(reader.one_key_in(), 8);
}

#[test]
fn a_trace_never_has_more_bytes_than_it_may() {
    // One line has about 26 bytes; so the limit falls everywhere within one.
    for bytes_max in 1024..1060 {
        for round in [1, 7, 1000] {
            let options = RecordOptions { bytes_max: Some(bytes_max), ..RecordOptions::default() };
            let (recorder, mut text, mut count) = (recorder(options), Vec::new(), 0u64);
            while !recorder.has_ended() {
                for _ in 0..round {
                    one(&recorder, TraceKind::Put { value_bytes: 10 }, &count.to_le_bytes());
                    count += 1;
                }
                text.extend(recorder.drain(false).unwrap());
                assert!(count < 2000, "it ends by itself");
            }
            one(&recorder, TraceKind::Get, b"too late");
            let after = [recorder.drain(false).unwrap(), recorder.drain(true).unwrap()];
            assert_eq!(after, [[], []]);
            assert!(text.len() as u64 <= bytes_max, "{} of {bytes_max}", text.len());
            assert!(text.len() as u64 > bytes_max - END_BYTES_MAX - 40, "{}", text.len());
            let report = recorder.report();
            assert_eq!((report.bytes, report.dropped), (text.len() as u64, 0));
            assert_eq!(read(&text).len() as u64, report.operations);
            let text = String::from_utf8(text).unwrap();
            let end = format!("# the end: {} operations", report.operations);
            assert!(text.lines().last().unwrap().starts_with(&end), "{text}");
        }
    }
}

#[test]
fn a_last_round_keeps_to_the_limit_too_and_the_longest_end_fits() {
    let options = RecordOptions { bytes_max: Some(2048), ..RecordOptions::default() };
    let recorder = recorder(options);
    for n in 0..1000u64 {
        one(&recorder, TraceKind::Delete, &n.to_le_bytes());
    }
    let text = recorder.drain(true).unwrap();
    assert!(text.len() <= 2048 && recorder.has_ended(), "{}", text.len());
    assert_eq!(read(&text).len() as u64, recorder.report().operations);
    let most = u64::MAX;
    let end =
        format!("# the end: {most} operations, {most} dropped, {most} that traces do not have\n");
    assert!(end.len() as u64 <= END_BYTES_MAX);
}

#[test]
fn a_trace_that_is_to_be_too_small_is_refused() {
    let options = RecordOptions { bytes_max: Some(1023), ..RecordOptions::default() };
    let error = Recorder::new(&options, SEED).err().unwrap();
    assert!(error.to_string().contains("allow it 1024 or more"), "{error}");
}
