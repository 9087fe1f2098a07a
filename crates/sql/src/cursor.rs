//! A cursor: a place in a tree, known by its key.
//!
//! 1. The place's key is that of the iterator where the cursor is *aligned*, else its own. So it
//!    outlives the iterator, which is opened when somebody steps, and opened anew when the
//!    transaction has become another one.
//! 2. A seek by a whole key is a get. What is not there leaves a *gap*: the cursor counts as being
//!    at the entry before the gap, which nobody has looked for yet.
//! 3. An iterator shows an entry as it was when it came there. The record of a key that this cursor
//!    has written is read from the transaction.
//! 4. In a *burst* the cursor is at one of several entries that were copied at once; which one the
//!    caller knows. The iterator is at the last of them, or, if that was the last of all or an
//!    error came behind it, nowhere. [`TreeCursor::leave_burst`] comes before every other call.
//! 5. In a *page* (`pages.rs`) the cursor is at one of its entries, and the caller knows which one.
//!    [`TreeCursor::leave_page`] or [`TreeCursor::forget_page`] comes before every other call.

use crate::buffers::Buffers;
use crate::encoding::{BEHIND, Column, Field, encode};
use crate::failure::{Failure, Result, code};
use crate::layout::{prefix, row_key, rowid_of};
use crate::long_keys::Entries;
use crate::pages::{Known, Page};
use crate::storage::{Cursor, Equal, Found};
use crate::transaction::{Shared, State};
use crate::view::Idle;
use silica::engine::EntryBurst;
use std::mem::take;
use std::rc::Rc;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Nowhere,
    /// At the entry with the key.
    At,
    /// Where the entry with the key was.
    Between,
    /// Before the first entry that is not below the key, and, by rule 2, at the one before that.
    Gap,
    /// As a gap, before the first entry of all.
    GapAtStart,
}

/// Where the record is of an entry that the cursor is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// The iterator has it.
    Iterator,
    /// It was copied.
    Buffer,
    /// Nobody has asked for it.
    Unread,
}

/// All of a cursor that a move changes.
struct Body {
    root: u32,
    place: Place,
    source: Source,
    is_aligned: bool,
    key: Vec<u8>,
    record: Vec<u8>,
    iterator: Option<Idle>,
    /// Of what is read, when the iterator was opened.
    generation: u64,
}

impl Body {
    fn key(&self) -> &[u8] {
        match &self.iterator {
            Some(Idle { iterator, .. }) if self.is_aligned => iterator.key(),
            _ => &self.key,
        }
    }

    /// Keeps the key, since the iterator is about to leave it.
    fn keep_key(&mut self) {
        if let Some(Idle { iterator, .. }) = self.iterator.as_ref().filter(|_| self.is_aligned) {
            self.key.clear();
            self.key.extend_from_slice(iterator.key());
            self.is_aligned = false;
        }
    }

    /// The iterator, to be moved elsewhere.
    fn open(&mut self, state: &mut State) -> Result<&mut Entries> {
        self.is_aligned = false;
        if self.generation != state.generation() {
            self.iterator = None;
            self.generation = state.generation();
        }
        let iterator = match self.iterator.take() {
            Some(iterator) => iterator,
            None => state.iterate(self.root)?,
        };
        Ok(&mut self.iterator.insert(iterator).iterator)
    }

    /// The iterator, if a step leads from this place to its neighbours.
    fn at_hand(&mut self, state: &State) -> Option<&mut Entries> {
        let is_here = self.is_aligned && self.generation == state.generation();
        self.iterator.as_mut().filter(|_| is_here).map(|idle| &mut idle.iterator)
    }

    /// The iterator was moved, and is at an entry or not.
    fn arrive(&mut self, is_there: bool) -> bool {
        self.place = if is_there { Place::At } else { Place::Nowhere };
        (self.is_aligned, self.source) = (is_there, Source::Iterator);
        is_there
    }

    fn leave(&mut self) -> Place {
        std::mem::replace(&mut self.place, Place::Nowhere)
    }

