//! CLIENT TRACKING and its like.

use super::{Cx, NOT_INTEGER, SYNTAX};
use crate::burst::Args;
use crate::tracking::{Mode, Wish};
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
fn switch_on(cx: &mut Cx<'_>, options: &Options<'_>) -> Result<(), String> {
    if !options.broadcast && !options.prefixes.is_empty() {
        return Err("ERR PREFIX option requires BCAST mode to be enabled".into());
    }
    let old = cx.service.tracking.of(cx.client.id).map(|tracker| tracker.wish.mode);
    if old.is_some_and(|old| (old == Mode::Broadcast) != options.broadcast) {
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
    let mode = match options {
        Options { broadcast: true, .. } => Mode::Broadcast,
        Options { opt_in: true, .. } => Mode::OptIn,
        Options { opt_out: true, .. } => Mode::OptOut,
        _ => Mode::Reads,
    };
    if matches!((old, mode), (Some(Mode::OptIn), Mode::OptOut) | (Some(Mode::OptOut), Mode::OptIn))
    {
        return Err("ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this \
                    client, and then re-enabling it with a different mode."
            .into());
    }
    let Some(client) = cx.service.clients.get(cx.client.id) else { return Ok(()) };
    let wish = Wish { mode, redirect: options.redirect, no_loop: options.no_loop };
    cx.service.tracking.add(client, wish, &options.prefixes)?;
    (cx.session.tracks, cx.session.caching) = (Some(mode), false);
    Ok(())
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
        (cx.session.tracks, cx.session.caching) = (None, false);
    } else {
        return cx.reply.error(SYNTAX);
    }
    cx.reply.ok();
}

pub(crate) fn getredir(cx: &mut Cx<'_>, _: Args<'_>) {
    let tracker = cx.service.tracking.of(cx.client.id);
    let redirect = tracker.map_or(-1, |tracker| tracker.redirect().unwrap_or(0) as i64);
    cx.reply.integer(redirect);
}

pub(crate) fn info(cx: &mut Cx<'_>, _: Args<'_>) {
    let tracker = cx.service.tracking.of(cx.client.id);
    let flags: Vec<&str> = match &tracker {
        None => vec!["off"],
        Some(tracker) => {
            let (mode, caching) = (tracker.wish.mode, cx.session.caching);
            let all = [
                ("on", true),
                ("bcast", mode == Mode::Broadcast),
                ("optin", mode == Mode::OptIn),
                ("caching-yes", mode == Mode::OptIn && caching),
                ("optout", mode == Mode::OptOut),
                ("caching-no", mode == Mode::OptOut && caching),
                ("noloop", tracker.wish.no_loop),
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
    let redirect = tracker.as_ref().map_or(-1, |tracker| tracker.redirect().unwrap_or(0) as i64);
    cx.reply.integer(redirect);
    cx.reply.bulk(b"prefixes");
    let prefixes = tracker.map(|tracker| tracker.prefixes).unwrap_or_default();
    cx.reply.array(prefixes.len());
    prefixes.iter().for_each(|prefix| cx.reply.bulk(prefix));
}

/// CLIENT CACHING: whether the keys that the next request reads are noted.
pub(crate) fn caching(cx: &mut Cx<'_>, args: Args<'_>) {
    let Some(mode) = cx.session.tracks else {
        return cx.reply.error(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN \
             or OPTOUT mode enabled",
        );
    };
    let (fits, word) = match args.get(2).to_ascii_lowercase().as_slice() {
        b"yes" => (Mode::OptIn, "YES is only valid when tracking is enabled in OPTIN mode."),
        b"no" => (Mode::OptOut, "NO is only valid when tracking is enabled in OPTOUT mode."),
        _ => return cx.reply.error(SYNTAX),
    };
    if mode != fits {
        return cx.reply.error(&format!("ERR CLIENT CACHING {word}"));
    }
    cx.session.caching = true;
    cx.reply.ok();
}
