//! The file `silica` of a store: its format version and its keyspaces.
//!
//! Invariants:
//!
//! 1. The file is replaced as a whole: written under another name, synced, renamed, directory
//!    synced. At every moment the name `silica` stands for one complete catalog.
//! 2. A keyspace exists if and only if the catalog lists it. Its directory is complete before it
//!    is listed and is removed only after it is not; a directory that is not listed is rubbish.
//! 3. Numbers of keyspaces are never used twice. A catalog in which two have one is neither written
//!    nor read.
//! 4. A copy follows the file, at the latest at the next open. Only a repair reads it.
//!
//! The bytes are described in `docs/formats/store.md`.

use log::warn;
use silica_base::{Format, VARINT_BYTES_MAX, checksum, read_varint, write_varint};
use silica_device::{Device, DeviceFile, Mode};
use silica_engine::{Error, Result};

/// Under which a record keeps its migration, beside its options.
pub(crate) const MIGRATION: &str = "migration";
/// Under which a record keeps what is noted of an engine that was chosen, beside its options.
pub(crate) const CHOICE: &str = "auto";

/// Name of the catalog in a store's directory; its presence makes a directory a store.
pub(crate) const FILE: &str = "silica";
/// What it is written under before it is renamed.
pub(crate) const FILE_NEW: &str = "silica.new";
/// A second copy of the catalog, which a repair reads if the first is lost.
pub(crate) const COPY: &str = "silica.copy";
pub(crate) const COPY_NEW: &str = "silica.copy.new";

/// How the catalog begins.
pub(crate) const FORMAT: Format =
    Format { name: "store", magic: b"SILICA\r\n", version_bytes: 4, version: 1, steps: &[] };
const HEADER_BYTES: usize = 16;
const CHECKSUM_BYTES: usize = 4;
/// More than any catalog needs; a longer file is no catalog.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// One keyspace, as it was created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    /// Number of its directory.
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) engine: String,
    /// Options as text: all that are fixed, and what else was given at creation.
    pub(crate) options: Vec<(String, String)>,
}

impl Record {
    /// Name of the keyspace's directory.
    pub(crate) fn directory(&self) -> String {
        directory_of(self.id)
    }

    /// The engine's options, without the notes of a migration and of a choice.
    pub(crate) fn engine_options(&self) -> impl Iterator<Item = &(String, String)> {
        let notes = [MIGRATION, CHOICE];
        self.options.iter().filter(move |(name, _)| !notes.contains(&name.as_str()))
    }
}

/// Name of the directory of keyspace number `id`.
pub(crate) fn directory_of(id: u64) -> String {
    format!("keyspace-{id}")
}

/// What the name of a keyspace's directory that nothing needs ends with.
pub(crate) const ASIDE: &str = ".gone";

/// True where `name` looks like a keyspace's directory, or like one that nothing needs.
pub(crate) fn is_directory_name(name: &str) -> bool {
    name.strip_suffix(ASIDE)
        .unwrap_or(name)
        .strip_prefix("keyspace-")
        .is_some_and(|n| n.parse::<u64>().is_ok())
}

/// All keyspaces of a store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Catalog {
    /// Number of the next keyspace.
    pub(crate) next_id: u64,
    /// Sorted by name.
    pub(crate) keyspaces: Vec<Record>,
}

impl Catalog {
    pub(crate) fn find(&self, name: &str) -> Option<&Record> {
        self.keyspaces.iter().find(|r| r.name == name)
    }

    /// Adds a keyspace and keeps the order.
    pub(crate) fn add(&mut self, record: Record) {
        self.next_id = self.next_id.max(record.id + 1);
        self.keyspaces.push(record);
        silica_base::compact_sort_by(&mut self.keyspaces, |a, b| a.name.cmp(&b.name));
    }

    /// Keeps an option of the keyspace `name`.
    pub(crate) fn set_option(&mut self, name: &str, option: &str, value: String) {
        if let Some(record) = self.keyspaces.iter_mut().find(|record| record.name == name) {
            record.options.retain(|(other, _)| other != option);
            record.options.push((option.into(), value));
        }
    }

