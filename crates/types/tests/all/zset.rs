//! Sorted sets against a model.

use silica_base::Prng;
use silica_types::{
    Direction, Kind, LexEnd, MemoryPages, Object, PAGE_BYTES_MAX, ScoreRange, Zset,
};
use std::collections::BTreeMap;

type Model = BTreeMap<Vec<u8>, f64>;

fn score(prng: &mut Prng) -> f64 {
    match prng.below(12) {
        0 => f64::INFINITY,
        1 => f64::NEG_INFINITY,
        2 => -0.0,
        3..6 => prng.below(1000) as f64 / 7.0 - 50.0,
        _ => prng.below(20) as f64 - 5.0,
    }
}

fn member(prng: &mut Prng, range: u64) -> Vec<u8> {
    let n = prng.below(range);
    let len = if n.is_multiple_of(97) { 2 * PAGE_BYTES_MAX } else { (n % 20) as usize };
    [&b"x".repeat(len)[..], n.to_string().as_bytes()].concat()
}

/// The elements in their order.
fn sorted(model: &Model) -> Vec<(Vec<u8>, f64)> {
    let mut all: Vec<(Vec<u8>, f64)> = model.clone().into_iter().collect();
    all.sort_by(|a, b| a.1.partial_cmp(&b.1).unwrap().then_with(|| a.0.cmp(&b.0)));
    all
}

/// Both trees have the same elements, or the second one has none; no page is there in vain.
fn check_trees(object: &mut Object, pages: &mut MemoryPages) {
    let members = if object.is_flat(0) { 0 } else { object.len(0) };
    assert_eq!(object.len(1), members);
    let entries = if object.is_of_entries() { 2 * members as usize } else { 0 };
    assert_eq!(pages.elements.len(), entries, "none is there in vain");
    let named = silica_types::check(object, pages).unwrap().pages;
    assert_eq!(named, pages.pages.keys().copied().collect::<Vec<_>>());
}

fn check(object: &mut Object, pages: &mut MemoryPages, model: &Model, prng: &mut Prng) {
    check_trees(object, pages);
    let want = sorted(model);
    let mut zset = Zset::of(object, pages);
    assert_eq!(zset.some(0, usize::MAX).unwrap(), want);
    for (rank, (member, score)) in want.iter().enumerate().step_by(7) {
        assert_eq!(zset.score(member).unwrap(), Some(*score));
        assert_eq!(zset.rank(member).unwrap(), Some(rank as u64));
        assert_eq!(zset.at(rank as u64).unwrap().as_ref(), Some(&want[rank]));
    }
    let range = ScoreRange {
        min: score(prng),
        is_above_min: prng.below(2) == 0,
        max: score(prng),
        is_below_max: prng.below(2) == 0,
    };
    let ranks = zset.ranks_of_scores(&range).unwrap();
    let is_in = |(_, score): &&(Vec<u8>, f64)| {
        let above = if range.is_above_min { *score > range.min } else { *score >= range.min };
        above && if range.is_below_max { *score < range.max } else { *score <= range.max }
    };
    let inside: Vec<_> = want.iter().filter(is_in).cloned().collect();
    let len = (ranks.end - ranks.start) as usize;
    assert_eq!(zset.some(ranks.start, len).unwrap(), inside, "{range:?}");
    if let Some(last) = ranks.end.checked_sub(1).filter(|_| len > 0) {
        let mut back = Vec::new();
        let each = &mut |member: &[u8], score: f64| {
            back.push((member.to_vec(), score));
            back.len() < len
        };
        zset.scan(last, Direction::Backward, each).unwrap();
        back.reverse();
        assert_eq!(back, inside);
    }
}

