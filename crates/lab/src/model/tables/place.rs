//! Tables as places in the order of keys, 0 to 1, with what they hold there.

use crate::model::Primitives;
use std::ops::Range;

/// What puts left: those of a fill, a share of all keys, each once and in any order, and the
/// requests behind it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::model) struct Puts {
    pub(in crate::model) share: f64,
    pub(in crate::model) requests: f64,
}

impl Puts {
    pub(in crate::model) fn add(&mut self, more: Puts) {
        self.share += more.share;
        self.requests += more.requests;
    }

    /// Distinct keys of them.
    pub(in crate::model) fn unique(self, keys: &Primitives) -> f64 {
        let all = keys.keys();
        all - (1.0 - self.share).max(0.0) * (all - keys.unique(self.requests))
    }

    /// Variance of their number, where each key is there by chance of its own. A fill's share is
    /// taken to be one, too.
    pub(in crate::model) fn variance(self, keys: &Primitives) -> f64 {
        let is_absent = (1.0 - self.share).max(0.0);
        let absent = |requests: f64| keys.keys() - keys.unique(requests);
        let squares = is_absent * is_absent * absent(2.0 * self.requests);
        (is_absent * absent(self.requests) - squares).max(0.0)
    }

    /// Sums of the same in another order.
    fn is_same(self, other: Puts) -> bool {
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.max(b);
        near(self.share, other.share) && near(self.requests, other.requests)
    }
}

/// Part of the order of keys where a table holds what such puts left there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::model) struct Piece {
    pub(in crate::model) from: f64,
    pub(in crate::model) to: f64,
    pub(in crate::model) puts: Puts,
    pub(in crate::model) entries: f64,
}

impl Piece {
    pub(in crate::model) fn new(from: f64, to: f64, puts: Puts, keys: &Primitives) -> Self {
        Piece { from, to, puts, entries: (to - from) * puts.unique(keys) }
    }

    /// Its first `entries`, and the rest.
    pub(in crate::model) fn split(self, entries: f64) -> (Piece, Piece) {
        self.split_at(self.from + (self.to - self.from) * (entries / self.entries).clamp(0.0, 1.0))
    }

    fn split_at(self, at: f64) -> (Piece, Piece) {
        let share = (at - self.from) / (self.to - self.from);
        let head = Piece { to: at, entries: self.entries * share, ..self };
        (head, Piece { from: at, entries: self.entries - head.entries, ..self })
    }
}

/// A table: pieces in their order, one at least.
#[derive(Clone, Debug)]
pub(in crate::model) struct Table {
    pub(in crate::model) pieces: Vec<Piece>,
    pub(in crate::model) entries: f64,
    /// Where its largest key is: the end, or before it where nothing follows in its level.
    pub(in crate::model) largest: f64,
}

impl Table {
    pub(in crate::model) fn new(pieces: Vec<Piece>) -> Self {
        let entries = pieces.iter().map(|piece| piece.entries).sum();
        let largest = pieces[pieces.len() - 1].to;
        Table { pieces, entries, largest }
    }

    pub(in crate::model) fn from(&self) -> f64 {
        self.pieces[0].from
    }

    pub(in crate::model) fn to(&self) -> f64 {
        self.pieces[self.pieces.len() - 1].to
    }
}

pub(in crate::model) fn entries_of(tables: &[Table]) -> f64 {
    tables.iter().map(|table| table.entries).sum()
}

/// Tables that have a part between two places.
pub(in crate::model) fn overlapping(tables: &[Table], from: f64, to: f64) -> Range<usize> {
    let start = tables.partition_point(|table| table.to() <= from);
    start..tables.partition_point(|table| table.from() < to).max(start)
}

/// Tables that lie between two places with all they have.
pub(in crate::model) fn covering(tables: &[Table], from: f64, to: f64) -> Range<usize> {
    let start = tables.partition_point(|table| table.from() < from);
    start..tables.partition_point(|table| table.to() <= to).max(start)
}

