//! The binary protocol: packets of a header, extras, a key and a value.

use super::{KEY_BYTES_MAX, Limits, Request};
use crate::Span;

/// Bytes of a packet's header.
const HEADER_BYTES: usize = 24;
/// The first byte of a request, and of a response.
pub(super) const REQUEST: u8 = 0x80;
const RESPONSE: u8 = 0x81;

/// What came of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum Status {
    /// All is well.
    Ok = 0,
    /// No such key.
    NotFound = 1,
    /// The key is there, or its unique is another.
    Exists = 2,
    /// The value is too large.
    TooLarge = 3,
    /// The packet's parts are not what its command wants.
    Invalid = 4,
    /// A condition does not hold.
    NotStored = 5,
    /// The value is no number.
    NoNumber = 6,
    /// Name and password are needed, or wrong.
    Auth = 0x20,
    /// No such command.
    Unknown = 0x81,
    /// No memory is left.
    OutOfMemory = 0x82,
    /// Something else went wrong.
    Internal = 0x84,
}

impl Status {
    /// What memcached says about it.
    pub fn text(self) -> &'static str {
        match self {
            Status::Ok => "",
            Status::NotFound => "Not found",
            Status::Exists => "Data exists for key.",
            Status::TooLarge => "Too large.",
            Status::Invalid => "Invalid arguments",
            Status::NotStored => "Not stored.",
            Status::NoNumber => "Non-numeric server-side value for incr or decr",
            Status::Auth => "Auth failure.",
            Status::Unknown => "Unknown command",
            Status::OutOfMemory => "Out of memory",
            Status::Internal => "Internal error",
        }
    }
}

/// What a packet asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Returns a value; with its key where that is wanted.
    Get {
        /// The key is wanted.
        key: bool,
    },
    /// Returns a value and sets its expiry.
    GetAndTouch {
        /// The key is wanted.
        key: bool,
    },
    /// Changes an expiry.
    Touch,
    /// Stores in any case.
    Set,
    /// Stores where the key is missing.
    Add,
    /// Stores where the key is there.
    Replace,
    /// Appends.
    Append,
    /// Prepends.
    Prepend,
    /// Adds.
    Increment,
    /// Takes away.
    Decrement,
    /// Removes.
    Delete,
    /// Removes everything.
    Flush,
    /// Asks for an answer and nothing else.
    Noop,
    /// Asks for the version.
    Version,
    /// Asks for figures.
    Stat,
    /// Ends the connection.
    Quit,
    /// Asks how a password can be given.
    SaslList,
    /// Gives the password.
    SaslAuth,
    /// Goes on giving it.
    SaslStep,
    /// Cannot be run.
    Refused(Status),
}

/// The request of a packet. Its first span is the key, the second the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// What it asks for.
    pub command: Command,
    /// Its number, which the response repeats.
    pub opcode: u8,
    /// Success needs no response, nor does a miss.
    pub quiet: bool,
    /// The connection ends behind its response.
    pub last: bool,
    /// The user's 32 bits to store.
    pub flags: u32,
    /// The expiry, as it was sent.
    pub expiry: u32,
    /// What the response repeats.
    pub opaque: u32,
    /// The unique to compare; 0 for none.
    pub unique: u64,
    /// How much to add or to take away.
    pub delta: u64,
    /// The number that a missing one starts with.
    pub initial: u64,
}

/// The command of an opcode, and whether it is quiet.
fn command(opcode: u8) -> (Command, bool) {
    let quiet = matches!(opcode, 0x09 | 0x0d | 0x11..=0x1a | 0x1e | 0x24);
    let command = match opcode {
        0x00 | 0x09 => Command::Get { key: false },
        0x0c | 0x0d => Command::Get { key: true },
        0x01 | 0x11 => Command::Set,
        0x02 | 0x12 => Command::Add,
        0x03 | 0x13 => Command::Replace,
        0x04 | 0x14 => Command::Delete,
        0x05 | 0x15 => Command::Increment,
        0x06 | 0x16 => Command::Decrement,
        0x07 | 0x17 => Command::Quit,
        0x08 | 0x18 => Command::Flush,
        0x0a => Command::Noop,
        0x0b => Command::Version,
        0x0e | 0x19 => Command::Append,
        0x0f | 0x1a => Command::Prepend,
        0x10 => Command::Stat,
        0x1c => Command::Touch,
        0x1d | 0x1e => Command::GetAndTouch { key: false },
        0x23 | 0x24 => Command::GetAndTouch { key: true },
        0x20 => Command::SaslList,
        0x21 => Command::SaslAuth,
        0x22 => Command::SaslStep,
        _ => Command::Refused(Status::Unknown),
    };
    (command, quiet)
}

