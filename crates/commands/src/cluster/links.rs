//! Links to the other nodes: each has a thread, which sends this node's map when it has changed,
//! until it was taken, and messages of PUBLISH. That a node does not answer is shown and decides
//! nothing.

use super::encryption::LinkKind;
use super::map::Map;
use super::reports::Reports;
use super::wire::{Answer, Peer};
use super::{Cluster, WeakService, lock};
use crate::service::Service;
use silica_base::checksum;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Messages that wait for a node at most; what comes more is lost to it, as PUBLISH promises.
const WAITING_MAX: usize = 4096;
/// How long a node has for an answer.
const ANSWER: Duration = Duration::from_millis(2_000);
/// How long a link rests when there is nothing to send; then it looks whether the node is there.
const REST: Duration = Duration::from_millis(1_000);
/// How long it rests when the node was not there.
const RETRY: Duration = Duration::from_millis(250);

/// How long a link rests after it has sent something before it sends a map again: a reshard changes
/// the map hundreds of times a second, and each map says all. A change after a rest goes at once.
const PACE: Duration = Duration::from_millis(10);

/// What a link is told.
enum Sent {
    /// Look at the map.
    Look,
    /// A message of PUBLISH: channel and payload.
    Message(Arc<(Vec<u8>, Vec<u8>)>),
}

/// A link to one node.
pub(crate) struct Link {
    sender: SyncSender<Sent>,
    /// The node has answered when it was asked for the last time, or was not asked yet.
    is_up: Arc<AtomicBool>,
    /// The node has taken this node's map, and told its own.
    has_told: Arc<AtomicBool>,
    /// Bytes that wait.
    waiting: Arc<AtomicU64>,
    pub(crate) since_ms: u64,
}

/// All links.
#[derive(Default)]
pub(crate) struct Links {
    service: OnceLock<WeakService>,
    links: Mutex<BTreeMap<String, Link>>,
    /// Messages sent and taken, for CLUSTER INFO.
    pub(crate) sent: AtomicU64,
    pub(crate) taken: AtomicU64,
    /// What the nodes have said of themselves.
    pub(super) reports: Reports,
}

impl Links {
    pub(super) fn start(&self, service: WeakService) {
        // The server starts once.
        let _ = self.service.set(service);
    }

    /// Has a link to each node of `map`, and lets all look at the map.
    pub(super) fn follow(&self, map: &Map) {
        let Some(weak) = self.service.get() else { return };
        let Some(service) = weak.upgrade() else { return };
        let mut links = lock(&self.links);
        links.retain(|id, _| map.nodes.contains_key(id));
        for id in map.nodes.keys().filter(|id| **id != map.me) {
            if !links.contains_key(id)
                && let Some(link) = begin(weak, id, service.unix_ms())
            {
                links.insert(id.clone(), link);
            }
        }
        links.values().for_each(|link| drop(link.sender.try_send(Sent::Look)));
    }

    pub(super) fn broadcast(&self, channel: &[u8], payload: &[u8]) {
        let links = lock(&self.links);
        if links.is_empty() {
            return;
        }
        let message = Arc::new((channel.to_vec(), payload.to_vec()));
        for (id, link) in links.iter().filter(|(_, link)| link.is_up.load(Relaxed)) {
            link.waiting.fetch_add((channel.len() + payload.len()) as u64, Relaxed);
            if link.sender.try_send(Sent::Message(Arc::clone(&message))).is_err() {
                link.waiting.fetch_sub((channel.len() + payload.len()) as u64, Relaxed);
                log::warn!("a message for the subscribers of node {id} is lost: too many wait");
            }
        }
    }

    /// True unless node `id` was not there when it was asked for the last time.
    pub(crate) fn is_up(&self, id: &str) -> bool {
        lock(&self.links).get(id).is_none_or(|link| link.is_up.load(Relaxed))
    }

    /// True if node `id` has told its map since this node was started.
    pub(crate) fn has_told(&self, id: &str) -> bool {
        lock(&self.links).get(id).is_some_and(|link| link.has_told.load(Relaxed))
    }

