//! Channels: who listens to what, and the way of a message from its sender to them.
//!
//! A message is looked up once under one lock, and handed under it to the event loops of those who
//! listen: everybody sees the messages of all senders in one order. A loop appends it to the
//! replies of its connections, or keeps it until the requests under way are answered.

use crate::budget::{Budget, Claim, Share};
use crate::clients::{Client, Clients};
use crate::front::Front;
use crate::glob::Pattern;
use crate::push::{DELIVERY_BYTES, Delivery, Kind, Owner, Published, Push};
use silica_proto::Reply;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Channels and patterns that one connection listens to at most.
const TOPICS_MAX: usize = 10_000;

/// Bytes of a compiled pattern for each of the pattern.
const COMPILED: usize = 14;
/// Memory of a channel's or pattern's entries beside its names: nodes of their own.
const TOPIC_BYTES: usize = 1024;

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
        let owner = client.owner();
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
    pub(crate) fn keep_shards(
        &self,
        clients: &Clients,
        front: &dyn Front,
        is_here: impl Fn(&[u8]) -> bool,
    ) {
        let listeners = |inner: &Inner| -> Vec<(Vec<u8>, Vec<u64>)> {
            let gone = inner.shards.iter().filter(|(channel, _)| !is_here(channel));
            gone.map(|(channel, all)| (channel.clone(), all.keys().copied().collect())).collect()
        };
        let gone = listeners(&self.lock());
        for (channel, listeners) in gone {
            for client in listeners.into_iter().filter_map(|client| clients.get(client)) {
                let left = self.remove(&client, Kind::Shard, &channel);
                let to = client.owner();
                let published = Published(Push::Left { channel: channel.clone(), left });
                let deliveries = vec![Delivery { to, pattern: None }];
                front.publish(client.loop_index, Arc::new(published), deliveries);
            }
        }
    }

    /// Sends a message to all who listen; how many they are (one that listens twice counts twice),
    /// or why there is no memory for it.
    pub(crate) fn publish(
        &self,
        front: &dyn Front,
        budget: &Arc<Budget>,
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
        let share = Share::new(budget);
        // Each listener gets a copy, which its connection counts once it is there.
        share.grow((1 + deliveries) * (channel.len() + payload.len() + DELIVERY_BYTES))?;
        let (channel, payload) = (channel.to_vec(), payload.to_vec());
        let published = Arc::new(Published(Push::Message { kind, channel, payload, share }));
        let mut count = 0;
        for (loop_index, deliveries) in by_loop {
            count += deliveries.len();
            front.publish(loop_index, Arc::clone(&published), deliveries);
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
