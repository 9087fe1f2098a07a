//! Objects as tables (`silica_hash` and its like): what the virtual tables in `shim/objects.c`
//! read.
//!
//! 1. A cursor sees one moment of its keyspace, from its first search until it is closed. An engine
//!    that has no moments is asked for some elements at a time, which are of one moment: none comes
//!    twice, and none is missed that is there all the while, unless a list moves its values.
//! 2. Elements are copied some at a time, whatever the object's size.

use crate::failure::{Failure, Result, code};
use crate::tables::{Tables, View};
use silica::{DEFAULT_KEYSPACE, Error, ErrorKind, KeyRange};
use silica_types::{Direction, Fields, Hash, Kind, Object, Page, PageId, Pages, StreamId, Zset};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

/// Elements that are copied at once, and their bytes after which there are no more.
const STEP: usize = 256;
const STEP_BYTES: usize = 64 << 10;
/// Numbered databases.
const DATABASES: i64 = 16;
/// How often some elements are read that others change meanwhile, on an engine without moments.
const READS_MAX: usize = 10_000;
/// The tree of an object that has its elements.
const ELEMENTS: usize = 0;

/// An element, or a field of a stream's entry.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Element {
    /// Field or member.
    pub(crate) name: Vec<u8>,
    pub(crate) value: Vec<u8>,
    /// Of a stream.
    pub(crate) id: String,
    /// In a list, from 0.
    pub(crate) position: u64,
    pub(crate) score: f64,
    /// Milliseconds until the field expires.
    pub(crate) ttl_ms: Option<i64>,
}

/// What a search is for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sought<'s> {
    pub(crate) place: Place<'s>,
    pub(crate) key: &'s [u8],
    /// The element with this field or member, or at this position.
    pub(crate) only: Option<(&'s [u8], i64)>,
}

/// Where an object is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place<'s> {
    Database(i64),
    Keyspace(&'s str),
}

/// An object as it stands in its keyspace.
struct Stored {
    kind: Kind,
    value: Vec<u8>,
    object: Object,
}

/// A cursor over the elements of an object.
pub(crate) struct Elements {
    tables: Rc<Tables>,
    kind: Kind,
    view: Option<(String, View)>,
    key: Vec<u8>,
    now_ms: u64,
    stored: Option<Stored>,
    ahead: VecDeque<Element>,
    /// The rank of the first element that is not copied.
    next: u64,
    /// The key of the one before it.
    last: Vec<u8>,
}

/// Pages as a cursor sees them.
struct Seen<'v>(&'v View);

impl Pages for Seen<'_> {
    fn get(&mut self, page: PageId) -> silica::Result<Arc<Page>> {
        let copy = |entry: Option<silica::EntryRef<'_>>| entry.map(|entry| entry.value.to_vec());
        let found = self.0.get(&page.key(), copy);
        let found = found.map_err(|failure| Error::new(ErrorKind::Io, failure.words))?;
        let missing = || {
            let text = "a page of the object is missing; `silica verify` tells of which";
            Error::new(ErrorKind::Corruption, text)
        };
        found.map(|bytes| Arc::new(bytes.into())).ok_or_else(missing)
    }

    fn put(&mut self, _: PageId, _: Arc<Page>) {}

    fn remove(&mut self, _: PageId) {}

    fn new_id(&mut self) -> silica::Result<u64> {
        Err(Error::new(ErrorKind::Unsupported, "objects are only read here"))
    }

    fn element(&mut self, key: &[u8]) -> silica::Result<Option<Vec<u8>>> {
        let copy = |entry: Option<silica::EntryRef<'_>>| entry.map(|entry| entry.value.to_vec());
        let found = self.0.get(key, copy);
        found.map_err(|failure| Error::new(ErrorKind::Io, failure.words))
    }

    fn walk_elements(
        &mut self,
        (lower, upper): (&[u8], &[u8]),
        direction: Direction,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> silica::Result<()> {
        let Some(mut iterator) = self.0.iterate(&KeyRange::new(lower, upper))? else {
            return Ok(());
        };
        let is_forward = direction == Direction::Forward;
        let mut is_there =
            if is_forward { iterator.seek_to_first()? } else { iterator.seek_to_last()? };
        while is_there && each(iterator.key(), iterator.entry().value) {
            is_there = if is_forward { iterator.next()? } else { iterator.prev()? };
        }
        Ok(())
    }
}

