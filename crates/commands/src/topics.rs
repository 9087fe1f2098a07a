//! Channels: who listens to what, and the way of a message from its sender to them.
//!
//! A message is looked up once under one lock, and handed under it to the event loops of those who
//! listen: everybody sees the messages of all senders in one order. A loop appends it to the
//! replies of its connections, or keeps it until the requests under way are answered.

use crate::budget::{Budget, Claim, Share};
use crate::clients::Client;
use crate::clients::Owner;
use crate::glob::Pattern;
use crate::service::Service;
use silica_proto::{Reply, Version};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Channels and patterns that one connection listens to at most.
const TOPICS_MAX: usize = 10_000;

/// Bytes of a compiled pattern for each of the pattern.
const COMPILED: usize = 14;
/// Memory of a message for one listener beside its channel and payload.
const DELIVERY_BYTES: usize = 128;

/// Memory of a channel's or pattern's entries beside its names: nodes of their own.
const TOPIC_BYTES: usize = 1024;

/// What a connection listens to.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    channels: BTreeSet<Vec<u8>>,
    patterns: BTreeSet<Vec<u8>>,
    shards: BTreeSet<Vec<u8>>,
}

impl Subscriptions {
    pub(crate) fn of(&self, kind: Kind) -> &BTreeSet<Vec<u8>> {
        match kind {
            Kind::Channel => &self.channels,
            Kind::Pattern => &self.patterns,
            Kind::Shard => &self.shards,
        }
    }

    fn of_mut(&mut self, kind: Kind) -> &mut BTreeSet<Vec<u8>> {
        match kind {
            Kind::Channel => &mut self.channels,
            Kind::Pattern => &mut self.patterns,
            Kind::Shard => &mut self.shards,
        }
    }

    /// Everything that it listens to.
    pub(crate) fn count(&self) -> usize {
        self.channels.len() + self.patterns.len() + self.shards.len()
    }

