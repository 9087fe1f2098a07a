//! What a cache finds when it is opened, and what of it may be believed
//! (docs/formats/flash-cache.md, "What may be believed after a crash").

use crate::cache::{Begun, Dida, Startup};
use crate::checkpoint::Part;
use crate::flash::Flash;
use crate::item;
use crate::journal::{self, Identity, Journal, Told};
use crate::layout::{Layout, Place};
use crate::options::OPTIONS;
use crate::slab::{self, FOOTER_BYTES, Footer, HEADER_BYTES, Kind, Summed};
use crate::slabs::Whereabouts;
use crate::streams::{Open, PREFIX, Spare, name};
use silica_base::{AlignedBuf, Error, ErrorKind, Result};
use silica_device::{Device, LogFile};
use silica_engine::{Environment, OptionValues};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

impl<F: Flash, D: Device> Dida<F, D> {
    /// Opens the cache that `flash` and `files` have; creates one if there is none. What comes
    /// back after a crash is said in docs/formats/flash-cache.md; after damage, and by default
    /// after a loss of power, the cache is empty, and the log says why.
    ///
    /// # Errors
    /// `Config` for too little memory, or flash of another shape than the cache was made on;
    /// `Unsupported` for a newer format; `Io`.
    pub fn open(
        flash: F,
        files: D,
        options: &OptionValues,
        environment: &Environment,
        startup: Startup,
    ) -> Result<Self> {
        let value = |name| options.value(OPTIONS, name);
        let memory_slabs = value("memory_slabs") as u32;
        let layout = Layout::new(flash.shape(), value("memory_bytes"), memory_slabs)?;
        open(flash, files, layout, options, environment, startup)
    }
}

/// Slabs that one opening begins at most, without a trace of the last ones.
const SEQUENCES_OF_OPENING: u64 = 1 << 20;

/// Items before its turn that an item's bucket is asked for.
const LOOK_AHEAD: usize = 12;

/// Opens the cache that `flash` and `files` have, or creates one.
fn open<F: Flash, D: Device>(
    flash: F,
    files: D,
    layout: Layout,
    options: &OptionValues,
    environment: &Environment,
    startup: Startup,
) -> Result<Dida<F, D>> {
    let outlives_power = options.value(OPTIONS, "after_power_loss") != 0;
    let told = match journal::read(&files) {
        Ok(Some(told)) if !told.is_closed && told.identity.boot != startup.boot => {
            if outlives_power {
                Some(told)
            } else {
                log::warn!(
                    "the flash cache starts empty: the machine was started anew without a clean \
                     stop (after_power_loss = keep saves what was on flash)"
                );
                None
            }
        }
        Ok(told) => told,
        Err(error) if error.kind() == ErrorKind::Corruption => {
            log::warn!("the flash cache starts empty: {error}");
            None
        }
        Err(error) => return Err(error),
    };
    if let Some(told) = &told {
        check_shape(&told.identity, &layout)?;
    } else {
        begin_empty(&flash, &files)?;
    }
    let seed = told.as_ref().map_or(environment.seed, |told| told.identity.seed);
    let made_at = environment.clock.unix_ms().to_le_bytes();
    let store = told.as_ref().map_or_else(|| seed.low(&made_at), |told| told.identity.store);
    let identity = Identity {
        store,
        seed,
        boot: startup.boot,
        slab_bytes: layout.shape.slab_bytes(),
        granule_bits: layout.granule_bits,
    };
    let found = match &told {
        Some(told) => find(&flash, &files, &layout, told)?,
        None => Found { next_sequence: 1, ..Found::default() },
    };
    // What was begun and left no trace does not have its sequence used again.
    let next_sequence = found.next_sequence + SEQUENCES_OF_OPENING;
    let journal = Journal::begin(&files, identity, told.as_ref(), next_sequence, outlives_power)?;
    files.sync_dir()?;
    let next_file = found.next_file;
    let begun = Begun { seed, store, next_sequence, next_file, journal };
    let dida = Dida::with(flash, files, layout, options, environment, begun);
    if let Some(told) = told {
        dida.recover(told, found)?;
    }
    Ok(dida)
}

fn check_shape(identity: &Identity, layout: &Layout) -> Result<()> {
    let Identity { slab_bytes, granule_bits, .. } = *identity;
    let own = layout.shape.slab_bytes();
    if slab_bytes != own || granule_bits != layout.granule_bits {
        let message = format!(
            "the flash cache was made on blocks of {slab_bytes} bytes with items at multiples of \
             {}; this flash has blocks of {own} bytes and would have items at multiples of {}: \
             give it the flash that it had, or remove its files to begin an empty one",
            1_u64 << granule_bits,
            1_u64 << layout.granule_bits
        );
        return Err(Error::new(ErrorKind::Config, message));
    }
    Ok(())
}

