//! Random programs of operations, a power cut, and a comparison with the states that are allowed.
//!
//! The twin is cut at every operation. The image is cut by hand: each sector of the file that was
//! written since the last sync is the old or the new one, by the seed.

use super::*;
use silica_base::{AlignedBuf, Prng, test_size};
use silica_device::blocks::{BlockState, FlashQueue, Operation, Request};
use silica_device::sim::FlashRates;

/// A state that a block may be found in.
#[derive(Clone, Default, Debug)]
struct Version {
    /// Pages, and whether each must be readable.
    pages: Vec<(u64, bool)>,
    is_finished: bool,
    is_undefined: bool,
    erases: u64,
}

/// What is known of a block: its states since what is certain, the oldest first.
#[derive(Clone, Debug)]
struct Known {
    versions: Vec<Version>,
    /// The block failed; nothing takes that back.
    is_bad: bool,
    /// An operation on the block was cut, which may have failed before.
    may_be_bad: bool,
}

impl Known {
    fn newest(&self) -> &Version {
        self.versions.last().expect("a block has a state")
    }

    /// Everything up to now is certain.
    fn certain(&mut self) {
        self.versions.drain(..self.versions.len() - 1);
        self.versions[0].pages.iter_mut().for_each(|(_, must)| *must = true);
    }

    fn step(&mut self, change: impl FnOnce(&mut Version)) {
        let mut version = self.newest().clone();
        change(&mut version);
        self.versions.push(version);
    }
}

/// A run of operations on few blocks, so that they meet.
struct Run {
    prng: Prng,
    known: Vec<Known>,
    next_id: u64,
    is_durable: bool,
    log: Vec<String>,
}

const BLOCKS: u64 = 3;

fn block_number(number: usize) -> BlockAddress {
    [address(0, 0, 0), address(1, 0, 0), address(1, 0, 1)][number]
}

impl Run {
    fn new(seed: u64, flash: &impl FlashDevice) -> Run {
        let is_bad = |number| flash.block(block_number(number)).unwrap().state == BlockState::Bad;
        let known = (0..BLOCKS as usize)
            .map(|n| Known {
                versions: vec![Version::default()],
                is_bad: is_bad(n),
                may_be_bad: false,
            })
            .collect();
        let is_durable = flash.abilities().is_durable_at_return;
        Run { prng: Prng::new(seed), known, next_id: 1, is_durable, log: Vec::new() }
    }

    /// Does something random; false if the power was cut.
    fn step(&mut self, flash: &impl FlashDevice) -> bool {
        let number = self.prng.below(BLOCKS) as usize;
        let fault = match self.prng.below(12) {
            0 | 1 => self.reset(flash, number),
            2 => self.finish(flash, number),
            3 => self.sync(flash),
            4 | 5 => self.burst(flash),
            _ => self.append(flash, number),
        };
        self.log.push(format!("{number} {fault:?}"));
        fault != Some(FlashFault::PowerLost)
    }

    fn returned(&mut self, number: usize) {
        if self.is_durable {
            self.known[number].certain();
        }
    }

    fn append(&mut self, flash: &impl FlashDevice, number: usize) -> Option<FlashFault> {
        let count = 1 + self.prng.below(4);
        let ids: Vec<u64> = (self.next_id..self.next_id + count).collect();
        self.next_id += count;
        let fault = append(flash, block_number(number), &ids).err().map(|e| e.fault());
        let attempted = match fault {
            None => count as usize,
            Some(FlashFault::PowerLost) => count as usize,
            Some(FlashFault::ProgramFailed) => {
                self.known[number].is_bad = true;
                let status = flash.block(block_number(number)).unwrap();
                status.written as usize - self.known[number].newest().pages.len()
            }
            Some(refused) => {
                self.check_refusal(number, refused, count);
                0
            }
        };
        self.known[number].may_be_bad |= fault == Some(FlashFault::PowerLost);
        let takes = self.takes_pages(number);
        for id in ids.into_iter().take(attempted).filter(|_| takes || fault.is_none()) {
            self.known[number].step(|version| version.pages.push((id, false)));
        }
        if fault != Some(FlashFault::PowerLost) {
            self.returned(number);
        }
        fault
    }

    fn takes_pages(&self, number: usize) -> bool {
        let newest = self.known[number].newest();
        !newest.is_finished && !newest.is_undefined && newest.pages.len() < 8
    }

    fn check_refusal(&self, number: usize, refused: FlashFault, count: u64) {
        let known = &self.known[number];
        let newest = known.newest();
        let allowed = match refused {
            FlashFault::BadBlock => known.is_bad,
            FlashFault::NeedsReset => newest.is_undefined,
            FlashFault::NotErased => newest.is_finished || newest.pages.len() == 8,
            FlashFault::OutOfRange => newest.pages.len() as u64 + count > 8,
            _ => false,
        };
        assert!(allowed, "{refused:?} of {known:?}");
    }

