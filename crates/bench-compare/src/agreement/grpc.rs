//! As much of gRPC over HTTP/2 (RFC 9113) as a put to etcd takes: one call at a time over a
//! connection, headers without compression, and no look into the headers of answers. A call that
//! has failed has no message in its answer.

use silica::{Error, ErrorKind, Result};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
/// Of DATA and HEADERS; of SETTINGS and PING it is an acknowledgement.
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// Bytes of answers that the server may send us over the connection.
const WINDOW: u32 = 1 << 30;
/// Bytes that we may send before the server says more.
const SEND_WINDOW: i64 = 65_535;
const PATIENCE: Duration = Duration::from_secs(20);

/// A connection.
pub(super) struct Grpc {
    stream: TcpStream,
    came: Vec<u8>,
    /// The number of the next call.
    next: u32,
    window: i64,
    authority: String,
}

fn failed(error: std::io::Error) -> Error {
    Error::io("talking to etcd", error)
}

fn push_frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// Appends a string of a header, which is short and not compressed.
fn push_text(out: &mut Vec<u8>, text: &str) {
    out.push(u8::try_from(text.len()).unwrap_or(0).min(126));
    out.extend_from_slice(text.as_bytes());
}

/// The headers of a call of `path`; numbers are places in HPACK's table.
fn headers(path: &str, authority: &str) -> Vec<u8> {
    // POST, http.
    let mut out = vec![0x83, 0x86];
    out.push(0x04);
    push_text(&mut out, path);
    out.push(0x01);
    push_text(&mut out, authority);
    // Content-Type is 31: 15 and 16.
    out.extend_from_slice(&[0x0F, 16]);
    push_text(&mut out, "application/grpc");
    out.push(0);
    push_text(&mut out, "te");
    push_text(&mut out, "trailers");
    out
}

impl Grpc {
    pub(super) fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        let authority = address.to_string();
        let mut grpc = Grpc { stream, came: Vec::new(), next: 1, window: SEND_WINDOW, authority };
        let mut out = PREFACE.to_vec();
        push_frame(&mut out, SETTINGS, 0, 0, &[]);
        push_frame(&mut out, WINDOW_UPDATE, 0, 0, &WINDOW.to_be_bytes());
        grpc.stream.write_all(&out).map_err(failed)?;
        Ok(grpc)
    }

    /// Calls `path` with `message`; the message of the answer.
    ///
    /// # Errors
    /// Fails if the call does.
    pub(super) fn call(&mut self, path: &str, message: &[u8]) -> Result<Vec<u8>> {
        let stream = self.next;
        self.next += 2;
        let mut data = vec![0];
        data.extend_from_slice(&(message.len() as u32).to_be_bytes());
        data.extend_from_slice(message);
        while self.window < data.len() as i64 {
            self.frame()?;
        }
        self.window -= data.len() as i64;
        let mut out = Vec::with_capacity(256);
        push_frame(&mut out, HEADERS, END_HEADERS, stream, &headers(path, &self.authority));
        push_frame(&mut out, DATA, END_STREAM, stream, &data);
        self.stream.write_all(&out).map_err(failed)?;
        let mut answer = Vec::new();
        loop {
            let (kind, flags, of, payload) = self.frame()?;
            if of != stream {
                continue;
            }
            match kind {
                DATA => answer.extend_from_slice(&payload),
                RESET => return Err(Error::new(ErrorKind::Io, "etcd has ended a call")),
                _ => {}
            }
            if flags & END_STREAM != 0 && matches!(kind, DATA | HEADERS) {
                break;
            }
        }
        match answer.split_at_checked(5) {
            Some((_, message)) if !message.is_empty() => Ok(message.to_vec()),
            _ => Err(Error::new(ErrorKind::Io, format!("etcd has refused {path}"))),
        }
    }

    /// The next frame, which was answered if it asks for that.
    fn frame(&mut self) -> Result<(u8, u8, u32, Vec<u8>)> {
        while self.came.len() < 9 {
            self.fill()?;
        }
        let len = u32::from_be_bytes([0, self.came[0], self.came[1], self.came[2]]) as usize;
        while self.came.len() < 9 + len {
            self.fill()?;
        }
        let (kind, flags) = (self.came[3], self.came[4]);
        let number = |bytes: &[u8]| bytes.iter().fold(0, |sum: u32, b| sum << 8 | u32::from(*b));
        let stream = number(&self.came[5..9]) & 0x7FFF_FFFF;
        let payload: Vec<u8> = self.came.drain(..9 + len).skip(9).collect();
        let mut out = Vec::new();
        match kind {
            SETTINGS if flags & END_STREAM == 0 => push_frame(&mut out, SETTINGS, 1, 0, &[]),
            PING if flags & END_STREAM == 0 => push_frame(&mut out, PING, 1, 0, &payload),
            WINDOW_UPDATE if stream == 0 => self.window += i64::from(number(&payload)),
            GOAWAY => return Err(Error::new(ErrorKind::Closed, "etcd ends the connection")),
            _ => {}
        }
        if !out.is_empty() {
            self.stream.write_all(&out).map_err(failed)?;
        }
        Ok((kind, flags, stream, payload))
    }

    fn fill(&mut self) -> Result<()> {
        let mut some = [0; 4096];
        match self.stream.read(&mut some).map_err(failed)? {
            0 => Err(failed(std::io::ErrorKind::UnexpectedEof.into())),
            count => {
                self.came.extend_from_slice(&some[..count]);
                Ok(())
            }
        }
    }
}

