use super::*;
use silica_base::{ErrorKind, KeyHash, Prng};
use std::collections::{BTreeMap, BTreeSet};

fn random_hash(prng: &mut Prng) -> KeyHash {
    KeyHash(u128::from(prng.next_u64()) << 64 | u128::from(prng.next_u64()))
}

/// A table filled until the first insert fails, with its hashes; values count up.
fn full_table(geometry: Geometry, seed: u64) -> (CuckooTable, Vec<KeyHash>) {
    let mut prng = Prng::new(seed);
    let mut table = CuckooTable::new(geometry, seed);
    let mut hashes = Vec::new();
    loop {
        let h = random_hash(&mut prng);
        if table.insert(h, hashes.len() as u32).is_err() {
            return (table, hashes);
        }
        hashes.push(h);
    }
}

fn shapes() -> Vec<Geometry> {
    let shape = |s, b, l, t| Geometry::new(s, b, l, t).unwrap();
    vec![
        shape(0, 1, 1, 4),
        shape(3, 3, 2, 5),
        shape(5, 5, 5, 15),
        shape(32, 7, 6, 16),
        shape(9, 2, 8, 13),
    ]
}

#[test]
fn bad_shapes_are_refused() {
    for (skip, blocks, log2, tag) in
        [(33, 1, 4, 8), (0, 0, 4, 8), (0, 1, 0, 8), (0, 1, 17, 8), (0, 1, 4, 3), (0, 1, 4, 17)]
    {
        let error = Geometry::new(skip, blocks, log2, tag).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
    }
    assert!(Geometry::new(0, u32::MAX, 16, 15).is_err());
    let geometry = Geometry::with_slots(4, 100_000, 15).unwrap();
    assert!(geometry.slots() >= 100_000 && geometry.slots() < 110_000);
    assert!(Geometry::with_slots(0, 0, 4).unwrap().slots() >= 1);
}

#[test]
fn alternatives_are_involutions_within_a_block() {
    let mut prng = Prng::new(1);
    for geometry in shapes() {
        for _ in 0..2000 {
            let h = random_hash(&mut prng);
            let (bucket, tag) = (geometry.bucket(h), geometry.tag(h));
            assert!(tag >= 1 && u32::from(tag) < 1 << geometry.tag_bits);
            let other = geometry.alternative(bucket, tag);
            assert_ne!(bucket, other);
            assert_eq!(geometry.alternative(other, tag), bucket);
            assert_eq!(geometry.block_of_bucket(other), geometry.block_of(h));
            assert!(geometry.buckets_of_block(geometry.block_of(h)).contains(&other));
        }
    }
}

#[test]
fn every_tag_occurs() {
    let geometry = Geometry::new(0, 1, 4, 4).unwrap();
    let mut prng = Prng::new(5);
    let tags: BTreeSet<u16> = (0..500).map(|_| geometry.tag(random_hash(&mut prng))).collect();
    assert_eq!(tags, (1..16).collect());
}

#[test]
fn blocks_cover_the_partition_in_hash_order() {
    for geometry in shapes() {
        let skip = geometry.skip_bits;
        for partition in [0, (1u64 << skip) - 1] {
            let mut expected = if skip == 0 { 0 } else { partition << (64 - skip) };
            for block in 0..geometry.blocks {
                let (first, last) = geometry.block_range(partition, block);
                assert_eq!(first, expected);
                for high in [first, last] {
                    assert_eq!(geometry.block_of(KeyHash(u128::from(high) << 64)), block);
                }
                expected = last.wrapping_add(1);
            }
            let end = if skip == 0 { 0 } else { (partition + 1).wrapping_mul(1 << (64 - skip)) };
            assert_eq!(expected, end);
        }
    }
}

#[test]
fn buckets_are_monotone_in_the_hash() {
    let geometry = Geometry::new(2, 5, 3, 8).unwrap();
    let mut prng = Prng::new(3);
    let mut hashes: Vec<KeyHash> = (0..5000).map(|_| random_hash(&mut prng)).collect();
    hashes.retain(|h| h.high() >> 62 == 2);
    hashes.sort();
    let buckets: Vec<u32> = hashes.iter().map(|h| geometry.bucket(*h)).collect();
    assert!(buckets.is_sorted());
    assert_eq!(buckets.iter().collect::<BTreeSet<_>>().len() as u32, geometry.buckets());
}

