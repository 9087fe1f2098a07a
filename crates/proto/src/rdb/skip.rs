//! Values that are no strings: what they are called, and how many bytes they take.

use super::reader::{Fault, Reader};

type Result<T> = std::result::Result<T, Fault>;

/// What a value consists of.
enum Shape {
    /// So many strings.
    Strings(u64),
    /// A count, and so many strings for each.
    Each(u64),
    /// A sorted set with its scores as text.
    Scores,
    /// A sorted set with its scores as 8 bytes.
    BinaryScores,
    /// Nodes, each a number and a string.
    Nodes,
    /// 8 bytes, and so many strings.
    TimeAndStrings(u64),
    /// 8 bytes, a count, and for each a number and two strings.
    TimedFields,
    /// A stream of this version.
    Stream(u8),
    Module,
}

/// Passes over a value of type `kind`; what such values are called, and `None` of a type that is
/// not known.
pub(super) fn object(kind: u8, reader: &mut Reader<'_>) -> Result<Option<&'static str>> {
    let (name, shape) = match kind {
        1 => ("list", Shape::Each(1)),
        2 => ("set", Shape::Each(1)),
        3 => ("zset", Shape::Scores),
        4 => ("hash", Shape::Each(2)),
        5 => ("zset", Shape::BinaryScores),
        7 => ("module", Shape::Module),
        9 | 13 | 16 => ("hash", Shape::Strings(1)),
        10 => ("list", Shape::Strings(1)),
        11 | 20 => ("set", Shape::Strings(1)),
        12 | 17 => ("zset", Shape::Strings(1)),
        14 => ("list", Shape::Each(1)),
        15 => ("stream", Shape::Stream(1)),
        18 => ("list", Shape::Nodes),
        19 => ("stream", Shape::Stream(2)),
        21 => ("stream", Shape::Stream(3)),
        24 => ("hash", Shape::TimedFields),
        25 => ("hash", Shape::TimeAndStrings(1)),
        _ => return Ok(None),
    };
    match shape {
        Shape::Strings(count) => reader.skip_strings(count)?,
        Shape::Each(strings) => each(reader, |reader| reader.skip_strings(strings))?,
        Shape::Scores => each(reader, |reader| {
            reader.skip_string()?;
            // Infinite scores, and those that are no number, have no text.
            let len = reader.byte()?;
            if len < 253 { reader.take(len.into()).map(drop) } else { Ok(()) }
        })?,
        Shape::BinaryScores => each(reader, |reader| {
            reader.skip_string()?;
            reader.take(8).map(drop)
        })?,
        Shape::Nodes => each(reader, |reader| {
            reader.len()?;
            reader.skip_string()
        })?,
        Shape::TimeAndStrings(count) => {
            reader.take(8)?;
            reader.skip_strings(count)?;
        }
        Shape::TimedFields => {
            reader.take(8)?;
            each(reader, |reader| {
                reader.len()?;
                reader.skip_strings(2)
            })?;
        }
        Shape::Stream(version) => stream(version, reader)?,
        Shape::Module => {
            reader.len()?;
            module(reader)?;
        }
    }
    Ok(Some(name))
}

fn each<'a>(
    reader: &mut Reader<'a>,
    mut skip: impl FnMut(&mut Reader<'a>) -> Result<()>,
) -> Result<()> {
    let count = reader.len()?;
    (0..count).try_for_each(|_| skip(reader))
}

fn numbers(reader: &mut Reader<'_>, count: usize) -> Result<()> {
    (0..count).try_for_each(|_| reader.len().map(drop))
}

/// Parts of a module's value, or of what it keeps beside values, up to their end.
pub(super) fn module(reader: &mut Reader<'_>) -> Result<()> {
    loop {
        match reader.len()? {
            0 => return Ok(()),
            1 | 2 => numbers(reader, 1)?,
            3 => drop(reader.take(4)?),
            4 => drop(reader.take(8)?),
            5 => reader.skip_string()?,
            _ => return Err(Fault::Data),
        }
    }
}

fn stream(version: u8, reader: &mut Reader<'_>) -> Result<()> {
    each(reader, |reader| reader.skip_strings(2))?;
    // Entries and the last one's number; since version 2 the first and the last removed one's, and
    // how many were ever added.
    numbers(reader, if version >= 2 { 8 } else { 3 })?;
    each(reader, |reader| {
        reader.skip_string()?;
        numbers(reader, if version >= 2 { 3 } else { 2 })?;
        each(reader, |reader| {
            // An entry's number, when it was delivered, and how often.
            reader.take(16 + 8)?;
            numbers(reader, 1)
        })?;
        each(reader, |reader| {
            reader.skip_string()?;
            reader.take(if version >= 3 { 16 } else { 8 })?;
            each(reader, |reader| reader.take(16).map(drop))
        })
    })
}
