//! The objects and strings that a step has opened, and their pages.
//!
//! All of it is read when it is asked for, kept and changed in memory, and written by
//! [`Objects::commit`] as one batch, if the engine still holds what was read.

mod commit;
mod elements;
mod overlaid;
mod slots;
mod telling;

pub(crate) use self::overlaid::Overlaid;
pub(super) use self::slots::Value;

use self::elements::Elements;
use self::slots::{Slot, Slots};
use super::{Done, WRONG_TYPE};
use crate::overlay::Owned;
use crate::replication::Effects;
use crate::resp::events::{Classes, Event, Expiry};
use crate::service::Service;
use crate::table::INNER_KEY;
use crate::waiters::Wait;
use silica::engine::{Engine, EntryRef, Error, ErrorKind, GetSink, Result};
use silica_base::Prng;
use silica_types::{Kind, Object, PageId, Pages, Zset, is_inner, is_marked};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Memory of an entry or page beside its bytes.
const SLOT_BYTES: usize = 160;
/// Pages that are removed together with their object.
const PAGES_FREED_MAX: u64 = 64;
/// Pages and keys that a command may ask for before it goes on apart from others: about a
/// millisecond of a loop's time, if all of it is in memory.
const ASKED_MAX: usize = 1_000;
/// Bytes of pages that are kept in case they are read again.
const PAGES_BYTES_KEPT: usize = 4 << 20;

/// Why a command on objects has not happened.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command's own error, its code first.
    Reply(String),
    /// The engine's.
    Engine(Error),
    /// There is nothing for it, and it waits until there is.
    Wait(Wait),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Engine(error)
    }
}

impl Failure {
    /// One with this text.
    pub(crate) fn reply(text: impl Into<String>) -> Self {
        Failure::Reply(text.into())
    }

    /// The key is of another type.
    pub(crate) fn wrong_type() -> Self {
        Failure::reply(WRONG_TYPE)
    }
}

/// An object that a command works on. It is the command's until it is closed or stored.
#[derive(Debug)]
pub(crate) struct Opened {
    /// The place of its key.
    slot: usize,
    pub(crate) object: Box<Object>,
    /// When its key expires, in Unix milliseconds; 0 for never.
    pub(crate) expires_unix_ms: u64,
}

/// What a step has opened.
pub(crate) struct Objects<'e> {
    service: &'e Service,
    /// The number of the database.
    pub(crate) db: usize,
    /// Unix milliseconds.
    pub(crate) now_ms: u64,
    pages: Overlaid<'e>,
    slots: Slots,
    /// Keys that the running command has asked for.
    asked: usize,
    /// Places of those of them whose objects the command has not given back.
    taken: Vec<usize>,
    /// Places of keys that it has removed: what it stores there is not new.
    replaced: Vec<usize>,
    /// The connection that the running command is of.
    client: u64,
    /// A command has read pages, or looked at several entries: they must fit together.
    is_linked: bool,
    /// A command has looked at several keys.
    is_of_several: bool,
    /// What the running command has found out before it began to wait.
    pub(crate) resolved: Arc<Vec<Vec<u8>>>,
    /// Places of keys that were changed, and by which connections, in their order.
    changed: Vec<(u64, usize)>,
    /// What is told of them, if somebody listens.
    pub(crate) events: Vec<Event>,
    has_listeners: bool,
    /// Pages that nobody owns once all of this is written: their objects' ids, and ends.
    pub(crate) dead: Vec<(u64, u64)>,
    /// The running command does not wait, or not any more.
    pub(crate) is_over: bool,
    /// What replicas are told of all this.
    pub(crate) effects: Effects,
    /// Keys that were changed and expire, and when, if replicas are told of them.
    pub(crate) times: Vec<(Box<[u8]>, u64)>,
    /// What the running command has said that replicas are told, instead of itself.
    said: Option<Effects>,
    is_told: bool,
}

