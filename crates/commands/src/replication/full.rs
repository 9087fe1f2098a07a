//! Full synchronisation: all data of one moment, while writes go on.
//!
//! A thread takes snapshots of all databases at one moment, and the offset of the stream there. It
//! writes an RDB file of them as fast as the replica takes it; for a replica that is Silica, too,
//! blocks of the entries as they are, without the ranges that it has already. Databases without
//! snapshots (a cache in memory, hashed stores) are not in the file. When the replica has loaded
//! it, their keys are put into the stream, each while nobody writes it: absolute, so it may come
//! twice. Who wants a file and no stream (`redis-cli --rdb`) has them in the file, each key once.

use super::blocks::{BlockWriter, Ranges};
use super::feed::Gone;
use super::records::{CAPABILITY, FILE};
use super::restate::Walking;
use super::{Effects, Feed, Mask, Phase, Wanted, walk};
use crate::budget::{Claim, out_of_memory};
use crate::service::Service;
use silica::engine::{Engine, Error, ErrorKind, Result, Snapshot};
use silica_base::HashSeed;
use silica_proto::rdb::FileWriter;
use silica_types::is_inner;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Bytes of the file that are handed over at once.
const PIECE_BYTES: usize = 64 << 10;
/// Keys that are put into the stream while their stripes are held.
const KEYS: usize = 64;
/// Bytes of the stream that a replica may be behind while keys are put into it.
const BEHIND_BYTES: u64 = 1 << 20;
/// Memory of a key that was met.
const MET_BYTES: usize = 40;
const REST: Duration = Duration::from_millis(5);

/// What all data was at one moment.
struct Moment<'s> {
    id: String,
    offset: u64,
    selected: Option<u8>,
    snapshots: Vec<(u8, Arc<dyn Snapshot>)>,
    /// The places of databases without snapshots: SWAPDB changes their numbers.
    others: Vec<usize>,
    functions: Vec<Vec<u8>>,
    /// What is written meanwhile is told so that replicas without these keys can apply it; `None`
    /// if nobody is told.
    walking: Option<Walking<'s>>,
}

/// Begins to send all data to a replica.
pub(crate) fn begin(service: &Arc<Service>, feed: &Arc<Feed>) -> std::result::Result<(), String> {
    let (own, sent) = (Arc::clone(service), Arc::clone(feed));
    let thread = std::thread::Builder::new().name("silica-sync".into());
    let spawned = thread.spawn(move || {
        if let Err(error) = run(&own, &sent) {
            log::warn!("replica {}: {error}", sent.client.peer);
            sent.fail();
            own.front.close(sent.client.loop_index, owner(&sent));
        }
    });
    let thread = spawned.map_err(|error| format!("ERR starting a thread: {error}"))?;
    let replication = &service.replication;
    let mut threads = replication.threads.lock().unwrap_or_else(PoisonError::into_inner);
    threads.retain(|thread| !thread.is_finished());
    threads.push(thread);
    replication.syncs[0].fetch_add(1, Relaxed);
    Ok(())
}

/// Begins to look when keys expire that this server has got from a primary: nobody has told it to
/// the list of what replicas are to remove.
pub(crate) fn note_times(service: &Arc<Service>) {
    let own = Arc::clone(service);
    let spawned = std::thread::Builder::new().name("silica-times".into()).spawn(move || {
        if let Err(error) = (0..own.databases.count()).try_for_each(|db| note_times_of(&own, db)) {
            log::warn!("replicas keep some keys that have expired: {error}");
        }
    });
    let mut threads = service.replication.threads.lock().unwrap_or_else(PoisonError::into_inner);
    threads.retain(|thread| !thread.is_finished());
    match spawned {
        Ok(thread) => threads.push(thread),
        Err(error) => log::warn!("replicas keep some keys that have expired: {error}"),
    }
}

