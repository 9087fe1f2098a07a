//! Everything that is listened on for connections, by what it is for.

use crate::Config;
use crate::socket::{ListeningSocket, bind, bind_unix};
use silica::engine::{Error, Result};
use silica_proto::memcached::Protocol;
use std::net::SocketAddr;

/// How connections are accepted.
#[derive(Clone, Copy)]
pub(crate) struct AcceptOptions {
    /// What they speak, if that is known before they do.
    pub(crate) protocol: Option<Protocol>,
    /// They speak it over TLS.
    pub(crate) tls: bool,
}

/// A port or unix socket, and how those who connect to it are accepted.
pub(crate) struct Listener {
    pub(crate) socket: ListeningSocket,
    pub(crate) options: AcceptOptions,
}

/// All listeners of a server.
pub(crate) struct Listeners {
    pub(crate) any: Vec<Listener>,
    pub(crate) memcached: Vec<Listener>,
    pub(crate) tls: Vec<Listener>,
    unix: Vec<Listener>,
}

impl Listeners {
    /// Listens where `config` says.
    pub(crate) fn open(config: &Config) -> Result<Self> {
        let all = |addresses: &[SocketAddr], options| -> Result<Vec<Listener>> {
            let one = |address: &SocketAddr| Ok(Listener { socket: bind(*address)?, options });
            addresses.iter().map(one).collect()
        };
        let any = AcceptOptions { protocol: None, tls: config.encrypts_all() };
        let text = AcceptOptions { protocol: Some(Protocol::MemcachedText), ..any };
        let plain = AcceptOptions { tls: false, ..any };
        let unix = config.unix.iter();
        let unix = unix.map(|path| Ok(Listener { socket: bind_unix(path)?, options: plain }));
        Ok(Listeners {
            any: all(&config.listen, any)?,
            memcached: all(&config.memcached, text)?,
            tls: all(&config.tls_listen, AcceptOptions { tls: true, ..any })?,
            unix: unix.collect::<Result<_>>()?,
        })
    }

    /// All of them, in a fixed order.
    pub(crate) fn into_all(self) -> Vec<Listener> {
        [self.any, self.memcached, self.tls, self.unix].into_iter().flatten().collect()
    }
}

/// Where `listeners` listen, with real ports.
pub(crate) fn addresses(listeners: &[Listener]) -> Result<Vec<SocketAddr>> {
    let all = listeners.iter().map(|listener| listener.socket.ip());
    let failed = |error| Error::io("ask for the address listened on", error);
    all.collect::<std::io::Result<_>>().map_err(failed)
}
