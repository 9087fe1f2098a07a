//! What replicas are told of entries that a consumer is given: as in Redis, what each became.

use super::Objects;
use silica_types::{Group, StreamId};

/// Changes of what a group has pending, as commands.
pub(super) struct Told {
    key: Vec<u8>,
    group: Vec<u8>,
    consumer: Vec<u8>,
    commands: Vec<Vec<Vec<u8>>>,
}

impl Told {
    /// Nothing yet, of `consumer` of `group` of the stream at `key`.
    pub(super) fn of(names: [&[u8]; 3]) -> Self {
        let [key, group, consumer] = names.map(<[u8]>::to_vec);
        Told { key, group, consumer, commands: Vec::new() }
    }

    fn push(&mut self, args: &[&[u8]]) {
        self.commands.push(args.iter().map(|arg| arg.to_vec()).collect());
    }

    /// The consumer has an entry pending, as of `delivered_ms`, for the `count`th time; the group
    /// has read up to `last`.
    pub(super) fn claimed(
        &mut self,
        (id, last): (StreamId, StreamId),
        delivered_ms: u64,
        count: u64,
    ) {
        let [id, last] = [id, last].map(|id| id.to_string());
        let [time, count] = [delivered_ms, count].map(|number| number.to_string());
        let names = [&self.key, &self.group, &self.consumer].map(Vec::clone);
        let [key, group, consumer] = names.each_ref().map(|name| &name[..]);
        self.push(&[
            b"XCLAIM",
            key,
            group,
            consumer,
            b"0",
            id.as_bytes(),
            b"TIME",
            time.as_bytes(),
            b"RETRYCOUNT",
            count.as_bytes(),
            b"FORCE",
            b"JUSTID",
            b"LASTID",
            last.as_bytes(),
        ]);
    }

    /// An entry is pending no more.
    pub(super) fn removed(&mut self, id: StreamId) {
        let (key, group, id) = (self.key.clone(), self.group.clone(), id.to_string());
        self.push(&[b"XACK", &key, &group, id.as_bytes()]);
    }

    /// Where the group has come to.
    pub(super) fn position(&mut self, state: &Group) {
        let (key, group) = (self.key.clone(), self.group.clone());
        let last = state.last_id.to_string();
        let read = state.entries_read.map_or("-1".into(), |read| read.to_string());
        let args: [&[u8]; 7] =
            [b"XGROUP", b"SETID", &key, &group, last.as_bytes(), b"ENTRIESREAD", read.as_bytes()];
        self.push(&args);
    }

    /// Tells all of it, if the consumer was made (`is_new`) that first.
    pub(super) fn tell(self, objects: &mut Objects<'_>, is_new: bool) {
        objects.tell_nothing();
        if is_new {
            let Told { key, group, consumer, .. } = &self;
            objects.tell(&[b"XGROUP", b"CREATECONSUMER", key, group, consumer]);
        }
        for command in &self.commands {
            let args: Vec<&[u8]> = command.iter().map(|arg| &arg[..]).collect();
            objects.tell(&args);
        }
    }
}
