//! The memory image: what a clean stop leaves, so that the next start has it back in seconds.
//!
//! Its bytes are in `format.rs` and `docs/formats/mica-image.md`.
//!
//! 1. What has the name [`IMAGE`] is whole: it was written under another name and synced before.
//! 2. It is what the keyspace held at one moment, when it was closed or saved: no write is
//!    acknowledged while it is written, and after a close none at all. Where writing fails before
//!    the image may have its name, writes go on.
//! 3. An image is read once: its name is taken away, durably, before that, and before the keyspace
//!    that takes it accepts a write. So a process that dies leaves only one that was saved, and
//!    that was not cleared since.
//! 4. Nothing of an image is believed before its checksum has held. What is wrong with it leaves
//!    the keyspace empty, never half filled.

mod format;
mod state;

use crate::family::home_of;
use crate::item::Form;
use crate::mica::{Home, Mica};
use crate::partition::Partition;
use crate::words::Frames;
use format::{Header, Kind, Reader, Record, Writer};
use silica_base::{Error, ErrorKind, Result};
use silica_device::{Device, DeviceFile, Mode};
use silica_engine::{EntryRef, Op, OpKind};
use std::sync::atomic::Ordering::Relaxed;

/// An image that a clean stop has left.
const IMAGE: &str = "image";
/// One that is being written.
const NEW: &str = "image.new";
/// One that is being read.
const TAKEN: &str = "image.taken";
/// Entries that are put at a time where the memory is divided in another way.
const TOGETHER: usize = 32;

impl<D: Device> Home for D {
    fn leave(
        &self,
        mica: &Mica,
        progress: &mut dyn FnMut(u64, u64),
    ) -> std::result::Result<u64, (Error, bool)> {
        let bytes = write(self, mica, progress).map_err(|error| {
            let _ = self.remove(NEW);
            (error, false)
        })?;
        let named = self.rename(NEW, IMAGE).and_then(|()| self.sync_dir());
        named.map_err(|error| (error, true))?;
        Ok(bytes)
    }

    fn forget(&self) -> Result<()> {
        if self.list()?.iter().any(|name| name == IMAGE) {
            self.remove(IMAGE)?;
            self.sync_dir()?;
        }
        Ok(())
    }
}

fn write<D: Device>(device: &D, mica: &Mica, progress: &mut dyn FnMut(u64, u64)) -> Result<u64> {
    if device.list()?.iter().any(|name| name == NEW) {
        device.remove(NEW)?;
    }
    let bytes = |p: &Partition| (p.index().bytes() + p.log().bytes()) as u64;
    let whole = mica.partitions.iter().map(bytes).sum();
    let mut done = 0;
    let mut more = |bytes| {
        done += bytes;
        progress(done, whole);
    };
    let file = device.create(NEW, Mode::Direct)?;
    let header = header(mica);
    let mut writer = Writer::new(&file, &header)?;
    for (number, partition) in mica.partitions.iter().enumerate() {
        writer.few(Kind::State, number, &state::of(partition, header.has_lists()))?;
        writer.words(Kind::Index, number, partition.index().words(), &mut more)?;
        writer.words(Kind::Log, number, partition.log().words(), &mut more)?;
    }
    writer.end()
}

fn header(mica: &Mica) -> Header {
    Header {
        file: mica.clock.unix_ms(),
        seed: mica.seed,
        layout: mica.layout,
        offset_bits: mica.offset_bits,
        family: mica.family.as_ref().map(|family| family.kept()),
        lists: mica.lists.load(Relaxed),
    }
}