    /// What clients are told that they listen to: channels and patterns together, sharded channels
    /// apart.
    pub(crate) fn shown(&self, kind: Kind) -> usize {
        match kind {
            Kind::Channel | Kind::Pattern => self.channels.len() + self.patterns.len(),
            Kind::Shard => self.shards.len(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Channel,
    /// Channels by a glob pattern.
    Pattern,
    /// A channel that in a cluster is its slot's: it has a name space of its own, and no patterns.
    Shard,
}

/// Memory of a name: the client's copy and the register's, and their places; of a pattern also what
/// it was compiled to, where each class of characters takes 32 bytes.
fn bytes_of(kind: Kind, topic: &[u8]) -> usize {
    let compiled = if kind == Kind::Pattern { COMPILED * topic.len() } else { 0 };
    2 * topic.len() + compiled + TOPIC_BYTES
}

/// Where a listener's connection is.
#[derive(Debug, Clone, Copy)]
struct Listener {
    loop_index: usize,
    owner: Owner,
}

/// Listeners by the number of their client.
type Listeners = BTreeMap<u64, Listener>;

/// All channels and patterns that somebody listens to.
#[derive(Debug, Default)]
struct Inner {
    channels: BTreeMap<Vec<u8>, Listeners>,
    patterns: BTreeMap<Vec<u8>, Listeners>,
    shards: BTreeMap<Vec<u8>, Listeners>,
    /// Each of `patterns`, compiled when somebody began to listen to it.
    compiled: BTreeMap<Vec<u8>, Pattern>,
}

impl Inner {
    fn of(&self, kind: Kind) -> &BTreeMap<Vec<u8>, Listeners> {
        match kind {
            Kind::Channel => &self.channels,
            Kind::Pattern => &self.patterns,
            Kind::Shard => &self.shards,
        }
    }

    fn of_mut(&mut self, kind: Kind) -> &mut BTreeMap<Vec<u8>, Listeners> {
        match kind {
            Kind::Channel => &mut self.channels,
            Kind::Pattern => &mut self.patterns,
            Kind::Shard => &mut self.shards,
        }
    }
}

/// What a connection is told without having asked.
#[derive(Debug)]
pub struct Published(pub(crate) Push);

/// What a [`Published`] says.
#[derive(Debug)]
pub(crate) enum Push {
    /// A message on a channel.
    Message { kind: Kind, channel: Vec<u8>, payload: Vec<u8>, share: Share },
    /// These keys were written; all are gone where there are none. `redirected` to a connection
    /// that listens to channels.
    Written { keys: Option<Vec<Vec<u8>>>, redirected: bool, _share: Share },
    /// The connection that was told instead is gone.
    Broken(u64),
    /// A channel of a slot that another node serves now: nobody listens to it here any more. So
    /// many sharded channels are left to the listener.
    Left { channel: Vec<u8>, left: usize },
    /// A request, to whoever monitors.
    Line { line: Box<str>, _share: Share },
}

/// The channel of such keys.
const WRITTEN_CHANNEL: &[u8] = b"__redis__:invalidate";

impl Published {
    /// A listener has its copy, which its connection counts from here on.
    pub fn note_delivery(&self) {
        if let Push::Message { channel, payload, share, .. } = &self.0 {
            share.shrink(channel.len() + payload.len() + DELIVERY_BYTES);
        }
    }

    /// Appends the message as its listener gets it, who was found by `pattern` and speaks
    /// `version`.
    pub fn write(&self, pattern: Option<&[u8]>, version: Version, out: &mut Vec<u8>) {
        let mut reply = Reply::new(out, version);
        let is_new = version == Version::Resp3;
        match &self.0 {
            Push::Message { kind, channel, payload, .. } => {
                message(*kind, pattern, &mut reply);
                reply.bulk(channel);
                reply.bulk(payload);
            }
            // In the old dialect only listeners to channels understand what they did not ask for.
            Push::Written { redirected, .. } if !is_new && !redirected => {}
            Push::Written { keys, .. } => {
                if is_new {
                    reply.push(2);
                    reply.bulk(b"invalidate");
                } else {
                    message(Kind::Channel, None, &mut reply);
                    reply.bulk(WRITTEN_CHANNEL);
                }
                match keys {
                    None => reply.null(),
                    Some(keys) => {
                        reply.array(keys.len());
                        keys.iter().for_each(|key| reply.bulk(key));
                    }
                }
            }
            Push::Line { line, .. } => reply.simple(line),
            Push::Left { channel, left } => {
                reply.push(3);
                reply.bulk(b"sunsubscribe");
                reply.bulk(channel);
                reply.integer(*left as i64);
            }
            Push::Broken(_) if !is_new => {}
            Push::Broken(id) => {
                reply.push(2);
                reply.bulk(b"tracking-redir-broken");
                reply.integer(*id as i64);
            }
        }
    }
}

/// The start of a message, before its channel.
fn message(kind: Kind, pattern: Option<&[u8]>, reply: &mut Reply<'_>) {
    match pattern {
        None => {
            reply.push(3);
            reply.bulk(if kind == Kind::Shard { b"smessage" } else { b"message" });
        }
        Some(pattern) => {
            reply.push(4);
            reply.bulk(b"pmessage");
            reply.bulk(pattern);
        }
    }
}

/// A message for one connection of a loop.
pub struct Delivery {
    /// The connection.
    pub to: Owner,
    /// The pattern that it was found by.
    pub pattern: Option<Arc<[u8]>>,
}

/// The register of channels.
#[derive(Debug, Default)]
pub(crate) struct Topics(Mutex<Inner>);

impl Topics {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets `client` listen to `topic`; how many it listens to now, or why it may not.
    pub(crate) fn add(&self, client: &Client, kind: Kind, topic: &[u8]) -> Result<usize, String> {
        let mut inner = self.lock();
        let mut mine = client.subscriptions();
        if !mine.of(kind).contains(topic) {
            if mine.count() >= TOPICS_MAX {
                return Err("ERR this connection listens to too many channels".into());
            }
            client.kept.grow(bytes_of(kind, topic))?;
        }
        mine.of_mut(kind).insert(topic.to_vec());
        if kind == Kind::Pattern && !inner.compiled.contains_key(topic) {
            inner.compiled.insert(topic.to_vec(), Pattern::new(topic));
        }
        let owner = Owner { slot: client.slot, client: client.id };
        let listener = Listener { loop_index: client.loop_index, owner };
        inner.of_mut(kind).entry(topic.to_vec()).or_default().insert(client.id, listener);
        Ok(mine.shown(kind))
    }

    /// Lets `client` listen to `topic` no more; how many it listens to now.
    pub(crate) fn remove(&self, client: &Client, kind: Kind, topic: &[u8]) -> usize {
        let mut inner = self.lock();
        let mut mine = client.subscriptions();
        if mine.of_mut(kind).remove(topic) {
            client.kept.shrink(bytes_of(kind, topic));
            inner.forget(client.id, kind, topic);
        }
        mine.shown(kind)
    }

    /// Lets `client` listen to nothing.
    pub(crate) fn remove_all(&self, client: &Client) {
        let mut mine = client.subscriptions();
        if mine.count() == 0 {
            return;
        }
        let all = std::mem::take(&mut *mine);
        drop(mine);
        let mut inner = self.lock();
        for kind in [Kind::Channel, Kind::Pattern, Kind::Shard] {
            client.kept.shrink(all.of(kind).iter().map(|topic| bytes_of(kind, topic)).sum());
            all.of(kind).iter().for_each(|topic| inner.forget(client.id, kind, topic));
        }
    }

    /// Ends all subscriptions to sharded channels for which `is_here` is not true, and tells those
    /// who had them.
    pub(crate) fn keep_shards(&self, service: &Service, is_here: impl Fn(&[u8]) -> bool) {
        let listeners = |inner: &Inner| -> Vec<(Vec<u8>, Vec<u64>)> {
            let gone = inner.shards.iter().filter(|(channel, _)| !is_here(channel));
            gone.map(|(channel, all)| (channel.clone(), all.keys().copied().collect())).collect()
        };
        let gone = listeners(&self.lock());
        for (channel, clients) in gone {
            for client in clients.into_iter().filter_map(|client| service.clients.get(client)) {
                let left = self.remove(&client, Kind::Shard, &channel);
                let to = Owner { slot: client.slot, client: client.id };
                let published = Published(Push::Left { channel: channel.clone(), left });
                let deliveries = vec![Delivery { to, pattern: None }];
                service.front.publish(client.loop_index, Arc::new(published), deliveries);
            }
        }
    }

    /// Sends a message to all who listen; how many they are (one that listens twice counts twice),
    /// or why there is no memory for it.
    pub(crate) fn publish(
        &self,
        service: &Service,
        kind: Kind,
        channel: &[u8],
        payload: &[u8],
    ) -> Result<usize, String> {
        let inner = self.lock();
        let mut by_loop: BTreeMap<usize, Vec<Delivery>> = BTreeMap::new();
        let mut add = |listeners: &Listeners, pattern: Option<&Arc<[u8]>>| {
            for Listener { loop_index, owner } in listeners.values() {
                let delivery = Delivery { to: *owner, pattern: pattern.cloned() };
                by_loop.entry(*loop_index).or_default().push(delivery);
            }
        };
        if let Some(listeners) = inner.of(kind).get(channel) {
            add(listeners, None);
        }
        if kind == Kind::Channel {
            for (pattern, listeners) in inner.patterns_of(channel) {
                add(listeners, Some(&Arc::from(pattern.as_slice())));
            }
        }
        if by_loop.is_empty() {
            return Ok(0);
        }
        let deliveries: usize = by_loop.values().map(Vec::len).sum();
        let share = Share::new(&service.budget);
        // Each listener gets a copy, which its connection counts once it is there.
        share.grow((1 + deliveries) * (channel.len() + payload.len() + DELIVERY_BYTES))?;
        let (channel, payload) = (channel.to_vec(), payload.to_vec());
        let published = Arc::new(Published(Push::Message { kind, channel, payload, share }));
        let mut count = 0;
        for (loop_index, deliveries) in by_loop {
            count += deliveries.len();
            service.front.publish(loop_index, Arc::clone(&published), deliveries);
        }
        Ok(count)
    }

    /// How many would get a message on `channel`.
    pub(crate) fn audience(&self, kind: Kind, channel: &[u8]) -> usize {
        let inner = self.lock();
        let by_name = inner.of(kind).get(channel).map_or(0, BTreeMap::len);
        if kind == Kind::Shard {
            return by_name;
        }
        let by_pattern = inner.patterns_of(channel);
        by_name + by_pattern.map(|(_, listeners)| listeners.len()).sum::<usize>()
    }

    /// Number of channels that somebody listens to by name.
    pub(crate) fn channels(&self) -> usize {
        self.lock().channels.len()
    }

    /// Answers with the channels that somebody listens to by name, and the client may hear.
    pub(crate) fn write_channels(
        &self,
        kind: Kind,
        pattern: Option<&[u8]>,
        may_hear: impl Fn(&[u8]) -> bool,
        budget: &Arc<Budget>,
        reply: &mut Reply<'_>,
    ) {
        let inner = self.lock();
        let pattern = pattern.map(Pattern::new);
        let wanted =
            |name: &&Vec<u8>| pattern.as_ref().is_none_or(|p| p.matches(name)) && may_hear(name);
        let (mut count, mut bytes) = (0, 0);
        for name in inner.of(kind).keys().filter(wanted) {
            (count, bytes) = (count + 1, bytes + name.len() + 16);
        }
        if let Err(text) = Claim::new(budget).grow(bytes) {
            return reply.error(&text);
        }
        reply.array(count);
        inner.of(kind).keys().filter(wanted).for_each(|name| reply.bulk(name));
    }

    /// Listeners to `channel` by name.
    pub(crate) fn listeners(&self, kind: Kind, channel: &[u8]) -> usize {
        self.lock().of(kind).get(channel).map_or(0, BTreeMap::len)
    }

    /// Number of different patterns.
    pub(crate) fn patterns(&self) -> usize {
        self.lock().patterns.len()
    }
}

impl Inner {
    /// The patterns that `channel` matches, and who listens to them.
    fn patterns_of<'i>(
        &'i self,
        channel: &'i [u8],
    ) -> impl Iterator<Item = (&'i Vec<u8>, &'i Listeners)> {
        let matching = self.compiled.iter().filter(|(_, compiled)| compiled.matches(channel));
        matching.filter_map(|(pattern, _)| Some((pattern, self.patterns.get(pattern)?)))
    }

    fn forget(&mut self, client: u64, kind: Kind, topic: &[u8]) {
        let topics = self.of_mut(kind);
        if let Some(listeners) = topics.get_mut(topic) {
            listeners.remove(&client);
            if listeners.is_empty() {
                topics.remove(topic);
                if kind == Kind::Pattern {
                    self.compiled.remove(topic);
                }
            }
        }
    }
}