    /// Calls `show` with each link: its node, since when, and the bytes that wait.
    pub(crate) fn each(&self, mut show: impl FnMut(&str, u64, u64)) {
        let links = lock(&self.links);
        for (id, link) in links.iter() {
            show(id, link.since_ms, link.waiting.load(Relaxed));
        }
    }
}

fn begin(service: &WeakService, id: &str, now_ms: u64) -> Option<Link> {
    let (sender, receiver) = sync_channel(WAITING_MAX);
    let (is_up, waiting) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicU64::new(0)));
    let has_told = Arc::new(AtomicBool::new(false));
    let mut worker = Worker {
        service: service.clone(),
        id: id.to_string(),
        receiver,
        is_up: Arc::clone(&is_up),
        has_told: Arc::clone(&has_told),
        waiting: Arc::clone(&waiting),
        peer: None,
        acknowledged: None,
        refusal: String::new(),
    };
    let thread = std::thread::Builder::new().name("silica-node".into());
    match thread.spawn(move || worker.work()) {
        Ok(_) => Some(Link { sender, is_up, has_told, waiting, since_ms: now_ms }),
        Err(error) => {
            log::error!("a thread for node {id} was not started: {error}");
            None
        }
    }
}

/// The thread of a link.
struct Worker {
    service: WeakService,
    id: String,
    receiver: Receiver<Sent>,
    is_up: Arc<AtomicBool>,
    has_told: Arc<AtomicBool>,
    waiting: Arc<AtomicU64>,
    peer: Option<Peer>,
    /// What the node has taken for the last time.
    acknowledged: Option<u32>,
    /// Why it has refused the map for the last time.
    refusal: String,
}

impl Worker {
    /// Works until the node is forgotten or the server ends.
    fn work(&mut self) {
        let mut messages: Vec<Arc<(Vec<u8>, Vec<u8>)>> = Vec::new();
        loop {
            let Some(service) = self.service.upgrade() else { return };
            let Some(cluster) = service.cluster.as_ref() else { return };
            let map = cluster.map();
            if service.is_stopping() || !map.nodes.contains_key(&self.id) {
                return;
            }
            cluster.look_after(&service);
            let result = self.send(&service, cluster, &map, &messages);
            let bytes: usize =
                messages.iter().map(|message| message.0.len() + message.1.len()).sum();
            self.waiting.fetch_sub(bytes as u64, Relaxed);
            messages.clear();
            self.note(&result);
            drop(map);
            drop(service);
            if !self.wait(if result.is_ok() { REST } else { RETRY }, &mut messages) {
                return;
            }
        }
    }

    /// Notes whether the node has answered. One that refuses what it is told is there.
    fn note(&mut self, result: &io::Result<()>) {
        match result {
            Err(error) if error.kind() == io::ErrorKind::Other => {
                let text = error.to_string();
                if text != self.refusal {
                    log::warn!("node {} refuses: {text}", self.id);
                    self.refusal = text;
                }
            }
            Err(error) => {
                if self.is_up.swap(false, Relaxed) {
                    log::warn!("node {} does not answer: {error}", self.id);
                }
                self.peer = None;
            }
            Ok(()) => {
                self.refusal.clear();
                if !self.is_up.swap(true, Relaxed) {
                    log::info!("node {} answers again", self.id);
                }
            }
        }
    }