#[test]
fn everything_inserted_is_found_until_the_table_is_full() {
    for geometry in shapes() {
        let (table, hashes) = full_table(geometry, 17);
        assert_eq!(table.len() as usize, hashes.len());
        for (i, h) in hashes.iter().enumerate() {
            let found: Vec<(u32, u32)> = table.candidates(*h).collect();
            assert!(found.iter().any(|(_, value)| *value == i as u32));
            let slots: BTreeSet<u32> = found.iter().map(|f| f.0).collect();
            assert_eq!(slots.len(), found.len(), "no slot twice");
        }
    }
}

#[test]
fn a_failed_insert_changes_nothing() {
    for geometry in shapes() {
        let (mut table, _) = full_table(geometry, 23);
        let all = |t: &CuckooTable| t.occupied_in(0..t.geometry().buckets()).collect::<Vec<_>>();
        let before = all(&table);
        let mut prng = Prng::new(99);
        let mut failed = 0;
        while failed < 20 {
            let h = random_hash(&mut prng);
            match table.insert(h, 7) {
                Err(TableFull) => failed += 1,
                Ok(()) => {
                    let (slot, _) = table.candidates(h).find(|c| c.1 == 7).unwrap();
                    table.remove(slot);
                    // Others may have moved to make room; the multiset of entries is the same.
                    let mut now: Vec<(u16, u32)> = all(&table).iter().map(|e| (e.1, e.2)).collect();
                    let mut then: Vec<(u16, u32)> = before.iter().map(|e| (e.1, e.2)).collect();
                    now.sort_unstable();
                    then.sort_unstable();
                    assert_eq!(now, then);
                    continue;
                }
            }
        }
        let (mut fresh, _) = full_table(geometry, 23);
        let unchanged = all(&fresh);
        assert_eq!(unchanged, before, "the same seed gives the same table");
        let mut prng = Prng::new(23);
        let failing = (0..).map(|_| random_hash(&mut prng)).nth(fresh.len() as usize).unwrap();
        assert_eq!(fresh.insert(failing, 1), Err(TableFull));
        assert_eq!(all(&fresh), unchanged);
        assert_eq!(fresh.len() as usize, unchanged.len());
    }
}

#[test]
fn random_operations_match_a_map() {
    let geometry = Geometry::new(0, 3, 4, 9).unwrap();
    let mut table = CuckooTable::new(geometry, 4);
    let mut prng = Prng::new(42);
    let hashes: Vec<KeyHash> = (0..190).map(|_| random_hash(&mut prng)).collect();
    let mut model: BTreeMap<KeyHash, u32> = BTreeMap::new();
    for step in 0..100_000u32 {
        let h = hashes[prng.below(hashes.len() as u64) as usize];
        let held = model.get(&h).copied();
        let slot = held.map(|v| table.candidates(h).find(|c| c.1 == v).expect("held").0);
        match (prng.below(3), slot) {
            (0, Some(slot)) => {
                table.remove(slot);
                model.remove(&h);
            }
            (_, Some(slot)) => {
                table.set(slot, step);
                model.insert(h, step);
            }
            (0, None) => {}
            (_, None) => {
                if table.insert(h, step).is_ok() {
                    model.insert(h, step);
                }
            }
        }
        assert_eq!(table.len() as usize, model.len());
    }
    let mut held: Vec<u32> = table.occupied_in(0..geometry.buckets()).map(|e| e.2).collect();
    let mut expected: Vec<u32> = model.values().copied().collect();
    held.sort_unstable();
    expected.sort_unstable();
    assert_eq!(held, expected);
    table.clear();
    assert!(table.is_empty() && hashes.iter().all(|h| table.candidates(*h).next().is_none()));
}

#[test]
fn occupancy_of_the_default_shape() {
    let geometry = Geometry::with_slots(0, 1 << 17, 15).unwrap();
    let shares: Vec<f64> = (0..3)
        .map(|seed| f64::from(full_table(geometry, seed).0.len()) / f64::from(geometry.slots()))
        .collect();
    assert!(shares.iter().all(|share| *share >= 0.93), "{shares:?}");
}

