use super::*;

const MIB: u64 = 1 << 20;
/// Nobody attends, or the store wrote too much; there are threads, and nobody reads.
const USUAL: Demand =
    Demand { is_over_ceiling: false, is_attended: false, only_writes: false, value_log_bytes: 0 };
const OVER: Demand = Demand { is_over_ceiling: true, ..USUAL };
const UNREAD: Demand = Demand { is_attended: true, only_writes: true, ..USUAL };

fn policy() -> Policy {
    Policy {
        runs_min: 4,
        runs_max: 20,
        read_weight: 10,
        space_amplification_percent_max: 140,
        bucket_bytes_max: 100 * MIB,
        bucket_keys_max: u64::MAX,
    }
}

/// A bucket of runs of `(level, MiB, MiB that are dead because of it)`, the newest first.
fn shape(runs: &[(u8, u64, u64)]) -> Shape {
    let run = |(level, bytes, dead): &(u8, u64, u64)| RunShape {
        level: *level,
        bytes: bytes * MIB,
        dead_bytes: dead * MIB,
        expired_bytes: 0,
        versions: bytes * 1000,
    };
    Shape { runs: runs.iter().map(run).collect() }
}

fn view(shape: &Shape) -> View<'_> {
    View {
        shape,
        reads: 0,
        range_reads: 0,
        ranges: 0,
        is_busy: false,
        split_from_bytes: 0,
        is_idle: false,
        unneeded_bytes: 0,
        apart_bytes_over: 0,
        skipped: 0,
    }
}

#[test]
fn new_keys_are_rewritten_only_where_a_level_is_full() {
    let policy = policy();
    let mut runs = vec![(0, 1, 0); 19];
    runs.extend([(1, 30, 0)]);
    assert_eq!(policy.next(&[view(&shape(&runs))], USUAL), None);
    runs.insert(0, (0, 1, 0));
    let work = Work::Compact { place: 0, count: 20, older: 1 };
    assert_eq!(policy.next(&[view(&shape(&runs))], USUAL), Some(work));
    assert_eq!(policy.next(&[view(&shape(&runs))], OVER), Some(work), "room comes first");
    let full = shape(&[vec![(0, 1, 0); 3], vec![(1, 2, 0); 20], vec![(2, 9, 0)]].concat());
    let work = Work::Compact { place: 0, count: 23, older: 1 };
    assert_eq!(policy.next(&[view(&full)], USUAL), Some(work), "what is newer goes along");
}

#[test]
fn runs_that_nobody_reads_wait_until_there_are_as_many_as_all_levels_may_have() {
    let policy = policy();
    let runs = |young: usize| shape(&[vec![(0, 1, 0); young], vec![(1, 9, 0); 2]].concat());
    let all = |young: usize| Some(Work::Compact { place: 0, count: young, older: 2 });
    let (few, many) = (runs(57), runs(58));
    assert_eq!(policy.next(&[view(&few)], UNREAD), None);
    assert_eq!(policy.next(&[view(&many)], UNREAD), all(58));
    assert_eq!(policy.next(&[view(&few)], USUAL), all(57), "there are reads");
    // Who has nothing else to do merges them before, if it may.
    assert_eq!(policy.when_idle(&[view(&few)], UNREAD), all(57));
    assert_eq!(policy.when_idle(&[view(&runs(19))], UNREAD), None);
    assert_eq!(policy.when_idle(&[view(&few)], USUAL), None, "that is urgent already");
    let over = Demand { is_over_ceiling: true, ..UNREAD };
    assert_eq!(policy.when_idle(&[view(&few)], over), None, "not over the ceiling");
    // Nor are there too many files.
    let views = vec![view(&few); UNREAD_RUNS_MAX / few.runs.len() + 1];
    assert_eq!(policy.next(&views, UNREAD), all(57));
}

#[test]
fn writers_are_slowed_by_more_runs_than_all_levels_may_have() {
    let policy = policy();
    let attended = Demand { is_attended: true, ..USUAL };
    let pressures = |young: usize| {
        let runs = shape(&vec![(0, 1, 0); young]);
        [UNREAD, attended, USUAL].map(|demand| policy.pressure(&[view(&runs)], demand))
    };
    assert_eq!(pressures(20), [0.0, 1.0, 1.0]);
    // Threads merge them, and where there are none, writers.
    assert_eq!(pressures(40), [0.0, ROOM_PRESSURE_MAX, 2.0]);
    assert_eq!(pressures(60), [1.0, ROOM_PRESSURE_MAX, 3.0]);
    assert_eq!(pressures(80), [2.0, 2.0, 4.0]);
}

