//! Objects as an engine has them, checked as a whole.

use silica_engine::{Engine, EngineExt, Error, ErrorKind, KeyRange, Result};
use silica_types::{Direction, Kind, Object, Page, PageId, Pages, check, element_of_entry};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Reads pages of an engine.
struct EnginePages<'e>(&'e Arc<dyn Engine>);

impl Pages for EnginePages<'_> {
    fn get(&mut self, page: PageId) -> Result<Arc<Page>> {
        let missing = || Error::new(ErrorKind::Corruption, format!("{page:?} is missing"));
        self.0.get(&page.key())?.map(|bytes| Arc::new(bytes.into())).ok_or_else(missing)
    }

    fn put(&mut self, _: PageId, _: Arc<Page>) {
        unreachable!("a check writes nothing");
    }

    fn remove(&mut self, _: PageId) {
        unreachable!("a check writes nothing");
    }

    fn new_id(&mut self) -> Result<u64> {
        unreachable!("a check writes nothing");
    }

    fn element(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.0.get(key)
    }

    fn walk_elements(
        &mut self,
        (lower, upper): (&[u8], &[u8]),
        direction: Direction,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        assert_eq!(direction, Direction::Forward, "a check goes forward");
        let ordered = Arc::clone(self.0).as_ordered().expect("an order");
        let mut iterator = ordered.snapshot()?.iterate(&KeyRange::new(lower, upper))?;
        let mut is_there = iterator.seek_to_first()?;
        while is_there && each(iterator.key(), iterator.entry().value) {
            is_there = iterator.next()?;
        }
        Ok(())
    }
}

/// Gets a key, user bits and a value.
type Visit<'v> = dyn FnMut(&[u8], u32, &[u8]) + 'v;

/// Calls `visit` with the keys of `engine`.
fn each_entry(engine: &Arc<dyn Engine>, visit: &mut Visit<'_>) {
    if let Some(ordered) = Arc::clone(engine).as_ordered() {
        let snapshot = ordered.snapshot().expect("a snapshot");
        let mut iterator = snapshot.iterate(&silica_engine::KeyRange::ALL).expect("an iterator");
        let mut is_there = iterator.seek_to_first().expect("it is read");
        while is_there {
            let entry = iterator.entry();
            visit(iterator.key(), entry.user_bits, entry.value);
            is_there = iterator.next().expect("it is read");
        }
        return;
    }
    let scan = engine.as_scan().expect("it is scanned");
    let mut next = Some(0);
    while let Some(cursor) = next {
        let mut visit = |key: &[u8], entry: silica_engine::EntryRef<'_>| {
            visit(key, entry.user_bits, entry.value);
        };
        next = scan.scan(cursor, 1000, &mut visit).expect("it is read");
    }
}

/// Checks every object of `engine`, and that each page which belongs to none is one that will be
/// found: the first page of its object is there, too. Returns how many objects and how many pages
/// without one there are.
pub(super) fn check_all(engine: &Arc<dyn Engine>) -> (usize, usize) {
    let (mut objects, mut pages, mut elements) = (Vec::new(), BTreeSet::new(), BTreeMap::new());
    each_entry(engine, &mut |key, user_bits, value| {
        if let Some((id, ..)) = element_of_entry(key) {
            *elements.entry(id).or_insert(0) += 1;
        } else if let Some(page) = PageId::of_key(key) {
            pages.insert(page);
        } else if let Some(kind) = Kind::of_user_bits(user_bits) {
            let object = Object::decode(kind, value).expect("an object");
            objects.push((key.to_vec(), object));
        }
    });
    let count = objects.len();
    let ids: BTreeSet<u64> = objects.iter().filter_map(|(_, object)| object.id()).collect();
    for (key, object) in objects {
        let name = key.escape_ascii();
        assert!(!object.is_empty(), "{name} is empty");
        let checked = check(&object, &mut EnginePages(engine));
        let checked = checked.unwrap_or_else(|error| panic!("{name}: {error}"));
        for page in &checked.pages {
            assert!(pages.remove(page), "{name}: {page:?} belongs to two objects");
        }
        let entries = if object.is_of_entries() { checked.elements } else { 0 };
        let found = object.id().and_then(|id| elements.remove(&id)).unwrap_or(0);
        assert_eq!(found, entries, "{name}: elements of no use");
        if let Some(id) = object.id() {
            let owner = PageId { object: id, number: 0 };
            assert_eq!(engine.get(&owner.key()).unwrap().as_deref(), Some(&key[..]));
            pages.remove(&owner);
        }
    }
    for page in &pages {
        assert!(!ids.contains(&page.object), "{page:?} is of no use to its object");
        let first = PageId { number: 0, ..*page };
        assert!(pages.contains(&first), "nobody finds {page:?}");
    }
    for id in elements.keys() {
        assert!(pages.contains(&PageId { object: *id, number: 0 }), "nobody finds elements");
    }
    (count, pages.len() + elements.values().sum::<u64>() as usize)
}
