//! Connections that MIGRATE leaves open for the next one: whoever moves a slot sends one MIGRATE
//! after the other to the same server.

use super::lock;
use super::wire::Peer;
use std::sync::Mutex;

/// Connections that are kept at most, and milliseconds without use after which one is closed; both
/// as in Redis.
const LINKS_MAX: usize = 64;
const IDLE_MS: u64 = 10_000;

/// What a connection is good for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LinkKey {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The database that was selected.
    pub(crate) db: i64,
    /// AUTH's arguments.
    pub(crate) credentials: Vec<Vec<u8>>,
    /// It has TLS.
    pub(crate) encrypts: bool,
}

struct Kept {
    key: LinkKey,
    peer: Peer,
    since_ms: u64,
}

/// Connections that nobody uses for the moment, the one that was used last at the end.
#[derive(Default)]
pub(crate) struct KeptLinks(Mutex<Vec<Kept>>);

impl KeptLinks {
    /// Takes a connection out. One that the other side has closed meanwhile is not given.
    pub(crate) fn take(&self, key: &LinkKey, now_ms: u64) -> Option<Peer> {
        self.close_idle(now_ms);
        loop {
            let mut peer = {
                let mut all = lock(&self.0);
                let at = all.iter().rposition(|kept| kept.key == *key)?;
                all.remove(at).peer
            };
            if peer.wire().is_quiet() {
                return Some(peer);
            }
        }
    }

    /// Keeps a connection on which every request was answered.
    pub(crate) fn put(&self, key: LinkKey, peer: Peer, now_ms: u64) {
        let mut all = lock(&self.0);
        if all.len() >= LINKS_MAX {
            all.remove(0);
        }
        all.push(Kept { key, peer, since_ms: now_ms });
    }

    /// Closes those that nobody has used for long.
    pub(crate) fn close_idle(&self, now_ms: u64) {
        lock(&self.0).retain(|kept| now_ms.saturating_sub(kept.since_ms) < IDLE_MS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::Wire;
    use std::io::{self, Read, Write};
    use std::net::IpAddr;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::time::Duration;

    struct Fake(Arc<AtomicBool>);

    impl Read for Fake {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Ok(0)
        }
    }

    impl Write for Fake {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Wire for Fake {
        fn local_ip(&self) -> Option<IpAddr> {
            None
        }

        fn set_timeout(&mut self, _: Duration) -> io::Result<()> {
            Ok(())
        }

        fn set_read_timeout(&mut self, _: Duration) -> io::Result<()> {
            Ok(())
        }

        fn is_quiet(&mut self) -> bool {
            self.0.load(Relaxed)
        }
    }

    fn key(port: u16) -> LinkKey {
        LinkKey { host: "h".into(), port, db: 0, credentials: Vec::new(), encrypts: false }
    }

    #[test]
    fn a_link_is_kept_for_ten_seconds_and_only_while_its_other_side_is_there() {
        let links = KeptLinks::default();
        let peer = |is_there: bool| Peer::new(Box::new(Fake(Arc::new(AtomicBool::new(is_there)))));
        links.put(key(1), peer(true), 0);
        assert!(links.take(&key(2), 1).is_none(), "another server");
        let other = LinkKey { db: 1, ..key(1) };
        assert!(links.take(&other, 1).is_none(), "another database");
        assert!(links.take(&key(1), 9_999).is_some());
        assert!(links.take(&key(1), 9_999).is_none(), "it is in use");
        links.put(key(1), peer(true), 0);
        assert!(links.take(&key(1), 10_000).is_none(), "nobody has used it for long");
        links.put(key(1), peer(true), 0);
        links.put(key(1), peer(false), 0);
        assert!(links.take(&key(1), 1).is_some(), "not the one that was closed");
        assert!(links.take(&key(1), 1).is_none());
        (0..=LINKS_MAX as u16).for_each(|port| links.put(key(port), peer(true), 0));
        assert!(links.take(&key(0), 1).is_none(), "the one that was used longest ago went");
        assert!(links.take(&key(1), 1).is_some());
    }
}
