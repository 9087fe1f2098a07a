//! Hashes: fields with values, in the order of their fields.
//!
//! A field may expire. Its time then stands before its value, and a second tree has the times of
//! all such fields, the first one first: so the expired ones are counted and found without a look
//! at the others. A hash without such fields has no second tree.
//!
//! The value of an element is that of the field as it is, unless it begins with the byte 0xFF or
//! the field expires: then it is 0xFF, the time in Unix milliseconds as a varint (0 for never), and
//! the value. The key of an element of the second tree is the time in eight bytes, big-endian, and
//! the field; its value is empty.

use crate::object::{Object, SECOND_TREE};
use crate::page::{damaged, take_varint};
use crate::pages::Pages;
use crate::tree::{Direction, TreeMut};
use silica_base::{Result, write_varint};

/// Fields that a hash may have for OBJECT ENCODING to call it a listpack, as Redis does.
const LISTPACK_LEN_MAX: u64 = 128;
/// Bytes of a field or value in such a one.
const LISTPACK_BYTES_MAX: usize = 64;
/// Mark of a hash that is, or was, larger.
const LARGE: u8 = 1;
/// The first byte of a value with a time before it.
const ESCAPE: u8 = 0xFF;

/// The value of an element: when the field expires, 0 for never, and the field's value.
pub(crate) fn split(stored: &[u8]) -> Result<(u64, &[u8])> {
    if stored.first() != Some(&ESCAPE) {
        return Ok((0, stored));
    }
    let mut at = 1;
    let expires = take_varint(stored, &mut at)?;
    Ok((expires, &stored[at..]))
}

fn joined(expires_unix_ms: u64, value: &[u8]) -> Vec<u8> {
    let mut stored = Vec::with_capacity(value.len() + 8);
    if expires_unix_ms != 0 || value.first() == Some(&ESCAPE) {
        stored.push(ESCAPE);
        write_varint(&mut stored, expires_unix_ms);
    }
    stored.extend_from_slice(value);
    stored
}

/// The key of a field in the tree of times.
pub(crate) fn time_key(expires_unix_ms: u64, field: &[u8]) -> Vec<u8> {
    [&expires_unix_ms.to_be_bytes(), field].concat()
}

/// A field's value, and when it expires in Unix milliseconds; 0 for never.
pub type Expiring = (Vec<u8>, u64);

/// An object that is a hash, and its pages.
pub struct Hash<'h> {
    object: &'h mut Object,
    pages: &'h mut dyn Pages,
    now_ms: u64,
}

impl<'h> Hash<'h> {
    /// `object` as a hash, of which no field has expired.
    pub fn of(object: &'h mut Object, pages: &'h mut dyn Pages) -> Self {
        Hash { object, pages, now_ms: 0 }
    }

    /// The hash at a time in Unix milliseconds: fields that have expired are not there.
    pub fn as_of(self, now_ms: u64) -> Self {
        Hash { now_ms, ..self }
    }

