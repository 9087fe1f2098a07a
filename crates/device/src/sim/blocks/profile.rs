//! Devices that exist, as far as the emulator knows them: how they are divided, how long they take,
//! how many erases they bear.

use super::{FlashTiming, SimFlashOptions};
use crate::blocks::Geometry;
use silica_base::{Error, ErrorKind, Result};

/// A named device of the emulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlashProfile {
    /// Name on command lines.
    pub name: &'static str,
    /// Where its numbers come from.
    pub source: &'static str,
    /// How it is divided.
    pub geometry: Geometry,
    /// How long it takes.
    pub timing: FlashTiming,
    /// Erases that a block bears; `None` for as many as one likes.
    pub endurance: Option<u32>,
}

/// The open-channel drive of Shen's dissertation (2.4.3, 2.6): 12 channels of 16 LUNs, MLC.
///
/// - 24 chips of 66 GB are 984 blocks a LUN of 512 pages of 16 KiB.
/// - A block is programmed in 0.356 s, so a page in 695.3 us, its way over the bus included. The
///   dissertation names 600 us for the program (2.2); the remaining 95.3 us are the transfer, which
///   is 172 MB/s and what a bus of 200 MT/s gives.
/// - A read is 50 us (2.2) and the transfer: 145.3 us. The worst GET of 370 us (Table 2.5) leaves
///   224.7 us to the system call, the driver's queue and the hash table, which are no part of a
///   device.
/// - An erase is 7 ms (2.6).
/// - 19 nm MLC bears about 3,000 erases (HP's paper on SLC, MLC and TLC NAND, Table 1).
pub const PAPER: FlashProfile = FlashProfile {
    name: "paper",
    source: "Shen's dissertation, sections 2.2, 2.4.3 and 2.6; HP, SLC, MLC and TLC NAND, Table 1",
    geometry: Geometry {
        channels: 12,
        luns: 16,
        blocks: 984,
        pages: 512,
        page_bytes: 16 << 10,
        spare_bytes: 0,
    },
    timing: FlashTiming {
        read_ns: 50_000,
        program_ns: 600_000,
        erase_ns: 7_000_000,
        transfer_ns: 95_312,
    },
    endurance: Some(3000),
};

/// A device for tests: 4 channels of 2 LUNs, 32 blocks of 16 pages of 4 KiB each, as quick as
/// [`PAPER`].
pub const SMALL: FlashProfile = FlashProfile {
    name: "small",
    source: "made for tests; times of the profile `paper`",
    geometry: Geometry {
        channels: 4,
        luns: 2,
        blocks: 32,
        pages: 16,
        page_bytes: 4096,
        spare_bytes: 64,
    },
    timing: PAPER.timing,
    endurance: None,
};

/// A drive of TLC flash. Times are means over the three kinds of pages that SimpleSSD measured
/// (Jung et al., IEEE CAL 2018): reads of 56.5, 77.5 and 106 us, programs of 0.82, 2.23 and 5.73
/// ms, an erase of 3 ms, 52.4 us on the bus. Endurance is that of 3D TLC, 3,000 erases. 8 channels
/// of 4 LUNs with 512 GiB are what such drives have.
pub const TLC: FlashProfile = FlashProfile {
    name: "tlc",
    source: "SimpleSSD (IEEE CAL 2018), times of TLC; makers give 3D TLC 3,000 erases",
    geometry: Geometry {
        channels: 8,
        luns: 4,
        blocks: 1366,
        pages: 768,
        page_bytes: 16 << 10,
        spare_bytes: 0,
    },
    timing: FlashTiming {
        read_ns: 80_000,
        program_ns: 2_926_500,
        erase_ns: 3_000_000,
        transfer_ns: 52_433,
    },
    endurance: Some(3000),
};

/// A drive of QLC flash. Times are those measured on Intel's 96-layer chip 1024Q3D3A (Chen et al.,
/// PACA, ICCD 2022): reads of 47.9, 76.2, 134.6 and 228.1 us, of which the profile has the mean; a
/// program of 1.86 ms; an erase of 6.34 ms; a page over a bus of 800 MT/s. Endurance is 1,000
/// erases, as makers give for QLC.
pub const QLC: FlashProfile = FlashProfile {
    name: "qlc",
    source: "PACA (ICCD 2022), times of a 96-layer QLC chip; makers give QLC 1,000 erases",
    geometry: Geometry {
        channels: 8,
        luns: 4,
        blocks: 2048,
        pages: 1024,
        page_bytes: 16 << 10,
        spare_bytes: 0,
    },
    timing: FlashTiming {
        read_ns: 121_700,
        program_ns: 1_860_000,
        erase_ns: 6_340_000,
        transfer_ns: 20_480,
    },
    endurance: Some(1000),
};

/// All profiles.
pub const PROFILES: [FlashProfile; 4] = [PAPER, SMALL, TLC, QLC];

impl FlashProfile {
    /// The profile of this name.
    ///
    /// # Errors
    /// `Config`, which lists the names.
    pub fn find(name: &str) -> Result<FlashProfile> {
        PROFILES.into_iter().find(|profile| profile.name == name).ok_or_else(|| {
            let names = PROFILES.map(|profile| profile.name).join(", ");
            let text = format!("there is no flash profile {name:?}; use one of {names}");
            Error::new(ErrorKind::Config, text)
        })
    }

    /// The device with fewer or more pages a block, in which a block takes as long as before to be
    /// programmed, read or erased: page times grow as pages become fewer. Channels, LUNs and blocks
    /// stay, so a run of a share of the requests keeps all parts as busy as the whole run would.
    /// The latency of a single page is then that many times too long.
    ///
    /// # Errors
    /// `Config` for a number of pages that no block has.
    pub fn with_pages(self, pages: u32) -> Result<FlashProfile> {
        let geometry = Geometry { pages, ..self.geometry };
        geometry.check()?;
        let scaled = |ns: u64| {
            let whole = u128::from(ns) * u128::from(self.geometry.pages);
            (whole / u128::from(pages)) as u64
        };
        let FlashTiming { read_ns, program_ns, erase_ns, transfer_ns } = self.timing;
        let timing = FlashTiming {
            read_ns: scaled(read_ns),
            program_ns: scaled(program_ns),
            transfer_ns: scaled(transfer_ns),
            erase_ns,
        };
        Ok(FlashProfile { geometry, timing, ..self })
    }

    /// The device with so many blocks in each LUN, whatever the real one has.
    ///
    /// # Errors
    /// `Config` for more blocks than a device can have, or none.
    pub fn with_blocks(self, blocks: u32) -> Result<FlashProfile> {
        let geometry = Geometry { blocks, ..self.geometry };
        geometry.check()?;
        Ok(FlashProfile { geometry, ..self })
    }

    /// Options of a simulated device: raw flash without faults that keeps time and wears out.
    pub fn options(&self) -> SimFlashOptions {
        SimFlashOptions {
            timing: self.timing,
            endurance: self.endurance,
            ..SimFlashOptions::flash(self.geometry)
        }
    }
}
