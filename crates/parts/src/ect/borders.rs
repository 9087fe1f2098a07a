//! The code of chunk borders inside one virtual bucket.
//!
//! Any position between the last key of a chunk and the first of the next tells the two apart.
//! The bucket is divided into cells about as wide as the gap between two keys. A border is the
//! start of a cell where one lies in its gap, else the position inside a cell that takes the
//! fewest halvings of it. Its code is the distance in cells from the border before (Golomb-Rice
//! around the usual distance), the number of halvings in unary, and which half each time but the
//! last.

use super::bits::Cursor;
use silica_base::BitWriter;

/// Ones that announce a distance too far off for the Golomb-Rice code.
const FAR_ONES: u32 = 14;
pub(super) const LOW_BITS_MAX: u32 = 16;
pub(super) const CELL_BITS_MAX: u32 = 48;
/// Bits in which a border is read at once.
const LOOK_BITS: u32 = 32;
const _: () = assert!(FAR_ONES + LOW_BITS_MAX < LOOK_BITS);

/// How borders are coded: the parameters, fitted to a sample of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Grid {
    /// A bucket has two to the power of this many cells, at least one bit.
    pub(super) cell_bits: u32,
    /// Low bits of the Golomb-Rice code.
    pub(super) low_bits: u32,
    /// The usual distance between borders in cells.
    pub(super) usual: u16,
}

/// Where a border lies: in units of `2^-(cell_bits + halvings)` of the bucket, an odd number of
/// them unless it starts a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Border {
    cell: u64,
    halvings: u32,
    /// Which half each time but the last.
    path: u64,
}

impl Border {
    /// True where the border lies behind `position`, which is in cell `cell`.
    #[inline]
    pub(super) fn is_behind(&self, position: u64, cell: u64, grid: Grid) -> bool {
        self.cell >= cell && (self.cell > cell || self.position(grid) > position)
    }

    /// Position in 2^-64 of the bucket.
    #[inline]
    pub(super) fn position(&self, grid: Grid) -> u64 {
        let cell_width = 64 - grid.cell_bits;
        let inside = match self.halvings {
            0 => 0,
            halvings => (self.path << 1 | 1) << cell_width.saturating_sub(halvings),
        };
        self.cell << cell_width | inside
    }
}

/// The distance that is expected before the next border: half the usual one at the start of a
/// bucket, which lies anywhere between two borders.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    cell: u64,
    usual: u64,
}

impl Grid {
    /// The cell of a position.
    #[inline]
    pub(super) fn cell(self, position: u64) -> u64 {
        position >> (64 - self.cell_bits)
    }

    /// Before the first border of a bucket.
    #[inline]
    pub(super) fn start(self) -> Place {
        Place { cell: 0, usual: u64::from(self.usual / 2) }
    }

    /// Behind a border in `cell`.
    #[inline]
    fn behind(self, cell: u64) -> Place {
        Place { cell, usual: u64::from(self.usual) }
    }

    /// The border in `after < position <= upto` with the cheapest code; `after < upto`.
    pub(super) fn choose(self, place: Place, after: u64, upto: u64) -> Border {
        let cell_width = 64 - self.cell_bits;
        let (first, last) = ((after >> cell_width) + 1, upto >> cell_width);
        if first <= last {
            let cell = (place.cell + place.usual).clamp(first, last);
            return Border { cell, halvings: 0, path: 0 };
        }
        let odd_bit = 63 - (after ^ upto).leading_zeros();
        let halvings = cell_width - odd_bit;
        let path = (upto >> odd_bit >> 1) & ((1 << (halvings - 1)) - 1);
        Border { cell: last, halvings, path }
    }

    /// Writes `border`, which is not before `place`; the place behind it.
    pub(super) fn write(self, out: &mut BitWriter, place: Place, border: Border) -> Place {
        let distance = border.cell - place.cell;
        let folded = fold(distance, place.usual);
        let ones = folded >> self.low_bits;
        if ones < u64::from(FAR_ONES) {
            out.write((1 << ones) - 1, ones as u32 + 1);
            out.write(folded & ((1 << self.low_bits) - 1), self.low_bits);
        } else {
            out.write((1 << FAR_ONES) - 1, FAR_ONES);
            out.write(distance, CELL_BITS_MAX);
        }
        let halvings = border.halvings;
        out.write((1 << halvings) - 1, halvings + 1);
        out.write(border.path, halvings.saturating_sub(1));
        self.behind(border.cell)
    }