    fn tree(&mut self) -> TreeMut<'_> {
        self.object.tree(0, self.pages)
    }

    fn is_live(&self, expires_unix_ms: u64) -> bool {
        expires_unix_ms == 0 || expires_unix_ms > self.now_ms
    }

    /// Number of fields, expired ones included that nobody has removed.
    pub fn stored_len(&self) -> u64 {
        self.object.len(0)
    }

    /// True if nothing is stored, not even expired fields.
    pub fn is_empty(&self) -> bool {
        self.stored_len() == 0
    }

    /// Number of fields.
    ///
    /// # Errors
    /// Those of the pages, here and below.
    pub fn len(&mut self) -> Result<u64> {
        Ok(self.stored_len() - self.expired()?)
    }

    /// Number of fields that have expired and were not removed.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn expired(&mut self) -> Result<u64> {
        if !self.object.has_second_tree() || self.now_ms == 0 {
            return Ok(0);
        }
        let later = (self.now_ms + 1).to_be_bytes();
        Ok(self.object.tree(1, self.pages).find(&later)?.0)
    }

    /// The value of `field`.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn get(&mut self, field: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.expiring(field)?.map(|(value, _)| value))
    }

    /// What `tell` says of the value of `field`, which is not copied.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn look_at<T>(&mut self, field: &[u8], tell: impl FnOnce(Option<&[u8]>) -> T) -> Result<T> {
        let now_ms = self.now_ms;
        self.tree().look_at(field, |stored| {
            let Some(stored) = stored else { return Ok(tell(None)) };
            let (expires, value) = split(stored)?;
            Ok(tell((expires == 0 || expires > now_ms).then_some(value)))
        })
    }

    /// The value of `field`, and when it expires.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn expiring(&mut self, field: &[u8]) -> Result<Option<Expiring>> {
        let stored = self.tree().get(field)?;
        Ok(self.live(stored)?.map(|(expires, value)| (value, expires)))
    }

    /// A stored value if its field has not expired, with its time.
    fn live(&self, stored: Option<Vec<u8>>) -> Result<Option<(u64, Vec<u8>)>> {
        let Some(mut stored) = stored else { return Ok(None) };
        let (expires, value) = split(&stored)?;
        let from = stored.len() - value.len();
        stored.drain(..from);
        Ok(self.is_live(expires).then_some((expires, stored)))
    }

    /// Sets `field`, which does not expire then, and returns the value that it had.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn put(&mut self, field: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>> {
        self.put_expiring(field, value, 0)
    }

    /// Sets `field` until a time in Unix milliseconds, 0 for always, and returns the value that it
    /// had.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn put_expiring(
        &mut self,
        field: &[u8],
        value: &[u8],
        expires_unix_ms: u64,
    ) -> Result<Option<Vec<u8>>> {
        let old = match expires_unix_ms != 0 || value.first() == Some(&ESCAPE) {
            false => self.tree().put(field, value)?,
            true => self.tree().put(field, &joined(expires_unix_ms, value))?,
        };
        let is_long = field.len().max(value.len()) > LISTPACK_BYTES_MAX;
        if is_long || self.stored_len() > LISTPACK_LEN_MAX {
            self.object.marks |= LARGE;
        }
        self.note_time(field, old.as_deref(), expires_unix_ms)?;
        Ok(self.live(old)?.map(|(_, value)| value))
    }

    /// Makes the tree of times say that `field`, whose stored value was `old`, expires at this
    /// time.
    fn note_time(&mut self, field: &[u8], old: Option<&[u8]>, expires_unix_ms: u64) -> Result<()> {
        let before = old.map(split).transpose()?.map_or(0, |(expires, _)| expires);
        if before == expires_unix_ms {
            return Ok(());
        }
        if before != 0 {
            if !self.object.has_second_tree() {
                return Err(damaged("a field's time is not among the times"));
            }
            self.object.tree(1, self.pages).remove(&time_key(before, field))?;
        }
        if expires_unix_ms != 0 {
            self.object.add_second_tree();
            let key = time_key(expires_unix_ms, field);
            self.object.tree(1, self.pages).put(&key, b"")?;
        }
        self.object.drop_second_tree_if_empty();
        Ok(())
    }

    /// Removes `field` and returns the value that it had.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn remove(&mut self, field: &[u8]) -> Result<Option<Vec<u8>>> {
        let old = self.tree().remove(field)?;
        self.note_time(field, old.as_deref(), 0)?;
        Ok(self.live(old)?.map(|(_, value)| value))
    }

    /// Sets when `field` expires, 0 for never; false if it is not there.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn expire(&mut self, field: &[u8], expires_unix_ms: u64) -> Result<bool> {
        match self.get(field)? {
            Some(value) => self.put_expiring(field, &value, expires_unix_ms).map(|_| true),
            None => Ok(false),
        }
    }

    /// Removes up to `max` of the fields that have expired, those first that expired first, and
    /// returns how many they were.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn purge(&mut self, max: u64) -> Result<u64> {
        let count = self.expired()?.min(max);
        if count == 0 {
            return Ok(0);
        }
        let mut fields = Vec::new();
        let mut times = self.object.tree(1, self.pages);
        times.scan(0, Direction::Forward, &mut |key, _| {
            fields.push(key.get(8..).unwrap_or_default().to_vec());
            (fields.len() as u64) < count
        })?;
        times.remove_ranks(0..count)?;
        for field in fields {
            self.tree().remove(&field)?;
        }
        self.object.drop_second_tree_if_empty();
        Ok(count)
    }

    /// The field with `rank` others before it, expired ones included, and its value; `None` if it
    /// has expired, or there are no more.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn at(&mut self, rank: u64) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let Some((field, stored)) = self.tree().at(rank)? else { return Ok(None) };
        Ok(self.live(Some(stored))?.map(|(_, value)| (field, value)))
    }

    /// Calls `each` with the fields from `from` on, and their values, until it returns false.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn scan(&mut self, from: &[u8], each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        let rank = if from.is_empty() { 0 } else { self.tree().find(from)?.0 };
        let (now_ms, mut wrong) = (self.now_ms, None);
        self.tree().scan(rank, Direction::Forward, &mut |field, stored| match split(stored) {
            Ok((expires, _)) if expires != 0 && expires <= now_ms => true,
            Ok((_, value)) => each(field, value),
            Err(error) => {
                wrong = Some(error);
                false
            }
        })?;
        wrong.map_or(Ok(()), Err)
    }

    /// What an element of the tree says: the field's value, unless it has expired.
    pub fn shown(stored: &[u8], now_ms: u64) -> Option<&[u8]> {
        let (expires, value) = split(stored).ok()?;
        (expires == 0 || expires > now_ms).then_some(value)
    }

    /// When the field of an element of the tree expires, in Unix milliseconds; 0 for never.
    ///
    /// # Errors
    /// Fails if it is none.
    pub fn expires_unix_ms(stored: &[u8]) -> Result<u64> {
        split(stored).map(|(expires, _)| expires)
    }

    /// What OBJECT ENCODING says.
    pub fn encoding(object: &Object) -> &'static str {
        match () {
            () if object.marks & LARGE != 0 => "hashtable",
            () if object.marks & SECOND_TREE != 0 => "listpackex",
            () => "listpack",
        }
    }
}
