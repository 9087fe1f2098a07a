//! Commands that read some keys.

use super::types::WRONG_TYPE;
use super::{NOT_INTEGER, Values};
use crate::burst::Args;
use crate::table::{Pieces, Read, Wants};
use silica::engine::EntryRef;
use silica_proto::{Reply, parse_i64};
use silica_types::Kind;

pub(crate) static GET: Read = Read::in_pieces(
    1,
    Wants::Value,
    Pieces { first: |_, _| {}, each: |_, entry, reply| value(entry, reply), last: |_| {} },
);
pub(crate) static MGET: Read = Read::in_pieces(
    usize::MAX,
    Wants::Value,
    Pieces {
        first: |keys, reply| reply.array(keys),
        each: |_, entry, reply| value(entry, reply),
        last: |_| {},
    },
);
pub(crate) static EXISTS: Read = Read::new(usize::MAX, Wants::Kind, exists);
pub(crate) static STRLEN: Read = Read::new(1, Wants::Length, strlen);
pub(crate) static TYPE: Read = Read::new(1, Wants::Kind, type_of);
pub(crate) static GETRANGE: Read = Read::new(1, Wants::Value, getrange).with_other_type(|args| {
    match (parse_i64(args.get(2)), parse_i64(args.get(3))) {
        (Some(_), Some(_)) => WRONG_TYPE,
        _ => NOT_INTEGER,
    }
});

#[inline]
fn value(entry: Option<EntryRef<'_>>, reply: &mut Reply<'_>) {
    match entry {
        Some(entry) => reply.bulk(entry.value),
        None => reply.null(),
    }
}

fn exists(_: Args<'_>, values: Values<'_>, reply: &mut Reply<'_>) {
    let found = (0..values.slots.len()).filter(|i| values.len_of(*i).is_some()).count();
    reply.integer(found as i64);
}

fn strlen(_: Args<'_>, values: Values<'_>, reply: &mut Reply<'_>) {
    reply.integer(values.len_of(0).unwrap_or(0) as i64);
}

fn type_of(_: Args<'_>, values: Values<'_>, reply: &mut Reply<'_>) {
    reply.simple(match values.user_bits_of(0) {
        None => "none",
        Some(bits) => Kind::of_user_bits(bits).map_or("string", Kind::name),
    });
}

fn getrange(args: Args<'_>, values: Values<'_>, reply: &mut Reply<'_>) {
    let (Some(start), Some(end)) = (parse_i64(args.get(2)), parse_i64(args.get(3))) else {
        return reply.error(NOT_INTEGER);
    };
    let bytes = values.get(0).unwrap_or_default();
    reply.bulk(&bytes[range(bytes.len(), start, end)]);
}

/// The bytes from `start` to `end` (inclusive, negative from the end) of a value of `len` bytes.
fn range(len: usize, start: i64, end: i64) -> std::ops::Range<usize> {
    if start < 0 && end < 0 && start > end {
        return 0..0;
    }
    let place = |at: i64| if at < 0 { at.saturating_add(len as i64).max(0) } else { at };
    let (start, end) = (place(start), place(end).min(len as i64 - 1));
    if start > end { 0..0 } else { start as usize..end as usize + 1 }
}

#[cfg(test)]
mod tests {
    use super::range;

    #[test]
    fn ranges_count_from_both_ends() {
        let text = "This is a string";
        let cut = |start, end| &text[range(text.len(), start, end)];
        assert_eq!(cut(0, 3), "This");
        assert_eq!(cut(-3, -1), "ing");
        assert_eq!(cut(0, -1), text);
        assert_eq!(cut(10, 100), "string");
        assert_eq!(cut(5, 2), "");
        assert_eq!(cut(-1, -3), "");
        assert_eq!(cut(i64::MIN, i64::MAX), text);
        assert_eq!(cut(-100, -50), "T", "both ends clamp to the first byte");
        assert_eq!(range(0, 0, -1), 0..0);
    }
}
