//! Opening: the newest checkpoint, and what was written after it.

use super::core::{Core, Trim};
use super::page::{Header, Kind};
use super::{Map, Part, Policy, checkpoint};
use crate::functions::{Functions, Mapping};
use silica_base::{Error, ErrorKind, Result};
use silica_device::blocks::{BlockState, FlashDevice};
use std::collections::{BTreeMap, BTreeSet};

/// Something that happened after the checkpoint.
enum Event {
    Page { number: u32, at: u32, kind: Kind, logical: u64 },
    Trim(Trim),
}

/// What the blocks say.
#[derive(Default)]
struct Scan {
    /// Parts of checkpoints, by last sequence and part.
    checkpoints: BTreeMap<u64, BTreeMap<u32, Vec<u8>>>,
    /// By the meta block its checkpoints.
    meta: BTreeMap<u32, BTreeSet<u64>>,
    trims: Vec<Trim>,
    /// Blocks of data, with the sequence of the last page that can be read.
    data: Vec<(u32, u64)>,
    last_sequence: u64,
}

impl<D: FlashDevice> Policy<D> {
    /// Opens the logical device with the number `device` in the blocks that the function level
    /// found. Reads the newest checkpoint, one page of each block, and the pages that are newer.
    ///
    /// # Errors
    /// `NotFound` if it was not formatted, or not to the end; `Config` if a block holds something
    /// else; `Unsupported`, `Corruption`; what the device said.
    pub fn open(functions: Functions<D>, device: u64) -> Result<Self> {
        let mut core = Core::new(functions, device)?;
        let mut scan = Scan::default();
        for block in core.functions.found() {
            let number = core.functions.geometry().index_of(block);
            scan.look_at(&core, number)?;
        }
        let (last, content) = scan.newest()?;
        core.sequence = scan.last_sequence.max(last) + 1;
        let mut parts = checkpoint::decode(&core, &content)?;
        let mut events: BTreeMap<u64, Event> = BTreeMap::new();
        for trim in scan.trims.iter().filter(|trim| trim.sequence > last) {
            events.insert(trim.sequence, Event::Trim(*trim));
        }
        let mut firsts = BTreeMap::new();
        for (number, newest) in &scan.data {
            let is_new =
                *newest > last && scan_data(&core, *number, last, &mut events, &mut firsts)?;
            if is_new {
                parts.iter_mut().for_each(|part| part.forget(*number));
            }
        }
        // Blocks of the checkpoint that have no pages any more.
        let there: BTreeSet<u32> = scan.data.iter().map(|(number, _)| *number).collect();
        parts.iter_mut().for_each(|part| part.forget_all_but(&there));
        if let Some(newest) = events.keys().next_back() {
            core.sequence = core.sequence.max(newest + 1);
        }
        let since = events.len() as u64;
        replay(&core, &mut parts, events);
        adopt(&mut core, &mut parts, &firsts, &scan, last)?;
        super::limit_open(&core, &mut parts)?;
        core.since_checkpoint = since;
        Ok(Policy { core, parts })
    }
}

impl Scan {
    /// Reads the last page of a block that can be read, and all of them if it is a meta block.
    fn look_at<D: FlashDevice>(&mut self, core: &Core<D>, number: u32) -> Result<()> {
        let written = core.functions.block(core.address(number))?.written;
        let mut data = vec![0; core.data_bytes];
        for page in (0..written).rev() {
            let Some(header) = core.read(number, page, &mut data)? else {
                refuse_strangers(core, number, page)?;
                continue;
            };
            if header.device != core.device {
                return Err(stranger(core, number));
            }
            self.last_sequence = self.last_sequence.max(header.sequence);
            match header.kind {
                Kind::Data | Kind::Hole => {
                    self.data.push((number, header.sequence));
                    return Ok(());
                }
                Kind::Trims => {
                    self.meta.entry(number).or_default();
                    self.trims.extend(Core::<D>::trims_of(&header, &data));
                }
                Kind::Checkpoint => {
                    self.meta.entry(number).or_default().insert(header.logical);
                    let parts = self.checkpoints.entry(header.logical).or_default();
                    parts.insert(header.part, data.clone());
                }
            }
        }
        Ok(())
    }

