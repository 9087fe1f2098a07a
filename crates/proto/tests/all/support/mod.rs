//! Hostile bytes for both protocols' tests.

use silica_base::Prng;

/// A member of `corpus` with some bytes changed, cut, joined by `pieces` or by other members.
pub(crate) fn mutate(random: &mut Prng, corpus: &[&[u8]], pieces: &[&[u8]]) -> Vec<u8> {
    let pick =
        |random: &mut Prng, of: &[&[u8]]| of[random.below(of.len() as u64) as usize].to_vec();
    let mut bytes = pick(random, corpus);
    for _ in 0..random.below(6) {
        let at = random.below(bytes.len() as u64 + 1) as usize;
        match random.below(6) {
            0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            1 if at < bytes.len() => bytes[at] = random.next_u64() as u8,
            2 if at < bytes.len() => drop(bytes.drain(at..(at + 3).min(bytes.len()))),
            3 => bytes.truncate(at),
            4 => {
                let piece = pick(random, pieces);
                bytes.splice(at..at, piece);
            }
            _ => bytes.extend(pick(random, corpus)),
        }
    }
    bytes
}
