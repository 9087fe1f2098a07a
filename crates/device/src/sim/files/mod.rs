//! The simulated twin of a directory of files: in memory, seeded, able to lose power.
//!
//! What is written is visible at once and durable after a sync, as on the real device. Between
//! the two lies a volatile cache, and [`SimDevice::power_cut`] decides by the seed what of it
//! survives:
//!
//! - every 512-byte sector written since the file's last sync ends up with any one of the
//!   contents it had since then, independently of all others (dropped, torn, reordered);
//! - so does the file's length;
//! - sectors of a log may hold any prefix of the bytes appended to them, and behind it zeroes or,
//!   in a log that is used again, what they held before;
//! - every name operation since the last `sync_dir` is kept or undone as a whole. By default
//!   they may survive in any combination; [`SimOptions::names_in_order`] keeps a prefix;
//! - a sync that failed made nothing durable, and its file's later syncs fail too. After a restart
//!   of the process they succeed, but what the failed one should have saved stays readable and is
//!   not durable unless it is written again; a directory's fail until the power was off.
//!
//! Faults strike at the Nth matching call ([`SimDevice::fail_at`]), space can run out
//! ([`SimDevice::set_capacity`]), power can fail at the Nth operation
//! ([`SimDevice::cut_at_op`]), and bytes at rest can be damaged ([`SimDevice::poke`] and its
//! siblings). Everything replays from the seed as long as the calls come in the same order.
//!
//! ```
//! use silica_device::sim::{SimDevice, SimOptions};
//! use silica_device::{Device, DeviceFile, Mode};
//!
//! let device = SimDevice::new(7, SimOptions::default());
//! let file = device.create("table", Mode::Buffered)?;
//! file.write_at(0, b"kept")?;
//! file.sync()?;
//! device.sync_dir()?;
//! file.write_at(0, b"lost")?; // perhaps
//! device.power_cut();
//! assert!(file.sync().is_err());
//! let after = device.reopen().peek("table").unwrap();
//! assert!(after == b"kept" || after == b"lost");
//! # Ok::<(), silica_base::Error>(())
//! ```

mod dir;
mod file;
mod log;
mod node;
mod reads;
mod world;

pub use self::file::{SimFile, SimTransfer};
pub use self::log::SimLog;
pub use self::reads::SimReads;
pub use self::world::FaultKind;

use self::log::LogMemory;
use self::node::{Content, Log, Node, Plain};
use self::world::{Call, Handle, State, World};
use crate::files::check_name;
use crate::{Counters, Device, DeviceFile, Lifetime, Mode};
use silica_base::{Error, Result};
use std::io;
use std::sync::{Arc, Mutex};

/// How a simulated device behaves.
#[derive(Debug, Clone, Copy, Default)]
pub struct SimOptions {
    /// A sector that loses a write at a power cut may hold garbage instead of former contents.
    pub garble: bool,
    /// Name operations survive a power cut in order, as on a journalled file system.
    pub names_in_order: bool,
}

/// A directory of a simulated device. Clones share everything.
#[derive(Clone)]
pub struct SimDevice {
    handle: Handle,
    dir: usize,
}

impl SimDevice {
    /// An empty device whose whole future depends on `seed` and the calls made.
    pub fn new(seed: u64, options: SimOptions) -> Self {
        let world = Arc::new(World(Mutex::new(State::new(seed, options))));
        SimDevice { handle: Handle { world, generation: 0, counters: Arc::default() }, dir: 0 }
    }

    /// Cuts the power now. From here on every call on this device's handles and files fails with
    /// `Closed`, until [`SimDevice::reopen`] gives a new handle.
    pub fn power_cut(&self) {
        let mut state = self.handle.state();
        if state.powered {
            state.cut();
        }
    }

    /// A fresh handle of the root directory; all older handles and files are closed. After a
    /// power cut it shows what survived; without one this is the death of the process: everything
    /// written is there, and what was not synced still is not. Ordered faults stay ordered.
    pub fn reopen(&self) -> SimDevice {
        let mut state = self.handle.state();
        state.powered = true;
        state.generation += 1;
        state.restart();
        let (world, generation) = (self.handle.world.clone(), state.generation);
        SimDevice { handle: Handle { world, generation, counters: Arc::default() }, dir: 0 }
    }

