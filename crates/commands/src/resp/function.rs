//! FUNCTION: libraries of functions.

use super::script::{answer_kill, is_flush};
use super::{Cx, SYNTAX, introspect};
use crate::burst::Args;
use crate::glob::Pattern;
use crate::resp::scripts::{Libraries, Policy, functions_of};

pub(crate) fn help(cx: &mut Cx<'_>, _: Args<'_>) {
    introspect::help(cx, "function");
}

pub(crate) fn load(cx: &mut Cx<'_>, args: Args<'_>) {
    let policy = match args.len() {
        3 => Policy::Append,
        4 if args.is(2, "replace") => Policy::Replace,
        _ => {
            let text = String::from_utf8_lossy(args.get(2)).into_owned();
            return cx.reply.error(&format!("ERR Unknown option given: {text}"));
        }
    };
    let service = cx.service;
    let text = args.get(args.len() - 1);
    let load = &mut |code: &[u8]| functions_of(service, code);
    match service.libraries.add(&[text], policy, load) {
        Ok(names) => {
            service.tell_command(args);
            cx.reply.bulk(names.concat().as_bytes());
        }
        Err(text) => cx.reply.error(&text),
    }
}

pub(crate) fn delete(cx: &mut Cx<'_>, args: Args<'_>) {
    match cx.service.libraries.remove(args.get(2)) {
        true => {
            cx.service.tell_command(args);
            cx.reply.ok();
        }
        false => cx.reply.error("ERR Library not found"),
    }
}

pub(crate) fn flush(cx: &mut Cx<'_>, args: Args<'_>) {
    if !is_flush(args) {
        return cx.reply.error("ERR FUNCTION FLUSH only supports SYNC|ASYNC option");
    }
    cx.service.libraries.clear();
    cx.service.tell_command(args);
    cx.reply.ok();
}

pub(crate) fn kill(cx: &mut Cx<'_>, _: Args<'_>) {
    answer_kill(cx, true);
}

pub(crate) fn list(cx: &mut Cx<'_>, args: Args<'_>) {
    let (mut pattern, mut with_code, mut at) = (None, false, 2);
    while at < args.len() {
        if args.is(at, "withcode") && !with_code {
            with_code = true;
        } else if args.is(at, "libraryname") && pattern.is_none() {
            at += 1;
            if at >= args.len() {
                return cx.reply.error("ERR library name argument was not given");
            }
            pattern = Some(Pattern::new(args.get(at)));
        } else {
            let text = String::from_utf8_lossy(args.get(at)).into_owned();
            return cx.reply.error(&format!("ERR Unknown argument {text}"));
        }
        at += 1;
    }
    let mut all = cx.service.libraries.list();
    all.retain(|library| {
        pattern.as_ref().is_none_or(|pattern| pattern.matches(library.name.as_bytes()))
    });
    cx.reply.array(all.len());
    for library in all {
        cx.reply.map(if with_code { 4 } else { 3 });
        cx.reply.bulk(b"library_name");
        cx.reply.bulk(library.name.as_bytes());
        cx.reply.bulk(b"engine");
        cx.reply.bulk(b"LUA");
        cx.reply.bulk(b"functions");
        cx.reply.array(library.functions.len());
        for function in &library.functions {
            cx.reply.map(3);
            cx.reply.bulk(b"name");
            cx.reply.bulk(function.name.as_bytes());
            cx.reply.bulk(b"description");
            match &function.description {
                Some(text) => cx.reply.bulk(text.as_bytes()),
                None => cx.reply.null(),
            }
            cx.reply.bulk(b"flags");
            cx.reply.set(function.flags.len());
            function.flags.iter().for_each(|flag| cx.reply.simple(flag));
        }
        if with_code {
            cx.reply.bulk(b"library_code");
            cx.reply.bulk(&library.text);
        }
    }
}

pub(crate) fn stats(cx: &mut Cx<'_>, _: Args<'_>) {
    cx.reply.map(2);
    cx.reply.bulk(b"running_script");
    match cx.service.runnings.oldest() {
        None => cx.reply.null(),
        Some(running) => {
            cx.reply.map(3);
            cx.reply.bulk(b"name");
            cx.reply.bulk(running.name.as_bytes());
            cx.reply.bulk(b"command");
            cx.reply.array(running.command.len());
            running.command.iter().for_each(|arg| cx.reply.bulk(arg));
            cx.reply.bulk(b"duration_ms");
            cx.reply.integer(cx.service.monotonic_ms().saturating_sub(running.began_ms) as i64);
        }
    }
    let all = cx.service.libraries.list();
    cx.reply.bulk(b"engines");
    cx.reply.map(1);
    cx.reply.bulk(b"LUA");
    cx.reply.map(2);
    cx.reply.bulk(b"libraries_count");
    cx.reply.integer(all.len() as i64);
    cx.reply.bulk(b"functions_count");
    cx.reply.integer(all.iter().map(|library| library.functions.len() as i64).sum());
}

pub(crate) fn dump(cx: &mut Cx<'_>, _: Args<'_>) {
    let dump = cx.service.libraries.dump();
    cx.reply.bulk(&dump);
}

pub(crate) fn restore(cx: &mut Cx<'_>, args: Args<'_>) {
    let policy = match args.len() {
        3 => Policy::Append,
        4 if args.is(3, "append") => Policy::Append,
        4 if args.is(3, "replace") => Policy::Replace,
        4 if args.is(3, "flush") => Policy::Flush,
        4 => {
            let text = "ERR Wrong restore policy given, value should be either FLUSH, APPEND or \
                        REPLACE.";
            return cx.reply.error(text);
        }
        _ => return cx.reply.error(SYNTAX),
    };
    let service = cx.service;
    let load = &mut |code: &[u8]| functions_of(service, code);
    let restored = Libraries::texts(args.get(2))
        .and_then(|texts| service.libraries.add(&texts, policy, load).map(|_| ()));
    match restored {
        Ok(()) => {
            service.tell_command(args);
            cx.reply.ok();
        }
        Err(text) => cx.reply.error(&text),
    }
}
