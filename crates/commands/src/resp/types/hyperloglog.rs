//! PFADD and its like: counters of distinct elements, which are strings.

use super::{Done, Failure, Objects, TypeCommand};
use crate::burst::Args;
use crate::resp::Cx;
use crate::resp::events::Classes;
use silica_base::Prng;
use silica_proto::Reply;
use silica_types::{Corrupt, HyperLogLog};

pub(crate) static PFADD: TypeCommand = TypeCommand::write(pfadd);
/// It keeps the estimate in the string.
pub(crate) static PFCOUNT: TypeCommand = TypeCommand::write(pfcount);
pub(crate) static PFMERGE: TypeCommand = TypeCommand::write(pfmerge);
pub(crate) static PFDEBUG: TypeCommand = TypeCommand::write(pfdebug).with_key_at(2);

impl From<Corrupt> for Failure {
    fn from(_: Corrupt) -> Self {
        Failure::reply("INVALIDOBJ Corrupted HLL object detected")
    }
}

/// The counter at `key`, and when it expires.
fn counter(objects: &mut Objects<'_>, key: &[u8]) -> Done<Option<(HyperLogLog, u64)>> {
    let Some((bytes, expires_unix_ms)) = objects.string(key)? else { return Ok(None) };
    let counter = HyperLogLog::of_bytes(bytes)
        .ok_or_else(|| Failure::reply("WRONGTYPE Key is not a valid HyperLogLog string value."))?;
    Ok(Some((counter, expires_unix_ms)))
}

fn pfadd(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let key = args.get(1);
    let found = counter(objects, key)?;
    let mut is_changed = found.is_none();
    let (mut counter, expires_unix_ms) = found.unwrap_or_default();
    for element in args.from(2) {
        is_changed |= counter.add(element)?;
    }
    if is_changed {
        counter.forget_estimate();
        store(objects, key, counter, expires_unix_ms)?;
        objects.event(Classes::STRING, "pfadd", key);
    }
    reply.integer(is_changed.into());
    Ok(())
}

/// Stores a counter at `key`.
fn store(objects: &mut Objects<'_>, key: &[u8], counter: HyperLogLog, expires_ms: u64) -> Done {
    if !objects.is_there(key)? {
        objects.event(Classes::NEW, "new", key);
    }
    objects.put_string(key, counter.into_bytes(), expires_ms)
}

fn pfcount(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let key = args.get(1);
    if args.len() > 2 {
        let mut registers = HyperLogLog::no_registers();
        for key in args.from(1) {
            if let Some((counter, _)) = counter(objects, key)? {
                counter.merge_into(&mut registers)?;
            }
        }
        reply.integer(HyperLogLog::estimate_of(&registers) as i64);
        return Ok(());
    }
    let Some((mut counter, expires_unix_ms)) = counter(objects, key)? else {
        reply.integer(0);
        return Ok(());
    };
    let estimate = match counter.known_estimate() {
        Some(estimate) => estimate,
        None => {
            let estimate = counter.estimate()?;
            objects.put_string(key, counter.into_bytes(), expires_unix_ms)?;
            estimate
        }
    };
    reply.integer(estimate as i64);
    Ok(())
}

fn pfmerge(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let mut registers = HyperLogLog::no_registers();
    let mut is_dense = false;
    for key in args.from(1) {
        if let Some((counter, _)) = counter(objects, key)? {
            is_dense |= !counter.is_sparse();
            counter.merge_into(&mut registers)?;
        }
    }
    let key = args.get(1);
    let (mut counter, expires_unix_ms) = counter(objects, key)?.unwrap_or_default();
    if is_dense {
        counter.make_dense()?;
    }
    counter.merge(&registers)?;
    store(objects, key, counter, expires_unix_ms)?;
    // To the counter, merging is adding.
    objects.event(Classes::STRING, "pfadd", key);
    reply.ok();
    Ok(())
}

fn pfdebug(objects: &mut Objects<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Done {
    let key = args.get(2);
    let Some((mut counter, expires_unix_ms)) = counter(objects, key)? else {
        return Err(Failure::reply("ERR The specified key does not exist"));
    };
    let makes_dense = args.is(1, "getreg") || args.is(1, "todense");
    let was_made_dense = makes_dense && counter.make_dense()?;
    if was_made_dense {
        objects.put_string(key, counter.clone().into_bytes(), expires_unix_ms)?;
    }
    if args.is(1, "getreg") {
        let mut registers = HyperLogLog::no_registers();
        counter.merge_into(&mut registers)?;
        reply.array(registers.len());
        registers.iter().for_each(|value| reply.integer(i64::from(*value)));
    } else if args.is(1, "todense") {
        reply.integer(was_made_dense.into());
    } else if args.is(1, "encoding") {
        reply.simple(if counter.is_sparse() { "sparse" } else { "dense" });
    } else if args.is(1, "decode") {
        let text = counter.sparse_text();
        let text = text.ok_or_else(|| Failure::reply("ERR HLL encoding is not sparse"))?;
        reply.bulk(text.as_bytes());
    } else {
        let name = String::from_utf8_lossy(args.get(1));
        return Err(Failure::reply(format!("ERR Unknown PFDEBUG subcommand '{name}'")));
    }
    Ok(())
}

/// Elements that PFSELFTEST adds.
const TEST_ELEMENTS: u64 = 20_000;
/// Standard errors that an estimate may be off: one is 1.04 / √16,384.
const TEST_ERRORS_MAX: f64 = 5.0;

pub(crate) fn pfselftest(cx: &mut Cx<'_>, _: Args<'_>) {
    match test_estimates() {
        Ok(()) => cx.reply.ok(),
        Err(text) => cx.reply.error(&format!("TESTFAILED {text}")),
    }
}

/// Counts random elements in both encodings; an error if their estimates are wrong.
fn test_estimates() -> Result<(), String> {
    let mut prng = Prng::new(TEST_ELEMENTS);
    let (mut sparse, mut dense) = (HyperLogLog::default(), HyperLogLog::default());
    let corrupt = |_| "a counter is corrupt".to_string();
    dense.make_dense().map_err(corrupt)?;
    for nth in 1..=TEST_ELEMENTS {
        let element = prng.next_u64().to_le_bytes();
        if sparse.add(&element).map_err(corrupt)? != dense.add(&element).map_err(corrupt)? {
            return Err(format!("element {nth} changes one encoding only"));
        }
        if nth.is_power_of_two() || nth == TEST_ELEMENTS {
            let counts = [&mut sparse, &mut dense].map(HyperLogLog::estimate);
            let error_max = TEST_ERRORS_MAX * 1.04 / 128.0 * nth as f64 + 1.0;
            let is_near = |count: u64| count.abs_diff(nth) as f64 <= error_max;
            if counts[0] != counts[1] || !counts[0].is_ok_and(is_near) {
                return Err(format!("the estimates of {nth} elements are {counts:?}"));
            }
        }
    }
    Ok(())
}