#[test]
fn a_sorted_set_is_a_map_in_the_order_of_scores() {
    for seed in 0..silica_base::test_size(12, 60, 2000) {
        let mut prng = Prng::new(seed);
        let (mut object, mut pages) = (Object::new(Kind::Zset), MemoryPages::default());
        if seed % 4 > 0 {
            // Few are pages, all but the longest members may be entries, or all of them.
            pages.entries_above = Some([40, 300, 2][(seed % 4) as usize - 1]);
            pages.entry_key_bytes_max =
                [PAGE_BYTES_MAX, 4 * PAGE_BYTES_MAX][(seed / 4 % 2) as usize];
        }
        let (mut model, mut forms) = (Model::new(), [false; 2]);
        let range = [30, 150, 1500][(seed % 3) as usize];
        for round in 0..2500 {
            let member = member(&mut prng, range);
            let mut zset = Zset::of(&mut object, &mut pages);
            // It grows, then shrinks.
            if prng.below(10) < if round < 1500 { 7 } else { 2 } {
                let score = score(&mut prng);
                assert_eq!(zset.put(&member, score).unwrap(), model.insert(member, score + 0.0));
            } else if prng.below(25) == 0 {
                // From the first one on, as from a queue, or from anywhere.
                let from = prng.below(2) * prng.below(model.len() as u64 + 1);
                let to = from + prng.below(60);
                let gone = sorted(&model).into_iter().skip(from as usize);
                let gone: Vec<_> = gone.take((to - from) as usize).collect();
                if prng.below(2) == 0 {
                    assert_eq!(zset.remove_ranks(from..to).unwrap(), gone.len() as u64);
                } else {
                    let listed = zset.list(from..from + gone.len() as u64).unwrap();
                    assert_eq!(listed, gone);
                    zset.remove_listed(from, &listed).unwrap();
                }
                gone.iter().for_each(|(member, _)| assert!(model.remove(member).is_some()));
            } else {
                assert_eq!(zset.remove(&member).unwrap(), model.remove(&member));
            }
            Zset::of(&mut object, &mut pages).settle().unwrap();
            if let Some((left, _)) = object.take_left() {
                pages.elements.retain(|key, _| silica_types::owner_of_entry(key) != Some(left));
            }
            assert_eq!(object.len(0), model.len() as u64);
            if round % 50 == 0 {
                object = Object::decode(Kind::Zset, &object.encode()).unwrap();
                forms[usize::from(object.is_of_entries())] = true;
                if prng.below(2) == 0 {
                    pages.forget_counts();
                }
                check(&mut object, &mut pages, &model, &mut prng);
            }
        }
        let may_be_entries = seed % 4 == 1 && range > 30 && pages.entry_key_bytes_max > 1 << 11;
        assert!(forms[0] && (!may_be_entries || forms[1]), "seed {seed}: {forms:?}");
        let left = object.is_of_entries().then(|| (object.id().unwrap(), object.pages_end()));
        let mut zset = Zset::of(&mut object, &mut pages);
        zset.remove_ranks(0..u64::MAX).unwrap();
        assert!(pages.pages.is_empty() && object.is_empty());
        assert_eq!((object.take_left(), object.id().filter(|_| left.is_some())), (left, None));
    }
}

/// A sorted set of `len` members whose elements are entries.
fn of_entries(len: u64) -> (Object, MemoryPages) {
    let (mut object, mut pages) = (Object::new(Kind::Zset), MemoryPages::default());
    (pages.entries_above, pages.entry_key_bytes_max) = (Some(100), 1 << 16);
    let mut zset = Zset::of(&mut object, &mut pages);
    for n in 0..len {
        let member = format!("member:{:06}", n * 7919 % len);
        zset.put(member.as_bytes(), (n % 100) as f64).unwrap();
    }
    zset.settle().unwrap();
    assert!(object.is_of_entries() && pages.pages.is_empty());
    (object, pages)
}

