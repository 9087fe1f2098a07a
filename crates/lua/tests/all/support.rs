//! An interpreter whose host has a few commands.

use silica_lua::{Answer, Call, Dialect, Failure, Host, Interpreter, LogLevel, Source, sha1_hex};

pub(crate) const MEMORY_BYTES: usize = 8 << 20;

/// ECHO, NULL, STATUS, FAIL and LIST; notes what is logged.
#[derive(Default)]
pub(crate) struct Fake {
    pub(crate) logged: Vec<(LogLevel, Vec<u8>)>,
}

impl Host for Fake {
    fn call(&mut self, args: &[&[u8]], dialect: Dialect, reply: &mut Vec<u8>) {
        let bulk = |reply: &mut Vec<u8>, bytes: &[u8]| {
            reply.extend_from_slice(format!("${}\r\n", bytes.len()).as_bytes());
            reply.extend_from_slice(bytes);
            reply.extend_from_slice(b"\r\n");
        };
        match args[0] {
            b"ECHO" => bulk(reply, args[1]),
            b"NULL" if dialect == Dialect::Resp3 => reply.extend_from_slice(b"_\r\n"),
            b"NULL" => reply.extend_from_slice(b"$-1\r\n"),
            b"STATUS" => reply.extend_from_slice(b"+FINE\r\n"),
            b"FAIL" => reply.extend_from_slice(b"-WRONG it failed\r\n"),
            b"RAW" => reply.extend_from_slice(args[1]),
            _ => {
                reply.extend_from_slice(format!("*{}\r\n", args.len()).as_bytes());
                args.iter().for_each(|arg| bulk(reply, arg));
            }
        }
    }

    fn log(&mut self, level: LogLevel, text: &[u8]) {
        self.logged.push((level, text.to_vec()));
    }

    fn permits(&mut self, args: &[&[u8]]) -> Option<bool> {
        match args[0] {
            b"ECHO" => Some(true),
            b"FAIL" => Some(false),
            _ => None,
        }
    }
}

pub(crate) fn interpreter() -> Interpreter {
    Interpreter::new(MEMORY_BYTES, Box::new(|_| None)).unwrap()
}

/// Runs `text` under the name `s`.
pub(crate) fn run(interpreter: &mut Interpreter, text: &str) -> Result<Answer, Failure> {
    let name = sha1_hex(text.as_bytes());
    let call = Call { name: "s", keys: &[b"k1", b"k2"], args: &[b"a1"] };
    interpreter.run(&call, Source::Script(&name, text.as_bytes()), &mut Fake::default())
}

/// What `text` answers, as text.
pub(crate) fn answer(text: &str) -> String {
    match run(&mut interpreter(), text) {
        Ok(answer) => shown(&answer),
        Err(Failure::Script(text)) => format!("-{text}"),
        Err(other) => format!("!{other}"),
    }
}

fn shown(answer: &Answer) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let list = |all: &[Answer]| all.iter().map(shown).collect::<Vec<_>>().join(" ");
    match answer {
        Answer::Null => "null".into(),
        Answer::Boolean(is) => is.to_string(),
        Answer::Integer(n) => format!(":{n}"),
        Answer::Double(n) => format!(",{n}"),
        Answer::Bulk(bytes) => text(bytes),
        Answer::Status(bytes) => format!("+{}", text(bytes)),
        Answer::Error(bytes) => format!("-{}", text(bytes)),
        Answer::BigNumber(bytes) => format!("({}", text(bytes)),
        Answer::Verbatim(format, bytes) => format!("={}:{}", text(format), text(bytes)),
        Answer::Array(all) => format!("[{}]", list(all)),
        Answer::Set(all) => format!("~[{}]", list(all)),
        Answer::Map(all) => {
            let pairs: Vec<_> =
                all.iter().map(|(k, v)| format!("{}={}", shown(k), shown(v))).collect();
            format!("%[{}]", pairs.join(" "))
        }
    }
}
