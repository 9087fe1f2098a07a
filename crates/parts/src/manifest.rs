//! The manifest: a snapshot of a store's state and the edits since, in one file that is replaced
//! as a whole. Format: docs/formats/manifest.md.
//!
//! Invariants:
//!
//! 1. `CURRENT` names the manifest file in force. It is replaced by a rename after the file it
//!    names is durable, so one complete manifest is in force at every moment.
//! 2. An edit counts from the moment its record is durable; `append` returns after that.
//! 3. Records are appended one after the other, each synced before the next. So of all records
//!    at most the last can be torn, and a damaged earlier one is told from that.
//! 4. `CURRENT` holds a length that the manifest once had durably. A shorter one is damage.
//! 5. After a failed sync nothing more is appended until the store is opened again.
//! 6. What an open finds behind that length may be readable and yet not durable (the process died
//!    before its sync, or the sync failed), so it is copied into a new manifest before anything
//!    relies on it.
//! 7. A manifest file that `CURRENT` does not name is garbage and removed at open.

use crate::framing::{self, End, RecordHeader, RecordReader};
use silica_base::{Checksum, Error, ErrorKind, Format, Result};
use silica_device::{Device, DeviceFile, Mode};
use std::sync::Arc;

/// Name of the file that names the manifest.
pub const CURRENT: &str = "CURRENT";
const CURRENT_NEW: &str = "CURRENT.new";
const PREFIX: &str = "MANIFEST-";
const CURRENT_FORMAT: Format = Format {
    name: "file that names the manifest",
    magic: b"SILICACU",
    version_bytes: 4,
    version: 1,
    steps: &[],
};
const MAGIC: [u8; 8] = *b"SILICAMF";
/// How a manifest begins; its payloads, which are an engine's, have versions of their own.
const FORMAT: Format =
    Format { name: "manifest", magic: &MAGIC, version_bytes: 4, version: 1, steps: &[] };
/// Bytes of `CURRENT`.
pub const CURRENT_BYTES: usize = 40;
/// Bytes of a manifest's header.
pub const HEADER_BYTES: usize = 32;
/// Where the header has its [`Maker`].
const MAKER_AT: usize = 12;
const SNAPSHOT: u8 = 1;
const EDIT: u8 = 2;

/// The engine that a manifest is of: a few letters, filled up with zeros. All zeros in a manifest
/// that a release wrote which did not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Maker(pub [u8; 4]);

impl Maker {
    const UNKNOWN: Maker = Maker([0; 4]);

    /// True where a manifest of `self` may be one of `engine`.
    pub fn may_be(self, engine: Maker) -> bool {
        self == engine || self == Maker::UNKNOWN
    }

    fn of(header: &[u8]) -> Maker {
        let bytes = header.get(MAKER_AT..MAKER_AT + 4);
        Maker(bytes.and_then(|bytes| bytes.try_into().ok()).unwrap_or_default())
    }
}

impl std::fmt::Display for Maker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Maker(letters) = self;
        let len = letters.iter().position(|letter| *letter == 0).unwrap_or(letters.len());
        f.write_str(&String::from_utf8_lossy(&letters[..len]))
    }
}

/// An open manifest.
pub struct Manifest<D: Device> {
    device: Arc<D>,
    maker: Maker,
    file: D::File,
    number: u64,
    len: u64,
    /// The length that `CURRENT` holds.
    len_noted: u64,
    next_sequence: u64,
    poisoned: bool,
}

/// A manifest and what it holds.
pub struct Opened<D: Device> {
    /// The manifest, ready for more edits.
    pub manifest: Manifest<D>,
    /// The snapshot.
    pub snapshot: Vec<u8>,
    /// The edits since, in order.
    pub edits: Vec<Vec<u8>>,
}

fn name(number: u64) -> String {
    format!("{PREFIX}{number:08}")
}

fn file_id(number: u64) -> u64 {
    u64::from_le_bytes(MAGIC) ^ number
}

/// Seals `bytes`: version and fields are in place, the checksum goes to `at`.
fn seal(bytes: &mut [u8], id: u64, at: usize) {
    let sum = Checksum::at(id, 0).update(&bytes[..at]).finish();
    bytes[at..at + 4].copy_from_slice(&sum.to_le_bytes());
}

