//! SLOWLOG, LATENCY, and where a get spends its time.

use super::{Cx, Keyspace, introspect, out_of_memory, wrong_subcommand};
use crate::burst::Args;
use crate::calls::times::CommandTimes;
use crate::slowlog::Slow;
use silica::engine::{EntryRef, GetSink, Result, Stage, Stages};
use silica_proto::{Reply, parse_i64};

/// The only event whose latency is watched: a burst of requests.
const EVENT: &str = "command";

pub(crate) fn help(cx: &mut Cx<'_>, _: Args<'_>) {
    introspect::help(cx, "slowlog");
}

pub(crate) fn latency_help(cx: &mut Cx<'_>, _: Args<'_>) {
    introspect::help(cx, "latency");
}

pub(crate) fn get(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    if args.len() > 3 {
        reply.error(&wrong_subcommand(args));
        return Ok(());
    }
    let count = if args.len() > 2 { parse_i64(args.get(2)) } else { Some(10) };
    let Some(count) = count.filter(|count| *count >= -1) else {
        reply.error("ERR count should be greater than or equal to -1");
        return Ok(());
    };
    keys.claim.grow(2 * keys.service.slowlog.held_bytes()).map_err(out_of_memory)?;
    let list = keys.service.slowlog.newest(usize::try_from(count).unwrap_or(usize::MAX));
    reply.array(list.len());
    list.iter().for_each(|slow| write(slow, reply));
    Ok(())
}

fn write(slow: &Slow, reply: &mut Reply<'_>) {
    reply.array(6);
    reply.integer(slow.id as i64);
    reply.integer(slow.unix_s as i64);
    reply.integer(slow.micros as i64);
    reply.array(slow.args.len());
    slow.args.iter().for_each(|arg| reply.bulk(arg));
    reply.bulk(slow.peer.as_bytes());
    reply.bulk(&slow.name);
}

pub(crate) fn len(keys: &Keyspace<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    reply.integer(keys.service.slowlog.len() as i64);
    Ok(())
}

pub(crate) fn reset(keys: &Keyspace<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    keys.service.slowlog.clear();
    reply.ok();
    Ok(())
}

/// LATENCY HISTOGRAM: the calls of commands by the time that they took, those of all commands or
/// of those that are named; a container's name stands for its subcommands.
pub(crate) fn histogram(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let is = |name: &str, wanted: &[u8]| {
        let container = name.split_once('|').map(|(container, _)| container);
        [Some(name), container]
            .into_iter()
            .flatten()
            .any(|known| wanted.eq_ignore_ascii_case(known.as_bytes()))
    };
    let wants = |name: &str| args.len() == 2 || args.from(2).any(|wanted| is(name, wanted));
    let list = keys.service.times.list(wants);
    reply.map(list.len());
    for CommandTimes { name, calls, steps } in list {
        reply.bulk(name.as_bytes());
        reply.map(2);
        reply.bulk(b"calls");
        reply.integer(calls as i64);
        reply.bulk(b"histogram_usec");
        reply.map(steps.len());
        for (micros_max, sum) in steps {
            reply.integer(micros_max as i64);
            reply.integer(sum as i64);
        }
    }
    Ok(())
}

pub(crate) fn history(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let peaks = if args.is(2, EVENT) { keys.service.latency.history() } else { Vec::new() };
    reply.array(peaks.len());
    for peak in peaks {
        reply.array(2);
        reply.integer(peak.unix_s as i64);
        reply.integer(peak.millis as i64);
    }
    Ok(())
}

pub(crate) fn latest(keys: &Keyspace<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let Some((last, highest)) = keys.service.latency.latest() else {
        reply.array(0);
        return Ok(());
    };
    reply.array(1);
    reply.array(4);
    reply.bulk(EVENT.as_bytes());
    reply.integer(last.unix_s as i64);
    reply.integer(last.millis as i64);
    reply.integer(highest as i64);
    Ok(())
}

