//! Replicas in a cluster: the map says which node follows which, and the server's role follows the
//! map. A replica takes its primary's slots over when somebody asks for it; nodes elect nobody.
//!
//! Invariants:
//! 1. The role changes in the moment in which the map takes effect, while no burst runs.
//! 2. A primary that hands its slots over refuses writes from before it tells its offset until it
//!    follows the replica, or [`YIELD_MS`] have passed. The replica gives up before that
//!    ([`CATCH_UP_MS`]): no write is acknowledged that the replica does not have.

use super::links::connect;
use super::wire::{Answer, Peer};
use super::{Cluster, Map, Node};
use crate::replication::LinkState;
use crate::resp::replicaof;
use crate::service::Service;
use std::io;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Milliseconds for which a primary takes no writes that hands its slots over.
const YIELD_MS: u64 = 5_000;
/// Milliseconds in which the replica has to have the primary's last write.
const CATCH_UP_MS: u64 = 4_000;
/// How long a node has for an answer.
const ANSWER: Duration = Duration::from_millis(2_000);
/// Milliseconds after its start in which a primary waits for its replicas' answers: one of them may
/// have taken its slots over.
const START_MS: u64 = 2_000;
/// The errors of requests to a primary that was just started.
const ASKS_REPLICAS: &str = "CLUSTERDOWN this node asks its replicas whether they serve its slots";
const ASKS_HEIRS: &str = "CLUSTERDOWN this node was handing slots over when it ended, and asks \
                          those nodes which they serve; CLUSTER FORGET one that is gone";

/// How a replica takes the slots of its primary over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failover {
    /// The primary takes no writes until the replica has all of them.
    Agreed,
    /// The primary is not asked; most primaries have to answer.
    Force,
    /// Nobody is asked.
    Takeover,
}

impl Cluster {
    /// Lets the server follow whom `map` says. The caller is alone with the databases, or nobody
    /// is served yet.
    pub(crate) fn take_role(&self, service: &Service, map: &Map) {
        let taken = match &map.me().primary {
            None => replicaof::promote(service),
            Some(id) => {
                if let Some(Node { host, port, .. }) = map.nodes.get(id) {
                    replicaof::follow(service, host, *port);
                }
                Ok(())
            }
        };
        if let Err(error) = taken {
            log::error!("this node stays a replica, which takes no writes: {error}");
        }
    }

    /// Takes the role of the map that was read at the start.
    pub(crate) fn begin_role(&self, service: &Service) {
        let map = self.map();
        let mut auth = replicaof::auth(service);
        if let Some(password) = self.options.password.as_ref().filter(|_| auth.1.is_empty()) {
            auth.1 = String::from_utf8_lossy(password).into_owned();
        }
        drop(auth);
        let settings = &service.replication.settings;
        if settings.announce_port.load(Relaxed) == 0 {
            settings.announce_port.store(map.me().port.into(), Relaxed);
            let mut ip = settings.announce_ip.lock().unwrap_or_else(PoisonError::into_inner);
            ip.clone_from(&map.me().host);
        }
        self.take_role(service, &map);
        let has_replicas = map.nodes.values().any(|node| node.primary.as_ref() == Some(&map.me));
        self.left_ms.store(service.monotonic_ms(), Relaxed);
        if has_replicas || (map.me().primary.is_none() && !map.heirs.is_empty()) {
            self.starts_until_ms.store(service.monotonic_ms() + START_MS, Relaxed);
        }
    }