    /// A device of its own with the same contents, pending writes and ordered faults, whose
    /// future depends on `seed`: one run of a workload can so be cut in many ways.
    pub fn fork(&self, seed: u64) -> SimDevice {
        let state = self.handle.state().fork(seed);
        let generation = state.generation;
        let world = Arc::new(World(Mutex::new(state)));
        SimDevice { handle: Handle { world, generation, counters: Arc::default() }, dir: 0 }
    }

    /// Writes, appends, syncs, truncations, allocations and name operations so far.
    pub fn op_count(&self) -> u64 {
        self.handle.state().ops
    }

    /// Cuts the power at the operation that makes [`SimDevice::op_count`] `n`. It fails with
    /// `Closed`; its effects may survive, but nothing that it should have made durable need.
    pub fn cut_at_op(&self, n: u64) {
        self.handle.state().cut_at = Some(n);
    }

    /// True from a power cut to the next reopen.
    pub fn is_cut(&self) -> bool {
        !self.handle.state().powered
    }

    /// Makes the `nth` matching call from now (counted from 1) fail, once.
    pub fn fail_at(&self, kind: FaultKind, nth: u64) {
        self.handle.state().order_fault(kind, nth, false);
    }

    /// Makes the `nth` matching call from now (counted from 1) and all later ones fail.
    pub fn fail_from(&self, kind: FaultKind, nth: u64) {
        self.handle.state().order_fault(kind, nth, true);
    }

    /// True while an ordered fault has not struck yet, or strikes for ever.
    pub fn faults_pending(&self) -> bool {
        self.handle.state().has_faults()
    }

    /// Forgets all ordered faults.
    pub fn clear_faults(&self) {
        self.handle.state().clear_faults();
    }

    /// Listens to no lifetime from now on, as an old kernel.
    pub fn refuse_lifetimes(&self) {
        self.handle.state().takes_lifetimes = false;
    }

    /// What was said of the lifetime of the file `name`; `None` without such a file, too.
    pub fn lifetime_of(&self, name: &str) -> Option<Lifetime> {
        let node = self.find(&self.handle.state(), name).ok()?;
        node.body.lock().expect("no panic while locked").lifetime
    }

    /// Limits the bytes of all files together; calls that would exceed it fail with `Full`.
    pub fn set_capacity(&self, bytes: u64) {
        self.handle.state().capacity = bytes;
    }

    /// All bytes of the file `name` of this directory, if it exists.
    pub fn peek(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.handle.state();
        let body = state.dirs[self.dir].live.get(name)?.body.lock().expect("no panic while locked");
        let mut bytes = vec![0; body.len() as usize];
        body.read(0, &mut bytes);
        Some(bytes)
    }

    /// Overwrites bytes of the file `name` at rest; what lies past its end is ignored.
    pub fn poke(&self, name: &str, offset: u64, bytes: &[u8]) {
        self.damage(name, |data| {
            let at = data.len().min(offset as usize);
            let len = bytes.len().min(data.len() - at);
            data[at..at + len].copy_from_slice(&bytes[..len]);
        });
    }

    /// Cuts the file `name` at rest to `len` bytes.
    pub fn cut_file(&self, name: &str, len: u64) {
        self.damage(name, |data| data.truncate(len as usize));
    }

    /// Swaps two blocks of `bytes` bytes each, counted from 0, of the file `name` at rest.
    pub fn swap_blocks(&self, name: &str, bytes: usize, a: usize, b: usize) {
        self.damage(name, |data| {
            for i in 0..bytes {
                data.swap(a * bytes + i, b * bytes + i);
            }
        });
    }

    /// Zeroes block `index` of `bytes` bytes of the file `name` at rest.
    pub fn zero_block(&self, name: &str, bytes: usize, index: usize) {
        self.damage(name, |data| {
            let end = data.len().min((index + 1) * bytes);
            data[index * bytes..end].fill(0);
        });
    }

    /// Changes the bytes of a file at rest: durable as they are, seen by whoever opens it next.
    fn damage(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let state = self.handle.state();
        let node = state.dirs[self.dir].live.get(name);
        let node = node.unwrap_or_else(|| panic!("no file '{name}' to damage"));
        let mut body = node.body.lock().expect("no panic while locked");
        let plain = body.plain();
        change(&mut plain.data);
        *plain = Plain::durable(std::mem::take(&mut plain.data));
    }

