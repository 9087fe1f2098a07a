//! Buffers that are used again: a new one costs a fault for each of its pages, and the processors
//! forget each of those pages when it goes.

use silica_base::AlignedBuf;
use std::sync::Mutex;

/// A few buffers that nobody has in use.
#[derive(Debug)]
pub struct Buffers {
    kept: Mutex<Vec<AlignedBuf>>,
    /// Bytes of a buffer, and how many are kept.
    bytes: usize,
    count_max: usize,
}

impl Buffers {
    /// Keeps buffers of `bytes` bytes, at most so many that they come to `bytes_max`.
    pub fn new(bytes: usize, bytes_max: u64) -> Self {
        let count_max = (bytes_max / bytes as u64) as usize;
        Buffers { kept: Mutex::default(), bytes, count_max }
    }

    /// A buffer whose bytes may be any; one without memory where none is kept.
    pub fn take(&self) -> AlignedBuf {
        let kept = self.kept.lock().expect("no panic while held").pop();
        kept.unwrap_or_else(|| AlignedBuf::zeroed(0))
    }

    /// Keeps a buffer, if it has the right size and there are not too many.
    pub fn give(&self, buf: AlignedBuf) {
        let mut kept = self.kept.lock().expect("no panic while held");
        if buf.capacity() == self.bytes && kept.len() < self.count_max {
            kept.push(buf);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_of_the_right_size_are_kept() {
        let buffers = Buffers::new(8192, 20_000);
        assert_eq!(buffers.take().capacity(), 0);
        for bytes in [8192, 4096, 8192, 8192, 16_384] {
            buffers.give(AlignedBuf::zeroed(bytes));
        }
        let capacities = [(); 3].map(|()| buffers.take().capacity());
        assert_eq!(capacities, [8192, 8192, 0]);
    }
}
