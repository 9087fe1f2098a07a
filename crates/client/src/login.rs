//! The connection over which a client shows a password and is given a pass.

use silica_base::{Error, ErrorKind, Result};
use silica_proto::datagram::PASS_BYTES;
use silica_proto::{Value, decode};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long the server may take for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The first port for datagrams of the server at `address`, and a pass for them.
pub(crate) fn pass(
    address: SocketAddr,
    login: Option<(&str, &str)>,
) -> Result<(u16, [u8; PASS_BYTES])> {
    let failed = |error: io::Error| Error::io(format!("asking {address} for a pass"), error);
    let answer = ask(address, login).map_err(failed)?;
    read(&answer).ok_or_else(|| {
        let message = match answer {
            Value::Error(text) => format!("{address} gives no pass: {text}"),
            _ => format!("{address} gives no pass, but something else"),
        };
        Error::new(ErrorKind::Config, message)
    })
}

fn read(answer: &Value) -> Option<(u16, [u8; PASS_BYTES])> {
    let Value::Array(parts) = answer else { return None };
    let [Value::Integer(port), Value::Bulk(digits)] = &parts[..] else { return None };
    let digits = std::str::from_utf8(digits).ok().filter(|text| text.len() == 2 * PASS_BYTES)?;
    let pass = u128::from_str_radix(digits, 16).ok()?;
    Some((u16::try_from(*port).ok()?, pass.to_be_bytes()))
}

/// The answer to `DATAGRAMS`, or to `AUTH` where that is refused.
fn ask(address: SocketAddr, login: Option<(&str, &str)>) -> io::Result<Value> {
    let mut socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut bytes = Vec::new();
    if let Some((user, password)) = login {
        send(&mut socket, &["AUTH", user, password])?;
        let answer = receive(&mut socket, &mut bytes)?;
        if matches!(answer, Value::Error(_)) {
            return Ok(answer);
        }
    }
    send(&mut socket, &["DATAGRAMS"])?;
    receive(&mut socket, &mut bytes)
}

fn send(socket: &mut TcpStream, words: &[&str]) -> io::Result<()> {
    let mut request = format!("*{}\r\n", words.len());
    for word in words {
        request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    socket.write_all(request.as_bytes())
}

fn receive(socket: &mut TcpStream, bytes: &mut Vec<u8>) -> io::Result<Value> {
    let mut piece = [0; 1024];
    loop {
        let wrong = |_| io::Error::new(io::ErrorKind::InvalidData, "no reply of RESP");
        if let Some((value, used)) = decode(bytes).map_err(wrong)? {
            bytes.drain(..used);
            return Ok(value);
        }
        match socket.read(&mut piece)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => bytes.extend_from_slice(&piece[..n]),
        }
    }
}
