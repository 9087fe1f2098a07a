//! Redis and its protocol, which Silica's server speaks too.

use super::client::Dialect;
use super::pin::Pinning;
use super::process::{Address, Process, ask_version, free_port, loopback, socket_in};
use super::wire::{Parsed, Wire, line, nonsense, number, push_number};
use super::{Kept, Transport, models_cache};
use crate::peer::Setup;
use ::silica::{Durability, Error, ErrorKind, Result};
use silica_bench::Sink;
use std::ops::Range;
use std::path::Path;
use std::process::Command;

const PROGRAM: &str = "redis-server";
const SOCKET: &str = "redis.sock";
/// Somebody may take the port before the server does.
const ATTEMPTS: usize = 5;

pub(super) fn version() -> Result<String> {
    let said = ask_version(PROGRAM, "--version", "redis-server")?;
    let version = said.split_whitespace().find_map(|word| word.strip_prefix("v="));
    Ok(version.unwrap_or(&said).to_string())
}

/// What `maxmemory-policy` is given.
pub(super) fn policy(setup: &Setup) -> &'static str {
    if models_cache(setup) { "allkeys-lru" } else { "noeviction" }
}

/// What `appendonly` is given.
pub(super) fn appendonly(setup: &Setup) -> &'static str {
    if setup.plan.durability == Durability::Synced { "yes" } else { "no" }
}

pub(super) fn start(
    setup: &Setup,
    transport: Transport,
    pinning: Pinning,
) -> Result<(Process, Address)> {
    let mut outcome = try_start(setup, transport, pinning);
    for _ in 1..ATTEMPTS {
        match &outcome {
            Err(e) if e.kind() == ErrorKind::Closed && transport == Transport::Tcp => {
                outcome = try_start(setup, transport, pinning);
            }
            _ => break,
        }
    }
    outcome
}

/// A cache of at most `memory_bytes`, over TCP.
pub(super) fn start_cache(
    directory: &Path,
    memory_bytes: u64,
    pinning: Pinning,
) -> Result<(Process, Address)> {
    let memory = memory_bytes.to_string();
    let arguments = ["--appendonly", "no", "--maxmemory", &memory];
    let arguments = [&arguments[..], &["--maxmemory-policy", "allkeys-lru"]].concat();
    start_with(directory, &arguments, Transport::Tcp, pinning)
}

/// A server of objects, over TCP; what survives is written to its append-only file.
pub(super) fn start_typed(
    directory: &Path,
    kept: Kept,
    pinning: Pinning,
) -> Result<(Process, Address)> {
    let (appendonly, appendfsync) = match kept {
        Kept::Memory => ("no", "no"),
        Kept::Buffered => ("yes", "everysec"),
        Kept::Synced => ("yes", "always"),
    };
    let arguments = ["--appendonly", appendonly, "--appendfsync", appendfsync];
    start_with(directory, &arguments, Transport::Tcp, pinning)
}

fn try_start(setup: &Setup, transport: Transport, pinning: Pinning) -> Result<(Process, Address)> {
    let memory = setup.memory_bytes.to_string();
    let mut arguments = vec!["--appendonly", appendonly(setup), "--appendfsync", "always"];
    arguments.extend(["--maxmemory", &memory, "--maxmemory-policy", policy(setup)]);
    let threads = setup.server_threads.map(|threads| threads.to_string());
    if let Some(threads) = &threads {
        arguments.extend(["--io-threads", threads, "--io-threads-do-reads", "yes"]);
    }
    start_with(&setup.directory, &arguments, transport, pinning)
}

fn start_with(
    directory: &Path,
    arguments: &[&str],
    transport: Transport,
    pinning: Pinning,
) -> Result<(Process, Address)> {
    let mut command = Command::new(PROGRAM);
    command.args(["--daemonize", "no", "--dir", ".", "--databases", "1", "--save", ""]);
    command.args(arguments);
    let address = if transport == Transport::Unix {
        let _ = std::fs::remove_file(directory.join(SOCKET));
        command.args(["--port", "0", "--unixsocket", SOCKET]);
        socket_in(directory, SOCKET)?
    } else {
        let port = free_port()?;
        command.args(["--bind", "127.0.0.1", "--port", &port.to_string()]);
        Address::Tcp(loopback(port))
    };
    let process = Process::start(PROGRAM, command, directory, pinning)?;
    let pid = process.pid();
    process.wait_for(|| greet_process(&address, pid))?;
    Ok((process, address))
}

