//! Limits and ports.

use super::{DATAGRAM_BYTES_MAX, KEY_BYTES_MAX, Malformed, VALUE_BYTES_MAX};
use silica_base::HashSeed;

/// Bytes of a directory before its ports.
pub const DIRECTORY_BYTES: usize = 8;

/// Bytes of a seed behind the ports.
pub const SEED_BYTES: usize = 16;

/// Where keys belong, where cores own partitions: told only to who has shown a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partitions {
    /// How many there are, a power of two.
    pub count: u16,
    /// The seed of the hash whose highest bits are a key's partition.
    pub seed: HashSeed,
}

impl Partitions {
    /// The partition that `key` belongs to.
    #[inline]
    pub fn of(&self, key: &[u8]) -> usize {
        let bits = self.count.ilog2();
        self.seed.low(key).rotate_left(bits) as usize & (usize::from(self.count) - 1)
    }
}

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
    /// Which port owns what.
    pub partitions: Option<Partitions>,
}

impl Directory {
    /// That of a server with these ports.
    pub fn new(ports: &[u16], partitions: Option<Partitions>) -> Self {
        Directory {
            datagram_bytes_max: DATAGRAM_BYTES_MAX as u16,
            key_bytes_max: KEY_BYTES_MAX as u16,
            value_bytes_max: VALUE_BYTES_MAX as u16,
            ports: ports.to_vec(),
            partitions,
        }
    }

    /// Appends it.
    pub fn write(&self, out: &mut Vec<u8>) {
        let partitions = self.partitions.map_or(0, |partitions| partitions.count);
        let limits =
            [self.datagram_bytes_max, self.key_bytes_max, self.value_bytes_max, partitions];
        out.extend(limits.iter().chain(&self.ports).flat_map(|number| number.to_le_bytes()));
        out.extend(self.partitions.iter().flat_map(|partitions| partitions.seed.0));
    }

    /// The directory with `count` ports behind a header; there is at least one.
    pub fn read(bytes: &[u8], count: u16) -> Result<Directory, Malformed> {
        let (numbers, _) = bytes.as_chunks::<2>();
        let number = |at: usize| u16::from_le_bytes(numbers[at]);
        let (first, ports) = (DIRECTORY_BYTES / 2, usize::from(count));
        if ports == 0 || numbers.len() < first + ports {
            return Err(Malformed);
        }
        let partitions = match number(3) {
            0 => None,
            count if count.is_power_of_two() => {
                let seed = bytes.get(2 * (first + ports)..).and_then(<[u8]>::first_chunk);
                Some(Partitions { count, seed: HashSeed(*seed.ok_or(Malformed)?) })
            }
            _ => return Err(Malformed),
        };
        Ok(Directory {
            datagram_bytes_max: number(0),
            key_bytes_max: number(1),
            value_bytes_max: number(2),
            ports: (first..first + ports).map(number).collect(),
            partitions,
        })
    }

    /// The number of the port that `key` is sent to.
    #[inline]
    pub fn port_of(&self, key: &[u8]) -> usize {
        match &self.partitions {
            Some(partitions) => partitions.of(key) % self.ports.len(),
            None => direction(key, self.ports.len()),
        }
    }
}

/// Which of `ports` ports `key` is sent to where partitions are not known.
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
