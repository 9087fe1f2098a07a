//! memcached's protocols over the same bursts as RESP.
//!
//! `plan::memcached` turns parsed requests into those of a burst; `text`, `meta` and `binary` say
//! what they do to an entry and how they are answered; `marks` are what the meta commands note
//! about entries; `unique` is what cas compares; `expiry` how times are told.

pub(crate) mod binary;
mod expiry;
pub(crate) mod flush;
mod marks;
pub(crate) mod meta;
pub(crate) mod stats;
pub(crate) mod text;
mod unique;

pub(crate) use flush::{Flush, burst as flush_burst};
pub(crate) use marks::Marks;
pub use meta::Outcome;

use crate::burst::Args;
use crate::table::{Answer, Write};
use silica_proto::Reply;
use silica_proto::memcached::{Request, end};

/// Version of memcached whose behaviour the commands have; some clients choose features by it.
pub(crate) const COMPATIBLE_VERSION: &str = "1.6.18";

/// True if an error says that the memory of clients is too small, and which option makes it larger.
fn names_the_option(text: &str) -> bool {
    text.contains("--client-memory")
}

/// The error for a value that the memory of clients has no room for.
pub(crate) const NO_MEMORY: &str =
    "OOM the clients' memory has no room for the value; raise --client-memory";

/// A set that there is no memory for: the value it should have replaced must not stay.
pub(crate) static SET_WITHOUT_MEMORY: Write = Write {
    refuse: |_| None,
    value_at: 1,
    apply: |args, _, batch| {
        batch.delete(args.get(1));
    },
    reply: |args, reply| refuse(&args.head(), NO_MEMORY, reply),
};

/// Answers with an error of ours, whose first word is a code of RESP.
pub(crate) fn refuse(head: &Request, text: &str, reply: &mut Reply<'_>) {
    let out = reply.raw();
    if let Request::Binary(packet) = head {
        return binary::refuse(out, packet, text);
    }
    let message = match text.split_once(' ') {
        Some(("OOM", why)) if names_the_option(why) => {
            &format!("out of memory storing object: {why}")
        }
        Some(("OOM", _)) => "out of memory storing object",
        Some((code, message)) if code.bytes().all(|b| b.is_ascii_uppercase()) => message,
        _ => text,
    };
    out.extend_from_slice(b"SERVER_ERROR ");
    out.extend(message.bytes().map(|b| if b.is_ascii_control() { b' ' } else { b }));
    out.extend_from_slice(b"\r\n");
}

/// What CLIENT LIST calls a request.
pub(crate) fn name(head: Request) -> &'static str {
    match head {
        Request::Nothing | Request::Fault(_) => "NULL",
        Request::Get { .. } => "get",
        Request::GetAndTouch { .. } => "gat",
        Request::Store { .. } | Request::TooLarge => "set",
        Request::Arithmetic { .. } => "incr",
        Request::Touch { .. } => "touch",
        Request::Delete => "delete",
        Request::FlushAll { .. } => "flush_all",
        Request::Stats => "stats",
        Request::Version => "version",
        Request::Verbosity => "verbosity",
        Request::Meta(_) => "meta",
        Request::Binary(_) => "binary",
        Request::Noop => "mn",
        Request::Quit => "quit",
        Request::Auth => "auth",
    }
}

/// Answers a request with those of its keys.
pub(crate) fn write_all(answers: &[Answer], args: Args<'_>, reply: &mut Reply<'_>) {
    // The error of one key is the answer of all.
    let error = answers.iter().find_map(|answer| match answer {
        Answer::Error(text) => Some(text),
        _ => None,
    });
    if let Some(text) = error {
        return refuse(&args.head(), text, reply);
    }
    for answer in answers {
        match answer {
            Answer::Raw(bytes) => reply.raw().extend_from_slice(bytes),
            Answer::Meta(outcome) => meta::write(outcome, args, reply),
            _ => {}
        }
    }
    if let Request::GetAndTouch { .. } = args.head() {
        end(reply.raw());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_lines_of_memcached() {
        let shown = |text| {
            let mut out = Vec::new();
            let mut reply = Reply::new(&mut out, silica_proto::Version::Resp2);
            refuse(&Request::Delete, text, &mut reply);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(shown("ERR no\r\nway"), "SERVER_ERROR no  way\r\n");
        assert_eq!(shown("OOM it is full"), "SERVER_ERROR out of memory storing object\r\n");
        let why = "the clients' memory has no room for the value; raise --client-memory";
        let want = format!("SERVER_ERROR out of memory storing object: {why}\r\n");
        assert_eq!(shown(NO_MEMORY), want);
        assert_eq!(shown("words alone"), "SERVER_ERROR words alone\r\n");
    }
}
