//! What a connection has chosen.

use crate::transaction::{Queue, Watches};
use silica_proto::Version;
use std::sync::Arc;

/// Whether the client wants replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Replies {
    #[default]
    On,
    Off,
    /// Not to the next request.
    SkipNext,
}

/// State of one connection that its requests change.
#[derive(Default)]
pub(crate) struct Session {
    pub(crate) db: u8,
    pub(crate) version: Version,
    /// The password was given, or there is none.
    pub(crate) let_in: bool,
    pub(crate) replies: Replies,
    /// The connection ends when its replies are out.
    pub(crate) quit: bool,
    /// The requests since MULTI.
    pub(crate) queue: Option<Box<Queue>>,
    /// The keys since WATCH.
    pub(crate) watches: Option<Arc<Watches>>,
}

impl Session {
    /// A fresh session; where no password is set everybody is let in.
    pub(crate) fn new(let_in: bool) -> Self {
        Session { let_in, ..Session::default() }
    }
}
