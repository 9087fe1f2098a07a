//! LCS: the longest common subsequence of two values.

use super::{NOT_INTEGER, SYNTAX, Values};
use crate::burst::Args;
use crate::table::{Read, Wants};
use silica_proto::{Reply, parse_i64};
use std::ops::Range;

/// Bytes of the table of lengths; the product of both values' lengths decides.
const TABLE_BYTES_MAX: usize = 64 << 20;

/// Memory of each common byte in an answer with places, at most.
const ANSWER_BYTES: usize = 100;

pub(crate) static LCS: Read = Read::new(2, Wants::Value, lcs)
    .with_other_type(|_| "ERR The specified keys must contain string values");

/// What the options say.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    len: bool,
    idx: bool,
    match_len_min: usize,
    with_match_len: bool,
}

fn options(args: Args<'_>) -> Result<Options, &'static str> {
    let mut options = Options::default();
    let mut index = 3;
    while index < args.len() {
        if args.is(index, "len") {
            options.len = true;
        } else if args.is(index, "idx") {
            options.idx = true;
        } else if args.is(index, "withmatchlen") {
            options.with_match_len = true;
        } else if args.is(index, "minmatchlen") && index + 1 < args.len() {
            index += 1;
            let min = parse_i64(args.get(index)).ok_or(NOT_INTEGER)?;
            options.match_len_min = min.max(0) as usize;
        } else {
            return Err(SYNTAX);
        }
        index += 1;
    }
    if options.len && options.idx {
        return Err("ERR If you want both the length and indexes, please just use IDX.");
    }
    Ok(options)
}

fn lcs(args: Args<'_>, values: Values<'_>, reply: &mut Reply<'_>) {
    let options = match options(args) {
        Ok(options) => options,
        Err(text) => return reply.error(text),
    };
    let (a, b) = (values.get(0).unwrap_or_default(), values.get(1).unwrap_or_default());
    if let Some(claim) = values.claim
        && let Err(text) = claim.grow(Table::bytes(a, b))
    {
        return reply.error(&text);
    }
    let Some(table) = Table::new(a, b) else {
        return reply.error(
            "ERR Insufficient memory, transient memory for LCS exceeds 64 MiB: the product of \
             both lengths may be 16 million",
        );
    };
    if options.idx {
        return ranges(&table, &options, reply);
    }
    match options.len {
        true => reply.integer(i64::from(table.at(a.len(), b.len()))),
        false => reply.bulk(&table.common()),
    }
}

/// Answers where both values agree, from their ends on.
fn ranges(table: &Table<'_>, options: &Options, reply: &mut Reply<'_>) {
    let mut matches = table.matches();
    matches.retain(|(a, _)| a.len() >= options.match_len_min);
    reply.map(2);
    reply.bulk(b"matches");
    reply.array(matches.len());
    for (a, b) in matches {
        reply.array(2 + usize::from(options.with_match_len));
        for range in [&a, &b] {
            reply.array(2);
            reply.integer(range.start as i64);
            reply.integer(range.end as i64 - 1);
        }
        if options.with_match_len {
            reply.integer(a.len() as i64);
        }
    }
    reply.bulk(b"len");
    reply.integer(i64::from(table.at(table.a.len(), table.b.len())));
}

/// For each pair of prefixes the length of their longest common subsequence.
struct Table<'a> {
    a: &'a [u8],
    b: &'a [u8],
    lengths: Vec<u32>,
}

impl<'a> Table<'a> {
    /// Bytes that it takes, with what is answered from it; none where it would be too large.
    fn bytes(a: &[u8], b: &[u8]) -> usize {
        let bytes = (a.len() + 1).checked_mul(size_of::<u32>() * (b.len() + 1));
        let bytes = bytes.filter(|bytes| *bytes <= TABLE_BYTES_MAX).unwrap_or(0);
        bytes + if bytes > 0 { ANSWER_BYTES * a.len().min(b.len()) } else { 0 }
    }

    /// `None` where it would be too large.
    fn new(a: &'a [u8], b: &'a [u8]) -> Option<Self> {
        let width = b.len() + 1;
        let cells = width.checked_mul(a.len() + 1)?;
        if cells > TABLE_BYTES_MAX / size_of::<u32>() {
            return None;
        }
        let mut lengths = vec![0u32; cells];
        for (row, x) in a.iter().enumerate() {
            let (above, below) = lengths.split_at_mut((row + 1) * width);
            let above = &above[row * width..];
            for (column, y) in b.iter().enumerate() {
                below[column + 1] = match x == y {
                    true => above[column] + 1,
                    false => above[column + 1].max(below[column]),
                };
            }
        }
        Some(Table { a, b, lengths })
    }

    /// The length for the first `row` bytes of one value and `column` bytes of the other.
    fn at(&self, row: usize, column: usize) -> u32 {
        self.lengths[row * (self.b.len() + 1) + column]
    }

    /// Calls `pair` with the places of each common byte, last first.
    fn walk(&self, mut pair: impl FnMut(usize, usize)) {
        let (mut row, mut column) = (self.a.len(), self.b.len());
        while row > 0 && column > 0 {
            if self.a[row - 1] == self.b[column - 1] {
                (row, column) = (row - 1, column - 1);
                pair(row, column);
            } else if self.at(row - 1, column) > self.at(row, column - 1) {
                row -= 1;
            } else {
                column -= 1;
            }
        }
    }

    /// The common subsequence itself.
    fn common(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.at(self.a.len(), self.b.len()) as usize);
        self.walk(|row, _| bytes.push(self.a[row]));
        bytes.reverse();
        bytes
    }

    /// The ranges in which both agree, last first.
    fn matches(&self) -> Vec<(Range<usize>, Range<usize>)> {
        let mut matches: Vec<(Range<usize>, Range<usize>)> = Vec::new();
        self.walk(|row, column| match matches.last_mut() {
            Some((a, b)) if a.start == row + 1 && b.start == column + 1 => {
                (a.start, b.start) = (row, column);
            }
            _ => matches.push((row..row + 1, column..column + 1)),
        });
        matches
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_of_all_subsequences_is_found() {
        let is_in = |needle: &[u8], hay: &[u8]| {
            let mut hay = hay.iter();
            needle.iter().all(|byte| hay.any(|other| other == byte))
        };
        let (a, b) = (b"abcbdabxy", b"bdcabaxyb");
        let subsets = (0..1u32 << a.len()).map(|bits| {
            let chosen = (0..a.len()).filter(|i| bits >> i & 1 == 1);
            chosen.map(|i| a[i]).collect::<Vec<u8>>()
        });
        let longest = subsets.filter(|text| is_in(text, b)).map(|text| text.len()).max();
        let table = Table::new(a, b).unwrap();
        let common = table.common();
        assert_eq!(Some(common.len()), longest);
        assert!(is_in(&common, a) && is_in(&common, b));
        let from_ranges: Vec<u8> =
            table.matches().iter().rev().flat_map(|(x, _)| a[x.clone()].to_vec()).collect();
        assert_eq!(from_ranges, common);
        assert!(Table::new(&[0; 20_000], &[0; 20_000]).is_none());
    }
}
