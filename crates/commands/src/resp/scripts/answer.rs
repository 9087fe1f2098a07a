//! What a script answers, in the client's dialect.

use silica_lua::Answer;
use silica_proto::{Reply, Version};

/// Writes `answer` as a reply.
pub(crate) fn write(answer: &Answer, reply: &mut Reply<'_>) {
    let is_old = reply.version() == Version::Resp2;
    match answer {
        Answer::Null => reply.null(),
        Answer::Boolean(is) => reply.boolean(*is),
        Answer::Integer(n) => reply.integer(*n),
        Answer::Double(n) => reply.double(*n),
        Answer::Bulk(bytes) => reply.bulk(bytes),
        Answer::Status(text) => line(b'+', text, reply),
        Answer::Error(text) => line(b'-', text, reply),
        Answer::BigNumber(digits) if is_old => reply.bulk(digits),
        Answer::BigNumber(digits) => line(b'(', digits, reply),
        Answer::Verbatim(_, text) if is_old => reply.bulk(text),
        Answer::Verbatim(format, text) => {
            let mut three = [b' '; 3];
            three.iter_mut().zip(format).for_each(|(to, from)| *to = *from);
            let out = reply.raw();
            out.extend_from_slice(format!("={}\r\n", text.len() + 4).as_bytes());
            out.extend_from_slice(&three);
            out.push(b':');
            out.extend_from_slice(text);
            out.extend_from_slice(b"\r\n");
        }
        Answer::Array(all) => {
            reply.array(all.len());
            all.iter().for_each(|item| write(item, reply));
        }
        Answer::Map(all) => {
            reply.map(all.len());
            for (key, value) in all {
                write(key, reply);
                write(value, reply);
            }
        }
        Answer::Set(all) => {
            reply.set(all.len());
            all.iter().for_each(|item| write(item, reply));
        }
    }
}

/// A reply of one line.
fn line(kind: u8, text: &[u8], reply: &mut Reply<'_>) {
    let out = reply.raw();
    out.push(kind);
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}
