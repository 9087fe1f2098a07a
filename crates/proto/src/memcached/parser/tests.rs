use super::*;
use crate::memcached::Mode;

/// The requests of `input`, with their spans' bytes and whether they are quiet.
fn all(input: &[u8], limits: &Limits) -> Vec<(Request, bool, Vec<Vec<u8>>)> {
    let (mut parser, mut buf, mut found) = (Parser::new(), input.to_vec(), Vec::new());
    while let Ok(Some(used)) = parser.parse(&mut buf, limits) {
        let spans = parser.spans().iter().map(|span| span.of(&buf).to_vec()).collect();
        found.push((parser.request(), parser.is_quiet(), spans));
        buf.drain(..used);
        if buf.is_empty() {
            break;
        }
    }
    found
}

fn one(input: &[u8]) -> (Request, bool, Vec<Vec<u8>>) {
    let mut found = all(input, &Limits::OPEN);
    assert_eq!(found.len(), 1, "{input:?}");
    found.remove(0)
}

#[test]
fn every_command_is_known() {
    let keys = |list: &[&str]| list.iter().map(|k| k.as_bytes().to_vec()).collect::<Vec<_>>();
    let set = |mode| Request::Store { mode, flags: 7, expiry: -1 };
    type Case<'a> = (&'a [u8], Request, bool, &'a [&'a str]);
    let cases: &[Case<'_>] = &[
        (b"get a bb\r\n", Request::Get { unique: false }, false, &["a", "bb"]),
        (b"gets a\n", Request::Get { unique: true }, false, &["a"]),
        (b"gat 5 a b\r\n", Request::GetAndTouch { unique: false, expiry: 5 }, false, &["a", "b"]),
        (b"gats -5 a\r\n", Request::GetAndTouch { unique: true, expiry: -5 }, false, &["a"]),
        (b"set k 7 -1 2\r\nab\r\n", set(Mode::Set), false, &["k", "ab"]),
        (b"add k 7 -1 0 noreply\r\n\r\n", set(Mode::Add), true, &["k", ""]),
        (b"replace k 7 -1 2\r\n\r\n\r\n", set(Mode::Replace), false, &["k", "\r\n"]),
        (b"append k 7 -1 1\r\nx\r\n", set(Mode::Append), false, &["k", "x"]),
        (b"prepend k 7 -1 1\r\nx\r\n", set(Mode::Prepend), false, &["k", "x"]),
        (b"cas k 7 -1 1 99\r\nx\r\n", set(Mode::Cas(99)), false, &["k", "x"]),
        (b"incr k 3\r\n", Request::Arithmetic { up: true, delta: 3 }, false, &["k"]),
        (b"decr k 3 noreply\r\n", Request::Arithmetic { up: false, delta: 3 }, true, &["k"]),
        (b"touch k 9\r\n", Request::Touch { expiry: 9 }, false, &["k"]),
        (b"delete k\r\n", Request::Delete, false, &["k"]),
        (b"delete k 0 noreply\r\n", Request::Delete, true, &["k"]),
        (b"flush_all\r\n", Request::FlushAll { delay: 0 }, false, &[]),
        (b"flush_all 9 noreply\r\n", Request::FlushAll { delay: 9 }, true, &[]),
        (b"stats a b\r\n", Request::Stats, false, &["a", "b"]),
        (b"version\r\n", Request::Version, false, &[]),
        (b"verbosity 1\r\n", Request::Verbosity, false, &[]),
        (b"quit\r\n", Request::Quit, false, &[]),
    ];
    for (input, request, quiet, spans) in cases {
        assert_eq!(one(input), (*request, *quiet, keys(spans)), "{input:?}");
    }
}