/// Notes when the keys of the database in a place expire, under the number that it has then.
fn note_times_of(service: &Service, place: usize) -> Result<()> {
    let Some(engine) = service.databases.at_place(place) else { return Ok(()) };
    let Some(scan) = engine.as_scan() else { return Ok(()) };
    let (turn, mut next) = (service.databases.new_turn(), Some(0));
    while let Some(cursor) = next {
        service.refuse_when_stopping()?;
        let mut found: Vec<(Vec<u8>, u64)> = Vec::new();
        next = scan.scan(cursor, KEYS, &mut |key, entry| {
            if entry.expires_unix_ms != 0 && !is_inner(key) {
                found.push((key.to_vec(), entry.expires_unix_ms));
            }
        })?;
        let _entered = service.databases.enter(&turn);
        let db = service.databases.number_of(place) as u8;
        found.iter().for_each(|(key, at)| service.replication.timers.note_at(db, key, *at));
    }
    Ok(())
}

fn owner(feed: &Feed) -> crate::push::Owner {
    feed.client.owner()
}

/// Takes the snapshots. From here on all that is written is in the stream.
fn moment<'s>(service: &'s Service, feed: &Feed) -> Result<Moment<'s>> {
    let databases = &service.databases;
    for db in (0..databases.count()).filter(|db| databases.may_hold(*db)) {
        databases.engine(db)?;
    }
    databases.alone(|| {
        let replication = &service.replication;
        let follows = feed.wanted() == Wanted::Stream;
        if follows {
            replication.keep();
            if !replication.is_replica() && !replication.tells.swap(true, Relaxed) {
                log::info!("replication begins");
            }
            replication.tells.store(true, Relaxed);
            replication.left_ms.store(0, Relaxed);
        }
        let (history, offset) = replication.position();
        let mut selected = None;
        if follows {
            selected = replication.begin_here(feed);
            feed.set_offset(offset);
        }
        let (mut snapshots, mut others, mut walked) = (Vec::new(), Vec::new(), Vec::new());
        for db in 0..databases.count() {
            let Some(engine) = databases.whole(db) else { continue };
            match Arc::clone(engine).as_ordered() {
                Some(ordered) => snapshots.push((db as u8, ordered.snapshot()?)),
                None => {
                    others.push(databases.place_of(db));
                    walked.push(db as u8);
                }
            }
        }
        let functions = service.libraries.list().iter().map(|one| one.text.to_vec()).collect();
        let walking = follows.then(|| replication.begin_walk(&walked));
        let id = history.id;
        Ok(Moment { id, offset, selected, snapshots, others, functions, walking })
    })
}

fn gone(_: Gone) -> Error {
    Error::new(ErrorKind::Closed, "its connection has ended while it was sent all data")
}

fn run(service: &Service, feed: &Feed) -> Result<()> {
    let moment = moment(service, feed)?;
    log::info!("replica {}: all data as of offset {}", feed.client.peer, moment.offset);
    let claim = Claim::new(&service.budget);
    match feed.take_summary() {
        Some(summary) => send_blocks(service, feed, &moment, summary)?,
        None => send_file(service, feed, &moment, &claim)?,
    }
    feed.end_sync();
    log::info!("replica {}: all data is sent", feed.client.peer);
    let Moment { offset, others, walking, .. } = moment;
    if walking.is_none() {
        // Its loop ends it.
        service.wake_replicas();
        return Ok(());
    }
    if service.replication.is_replica() {
        // They are in the stream of our primary, which has the same gap.
        return Ok(());
    }
    let put =
        others.into_iter().try_for_each(|place| put_into_stream(service, feed, place, &claim));
    if put.is_err() {
        // It has a position, and would go on without them.
        service.replication.note_half_told(offset);
    }
    drop(walking);
    put
}

/// Hands over bytes of all data.
fn send(service: &Service, feed: &Feed, bytes: &[u8]) -> Result<()> {
    let sent = feed.send(bytes, &mut || !service.is_stopping()).map_err(gone);
    service.wake_replicas();
    sent
}

