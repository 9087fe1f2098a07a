//! Everything that is listened on for connections, by what it is for.

use crate::Config;
use crate::passed::Purpose;
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
        let passed = &config.passed;
        let all = |addresses: &[SocketAddr], purpose, options| -> Result<Vec<Listener>> {
            let one = |address: &SocketAddr| {
                let socket = match passed.tcp(purpose, *address) {
                    Some(socket) => ListeningSocket::passed_tcp(socket)?,
                    None => bind(*address)?,
                };
                Ok(Listener { socket, options })
            };
            addresses.iter().map(one).collect()
        };
        let any = AcceptOptions { protocol: None, tls: config.encrypts_all() };
        let text = AcceptOptions { protocol: Some(Protocol::MemcachedText), ..any };
        let plain = AcceptOptions { tls: false, ..any };
        let own = config.unix.iter().map(bind_unix).collect::<Result<Vec<_>>>()?;
        let mut unix = Vec::new();
        for (sockets, protocol) in [
            (own, None),
            (passed.unix(Purpose::Any)?, None),
            (passed.unix(Purpose::Memcached)?, text.protocol),
        ] {
            let options = AcceptOptions { protocol, ..plain };
            unix.extend(sockets.into_iter().map(|socket| Listener { socket, options }));
        }
        Ok(Listeners {
            any: all(&config.listen, Purpose::Any, any)?,
            memcached: all(&config.memcached, Purpose::Memcached, text)?,
            tls: all(&config.tls_listen, Purpose::Tls, AcceptOptions { tls: true, ..any })?,
            unix,
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
