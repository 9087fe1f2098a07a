//! A page that is too large becomes several.

use crate::page::{cell, starts};
use silica_base::Result;
use std::ops::Range;

/// Children on either side of a node that is split in its midst.
pub(crate) const CHILDREN_MIN: usize = 4;

/// A part of a page that becomes one of its own.
pub(crate) struct Part {
    pub(crate) range: Range<usize>,
    pub(crate) count: u64,
    /// Not above the first key, and above the last one of the part before.
    pub(crate) key: Vec<u8>,
}

/// The shortest beginning of `first` that is above `before`, a lesser key; all of it in a tree
/// whose keys are empty.
fn separator<'k>(before: &[u8], first: &'k [u8]) -> &'k [u8] {
    let common = before.iter().zip(first).take_while(|(one, other)| one == other).count();
    &first[..(common + 1).min(first.len())]
}

/// Parts of a page that was changed at `at`, none with more than `max` bytes if it has more cells
/// than a page must have. What grows at an end fills its pages.
pub(crate) fn split(bytes: &[u8], height: u8, max: usize, at: usize) -> Result<Vec<Part>> {
    let cells = starts(bytes, height)?;
    let mut ranges = Vec::new();
    let least = if height == 0 { 1 } else { CHILDREN_MIN };
    cut_in_two(bytes.len(), &cells, (max, least), at, &mut ranges);
    let part = |range: Range<usize>| {
        let (mut next, mut count) = (range.start, 0);
        let first = &bytes[cell(bytes, height, next)?.key];
        let before = cells[..cells.partition_point(|at| *at < range.start)].last();
        let key = match before {
            // Children are told apart by a few bytes, so a node has many.
            Some(at) if height == 0 => separator(&bytes[cell(bytes, 0, *at)?.key], first).to_vec(),
            _ => first.to_vec(),
        };
        while next < range.end {
            let own = cell(bytes, height, next)?;
            (next, count) = (own.range.end, count + own.count);
        }
        Ok(Part { range, count, key })
    };
    ranges.into_iter().map(part).collect()
}

/// Appends the ranges of `cells`, which begin at these places and end at `end`, to `ranges`.
/// At least `least` cells are on either side of a cut in their midst.
fn cut_in_two(
    end: usize,
    cells: &[usize],
    (max, least): (usize, usize),
    at: usize,
    ranges: &mut Vec<Range<usize>>,
) {
    let Some(&start) = cells.first() else { return };
    if end - start <= max || cells.len() < 2 * least {
        ranges.push(start..end);
        return;
    }
    let last = cells[cells.len() - 1];
    let middle = start + (end - start) / 2;
    let cut = match at {
        at if at == last && last - start <= max => cells.len() - 1,
        at if at == start && end - cells[1] <= max => 1,
        _ => cells.partition_point(|cell| *cell <= middle).clamp(least, cells.len() - least),
    };
    cut_in_two(cells[cut], &cells[..cut], (max, least), at, ranges);
    cut_in_two(end, &cells[cut..], (max, least), at, ranges);
}