/// Hands over what `out` has, and empties it.
fn send_all(service: &Service, feed: &Feed, out: &mut Vec<u8>) -> Result<()> {
    out.chunks(PIECE_BYTES).try_for_each(|piece| send(service, feed, piece))?;
    out.clear();
    out.shrink_to(2 * PIECE_BYTES);
    Ok(())
}

/// Sends all data as an RDB file.
fn send_file(service: &Service, feed: &Feed, moment: &Moment<'_>, claim: &Claim) -> Result<()> {
    let Moment { id, offset, selected, snapshots, functions, .. } = moment;
    let mut mark = String::new();
    while mark.len() < 40 {
        mark.push_str(&format!("{:016x}", service.random()));
    }
    mark.truncate(40);
    let has_records = feed.takes_records()
        && feed.wanted() == Wanted::Stream
        && service.replication.settings.has_records.load(Relaxed);
    let position = match feed.is_bare() {
        true => String::new(),
        false if has_records => format!("+FULLRESYNC {id} {offset} {FILE}\r\n"),
        false => format!("+FULLRESYNC {id} {offset}\r\n"),
    };
    send(service, feed, format!("{position}$EOF:{mark}\r\n").as_bytes())?;
    let mut out = Vec::new();
    let mut writer = FileWriter::begin(&mut out);
    // What the stream goes on with, if that is not told there again.
    let selected = selected.unwrap_or(0).to_string();
    writer.field(b"repl-stream-db", selected.as_bytes(), &mut out);
    functions.iter().for_each(|text| writer.function(text, &mut out));
    let wanted = feed.wanted();
    for (db, snapshot) in snapshots.iter().filter(|_| wanted != Wanted::Functions) {
        let db = *db;
        let mut expires = |key: &[u8], at| {
            if wanted == Wanted::Stream {
                service.replication.timers.note_at(db, key, at);
            }
        };
        walk::write_all(snapshot, db, (&mut writer, claim), &mut expires, &mut |more| {
            out.append(more);
            match out.len() >= PIECE_BYTES {
                true => send_all(service, feed, &mut out),
                false => Ok(()),
            }
        })?;
    }
    if wanted == Wanted::File {
        for place in &moment.others {
            write_place(service, feed, *place, (&mut writer, claim), &mut out)?;
        }
    }
    writer.end(&mut out);
    out.extend_from_slice(mark.as_bytes());
    send_all(service, feed, &mut out)
}

/// What is done with some keys of a database, which has a number.
type TakeKeys<'t> = &'t mut dyn FnMut(&dyn Engine, u8, &[Vec<u8>]) -> Result<()>;

/// Calls `take` with the keys of the database in a place that a walk finds at `cursor`, while
/// nobody writes them, and with the number that the database has then. Where the walk goes on;
/// `None` at its end.
fn step(
    service: &Service,
    (place, cursor): (usize, u64),
    take: TakeKeys<'_>,
) -> Result<Option<u64>> {
    let Some(engine) = service.databases.at_place(place) else { return Ok(None) };
    let scan = engine.as_scan().ok_or_else(|| {
        let name = engine.descriptor().name;
        Error::new(ErrorKind::Unsupported, format!("engine '{name}' cannot list its keys"))
    })?;
    let mut keys: Vec<Vec<u8>> = Vec::new();
    let next = scan.scan(cursor, KEYS, &mut |key, _| {
        if !is_inner(key) {
            keys.push(key.to_vec());
        }
    })?;
    let turn = service.databases.new_turn();
    let _entered = service.databases.enter(&turn);
    let db = service.databases.number_of(place) as u8;
    let mut mask = Mask::NONE;
    keys.iter().for_each(|key| mask.add(key));
    let _held = service.hold(mask);
    take(engine, db, &keys)?;
    Ok(next)
}

