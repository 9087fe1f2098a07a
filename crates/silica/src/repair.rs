//! Repair of a store that is not open.

use crate::catalog::{self, Catalog, Record};
use crate::directories::refuse_missing;
use crate::opening::open_damaged_device;
use crate::replication_file;
use crate::store::DEFAULT_KEYSPACE;
use crate::{EngineSpec, OpenOptions, Registry};
use silica_base::HashSeed;
use silica_device::{Device, FileDevice};
use silica_engine::{
    EngineExt, Environment, Error, ErrorKind, Loss, OptionValues, Repaired, Result,
};
use std::path::Path;

/// What the name of a file begins with that was the catalog and is damaged.
const DAMAGED: &str = "silica.damaged-";
/// What the name of a directory of an unlisted keyspace ends with that no engine knows as its own.
const UNKNOWN: &str = ".unknown";
/// What the names of directories begin with in which an engine makes a store anew.
const REPAIRED: &str = "repaired-";

/// What became of one keyspace.
#[derive(Debug)]
pub struct KeyspaceRepair {
    /// Its name.
    pub name: String,
    /// Its engine.
    pub engine: String,
    /// What was found and done, or why nothing could be.
    pub outcome: Result<Repaired>,
}

/// What became of a store.
#[derive(Debug)]
pub struct StoreRepair {
    /// What was wrong with the list of keyspaces, and what was done about it; none where nothing
    /// was.
    pub findings: Vec<String>,
    /// Its keyspaces.
    pub keyspaces: Vec<KeyspaceRepair>,
}

/// Checks every keyspace of the store in the directory `path`, also where it does not open, and
/// makes a new one of what is intact where one is damaged. The files that were there are put aside
/// in a directory of the keyspace and never written over.
///
/// A list of keyspaces that is lost is brought back from its copy, and directories of keyspaces
/// that it does not name are adopted. Keyspaces of engines that cannot be repaired are checked.
pub fn repair(path: impl AsRef<Path>, options: OpenOptions) -> Result<StoreRepair> {
    let path = path.as_ref();
    if options.is_read_only() {
        let message = "a repair writes; leave --read-only out, or use `silica verify`";
        return Err(Error::new(ErrorKind::Config, message));
    }
    let options = options.create(false);
    let device = open_damaged_device(path, &options)?;
    // What it said of the data is not so any more.
    replication_file::set_aside(&device)?;
    let mut findings = Vec::new();
    let catalog = catalog_of(path, &device, &options.registry, &mut findings)?;
    let mut keyspaces = Vec::new();
    for record in &catalog.keyspaces {
        let spec = options.registry.find(&record.engine)?;
        let kept = record.engine_options().map(|(name, value)| (name.as_str(), value.as_str()));
        let values = OptionValues::parse(spec.options, kept)?;
        let environment = Environment::new(HashSeed(options.new_seed()?));
        let missing = refuse_missing(path, spec, record).err();
        let directory = device.subdirectory(&record.directory())?;
        let outcome = match missing {
            Some(error)
                if directory.list()?.is_empty() && directory.subdirectories()?.is_empty() =>
            {
                begin_anew(spec, directory, &values, &environment, &error)
            }
            _ => repair_keyspace(spec, directory, &values, &environment),
        };
        sweep(&path.join(record.directory()));
        keyspaces.push(KeyspaceRepair {
            name: record.name.clone(),
            engine: record.engine.clone(),
            outcome,
        });
    }
    Ok(StoreRepair { findings, keyspaces })
}