    fn reset(&mut self, flash: &impl FlashDevice, number: usize) -> Option<FlashFault> {
        let fault = flash.reset(block_number(number)).err().map(|e| e.fault());
        self.known[number].may_be_bad |= fault == Some(FlashFault::PowerLost);
        let erases = self.known[number].newest().erases + 1;
        match fault {
            None | Some(FlashFault::PowerLost) => {
                if !self.known[number].is_bad {
                    self.known[number]
                        .step(|version| *version = Version { erases, ..Version::default() });
                }
            }
            Some(FlashFault::EraseFailed) => {
                self.known[number].is_bad = true;
                let erases = erases - 1;
                self.known[number].versions = vec![Version { erases, ..Version::default() }];
            }
            Some(refused) => self.check_refusal(number, refused, 0),
        }
        if fault.is_none() {
            self.returned(number);
        }
        fault
    }

    fn finish(&mut self, flash: &impl FlashDevice, number: usize) -> Option<FlashFault> {
        let fault = flash.finish(block_number(number)).err().map(|e| e.fault());
        match fault {
            None | Some(FlashFault::PowerLost) => {
                if !self.known[number].is_bad && !self.known[number].newest().is_undefined {
                    self.known[number].step(|version| version.is_finished = true);
                }
            }
            Some(refused) => self.check_refusal(number, refused, 0),
        }
        if fault.is_none() {
            self.returned(number);
        }
        fault
    }

    fn sync(&mut self, flash: &impl FlashDevice) -> Option<FlashFault> {
        let fault = flash.sync().err().map(|e| e.fault());
        if fault.is_none() {
            self.known.iter_mut().for_each(Known::certain);
        }
        fault
    }

    /// One page for each block that takes one, in flight together. What was popped is certain on
    /// a durable device.
    fn burst(&mut self, flash: &impl FlashDevice) -> Option<FlashFault> {
        let mut queue = flash.queue(8);
        let mut fault = None;
        for number in 0..BLOCKS as usize {
            if self.known[number].is_bad || !self.takes_pages(number) {
                continue;
            }
            let id = self.next_id;
            self.next_id += 1;
            let mut pages = AlignedBuf::zeroed(PAGE);
            pages.copy_from_slice(&page_of(id));
            let block = block_number(number);
            let request = Request::Append { block, expected: None, stream: 0 };
            queue.push(Operation { of: (number, id), request, pages, spare: spare_of(id) });
            self.known[number].step(|version| version.pages.push((id, false)));
        }
        while let Some((operation, result)) = queue.pop() {
            let (number, _) = operation.of;
            match result.map_err(|e| e.fault()) {
                Ok(_) => self.returned(number),
                Err(FlashFault::ProgramFailed) => {
                    self.known[number].is_bad = true;
                    self.known[number].versions.pop();
                }
                Err(other) => {
                    self.known[number].may_be_bad = true;
                    fault = Some(other);
                }
            }
        }
        fault
    }

    /// Checks what is found after a power cut, and goes on from there.
    fn check(&mut self, flash: &impl FlashDevice) {
        for number in 0..BLOCKS as usize {
            let found = found(flash, block_number(number));
            let known = &self.known[number];
            let is_bad = flash.block(block_number(number)).unwrap().state == BlockState::Bad;
            let may_be = if is_bad { known.is_bad || known.may_be_bad } else { !known.is_bad };
            assert!(may_be, "block {number} is bad: {is_bad}, known {known:?}");
            // Pages of a block that was reset since need not be readable.
            let newest = known.newest().erases;
            let fits = |version: &Version| {
                fits(&found, version, is_bad, !self.is_durable && version.erases < newest)
            };
            let is_half_reset =
                found.is_undefined && known.versions.windows(2).any(|w| w[1].erases > w[0].erases);
            let was_undefined = found.is_undefined && known.versions[0].is_undefined;
            assert!(
                known.versions.iter().any(fits) || is_half_reset || was_undefined,
                "block {number}: found {found:?}, known {known:?}\n{}",
                self.log.join("\n")
            );
            self.known[number] = Known { versions: vec![found], is_bad, may_be_bad: false };
        }
    }
}

