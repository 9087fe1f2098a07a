//! How the cache works.

use std::str::FromStr;

use silica_base::{Error, Result};

use super::super::cache::{
    Cache, CacheTimes, Dida, DidaFlash, DidaOptions, Fatcache, FatcacheDesign, Mapping, Packing,
    Reclaim, Reserve, Victims, WearLevelling,
};
use super::super::{Collection, DriveDesign, config};
use super::shape::FlashShape;

/// Time of a SET or GET of the host by itself, in nanoseconds: 627,000 puts a second, measured in
/// docs/benchmarks/dida.md.
const HOST_NS: u64 = 1600;
/// What lies around an erase when a slab is dropped, in nanoseconds (equation 2.2's `t_other`).
const AROUND_ERASE_NS: u64 = 1_000_000;
/// Share of the flash that a conventional drive keeps (section 2.5.3).
const RESERVE: f64 = 0.25;
/// Share of the slabs between the watermarks (section 2.4.1).
const BETWEEN: f64 = 0.15;
/// Slabs in memory, as `silica serve --flash` has them.
const BUFFER_SLABS: usize = 6;
/// Factor from one slot size of Fatcache to the next.
const SLOT_GROWTH: f64 = 1.25;
/// Levelling of wear each time that blocks were erased so often on average (section 2.4.1).
const WEAR_ROUNDS: f64 = 2.0;

/// A cache that can be simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Engine `dida`: slabs copied while flash is free, dropped when it runs out.
    Dida,
    /// DIDACache that only copies.
    DidaSpace,
    /// DIDACache that only drops.
    DidaLocality,
    /// Fatcache on a conventional drive as it comes: the oldest slab is dropped.
    Fatcache,
    /// Fatcache that copies the slab with the fewest valid bytes.
    FatcacheGreedy,
    /// Fatcache that drops the slab with the fewest valid bytes.
    FatcacheKick,
    /// Fatcache that copies the oldest slab.
    FatcacheFifo,
}

impl Scheme {
    /// All of them with their names.
    pub const ALL: [(&'static str, Scheme); 7] = [
        ("dida", Scheme::Dida),
        ("dida-space", Scheme::DidaSpace),
        ("dida-locality", Scheme::DidaLocality),
        ("fatcache", Scheme::Fatcache),
        ("fatcache-greedy", Scheme::FatcacheGreedy),
        ("fatcache-kick", Scheme::FatcacheKick),
        ("fatcache-fifo", Scheme::FatcacheFifo),
    ];

    /// Its name on command lines.
    pub fn name(self) -> &'static str {
        let named = Scheme::ALL.into_iter().find(|(_, scheme)| *scheme == self);
        named.map_or("", |(name, _)| name)
    }

    /// An empty cache for keys below `keys`, of which requests come `interval_ns` apart on the
    /// whole drive; `None` for as quickly as the host asks.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](silica_base::ErrorKind::Config) for flash that is too small for the
    /// scheme.
    pub fn cache(
        self,
        shape: &FlashShape,
        keys: u32,
        interval_ns: Option<f64>,
    ) -> Result<Box<dyn Cache>> {
        let slowed = |ns: f64| (ns * shape.slower) as u64;
        let times = CacheTimes {
            store_ns: slowed(HOST_NS as f64),
            interval_ns: slowed(interval_ns.unwrap_or(HOST_NS as f64)),
        };
        let fatcache = |victims| fatcache(shape, keys, victims, times);
        let clean_ns = u64::from(shape.pages) * shape.read_ns + shape.erase_ns;
        Ok(match self {
            Scheme::Dida => dida(shape, keys, Reclaim::Both { clean_ns }, times)?,
            Scheme::DidaSpace => dida(shape, keys, Reclaim::Space, times)?,
            Scheme::DidaLocality => dida(shape, keys, Reclaim::Locality, times)?,
            Scheme::Fatcache => fatcache(Victims::Oldest)?,
            Scheme::FatcacheGreedy => fatcache(Victims::Greedy)?,
            Scheme::FatcacheKick => fatcache(Victims::Kick)?,
            Scheme::FatcacheFifo => fatcache(Victims::Fifo)?,
        })
    }
}

impl FromStr for Scheme {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let named = Scheme::ALL.into_iter().find(|(name, _)| *name == text);
        named.map(|(_, scheme)| scheme).ok_or_else(|| {
            let names = Scheme::ALL.map(|(name, _)| name).join(", ");
            config(format!("there is no scheme {text:?}; use some of {names}"))
        })
    }
}

fn dida(
    shape: &FlashShape,
    keys: u32,
    reclaim: Reclaim,
    times: CacheTimes,
) -> Result<Box<dyn Cache>> {
    let flash = DidaFlash {
        channels: shape.channels,
        luns: shape.luns,
        blocks: shape.blocks,
        block_bytes: shape.block_bytes(),
        write_ns: shape.write_ns,
        read_ns: shape.read_ns,
        erase_ns: shape.erase_ns,
    };
    let evict_ns = shape.erase_ns + AROUND_ERASE_NS;
    let options = DidaOptions {
        reclaim,
        reserve: Reserve::Queueing { evict_ns },
        between: BETWEEN,
        packing: Packing::Packed,
        wear: Some(WearLevelling { rounds: WEAR_ROUNDS }),
        buffer_slabs: BUFFER_SLABS,
        times,
    };
    Ok(Box::new(Dida::new(keys, flash, options)?))
}

fn fatcache(
    shape: &FlashShape,
    keys: u32,
    victims: Victims,
    times: CacheTimes,
) -> Result<Box<dyn Cache>> {
    let slabs = (f64::from(shape.blocks) * (1.0 - RESERVE)) as u32;
    let drive = DriveDesign {
        channels: shape.channels,
        blocks: shape.blocks,
        pages: shape.pages,
        logical: slabs * shape.pages,
        collection: Collection::Greedy,
        buffer: 0,
        program_ns: shape.program_ns,
        erase_ns: shape.erase_ns,
    };
    let design = FatcacheDesign {
        slabs,
        slab_bytes: shape.block_bytes(),
        pages: shape.pages,
        victims,
        packing: Packing::Slots(SLOT_GROWTH),
        mapping: Mapping::Pages(drive),
        buffer_slabs: BUFFER_SLABS,
        read_ns: shape.read_ns,
        times,
    };
    Ok(Box::new(Fatcache::new(keys, design)?))
}
