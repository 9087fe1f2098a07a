//! Limits and ports.

use super::{DATAGRAM_BYTES_MAX, KEY_BYTES_MAX, Malformed, VALUE_BYTES_MAX};

/// Bytes of a directory before its ports.
pub const DIRECTORY_BYTES: usize = 8;

/// What a server tells whoever asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directory {
    /// Bytes of a datagram at most.
    pub datagram_bytes_max: u16,
    /// Bytes of a key at most.
    pub key_bytes_max: u16,
    /// Bytes of a value at most.
    pub value_bytes_max: u16,
    /// The server's ports in their order.
    pub ports: Vec<u16>,
}

impl Directory {
    /// That of a server with these ports.
    pub fn new(ports: &[u16]) -> Self {
        Directory {
            datagram_bytes_max: DATAGRAM_BYTES_MAX as u16,
            key_bytes_max: KEY_BYTES_MAX as u16,
            value_bytes_max: VALUE_BYTES_MAX as u16,
            ports: ports.to_vec(),
        }
    }

    /// Appends it.
    pub fn write(&self, out: &mut Vec<u8>) {
        let limits = [self.datagram_bytes_max, self.key_bytes_max, self.value_bytes_max, 0];
        out.extend(limits.iter().chain(&self.ports).flat_map(|number| number.to_le_bytes()));
    }

    /// The directory with `count` ports behind a header; there is at least one.
    pub fn read(bytes: &[u8], count: u16) -> Result<Directory, Malformed> {
        let (numbers, _) = bytes.as_chunks::<2>();
        let number = |at: usize| u16::from_le_bytes(numbers[at]);
        let (first, count) = (DIRECTORY_BYTES / 2, usize::from(count));
        if count == 0 || numbers.len() < first + count {
            return Err(Malformed);
        }
        Ok(Directory {
            datagram_bytes_max: number(0),
            key_bytes_max: number(1),
            value_bytes_max: number(2),
            ports: (first..first + count).map(number).collect(),
        })
    }
}

/// Which of `ports` ports `key` belongs to.
#[inline]
pub fn direction(key: &[u8], ports: usize) -> usize {
    if ports <= 1 {
        return 0;
    }
    let hash = key.iter().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3)
    });
    ((hash ^ (hash >> 32)) as u32) as usize % ports
}