    fn find(&self, state: &State, name: &str) -> Result<Arc<Node>> {
        let found = state.dirs[self.dir].live.get(name).cloned();
        found.ok_or_else(|| failed("find", name, io::ErrorKind::NotFound))
    }

    /// Adds a new file under a name that must be free.
    fn add(&self, state: &mut State, name: &str, content: Content, len: u64) -> Result<Arc<Node>> {
        check_name(name)?;
        state.refuse(Call::Create)?;
        self.check_free(state, name)?;
        let node = Node::new(content);
        state.linked(&node);
        state.charge(&mut node.body.lock().expect("no panic while locked"), len)?;
        state.dirs[self.dir].add(name, node.clone());
        Ok(node)
    }

    fn check_free(&self, state: &State, name: &str) -> Result<()> {
        let dir = &state.dirs[self.dir];
        if dir.live.contains_key(name) || dir.subdirs.contains_key(name) {
            return Err(failed("create", name, io::ErrorKind::AlreadyExists));
        }
        Ok(())
    }
}

fn not_reusable(name: &str) -> Error {
    let message = format!("'{name}' is not the log to be used again");
    Error::new(silica_base::ErrorKind::Unsupported, message)
}

fn failed(what: &str, name: &str, kind: io::ErrorKind) -> Error {
    Error::io(format!("cannot {what} '{name}'"), io::Error::from(kind))
}

impl Device for SimDevice {
    type File = SimFile;
    type Log = SimLog;
    type Reads<'d, T: AsRef<SimFile>> = SimReads<T>;

    fn create(&self, name: &str, mode: Mode) -> Result<SimFile> {
        let content = Content::Plain(Plain::default());
        let node = self.handle.mutate(Call::Create, |s| self.add(s, name, content, 0))?;
        Ok(SimFile::new(self.handle.clone(), node, mode))
    }

    fn open(&self, name: &str, mode: Mode) -> Result<SimFile> {
        check_name(name)?;
        let node = self.find(&*self.handle.enter()?, name)?;
        Ok(SimFile::new(self.handle.clone(), node, mode))
    }

    fn create_log(&self, name: &str, capacity: u64) -> Result<SimLog> {
        let memory = Arc::new(LogMemory::empty(capacity));
        let content = Content::Log(Log {
            memory: memory.clone(),
            generation: self.handle.generation,
            synced: 0,
            length_synced: false,
        });
        let node = self.handle.mutate(Call::Create, |s| {
            let node = self.add(s, name, content, capacity)?;
            let lifetime = s.takes_lifetimes.then_some(Lifetime::Short);
            node.body.lock().expect("no panic while locked").lifetime = lifetime;
            Ok(node)
        })?;
        Ok(SimLog::new(self.handle.clone(), node, memory, true))
    }

    fn reuse_log(&self, log: SimLog, from: &str, to: &str) -> Result<SimLog> {
        check_name(from)?;
        check_name(to)?;
        self.handle.mutate(Call::Rename, |state| {
            state.refuse(Call::Rename)?;
            let node = self.find(state, from)?;
            let mut body = node.body.lock().expect("no panic while locked");
            if body.poisoned {
                return Err(world::poisoned());
            }
            let Content::Log(content) = &mut body.content else { return Err(not_reusable(from)) };
            if !log.appends_to(&node) {
                return Err(not_reusable(from));
            }
            let memory = Arc::new(content.memory.emptied());
            content.memory = memory.clone();
            content.synced = 0;
            drop(body);
            if from != to
                && let Some(replaced) = state.dirs[self.dir].rename(from, to)
            {
                state.unlinked(&replaced);
            }
            Ok(SimLog::new(self.handle.clone(), node, memory, true))
        })
    }