    fn next(&mut self, state: &mut State) -> Result<bool> {
        let place = self.leave();
        let is_there = match place {
            Place::Nowhere => return Ok(false),
            Place::At | Place::Between => match self.at_hand(state) {
                Some(iterator) => iterator.next()?,
                None => {
                    self.keep_key();
                    // Right behind the key.
                    let mut target = take(&mut self.key);
                    target.push(0);
                    let sought = self.open(state).map(|iterator| iterator.seek(&target));
                    self.key = target;
                    sought??
                }
            },
            Place::Gap | Place::GapAtStart => {
                let target = take(&mut self.key);
                let sought = self.open(state).map(|iterator| iterator.seek(&target));
                self.key = target;
                sought??
            }
        };
        Ok(self.arrive(is_there))
    }

    fn previous(&mut self, state: &mut State) -> Result<bool> {
        if self.place == Place::Gap {
            self.settle(state)?;
        }
        let place = self.leave();
        let is_there = match place {
            Place::Nowhere | Place::Gap | Place::GapAtStart => return Ok(false),
            Place::At | Place::Between => match self.at_hand(state) {
                Some(iterator) => iterator.prev()?,
                None => self.seek_before(state)?,
            },
        };
        Ok(self.arrive(is_there))
    }

    /// Moves the iterator to the last entry below the key.
    fn seek_before(&mut self, state: &mut State) -> Result<bool> {
        self.keep_key();
        let target = take(&mut self.key);
        let sought = self.open(state).and_then(|iterator| {
            let is_there = iterator.seek_for_prev(&target)?;
            Ok(if is_there && *iterator.key() == *target { iterator.prev()? } else { is_there })
        });
        self.key = target;
        sought
    }

    /// Goes from a gap to the entry before it.
    fn settle(&mut self, state: &mut State) -> Result<()> {
        if self.place == Place::Gap {
            self.leave();
            match self.seek_before(state)? {
                true => drop(self.arrive(true)),
                false => self.place = Place::GapAtStart,
            }
        }
        Ok(())
    }

    /// Copies the record of the key; false if there is none.
    fn fetch(&mut self, state: &State) -> Result<bool> {
        let key = match &self.iterator {
            Some(Idle { iterator, .. }) if self.is_aligned => iterator.key(),
            _ => &self.key,
        };
        let record = &mut self.record;
        let is_there = state.get(key, |entry| {
            record.clear();
            entry.is_some_and(|entry| {
                record.extend_from_slice(entry);
                true
            })
        })?;
        self.source = Source::Buffer;
        Ok(is_there)
    }

    /// Goes to the gap before what is not below `key`.
    fn go_to_gap(&mut self) -> Found {
        (self.place, self.is_aligned) = (Place::Gap, false);
        Found::Before
    }

    /// Goes to the key in `key`.
    fn seek_whole(&mut self, state: &State) -> Result<Found> {
        self.leave();
        self.is_aligned = false;
        let is_there = self.fetch(state)?;
        self.place = if is_there { Place::At } else { Place::Gap };
        Ok(if is_there { Found::Here } else { Found::Before })
    }

    /// Goes to the first entry that begins with `key`.
    fn seek_first(&mut self, state: &mut State) -> Result<Found> {
        self.leave();
        let prefix = take(&mut self.key);
        let sought = self.open(state).and_then(|iterator| {
            Ok(iterator.seek(&prefix)? && iterator.key().starts_with(&prefix))
        });
        self.key = prefix;
        if sought? {
            self.arrive(true);
            return Ok(Found::Here);
        }
        self.place = Place::Gap;
        Ok(Found::Before)
    }

    fn end(&mut self, state: &mut State, is_last: bool) -> Result<bool> {
        self.leave();
        let iterator = self.open(state)?;
        let is_there = if is_last { iterator.seek_to_last()? } else { iterator.seek_to_first()? };
        Ok(self.arrive(is_there))
    }

    fn restore(&mut self, state: &mut State) -> Result<bool> {
        self.settle(state)?;
        if matches!(self.place, Place::At | Place::Between) {
            let is_there = self.fetch(state)?;
            self.place = if is_there { Place::At } else { Place::Between };
        }
        Ok(self.place == Place::At)
    }

    fn record(&mut self, state: &mut State) -> Result<&[u8]> {
        self.settle(state)?;
        if self.place != Place::At {
            return Err(Failure::misuse("the cursor is at no entry"));
        }
        if self.source == Source::Unread && !self.fetch(state)? {
            let words = "an entry is gone that a cursor was at";
            return Err(Failure::new(code::CORRUPT, words));
        }
        match &self.iterator {
            Some(Idle { iterator, .. }) if self.source == Source::Iterator => Ok(iterator.record()),
            _ => Ok(&self.record),
        }
    }

