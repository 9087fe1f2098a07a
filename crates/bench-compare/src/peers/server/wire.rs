//! A connection: what is to be sent is gathered and written at once; what comes is read in as few
//! calls as it takes.

use super::process::Address;
use ::silica::{Error, ErrorKind, Result};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

const INPUT_BYTES: usize = 256 << 10;
/// A server that is silent for so long hangs.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Keys or entries of one request, at most; a longer burst is several.
pub(super) const BURST_MAX: usize = 256;
/// Bytes of a burst that make it end: the server must never wait for us to read while we wait for
/// it to.
const GETS_BYTES: usize = 48 << 10;
const PUTS_BYTES: usize = 256 << 10;

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(into),
            Stream::Unix(stream) => stream.read(into),
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.write_all(bytes),
            Stream::Unix(stream) => stream.write_all(bytes),
        }
    }
}

/// A connection to a server, for requests and their replies.
pub(super) struct Wire {
    name: &'static str,
    stream: Stream,
    /// The request.
    pub(super) out: Vec<u8>,
    input: Vec<u8>,
    /// What of the input came and was not consumed.
    start: usize,
    end: usize,
}

/// What a parser found at the beginning of the bytes that came: a reply and its length, or nothing
/// while it is incomplete.
pub(super) type Parsed<T> = Result<Option<(T, usize)>>;

impl Wire {
    pub(super) fn connect(name: &'static str, address: &Address) -> Result<Self> {
        let stream = match address {
            Address::Tcp(tcp) | Address::Udp { tcp, .. } => connect_tcp(*tcp),
            Address::Unix(directory, socket) => {
                let path = format!("/proc/self/fd/{}/{socket}", directory.as_raw_fd());
                UnixStream::connect(path).and_then(|stream| {
                    stream.set_read_timeout(Some(SILENCE_MAX))?;
                    stream.set_write_timeout(Some(SILENCE_MAX))?;
                    Ok(Stream::Unix(stream))
                })
            }
        };
        let stream = stream.map_err(|e| Error::io(format!("connecting to {name}"), e))?;
        let (out, input) = (Vec::with_capacity(PUTS_BYTES), vec![0; INPUT_BYTES]);
        Ok(Wire { name, stream, out, input, start: 0, end: 0 })
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Sends the request.
    pub(super) fn send(&mut self) -> Result<()> {
        let (name, out) = (self.name, &self.out);
        self.stream.write_all(out).map_err(|e| Error::io(format!("sending to {name}"), e))
    }

    /// Reads until `parse` finds a reply, and gives it to `take`, with the bytes that it was found
    /// in and the request.
    pub(super) fn reply<T, R>(
        &mut self,
        parse: fn(&[u8]) -> Parsed<T>,
        take: impl FnOnce(T, &[u8], &[u8]) -> Result<R>,
    ) -> Result<R> {
        loop {
            let came = self.start..self.end;
            if let Some((reply, bytes)) = parse(&self.input[came.clone()])? {
                self.start += bytes;
                return take(reply, &self.input[came], &self.out);
            }
            self.fill()?;
        }
    }

    /// Reads more; makes room where there is none.
    fn fill(&mut self) -> Result<()> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if self.end == self.input.len() {
            if self.start > 0 {
                self.input.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, self.end - self.start);
            } else {
                self.input.resize(2 * self.input.len(), 0);
            }
        }
        loop {
            match self.stream.read(&mut self.input[self.end..]) {
                Ok(0) => {
                    let message = format!("{} closed the connection", self.name);
                    return Err(Error::new(ErrorKind::Closed, message));
                }
                Ok(bytes) => {
                    self.end += bytes;
                    return Ok(());
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::io(format!("reading from {}", self.name), e)),
            }
        }
    }
}

fn connect_tcp(address: SocketAddr) -> io::Result<Stream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    stream.set_write_timeout(Some(SILENCE_MAX))?;
    Ok(Stream::Tcp(stream))
}

/// How many of `keys` go into the next request.
pub(super) fn gets_at_once(keys: &[&[u8]]) -> usize {
    at_once(keys.iter().map(|key| key.len()), GETS_BYTES)
}

