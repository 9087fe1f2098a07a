//! The event loops as others reach them: their messages, their ports, and the end of all.

use crate::dial;
use crate::links::Links;
use crate::listeners::AcceptOptions;
use crate::own::{self, Addresses};
use crate::passes::Passes;
use crate::socket::Socket;
use mio::Waker;
use silica_commands::{Address, Burst, Delivery, Front, Owner, Published, Waited, Wire};
use silica_proto::datagram::PASS_BYTES;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Why TLS on connections to other servers is not possible.
const NO_LINKS: &str =
    "whom to trust is not known: give --tls-peer-ca (or --tls-ca), authorities of the others";

/// What loops are told.
pub(crate) enum Message {
    /// Serve this connection.
    Connection(Socket, (Address, Address), AcceptOptions),
    /// A burst of yours is done.
    Done(Burst),
    /// Give this message to these connections of yours.
    Publish(Arc<Published>, Vec<Delivery>),
    /// Close this connection of yours.
    Close(Owner),
    /// Let the request that this connection of yours waits with run anew.
    Wake(Owner, Waited),
    /// Send more to this connection of yours, which is a replica's.
    Feed(Owner),
    /// Look whether requests still have to wait.
    Resume,
    /// Finish what is in hand and end.
    Stop,
}

/// Messages to one loop.
pub(crate) struct Inbox {
    messages: Mutex<Vec<Message>>,
    /// The waker was used since the loop last looked.
    woken: AtomicBool,
    waker: Arc<Waker>,
}

impl Inbox {
    fn new(waker: Arc<Waker>) -> Self {
        Inbox { messages: Mutex::default(), woken: AtomicBool::new(false), waker }
    }

    pub(crate) fn send(&self, message: Message) {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).push(message);
        if !self.woken.swap(true, Ordering::AcqRel)
            && let Err(error) = self.waker.wake()
        {
            // The loop looks again at its next tick, at the latest after a second.
            log::warn!("waking an event loop: {error}");
        }
    }

    /// Moves all messages to the end of `into`.
    pub(crate) fn take(&self, into: &mut Vec<Message>) {
        self.woken.store(false, Ordering::Release);
        into.append(&mut self.messages.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// All event loops of a server.
pub(crate) struct Loops {
    pub(crate) inboxes: Vec<Inbox>,
    pub(crate) addresses: Addresses,
    /// What lets senders of datagrams in.
    pub(crate) passes: Passes,
    /// What connections to other servers have TLS with.
    pub(crate) links: Option<Links>,
    stop_asked: (Mutex<bool>, Condvar),
}

impl Loops {
    /// The loops that `wakers` wake.
    pub(crate) fn new(
        wakers: Vec<Arc<Waker>>,
        addresses: Addresses,
        passes: Passes,
        links: Option<Links>,
    ) -> Self {
        let inboxes = wakers.into_iter().map(Inbox::new).collect();
        Loops { inboxes, addresses, passes, links, stop_asked: (Mutex::new(false), Condvar::new()) }
    }

    /// Waits until the loops are asked to stop.
    pub(crate) fn wait_for_stop(&self) {
        let (asked, changed) = &self.stop_asked;
        let mut guard = asked.lock().unwrap_or_else(PoisonError::into_inner);
        while !*guard {
            guard = changed.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Front for Loops {
    fn dial(
        &self,
        host: &str,
        port: u16,
        timeout: Duration,
        encrypts: bool,
    ) -> io::Result<Box<dyn Wire>> {
        if encrypts && self.links.is_none() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, NO_LINKS));
        }
        dial::dial(host, port, timeout, self.links.as_ref().filter(|_| encrypts))
    }

    fn is_own_address(&self, host: &str, port: u16) -> bool {
        own::is_own(&self.addresses, host, port)
    }

    fn can_encrypt(&self) -> Result<(), String> {
        self.links.as_ref().map(|_| ()).ok_or_else(|| NO_LINKS.into())
    }

    fn tls_port(&self) -> u16 {
        self.addresses.tls.first().map_or(0, SocketAddr::port)
    }

    fn loops(&self) -> usize {
        self.inboxes.len()
    }

    fn publish(&self, index: usize, published: Arc<Published>, deliveries: Vec<Delivery>) {
        self.inboxes[index].send(Message::Publish(published, deliveries));
    }

    fn close(&self, index: usize, owner: Owner) {
        self.inboxes[index].send(Message::Close(owner));
    }

    fn wake(&self, index: usize, owner: Owner, waited: Waited) {
        self.inboxes[index].send(Message::Wake(owner, waited));
    }

    fn feed(&self, index: usize, owner: Owner) {
        self.inboxes[index].send(Message::Feed(owner));
    }

    fn resume(&self) {
        self.inboxes.iter().for_each(|inbox| inbox.send(Message::Resume));
    }

    fn stop(&self) {
        self.inboxes.iter().for_each(|inbox| inbox.send(Message::Stop));
        let (asked, changed) = &self.stop_asked;
        *asked.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_all();
    }

    fn port(&self) -> u16 {
        self.addresses.any.first().map_or(0, SocketAddr::port)
    }

    fn datagram_ports(&self) -> Vec<u16> {
        self.addresses.datagrams.iter().map(SocketAddr::port).collect()
    }

    fn datagram_pass(&self, acl_version: u64) -> [u8; PASS_BYTES] {
        self.passes.pass(acl_version)
    }
}
