//! What a migration keeps beside the store, so that it goes on where it was interrupted.
//!
//! The **note** says up to which place entries are the same on both engines. The **journal** has
//! the keys that were written since, by anybody, until the migration goes on. So what may have
//! become different up to that place is in the journal, and what lies behind it is still to be
//! looked at: together they are what is left to do.
//!
//! Invariants:
//!
//! 1. A key is in the journal before it is written to the source.
//! 2. The journal survives the death of the process, since it is a mapped file. It survives a
//!    power cut only where it was synced, and writers do not wait for that: so a note **rests**, or
//!    it names the system's boot. One that rests was written when all of the journal was durable,
//!    and none that does not is trusted after another boot.
//! 3. What the journal cannot hold makes the note go, durably, before it is written to the source.
//!
//! The bytes are described in `docs/formats/store.md`.

use super::copy::{Place, Step, Sum};
use crate::sealed::Kind;
use log::{info, warn};
use silica_base::{Format, checksum, is_zero, read_varint, write_varint};
use silica_device::{Device, DeviceFile, FileDevice, LogFile, Mode};
use silica_engine::{Op, OpKind, Result, WriteBatch};
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What names of directories of journals begin with.
const PREFIX: &str = "migration-";
const NOTE: &str = "note";
const KEYS_PREFIX: &str = "keys-";
const KIND: Kind = Kind(Format {
    name: "migration's note",
    magic: b"SILICAMG",
    version_bytes: 4,
    version: 1,
    steps: &[],
});

/// Bytes of a file of keys. Who writes more between two notes has everything compared again.
const KEYS_BYTES: u64 = 4 << 20;
/// Bytes of keys at which it is time for another note.
const KEYS_BYTES_SOON: u64 = KEYS_BYTES / 4;
/// Before each key: its length, and a checksum of length and key.
const KEY_HEADER_BYTES: usize = 8;

/// Where the system tells which of its starts this is.
const BOOT_FILE: &str = "/proc/sys/kernel/random/boot_id";

/// The directory of the journal of a migration to the engine in directory number `id`.
pub(crate) fn directory_of(id: u64) -> String {
    format!("{PREFIX}{id}")
}

/// The number of the target whose journal the directory `name` is.
pub(crate) fn target_of_directory(name: &str) -> Option<u64> {
    name.strip_prefix(PREFIX)?.parse().ok()
}

/// What a call is about to change.
#[derive(Clone, Copy)]
pub(crate) enum Touch<'t> {
    Keys(&'t [&'t [u8]]),
    Batch(&'t WriteBatch<'t>),
    Ops(&'t [Op<'t>]),
    /// More than can be named.
    Anything,
}

/// How far a migration is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) step: Step,
    /// Up to here the step is done.
    pub(super) place: Place,
    /// The target may have entries that the source has not.
    pub(super) has_strays: bool,
    /// Entries that the step looked at.
    pub(super) looked: u64,
    /// Of the entries that were compared.
    pub(super) sum: Sum,
    /// The files of keys that were written since: from the first on, and before the end.
    first: u64,
    end: u64,
    /// Of the system, where writes since may not be durable in the journal.
    boot: Option<String>,
}

impl Note {
    pub(super) fn new(has_strays: bool) -> Self {
        let (step, place, sum) = (Step::Copy, Place::Start, Sum::default());
        Note { step, place, has_strays, looked: 0, sum, first: 0, end: 0, boot: None }
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let (place, at) = match &self.place {
            Place::Start => (0, Vec::new()),
            Place::After(key) => (1, key.clone()),
            Place::Cursor(cursor) => (2, cursor.to_le_bytes().to_vec()),
            Place::End => (3, Vec::new()),
        };
        let Sum { entries, checksum, bytes } = self.sum;
        let numbers = [
            self.step as u64,
            u64::from(self.has_strays),
            self.looked,
            entries,
            bytes,
            checksum,
            self.first,
            self.end,
            place,
        ];
        numbers.iter().for_each(|number| write_varint(&mut out, *number));
        for text in [&at[..], self.boot.as_deref().unwrap_or_default().as_bytes()] {
            write_varint(&mut out, text.len() as u64);
            out.extend_from_slice(text);
        }
        out
    }