/// Lengths of a packet's parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Parts {
    extras: usize,
    key: usize,
    value: usize,
}

impl Parts {
    /// True where they are what `command` wants.
    fn fit(&self, command: Command) -> bool {
        let Parts { extras, key, value } = *self;
        let keyed = key > 0;
        match command {
            Command::Get { .. } | Command::Delete => keyed && extras == 0 && value == 0,
            Command::GetAndTouch { .. } | Command::Touch => keyed && extras == 4 && value == 0,
            Command::Set | Command::Add | Command::Replace => keyed && extras == 8,
            Command::Append | Command::Prepend => keyed && extras == 0,
            Command::Increment | Command::Decrement => keyed && extras == 20 && value == 0,
            Command::Flush => !keyed && (extras == 0 || extras == 4) && value == 0,
            Command::Stat => extras == 0 && value == 0,
            Command::SaslAuth | Command::SaslStep => keyed && extras == 0,
            Command::Noop | Command::Version | Command::Quit | Command::SaslList => {
                !keyed && extras == 0 && value == 0
            }
            Command::Refused(_) => true,
        }
    }
}

/// The bytes are no packet; the connection is to be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoPacket;

/// Parses one connection's packets; used like [`super::Parser`].
#[derive(Debug, Clone, Default)]
pub struct BinaryParser {
    needed: usize,
    skip: usize,
    request: Request,
    spans: [Span; 2],
    count: usize,
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().fold(0, |word, byte| word << 8 | u32::from(*byte))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) << 32 | u64::from(u32_at(bytes, at + 4))
}

impl BinaryParser {
    /// The request just completed.
    pub fn request(&self) -> Request {
        self.request
    }

    /// Key and value of the request just completed, counted from its first byte.
    pub fn spans(&self) -> &[Span] {
        &self.spans[..self.count]
    }

    /// Bytes that the current packet has.
    pub fn needed_bytes(&self) -> usize {
        self.needed
    }

    /// Goes on with the current packet.
    pub fn parse(&mut self, buf: &[u8], limits: &Limits) -> Result<Option<usize>, NoPacket> {
        (self.needed, self.count) = (0, 0);
        if self.skip > 0 && !buf.is_empty() {
            let used = self.skip.min(buf.len());
            self.skip -= used;
            self.request = Request::Nothing;
            return Ok(Some(used));
        }
        if buf.first().is_some_and(|magic| *magic != REQUEST) {
            return Err(NoPacket);
        }
        let Some(header) = buf.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let body = u32_at(header, 8) as usize;
        let (key, extras) = (usize::from(header[2]) << 8 | usize::from(header[3]), header[4]);
        let (command, quiet) = command(header[1]);
        let mut packet = Packet {
            command,
            opcode: header[1],
            quiet,
            last: false,
            flags: 0,
            expiry: 0,
            opaque: u32_at(header, 12),
            unique: u64_at(header, 16),
            delta: 0,
            initial: 0,
        };
        let extras = usize::from(extras);
        let parts = body.checked_sub(key + extras).map(|value| Parts { extras, key, value });
        let (status, last) = check(command, parts, limits);
        if let Some(status) = status {
            // Of a set that is too large the key is needed: what it held must not stay.
            let names_key = status == Status::TooLarge && command == Command::Set;
            let used = HEADER_BYTES + if names_key { extras + key } else { 0 };
            if buf.len() < used {
                self.needed = used;
                return Ok(None);
            }
            if names_key {
                self.push(HEADER_BYTES + extras, key);
            }
            (packet.command, packet.last) = (Command::Refused(status), last);
            self.skip = if last { 0 } else { HEADER_BYTES + body - used };
            self.request = Request::Binary(packet);
            return Ok(Some(used));
        }
        let total = HEADER_BYTES + body;
        if buf.len() < total {
            self.needed = total;
            return Ok(None);
        }
        read_extras(&mut packet, &buf[HEADER_BYTES..HEADER_BYTES + extras]);
        if key > 0 {
            self.push(HEADER_BYTES + extras, key);
            self.push(HEADER_BYTES + extras + key, body - key - extras);
        }
        self.request = Request::Binary(packet);
        Ok(Some(total))
    }

