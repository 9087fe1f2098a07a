//! Which protocol a connection speaks, by its first bytes.

/// A protocol that can share a port with the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// RESP, its inline commands included.
    Resp,
    /// memcached's text protocol.
    MemcachedText,
    /// memcached's binary protocol.
    MemcachedBinary,
}

/// Bytes after which an unfinished first line is judged by its first word alone.
const LINE_BYTES_MAX: usize = 2048;

/// The protocol of a connection that starts with `buf`; `None` where more bytes must come.
///
/// An array (`*`) is RESP, a packet (0x80) memcached's binary protocol. A line whose first word is
/// a command of memcached in lower case, and which has as many words as memcached wants there, is
/// memcached's; every other line is an inline command of RESP. So `get x` is memcached's and
/// `GET x` is RESP's; `set x 0 0 5` is memcached's and `set x hello` is RESP's.
pub fn sniff(buf: &[u8]) -> Option<Protocol> {
    match *buf.first()? {
        b'*' => return Some(Protocol::Resp),
        super::binary::REQUEST => return Some(Protocol::MemcachedBinary),
        _ => {}
    }
    let end = buf.iter().take(LINE_BYTES_MAX).position(|byte| *byte == b'\n');
    let line = match end {
        Some(end) => buf[..end].strip_suffix(b"\r").unwrap_or(&buf[..end]),
        None if buf.len() < LINE_BYTES_MAX => return None,
        None => &buf[..LINE_BYTES_MAX],
    };
    let protocol = if is_memcached(line) { Protocol::MemcachedText } else { Protocol::Resp };
    Some(protocol)
}

fn is_memcached(line: &[u8]) -> bool {
    let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let Some(command) = words.next() else { return false };
    let mut words = words.take(8).map(|word| word.trim_ascii_end());
    let number = |word: Option<&[u8]>| {
        let digits = word.map(|word| word.strip_prefix(b"-").unwrap_or(word));
        digits.is_some_and(|d| !d.is_empty() && d.iter().all(u8::is_ascii_digit))
    };
    match command {
        b"gets" | b"gat" | b"gats" | b"add" | b"replace" | b"prepend" | b"cas" | b"delete"
        | b"flush_all" | b"version" | b"stats" | b"verbosity" | b"quit" | b"mg" | b"ms" | b"md"
        | b"ma" | b"mn" | b"me" => true,
        b"get" => words.next().is_some(),
        // Behind the key come numbers: flags, expiry, length.
        b"set" | b"append" => {
            words.next();
            number(words.next()) && number(words.next()) && number(words.next())
        }
        b"incr" | b"decr" | b"touch" => {
            words.next();
            number(words.next()) && words.next().is_none_or(|word| word == b"noreply")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_tells() {
        let memcached: [&[u8]; 12] = [
            b"get x\r\n",
            b"gets x y\n",
            b"set x 0 0 5\r\nhello\r\n",
            b"set x 1 -1 5 noreply\r\n",
            b"append x 0 0 1\r\n",
            b"incr x 1\r\n",
            b"touch x 0 noreply\r\n",
            b"stats\r\n",
            b"version\r\n",
            b"quit\r\n",
            b"mn\r\n",
            b"delete x\r\n",
        ];
        let resp: [&[u8]; 14] = [
            b"*1\r\n$4\r\nPING\r\n",
            b"GET x\r\n",
            b"get\r\n",
            b"PING\r\n",
            b"ping\r\n",
            b"set x hello\r\n",
            b"set x 1\r\n",
            b"set x 1 ex 10\r\n",
            b"append x 0\r\n",
            b"incr x\r\n",
            b"touch x y\r\n",
            b"\r\n",
            b"del x\r\n",
            b"POST / HTTP/1.1\r\n",
        ];
        for line in memcached {
            assert_eq!(sniff(line), Some(Protocol::MemcachedText), "{line:?}");
        }
        for line in resp {
            assert_eq!(sniff(line), Some(Protocol::Resp), "{line:?}");
        }
    }

    #[test]
    fn an_unfinished_line_waits() {
        assert_eq!(sniff(b""), None);
        assert_eq!(sniff(b"get x"), None);
        assert_eq!(sniff(b"*"), Some(Protocol::Resp));
        assert_eq!(sniff(b"\x80"), Some(Protocol::MemcachedBinary));
        let long = [&b"get "[..], &b"x ".repeat(2000)].concat();
        assert_eq!(sniff(&long), Some(Protocol::MemcachedText));
        assert_eq!(sniff(&b"x".repeat(LINE_BYTES_MAX - 1)), None);
        assert_eq!(sniff(&b"x".repeat(LINE_BYTES_MAX)), Some(Protocol::Resp));
    }
}
