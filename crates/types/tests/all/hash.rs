//! Hashes against a model: fields that expire, and what is removed of them.

use silica_base::{Prng, test_size};
use silica_types::{Hash, Kind, MemoryPages, Object, check};
use std::collections::BTreeMap;

type Model = BTreeMap<Vec<u8>, (Vec<u8>, u64)>;

fn live(model: &Model, now_ms: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
    let is_live =
        |(_, (_, expires)): &(&Vec<u8>, &(Vec<u8>, u64))| *expires == 0 || *expires > now_ms;
    model.iter().filter(is_live).map(|(field, (value, _))| (field.clone(), value.clone())).collect()
}

fn value(prng: &mut Prng) -> Vec<u8> {
    let mut value = vec![0; prng.below(30) as usize];
    prng.fill(&mut value);
    if prng.one_in(4) && !value.is_empty() {
        value[0] = 0xFF;
    }
    value
}

#[test]
fn fields_expire_and_are_removed_bit_by_bit() {
    for seed in 0..test_size(20, 60, 2000) {
        let mut prng = Prng::new(seed);
        let (mut object, mut pages) = (Object::new(Kind::Hash), MemoryPages::default());
        let (mut model, mut now_ms) = (Model::new(), 1_000_000);
        for round in 0..1500 {
            let field = format!("f{}", prng.below([20, 400][(seed % 2) as usize])).into_bytes();
            let old = live(&model, now_ms).into_iter().find(|(f, _)| *f == field).map(|(_, v)| v);
            let mut hash = Hash::of(&mut object, &mut pages).as_of(now_ms);
            match prng.below(10) {
                0..4 => {
                    let value = value(&mut prng);
                    assert_eq!(hash.put(&field, &value).unwrap(), old);
                    model.insert(field, (value, 0));
                }
                4..7 => {
                    let expires = if prng.one_in(5) { 0 } else { now_ms + 1 + prng.below(500) };
                    assert_eq!(hash.expire(&field, expires).unwrap(), old.is_some());
                    if let Some(value) = old {
                        assert_eq!(hash.expiring(&field).unwrap(), Some((value.clone(), expires)));
                        model.insert(field, (value, expires));
                    }
                }
                7 => {
                    assert_eq!(hash.remove(&field).unwrap(), old);
                    model.remove(&field);
                }
                8 => {
                    let expired = model.len() as u64 - live(&model, now_ms).len() as u64;
                    assert_eq!(hash.expired().unwrap(), expired);
                    assert_eq!(hash.purge(3).unwrap(), expired.min(3));
                    assert_eq!(hash.expired().unwrap(), expired - expired.min(3));
                    let mut times: Vec<_> = model.iter().map(|(f, (_, at))| (*at, f)).collect();
                    times.retain(|(at, _)| *at != 0 && *at <= now_ms);
                    times.sort();
                    let gone: Vec<_> = times.iter().take(3).map(|(_, f)| (*f).clone()).collect();
                    gone.iter().for_each(|field| drop(model.remove(field)));
                }
                _ => now_ms += prng.below(60),
            }
            if round % 50 == 0 {
                compare(&mut object, &mut pages, (&model, now_ms));
                object = Object::decode(Kind::Hash, &object.encode()).unwrap();
            }
        }
        while Hash::of(&mut object, &mut pages).as_of(u64::MAX - 1).purge(7).unwrap() > 0 {}
        model.retain(|_, (_, expires)| *expires == 0);
        compare(&mut object, &mut pages, (&model, now_ms));
        assert!(!["listpackex"].contains(&Hash::encoding(&object)), "no time is left");
    }
}

fn compare(object: &mut Object, pages: &mut MemoryPages, (model, now_ms): (&Model, u64)) {
    let checked = check(object, pages).unwrap();
    assert_eq!(checked.pages, pages.pages.keys().copied().collect::<Vec<_>>());
    let times = model.values().filter(|(_, expires)| *expires != 0).count();
    assert_eq!(checked.elements, (model.len() + times) as u64);
    let want = live(model, now_ms);
    let mut hash = Hash::of(object, pages).as_of(now_ms);
    assert_eq!(hash.len().unwrap(), want.len() as u64);
    let mut all = Vec::new();
    hash.scan(b"", &mut |field, value| {
        all.push((field.to_vec(), value.to_vec()));
        true
    })
    .unwrap();
    assert_eq!(all, want);
    let at: Vec<_> = (0..hash.stored_len()).filter_map(|rank| hash.at(rank).unwrap()).collect();
    assert_eq!(at, want);
}
