//! Redis's commands at the prompt, on the store that it has open, answered as redis-cli does.
//!
//! A server of the prompt's own performs them: so they are what they are for clients. It listens on
//! a socket in a directory that only this user may enter, and starts with the first command.

use silica::{Engine, Error, ErrorKind, Keyspace, Result, Silica};
use silica_console::Output;
use silica_server::{Config, Databases, Server, command_names};
use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;

/// Bytes of requests and replies that it may keep.
const CLIENTS_BYTES_MAX: usize = 64 << 20;
/// Commands that make a connection something else, or end the server.
const ELSEWHERE: [&str; 8] = [
    "subscribe",
    "psubscribe",
    "ssubscribe",
    "monitor",
    "shutdown",
    "hello",
    "reset",
    "silica.record",
];

/// True where `word` is a command of Redis.
pub(super) fn is_command(word: &str) -> bool {
    command_names().any(|(name, _)| name.eq_ignore_ascii_case(word))
}

/// True where the first argument of the command `word` is a key.
pub(super) fn takes_key(word: &str) -> bool {
    command_names().any(|(name, key)| name.eq_ignore_ascii_case(word) && key == Some(1))
}

/// The one database of the server: the keyspace that the prompt is turned to.
struct One(Keyspace, Arc<Silica>);

impl Databases for One {
    fn open(&self, _index: u32) -> Result<Arc<dyn Engine>> {
        Ok(Arc::clone(self.0.engine()))
    }

    fn listed(&self) -> Vec<u32> {
        vec![0]
    }

    fn workload(&self, _index: u32) -> Result<String> {
        Ok(self.0.workload()?.to_string())
    }

    fn sql(&self, name: &str, may_create: bool) -> Result<Option<Arc<silica_sql::Database>>> {
        Databases::sql(&*self.1, name, may_create)
    }

    fn named(&self, name: &str, may_create: bool) -> Result<Option<Arc<dyn Engine>>> {
        Databases::named(&*self.1, name, may_create)
    }

    fn names(&self) -> Result<Vec<String>> {
        Databases::names(&*self.1)
    }
}

/// The server, and a connection to it.
pub(super) struct Redis {
    keyspace: String,
    stream: BufReader<UnixStream>,
    server: Option<Server>,
    directory: PathBuf,
}

