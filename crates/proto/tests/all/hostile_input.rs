//! The parser on input that nobody meant well: mutations of a kept corpus, and random splits.

use crate::support;
use proptest::prelude::*;
use silica_base::{Prng, peak_allocated, test_size};
use silica_proto::{Limits, Parser, decode};

/// Requests and replies of every form, valid and not; what every mutation starts from.
const CORPUS: &[&[u8]] = &[
    b"*1\r\n$4\r\nPING\r\n",
    b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n",
    b"*2\r\n$3\r\nGET\r\n$0\r\n\r\n",
    b"*0\r\n*-1\r\n\r\n*1\r\n$4\r\nQUIT\r\n",
    b"*7\r\n$4\r\nMSET\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n$1\r\nc\r\n$1\r\n3\r\n",
    b"*3\r\n$3\r\nSET\r\n$1\r\n*\r\n$8\r\n$3\r\n\r\n*1\r\n",
    b"*1048576\r\n$1\r\na\r\n",
    b"*2147483648\r\n",
    b"*-9223372036854775808\r\n",
    b"*1\r\n$536870912\r\nabc",
    b"*1\r\n$18446744073709551615\r\n",
    b"PING\r\n",
    b"set key \"a \\x41\\n\\\"b\" 'it\\'s'\r\nget key\n",
    b"  \t echo   ''  \"\"\r\n",
    b"set \"unbalanced\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"\0\0\0\0\x16\x03\x01\x02\0\x01\0",
    b"+OK\r\n-ERR no\r\n:42\r\n$-1\r\n*-1\r\n_\r\n",
    b"%2\r\n$1\r\na\r\n,1.5\r\n$1\r\nb\r\n#t\r\n",
    b"*2\r\n~2\r\n:1\r\n:2\r\n>1\r\n=7\r\ntxt:abc\r\n",
    b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
];

const PIECES: &[&[u8]] =
    &[b"\r\n", b"*", b"$", b"-1", b"0", b"99999999999", b"\"", b"'", b"\\x", b"\n", b"\r", b" "];

fn mutate(random: &mut Prng) -> Vec<u8> {
    support::mutate(random, CORPUS, PIECES)
}

type Requests = Vec<Vec<Vec<u8>>>;

/// Everything that a connection's bytes mean, when they arrive in the pieces that `len_of_next`
/// says: requests, and the text of the error that ended them.
fn parse(
    input: &[u8],
    limits: &Limits,
    mut len_of_next: impl FnMut() -> usize,
) -> (Requests, Option<String>) {
    let mut parser = Parser::new();
    let (mut buf, mut requests) = (Vec::new(), Vec::new());
    let mut rest = input;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(len_of_next().clamp(1, rest.len()));
        buf.extend_from_slice(piece);
        rest = after;
        while !buf.is_empty() {
            match parser.parse(&mut buf, limits) {
                Ok(None) => {
                    assert!(parser.args().len() <= input.len() / 6 + 1);
                    break;
                }
                Ok(Some(used)) => {
                    let args: Vec<_> = parser.args().iter().map(|s| s.of(&buf).to_vec()).collect();
                    // What is handed out was really received.
                    assert!(args.iter().map(Vec::len).sum::<usize>() <= used);
                    assert!(used > 0);
                    requests.push(args);
                    buf.drain(..used);
                }
                Err(error) => {
                    let text = error.to_string();
                    assert!(text.starts_with("Protocol error: ") && !text.contains(['\r', '\n']));
                    return (requests, Some(text));
                }
            }
        }
    }
    (requests, None)
}

#[test]
fn mutated_input_never_panics_and_splits_change_nothing() {
    let inputs = test_size(20_000, 100_000, 100_000_000);
    let mut random = Prng::new(0x5EED);
    let small = Limits {
        args_max: 4,
        bulk_bytes_max: 8,
        inline_bytes_max: 16,
        request_bytes_max: 40,
        unauthenticated: false,
    };
    for n in 0..inputs {
        let input = mutate(&mut random);
        let limits = [Limits::OPEN, Limits::BEFORE_AUTH, small][(n % 3) as usize];
        let whole = parse(&input, &limits, || usize::MAX);
        let split = parse(&input, &limits, || 1 + random.below(8) as usize);
        // In pieces an overlong line may be refused before its end shows another fault.
        let same_error = whole.1.is_some() == split.1.is_some();
        assert!(whole.0 == split.0 && same_error, "input {n}: {whole:?} but {split:?}");
        let _ = decode(&input);
    }
}

#[test]
fn every_input_of_the_corpus_splits_at_every_byte() {
    for input in CORPUS {
        let whole = parse(input, &Limits::OPEN, || usize::MAX);
        assert_eq!(parse(input, &Limits::OPEN, || 1), whole);
        for cut in 1..input.len() {
            let mut pieces = [cut, usize::MAX].into_iter();
            let split = parse(input, &Limits::OPEN, || pieces.next().unwrap_or(1));
            assert_eq!(split, whole, "cut at {cut}");
        }
    }
}

#[test]
fn what_is_only_announced_takes_no_memory() {
    let mut random = Prng::new(0xA110C);
    let mutations = (0..test_size(5_000, 50_000, 50_000_000)).map(|_| mutate(&mut random));
    for input in CORPUS.iter().map(|input| input.to_vec()).chain(mutations) {
        let mut buf = input.clone();
        let (_, peak) = peak_allocated(|| drop(Parser::new().parse(&mut buf, &Limits::OPEN)));
        let bound = 1024 + 24 * input.len();
        assert!(peak <= bound, "a request: {peak} bytes for {}", input.escape_ascii());
        let (_, peak) = peak_allocated(|| drop(decode(&input)));
        let bound = 1024 + 128 * input.len();
        assert!(peak <= bound, "a reply: {peak} bytes for {}", input.escape_ascii());
    }
}

/// A client sees the same reply however its bytes are cut.
#[test]
fn replies_wait_for_their_last_byte() {
    let mut random = Prng::new(0xCC);
    for _ in 0..test_size(5_000, 50_000, 50_000_000) {
        let input = mutate(&mut random);
        let whole = decode(&input);
        for cut in 0..input.len() {
            match (decode(&input[..cut]), &whole) {
                (Ok(None), _) => {}
                (Ok(Some(early)), Ok(Some(late))) => assert_eq!(&early, late, "cut at {cut}"),
                // What is wrong may be seen before all of it is there.
                (Err(_), Err(_)) => {}
                (early, _) => {
                    panic!("{}: {early:?} of {cut} bytes, {whole:?}", input.escape_ascii())
                }
            }
        }
    }
}

fn encode(args: &[Vec<u8>]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_sent_arrives(
        requests in prop::collection::vec(
            prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..6),
            0..6,
        ),
        step in 1usize..50,
    ) {
        let input: Vec<u8> = requests.iter().flat_map(|r| encode(r)).collect();
        prop_assert_eq!(parse(&input, &Limits::OPEN, || step), (requests, None));
    }

    #[test]
    fn replies_decode_or_wait_or_fail(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(Some((_, used))) = decode(&bytes) {
            prop_assert!(used <= bytes.len());
        }
    }
}
