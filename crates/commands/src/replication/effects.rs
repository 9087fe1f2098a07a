//! What writes have done, as replicas are told: commands, and entries of strings, which become
//! records or commands when they are appended to the stream.

use super::records::{self, Change, Changes, push_deleted, push_put};
use super::walk::push_set;
use crate::burst::Args;
use silica::engine::EntryRef;

/// What a part of the effects has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Commands, as bytes of the stream.
    Commands,
    /// So many entries of strings.
    Entries(usize),
}

/// Effects of one form and one database.
#[derive(Debug, Clone, Copy)]
struct Part {
    /// `None` for commands that are about no database.
    db: Option<u8>,
    form: Form,
    /// Where it ends.
    end: usize,
}

/// Commands and entries in the order in which they took effect.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    bytes: Vec<u8>,
    parts: Vec<Part>,
    commands: usize,
}

/// Appends the head of a command of `count` arguments.
fn push_head(out: &mut Vec<u8>, mark: u8, count: usize) {
    out.push(mark);
    silica_proto::append_u64(out, count as u64);
    out.extend_from_slice(b"\r\n");
}

fn push_arg(out: &mut Vec<u8>, arg: &[u8]) {
    push_head(out, b'$', arg.len());
    out.extend_from_slice(arg);
    out.extend_from_slice(b"\r\n");
}

/// Appends a command to `out`.
pub(crate) fn push_command(out: &mut Vec<u8>, args: &[&[u8]]) {
    push_head(out, b'*', args.len());
    args.iter().for_each(|arg| push_arg(out, arg));
}

impl Effects {
    /// True if there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.commands == 0
    }

    /// How many commands there are.
    pub(crate) fn len(&self) -> usize {
        self.commands
    }

    /// Adds a command about database `db`.
    pub(crate) fn push(&mut self, db: Option<u8>, args: &[&[u8]]) {
        push_command(&mut self.bytes, args);
        self.end(db);
    }

    /// Adds a request of database `db` as it came.
    pub(crate) fn push_args(&mut self, db: Option<u8>, args: Args<'_>) {
        push_head(&mut self.bytes, b'*', args.len());
        args.from(0).for_each(|arg| push_arg(&mut self.bytes, arg));
        self.end(db);
    }

    fn end(&mut self, db: Option<u8>) {
        self.commands += 1;
        let (form, end) = (Form::Commands, self.bytes.len());
        match self.parts.last_mut() {
            Some(last) if last.db == db && last.form == form => last.end = end,
            _ => self.parts.push(Part { db, form, end }),
        }
    }

    /// Adds a string of database `db` as it is there.
    pub(crate) fn put(&mut self, db: u8, key: &[u8], entry: EntryRef<'_>) {
        if key.len() + entry.value.len() > records::ENTRY_BYTES_MAX {
            return push_set(self, db, key, entry.value, entry.expires_unix_ms);
        }
        push_put(&mut self.bytes, key, entry);
        self.end_entry(db);
    }

    /// Adds a key of database `db` that was deleted without a look at what it was.
    pub(crate) fn delete(&mut self, db: u8, key: &[u8]) {
        push_deleted(&mut self.bytes, key);
        self.end_entry(db);
    }

    fn end_entry(&mut self, db: u8) {
        self.commands += 1;
        let end = self.bytes.len();
        let start = self.parts.len().checked_sub(2).map_or(0, |before| self.parts[before].end);
        match self.parts.last_mut() {
            Some(Part { db: Some(last), form: Form::Entries(count), end: at })
                if *last == db && end - start <= records::RECORD_BYTES =>
            {
                (*count, *at) = (*count + 1, end);
            }
            _ => self.parts.push(Part { db: Some(db), form: Form::Entries(1), end }),
        }
    }

    /// Adds those of `other` behind these.
    pub(crate) fn append(&mut self, other: &mut Effects) {
        let before = self.bytes.len();
        self.bytes.append(&mut other.bytes);
        let moved = other.parts.drain(..).map(|part| Part { end: before + part.end, ..part });
        self.parts.extend(moved);
        self.commands += std::mem::take(&mut other.commands);
    }

    /// The parts in their order: of which database, in which form, and their bytes.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (Option<u8>, Form, &[u8])> {
        let starts = std::iter::once(0).chain(self.parts.iter().map(|part| part.end));
        let bytes =
            |(part, start): (&Part, usize)| (part.db, part.form, &self.bytes[start..part.end]);
        self.parts.iter().zip(starts).map(bytes)
    }

    /// Forgets all, and keeps little memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(64 << 10);
        self.parts.clear();
        self.commands = 0;
    }
}

/// Appends `count` entries of a part to the stream, as the record of them.
pub(crate) fn push_as_record(out: &mut Vec<u8>, count: usize, entries: &[u8]) {
    let len = records::record_len(count, entries);
    // With the head of the command: what is appended is copied once.
    out.reserve(len + 64);
    push_head(out, b'*', 2);
    push_arg(out, records::COMMAND);
    push_head(out, b'$', len);
    records::push_record(out, count, entries);
    out.extend_from_slice(b"\r\n");
}

/// Appends entries of a part to the stream, as the commands that Redis knows.
pub(crate) fn push_as_commands(out: &mut Vec<u8>, entries: &[u8]) {
    // They were made here: none is damaged.
    for change in Changes(entries).flatten() {
        match change {
            Change::Deleted(key) => push_command(out, &[b"DEL", key]),
            Change::Put(key, EntryRef { value, expires_unix_ms: 0, .. }) => {
                push_command(out, &[b"SET", key, value]);
            }
            Change::Put(key, EntryRef { value, expires_unix_ms, .. }) => {
                let at = expires_unix_ms.to_string();
                push_command(out, &[b"SET", key, value, b"PXAT", at.as_bytes()]);
            }
        }
    }
}
