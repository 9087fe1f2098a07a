//! All data on its way from the primary: an RDB file, or blocks of a primary that is Silica too.

use crate::wire::{Got, Wire, failed};
use silica_commands::{Ending, Follower, Loaded, Service, Summary};
use silica_engine::Result;
use std::time::{Duration, Instant};

/// Digits of the mark behind a file whose length is not known before.
const MARK_BYTES: usize = 40;
/// How often the primary is told that somebody is there.
const SIGNS: Duration = Duration::from_secs(1);

/// Receives all data, whose position is `at`, and loads it; it comes as blocks if there is a
/// summary of what is here.
pub(crate) fn receive(
    service: &Service,
    follower: &mut Follower,
    wire: &mut Wire,
    (at, blocks): ((&str, u64), Option<Summary>),
    goes_on: &mut dyn FnMut() -> Result<()>,
) -> Result<Loaded> {
    let (ending, mut left) = match blocks {
        Some(_) => (Ending::Nothing, None),
        None => announced(wire, goes_on)?,
    };
    {
        let mut link = service.replication.link();
        (link.sync_bytes_total, link.sync_bytes_read) = (left.unwrap_or(0), 0);
    }
    let mut last_sign = Instant::now();
    let mut read_bytes = 0;
    let mut more = |bytes: &mut Vec<u8>| {
        loop {
            if left == Some(0) {
                return Ok(false);
            }
            if wire.buffer.is_empty() {
                goes_on()?;
                if last_sign.elapsed() > SIGNS {
                    // An empty line is no request: it only says that somebody is there.
                    wire.send_bytes(b"\n")?;
                    last_sign = Instant::now();
                }
                if wire.read()? == Got::Nothing {
                    continue;
                }
            }
            let len = wire.buffer.len() as u64;
            let take = left.map_or(len, |left| left.min(len));
            match take == len && bytes.is_empty() {
                true => std::mem::swap(bytes, &mut wire.buffer),
                false => {
                    bytes.extend_from_slice(&wire.buffer[..take as usize]);
                    wire.buffer.drain(..take as usize);
                }
            }
            left = left.map(|left| left - take);
            read_bytes += take;
            let mut link = service.replication.link();
            (link.sync_bytes_read, link.last_io_unix_ms) = (read_bytes, service.unix_ms());
            return Ok(true);
        }
    };
    let mut loaded = match blocks {
        Some(summary) => follower.load_blocks(at, summary, &mut more)?,
        None => follower.load(at, &ending, &mut more)?,
    };
    // What the link has read beyond the file stands before what comes next.
    let behind = std::mem::take(&mut loaded.behind);
    wire.buffer.splice(0..0, behind);
    Ok(loaded)
}

/// How the file ends, and its length if that is known.
fn announced(
    wire: &mut Wire,
    goes_on: &mut dyn FnMut() -> Result<()>,
) -> Result<(Ending, Option<u64>)> {
    let line = wire.line(goes_on)?;
    let strange = || {
        let shown: String = String::from_utf8_lossy(&line).chars().take(100).collect();
        failed(format!("the primary {} sends no data, but: {shown}", wire.name))
    };
    if let Some(mark) = line.strip_prefix(b"$EOF:") {
        if mark.len() != MARK_BYTES {
            return Err(strange());
        }
        return Ok((Ending::Mark(mark.to_vec()), None));
    }
    let digits = line.strip_prefix(b"$").and_then(|digits| std::str::from_utf8(digits).ok());
    let len = digits.and_then(|digits| digits.parse().ok()).ok_or_else(strange)?;
    Ok((Ending::Nothing, Some(len)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{Scripted, Step};

    fn how_it_ends(line: &str) -> Result<(Ending, Option<u64>)> {
        let script = Scripted::new(vec![Step::Bytes(format!("\n{line}\r\n").into_bytes())]);
        announced(&mut Wire::over(Box::new(script), Duration::from_secs(1)), &mut || Ok(()))
    }

    #[test]
    fn a_file_ends_by_its_length_or_its_mark() {
        let (ending, left) = how_it_ends("$12345").unwrap();
        assert!(matches!(ending, Ending::Nothing) && left == Some(12345));
        let mark = "m".repeat(MARK_BYTES);
        let (ending, left) = how_it_ends(&format!("$EOF:{mark}")).unwrap();
        assert!(matches!(ending, Ending::Mark(found) if found == mark.as_bytes()));
        assert_eq!(left, None);
    }

    #[test]
    fn what_announces_no_file_is_shown() {
        for line in ["$EOF:short", "$", "$-1", "$12x", "+OK", "-ERR no data"] {
            let error = how_it_ends(line).err().unwrap_or_else(|| panic!("{line} is a file"));
            assert!(error.to_string().contains(line), "{error}");
        }
    }
}
