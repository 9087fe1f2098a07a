//! Commands on the bits of a value: bit 0 is the highest of the first byte, as in Redis.

use super::types::WRONG_TYPE;
use super::update::{TOO_LONG, one, rewrite_changed, wrong};
use super::{Keyspace, NOT_INTEGER, SYNTAX, VALUE_BYTES_MAX, Values, atomic};
use crate::burst::Args;
use crate::table::{Answer, Modify, Read, Wants};
use silica::engine::{Durability, EntryRef, Result, Update};
use silica_proto::{Reply, parse_i64};
use silica_types::is_marked;
use std::ops::Range;

const NO_OFFSET: &str = "ERR bit offset is not an integer or out of range";

pub(crate) static GETBIT: Read =
    Read::new(1, Wants::Value, getbit).with_other_type(|args| match bit_offset(args.get(2)) {
        Some(_) => WRONG_TYPE,
        None => NO_OFFSET,
    });
pub(crate) static BITCOUNT: Read = Read::new(1, Wants::Value, bitcount);
pub(crate) static BITPOS: Read = Read::new(1, Wants::Value, bitpos)
    .with_other_type(|args| wanted_bit(args).err().unwrap_or(WRONG_TYPE));
pub(crate) static SETBIT: Modify =
    Modify { refuse: |args| setbit_arguments(args).err().map(String::from), ..one(setbit) };

/// The offset of a bit that a value may have.
pub(super) fn bit_offset(text: &[u8]) -> Option<usize> {
    let offset = usize::try_from(parse_i64(text)?).ok()?;
    (offset / 8 < VALUE_BYTES_MAX).then_some(offset)
}

fn bit(bytes: &[u8], offset: usize) -> bool {
    bytes.get(offset / 8).is_some_and(|byte| byte & (0x80 >> (offset % 8)) != 0)
}

fn set_bit(bytes: &mut [u8], offset: usize, on: bool) {
    let mask = 0x80 >> (offset % 8);
    if on {
        bytes[offset / 8] |= mask;
    } else {
        bytes[offset / 8] &= !mask;
    }
}

/// The value, long enough for `bytes` bytes, or why it must not be.
pub(super) fn grown(
    args: Args<'_>,
    old: Option<EntryRef<'_>>,
    bytes: usize,
) -> Result<Vec<u8>, String> {
    let old = old.unwrap_or_default().value;
    if bytes > old.len() {
        args.claim_value(bytes)?;
    }
    let mut value = Vec::with_capacity(old.len().max(bytes));
    value.extend_from_slice(old);
    value.resize(old.len().max(bytes), 0);
    Ok(value)
}