/// Takes the image on `device` into `mica`, which is empty and nobody else's; where it is not
/// wanted, removes it.
pub(crate) fn take<D: Device>(device: &D, mica: &mut Mica, is_wanted: bool) -> Result<()> {
    let names = device.list()?;
    let has = |name: &str| names.iter().any(|other| other == name);
    for name in [NEW, TAKEN].into_iter().filter(|name| has(name)) {
        device.remove(name)?;
    }
    if !has(IMAGE) {
        return Ok(());
    }
    device.rename(IMAGE, TAKEN)?;
    device.sync_dir()?;
    let seed = mica.seed;
    if is_wanted {
        match read(device, mica) {
            Ok(taken) => taken.report(),
            Err(error) if [ErrorKind::Full, ErrorKind::Config].contains(&error.kind()) => {
                // Nothing was written since: it may still be believed.
                device.rename(TAKEN, IMAGE)?;
                device.sync_dir()?;
                let what = match error.kind() {
                    ErrorKind::Full => {
                        "taking back the memory image, which stays: start with more memory, or \
                         remove the file 'image' to start empty"
                    }
                    _ => {
                        "taking back the memory image, which stays: remove the file 'image' to \
                         start empty"
                    }
                };
                return Err(error.within(what));
            }
            Err(error) => {
                log::warn!("starting empty, because the memory image is refused: {error}");
                mica.begin_anew(seed);
            }
        }
    }
    if let Err(error) = device.remove(TAKEN) {
        log::warn!("removing the memory image that was taken: {error}");
    }
    Ok(())
}

/// What came of an image.
struct Taken {
    entries: u64,
    /// Entries that the new keyspace cannot have.
    too_large: u64,
    /// Milliseconds since it was written.
    age_ms: u64,
}

impl Taken {
    fn report(&self) {
        let Taken { entries, too_large, age_ms } = self;
        log::info!("took back {entries} entries of {} s ago", age_ms / 1000);
        if *too_large > 0 {
            log::warn!("{too_large} entries are too large for memory_bytes, and are left out");
        }
    }
}

fn read<D: Device>(device: &D, mica: &mut Mica) -> Result<Taken> {
    let file = device.open(TAKEN, Mode::Direct)?;
    let (mut reader, header) = Reader::new(&file)?;
    mica.seed = header.seed;
    mica.lists.store(header.lists, Relaxed);
    if let (Some(_), None) = (header.family, &mica.family) {
        let message = "the memory image is of a cache with several databases; open it as one";
        return Err(Error::new(ErrorKind::Config, message));
    }
    if let (Some(kept), Some(family)) = (&header.family, &mica.family) {
        header.check()?;
        family.take_over(kept);
    }
    let is_same = header.layout == mica.layout
        && header.offset_bits == mica.offset_bits
        && header.family.is_some() == mica.family.is_some();
    let too_large = if is_same {
        let count = mica.partitions.len();
        each_partition(&mut reader, count, &mut |number, record| {
            let has_lists = header.has_lists();
            record.map_or(Ok(()), |record| enter(record, &mica.partitions[number], has_lists))
        })?;
        0
    } else {
        header.check()?;
        let too_large = read_entries(&mut reader, &header, mica)?;
        if header.has_lists() {
            mica.settle_all()?;
        }
        too_large
    };
    let entries = mica.partitions.iter().map(|p| p.counts.entries.get()).sum();
    Ok(Taken { entries, too_large, age_ms: mica.clock.unix_ms().saturating_sub(header.file) })
}