/// Removes what an earlier cache left. The journal goes first: without it nothing is believed.
fn begin_empty<F: Flash, D: Device>(flash: &F, files: &D) -> Result<()> {
    journal::remove_all(files)?;
    for file in files.list()?.into_iter().filter(|file| file.starts_with(PREFIX)) {
        files.remove(&file)?;
    }
    files.sync_dir()?;
    for block in flash.held() {
        flash.give_back(block)?;
    }
    Ok(())
}

/// What is on flash and in files.
#[derive(Default)]
struct Found {
    /// Blocks with slabs, by sequence.
    slabs: BTreeMap<u64, (u32, Footer)>,
    /// The blocks of the checkpoint, by part.
    parts: BTreeMap<u32, (u32, Footer)>,
    /// Files of slabs, by sequence.
    files: BTreeMap<u64, u64>,
    /// Blocks and files that nobody needs.
    useless: Vec<u32>,
    useless_files: Vec<String>,
    next_sequence: u64,
    next_file: u64,
}

fn find<F: Flash, D: Device>(flash: &F, files: &D, layout: &Layout, told: &Told) -> Result<Found> {
    let mut found = Found { next_sequence: told.sequence_above.max(1), ..Found::default() };
    let store = told.identity.store;
    for block in flash.held() {
        match footer(flash, layout, block, store) {
            Some(footer) => {
                found.next_sequence = found.next_sequence.max(footer.sequence + 1);
                let is_its = told.checkpoint == Some(footer.checkpoint);
                match footer.kind {
                    Kind::Items => {
                        let twin = found.slabs.insert(footer.sequence, (block, footer));
                        found.useless.extend(twin.map(|(block, _)| block));
                    }
                    Kind::Checkpoint if is_its => {
                        let twin = found.parts.insert(footer.part, (block, footer));
                        found.useless.extend(twin.map(|(block, _)| block));
                    }
                    Kind::Checkpoint => found.useless.push(block),
                }
            }
            None => found.useless.push(block),
        }
    }
    for file in files.list()? {
        let Some(digits) = file.strip_prefix(PREFIX) else { continue };
        let number = u64::from_str_radix(digits, 16).ok();
        found.next_file = found.next_file.max(number.map_or(0, |number| number + 1));
        let log = files.open_log(&file)?;
        let header = log.bytes(0, HEADER_BYTES.min(log.len() as usize));
        match (number, slab::decode_header(header, store)) {
            (Some(number), Some((Kind::Items, sequence)))
                if !found.slabs.contains_key(&sequence) =>
            {
                found.next_sequence = found.next_sequence.max(sequence + 1);
                found.files.insert(sequence, number);
            }
            _ => found.useless_files.push(file),
        }
    }
    Ok(found)
}

/// The footer of a block, if it has a whole one.
fn footer<F: Flash>(flash: &F, layout: &Layout, block: u32, store: u64) -> Option<Footer> {
    let shape = layout.shape;
    let page = shape.page_bytes as usize;
    let pages = FOOTER_BYTES.div_ceil(page);
    let mut buffer = AlignedBuf::zeroed(pages * page);
    flash.read(block, shape.pages - pages as u32, &mut buffer).ok()?;
    Footer::decode(&buffer[buffer.len() - FOOTER_BYTES..], store)
}

/// What the checkpoint says.
#[derive(Default)]
struct Checkpoint {
    /// Sequence of each slab that was on flash, and its number then.
    on_flash: BTreeMap<u64, u32>,
    in_memory: BTreeSet<u64>,
    /// Slabs from this sequence on were begun later; 0 without a checkpoint.
    sequence: u64,
    parts: Vec<Part>,
}

