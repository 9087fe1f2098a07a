//! Streams against a model.

use silica_base::Prng;
use silica_types::{Direction, Group, Kind, MemoryPages, Object, Pending, Stream, StreamId, check};
use std::collections::BTreeMap;

type Entries = BTreeMap<StreamId, Vec<Vec<u8>>>;

/// Of a group: consumers by name, and what is pending: its consumer, time and count.
#[derive(Default)]
struct GroupModel {
    consumers: BTreeMap<Vec<u8>, u64>,
    pending: BTreeMap<StreamId, (Vec<u8>, u64, u64)>,
}

fn entries_of(
    stream: &mut Stream<'_>,
    from: u64,
    direction: Direction,
) -> Vec<(StreamId, Vec<Vec<u8>>)> {
    let mut all = Vec::new();
    stream
        .scan(from, direction, u64::MAX, &mut |id, fields| {
            all.push((id, fields.map(<[u8]>::to_vec).collect()));
        })
        .unwrap();
    all
}

fn fields(prng: &mut Prng) -> Vec<Vec<u8>> {
    let field = |prng: &mut Prng| {
        let len_max = if prng.below(50) == 0 { 3000 } else { 12 };
        let mut bytes = vec![0; prng.below(len_max) as usize];
        prng.fill(&mut bytes);
        bytes
    };
    (0..2 * (1 + prng.below(3))).map(|_| field(prng)).collect()
}

#[test]
fn entries_are_those_of_a_map() {
    for seed in 0..silica_base::test_size(6, 30, 500) {
        let mut prng = Prng::new(seed);
        let (mut object, mut pages) = (Object::new(Kind::Stream), MemoryPages::default());
        let (mut model, mut last, mut added) = (Entries::new(), StreamId::MIN, 0);
        for round in 0..1500 {
            let mut stream = Stream::of(&mut object, &mut pages).unwrap();
            let some = StreamId { ms: prng.below(last.ms + 2), seq: prng.below(3) };
            match prng.below(20) {
                0 => {
                    let count = prng.below(30).min(model.len() as u64);
                    assert_eq!(stream.trim(count).unwrap(), count);
                    model = model.into_iter().skip(count as usize).collect();
                }
                1..6 => {
                    let gone = model.remove(&some).is_some();
                    assert_eq!(stream.delete(some).unwrap(), gone);
                    let deleted = stream.info().max_deleted_id;
                    assert!(if gone { deleted >= some } else { deleted <= last });
                }
                _ => {
                    last = StreamId { ms: last.ms + prng.below(3), seq: last.seq + 1 };
                    let fields = fields(&mut prng);
                    stream.add(last, fields.iter().map(|field| &field[..])).unwrap();
                    model.insert(last, fields);
                    added += 1;
                }
            }
            assert_eq!(stream.len(), model.len() as u64);
            assert_eq!((stream.info().last_id, stream.info().entries_added), (last, added));
            assert_eq!(stream.first_id().unwrap(), model.keys().next().copied());
            assert_eq!(stream.final_id().unwrap(), model.keys().next_back().copied());
            let end = StreamId { ms: some.ms + prng.below(20), seq: prng.below(3) };
            let ranks = stream.ranks(some, end).unwrap();
            let inside = if some <= end { model.range(some..=end).count() as u64 } else { 0 };
            assert_eq!(ranks.end - ranks.start, inside);
            assert_eq!(ranks.start, model.range(..some).count() as u64);
            if round % 50 == 0 {
                let all: Vec<_> = model.clone().into_iter().collect();
                assert_eq!(entries_of(&mut stream, 0, Direction::Forward), all);
                let back: Vec<_> = all.into_iter().rev().collect();
                assert_eq!(entries_of(&mut stream, u64::MAX, Direction::Backward), back);
                object = Object::decode(Kind::Stream, &object.encode()).unwrap();
            }
        }
        object.free(&mut pages).unwrap();
        assert!(pages.pages.is_empty());
    }
}

