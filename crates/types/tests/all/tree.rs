//! Trees against models: by key, and by position.

use silica_base::Prng;
use silica_types::{Direction, Kind, MemoryPages, Object, PAGE_BYTES_MAX};
use std::collections::BTreeMap;

fn key(n: u64) -> Vec<u8> {
    format!("{:0width$}", n, width = 1 + (n % 13) as usize).into_bytes()
}

fn value(prng: &mut Prng) -> Vec<u8> {
    // Mostly small, sometimes larger than a page.
    let len = match prng.below(60) {
        0 => prng.below(3 * PAGE_BYTES_MAX as u64),
        1..6 => prng.below(300),
        _ => prng.below(20),
    };
    let mut bytes = vec![0; len as usize];
    prng.fill(&mut bytes);
    bytes
}

fn elements(object: &mut Object, pages: &mut MemoryPages) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut all = Vec::new();
    object
        .tree(0, pages)
        .scan(0, Direction::Forward, &mut |key, value| {
            all.push((key.to_vec(), value.to_vec()));
            true
        })
        .unwrap();
    all
}

/// No page is there that the object does not name, and none is too large.
fn check_pages(object: &mut Object, pages: &mut MemoryPages) {
    let mut named = object.page_ids(pages).unwrap();
    named.sort();
    assert_eq!(named, pages.pages.keys().copied().collect::<Vec<_>>());
}

#[test]
fn by_key_it_is_a_map() {
    for seed in 0..silica_base::test_size(20, 60, 2000) {
        let mut prng = Prng::new(seed);
        let (mut object, mut pages) = (Object::new(Kind::Hash), MemoryPages::default());
        let mut model = BTreeMap::new();
        let range = [10, 100, 2000][(seed % 3) as usize];
        for round in 0..3000 {
            let key = key(prng.below(range));
            // It grows, then shrinks.
            if prng.below(10) < if round < 2000 { 7 } else { 2 } {
                let value = value(&mut prng);
                let old = object.tree(0, &mut pages).put(&key, &value).unwrap();
                assert_eq!(old, model.insert(key, value));
            } else if prng.below(20) == 0 {
                let from = prng.below(model.len() as u64 + 1);
                let to = from + prng.below(50);
                object.tree(0, &mut pages).remove_ranks(from..to).unwrap();
                let gone = model.keys().skip(from as usize).take((to - from) as usize);
                let gone: Vec<Vec<u8>> = gone.cloned().collect();
                gone.iter().for_each(|key| drop(model.remove(key)));
            } else {
                let old = object.tree(0, &mut pages).remove(&key).unwrap();
                assert_eq!(old, model.remove(&key));
            }
            assert_eq!(object.len(0), model.len() as u64);
            if round % 50 == 0 {
                let bytes = object.encode();
                object = Object::decode(Kind::Hash, &bytes).unwrap();
                let want: Vec<_> = model.clone().into_iter().collect();
                assert_eq!(elements(&mut object, &mut pages), want);
                check_pages(&mut object, &mut pages);
                for (rank, (key, value)) in model.iter().enumerate() {
                    let mut tree = object.tree(0, &mut pages);
                    assert_eq!(tree.find(key).unwrap(), (rank as u64, true));
                    assert_eq!(tree.get(key).unwrap().as_ref(), Some(value));
                    let at = tree.at(rank as u64).unwrap();
                    assert_eq!(at, Some((key.clone(), value.clone())));
                }
            }
        }
        object.free(&mut pages).unwrap();
        assert!(pages.pages.is_empty() && object.is_empty());
    }
}

#[test]
fn keys_may_be_longer_than_pages() {
    for bytes in [200, 3 * PAGE_BYTES_MAX] {
        let (mut object, mut pages) = (Object::new(Kind::Set), MemoryPages::default());
        let mut prng = Prng::new(1);
        let mut model = BTreeMap::new();
        for round in 0..1500 {
            let key = [&vec![b'k'; bytes][..], &key(prng.below(400))].concat();
            let mut tree = object.tree(0, &mut pages);
            if prng.below(10) < if round < 1000 { 8 } else { 1 } {
                assert_eq!(tree.put(&key, b"").unwrap(), model.insert(key, Vec::new()));
            } else {
                assert_eq!(tree.remove(&key).unwrap(), model.remove(&key));
            }
            assert!(object.is_flat(0) || object.encode().len() < 300);
            if round % 50 == 0 {
                let want: Vec<_> = model.clone().into_iter().collect();
                assert_eq!(elements(&mut object, &mut pages), want);
                check_pages(&mut object, &mut pages);
                silica_types::check(&object, &mut pages).unwrap();
            }
        }
        let largest = pages.pages.values().map(|page| page.len()).max().unwrap_or(0);
        assert!(largest <= 8 * (bytes + 40), "{largest}");
        object.tree(0, &mut pages).remove_ranks(0..u64::MAX).unwrap();
        assert!(pages.pages.is_empty());
    }
}

