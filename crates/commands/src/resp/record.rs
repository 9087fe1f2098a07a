//! What databases are asked: as a sketch, and as a trace.

use super::{Keyspace, NOT_INTEGER, SYNTAX};
use crate::burst::Args;
use crate::recordings::BUFFER_BYTES;
use silica::RecordOptions;
use silica::engine::Result;
use silica_proto::{Reply, parse_i64};

fn database(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Option<u32> {
    let index = parse_i64(args.get(1)).and_then(|index| u32::try_from(index).ok());
    let index = index.filter(|index| (*index as usize) < keys.service.databases.count());
    if index.is_none() {
        reply.error("ERR DB index is out of range");
    }
    index
}

/// `SILICA.SKETCH DB`: the workload as text.
pub(crate) fn sketch(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    if let Some(index) = database(keys, args, reply) {
        reply.bulk(keys.service.databases.workload(index)?.as_bytes());
    }
    Ok(())
}

/// `SILICA.RECORD DB START [REALKEYS] [ONE N] [MAX BYTES]`, `READ` and `STOP`.
pub(crate) fn record(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let Some(index) = database(keys, args, reply) else { return Ok(()) };
    let databases = &keys.service.databases;
    if args.is(2, "start") {
        match options(args) {
            Ok(options) => {
                databases.record(index, &options)?;
                reply.ok();
            }
            Err(text) => reply.error(text),
        }
    } else if args.is(2, "read") && args.len() == 3 {
        reply.bulk(&databases.recordings.read(index)?);
    } else if args.is(2, "stop") && args.len() == 3 {
        reply.bulk(&databases.recordings.stop(index)?.0);
    } else {
        reply.error(SYNTAX);
    }
    Ok(())
}

fn options(args: Args<'_>) -> std::result::Result<RecordOptions, &'static str> {
    let mut options = RecordOptions { buffer_bytes: BUFFER_BYTES, ..RecordOptions::default() };
    let mut index = 3;
    while index < args.len() {
        if args.is(index, "realkeys") {
            options.real_keys = true;
        } else if (args.is(index, "one") || args.is(index, "max")) && index + 1 < args.len() {
            let number = parse_i64(args.get(index + 1)).and_then(|number| number.try_into().ok());
            let number: u64 = number.filter(|number| *number > 0).ok_or(NOT_INTEGER)?;
            match args.is(index, "one") {
                true => options.one_key_in = number,
                false => options.bytes_max = Some(number),
            }
            index += 1;
        } else {
            return Err(SYNTAX);
        }
        index += 1;
    }
    Ok(options)
}