/// The keyspace of a place, and whether it may be missing.
fn keyspace_of(place: Place<'_>) -> Result<(String, bool)> {
    match place {
        Place::Keyspace(name) => Ok((name.into(), false)),
        Place::Database(0) => Ok((DEFAULT_KEYSPACE.into(), true)),
        Place::Database(number) if (1..DATABASES).contains(&number) => {
            Ok((format!("db{number}"), true))
        }
        Place::Database(number) => {
            let words = format!("databases have numbers from 0 to 15, not {number}");
            Err(Failure::new(code::ERROR, words))
        }
    }
}

impl Elements {
    pub(crate) fn new(tables: Rc<Tables>, kind: Kind) -> Self {
        Elements {
            tables,
            kind,
            view: None,
            key: Vec::new(),
            now_ms: 0,
            stored: None,
            ahead: VecDeque::new(),
            next: 0,
            last: Vec::new(),
        }
    }

    /// To the first element that is sought.
    ///
    /// # Errors
    /// WRONGTYPE if the key holds something else; those of the keyspace.
    pub(crate) fn search(&mut self, sought: Sought<'_>) -> Result<()> {
        let (name, may_be_missing) = keyspace_of(sought.place)?;
        self.ahead.clear();
        (self.key, self.next, self.last) = (sought.key.to_vec(), 0, Vec::new());
        if self.view.as_ref().is_none_or(|(known, _)| *known != name) {
            let view = self.tables.look(&name, may_be_missing)?;
            self.view = Some((name, view));
        }
        let Some((_, view)) = &self.view else { return Ok(()) };
        self.now_ms = view.unix_ms();
        self.stored = stored(view, &self.key)?;
        if self.stored.as_ref().is_some_and(|stored| stored.kind != self.kind) {
            self.stored = None;
            let words = "WRONGTYPE Operation against a key holding the wrong kind of value";
            return Err(Failure::new(code::ERROR, words));
        }
        match sought.only {
            Some(only) => self.find(only),
            None => self.fetch(),
        }
    }

    /// Copies the one element that is looked for.
    fn find(&mut self, (name, position): (&[u8], i64)) -> Result<()> {
        let found =
            self.at_one_moment(|cursor, object, view| cursor.one(object, view, (name, position)))?;
        self.ahead.extend(found.flatten());
        self.stored = None;
        Ok(())
    }

    fn one(
        &self,
        object: &mut Object,
        view: &View,
        (name, position): (&[u8], i64),
    ) -> silica::Result<Option<Element>> {
        let mut pages = Seen(view);
        let own = || Element { name: name.to_vec(), ..Element::default() };
        Ok(match self.kind {
            Kind::Hash => object
                .tree(ELEMENTS, &mut pages)
                .get(name)?
                .and_then(|value| self.field(name, &value)),
            Kind::Set => object.tree(ELEMENTS, &mut pages).contains(name)?.then(own),
            Kind::Zset => {
                Zset::of(object, &mut pages).score(name)?.map(|score| Element { score, ..own() })
            }
            Kind::List => match u64::try_from(position) {
                Ok(position) => {
                    let value = object.tree(ELEMENTS, &mut pages).at(position)?;
                    value.map(|(_, value)| Element { value, position, ..Element::default() })
                }
                Err(_) => None,
            },
            Kind::Stream => None,
        })
    }

    /// A field, unless it has expired.
    fn field(&self, name: &[u8], stored: &[u8]) -> Option<Element> {
        let value = Hash::shown(stored, self.now_ms)?.to_vec();
        let expires = Hash::expires_unix_ms(stored).ok().filter(|expires| *expires > 0);
        let ttl_ms = expires.map(|at| i64::try_from(at - self.now_ms).unwrap_or(i64::MAX));
        Some(Element { name: name.to_vec(), value, ttl_ms, ..Element::default() })
    }

    /// Copies the next elements, if none is left.
    fn fetch(&mut self) -> Result<()> {
        while self.ahead.is_empty() && self.stored.is_some() {
            let some = self.at_one_moment(|cursor, object, view| cursor.some(object, view))?;
            match some {
                Some((elements, last, next)) if next > self.next => {
                    (self.last, self.next) = (last, next);
                    self.ahead = elements;
                }
                _ => self.stored = None,
            }
        }
        Ok(())
    }