fn check(bytes: &[u8], id: u64, at: usize, format: Format, name: &str) -> Result<()> {
    if bytes.len() < at + 4 || !format.begins(bytes) {
        return Err(Error::corruption(name, 0, "this is not what its name says"));
    }
    let sum = Checksum::at(id, 0).update(&bytes[..at]).finish();
    if bytes[at..at + 4] != sum.to_le_bytes() || bytes[at + 4..].iter().any(|b| *b != 0) {
        return Err(Error::corruption(name, at as u64, "the checksum does not match"));
    }
    format.version_of(name, 0, bytes).map(drop)
}

fn encode_current(number: u64, len: u64) -> [u8; CURRENT_BYTES] {
    let mut bytes = [0; CURRENT_BYTES];
    CURRENT_FORMAT.begin_in(&mut bytes);
    bytes[16..24].copy_from_slice(&number.to_le_bytes());
    bytes[24..32].copy_from_slice(&len.to_le_bytes());
    seal(&mut bytes, 0, 32);
    bytes
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn decode_current(bytes: &[u8]) -> Result<(u64, u64)> {
    if bytes.len() != CURRENT_BYTES {
        let detail = format!("it has {} bytes, not {CURRENT_BYTES}", bytes.len());
        return Err(Error::corruption(CURRENT, bytes.len() as u64, detail));
    }
    check(bytes, 0, 32, CURRENT_FORMAT, CURRENT)?;
    Ok((u64_at(bytes, 16), u64_at(bytes, 24)))
}

fn encode_header(maker: Maker, number: u64) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    FORMAT.begin_in(&mut bytes);
    bytes[MAKER_AT..MAKER_AT + 4].copy_from_slice(&maker.0);
    bytes[16..24].copy_from_slice(&number.to_le_bytes());
    seal(&mut bytes, file_id(number), 24);
    bytes
}

fn encode_record(number: u64, offset: u64, kind: u8, sequence: u64, payload: &[u8]) -> Vec<u8> {
    let header = RecordHeader { kind, sequence, synced_through: sequence - 1 };
    let mut bytes = framing::encode_header(file_id(number), offset, &header, payload).to_vec();
    bytes.extend_from_slice(payload);
    bytes.resize(framing::record_bytes(payload.len()), 0);
    bytes
}

/// Header and records of manifest `number`: the snapshot, then the edits.
fn encode_file(maker: Maker, number: u64, snapshot: &[u8], edits: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = encode_header(maker, number).to_vec();
    bytes.extend(encode_record(number, HEADER_BYTES as u64, SNAPSHOT, 1, snapshot));
    for (index, edit) in edits.iter().enumerate() {
        let (offset, sequence) = (bytes.len() as u64, index as u64 + 2);
        bytes.extend(encode_record(number, offset, EDIT, sequence, edit));
    }
    bytes
}

/// The files of a manifest of `maker` that holds `snapshot` alone: for a checkpoint.
pub fn files(maker: Maker, snapshot: &[u8]) -> [(String, Vec<u8>); 2] {
    let manifest = encode_file(maker, 1, snapshot, &[]);
    let current = encode_current(1, manifest.len() as u64).to_vec();
    [(name(1), manifest), (CURRENT.to_owned(), current)]
}

fn read_all<F: DeviceFile>(file: &F) -> Result<Vec<u8>> {
    let mut bytes = vec![0; file.len()? as usize];
    let filled = file.read_at(0, &mut bytes)?;
    bytes.truncate(filled);
    Ok(bytes)
}

impl<D: Device> Manifest<D> {
    /// Creates the first manifest of an empty device, for the engine `maker`.
    pub fn create(device: Arc<D>, maker: Maker, snapshot: &[u8]) -> Result<Self> {
        let manifest = Self::prepare(device, maker, 1, snapshot, &[])?;
        write_current(&*manifest.device, manifest.number, manifest.len)?;
        Ok(manifest)
    }