/// What a block holds. Pages that cannot be read have the id 0.
fn found(flash: &impl FlashDevice, block: BlockAddress) -> Version {
    let status = flash.block(block).unwrap();
    let mut version = Version { erases: status.erases, ..Version::default() };
    version.is_undefined = status.state == BlockState::Undefined;
    version.is_finished = status.state == BlockState::Full && status.written < 8;
    for page in 0..status.written {
        let (mut bytes, mut spare) = ([0; PAGE], [0; SPARE]);
        match flash.read(block.page(page), &mut bytes, &mut spare) {
            Ok(()) => {
                version.pages.push((id_of(&bytes, &spare), true));
            }
            Err(e) => {
                assert_eq!(e.fault(), FlashFault::Uncorrectable);
                version.pages.push((0, false));
            }
        }
    }
    let beyond = is_page(flash, block.page(status.written.min(7)), 0);
    if status.written < 8 {
        let fault = fault(beyond);
        assert!(matches!(fault, FlashFault::Unwritten | FlashFault::NeedsReset), "{fault:?}");
    }
    version
}

/// The id whose page this is. Runs have few ids.
fn id_of(bytes: &[u8], spare: &[u8]) -> u64 {
    (1..10_000)
        .find(|id| Prng::new(*id).next_u64().to_le_bytes() == bytes[..8])
        .filter(|id| bytes == page_of(*id) && spare == spare_of(*id))
        .expect("a page is one that was written, whole")
}

/// True if a block may be found so that was left so. A bad block does not say whether it was
/// finished.
fn fits(found: &Version, allowed: &Version, is_bad: bool, was_reset: bool) -> bool {
    let full = |version: &Version| version.is_finished || version.pages.len() == 8;
    found.pages.len() == allowed.pages.len()
        && found.is_undefined == allowed.is_undefined
        && (is_bad || full(found) == full(allowed))
        && (found.is_undefined || is_bad || found.erases == allowed.erases)
        && found.pages.iter().zip(&allowed.pages).all(|(found, allowed)| {
            found.0 == allowed.0 || found.0 == 0 && (was_reset || !allowed.1)
        })
}

fn options(seed: u64) -> SimFlashOptions {
    let rates = FlashRates { program_failed: 60, erase_failed: 40, ..FlashRates::default() };
    let rates = if seed.is_multiple_of(3) { rates } else { FlashRates::default() };
    match seed % 2 {
        0 => SimFlashOptions { rates, ..SimFlashOptions::small() },
        _ => SimFlashOptions { rates, ..SimFlashOptions::zones(small()) },
    }
}

#[test]
fn the_twin_is_cut_at_every_operation() {
    for seed in 0..test_size(20, 60, 2_000) {
        for cut in 1.. {
            let flash = SimFlash::new(seed, options(seed)).fork(1000 * seed + cut);
            let mut run = Run::new(seed, &flash);
            flash.cut_at_op(cut);
            let mut steps = 0;
            while steps < 25 && run.step(&flash) {
                steps += 1;
            }
            if steps == 25 {
                break;
            }
            // A second cut, close behind the first.
            let flash = flash.reopen();
            run.check(&flash);
            flash.cut_at_op(flash.op_count() + 1 + cut % 7);
            for _ in 0..12 {
                if !run.step(&flash) {
                    break;
                }
            }
            flash.power_cut();
            run.check(&flash.reopen());
        }
    }
}

#[test]
fn the_image_survives_cuts_that_keep_any_of_the_sectors() {
    use std::os::unix::fs::FileExt;
    const SECTOR: usize = 512;
    for seed in 0..test_size(60, 200, 20_000) {
        let mut medium = ImageMedium::with_endurance(None);
        let mut run = Run::new(seed, medium.flash());
        let mut prng = Prng::new(!seed);
        for _ in 0..4 {
            run.sync(medium.flash());
            let synced = std::fs::read(&medium.path).unwrap();
            let syncs = medium.flash().counters().syncs();
            while prng.below(12) > 0 && medium.flash().counters().syncs() == syncs {
                // Syncs would need another copy of the file.
                let number = run.prng.below(BLOCKS) as usize;
                match run.prng.below(8) {
                    0 => run.reset(medium.flash(), number),
                    1 => run.finish(medium.flash(), number),
                    2 => run.burst(medium.flash()),
                    _ => run.append(medium.flash(), number),
                };
            }
            let written = std::fs::read(&medium.path).unwrap();
            let file = std::fs::OpenOptions::new().write(true).open(&medium.path).unwrap();
            let keeps = prng.below(4);
            for at in (0..written.len()).step_by(SECTOR) {
                let sector = at..at + SECTOR;
                if written[sector.clone()] != synced[sector.clone()] && prng.below(4) >= keeps {
                    file.write_all_at(&synced[sector], at as u64).unwrap();
                }
            }
            medium = medium.reopened();
            run.check(medium.flash());
        }
    }
}
