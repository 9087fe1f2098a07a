use super::*;

/// All requests of `input`, handed over in pieces of `step` bytes, and the error that ended it.
fn requests(
    input: &[u8],
    step: usize,
    limits: &Limits,
) -> (Vec<Vec<Vec<u8>>>, Option<ProtocolError>) {
    let mut parser = Parser::new();
    let mut buf = Vec::new();
    let mut found = Vec::new();
    for piece in input.chunks(step.max(1)) {
        buf.extend_from_slice(piece);
        loop {
            match parser.parse(&mut buf, limits) {
                Ok(None) => break,
                Ok(Some(used)) => {
                    found.push(parser.args().iter().map(|s| s.of(&buf).to_vec()).collect());
                    buf.drain(..used);
                    if buf.is_empty() {
                        break;
                    }
                }
                Err(error) => return (found, Some(error)),
            }
        }
    }
    (found, None)
}

fn error_of(input: &[u8]) -> String {
    requests(input, usize::MAX, &Limits::OPEN).1.expect("an error").to_string()
}

fn list(args: &[&[u8]]) -> Vec<Vec<u8>> {
    args.iter().map(|a| a.to_vec()).collect()
}

#[test]
fn arrays_inline_commands_and_blank_lines() {
    let input = b"*2\r\n$3\r\nGET\r\n$1\r\na\r\nset x 'y z'\n\r\n*0\r\n*-1\r\nPING\r\n";
    let want = vec![
        list(&[b"GET", b"a"]),
        list(&[b"set", b"x", b"y z"]),
        vec![],
        vec![],
        vec![],
        list(&[b"PING"]),
    ];
    for step in 1..input.len() + 1 {
        assert_eq!(requests(input, step, &Limits::OPEN), (want.clone(), None), "step {step}");
    }
}