impl Redis {
    /// Starts it for `keyspace`.
    pub(super) fn start(keyspace: &Keyspace, store: &Arc<Silica>) -> Result<Self> {
        let name = format!("silica-prompt-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let failed = |e| Error::io(format!("making the socket in {}", directory.display()), e);
        std::fs::DirBuilder::new().mode(0o700).create(&directory).map_err(failed)?;
        let socket = directory.join("socket");
        let config = Config {
            listen: Vec::new(),
            unix: Some(socket.clone()),
            loops: 1,
            io_workers: 2,
            databases: 1,
            durability: keyspace.durability(),
            clients_bytes_max: CLIENTS_BYTES_MAX,
            client_output_bytes_max: CLIENTS_BYTES_MAX,
            stop_ms_max: 0,
            ..Config::default()
        };
        let server = Server::start(config, Arc::new(One(keyspace.clone(), Arc::clone(store))));
        let server = server.inspect_err(|_| drop(std::fs::remove_dir_all(&directory)))?;
        let stream = UnixStream::connect(&socket).map_err(failed)?;
        Ok(Redis {
            keyspace: keyspace.name().to_string(),
            stream: BufReader::new(stream),
            server: Some(server),
            directory,
        })
    }

    /// The keyspace that it serves.
    pub(super) fn keyspace(&self) -> &str {
        &self.keyspace
    }

    /// Performs a command and shows its reply: with types on a terminal, else bare.
    pub(super) fn run(&mut self, words: &[Vec<u8>], output: &mut Output) -> Result<()> {
        let name = String::from_utf8_lossy(&words[0]).to_ascii_lowercase();
        let second = words.get(1).map(|word| word.to_ascii_lowercase()).unwrap_or_default();
        if ELSEWHERE.contains(&name.as_str()) || (name == "client" && second == b"reply") {
            let message = format!(
                "{} is for clients of a server: start one with `silica serve`, and ask it with \
                 redis-cli",
                name.to_ascii_uppercase()
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let reply = self.ask(words).map_err(|e| Error::io("asking the prompt's server", e))?;
        let is_text = match name.as_str() {
            "info" | "lolwut" => true,
            "client" => second == b"list" || second == b"info",
            "memory" => second == b"doctor",
            _ => false,
        };
        let mut text = Vec::new();
        match std::io::stdout().is_terminal() && !is_text {
            true => reply.show("", &mut text),
            false => reply.show_bare(&mut text),
        }
        if text.last() != Some(&b'\n') {
            text.push(b'\n');
        }
        output.raw(&text)
    }

    fn ask(&mut self, words: &[Vec<u8>]) -> std::io::Result<Reply> {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            request.extend_from_slice(word);
            request.extend_from_slice(b"\r\n");
        }
        self.stream.get_mut().write_all(&request)?;
        Reply::read(&mut self.stream)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop_handle().stop();
            server.wait();
        }
        // What is left of it in a temporary directory does no harm.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// A reply of RESP2.
#[derive(Debug, Clone, PartialEq)]
enum Reply {
    Status(Vec<u8>),
    Error(Vec<u8>),
    Integer(Vec<u8>),
    Bytes(Vec<u8>),
    Nil,
    Array(Vec<Reply>),
}

impl Reply {
    fn read(input: &mut impl BufRead) -> std::io::Result<Reply> {
        let strange = || std::io::Error::other("this is no reply");
        let mut line = Vec::new();
        input.read_until(b'\n', &mut line)?;
        let line = line.strip_suffix(b"\r\n").ok_or_else(strange)?;
        let (kind, text) = line.split_first().ok_or_else(strange)?;
        let length = || {
            let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<i64>().ok());
            number.ok_or_else(strange)
        };
        Ok(match kind {
            b'+' => Reply::Status(text.to_vec()),
            b'-' => Reply::Error(text.to_vec()),
            b':' => Reply::Integer(text.to_vec()),
            b'$' | b'*' if length()? < 0 => Reply::Nil,
            b'$' => {
                let bytes = length()? as u64;
                let mut value = Vec::new();
                input.take(bytes + 2).read_to_end(&mut value)?;
                if value.len() as u64 != bytes + 2 {
                    return Err(strange());
                }
                value.truncate(bytes as usize);
                Reply::Bytes(value)
            }
            b'*' => Reply::Array(
                (0..length()?).map(|_| Reply::read(input)).collect::<std::io::Result<_>>()?,
            ),
            _ => return Err(strange()),
        })
    }

    /// As redis-cli shows it on a terminal, behind lines that begin with `prefix`.
    fn show(&self, prefix: &str, out: &mut Vec<u8>) {
        match self {
            Reply::Status(text) => out.extend_from_slice(text),
            Reply::Error(text) => out.extend_from_slice(&[b"(error) ", &text[..]].concat()),
            Reply::Integer(text) => out.extend_from_slice(&[b"(integer) ", &text[..]].concat()),
            Reply::Bytes(bytes) => out.extend_from_slice(quoted(bytes).as_bytes()),
            Reply::Nil => out.extend_from_slice(b"(nil)"),
            Reply::Array(parts) if parts.is_empty() => out.extend_from_slice(b"(empty array)"),
            Reply::Array(parts) => {
                let width = parts.len().to_string().len();
                let inner = format!("{prefix}{}", " ".repeat(width + 2));
                for (at, part) in parts.iter().enumerate() {
                    let before = if at == 0 { "" } else { prefix };
                    out.extend_from_slice(format!("{before}{:>width$}) ", at + 1).as_bytes());
                    part.show(&inner, out);
                    if !matches!(part, Reply::Array(parts) if !parts.is_empty()) {
                        out.push(b'\n');
                    }
                }
            }
        }
    }

    /// As redis-cli writes it for programs.
    fn show_bare(&self, out: &mut Vec<u8>) {
        match self {
            Reply::Nil => out.push(b'\n'),
            Reply::Array(parts) => {
                for part in parts {
                    part.show_bare(out);
                    if out.last() != Some(&b'\n') {
                        out.push(b'\n');
                    }
                }
            }
            Reply::Status(text) | Reply::Error(text) | Reply::Integer(text) => {
                out.extend_from_slice(text);
            }
            Reply::Bytes(bytes) => {
                out.extend_from_slice(bytes);
                out.push(b'\n');
            }
        }
    }
}

/// Bytes in double quotes, with escapes for what is not printable ASCII.
fn quoted(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for byte in bytes {
        match byte {
            b'\\' => text.push_str("\\\\"),
            b'"' => text.push_str("\\\""),
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            7 => text.push_str("\\a"),
            8 => text.push_str("\\b"),
            b' '..=b'~' => text.push(char::from(*byte)),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(wire: &str) -> [String; 2] {
        let reply = Reply::read(&mut wire.as_bytes()).unwrap();
        let (mut typed, mut bare) = (Vec::new(), Vec::new());
        reply.show("", &mut typed);
        reply.show_bare(&mut bare);
        [typed, bare].map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn replies_look_as_redis_cli_shows_them() {
        assert_eq!(shown("+OK\r\n"), ["OK", "OK"]);
        assert_eq!(shown("-ERR no\r\n"), ["(error) ERR no", "ERR no"]);
        assert_eq!(shown(":7\r\n"), ["(integer) 7", "7"]);
        assert_eq!(shown("$-1\r\n"), ["(nil)", "\n"]);
        assert_eq!(shown("$4\r\na\"\r\n\r\n"), ["\"a\\\"\\r\\n\"", "a\"\r\n\n"]);
        assert_eq!(shown("*0\r\n"), ["(empty array)", ""]);
        let nested = "*2\r\n$1\r\n0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n";
        let expected = "1) \"0\"\n2) 1) \"a\"\n   2) \"b\"\n";
        assert_eq!(shown(nested), [expected, "0\na\nb\n"]);
        let ten = format!("*10\r\n{}", ":1\r\n".repeat(10));
        assert!(shown(&ten)[0].starts_with(" 1) (integer) 1\n"));
        assert!(Reply::read(&mut &b"nonsense\r\n"[..]).is_err());
        assert!(Reply::read(&mut &b"$9\r\nshort\r\n"[..]).is_err());
    }

    #[test]
    fn commands_are_known_in_any_case_with_their_keys() {
        assert!(is_command("GET") && is_command("setex") && is_command("Incr"));
        assert!(!is_command("put") && !is_command("serve"));
        assert!(takes_key("GET") && !takes_key("PING"));
    }
}
