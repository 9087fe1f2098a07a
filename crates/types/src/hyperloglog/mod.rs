//! HyperLogLog: an estimate of how many distinct elements were added, in Redis's own bytes.
//!
//! An element's hash chooses one of 16,384 registers; the register keeps the longest run of zeros
//! that it was shown. The estimate is that of Ertl, "New cardinality estimation algorithms for
//! HyperLogLog sketches" (2017), which Redis takes since 4.0.
//!
//! The value is a string: 16 bytes of header (magic, encoding, the estimate if it is known), then
//! the registers, 6 bits each (dense) or as runs (sparse).

mod dense;
mod estimate;
mod hash;
mod sparse;

use estimate::Histogram;

/// Registers of a counter.
pub const REGISTERS: usize = 1 << 14;
/// Bits of a hash that choose the register.
const INDEX_BITS: u32 = 14;
/// Bits of a hash whose zeros are counted: a register is at most one more.
const RUN_BITS: u32 = 64 - INDEX_BITS;
/// Bytes before the registers.
const HEADER_BYTES: usize = 16;
const MAGIC: &[u8; 4] = b"HYLL";
/// Bytes of a sparse counter, header included, above which it becomes dense: Redis's usual setting
/// of `hll-sparse-max-bytes`.
const SPARSE_BYTES_MAX: usize = 3000;
/// The seed of the hash.
const SEED: u64 = 0xadc8_3b19;

const DENSE: u8 = 0;
const SPARSE: u8 = 1;

/// The bytes are no counter, though their header is one's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Corrupt;

/// What all registers hold.
pub type Registers = Box<[u8; REGISTERS]>;

/// The register of an element, and what it is shown.
fn place(element: &[u8]) -> (usize, u8) {
    let hash = hash::murmur_64a(element, SEED);
    let index = hash as usize & (REGISTERS - 1);
    // The highest bit ends every run.
    let rest = hash >> INDEX_BITS | 1 << RUN_BITS;
    (index, rest.trailing_zeros() as u8 + 1)
}

/// A counter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HyperLogLog {
    bytes: Vec<u8>,
}

impl Default for HyperLogLog {
    /// A sparse counter of nothing.
    fn default() -> Self {
        let mut bytes = MAGIC.to_vec();
        bytes.push(SPARSE);
        bytes.resize(HEADER_BYTES, 0);
        sparse::write_zeros(&mut bytes, REGISTERS);
        HyperLogLog { bytes }
    }
}

impl HyperLogLog {
    /// Registers that were shown nothing.
    pub fn no_registers() -> Registers {
        vec![0; REGISTERS].try_into().expect("they are as many")
    }

    /// The estimate of a counter with these registers.
    pub fn estimate_of(registers: &Registers) -> u64 {
        let mut histogram = Histogram::default();
        registers.iter().for_each(|value| histogram.note(*value, 1));
        histogram.estimate()
    }

    /// The counter whose string is `bytes`; `None` if it is none's.
    pub fn of_bytes(bytes: Vec<u8>) -> Option<Self> {
        let is_one = bytes.len() >= HEADER_BYTES && bytes.starts_with(MAGIC);
        let is_one = is_one
            && match bytes[4] {
                DENSE => bytes.len() == HEADER_BYTES + dense::BYTES,
                encoding => encoding == SPARSE,
            };
        is_one.then_some(HyperLogLog { bytes })
    }

    /// Its string.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// True if its registers are kept as runs.
    pub fn is_sparse(&self) -> bool {
        self.bytes[4] == SPARSE
    }

    fn registers(&self) -> &[u8] {
        &self.bytes[HEADER_BYTES..]
    }

    /// Forgets the estimate.
    pub fn forget_estimate(&mut self) {
        self.bytes[HEADER_BYTES - 1] |= 1 << 7;
    }

    /// The estimate that its string holds, if it is still true.
    pub fn known_estimate(&self) -> Option<u64> {
        let bytes = self.bytes[8..HEADER_BYTES].try_into().expect("it has 8 bytes");
        let estimate = u64::from_le_bytes(bytes);
        (estimate >> 63 == 0).then_some(estimate)
    }

    /// The estimate, which its string holds from now on.
    ///
    /// # Errors
    /// Fails if its runs do not add up.
    pub fn estimate(&mut self) -> Result<u64, Corrupt> {
        let mut histogram = Histogram::default();
        self.runs(|value, len| histogram.note(value, len))?;
        let estimate = histogram.estimate();
        self.bytes[8..HEADER_BYTES].copy_from_slice(&estimate.to_le_bytes());
        Ok(estimate)
    }

    /// Calls `each` with runs of registers of one value, and their lengths.
    fn runs(&self, mut each: impl FnMut(u8, usize)) -> Result<(), Corrupt> {
        if self.is_sparse() {
            return sparse::runs(self.registers(), each);
        }
        (0..REGISTERS).for_each(|index| each(dense::get(self.registers(), index), 1));
        Ok(())
    }

    /// Adds an element; true if a register has changed.
    ///
    /// # Errors
    /// Fails if its runs do not add up.
    pub fn add(&mut self, element: &[u8]) -> Result<bool, Corrupt> {
        let (index, value) = place(element);
        self.raise(index, value)
    }