    fn push(&mut self, start: usize, len: usize) {
        self.spans[self.count] = Span { start: start as u32, len: len as u32 };
        self.count += 1;
    }
}

/// Why a packet cannot be run, and whether the connection ends with it.
fn check(command: Command, parts: Option<Parts>, limits: &Limits) -> (Option<Status>, bool) {
    let Some(parts) = parts else { return (Some(Status::Unknown), true) };
    let sasl = matches!(command, Command::SaslList | Command::SaslAuth | Command::SaslStep);
    if !limits.let_in && !sasl && command != Command::Version {
        return (Some(Status::Auth), true);
    }
    if let Command::Refused(status) = command {
        return (Some(status), false);
    }
    if parts.key > KEY_BYTES_MAX || !parts.fit(command) {
        return (Some(Status::Invalid), true);
    }
    let too_large = parts.value > limits.value_bytes_max;
    (too_large.then_some(Status::TooLarge), false)
}

/// Reads what stands before the key.
fn read_extras(packet: &mut Packet, extras: &[u8]) {
    match packet.command {
        Command::Set | Command::Add | Command::Replace => {
            (packet.flags, packet.expiry) = (u32_at(extras, 0), u32_at(extras, 4));
        }
        Command::Increment | Command::Decrement => {
            packet.delta = u64_at(extras, 0);
            packet.initial = u64_at(extras, 8);
            packet.expiry = u32_at(extras, 16);
        }
        _ if extras.len() == 4 => packet.expiry = u32_at(extras, 0),
        _ => {}
    }
}

/// A response's parts.
#[derive(Debug, Clone, Copy)]
pub struct Response<'a> {
    /// What came of it.
    pub status: Status,
    /// The entry's unique; 0 for none.
    pub unique: u64,
    /// What stands before the key.
    pub extras: &'a [u8],
    /// The key.
    pub key: &'a [u8],
    /// The value, or a text about the status.
    pub value: &'a [u8],
}

impl Response<'_> {
    /// A response that says nothing but that all is well.
    pub const OK: Response<'static> =
        Response { status: Status::Ok, unique: 0, extras: b"", key: b"", value: b"" };
}