/// Tables of `most` entries each, and what is left over.
pub(in crate::model) fn cut_entries(
    pieces: Vec<Piece>,
    mut most: impl FnMut() -> f64,
) -> Vec<Table> {
    let (mut cut, mut open, mut entries) = (Vec::new(), Vec::new(), 0.0);
    let mut full = most();
    for piece in pieces {
        let mut rest = piece;
        while entries + rest.entries >= full {
            let (head, tail) = rest.split(full - entries);
            open.push(head);
            cut.push(Table::new(std::mem::take(&mut open)));
            entries = 0.0;
            full = most();
            rest = tail;
        }
        if rest.to > rest.from {
            entries += rest.entries;
            open.push(rest);
        }
    }
    if !open.is_empty() {
        cut.push(Table::new(open));
    }
    cut
}

/// Tables of `most` entries each, which also end where one of `below` does and `is_enough` of their
/// entries, of the entries of tables below that they have crossed, and of how many those are. With
/// `goes_on` a table that ends for its size does not begin a new count of these.
pub(in crate::model) fn cut_at(
    pieces: Vec<Piece>,
    below: &[Table],
    goes_on: bool,
    mut most: impl FnMut() -> f64,
    is_enough: impl Fn(f64, f64, u32) -> bool,
) -> Vec<Table> {
    let (mut cut, mut open) = (Vec::new(), Vec::new());
    let (mut entries, mut overlapped, mut crossed) = (0.0, 0.0, 0);
    let mut full = most();
    for piece in split_at(pieces, below) {
        let met = below.partition_point(|other| other.to() <= piece.from);
        let is_edge = met > 0 && below[met - 1].to() == piece.from;
        if is_edge && !open.is_empty() {
            overlapped += below[met - 1].entries;
            crossed += 1;
            if is_enough(entries, overlapped, crossed) {
                cut.push(Table::new(std::mem::take(&mut open)));
                (entries, overlapped, crossed) = (0.0, 0.0, 0);
                full = most();
            }
        }
        let mut rest = piece;
        while entries + rest.entries >= full {
            let (head, tail) = rest.split(full - entries);
            open.push(head);
            cut.push(Table::new(std::mem::take(&mut open)));
            entries = 0.0;
            if !goes_on {
                (overlapped, crossed) = (0.0, 0);
            }
            full = most();
            rest = tail;
        }
        if rest.to > rest.from {
            entries += rest.entries;
            open.push(rest);
        }
    }
    if !open.is_empty() {
        cut.push(Table::new(open));
    }
    cut
}

/// `pieces` cut where one of `tables` ends.
fn split_at(pieces: Vec<Piece>, tables: &[Table]) -> Vec<Piece> {
    let mut split = Vec::with_capacity(pieces.len() + tables.len());
    for mut piece in pieces {
        let first = tables.partition_point(|table| table.to() <= piece.from);
        let edges = tables[first..].iter().map(Table::to);
        let to = piece.to;
        for edge in edges.take_while(|edge| *edge < to) {
            let (head, tail) = piece.split_at(edge);
            split.push(head);
            piece = tail;
        }
        split.push(piece);
    }
    split
}

/// Both runs as one; each is in its order. Where both are, their puts add up: those of `old` came
/// right before those of `young`.
pub(in crate::model) fn merged(young: &[Piece], old: &[Piece], keys: &Primitives) -> Vec<Piece> {
    let mut edges: Vec<f64> =
        young.iter().chain(old).flat_map(|piece| [piece.from, piece.to]).collect();
    edges.sort_by(f64::total_cmp);
    edges.dedup();
    let mut pieces: Vec<Piece> = Vec::with_capacity(edges.len());
    let (mut in_young, mut in_old) = (young.iter().peekable(), old.iter().peekable());
    for pair in edges.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        let mut puts = at(&mut in_young, from);
        puts.add(at(&mut in_old, from));
        match pieces.last_mut() {
            _ if puts == Puts::default() => {}
            Some(last) if last.to == from && last.puts.is_same(puts) => {
                *last = Piece::new(last.from, to, puts, keys);
            }
            _ => pieces.push(Piece::new(from, to, puts, keys)),
        }
    }
    pieces
}

/// What is there of the piece that begins at or before `from` and goes on behind it.
fn at<'p>(pieces: &mut std::iter::Peekable<impl Iterator<Item = &'p Piece>>, from: f64) -> Puts {
    while pieces.next_if(|piece| piece.to <= from).is_some() {}
    pieces.peek().filter(|piece| piece.from <= from).map_or(Puts::default(), |piece| piece.puts)
}
