//! Sockets of either kind: TCP, and unix sockets in the file system.

use mio::event::Source;
use mio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use mio::{Interest, Registry, Token};
use silica::engine::{Error, ErrorKind, Result};
use silica_commands::Address;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Connections that may wait to be accepted; the system may allow fewer.
const BACKLOG: i32 = 4096;

/// A connection's socket.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// What both kinds of sockets do in the same way.
macro_rules! either {
    ($kind:ident, $socket:expr, $inner:ident => $what:expr) => {
        match $socket {
            $kind::Tcp($inner) => $what,
            $kind::Unix($inner) => $what,
        }
    };
}

impl Read for Socket {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        either!(Socket, self, socket => socket.read(buf))
    }
}

impl Write for Socket {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        either!(Socket, self, socket => socket.write(buf))
    }

    fn flush(&mut self) -> io::Result<()> {
        either!(Socket, self, socket => socket.flush())
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        either!(Socket, self, socket => socket.as_fd())
    }
}

impl Socket {
    /// Makes whoever reads or writes wait, as io_uring wants it: it waits in its place.
    pub(crate) fn let_wait(&self) -> io::Result<()> {
        Ok(rustix::io::ioctl_fionbio(self, false)?)
    }

    /// Ends whatever is under way on it.
    pub(crate) fn end(&self) {
        // Where the other side is gone already there is nothing to end.
        let _ = either!(Socket, self, socket => socket.shutdown(Shutdown::Both));
    }

    /// Sends at once whatever is written, since replies are written whole.
    pub(crate) fn send_at_once(&self) {
        if let Socket::Tcp(socket) = self {
            // Without it the connection is only slower.
            let _ = socket.set_nodelay(true);
        }
    }
}

/// A socket that is listened on.
#[derive(Debug)]
pub(crate) enum ListeningSocket {
    Tcp(TcpListener),
    Unix(UnixListener, SocketFile),
}

impl ListeningSocket {
    /// Listens on a TCP socket that somebody else listens on, too.
    pub(crate) fn passed_tcp(socket: &std::net::TcpListener) -> Result<ListeningSocket> {
        let own = socket.try_clone().and_then(|own| {
            own.set_nonblocking(true)?;
            Ok(ListeningSocket::Tcp(TcpListener::from_std(own)))
        });
        own.map_err(|error| Error::io("listen on a socket that was passed", error))
    }

    /// Listens on a unix socket that somebody else listens on, too, and leaves its file.
    pub(crate) fn passed_unix(
        socket: &std::os::unix::net::UnixListener,
    ) -> io::Result<ListeningSocket> {
        let own = socket.try_clone()?;
        own.set_nonblocking(true)?;
        let address = own.local_addr()?;
        let path = address.as_pathname().unwrap_or(Path::new("passed"));
        let file = SocketFile { path: Arc::from(path), is_own: false };
        Ok(ListeningSocket::Unix(UnixListener::from_std(own), file))
    }

    /// The next connection: its socket, its other end, and its own.
    pub(crate) fn accept(&self) -> io::Result<(Socket, Address, Address)> {
        match self {
            ListeningSocket::Tcp(listener) => {
                let (socket, peer) = listener.accept()?;
                let local = socket.local_addr()?;
                Ok((Socket::Tcp(socket), Address::Ip(peer), Address::Ip(local)))
            }
            ListeningSocket::Unix(listener, file) => {
                let (socket, _) = listener.accept()?;
                // The other end has no name.
                let address = Address::Unix(Arc::clone(&file.path));
                Ok((Socket::Unix(socket), address.clone(), address))
            }
        }
    }

    /// The address of a TCP socket, with its real port.
    pub(crate) fn ip(&self) -> io::Result<SocketAddr> {
        match self {
            ListeningSocket::Tcp(listener) => listener.local_addr(),
            ListeningSocket::Unix(..) => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

macro_rules! source {
    ($kind:ident, $($pattern:pat => $inner:ident),*) => {
        impl Source for $kind {
            fn register(&mut self, to: &Registry, token: Token, on: Interest) -> io::Result<()> {
                match self { $($pattern => $inner.register(to, token, on)),* }
            }

            fn reregister(&mut self, to: &Registry, token: Token, on: Interest) -> io::Result<()> {
                match self { $($pattern => $inner.reregister(to, token, on)),* }
            }

            fn deregister(&mut self, from: &Registry) -> io::Result<()> {
                match self { $($pattern => $inner.deregister(from)),* }
            }
        }
    };
}

source!(Socket, Socket::Tcp(socket) => socket, Socket::Unix(socket) => socket);
source!(
    ListeningSocket,
    ListeningSocket::Tcp(socket) => socket,
    ListeningSocket::Unix(socket, _) => socket
);

/// The file of a unix socket; the server's own is removed when it is no longer listened on.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: Arc<Path>,
    is_own: bool,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.is_own {
            // Where it is gone already there is nothing to remove.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Listens on `address`.
pub(crate) fn bind(address: SocketAddr) -> Result<ListeningSocket> {
    let bound = TcpListener::bind(address).and_then(|listener| {
        // The default of 128 makes clients that come all at once wait a second and try again.
        rustix::net::listen(&listener, BACKLOG)?;
        Ok(ListeningSocket::Tcp(listener))
    });
    bound.map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::AddrInUse => " (choose another port)",
            _ => "",
        };
        Error::io(format!("listen on {address}{hint}"), error)
    })
}

/// Listens on a unix socket at `path`, which only this user may connect to. The socket that a
/// server has left there which is gone is replaced; nothing else is.
pub(crate) fn bind_unix(path: &PathBuf) -> Result<ListeningSocket> {
    let failed = |error| Error::io(format!("listen on the socket {}", path.display()), error);
    let refuse = |why: &str| {
        Err(Error::new(ErrorKind::Config, format!("{} {why}; choose another path", path.display())))
    };
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
        Ok(found) if !found.file_type().is_socket() => return refuse("is there and no socket"),
        Ok(_) => match std::os::unix::net::UnixStream::connect(path) {
            Ok(_) => return refuse("is the socket of a server that runs"),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                std::fs::remove_file(path).map_err(failed)?;
            }
            // A server that takes no more for the moment, or another user's.
            Err(error) => return refuse(&format!("is a socket that may be in use ({error})")),
        },
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    let file = SocketFile { path: Arc::from(path.as_path()), is_own: true };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).map_err(failed)?;
    rustix::net::listen(&listener, BACKLOG).map_err(|error| failed(error.into()))?;
    Ok(ListeningSocket::Unix(listener, file))
}