impl<F: Flash, D: Device> Dida<F, D> {
    fn recover(&self, told: Told, found: Found) -> Result<()> {
        let Found { slabs, parts, files, useless, useless_files, .. } = found;
        for block in useless {
            self.flash.give_back(block)?;
        }
        for file in useless_files {
            self.files.remove(&file)?;
        }
        self.cleared_before.store(told.cleared_before, Ordering::Release);
        let checkpoint = self.load_checkpoint(&parts);
        if told.checkpoint.is_some() && checkpoint.parts.is_empty() {
            log::warn!("the checkpoint of the flash cache is damaged; what only it knew is lost");
        }
        *self.checkpoint.lock().expect("no panic while locked") =
            parts.values().map(|(block, _)| *block).collect();
        let is_dropped =
            |sequence: u64| told.dropped.contains(&sequence) || sequence < told.cleared_before;
        let has = !checkpoint.parts.is_empty();
        let is_later = |sequence: u64| match has {
            true => sequence >= checkpoint.sequence || checkpoint.in_memory.contains(&sequence),
            false => sequence >= told.known_from,
        };
        let mut later = Vec::new();
        let mut renumbered = BTreeMap::new();
        for (sequence, (block, footer)) in slabs {
            let number = checkpoint.on_flash.get(&sequence).copied();
            if is_dropped(sequence) || number.is_none() && !is_later(sequence) {
                self.flash.give_back(block)?;
                continue;
            }
            let own = self.number_for(number);
            let Some(own) = own else {
                self.flash.give_back(block)?;
                continue;
            };
            self.place(own, block, &footer);
            match number {
                Some(number) => drop(renumbered.insert(number, (own, sequence, block, footer))),
                None => later.push((own, block, footer)),
            }
        }
        self.take_slots(&checkpoint, &renumbered, &told);
        for (number, block, footer) in later {
            self.take_summary(number, block, &footer, &told, None)?;
        }
        for (sequence, file) in files {
            if is_dropped(sequence) || !is_later(sequence) {
                self.files.remove(&name(file))?;
            } else {
                self.take_file(sequence, file, &told)?;
            }
        }
        Ok(())
    }

    /// The number that a slab had, or any.
    fn number_for(&self, number: Option<u32>) -> Option<u32> {
        match number {
            Some(number) if self.slabs.take_number(number) => Some(number),
            _ => self.slabs.take(),
        }
    }

    fn place(&self, number: u32, block: u32, footer: &Footer) {
        let tick = self.tick();
        self.slabs.begin(number, footer.sequence, tick, Whereabouts::Block(block));
        let slab = self.slabs.get(number);
        slab.items.store(footer.items, Ordering::Relaxed);
        slab.items_end.store(footer.items_end, Ordering::Relaxed);
        slab.summary_end.store(footer.summary_end, Ordering::Relaxed);
    }

    fn load_checkpoint(&self, blocks: &BTreeMap<u32, (u32, Footer)>) -> Checkpoint {
        let mut checkpoint = Checkpoint::default();
        for (block, footer) in blocks.values() {
            let start = HEADER_BYTES as u32;
            let bytes = self.read_bytes(*block, start, footer.items_end);
            let whole = bytes
                .filter(|bytes| slab::content_sum(self.store, start, bytes) == footer.content_sum);
            let Some(part) = whole.and_then(|bytes| Part::decode(&bytes)) else {
                log::warn!("a part of the flash cache's checkpoint is damaged; its slots are lost");
                continue;
            };
            checkpoint.on_flash.extend(part.on_flash.iter().map(|(n, sequence)| (*sequence, *n)));
            checkpoint.in_memory.extend(&part.in_memory);
            checkpoint.sequence = part.sequence;
            checkpoint.parts.push(part);
        }
        checkpoint
    }

    /// Puts the slots of a checkpoint into the index, as far as their slabs are there.
    fn take_slots(
        &self,
        checkpoint: &Checkpoint,
        slabs: &BTreeMap<u32, (u32, u64, u32, Footer)>,
        told: &Told,
    ) {
        let has_same_slots = |part: &Part| {
            part.buckets == self.layout.buckets && part.slot_bits == self.layout.slot_bits()
        };
        let mut by_number = vec![None; self.layout.slab_numbers as usize + 1];
        for (number, (own, sequence, ..)) in slabs {
            if let Some(entry) = by_number.get_mut(*number as usize) {
                *entry = Some((*own, *sequence));
            }
        }
        let mut elsewhere: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for part in &checkpoint.parts {
            let is_same = has_same_slots(part);
            for (at, slot) in (part.first_slot as usize..).zip(&part.slots) {
                if *slot == 0 {
                    continue;
                }
                let Place { slab, offset } = Layout::place_by(part.slot_bits, *slot);
                let Some(Some((own, sequence))) = by_number.get(slab as usize) else { continue };
                if told.dead.contains(&(*sequence, offset)) {
                    continue;
                }
                if is_same && at < self.index.slot_count() {
                    self.index.store(at, self.layout.with_slab(*slot, *own));
                    self.slabs.get(*own).live.fetch_add(1, Ordering::Relaxed);
                } else {
                    elsewhere.entry(*own).or_default().insert(offset);
                }
            }
        }
        if elsewhere.is_empty() {
            return;
        }
        log::info!("the memory of the flash cache changed: its index is made anew");
        for (own, _, block, footer) in slabs.values() {
            if let Some(alive) = elsewhere.get(own)
                && let Err(error) = self.take_summary(*own, *block, footer, told, Some(alive))
            {
                log::warn!("a slab of the flash cache is lost: {error}");
            }
        }
    }