    /// The cursor is at `key`, which was written.
    fn go_to_written(&mut self, state: &State, key: &[u8]) {
        let is_here = self.at_hand(state).is_some_and(|iterator| *iterator.key() == *key);
        if !is_here {
            self.is_aligned = false;
            self.key.clear();
            self.key.extend_from_slice(key);
        }
        (self.place, self.source) = (Place::At, Source::Unread);
    }
}

/// A cursor of a [`crate::Connection`]; see [`Cursor`].
pub struct TreeCursor {
    shared: Rc<Shared>,
    /// None in a tree of rows.
    columns: Option<Vec<Column>>,
    body: Body,
    /// The key of an entry that is written.
    written: Vec<u8>,
    burst: EntryBurst,
    /// What is behind the burst, if that is not another entry.
    behind: Option<Result<()>>,
    page: Option<Rc<Page>>,
    /// It is told that it reads its tree.
    is_tree_noted: bool,
}

/// What an encoded key is of: a row, or so many fields.
#[derive(Clone, Copy)]
pub(crate) enum Sought {
    Row(i64),
    Fields(usize),
}

/// Bytes of a burst: what is copied is read soon after, out of the processor's cache.
const BURST_BYTES_MAX: usize = 32 << 10;

impl TreeCursor {
    pub(crate) fn new(shared: Rc<Shared>, root: u32, columns: Option<&[Column]>) -> Self {
        let mut buffers = shared.state().borrow_mut().take_buffers();
        let columns = columns.map(|columns| {
            buffers.columns.extend_from_slice(columns);
            take(&mut buffers.columns)
        });
        let Buffers { key, record, written, burst, .. } = buffers;
        let body = Body {
            root,
            place: Place::Nowhere,
            source: Source::Unread,
            is_aligned: false,
            key,
            record,
            iterator: None,
            generation: 0,
        };
        let (behind, page, is_tree_noted) = (None, None, false);
        TreeCursor { shared, columns, body, written, burst, behind, page, is_tree_noted }
    }

    /// Steps on or back through up to `entries_max` entries and copies them. How many there are, of
    /// which the cursor is at the first one; none at the end. `None` if a step from here is no step
    /// of the iterator: then [`Cursor::next`] or [`Cursor::previous`] does it.
    pub(crate) fn burst_on(
        &mut self,
        entries_max: usize,
        is_forward: bool,
    ) -> Result<Option<usize>> {
        let state = self.shared.state().borrow();
        if self.body.place != Place::At {
            return Ok(None);
        }
        let Some(iterator) = self.body.at_hand(&state) else { return Ok(None) };
        self.burst.begin(entries_max, BURST_BYTES_MAX);
        let stepped = match is_forward {
            true => iterator.next_many(&mut self.burst),
            false => iterator.prev_many(&mut self.burst),
        };
        self.behind = match stepped {
            Ok(true) => None,
            Ok(false) => Some(Ok(())),
            Err(error) => Some(Err(error)),
        };
        if self.burst.is_empty() {
            self.body.arrive(false);
            return self.behind.take().unwrap_or(Ok(())).map(|()| Some(0));
        }
        Ok(Some(self.burst.len()))
    }

    /// Rowids, 0 in an index, and records of the burst.
    pub(crate) fn burst(&self) -> impl Iterator<Item = (i64, &[u8])> {
        let is_of_rows = self.columns.is_none();
        self.burst.iter().map(move |(key, record)| {
            (if is_of_rows { rowid_of(key).unwrap_or_default() } else { 0 }, record)
        })
    }

    /// Ends a burst at its entry `at`.
    pub(crate) fn leave_burst(&mut self, at: usize) {
        if self.behind.is_none() && at + 1 == self.burst.len() {
            self.body.arrive(true);
            return;
        }
        self.behind = None;
        let body = &mut self.body;
        body.key.clear();
        body.key.extend_from_slice(self.burst.key(at));
        body.record.clear();
        body.record.extend_from_slice(self.burst.value(at));
        (body.is_aligned, body.place, body.source) = (false, Place::At, Source::Buffer);
    }