/// The offset, and what the bit there becomes.
fn setbit_arguments(args: Args<'_>) -> Result<(usize, bool), &'static str> {
    let offset = bit_offset(args.get(2)).ok_or(NO_OFFSET)?;
    match args.get(3) {
        _ if offset / 8 >= VALUE_BYTES_MAX => Err(TOO_LONG),
        b"0" => Ok((offset, false)),
        b"1" => Ok((offset, true)),
        _ => Err("ERR bit is not an integer or out of range"),
    }
}

fn setbit(args: Args<'_>, old: Option<EntryRef<'_>>, _: u64) -> (Update, Answer) {
    let (offset, on) = match setbit_arguments(args) {
        Ok(arguments) => arguments,
        Err(text) => return wrong(text),
    };
    let mut value = match grown(args, old, offset / 8 + 1) {
        Ok(value) => value,
        Err(text) => return (Update::Keep, Answer::Error(text.into())),
    };
    let was = bit(&value, offset);
    set_bit(&mut value, offset, on);
    (rewrite_changed(old, value), Answer::Integer(i64::from(was)))
}

fn getbit(args: Args<'_>, values: Values<'_>, reply: &mut Reply<'_>) {
    match bit_offset(args.get(2)) {
        Some(offset) => reply.integer(i64::from(bit(values.get(0).unwrap_or_default(), offset))),
        None => reply.error(NO_OFFSET),
    }
}

/// The bits from argument `first` (start, end, unit) of a value of `len` bytes. BITPOS takes an end
/// before the start for the value's first unit, if both are before the value; BITCOUNT for nothing.
fn bit_range(args: Args<'_>, first: usize, len: usize) -> Result<Range<usize>, &'static str> {
    let number = |index: usize, otherwise: i64| match index < args.len() {
        true => parse_i64(args.get(index)).ok_or(NOT_INTEGER),
        false => Ok(otherwise),
    };
    let (start, end) = (number(first, 0)?, number(first + 1, -1)?);
    let unit_bits = match args.len() > first + 2 {
        true if args.is(first + 2, "bit") => 1,
        true if !args.is(first + 2, "byte") => return Err(SYNTAX),
        _ => 8,
    };
    let units = (len * 8 / unit_bits) as i64;
    if start < 0 && end < 0 && start > end && args.is(0, "bitcount") {
        return Ok(0..0);
    }
    let place = |at: i64| if at < 0 { at.saturating_add(units).max(0) } else { at };
    let (start, end) = (place(start), place(end).min(units - 1));
    if start > end {
        return Ok(0..0);
    }
    Ok(start as usize * unit_bits..(end as usize + 1) * unit_bits)
}

/// The byte that holds bit `8 * at`, with the bits outside of `bits` as `fill`.
fn masked(bytes: &[u8], at: usize, bits: &Range<usize>, fill: u8) -> u8 {
    let first = bits.start.saturating_sub(8 * at).min(8);
    let last = bits.end.saturating_sub(8 * at).min(8);
    let mask = (0xFF_u16 >> first) as u8 & !((0xFF_u16 >> last) as u8);
    (bytes[at] & mask) | (fill & !mask)
}

fn bitcount(args: Args<'_>, values: Values<'_>, reply: &mut Reply<'_>) {
    // Redis answers for a key that is not there before it looks at the other arguments.
    let Some(bytes) = values.get(0) else { return reply.integer(0) };
    if args.len() == 3 || args.len() > 5 {
        return reply.error(SYNTAX);
    }
    match bit_range(args, 2, bytes.len()) {
        Ok(bits) => {
            let span = bits.start / 8..bits.end.div_ceil(8);
            let count: u64 =
                span.map(|at| u64::from(masked(bytes, at, &bits, 0).count_ones())).sum();
            reply.integer(count as i64);
        }
        Err(text) => reply.error(text),
    }
}

/// The bit that BITPOS looks for.
fn wanted_bit(args: Args<'_>) -> Result<bool, &'static str> {
    match args.get(2) {
        b"0" => Ok(false),
        b"1" => Ok(true),
        text if parse_i64(text).is_some() => Err("ERR The bit argument must be 1 or 0."),
        _ => Err(NOT_INTEGER),
    }
}

fn bitpos(args: Args<'_>, values: Values<'_>, reply: &mut Reply<'_>) {
    let wanted = match wanted_bit(args) {
        Ok(wanted) => wanted,
        Err(text) => return reply.error(text),
    };
    // As in BITCOUNT.
    let Some(bytes) = values.get(0) else { return reply.integer(if wanted { -1 } else { 0 }) };
    if args.len() > 6 {
        return reply.error(SYNTAX);
    }
    let bits = match bit_range(args, 3, bytes.len()) {
        Ok(bits) => bits,
        Err(text) => return reply.error(text),
    };
    // Bits outside of the range look like those that are not asked for.
    let (fill, flip) = if wanted { (0, 0) } else { (0xFF, 0xFF) };
    let hit = (bits.start / 8..bits.end.div_ceil(8)).find_map(|at| {
        let byte = masked(bytes, at, &bits, fill) ^ flip;
        (byte != 0).then(|| 8 * at + byte.leading_zeros() as usize)
    });
    reply.integer(match hit {
        Some(at) => at as i64,
        None if wanted => -1,
        // Behind the value there are zeros, unless the question ends before.
        None if args.len() > 4 || bits.is_empty() => -1,
        None => 8 * bytes.len() as i64,
    });
}

/// Combines values byte by byte and stores the result.
pub(crate) fn bitop(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let word = args.get(1).to_ascii_uppercase();
    let combine: fn(u8, u8) -> u8 = match &word[..] {
        b"AND" => |a, b| a & b,
        b"OR" => |a, b| a | b,
        b"XOR" => |a, b| a ^ b,
        b"NOT" => |a, _| !a,
        _ => {
            reply.error(SYNTAX);
            return Ok(());
        }
    };
    let is_not = word == b"NOT";
    if is_not && args.len() != 4 {
        reply.error("ERR BITOP NOT must be called with a single source key.");
        return Ok(());
    }
    let names: Vec<&[u8]> = args.from(2).collect();
    keys.claim_entries(&names, 2)?;
    let (mut len, mut is_other) = (0, false);
    atomic(keys.engine)?.update_all(&names, Durability::Buffered, &mut |entries| {
        is_other = entries[1..].iter().flatten().any(|entry| is_marked(entry.user_bits));
        if is_other {
            return vec![Update::Keep; names.len()];
        }
        let value = |entry: &Option<EntryRef<'_>>| entry.unwrap_or_default().value.to_vec();
        len = entries[1..].iter().flatten().map(|entry| entry.value.len()).max().unwrap_or(0);
        let mut result = value(&entries[1]);
        result.resize(len, 0);
        if is_not {
            result.iter_mut().for_each(|byte| *byte = combine(*byte, 0));
        }
        for entry in &entries[2..] {
            let other = entry.unwrap_or_default().value;
            for (at, byte) in result.iter_mut().enumerate() {
                *byte = combine(*byte, other.get(at).copied().unwrap_or(0));
            }
        }
        let mut updates = vec![Update::Keep; names.len()];
        updates[0] = match (len, entries[0]) {
            (0, None) => Update::Keep,
            (0, Some(_)) => Update::Delete,
            _ => Update::put(result),
        };
        // The target may be among the sources: what comes later wins, so it must say the same.
        for index in 1..names.len() {
            if names[index] == names[0] {
                updates[index] = updates[0].clone();
            }
        }
        updates
    })?;
    match is_other {
        true => reply.error(WRONG_TYPE),
        false => reply.integer(len as i64),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_keep_what_is_inside() {
        let bytes = [0xFF, 0xFF];
        assert_eq!(masked(&bytes, 0, &(0..16), 0), 0xFF);
        assert_eq!(masked(&bytes, 0, &(3..16), 0), 0x1F);
        assert_eq!(masked(&bytes, 1, &(3..11), 0), 0xE0);
        assert_eq!(masked(&bytes, 0, &(2..5), 0), 0x38);
        assert_eq!(masked(&[0, 0], 0, &(2..5), 0xFF), 0xC7);
    }

    #[test]
    fn offsets_end_with_the_largest_value() {
        assert_eq!(bit_offset(b"4294967295"), Some(4_294_967_295));
        assert_eq!(bit_offset(b"4294967296"), None);
        assert_eq!(bit_offset(b"-1"), None);
        assert_eq!(bit_offset(b"x"), None);
    }
}
