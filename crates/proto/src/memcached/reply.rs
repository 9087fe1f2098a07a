//! Writing replies of the text protocol.

use super::Fault;
use crate::number::append_u64;

/// Appends a fault's line.
pub fn fault(out: &mut Vec<u8>, fault: Fault) {
    out.extend_from_slice(fault.text().as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Appends an entry, with its unique where there is one.
#[inline]
pub fn value(out: &mut Vec<u8>, key: &[u8], flags: u32, data: &[u8], unique: Option<u64>) {
    out.extend_from_slice(b"VALUE ");
    out.extend_from_slice(key);
    out.push(b' ');
    append_u64(out, u64::from(flags));
    out.push(b' ');
    append_u64(out, data.len() as u64);
    if let Some(unique) = unique {
        out.push(b' ');
        append_u64(out, unique);
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(data);
    out.extend_from_slice(b"\r\n");
}

/// Appends what follows the last entry.
#[inline]
pub fn end(out: &mut Vec<u8>) {
    out.extend_from_slice(b"END\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_have_their_form() {
        let mut out = Vec::new();
        value(&mut out, b"k", 7, b"ab", None);
        value(&mut out, b"l", 0, b"", Some(u64::MAX));
        end(&mut out);
        fault(&mut out, Fault::Unknown);
        let want: &[u8] =
            b"VALUE k 7 2\r\nab\r\nVALUE l 0 0 18446744073709551615\r\n\r\nEND\r\nERROR\r\n";
        assert_eq!(out, want);
    }
}
