//! Salvaging what is intact of a damaged store.
//!
//! 1. The new store is made in a directory of its own, `repaired-N`, by writing the salvaged
//!    entries into it, the oldest first: its own rules decide which version of a key is there.
//! 2. When it is whole and durable, every file that was there is put into a directory `damaged-N`,
//!    durable, before one of them goes from its place. Nothing is written over.
//! 3. A file `WHOLE` in its directory says that the new store is complete. `CURRENT` of the store
//!    goes first and comes last. A repair that is interrupted in between leaves a store that does
//!    not open; the next repair finds the new store whole, and puts it into its place.

use crate::files::{Table, table_id, table_name, table_number};
use crate::packed::{CHUNK_BYTES, Extent, Footer, PackedReader, READ_AHEAD_BYTES};
use crate::silt::Silt;
use crate::state::{Edit, MAKER, PartitionState, StoreState};
use silica_base::{AlignedBuf, Error, ErrorKind, Result};
use silica_device::{Device, DeviceFile, Mode};
use silica_engine::{
    Admin, Budget, Durability, Engine, EntryRef, Environment, Loss, OptionValues, Repaired,
    WriteBatch,
};
use silica_parts::frame::Frame;
use silica_parts::manifest;
use silica_parts::value_log::{self, Pointer};
use silica_parts::wal;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Entries of the new store that are written together, and bytes of them at most.
const BATCH_ENTRIES: usize = 256;
const BATCH_BYTES: usize = 1 << 20;
/// Bytes of background work after each batch.
const MAINTAIN_BYTES: u64 = 8 << 20;
/// Bytes of the log that hold an entry at least.
const ENTRY_BYTES_MIN: u64 = 8;
/// Directories of what was there and of what a repair makes.
const DAMAGED: &str = "damaged-";
const REPAIRED: &str = "repaired-";
/// Says in a directory of the latter that its store is complete.
const WHOLE: &str = "WHOLE";

/// Checks the store on `device` and, where it is damaged, makes a new one of what is intact.
pub fn repair<D: Device>(
    device: D,
    options: &OptionValues,
    environment: &Environment,
) -> Result<Repaired> {
    let device = Arc::new(device);
    if let Some(done) = finish_interrupted(&device, options, environment)? {
        return Ok(done);
    }
    let error = match check(&device, options, environment) {
        Ok(entries) => return Ok(Repaired { entries, ..Repaired::default() }),
        Err(error) => error,
    };
    if !is_about_the_file(error.kind()) {
        return Err(error);
    }
    let mut salvage = Salvage::new(&*device)?;
    salvage.findings.insert(0, error.to_string());
    let made = free_directory(&*device, REPAIRED)?;
    let directory = device.subdirectory(&made)?;
    {
        let store = Silt::open(directory, options, environment)?;
        salvage.write_into(&store)?;
        store.sync()?;
    }
    salvage.admit_unknown();
    let entries = check(&Arc::new(device.subdirectory(&made)?), options, environment)?;
    let directory = device.subdirectory(&made)?;
    directory.create(WHOLE, Mode::Buffered)?.sync()?;
    directory.sync_dir()?;
    let aside = put_aside(&*device)?;
    put_in_place(&*device, &made)?;
    let (findings, lost) = (salvage.findings, salvage.lost);
    let older = salvage.may_be_older;
    Ok(Repaired { entries, findings, aside: Some(aside), lost, may_be_older: older })
}

/// True where the files on `device` are those of a store of this engine.
pub fn made<D: Device>(device: &D) -> Result<bool> {
    if device.list()?.iter().any(|name| table_number(name).is_some()) {
        return Ok(true);
    }
    let found = manifest::salvage(device)?;
    Ok(match found.maker {
        Some(maker) => maker == MAKER,
        None => found.snapshot.is_some_and(|snapshot| StoreState::decode(&snapshot).is_ok()),
    })
}

/// Opens a store and looks at everything in it; its entries.
fn check<D: Device>(
    device: &Arc<D>,
    options: &OptionValues,
    environment: &Environment,
) -> Result<u64> {
    let store = Silt::open_shared(Arc::clone(device), options, environment, None)?;
    store.verify()?;
    Ok(store.count(true)?.estimate)
}

/// True where an error says that a file is not what it should be.
fn is_about_the_file(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Corruption | ErrorKind::NotFound)
}