    /// Opens the manifest in force, or gives `None` where the device holds no store.
    ///
    /// # Errors
    /// `Config` where it is of another engine than `maker`, `Corruption` where it does not check.
    pub fn open(device: Arc<D>, maker: Maker) -> Result<Option<Opened<D>>> {
        let names = device.list()?;
        if !names.iter().any(|n| n == CURRENT) {
            return Self::refuse_remains(&*device, &names).map(|()| None);
        }
        let (number, len_noted) =
            decode_current(&read_all(&device.open(CURRENT, Mode::Buffered)?)?)?;
        let name = name(number);
        let file = device.open(&name, Mode::Buffered).map_err(|e| e.within("CURRENT names it"))?;
        let bytes = read_all(&file)?;
        let header = bytes.get(..HEADER_BYTES).unwrap_or(&bytes);
        check(header, file_id(number), 24, FORMAT, &name)?;
        let written_by = Maker::of(header);
        if !written_by.may_be(maker) {
            let message = format!(
                "{name} is of a store of engine {written_by}, not of {maker}; open it with the \
                 engine that made it"
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
        let mut reader = RecordReader::new(file_id(number), &bytes, HEADER_BYTES, 1);
        let mut payloads = Vec::new();
        while let Some(record) = reader.next_record() {
            let wanted = if payloads.is_empty() { SNAPSHOT } else { EDIT };
            if record.header.kind != wanted {
                return Err(Error::corruption(
                    &name,
                    record.payload_offset,
                    "a record is misplaced",
                ));
            }
            payloads.push(record.payload.to_vec());
        }
        if let End::Damaged(at) = reader.end() {
            return Err(Error::corruption(&name, at, "a record that was durable does not check"));
        }
        let len = reader.offset();
        if len < len_noted || payloads.is_empty() {
            let detail = format!("it ends here, but was {len_noted} bytes long");
            return Err(Error::corruption(&name, len, detail));
        }
        let others: Vec<_> = names.iter().filter(|n| is_manifest(n) && **n != name).collect();
        if !others.is_empty() {
            // The one that CURRENT named before must not go before its successor's name is durable.
            device.sync_dir()?;
        }
        others.into_iter().try_for_each(|other| device.remove(other))?;
        let next_sequence = reader.next_sequence();
        let snapshot = payloads.remove(0);
        let poisoned = false;
        let mut manifest =
            Manifest { device, maker, file, number, len, len_noted, next_sequence, poisoned };
        if len_noted != bytes.len() as u64 {
            manifest.make_durable(&snapshot, &payloads, &bytes)?;
        }
        Ok(Some(Opened { manifest, snapshot, edits: payloads }))
    }

    /// Makes everything that was found durable: in a new file or, where there is no room for one,
    /// in this one, whose `bytes` were found.
    fn make_durable(&mut self, snapshot: &[u8], edits: &[Vec<u8>], bytes: &[u8]) -> Result<()> {
        match self.replace(snapshot, edits) {
            Err(error) if error.kind() == ErrorKind::Full && !self.poisoned => {
                if self.len < bytes.len() as u64 {
                    self.file.truncate(self.len)?;
                }
                // Written again, since a sync that failed may have left it in memory only.
                let found = self.len_noted as usize..self.len as usize;
                self.file.write_at(self.len_noted, &bytes[found])?;
                self.file.sync()
            }
            result => result,
        }
    }

    /// Without `CURRENT` only the remains of a creation may be there; they are removed.
    fn refuse_remains(device: &D, names: &[String]) -> Result<()> {
        if let Some(other) = names.iter().find(|n| !is_manifest(n)) {
            let message = format!(
                "{CURRENT} is missing although {other} is there: the store is damaged; restore it \
                 from a backup, or remove the directory to start anew"
            );
            return Err(Error::new(ErrorKind::Corruption, message));
        }
        names.iter().try_for_each(|n| device.remove(n))
    }

    /// Writes manifest `number`, durable but not in force.
    fn prepare(
        device: Arc<D>,
        maker: Maker,
        number: u64,
        snapshot: &[u8],
        edits: &[Vec<u8>],
    ) -> Result<Self> {
        let name = name(number);
        let bytes = encode_file(maker, number, snapshot, edits);
        let file = device.create(&name, Mode::Buffered)?;
        let written =
            file.write_at(0, &bytes).and_then(|()| file.sync()).and_then(|()| device.sync_dir());
        if let Err(error) = written {
            // Only tidiness: an open removes what CURRENT does not name.
            let _ = device.remove(&name);
            return Err(error);
        }
        let len = bytes.len() as u64;
        let (next_sequence, poisoned) = (edits.len() as u64 + 2, false);
        Ok(Manifest { device, maker, file, number, len, len_noted: len, next_sequence, poisoned })
    }

    fn check_poison(&self) -> Result<()> {
        if self.poisoned {
            let message = "a sync of the manifest failed earlier; reopen the store";
            return Err(Error::new(ErrorKind::Poisoned, message));
        }
        Ok(())
    }

    /// Appends an edit and makes it durable.
    pub fn append(&mut self, edit: &[u8]) -> Result<()> {
        self.check_poison()?;
        let record = encode_record(self.number, self.len, EDIT, self.next_sequence, edit);
        // A write that fails leaves a torn tail, which the next append overwrites.
        self.file.write_at(self.len, &record)?;
        if let Err(error) = self.file.sync() {
            self.poisoned = true;
            return Err(error);
        }
        self.len += record.len() as u64;
        self.next_sequence += 1;
        Ok(())
    }

    /// Replaces the manifest by one that holds `snapshot` alone.
    pub fn rewrite(&mut self, snapshot: &[u8]) -> Result<()> {
        self.check_poison()?;
        self.replace(snapshot, &[])
    }

    fn replace(&mut self, snapshot: &[u8], edits: &[Vec<u8>]) -> Result<()> {
        let (device, maker) = (self.device.clone(), self.maker);
        let next = Self::prepare(device, maker, self.number + 1, snapshot, edits)?;
        if let Err(error) = prepare_current(&*self.device, next.number, next.len) {
            let _ = self.device.remove(&name(next.number));
            return Err(error);
        }
        if let Err(error) = switch_current(&*self.device) {
            // Whether CURRENT names the old or the new one is not known.
            self.poisoned = true;
            return Err(error);
        }
        let old = std::mem::replace(self, next);
        self.device.remove(&name(old.number))
    }

    /// True after a failed sync: nothing more is accepted until the store is opened again.
    pub fn is_poisoned(&self) -> bool {
        self.poisoned
    }

    /// Notes in `CURRENT` how long the manifest is, so that a loss of its end is found.
    pub fn close(&mut self) -> Result<()> {
        self.check_poison()?;
        if self.len > self.len_noted {
            write_current(&*self.device, self.number, self.len)?;
            self.len_noted = self.len;
        }
        Ok(())
    }
}

fn is_manifest(name: &str) -> bool {
    name.starts_with(PREFIX) || name == CURRENT_NEW
}

fn write_current<D: Device>(device: &D, number: u64, len: u64) -> Result<()> {
    prepare_current(device, number, len)?;
    switch_current(device)
}

/// Writes the next `CURRENT` under a name of its own.
fn prepare_current<D: Device>(device: &D, number: u64, len: u64) -> Result<()> {
    if device.list()?.iter().any(|n| n == CURRENT_NEW) {
        device.remove(CURRENT_NEW)?;
    }
    let file = device.create(CURRENT_NEW, Mode::Buffered)?;
    let written = file.write_at(0, &encode_current(number, len)).and_then(|()| file.sync());
    written.inspect_err(|_| {
        // Only tidiness: it is removed before the next one is made.
        let _ = device.remove(CURRENT_NEW);
    })
}

fn switch_current<D: Device>(device: &D) -> Result<()> {
    device.rename(CURRENT_NEW, CURRENT)?;
    device.sync_dir()
}

/// What can be read of a manifest that may be damaged.
#[derive(Debug, Default)]
pub struct Salvaged {
    /// The engine that wrote it, where it says so.
    pub maker: Option<Maker>,
    /// The snapshot, where it checks.
    pub snapshot: Option<Vec<u8>>,
    /// The edits behind it, up to the first that does not check.
    pub edits: Vec<Vec<u8>>,
    /// True where nothing is known to be missing.
    pub is_whole: bool,
    /// What is wrong, in words.
    pub damage: Vec<String>,
}

/// Reads what is left of a manifest, and changes nothing.
pub fn salvage<D: Device>(device: &D) -> Result<Salvaged> {
    let mut found = Salvaged::default();
    let names = device.list()?;
    let is_about_the_file =
        |error: &Error| matches!(error.kind(), ErrorKind::Corruption | ErrorKind::NotFound);
    let current = device.open(CURRENT, Mode::Buffered).and_then(|file| read_all(&file));
    let (named, len_noted) = match current.and_then(|bytes| decode_current(&bytes)) {
        Ok((number, len)) => (Some(name(number)), len),
        Err(error) if is_about_the_file(&error) => {
            found
                .damage
                .push(format!("{CURRENT} does not say which manifest is in force: {error}"));
            (names.iter().rfind(|n| n.starts_with(PREFIX)).cloned(), 0)
        }
        Err(error) => return Err(error),
    };
    let Some(name) = named.filter(|name| names.contains(name)) else {
        found.damage.push("there is no manifest".into());
        return Ok(found);
    };
    let bytes = read_all(&device.open(&name, Mode::Buffered)?)?;
    let number = name.strip_prefix(PREFIX).and_then(|n| n.parse().ok()).unwrap_or(0);
    let id = file_id(number);
    let header = bytes.get(..HEADER_BYTES).unwrap_or(&bytes);
    match check(header, id, 24, FORMAT, &name) {
        Ok(()) => found.maker = Some(Maker::of(header)).filter(|maker| *maker != Maker::UNKNOWN),
        Err(error) => found.damage.push(error.to_string()),
    }
    let mut reader = RecordReader::new(id, &bytes, HEADER_BYTES, 1);
    while let Some(record) = reader.next_record() {
        match found.snapshot {
            None => found.snapshot = Some(record.payload.to_vec()),
            Some(_) => found.edits.push(record.payload.to_vec()),
        }
    }
    let is_cut = matches!(reader.end(), End::Damaged(_)) || reader.offset() < len_noted;
    if is_cut {
        found.damage.push(format!("{name} cannot be read from offset {} on", reader.offset()));
    }
    found.is_whole = !is_cut && found.snapshot.is_some();
    Ok(found)
}

/// A state that a manifest holds.
pub trait Ledger: Sized {
    /// One change.
    type Edit;

    /// Makes a change.
    fn apply(&mut self, edit: &Self::Edit);
    /// The snapshot payload.
    fn encode(&self) -> Vec<u8>;
    /// The edit payload.
    fn encode_edit(edit: &Self::Edit) -> Vec<u8>;
    /// Reads an edit payload.
    fn decode_edit(bytes: &[u8]) -> Result<Self::Edit>;
}

/// Edits after which a manifest is rewritten as one snapshot.
const EDITS_MAX: u32 = 1000;

/// A manifest and the state it holds, changed together.
pub struct Book<D: Device, S> {
    manifest: Manifest<D>,
    state: S,
    /// Edits since the last snapshot.
    edits: u32,
}

impl<D: Device, S: Ledger> Book<D, S> {
    /// A new manifest of the engine `maker` with this state.
    pub fn create(device: Arc<D>, maker: Maker, state: S) -> Result<Self> {
        let manifest = Manifest::create(device, maker, &state.encode())?;
        Ok(Book { manifest, state, edits: 0 })
    }

    /// What was opened, its snapshot read as `state`.
    pub fn open(opened: Opened<D>, mut state: S) -> Result<Self> {
        for edit in &opened.edits {
            state.apply(&S::decode_edit(edit)?);
        }
        Ok(Book { manifest: opened.manifest, state, edits: opened.edits.len() as u32 })
    }

    /// The state.
    pub fn state(&self) -> &S {
        &self.state
    }

    /// True where what the manifest says is not known any more.
    pub fn is_poisoned(&self) -> bool {
        self.manifest.is_poisoned()
    }

    /// Makes `edits` durable, and then changes the state.
    pub fn edit(&mut self, edits: &[S::Edit]) -> Result<()> {
        for edit in edits {
            self.manifest.append(&S::encode_edit(edit))?;
            self.state.apply(edit);
            self.edits += 1;
        }
        if self.edits >= EDITS_MAX { self.rewrite() } else { Ok(()) }
    }

    /// Writes the manifest anew as one snapshot, of the newest version.
    ///
    /// # Errors
    /// Those of the device. The manifest stays as it was, unless it is poisoned.
    pub fn rewrite(&mut self) -> Result<()> {
        self.manifest.rewrite(&self.state.encode())?;
        self.edits = 0;
        Ok(())
    }

    /// Before the store is dropped: notes how long the manifest is.
    pub fn close(&mut self) -> Result<()> {
        self.manifest.close()
    }
}

#[cfg(test)]
#[path = "manifest_tests.rs"]
mod tests;