    /// Ends a burst at its last entry, to step on; false if nothing is behind it.
    pub(crate) fn pass_burst(&mut self) -> Result<bool> {
        let behind = self.behind.take();
        self.body.arrive(behind.is_none());
        behind.unwrap_or(Ok(())).map(|()| self.body.place == Place::At)
    }

    /// The page that the cursor is in.
    pub(crate) fn page(&self) -> Option<&Page> {
        self.page.as_deref()
    }

    /// Leaves the page from its entry `at`, where the cursor is then.
    pub(crate) fn leave_page(&mut self, at: usize) {
        let Some(page) = self.page.take() else { return };
        let (key, record) = page.entry(at);
        let body = &mut self.body;
        body.key.clear();
        body.key.extend_from_slice(key);
        body.record.clear();
        body.record.extend_from_slice(record);
        (body.is_aligned, body.place, body.source) = (false, Place::At, Source::Buffer);
    }

    /// Leaves the page, if it is in one, to go elsewhere.
    pub(crate) fn forget_page(&mut self) {
        if self.page.take().is_some() {
            self.body.leave();
            self.body.is_aligned = false;
        }
    }

    /// The page that says what is at the cursor's own key, made if that is worth it.
    fn page_of_key(&mut self, is_whole: bool) -> Result<Option<Rc<Page>>> {
        let mut state = self.shared.state().borrow_mut();
        let (root, body) = (self.body.root, &mut self.body);
        let Some(pages) = state.pages() else { return Ok(None) };
        let bytes_of = |root| self.shared.database().tree_bytes(root);
        let page = match pages.find(root, &body.key, bytes_of) {
            Known::Page(page) => Some(page),
            Known::Nothing => return Ok(None),
            Known::Worth => {
                body.open(&mut state)?;
                let iterator = &mut body.iterator.as_mut().expect("just opened").iterator;
                let pages = state.pages().expect("it has pages");
                pages.make(root, &body.key, self.columns.is_none(), iterator)?
            }
        };
        if page.is_some() && (is_whole || !self.is_tree_noted) {
            state.note_page_read(root, is_whole.then_some(&body.key));
            self.is_tree_noted |= !is_whole;
        }
        Ok(page)
    }

    /// Goes to a row by pages: to which entry, or to a gap with `None`. `None` if they do not say:
    /// then [`TreeCursor::seek_encoded`] goes on.
    pub(crate) fn seek_row_in_page(&mut self, rowid: i64) -> Result<Option<Option<usize>>> {
        self.refuse_unless_rows()?;
        self.body.key.clear();
        self.body.key.extend_from_slice(&row_key(self.body.root, rowid));
        self.seek_in_page(true)
    }

