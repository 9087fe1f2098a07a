//! What writes have done, as commands for replicas.

use crate::burst::Args;

/// Commands in the order in which they took effect.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    bytes: Vec<u8>,
    /// Where the commands of a database end: `None` for those that are about none.
    parts: Vec<(Option<u8>, usize)>,
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
        let end = self.bytes.len();
        match self.parts.last_mut() {
            Some((last, at)) if *last == db => *at = end,
            _ => self.parts.push((db, end)),
        }
    }

    /// Adds those of `other` behind these.
    pub(crate) fn append(&mut self, other: &mut Effects) {
        let before = self.bytes.len();
        self.bytes.append(&mut other.bytes);
        self.parts.extend(other.parts.drain(..).map(|(db, end)| (db, before + end)));
        self.commands += std::mem::take(&mut other.commands);
    }

    /// Calls `each` with the commands of each database in their order.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (Option<u8>, &[u8])> {
        let starts = std::iter::once(0).chain(self.parts.iter().map(|(_, end)| *end));
        self.parts.iter().zip(starts).map(|((db, end), start)| (*db, &self.bytes[start..*end]))
    }

    /// Forgets all, and keeps little memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(64 << 10);
        self.parts.clear();
        self.commands = 0;
    }
}