#[test]
fn error_texts_are_the_known_ones() {
    let cases: &[(&[u8], &str)] = &[
        (b"*x\r\n", "invalid multibulk length"),
        (b"*1048577\r\n", "invalid multibulk length"),
        (b"*99999999999999999999\r\n", "invalid multibulk length"),
        (b"*1\r\nx", "expected '$', got 'x'"),
        (b"*1\r\n\r\n", "expected '$', got ' '"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
        (b"*1\r\n$a\r\n", "invalid bulk length"),
        (b"*1\r\n$536870913\r\n", "invalid bulk length"),
        (b"get \"a\r\n", "unbalanced quotes in request"),
    ];
    for (input, text) in cases {
        assert_eq!(error_of(input), format!("Protocol error: {text}"));
    }
    let long = vec![b'1'; (64 << 10) + 2];
    assert_eq!(error_of(&long), "Protocol error: too big inline request");
    assert_eq!(error_of(&[b"*", &long[..]].concat()), "Protocol error: too big mbulk count string");
    let bulk = [b"*1\r\n$", &long[..]].concat();
    assert_eq!(error_of(&bulk), "Protocol error: too big bulk count string");
}

#[test]
fn strangers_get_little_room() {
    let (_, many) = requests(b"*11\r\n", 99, &Limits::BEFORE_AUTH);
    assert_eq!(many, Some(ProtocolError::UnauthenticatedMultibulkLength));
    let (_, long) = requests(b"*1\r\n$16385\r\n", 99, &Limits::BEFORE_AUTH);
    assert_eq!(long, Some(ProtocolError::UnauthenticatedBulkLength));
    let (_, words) = requests(b"a b c d e f g h i j k\n", 99, &Limits::BEFORE_AUTH);
    assert_eq!(words, Some(ProtocolError::UnauthenticatedMultibulkLength));
    let (ten, none) = requests(b"a b c d e f g h i j\n*1\r\n$1\r\na\r\n", 99, &Limits::BEFORE_AUTH);
    assert_eq!((ten.len(), none), (2, None));
}

#[test]
fn a_whole_request_has_a_limit_too() {
    let limits = Limits { request_bytes_max: 30, ..Limits::OPEN };
    let input = b"*2\r\n$9\r\n123456789\r\n$9\r\n123456789\r\n";
    assert_eq!(requests(input, 99, &limits).1, Some(ProtocolError::TooBigRequest));
}

#[test]
fn a_promise_of_bytes_allocates_nothing() {
    let mut parser = Parser::new();
    let mut buf = b"*1048576\r\n$536870912\r\nabc".to_vec();
    assert_eq!(parser.parse(&mut buf, &Limits::OPEN), Ok(None));
    assert_eq!(parser.spans.capacity(), 0);
    assert_eq!(parser.needed_bytes(), 22 + 536_870_912 + 2);
}

#[test]
fn the_usual_form_is_parsed_alike_wherever_it_is_cut() {
    let long = format!("*2\r\n$3\r\nGET\r\n$999\r\n{}\r\n", "k".repeat(999));
    let longer = format!("*2\r\n$3\r\nGET\r\n$1000\r\n{}\r\n", "k".repeat(1000));
    let usual: [&str; 4] = [
        "*2\r\n$3\r\nGET\r\n$12\r\nabcdefghijkl\r\n",
        "*1\r\n$4\r\nPING\r\n",
        "*3\r\n$3\r\nSET\r\n$0\r\n\r\n$1\r\nv\r\n",
        &long,
    ];
    let others: [&str; 8] = [
        &longer,
        "PING\r\n",
        "*0\r\n",
        "*10\r\n$1\r\na\r\n",
        "*1\r\n$01\r\na\r\n",
        "*1\r\n$-1\r\n",
        "*1\r\n:1\r\n",
        "*x\r\n",
    ];
    for text in usual.iter().chain(&others) {
        let mut spans = vec![Span::default()];
        let bytes = text.as_bytes();
        let mut parser = Parser::new();
        for end in 0..bytes.len() {
            assert_eq!(parser.parse_usual(&bytes[..end], 7, &mut spans), None, "{text} {end}");
        }
        let used = parser.parse_usual(&[bytes, b"*1"].concat(), 7, &mut spans);
        if !usual.contains(text) {
            assert_eq!((used, spans.len()), (None, 1), "{text}");
            continue;
        }
        let (want, _) = requests(bytes, usize::MAX, &Limits::OPEN);
        let behind = [b"_______", bytes].concat();
        let found: Vec<_> = spans[1..].iter().map(|span| span.of(&behind).to_vec()).collect();
        assert_eq!((used, found), (Some(bytes.len()), want[0].clone()), "{text}");
    }
}

#[test]
fn a_request_that_has_begun_is_not_begun_again() {
    let mut parser = Parser::new();
    let mut first = b"*2\r\n$3\r\nGET\r\n$1\r\na".to_vec();
    assert_eq!(parser.parse(&mut first, &Limits::OPEN), Ok(None));
    first.extend_from_slice(b"\r\n");
    let mut spans = Vec::new();
    assert_eq!(parser.parse_usual(&first, 0, &mut spans), None);
    assert_eq!(parser.parse(&mut first, &Limits::OPEN), Ok(Some(first.len())));
    assert_eq!(parser.parse_usual(&first, 0, &mut spans), Some(first.len()));
    assert_eq!((spans.len(), parser.needed_bytes()), (2, 0));
}

#[test]
fn nothing_is_parsed_twice() {
    let args: Vec<String> = (0..300).map(|n| "x".repeat(n)).collect();
    let mut input = b"*300\r\n".to_vec();
    args.iter().for_each(|arg| {
        input.extend_from_slice(format!("${}\r\n{arg}\r\n", arg.len()).as_bytes());
    });
    let (mut parser, mut buf) = (Parser::new(), Vec::new());
    for (n, byte) in input.iter().enumerate() {
        buf.push(*byte);
        let done = parser.parse(&mut buf, &Limits::OPEN).unwrap();
        assert_eq!(done.is_some(), n + 1 == input.len());
        if parser.counted {
            // Whoever begins again finds nonsense.
            buf[..parser.pos].fill(b'!');
        }
    }
    let lens: Vec<usize> = parser.args().iter().map(|span| span.len as usize).collect();
    assert_eq!(lens, (0..300).collect::<Vec<_>>());
}

#[test]
fn no_line_is_searched_twice() {
    let input = format!("EXISTS {}\n", "k ".repeat(500));
    let mut parser = Parser::new();
    for end in 1..input.len() {
        let mut buf = input.as_bytes()[..end].to_vec();
        // The line would end early for whoever begins again.
        buf[..parser.scanned].fill(b'\n');
        assert_eq!(parser.parse(&mut buf, &Limits::OPEN), Ok(None), "{end}");
    }
    let mut buf = input.into_bytes();
    assert_eq!(parser.parse(&mut buf, &Limits::OPEN), Ok(Some(buf.len())));
    assert_eq!(parser.args().len(), 501);
}

/// A request that is given up wherever it stands ends where it would have ended.
#[test]
fn what_is_given_up_is_skipped_to_its_end() {
    let requests: [&[u8]; 3] = [
        b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$12\r\nabc\r\n$9\r\nxyz\r\n",
        b"*1\r\n$4\r\nPING\r\n",
        b"SET k v\r\n",
    ];
    let next = b"*1\r\n$4\r\nPING\r\n";
    let mut given_up = 0;
    for request in requests {
        for cut in 1..request.len() {
            let mut parser = Parser::new();
            let mut start = request[..cut].to_vec();
            assert_eq!(parser.parse(&mut start, &Limits::OPEN), Ok(None));
            let Some(rest) = parser.give_up(&start) else { continue };
            given_up += 1;
            let bytes = [&request[cut..], next].concat();
            for second in 0..=request.len() - cut {
                let mut rest = rest.clone();
                let mut used = 0;
                let first = rest.skip(&bytes[..second], &Limits::OPEN).unwrap();
                used += first.unwrap_or(second);
                if first.is_none() {
                    used += rest.skip(&bytes[second..], &Limits::OPEN).unwrap().unwrap();
                }
                assert_eq!(used, request.len() - cut, "cut at {cut} and {second}");
                let mut behind = bytes[used..].to_vec();
                let end = parser.clone().parse(&mut behind, &Limits::OPEN);
                assert_eq!(end, Ok(Some(next.len())));
            }
        }
    }
    assert!(given_up > 50);
}

#[test]
fn what_is_no_request_is_not_skipped() {
    let mut parser = Parser::new();
    let mut start = b"*3\r\n$3\r\nSE".to_vec();
    assert_eq!(parser.parse(&mut start, &Limits::OPEN), Ok(None));
    let rest = parser.give_up(&start).unwrap();
    for (bytes, wrong) in [
        (&b"T\r\n+1\r\n"[..], ProtocolError::ExpectedDollar(b'+')),
        (b"T\r\n$x\r\n", ProtocolError::InvalidBulkLength),
        (b"T\r\n$600000000\r\n", ProtocolError::InvalidBulkLength),
        (&[b'1'; 80], ProtocolError::TooBigBulkLine),
    ] {
        let bytes = if bytes[0] == b'1' { [b"T\r\n", bytes].concat() } else { bytes.to_vec() };
        assert_eq!(rest.clone().skip(&bytes, &Limits::OPEN), Err(wrong));
    }
}
