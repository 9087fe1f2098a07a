//! What a server that is stopped in order says of its stream, for the server that is started next
//! on the same store. Format, and why it is never wrong: docs/formats/replication-file.md.

use super::{History, Replication, new_id};
use crate::marks;
use crate::service::Service;
use silica::engine::Result;
use silica_base::{Format, checksum, read_varint, write_varint};
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;

const FORMAT: Format = Format {
    name: "replication file",
    magic: b"SILICARP",
    version_bytes: 4,
    version: 1,
    steps: &[],
};
const ID_BYTES: usize = 40;
const CHECKSUM_BYTES: usize = 4;
const WAS_REPLICA: u8 = 1;
const HAS_SECOND: u8 = 2;
/// No database is selected.
const NONE_SELECTED: u8 = u8::MAX;

/// A key that expires: its database, its time in Unix milliseconds, and its name.
type Timed = (u8, u64, Vec<u8>);

/// Where a server stood in its stream when it was stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parting {
    pub(crate) was_replica: bool,
    pub(crate) history: History,
    pub(crate) offset: u64,
    /// The database that is selected at the end of the stream.
    pub(crate) selected: Option<u8>,
    pub(crate) records_end: u64,
    pub(crate) plain_end: u64,
    /// The newest bytes of the stream.
    pub(crate) backlog: Vec<u8>,
    /// Keys whose removal replicas are to be told.
    pub(crate) timers: Vec<Timed>,
}

/// Reads fields from the start of bytes on; `None` where they end early.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(head)
    }

    fn byte(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn varint(&mut self) -> Option<u64> {
        let (value, len) = read_varint(self.0)?;
        self.0 = &self.0[len..];
        Some(value)
    }

    fn sized(&mut self) -> Option<&'a [u8]> {
        let len = self.varint()?;
        self.take(usize::try_from(len).ok()?)
    }

    fn id(&mut self) -> Option<String> {
        let id = std::str::from_utf8(self.take(ID_BYTES)?).ok()?;
        id.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| id.to_string())
    }
}

impl Parting {
    /// The bytes of the file.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let second = &self.history.second;
        let mut out = Vec::with_capacity(self.backlog.len() + 256);
        FORMAT.begin(&mut out);
        out.push(flag(self.was_replica, WAS_REPLICA) | flag(second.is_some(), HAS_SECOND));
        out.push(self.selected.unwrap_or(NONE_SELECTED));
        out.extend_from_slice(self.history.id.as_bytes());
        if let Some((id, until)) = second {
            out.extend_from_slice(id.as_bytes());
            out.extend_from_slice(&until.to_le_bytes());
        }
        for number in [self.offset, self.records_end, self.plain_end] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        write_varint(&mut out, self.backlog.len() as u64);
        out.extend_from_slice(&self.backlog);
        write_varint(&mut out, self.timers.len() as u64);
        for (db, at, key) in &self.timers {
            out.push(*db);
            write_varint(&mut out, *at);
            write_varint(&mut out, key.len() as u64);
            out.extend_from_slice(key);
        }
        let sum = checksum(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        out
    }

    /// What the bytes of a file say; `None` if they are damaged, or of another version.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Parting> {
        let (body, sum) = bytes.split_at_checked(bytes.len().checked_sub(CHECKSUM_BYTES)?)?;
        if checksum(body).to_le_bytes() != sum || FORMAT.version_of("", 0, body).is_err() {
            return None;
        }
        let mut fields = Fields(&body[FORMAT.prefix_bytes()..]);
        let flags = fields.byte().filter(|flags| flags & !(WAS_REPLICA | HAS_SECOND) == 0)?;
        let selected = Some(fields.byte()?).filter(|db| *db != NONE_SELECTED);
        let id = fields.id()?;
        let second = match flags & HAS_SECOND != 0 {
            true => Some((fields.id()?, fields.u64()?)),
            false => None,
        };
        let (offset, records_end, plain_end) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let backlog = fields.sized()?.to_vec();
        let count = fields.varint()?;
        let timed = |fields: &mut Fields<'_>| -> Option<Timed> {
            Some((fields.byte()?, fields.varint()?, fields.sized()?.to_vec()))
        };
        let timers = (0..count).map(|_| timed(&mut fields)).collect::<Option<Vec<Timed>>>()?;
        if !fields.0.is_empty() || backlog.len() as u64 > offset {
            return None;
        }
        Some(Parting {
            was_replica: flags & WAS_REPLICA != 0,
            history: History { id, second },
            offset,
            selected,
            records_end,
            plain_end,
            backlog,
            timers,
        })
    }
}

impl Replication {
    /// Where the stream stands; `None` if it is not kept, or a replica may have less than its
    /// offset says.
    pub(super) fn parting(&self) -> Option<Parting> {
        if self.is_failing_over() || self.is_walked.load(Relaxed) {
            return None;
        }
        let timers = self.timers.all();
        let state = self.state();
        let tells = self.is_replica() || self.tells.load(Relaxed);
        if !tells || !state.stream.is_kept() || state.half_told.is_some() {
            return None;
        }
        Some(Parting {
            was_replica: self.is_replica(),
            history: state.history.clone(),
            offset: state.stream.end(),
            selected: state.selected,
            records_end: state.records_end,
            plain_end: state.plain_end,
            backlog: state.stream.read(state.stream.start(), usize::MAX)?,
            timers,
        })
    }

