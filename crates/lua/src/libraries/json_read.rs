//! Reads JSON, and what `cjson` takes for it; errors name the token and its place.

use super::json::Settings;
use crate::failure::raise;
use mlua::{Lua, Result, Table, Value};

/// The value that `text` stands for.
pub(super) fn read(lua: &Lua, text: &[u8], settings: &Settings) -> Result<Value> {
    if text.len() >= 2 && (text[0] == 0 || text[1] == 0) {
        return raise(lua, "JSON parser does not support UTF-16 or UTF-32");
    }
    let mut reader = Reader { lua, text, at: 0, settings };
    let first = reader.next();
    let value = reader.value(first, 0)?;
    let end = reader.next();
    match end.kind {
        Kind::End => Ok(value),
        _ => reader.unexpected("the end", &end),
    }
}

enum Kind {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    Text(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    /// No token, and why.
    Wrong(&'static str),
}

struct Token {
    kind: Kind,
    /// The place of its first byte, or of what is wrong.
    at: usize,
}

struct Reader<'t> {
    lua: &'t Lua,
    text: &'t [u8],
    at: usize,
    settings: &'t Settings,
}

impl Reader<'_> {
    fn unexpected<T>(&self, expected: &str, token: &Token) -> Result<T> {
        let found = match token.kind {
            Kind::ObjectBegin => "T_OBJ_BEGIN",
            Kind::ObjectEnd => "T_OBJ_END",
            Kind::ArrayBegin => "T_ARR_BEGIN",
            Kind::ArrayEnd => "T_ARR_END",
            Kind::Text(_) => "T_STRING",
            Kind::Number(_) => "T_NUMBER",
            Kind::Boolean(_) => "T_BOOLEAN",
            Kind::Null => "T_NULL",
            Kind::Colon => "T_COLON",
            Kind::Comma => "T_COMMA",
            Kind::End => "T_END",
            Kind::Wrong(why) => why,
        };
        let place = token.at + 1;
        raise(self.lua, format!("Expected {expected} but found {found} at character {place}"))
    }

    fn value(&mut self, token: Token, depth: usize) -> Result<Value> {
        match token.kind {
            Kind::Text(text) => self.lua.create_string(text).map(Value::String),
            Kind::Number(number) => Ok(Value::Number(number)),
            Kind::Boolean(is) => Ok(Value::Boolean(is)),
            Kind::Null => Ok(Value::NULL),
            Kind::ObjectBegin => self.object(self.descend(depth)?).map(Value::Table),
            Kind::ArrayBegin => self.array(self.descend(depth)?).map(Value::Table),
            _ => self.unexpected("value", &token),
        }
    }

    fn descend(&self, depth: usize) -> Result<usize> {
        let depth = depth + 1;
        if depth > self.settings.decode_depth {
            let at = self.at;
            let text = format!("Found too many nested data structures ({depth}) at character {at}");
            return raise(self.lua, text);
        }
        Ok(depth)
    }

    fn array(&mut self, depth: usize) -> Result<Table> {
        let table = self.lua.create_table()?;
        let mut token = self.next();
        if matches!(token.kind, Kind::ArrayEnd) {
            return Ok(table);
        }
        for index in 1.. {
            let value = self.value(token, depth)?;
            table.raw_set(index, value)?;
            let behind = self.next();
            match behind.kind {
                Kind::ArrayEnd => break,
                Kind::Comma => token = self.next(),
                _ => return self.unexpected("comma or array end", &behind),
            }
        }
        Ok(table)
    }

    fn object(&mut self, depth: usize) -> Result<Table> {
        let table = self.lua.create_table()?;
        let mut token = self.next();
        if matches!(token.kind, Kind::ObjectEnd) {
            return Ok(table);
        }
        loop {
            let Kind::Text(key) = token.kind else {
                return self.unexpected("object key string", &token);
            };
            let colon = self.next();
            if !matches!(colon.kind, Kind::Colon) {
                return self.unexpected("colon", &colon);
            }
            let first = self.next();
            let value = self.value(first, depth)?;
            table.raw_set(self.lua.create_string(key)?, value)?;
            let behind = self.next();
            match behind.kind {
                Kind::ObjectEnd => return Ok(table),
                Kind::Comma => token = self.next(),
                _ => return self.unexpected("comma or object end", &behind),
            }
        }
    }

    fn next(&mut self) -> Token {
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        let blanks = self.text[self.at..].iter().take_while(|byte| is_blank(byte)).count();
        self.at += blanks;
        let at = self.at;
        let rest = &self.text[at..];
        let Some(first) = rest.first() else { return Token { kind: Kind::End, at } };
        let punctuation = match first {
            b'{' => Some(Kind::ObjectBegin),
            b'}' => Some(Kind::ObjectEnd),
            b'[' => Some(Kind::ArrayBegin),
            b']' => Some(Kind::ArrayEnd),
            b':' => Some(Kind::Colon),
            b',' => Some(Kind::Comma),
            _ => None,
        };
        if let Some(kind) = punctuation {
            self.at += 1;
            return Token { kind, at };
        }
        if *first == b'"' {
            return self.string();
        }
        let words = [
            (&b"true"[..], Kind::Boolean(true)),
            (b"false", Kind::Boolean(false)),
            (b"null", Kind::Null),
        ];
        for (word, kind) in words {
            if rest.starts_with(word) {
                self.at += word.len();
                return Token { kind, at };
            }
        }
        let lower = first.to_ascii_lowercase();
        if first.is_ascii_digit() || *first == b'-' || matches!(lower, b'i' | b'n') {
            return self.number();
        }
        Token { kind: Kind::Wrong("invalid token"), at }
    }