/// LATENCY DOCTOR: what was seen, and where to look next.
pub(crate) fn doctor(keys: &Keyspace<'_>, _: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let latency = &keys.service.latency;
    let text = match latency.latest() {
        _ if !latency.is_on() => {
            "Nothing is watched. CONFIG SET latency-monitor-threshold <milliseconds> says from \
             which time on a burst of requests is slow.\n"
                .to_string()
        }
        None => "No burst of requests was slow.\n".to_string(),
        Some((last, highest)) => {
            let all = latency.history();
            let sum: u64 = all.iter().map(|peak| peak.millis).sum();
            let ago = (keys.service.unix_ms() / 1000).saturating_sub(last.unix_s);
            format!(
                "{} seconds had a slow burst of requests, {} ms on average and {highest} at most; \
                 the last one was {ago} s ago, with {} ms.\nSLOWLOG GET shows which requests they \
                 were; CONFIG SET slowlog-stages 1 adds where their time went, and `silica why` \
                 says what the engine does.\n",
                all.len(),
                sum / all.len().max(1) as u64,
                last.millis
            )
        }
    };
    reply.verbatim(text.as_bytes());
    Ok(())
}

/// Peaks that LATENCY GRAPH draws, and characters of the longest bar.
const DRAWN_MAX: usize = 40;
const BAR_LEN: u64 = 50;

/// LATENCY GRAPH: a bar for each of the last seconds that had a slow burst.
pub(crate) fn graph(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let latency = &keys.service.latency;
    let Some((_, highest)) = latency.latest().filter(|_| args.is(2, EVENT)) else {
        let event = String::from_utf8_lossy(args.get(2));
        reply.error(&format!("ERR No samples available for event '{event}'"));
        return Ok(());
    };
    let all = latency.history();
    let last = &all[all.len().saturating_sub(DRAWN_MAX)..];
    let (low, high) = last
        .iter()
        .fold((u64::MAX, 1), |(low, high), peak| (low.min(peak.millis), high.max(peak.millis)));
    let mut text = format!("{EVENT} - high {high} ms, low {low} ms (all time high {highest} ms)\n");
    let now_s = keys.service.unix_ms() / 1000;
    for peak in last {
        let bar = "#".repeat((peak.millis * BAR_LEN).div_ceil(high) as usize);
        let ago = now_s.saturating_sub(peak.unix_s);
        text += &format!("{ago:>8} s ago {:>7} ms {bar}\n", peak.millis);
    }
    reply.verbatim(text.as_bytes());
    Ok(())
}

pub(crate) fn latency_reset(
    keys: &Keyspace<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<()> {
    let wanted = args.len() == 2 || (2..args.len()).any(|index| args.is(index, EVENT));
    reply.integer(i64::from(wanted && keys.service.latency.clear()));
    Ok(())
}

/// `SILICA.STAGES key`: the engine, the bytes of the value if there is one, and each stage with
/// nanoseconds and how often it was entered, a line each.
pub(crate) fn stages(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let mut read = Measured { keys, bytes: None };
    let mut stages = Stages::start(keys.service.clock(), Stage::Other);
    keys.engine.get_many_staged(&[args.get(1)], &mut read, &mut stages)?;
    let times = stages.stop();
    let mut text = format!("engine {}\n", keys.engine.descriptor().name);
    read.bytes.iter().for_each(|bytes| text += &format!("value_bytes {bytes}\n"));
    for (stage, time) in times.iter() {
        text += &format!("stage {} {} {}\n", stage.name(), time.nanoseconds, time.times);
    }
    reply.bulk(text.as_bytes());
    Ok(())
}

/// Reads a value, and keeps only how long it is.
struct Measured<'k, 'a> {
    keys: &'k Keyspace<'a>,
    bytes: Option<usize>,
}

impl GetSink for Measured<'_, '_> {
    fn found(&mut self, _: usize, entry: EntryRef<'_>) {
        self.bytes = Some(entry.value.len());
    }

    fn wants(&mut self, _: usize, bytes: usize) -> bool {
        self.keys.claim.grow(bytes).is_ok()
    }
}