#[test]
fn bursts_find_what_single_lookups_find() {
    let geometry = Geometry::new(1, 4, 6, 8).unwrap();
    let (even, mut hashes) = full_table(geometry, 6);
    let (odd, more) = full_table(geometry, 7);
    hashes.extend(more);
    let table = |i: usize| if i.is_multiple_of(2) { &even } else { &odd };
    // Every third hash is content with its first candidate.
    let content = |i: usize| i.is_multiple_of(3);
    let mut found = vec![Vec::new(); hashes.len()];
    lookup_many(&hashes, table, |i, candidates| {
        found[i].extend(candidates);
        content(i)
    });
    for (i, h) in hashes.iter().enumerate() {
        let expected: Vec<_> = table(i).candidates(*h).collect();
        let first_bucket = |slot: u32| slot / BUCKET_SLOTS == table(i).geometry().bucket(*h);
        let in_first = expected.iter().filter(|(slot, _)| first_bucket(*slot)).count();
        let wanted = if content(i) && in_first > 0 { in_first } else { expected.len() };
        assert_eq!(found[i], expected[..wanted], "hash {i}");
    }
    assert!(found.iter().filter(|f| !f.is_empty()).count() > hashes.len() / 2);
}

#[test]
fn filter_ranks_are_those_of_the_table() {
    for geometry in shapes() {
        let (mut table, hashes) = full_table(geometry, 31);
        (0..geometry.slots()).step_by(5).for_each(|slot| table.remove(slot));
        let filter = table.filter();
        filter.verify().unwrap();
        let occupied: Vec<_> = table.occupied_in(0..geometry.buckets()).collect();
        let tags: Vec<_> = filter.occupied_in(0..geometry.buckets()).collect();
        assert_eq!(tags, occupied.iter().map(|e| (e.0, e.1)).collect::<Vec<_>>());
        assert_eq!(filter.len() as usize, occupied.len());
        let rank_of_slot: BTreeMap<u32, u32> =
            occupied.iter().enumerate().map(|(rank, e)| (e.0, rank as u32)).collect();
        let mut prng = Prng::new(77);
        let misses: Vec<KeyHash> = (0..2000).map(|_| random_hash(&mut prng)).collect();
        for h in hashes.iter().chain(&misses) {
            let expected: Vec<u32> = table.candidates(*h).map(|c| rank_of_slot[&c.0]).collect();
            assert_eq!(filter.candidates(*h).collect::<Vec<_>>(), expected);
            assert_eq!(filter.may_contain(*h), !expected.is_empty());
            filter.prefetch(*h);
        }
        for bucket in 0..=geometry.buckets() {
            let before = occupied.iter().filter(|e| e.0 < BUCKET_SLOTS * bucket).count();
            assert_eq!(filter.rank_of_bucket(bucket) as usize, before);
        }
    }
}

#[test]
fn encoded_filters_round_trip_and_answer_without_being_decoded() {
    for geometry in shapes() {
        let (table, hashes) = full_table(geometry, 5);
        let filter = table.filter();
        let mut bytes = Vec::new();
        filter.encode(&mut bytes);
        assert_eq!(bytes.len(), TagFilter::encoded_len(&geometry));
        assert_eq!(TagFilter::decode(&bytes).unwrap(), filter);
        for h in hashes {
            let (bucket, tag) = (geometry.bucket(h), geometry.tag(h));
            let ranks = [bucket, geometry.alternative(bucket, tag)].map(|bucket| {
                let range = encoded_bucket_range(&geometry, bucket);
                let read = &bytes[range.start as usize..range.end as usize];
                match_encoded(&geometry, read, bucket, tag).collect::<Vec<_>>()
            });
            assert_eq!(ranks.concat(), filter.candidates(h).collect::<Vec<_>>());
        }
    }
}

#[test]
fn damaged_filters_are_refused() {
    let mut bytes = Vec::new();
    full_table(Geometry::new(0, 2, 3, 7).unwrap(), 5).0.filter().encode(&mut bytes);
    for i in 0..bytes.len() {
        assert!(TagFilter::decode(&bytes[..i]).is_err());
        let mut damaged = bytes.clone();
        damaged[i] ^= 1 << (i % 8);
        assert!(TagFilter::decode(&damaged).is_err(), "byte {i}");
    }
    bytes.push(0);
    assert!(TagFilter::decode(&bytes).is_err());
}
