//! What two strings of bytes begin with, and whether there is anything in one.

/// Bytes that both begin with.
#[inline]
pub fn shared_len(one: &[u8], other: &[u8]) -> usize {
    let (words, others) = (one.as_chunks::<8>().0, other.as_chunks::<8>().0);
    for (at, (word, other)) in words.iter().zip(others).enumerate() {
        let differ = u64::from_le_bytes(*word) ^ u64::from_le_bytes(*other);
        if differ != 0 {
            return 8 * at + differ.trailing_zeros() as usize / 8;
        }
    }
    let from = 8 * words.len().min(others.len());
    let rest = one[from..].iter().zip(&other[from..]);
    from + rest.take_while(|(one, other)| one == other).count()
}

/// True if all bytes are zero, as those of a file that nothing was written to.
///
/// A comparison with zeroes takes many bytes at a time in every build; a loop over bytes that may
/// end early takes one.
#[inline]
pub fn is_zero(bytes: &[u8]) -> bool {
    static ZEROES: [u8; 4096] = [0; 4096];
    bytes.chunks(ZEROES.len()).all(|piece| *piece == ZEROES[..piece.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bit_anywhere_is_not_zero() {
        let mut bytes = vec![0; 3 * 4096 + 5];
        assert!(is_zero(&[]) && is_zero(&bytes) && is_zero(&bytes[3..4096]));
        for at in [0, 1, 4095, 4096, 8191, 12_287, 12_288, 12_292] {
            bytes[at] = 0x80;
            assert!(!is_zero(&bytes), "{at}");
            assert!(is_zero(&bytes[..at]) && is_zero(&bytes[at + 1..]), "{at}");
            bytes[at] = 0;
        }
    }

    #[test]
    fn strings_share_what_comes_before_the_first_difference() {
        let bytes: Vec<u8> = (0..40).collect();
        for (len, other_len) in (0..40).flat_map(|len| (0..40).map(move |other| (len, other))) {
            let shared = len.min(other_len);
            assert_eq!(shared_len(&bytes[..len], &bytes[..other_len]), shared);
            for at in 0..other_len {
                let mut other = bytes[..other_len].to_vec();
                other[at] ^= 0x80 >> (at % 8);
                assert_eq!(shared_len(&bytes[..len], &other), shared.min(at), "{len}, {other:?}");
            }
        }
    }
}
