//! Salvaging what is intact of a damaged store.
//!
//! 1. Every file that was there is in a directory of its own, durable, before one of them goes from
//!    its place. Nothing is written over.
//! 2. `CURRENT` goes first and comes last: a repair that is interrupted leaves a store that does
//!    not open, and can be begun again from the files that were put aside.
//! 3. Segments of the value log stay where they are, too: what is written there never changes.
//! 4. What an entry was is decided as in a read: the log is newer than tables, of which a newer run
//!    is newer than an older one. Without a manifest a later file counts as newer.

use crate::bucket::LogEntries;
use crate::contents::gone;
use crate::count::count_exactly;
use crate::deleted::{DeletedRange, DeletedRanges, deleted_at};
use crate::memtable::{Entries, head, sorted};
use crate::merge::{Merge, Source};
use crate::names::{table_id, table_name, table_number};
use crate::options::Config;
use crate::policy::LEVEL_MAX;
use crate::state::{BucketState, MAKER, PartState, StoreState};
use crate::wip::Wip;
use silica_base::{AlignedBuf, ErrorKind, HashSeed, Result};
use silica_device::{Device, DeviceFile, Lifetime, Mode};
use silica_engine::{Engine, Environment, Loss, OptionValues, Repaired};
use silica_parts::frame::{POINTER, RANGE, TOMBSTONE};
use silica_parts::manifest::{self, Ledger};
use silica_parts::table::{Cursor, Table, TableBuilder, TableOptions, UNNUMBERED, Version};
use silica_parts::value_log::{self, Pointer};
use silica_parts::wal::{self, POSITION_BYTES, Segments};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// Bytes of keys and values of a table that a repair writes.
const TABLE_BYTES: u64 = 64 << 20;

/// Checks the store on `device` and, where it is damaged, makes a new one of what is intact.
pub fn repair<D: Device>(
    device: D,
    options: &OptionValues,
    environment: &Environment,
) -> Result<Repaired> {
    let device = Arc::new(device);
    let entries = Wip::open_shared(Arc::clone(&device), options, environment)
        .and_then(|wip| wip.verify().and_then(|()| count_exactly(&wip)));
    let error = match entries {
        Ok(entries) => return Ok(Repaired { entries, ..Repaired::default() }),
        Err(error) => error,
    };
    if !is_about_the_file(error.kind()) {
        return Err(error);
    }
    let mut salvage = Salvage::new(&*device, environment.seed)?;
    salvage.findings.insert(0, error.to_string());
    salvage.run(Config::new(options))
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

/// The parts of a damaged store.
struct Salvage<'d, D: Device> {
    device: &'d D,
    state: StoreState,
    /// False where the state is not what the store's manifest said last.
    is_known: bool,
    tables: BTreeMap<u64, Arc<Table<D::File>>>,
    /// Intact blocks of each table.
    blocks: BTreeMap<u64, Vec<Range<usize>>>,
    segments: Arc<Segments<D::Log>>,
    /// Positions of all entries in the log, and what it says of ranges.
    positions: Vec<u64>,
    deleted: Vec<DeletedRange>,
    /// Segments of the value log.
    values: BTreeMap<u32, Arc<value_log::Segment<D::File>>>,
    names: Vec<String>,
    findings: Vec<String>,
    lost: Loss,
    may_be_older: bool,
}

impl<'d, D: Device> Salvage<'d, D> {
    fn new(device: &'d D, seed: HashSeed) -> Result<Self> {
        let names = device.list()?;
        let found = manifest::salvage(device)?;
        let mut findings = found.damage;
        let mut state = found.snapshot.as_deref().and_then(|s| StoreState::decode(s).ok());
        let mut is_known = found.is_whole && state.is_some();
        for edit in found.edits {
            match (StoreState::decode_edit(&edit), &mut state) {
                (Ok(edit), Some(state)) => state.apply(&edit),
                _ => is_known = false,
            }
        }
        if !is_known {
            findings.push(
                "the manifest is lost: of an entry that was written several times an older value \
                 may be back, and a deleted one may be back"
                    .into(),
            );
        }
        let state = match state {
            Some(state) => state,
            None => {
                StoreState::with_buckets(store_id(device, &names)?.unwrap_or_default(), seed, 1)
            }
        };
        let (tables, blocks) = (BTreeMap::new(), BTreeMap::new());
        let mut salvage = Salvage {
            segments: Arc::new(Segments::new(Vec::new())),
            positions: Vec::new(),
            deleted: Vec::new(),
            values: BTreeMap::new(),
            device,
            state,
            is_known,
            tables,
            blocks,
            names,
            findings,
            lost: Loss::Nothing,
            may_be_older: !is_known,
        };
        salvage.open_tables()?;
        salvage.open_log()?;
        salvage.open_values()?;
        Ok(salvage)
    }

