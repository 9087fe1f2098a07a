//! SORT: strings have no elements, so all that can be sorted is a key that is not there.

use super::{SYNTAX, Values};
use crate::burst::Args;
use crate::table::{Read, Wants};
use silica_proto::{Reply, parse_i64};

const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

pub(crate) static SORT: Read = Read::new(1, Wants::Length, sort);

fn sort(args: Args<'_>, values: Values<'_>, reply: &mut Reply<'_>) {
    if let Err(text) = check(args) {
        return reply.error(&text);
    }
    match values.len_of(0) {
        Some(_) => reply.error(WRONG_TYPE),
        None => reply.array(0),
    }
}

/// Why the options after the key are wrong, where they are.
fn check(args: Args<'_>) -> Result<(), String> {
    let mut index = 2;
    while index < args.len() {
        let left = args.len() - index - 1;
        let is = |word: &str| args.is(index, word);
        if let Some(word) = ["by", "get", "store"].into_iter().find(|word| is(word)) {
            return Err(format!(
                "ERR SORT with {} is not supported: Silica stores strings, which have no elements",
                word.to_ascii_uppercase()
            ));
        }
        index += match () {
            () if is("asc") || is("desc") || is("alpha") => 1,
            () if is("limit") && left >= 2 => {
                let numbers = [args.get(index + 1), args.get(index + 2)].map(parse_i64);
                numbers.iter().all(Option::is_some).then_some(3).ok_or(super::NOT_INTEGER)?
            }
            () => return Err(SYNTAX.into()),
        };
    }
    Ok(())
}