    /// The newest whole checkpoint: its last sequence and content.
    fn newest(&self) -> Result<(u64, Vec<u8>)> {
        for (last, parts) in self.checkpoints.iter().rev() {
            let Some(first) = parts.get(&0) else { continue };
            if parts.keys().copied().eq(0..checkpoint::count_of(first)) {
                return Ok((*last, parts.values().flatten().copied().collect()));
            }
        }
        let message = "no logical device was formatted to the end here; release what the \
                       function level found, and format it";
        Err(Error::new(ErrorKind::NotFound, message))
    }
}

fn stranger<D: FlashDevice>(core: &Core<D>, number: u32) -> Error {
    let message = format!(
        "{} holds pages of something else than the logical device {}; open what wrote it, or erase \
         it",
        core.address(number),
        core.device
    );
    Error::new(ErrorKind::Config, message)
}

/// Refuses a block with a page that can be read and is not of this level.
fn refuse_strangers<D: FlashDevice>(core: &Core<D>, number: u32, page: u32) -> Result<()> {
    let geometry = core.functions.geometry();
    let mut bytes = vec![0; geometry.page_bytes as usize];
    match core.functions.read(core.address(number).page(page), &mut bytes, &mut []) {
        Ok(()) => Err(stranger(core, number)),
        Err(_) => Ok(()),
    }
}

/// Reads a block of data from its end to the checkpoint. True if all its pages are newer.
fn scan_data<D: FlashDevice>(
    core: &Core<D>,
    number: u32,
    last: u64,
    events: &mut BTreeMap<u64, Event>,
    firsts: &mut BTreeMap<u32, u64>,
) -> Result<bool> {
    let written = core.functions.block(core.address(number))?.written;
    let mut data = vec![0; core.data_bytes];
    for at in (0..written).rev() {
        let Some(Header { kind, logical, sequence, .. }) = core.read(number, at, &mut data)? else {
            continue;
        };
        if sequence <= last {
            return Ok(false);
        }
        firsts.insert(number, sequence);
        events.insert(sequence, Event::Page { number, at, kind, logical });
    }
    Ok(true)
}

/// Applies what happened after the checkpoint, in its order.
fn replay<D: FlashDevice>(core: &Core<D>, parts: &mut [Part], events: BTreeMap<u64, Event>) {
    for event in events.into_values() {
        match event {
            Event::Page { number, at, kind, logical } => {
                let Some(part) = parts.iter_mut().find(|part| part.has(logical)) else { continue };
                let page = logical - part.options.begin;
                match &mut part.map {
                    Map::ByPage(map) => map.map[page as usize] = number * core.block_pages + at,
                    Map::ByBlock(map) => map.replay(core, page, number, at, kind),
                }
            }
            Event::Trim(Trim { first, count, .. }) => {
                let Some(part) = parts.iter_mut().find(|part| part.has(first)) else { continue };
                let count = count.min(part.options.end - first);
                let page = first - part.options.begin;
                match &mut part.map {
                    Map::ByPage(map) => {
                        map.map[page as usize..(page + count) as usize].fill(super::NONE);
                    }
                    Map::ByBlock(map) => map.replay_trim(core, page, count),
                }
            }
        }
    }
}

/// Claims the blocks that count, and gives the others back.
fn adopt<D: FlashDevice>(
    core: &mut Core<D>,
    parts: &mut [Part],
    firsts: &BTreeMap<u32, u64>,
    scan: &Scan,
    last: u64,
) -> Result<()> {
    let mut held = Vec::new();
    let mut open = BTreeSet::new();
    for part in parts {
        match &mut part.map {
            Map::ByPage(map) => {
                held.extend(map.adopt(core));
                firsts.iter().for_each(|(number, first)| map.set_first(*number, *first));
            }
            Map::ByBlock(map) => {
                held.extend(map.adopt(|piece| {
                    let status = core.functions.block(core.address(piece.number))?;
                    let takes_more =
                        status.state == BlockState::Open && status.written == piece.pages;
                    if takes_more && piece.pages < core.block_pages {
                        open.insert(piece.number);
                    }
                    Ok(open.contains(&piece.number))
                })?);
            }
        }
    }
    // Meta blocks with trims or checkpoints that are newer stay until the next checkpoint.
    for (number, checkpoints) in &scan.meta {
        let is_old = checkpoints.last().is_some_and(|newest| *newest < last);
        if !is_old {
            core.meta.push(*number);
            held.push(*number);
        }
    }
    for number in held {
        core.functions.claim(core.address(number), Mapping::Page)?;
        if !open.contains(&number) {
            core.finish(number)?;
        }
    }
    core.functions.release_found()?;
    Ok(())
}