    fn open_log(&self, name: &str) -> Result<SimLog> {
        check_name(name)?;
        let mut state = self.handle.enter()?;
        let node = self.find(&state, name)?;
        state.refuse(Call::Read)?;
        let body = node.body.lock().expect("no panic while locked");
        // Memory that nobody appends to any more and that is published whole can be shared.
        let shared = match &body.content {
            Content::Log(log) if log.memory.published() == log.memory.capacity() => {
                Some(log.memory.clone())
            }
            _ => None,
        };
        let memory = shared.unwrap_or_else(|| {
            let mut bytes = vec![0; body.len() as usize].into_boxed_slice();
            body.read(0, &mut bytes);
            Arc::new(LogMemory::full(bytes))
        });
        drop(body);
        Ok(SimLog::new(self.handle.clone(), node, memory, false))
    }

    fn reads<T: AsRef<SimFile>>(&self, depth: usize) -> SimReads<T> {
        SimReads::new(self.handle.world.clone(), depth)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        check_name(from)?;
        check_name(to)?;
        self.handle.mutate(Call::Rename, |state| {
            state.refuse(Call::Rename)?;
            self.find(state, from)?;
            if from != to
                && let Some(replaced) = state.dirs[self.dir].rename(from, to)
            {
                state.unlinked(&replaced);
            }
            Ok(())
        })
    }

    fn remove(&self, name: &str) -> Result<()> {
        check_name(name)?;
        self.handle.mutate(Call::Remove, |state| {
            state.refuse(Call::Remove)?;
            let node = state.dirs[self.dir].remove(name);
            let node = node.ok_or_else(|| failed("remove", name, io::ErrorKind::NotFound))?;
            state.unlinked(&node);
            Ok(())
        })
    }

    fn link_into(&self, name: &str, target: &Self, target_name: &str) -> Result<()> {
        check_name(name)?;
        check_name(target_name)?;
        if !Arc::ptr_eq(&self.handle.world, &target.handle.world) {
            return self.copy_into(name, target, target_name);
        }
        self.handle.mutate(Call::Link, |state| {
            state.refuse(Call::Link)?;
            let node = self.find(state, name)?;
            target.check_free(state, target_name)?;
            state.linked(&node);
            state.dirs[target.dir].add(target_name, node);
            Ok(())
        })
    }

    fn list(&self) -> Result<Vec<String>> {
        Ok(self.handle.enter()?.dirs[self.dir].live.keys().cloned().collect())
    }

    fn sync_dir(&self) -> Result<()> {
        self.handle.mutate(Call::Sync, |state| {
            if state.dirs[self.dir].poisoned {
                return Err(world::poisoned());
            }
            if let Err(error) = state.refuse(Call::Sync) {
                state.dirs[self.dir].poisoned = true;
                return Err(error);
            }
            state.dirs[self.dir].sync();
            self.handle.counters.add_sync();
            Ok(())
        })
    }

    fn subdirectory(&self, name: &str) -> Result<Self> {
        check_name(name)?;
        let state = self.handle.enter()?;
        if let Some(dir) = state.dirs[self.dir].subdirs.get(name) {
            return Ok(SimDevice { handle: self.handle.clone(), dir: *dir });
        }
        drop(state);
        let dir = self.handle.mutate(Call::Create, |state| {
            state.refuse(Call::Create)?;
            self.check_free(state, name)?;
            let index = state.dirs.len();
            state.dirs.push(dir::Dir::default());
            state.dirs[self.dir].subdirs.insert(name.to_string(), index);
            Ok(index)
        })?;
        Ok(SimDevice { handle: self.handle.clone(), dir })
    }

    fn subdirectories(&self) -> Result<Vec<String>> {
        Ok(self.handle.enter()?.dirs[self.dir].subdirs.keys().cloned().collect())
    }

    fn free_bytes(&self) -> Result<u64> {
        Ok(self.handle.enter()?.free())
    }

    fn takes_lifetimes(&self) -> bool {
        self.handle.state().takes_lifetimes
    }

    fn counters(&self) -> &Counters {
        &self.handle.counters
    }
}

impl SimDevice {
    /// Copies a file to another device, durable but for its name.
    fn copy_into(&self, name: &str, target: &SimDevice, target_name: &str) -> Result<()> {
        let from = self.open(name, Mode::Buffered)?;
        let mut bytes = vec![0; from.len()? as usize];
        from.read_at(0, &mut bytes)?;
        let to = target.create(target_name, Mode::Buffered)?;
        to.write_at(0, &bytes)?;
        to.sync()
    }
}
