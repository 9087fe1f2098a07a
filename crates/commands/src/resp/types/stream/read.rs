//! XREAD and XREADGROUP.

use super::told::Told;
use super::{
    Change, Done, Failure, Objects, TypeCommand, ids, integer, integer_or, seen_consumer,
    write_entry, write_id,
};
use crate::burst::Args;
use crate::resp::SYNTAX;
use crate::resp::events::Classes;
use crate::resp::types::objects::Opened;
use crate::waiters::{Vain, Wait};
use silica_proto::{Reply, Version};
use silica_types::{Consumer, Direction, Group, Kind, Pending, Stream, StreamId};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) static XREAD: TypeCommand = TypeCommand::read(xread).with_key_at(0);
pub(crate) static XREADGROUP: TypeCommand = TypeCommand::write(xreadgroup).with_key_at(0);

fn xread(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    read(objects, args, reply, false)
}

fn xreadgroup(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    read(objects, args, reply, true)
}

/// What is read of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    /// Entries behind an id; of a group, those among them that the consumer has pending.
    Behind(StreamId),
    /// Entries that no consumer of the group was given: `>`.
    New,
}

/// The arguments before the keys, and where these are.
struct Options<'a> {
    /// Entries of each stream at most.
    count: u64,
    /// How long it waits, in milliseconds; 0 for any time.
    block_ms: Option<u64>,
    needs_no_ack: bool,
    /// The group's name and the consumer's.
    group: Option<(&'a [u8], &'a [u8])>,
    keys_at: usize,
    streams: usize,
}

impl<'a> Options<'a> {
    fn read(args: Args<'a>, is_group: bool) -> Done<Self> {
        let mut options = Options {
            count: u64::MAX,
            block_ms: None,
            needs_no_ack: false,
            group: None,
            keys_at: 0,
            streams: 0,
        };
        let only_group = |option: &str| {
            Failure::reply(format!(
                "ERR The {option} option is only supported by XREADGROUP. You called XREAD instead."
            ))
        };
        let mut at = 1;
        while at < args.len() {
            let more = args.len() - at - 1;
            if more >= 1 && args.is(at, "block") {
                at += 1;
                options.block_ms = Some(timeout(args.get(at))?);
            } else if more >= 1 && args.is(at, "count") {
                at += 1;
                let count = u64::try_from(integer(args.get(at))?).unwrap_or(0);
                options.count = if count == 0 { u64::MAX } else { count };
            } else if more >= 1 && args.is(at, "streams") {
                options.take_streams(args, at + 1, is_group)?;
                break;
            } else if more >= 2 && args.is(at, "group") {
                if !is_group {
                    return Err(only_group("GROUP"));
                }
                options.group = Some((args.get(at + 1), args.get(at + 2)));
                at += 2;
            } else if args.is(at, "noack") {
                if !is_group {
                    return Err(only_group("NOACK"));
                }
                options.needs_no_ack = true;
            } else {
                return Err(Failure::reply(SYNTAX));
            }
            at += 1;
        }
        if options.keys_at == 0 {
            return Err(Failure::reply(SYNTAX));
        }
        if is_group && options.group.is_none() {
            return Err(Failure::reply("ERR Missing GROUP option for XREADGROUP"));
        }
        Ok(options)
    }

    fn take_streams(&mut self, args: Args<'_>, keys_at: usize, is_group: bool) -> Done {
        let rest = args.len() - keys_at;
        if rest % 2 == 1 {
            let (name, id) = if is_group { ("XREADGROUP", '>') } else { ("XREAD", '$') };
            return Err(Failure::reply(format!(
                "ERR Unbalanced {name} list of streams: for each stream key an ID or '{id}' must \
                 be specified."
            )));
        }
        (self.keys_at, self.streams) = (keys_at, rest / 2);
        Ok(())
    }
}

/// A timeout in milliseconds.
fn timeout(text: &[u8]) -> Done<u64> {
    let ms = integer_or(text, "ERR timeout is not an integer or out of range")?;
    u64::try_from(ms).map_err(|_| Failure::reply("ERR timeout is negative"))
}

/// The streams of a request, each opened once.
#[derive(Default)]
struct Streams<'a>(BTreeMap<&'a [u8], (Option<Opened>, Change)>);

impl<'a> Streams<'a> {
    /// What there is at `key`. For a request that has waited, another type is as good as nothing.
    fn open(
        &mut self,
        objects: &mut Objects<'_>,
        key: &'a [u8],
        has_waited: bool,
    ) -> Done<&mut Option<Opened>> {
        if !self.0.contains_key(key) {
            let opened = match objects.open(key, Kind::Stream) {
                Err(Failure::Reply(_)) if has_waited => None,
                opened => opened?,
            };
            self.0.insert(key, (opened, Change::None));
        }
        Ok(&mut self.0.get_mut(key).expect("it was opened").0)
    }

    /// Gives all of them back.
    fn close(self, objects: &mut Objects<'_>) -> Done {
        for (opened, change) in self.0.into_values() {
            if let Some(opened) = opened {
                change.give_back(objects, opened)?;
            }
        }
        Ok(())
    }
}

