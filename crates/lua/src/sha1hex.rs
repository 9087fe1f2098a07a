//! The names of scripts.

use sha1::{Digest, Sha1};

/// SHA-1 of `bytes` as forty hexadecimal digits in lower case: the name of a script with this text.
pub fn sha1_hex(bytes: &[u8]) -> String {
    Sha1::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
