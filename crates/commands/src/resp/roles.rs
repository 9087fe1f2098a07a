//! What a server is made of: it has no modules.

use super::{Cx, Keyspace, introspect};
use crate::burst::Args;
use silica::engine::Result;
use silica_proto::Reply;

/// Seconds that DEBUG SLEEP lets the server sleep at most.
const SLEEP_SECONDS_MAX: f64 = 3600.0;

pub(crate) fn module_help(cx: &mut Cx<'_>, _: Args<'_>) {
    introspect::help(cx, "module");
}

/// MODULE LIST.
pub(crate) fn modules(cx: &mut Cx<'_>, _: Args<'_>) {
    cx.reply.array(0);
}

pub(crate) fn debug_help(cx: &mut Cx<'_>, _: Args<'_>) {
    introspect::help(cx, "debug");
}

/// DEBUG ERROR.
pub(crate) fn debug_error(cx: &mut Cx<'_>, args: Args<'_>) {
    let text = String::from_utf8_lossy(args.get(2)).replace(['\r', '\n'], " ");
    cx.reply.error(&text);
}

/// DEBUG LOG.
pub(crate) fn debug_log(cx: &mut Cx<'_>, args: Args<'_>) {
    log::warn!("DEBUG LOG: {}", String::from_utf8_lossy(args.get(2)).replace(['\r', '\n'], " "));
    cx.reply.ok();
}

/// DEBUG PROTOCOL: the values that Redis answers, by which libraries of clients are tested.
#[expect(clippy::approx_constant, reason = "it is what Redis answers")]
pub(crate) fn debug_protocol(cx: &mut Cx<'_>, args: Args<'_>) {
    let reply = &mut cx.reply;
    match &args.get(2).to_ascii_lowercase()[..] {
        b"string" => reply.bulk(b"Hello World"),
        b"integer" => reply.integer(12_345),
        b"double" => reply.double(3.141),
        b"null" => reply.null(),
        b"array" => {
            reply.array(3);
            (0..3).for_each(|n| reply.integer(n));
        }
        b"set" => {
            reply.set(3);
            (0..3).for_each(|n| reply.integer(n));
        }
        b"map" => {
            reply.map(3);
            for n in 0..3 {
                reply.integer(n);
                reply.boolean(n == 1);
            }
        }
        b"verbatim" => reply.verbatim(b"This is a verbatim\nstring"),
        b"true" => reply.boolean(true),
        b"false" => reply.boolean(false),
        _ => reply.error(
            "ERR Wrong protocol type name. Please use one of the following: \
             string|integer|double|null|array|set|map|verbatim|true|false",
        ),
    }
}

/// DEBUG SLEEP: no client is served for so many seconds, which tests of clients ask for.
pub(crate) fn sleep(keys: &Keyspace<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Result<()> {
    let text = std::str::from_utf8(args.get(2)).ok();
    let seconds = text.and_then(|text| text.parse::<f64>().ok());
    let Some(seconds) = seconds.filter(|seconds| (0.0..=SLEEP_SECONDS_MAX).contains(seconds))
    else {
        reply.error("ERR give the seconds to sleep, 0 to 3600");
        return Ok(());
    };
    let service = keys.service;
    let now_ms = service.monotonic_ms();
    let until_ms = now_ms + (seconds * 1000.0) as u64;
    service.pause.begin(until_ms, true, now_ms);
    service.pause.sleep(until_ms, || service.monotonic_ms(), || service.is_stopping());
    reply.ok();
    Ok(())
}