/// Where an earlier repair had made a store and was putting it into its place: does that.
fn finish_interrupted<D: Device>(
    device: &Arc<D>,
    options: &OptionValues,
    environment: &Environment,
) -> Result<Option<Repaired>> {
    let is_there = device.list()?.iter().any(|name| name == manifest::CURRENT);
    for name in device.subdirectories()?.iter().filter(|name| name.starts_with(REPAIRED)) {
        let directory = device.subdirectory(name)?;
        let names = directory.list()?;
        if is_there || !names.iter().any(|name| name == WHOLE) {
            // It was not complete, or is in its place already, or was not needed yet.
            names.iter().try_for_each(|name| directory.remove(name))?;
            continue;
        }
        device.list()?.iter().try_for_each(|name| device.remove(name))?;
        put_in_place(&**device, name)?;
        let entries = check(device, options, environment)?;
        let found = "an earlier repair was interrupted; this one came to its end".to_string();
        let aside = device.subdirectories()?.into_iter().rfind(|name| name.starts_with(DAMAGED));
        let lost = Loss::Unknown;
        let done = Repaired { entries, findings: vec![found], aside, lost, may_be_older: true };
        return Ok(Some(done));
    }
    Ok(None)
}

/// A name of a directory that is not there.
fn free_directory<D: Device>(device: &D, begins: &str) -> Result<String> {
    let there = device.subdirectories()?;
    for number in 1..u32::MAX {
        let name = format!("{begins}{number}");
        let is_empty = || Ok::<_, Error>(device.subdirectory(&name)?.list()?.is_empty());
        if !there.contains(&name) || begins == REPAIRED && is_empty()? {
            return Ok(name);
        }
    }
    unreachable!("there are not so many directories")
}

/// Gives every file of the store a name in a directory of its own, and takes it from its place; the
/// directory's name.
fn put_aside<D: Device>(device: &D) -> Result<String> {
    let aside = free_directory(device, DAMAGED)?;
    let directory = device.subdirectory(&aside)?;
    let mut names = device.list()?;
    for name in &names {
        device.link_into(name, &directory, name)?;
    }
    directory.sync_dir()?;
    // A store without its `CURRENT` does not open, so this goes before what it stands for.
    silica_base::compact_sort_by_key(&mut names, |name| name != manifest::CURRENT);
    for name in &names {
        device.remove(name)?;
        if name == manifest::CURRENT {
            device.sync_dir()?;
        }
    }
    device.sync_dir()?;
    Ok(aside)
}

/// Moves the whole store in the directory `made` to where it is opened.
fn put_in_place<D: Device>(device: &D, made: &str) -> Result<()> {
    let directory = device.subdirectory(made)?;
    let mut names = directory.list()?;
    silica_base::compact_sort_by_key(&mut names, |name| (name == WHOLE, name == manifest::CURRENT));
    for name in names.iter().filter(|name| *name != WHOLE) {
        if name == manifest::CURRENT {
            device.sync_dir()?;
        }
        directory.link_into(name, device, name)?;
    }
    device.sync_dir()?;
    // The other way round: what is left does not look whole.
    names.iter().rev().try_for_each(|name| directory.remove(name))
}

/// The parts of a damaged store.
struct Salvage<'d, D: Device> {
    device: &'d D,
    state: Option<StoreState>,
    store_id: u64,
    names: Vec<String>,
    values: BTreeMap<u32, value_log::Segment<D::File>>,
    findings: Vec<String>,
    lost: Loss,
    may_be_older: bool,
}

impl<'d, D: Device> Salvage<'d, D> {
    fn new(device: &'d D) -> Result<Self> {
        let names = device.list()?;
        let found = manifest::salvage(device)?;
        let mut findings = found.damage;
        let mut state = found.snapshot.as_deref().and_then(|s| StoreState::decode(s).ok());
        let mut is_known = found.is_whole && state.is_some();
        for edit in found.edits {
            match (Edit::decode(&edit), &mut state) {
                (Ok(edit), Some(state)) => state.apply(&edit),
                _ => is_known = false,
            }
        }
        let store_id = match &state {
            Some(state) => Some(state.store_id),
            None => claimed_store_id(device, &names)?,
        };
        if !is_known {
            findings.push(
                "the manifest is lost: of an entry that was written several times an older value \
                 may be back, and a deleted one may be back"
                    .into(),
            );
            state = None;
        }
        let lost = if store_id.is_some() { Loss::Nothing } else { Loss::Unknown };
        if store_id.is_none() {
            findings.push("no file tells which store it is of, so none can be checked".into());
        }
        let mut salvage = Salvage {
            device,
            state,
            store_id: store_id.unwrap_or_default(),
            names,
            values: BTreeMap::new(),
            findings,
            lost,
            may_be_older: !is_known,
        };
        salvage.open_values()?;
        Ok(salvage)
    }

    /// Where nothing but what an opening says was found, what it hit is not known.
    fn admit_unknown(&mut self) {
        if self.findings.len() == 1 {
            (self.lost, self.may_be_older) = (Loss::Unknown, true);
        }
    }