impl<'e> Objects<'e> {
    /// Nothing opened yet of `engine`; at most `bytes_max` bytes will be held.
    pub(crate) fn new(
        service: &'e Service,
        engine: &'e dyn Engine,
        db: usize,
        now_ms: u64,
        bytes_max: usize,
    ) -> Self {
        let above = service.zset_paged_max.load(Relaxed);
        let elements = Elements::new(service.databases.whole(db), above);
        Objects {
            service,
            db,
            now_ms,
            pages: Overlaid::new(engine, elements, now_ms, bytes_max),
            slots: Slots::new(),
            asked: 0,
            taken: Vec::new(),
            replaced: Vec::new(),
            client: 0,
            is_linked: false,
            is_of_several: false,
            resolved: Arc::default(),
            changed: Vec::new(),
            events: Vec::new(),
            has_listeners: service.events.told() != Classes::NONE,
            dead: Vec::new(),
            is_over: false,
            effects: Effects::default(),
            times: Vec::new(),
            said: None,
            is_told: false,
        }
    }

    /// The service that the commands are part of.
    pub(crate) fn service(&self) -> &'e Service {
        self.service
    }

    /// A command of the connection `client` begins, which may change something if it `writes`, and
    /// has to go on elsewhere, once it takes long, if it is `short`.
    pub(crate) fn begin(&mut self, client: u64, writes: bool, short: bool) {
        self.pages.begin(writes, short);
        self.replaced.clear();
        (self.asked, self.client) = (0, client);
    }

    /// True if the command has failed because it has to go on elsewhere.
    pub(crate) fn takes_long(&self) -> bool {
        self.pages.takes_long()
    }

    /// The command has ended.
    ///
    /// # Errors
    /// Fails if it was refused, and has kept an object that earlier commands have changed.
    pub(crate) fn end(&mut self) -> Result<()> {
        self.is_linked |= self.asked > 1 || self.pages.has_read;
        self.is_of_several |= self.asked > 1;
        for place in self.taken.drain(..) {
            let slot = self.slots.at(place);
            if slot.is_changed {
                let text = "a command was refused that had begun to change an object";
                return Err(Error::new(ErrorKind::Conflict, text));
            }
            slot.put_back();
        }
        Ok(())
    }

    /// True if the object was there when the command asked for it.
    fn give_back(&mut self, place: usize) -> bool {
        let found = self.taken.iter().position(|taken| *taken == place);
        found.map(|at| self.taken.swap_remove(at)).is_some()
    }

    fn note_change(&mut self, place: usize) {
        self.changed.push((self.client, place));
    }

    /// Reads `keys` at once.
    pub(crate) fn fetch(&mut self, keys: &[&[u8]]) -> Result<()> {
        let (first, mut unknown) = (self.slots.len(), Vec::with_capacity(keys.len()));
        self.slots.reserve(keys.len());
        self.changed.reserve(keys.len());
        let is_new = |key: &&&[u8]| self.slots.find_or_add(key).1;
        unknown.extend(keys.iter().filter(is_new));
        if unknown.is_empty() {
            return Ok(());
        }
        // What was not read is not known.
        self.read_from(first, &unknown).inspect_err(|_| self.slots.truncate(first))
    }

    /// Reads the keys from place `first` on, which are `unknown`.
    fn read_from(&mut self, first: usize, unknown: &[&[u8]]) -> Result<()> {
        self.pages.ask_for(unknown.len())?;
        self.pages.elements.look_anew();
        self.pages.engine.get_many(unknown, &mut self.slots.reader(first, self.now_ms))?;
        for slot in &self.slots.all()[first..] {
            let value = slot.seen().map_or(0, |entry| entry.value.len());
            self.pages.hold(slot.key.len() + value)?;
        }
        Ok(())
    }

    /// The place of `key`, which was read.
    fn place(&mut self, key: &[u8]) -> Result<usize> {
        self.asked += 1;
        if let Some(place) = self.slots.find(key) {
            return Ok(place);
        }
        self.fetch(&[key])?;
        Ok(self.slots.find(key).expect("it was fetched"))
    }

    fn slot(&mut self, key: &[u8]) -> Result<&mut Slot> {
        let place = self.place(key)?;
        Ok(self.slots.at(place))
    }

    /// The object at `key`; `None` if there is nothing.
    ///
    /// The command gives it back with [`Objects::close`] or [`Objects::store`]: until then the key
    /// is empty for whoever opens it once more.
    ///
    /// # Errors
    /// WRONGTYPE if the key holds something else; those of the engine.
    pub(crate) fn open(&mut self, key: &[u8], kind: Kind) -> Done<Option<Opened>> {
        if is_inner(key) {
            return Err(Failure::reply(INNER_KEY));
        }
        let place = self.place(key)?;
        let slot = self.slots.at(place);
        let (object, expires_unix_ms) = match std::mem::replace(&mut slot.value, Value::Nothing) {
            Value::Nothing => return Ok(None),
            Value::Object(object, expires) if object.kind() == kind => (object, expires),
            other => {
                slot.value = other;
                slot.take_decoded(kind)?.ok_or_else(Failure::wrong_type)?
            }
        };
        if let Some(state) = object.state() {
            self.pages.elements.load(state, &self.service.known_counts);
            self.pages.settle_entries(state.0, key)?;
        }
        self.taken.push(place);
        Ok(Some(Opened { slot: place, object, expires_unix_ms }))
    }

    /// As [`Objects::open`], but an object without elements if there is nothing.
    pub(crate) fn open_or_new(&mut self, key: &[u8], kind: Kind) -> Done<Opened> {
        if let Some(opened) = self.open(key, kind)? {
            return Ok(opened);
        }
        let slot = self.slots.find(key).expect("it was asked for");
        Ok(Opened { slot, object: Box::new(Object::new(kind)), expires_unix_ms: 0 })
    }

    /// Gives an object back that was not changed.
    pub(crate) fn close(&mut self, opened: Opened) {
        let Opened { slot, object, expires_unix_ms } = opened;
        if self.give_back(slot) {
            self.slots.at(slot).value = Value::Object(object, expires_unix_ms);
        }
    }

    /// Gives an object back that was not changed, and says why the command is refused.
    pub(crate) fn refuse(&mut self, opened: Opened, text: impl Into<String>) -> Failure {
        self.close(opened);
        Failure::reply(text)
    }

    /// Gives an object back that was changed. One without elements is gone then, and its key, if it
    /// is no stream.
    pub(crate) fn store(&mut self, opened: Opened) -> Done {
        self.slots.at(opened.slot).is_told = true;
        self.store_aside(opened)
    }

    /// As [`Objects::store`], of which no WATCH is told.
    pub(crate) fn store_aside(&mut self, opened: Opened) -> Done {
        let Opened { slot: place, mut object, expires_unix_ms } = opened;
        let was_there = self.give_back(place) || self.replaced.contains(&place);
        if !was_there && !object.is_empty() && self.has_listeners {
            let key = self.slots.at(place).key.clone();
            self.event(Classes::NEW, "new", &key);
        }
        self.note_change(place);
        if object.kind() == Kind::Zset {
            Zset::of(&mut object, &mut self.pages).settle()?;
        }
        self.dead.extend(object.take_left());
        if object.is_empty() && object.kind() != Kind::Stream {
            if let Some(id) = object.id() {
                object.free(&mut self.pages)?;
                self.pages.remove(PageId { object: id, number: 0 });
            }
            let slot = self.slots.at(place);
            (slot.value, slot.is_changed) = (Value::Nothing, true);
            slot.spare = Some(object);
            return Ok(());
        }
        object.touch(self.pages.prng.next_u64());
        let slot = self.slots.at(place);
        if let Some(id) = object.id() {
            // Who finds the pages finds the key that they belong to.
            let first = PageId { object: id, number: 0 };
            if !slot.had_pages(id) && !self.pages.has(first, &slot.key) {
                self.pages.put(first, Arc::new(slot.key.to_vec().into()));
            }
        }
        slot.value = Value::Object(object, expires_unix_ms);
        slot.is_changed = true;
        Ok(())
    }

    /// Removes whatever `key` holds; false if there is nothing.
    pub(crate) fn remove(&mut self, key: &[u8]) -> Done<bool> {
        let was_there = self.take_away(key)?;
        if was_there {
            self.replaced.extend(self.slots.find(key));
        }
        Ok(was_there)
    }

    fn take_away(&mut self, key: &[u8]) -> Result<bool> {
        let place = self.place(key)?;
        let slot = self.slots.at(place);
        let object = match (&slot.value, slot.kind()) {
            (Value::Nothing, _) => return Ok(false),
            (Value::Object(..), _) => match std::mem::replace(&mut slot.value, Value::Nothing) {
                Value::Object(object, _) => Some(object),
                _ => None,
            },
            (_, Some(kind)) => {
                let bytes = slot.bytes().map(|entry| Object::decode(kind, &entry.value));
                bytes.transpose()?.map(Box::new)
            }
            (_, None) => None,
        };
        (slot.value, slot.is_changed, slot.is_told) = (Value::Nothing, true, true);
        if let Some(mut object) = object
            && let Some(id) = object.id()
        {
            // Many pages are removed later, apart from other requests.
            match object.pages_end() {
                0..PAGES_FREED_MAX if !object.is_of_entries() => {
                    object.free(&mut self.pages)?;
                    self.pages.remove(PageId { object: id, number: 0 });
                }
                end => self.dead.push((id, end)),
            }
        }
        self.note_change(place);
        Ok(true)
    }

    /// True if `key` holds anything.
    pub(super) fn is_there(&mut self, key: &[u8]) -> Result<bool> {
        Ok(!matches!(self.slot(key)?.value, Value::Nothing))
    }

    /// A copy of what `key` holds, with pages of its own.
    pub(super) fn value_of(&mut self, key: &[u8]) -> Result<Value> {
        let slot = self.slot(key)?;
        let (mut object, expires_unix_ms) = match (&slot.value, slot.bytes(), slot.kind()) {
            (Value::Object(object, expires), ..) => (object.clone(), *expires),
            (_, Some(entry), Some(kind)) => {
                (Box::new(Object::decode(kind, &entry.value)?), entry.expires_unix_ms)
            }
            (_, Some(entry), None) => return Ok(Value::Bytes(entry.clone())),
            (_, None, _) => return Ok(Value::Nothing),
        };
        Ok(Value::Object(Box::new(object.copy(&mut self.pages)?), expires_unix_ms))
    }

    /// Stores `value`, whose pages are its own, at `key`, whatever it holds.
    pub(super) fn replace(&mut self, key: &[u8], value: Value) -> Result<()> {
        self.take_away(key)?;
        if let Value::Object(object, _) = &value
            && let Some(id) = object.id()
        {
            self.pages.put(PageId { object: id, number: 0 }, Arc::new(key.to_vec().into()));
        }
        let place = self.place(key)?;
        let slot = self.slots.at(place);
        (slot.value, slot.is_changed, slot.is_told) = (value, true, true);
        self.note_change(place);
        Ok(())
    }

    /// The type of what `key` holds; `Ok(None)` of a string, an error text if there is nothing.
    pub(crate) fn kind(&mut self, key: &[u8]) -> Done<Option<Option<Kind>>> {
        let slot = self.slot(key)?;
        Ok(match slot.value {
            Value::Nothing => None,
            _ => Some(slot.kind()),
        })
    }

    /// The bytes of the value of `key`, and its type if it is no string; `None` if there is
    /// nothing. A large string is not read.
    pub(crate) fn measure(&mut self, key: &[u8]) -> Result<Option<(usize, Option<Kind>)>> {
        if let Some(place) = self.slots.find(key) {
            let slot = self.slots.at(place);
            return Ok(match &slot.value {
                Value::Object(object, _) => Some((object.encode().len(), Some(object.kind()))),
                _ => slot.bytes().map(|entry| (entry.value.len(), slot.kind())),
            });
        }
        let mut sink = Measured(None);
        self.pages.engine.get_many(&[key], &mut sink)?;
        Ok(sink.0)
    }

    /// The string at `key`, and when it expires.
    ///
    /// # Errors
    /// WRONGTYPE if it is none.
    pub(crate) fn string(&mut self, key: &[u8]) -> Done<Option<(Vec<u8>, u64)>> {
        let slot = self.slot(key)?;
        match (&slot.value, slot.bytes()) {
            (Value::Nothing, _) => Ok(None),
            (_, Some(entry)) if !is_marked(entry.user_bits) => {
                Ok(Some((entry.value.clone(), entry.expires_unix_ms)))
            }
            _ => Err(Failure::wrong_type()),
        }
    }

    /// Stores a string at `key`, whatever it holds.
    pub(crate) fn put_string(&mut self, key: &[u8], value: Vec<u8>, expires_unix_ms: u64) -> Done {
        self.remove(key)?;
        let place = self.place(key)?;
        let slot = self.slots.at(place);
        slot.value = Value::Bytes(Owned { value, expires_unix_ms, user_bits: 0 });
        (slot.is_changed, slot.is_told) = (true, true);
        self.note_change(place);
        Ok(())
    }

    /// Stores `object`, whose pages are its own, at `key`, whatever that holds.
    pub(crate) fn put_object(&mut self, key: &[u8], mut object: Object, expires: u64) -> Done {
        object.touch(self.pages.prng.next_u64());
        Ok(self.replace(key, Value::Object(Box::new(object), expires))?)
    }

    /// Pages, for what works on an object.
    pub(crate) fn pages(&mut self) -> &mut Overlaid<'e> {
        &mut self.pages
    }

    /// Random numbers.
    pub(crate) fn prng(&mut self) -> &mut Prng {
        &mut self.pages.prng
    }

    /// Notes an event of `key`.
    pub(crate) fn event(&mut self, class: Classes, name: &'static str, key: &[u8]) {
        self.event_at(class, name, key, Expiry::Same);
    }

    /// Notes an event of `key`, and what is known afterwards of its expiry.
    pub(crate) fn event_at(
        &mut self,
        class: Classes,
        name: &'static str,
        key: &[u8],
        expiry: Expiry,
    ) {
        if self.has_listeners {
            let db = self.db as u8;
            self.events.push(Event { db, key: key.into(), class, name, expiry });
        }
    }

    /// Keys that were read and expire, and when, in Unix milliseconds.
    pub(crate) fn expiring(&self) -> impl Iterator<Item = (&[u8], u64)> {
        let expires = |slot: &Slot| slot.seen().map_or(0, |seen| seen.expires_unix_ms);
        let all = self.slots.all().iter().map(move |slot| (&*slot.key, expires(slot)));
        all.filter(|(_, at)| *at != 0)
    }

    /// How many pages are new, less those that are removed.
    pub(crate) fn pages_made(&self) -> i64 {
        self.pages.made
    }

    /// True if anything was changed.
    pub(crate) fn is_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Keys that were changed, and by which connections, in their order.
    pub(crate) fn changed(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.changed.iter().map(|(client, place)| (*client, &*self.slots.all()[*place].key))
    }
}

/// Bytes of a value up to which it may be an object, and so is read.
const OBJECT_BYTES_MAX: usize = 64 << 10;

/// Measures the value of one key, and says of which type it is.
struct Measured(Option<(usize, Option<Kind>)>);

impl GetSink for Measured {
    fn found(&mut self, _: usize, entry: EntryRef<'_>) {
        self.0 = Some((entry.value.len(), Kind::of_user_bits(entry.user_bits)));
    }

    fn wants(&mut self, _: usize, bytes: usize) -> bool {
        self.0 = Some((bytes, None));
        bytes <= OBJECT_BYTES_MAX
    }
}
