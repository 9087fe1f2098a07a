//! Several databases in one cache, or in one store in memory.

use crate::expiry::Fate;
use crate::family::{Family, KeyHome, SPACES_MAX};
use crate::index::OFFSET_BITS;
use crate::large::Held;
use crate::mica::Mica;
use crate::partition::Partition;
use crate::view::View;
use silica_base::{Error, ErrorKind, Result};
use silica_device::Device;
use silica_engine::{Engine, Environment, OptionValues};
use std::sync::{Arc, Mutex, PoisonError};

/// Databases that a cache has at most.
pub const DATABASES_MAX: usize = SPACES_MAX;

/// A cache whose memory any number of databases up to [`DATABASES_MAX`] share: none of them has a
/// part of its own, and what was not used for the longest time goes, whose it may be.
///
/// Keys of a database other than the first take six bytes more each. The first database costs
/// nothing but for keys that begin with the byte 0xFF, which take one more.
#[derive(Clone)]
pub struct MicaDatabases {
    mica: Arc<Mica>,
    family: Arc<Family>,
    /// One swap at a time.
    swapping: Arc<Mutex<()>>,
}

impl MicaDatabases {
    /// An empty cache, or store.
    ///
    /// # Errors
    /// As of [`Mica::open`].
    pub fn open(options: &OptionValues, environment: &Environment) -> Result<Self> {
        let family = Some(Arc::default());
        Ok(Self::of(Mica::open_with(options, environment, OFFSET_BITS, family)?))
    }

    /// One on a device, which takes back the image that [`silica_engine::Admin::close`] has left
    /// there with all databases, or the one of a cache with one database.
    ///
    /// # Errors
    /// As of [`Mica::open_on`].
    pub fn open_on<D: Device>(
        device: D,
        options: &OptionValues,
        environment: &Environment,
    ) -> Result<Self> {
        let family = Some(Arc::default());
        Ok(Self::of(Mica::open_on_with(device, options, environment, OFFSET_BITS, family)?))
    }

    fn of(mica: Mica) -> Self {
        let family = Arc::clone(mica.family.as_ref().expect("it was opened with one"));
        MicaDatabases { mica: Arc::new(mica), family, swapping: Arc::default() }
    }

    /// All of it as one engine, for who looks after it: it removes what has expired. Its keys are
    /// as they are stored, so nobody else should use it.
    pub fn whole(&self) -> Arc<dyn Engine> {
        Arc::clone(&self.mica) as Arc<dyn Engine>
    }

    /// Database `number` as an engine of its own, which keeps `keeper` for as long as it is there.
    /// Saving or closing any of them does so with all, and one that was swapped goes on being what
    /// it was.
    ///
    /// # Errors
    /// `Config` if there is no such database.
    pub fn database(&self, number: usize, keeper: Arc<dyn Send + Sync>) -> Result<Arc<dyn Engine>> {
        check(number)?;
        let space = self.family.space_of(number);
        Ok(Arc::new(View::new(&self.mica, &self.family, space, keeper)))
    }

    /// Lets [`MicaDatabases::database`] give one for the other from now on, after the next start
    /// with an image, too. O(1).
    ///
    /// # Errors
    /// `Config` if there is no such database.
    pub fn swap(&self, one: usize, other: usize) -> Result<()> {
        check(one).and_then(|()| check(other))?;
        let _swapping = self.swapping.lock().unwrap_or_else(PoisonError::into_inner);
        self.family.swap(one, other);
        Ok(())
    }
}

fn check(number: usize) -> Result<()> {
    if number < DATABASES_MAX {
        return Ok(());
    }
    let message = format!("there is no database {number}; a cache has {DATABASES_MAX}, from 0 on");
    Err(Error::new(ErrorKind::Config, message))
}

impl Mica {
    /// Entries of `space`, those included that have expired.
    pub(crate) fn entries_of(&self, space: usize) -> u64 {
        self.partitions.iter().map(|p| p.entries_of(space)).sum()
    }

    /// Removes all entries of `space`: at once if nothing else is there, or if they can be left to
    /// be evicted, or swept, as dead ones. A store, and space 0 beside others, are gone through.
    pub(crate) fn clear_space(&self, family: &Family, space: usize) -> Result<()> {
        let is_broken = self.check_poison().is_err();
        let locked = self.lock_all_to_clear()?;
        if let Some(home) = &self.home {
            home.forget().map_err(|error| error.within("removing the memory image"))?;
        }
        let others = || (0..SPACES_MAX).filter(|other| *other != space);
        if is_broken || others().all(|other| self.entries_of(other) == 0) {
            if is_broken {
                log::error!("a write had stopped half way: all databases are cleared");
            }
            self.partitions.iter().for_each(Partition::clear);
            return Ok(());
        }
        if space > 0 && !self.is_store {
            family.begin_anew(space)?;
            self.partitions.iter().for_each(|partition| partition.bury(space));
            return Ok(());
        }
        let is_of = |home| match home {
            KeyHome::Raw => space == 0,
            KeyHome::Space(of, _) => of == space || family.is_dead(home),
        };
        let fate = |home| if is_of(home) { Fate::Cleared } else { Fate::Stays };
        self.partitions.iter().for_each(|p| p.guarded(|p| p.sift(|item| fate(item.home()))));
        self.tidy_remains(locked.mask, Held::locked(locked.mask));
        Ok(())
    }
}