/// What the request asks of each stream: checks it, in Redis's order. What a request that waits has
/// found out takes the place of its ids: `$` is the last one of its first run.
fn wanted<'a>(
    objects: &mut Objects<'_>,
    args: Args<'a>,
    options: &Options<'a>,
    streams: &mut Streams<'a>,
) -> Done<Vec<(&'a [u8], From)>> {
    let resolved = Arc::clone(&objects.resolved);
    let has_waited = !resolved.is_empty();
    let mut all = Vec::with_capacity(options.streams);
    for nth in 0..options.streams {
        let key = args.get(options.keys_at + nth);
        let opened = streams.open(objects, key, has_waited)?;
        let mut last_id = StreamId::MIN;
        let mut found = None;
        let is_there = opened.is_some();
        if let Some(opened) = opened {
            let mut stream = Stream::of(&mut opened.object, objects.pages())?;
            last_id = stream.info().last_id;
            found = options.group.map(|(name, _)| stream.group(name)).transpose()?.flatten();
        }
        if let Some((group, _)) = options.group
            && found.is_none()
        {
            return Err(match (has_waited, is_there) {
                (false, _) => no_group(key, group),
                (true, false) => Failure::reply("UNBLOCKED the stream key no longer exists"),
                (true, true) => Failure::reply(
                    "NOGROUP the consumer group this client was blocked on no longer exists",
                ),
            });
        }
        let from = args.get(options.keys_at + options.streams + nth);
        let from = resolved.get(nth).filter(|_| options.group.is_none()).map_or(from, |id| id);
        all.push((key, From::parse(from, options.group.is_some(), last_id)?));
    }
    Ok(all)
}

fn no_group(key: &[u8], group: &[u8]) -> Failure {
    let [key, group] = [key, group].map(String::from_utf8_lossy);
    Failure::reply(format!(
        "NOGROUP No such key '{key}' or consumer group '{group}' in XREADGROUP with GROUP option"
    ))
}

impl From {
    /// What `text` means for a stream whose last id is `last_id`.
    fn parse(text: &[u8], is_group: bool, last_id: StreamId) -> Done<From> {
        match text {
            b"$" if is_group => Err(Failure::reply(
                "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the \
                 history of this consumer by specifying a proper ID, or use the > ID to get new \
                 messages. The $ ID would just return an empty result set.",
            )),
            b"$" => Ok(From::Behind(last_id)),
            b">" if is_group => Ok(From::New),
            b">" => Err(Failure::reply(
                "ERR The > ID can be specified only when calling XREADGROUP using the GROUP \
                 <group> <consumer> option.",
            )),
            id => match ids::strict(id)? {
                StreamId::MAX if is_group => Ok(From::New),
                id => Ok(From::Behind(id)),
            },
        }
    }
}

fn read(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>, is_group: bool) -> Done {
    let options = Options::read(args, is_group)?;
    let mut streams = Streams::default();
    let wanted = match wanted(objects, args, &options, &mut streams) {
        Ok(wanted) => wanted,
        Err(failure) => {
            streams.close(objects)?;
            return Err(failure);
        }
    };
    let start = reply.buffered();
    let mut served = 0;
    for (key, from) in &wanted {
        let Some((Some(opened), change)) = streams.0.get_mut(key) else { continue };
        let now_ms = objects.now_ms;
        let mut stream = Stream::of(&mut opened.object, objects.pages())?;
        let group = options.group.unwrap_or_default();
        let told = Told::of([key, group.0, group.1]);
        let mut turn = Turn { stream: &mut stream, key, options: &options, now_ms, told };
        let (is_served, becomes) = match options.group {
            None => (turn.read(*from, reply)?, Become::Same),
            Some(names) => turn.read_as(names, *from, reply)?,
        };
        let told = turn.told;
        if options.group.is_some() {
            told.tell(objects, becomes == Become::Joined);
        }
        served += usize::from(is_served);
        if becomes != Become::Same {
            *change = Change::Aside;
        }
        if becomes == Become::Joined {
            objects.event(Classes::STREAM, "xgroup-createconsumer", key);
        }
    }
    streams.close(objects)?;
    if served > 0 {
        put_length_before(reply, start, served);
        return Ok(());
    }
    let Some(timeout_ms) = options.block_ms else {
        reply.null_array();
        return Ok(());
    };
    Err(Failure::Wait(wait(timeout_ms, &wanted, options.group)))
}

/// What a request that finds nothing waits for. Readers of one group take entries away from each
/// other, and are told from those of other groups by what they have resolved.
fn wait(timeout_ms: u64, wanted: &[(&[u8], From)], group: Option<(&[u8], &[u8])>) -> Wait {
    let id = |(_, from): &(&[u8], From)| match from {
        From::Behind(id) => id.to_string().into_bytes(),
        From::New => b">".to_vec(),
    };
    Wait {
        timeout_ms,
        keys: wanted.iter().map(|(key, _)| Box::from(*key)).collect(),
        vain: Vain::Array,
        shares: group.is_none(),
        resolved: match group {
            None => wanted.iter().map(id).collect(),
            Some((name, _)) => vec![name.to_vec()],
        },
    }
}

