//! Engine names and how to build them: the one place that knows which engines exist.

use silica_device::FileDevice;
use silica_engine::{Engine, Environment, OptionSpec, OptionValues, Repaired, Result, unknown};
use std::sync::Arc;

/// Opens (creating it where the directory is empty) an engine in a directory of its own.
pub type Build = fn(FileDevice, &OptionValues, &Environment) -> Result<Arc<dyn Engine>>;

/// One engine that keyspaces can be created with.
#[derive(Clone, Copy)]
pub struct Registration {
    /// The name that users write.
    pub name: &'static str,
    /// What the engine is for, in one line.
    pub doc: &'static str,
    /// Its options.
    pub options: &'static [OptionSpec],
    /// Opens it.
    pub build: Build,
}

/// Makes a store that is intact of a damaged one, in a directory of its own.
pub(crate) type Repair = fn(FileDevice, &OptionValues, &Environment) -> Result<Repaired>;

impl Registration {
    /// True where a clean close of an engine with these options leaves nothing for its next
    /// opening.
    fn forgets(&self, values: &OptionValues) -> bool {
        self.name == "mica" && values.value(self.options, "warm_restart") == 0
    }

    /// Repairs it, where the engine can.
    pub(crate) fn repair(&self) -> Option<Repair> {
        match self.name {
            "wip" => Some(silica_wip::repair::<FileDevice>),
            "silt" => Some(silica_silt::repair::<FileDevice>),
            _ => None,
        }
    }

    /// True where its entries are in files from its creation on.
    pub(crate) fn keeps_files(&self) -> bool {
        self.repair().is_some()
    }
}

/// The engine that made the files of a directory, as far as they tell.
pub(crate) fn maker_of(directory: &FileDevice) -> Result<Option<&'static str>> {
    type Made = fn(&FileDevice) -> Result<bool>;
    let makers: [(&str, Made); 2] = [("wip", silica_wip::made), ("silt", silica_silt::made)];
    for (name, made) in makers {
        if made(directory)? {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// Makes sorted files of entries in any order.
pub(crate) type SortedFiles = silica_wip::TableFiles<FileDevice>;

/// The same, on `device`.
pub(crate) fn sorted_files(
    device: Arc<FileDevice>,
    memory_bytes: u64,
    file_bytes: u64,
    id: u64,
) -> SortedFiles {
    let options = silica_wip::TableFileOptions {
        memory_bytes: memory_bytes as usize,
        file_bytes,
        compression: silica_parts::table::Compression::None,
        block_bytes: 4096,
        id,
    };
    silica_wip::TableFiles::new(device, options)
}

/// The engines that a store can use.
#[derive(Clone)]
pub struct Registry(Vec<Registration>);

impl Default for Registry {
    fn default() -> Self {
        Registry::builtin()
    }
}

impl Registry {
    /// The engines that come with Silica.
    pub fn builtin() -> Self {
        Registry::empty()
            .with(Registration {
                name: "silt",
                doc: "Very many small entries on flash: half a byte of memory each at 100 million",
                options: silica_silt::OPTIONS,
                build: |device, options, environment| {
                    Ok(Arc::new(silica_silt::Silt::open(device, options, environment)?))
                },
            })
            .with(Registration {
                name: "wip",
                doc: "Entries in the order of their keys, at a write amplification near 4",
                options: silica_wip::OPTIONS,
                build: |device, options, environment| {
                    Ok(Arc::new(silica_wip::Wip::open(device, options, environment)?))
                },
            })
            .with(Registration {
                name: "mica",
                doc: "A cache in memory, at two cache lines a get; empty after a crash",
                options: silica_mica::OPTIONS,
                build: |device, options, environment| {
                    Ok(Arc::new(silica_mica::Mica::open_on(device, options, environment)?))
                },
            })
    }

    /// No engines; for stores that bring their own.
    pub fn empty() -> Self {
        Registry(Vec::new())
    }

    /// Adds an engine; one of the same name is replaced.
    #[must_use]
    pub fn with(mut self, registration: Registration) -> Self {
        self.0.retain(|r| r.name != registration.name);
        self.0.push(registration);
        self
    }

    /// The engine `name`; the error lists those there are.
    pub fn find(&self, name: &str) -> Result<&Registration> {
        let found = self.0.iter().find(|r| r.name == name);
        found.ok_or_else(|| unknown("engine", name, self.0.iter().map(|r| r.name)))
    }

    /// True where a keyspace of this engine with these `(name, value)` pairs of options would
    /// forget its entries when the process ends: it is in memory and leaves no image.
    ///
    /// # Errors
    /// `Config` for an engine or an option that is not known.
    pub fn forgets<'a>(
        &self,
        engine: &str,
        options: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<bool> {
        let registration = self.find(engine)?;
        let values = OptionValues::parse(registration.options, options)?;
        Ok(registration.forgets(&values))
    }

    /// All engines.
    pub fn iter(&self) -> impl Iterator<Item = &Registration> {
        self.0.iter()
    }
}