/// A reply, or the head of one with several; by positions in the bytes that came.
#[derive(Debug, Clone, PartialEq)]
enum Resp {
    /// A line that is no error, such as `OK`.
    Simple(Range<usize>),
    Failed(Range<usize>),
    Number,
    Bulk(Range<usize>),
    Nothing,
    /// So many replies follow.
    Array(usize),
}

/// Parses what stands at the beginning of `bytes`.
fn parse(bytes: &[u8]) -> Parsed<Resp> {
    let Some((line, next)) = line(bytes) else { return Ok(None) };
    let Some((kind, rest)) = line.split_first() else { return Err(nonsense(PROGRAM, line)) };
    let count = || number(rest).ok_or_else(|| nonsense(PROGRAM, line));
    let reply = match kind {
        b'+' => Resp::Simple(1..line.len()),
        b'-' => Resp::Failed(1..line.len()),
        b':' => Resp::Number,
        b'_' => Resp::Nothing,
        b'$' | b'*' if rest == b"-1" => Resp::Nothing,
        b'*' => Resp::Array(count()?),
        b'$' => {
            let value = next..next + count()?;
            return match bytes.get(value.end..value.end + 2) {
                None => Ok(None),
                Some(b"\r\n") => Ok(Some((Resp::Bulk(value.clone()), value.end + 2))),
                Some(_) => Err(nonsense(PROGRAM, line)),
            };
        }
        _ => return Err(nonsense(PROGRAM, line)),
    };
    Ok(Some((reply, next)))
}

/// Appends the head of a request of `words` words.
fn push_head(out: &mut Vec<u8>, words: usize) {
    out.push(b'*');
    push_number(out, words);
    out.extend_from_slice(b"\r\n");
}

/// Appends a word of a request, of any bytes.
fn push_word(out: &mut Vec<u8>, word: &[u8]) {
    out.push(b'$');
    push_number(out, word.len());
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(word);
    out.extend_from_slice(b"\r\n");
}

/// The error that a reply is, or that it is none that was expected.
fn unexpected(name: &str, reply: &Resp, came: &[u8]) -> Error {
    let Resp::Failed(line) = reply else { return nonsense(name, came) };
    let said = String::from_utf8_lossy(&came[line.clone()]).into_owned();
    let kind = if said.starts_with("OOM") { ErrorKind::Full } else { ErrorKind::Io };
    Error::new(kind, format!("{name}: {said}"))
}

/// Asks until the server at `address` answers that it is there.
pub(super) fn greet(name: &'static str, address: &Address) -> Result<()> {
    let mut wire = Wire::connect(name, address)?;
    push_head(&mut wire.out, 1);
    push_word(&mut wire.out, b"PING");
    wire.send()?;
    wire.reply(parse, |reply, came, _| match reply {
        Resp::Simple(line) if &came[line.clone()] == b"PONG" => Ok(()),
        other => Err(unexpected(name, &other, came)),
    })
}

/// What the server tells in a section of `INFO`.
pub(super) fn info(wire: &mut Wire, section: &[u8]) -> Result<String> {
    wire.out.clear();
    push_head(&mut wire.out, 2);
    push_word(&mut wire.out, b"INFO");
    push_word(&mut wire.out, section);
    wire.send()?;
    let name = wire.name();
    wire.reply(parse, |reply, came, _| match reply {
        Resp::Bulk(text) => Ok(String::from_utf8_lossy(&came[text]).into_owned()),
        other => Err(unexpected(name, &other, came)),
    })
}

/// Greets, and sees that it is the process `pid`, not one that took its port.
fn greet_process(address: &Address, pid: u32) -> Result<()> {
    greet(PROGRAM, address)?;
    let own = format!("process_id:{pid}");
    let text = info(&mut Wire::connect(PROGRAM, address)?, b"server")?;
    match text.lines().any(|line| line == own) {
        true => Ok(()),
        false => Err(Error::new(ErrorKind::Locked, "another server has the port")),
    }
}

