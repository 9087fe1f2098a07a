//! foyer, a cache of memory and flash that is a library: it has no sockets, and its figures are
//! those of calls. Its memory is a quarter of what it gets, since it keeps buffers and an index
//! beside it.

use super::cell::Loaded;
use crate::load::{Done, Sets, value_of};
use crate::peers::{Room, UNDER_WAY};
use foyer::{
    BlockEngineConfig, DeviceBuilder, FsDeviceBuilder, HybridCache, HybridCacheBuilder,
    HybridCachePolicy, RecoverMode,
};
use silica::{Error, ErrorKind, Result};
use silica_base::Prng;
use silica_bench::memory::Process;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

const MIB: usize = 1 << 20;
/// Bytes of a block of its device: few at least, that of a small device too.
const BLOCK_BYTES: usize = 4 * MIB;
/// Share of the memory for entries, and for buffers of what is written.
const MEMORY_SHARE: u64 = 4;
const BUFFER_SHARE: u64 = 8;
/// Threads that poll, as a server with one core has.
const THREADS: usize = 1;

/// Keys are as long as those of the servers.
type Cache = HybridCache<u128, Vec<u8>>;

/// The cache, its runtime and the length of values.
pub(super) struct InProcess {
    cache: Cache,
    runtime: Runtime,
    value_bytes: usize,
}

fn failed(e: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Io, format!("foyer: {e}"))
}

impl InProcess {
    pub(super) fn open(directory: &Path, room: Room, value_bytes: usize) -> Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(THREADS).build();
        let runtime = runtime.map_err(|e| Error::io("starting foyer's threads", e))?;
        let memory = (room.memory_bytes / MEMORY_SHARE) as usize;
        let buffers = (room.memory_bytes / BUFFER_SHARE) as usize;
        let cache = runtime.block_on(async {
            let device = FsDeviceBuilder::new(directory)
                .with_capacity(room.flash_bytes as usize)
                .build()
                .map_err(failed)?;
            let engine = BlockEngineConfig::new(device)
                .with_block_size(BLOCK_BYTES)
                .with_buffer_pool_size(buffers);
            HybridCacheBuilder::new()
                // What is only in memory when a fill ends would otherwise never be on flash.
                .with_policy(HybridCachePolicy::WriteOnInsertion)
                .memory(memory)
                .with_weighter(|_: &u128, value: &Vec<u8>| size_of::<u128>() + value.len())
                .storage()
                .with_engine_config(engine)
                .with_recover_mode(RecoverMode::None)
                .build()
                .await
                .map_err(failed)
        })?;
        Ok(InProcess { cache, runtime, value_bytes })
    }

    /// Runs `each` with the number of a task, as many as requests of a server are under way, until
    /// all are through.
    fn together<F>(&self, each: impl Fn(u64) -> F) -> Result<Done>
    where
        F: Future<Output = Result<Done>> + Send + 'static,
    {
        let began = Instant::now();
        let tasks: Vec<_> =
            (0..UNDER_WAY as u64).map(|task| self.runtime.spawn(each(task))).collect();
        let mut all = Done::default();
        for task in tasks {
            let done = self.runtime.block_on(task).map_err(failed)?;
            all.add(&done?);
        }
        all.seconds = began.elapsed().as_secs_f64();
        Ok(all)
    }
}

impl Loaded for InProcess {
    fn set_all(&mut self, keys: u64) -> Result<Done> {
        let value_bytes = self.value_bytes;
        let next = Arc::new(AtomicU64::new(0));
        self.together(|_| {
            let (cache, next) = (self.cache.clone(), next.clone());
            async move {
                let mut done = Done::default();
                loop {
                    let key = next.fetch_add(1, Relaxed);
                    if key >= keys {
                        return Ok(done);
                    }
                    let value = value_of(key, value_bytes).into_bytes();
                    let began = Instant::now();
                    cache.insert(u128::from(key), value);
                    done.latencies.record(began.elapsed().as_nanos() as u64);
                    done.operations += 1;
                    // Others have their turn, as connections have.
                    tokio::task::yield_now().await;
                }
            }
        })
    }

    fn go_on(&mut self, sets: Sets, keys: u64, time: Duration, first: u64) -> Result<Done> {
        let value_bytes = self.value_bytes;
        let end = Instant::now() + time;
        self.together(|task| {
            let cache = self.cache.clone();
            async move {
                let mut random = Prng::new(first * UNDER_WAY as u64 + task + 1);
                let mut done = Done::default();
                while Instant::now() < end {
                    let key = random.below(keys);
                    let began = Instant::now();
                    if sets == Sets::Quarter && random.below(4) == 0 {
                        cache.insert(u128::from(key), value_of(key, value_bytes).into_bytes());
                        tokio::task::yield_now().await;
                    } else {
                        match cache.get(&u128::from(key)).await.map_err(failed)? {
                            None => done.misses += 1,
                            Some(entry)
                                if *entry.value() == value_of(key, value_bytes).as_bytes() => {}
                            Some(_) => {
                                return Err(failed(format!("key {key} has another's value")));
                            }
                        }
                    }
                    done.latencies.record(began.elapsed().as_nanos() as u64);
                    done.operations += 1;
                }
                Ok(done)
            }
        })
    }

    fn process(&self) -> Process {
        Process::This
    }
}
