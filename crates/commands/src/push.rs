//! What connections are told without having asked: messages of channels, keys that were written,
//! requests that are monitored.
//!
//! Who is told is decided in `topics`, `tracking` and `resp::monitors`; event loops write what is
//! here as their connections speak.

use crate::budget::Share;
use silica_proto::{Reply, Version};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Memory of a message for one listener beside its channel and payload.
pub(crate) const DELIVERY_BYTES: usize = 128;

/// A connection as its event loop finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// Its place among the loop's connections.
    pub slot: usize,
    /// Its number, which is never used twice.
    pub client: u64,
}

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

    pub(crate) fn of_mut(&mut self, kind: Kind) -> &mut BTreeSet<Vec<u8>> {
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
