//! Bytes of the pages of a tree: leaves of elements, and nodes of children.
//!
//! Both are cells one behind the other, in their order. See docs/formats/types.md.

use silica_base::{Error, ErrorKind, Result, read_varint, varint_len, write_varint};
use std::ops::Range;

/// An error about bytes that are no page.
pub(crate) fn damaged(what: &str) -> Error {
    Error::new(ErrorKind::Corruption, format!("a page of an object is damaged: {what}"))
}

/// Reads a varint at `*at` and moves behind it.
#[inline(always)]
pub(crate) fn take_varint(bytes: &[u8], at: &mut usize) -> Result<u64> {
    match bytes.get(*at..) {
        Some([byte, ..]) if *byte < 0x80 => {
            *at += 1;
            Ok(u64::from(*byte))
        }
        Some([low, high, ..]) if *high < 0x80 => {
            *at += 2;
            Ok(u64::from(*low & 0x7F) | u64::from(*high) << 7)
        }
        _ => take_long_varint(bytes, at),
    }
}

#[inline(never)]
fn take_long_varint(bytes: &[u8], at: &mut usize) -> Result<u64> {
    let rest = bytes.get(*at..).ok_or_else(|| damaged("it ends early"))?;
    let (value, len) = read_varint(rest).ok_or_else(|| damaged("a number is cut short"))?;
    *at += len;
    Ok(value)
}

/// The bounds of what `*at` moves over: so many bytes.
#[inline(always)]
fn skip(bytes: &[u8], at: &mut usize, len: u64) -> Result<(usize, usize)> {
    let start = *at;
    match usize::try_from(len) {
        Ok(len) if len <= bytes.len().saturating_sub(start) => {
            *at = start + len;
            Ok((start, start + len))
        }
        _ => Err(damaged("a cell is cut short")),
    }
}

/// The order of two keys, by eight bytes at a time: that tells most apart without a call.
#[inline(always)]
pub(crate) fn order(mut one: &[u8], mut other: &[u8]) -> std::cmp::Ordering {
    while let (Some((left, one_rest)), Some((right, other_rest))) =
        (one.split_first_chunk::<8>(), other.split_first_chunk::<8>())
    {
        let (left, right) = (u64::from_be_bytes(*left), u64::from_be_bytes(*right));
        if left != right {
            return left.cmp(&right);
        }
        (one, other) = (one_rest, other_rest);
    }
    // Few bytes are left of one of them: less than a call would cost.
    for (left, right) in one.iter().zip(other) {
        if left != right {
            return left.cmp(right);
        }
    }
    one.len().cmp(&other.len())
}

/// Moves `*at` over an element; the bounds of its key.
#[inline(always)]
pub(crate) fn skip_element(bytes: &[u8], at: &mut usize) -> Result<(usize, usize)> {
    let key = take_varint(bytes, at)?;
    let value = take_varint(bytes, at)?;
    let key = skip(bytes, at, key)?;
    skip(bytes, at, value)?;
    Ok(key)
}

/// Moves `*at` over a child; how many elements are below it, and the bounds of its key.
#[inline(always)]
pub(crate) fn skip_child(bytes: &[u8], at: &mut usize) -> Result<(u64, (usize, usize))> {
    take_varint(bytes, at)?;
    let count = take_varint(bytes, at)?;
    let key = take_varint(bytes, at)?;
    Ok((count, skip(bytes, at, key)?))
}

/// Moves `*at` over `len` bytes and returns where they lie.
#[inline]
pub(crate) fn take_bytes(bytes: &[u8], at: &mut usize, len: u64) -> Result<Range<usize>> {
    let end = usize::try_from(len).ok().and_then(|len| at.checked_add(len));
    let end =
        end.filter(|end| *end <= bytes.len()).ok_or_else(|| damaged("a cell is cut short"))?;
    let range = *at..end;
    *at = end;
    Ok(range)
}

/// A cell of a page: where it lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cell {
    /// All of it.
    pub(crate) range: Range<usize>,
    /// The key of an element, or the least key of a child.
    pub(crate) key: Range<usize>,
    /// The value of an element; empty for a child.
    pub(crate) value: Range<usize>,
    /// The number of a child's page; 0 for an element.
    pub(crate) page: u64,
    /// Elements below a child; 1 for an element.
    pub(crate) count: u64,
}

/// The cell at `at` of a page at `height` above the leaves.
#[inline]
pub(crate) fn cell(bytes: &[u8], height: u8, at: usize) -> Result<Cell> {
    let mut next = at;
    if height == 0 {
        let key_len = take_varint(bytes, &mut next)?;
        let value_len = take_varint(bytes, &mut next)?;
        let key = take_bytes(bytes, &mut next, key_len)?;
        let value = take_bytes(bytes, &mut next, value_len)?;
        return Ok(Cell { range: at..next, key, value, page: 0, count: 1 });
    }
    let page = take_varint(bytes, &mut next)?;
    let count = take_varint(bytes, &mut next)?;
    let key_len = take_varint(bytes, &mut next)?;
    let key = take_bytes(bytes, &mut next, key_len)?;
    Ok(Cell { range: at..next, key, value: next..next, page, count })
}

/// Where the cells of a page begin, in their order.
pub(crate) fn starts(bytes: &[u8], height: u8) -> Result<Vec<usize>> {
    let (mut at, mut starts) = (0, Vec::new());
    while at < bytes.len() {
        starts.push(at);
        if height == 0 {
            skip_element(bytes, &mut at)?;
        } else {
            skip_child(bytes, &mut at)?;
        }
    }
    Ok(starts)
}

