//! Records of the log and of checkpoints, as docs/formats/lfs.md has them.

use crate::node::{Attributes, Ino, Kind, Time};
use silica_base::{read_varint, write_varint};

/// A change of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    /// The inode has these attributes; it is made if it is not there.
    Attributes(Ino, Attributes),
    /// The inode is gone with all it had.
    Remove(Ino),
    /// The directory has this entry, in the place of one of the same name.
    Link { directory: Ino, name: &'a [u8], ino: Ino, kind: Kind },
    /// The directory has no entry of this name.
    Unlink { directory: Ino, name: &'a [u8] },
    /// The directory lies in another one.
    Parent { directory: Ino, parent: Ino },
    /// The target of a symbolic link.
    Target(Ino, &'a [u8]),
    /// An extended attribute, or `None` if it is gone.
    Xattr { ino: Ino, name: &'a [u8], value: Option<&'a [u8]> },
    /// Pages of a file lie at these places; `sums` has a checksum of each, little-endian, and is
    /// empty in checkpoints.
    Map { ino: Ino, index: u64, at: u64, count: u64, sums: &'a [u8] },
    /// Pages of a file are promised.
    Promise { ino: Ino, index: u64, count: u64 },
    /// Pages of a file are a hole.
    Punch { ino: Ino, index: u64, count: u64 },
    /// Numbers below this one were used for inodes.
    NextIno(Ino),
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    write_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_time(out: &mut Vec<u8>, time: Time) {
    out.extend_from_slice(&time.seconds.to_le_bytes());
    out.extend_from_slice(&time.nanoseconds.to_le_bytes());
}

fn put(out: &mut Vec<u8>, kind: u8, numbers: &[u64]) {
    out.push(kind);
    numbers.iter().for_each(|number| write_varint(out, *number));
}

impl<'a> Record<'a> {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            Record::Attributes(ino, of) => {
                put(out, 1, &[ino, of.kind as u64, of.mode.into(), of.uid.into(), of.gid.into()]);
                for number in [of.rdev.into(), of.links.into(), of.size] {
                    write_varint(out, number);
                }
                for time in [of.accessed, of.modified, of.changed, of.created] {
                    put_time(out, time);
                }
            }
            Record::Remove(ino) => put(out, 2, &[ino]),
            Record::Link { directory, name, ino, kind } => {
                put(out, 3, &[directory, ino, kind as u64]);
                put_bytes(out, name);
            }
            Record::Unlink { directory, name } => {
                put(out, 4, &[directory]);
                put_bytes(out, name);
            }
            Record::Parent { directory, parent } => put(out, 5, &[directory, parent]),
            Record::Target(ino, target) => {
                put(out, 6, &[ino]);
                put_bytes(out, target);
            }
            Record::Xattr { ino, name, value } => {
                put(out, 7, &[ino, u64::from(value.is_some())]);
                put_bytes(out, name);
                put_bytes(out, value.unwrap_or_default());
            }
            Record::Map { ino, index, at, count, sums } => {
                put(out, 8, &[ino, index, at, count]);
                put_bytes(out, sums);
            }
            Record::Promise { ino, index, count } => put(out, 9, &[ino, index, count]),
            Record::Punch { ino, index, count } => put(out, 10, &[ino, index, count]),
            Record::NextIno(ino) => put(out, 11, &[ino]),
        }
    }

    /// Reads a record off the front of `bytes`; `None` if there is none.
    pub(crate) fn decode(bytes: &mut &'a [u8]) -> Option<Record<'a>> {
        let (kind, rest) = bytes.split_first()?;
        *bytes = rest;
        let ino = take_number(bytes)?;
        Some(match kind {
            1 => Record::Attributes(ino, take_attributes(bytes)?),
            2 => Record::Remove(ino),
            3 => {
                let (to, kind) = (take_number(bytes)?, take_kind(bytes)?);
                Record::Link { directory: ino, ino: to, kind, name: take_bytes(bytes)? }
            }
            4 => Record::Unlink { directory: ino, name: take_bytes(bytes)? },
            5 => Record::Parent { directory: ino, parent: take_number(bytes)? },
            6 => Record::Target(ino, take_bytes(bytes)?),
            7 => {
                let is_set = take_number(bytes)? == 1;
                let (name, value) = (take_bytes(bytes)?, take_bytes(bytes)?);
                Record::Xattr { ino, name, value: is_set.then_some(value) }
            }
            8 => {
                let [index, at, count] = take_numbers(bytes)?;
                let sums = take_bytes(bytes)?;
                index.checked_add(count)?;
                at.checked_add(count)?;
                let fits = sums.is_empty() || (sums.len() as u64).checked_div(4) == Some(count);
                fits.then_some(Record::Map { ino, index, at, count, sums })?
            }
            9 | 10 => {
                let [index, count] = take_numbers(bytes)?;
                index.checked_add(count)?;
                match kind {
                    9 => Record::Promise { ino, index, count },
                    _ => Record::Punch { ino, index, count },
                }
            }
            11 => Record::NextIno(ino),
            _ => return None,
        })
    }
}

fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let (number, len) = read_varint(bytes)?;
    *bytes = &bytes[len..];
    Some(number)
}

fn take_numbers<const N: usize>(bytes: &mut &[u8]) -> Option<[u64; N]> {
    let mut numbers = [0; N];
    for number in &mut numbers {
        *number = take_number(bytes)?;
    }
    Some(numbers)
}

fn take_bytes<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::try_from(take_number(bytes)?).ok()?;
    let (taken, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(taken)
}

fn take_kind(bytes: &mut &[u8]) -> Option<Kind> {
    Kind::ALL.get(usize::try_from(take_number(bytes)?).ok()?).copied()
}

fn take_time(bytes: &mut &[u8]) -> Option<Time> {
    let (taken, rest) = bytes.split_at_checked(12)?;
    *bytes = rest;
    let seconds = i64::from_le_bytes(taken[..8].try_into().expect("eight bytes"));
    let nanoseconds = u32::from_le_bytes(taken[8..].try_into().expect("four bytes"));
    Some(Time { seconds, nanoseconds })
}

fn take_attributes(bytes: &mut &[u8]) -> Option<Attributes> {
    let kind = take_kind(bytes)?;
    let mut small = [0u32; 5];
    for number in &mut small {
        *number = take_number(bytes)?.try_into().ok()?;
    }
    let [mode, uid, gid, rdev, links] = small;
    let size = take_number(bytes)?;
    let (accessed, modified) = (take_time(bytes)?, take_time(bytes)?);
    let (changed, created) = (take_time(bytes)?, take_time(bytes)?);
    Some(Attributes {
        kind,
        mode,
        uid,
        gid,
        rdev,
        links,
        size,
        accessed,
        modified,
        changed,
        created,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Vec<Record<'static>> {
        let time = Time { seconds: -5, nanoseconds: 7 };
        let attributes = Attributes {
            kind: Kind::Fifo,
            mode: 0o4755,
            uid: 1000,
            gid: u32::MAX,
            rdev: 9,
            links: 2,
            size: u64::MAX,
            accessed: time,
            modified: time,
            changed: Time::default(),
            created: time,
        };
        vec![
            Record::Attributes(7, attributes),
            Record::Remove(u64::MAX),
            Record::Link { directory: 1, name: b"name", ino: 300, kind: Kind::Symlink },
            Record::Unlink { directory: 1, name: b"" },
            Record::Parent { directory: 4, parent: 1 },
            Record::Target(9, b"../x"),
            Record::Xattr { ino: 2, name: b"user.a", value: Some(b"") },
            Record::Xattr { ino: 2, name: b"user.a", value: None },
            Record::Map { ino: 2, index: 1 << 40, at: 9, count: 2, sums: &[1; 8] },
            Record::Promise { ino: 2, index: 1, count: 1 << 33 },
            Record::Punch { ino: 2, index: 1, count: 5 },
            Record::NextIno(12),
        ]
    }

    #[test]
    fn records_come_back_and_every_cut_is_refused() {
        for record in samples() {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            let mut rest = &bytes[..];
            assert_eq!(Record::decode(&mut rest), Some(record.clone()));
            assert!(rest.is_empty());
            for cut in 0..bytes.len() {
                assert_eq!(Record::decode(&mut &bytes[..cut]), None, "{record:?} cut at {cut}");
            }
        }
    }

    #[test]
    fn hostile_bytes_are_decoded_or_refused() {
        let corpus: Vec<Vec<u8>> = samples()
            .iter()
            .map(|record| {
                let mut bytes = Vec::new();
                record.encode(&mut bytes);
                bytes
            })
            .collect();
        let mut prng = silica_base::Prng::new(1);
        for _ in 0..20_000 {
            let bytes = silica_base::mutated(&mut prng, &corpus);
            let mut rest = &bytes[..];
            while Record::decode(&mut rest).is_some() {}
        }
    }
}