    /// Sets a register to `value` if that is greater; true if it is.
    fn raise(&mut self, index: usize, value: u8) -> Result<bool, Corrupt> {
        if self.is_sparse() {
            match sparse::raise(&self.bytes, (index, value), SPARSE_BYTES_MAX)? {
                sparse::Raised::Same => return Ok(false),
                sparse::Raised::New(bytes) => {
                    self.bytes = bytes;
                    self.forget_estimate();
                    return Ok(true);
                }
                sparse::Raised::TooLarge => self.make_dense()?,
            };
        }
        let is_raised = dense::raise(&mut self.bytes[HEADER_BYTES..], index, value);
        if is_raised {
            self.forget_estimate();
        }
        Ok(is_raised)
    }

    /// Keeps 6 bits of each register from now on; false if it does so already.
    ///
    /// # Errors
    /// Fails if its runs do not add up.
    pub fn make_dense(&mut self) -> Result<bool, Corrupt> {
        if !self.is_sparse() {
            return Ok(false);
        }
        let mut bytes = self.bytes[..HEADER_BYTES].to_vec();
        bytes[4] = DENSE;
        bytes.resize(HEADER_BYTES + dense::BYTES, 0);
        let mut index = 0;
        sparse::runs(self.registers(), |value, len| {
            if value > 0 {
                for at in index..index + len {
                    dense::raise(&mut bytes[HEADER_BYTES..], at, value);
                }
            }
            index += len;
        })?;
        self.bytes = bytes;
        Ok(true)
    }

    /// Raises `registers` to its own.
    ///
    /// # Errors
    /// Fails if its runs do not add up.
    pub fn merge_into(&self, registers: &mut Registers) -> Result<(), Corrupt> {
        let mut index = 0;
        self.runs(|value, len| {
            let some = &mut registers[index..index + len];
            some.iter_mut().for_each(|register| *register = value.max(*register));
            index += len;
        })
    }

    /// Raises its own registers to `registers`.
    ///
    /// # Errors
    /// Fails if its runs do not add up.
    pub fn merge(&mut self, registers: &Registers) -> Result<(), Corrupt> {
        for (index, value) in registers.iter().enumerate().filter(|(_, value)| **value > 0) {
            self.raise(index, *value)?;
        }
        self.forget_estimate();
        Ok(())
    }

    /// Its runs in words, if it is sparse: `z` and `Z` for zeros, `v` for values.
    pub fn sparse_text(&self) -> Option<String> {
        self.is_sparse().then(|| sparse::text(self.registers()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_encodings_tell_the_same() {
        let (mut sparse, mut dense) = (HyperLogLog::default(), HyperLogLog::default());
        dense.make_dense().unwrap();
        for n in 0..60_000u32 {
            let element = n.to_string();
            let changed = sparse.add(element.as_bytes()).unwrap();
            assert_eq!(changed, dense.add(element.as_bytes()).unwrap());
            if n % 500 == 0 {
                let estimate = sparse.estimate().unwrap();
                assert_eq!(estimate, dense.estimate().unwrap());
                let error = (estimate as f64 - f64::from(n + 1)).abs() / f64::from(n + 1);
                assert!(error < 0.04, "{estimate} instead of {}", n + 1);
                let again = HyperLogLog::of_bytes(sparse.clone().into_bytes()).unwrap();
                assert_eq!(again.known_estimate(), Some(estimate));
            }
            assert_eq!(sparse.is_sparse(), sparse.bytes.len() != dense.bytes.len());
        }
        assert!(!sparse.is_sparse() && sparse.bytes == dense.bytes);
    }

    #[test]
    fn merging_is_adding_all() {
        let mut parts = [HyperLogLog::default(), HyperLogLog::default()];
        let mut all = HyperLogLog::default();
        for n in 0..4000u32 {
            let element = n.to_be_bytes();
            parts[n as usize % 2].add(&element).unwrap();
            all.add(&element).unwrap();
        }
        let mut registers = HyperLogLog::no_registers();
        parts.iter().for_each(|part| part.merge_into(&mut registers).unwrap());
        assert_eq!(HyperLogLog::estimate_of(&registers), all.estimate().unwrap());
        let mut merged = HyperLogLog::default();
        merged.merge(&registers).unwrap();
        assert_eq!(merged.known_estimate(), None);
        assert_eq!(merged.estimate().unwrap(), all.estimate().unwrap());
    }

    #[test]
    fn runs_that_do_not_add_up_are_refused() {
        let mut bytes = HyperLogLog::default().into_bytes();
        bytes.pop();
        bytes.pop();
        let mut short = HyperLogLog::of_bytes(bytes.clone()).unwrap();
        assert_eq!(short.estimate(), Err(Corrupt));
        assert_eq!(short.add(b"x"), Err(Corrupt));
        assert_eq!(short.make_dense(), Err(Corrupt));
        assert_eq!(short.merge_into(&mut HyperLogLog::no_registers()), Err(Corrupt));
        bytes[4] = DENSE;
        assert_eq!(HyperLogLog::of_bytes(bytes.clone()), None);
        bytes[4] = 2;
        assert_eq!(HyperLogLog::of_bytes(bytes), None);
        assert_eq!(HyperLogLog::of_bytes(b"HYLL".to_vec()), None);
    }
}
