use super::*;
use silica_base::peak_allocated;
use silica_tune::sketch::OPERATIONS_KEPT;

#[test]
fn a_store_that_was_just_opened_follows_little() {
    let live = Live::new(Sketch::new(0));
    let (mut watched, mut calls) = (0u64, 0u64);
    let mut worst = 0.0f64;
    while calls < 20_000_000 {
        // Every call is of another key: all of them are in the sample, until it is full.
        let look = live.look();
        calls += 1;
        if look.watching() {
            watched += 1;
            live.follow(std::iter::once(&calls.to_le_bytes()[..]), Touch::Write);
        }
        if look.is_close() {
            let call = Call { puts: 1, ..Call::default() };
            live.add(look, 1, |sketch| sketch.call(&call, look.weight));
        }
        // What the opening may cost, some milliseconds, however the windows are set.
        let at_first = 1 << 13;
        if calls > at_first {
            worst = worst.max(watched.saturating_sub(at_first) as f64 / calls as f64);
        }
    }
    // One in 256 where none is in the sample, fewer where many are; the counted calls are an
    // estimate, so a third more.
    assert!(watched >= WINDOW_FIRST.operations / 2, "{watched} of {calls}");
    assert!(worst < 1.33 / 256.0, "{worst}");
    let seen = live.totals().puts as f64;
    assert!((seen / calls as f64 - 1.0).abs() < 0.05, "{seen} of {calls}");
}

/// A sketch that has seen everything there is to see, with as much in it as there can be.
fn saturated(live: &Live) {
    live.hot.threshold.store(live.lock().0.sample.threshold(), Ordering::Relaxed);
    for key in 0..1_000_000u64 {
        live.follow(std::iter::once(&key.to_le_bytes()[..]), Touch::Read);
    }
    let (sketch, _) = &mut *live.lock();
    for power in 0..48 {
        for part in 8..16 {
            let size = (part << power) >> 3;
            sketch.key_bytes.add(size, 1);
            sketch.put_bytes.add(size, 1);
            sketch.found_bytes.add(size, 1);
            sketch.scan_entries.add(size, 1);
        }
    }
    sketch.call(&Call { puts: 1, ..Call::default() }, 1);
}

#[test]
fn a_keyspace_has_a_mebibyte_for_its_sketch_whatever_is_done_with_it() {
    const BYTES_MAX: usize = 1 << 20;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sketch-0");
    let (live, used) = peak_allocated(|| {
        let live = Live::new(Sketch::default());
        live.open(path.clone(), || 0);
        saturated(&live);
        live
    });
    let sampled = live.show(|sketch| sketch.encode().len());
    assert!(sampled > 64 << 10, "the sample is as good as empty: {sampled} bytes");
    let held = |work: &dyn Fn()| peak_allocated(work).1;
    live.operations.store(1, Ordering::Relaxed);
    let saving = held(&|| live.save(true));
    assert_eq!(std::fs::metadata(&path).unwrap().len() as usize, sampled + 20);
    let asking = held(&|| drop(live.workload(1_000_000).unwrap()));
    assert!(used + saving <= BYTES_MAX, "{used} bytes, and {saving} while it is saved");
    assert!(used + asking <= BYTES_MAX, "{used} bytes, and {asking} while it is asked");
    let (again, opening) = peak_allocated(|| {
        let live = Live::new(Sketch::default());
        live.open(path, || 0);
        live
    });
    assert!(opening <= BYTES_MAX, "{opening} bytes while it is opened");
    assert_eq!(again.show(Sketch::encode), live.show(Sketch::encode));
}

