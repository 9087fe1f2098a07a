//! Sockets that somebody else listens on and hands over, as a service manager does.

use crate::Config;
use crate::socket::ListeningSocket;
use silica::engine::{Error, ErrorKind, Result};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::sync::Arc;

/// What a passed socket is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Every protocol, as [`Config::listen`].
    Any,
    /// Memcached's protocols alone, as [`Config::memcached`].
    Memcached,
    /// Every protocol over TLS, as [`Config::tls_listen`].
    Tls,
    /// The dashboard and metrics, as [`Config::admin`].
    Admin,
}

impl Purpose {
    /// The purpose that `name` says, which may be that of a unit: `silica-tls.socket`.
    fn of(name: &str) -> Option<Purpose> {
        let name = name.strip_suffix(".socket").unwrap_or(name);
        match name.strip_prefix("silica-").unwrap_or(name) {
            // Whoever names no socket has `unknown`, and a unit without a name that of its file.
            "resp" | "silica" | "unknown" | "" => Some(Purpose::Any),
            "memcached" => Some(Purpose::Memcached),
            "tls" => Some(Purpose::Tls),
            "admin" => Some(Purpose::Admin),
            _ => None,
        }
    }
}

/// A socket that is listened on already.
#[derive(Debug)]
pub enum PassedSocket {
    /// Of TCP.
    Tcp(TcpListener),
    /// In the file system, whose file stays where it is.
    Unix(UnixListener),
}

/// Sockets that are listened on already, each with what it is for.
#[derive(Debug, Clone, Default)]
pub struct Passed(Vec<(Purpose, Arc<PassedSocket>)>);