fn push_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// A message of Protocol Buffers with fields of bytes, numbered from 1 on.
pub(super) fn message(fields: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    for (nth, field) in fields.iter().enumerate() {
        out.push((nth as u8 + 1) << 3 | 2);
        push_varint(&mut out, field.len() as u64);
        out.extend_from_slice(field);
    }
    out
}

/// A field of a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Field<'m> {
    Number(u64),
    Bytes(&'m [u8]),
}

/// Field `wanted` of a message that has numbers and bytes alone.
pub(super) fn field(message: &[u8], wanted: u64) -> Option<Field<'_>> {
    let mut at = 0;
    let varint = |at: &mut usize| {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = *message.get(*at)?;
            *at += 1;
            number |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    };
    while at < message.len() {
        let key = varint(&mut at)?;
        let field = match key & 7 {
            0 => Field::Number(varint(&mut at)?),
            2 => {
                let len = varint(&mut at)? as usize;
                let bytes = message.get(at..at.checked_add(len)?)?;
                at += len;
                Field::Bytes(bytes)
            }
            _ => return None,
        };
        if key >> 3 == wanted {
            return Some(field);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_as_they_were_written() {
        let long = vec![7; 300];
        let made = message(&[b"key", &long]);
        assert_eq!(field(&made, 1), Some(Field::Bytes(b"key")));
        assert_eq!(field(&made, 2), Some(Field::Bytes(&long)));
        assert_eq!(field(&made, 3), None);
        let numbers = [0x10, 0xAC, 0x02, 0x0A, 1, b'x'];
        assert_eq!(field(&numbers, 2), Some(Field::Number(300)));
        assert_eq!(field(&numbers, 1), Some(Field::Bytes(b"x")));
        for cut in 1..made.len() {
            assert_eq!(field(&made[..cut], 2), None, "{cut}");
        }
    }

    #[test]
    fn frames_and_headers_are_those_of_the_standards() {
        let mut out = Vec::new();
        push_frame(&mut out, HEADERS, END_HEADERS, 3, &headers("/p", "h"));
        assert_eq!(out[..9], [0, 0, 41, 1, 4, 0, 0, 0, 3]);
        assert_eq!(out[9..18], [0x83, 0x86, 4, 2, b'/', b'p', 1, 1, b'h']);
        assert_eq!(out[18..21], [0x0F, 16, 16]);
    }
}
