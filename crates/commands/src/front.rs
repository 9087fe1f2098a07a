//! What commands ask of the threads that serve connections.

use crate::push::{Delivery, Owner, Published};
use crate::waiters::Waited;
use silica_proto::datagram::PASS_BYTES;
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// The event loops and ports before the commands. No call waits, but
/// [`Front::dial`] and [`Front::is_own_address`].
pub trait Front: Send + Sync {
    /// How many event loops there are.
    fn loops(&self) -> usize;

    /// Hands a message to connections of event loop `index`.
    fn publish(&self, index: usize, published: Arc<Published>, deliveries: Vec<Delivery>);

    /// Closes a connection of event loop `index`, if it is still there.
    fn close(&self, index: usize, owner: Owner);

    /// Lets the request that a connection of event loop `index` waits with run anew, if it still
    /// waits; `waited` says why.
    fn wake(&self, index: usize, owner: Owner, waited: Waited);

    /// Has event loop `index` send more to a connection of a replica: see [`crate::Service::feed`].
    fn feed(&self, index: usize, owner: Owner);

    /// Has all event loops look whether requests still have to wait.
    fn resume(&self);

    /// Has all event loops finish what is in hand and end. Called once.
    fn stop(&self);

    /// The first TCP port that is listened on; 0 if there is only a unix socket.
    fn port(&self) -> u16;

    /// The ports of the datagram protocol; none if it is not served.
    fn datagram_ports(&self) -> Vec<u16>;

    /// The first TCP port for TLS; 0 if there is none.
    fn tls_port(&self) -> u16 {
        0
    }

    /// Says why connections to other servers cannot be encrypted, if that is so.
    ///
    /// # Errors
    /// What is missing, and the option that gives it.
    fn can_encrypt(&self) -> Result<(), String> {
        Err("this server connects to no other".into())
    }

    /// True if `host` and `port` are an address that this server listens on, as far as that is
    /// known at once: a name is looked up for a moment only, and one that is not known by then is
    /// none.
    fn is_own_address(&self, host: &str, port: u16) -> bool {
        let _ = (host, port);
        false
    }

    /// Connects to another server, for what commands say to it; by TLS if it `encrypts`. It waits
    /// for `timeout` at most, which then is the timeout of each call.
    ///
    /// # Errors
    /// As the system says; always if the front has no connections.
    fn dial(
        &self,
        host: &str,
        port: u16,
        timeout: Duration,
        encrypts: bool,
    ) -> io::Result<Box<dyn Wire>> {
        let _ = (host, port, timeout, encrypts);
        Err(io::Error::new(io::ErrorKind::Unsupported, "this server connects to no other"))
    }

    /// What lets a sender of datagrams in after change `acl_version` of users.
    fn datagram_pass(&self, acl_version: u64) -> [u8; PASS_BYTES];
}

/// A connection to another server. Calls wait as long as its timeout says.
pub trait Wire: Read + Write + Send {
    /// The address of this end.
    fn local_ip(&self) -> Option<IpAddr>;

    /// Calls that take longer from now on fail.
    fn set_timeout(&mut self, timeout: Duration) -> io::Result<()>;

    /// Reads that take longer from now on fail, and may be tried again.
    fn set_read_timeout(&mut self, timeout: Duration) -> io::Result<()>;

    /// True if the other side has neither closed nor sent what was not read. It does not wait.
    fn is_quiet(&mut self) -> bool;
}
