//! CLIENT TRACKING and its like.

use super::{Cx, NOT_INTEGER, SYNTAX};
use crate::burst::Args;
use silica_proto::parse_i64;

/// What CLIENT TRACKING asks for.
#[derive(Default)]
struct Options<'a> {
    redirect: Option<u64>,
    broadcast: bool,
    opt_in: bool,
    opt_out: bool,
    no_loop: bool,
    prefixes: Vec<&'a [u8]>,
}

fn options<'a>(cx: &Cx<'_>, args: Args<'a>) -> Result<Options<'a>, &'static str> {
    let mut options = Options::default();
    let mut index = 3;
    while index < args.len() {
        let value = args.from(index + 1).next();
        match (&args.get(index).to_ascii_lowercase()[..], value) {
            (b"redirect", Some(value)) => {
                index += 1;
                if options.redirect.is_some() {
                    return Err("ERR A client can only redirect to a single other client");
                }
                let id = parse_i64(value).ok_or(NOT_INTEGER)?;
                let known =
                    u64::try_from(id).ok().filter(|id| cx.service.clients.get(*id).is_some());
                options.redirect =
                    Some(known.ok_or("ERR The client ID you want redirect to does not exist")?);
            }
            (b"bcast", _) => options.broadcast = true,
            (b"optin", _) => options.opt_in = true,
            (b"optout", _) => options.opt_out = true,
            (b"noloop", _) => options.no_loop = true,
            (b"prefix", Some(value)) => {
                index += 1;
                options.prefixes.push(value);
            }
            _ => return Err(SYNTAX),
        }
        index += 1;
    }
    Ok(options)
}

/// Switches tracking on as `options` say, or says why not.
fn switch_on(cx: &Cx<'_>, options: &Options<'_>) -> Result<(), String> {
    if !options.broadcast && !options.prefixes.is_empty() {
        return Err("ERR PREFIX option requires BCAST mode to be enabled".into());
    }
    if !options.broadcast && cx.service.tracking.of(cx.client.id).is_some() {
        return Err("ERR You can't switch BCAST mode on/off before disabling tracking for this \
                    client, and then re-enabling it with a different mode."
            .into());
    }
    if options.broadcast && (options.opt_in || options.opt_out) {
        return Err("ERR OPTIN and OPTOUT are not compatible with BCAST".into());
    }
    if options.opt_in && options.opt_out {
        return Err("ERR You can't specify both OPTIN mode and OPTOUT mode".into());
    }
    if !options.broadcast {
        return Err("ERR what a client has read is not remembered: use CLIENT TRACKING ON BCAST, \
                    with PREFIX for a part of the keys"
            .into());
    }
    let Some(client) = cx.service.clients.get(cx.client.id) else { return Ok(()) };
    cx.service.tracking.add(client, options.redirect, options.no_loop, &options.prefixes)
}

pub(crate) fn tracking(cx: &mut Cx<'_>, args: Args<'_>) {
    let options = match options(cx, args) {
        Ok(options) => options,
        Err(text) => return cx.reply.error(text),
    };
    if args.is(2, "on") {
        if let Err(text) = switch_on(cx, &options) {
            return cx.reply.error(&text);
        }
    } else if args.is(2, "off") {
        cx.service.tracking.remove(cx.client.id);
    } else {
        return cx.reply.error(SYNTAX);
    }
    cx.reply.ok();
}

pub(crate) fn getredir(cx: &mut Cx<'_>, _: Args<'_>) {
    let tracker = cx.service.tracking.of(cx.client.id);
    let redirect = tracker.map_or(-1, |tracker| tracker.redirect.unwrap_or(0) as i64);
    cx.reply.integer(redirect);
}

pub(crate) fn info(cx: &mut Cx<'_>, _: Args<'_>) {
    let tracker = cx.service.tracking.of(cx.client.id);
    let flags: Vec<&str> = match &tracker {
        None => vec!["off"],
        Some(tracker) => {
            let all = [
                ("on", true),
                ("bcast", true),
                ("noloop", tracker.no_loop),
                ("broken_redirect", tracker.broken),
            ];
            all.into_iter().filter(|(_, on)| *on).map(|(flag, _)| flag).collect()
        }
    };
    cx.reply.map(3);
    cx.reply.bulk(b"flags");
    cx.reply.set(flags.len());
    flags.iter().for_each(|flag| cx.reply.bulk(flag.as_bytes()));
    cx.reply.bulk(b"redirect");
    let redirect = tracker.as_ref().map_or(-1, |tracker| tracker.redirect.unwrap_or(0) as i64);
    cx.reply.integer(redirect);
    cx.reply.bulk(b"prefixes");
    let prefixes = tracker.map(|tracker| tracker.prefixes).unwrap_or_default();
    cx.reply.array(prefixes.len());
    prefixes.iter().for_each(|prefix| cx.reply.bulk(prefix));
}

/// Says why a client cannot choose the keys that it is told of one by one.
pub(crate) fn caching(cx: &mut Cx<'_>, args: Args<'_>) {
    if cx.service.tracking.of(cx.client.id).is_none() {
        return cx.reply.error(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN \
             or OPTOUT mode enabled",
        );
    }
    let word = match args.get(2).to_ascii_lowercase().as_slice() {
        b"yes" => "YES is only valid when tracking is enabled in OPTIN mode.",
        b"no" => "NO is only valid when tracking is enabled in OPTOUT mode.",
        _ => return cx.reply.error(SYNTAX),
    };
    cx.reply.error(&format!("ERR CLIENT CACHING {word}"));
}