/// The list of keyspaces, or what can be found out of it.
fn catalog_of(
    path: &Path,
    device: &FileDevice,
    registry: &Registry,
    findings: &mut Vec<String>,
) -> Result<Catalog> {
    let file = |name| path.join(name).display().to_string();
    let there_is_none = || {
        let message = format!("there is no store at {}; check the path", path.display());
        Error::new(ErrorKind::NotFound, message)
    };
    match Catalog::load(device, &file(catalog::FILE)) {
        Ok(Some(catalog)) => return Ok(catalog),
        Ok(None) => findings.push(format!("{} is missing", file(catalog::FILE))),
        Err(error) if error.kind() == ErrorKind::Corruption => findings.push(error.to_string()),
        Err(error) => return Err(error),
    }
    let copy = file(catalog::COPY);
    let mut catalog = match Catalog::load_copy(device, &copy) {
        Ok(Some(catalog)) => {
            findings.push(format!("the keyspaces that {copy} names are listed again"));
            catalog
        }
        Ok(None) => {
            findings.push(format!("{copy} is missing, too: names of keyspaces are lost"));
            Catalog::default()
        }
        Err(error) if error.kind() == ErrorKind::Corruption => {
            findings.push(format!("names of keyspaces are lost: {error}"));
            Catalog::default()
        }
        Err(error) => return Err(error),
    };
    adopt(path, device, registry, &mut catalog, findings)?;
    if catalog.keyspaces.is_empty() {
        return Err(there_is_none());
    }
    let there = device.list()?;
    if there.iter().any(|name| name == catalog::FILE) {
        let name = |n: u32| format!("{DAMAGED}{n}");
        let aside = (1..).map(name).find(|name| !there.contains(name));
        device.rename(catalog::FILE, &aside.expect("numbers do not end"))?;
    }
    catalog.save(device)?;
    Ok(catalog)
}

/// Lists keyspaces whose directories are there, and that are not listed.
fn adopt(
    path: &Path,
    device: &FileDevice,
    registry: &Registry,
    catalog: &mut Catalog,
    findings: &mut Vec<String>,
) -> Result<()> {
    for name in device.subdirectories()? {
        let number = name.strip_prefix("keyspace-").and_then(|n| n.parse::<u64>().ok());
        let Some(id) = number else { continue };
        let directory = device.subdirectory(&name)?;
        if catalog.keyspaces.iter().any(|record| record.id == id) || directory.list()?.is_empty() {
            continue;
        }
        let Some(engine) = registry.maker_of(&directory)? else {
            // An opening would remove it.
            let aside = format!("{name}{UNKNOWN}");
            std::fs::rename(path.join(&name), path.join(&aside))
                .map_err(|e| Error::io(format!("renaming {name}"), e))?;
            findings.push(format!("no engine knows the files in {name}; they are in {aside} now"));
            continue;
        };
        let is_default = id == 0 && catalog.find(DEFAULT_KEYSPACE).is_none();
        let called = if is_default { DEFAULT_KEYSPACE.to_string() } else { name.clone() };
        findings.push(format!(
            "{name} is listed again, as keyspace '{called}' of engine {engine}; if it had been \
             dropped it is back"
        ));
        catalog.add(Record { id, name: called, engine: engine.to_string(), options: Vec::new() });
    }
    Ok(())
}

/// Makes an empty store where nothing is left of one.
fn begin_anew(
    spec: &EngineSpec,
    directory: FileDevice,
    values: &OptionValues,
    environment: &Environment,
    missing: &Error,
) -> Result<Repaired> {
    (spec.open)(directory, values, environment)?.sync_as_far_as_it_goes()?;
    let findings = vec![
        missing.to_string(),
        "everything that was in the keyspace is lost; it is empty now".to_string(),
    ];
    Ok(Repaired { findings, lost: Loss::Unknown, ..Repaired::default() })
}

/// Removes the empty directories in which an engine made a store anew.
fn sweep(directory: &Path) {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(REPAIRED)) {
        // One that is not empty is of an interrupted repair, and stays.
        let _ = std::fs::remove_dir(entry.path());
    }
}

fn repair_keyspace(
    spec: &EngineSpec,
    directory: FileDevice,
    values: &OptionValues,
    environment: &Environment,
) -> Result<Repaired> {
    if let Some(repair) = spec.repair {
        return repair(directory, values, environment);
    }
    let engine = (spec.open)(directory, values, environment);
    let checked = engine.and_then(|engine| {
        engine.verify()?;
        let count = engine.as_admin().map(|admin| admin.count(false)).transpose()?;
        let count = count.map_or(0, |count| count.estimate);
        Ok(Repaired { entries: count, ..Repaired::default() })
    });
    checked.map_err(|error| {
        error.within("a keyspace of this engine cannot be repaired; restore a backup")
    })
}