/// What a reader of a group has made of its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Become {
    Same,
    Changed,
    /// It has made its consumer.
    Joined,
}

/// Puts the start of a map, or of an array of pairs, before what was written from `start` on.
fn put_length_before(reply: &mut Reply<'_>, start: usize, len: usize) {
    let mut head = Vec::new();
    let mut written = Reply::new(&mut head, reply.version());
    match written.version() {
        Version::Resp2 => written.array(len),
        Version::Resp3 => written.map(len),
    }
    reply.raw().splice(start..start, head);
}

/// One stream of a request.
struct Turn<'t, 's> {
    stream: &'t mut Stream<'s>,
    key: &'t [u8],
    options: &'t Options<'t>,
    now_ms: u64,
    told: Told,
}

impl Turn<'_, '_> {
    /// Begins the answer about the stream.
    fn begin(&self, reply: &mut Reply<'_>) {
        if reply.version() == Version::Resp2 {
            reply.array(2);
        }
        reply.bulk(self.key);
    }

    /// Reads entries without a group; false if there are none.
    fn read(&mut self, from: From, reply: &mut Reply<'_>) -> Done<bool> {
        let From::Behind(id) = from else { return Ok(false) };
        let Some(next) = id.next() else { return Ok(false) };
        let rank = self.stream.rank(next)?;
        let len = (self.stream.len() - rank).min(self.options.count);
        if len == 0 {
            return Ok(false);
        }
        self.begin(reply);
        reply.array(len as usize);
        let mut write = |id, fields: silica_types::Fields<'_>| write_entry(reply, id, fields);
        self.stream.scan(rank, Direction::Forward, len, &mut write)?;
        Ok(true)
    }

    /// Reads entries as a consumer; false if that is not answered at once.
    fn read_as(
        &mut self,
        names: (&[u8], &[u8]),
        from: From,
        reply: &mut Reply<'_>,
    ) -> Done<(bool, Become)> {
        let missing = || no_group(self.key, names.0);
        let mut group = self.stream.group(names.0)?.ok_or_else(missing)?;
        let has_new = self.stream.final_id()?.is_some_and(|id| id > group.last_id);
        let is_served = has_new || from != From::New;
        if !is_served {
            return Ok((false, Become::Same));
        }
        let (mut consumer, is_new) = seen_consumer(self.stream, &group, names.1, self.now_ms)?;
        let becomes = if is_new { Become::Joined } else { Become::Changed };
        self.begin(reply);
        if let From::Behind(id) = from {
            self.read_history(&group, &consumer, id, reply)?;
        } else if self.read_new((names.0, &mut group), &consumer, reply)? > 0 {
            consumer.active_ms = self.now_ms;
            self.stream.put_consumer(&group, names.1, &consumer)?;
        }
        Ok((true, becomes))
    }

    /// Answers with what `consumer` has pending behind `id`.
    fn read_history(
        &mut self,
        group: &Group,
        consumer: &Consumer,
        id: StreamId,
        reply: &mut Reply<'_>,
    ) -> Done {
        let max = usize::try_from(self.options.count).unwrap_or(usize::MAX);
        let ids = match id.next() {
            Some(next) => self.stream.owned(group, consumer, next, max)?,
            None => Vec::new(),
        };
        reply.array(ids.len());
        for id in ids {
            let mut write = |fields: silica_types::Fields<'_>| write_entry(reply, id, fields);
            if self.stream.with_entry(id, &mut write)? {
                let count = self.stream.pending(group, id)?.map_or(0, |pending| pending.count);
                let again = Pending::of(consumer, self.now_ms, count.saturating_add(1));
                self.stream.put_pending(group, id, again)?;
                let both = (id, group.last_id);
                self.told.claimed(both, self.now_ms, count.saturating_add(1));
            } else {
                reply.array(2);
                write_id(reply, id);
                reply.null_array();
            }
        }
        Ok(())
    }

    /// Answers with entries that no consumer was given; how many these are.
    fn read_new(
        &mut self,
        (name, group): (&[u8], &mut Group),
        consumer: &Consumer,
        reply: &mut Reply<'_>,
    ) -> Done<u64> {
        let rank = match group.last_id.next() {
            Some(next) => self.stream.rank(next)?,
            None => self.stream.len(),
        };
        let len = (self.stream.len() - rank).min(self.options.count);
        let mut given = Vec::new();
        reply.array(len as usize);
        self.stream.scan(rank, Direction::Forward, len, &mut |id, fields| {
            write_entry(reply, id, fields);
            given.push(id);
        })?;
        for id in given {
            self.stream.advance(group, id)?;
            if !self.options.needs_no_ack {
                let pending = Pending::of(consumer, self.now_ms, 1);
                self.stream.put_pending(group, id, pending)?;
                self.told.claimed((id, group.last_id), self.now_ms, 1);
            }
        }
        if len > 0 {
            self.told.position(group);
        }
        self.stream.put_group(name, group)?;
        Ok(len)
    }
}
