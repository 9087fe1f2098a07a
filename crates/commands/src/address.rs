//! Where the ends of a connection are.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

/// Where one end of a connection is.
#[derive(Debug, Clone)]
pub enum Address {
    /// A TCP address.
    Ip(SocketAddr),
    /// The path of a unix socket.
    Unix(Arc<Path>),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Ip(address) => address.fmt(f),
            // As Redis shows it.
            Address::Unix(path) => write!(f, "{}:0", path.display()),
        }
    }
}

impl Address {
    /// The host, without the port.
    pub(crate) fn host(&self) -> String {
        match self {
            Address::Ip(address) => address.ip().to_string(),
            Address::Unix(_) => String::new(),
        }
    }

    /// The kind of socket, as memcached calls it.
    pub fn kind(&self) -> &'static str {
        match self {
            Address::Ip(_) => "tcp",
            Address::Unix(_) => "unix",
        }
    }
}
