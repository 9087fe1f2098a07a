//! What the models say of each database, in words.

use silica::engine::Result;
use silica::tune::recommend::Why;
use silica_commands::Service;
use std::fmt::Write;

/// The databases that are open, with what the models say of them.
pub(super) fn explained(service: &Service) -> Vec<(usize, &'static str, Result<Why>)> {
    let of = |db| {
        let engine = service.databases.opened(db)?.descriptor().name;
        Some((db, engine, service.databases.why(db)?))
    };
    (0..service.databases.count()).filter_map(of).collect()
}

/// Prediction beside measurement, for people.
pub(super) fn text(service: &Service) -> String {
    let mut out = String::new();
    for (db, engine, why) in explained(service) {
        push(&mut out, format_args!("database {db}, engine {engine}"));
        match why {
            Ok(why) => push(&mut out, format_args!("{why}")),
            Err(e) => push(&mut out, format_args!("nothing is known: {e}\n")),
        }
    }
    if out.is_empty() {
        out.push_str("no database is open that the models know; use one first\n");
    }
    out
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a string takes every write");
    out.push('\n');
}