/// The protocol as a client speaks it.
pub(super) struct RespDialect;

impl RespDialect {
    /// Reads the value of the key that was asked for as number `index`.
    fn value(wire: &mut Wire, index: usize, sink: &mut dyn Sink) -> Result<()> {
        let name = wire.name();
        wire.reply(parse, |reply, came, _| match reply {
            Resp::Bulk(value) => {
                sink.found(index, &came[value]);
                Ok(())
            }
            Resp::Nothing => Ok(()),
            other => Err(unexpected(name, &other, came)),
        })
    }

    /// Sends one command with `keys`.
    fn ask(wire: &mut Wire, command: &[u8], keys: &[&[u8]]) -> Result<()> {
        let out = &mut wire.out;
        out.clear();
        push_head(out, 1 + keys.len());
        push_word(out, command);
        for key in keys {
            push_word(out, key);
        }
        wire.send()
    }
}

impl Dialect for RespDialect {
    fn get(
        &mut self,
        wire: &mut Wire,
        keys: &[&[u8]],
        base: usize,
        sink: &mut dyn Sink,
    ) -> Result<()> {
        if let [_] = keys {
            Self::ask(wire, b"GET", keys)?;
            return Self::value(wire, base, sink);
        }
        Self::ask(wire, b"MGET", keys)?;
        let name = wire.name();
        wire.reply(parse, |reply, came, _| match reply {
            Resp::Array(count) if count == keys.len() => Ok(()),
            other => Err(unexpected(name, &other, came)),
        })?;
        (0..keys.len()).try_for_each(|i| Self::value(wire, base + i, sink))
    }

    fn put(&mut self, wire: &mut Wire, entries: &[(&[u8], &[u8])]) -> Result<()> {
        let name = wire.name();
        for (key, value) in entries {
            push_head(&mut wire.out, 3);
            for word in [b"SET", *key, *value] {
                push_word(&mut wire.out, word);
            }
        }
        wire.send()?;
        entries.iter().try_for_each(|_| {
            wire.reply(parse, |reply, came, _| match reply {
                Resp::Simple(_) => Ok(()),
                other => Err(unexpected(name, &other, came)),
            })
        })
    }

    fn delete(&mut self, wire: &mut Wire, keys: &[&[u8]]) -> Result<()> {
        let name = wire.name();
        Self::ask(wire, b"DEL", keys)?;
        wire.reply(parse, |reply, came, _| match reply {
            Resp::Number => Ok(()),
            other => Err(unexpected(name, &other, came)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::testing::{Parser, text};
    use super::*;

    const PARSER: Parser<Resp> = Parser {
        parse,
        show: |reply, bytes| match reply {
            Resp::Simple(line) => format!("+{}", text(&bytes[line])),
            Resp::Failed(line) => format!("-{}", text(&bytes[line])),
            Resp::Bulk(value) => format!("${}", text(&bytes[value])),
            Resp::Array(count) => format!("*{count}"),
            other => format!("{other:?}"),
        },
    };

    #[test]
    fn replies_may_be_split_anywhere() {
        let bytes = b"+OK\r\n-ERR no\r\n:12\r\n$3\r\na\r\n\r\n$-1\r\n*2\r\n$0\r\n\r\n_\r\n*-1\r\n";
        let expected =
            ["+OK", "-ERR no", "Number", "$a\r\n", "Nothing", "*2", "$", "Nothing", "Nothing"];
        PARSER.check(bytes, &expected);
    }

    #[test]
    fn what_makes_no_sense_is_an_error() {
        PARSER.refuse(&[b"\r\n", b"?\r\n", b"$x\r\n", b"*\r\n", b"$1\r\nabc"]);
    }

    #[test]
    fn a_full_server_is_told_as_such() {
        let came = b"-OOM command not allowed\r\n";
        let (reply, _) = parse(came).unwrap().unwrap();
        assert_eq!(unexpected(PROGRAM, &reply, came).kind(), ErrorKind::Full);
    }

    #[test]
    fn requests_have_words_of_any_bytes() {
        let mut out = Vec::new();
        push_head(&mut out, 2);
        push_word(&mut out, b"GET");
        push_word(&mut out, b"a\r\n");
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$3\r\na\r\n\r\n");
    }
}