    fn open_values(&mut self) -> Result<()> {
        let numbers: Vec<u32> = match &self.state {
            Some(state) => state.values.segments.clone(),
            None => self.names.iter().filter_map(|name| value_log::number_of(name)).collect(),
        };
        for number in numbers {
            match value_log::Segment::open(self.device, self.store_id, number) {
                Ok(segment) => drop(self.values.insert(number, segment)),
                Err(error) if is_about_the_file(error.kind()) => {
                    let name = value_log::name(number);
                    self.findings.push(format!("{name} is lost as a whole: {error}"));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The tables, the oldest first of those that may have the same keys.
    fn tables(&self) -> Vec<(Table, u64)> {
        let Some(state) = &self.state else {
            // A later file counts as newer.
            let numbered = self.names.iter().filter_map(|name| {
                let kind = if name.starts_with("HASH-") { Table::Hash } else { Table::Sorted };
                Some((kind, table_number(name)?))
            });
            let mut tables: Vec<_> = numbered.collect();
            silica_base::compact_sort_by_key(&mut tables, |(_, number)| *number);
            return tables;
        };
        let of = |partition: &PartitionState| {
            let sorted = partition.sorted_store.map(|number| (Table::Sorted, number));
            let hash = partition.hash_stores.iter().rev().map(|number| (Table::Hash, *number));
            sorted.into_iter().chain(hash).collect::<Vec<_>>()
        };
        state.partitions.iter().flat_map(of).collect()
    }

    fn write_into(&mut self, store: &Silt<D>) -> Result<()> {
        let lost = BTreeMap::new();
        let mut writer = Entries { store, ops: Vec::new(), bytes: 0, lost };
        for (kind, number) in self.tables() {
            self.write_table(kind, number, &mut writer)?;
        }
        self.write_log(&mut writer)?;
        writer.write()?;
        self.lost = self.lost.and(writer.lost.len() as u64);
        let say = |(key, error): (&Vec<u8>, &String)| {
            format!("the value of '{}' is lost: {error}", key.escape_ascii())
        };
        self.findings.extend(writer.lost.iter().map(say));
        Ok(())
    }

    fn write_table(&mut self, kind: Table, number: u64, writer: &mut Entries<'_, D>) -> Result<()> {
        let name = table_name(kind, number);
        let opened = PackedReader::open(self.device, &name, table_id(self.store_id, number));
        let reader = match opened {
            Ok(reader) => Arc::new(reader),
            Err(error) if is_about_the_file(error.kind()) => {
                self.findings.push(format!("{name} is lost as a whole: {error}"));
                (self.lost, self.may_be_older) = (Loss::Unknown, true);
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let (intact, mut read) = (self.intact_chunks(&reader)?, 0);
        for chunks in intact {
            let mut scan = reader.scan(chunks.start, READ_AHEAD_BYTES);
            loop {
                match scan.advance() {
                    Ok(true) if scan.chunk() < chunks.end => {
                        read += 1;
                        let frame = Frame::decode(scan.frame_bytes());
                        let (frame, _) = frame.expect("the scan decoded it");
                        self.write_frame(&frame, writer)?;
                    }
                    Ok(_) => break,
                    // It goes on in a chunk that is lost.
                    Err(error) if is_about_the_file(error.kind()) => break,
                    Err(error) => return Err(error),
                }
            }
        }
        let lost = reader.footer().entries.saturating_sub(read);
        if lost > 0 {
            self.lost = self.lost.and(lost);
            self.may_be_older = true;
            self.findings.push(format!("{name}: {lost} entries are lost"));
        }
        Ok(())
    }

    /// The chunks of a table that check.
    fn intact_chunks(&mut self, reader: &PackedReader<D::File>) -> Result<Vec<Range<u64>>> {
        let chunks = reader.footer().data_chunks;
        let (mut intact, mut from, mut buf) = (Vec::new(), 0, AlignedBuf::zeroed(0));
        for chunk in 0..chunks {
            let extent = Extent { chunk, chunks: 1, at: 0 };
            let checked =
                reader.read(extent, &mut buf).and_then(|()| reader.check_chunk(&buf, chunk));
            match checked {
                Ok(_) => continue,
                Err(error) if is_about_the_file(error.kind()) => {
                    self.findings.push(format!("{CHUNK_BYTES} bytes are lost: {error}"));
                }
                Err(error) => return Err(error),
            }
            intact.push(from..chunk);
            from = chunk + 1;
        }
        intact.push(from..chunks);
        intact.retain(|range| !range.is_empty());
        Ok(intact)
    }

    fn write_log(&mut self, writer: &mut Entries<'_, D>) -> Result<()> {
        let numbers: Vec<u64> = match &self.state {
            Some(state) => state.log_segments.clone(),
            None => self.names.iter().filter_map(|name| wal::number_of(name)).collect(),
        };
        let mut written = Ok(());
        let mut frames = Vec::new();
        let found = wal::salvage(self.device, self.store_id, &numbers, &mut |_, frame| {
            if written.is_ok() {
                frames.clear();
                frame.encode(&mut frames);
                written = self.write_encoded(&frames, writer);
            }
        });
        let found = found?;
        written?;
        if !found.findings.is_empty() {
            self.may_be_older = true;
        }
        self.findings.extend(found.findings);
        self.lost = match found.lost_unknown {
            true => Loss::Unknown,
            false => self.lost.and(found.lost_bytes / ENTRY_BYTES_MIN),
        };
        Ok(())
    }

    fn write_encoded(&mut self, frame: &[u8], writer: &mut Entries<'_, D>) -> Result<()> {
        let (frame, _) = Frame::decode(frame).expect("it was just encoded");
        self.write_frame(&frame, writer)
    }

    /// Writes an entry into the new store, its value fetched from the value log.
    fn write_frame(&mut self, frame: &Frame<'_>, writer: &mut Entries<'_, D>) -> Result<()> {
        if !frame.is_pointer() {
            return writer.add(frame, frame.value);
        }
        let value = Pointer::of(frame).and_then(|pointer| {
            let segment = self.values.get(&pointer.segment).ok_or_else(|| {
                let message = format!("{} is gone", value_log::name(pointer.segment));
                Error::new(ErrorKind::Corruption, message)
            })?;
            segment.read(&pointer, frame.key)
        });
        match value {
            Ok(value) => writer.add(frame, &value),
            // Of an older version it may be gone rightly: a newer one comes, or none is there.
            Err(error) if is_about_the_file(error.kind()) => {
                writer.add(&Frame::tombstone(frame.key), b"")?;
                writer.note_lost(frame.key, &error);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

/// What the footer of any table says of the store.
fn claimed_store_id<D: Device>(device: &D, names: &[String]) -> Result<Option<u64>> {
    for name in names {
        let Some(number) = table_number(name) else { continue };
        let file = device.open(name, Mode::Direct)?;
        let chunks = file.len()? / CHUNK_BYTES as u64;
        if chunks == 0 {
            continue;
        }
        let mut buf = AlignedBuf::zeroed(CHUNK_BYTES);
        let filled = file.read_at((chunks - 1) * CHUNK_BYTES as u64, &mut buf)?;
        let Some(id) = Footer::claimed_id(&buf[..filled]) else { continue };
        if PackedReader::open(device, name, id).is_ok() {
            return Ok(Some((id ^ number).rotate_right(17)));
        }
    }
    Ok(None)
}

/// An entry of the new store; no value for one that is deleted.
struct Salvaged {
    key: Vec<u8>,
    value: Option<Vec<u8>>,
    expires_unix_ms: u64,
    user_bits: u32,
}

/// Writes entries into the new store, and knows which keys lack a value.
struct Entries<'s, D: Device> {
    store: &'s Silt<D>,
    ops: Vec<Salvaged>,
    bytes: usize,
    /// Keys whose newest version has lost its value, and how.
    lost: BTreeMap<Vec<u8>, String>,
}

impl<D: Device> Entries<'_, D> {
    fn add(&mut self, frame: &Frame<'_>, value: &[u8]) -> Result<()> {
        if !self.lost.is_empty() {
            self.lost.remove(frame.key);
        }
        self.bytes += frame.key.len() + value.len();
        self.ops.push(Salvaged {
            key: frame.key.to_vec(),
            value: (!frame.is_tombstone()).then(|| value.to_vec()),
            expires_unix_ms: frame.expires_unix_ms,
            user_bits: frame.user_bits,
        });
        if self.ops.len() >= BATCH_ENTRIES || self.bytes >= BATCH_BYTES {
            self.write()?;
        }
        Ok(())
    }

    fn note_lost(&mut self, key: &[u8], error: &Error) {
        self.lost.insert(key.to_vec(), error.to_string());
    }

    fn write(&mut self) -> Result<()> {
        let mut batch = WriteBatch::new();
        for Salvaged { key, value, expires_unix_ms, user_bits } in &self.ops {
            let (expires_unix_ms, user_bits) = (*expires_unix_ms, *user_bits);
            match value {
                Some(value) => batch.put_entry(key, EntryRef { value, expires_unix_ms, user_bits }),
                None => batch.delete(key),
            };
        }
        self.store.write(&batch, Durability::Buffered)?;
        self.store.maintain(Budget::of(MAINTAIN_BYTES))?;
        (self.ops, self.bytes) = (Vec::new(), 0);
        Ok(())
    }
}