/// How many of `entries` go into the next request.
pub(super) fn puts_at_once(entries: &[(&[u8], &[u8])]) -> usize {
    at_once(entries.iter().map(|(key, value)| key.len() + value.len()), PUTS_BYTES)
}

fn at_once(sizes: impl Iterator<Item = usize>, bytes_max: usize) -> usize {
    let mut bytes = 0;
    let fits = |size: &usize| {
        // Twice, for what the protocol adds.
        bytes += 2 * size + 32;
        bytes <= bytes_max
    };
    sizes.take(BURST_MAX).take_while(fits).count().max(1)
}

/// Appends `number` as decimal digits.
pub(super) fn push_number(out: &mut Vec<u8>, mut number: usize) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// The number that `digits` are.
pub(super) fn number(digits: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(digits).ok()?;
    text.parse().ok()
}

/// The first line of `bytes`, without its end, and where the next one starts.
#[inline]
pub(super) fn line(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let end = bytes.iter().position(|&byte| byte == b'\n')?;
    Some((bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]), end + 1))
}

/// What came makes no sense.
pub(super) fn nonsense(name: &str, came: &[u8]) -> Error {
    let shown = String::from_utf8_lossy(&came[..came.len().min(80)]).into_owned();
    Error::new(ErrorKind::Io, format!("{name} answered {shown:?}"))
}

/// What the tests of a protocol's parser have in common.
#[cfg(test)]
pub(super) mod testing {
    use super::Parsed;

    /// A protocol's parser, and its replies as text: from the reply and the bytes that it is in.
    pub(crate) struct Parser<T> {
        pub(crate) parse: fn(&[u8]) -> Parsed<T>,
        pub(crate) show: fn(T, &[u8]) -> String,
    }

    impl<T> Parser<T> {
        /// The replies in `bytes`, and the length of all.
        fn replies(&self, bytes: &[u8]) -> (Vec<String>, usize) {
            let (mut all, mut at) = (Vec::new(), 0);
            while let Some((reply, length)) = (self.parse)(&bytes[at..]).unwrap() {
                all.push((self.show)(reply, &bytes[at..]));
                at += length;
            }
            (all, at)
        }

        /// Checks that `bytes` are these replies, in whatever two pieces they come.
        pub(crate) fn check(&self, bytes: &[u8], expected: &[&str]) {
            let (whole, length) = self.replies(bytes);
            assert_eq!(
                (whole, length),
                (expected.iter().map(ToString::to_string).collect(), bytes.len())
            );
            for cut in 0..bytes.len() {
                let (mut all, consumed) = self.replies(&bytes[..cut]);
                all.extend(self.replies(&bytes[consumed..]).0);
                assert_eq!(all, expected, "cut at {cut}");
            }
        }

        /// Checks that nothing is found in any of these.
        pub(crate) fn refuse(&self, wrong: &[&[u8]]) {
            wrong.iter().for_each(|bytes| assert!((self.parse)(bytes).is_err(), "{bytes:?}"));
        }
    }

    pub(crate) fn text(bytes: &[u8]) -> String {
        String::from_utf8_lossy(bytes).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_decimal() {
        let mut out = Vec::new();
        for (n, text) in [(0, "0"), (7, "7"), (1200, "1200"), (usize::MAX, "18446744073709551615")]
        {
            out.clear();
            push_number(&mut out, n);
            assert_eq!(out, text.as_bytes());
            assert_eq!(number(&out), Some(n));
        }
        assert_eq!((number(b""), number(b"1x")), (None, None));
    }

    #[test]
    fn bursts_end_by_count_and_by_bytes() {
        let key = [0; 16];
        assert_eq!(gets_at_once(&vec![&key[..]; 1000]), BURST_MAX);
        let value = vec![0; 10_000];
        let entries = vec![(&key[..], &value[..]); 100];
        assert_eq!(puts_at_once(&entries), PUTS_BYTES / 20_064);
        let huge = vec![0; 10 << 20];
        assert_eq!(puts_at_once(&[(&key[..], &huge[..])]), 1);
    }
}