    /// Waits for something to send, for `rest` at most; false if the link has ended. Messages go at
    /// once, a look at the map waits until [`PACE`] is over.
    fn wait(&self, rest: Duration, messages: &mut Vec<Arc<(Vec<u8>, Vec<u8>)>>) -> bool {
        let begun = Instant::now();
        let mut left = rest;
        loop {
            match self.receiver.recv_timeout(left) {
                Ok(Sent::Message(message)) => {
                    messages.push(message);
                    left = Duration::ZERO;
                }
                Ok(Sent::Look) => left = left.min(PACE.saturating_sub(begun.elapsed())),
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    /// Sends the map, if the node has not got this one, and `messages`.
    fn send(
        &mut self,
        service: &Service,
        cluster: &Cluster,
        map: &Map,
        messages: &[Arc<(Vec<u8>, Vec<u8>)>],
    ) -> io::Result<()> {
        let node = &map.nodes[&self.id];
        if self.peer.is_none() {
            self.peer = Some(connect(service, cluster, &node.host, node.port, ANSWER)?);
            self.acknowledged = None;
        }
        let Some(peer) = &mut self.peer else { return Ok(()) };
        for message in messages {
            peer.push(&[b"CLUSTERX", b"PUBLISH", &message.0, &message.1]);
        }
        let report = cluster.report(service, map);
        let report: Vec<&[u8]> = report.iter().map(Vec::as_slice).collect();
        peer.push(&report);
        let text = map.text();
        let sum = checksum(text.as_bytes());
        // If the maps are an operator's, nothing is told.
        let tells = map.version < 0 && self.acknowledged != Some(sum);
        if tells {
            peer.push(&[b"CLUSTERX", b"STATE", text.as_bytes()]);
            cluster.links.sent.fetch_add(1, Relaxed);
            self.acknowledged = None;
        }
        peer.flush()?;
        for _ in 0..=messages.len() {
            peer.answer()?;
        }
        if !tells {
            self.has_told.store(true, Relaxed);
            return Ok(());
        }
        match peer.answer()? {
            Answer::Text(answer) => {
                self.acknowledged = Some(sum);
                take(service, cluster, &answer, false).map_err(io::Error::other)?;
                self.has_told.store(true, Relaxed);
                Ok(())
            }
            Answer::Error(text) => Err(io::Error::other(text)),
            Answer::Null => Err(io::Error::other("no map")),
        }
    }
}

/// Takes the map that a node has answered with.
fn take(service: &Service, cluster: &Cluster, answer: &[u8], is_met: bool) -> Result<(), String> {
    cluster.links.taken.fetch_add(1, Relaxed);
    let other = Map::of_text(&String::from_utf8_lossy(answer))?;
    cluster.learn(service, &other, is_met)
}

/// A connection to a node, which has let this one in.
pub(super) fn connect(
    service: &Service,
    cluster: &Cluster,
    host: &str,
    port: u16,
    timeout: Duration,
) -> io::Result<Peer> {
    let mut peer = Peer::new(service.dial(LinkKind::Cluster, host, port, timeout)?);
    if let Some(password) = &cluster.options.password {
        match peer.call(&[b"AUTH", password])? {
            // A node without a password takes any.
            Answer::Error(text) if !text.contains("without any password") => {
                return Err(io::Error::other(text));
            }
            _ => {}
        }
    }
    Ok(peer)
}

impl Cluster {
    /// Introduces this node and the one at `host` and `port` to each other.
    ///
    /// # Errors
    /// Says why they did not get to know each other.
    pub(crate) fn meet(&self, service: &Service, host: &str, port: u16) -> Result<(), String> {
        let failed = |error: io::Error| format!("ERR node {host}:{port} was not met: {error}");
        let mut peer = connect(service, self, host, port, ANSWER).map_err(failed)?;
        if self.map().me().host.is_empty()
            && let Some(ip) = peer.wire().local_ip()
        {
            // By this address the other node reaches us.
            self.change(service, |map| {
                map.change_me().host = ip.to_string();
                Ok(())
            })?;
        }
        let text = self.map().text();
        self.links.sent.fetch_add(1, Relaxed);
        match peer.call(&[b"CLUSTERX", b"MEET", text.as_bytes(), host.as_bytes()]) {
            Ok(Answer::Text(answer)) => take(service, self, &answer, true),
            Ok(Answer::Error(text)) => {
                Err(format!("ERR node {host}:{port} refuses: {}", text.trim_start_matches("ERR ")))
            }
            Ok(Answer::Null) => Err(format!("ERR node {host}:{port} has no map")),
            Err(error) => Err(failed(error)),
        }
    }
}