/// Compares all that a stream tells of a group with the model.
fn check_group(stream: &mut Stream<'_>, group: &Group, model: &GroupModel) {
    let mut pending = Vec::new();
    stream
        .scan_pending(group, StreamId::MIN, &mut |id, one| {
            pending.push((id, one));
            true
        })
        .unwrap();
    let pending: BTreeMap<StreamId, (Vec<u8>, u64, u64)> = pending
        .into_iter()
        .map(|(id, one)| {
            let owner = stream.owner(group, &one).unwrap();
            (id, (owner, one.delivered_ms, one.count))
        })
        .collect();
    assert_eq!(pending, model.pending);
    assert_eq!(stream.pending_count(group, None).unwrap(), pending.len() as u64);
    let ends = pending.keys().next().copied().zip(pending.keys().next_back().copied());
    assert_eq!(stream.pending_range(group).unwrap(), ends);
    let consumers = stream.consumers(group).unwrap();
    assert_eq!(stream.consumer_count(group).unwrap(), consumers.len() as u64);
    let seen = consumers.iter().map(|(name, one)| (name.clone(), one.seen_ms));
    assert_eq!(seen.collect::<BTreeMap<_, _>>(), model.consumers);
    for (name, consumer) in &consumers {
        let of_it = pending.iter().filter(|(_, (owner, ..))| owner == name);
        let ids: Vec<StreamId> = of_it.map(|(id, _)| *id).collect();
        assert_eq!(stream.owned(group, consumer, StreamId::MIN, usize::MAX).unwrap(), ids);
        assert_eq!(stream.pending_count(group, Some(consumer)).unwrap(), ids.len() as u64);
        if let Some(first) = ids.first() {
            let rest = stream.owned(group, consumer, first.next().unwrap(), 2).unwrap();
            assert_eq!(rest[..], ids[1..ids.len().min(3)]);
        }
    }
}

#[test]
fn groups_are_those_of_a_model() {
    for seed in 0..silica_base::test_size(6, 30, 500) {
        let mut prng = Prng::new(seed);
        let (mut object, mut pages) = (Object::new(Kind::Stream), MemoryPages::default());
        let mut model: BTreeMap<Vec<u8>, GroupModel> = BTreeMap::new();
        for round in 0..1500 {
            let mut stream = Stream::of(&mut object, &mut pages).unwrap();
            let name = vec![0xff; prng.below(4) as usize];
            let consumer_name = vec![b'c', 0xff - prng.below(5) as u8];
            let id = StreamId { ms: u64::MAX - prng.below(200), seq: 0 };
            let Some(of_group) = model.get_mut(&name) else {
                assert_eq!(stream.group(&name).unwrap(), None);
                assert!(!stream.destroy_group(&name).unwrap());
                assert!(stream.create_group(&name, id, Some(round)).unwrap());
                model.insert(name, GroupModel::default());
                continue;
            };
            let group = stream.group(&name).unwrap().unwrap();
            assert!(!stream.create_group(&name, id, None).unwrap());
            let consumer = stream.consumer(&group, &consumer_name).unwrap();
            assert_eq!(consumer.is_some(), of_group.consumers.contains_key(&consumer_name));
            let Some(consumer) = consumer else {
                assert_eq!(stream.delete_consumer(&group, &consumer_name).unwrap(), None);
                stream.create_consumer(&group, &consumer_name, round).unwrap().unwrap();
                of_group.consumers.insert(consumer_name, round);
                continue;
            };
            assert_eq!(stream.create_consumer(&group, &consumer_name, round).unwrap(), None);
            match prng.below(60) {
                0 => {
                    assert!(stream.destroy_group(&name).unwrap());
                    model.remove(&name);
                }
                1 | 2 => {
                    let had = of_group.pending.len();
                    of_group.pending.retain(|_, (owner, ..)| *owner != consumer_name);
                    let gone = (had - of_group.pending.len()) as u64;
                    let told = stream.delete_consumer(&group, &consumer_name).unwrap();
                    assert_eq!(told, Some(gone));
                    of_group.consumers.remove(&consumer_name);
                }
                3..20 => {
                    let gone = of_group.pending.remove(&id).is_some();
                    assert_eq!(stream.remove_pending(&group, id).unwrap(), gone);
                }
                _ => {
                    let pending = Pending::of(&consumer, round, round % 7);
                    stream.put_pending(&group, id, pending).unwrap();
                    of_group.pending.insert(id, (consumer_name, round, round % 7));
                }
            }
            if round % 30 == 0 {
                check(&object, &mut pages).unwrap();
                let mut stream = Stream::of(&mut object, &mut pages).unwrap();
                let groups = stream.groups().unwrap();
                assert_eq!(stream.group_count().unwrap(), groups.len() as u64);
                assert!(groups.iter().map(|(name, _)| name).eq(model.keys()));
                for (name, group) in groups {
                    check_group(&mut stream, &group, &model[&name]);
                }
                object = Object::decode(Kind::Stream, &object.encode()).unwrap();
            }
        }
        let mut stream = Stream::of(&mut object, &mut pages).unwrap();
        for name in model.keys() {
            assert!(stream.destroy_group(name).unwrap());
        }
        assert!(object.is_empty() && pages.pages.is_empty());
    }
}