    /// Why a primary that was just started serves nothing yet: it does not know whether one of its
    /// replicas has taken its slots over, or a node to which it was handing slots over.
    pub(crate) fn is_starting(&self, service: &Service, map: &Map) -> Option<&'static str> {
        let until_ms = self.starts_until_ms.load(Relaxed);
        if until_ms == 0 {
            return None;
        }
        if !map.heirs.iter().all(|id| self.links.has_told(id)) {
            return Some(ASKS_HEIRS);
        }
        let is_mine = |node: &&Node| node.primary.as_ref() == Some(&map.me);
        let have_told =
            map.nodes.values().filter(is_mine).all(|node| self.links.has_told(&node.id));
        if have_told || service.monotonic_ms() >= until_ms {
            self.starts_until_ms.store(0, Relaxed);
            return None;
        }
        Some(ASKS_REPLICAS)
    }

    /// True as long as this primary hands its slots over, and takes no writes.
    #[inline]
    pub(crate) fn yields(&self, service: &Service) -> bool {
        let until_ms = self.yields_until_ms.load(Relaxed);
        until_ms != 0 && service.monotonic_ms() < until_ms
    }

    /// Takes no writes for a while, since replica `id` is about to take the slots over; the history
    /// and the offset of the last write.
    ///
    /// # Errors
    /// Says why the slots are not handed over.
    pub(crate) fn hand_over(&self, service: &Service, id: &str) -> Result<String, String> {
        let map = self.map();
        let node = map.nodes.get(id).ok_or_else(|| format!("ERR Unknown node {id}"))?;
        if node.primary.as_ref() != Some(&map.me) {
            return Err(format!("ERR node {id} is no replica of node {}", map.me));
        }
        if !map.migrating.is_empty() || !map.importing.is_empty() {
            return Err("ERR slots are on their way to or from this node; end that before \
                        (redis-cli --cluster fix)"
                .into());
        }
        let now_ms = service.monotonic_ms();
        service.pause.set_handover(now_ms + YIELD_MS);
        // Whoever is no longer held by the pause looks at this when it runs.
        let (history, offset) = service.databases.alone(|| {
            self.yields_until_ms.store(now_ms + YIELD_MS, Relaxed);
            service.replication.position()
        });
        log::info!("this node hands its slots over to node {id}, at offset {offset}");
        Ok(format!("{} {offset}", history.id))
    }

    /// The slots were handed over, or are not to be.
    pub(crate) fn end_yield(&self, service: &Service) {
        if self.yields_until_ms.swap(0, Relaxed) != 0 {
            service.pause.set_handover(0);
            service.front.resume();
        }
    }

    /// Takes the slots of this replica's primary over. It returns when the map is in effect, and
    /// waits up to [`CATCH_UP_MS`] for the primary's last write.
    ///
    /// # Errors
    /// Says why the slots stay where they are.
    pub(crate) fn fail_over(&self, service: &Service, how: Failover) -> Result<(), String> {
        let map = self.map();
        if map.version >= 0 {
            return Err("ERR the nodes of this cluster are set by CLUSTERX SETNODES; set the new \
                        primary there"
                .into());
        }
        let id = map.me().primary.clone();
        let id = id.ok_or("ERR You should send CLUSTER FAILOVER to a replica")?;
        let primary = map.nodes.get(&id);
        let primary = primary.ok_or("ERR I'm a replica but my master is unknown to me")?;
        let peer = match how {
            Failover::Agreed => Some(self.catch_up(service, &map, primary)?),
            Failover::Force => {
                self.refuse_force(service, &map)?;
                None
            }
            Failover::Takeover => None,
        };
        self.change(service, |map| {
            if map.me().primary.as_ref() != Some(&id) {
                return Err("ERR this node follows another one by now".into());
            }
            map.take_over();
            Ok(())
        })?;
        log::info!("this node has taken the slots of node {id} over ({how:?})");
        // The link would tell it, too, a moment later; until then its clients wait.
        if let Some(mut peer) = peer {
            let text = self.map().text();
            if let Err(error) = peer.call(&[b"CLUSTERX", b"STATE", text.as_bytes()]) {
                log::warn!("node {id} was not told that its slots are served here: {error}");
            }
        }
        Ok(())
    }

    /// Lets the primary take no writes, and waits until this replica has all that it took.
    fn catch_up(&self, service: &Service, map: &Map, primary: &Node) -> Result<Peer, String> {
        if !self.links.is_up(&primary.id) {
            return Err("ERR Master is down or failed, please use CLUSTER FAILOVER FORCE".into());
        }
        let failed = |error: io::Error| {
            format!("ERR the primary {} does not hand its slots over: {error}", primary.address())
        };
        let begun_ms = service.monotonic_ms();
        let peer = connect(service, self, &primary.host, primary.port, ANSWER);
        let mut peer = peer.map_err(failed)?;
        let told = match peer.call(&[b"CLUSTERX", b"HANDOVER", map.me.as_bytes()]) {
            Ok(Answer::Text(told)) => String::from_utf8_lossy(&told).into_owned(),
            Ok(Answer::Error(text)) => return Err(text),
            Ok(Answer::Null) => return Err("ERR the primary told no offset".into()),
            Err(error) => return Err(failed(error)),
        };
        let wanted = told.split_once(' ').and_then(|(id, at)| Some((id, at.parse::<u64>().ok()?)));
        let (history, offset) = wanted.ok_or("ERR the primary told no offset")?;
        loop {
            let (mine, at) = service.replication.position();
            let state = service.replication.link().state;
            if state == LinkState::Connected && mine.id == history && at >= offset {
                return Ok(peer);
            }
            if service.is_stopping() || service.monotonic_ms() > begun_ms + CATCH_UP_MS {
                let _ = peer.call(&[b"CLUSTERX", b"HANDOVER", map.me.as_bytes(), b"ABORT"]);
                return Err(format!(
                    "ERR this replica has offset {at} and the primary {offset}: it has not caught \
                     up within {CATCH_UP_MS} ms; nothing has changed"
                ));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Refuses to take slots over without the primary, if this may be the node that is cut off, or
    /// has no data.
    fn refuse_force(&self, service: &Service, map: &Map) -> Result<(), String> {
        let is_serving = |node: &&Node| node.primary.is_none() && !node.slots.is_empty();
        let serving: Vec<&Node> = map.nodes.values().filter(is_serving).collect();
        let up = serving.iter().filter(|node| self.links.is_up(&node.id)).count();
        if 2 * up <= serving.len() {
            return Err(format!(
                "ERR {up} of {} primaries answer this node, which may be cut off itself; CLUSTER \
                 FAILOVER TAKEOVER asks nobody",
                serving.len()
            ));
        }
        if is_loading(service) {
            return Err("ERR this replica does not have its primary's data yet; CLUSTER FAILOVER \
                        TAKEOVER takes the slots without"
                .into());
        }
        Ok(())
    }
}

/// True if this is a replica that has no whole data of its primary.
pub(crate) fn is_loading(service: &Service) -> bool {
    if !service.replication.is_replica() {
        return false;
    }
    let link = service.replication.link().clone();
    let has_none = link.last_io_unix_ms == 0 && service.replication.offset() == 0;
    has_none || link.state == LinkState::Sync
}
