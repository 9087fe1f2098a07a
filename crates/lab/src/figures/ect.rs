//! Figure 3.3 of Lim's chapter on entropy-coded tries: expected bits per key of one trie, by how
//! its splits are coded.

use super::Row;

/// Keys of the trie, as in the figure.
const KEYS: usize = 256;
/// The largest trie with Huffman codes in the paper.
const HMAX: usize = 64;

/// A row for each code. The entropy is what no code goes below.
pub fn figure_3_3() -> Vec<Row> {
    let paper = |size: usize, odds: &[f64]| {
        if size <= HMAX { huffman(odds) } else { elias_gamma(size, odds) }
    };
    let codes = [
        ("entropy", expected(KEYS, |_, odds| entropy(odds))),
        ("Huffman up to 64, Elias gamma beyond: the paper's", expected(KEYS, paper)),
        ("Huffman for all", expected(KEYS, |_, odds| huffman(odds))),
    ];
    let row = |(code, bits): (&str, f64)| {
        Row::new("figure-3.3", code, "expected bits per key of a trie of 256 keys", bits, None)
    };
    codes.map(row).to_vec()
}

/// Expected bits per key of one trie of `keys` uniform keys whose splits cost `split(size, odds)`;
/// `odds` are those of each left, both one-sided cases first.
fn expected(keys: usize, split: impl Fn(usize, &[f64]) -> f64) -> f64 {
    let mut bits = vec![0.0; keys + 1];
    let mut row = vec![1.0];
    for size in 1..=keys {
        let mut next = vec![0.5; size + 1];
        (1..size).for_each(|left| next[left] = (row[left - 1] + row[left]) / 2.0);
        (next[0], next[size]) = (row[0] / 2.0, row[0] / 2.0);
        row = next;
        if size == 1 {
            continue;
        }
        let mut odds = row[..size].to_vec();
        odds[0] *= 2.0;
        let parts: f64 = (1..size).map(|left| row[left] * (bits[left] + bits[size - left])).sum();
        bits[size] = (split(size, &odds) + parts) / (1.0 - odds[0]);
    }
    bits[keys] / keys as f64
}

fn entropy(odds: &[f64]) -> f64 {
    odds.iter().filter(|&&p| p > 0.0).map(|p| -p * p.log2()).sum()
}

/// Mean word length of the Huffman code: the sum of all inner weights.
fn huffman(odds: &[f64]) -> f64 {
    let mut weights = odds.to_vec();
    let mut mean = 0.0;
    while weights.len() > 1 {
        weights.sort_by(|a, b| b.total_cmp(a));
        let pair = weights.pop().unwrap_or(0.0) + weights.pop().unwrap_or(0.0);
        mean += pair;
        weights.push(pair);
    }
    mean
}

/// Mean length of the Elias-gamma code of the deviation from an even split.
fn elias_gamma(size: usize, odds: &[f64]) -> f64 {
    let word = |left: usize| {
        let deviation = left as i64 - (size / 2) as i64;
        let folded = (deviation << 1 ^ deviation >> 63) as u64;
        f64::from(2 * (folded + 1).ilog2() + 1)
    };
    odds.iter().enumerate().map(|(left, p)| p * word(left)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_code_is_below_the_entropy_and_huffman_is_the_best() {
        let bits: Vec<f64> = figure_3_3().iter().map(|row| row.value).collect();
        let [entropy, paper, huffman] = bits[..] else { panic!("{bits:?}") };
        assert!(entropy < huffman && huffman < paper, "{bits:?}");
        // Two keys differ at the first bit with one half: 2 bits for the pair on average.
        let pair = expected(2, |_, odds| super::entropy(odds));
        assert!((pair - 1.0).abs() < 0.3, "{pair}");
    }
}