    fn open_values(&mut self) -> Result<()> {
        let numbers: Vec<u32> = match self.is_known {
            true => self.state.values.segments.clone(),
            false => self.names.iter().filter_map(|name| value_log::number_of(name)).collect(),
        };
        for number in numbers {
            match value_log::Segment::open(self.device, self.state.store_id, number) {
                Ok(segment) => drop(self.values.insert(number, Arc::new(segment))),
                Err(error) if is_about_the_file(error.kind()) => {
                    let name = value_log::name(number);
                    self.findings.push(format!("{name} is lost as a whole: {error}"));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Where the value that a version points at is, and that it checks.
    fn find_value(&self, key: &[u8], pointer: &[u8]) -> Result<Pointer> {
        let pointer = Pointer::in_entry(pointer)?;
        let segment = self.values.get(&pointer.segment).ok_or_else(|| gone(&pointer))?;
        segment.read(&pointer, key).map(|_| pointer)
    }

    fn open_tables(&mut self) -> Result<()> {
        let numbers: BTreeSet<u64> = match self.is_known {
            true => self.state.tables(),
            false => self.names.iter().filter_map(|name| table_number(name)).collect(),
        };
        let ingested = if self.is_known { self.state.ingested() } else { BTreeMap::new() };
        for number in numbers {
            let (name, id) = (table_name(number), table_id(self.state.store_id, number));
            let opened = Table::open_for_repair(self.device, &name, id);
            let opened = opened.and_then(|table| match ingested.get(&number) {
                Some(sequence) => table.numbered(*sequence),
                None => Ok(table),
            });
            match opened {
                Ok(table) => self.check_blocks(number, Arc::new(table))?,
                Err(error) if is_about_the_file(error.kind()) => {
                    self.findings.push(format!("{name} is lost as a whole: {error}"));
                    (self.lost, self.may_be_older) = (Loss::Unknown, true);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn check_blocks(&mut self, number: u64, table: Arc<Table<D::File>>) -> Result<()> {
        let (mut intact, mut from) = (Vec::new(), 0);
        let (mut buf, mut unpacked) = (AlignedBuf::zeroed(0), Vec::new());
        for block in 0..table.blocks() {
            let place = table.place(block);
            let checked = table
                .read(place, &mut buf)
                .and_then(|()| table.check(block, &buf, &mut unpacked).map(drop));
            match checked {
                Ok(()) => continue,
                Err(error) if is_about_the_file(error.kind()) => {
                    let from = table.separator(block);
                    let to = (block + 1 < table.blocks()).then(|| table.separator(block + 1));
                    self.findings.push(format!(
                        "{}: {} bytes at offset {} are lost, with keys from '{}' to {}",
                        table.name(),
                        place.len,
                        place.offset,
                        from.escape_ascii(),
                        to.map_or("the end".into(), |to| format!("'{}'", to.escape_ascii()))
                    ));
                }
                Err(error) => return Err(error),
            }
            intact.push(from..block);
            from = block + 1;
        }
        intact.push(from..table.blocks());
        intact.retain(|range| !range.is_empty());
        let whole = 0..table.blocks();
        let is_damaged = !whole.is_empty() && intact.first() != Some(&whole);
        if is_damaged {
            let part = whole_part(number, Vec::new(), None);
            let lost =
                table.footer().versions.saturating_sub(versions::<D>(&table, part, &intact)?);
            (self.lost, self.may_be_older) = (self.lost.and(lost), true);
            self.findings.push(format!("{}: {lost} versions of entries are lost", table.name()));
        }
        self.blocks.insert(number, intact);
        self.tables.insert(number, table);
        Ok(())
    }

    fn open_log(&mut self) -> Result<()> {
        let numbers: Vec<u64> = match self.is_known {
            true => self.state.log_segments.clone(),
            false => self.names.iter().filter_map(|name| wal::number_of(name)).collect(),
        };
        let (mut positions, mut deleted) = (Vec::new(), Vec::new());
        let found = wal::salvage(self.device, self.state.store_id, &numbers, &mut |at, frame| {
            let position = at / POSITION_BYTES;
            if frame.flags & RANGE == 0 {
                positions.push(position);
            } else {
                deleted.push(DeletedRange::of(frame, position));
            }
        })?;
        (self.positions, self.deleted) = (positions, deleted);
        self.may_be_older |= !found.findings.is_empty();
        self.findings.extend(found.findings);
        self.lost = match found.lost_unknown {
            true => Loss::Unknown,
            false => self.lost.and(found.lost_bytes / POSITION_BYTES),
        };
        self.segments = Arc::new(Segments::new(found.segments));
        Ok(())
    }

    /// Writes the new store and puts the old one aside.
    fn run(mut self, config: Config) -> Result<Repaired> {
        let numbers = self.names.iter().filter_map(|name| table_number(name));
        let next_table = numbers.max().unwrap_or(0).max(self.state.next_table) + 1;
        let mut output = Output {
            device: self.device,
            state: StoreState::with_buckets(self.state.store_id, self.state.seed, 1),
            config,
            next_table,
            builder: None,
            bytes: 0,
            lower: Vec::new(),
            run: Vec::new(),
            live: BTreeMap::new(),
            entries: 0,
        };
        let buckets = match self.is_known {
            true => std::mem::take(&mut self.state.buckets),
            false => BTreeMap::from([(Vec::new(), self.all_tables())]),
        };
        let lowers: Vec<Vec<u8>> = buckets.keys().cloned().collect();
        for (at, (lower, bucket)) in buckets.iter().enumerate() {
            let upper = lowers.get(at + 1).map(|upper| &upper[..]);
            let lost = self.salvage_bucket(lower, upper, bucket, &mut output)?;
            self.lost = self.lost.and(lost.len() as u64);
            self.findings.extend(lost);
        }
        if self.findings.len() == 1 {
            // Nothing but what an opening says was found: what it hit is not known.
            (self.lost, self.may_be_older) = (Loss::Unknown, true);
        }
        let entries = output.entries;
        let values = self.values_left(&output.live);
        let state = StoreState { values, ..output.finish()? };
        let aside = self.put_aside(&state)?;
        let Salvage { findings, lost, may_be_older, .. } = self;
        Ok(Repaired { entries, findings, aside: Some(aside), lost, may_be_older })
    }

    /// The value log with the segments in which so many bytes live.
    fn values_left(&self, live: &BTreeMap<u32, u64>) -> value_log::State {
        let named = self.names.iter().filter_map(|name| value_log::number_of(name)).max();
        let mut state = value_log::State::default();
        for (number, live) in live {
            state.add(*number);
            state.dead.insert(*number, self.values[number].record_bytes().saturating_sub(*live));
        }
        let next = named.map_or(1, |number| number.saturating_add(1));
        state.next = next.max(self.state.values.next);
        state
    }

    /// Every table as a run of its own, the latest first.
    fn all_tables(&self) -> BucketState {
        let part = |table: &u64| whole_part(*table, Vec::new(), None);
        let runs = self.tables.keys().rev().map(|table| vec![part(table)]).collect();
        BucketState { runs, ..BucketState::default() }
    }

    fn salvage_bucket(
        &self,
        lower: &[u8],
        upper: Option<&[u8]>,
        bucket: &BucketState,
        output: &mut Output<'_, D>,
    ) -> Result<Vec<String>> {
        let entries = LogEntries(&self.segments);
        let is_here = |position: &u64| {
            let key = entries.entry(*position).key;
            *position >= bucket.floor && *lower <= *key && upper.is_none_or(|upper| *key < *upper)
        };
        let positions = self.positions.iter().copied().filter(is_here).collect();
        let positions = sorted(positions, &entries);
        let mut sources: Vec<Rows<'_, D>> =
            vec![Rows::Log { entries: LogEntries(&self.segments), positions, at: 0 }];
        for part in bucket.runs.iter().flatten() {
            let Some(table) = self.tables.get(&part.table) else { continue };
            let mut rows = TableRows {
                part: part.clone(),
                blocks: self.blocks[&part.table].clone(),
                table: Arc::clone(table),
                cursor: None,
            };
            rows.enter()?;
            sources.push(Rows::Table(Box::new(rows)));
        }
        let from_log = self.deleted.iter().filter(|range| range.position >= bucket.floor);
        let deleted: DeletedRanges =
            from_log.chain(&bucket.deleted).cloned().map(Arc::new).collect();
        let mut merge = Merge::new(sources);
        let (mut last, mut lost) = (None::<Vec<u8>>, Vec::new());
        while let Some(version) = merge.version() {
            if last.as_deref() != Some(version.key) {
                last = Some(version.key.to_vec());
                // Of a file that nobody vouches for, neither 0 nor what ingested versions have
                // says that a version is old.
                let has_age = self.is_known || version.sequence > UNNUMBERED;
                let is_hidden =
                    has_age && deleted_at(&deleted, version.key, u64::MAX) > version.sequence;
                let is_there = version.flags & TOMBSTONE == 0 && !is_hidden;
                let is_apart = is_there && version.flags & POINTER != 0;
                let value = is_apart.then(|| self.find_value(version.key, version.value));
                match value.transpose() {
                    Ok(_) if !is_there => {}
                    Ok(pointer) => {
                        output.add(&Version { sequence: 0, ..version })?;
                        pointer.iter().for_each(|pointer| output.count_value(pointer));
                    }
                    Err(error) if is_about_the_file(error.kind()) => {
                        let key = version.key.escape_ascii();
                        lost.push(format!("the value of '{key}' is lost: {error}"));
                    }
                    Err(error) => return Err(error),
                }
            }
            merge.advance()?;
        }
        Ok(lost)
    }

    /// Puts the files that were there into a directory of their own, and the new manifest in
    /// their place; the directory's name.
    fn put_aside(&self, state: &StoreState) -> Result<String> {
        let there = self.device.subdirectories()?;
        let name = |n: u64| format!("damaged-{n}");
        let free = (1..).map(name).find(|name| !there.contains(name));
        let aside = free.expect("numbers do not end");
        let directory = self.device.subdirectory(&aside)?;
        for name in &self.names {
            self.device.link_into(name, &directory, name)?;
        }
        directory.sync_dir()?;
        let mut names = self.names.clone();
        // A store without its `CURRENT` does not open, so this goes before what it stands for.
        silica_base::compact_sort_by_key(&mut names, |name| name != manifest::CURRENT);
        let stay: Vec<_> =
            state.values.segments.iter().map(|number| value_log::name(*number)).collect();
        for name in names.iter().filter(|name| !stay.contains(name)) {
            self.device.remove(name)?;
        }
        self.device.sync_dir()?;
        for (name, bytes) in manifest::files(MAKER, &state.encode()) {
            let file = self.device.create(&name, Mode::Buffered)?;
            file.write_at(0, &bytes)?;
            file.sync()?;
            self.device.sync_dir()?;
        }
        Ok(aside)
    }
}

/// True where an error says that a file is not what it should be.
fn is_about_the_file(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Corruption | ErrorKind::NotFound)
}

/// What the footer of any table says of the store.
fn store_id<D: Device>(device: &D, names: &[String]) -> Result<Option<u64>> {
    for name in names {
        let Some(number) = table_number(name) else { continue };
        let Some(id) = Table::<D::File>::file_id_of(device, name)? else { continue };
        let store_id = (id ^ number).rotate_right(23);
        if Table::open_for_repair(device, name, id).is_ok() {
            return Ok(Some(store_id));
        }
    }
    Ok(None)
}

/// Versions in the intact `blocks` of a table.
fn versions<D: Device>(
    table: &Arc<Table<D::File>>,
    part: PartState,
    blocks: &[Range<usize>],
) -> Result<u64> {
    let table = Arc::clone(table);
    let mut rows = TableRows::<D> { part, table, blocks: blocks.to_vec(), cursor: None };
    rows.enter()?;
    let mut versions = 0;
    while rows.cursor.is_some() {
        versions += 1;
        rows.advance()?;
    }
    Ok(versions)
}

fn whole_part(table: u64, lower: Vec<u8>, upper: Option<Vec<u8>>) -> PartState {
    PartState { table, lower, upper, level: LEVEL_MAX, dead_bytes: 0, sequence: 0 }
}

/// Where versions come from.
enum Rows<'s, D: Device> {
    Log { entries: LogEntries<'s, D::Log>, positions: Vec<u64>, at: usize },
    Table(Box<TableRows<D>>),
}

/// The versions in the intact blocks of a part.
struct TableRows<D: Device> {
    part: PartState,
    table: Arc<Table<D::File>>,
    /// What is left; the first one is being read.
    blocks: Vec<Range<usize>>,
    cursor: Option<Cursor<D::File>>,
}

impl<D: Device> TableRows<D> {
    fn is_here(&self, key: &[u8]) -> bool {
        *self.part.lower <= *key && self.part.upper.as_ref().is_none_or(|upper| *key < **upper)
    }

    /// Goes to the first version of the next intact blocks that have one.
    fn enter(&mut self) -> Result<()> {
        self.cursor = None;
        while let Some(blocks) = self.blocks.first() {
            let mut cursor = self.table.cursor(0);
            let from = self.table.separator(blocks.start).max(self.part.lower.clone());
            let end = blocks.end;
            if end < self.table.blocks() && self.table.separator(end) <= from {
                // The part begins behind them.
                self.blocks.remove(0);
                continue;
            }
            // The block behind the last one does not check: that is where they end.
            let found = cursor.seek(&from, u64::MAX).unwrap_or(false);
            if found && self.is_here(cursor.version().key) {
                self.cursor = Some(cursor);
                return Ok(());
            }
            self.blocks.remove(0);
        }
        Ok(())
    }

    fn advance(&mut self) -> Result<()> {
        let Some(cursor) = &mut self.cursor else { return Ok(()) };
        let found = cursor.advance().unwrap_or(false);
        if found && self.is_here(self.cursor.as_ref().expect("there is one").version().key) {
            return Ok(());
        }
        self.blocks.remove(0);
        self.enter()
    }
}

impl<D: Device> Source for Rows<'_, D> {
    fn head(&self) -> Option<u64> {
        match self {
            Rows::Log { positions, at, .. } if *at >= positions.len() => None,
            Rows::Table(rows) if rows.cursor.is_none() => None,
            _ => Some(head(self.version().key)),
        }
    }

    fn version(&self) -> Version<'_> {
        match self {
            Rows::Log { entries, positions, at } => {
                let frame = entries.entry(positions[*at]);
                Version {
                    key: frame.key,
                    sequence: positions[*at],
                    flags: frame.flags & (TOMBSTONE | POINTER),
                    expires_unix_ms: frame.expires_unix_ms,
                    user_bits: frame.user_bits,
                    value: frame.value,
                }
            }
            Rows::Table(rows) => rows.cursor.as_ref().expect("it is at a version").version(),
        }
    }

    fn advance(&mut self) -> Result<()> {
        match self {
            Rows::Log { at, .. } => {
                *at += 1;
                Ok(())
            }
            Rows::Table(rows) => rows.advance(),
        }
    }
}

/// The tables of the new store.
struct Output<'d, D: Device> {
    device: &'d D,
    state: StoreState,
    config: Config,
    next_table: u64,
    builder: Option<TableBuilder<D::File>>,
    /// In the table in hand.
    bytes: u64,
    /// Where the table in hand begins.
    lower: Vec<u8>,
    run: Vec<PartState>,
    /// Bytes of value-log segments that entries point at.
    live: BTreeMap<u32, u64>,
    entries: u64,
}

impl<D: Device> Output<'_, D> {
    fn add(&mut self, version: &Version<'_>) -> Result<()> {
        if self.bytes > TABLE_BYTES {
            self.end_table(Some(version.key))?;
        }
        if self.builder.is_none() {
            let options = TableOptions {
                block_bytes: self.config.block_bytes,
                sequence_base: 1,
                filter_bits: self.config.filter_bits(true),
                compression: self.config.compression,
                seed: self.state.seed,
                lifetime: Lifetime::Long,
            };
            let (name, id) =
                (table_name(self.next_table), table_id(self.state.store_id, self.next_table));
            self.builder = Some(TableBuilder::create(self.device, &name, id, &options)?);
        }
        self.builder.as_mut().expect("just made").add(version)?;
        self.bytes += (version.key.len() + version.value.len()) as u64;
        self.entries += 1;
        Ok(())
    }

    fn count_value(&mut self, pointer: &Pointer) {
        *self.live.entry(pointer.segment).or_default() += pointer.record_bytes();
    }

    /// Ends the table in hand before the key `upper`.
    fn end_table(&mut self, upper: Option<&[u8]>) -> Result<()> {
        let Some(builder) = self.builder.take() else { return Ok(()) };
        builder.finish()?;
        self.bytes = 0;
        let upper = upper.map(<[u8]>::to_vec);
        let lower = std::mem::replace(&mut self.lower, upper.clone().unwrap_or_default());
        self.run.push(whole_part(self.next_table, lower, upper));
        self.next_table += 1;
        Ok(())
    }

    /// The state of the new store.
    fn finish(mut self) -> Result<StoreState> {
        self.end_table(None)?;
        self.device.sync_dir()?;
        let runs = if self.run.is_empty() { Vec::new() } else { vec![self.run] };
        let bucket = BucketState { runs, ..BucketState::default() };
        self.state.buckets = BTreeMap::from([(Vec::new(), bucket)]);
        self.state.next_table = self.next_table;
        Ok(self.state)
    }
}
