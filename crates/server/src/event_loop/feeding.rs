//! Connections of replicas: they get data and the stream as fast as their sockets take them.

use super::EventLoop;
use std::io::{self, ErrorKind};

/// Bytes that wait for the socket of a replica, after which it gets no more.
const WAITING_BYTES_MAX: usize = 128 << 10;
/// Bytes that it gets at once.
const PIECE_BYTES: usize = 64 << 10;

impl EventLoop {
    /// Sends more to connection `slot`, if it is a replica's and its socket takes more.
    pub(super) fn feed(&mut self, slot: usize) -> io::Result<()> {
        let Some(conn) = &mut self.conns[slot] else { return Ok(()) };
        if !conn.state.client.is_replica() {
            return Ok(());
        }
        while conn.in_flight.is_none()
            && conn.planned.is_none()
            && conn.out.len() < WAITING_BYTES_MAX
        {
            match self.service.feed(&conn.state.client, PIECE_BYTES) {
                Ok(Some(bytes)) => {
                    if let Some(unused) = conn.push(bytes) {
                        drop(unused);
                    }
                }
                Ok(None) => {
                    if self.service.has_whole_file(&conn.state.client) {
                        conn.state.closing = true;
                        self.queue(slot);
                    }
                    return self.send(slot);
                }
                Err(why) => {
                    log::warn!("replica {}: {why}", conn.state.client.peer);
                    return Err(ErrorKind::ConnectionAborted.into());
                }
            }
        }
        self.send(slot)?;
        // What the socket has taken makes room for more.
        if let Some(conn) = &self.conns[slot]
            && conn.out.len() < WAITING_BYTES_MAX
        {
            self.queue(slot);
        }
        Ok(())
    }
}
