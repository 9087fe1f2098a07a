//! What is known of the link of a replica to its primary.

/// How far a replica has come in following its primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LinkState {
    /// It has no connection, and waits before it tries again.
    #[default]
    Connect,
    /// It talks to the primary and has agreed on nothing yet.
    Connecting,
    /// It receives all data.
    Sync,
    /// It receives the stream.
    Connected,
}

impl LinkState {
    /// Its name in ROLE.
    pub(crate) fn name(self) -> &'static str {
        match self {
            LinkState::Connect => "connect",
            LinkState::Connecting => "connecting",
            LinkState::Sync => "sync",
            LinkState::Connected => "connected",
        }
    }
}

/// What INFO and ROLE show of the link to the primary. Whoever has the link fills it.
#[derive(Debug, Clone, Default)]
pub struct LinkStatus {
    /// How far it has come.
    pub state: LinkState,
    /// When the primary was last heard, in Unix milliseconds; 0 for never.
    pub last_io_unix_ms: u64,
    /// Since when the link is down, in Unix milliseconds; 0 if it is up or never was.
    pub down_since_unix_ms: u64,
    /// Bytes of the data of a full synchronisation; 0 if the primary has not said how many.
    pub sync_bytes_total: u64,
    /// Bytes of it that have arrived.
    pub sync_bytes_read: u64,
    /// Why the last attempt has failed.
    pub failed: Option<String>,
}
