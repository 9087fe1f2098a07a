//! Memory per element: hashes of 100 small fields, and one large sorted set, each in a cache.

use super::loads::DEPTH;
use super::pair::{Pair, Side};
use super::report::MemoryRow;
use super::talk::Train;
use super::{Amounts, Course, TypesRequest};
use crate::peers::Kept;
use silica::Result;

/// Fields of a hash.
const FIELDS: u64 = 100;

/// What a server holds.
#[derive(Debug, Clone, Copy)]
struct Held {
    /// By its own count: of ours the entries that are not overwritten, with what stands before
    /// each, of Redis what its allocator gave.
    counted: u64,
    resident: u64,
}

/// Fills both servers with each kind of objects, and asks what these take.
pub(super) fn measure(
    course: &Course<'_>,
    request: &TypesRequest,
    amounts: &Amounts,
) -> Result<Vec<MemoryRow>> {
    let hashes = (0..amounts.hashes).flat_map(hash).collect();
    let members = trains(amounts.members, |train, nth| {
        // Scores come in no order.
        let mixed = nth * 2_654_435_761 % (1 << 32);
        let member = format!("member:{mixed:010}").into_bytes();
        let score = (mixed % 1_000_000).to_string().into_bytes();
        train.push(&[b"ZADD", b"board", &score, &member]);
    });
    let works: [(String, u64, Vec<Train>); 2] = [
        (
            format!("field of {} hashes of {FIELDS}", amounts.hashes),
            amounts.hashes * FIELDS,
            hashes,
        ),
        (format!("member of a sorted set of {}", amounts.members), amounts.members, members),
    ];
    let mut rows = Vec::new();
    for (what, elements, trains) in works {
        if !course.goes_on() {
            break;
        }
        let mut pair = Pair::start(course, Kept::Memory, request.memory(elements))?;
        let (ours, ours_resident) = growth(&mut pair.ours, &trains, ours_held, elements)?;
        let (redis, redis_resident) = growth(&mut pair.redis, &trains, redis_held, elements)?;
        let ratio = ours / redis;
        rows.push(MemoryRow { what, ours, redis, ratio, ours_resident, redis_resident });
    }
    Ok(rows)
}

/// Bytes per element by which a server has grown: as it counts them, and as they are resident.
fn growth(
    side: &mut Side,
    trains: &[Train],
    held: fn(&mut Side) -> Result<Held>,
    elements: u64,
) -> Result<(f64, f64)> {
    let before = held(side)?;
    side.run(trains)?;
    let after = held(side)?;
    let each = |before: u64, after: u64| after.saturating_sub(before) as f64 / elements as f64;
    Ok((each(before.counted, after.counted), each(before.resident, after.resident)))
}

fn ours_held(side: &mut Side) -> Result<Held> {
    let counted = side.told(&["db0_live_bytes"])?;
    Ok(Held { counted, resident: side.process().resident_bytes() })
}

fn redis_held(side: &mut Side) -> Result<Held> {
    let counted = side.told(&["used_memory"])?;
    Ok(Held { counted, resident: side.process().resident_bytes() })
}

/// The train that makes a hash.
fn hash(nth: u64) -> Option<Train> {
    let key = format!("hash:{nth:08}").into_bytes();
    let fields: Vec<Vec<u8>> = (0..FIELDS)
        .flat_map(|field| {
            [format!("field:{field:03}"), format!("value:{:06}", nth * field % 1_000_000)]
        })
        .map(String::into_bytes)
        .collect();
    let words = [&b"HSET"[..], &key].into_iter().chain(fields.iter().map(|word| &word[..]));
    let words: Vec<&[u8]> = words.collect();
    let mut train = Train::default();
    train.push(&words);
    Some(train)
}

/// Trains of `count` requests.
pub(super) fn trains(count: u64, request: impl Fn(&mut Train, u64)) -> Vec<Train> {
    let train = |first: u64| {
        let mut train = Train::default();
        (first..(first + DEPTH as u64).min(count)).for_each(|nth| request(&mut train, nth));
        train
    };
    (0..count).step_by(DEPTH).map(train).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trains_have_all_requests() {
        let all = trains(100, |train, _| train.push(&[b"PING"]));
        let count: usize = all.iter().map(|train| train.requests).sum();
        assert_eq!((all.len(), count), (7, 100));
    }
}