/// Reads to the end and calls `see` with each record of each partition, of which there must be
/// `count`, and with `None` after its last.
fn each_partition<F: DeviceFile>(
    reader: &mut Reader<'_, F>,
    count: usize,
    see: &mut dyn FnMut(usize, Option<&Record<'_>>) -> Result<()>,
) -> Result<()> {
    let mut begun = 0;
    loop {
        let record = reader.next()?;
        let is_next = record.kind == Kind::State && record.partition == begun && begun < count;
        let is_end = record.kind == Kind::End;
        if begun > 0 && (is_next || is_end) {
            see(begun - 1, None)?;
        }
        if is_end {
            return if begun == count { Ok(()) } else { Err(missing(begun)) };
        }
        begun += usize::from(is_next);
        if record.partition + 1 != begun {
            return Err(record.wrong("it is out of its turn"));
        }
        see(begun - 1, Some(&record))?;
    }
}

fn missing(partition: usize) -> Error {
    Error::corruption("the memory image", 0, format_args!("partition {partition} is missing"))
}

/// Stores what a record has of a partition of its layout.
fn enter(record: &Record<'_>, partition: &Partition, has_lists: bool) -> Result<()> {
    match record.kind {
        Kind::State => {
            let state: Vec<u64> = record.words().collect();
            let is_one = state::take_over(partition, &state, has_lists);
            if is_one { Ok(()) } else { Err(record.wrong("it is no state of a partition")) }
        }
        Kind::Index => record.store(partition.index().words()),
        Kind::Log => record.store(partition.log().words()),
        Kind::End => Ok(()),
    }
}

/// Puts the entries of another layout, a partition at a time; returns how many were too large.
fn read_entries<F: DeviceFile>(
    reader: &mut Reader<'_, F>,
    header: &Header,
    mica: &Mica,
) -> Result<u64> {
    let (mut current, mut too_large) = (None, 0);
    each_partition(reader, header.layout.partitions, &mut |_, record| {
        match record {
            Some(record) => {
                let family = header.family.and(mica.family.as_ref());
                let Header { layout, offset_bits, .. } = header;
                let new = || Partition::new(layout, *offset_bits, Frames::Advised, family);
                enter(record, current.get_or_insert_with(new), header.has_lists())?;
            }
            None => too_large += current.take().map_or(Ok(0), |from| put_all(&from, mica))?,
        }
        Ok(())
    })?;
    mica.partitions.iter().for_each(|partition| partition.counts.forget());
    Ok(too_large)
}

/// Puts the entries of a partition into `mica`, the oldest first; returns how many it cannot have.
fn put_all(from: &Partition, mica: &Mica) -> Result<u64> {
    let now_ms = mica.clock.unix_ms();
    let mut entries: Vec<Entry> = Vec::new();
    let (mut too_large, mut result) = (0, Ok(()));
    let put = |entries: &mut Vec<Entry>| {
        let ops: Vec<Op<'_>> = entries.iter().map(Entry::op).collect();
        let put = mica.apply_formed(&ops, entries.iter().map(|entry| entry.form));
        entries.clear();
        put
    };
    from.visit(&mut |key, form, entry: EntryRef<'_>| {
        if form == Form::Chunk {
            if result.is_ok() {
                result = mica.put_chunk_again(key, entry.value);
            }
            return;
        }
        let has_expired = entry.expires_unix_ms != 0 && entry.expires_unix_ms <= now_ms;
        let is_dead = || from.spaces().is_some_and(|spaces| spaces.place(home_of(key)) == Some(0));
        if result.is_err() || has_expired || is_dead() {
            return;
        }
        let mut made = Vec::new();
        if let (None, Some(family)) = (from.spaces(), &mica.family) {
            // It was the only database, whose keys were stored as they are.
            family.push_prefix(0, key, &mut made);
        }
        made.extend_from_slice(key);
        let key = &made[..];
        let is_too_large = match form {
            Form::List => !mica.takes_list(entry.value),
            _ => mica.check(0, entry.value.len()).is_err(),
        };
        if is_too_large || mica.check(key.len(), 0).is_err() {
            too_large += 1;
            return;
        }
        entries.push(Entry::new(key, form, &entry));
        if entries.len() == TOGETHER {
            result = put(&mut entries);
        }
    })?;
    result.and_then(|()| put(&mut entries))?;
    match too_large {
        1.. if mica.is_store => Err(Error::new(
            ErrorKind::Full,
            format!("{too_large} entries are too large for memory_bytes {}", mica.memory_bytes),
        )),
        _ => Ok(too_large),
    }
}

/// An entry that was copied.
struct Entry {
    key: Vec<u8>,
    value: Vec<u8>,
    expires_unix_ms: u64,
    user_bits: u32,
    form: Form,
}

impl Entry {
    fn new(key: &[u8], form: Form, entry: &EntryRef<'_>) -> Self {
        let EntryRef { value, expires_unix_ms, user_bits } = *entry;
        Entry { key: key.to_vec(), value: value.to_vec(), expires_unix_ms, user_bits, form }
    }

    fn op(&self) -> Op<'_> {
        let Entry { key, value, expires_unix_ms, user_bits, .. } = self;
        let (expires_unix_ms, user_bits) = (*expires_unix_ms, *user_bits);
        Op { key, kind: OpKind::Put(EntryRef { value, expires_unix_ms, user_bits }) }
    }
}