impl Passed {
    /// Adds the socket of this name: `resp`, `memcached`, `tls` or `admin`, also as a unit is
    /// called, `silica-tls.socket`; `unknown`, the empty name and `silica.socket` are `resp`.
    ///
    /// # Errors
    /// `Config` if the name is another, if nobody listens on the socket, or if its kind cannot
    /// serve its purpose.
    pub fn add(&mut self, name: &str, socket: PassedSocket) -> Result<()> {
        let refuse = |why: &str| {
            let message = format!("the socket '{name}' that was passed {why}");
            Err(Error::new(ErrorKind::Config, message))
        };
        let Some(purpose) = Purpose::of(name) else {
            return refuse("has an unknown name; use resp, memcached, tls or admin");
        };
        let listens = match &socket {
            PassedSocket::Tcp(socket) => rustix::net::sockopt::socket_acceptconn(socket.as_fd()),
            PassedSocket::Unix(socket) => rustix::net::sockopt::socket_acceptconn(socket.as_fd()),
        };
        if !listens.unwrap_or(false) {
            return refuse("is not listened on; a unit needs ListenStream= and Accept=no");
        }
        if matches!((purpose, &socket), (Purpose::Tls | Purpose::Admin, PassedSocket::Unix(_))) {
            return refuse("is a unix socket, which serves resp or memcached; use a TCP address");
        }
        self.0.push((purpose, Arc::new(socket)));
        Ok(())
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn of(&self, purpose: Purpose) -> impl Iterator<Item = &PassedSocket> {
        let mine = self.0.iter().filter(move |(is_for, _)| *is_for == purpose);
        mine.map(|(_, socket)| &**socket)
    }

    /// Addresses of the TCP sockets for this purpose; `None` if there is no socket for it at all.
    fn addresses(&self, purpose: Purpose) -> Result<Option<Vec<SocketAddr>>> {
        let mut all = self.of(purpose).peekable();
        if all.peek().is_none() {
            return Ok(None);
        }
        let address = |socket: &PassedSocket| match socket {
            PassedSocket::Tcp(socket) => Some(socket.local_addr()),
            PassedSocket::Unix(_) => None,
        };
        let addresses: std::io::Result<Vec<_>> = all.filter_map(address).collect();
        addresses.map(Some).map_err(failed)
    }

    /// The TCP socket at `address`, if it was passed.
    pub(crate) fn tcp(&self, purpose: Purpose, address: SocketAddr) -> Option<&TcpListener> {
        self.of(purpose).find_map(|socket| match socket {
            PassedSocket::Tcp(socket) if socket.local_addr().ok() == Some(address) => Some(socket),
            _ => None,
        })
    }

    /// The unix sockets for this purpose, to be listened on.
    pub(crate) fn unix(&self, purpose: Purpose) -> Result<Vec<ListeningSocket>> {
        let unix = self.of(purpose).filter_map(|socket| match socket {
            PassedSocket::Unix(socket) => Some(ListeningSocket::passed_unix(socket)),
            PassedSocket::Tcp(_) => None,
        });
        unix.collect::<std::io::Result<_>>().map_err(failed)
    }

    /// Paths of all unix sockets.
    pub(crate) fn unix_paths(&self) -> Vec<std::path::PathBuf> {
        let path = |(_, socket): &(Purpose, Arc<PassedSocket>)| match &**socket {
            PassedSocket::Unix(socket) => {
                Some(socket.local_addr().ok()?.as_pathname()?.to_path_buf())
            }
            PassedSocket::Tcp(_) => None,
        };
        self.0.iter().filter_map(path).collect()
    }
}

fn failed(error: std::io::Error) -> Error {
    Error::io("listen on a socket that was passed", error)
}

impl Config {
    /// Listens on `passed` sockets. Those for one purpose take the place of the addresses for it:
    /// somebody listens there already, or they would be bound twice.
    ///
    /// # Errors
    /// `Config` if there are several sockets for the dashboard; `Io` if one has no address.
    pub fn with_passed(mut self, passed: Passed) -> Result<Config> {
        if let Some(addresses) = passed.addresses(Purpose::Any)? {
            self.listen = addresses;
        }
        if let Some(addresses) = passed.addresses(Purpose::Memcached)? {
            self.memcached = addresses;
        }
        if let Some(addresses) = passed.addresses(Purpose::Tls)? {
            self.tls_listen = addresses;
        }
        match passed.addresses(Purpose::Admin)?.as_deref() {
            None => {}
            Some([address]) => self.admin = Some(*address),
            Some(_) => {
                let message = "several sockets 'admin' were passed; the dashboard has one address";
                return Err(Error::new(ErrorKind::Config, message));
            }
        }
        self.passed = passed;
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp() -> (TcpListener, SocketAddr) {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        (socket, address)
    }

    #[test]
    fn sockets_take_the_place_of_addresses_by_their_names() {
        let mut passed = Passed::default();
        let names = ["unknown", "silica-memcached.socket", "tls", "admin", "silica.socket"];
        let addresses: Vec<SocketAddr> = names
            .iter()
            .map(|name| {
                let (socket, address) = tcp();
                passed.add(name, PassedSocket::Tcp(socket)).unwrap();
                address
            })
            .collect();
        let config = Config::default().with_passed(passed).unwrap();
        assert_eq!(config.listen, [addresses[0], addresses[4]]);
        assert_eq!((config.memcached, config.tls_listen), (vec![addresses[1]], vec![addresses[2]]));
        assert_eq!(config.admin, Some(addresses[3]));
        let unchanged = Config::default().with_passed(Passed::default()).unwrap();
        assert_eq!(unchanged.listen, Config::default().listen);
    }

    #[test]
    fn sockets_that_cannot_serve_are_refused_in_words() {
        let directory = tempfile::tempdir().unwrap();
        let unix = |name: &str| UnixListener::bind(directory.path().join(name)).unwrap();
        let mut passed = Passed::default();
        let mut refused = |name: &str, socket| {
            let error = passed.add(name, socket).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            error.to_string()
        };
        assert!(refused("http", PassedSocket::Tcp(tcp().0)).contains("use resp, memcached"));
        assert!(refused("tls", PassedSocket::Unix(unix("a"))).contains("use a TCP address"));
        assert!(refused("admin", PassedSocket::Unix(unix("b"))).contains("use a TCP address"));
        let (listener, address) = tcp();
        let connection = std::net::TcpStream::connect(address).unwrap();
        let connected = TcpListener::from(std::os::fd::OwnedFd::from(connection));
        assert!(refused("resp", PassedSocket::Tcp(connected)).contains("is not listened on"));
        drop(listener);
        let mut twice = Passed::default();
        twice.add("admin", PassedSocket::Tcp(tcp().0)).unwrap();
        twice.add("admin", PassedSocket::Tcp(tcp().0)).unwrap();
        assert!(Config::default().with_passed(twice).is_err());
    }
}
