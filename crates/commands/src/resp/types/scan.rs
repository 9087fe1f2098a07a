//! HSCAN, SSCAN and ZSCAN.
//!
//! An object that lies in one entry is returned as a whole, with the cursor 0, as Redis returns
//! its small ones. A tree of pages is visited in the order of its keys; see
//! [`ElementCursors`](crate::element_cursors::ElementCursors) for what a cursor is.

use super::objects::{Objects, Opened};
use super::{Done, Failure};
use crate::burst::Args;
use crate::glob::Pattern;
use crate::resp::{NOT_INTEGER, SYNTAX};
use silica_proto::{Reply, append_u64, parse_i64};
use silica_types::{Direction, Kind};

/// Elements that a call visits at most, however many are asked for: others wait meanwhile.
const COUNT_MAX: u64 = 100_000;
/// Bytes of a reply after which a call visits no more.
const BYTES_MAX: usize = 1 << 20;

/// Writes what is wanted of an element, which has this key and value, and tells how many replies
/// that is.
pub(crate) type Write<'w> = dyn FnMut(&[u8], &[u8], &mut Reply<'_>) -> usize + 'w;

/// What a scan asks for.
pub(crate) struct Scan {
    cursor: u64,
    count: u64,
    pattern: Option<Pattern>,
    /// Only names are wanted, not what belongs to them.
    pub(crate) is_bare: bool,
}

impl Scan {
    /// Opens the key of `args` and reads what they ask for. If there is nothing, the reply is
    /// written already.
    ///
    /// # Errors
    /// What Redis answers to arguments that are wrong, in its order; those of the engine.
    pub(crate) fn open(
        objects: &mut Objects<'_>,
        args: Args<'_>,
        kind: Kind,
        reply: &mut Reply<'_>,
    ) -> Done<Option<(Scan, Opened)>> {
        let cursor = cursor(args.get(2)).ok_or_else(|| Failure::reply("ERR invalid cursor"))?;
        let Some(opened) = objects.open(args.get(1), kind)? else {
            write(reply, 0, 0, &[]);
            return Ok(None);
        };
        match Scan::parse(cursor, args, kind) {
            Ok(scan) => Ok(Some((scan, opened))),
            Err(text) => Err(objects.refuse(opened, text)),
        }
    }

    fn parse(cursor: u64, args: Args<'_>, kind: Kind) -> Result<Scan, &'static str> {
        let mut scan = Scan { cursor, count: 10, pattern: None, is_bare: false };
        let mut at = 3;
        while at < args.len() {
            if args.is(at, "novalues") && kind == Kind::Hash {
                scan.is_bare = true;
                at += 1;
                continue;
            }
            if at + 1 == args.len() {
                return Err(SYNTAX);
            }
            let value = args.get(at + 1);
            if args.is(at, "count") {
                let count = parse_i64(value).ok_or(NOT_INTEGER)?;
                scan.count = u64::try_from(count).ok().filter(|n| *n > 0).ok_or(SYNTAX)?;
            } else if args.is(at, "match") {
                scan.pattern = Some(Pattern::new(value));
            } else {
                return Err(SYNTAX);
            }
            at += 2;
        }
        Ok(scan)
    }

    /// True if the pattern, if there is one, matches `name`.
    pub(crate) fn wants(&self, name: &[u8]) -> bool {
        self.pattern.as_ref().is_none_or(|pattern| pattern.matches(name))
    }

    /// Visits elements of tree `nth`, which is in the order of its keys unless it is flat, and
    /// replies what `each` writes of them.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn run(
        &self,
        objects: &mut Objects<'_>,
        mut opened: Opened,
        nth: usize,
        each: &mut Write<'_>,
        reply: &mut Reply<'_>,
    ) -> Done {
        let cursors = &objects.service().element_cursors;
        let is_flat = opened.object.is_flat(nth);
        let mut tree = opened.object.tree(nth, objects.pages());
        let rank = if is_flat { 0 } else { cursors.rank(self.cursor, &mut tree)? };
        let mut left = if is_flat { u64::MAX } else { self.count.min(COUNT_MAX) };
        let (mut bytes, mut replies, mut visited, mut next) = (Vec::new(), 0, 0, None);
        let mut written = Reply::new(&mut bytes, reply.version());
        tree.scan(rank, Direction::Forward, &mut |key, value| {
            if left == 0 {
                next = Some(key.to_vec());
                return false;
            }
            replies += each(key, value, &mut written);
            visited += 1;
            left -= 1;
            if written.buffered() >= BYTES_MAX && !is_flat {
                left = 0;
            }
            true
        })?;
        let cursor = next.map_or(0, |key| cursors.at(rank + visited, &key));
        objects.close(opened);
        write(reply, cursor, replies, &bytes);
        Ok(())
    }
}

/// The cursor that `text` is, a sign before it or none, as Redis takes it.
fn cursor(text: &[u8]) -> Option<u64> {
    let (is_negative, digits) = match text {
        [] => return Some(0),
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let number = is_number.then(|| std::str::from_utf8(digits).ok()?.parse::<u64>().ok());
    number.flatten().map(|number| if is_negative { number.wrapping_neg() } else { number })
}

/// Writes a cursor and so many replies.
fn write(reply: &mut Reply<'_>, cursor: u64, replies: usize, bytes: &[u8]) {
    reply.array(2);
    let mut digits = Vec::with_capacity(20);
    append_u64(&mut digits, cursor);
    reply.bulk(&digits);
    reply.array(replies);
    reply.written(bytes);
}