#[test]
fn a_bucket_with_a_full_level_is_rewritten_where_space_is_due_and_it_would_be_next() {
    let policy = policy();
    let wanted = |dead, of_others, demand| {
        let mut full = vec![(0, 1, 0); 20];
        full[0].2 = dead;
        full.push((2, 30, 0));
        let others = shape(&[(0, 20, of_others), (2, 30, 0)]);
        let (full, other) = (shape(&full), view(&others));
        policy.next(&[view(&full), other, other, other], demand)
    };
    let some = Some(Work::Compact { place: 0, count: 20, older: 1 });
    let all = Some(Work::Compact { place: 0, count: 21, older: 0 });
    // Of 200 MiB 16 may be dead for each 60 that live, 58 % of them before rewriting is due.
    assert_eq!(wanted(12, 12, USUAL), all);
    assert_eq!(wanted(6, 6, USUAL), some, "space is not due");
    assert_eq!(wanted(11, 14, USUAL), some, "others have more that is dead");
    assert_eq!(wanted(12, 12, OVER), some, "not over the ceiling");
}

#[test]
fn buckets_are_split_for_what_lives_in_them_alone() {
    let policy = policy();
    let overwritten = shape(&[(0, 60, 60), (2, 90, 0)]);
    let work = policy.next(&[view(&overwritten)], USUAL);
    assert_eq!(work, Some(Work::Compact { place: 0, count: 2, older: 0 }));
    let grown = shape(&[(0, 60, 10), (2, 90, 0)]);
    assert_eq!(policy.split(&[view(&overwritten), view(&grown)]), Some(1));
    let too_few_keys = View { split_from_bytes: 200 * MIB, ..view(&grown) };
    assert_eq!(policy.split(&[too_few_keys]), None);
    let busy = View { is_busy: true, ..view(&grown) };
    assert_eq!(policy.split(&[busy]), None);
}

#[test]
fn buckets_of_many_small_entries_are_split_and_not_joined() {
    let policy = Policy { bucket_keys_max: 40_000, ..policy() };
    let (full, overwritten) = (shape(&[(0, 1, 0), (2, 40, 0)]), shape(&[(0, 1, 1), (2, 40, 0)]));
    assert_eq!(policy.split(&[view(&full)]), Some(0));
    assert_eq!(policy.split(&[view(&overwritten)]), None);
    let idle = |shape| View { is_idle: true, ..view(shape) };
    let (few, many) = (shape(&[(2, 2, 0)]), shape(&[(2, 3, 0)]));
    assert_eq!(policy.next(&[idle(&few), idle(&few)], USUAL), Some(Work::Join(0)));
    assert_eq!(policy.next(&[idle(&few), idle(&many)], USUAL), None);
}

#[test]
fn the_bucket_with_most_to_free_is_rewritten_once_the_store_has_too_much() {
    let policy = policy();
    let clean = shape(&[(2, 80, 0)]);
    let dirty = shape(&[(0, 10, 10), (2, 40, 0)]);
    let dirtier = shape(&[(0, 10, 10), (0, 10, 10), (2, 40, 0)]);
    let few = [view(&clean), view(&dirty), view(&clean)];
    assert_eq!(policy.next(&few, USUAL), None, "10 of 200 MiB are let be");
    let many = [view(&dirty), view(&dirtier), view(&dirty)];
    let work = Work::Compact { place: 1, count: 3, older: 0 };
    assert_eq!(policy.next(&many, USUAL), Some(work));
    assert_eq!(policy.next(&many, OVER), None, "not over the ceiling");
    assert!(policy.pressure(&many, USUAL) > 1.0 && policy.pressure(&many, OVER) < 1.0);
    // What is being rewritten counts as free already.
    let in_hand = [view(&clean), View { is_busy: true, ..view(&dirtier) }, view(&clean)];
    assert_eq!(policy.next(&in_hand, USUAL), None);
    let deleted = shape(&[(0, 5, 50), (2, 50, 0)]);
    let work = Work::Compact { place: 0, count: 2, older: 0 };
    assert_eq!(policy.next(&[view(&deleted)], USUAL), Some(work), "space comes back");
}

#[test]
fn writers_slow_down_as_the_space_nears_what_is_allowed() {
    let policy = policy();
    let pressure = |dead| {
        let (clean, dirty) = (shape(&[(2, 80, 0)]), shape(&[(0, dead, dead), (2, 20, 0)]));
        policy.pressure(&[view(&clean), view(&dirty)], USUAL)
    };
    // 40 MiB of 100 may be dead.
    assert!(pressure(20) < 1.0, "{}", pressure(20));
    assert!((1.0..1.5).contains(&pressure(25)), "{}", pressure(25));
    assert!((2.0..4.0).contains(&pressure(35)), "{}", pressure(35));
    assert_eq!(pressure(41), 4.0);
}