#[test]
fn by_position_it_is_a_list() {
    for seed in 0..silica_base::test_size(20, 60, 2000) {
        let mut prng = Prng::new(seed);
        let (mut object, mut pages) = (Object::new(Kind::List), MemoryPages::default());
        let mut model: Vec<Vec<u8>> = Vec::new();
        for round in 0..3000 {
            let rank = match prng.below(4) {
                0 => 0,
                1 => model.len(),
                _ => prng.below(model.len() as u64 + 1) as usize,
            };
            let mut tree = object.tree(0, &mut pages);
            if prng.below(10) < if round < 2000 { 7 } else { 2 } {
                let value = value(&mut prng);
                tree.insert_at(rank as u64, b"", &value).unwrap();
                model.insert(rank, value);
            } else if rank < model.len() {
                if prng.below(3) == 0 {
                    let value = value(&mut prng);
                    assert!(tree.set_at(rank as u64, &value).unwrap());
                    model[rank] = value;
                } else if prng.below(30) == 0 {
                    let end = (rank + prng.below(80) as usize).min(model.len());
                    tree.remove_ranks(rank as u64..end as u64).unwrap();
                    model.drain(rank..end);
                } else {
                    let gone = tree.remove_at(rank as u64).unwrap().unwrap().1;
                    assert_eq!(gone, model.remove(rank));
                }
            }
            if round % 50 == 0 {
                check_pages(&mut object, &mut pages);
                let all: Vec<Vec<u8>> =
                    elements(&mut object, &mut pages).into_iter().map(|(_, value)| value).collect();
                assert_eq!(all, model);
                if !model.is_empty() {
                    let from = prng.below(model.len() as u64);
                    let mut back = Vec::new();
                    object
                        .tree(0, &mut pages)
                        .scan(from, Direction::Backward, &mut |_, value| {
                            back.push(value.to_vec());
                            true
                        })
                        .unwrap();
                    let want: Vec<_> = model[..=from as usize].iter().rev().cloned().collect();
                    assert_eq!(back, want);
                }
            }
        }
    }
}

#[test]
fn what_grows_at_an_end_fills_its_pages() {
    for at_front in [false, true] {
        let (mut object, mut pages) = (Object::new(Kind::List), MemoryPages::default());
        for n in 0..10_000u64 {
            let rank = if at_front { 0 } else { n };
            object.tree(0, &mut pages).insert_at(rank, b"", b"0123456789").unwrap();
        }
        let bytes: usize = pages.pages.values().map(|page| page.len()).sum();
        let leaves = pages.pages.values().filter(|page| page.len() > 900).count();
        assert!(leaves > 115 && bytes < 126_000, "{leaves} full leaves, {bytes} bytes");
        assert!(object.encode().len() < 300);
    }
}

#[test]
fn bytes_that_are_no_object_are_refused() {
    let (mut object, mut pages) = (Object::new(Kind::Zset), MemoryPages::default());
    object.tree(0, &mut pages).put(b"abc", b"defg").unwrap();
    let bytes = object.encode();
    for len in 0..bytes.len() {
        assert!(Object::decode(Kind::Zset, &bytes[..len]).is_err(), "{len}");
    }
    let mut prng = Prng::new(1);
    for _ in 0..20_000 {
        let mut hurt = bytes.clone();
        let at = prng.below(hurt.len() as u64) as usize;
        hurt[at] = prng.next_u64() as u8;
        if let Ok(mut object) = Object::decode(Kind::Zset, &hurt) {
            let mut tree = object.tree(0, &mut pages);
            let _ = (tree.get(b"abc"), tree.put(b"x", b"y"), tree.remove_at(1), tree.find(b"z"));
        }
    }
}
