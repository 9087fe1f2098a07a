//! Redis's RDB encoding, as far as strings go: values of DUMP and RESTORE ([`dump`], [`restore`]),
//! and whole files ([`FileReader`], [`FileWriter`]).
//!
//! Files have strings with their expiry. Values of other types are recognised and passed over, so
//! that the strings behind them are found. User bits of an entry, which RDB does not have, are in
//! an auxiliary field before it, which Redis passes over ([`USER_BITS`]).

mod file;
mod reader;
mod skip;
mod value;

pub use file::{Entry, Event, FileError, FileReader, FileWriter, USER_BITS};
pub use value::{Wrong, dump, reply_dump, restore, unpacked_bytes};

/// The version that is written, which every Redis since 5.0 reads. Strings have not changed since.
const VERSION: u16 = 9;
/// The newest version whose strings are known to be the same.
const VERSION_MAX: u16 = 12;
const TYPE_STRING: u8 = 0;

/// Length in 6 bits, in 14 bits, in the next 4 or 8 bytes, or something special.
const LEN_6: u8 = 0;
const LEN_14: u8 = 1;
const LEN_32: u8 = 0x80;
const LEN_64: u8 = 0x81;
const SPECIAL: u8 = 3;
const INT_8: u8 = 0;
const INT_16: u8 = 1;
const INT_32: u8 = 2;
const COMPRESSED: u8 = 3;

/// The reversed polynomial of CRC-64 as Redis has it ("Jones").
const POLYNOMIAL: u64 = 0x95AC_9329_AC4B_C9B5;
static TABLE: [u64; 256] = table();

const fn table() -> [u64; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            sum = sum >> 1 ^ if sum & 1 == 1 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        table[byte] = sum;
        byte += 1;
    }
    table
}

/// The checksum of what `sum` is of, and `bytes` behind it.
fn crc64(sum: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(sum, |sum, byte| TABLE[(sum as u8 ^ byte) as usize] ^ sum >> 8)
}