    fn decode(mut bytes: &[u8]) -> Option<Self> {
        let bytes = &mut bytes;
        let mut numbers = [0; 9];
        for number in &mut numbers {
            *number = take_number(bytes)?;
        }
        let [step, has_strays, looked, entries, of, checksum, first, end, place] = numbers;
        let (at, boot) = (take_text(bytes)?, take_text(bytes)?);
        let place = match place {
            0 => Place::Start,
            1 => Place::After(at),
            2 => Place::Cursor(u64::from_le_bytes(at.try_into().ok()?)),
            3 => Place::End,
            _ => return None,
        };
        let boot = String::from_utf8(boot).ok()?;
        bytes.is_empty().then_some(Note {
            step: *Step::ALL.get(usize::try_from(step).ok()?)?,
            place,
            has_strays: has_strays != 0,
            looked,
            sum: Sum { entries, checksum, bytes: of },
            first,
            end,
            boot: Some(boot).filter(|boot| !boot.is_empty()),
        })
    }
}

fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let (number, len) = read_varint(bytes)?;
    *bytes = &bytes[len..];
    Some(number)
}

fn take_text(bytes: &mut &[u8]) -> Option<Vec<u8>> {
    let len = usize::try_from(take_number(bytes)?).ok()?;
    let text = bytes.get(..len)?.to_vec();
    *bytes = &bytes[len..];
    Some(text)
}

struct State {
    /// As it is on the device; `None` where there is none to be trusted.
    note: Option<Note>,
    /// Keys are kept: for a note that is there, or that comes.
    is_kept: bool,
    /// Where keys go; made for the first one.
    keys: Option<<FileDevice as Device>::Log>,
    /// Number of the next file of keys.
    next: u64,
    /// How often a note was given up.
    distrusts: u64,
}

/// Note and journal of one migration.
pub(crate) struct Journal {
    device: FileDevice,
    boot: Option<String>,
    state: Mutex<State>,
}

/// Keys that were written since the last note, and those to come.
pub(super) struct Page {
    first: u64,
    had_keys: bool,
    distrusts: u64,
}

impl Journal {
    /// Begins with a note that nothing is done yet. Nobody writes meanwhile.
    pub(super) fn create(device: FileDevice, note: &Note) -> Result<Self> {
        for name in device.list()? {
            device.remove(&name)?;
        }
        let journal = Journal::new(device, this_boot(), None, 0);
        let page = journal.turn_page();
        journal.keep(note, &page)?;
        Ok(journal)
    }

    fn new(device: FileDevice, boot: Option<String>, note: Option<Note>, next: u64) -> Self {
        let is_kept = note.is_some();
        let state = State { note, is_kept, keys: None, next, distrusts: 0 };
        Journal { device, boot, state: Mutex::new(state) }
    }

    /// The journal of an interrupted migration, where its note is to be trusted.
    pub(crate) fn open(device: FileDevice) -> Result<Option<Self>> {
        Self::open_after(device, this_boot())
    }

