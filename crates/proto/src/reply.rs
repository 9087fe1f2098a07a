//! Writing replies.

use crate::number::{append_f64, append_i64, append_u64};

/// Which dialect a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Version {
    /// RESP2: maps and sets are arrays, doubles are strings.
    #[default]
    Resp2,
    /// RESP3.
    Resp3,
}

/// Writes replies of one dialect to the end of a buffer.
#[derive(Debug)]
pub struct Reply<'o> {
    out: &'o mut Vec<u8>,
    version: Version,
}

impl<'o> Reply<'o> {
    /// A writer to the end of `out`.
    #[inline]
    pub fn new(out: &'o mut Vec<u8>, version: Version) -> Self {
        Reply { out, version }
    }

    /// The dialect being written.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Goes on in another dialect.
    pub fn set_version(&mut self, version: Version) {
        self.version = version;
    }

    /// Bytes in the buffer, earlier replies included.
    pub fn buffered(&self) -> usize {
        self.out.len()
    }

    /// The end of the buffer, for replies of other protocols.
    #[inline]
    pub fn raw(&mut self) -> &mut Vec<u8> {
        self.out
    }

    /// `OK`.
    #[inline]
    pub fn ok(&mut self) {
        self.out.extend_from_slice(b"+OK\r\n");
    }

    /// A short text without line ends.
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text);
    }

    /// An error; `text` starts with its code, such as `ERR`. Line ends become blanks.
    pub fn error(&mut self, text: &str) {
        self.line(b'-', text);
    }

    /// A number.
    #[inline]
    pub fn integer(&mut self, n: i64) {
        self.out.push(b':');
        append_i64(self.out, n);
        self.end();
    }

    /// A byte string.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.header(b'$', bytes.len());
        self.out.extend_from_slice(bytes);
        self.end();
    }

    /// A number as a byte string.
    pub fn bulk_integer(&mut self, n: i64) {
        let mut digits = Vec::with_capacity(20);
        append_i64(&mut digits, n);
        self.bulk(&digits);
    }

    /// Nothing, where a string would stand.
    #[inline]
    pub fn null(&mut self) {
        self.out.extend_from_slice(match self.version {
            Version::Resp2 => b"$-1\r\n",
            Version::Resp3 => b"_\r\n",
        });
    }

    /// Nothing, where an array would stand.
    pub fn null_array(&mut self) {
        self.out.extend_from_slice(match self.version {
            Version::Resp2 => b"*-1\r\n",
            Version::Resp3 => b"_\r\n",
        });
    }

    /// Replies that were written elsewhere, in the same version.
    pub fn written(&mut self, replies: &[u8]) {
        self.out.extend_from_slice(replies);
    }

    /// The start of an array; `len` replies must follow.
    #[inline]
    pub fn array(&mut self, len: usize) {
        self.header(b'*', len);
    }

    /// The start of a map; `len` pairs of replies must follow.
    pub fn map(&mut self, len: usize) {
        match self.version {
            Version::Resp2 => self.header(b'*', 2 * len),
            Version::Resp3 => self.header(b'%', len),
        }
    }

    /// The start of a set; `len` replies must follow.
    pub fn set(&mut self, len: usize) {
        match self.version {
            Version::Resp2 => self.header(b'*', len),
            Version::Resp3 => self.header(b'~', len),
        }
    }

    /// The start of a message that answers no request; `len` replies must follow.
    pub fn push(&mut self, len: usize) {
        match self.version {
            Version::Resp2 => self.header(b'*', len),
            Version::Resp3 => self.header(b'>', len),
        }
    }

    /// A floating-point number.
    pub fn double(&mut self, x: f64) {
        match self.version {
            Version::Resp2 => {
                let mut digits = Vec::with_capacity(24);
                append_f64(&mut digits, x);
                self.bulk(&digits);
            }
            Version::Resp3 => {
                self.out.push(b',');
                append_f64(self.out, x);
                self.end();
            }
        }
    }

    /// True or false; 1 or 0 in RESP2.
    pub fn boolean(&mut self, yes: bool) {
        match (self.version, yes) {
            (Version::Resp2, _) => self.integer(i64::from(yes)),
            (Version::Resp3, true) => self.out.extend_from_slice(b"#t\r\n"),
            (Version::Resp3, false) => self.out.extend_from_slice(b"#f\r\n"),
        }
    }

    /// Plain text that is meant to be shown as it is.
    pub fn verbatim(&mut self, text: &[u8]) {
        match self.version {
            Version::Resp2 => self.bulk(text),
            Version::Resp3 => {
                self.header(b'=', text.len() + 4);
                self.out.extend_from_slice(b"txt:");
                self.out.extend_from_slice(text);
                self.end();
            }
        }
    }

    fn line(&mut self, kind: u8, text: &str) {
        self.out.push(kind);
        self.out.extend(text.bytes().map(|b| if matches!(b, b'\r' | b'\n') { b' ' } else { b }));
        self.end();
    }

    #[inline]
    fn header(&mut self, kind: u8, len: usize) {
        self.out.push(kind);
        append_u64(self.out, len as u64);
        self.end();
    }

    #[inline]
    fn end(&mut self) {
        self.out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(version: Version, write: impl Fn(&mut Reply<'_>)) -> String {
        let mut out = Vec::new();
        write(&mut Reply::new(&mut out, version));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn both_dialects() {
        type Case = (fn(&mut Reply<'_>), &'static str, &'static str);
        let cases: &[Case] = &[
            (|r| r.ok(), "+OK\r\n", "+OK\r\n"),
            (|r| r.simple("PONG"), "+PONG\r\n", "+PONG\r\n"),
            (|r| r.error("ERR a\r\nb"), "-ERR a  b\r\n", "-ERR a  b\r\n"),
            (|r| r.integer(-42), ":-42\r\n", ":-42\r\n"),
            (|r| r.bulk(b"a\r\n"), "$3\r\na\r\n\r\n", "$3\r\na\r\n\r\n"),
            (|r| r.bulk_integer(7), "$1\r\n7\r\n", "$1\r\n7\r\n"),
            (|r| r.null(), "$-1\r\n", "_\r\n"),
            (|r| r.null_array(), "*-1\r\n", "_\r\n"),
            (|r| r.array(0), "*0\r\n", "*0\r\n"),
            (|r| r.map(2), "*4\r\n", "%2\r\n"),
            (|r| r.set(2), "*2\r\n", "~2\r\n"),
            (|r| r.push(2), "*2\r\n", ">2\r\n"),
            (|r| r.double(1.5), "$3\r\n1.5\r\n", ",1.5\r\n"),
            (|r| r.boolean(true), ":1\r\n", "#t\r\n"),
            (|r| r.boolean(false), ":0\r\n", "#f\r\n"),
            (|r| r.verbatim(b"hi"), "$2\r\nhi\r\n", "=6\r\ntxt:hi\r\n"),
        ];
        for (write, two, three) in cases {
            assert_eq!(written(Version::Resp2, write), *two);
            assert_eq!(written(Version::Resp3, write), *three);
        }
    }
}