#[test]
fn what_is_missing_among_entries_is_found() {
    let (object, mut pages) = of_entries(500);
    let checked = silica_types::check(&object, &mut pages).unwrap();
    assert_eq!((checked.elements, checked.pages.len()), (1000, 0));
    for key in pages.elements.keys().cloned().collect::<Vec<_>>() {
        let value = pages.elements.remove(&key).unwrap();
        assert!(silica_types::check(&object, &mut pages).is_err(), "{key:?} is missing");
        if !value.is_empty() {
            pages.elements.insert(key.clone(), vec![0; 8]);
            assert!(silica_types::check(&object, &mut pages).is_err(), "{key:?} has another score");
        }
        pages.elements.insert(key, value);
    }
}

#[test]
fn a_copy_has_entries_of_its_own_and_keys_tell_whose_they_are() {
    let (mut object, mut pages) = of_entries(2000);
    let mut copy = object.copy(&mut pages).unwrap();
    assert_ne!(copy.id(), object.id());
    let ids: Vec<_> = [&object, &copy].map(|object| object.id().unwrap()).into();
    for key in pages.elements.keys() {
        let (id, nth, _) = silica_types::element_of_entry(key).unwrap();
        assert!(ids.contains(&id) && nth < 2);
        assert_eq!(silica_types::owner_of_entry(key), Some(id));
        assert!(silica_types::is_inner(key) && silica_types::PageId::of_key(key).is_none());
        let first = silica_types::PageId { object: id, number: 0 }.key();
        assert!(first[..] < key[..], "the page with the name comes first");
    }
    let value = object.encode();
    assert_eq!(silica_types::pages_of(&value), Some((ids[0], object.pages_end())));
    let elements = Zset::of(&mut object, &mut pages).some(0, usize::MAX).unwrap();
    Zset::of(&mut object, &mut pages).put(b"more", 1.0).unwrap();
    assert_eq!(Zset::of(&mut copy, &mut pages).some(0, usize::MAX).unwrap(), elements);
}

/// The number behind `skipped` bytes from `*at` on, which moves behind it.
fn number(value: &[u8], at: &mut usize, skipped: u64) -> Option<u64> {
    *at += usize::try_from(skipped).ok()?;
    let (number, len) = silica_base::read_varint(value.get(*at..)?)?;
    *at += len;
    Some(number)
}

/// Reads a value as who knows that each tree has a root: flags and id, two numbers, and of each
/// tree its height, its elements, the length of its root and the root. `None` if that fails.
fn read_with_roots(value: &[u8]) -> Option<()> {
    let (mut at, mut root) = (9, 0);
    number(value, &mut at, 0)?;
    number(value, &mut at, 0)?;
    for _ in 0..2 {
        number(value, &mut at, root + 1)?;
        root = number(value, &mut at, 0)?;
    }
    (at as u64 + root <= value.len() as u64).then_some(())
}

#[test]
fn who_knows_no_entries_fails_to_read_the_value() {
    for len in [101, 127, 128, 255, 256, 2000, 20_000] {
        let (object, _) = of_entries(len);
        assert!(read_with_roots(&object.encode()).is_none(), "{len} elements");
        let (mut object, mut pages) = (Object::new(Kind::Zset), MemoryPages::default());
        let mut zset = Zset::of(&mut object, &mut pages);
        for n in 0..len + 500 {
            zset.put(format!("{n}").as_bytes(), 1.0).unwrap();
        }
        assert!(read_with_roots(&object.encode()).is_some(), "{len} elements in pages");
    }
}

#[test]
fn entries_stay_readable_and_become_pages_again_where_none_are_made() {
    let (mut object, mut pages) = of_entries(2000);
    pages.entries_above = Some(2000);
    let all = Zset::of(&mut object, &mut pages).some(0, usize::MAX).unwrap();
    Zset::of(&mut object, &mut pages).settle().unwrap();
    assert!(object.is_of_entries(), "it is at the limit");
    pages.entries_above = None;
    assert_eq!(Zset::of(&mut object, &mut pages).some(0, usize::MAX).unwrap(), all);
    Zset::of(&mut object, &mut pages).settle().unwrap();
    assert!(!object.is_of_entries() && pages.elements.is_empty());
    assert_eq!(Zset::of(&mut object, &mut pages).some(0, usize::MAX).unwrap(), all);
    check_trees(&mut object, &mut pages);
}

