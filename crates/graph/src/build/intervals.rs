//! Intervals of vertices: what fits into memory, with about as many edges each.

use super::{EDGES_TO_SHARE, VERTEX_BYTES};

/// Vertices of an interval at least, whatever the memory number says.
const VERTICES_MIN: u64 = 64;
/// Intervals for each thread: the slowest of a round is waited for.
const PER_THREAD: u64 = 2;

/// Cuts vertices, which come in their order, into intervals.
pub(crate) struct Cutter {
    begins: Vec<u64>,
    vertices_max: u64,
    edges_max: u64,
    vertices: u64,
    /// Of the interval that is open.
    entering: u64,
}

/// First vertex of each interval, and the number of vertices.
pub(crate) struct Intervals {
    pub(crate) begins: Vec<u64>,
}

/// An edge as a number whose order is that of interval, source and target.
#[derive(Clone)]
pub(crate) struct Packing {
    begins: Vec<u64>,
    source_bits: u32,
    target_bits: u32,
}

impl Cutter {
    /// Cuts for programs that have `room_bytes` of memory.
    pub(crate) fn new(room_bytes: u64, edges: u64, threads: usize) -> Self {
        let threads = threads.max(1) as u64;
        let share = room_bytes / 2 / threads / VERTEX_BYTES;
        let is_shared = threads > 1 && edges >= EDGES_TO_SHARE;
        let parts = if is_shared { threads * PER_THREAD } else { 1 };
        let edges_max = (edges / parts).max(1);
        let vertices_max = share.max(VERTICES_MIN);
        Cutter { begins: vec![0], vertices_max, edges_max, vertices: 0, entering: 0 }
    }

    /// Adds vertices and the edges that enter them. They stay together if they can.
    pub(crate) fn add(&mut self, vertices: u32, entering: u64) {
        let open = self.vertices - self.begins.last().expect("it has the first");
        let is_too_long = open + u64::from(vertices) > self.vertices_max;
        if open > 0 && (is_too_long || self.entering >= self.edges_max) {
            self.begins.push(self.vertices);
            self.entering = 0;
        }
        self.vertices += u64::from(vertices);
        self.entering += entering;
        let mut begin = *self.begins.last().expect("it has the first");
        while self.vertices - begin > self.vertices_max {
            begin += self.vertices_max;
            self.begins.push(begin);
        }
    }

    pub(crate) fn finish(mut self, vertices: u64) -> Intervals {
        debug_assert_eq!(self.vertices, vertices);
        if vertices == 0 {
            return Intervals { begins: vec![0] };
        }
        self.begins.push(vertices);
        let intervals = Intervals { begins: self.begins };
        if intervals.packing().bits() <= 64 {
            return intervals;
        }
        // With intervals of a power of two, place and interval have as many bits as the number.
        let step = 1 << self.vertices_max.ilog2();
        let begins = (0..vertices).step_by(step).chain([vertices]).collect();
        Intervals { begins }
    }
}

fn bits(count: u64) -> u32 {
    u64::BITS - count.saturating_sub(1).leading_zeros()
}

impl Intervals {
    /// Vertices.
    fn vertices(&self) -> u64 {
        *self.begins.last().expect("it has the first")
    }

    pub(crate) fn packing(&self) -> Packing {
        let longest = self.begins.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
        Packing {
            begins: self.begins.clone(),
            source_bits: bits(self.vertices()),
            target_bits: bits(longest),
        }
    }
}

impl Packing {
    fn bits(&self) -> u32 {
        bits(self.begins.len() as u64 - 1) + self.source_bits + self.target_bits
    }

    #[inline]
    pub(crate) fn pack(&self, source: u32, target: u32) -> u64 {
        let interval = self.begins.partition_point(|begin| *begin <= u64::from(target)) - 1;
        let offset = u64::from(target) - self.begins[interval];
        // A graph of one vertex, or intervals of one, take no bits for it.
        ((interval as u64) << self.source_bits | u64::from(source)) << self.target_bits | offset
    }

    /// Interval, source, and target from the interval's begin.
    #[inline]
    pub(crate) fn unpack(&self, packed: u64) -> (usize, u32, u32) {
        let offset = packed & ((1 << self.target_bits) - 1);
        let upper = packed >> self.target_bits;
        let source = upper & ((1 << self.source_bits) - 1);
        ((upper >> self.source_bits) as usize, source as u32, offset as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_edges_sort_by_interval_source_and_target() {
        let intervals = Intervals { begins: vec![0, 3, 10, 11] };
        let packing = intervals.packing();
        let mut packed: Vec<u64> = Vec::new();
        for source in 0..11 {
            packed.extend((0..11).map(|target| packing.pack(source, target)));
        }
        packed.sort_unstable();
        let unpacked: Vec<_> = packed.iter().map(|number| packing.unpack(*number)).collect();
        assert!(unpacked.is_sorted());
        assert_eq!(unpacked[0], (0, 0, 0));
        assert_eq!(unpacked[120], (2, 10, 0));
    }

    #[test]
    fn the_largest_graph_packs() {
        let mut cutter = Cutter::new(1 << 30, 1 << 36, 2);
        // Uneven intervals do not fit into 64 bits with sources of 32.
        for group in 0..1u64 << 22 {
            cutter.add(1024, if group % 7 == 0 { 1 << 30 } else { 1 });
        }
        let intervals = cutter.finish(1 << 32);
        assert!(intervals.packing().bits() <= 64);
        assert!(intervals.begins.windows(2).all(|pair| pair[0] < pair[1]));
        let packing = intervals.packing();
        let (interval, source, offset) = packing.unpack(packing.pack(u32::MAX, u32::MAX));
        assert_eq!(source, u32::MAX);
        assert_eq!(intervals.begins[interval] + u64::from(offset), u64::from(u32::MAX));
    }
}