    /// Keeps an option no more.
    pub(crate) fn remove_option(&mut self, name: &str, option: &str) {
        if let Some(record) = self.keyspaces.iter_mut().find(|record| record.name == name) {
            record.options.retain(|(other, _)| other != option);
        }
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.keyspaces.retain(|r| r.name != name);
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        write_varint(&mut body, self.next_id);
        write_varint(&mut body, self.keyspaces.len() as u64);
        for record in &self.keyspaces {
            write_varint(&mut body, record.id);
            write_text(&mut body, &record.name);
            write_text(&mut body, &record.engine);
            write_varint(&mut body, record.options.len() as u64);
            for (name, value) in &record.options {
                write_text(&mut body, name);
                write_text(&mut body, value);
            }
        }
        let mut out = Vec::with_capacity(HEADER_BYTES + body.len() + CHECKSUM_BYTES);
        FORMAT.begin(&mut out);
        out.extend_from_slice(&(body.len() as u32).to_le_bytes());
        out.extend_from_slice(&body);
        let sum = checksum(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        out
    }

    /// Reads a whole catalog; `file` names it in errors.
    pub(crate) fn decode(bytes: &[u8], file: &str) -> Result<Self> {
        let damaged = |at: usize, what: &str| Error::corruption(file, at as u64, what);
        if bytes.len() < HEADER_BYTES + CHECKSUM_BYTES {
            return Err(damaged(bytes.len(), "it is too short"));
        }
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        FORMAT.version_of(file, 0, bytes)?;
        let end = HEADER_BYTES + word(12) as usize;
        if bytes.len() != end + CHECKSUM_BYTES {
            return Err(damaged(12, "its length is not the one it states"));
        }
        if word(end) != checksum(&bytes[..end]) {
            return Err(damaged(end, "checksum"));
        }
        let mut reader = Reader { rest: &bytes[HEADER_BYTES..end] };
        match reader.catalog() {
            Some(catalog) if reader.rest.is_empty() => match catalog.one_directory() {
                Some(what) => Err(damaged(end, &what)),
                None => Ok(catalog),
            },
            _ => Err(damaged(end - reader.rest.len(), "a field is cut short")),
        }
    }

    /// Two keyspaces that have one directory, in words: their engines would destroy each other.
    fn one_directory(&self) -> Option<String> {
        let mut names = std::collections::BTreeMap::new();
        self.keyspaces.iter().find_map(|record| {
            let other = names.insert(record.id, &record.name)?;
            let directory = record.directory();
            Some(format!(
                "keyspaces '{other}' and '{}' have one directory, {directory}",
                record.name
            ))
        })
    }

    /// Reads the catalog of `device`, or `None` where there is no such file.
    pub(crate) fn load<D: Device>(device: &D, file: &str) -> Result<Option<Self>> {
        Self::load_from(device, FILE, file)
    }

    /// Reads the copy of the catalog; it is called `file` in errors.
    pub(crate) fn load_copy<D: Device>(device: &D, file: &str) -> Result<Option<Self>> {
        Self::load_from(device, COPY, file)
    }

    fn load_from<D: Device>(device: &D, name: &str, file: &str) -> Result<Option<Self>> {
        match read(device, name, file)? {
            Some(bytes) => Catalog::decode(&bytes, file).map(Some),
            None => Ok(None),
        }
    }

    /// Replaces the catalog of `device`, and then its copy.
    pub(crate) fn save<D: Device>(&self, device: &D) -> Result<()> {
        if let Some(what) = self.one_directory() {
            return Err(Error::corruption(FILE, 0, what));
        }
        let bytes = self.encode();
        replace(device, FILE_NEW, FILE, &bytes)?;
        if let Err(error) = replace(device, COPY_NEW, COPY, &bytes) {
            warn!("{COPY}, the copy of the catalog, is old until the next opening: {error}");
        }
        Ok(())
    }

    /// Makes the copy what the catalog is, where it is something else.
    pub(crate) fn renew_copy<D: Device>(&self, device: &D) {
        let bytes = self.encode();
        if read(device, COPY, COPY).is_ok_and(|there| there.as_ref() == Some(&bytes)) {
            return;
        }
        if let Err(error) = replace(device, COPY_NEW, COPY, &bytes) {
            warn!("{COPY}, the copy of the catalog, is old until the next opening: {error}");
        }
    }
}

/// The bytes of the file `name`, or `None` where there is none.
fn read<D: Device>(device: &D, name: &str, file: &str) -> Result<Option<Vec<u8>>> {
    if !device.list()?.iter().any(|n| n == name) {
        return Ok(None);
    }
    let handle = device.open(name, Mode::Buffered)?;
    let len = handle.len()?;
    if len > FILE_BYTES_MAX {
        return Err(Error::corruption(file, FILE_BYTES_MAX, "it is far too long"));
    }
    let mut bytes = vec![0; len as usize];
    let filled = handle.read_at(0, &mut bytes)?;
    bytes.truncate(filled);
    Ok(Some(bytes))
}

/// Replaces the file `name`, which is written under the name `new` first.
fn replace<D: Device>(device: &D, new: &str, name: &str, bytes: &[u8]) -> Result<()> {
    if device.list()?.iter().any(|n| n == new) {
        device.remove(new)?;
    }
    let handle = device.create(new, Mode::Buffered)?;
    let written = handle.write_at(0, bytes).and_then(|()| handle.sync());
    // What was not written takes room that others may need.
    written.inspect_err(|_| drop(device.remove(new)))?;
    device.rename(new, name)?;
    device.sync_dir()
}

fn write_text(out: &mut Vec<u8>, text: &str) {
    write_varint(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn number(&mut self) -> Option<u64> {
        let (value, len) = read_varint(self.rest)?;
        debug_assert!(len <= VARINT_BYTES_MAX, "a varint has a largest length");
        self.rest = &self.rest[len..];
        Some(value)
    }

    fn text(&mut self) -> Option<String> {
        let len = usize::try_from(self.number()?).ok()?;
        let bytes = self.rest.get(..len)?;
        self.rest = &self.rest[len..];
        String::from_utf8(bytes.to_vec()).ok()
    }

    fn catalog(&mut self) -> Option<Catalog> {
        let next_id = self.number()?;
        let mut keyspaces = Vec::new();
        for _ in 0..self.number()? {
            let (id, name, engine) = (self.number()?, self.text()?, self.text()?);
            let mut options = Vec::new();
            for _ in 0..self.number()? {
                options.push((self.text()?, self.text()?));
            }
            keyspaces.push(Record { id, name, engine, options });
        }
        Some(Catalog { next_id, keyspaces })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_engine::ErrorKind;

    fn sample() -> Catalog {
        let mut catalog = Catalog::default();
        for (id, name) in [(0, "zebra"), (1, "default"), (300, "ä")] {
            catalog.add(Record {
                id,
                name: name.into(),
                engine: "silt".into(),
                options: vec![("partition_bits".into(), "4".into())],
            });
        }
        catalog
    }

    #[test]
    fn round_trip_in_name_order() {
        let catalog = sample();
        assert_eq!(catalog.next_id, 301);
        assert_eq!(catalog.keyspaces[0].name, "default");
        assert_eq!(Catalog::decode(&catalog.encode(), "silica").unwrap(), catalog);
    }

    #[test]
    fn two_keyspaces_never_have_one_directory() {
        let mut catalog = sample();
        let other = Record { name: "other".into(), ..catalog.keyspaces[0].clone() };
        catalog.add(other);
        let error = Catalog::decode(&catalog.encode(), "silica").unwrap_err().to_string();
        assert!(error.contains("'default' and 'other' have one directory, keyspace-1"), "{error}");
        let device =
            silica_device::sim::SimDevice::new(0, silica_device::sim::SimOptions::default());
        assert!(catalog.save(&device).is_err());
        assert!(Catalog::load(&device, "silica").unwrap().is_none());
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_found() {
        let bytes = sample().encode();
        for at in 0..bytes.len() {
            assert!(Catalog::decode(&bytes[..at], "silica").is_err(), "cut at {at}");
            for bit in 0..8 {
                let mut bad = bytes.clone();
                bad[at] ^= 1 << bit;
                assert!(Catalog::decode(&bad, "silica").is_err(), "bit {bit} of byte {at}");
            }
        }
    }

    #[test]
    fn a_newer_version_is_refused_by_name() {
        let mut bytes = sample().encode();
        bytes[8] = 2;
        let error = Catalog::decode(&bytes, "silica").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("newer"), "{error}");
    }

    #[test]
    fn the_field_table_adds_up() {
        assert_eq!(HEADER_BYTES, FORMAT.prefix_bytes() + 4);
        let empty = Catalog::default().encode();
        assert_eq!(empty.len(), HEADER_BYTES + 2 + CHECKSUM_BYTES);
    }
}
