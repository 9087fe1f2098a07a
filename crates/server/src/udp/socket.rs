//! Sockets for datagrams, and the threads that serve them.

use silica::engine::{Error, Result};
use silica_commands::Service;
use silica_net::datagrams::{
    Incoming, RECEIVE_BYTES, SLOT_BYTES, STRIDE, set_receive_bytes, set_send_bytes,
};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How soon a thread that waits sees that the server stops.
const NAP: Duration = Duration::from_millis(100);
/// Messages of one batch: datagrams, or trains of them.
pub(super) const BATCH: usize = 64;

/// A thread that serves datagrams.
pub(crate) type Thread = JoinHandle<()>;

/// What a thread does with a batch.
pub(crate) trait Serve {
    /// Memory for [`BATCH`] slots.
    fn bytes(&mut self) -> &mut [u8];

    /// Answers the datagrams that came.
    fn serve(&mut self, socket: &UdpSocket, incoming: &Incoming, count: usize);
}

/// Makes `count` sockets on `address`; the kernel gives each sender one of them.
pub(crate) fn bind_all(address: SocketAddr, count: usize) -> Result<Vec<UdpSocket>> {
    let failed_on = |address: SocketAddr| {
        move |e: io::Error| {
            let hint = match e.kind() {
                ErrorKind::AddrInUse => " (choose another port)",
                _ => "",
            };
            Error::io(format!("listen for datagrams on {address}{hint}"), e)
        }
    };
    if count > 1 && address.port() != 0 {
        // Sockets that share a port would share it unseen with those of another server, too.
        bind(address, false).map_err(failed_on(address))?;
    }
    let mut address = address;
    let mut sockets = Vec::with_capacity(count);
    for _ in 0..count {
        let failed = failed_on(address);
        let socket = bind(address, count > 1).map_err(failed)?;
        // The others get the port that the first has got.
        address = socket.local_addr().map_err(failed)?;
        sockets.push(socket);
    }
    Ok(sockets)
}

/// Makes `count` sockets with ports of their own: that of `address` and those that follow it, or
/// free ones where it is 0.
pub(crate) fn bind_each(address: SocketAddr, count: usize) -> Result<Vec<UdpSocket>> {
    let next = |n: usize| match address.port() {
        0 => Some(0),
        first => u16::try_from(usize::from(first) + n).ok(),
    };
    let sockets = (0..count).map(|n| {
        let Some(port) = next(n) else {
            let message = format!("there are no {count} ports from {} on", address.port());
            return Err(Error::new(silica::engine::ErrorKind::Config, message));
        };
        Ok(bind_all(SocketAddr::new(address.ip(), port), 1)?.remove(0))
    });
    sockets.collect()
}

/// The address of each group of sockets.
pub(crate) fn addresses(groups: &[Vec<UdpSocket>]) -> Result<Vec<SocketAddr>> {
    let first = groups.iter().filter_map(|sockets| sockets.first());
    let all = first.map(UdpSocket::local_addr).collect::<io::Result<_>>();
    all.map_err(|e| Error::io("ask for the address of a socket", e))
}

fn bind(address: SocketAddr, shared: bool) -> io::Result<UdpSocket> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseport(&socket, shared)?;
    bind(&socket, &address)?;
    let socket = UdpSocket::from(socket);
    set_receive_bytes(&socket, RECEIVE_BYTES);
    // Loops do not wait for room: what finds none is lost.
    set_send_bytes(&socket, RECEIVE_BYTES);
    socket.set_read_timeout(Some(NAP))?;
    Ok(socket)
}

/// Starts a thread for `socket` that works with what `make` makes.
pub(crate) fn spawn<S: Serve>(
    service: &Arc<Service>,
    name: String,
    socket: UdpSocket,
    make: impl FnOnce() -> S + Send + 'static,
) -> Result<Thread> {
    let service = Arc::clone(service);
    let work = move || run(&service, &socket, &mut make());
    let thread = thread::Builder::new().name(name).spawn(work);
    thread.map_err(|e| Error::io("start a thread for datagrams", e))
}

/// The life of a thread.
fn run(service: &Service, socket: &UdpSocket, server: &mut impl Serve) {
    let mut incoming = Incoming::new(BATCH);
    while !service.is_stopping() {
        match incoming.receive(socket, server.bytes(), SLOT_BYTES, STRIDE) {
            Ok(0) => {}
            Ok(count) => server.serve(socket, &incoming, count),
            Err(e) => match e.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                _ => {
                    log::error!("receiving datagrams: {e}");
                    return service.request_stop();
                }
            },
        }
    }
}
