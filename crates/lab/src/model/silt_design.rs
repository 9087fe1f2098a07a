//! SILT's own analysis: closed forms for a workload without skew (equations 4 to 8 of its paper).

/// Parameters of a SILT store, as in table 4 of its paper.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SiltDesign {
    /// Keys in all instances, `N`.
    pub keys: f64,
    /// Keys in the hash stores of one instance that begin a merge, `d`.
    pub merged: f64,
    /// Bits of a tag, `k`.
    pub tag_bits: f64,
    /// Instances, `P`.
    pub instances: f64,
}

/// Share of a hash table's slots that are filled when it is converted.
const OCCUPANCY: f64 = 0.93;
/// Slots in which a key may lie: two buckets of four.
const PLACES: f64 = 8.0;
/// Bytes of the sorted store's trie for each key.
const TRIE_BYTES: f64 = 0.4;
/// Bytes of a position in the log.
const POSITION_BYTES: f64 = 4.0;

impl SiltDesign {
    /// Entries written for each entry put (equation 4).
    pub fn write_amplification(&self) -> f64 {
        1.0 + 1.0 / OCCUPANCY + self.keys / (self.merged * self.instances)
    }

    /// Keys in a full log store or hash store.
    fn table_keys(&self) -> f64 {
        OCCUPANCY * self.slots()
    }

    fn slots(&self) -> f64 {
        (self.tag_bits + 2.0).exp2()
    }

    /// Hash stores of an instance on average, `H` (equation 5).
    pub fn hash_stores(&self) -> f64 {
        0.5 * self.merged / self.table_keys()
    }

    /// Device reads of a get that is answered last, by the sorted store (equation 6).
    pub fn read_amplification(&self) -> f64 {
        let passed = PLACES * (-self.tag_bits).exp2();
        1.0 + (1.0 + self.hash_stores()) * passed
    }

    /// Bytes of memory for each key (equation 7).
    pub fn memory_bytes_per_key(&self) -> f64 {
        let log_store = ((self.tag_bits + 1.0) / 8.0 + POSITION_BYTES) * self.slots();
        let hash_stores = self.tag_bits / 8.0 * self.slots() * self.hash_stores();
        (log_store + hash_stores) * self.instances / self.keys + TRIE_BYTES
    }
}

/// Seconds until a device of `device_bytes`, each byte of which may be written `erases` times, is
/// worn out by `put_bytes` a second (equation 8). Infinite where nothing is put.
pub fn life_seconds(device_bytes: f64, erases: f64, put_bytes: f64, amplification: f64) -> f64 {
    device_bytes * erases / (put_bytes * amplification)
}