    fn open_after(device: FileDevice, boot: Option<String>) -> Result<Option<Self>> {
        let place = device.path().join(NOTE).display().to_string();
        let body = KIND.read(&device.path().join(NOTE)).unwrap_or_else(|error| {
            warn!("{error}");
            None
        });
        let note = body.and_then(|body| Note::decode(&body));
        let is_trusted = note.as_ref().is_some_and(|note| note.boot.is_none() || note.boot == boot);
        let numbers = device.list()?.into_iter().filter_map(|name| number_of(&name));
        let end = note.as_ref().map_or(0, |note| note.end);
        let next = numbers.map(|number| number + 1).fold(end, u64::max);
        let journal = Journal::new(device, boot, note, next);
        if !is_trusted {
            info!("{place} does not say how far the migration is: all of it is compared again");
            journal.distrust(&mut journal.lock())?;
            return Ok(None);
        }
        Ok(Some(journal))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last note, unless it is not to be trusted any more.
    pub(super) fn note(&self) -> Option<Note> {
        self.lock().note.clone()
    }

    /// Keys are about to be written. An error is one of the device, which cannot even remove the
    /// note: nothing must be written then.
    pub(crate) fn touch(&self, touch: Touch<'_>) -> Result<()> {
        let mut state = self.lock();
        if !state.is_kept {
            return Ok(());
        }
        let mut bytes = Vec::new();
        match touch {
            Touch::Keys(keys) => keys.iter().for_each(|key| add_key(&mut bytes, key)),
            Touch::Batch(batch) if batch.has_ranges() => return self.distrust(&mut state),
            Touch::Batch(batch) => batch.ops().iter().for_each(|op| add_key(&mut bytes, op.key)),
            Touch::Ops(ops) if ops.iter().any(|op| matches!(op.kind, OpKind::DeleteRange(_))) => {
                return self.distrust(&mut state);
            }
            Touch::Ops(ops) => ops.iter().for_each(|op| add_key(&mut bytes, op.key)),
            Touch::Anything => return self.distrust(&mut state),
        }
        let kept = self.begin_keys(&mut state).and_then(|()| match &state.keys {
            Some(keys) => keys.append(&[&bytes]).map(drop),
            None => Ok(()),
        });
        kept.or_else(|error| {
            info!("the migration, going on, will compare everything again: {error}");
            self.distrust(&mut state)
        })
    }

    /// Makes the file for keys to come, and a note that does not rest.
    fn begin_keys(&self, state: &mut State) -> Result<()> {
        if state.keys.is_some() {
            return Ok(());
        }
        self.make_keys(state)?;
        match &mut state.note {
            None => Ok(()),
            Some(note) => {
                (note.boot, note.end) = (Some(self.boot()), state.next);
                self.write(note)
            }
        }
    }

    fn make_keys(&self, state: &mut State) -> Result<()> {
        let keys = self.device.create_log(&name_of(state.next), KEYS_BYTES)?;
        state.next += 1;
        keys.sync()?;
        self.device.sync_dir()?;
        state.keys = Some(keys);
        Ok(())
    }

    /// What notes that do not rest name: a system that does not tell is never the same.
    fn boot(&self) -> String {
        self.boot.clone().unwrap_or_else(|| "?".into())
    }

    fn write(&self, note: &Note) -> Result<()> {
        KIND.write(&self.device.path().join(NOTE), &note.encode())
    }

    /// Removes the note; keys are not kept any more, until there is another one.
    fn distrust(&self, state: &mut State) -> Result<()> {
        state.is_kept = false;
        state.distrusts += 1;
        state.note = None;
        state.keys = None;
        if self.device.list()?.iter().any(|name| name == NOTE) {
            self.device.remove(NOTE)?;
        }
        self.device.sync_dir()?;
        self.remove_keys(|_| true);
        Ok(())
    }

    fn remove_keys(&self, goes: impl Fn(u64) -> bool) {
        for name in self.device.list().unwrap_or_default() {
            if number_of(&name).is_some_and(&goes) {
                // What stays is removed with the directory.
                let _ = self.device.remove(&name);
            }
        }
    }

    /// True where many keys were written since the last note.
    pub(super) fn is_filling(&self) -> bool {
        self.lock().keys.as_ref().is_some_and(|keys| keys.len() > KEYS_BYTES_SOON)
    }

    /// Keys go to another file from here on. Nobody writes meanwhile.
    pub(super) fn turn_page(&self) -> Page {
        let mut state = self.lock();
        let had_keys = state.keys.take().is_some();
        state.is_kept = true;
        Page { first: state.next, had_keys, distrusts: state.distrusts }
    }

    /// Keeps `note`: what was written before `page` is the same on both engines, and durable.
    pub(super) fn keep(&self, note: &Note, page: &Page) -> Result<()> {
        let mut state = self.lock();
        if state.distrusts != page.distrusts {
            return Ok(());
        }
        if page.had_keys && state.keys.is_none() {
            // Others will write again: they need not wait for the file.
            self.make_keys(&mut state)?;
        }
        let boot = state.keys.is_some().then(|| self.boot());
        let note = Note { first: page.first, end: state.next, boot, ..note.clone() };
        self.write(&note)?;
        state.note = Some(note);
        drop(state);
        self.remove_keys(|number| number < page.first);
        Ok(())
    }

    /// The keys that were written since the last note; `None` where they are not known.
    pub(super) fn keys(&self) -> Result<Option<BTreeSet<Vec<u8>>>> {
        let mut state = self.lock();
        let Some(note) = &state.note else { return Ok(None) };
        let mut keys = BTreeSet::new();
        for number in note.first..note.end {
            let file = self.device.open_log(&name_of(number));
            let is_whole = file.is_ok_and(|file| {
                // Its length was durable before the note named it.
                file.len() == KEYS_BYTES && read_keys(file.bytes(0, KEYS_BYTES as usize), &mut keys)
            });
            if !is_whole {
                warn!("{} is damaged: everything is compared again", name_of(number));
                self.distrust(&mut state)?;
                return Ok(None);
            }
        }
        Ok(Some(keys))
    }

    /// Makes the journal durable, so that it is trusted whatever becomes of the system.
    pub(crate) fn rest(&self) -> Result<()> {
        let mut state = self.lock();
        let Some(note) = state.note.clone().filter(|note| note.boot.is_some()) else {
            return Ok(());
        };
        // The files of processes before this one, too.
        for number in note.first..note.end {
            self.device.open(&name_of(number), Mode::Buffered)?.sync()?;
        }
        let note = Note { boot: None, ..note };
        self.write(&note)?;
        state.note = Some(note);
        state.keys = None;
        Ok(())
    }
}

fn this_boot() -> Option<String> {
    let text = std::fs::read_to_string(BOOT_FILE).ok()?;
    Some(text.trim().to_string()).filter(|boot| !boot.is_empty())
}

fn name_of(number: u64) -> String {
    format!("{KEYS_PREFIX}{number}")
}

fn number_of(name: &str) -> Option<u64> {
    name.strip_prefix(KEYS_PREFIX)?.parse().ok()
}

fn add_key(out: &mut Vec<u8>, key: &[u8]) {
    // An empty key is no end.
    let len = (key.len() as u32 + 1).to_le_bytes();
    out.extend_from_slice(&len);
    out.extend_from_slice(&key_checksum(len, key).to_le_bytes());
    out.extend_from_slice(key);
}

fn key_checksum(len: [u8; 4], key: &[u8]) -> u32 {
    checksum(&[&len[..], key].concat())
}

/// Adds the keys of a file, which ends with zeroes; false where it is damaged.
fn read_keys(mut bytes: &[u8], keys: &mut BTreeSet<Vec<u8>>) -> bool {
    while let Some((header, rest)) = bytes.split_first_chunk::<KEY_HEADER_BYTES>() {
        let [len, sum] = [0, 4].map(|at| header[at..].first_chunk::<4>().expect("8 bytes"));
        let Some(key_len) = u32::from_le_bytes(*len).checked_sub(1) else { break };
        let Some(key) = rest.get(..key_len as usize) else { return false };
        if key_checksum(*len, key) != u32::from_le_bytes(*sum) {
            return false;
        }
        keys.insert(key.to_vec());
        bytes = &rest[key.len()..];
    }
    is_zero(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_device::DeviceOptions;
    use std::path::Path;

    fn device(path: &Path) -> FileDevice {
        FileDevice::open(path, DeviceOptions { create: true, ..DeviceOptions::default() }).unwrap()
    }

    fn some_note() -> Note {
        let sum = Sum { entries: 3, checksum: u64::MAX, bytes: 300 };
        let place = Place::After(b"key \0".to_vec());
        Note { step: Step::Forth, place, looked: 1000, sum, ..Note::new(true) }
    }

    fn touched(journal: &Journal, keys: &[&str]) {
        keys.iter().for_each(|key| journal.touch(Touch::Keys(&[key.as_bytes()])).unwrap());
    }

    fn known(journal: &Journal) -> Vec<String> {
        let keys = journal.keys().unwrap().expect("a note that is trusted");
        keys.into_iter().map(|key| String::from_utf8(key).unwrap()).collect()
    }

    fn opened(path: &Path, boot: Option<&str>) -> Option<Journal> {
        Journal::open_after(device(path), boot.map(String::from)).unwrap()
    }

    #[test]
    fn notes_are_read_as_they_were_written_and_cut_ones_are_none() {
        let boot = Some("a start".to_string());
        for place in [Place::Start, Place::End, Place::Cursor(9 << 40), some_note().place] {
            for step in Step::ALL {
                let note = Note { step, place: place.clone(), boot: boot.clone(), ..some_note() };
                let bytes = note.encode();
                assert_eq!(Note::decode(&bytes), Some(note));
                assert!((0..bytes.len()).all(|len| Note::decode(&bytes[..len]).is_none()));
            }
        }
    }

    #[test]
    fn keys_since_the_note_are_known_to_the_next_process() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::create(device(directory.path()), &some_note()).unwrap();
        touched(&journal, &["a", "", "b"]);
        let page = journal.turn_page();
        touched(&journal, &["c"]);
        assert_eq!(known(&journal), ["", "a", "b", "c"]);
        journal.keep(&Note { looked: 2000, ..some_note() }, &page).unwrap();
        assert_eq!(known(&journal), ["c"]);
        drop(journal);
        for round in 0..3 {
            // As if it died.
            let boot = this_boot();
            let journal = opened(directory.path(), boot.as_deref()).unwrap();
            assert_eq!(journal.note().unwrap().looked, 2000);
            touched(&journal, &[&format!("d{round}")]);
        }
        let journal = opened(directory.path(), this_boot().as_deref()).unwrap();
        assert_eq!(known(&journal), ["c", "d0", "d1", "d2"]);
    }

    #[test]
    fn after_another_boot_only_a_note_that_rests_is_trusted() {
        let directory = tempfile::tempdir().unwrap();
        let create = || {
            let journal = Journal::create(device(directory.path()), &some_note()).unwrap();
            assert!(known(&journal).is_empty());
            journal
        };
        drop(create());
        for boot in [None, Some("another")] {
            assert!(opened(directory.path(), boot).is_some(), "nothing was written");
        }
        let journal = create();
        touched(&journal, &["a"]);
        drop(journal);
        // Its files are not known to be durable: those of a process that is gone, too.
        let journal = opened(directory.path(), this_boot().as_deref()).unwrap();
        touched(&journal, &["b"]);
        journal.rest().unwrap();
        drop(journal);
        let journal = opened(directory.path(), Some("another")).unwrap();
        assert_eq!(known(&journal), ["a", "b"]);
        touched(&journal, &["c"]);
        drop(journal);
        for boot in [None, this_boot().as_deref()] {
            assert!(opened(directory.path(), boot).is_none(), "of the start 'another'");
        }
        assert!(opened(directory.path(), Some("another")).is_none(), "it is gone for ever");
    }

    #[test]
    fn a_system_that_does_not_tell_its_starts_apart_trusts_what_rests() {
        let directory = tempfile::tempdir().unwrap();
        drop(Journal::create(device(directory.path()), &some_note()).unwrap());
        let journal = opened(directory.path(), None).unwrap();
        touched(&journal, &["a"]);
        drop(journal);
        assert!(opened(directory.path(), None).is_none());
    }

    #[test]
    fn what_cannot_be_named_or_held_makes_the_note_go() {
        let directory = tempfile::tempdir().unwrap();
        let large = vec![b'k'; 64 << 10];
        for is_large in [false, true] {
            let journal = Journal::create(device(directory.path()), &some_note()).unwrap();
            match is_large {
                false => journal.touch(Touch::Anything).unwrap(),
                true => (0..KEYS_BYTES >> 16)
                    .for_each(|_| journal.touch(Touch::Keys(&[&large])).unwrap()),
            }
            assert_eq!((journal.note(), journal.keys().unwrap()), (None, None));
            touched(&journal, &["a"]);
            assert!(!directory.path().join(NOTE).exists());
            // From the next page on keys are known again.
            let page = journal.turn_page();
            touched(&journal, &["b"]);
            journal.keep(&some_note(), &page).unwrap();
            assert_eq!(known(&journal), ["b"]);
            let page = journal.turn_page();
            journal.touch(Touch::Anything).unwrap();
            journal.keep(&some_note(), &page).unwrap();
            assert_eq!(journal.note(), None, "what was touched is on no page");
        }
    }

    #[test]
    fn a_damaged_journal_is_not_trusted() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(name_of(0));
        let write = || {
            let journal = Journal::create(device(directory.path()), &some_note()).unwrap();
            touched(&journal, &["first", "second"]);
        };
        write();
        let bytes = std::fs::read(&file).unwrap();
        let used = 2 * KEY_HEADER_BYTES + "firstsecond".len();
        assert!(bytes[used..].iter().all(|byte| *byte == 0));
        let mut all = BTreeSet::new();
        assert!(read_keys(&bytes, &mut all) && all.len() == 2);
        for at in 0..used {
            for flip in [1, bytes[at]].into_iter().filter(|flip| *flip != 0) {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                assert!(!read_keys(&damaged, &mut BTreeSet::new()), "byte {at}");
            }
        }
        for cut in [0, 5, used as u64 - 1] {
            write();
            std::fs::File::options().write(true).open(&file).unwrap().set_len(cut).unwrap();
            let journal = opened(directory.path(), this_boot().as_deref()).unwrap();
            assert_eq!(journal.keys().unwrap(), None, "cut at {cut}");
            drop(journal);
            assert!(opened(directory.path(), this_boot().as_deref()).is_none(), "cut at {cut}");
        }
        write();
        std::fs::remove_file(&file).unwrap();
        let journal = opened(directory.path(), this_boot().as_deref()).unwrap();
        assert_eq!(journal.keys().unwrap(), None);
        drop(journal);
        write();
        std::fs::write(directory.path().join(NOTE), "no note").unwrap();
        assert!(opened(directory.path(), this_boot().as_deref()).is_none());
    }
}
