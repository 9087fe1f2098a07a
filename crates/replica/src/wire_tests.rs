use super::*;
use crate::scripted::{Scripted, Step};

fn wire(steps: Vec<Step>) -> (Wire, Scripted) {
    let script = Scripted::new(steps);
    (Wire::over(Box::new(script.clone()), Duration::from_secs(3600)), script)
}

fn bytes(text: &str) -> Step {
    Step::Bytes(text.as_bytes().to_vec())
}

fn line(wire: &mut Wire) -> Result<Vec<u8>> {
    wire.line(&mut || Ok(()))
}

#[test]
fn lines_come_in_any_pieces_and_empty_ones_are_passed_over() {
    let text = "\r\n\n+FULLRESYNC abc 7\r\n\n$EOF:x\nrest";
    for size in 1..text.len() {
        let pieces = text.as_bytes().chunks(size).map(|piece| Step::Bytes(piece.to_vec()));
        let (mut wire, _) = wire(pieces.collect());
        assert_eq!(line(&mut wire).unwrap(), b"+FULLRESYNC abc 7", "pieces of {size}");
        assert_eq!(line(&mut wire).unwrap(), b"$EOF:x");
        while wire.read().is_ok() {}
        assert_eq!(wire.buffer, b"rest", "what is behind a line stays");
    }
}

#[test]
fn a_line_without_an_end_is_no_protocol_of_redis() {
    let (mut wire, _) = wire(vec![Step::Bytes(vec![b'x'; LINE_BYTES_MAX + 1]), Step::Nothing]);
    let error = line(&mut wire).expect_err("too long");
    assert!(error.to_string().contains("does not speak Redis's protocol"), "{error}");
}

#[test]
fn requests_are_arrays_of_bulk_strings() {
    let (mut wire, script) = wire(vec![]);
    wire.send(&[b"PSYNC", b"", b"\r\n"]).unwrap();
    assert_eq!(script.sent(), b"*3\r\n$5\r\nPSYNC\r\n$0\r\n\r\n$2\r\n\r\n\r\n");
}

#[test]
fn a_reply_comes_in_pieces_and_what_follows_stays() {
    let (mut wire, script) = wire(vec![bytes("$5\r\nhe"), Step::Nothing, bytes("llo\r\n+next")]);
    let mut asked = 0;
    let reply = wire.ask(&[b"ECHO"], &mut || {
        asked += 1;
        Ok(())
    });
    assert_eq!(reply.unwrap(), Value::Bulk(b"hello".to_vec()));
    assert_eq!(wire.buffer, b"+next");
    assert!(asked >= 3, "whoever waits is asked whether it goes on");
    assert_eq!(script.sent(), b"*1\r\n$4\r\nECHO\r\n");
}

#[test]
fn waiting_ends_when_it_is_not_to_go_on() {
    let (mut wire, _) = wire(vec![Step::Nothing; 5]);
    let mut left = 3;
    let ended = wire.ask(&[b"PING"], &mut || {
        left -= 1;
        if left > 0 { Ok(()) } else { Err(failed("the role has changed")) }
    });
    assert_eq!(ended.expect_err("ended").to_string(), "the role has changed");
}

#[test]
fn what_is_no_protocol_of_redis_ends_the_link() {
    let (mut wire, _) = wire(vec![bytes("HTTP/1.1 400 Bad Request\r\n\r\n")]);
    let error = wire.ask(&[b"PING"], &mut || Ok(())).expect_err("no reply");
    assert!(error.to_string().contains("does not speak Redis's protocol"), "{error}");
}

#[test]
fn a_side_that_closes_at_once_gets_the_hint_and_later_none() {
    let (mut first, _) = wire(vec![Step::Closed]);
    let error = first.read().expect_err("closed").to_string();
    assert!(error.contains("has closed the link; a hint"), "{error}");
    let (mut later, _) = wire(vec![bytes("+PONG\r\n"), Step::Closed]);
    assert_eq!(later.read().unwrap(), Got::Bytes(7));
    let error = later.read().expect_err("closed").to_string();
    assert!(error.ends_with("has closed the link"), "{error}");
}

#[test]
fn an_answer_by_tls_is_named() {
    // A fatal alert of TLS 1.2: handshake failure.
    let (mut wire, _) = wire(vec![Step::Bytes(vec![21, 3, 3, 0, 2, 2, 40])]);
    let error = wire.read().expect_err("TLS").to_string();
    assert!(error.contains("answers by TLS; a hint"), "{error}");
}

#[test]
fn silence_is_an_end_only_after_the_timeout() {
    let (mut patient, _) = wire(vec![Step::Nothing, Step::Interrupted]);
    assert_eq!(patient.read().unwrap(), Got::Nothing);
    assert_eq!(patient.read().unwrap(), Got::Nothing);
    let (mut hasty, _) = wire(vec![Step::Nothing]);
    hasty.set_timeout(Duration::ZERO);
    let error = hasty.read().expect_err("silent").to_string();
    assert!(error.contains("says nothing for 0 s"), "{error}");
}