/// Writes all keys of the database in a place into the file, each once: a walk over a hashed store
/// may meet one twice.
fn write_place(
    service: &Service,
    feed: &Feed,
    place: usize,
    (writer, claim): (&mut FileWriter, &Claim),
    out: &mut Vec<u8>,
) -> Result<()> {
    let (seed, kept) = (service.random_seed(), Claim::new(&service.budget));
    let mut met: HashSet<u128> = HashSet::new();
    let mut next = Some(0);
    while let Some(cursor) = next {
        next = step(service, (place, cursor), &mut |engine, db, keys| {
            kept.keep(keys.len() * MET_BYTES).map_err(out_of_memory)?;
            for key in keys.iter().filter(|key| met.insert(seed.hash(key).0)) {
                walk::write_key(engine, (db, key), (writer, claim), service.unix_ms(), out)?;
            }
            Ok(())
        })?;
        if out.len() >= PIECE_BYTES || next.is_none() {
            send_all(service, feed, out)?;
        }
        service.refuse_when_stopping()?;
    }
    Ok(())
}

/// Sends all data as blocks, but for the ranges that the replica has.
fn send_blocks(
    service: &Service,
    feed: &Feed,
    moment: &Moment<'_>,
    (seed, has): (HashSeed, Ranges),
) -> Result<()> {
    let Moment { id, offset, selected, snapshots, functions, .. } = moment;
    let head = format!("+FULLRESYNC {id} {offset} {CAPABILITY}\r\n");
    send(service, feed, head.as_bytes())?;
    let (mut out, mut writer) = (Vec::new(), BlockWriter::default());
    writer.begin(selected.unwrap_or(0), &mut out);
    functions.iter().for_each(|text| writer.function(text, &mut out));
    let (mut same, mut all) = (0, 0);
    for (db, snapshot) in snapshots {
        let expires = &mut |key: &[u8], at| service.replication.timers.note_at(*db, key, at);
        walk::each_range(snapshot, (seed, !has.is_empty()), expires, &mut |range| {
            let hash = if has.is_empty() { None } else { Some(range.hash()) };
            all += 1;
            match hash.filter(|hash| has.has(*db, hash)) {
                Some(hash) => {
                    same += 1;
                    writer.same(*db, range, &hash, &mut out);
                }
                None => writer.entries(*db, range, &mut out),
            }
            match out.len() >= PIECE_BYTES {
                true => send_all(service, feed, &mut out),
                false => Ok(()),
            }
        })?;
    }
    writer.end(&mut out);
    log::info!("replica {}: it has {same} of {all} ranges already", feed.client.peer);
    send_all(service, feed, &mut out)
}

/// Puts all keys of the database in a place into the stream, under the number that it has then.
fn put_into_stream(service: &Service, feed: &Feed, place: usize, claim: &Claim) -> Result<()> {
    let mut next = Some(0);
    while let Some(cursor) = next {
        wait_until_read(service, feed)?;
        next = step(service, (place, cursor), &mut |engine, db, keys| {
            let mut effects = Effects::default();
            for key in keys {
                let now_ms = service.unix_ms();
                let at = walk::push_key((engine, None), (db, key), claim, now_ms, &mut effects)?;
                if at != 0 {
                    service.replication.timers.note_at(db, key, at);
                }
            }
            service.tell_as_is(&mut effects, false);
            Ok(())
        })?;
    }
    Ok(())
}

/// Waits until a replica has read most of the stream.
fn wait_until_read(service: &Service, feed: &Feed) -> Result<()> {
    loop {
        match feed.phase() {
            Phase::Online(at) if service.replication.offset() - at <= BEHIND_BYTES => return Ok(()),
            Phase::Failed => return Err(gone(Gone)),
            _ => {}
        }
        service.refuse_when_stopping()?;
        std::thread::sleep(REST);
    }
}
