//! Unions of sorted tables.

/// Appends to `out` the union of two sorted tables without repetitions.
pub(super) fn union(left: &[u32], right: &[u32], out: &mut Vec<u32>) {
    let begin = out.len();
    out.resize(begin + left.len() + right.len(), 0);
    let room = &mut out[begin..];
    let (mut i, mut j, mut k) = (0, 0, 0);
    // No branch depends on the keys, which nothing could predict.
    while i < left.len() && j < right.len() && k < room.len() {
        let (l, r) = (left[i], right[j]);
        room[k] = l.min(r);
        i += usize::from(l <= r);
        j += usize::from(r <= l);
        k += 1;
    }
    let rest = if i < left.len() { &left[i..] } else { &right[j..] };
    room[k..k + rest.len()].copy_from_slice(rest);
    out.truncate(begin + k + rest.len());
}

/// The union of any number of sorted tables.
pub(super) fn union_all(mut tables: Vec<Vec<u32>>) -> Vec<u32> {
    while tables.len() > 1 {
        let mut merged = Vec::with_capacity(tables.len().div_ceil(2));
        for pair in tables.chunks_mut(2) {
            merged.push(match pair {
                [left, right] => {
                    let mut out = Vec::new();
                    union(left, right, &mut out);
                    out
                }
                _ => std::mem::take(&mut pair[0]),
            });
        }
        tables = merged;
    }
    tables.pop().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_base::Prng;
    use std::collections::BTreeSet;

    #[test]
    fn unions_are_those_of_sets() {
        let mut prng = Prng::new(4);
        for tables in 0..6 {
            for keys in [1, 10, 1000] {
                let sets: Vec<BTreeSet<u32>> = (0..tables)
                    .map(|_| (0..prng.below(200)).map(|_| prng.below(keys) as u32).collect())
                    .collect();
                let sorted = sets.iter().map(|set| set.iter().copied().collect()).collect();
                let all: BTreeSet<u32> = sets.into_iter().flatten().collect();
                assert!(union_all(sorted).into_iter().eq(all));
            }
        }
    }
}