#[test]
fn new_habits_show_after_a_stated_number_of_operations_and_totals_stay() {
    let live = Live::new(Sketch::new(0));
    let (mut keys, mut calls) = (0u64, 0u64);
    let mut ask = |count: u64, call: &Call| {
        for _ in 0..count {
            calls += 1;
            let look = live.look();
            if look.is_close() {
                live.add(look, 1, |sketch| sketch.call(call, look.weight));
            }
            keys += call.puts;
            if calls.is_multiple_of(100_000) {
                live.age(|| Some(keys));
            }
        }
        (live.workload(keys).unwrap().mix, live.totals(), calls)
    };
    // 16 times what a sketch keeps.
    let puts = 16 * OPERATIONS_KEPT;
    let (mix, before, _) = ask(puts, &Call { puts: 1, ..Call::default() });
    assert!(mix.inserts > 0.97, "{mix:?}");
    let read = Call { get_hits: 1, ..Call::default() };
    // What is estimated is a percent off, and what is halved is so at the next look for it.
    let (mix, ..) = ask(OPERATIONS_KEPT * 26 / 25, &read);
    assert!(mix.get_hits > 0.5, "{mix:?}");
    let (mix, now, calls) = ask(OPERATIONS_KEPT * 3 / 2, &read);
    assert!(mix.get_hits > 0.9 && mix.inserts > 0.97 * (1.0 - mix.get_hits), "{mix:?}");
    let share = now.operations() as f64 / calls as f64;
    assert!((share - 1.0).abs() < 0.02, "{now:?} of {calls}");
    assert_eq!(now.minus(before).puts, 0);
    assert!(now.minus(before).get_hits > 2 * OPERATIONS_KEPT);
}

#[test]
fn a_store_halves_its_sketches_by_itself() {
    let directory = tempfile::tempdir().unwrap();
    let store = crate::OpenOptions::new().open(directory.path()).unwrap();
    let keyspace = store.keyspace("k").unwrap();
    for key in 0..100u8 {
        keyspace.put([key], "v").unwrap();
    }
    let live = keyspace.switch().live();
    live.lock().0.call(&Call { puts: 64, ..Call::default() }, OPERATIONS_KEPT);
    let until = Instant::now() + Duration::from_secs(30);
    while live.show(Sketch::is_old) {
        assert!(Instant::now() < until, "nobody halves it");
        std::thread::sleep(Duration::from_millis(5));
    }
    // Seven times, and the hundred keys with it: 50, 75, 87, … were there before.
    let (puts, before) = live.show(|sketch| (sketch.totals.puts, sketch.keys_before));
    assert!((OPERATIONS_KEPT / 2..OPERATIONS_KEPT).contains(&puts), "{puts}");
    assert_eq!(before, 100);
    assert!(live.totals().puts >= 64 * OPERATIONS_KEPT);
}

#[test]
fn windows_grow_to_the_last_and_pauses_with_them() {
    let windows: Vec<_> =
        std::iter::successors(Some(WINDOW_FIRST), |w| Some(w.next())).take(20).collect();
    assert_eq!((windows[1].operations, windows[1].tracked), (1 << 13, 1 << 13));
    assert_eq!(windows[19], WINDOW_LAST);
    assert_eq!(pause(3096, 10), 10 * 1024 + 255 * 3096);
}

#[test]
fn a_window_is_of_operations_that_could_be_followed() {
    let live = Live::new(Sketch::new(0));
    let look = Look { weight: 256, state: WATCHING };
    let mut number = 0u64;
    let mut ask = |calls: u64| {
        for _ in 0..calls {
            number += 1;
            live.follow(std::iter::once(&number.to_le_bytes()[..]), Touch::Read);
            if number.is_multiple_of(look.weight) {
                live.add(look, 1, |_| ());
            }
        }
        live.hot.state.load(Ordering::Relaxed) & WATCHING != 0
    };
    {
        let _another_thread = live.lock();
        assert!(ask(4 * WINDOW_FIRST.operations));
    }
    assert!(ask(WINDOW_FIRST.operations - 1));
    assert_eq!(live.tracked.load(Ordering::Relaxed), WINDOW_FIRST.operations - 1);
    assert!(!ask(1));
}

#[test]
fn a_get_of_many_keys_remembers_all_that_was_found() {
    struct Nothing;
    impl GetSink for Nothing {
        fn found(&mut self, _: usize, _: EntryRef<'_>) {}
    }
    let sink = &mut Nothing;
    let mut counting = Counting { sink, count: 0, few: [(0, 0); FEW], more: Vec::new() };
    for index in 0..2 * FEW + 1 {
        let value = &[0; 100][..index];
        counting.found(index, EntryRef { value, expires_unix_ms: 0, user_bits: 0 });
    }
    let expected: Vec<_> = (0..2 * FEW + 1).map(|index| (index, index)).collect();
    assert_eq!(counting.all().copied().collect::<Vec<_>>(), expected);
}