    /// As [`TreeCursor::seek_row_in_page`], to the first entry that begins with these fields.
    pub(crate) fn seek_key_in_page(
        &mut self,
        fields: &[Field<'_>],
    ) -> Result<Option<Option<usize>>> {
        let is_whole = self.encode(fields)?;
        self.seek_in_page(is_whole)
    }

    /// Encodes the key to seek by; true if the fields are all that entries have.
    fn encode(&mut self, fields: &[Field<'_>]) -> Result<bool> {
        let columns = self.columns.as_ref().ok_or_else(no_columns)?;
        self.body.key.clear();
        self.body.key.extend_from_slice(&prefix(self.body.root));
        encode(&mut self.body.key, columns, fields);
        Ok(fields.len() >= columns.len())
    }

    /// Goes to the row, or to the first entry with the fields, whose key is encoded.
    pub(crate) fn seek_encoded(&mut self, sought: Sought) -> Result<Found> {
        let mut state = self.shared.state().borrow_mut();
        let (root, body) = (self.body.root, &mut self.body);
        let is_behind = match sought {
            Sought::Row(rowid) => state.last_row(root).is_some_and(|last| last < rowid),
            Sought::Fields(_) => state.is_behind_all(root, &body.key),
        };
        let is_part = matches!(sought, Sought::Fields(count)
            if self.columns.as_ref().is_some_and(|columns| count < columns.len()));
        match (is_behind, is_part) {
            (true, _) => Ok(body.go_to_gap()),
            (false, false) => body.seek_whole(&state),
            (false, true) => body.seek_first(&mut state),
        }
    }

    fn seek_in_page(&mut self, is_whole: bool) -> Result<Option<Option<usize>>> {
        let Some(page) = self.page_of_key(is_whole)? else { return Ok(None) };
        let key = &self.body.key;
        let (at, is_there) = page.place_of(key);
        if is_there || !is_whole && at < page.shown().len() && page.entry(at).0.starts_with(key) {
            self.page = Some(page);
            return Ok(Some(Some(at)));
        }
        if !is_whole && at == page.shown().len() && page.to().is_some() {
            // It may be right behind the page.
            return Ok(None);
        }
        self.body.go_to_gap();
        Ok(Some(None))
    }

    /// Goes by pages to the first entry, or to the one behind a gap: to which one, or to none with
    /// `None`. `None` if they do not say.
    pub(crate) fn step_in_page(&mut self, to_first: bool) -> Result<Option<Option<usize>>> {
        if to_first {
            self.body.key.clear();
            self.body.key.extend_from_slice(&prefix(self.body.root));
        } else if !matches!(self.body.place, Place::Gap | Place::GapAtStart) {
            return Ok(None);
        }
        let Some(page) = self.page_of_key(false)? else { return Ok(None) };
        let (at, _) = page.place_of(&self.body.key);
        Ok(self.enter_page(page, at))
    }

    /// Goes on behind the page, from its last entry, as [`TreeCursor::step_in_page`] does.
    pub(crate) fn pass_page(&mut self) -> Result<Option<Option<usize>>> {
        let Some(page) = self.page.take() else { return Ok(None) };
        let root = self.body.root;
        let next = page.to().map(|to| {
            let mut state = self.shared.state().borrow_mut();
            let bytes_of = |root| self.shared.database().tree_bytes(root);
            let Known::Page(next) = state.pages()?.find(root, to, bytes_of) else { return None };
            let (at, _) = next.place_of(to);
            Some((next, at))
        });
        let passed = match next {
            None => self.enter_page(Rc::clone(&page), page.shown().len()),
            Some(Some((next, at))) => self.enter_page(next, at),
            Some(None) => None,
        };
        if passed.is_none() {
            self.page = Some(page);
        }
        Ok(passed)
    }

    /// Enters a page at entry `at`.
    fn enter_page(&mut self, page: Rc<Page>, at: usize) -> Option<Option<usize>> {
        if at < page.shown().len() {
            self.page = Some(page);
            return Some(Some(at));
        }
        if page.to().is_some() {
            return None;
        }
        self.body.leave();
        self.body.is_aligned = false;
        Some(None)
    }

    /// A rowid for a row to append, if transactions write beside others; the cursor is nowhere
    /// then.
    pub(crate) fn new_rowid(&mut self) -> Result<Option<i64>> {
        self.refuse_unless_rows()?;
        let mut state = self.shared.state().borrow_mut();
        let rowid = state.new_rowid(self.shared.database(), self.body.root)?;
        if rowid.is_some() {
            self.body.leave();
            self.body.is_aligned = false;
        }
        Ok(rowid)
    }

    fn refuse_unless_rows(&self) -> Result<()> {
        match self.columns {
            None => Ok(()),
            Some(_) => Err(Failure::misuse("an index has no rowids")),
        }
    }
}

impl Drop for TreeCursor {
    fn drop(&mut self) {
        // It is borrowed if a call of it has panicked.
        let Ok(mut state) = self.shared.state().try_borrow_mut() else { return };
        let TreeCursor { columns, body, written, burst, .. } = self;
        if let Some(idle) = body.iterator.take() {
            state.put_back(idle, body.generation);
        }
        state.put_back_buffers(Buffers {
            key: take(&mut body.key),
            record: take(&mut body.record),
            written: take(written),
            columns: columns.take().unwrap_or_default(),
            burst: take(burst),
        });
    }
}

fn no_columns() -> Failure {
    Failure::misuse("a tree of rows has no columns to seek by")
}

impl Cursor for TreeCursor {
    fn first(&mut self) -> Result<bool> {
        self.body.end(&mut self.shared.state().borrow_mut(), false)
    }

    fn last(&mut self) -> Result<bool> {
        let mut state = self.shared.state().borrow_mut();
        let body = &mut self.body;
        if self.columns.is_some() {
            return body.end(&mut state, true);
        }
        if let Some(rowid) = state.last_row(body.root) {
            let key = row_key(body.root, rowid);
            body.go_to_written(&state, &key);
            return Ok(true);
        }
        let is_there = body.end(&mut state, true)?;
        if let Some(rowid) = rowid_of(body.key()).filter(|_| is_there) {
            state.note_last_row(body.root, rowid);
        }
        Ok(is_there)
    }

    fn next(&mut self) -> Result<bool> {
        self.body.next(&mut self.shared.state().borrow_mut())
    }

    fn previous(&mut self) -> Result<bool> {
        self.body.previous(&mut self.shared.state().borrow_mut())
    }

    fn seek_row(&mut self, rowid: i64) -> Result<Found> {
        self.refuse_unless_rows()?;
        self.body.key.clear();
        self.body.key.extend_from_slice(&row_key(self.body.root, rowid));
        self.seek_encoded(Sought::Row(rowid))
    }

    fn seek_key(&mut self, fields: &[Field<'_>], equal: Equal) -> Result<Found> {
        self.encode(fields)?;
        match equal {
            Equal::Equal => self.seek_encoded(Sought::Fields(fields.len())),
            Equal::Before | Equal::Behind => {
                if equal == Equal::Before {
                    self.body.key.push(BEHIND);
                }
                Ok(self.body.go_to_gap())
            }
        }
    }

    fn is_there(&mut self) -> Result<bool> {
        self.body.settle(&mut self.shared.state().borrow_mut())?;
        Ok(self.body.place == Place::At)
    }

    fn restore(&mut self) -> Result<bool> {
        self.body.restore(&mut self.shared.state().borrow_mut())
    }

    fn rowid(&mut self) -> Result<i64> {
        self.body.settle(&mut self.shared.state().borrow_mut())?;
        let is_at_row = self.body.place == Place::At && self.columns.is_none();
        Ok(if is_at_row { rowid_of(self.body.key()).unwrap_or_default() } else { 0 })
    }

    #[inline]
    fn at_hand(&self) -> Option<(i64, &[u8])> {
        let body = &self.body;
        if body.place != Place::At || body.source == Source::Unread {
            return None;
        }
        let record = match &body.iterator {
            Some(Idle { iterator, .. }) if body.source == Source::Iterator => iterator.record(),
            _ => &body.record[..],
        };
        let is_of_rows = self.columns.is_none();
        let rowid = if is_of_rows { rowid_of(body.key()).unwrap_or_default() } else { 0 };
        Some((rowid, record))
    }

    fn record(&mut self) -> Result<&[u8]> {
        self.body.record(&mut self.shared.state().borrow_mut())
    }

    fn put_row(&mut self, rowid: i64, record: &[u8], zeroes: usize) -> Result<()> {
        self.refuse_unless_rows()?;
        self.shared.database().check_record(record.len().saturating_add(zeroes))?;
        let mut state = self.shared.state().borrow_mut();
        let root = self.body.root;
        if zeroes == 0 {
            state.put_row(root, rowid, record)?;
        } else {
            let mut whole = record.to_vec();
            whole.resize(record.len() + zeroes, 0);
            state.put_row(root, rowid, &whole)?;
        }
        self.body.go_to_written(&state, &row_key(root, rowid));
        Ok(())
    }

    fn put_key(&mut self, fields: &[Field<'_>], record: &[u8]) -> Result<()> {
        let columns = self.columns.as_ref().ok_or_else(no_columns)?;
        if fields.len() < columns.len() {
            return Err(Failure::misuse("an entry of an index has all of its columns"));
        }
        self.written.clear();
        self.written.extend_from_slice(&prefix(self.body.root));
        encode(&mut self.written, columns, fields);
        // Of a long key much is in the value.
        self.shared.database().check_record(self.written.len().saturating_add(record.len()))?;
        let mut state = self.shared.state().borrow_mut();
        state.put_key(self.body.root, &self.written, record)?;
        self.body.go_to_written(&state, &self.written);
        Ok(())
    }

    fn delete(&mut self) -> Result<()> {
        let mut state = self.shared.state().borrow_mut();
        self.body.settle(&mut state)?;
        if self.body.place != Place::At {
            return Err(Failure::misuse("the cursor is at no entry to delete"));
        }
        let key = self.body.key();
        let rowid = if self.columns.is_none() { rowid_of(key) } else { None };
        state.delete(self.body.root, key, rowid)?;
        self.body.place = Place::Between;
        Ok(())
    }

    fn count(&mut self) -> Result<u64> {
        self.shared.state().borrow().count(self.body.root)
    }
}