#[test]
fn reads_have_buckets_compacted_that_they_paid_for_the_busiest_first() {
    let policy = policy();
    let four = shape(&[(0, 1, 0), (0, 1, 0), (0, 1, 0), (0, 1, 0), (2, 50, 0)]);
    let three =
        shape(&four.runs[1..].iter().map(|r| (r.level, r.bytes / MIB, 0)).collect::<Vec<_>>());
    let read = |shape, reads| View { reads, ..view(shape) };
    assert_eq!(policy.next(&[read(&four, 1000)], USUAL), None, "not worth it yet");
    assert_eq!(policy.next(&[read(&three, 1 << 16)], USUAL), None, "too few runs");
    // 64 Ki gets of three runs more than needed come to 6 MiB, the cost to 4.
    let views = [read(&four, 1 << 16), read(&four, 1 << 17), read(&four, 0)];
    let work = Work::Compact { place: 1, count: 4, older: 1 };
    assert_eq!(policy.next(&views, USUAL), Some(work));
    // In the end they pay for one run.
    let work = Work::Compact { place: 0, count: 5, older: 0 };
    assert_eq!(policy.next(&[read(&four, 1 << 20)], USUAL), Some(work));
    let unaware = Policy { read_weight: 0, ..policy };
    assert_eq!(unaware.next(&views, USUAL), None);
}

#[test]
fn searches_of_ranges_have_few_runs_merged_where_they_paid_for_it() {
    let policy = policy();
    let two = shape(&[(0, 1, 0), (2, 5, 0)]);
    let searched = |reads, range_reads| View { reads, range_reads, ..view(&two) };
    // One run more than needed: 32 bytes each, and 6 MiB are to be merged.
    assert_eq!(policy.next(&[searched(1 << 17, 1 << 17)], USUAL), None, "not worth it yet");
    assert_eq!(policy.next(&[searched(1 << 20, 0)], USUAL), None, "filters spare gets the run");
    let all = Some(Work::Compact { place: 0, count: 2, older: 0 });
    assert_eq!(policy.next(&[searched(1 << 18, 1 << 18)], USUAL), all);
    let one = shape(&[(2, 5, 0)]);
    let searched = View { reads: 1 << 30, range_reads: 1 << 30, ..view(&one) };
    assert_eq!(policy.next(&[searched], USUAL), None, "there is nothing to merge");
}

#[test]
fn small_neighbours_are_joined() {
    let policy = policy();
    let (small, large) = (shape(&[(2, 2, 0)]), shape(&[(2, 50, 0)]));
    let idle = |shape| View { is_idle: true, ..view(shape) };
    let work = policy.next(&[idle(&small), idle(&large), idle(&small), idle(&small)], USUAL);
    assert_eq!(work, Some(Work::Join(2)));
    assert_eq!(policy.next(&[view(&small), idle(&small)], USUAL), None, "not under writes");
}

/// Bytes that flushes and merges write for each byte put while one bucket grows by `flushes`
/// flushes: the flush, and once more for what gets to each further level. A split writes nothing.
fn model(flushes: u64, runs_max: u64) -> f64 {
    let part = |runs: u64| (flushes / runs * runs) as f64 / flushes as f64;
    1.0 + part(runs_max) + part(runs_max * runs_max)
}

#[test]
fn growth_costs_what_the_model_says() {
    let policy = Policy { bucket_bytes_max: u64::MAX, ..policy() };
    for flushes in [8, 19, 20, 100, 390, 1000] {
        let mut shape = Shape::default();
        let mut written = 0;
        for _ in 0..flushes {
            shape.runs.insert(0, RunShape { bytes: MIB, versions: 1, ..RunShape::default() });
            written += MIB;
            while let Some(Work::Compact { count, .. }) = policy.next(&[view(&shape)], USUAL) {
                let merged: Vec<_> = shape.runs.drain(..count).collect();
                let bytes = merged.iter().map(|run| run.bytes).sum();
                let level = merged.iter().map(|run| run.level).max().map_or(0, |l| l + 1);
                let run = RunShape {
                    level: level.min(LEVEL_MAX),
                    bytes,
                    versions: 1,
                    ..RunShape::default()
                };
                shape.runs.insert(0, run);
                written += bytes;
            }
        }
        let amplification = written as f64 / (flushes * MIB) as f64;
        let expected = model(flushes, 20);
        assert!((amplification / expected - 1.0).abs() < 0.001, "{amplification} for {expected}");
    }
}

