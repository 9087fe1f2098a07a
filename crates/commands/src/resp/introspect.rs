//! COMMAND.

use super::{Cx, SYNTAX};
use crate::burst::Args;
use crate::glob::Pattern;
use crate::table::{COMMANDS, Command, Trait, find, find_called, find_sub};
use silica_proto::Reply;

/// Lists the subcommands of `container`.
pub(crate) fn help(cx: &mut Cx<'_>, container: &str) {
    let subs = find(container.as_bytes()).map_or(&[][..], |command| command.subs);
    cx.reply.array(1 + 2 * subs.len());
    let upper = container.to_ascii_uppercase();
    cx.reply.simple(&format!("{upper} <subcommand> [<arg> ...]. Subcommands are:"));
    for sub in subs {
        cx.reply.simple(&sub.name[container.len() + 1..].to_ascii_uppercase());
        cx.reply.simple(&format!("    {}", sub.summary));
    }
}

pub(crate) fn command_help(cx: &mut Cx<'_>, _: Args<'_>) {
    help(cx, "command");
}

pub(crate) fn command(cx: &mut Cx<'_>, _: Args<'_>) {
    cx.reply.array(COMMANDS.len());
    COMMANDS.iter().for_each(|command| describe(command, &mut cx.reply));
}

pub(crate) fn count(cx: &mut Cx<'_>, _: Args<'_>) {
    cx.reply.integer(COMMANDS.len() as i64);
}

pub(crate) fn list(cx: &mut Cx<'_>, args: Args<'_>) {
    let is_wanted: Box<dyn Fn(&Command) -> bool> = match args.len() {
        2 => Box::new(|_| true),
        5 if !args.is(2, "filterby") => return cx.reply.error(SYNTAX),
        // There are no modules.
        5 if args.is(3, "module") => Box::new(|_| false),
        5 if args.is(3, "pattern") => {
            let pattern = Pattern::new(&args.get(4).to_ascii_lowercase());
            Box::new(move |command| pattern.matches(command.name.as_bytes()))
        }
        5 if args.is(3, "aclcat") => {
            let category = String::from_utf8_lossy(args.get(4)).to_ascii_lowercase();
            Box::new(move |command| command.categories().contains(&category.as_str()))
        }
        _ => return cx.reply.error(SYNTAX),
    };
    let all = COMMANDS.iter().flat_map(|command| std::iter::once(command).chain(command.subs));
    // Subcommands are listed where they are asked for.
    let all = all.filter(|command| args.len() > 2 || !command.name.contains('|'));
    let chosen: Vec<&Command> = all.filter(|command| is_wanted(command)).collect();
    cx.reply.array(chosen.len());
    chosen.iter().for_each(|command| cx.reply.bulk(command.name.as_bytes()));
}

/// The command or subcommand (`client|id`) called `name`.
fn find_any(name: &[u8]) -> Option<&'static Command> {
    match name.iter().position(|b| *b == b'|') {
        Some(bar) => find_sub(find(&name[..bar])?, &name[bar + 1..]),
        None => find(name),
    }
}

pub(crate) fn info(cx: &mut Cx<'_>, args: Args<'_>) {
    if args.len() == 2 {
        return command(cx, args);
    }
    cx.reply.array(args.len() - 2);
    for name in args.from(2) {
        match find_any(name) {
            Some(command) => describe(command, &mut cx.reply),
            None => cx.reply.null_array(),
        }
    }
}

fn describe(command: &Command, reply: &mut Reply<'_>) {
    reply.array(10);
    reply.bulk(command.name.as_bytes());
    reply.integer(i64::from(command.arity));
    let flags = command.shown_flags();
    reply.set(flags.clone().count());
    flags.for_each(|flag| reply.simple(flag));
    let (first, last, step) = command.keys;
    for n in [first, last, step] {
        reply.integer(i64::from(n));
    }
    let categories = command.categories();
    reply.set(categories.len());
    categories.iter().for_each(|category| reply.simple(&format!("@{category}")));
    reply.array(0);
    reply.array(0);
    reply.array(command.subs.len());
    command.subs.iter().for_each(|sub| describe(sub, reply));
}

pub(crate) fn docs(cx: &mut Cx<'_>, args: Args<'_>) {
    let chosen: Vec<&Command> = match args.len() {
        2 => COMMANDS.iter().collect(),
        _ => args.from(2).filter_map(find_any).collect(),
    };
    documents(&chosen, &mut cx.reply);
}

fn documents(commands: &[&Command], reply: &mut Reply<'_>) {
    reply.map(commands.len());
    for command in commands {
        reply.bulk(command.name.as_bytes());
        reply.map(3 + usize::from(!command.subs.is_empty()));
        for (name, text) in
            [("summary", command.summary), ("since", command.since), ("group", command.group)]
        {
            reply.bulk(name.as_bytes());
            reply.bulk(text.as_bytes());
        }
        if !command.subs.is_empty() {
            reply.bulk(b"subcommands");
            documents(&command.subs.iter().collect::<Vec<_>>(), reply);
        }
    }
}

pub(crate) fn getkeys(cx: &mut Cx<'_>, args: Args<'_>) {
    let line = args.skip(2);
    let Some(command) = find_called(line) else {
        return cx.reply.error("ERR Invalid command specified");
    };
    let finders = [Trait::CountedKeys, Trait::NumberedFirst, Trait::NumberedSecond, Trait::Streams];
    let finds_keys = finders.into_iter().any(|one| command.is(one));
    if command.keys.0 == 0 && !finds_keys {
        return cx.reply.error("ERR The command has no key arguments");
    }
    if !command.takes(line.len()) {
        return cx.reply.error("ERR Invalid number of arguments specified for command");
    }
    let keys: Vec<&[u8]> = command.keys(line).collect();
    cx.reply.array(keys.len());
    keys.iter().for_each(|key| cx.reply.bulk(key));
}