/// Bytes of the cell of an element.
pub(crate) fn element_len(key: &[u8], value: &[u8]) -> usize {
    let (key, value) = (key.len(), value.len());
    varint_len(key as u64) + varint_len(value as u64) + key + value
}

/// Writes the cell of an element, for which there are exactly as many bytes as it takes.
pub(crate) fn write_element(out: &mut [u8], key: &[u8], value: &[u8]) {
    let mut at = 0;
    for length in [key.len(), value.len()] {
        let mut length = length as u64;
        while length >= 0x80 {
            out[at] = length as u8 | 0x80;
            (at, length) = (at + 1, length >> 7);
        }
        out[at] = length as u8;
        at += 1;
    }
    out[at..at + key.len()].copy_from_slice(key);
    out[at + key.len()..].copy_from_slice(value);
}

/// Appends a child with `count` elements, none below `key`.
pub(crate) fn write_child(out: &mut Vec<u8>, page: u64, count: u64, key: &[u8]) {
    write_varint(out, page);
    write_varint(out, count);
    write_varint(out, key.len() as u64);
    out.extend_from_slice(key);
}

/// Where something stands, or belongs, in a leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spot {
    /// Where its cell begins, or would.
    pub(crate) at: usize,
    /// Elements before it.
    pub(crate) rank: u64,
    /// It is there.
    pub(crate) is_found: bool,
}

/// Cells of which a search that goes from one to the next compares one: to step over a cell costs
/// less than to compare its key.
const STRIDE: u64 = 4;

/// Finds `key` in a leaf.
pub(crate) fn find_key(bytes: &[u8], key: &[u8]) -> Result<Spot> {
    let (mut at, mut rank) = (0, 0);
    // Every key before this cell is less.
    let mut known = (0, 0);
    while at < bytes.len() {
        let (start, end) = skip_element(bytes, &mut at)?;
        rank += 1;
        if rank % STRIDE == 0 {
            if order(&bytes[start..end], key).is_ge() {
                break;
            }
            known = (at, rank);
        }
    }
    (at, rank) = known;
    while at < bytes.len() {
        let mut next = at;
        let (start, end) = skip_element(bytes, &mut next)?;
        match order(&bytes[start..end], key) {
            std::cmp::Ordering::Less => {}
            order => return Ok(Spot { at, rank, is_found: order.is_eq() }),
        }
        (at, rank) = (next, rank + 1);
    }
    Ok(Spot { at, rank, is_found: false })
}

/// The first key of a leaf that is `before` bytes and then `end`.
pub(crate) fn key_that_ends<'b>(
    bytes: &'b [u8],
    before: usize,
    end: &[u8],
) -> Result<Option<&'b [u8]>> {
    let mut at = 0;
    while at < bytes.len() {
        let (start, stop) = skip_element(bytes, &mut at)?;
        let key = &bytes[start..stop];
        if key.len() == before + end.len() && order(&key[before..], end).is_eq() {
            return Ok(Some(key));
        }
    }
    Ok(None)
}

/// Finds the element with `rank` elements before it in a leaf, or the leaf's end.
pub(crate) fn find_rank(bytes: &[u8], rank: u64) -> Result<Spot> {
    let (mut at, mut before) = (0, 0);
    while at < bytes.len() && before < rank {
        skip_element(bytes, &mut at)?;
        before += 1;
    }
    Ok(Spot { at, rank: before, is_found: at < bytes.len() })
}

/// The child of a node under which `key` is, or belongs, how many elements come before it, and how
/// many children.
pub(crate) fn child_of_key(bytes: &[u8], height: u8, key: &[u8]) -> Result<(Cell, u64, usize)> {
    let (mut best, mut at, mut before, mut nth) = (0, 0, 0, 0);
    let (mut below, _) = skip_child(bytes, &mut at)?;
    // As far as every fourth key is not above `key`, those between are not, either.
    let (mut ahead, mut steps, mut sum) = (at, 0, below);
    while ahead < bytes.len() {
        let start = ahead;
        let (count, (from, to)) = skip_child(bytes, &mut ahead)?;
        steps += 1;
        if steps % STRIDE as usize == 0 {
            if order(&bytes[from..to], key).is_gt() {
                break;
            }
            (best, at, before, below, nth) = (start, ahead, sum, count, steps);
        }
        sum += count;
    }
    while at < bytes.len() {
        let start = at;
        let (count, (from, to)) = skip_child(bytes, &mut at)?;
        if order(&bytes[from..to], key).is_gt() {
            break;
        }
        before += below;
        (best, below, nth) = (start, count, nth + 1);
    }
    Ok((cell(bytes, height, best)?, before, nth))
}

/// The child of a node with the element of `rank`, or, with `is_insert`, where one of that rank
/// belongs; how many elements come before the child, and how many children.
pub(crate) fn child_of_rank(
    bytes: &[u8],
    height: u8,
    rank: u64,
    is_insert: bool,
) -> Result<(Cell, u64, usize)> {
    let (mut at, mut before, mut nth) = (0, 0, 0);
    loop {
        let start = at;
        let (count, _) = skip_child(bytes, &mut at)?;
        let end = before + count;
        let is_here = if is_insert { rank <= end } else { rank < end };
        if is_here || at >= bytes.len() {
            return Ok((cell(bytes, height, start)?, before, nth));
        }
        (before, nth) = (end, nth + 1);
    }
}