    /// Reads a border.
    #[inline]
    pub(super) fn read<'a>(self, mut cursor: Cursor<'a>, place: Place) -> Read<'a> {
        let ahead = cursor.look::<LOOK_BITS>();
        let ones = ahead.trailing_ones();
        if ones >= FAR_ONES {
            return self.read_far(cursor, place);
        }
        let low = ahead >> (ones + 1) & ((1 << self.low_bits) - 1);
        let distance = unfold(u64::from(ones) << self.low_bits | low, place.usual);
        let used = ones + 1 + self.low_bits;
        let halvings = (ahead >> used).trailing_ones();
        if used + 2 * halvings >= LOOK_BITS {
            cursor.skip(used);
            return self.read_halvings(cursor, place.cell.wrapping_add(distance));
        }
        let path_bits = halvings.saturating_sub(1);
        let path = ahead >> (used + halvings + 1) & ((1 << path_bits) - 1);
        cursor.skip(used + halvings + 1 + path_bits);
        let cell = place.cell.wrapping_add(distance);
        Read { border: Border { cell, halvings, path }, behind: self.behind(cell), cursor }
    }

    #[cold]
    fn read_far<'a>(self, mut cursor: Cursor<'a>, place: Place) -> Read<'a> {
        cursor.skip(FAR_ONES);
        let distance = cursor.read(CELL_BITS_MAX);
        self.read_halvings(cursor, place.cell.wrapping_add(distance))
    }

    #[cold]
    fn read_halvings<'a>(self, mut cursor: Cursor<'a>, cell: u64) -> Read<'a> {
        let halvings = cursor.read_unary().min(64 - self.cell_bits);
        let path = cursor.read(halvings.saturating_sub(1));
        Read { border: Border { cell, halvings, path }, behind: self.behind(cell), cursor }
    }
}

/// A border that was read, and what comes behind it. The cursor goes by value, so that it stays in
/// registers.
#[derive(Debug)]
pub(super) struct Read<'a> {
    pub(super) border: Border,
    pub(super) behind: Place,
    pub(super) cursor: Cursor<'a>,
}

/// Distances around the usual one first, the nearest with the least number; those that have no
/// counterpart on the other side as they are.
#[inline]
fn fold(distance: u64, usual: u64) -> u64 {
    match distance.checked_sub(usual) {
        Some(over) if over > usual => distance,
        Some(0) => 0,
        Some(over) => 2 * over - 1,
        None => 2 * (usual - distance),
    }
}

#[inline]
fn unfold(folded: u64, usual: u64) -> u64 {
    // Even numbers are below the usual distance, odd ones above; no branch could guess which.
    let below = (folded & 1).wrapping_sub(1);
    let near = usual.wrapping_add((folded.div_ceil(2) ^ below).wrapping_sub(below));
    if folded > 2 * usual { folded } else { near }
}

#[cfg(test)]
mod tests {
    use super::super::bits::pad;
    use super::*;
    use silica_base::Prng;

    #[test]
    fn folding_is_reversible_and_dense() {
        for usual in 0..20 {
            let mut all: Vec<u64> = (0..100).map(|distance| fold(distance, usual)).collect();
            assert!((0..100).all(|d| unfold(fold(d, usual), usual) == d));
            all.sort_unstable();
            assert!(all.into_iter().eq(0..100));
        }
    }

    #[test]
    fn borders_lie_in_their_gaps_and_round_trip() {
        let mut prng = Prng::new(4);
        for case in 0..300 {
            let grid = Grid {
                cell_bits: 1 + prng.below(u64::from(CELL_BITS_MAX)) as u32,
                low_bits: prng.below(10) as u32,
                usual: prng.below(100) as u16,
            };
            let shift = case % 60;
            let mut positions: Vec<u64> = (0..40).map(|_| prng.next_u64() >> shift).collect();
            positions.sort_unstable();
            positions.dedup();
            let mut out = BitWriter::new();
            let (mut place, mut borders) = (grid.start(), Vec::new());
            for gap in positions.windows(2) {
                let border = grid.choose(place, gap[0], gap[1]);
                let position = border.position(grid);
                assert!(gap[0] < position && position <= gap[1], "{border:?} in {gap:x?}");
                place = grid.write(&mut out, place, border);
                borders.push(border);
            }
            let bytes = pad(&out);
            let (mut cursor, mut place) = (Cursor::forwards(&bytes, 0), grid.start());
            for border in borders {
                let read = grid.read(cursor, place);
                assert_eq!(read.border, border);
                (cursor, place) = (read.cursor, read.behind);
            }
            assert_eq!(cursor.at(), out.len_bits());
        }
    }
}
