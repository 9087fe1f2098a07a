//! SCRIPT: the scripts that are kept, and what ends one.

use super::{Cx, introspect};
use crate::burst::Args;
use crate::resp::scripts::{Kill, check, new_script};

pub(crate) fn help(cx: &mut Cx<'_>, _: Args<'_>) {
    introspect::help(cx, "script");
}

pub(crate) fn load(cx: &mut Cx<'_>, args: Args<'_>) {
    let service = cx.service;
    let loaded = new_script(args.get(2)).and_then(|script| {
        check(service, &script.body)?;
        service.scripts.add(script, false)
    });
    match loaded {
        Ok(script) => cx.reply.bulk(script.name.as_bytes()),
        Err(text) => cx.reply.error(&text),
    }
}

pub(crate) fn exists(cx: &mut Cx<'_>, args: Args<'_>) {
    cx.reply.array(args.len() - 2);
    for name in args.from(2) {
        cx.reply.integer(cx.service.scripts.get(name).is_some().into());
    }
}

/// True if the arguments from the third on are none, or SYNC or ASYNC, which mean the same here.
pub(super) fn is_flush(args: Args<'_>) -> bool {
    args.len() == 2 || (args.len() == 3 && (args.is(2, "sync") || args.is(2, "async")))
}

pub(crate) fn flush(cx: &mut Cx<'_>, args: Args<'_>) {
    if !is_flush(args) {
        return cx.reply.error("ERR SCRIPT FLUSH only support SYNC|ASYNC option");
    }
    cx.service.scripts.clear();
    cx.reply.ok();
}

pub(crate) fn kill(cx: &mut Cx<'_>, _: Args<'_>) {
    answer_kill(cx, false);
}

/// Ends the scripts, or the functions, that take long.
pub(super) fn answer_kill(cx: &mut Cx<'_>, functions: bool) {
    match cx.service.runnings.kill(functions) {
        Kill::Done => cx.reply.ok(),
        Kill::None => cx.reply.error("NOTBUSY No scripts in execution right now."),
        Kill::Written => cx.reply.error(
            "UNKILLABLE Sorry the script already executed write commands against the dataset. \
             You can either wait the script termination or kill the server in a hard way using \
             the SHUTDOWN NOSAVE command.",
        ),
        Kill::Other if functions => cx.reply.error(
            "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN \
             NOSAVE.",
        ),
        Kill::Other => cx.reply.error(
            "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN \
             NOSAVE.",
        ),
    }
}

/// There is no debugger.
pub(crate) fn debug(cx: &mut Cx<'_>, args: Args<'_>) {
    match args.is(2, "no") {
        true => cx.reply.ok(),
        false => cx.reply.error("ERR scripts cannot be debugged here; use SCRIPT DEBUG NO"),
    }
}
