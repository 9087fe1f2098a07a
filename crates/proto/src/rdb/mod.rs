//! Redis's RDB encoding: values of DUMP and RESTORE ([`dump`], [`restore_any`]), and whole files
//! ([`FileReader`], [`FileWriter`]).
//!
//! Values of modules are recognised and passed over, so that what is behind them is found. User
//! bits of an entry, which RDB does not have, are in an auxiliary field before it, which Redis
//! passes over ([`USER_BITS`]).

mod file;
mod object;
mod packed;
mod reader;
mod skip;
mod value;

pub use file::{Entry, Event, FileError, FileReader, FileWriter, ObjectEntry, USER_BITS};
pub use object::{Object, Stream, StreamConsumer, StreamGroup, StreamId};
pub use value::{
    Restored, Wrong, dump, dump_object, reply_dump, restore, restore_any, unpacked_bytes,
};

use crc_fast::{CrcAlgorithm, Digest};

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

/// Bytes from which on summing by vectors is faster than by the table: what it begins with costs as
/// much as some tens of bytes.
const VECTOR_BYTES_MIN: usize = 64;

/// The checksum of what `sum` is of, and `bytes` behind it.
fn crc64(sum: u64, bytes: &[u8]) -> u64 {
    if bytes.len() >= VECTOR_BYTES_MIN {
        let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc64Redis, sum);
        digest.update(bytes);
        return digest.finalize();
    }
    bytes.iter().fold(sum, |sum, byte| TABLE[(sum as u8 ^ byte) as usize] ^ sum >> 8)
}