/// Appends a response to `packet`.
pub fn respond(out: &mut Vec<u8>, packet: &Packet, response: Response<'_>) {
    let Response { status, unique, extras, key, value } = response;
    let mut header = [0; HEADER_BYTES];
    header[..2].copy_from_slice(&[RESPONSE, packet.opcode]);
    header[2..4].copy_from_slice(&(key.len() as u16).to_be_bytes());
    header[4] = extras.len() as u8;
    header[6..8].copy_from_slice(&(status as u16).to_be_bytes());
    let body = extras.len() + key.len() + value.len();
    header[8..12].copy_from_slice(&(body as u32).to_be_bytes());
    header[12..16].copy_from_slice(&packet.opaque.to_be_bytes());
    header[16..24].copy_from_slice(&unique.to_be_bytes());
    for part in [&header[..], extras, key, value] {
        out.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(opcode: u8, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
        let mut header = [0; HEADER_BYTES];
        header[..2].copy_from_slice(&[REQUEST, opcode]);
        header[2..4].copy_from_slice(&(key.len() as u16).to_be_bytes());
        header[4] = extras.len() as u8;
        let body = (extras.len() + key.len() + value.len()) as u32;
        header[8..12].copy_from_slice(&body.to_be_bytes());
        header[12..16].copy_from_slice(&7u32.to_be_bytes());
        header[16..24].copy_from_slice(&9u64.to_be_bytes());
        [&header[..], extras, key, value].concat()
    }

    fn parsed(bytes: &[u8], limits: &Limits) -> (Packet, usize, Vec<Vec<u8>>) {
        let mut parser = BinaryParser::default();
        let used = parser.parse(bytes, limits).unwrap().expect("a whole packet");
        let spans = parser.spans().iter().map(|span| span.of(bytes).to_vec()).collect();
        let Request::Binary(packet) = parser.request() else { panic!("no packet") };
        (packet, used, spans)
    }

    #[test]
    fn parts_are_read() {
        let extras = [&3u32.to_be_bytes()[..], &5u32.to_be_bytes()].concat();
        let bytes = packet(0x11, &extras, b"key", b"value");
        let (set, used, spans) = parsed(&bytes, &Limits::OPEN);
        assert_eq!((set.command, set.quiet, set.last), (Command::Set, true, false));
        assert_eq!((set.flags, set.expiry, set.opaque, set.unique), (3, 5, 7, 9));
        assert_eq!((used, spans), (bytes.len(), vec![b"key".to_vec(), b"value".to_vec()]));
        let extras = [&1u64.to_be_bytes()[..], &2u64.to_be_bytes(), &[0xff; 4]].concat();
        let (incr, _, _) = parsed(&packet(0x05, &extras, b"key", b""), &Limits::OPEN);
        assert_eq!((incr.delta, incr.initial, incr.expiry), (1, 2, u32::MAX));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let refused = |bytes: &[u8], limits: &Limits| {
            let (packet, _, _) = parsed(bytes, limits);
            (packet.command, packet.last)
        };
        let status = Command::Refused;
        let cases = [
            (packet(0x00, b"1234", b"key", b""), status(Status::Invalid), true),
            (packet(0x00, b"", b"", b""), status(Status::Invalid), true),
            (packet(0x00, b"", &[b'k'; 251], b""), status(Status::Invalid), true),
            (packet(0x01, b"", b"key", b""), status(Status::Invalid), true),
            (packet(0x7f, b"", b"key", b"value"), status(Status::Unknown), false),
            (packet(0x02, &[0; 8], b"key", &[0; 9]), status(Status::TooLarge), false),
        ];
        let limits = Limits { value_bytes_max: 8, ..Limits::OPEN };
        for (bytes, command, last) in cases {
            assert_eq!(refused(&bytes, &limits), (command, last));
        }
        let stranger = refused(&packet(0x00, b"", b"key", b""), &Limits::BEFORE_AUTH);
        assert_eq!(stranger, (status(Status::Auth), true));
        let mut short = packet(0x00, b"", b"key", b"");
        short[11] = 1;
        assert_eq!(refused(&short, &Limits::OPEN), (status(Status::Unknown), true));
        assert_eq!(BinaryParser::default().parse(b"get a\r\n", &Limits::OPEN), Err(NoPacket));
    }

    #[test]
    fn a_set_that_is_too_large_names_its_key_and_is_skipped() {
        let limits = Limits { value_bytes_max: 8, ..Limits::OPEN };
        let mut bytes = packet(0x01, &[0; 8], b"key", &[0; 9]);
        bytes.extend_from_slice(&packet(0x0a, b"", b"", b""));
        let mut parser = BinaryParser::default();
        assert_eq!(parser.parse(&bytes[..30], &limits), Ok(None));
        assert_eq!(parser.parse(&bytes, &limits), Ok(Some(35)));
        assert_eq!(parser.spans()[0].of(&bytes), b"key");
        assert_eq!(parser.parse(&bytes[35..], &limits), Ok(Some(9)));
        assert_eq!(parser.request(), Request::Nothing);
        assert_eq!(parser.parse(&bytes[44..], &limits), Ok(Some(24)));
    }
}
