//! What commands ask of the threads that serve connections.

use crate::clients::Owner;
use crate::topics::{Delivery, Published};
use silica_proto::datagram::PASS_BYTES;
use std::sync::Arc;

/// The event loops and ports before the commands. No call waits.
pub trait Front: Send + Sync {
    /// How many event loops there are.
    fn loops(&self) -> usize;

    /// Hands a message to connections of event loop `index`.
    fn publish(&self, index: usize, published: Arc<Published>, deliveries: Vec<Delivery>);

    /// Closes a connection of event loop `index`, if it is still there.
    fn close(&self, index: usize, owner: Owner);

    /// Has all event loops look whether requests still have to wait.
    fn resume(&self);

    /// Has all event loops finish what is in hand and end. Called once.
    fn stop(&self);

    /// The first TCP port that is listened on; 0 if there is only a unix socket.
    fn port(&self) -> u16;

    /// The ports of the datagram protocol; none if it is not served.
    fn datagram_ports(&self) -> Vec<u16>;

    /// What lets a sender of datagrams in after change `acl_version` of users.
    fn datagram_pass(&self, acl_version: u64) -> [u8; PASS_BYTES];
}
