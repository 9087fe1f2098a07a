//! memcached's protocols without sockets: bytes in, requests out; replies in, bytes out.
//!
//! [`Parser`] turns a connection's bytes into [`Request`]s whose keys and data are spans of the
//! caller's buffer. What is wrong with a request is a request too ([`Request::Fault`]), since
//! memcached answers it and goes on. [`sniff`] tells these protocols and RESP apart.

mod base64;
mod binary;
mod frame;
mod line;
mod meta;
mod number;
mod parser;
mod reply;
mod sniff;

pub use base64::encode as encode_base64;
pub use binary::{BinaryParser, Command, NoPacket, Packet, Response, Status, respond};
pub use frame::{FRAME_BYTES, Frame};
pub use meta::{Meta, Verb};
pub use number::parse_u64;
pub use parser::{Parser, TooLong};
pub use reply::{end, fault, value};
pub use sniff::{Protocol, sniff};

/// Bytes of a key.
pub const KEY_BYTES_MAX: usize = 250;

/// What requests may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a line, unless it asks for keys.
    pub line_bytes_max: usize,
    /// Bytes of a line that asks for keys.
    pub keys_bytes_max: usize,
    /// Bytes of a value that is stored.
    pub value_bytes_max: usize,
    /// False before the client has given the password.
    pub let_in: bool,
}

impl Limits {
    /// For clients that are let in, with memcached's limit of values.
    pub const OPEN: Limits = Limits {
        line_bytes_max: 2048,
        keys_bytes_max: 1 << 20,
        value_bytes_max: 1 << 20,
        let_in: true,
    };

    /// For clients that have not given their password yet.
    pub const BEFORE_AUTH: Limits = Limits {
        line_bytes_max: 2048,
        keys_bytes_max: 2048,
        value_bytes_max: 1 << 10,
        let_in: false,
    };
}

/// How data is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// In any case.
    Set,
    /// Where the key is missing.
    Add,
    /// Where the key is there.
    Replace,
    /// Behind the data that is there.
    Append,
    /// Before the data that is there.
    Prepend,
    /// Where the entry has this unique.
    Cas(u64),
}

/// Why a request is answered without being run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// No such command, or the wrong number of words.
    Unknown,
    /// Words that are not what the command wants, or a key that is too long.
    Format,
    /// A delete with other words than a key.
    DeleteUsage,
    /// The expiry is not a number.
    Expiry,
    /// The delta is not a number.
    Delta,
    /// The data does not end where its line said.
    DataChunk,
    /// The value is larger than values may be.
    TooLarge,
    /// The password was not given yet.
    Unauthenticated,
    /// The password is not followed by a line end.
    AuthTermination,
    /// A meta flag comes twice, or is no letter.
    DuplicateFlag,
    /// No such meta flag.
    Flag,
    /// One of the flags of `md` or `ma` is wrong.
    MetaFlags,
    /// Too many flags behind `mg`.
    GetFlagsTooLong,
    /// Too many flags behind `ms`, `md` or `ma`.
    FlagsTooLong,
    /// A meta flag's token is not a number.
    Token,
    /// The number to begin with is none.
    Initial,
    /// The number to add is none.
    MetaDelta,
    /// The mode is not one letter.
    ModeLength,
    /// No such mode of `ms`.
    SetMode,
    /// No such mode of `ma`.
    ArithmeticMode,
    /// The opaque is too long.
    Opaque,
    /// The key is not in base64.
    KeyEncoding,
    /// The value is not a number.
    NoNumber,
    /// A stop that the server does not take from clients.
    Shutdown,
    /// `slabs`: there are none that could be moved.
    Slabs,
}

impl Fault {
    /// Its line, without line end.
    pub fn text(self) -> &'static str {
        match self {
            Fault::Unknown => "ERROR",
            Fault::Format => "CLIENT_ERROR bad command line format",
            Fault::DeleteUsage => {
                "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]"
            }
            Fault::Expiry => "CLIENT_ERROR invalid exptime argument",
            Fault::Delta => "CLIENT_ERROR invalid numeric delta argument",
            Fault::DataChunk => "CLIENT_ERROR bad data chunk",
            Fault::TooLarge => "SERVER_ERROR object too large for cache",
            Fault::Unauthenticated => "CLIENT_ERROR unauthenticated",
            Fault::AuthTermination => "CLIENT_ERROR bad command line termination",
            Fault::DuplicateFlag => "CLIENT_ERROR duplicate flag",
            Fault::Flag => "CLIENT_ERROR invalid flag",
            Fault::MetaFlags => "CLIENT_ERROR invalid or duplicate flag",
            Fault::GetFlagsTooLong => "CLIENT_ERROR options flags are too long",
            Fault::FlagsTooLong => "CLIENT_ERROR options flags too long",
            Fault::Token => "CLIENT_ERROR bad token in command line format",
            Fault::Initial => "CLIENT_ERROR invalid numeric initial value",
            Fault::MetaDelta => "CLIENT_ERROR invalid numeric delta value",
            Fault::ModeLength => "CLIENT_ERROR incorrect length for M token",
            Fault::SetMode => "CLIENT_ERROR invalid mode for ms M token",
            Fault::ArithmeticMode => "CLIENT_ERROR invalid mode for ma M token",
            Fault::Opaque => "CLIENT_ERROR opaque token too long",
            Fault::KeyEncoding => "CLIENT_ERROR error decoding key",
            Fault::NoNumber => "CLIENT_ERROR cannot increment or decrement non-numeric value",
            Fault::Shutdown => "ERROR: shutdown not enabled",
            Fault::Slabs => "CLIENT_ERROR slab reassignment disabled",
        }
    }
}

/// A request. Its keys and data are the parser's spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Request {
    /// Bytes that belong to a request refused before; there is no answer.
    #[default]
    Nothing,
    /// Answered with an error.
    Fault(Fault),
    /// Returns the spans' keys, with their uniques where asked.
    Get {
        /// The unique is wanted.
        unique: bool,
    },
    /// Returns the spans' keys and changes their expiry.
    GetAndTouch {
        /// The unique is wanted.
        unique: bool,
        /// The new expiry, as it was sent.
        expiry: i64,
    },
    /// Stores the second span under the first.
    Store {
        /// How.
        mode: Mode,
        /// The user's 32 bits.
        flags: u32,
        /// The expiry, as it was sent.
        expiry: i64,
    },
    /// A set of a value that is too large: what the first span's key held must not stay.
    TooLarge,
    /// Adds to the first span's key, or takes away.
    Arithmetic {
        /// True for adding.
        up: bool,
        /// How much.
        delta: u64,
    },
    /// Changes the expiry of the first span's key.
    Touch {
        /// The new expiry, as it was sent.
        expiry: i64,
    },
    /// Removes the first span's key.
    Delete,
    /// Removes everything.
    FlushAll {
        /// Seconds until then, or a Unix time; at once where it is not positive.
        delay: i64,
    },
    /// Asks for figures; the spans name which.
    Stats,
    /// Asks for the version.
    Version,
    /// Sets how much is logged.
    Verbosity,
    /// A meta command.
    Meta(Meta),
    /// A packet of the binary protocol.
    Binary(Packet),
    /// Asks for an answer and nothing else.
    Noop,
    /// Ends the connection.
    Quit,
    /// Gives the password: the first span is name, blank, password.
    Auth,
}