#[test]
fn what_is_wrong_is_a_request_too() {
    let long = [b"get ".as_slice(), &[b'k'; 251], b"\r\n"].concat();
    let cases: &[(&[u8], Fault, bool)] = &[
        (b"\r\n", Fault::Unknown, false),
        (b"x\r\n", Fault::Unknown, false),
        (b"GET a\r\n", Fault::Unknown, false),
        (b"get\r\n", Fault::Unknown, false),
        (&long, Fault::Format, false),
        (b"set a 0 0\r\n", Fault::Unknown, false),
        (b"set a x 0 1\r\n", Fault::Format, false),
        (b"set a 0 0 -1 noreply\r\n", Fault::Format, true),
        (b"set a 0 0 2147483646\r\n", Fault::Format, false),
        (b"cas a 0 0 1 x\r\n", Fault::Format, false),
        (b"set a 0 0 1\r\nabc", Fault::DataChunk, false),
        (b"incr a x\r\n", Fault::Delta, false),
        (b"touch a x\r\n", Fault::Expiry, false),
        (b"gat x a\r\n", Fault::Expiry, false),
        (b"delete a 1\r\n", Fault::DeleteUsage, false),
        (b"flush_all x\r\n", Fault::Expiry, false),
        (b"verbosity x\r\n", Fault::Format, false),
        (b"shutdown\r\n", Fault::Shutdown, false),
        (b"slabs reassign 1 2\r\n", Fault::Slabs, false),
    ];
    for (input, fault, quiet) in cases {
        assert_eq!(one(input), (Request::Fault(*fault), *quiet, vec![]), "{input:?}");
    }
}

#[test]
fn values_that_are_too_large_are_thrown_away() {
    let limits = Limits { value_bytes_max: 3, ..Limits::OPEN };
    let kinds = |input: &[u8]| all(input, &limits).into_iter().map(|r| r.0).collect::<Vec<_>>();
    let (skipped, version) = (Request::Nothing, Request::Version);
    let input = b"set a 0 0 4\r\nabcd\r\nversion\r\n";
    assert_eq!(kinds(input), [Request::TooLarge, skipped, version]);
    let input = b"add a 0 0 4\r\nabcd\r\nversion\r\n";
    assert_eq!(kinds(input), [Request::Fault(Fault::TooLarge), skipped, version]);
    // A gigabyte that is announced is not waited for.
    let mut parser = Parser::new();
    let mut line = b"set a 0 0 1000000000\r\n".to_vec();
    assert_eq!(parser.parse(&mut line, &limits), Ok(Some(line.len())));
    assert_eq!(parser.needed_bytes(), 0);
}

#[test]
fn strangers_can_only_give_the_password() {
    let requests = all(b"get a\r\nset x 0 0 6\r\nme psst\r\n", &Limits::BEFORE_AUTH);
    let unauthenticated = Request::Fault(Fault::Unauthenticated);
    assert_eq!(requests[0], (unauthenticated, false, vec![]));
    assert_eq!(requests[1].0, Request::Fault(Fault::AuthTermination));
    let requests = all(b"set x 0 0 7\r\nme psst\r\n", &Limits::BEFORE_AUTH);
    assert_eq!(requests, [(Request::Auth, false, vec![b"me psst".to_vec()])]);
    let requests = all(b"set x 0 0 2000\r\n", &Limits::BEFORE_AUTH);
    assert_eq!(requests[0].0, unauthenticated);
}

#[test]
fn only_requests_for_keys_have_long_lines() {
    let parse = |bytes: &[u8]| Parser::new().parse(&mut bytes.to_vec(), &Limits::OPEN);
    assert_eq!(parse(&[b'x'; 2048]), Ok(None));
    assert_eq!(parse(&[b'x'; 2049]), Err(TooLong));
    let get = [b"get ".as_slice(), &b"k ".repeat(5000), b"\r\n"].concat();
    assert_eq!(parse(&get), Ok(Some(get.len())));
    let endless = [b"get ".as_slice(), &b"k ".repeat(600_000)].concat();
    assert_eq!(parse(&endless), Err(TooLong));
}

#[test]
fn no_line_is_searched_twice() {
    let input = format!("get {}\r\n", "key ".repeat(500));
    let mut parser = Parser::new();
    for end in 1..input.len() {
        let mut buf = input.as_bytes()[..end].to_vec();
        // The line would end early for whoever begins again.
        buf[..parser.scanned].fill(b'\n');
        assert_eq!(parser.parse(&mut buf, &Limits::OPEN), Ok(None), "{end}");
    }
    let mut buf = input.into_bytes();
    assert_eq!(parser.parse(&mut buf, &Limits::OPEN), Ok(Some(buf.len())));
    assert_eq!(parser.spans().len(), 500);
}
