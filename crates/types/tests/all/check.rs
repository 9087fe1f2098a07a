//! The check finds what is wrong.

use silica_base::Prng;
use silica_types::{Hash, Kind, MemoryPages, Object, Set, check};
use std::sync::Arc;

fn filled(kind: Kind) -> (Object, MemoryPages) {
    let (mut object, mut pages) = (Object::new(kind), MemoryPages::default());
    for n in 0..3000u64 {
        let name = format!("{:05}", n * 7 % 3000);
        match kind {
            Kind::Hash => {
                let mut hash = Hash::of(&mut object, &mut pages);
                hash.put_expiring(name.as_bytes(), b"value", n % 3 * (1 << 40)).unwrap();
            }
            Kind::List => {
                object.tree(0, &mut pages).insert_at(n / 2, b"", name.as_bytes()).unwrap();
            }
            _ => {
                Set::of(&mut object, &mut pages).add(name.as_bytes()).unwrap();
            }
        }
    }
    (object, pages)
}

#[test]
fn a_sound_object_passes() {
    for (kind, elements) in [(Kind::Hash, 5000), (Kind::List, 3000), (Kind::Set, 3000)] {
        let (object, mut pages) = filled(kind);
        let checked = check(&object, &mut pages).unwrap();
        assert_eq!(checked.elements, elements);
        assert_eq!(checked.pages, pages.pages.keys().copied().collect::<Vec<_>>());
        assert!(check(&Object::new(kind), &mut pages).unwrap().pages.is_empty());
    }
}

#[test]
fn a_missing_page_and_one_that_is_no_more_the_same_are_found() {
    for kind in [Kind::Hash, Kind::List, Kind::Set] {
        let (object, mut pages) = filled(kind);
        let ids: Vec<_> = pages.pages.keys().copied().collect();
        let mut prng = Prng::new(1);
        for id in &ids {
            let bytes = pages.pages.remove(id).unwrap();
            assert!(check(&object, &mut pages).is_err(), "{kind:?}: {id:?} is missing");
            // Another page in its place: elements twice, or keys out of order.
            let other = ids[prng.below(ids.len() as u64) as usize];
            if let Some(copy) = pages.pages.get(&other).cloned()
                && kind != Kind::List
            {
                pages.pages.insert(*id, copy);
                assert!(check(&object, &mut pages).is_err(), "{kind:?}: {id:?} is {other:?}");
            }
            pages.pages.insert(*id, Arc::new(bytes[..bytes.len() - 1].to_vec().into()));
            assert!(check(&object, &mut pages).is_err(), "{kind:?}: {id:?} is cut");
            pages.pages.insert(*id, bytes);
        }
        check(&object, &mut pages).unwrap();
    }
}

#[test]
fn a_key_out_of_its_place_and_a_time_without_its_field_are_found() {
    for kind in [Kind::Hash, Kind::Set] {
        let (object, mut pages) = filled(kind);
        let mut found = 0;
        for id in pages.pages.keys().copied().collect::<Vec<_>>() {
            let bytes = Arc::clone(&pages.pages[&id]);
            // The digits of a name: the last one of the page sorts first then.
            let Some(at) = bytes.windows(5).rposition(|name| name.iter().all(u8::is_ascii_digit))
            else {
                continue;
            };
            let mut hurt = bytes.to_vec();
            hurt[at..at + 5].copy_from_slice(b"/////");
            pages.pages.insert(id, Arc::new(hurt.into()));
            assert!(check(&object, &mut pages).is_err(), "{kind:?}: {id:?}");
            pages.pages.insert(id, bytes);
            found += 1;
        }
        assert!(found > 15);
    }
}

#[test]
fn wrong_counts_are_found() {
    let (mut object, mut pages) = (Object::new(Kind::Set), MemoryPages::default());
    for member in ["a", "b", "c"] {
        Set::of(&mut object, &mut pages).add(member.as_bytes()).unwrap();
    }
    let mut bytes = object.encode();
    assert_eq!(bytes[2], 3, "behind its marks and the tree's height");
    bytes[2] = 4;
    let object = Object::decode(Kind::Set, &bytes).unwrap();
    assert!(check(&object, &mut pages).is_err());

    // A leaf loses an element and another one gets one: the sum stays.
    let (object, mut pages) = filled(Kind::Set);
    let is_leaf = |bytes: &[u8]| bytes.chunks(7).all(|cell| cell.starts_with(&[5, 0]));
    let mut leaves = pages.pages.iter().filter(|(_, bytes)| is_leaf(bytes));
    let (less, more) = (*leaves.next().unwrap().0, *leaves.next().unwrap().0);
    let mut bytes = pages.pages[&less].to_vec();
    bytes.truncate(bytes.len() - 7);
    pages.pages.insert(less, Arc::new(bytes.into()));
    let mut bytes = pages.pages[&more].to_vec();
    let name = [&bytes[bytes.len() - 5..], b"0"].concat();
    bytes.extend_from_slice(&[6, 0]);
    bytes.extend_from_slice(&name);
    pages.pages.insert(more, Arc::new(bytes.into()));
    let error = check(&object, &mut pages).unwrap_err().to_string();
    assert!(error.contains("elements, not"), "{error}");
}