#[test]
fn a_bucket_of_many_deleted_ranges_is_rewritten_as_a_whole() {
    let policy = policy();
    let (one, other) = (shape(&[(0, 1, 0), (2, 9, 0)]), shape(&[(0, 1, 0)]));
    let with = |ranges| [view(&other), View { ranges, ..view(&one) }];
    assert_eq!(policy.next(&with(RANGES_MAX), OVER), None);
    let work = Work::Compact { place: 1, count: 2, older: 0 };
    assert_eq!(policy.next(&with(RANGES_MAX + 1), OVER), Some(work));
    let busy = [View { ranges: RANGES_MAX + 1, is_busy: true, ..view(&one) }];
    assert_eq!(policy.next(&busy, OVER), None);
}

#[test]
fn many_small_buckets_are_rewritten_later_than_few_large_ones() {
    let policy = policy();
    let due_from = |count: u64| {
        let first = |dead: u64| {
            // Each has 400 KiB, and the store 40 % dead at the most.
            let run = |bytes, dead_bytes| RunShape {
                level: 2,
                bytes,
                dead_bytes,
                versions: 1,
                ..RunShape::default()
            };
            let live = 400 << 20;
            let shape =
                Shape { runs: vec![run((live + (dead << 20)) / count, (dead << 20) / count)] };
            policy.next(&vec![view(&shape); count as usize], USUAL).is_some()
        };
        (1..200).find(|dead| first(*dead)).expect("at some time")
    };
    // Of 160 MiB: 58 %, and 95 %.
    assert_eq!((due_from(2), due_from(1000)), (93, 153));
}

#[test]
fn what_has_expired_and_what_no_bucket_sees_is_dead() {
    let policy = policy();
    let mut runs = shape(&[(2, 90, 0)]);
    assert_eq!(policy.next(&[view(&runs)], USUAL), None);
    runs.runs[0].expired_bytes = 30 * MIB;
    assert_eq!((runs.dead_bytes(), runs.live_bytes()), (30 * MIB, 60 * MIB));
    let all = Work::Compact { place: 0, count: 1, older: 0 };
    assert_eq!(policy.next(&[view(&runs)], USUAL), Some(all));
    // A third of what is hidden has expired, too.
    runs.runs[0].dead_bytes = 30 * MIB;
    assert_eq!(runs.dead_bytes(), 50 * MIB);
    let clean = shape(&[(2, 90, 0)]);
    let holds = View { unneeded_bytes: 60 * MIB, ..view(&clean) };
    assert_eq!(policy.next(&[holds], USUAL), Some(all));
    // The one that holds most goes first, and what is in hand will be free.
    let two = [View { unneeded_bytes: 30 * MIB, ..view(&clean) }, holds];
    let second = Work::Compact { place: 1, count: 1, older: 0 };
    assert_eq!(policy.next(&two, USUAL), Some(second));
    assert!(policy.pressure(&two, USUAL) > 1.0);
    let in_hand = [view(&clean), View { is_busy: true, ..holds }];
    assert_eq!(policy.next(&in_hand, USUAL), None);
}

#[test]
fn values_apart_that_have_expired_are_worth_a_compaction_of_their_keys() {
    let policy = policy();
    let keys = shape(&[(0, 1, 0), (2, 5, 0)]);
    let over = |mib: u64| View { apart_bytes_over: mib * MIB, ..view(&keys) };
    let demand = Demand { value_log_bytes: 1000 * MIB, ..USUAL };
    assert_eq!(policy.next(&[over(10), over(150)], demand), None, "less than a fifth");
    let work = Work::Compact { place: 1, count: 2, older: 0 };
    assert_eq!(policy.next(&[over(60), over(150)], demand), Some(work));
}

#[test]
fn who_goes_through_long_runs_of_what_is_gone_pays_for_a_compaction() {
    let policy = policy();
    let runs = shape(&[(0, 1, 0), (2, 40, 0)]);
    let skipped = |skipped| [View { skipped, ..view(&runs) }];
    let enough = 41 * MIB / SKIPPED_BYTES + 1;
    assert_eq!(policy.next(&skipped(enough / 2), USUAL), None);
    let all = Work::Compact { place: 0, count: 2, older: 0 };
    assert_eq!(policy.next(&skipped(enough), USUAL), Some(all));
    assert_eq!(policy.next(&skipped(enough), OVER), None);
    let not_counting = Policy { read_weight: 0, ..policy };
    assert_eq!(not_counting.next(&skipped(enough), USUAL), None);
}