    /// Elements from the place of the cursor on, the key of the last one, and the rank behind it.
    fn some(
        &self,
        object: &mut Object,
        view: &View,
    ) -> silica::Result<(VecDeque<Element>, Vec<u8>, u64)> {
        let mut pages = Seen(view);
        let is_of_entries = object.is_of_entries();
        let mut tree = object.tree(ELEMENTS, &mut pages);
        let mut rank = self.next;
        if is_of_entries {
            // They are found by the last key: ranks would have to be counted each time.
        } else if self.kind != Kind::List && rank > 0 && matches!(view, View::Live(_)) {
            // Others may have come or gone before it.
            let (found, is_there) = tree.find(&self.last)?;
            rank = found + u64::from(is_there);
        }
        let (mut elements, mut last) = (VecDeque::new(), self.last.clone());
        let (mut count, mut bytes, mut failed) = (0, 0, None);
        let behind = (rank > 0).then(|| self.last.clone());
        let mut each = |key: &[u8], value: &[u8]| {
            count += 1;
            bytes += key.len() + value.len();
            match self.decode(rank + count - 1, key, value) {
                Ok(decoded) => elements.extend(decoded),
                Err(error) => failed = Some(error),
            }
            last.clear();
            last.extend_from_slice(key);
            (count as usize) < STEP && bytes < STEP_BYTES && failed.is_none()
        };
        match is_of_entries {
            true => tree.scan_behind(behind.as_deref(), &mut each)?,
            false => tree.scan(rank, Direction::Forward, &mut each)?,
        }
        match failed {
            Some(error) => Err(error),
            // In terms of the ranks of this moment; only that it grows matters to others.
            None if count == 0 => Ok((elements, last, self.next)),
            None => Ok((elements, last, (rank + count).max(self.next + 1))),
        }
    }

    /// The rows of an element.
    fn decode(&self, position: u64, key: &[u8], value: &[u8]) -> silica::Result<Vec<Element>> {
        let element = Element { position, ..Element::default() };
        Ok(match self.kind {
            Kind::Hash => self.field(key, value).into_iter().collect(),
            Kind::List => vec![Element { value: value.to_vec(), ..element }],
            Kind::Set => vec![Element { name: key.to_vec(), ..element }],
            Kind::Zset => {
                let (member, score) = Zset::element(ELEMENTS, key, value)?;
                vec![Element { name: member.to_vec(), score, ..element }]
            }
            Kind::Stream => {
                let id = StreamId::of_bytes(key).unwrap_or_default().to_string();
                let all: Vec<&[u8]> = Fields::decode(value)?.collect();
                let row = |pair: &[&[u8]]| Element {
                    id: id.clone(),
                    name: pair[0].to_vec(),
                    value: pair[1].to_vec(),
                    ..Element::default()
                };
                all.chunks_exact(2).map(row).collect()
            }
        })
    }

    /// What `read` makes of the object; `None` if it is gone. On an engine without moments it is
    /// read anew until nobody has changed it meanwhile.
    fn at_one_moment<T>(
        &mut self,
        read: impl Fn(&Self, &mut Object, &View) -> silica::Result<T>,
    ) -> Result<Option<T>> {
        let Some((_, view)) = &self.view else { return Ok(None) };
        if !matches!(view, View::Live(_)) {
            let Some(mut stored) = self.stored.take() else { return Ok(None) };
            let value = read(self, &mut stored.object, view)?;
            self.stored = Some(stored);
            return Ok(Some(value));
        }
        for _ in 0..READS_MAX {
            let mut before = match stored(view, &self.key)? {
                Some(before) if before.kind == self.kind => before,
                _ => return Ok(None),
            };
            let value = read(self, &mut before.object, view);
            view.settle();
            let after = stored(view, &self.key)?;
            if after.is_none_or(|after| after.value != before.value) {
                continue;
            }
            return Ok(Some(value?));
        }
        let words = "others have changed the object during each look at it; read it once they rest";
        Err(Failure::new(code::BUSY, words))
    }

    /// To the next element.
    ///
    /// # Errors
    /// Those of the keyspace.
    pub(crate) fn step(&mut self) -> Result<()> {
        self.ahead.pop_front();
        self.fetch()
    }

    /// The element here; `None` at the end.
    pub(crate) fn here(&self) -> Option<&Element> {
        self.ahead.front()
    }
}

/// The object at `key`; `None` if there is nothing, or an entry that is none.
///
/// # Errors
/// WRONGTYPE of a string; those of the keyspace.
fn stored(view: &View, key: &[u8]) -> Result<Option<Stored>> {
    let found =
        view.get(key, |entry| entry.map(|entry| (entry.user_bits, entry.value.to_vec())))?;
    let Some((user_bits, value)) = found else { return Ok(None) };
    let Some(kind) = Kind::of_user_bits(user_bits) else {
        let words = "WRONGTYPE Operation against a key holding the wrong kind of value";
        return Err(Failure::new(code::ERROR, words));
    };
    let object = Object::decode(kind, &value)?;
    Ok(Some(Stored { kind, value, object }))
}
