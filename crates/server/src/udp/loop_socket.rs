//! A socket for datagrams that an event loop serves, where partitions belong to loops.

use super::socket::{BATCH, Serve};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use silica_net::datagrams::{Incoming, SLOT_BYTES, STRIDE};
use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// A socket and what answers its datagrams.
pub(crate) struct LoopSocket {
    socket: UdpSocket,
    incoming: Incoming,
    server: Box<dyn Serve + Send>,
    /// Something may have come.
    pub(crate) ready: bool,
}

impl LoopSocket {
    pub(crate) fn new(socket: UdpSocket, server: Box<dyn Serve + Send>) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(LoopSocket { socket, incoming: Incoming::new(BATCH), server, ready: true })
    }

    /// Has `registry` tell under `token` when something comes.
    pub(crate) fn register(&self, registry: &Registry, token: Token) -> io::Result<()> {
        let descriptor = self.socket.as_raw_fd();
        registry.register(&mut SourceFd(&descriptor), token, Interest::READABLE)
    }

    /// Answers a batch of what came.
    pub(crate) fn serve(&mut self) -> io::Result<()> {
        let bytes = self.server.bytes();
        match self.incoming.receive(&self.socket, bytes, SLOT_BYTES, STRIDE) {
            Ok(count) => {
                // With fewer nothing was left, and what comes is told.
                self.ready = count == BATCH;
                self.server.serve(&self.socket, &self.incoming, count);
                Ok(())
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                self.ready = false;
                Ok(())
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => Ok(()),
            Err(e) => Err(e),
        }
    }
}