    /// A number as C reads it: decimal, hexadecimal, infinite or none.
    fn number(&mut self) -> Token {
        let at = self.at;
        let rest = &self.text[at..];
        let sign = usize::from(rest[0] == b'-');
        let digits = &rest[sign..];
        let starts = |word: &[u8]| {
            digits.len() >= word.len() && digits[..word.len()].eq_ignore_ascii_case(word)
        };
        let special =
            [(&b"infinity"[..], f64::INFINITY), (b"inf", f64::INFINITY), (b"nan", f64::NAN)];
        let (number, len) = if let Some((word, number)) = special.iter().find(|(w, _)| starts(w)) {
            (Some(*number).filter(|_| self.settings.decodes_invalid), word.len())
        } else if starts(b"0x") {
            let len = digits[2..].iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
            let fold = |all: f64, byte: &u8| {
                16.0 * all + f64::from((*byte as char).to_digit(16).unwrap_or(0))
            };
            let number = digits[2..2 + len].iter().fold(0.0, fold);
            (Some(number).filter(|_| len > 0 && self.settings.decodes_invalid), 2 + len)
        } else {
            decimal(digits)
        };
        let Some(number) = number else {
            let wrong = if digits.first().is_some_and(u8::is_ascii_alphabetic) && sign == 0 {
                "invalid token"
            } else {
                "invalid number"
            };
            return Token { kind: Kind::Wrong(wrong), at };
        };
        self.at += sign + len;
        Token { kind: Kind::Number(if sign == 1 { -number } else { number }), at }
    }

    /// A string, whose first byte is a quote.
    fn string(&mut self) -> Token {
        let start = self.at;
        let mut text = Vec::new();
        let mut at = start + 1;
        loop {
            match self.text.get(at) {
                None => {
                    return Token { kind: Kind::Wrong("unexpected end of string"), at };
                }
                Some(b'"') => {
                    self.at = at + 1;
                    return Token { kind: Kind::Text(text), at: start };
                }
                Some(b'\\') => match escape(&self.text[at..], &mut text) {
                    Ok(len) => at += len,
                    Err(why) => return Token { kind: Kind::Wrong(why), at },
                },
                Some(byte) => {
                    text.push(*byte);
                    at += 1;
                }
            }
        }
    }
}

/// The decimal number at the beginning of `digits`, and its length.
fn decimal(digits: &[u8]) -> (Option<f64>, usize) {
    let count = |from: usize| digits[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let mut len = count(0);
    let mut found = len;
    if digits.get(len) == Some(&b'.') {
        let decimals = count(len + 1);
        found += decimals;
        len += 1 + decimals;
    }
    if found == 0 {
        return (None, 0);
    }
    if matches!(digits.get(len), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(digits.get(len + 1), Some(b'+' | b'-')));
        let exponent = if len + 1 + sign <= digits.len() { count(len + 1 + sign) } else { 0 };
        if exponent > 0 {
            len += 1 + sign + exponent;
        }
    }
    let text = std::str::from_utf8(&digits[..len]).unwrap_or_default();
    (text.parse().ok(), len)
}

/// Adds what the escape sequence at the beginning of `bytes` stands for; its length.
fn escape(bytes: &[u8], text: &mut Vec<u8>) -> std::result::Result<usize, &'static str> {
    const UNICODE: &str = "invalid unicode escape code";
    let plain = match bytes.get(1) {
        Some(byte @ (b'"' | b'\\' | b'/')) => *byte,
        Some(b'b') => 0x08,
        Some(b'f') => 0x0C,
        Some(b'n') => b'\n',
        Some(b'r') => b'\r',
        Some(b't') => b'\t',
        Some(b'u') => {
            let unit = |from: usize| {
                let digits = bytes.get(from..from + 4)?;
                let digits = digits.iter().map(|byte| (*byte as char).to_digit(16));
                digits.reduce(|all, digit| Some(16 * all? + digit?))?
            };
            let first = unit(2).ok_or(UNICODE)?;
            let (code, len) = match first {
                0xD800..0xDC00 if bytes.get(6..8) == Some(b"\\u") => {
                    let second = unit(8).filter(|unit| (0xDC00..0xE000).contains(unit));
                    let second = second.ok_or(UNICODE)?;
                    (0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00), 12)
                }
                _ => (first, 6),
            };
            let letter = char::from_u32(code).ok_or(UNICODE)?;
            text.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
            return Ok(len);
        }
        _ => return Err("invalid escape code"),
    };
    text.push(plain);
    Ok(2)
}
