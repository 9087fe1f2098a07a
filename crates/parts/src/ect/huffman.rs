//! Static Huffman codes, the same on every machine: weights are integers, ties are broken by
//! position.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// One code word: its bits in reading order from the least significant, and how many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) bits: u32,
    pub(super) len: u32,
}

/// The canonical Huffman code of symbols with these `weights` (none zero, at least two): one
/// word per symbol.
pub(super) fn canonical(weights: &[u64]) -> Vec<Word> {
    let lens = lengths(weights);
    let mut order: Vec<usize> = (0..lens.len()).collect();
    silica_base::compact_sort_by_key(&mut order, |&symbol| (lens[symbol], symbol));
    let mut words = vec![Word::default(); lens.len()];
    let (mut next, mut len) = (0u64, 0);
    for symbol in order {
        next <<= lens[symbol] - len;
        len = lens[symbol];
        words[symbol] = Word { bits: (next.reverse_bits() >> (64 - len)) as u32, len };
        next += 1;
    }
    words
}

fn lengths(weights: &[u64]) -> Vec<u32> {
    let mut heap: BinaryHeap<_> =
        weights.iter().enumerate().map(|(node, &weight)| Reverse((weight, node))).collect();
    let mut parents = vec![0; 2 * weights.len() - 1];
    let mut next = weights.len();
    while let (Some(Reverse((a, i))), Some(Reverse((b, j)))) = (heap.pop(), heap.pop()) {
        (parents[i], parents[j]) = (next, next);
        heap.push(Reverse((a + b, next)));
        next += 1;
        if next == parents.len() {
            break;
        }
    }
    let root = parents.len() - 1;
    let mut depths = vec![0; parents.len()];
    for node in (0..root).rev() {
        depths[node] = depths[parents[node]] + 1;
    }
    depths.truncate(weights.len());
    depths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_words_for_heavy_symbols() {
        let words = canonical(&[1, 2, 4, 8]);
        assert_eq!(words.iter().map(|w| w.len).collect::<Vec<_>>(), [3, 3, 2, 1]);
        let kraft: f64 = words.iter().map(|w| (-f64::from(w.len)).exp2()).sum();
        assert!((kraft - 1.0).abs() < 1e-9);
    }
}