    /// Puts the items of a slab on flash into the index, but those that are dead; with `alive`,
    /// only these.
    fn take_summary(
        &self,
        number: u32,
        block: u32,
        footer: &Footer,
        told: &Told,
        alive: Option<&BTreeSet<u32>>,
    ) -> Result<()> {
        let Footer { sequence, items_end, summary_end, items, content_sum, .. } = *footer;
        let summary = self.read_summary(block, items_end, summary_end, items, Some(content_sum));
        let Some(summary) = summary else {
            log::warn!("the summary of a slab of the flash cache is damaged; the slab is lost");
            self.slabs.release(number);
            return self.flash.give_back(block);
        };
        let ends = summary.iter().skip(1).map(|next| next.offset).chain([items_end]);
        let dead: BTreeSet<u32> =
            told.dead.range((sequence, 0)..=(sequence, u32::MAX)).map(|(_, at)| *at).collect();
        for (n, (Summed { hash, offset }, end)) in summary.iter().zip(ends).enumerate() {
            if let Some(ahead) = summary.get(n + LOOK_AHEAD) {
                self.index.prefetch(self.layout.bucket(ahead.hash));
            }
            let is_alive = alive.is_none_or(|alive| alive.contains(offset));
            if is_alive && !dead.contains(offset) {
                let place = Place { slab: number, offset: *offset };
                self.insert(*hash, place, (end - offset) as usize)?;
            }
        }
        Ok(())
    }

    /// Names an item in the index. If another has its slot, the later one stays.
    fn insert(&self, hash: u64, place: Place, bytes: usize) -> Result<()> {
        let bucket = self.layout.bucket(hash);
        let slot = self.layout.slot(hash, place, bytes);
        self.slabs.get(place.slab).live.fetch_add(1, Ordering::Relaxed);
        let sequence = |at: usize| {
            let slab = self.slabs.get(self.layout.place_of(self.index.load(at)).slab);
            slab.sequence.load(Ordering::Relaxed)
        };
        let found = self.index.find(&self.layout, hash).map(|found| found.at);
        let at = found.or_else(|| self.index.empty(bucket)).unwrap_or_else(|| {
            let slots = self.index.bucket(bucket).map(|found| found.at);
            slots.min_by_key(|at| sequence(*at)).expect("the bucket is full")
        });
        let old = self.index.load(at);
        if old != 0 {
            let old = self.layout.place_of(old);
            self.record(&[self.dead(old)])?;
            self.bury(old);
        }
        self.index.store(at, slot);
        Ok(())
    }

    /// Takes over a slab that was in memory.
    fn take_file(&self, sequence: u64, file: u64, told: &Told) -> Result<()> {
        // What does not fit into memory is written first.
        while !self.streams.has_free_place() {
            if !self.drain_one()? {
                log::warn!("a slab of the flash cache is lost: no memory is left for it");
                return self.files.remove(&name(file));
            }
        }
        let Some(number) = self.slabs.take() else { return self.files.remove(&name(file)) };
        let log = self.files.open_log(&name(file))?;
        let bytes = log.bytes(0, log.len() as usize);
        let seal = self.seal(sequence);
        let (mut at, mut before) = (HEADER_BYTES, HEADER_BYTES as u32);
        let mut summary = Vec::new();
        let mut items = Vec::new();
        while at < bytes.len()
            && let Some((item, len)) = item::decode(&bytes[at..], seal, at as u32)
        {
            let (hash, offset) = (self.seed.low(item.key), at as u32);
            slab::sum_up(&mut summary, hash, offset, before, self.layout.granule_bits);
            before = offset;
            items.push((hash, offset, len));
            at += self.layout.padded(len);
        }
        let count = items.len() as u32;
        if count == 0 || at + summary.len() + FOOTER_BYTES > bytes.len() {
            self.slabs.release(number);
            return self.files.remove(&name(file));
        }
        let (tick, end) = (self.tick(), at as u32);
        let adopted = self.streams.adopt(|place| {
            self.slabs.begin(number, sequence, tick, Whereabouts::Memory(place));
            let slab = Open::empty(number, sequence, 0, Spare { place, file, log });
            Open { end, summary, before, items: count, ..slab }
        });
        debug_assert!(adopted, "there was a free place");
        let slab = self.slabs.get(number);
        slab.items.store(count, Ordering::Relaxed);
        slab.items_end.store(at as u32, Ordering::Relaxed);
        for (hash, offset, len) in items {
            if !told.dead.contains(&(sequence, offset)) {
                self.insert(hash, Place { slab: number, offset }, len)?;
            }
        }
        Ok(())
    }
}