#[test]
fn a_change_of_an_entry_changes_no_others_and_names_a_new_state() {
    let (mut object, mut pages) = of_entries(2000);
    let mut seen = std::collections::BTreeSet::new();
    for n in 0..100u64 {
        object.touch(n * 1_000_003);
        assert!(seen.insert(object.state().unwrap()));
        let before = pages.elements.clone();
        Zset::of(&mut object, &mut pages).put(b"member:000001", 1000.0 + n as f64).unwrap();
        let gone = before.keys().filter(|key| !pages.elements.contains_key(*key)).count();
        let new = pages.elements.iter().filter(|(key, value)| before.get(*key) != Some(value));
        assert_eq!((gone, new.count()), (1, 2));
    }
    assert_ne!(object.user_bits(), Kind::Zset.user_bits());
    assert_eq!(Kind::of_user_bits(object.user_bits()), Some(Kind::Zset));
}

#[test]
fn members_of_one_score_are_in_order() {
    let mut prng = Prng::new(1);
    for len in [0u64, 1, 20, 900] {
        let (mut object, mut pages) = (Object::new(Kind::Zset), MemoryPages::default());
        let mut zset = Zset::of(&mut object, &mut pages);
        let mut members: Vec<Vec<u8>> = Vec::new();
        for n in 0..len {
            members.push((n * 7).to_string().into_bytes());
            zset.put(members.last().unwrap(), 2.5).unwrap();
        }
        members.sort();
        for _ in 0..300 {
            let ends: [(Vec<u8>, u64); 2] =
                std::array::from_fn(|_| (member(&mut prng, 7 * 900), prng.below(6)));
            let [min, max] = ends.each_ref().map(|(member, kind)| match kind {
                0 => LexEnd::First,
                1 => LexEnd::Last,
                2 | 3 => LexEnd::Included(member),
                _ => LexEnd::Excluded(member),
            });
            let is_in = |member: &&Vec<u8>| {
                let above = match min {
                    LexEnd::First => true,
                    LexEnd::Last => false,
                    LexEnd::Included(min) => &member[..] >= min,
                    LexEnd::Excluded(min) => &member[..] > min,
                };
                above
                    && match max {
                        LexEnd::First => false,
                        LexEnd::Last => true,
                        LexEnd::Included(max) => &member[..] <= max,
                        LexEnd::Excluded(max) => &member[..] < max,
                    }
            };
            let inside: Vec<_> = members.iter().filter(is_in).cloned().collect();
            let ranks = zset.ranks_of_members(min, max).unwrap();
            let found = zset.some(ranks.start, (ranks.end - ranks.start) as usize).unwrap();
            let found: Vec<_> = found.into_iter().map(|(member, _)| member).collect();
            assert_eq!(found, inside, "{min:?} {max:?}");
        }
    }
}

#[test]
fn a_small_one_has_its_members_once() {
    let (mut object, mut pages) = (Object::new(Kind::Zset), MemoryPages::default());
    let mut zset = Zset::of(&mut object, &mut pages);
    for n in 0..40u32 {
        zset.put(format!("member:{n:04}").as_bytes(), f64::from(n)).unwrap();
    }
    let flat = object.encode().len();
    assert!(pages.pages.is_empty() && flat < 40 * 22 + 20, "{flat} bytes");
    // About its limit it does not go to and fro.
    let mut fills = 0;
    for round in 0..200u32 {
        let mut zset = Zset::of(&mut object, &mut pages);
        let member = format!("member:{:04}", 40 + round % 10);
        let was_flat = zset.is_flat();
        match round / 10 % 2 {
            0 => drop(zset.put(member.as_bytes(), 1.0).unwrap()),
            _ => drop(zset.remove(member.as_bytes()).unwrap()),
        }
        fills += u32::from(was_flat && !zset.is_flat());
    }
    assert_eq!(fills, 1);
    check_trees(&mut object, &mut pages);
}