#[test]
fn what_a_group_has_not_read_is_known_while_it_can_be() {
    let (mut object, mut pages) = (Object::new(Kind::Stream), MemoryPages::default());
    let mut stream = Stream::of(&mut object, &mut pages).unwrap();
    let id = |ms| StreamId { ms, seq: 0 };
    for ms in 1..=10 {
        stream.add(id(ms), [&b"f"[..], b"v"].into_iter()).unwrap();
    }
    assert!(stream.create_group(b"g", StreamId::MIN, None).unwrap());
    let mut group = stream.group(b"g").unwrap().unwrap();
    assert_eq!(stream.lag(&group).unwrap(), Some(10));
    for ms in 1..=4 {
        stream.advance(&mut group, id(ms)).unwrap();
    }
    assert_eq!((group.entries_read, stream.lag(&group).unwrap()), (Some(4), Some(6)));
    // An entry ahead is deleted: nobody knows how many there are.
    assert!(stream.delete(id(7)).unwrap());
    assert_eq!(stream.lag(&group).unwrap(), None);
    stream.advance(&mut group, id(5)).unwrap();
    assert_eq!(group.entries_read, None);
    // At the end it is known again.
    stream.advance(&mut group, id(10)).unwrap();
    assert_eq!((group.entries_read, stream.lag(&group).unwrap()), (Some(10), Some(0)));
}

#[test]
fn many_consumers_get_numbers_that_are_free() {
    let (mut object, mut pages) = (Object::new(Kind::Stream), MemoryPages::default());
    let mut stream = Stream::of(&mut object, &mut pages).unwrap();
    stream.create_group(b"g", StreamId::MIN, None).unwrap();
    let group = stream.group(b"g").unwrap().unwrap();
    let name = |nth: u32| format!("consumer {nth}").into_bytes();
    for nth in 0..500 {
        stream.create_consumer(&group, &name(nth), 1).unwrap().unwrap();
    }
    let before = pages.pages.values().map(|page| page.len()).sum::<usize>();
    let mut stream = Stream::of(&mut object, &mut pages).unwrap();
    for nth in 500..3000 {
        assert_eq!(stream.delete_consumer(&group, &name(nth - 400)).unwrap(), Some(0));
        stream.create_consumer(&group, &name(nth), 1).unwrap().unwrap();
    }
    assert_eq!(stream.consumer_count(&group).unwrap(), 500);
    let after = pages.pages.values().map(|page| page.len()).sum::<usize>();
    assert!(after < 2 * before, "{before} bytes have become {after}");
}

#[test]
fn damaged_streams_are_errors() {
    let (mut object, mut pages) = (Object::new(Kind::Stream), MemoryPages::default());
    let mut stream = Stream::of(&mut object, &mut pages).unwrap();
    for ms in 1..9 {
        stream.add(StreamId { ms, seq: 0 }, [&b"field"[..], b"value"].into_iter()).unwrap();
    }
    stream.create_group(b"g", StreamId::MIN, None).unwrap();
    let group = stream.group(b"g").unwrap().unwrap();
    let consumer = stream.create_consumer(&group, b"c", 1).unwrap().unwrap();
    stream.put_pending(&group, StreamId { ms: 1, seq: 0 }, Pending::of(&consumer, 5, 1)).unwrap();
    let bytes = object.encode();
    let mut prng = Prng::new(1);
    for _ in 0..silica_base::test_size(20_000, 100_000, 2_000_000) {
        let mut hurt = bytes.clone();
        let at = prng.below(hurt.len() as u64) as usize;
        hurt[at] = prng.next_u64() as u8;
        let Ok(mut object) = Object::decode(Kind::Stream, &hurt) else { continue };
        let Ok(mut stream) = Stream::of(&mut object, &mut pages) else { continue };
        let _ = stream.scan(0, Direction::Forward, 100, &mut |_, fields| {
            fields.for_each(drop);
        });
        if let Ok(groups) = stream.groups() {
            for (_, group) in groups {
                let _ = stream.consumers(&group);
                let _ = (stream.pending_range(&group), stream.lag(&group));
                let _ = stream.create_consumer(&group, b"new", 2);
                let _ = stream.delete_consumer(&group, b"c");
            }
        }
    }
}

#[test]
fn a_check_finds_what_stands_one_way_only() {
    let (mut object, mut pages) = (Object::new(Kind::Stream), MemoryPages::default());
    let mut stream = Stream::of(&mut object, &mut pages).unwrap();
    let id = StreamId { ms: 1, seq: 0 };
    stream.add(id, [&b"field"[..], b"value"].into_iter()).unwrap();
    stream.create_group(b"g", StreamId::MIN, None).unwrap();
    let group = stream.group(b"g").unwrap().unwrap();
    let consumer = stream.create_consumer(&group, b"c", 1).unwrap().unwrap();
    stream.put_pending(&group, id, Pending::of(&consumer, 5, 1)).unwrap();
    check(&object, &mut pages).unwrap();
    for rank in 0..object.len(1) {
        let mut hurt = object.clone();
        hurt.tree(1, &mut pages).remove_at(rank).unwrap();
        assert!(check(&hurt, &mut pages).is_err(), "{rank}");
    }
    let mut hurt = object.clone();
    hurt.tree(0, &mut pages).put(&StreamId { ms: 2, seq: 0 }.to_bytes(), b"\0").unwrap();
    assert!(check(&hurt, &mut pages).is_err());
}