    /// Goes on where `parting` stands: as a primary under a new id, whose second id is the old one;
    /// as a replica in the history itself. Nobody is served yet.
    pub(crate) fn go_on_from(&self, parting: Parting, now_ms: u64) {
        let Parting { history, offset, backlog, .. } = parting;
        let id = new_id(&mut self.random.lock().unwrap_or_else(PoisonError::into_inner));
        let mut state = self.state();
        state.stream.restart(offset - backlog.len() as u64);
        state.stream.keep();
        state.stream.append(&backlog);
        (state.records_end, state.plain_end) = (parting.records_end, parting.plain_end);
        if self.is_replica() {
            (state.history, state.selected) = (history, parting.selected);
        } else {
            state.history = History { id, second: Some((history.id, offset)) };
            // Whoever continues here need not know what was selected.
            state.selected = None;
            // What is written from now on is what those lack who come back.
            self.tells.store(true, Relaxed);
            self.left_ms.store(now_ms.max(1), Relaxed);
        }
        self.trim(&mut state);
        drop(state);
        for (db, at, key) in parting.timers {
            self.timers.note_at(db, &key, at);
        }
    }
}

impl Service {
    /// Leaves what the next server on the same store needs to go on in the stream, if it can, and
    /// the map of the cluster.
    /// Called when no thread serves anybody any more, and none follows a primary; nothing may be
    /// written afterwards.
    ///
    /// # Errors
    /// Those of syncing the databases and of writing the file: then the next server begins anew.
    pub fn leave_position(&self) -> Result<()> {
        if let Some(cluster) = &self.cluster {
            cluster.save_late(u64::MAX);
        }
        let Some(parting) = self.replication.parting() else { return Ok(()) };
        if !self.libraries.list().is_empty() || !self.keeps_all()? {
            return Ok(());
        }
        if parting.was_replica && !self.renew_marks(&parting)? {
            return Ok(());
        }
        if self.databases.leave_replication_state(&parting.encode())? {
            let (offset, bytes) = (parting.offset, parting.backlog.len());
            log::info!("the stream of replication ends at {offset}; {bytes} bytes of it are kept");
        }
        Ok(())
    }

    /// Lets the marks of a replica say where its stream ends: behind the last write may be requests
    /// that write nothing, and the history may have another id since. False if the data has no
    /// position.
    fn renew_marks(&self, parting: &Parting) -> Result<bool> {
        let Parting { history, offset, .. } = parting;
        let is_ours = |mark: &marks::Mark| {
            let second = history.second.as_ref().map(|(id, _)| id);
            mark.offset <= *offset && (mark.id == history.id || Some(&mark.id) == second)
        };
        let mark = marks::read(&self.databases.held()?)?.filter(is_ours);
        let Some(mark) = mark else { return Ok(false) };
        let newest = marks::Mark { id: history.id.clone(), offset: *offset, ..mark };
        let databases = &self.databases;
        let mut opened = (0..databases.count()).filter_map(|db| databases.opened(db));
        opened.try_for_each(|engine| newest.put(engine))?;
        self.sync_databases()
    }

    /// Makes what the databases hold durable; false if one of them cannot, or drops entries by
    /// itself.
    fn keeps_all(&self) -> Result<bool> {
        let databases = &self.databases;
        let mut opened = (0..databases.count()).filter_map(|db| databases.opened(db));
        Ok(!opened.any(|engine| engine.descriptor().capabilities.may_evict)
            && self.sync_databases()?)
    }

    /// What the server before this one has left on the same store.
    pub(crate) fn take_parting(&self) -> Option<Parting> {
        let bytes = self.databases.take_replication_state()?;
        let parting = Parting::decode(&bytes);
        if parting.is_none() {
            log::warn!("the file of replication is damaged, or of another version: it is not used");
        }
        parting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parting() -> Parting {
        Parting {
            was_replica: true,
            history: History { id: "a".repeat(40), second: Some(("b".repeat(40), 7)) },
            offset: 1 << 40,
            selected: Some(3),
            records_end: 12,
            plain_end: 13,
            backlog: b"*1\r\n$4\r\nPING\r\n".to_vec(),
            timers: vec![(0, 5, b"k".to_vec()), (15, u64::MAX, Vec::new())],
        }
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let second = History { second: None, ..parting().history };
        let other = Parting {
            was_replica: false,
            selected: None,
            history: second,
            backlog: Vec::new(),
            timers: Vec::new(),
            ..parting()
        };
        for parting in [parting(), other] {
            let bytes = parting.encode();
            assert_eq!(Parting::decode(&bytes), Some(parting));
            for len in 0..bytes.len() {
                assert_eq!(Parting::decode(&bytes[..len]), None, "cut at {len}");
                let mut flipped = bytes.clone();
                flipped[len] ^= 1;
                assert_eq!(Parting::decode(&flipped), None, "damaged at {len}");
            }
            let mut newer = bytes[..bytes.len() - CHECKSUM_BYTES].to_vec();
            newer[FORMAT.magic.len()] = 2;
            let sum = checksum(&newer);
            newer.extend_from_slice(&sum.to_le_bytes());
            assert_eq!(Parting::decode(&newer), None, "a newer version");
        }
    }

    #[test]
    fn more_backlog_than_history_is_damage() {
        let bytes = Parting { offset: 3, ..parting() }.encode();
        assert_eq!(Parting::decode(&bytes), None);
    }
}
