//! The last unit of a table: what it is and where its parts are.

use super::extent::{self, Form, UNIT_BYTES};
use crate::expiry::Expiries;
use crate::fields::Fields;
use silica_base::{Error, Format, Result};

/// How every footer begins.
pub(super) const FORMAT: Format = Format {
    name: "table",
    magic: b"SILICATB",
    version_bytes: 4,
    version: 2,
    // Version 1 does not say when versions expire.
    steps: &[|footer| Expiries::default().encode(footer)],
};
/// Bytes of a footer before it says when versions expire.
pub(super) const FOOTER_BYTES: usize = 112;
/// Zeroes at their end.
const FOOTER_END_BYTES: usize = 8;

/// What a table is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Footer {
    /// Unique in the life of a store.
    pub file_id: u64,
    /// Versions, tombstones included.
    pub versions: u64,
    /// Versions that remove their key.
    pub tombstones: u64,
    /// Versions whose value lies in the value log.
    pub pointers: u64,
    /// Bytes of all keys.
    pub key_bytes: u64,
    /// Bytes of all values in the table.
    pub value_bytes: u64,
    /// At most every sequence number but 0: they are stored as what they have more.
    pub sequence_base: u64,
    /// The least sequence number.
    pub sequence_min: u64,
    /// The greatest.
    pub sequence_max: u64,
    /// Units of blocks; the index follows.
    pub block_units: u32,
    /// Units of the index; the filter follows.
    pub index_units: u32,
    /// Units of the filter; the dictionary follows.
    pub filter_units: u32,
    /// Units of the dictionary; the footer follows.
    pub dictionary_units: u32,
}

impl Footer {
    /// Units of all parts before the footer.
    pub(super) fn units(&self) -> [u32; 4] {
        [self.block_units, self.index_units, self.filter_units, self.dictionary_units]
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(FOOTER_BYTES);
        FORMAT.begin(&mut out);
        out.extend_from_slice(&0u32.to_le_bytes());
        for field in [
            self.file_id,
            self.versions,
            self.tombstones,
            self.pointers,
            self.key_bytes,
            self.value_bytes,
            self.sequence_base,
            self.sequence_min,
            self.sequence_max,
        ] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        for units in self.units() {
            out.extend_from_slice(&units.to_le_bytes());
        }
        out.extend_from_slice(&[0; FOOTER_END_BYTES]);
        debug_assert_eq!(out.len(), FOOTER_BYTES);
        out
    }

    fn decode(fields: &mut Fields<'_>) -> Option<Footer> {
        fields.u32()?;
        let footer = Footer {
            file_id: fields.u64()?,
            versions: fields.u64()?,
            tombstones: fields.u64()?,
            pointers: fields.u64()?,
            key_bytes: fields.u64()?,
            value_bytes: fields.u64()?,
            sequence_base: fields.u64()?,
            sequence_min: fields.u64()?,
            sequence_max: fields.u64()?,
            block_units: fields.u32()?,
            index_units: fields.u32()?,
            filter_units: fields.u32()?,
            dictionary_units: fields.u32()?,
        };
        Some(footer)
    }

    fn is_consistent(&self, file_id: u64, number: u64) -> bool {
        let units = self.units().iter().map(|units| u64::from(*units)).sum::<u64>();
        self.file_id == file_id
            && units == number
            && self.block_units > 0
            && self.index_units > 0
            && units <= u64::from(u32::MAX)
            && self.tombstones <= self.versions
            && self.pointers <= self.versions
            && self.sequence_min <= self.sequence_max
    }

    /// Writes the footer into `unit`, which becomes the last of its file and has `number` before
    /// it.
    pub(super) fn seal_into(&self, expiries: &Expiries, unit: &mut [u8], number: u64) {
        let mut bytes = self.encode();
        expiries.encode(&mut bytes);
        unit[..bytes.len()].copy_from_slice(&bytes);
        extent::seal(unit, self.file_id, number * UNIT_BYTES as u64, bytes.len(), Form::default());
    }

    /// The file id in a unit that begins as a footer does; nothing is checked.
    pub(super) fn claimed_id(unit: &[u8]) -> Option<u64> {
        // The prefix and a reserved word.
        let mut fields = Fields(unit.get(16..).filter(|_| FORMAT.begins(unit))?);
        fields.u64()
    }

    /// Reads the footer of the file `name` from its last unit.
    pub(super) fn open(
        unit: &[u8],
        name: &str,
        file_id: u64,
        number: u64,
    ) -> Result<(Footer, Expiries)> {
        let at = number * UNIT_BYTES as u64;
        let bytes = FORMAT.upgraded(name, at, extent::check(unit, name, file_id, at)?)?;
        let mut fields = Fields(&bytes[FORMAT.prefix_bytes()..]);
        let footer = Self::decode(&mut fields);
        fields.take(FOOTER_END_BYTES);
        footer
            .filter(|footer| footer.is_consistent(file_id, number))
            .zip(Expiries::decode(&mut fields))
            .ok_or_else(|| Error::corruption(name, at, "impossible footer"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn footers_round_trip_and_newer_versions_are_refused() {
        let footer = Footer {
            file_id: 7,
            versions: 5,
            tombstones: 1,
            sequence_min: 3,
            sequence_max: 9,
            block_units: 4,
            index_units: 1,
            filter_units: 2,
            ..Footer::default()
        };
        let (mut unit, none) = (vec![0; UNIT_BYTES], Expiries::default());
        footer.seal_into(&none, &mut unit, 7);
        assert_eq!(Footer::open(&unit, "t", 7, 7).expect("whole"), (footer, none.clone()));
        assert!(Footer::open(&unit, "t", 8, 7).is_err() && Footer::open(&unit, "t", 7, 6).is_err());
        // The first version ends before it says when versions expire.
        unit[8] = 1;
        extent::seal(&mut unit, 7, 7 * UNIT_BYTES as u64, FOOTER_BYTES, Form::default());
        assert_eq!(Footer::open(&unit, "t", 7, 7).expect("older"), (footer, none.clone()));
        unit[8] = 3;
        extent::seal(&mut unit, 7, 7 * UNIT_BYTES as u64, FOOTER_BYTES, Form::default());
        let newer = Footer::open(&unit, "t", 7, 7).expect_err("a newer version");
        assert_eq!(newer.kind(), silica_base::ErrorKind::Unsupported);
        Footer { block_units: 3, ..footer }.seal_into(&none, &mut unit, 7);
        assert!(Footer::open(&unit, "t", 7, 7).is_err(), "units that do not add up");
    }
}
