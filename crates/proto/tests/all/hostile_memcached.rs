//! The parsers of memcached's protocols on input that nobody meant well.

use crate::support;
use proptest::prelude::*;
use silica_base::{Prng, peak_allocated, test_size};
use silica_proto::memcached::{BinaryParser, Limits, Parser, Request, sniff};

/// Requests of every form, valid and not; what every mutation starts from.
const CORPUS: &[&[u8]] = &[
    b"get a bb ccc\r\n",
    b"gets a\r\n",
    b"gat 100 a b\r\n",
    b"set key 7 0 5\r\nvalue\r\n",
    b"add key 4294967295 -1 0 noreply\r\n\r\n",
    b"cas key 0 2592001 2 18446744073709551615\r\n\r\n\r\n",
    b"set key 0 0 5\r\nvalues\r\nget key\r\n",
    b"set key 0 0 2147483645\r\nabc",
    b"set key 0 0 1048577\r\nabc\r\nget key\r\n",
    b"set key 0 0 -1\r\n",
    b"append key 0 0 99999999999999999999\r\n",
    b"incr key 18446744073709551616\r\ndecr key 1\r\n",
    b"touch key 0\r\ndelete key 0 noreply\r\n",
    b"flush_all 10 noreply\r\nstats items\r\nversion\r\nverbosity 1\r\n",
    b"  get   a  \r\nget a\0b\r\n\r\n\n \r\n",
    b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"quit\r\n",
    b"mg key v t f c s k Oopaque q N30 R30 T-1\r\nmn\r\n",
    b"ms key 5 T90 F7 c C18446744073709551615 I ME q\r\nvalue\r\n",
    b"ms a2V5 5 b k\r\nvalue\r\nmg a2V5 b k v\r\nme a2V5 b\r\n",
    b"ms *** 3 b\r\nbad\r\nmd key I T30 C5 O1\r\n",
    b"ma key N0 J13 D7 MD v t c\r\nma key MXX\r\n",
    b"ms key 1048577 k\r\nabc\r\n",
    b"mg key v v\r\nmg key \xff\r\nmg\r\nms key\r\n",
];

const PIECES: &[&[u8]] = &[
    b"\r\n",
    b" ",
    b"0",
    b"-1",
    b"99999999999",
    b"noreply",
    b"\n",
    b"\r",
    b"\0",
    b"get ",
    b"set ",
];

fn mutate(random: &mut Prng) -> Vec<u8> {
    support::mutate(random, CORPUS, PIECES)
}

type Requests = Vec<(Request, bool, Vec<Vec<u8>>)>;

/// Everything that a connection's bytes mean when they arrive in the pieces that `len_of_next`
/// says, and whether a line was too long. What is thrown away is no request.
fn parse(
    input: &[u8],
    limits: &Limits,
    mut len_of_next: impl FnMut() -> usize,
) -> (Requests, bool) {
    let (mut parser, mut buf, mut requests) = (Parser::new(), Vec::new(), Vec::new());
    let mut rest = input;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(len_of_next().clamp(1, rest.len()));
        buf.extend_from_slice(piece);
        rest = after;
        while !buf.is_empty() {
            match parser.parse(&mut buf, limits) {
                Ok(None) => {
                    assert!(parser.needed_bytes() <= limits.value_bytes_max + 2100);
                    break;
                }
                Ok(Some(used)) => {
                    let spans: Vec<_> =
                        parser.spans().iter().map(|s| s.of(&buf).to_vec()).collect();
                    assert!(spans.iter().map(Vec::len).sum::<usize>() <= used && used > 0);
                    if parser.request() != Request::Nothing {
                        requests.push((parser.request(), parser.is_quiet(), spans));
                    }
                    buf.drain(..used);
                }
                Err(_) => return (requests, true),
            }
        }
    }
    (requests, false)
}

const SMALL: Limits =
    Limits { line_bytes_max: 24, keys_bytes_max: 40, value_bytes_max: 8, let_in: true };

#[test]
fn mutated_input_never_panics_and_splits_change_nothing() {
    let inputs = test_size(20_000, 100_000, 100_000_000);
    let mut random = Prng::new(0x5EED);
    for n in 0..inputs {
        let input = mutate(&mut random);
        let limits = [Limits::OPEN, Limits::BEFORE_AUTH, SMALL][(n % 3) as usize];
        let whole = parse(&input, &limits, || usize::MAX);
        let split = parse(&input, &limits, || 1 + random.below(8) as usize);
        assert!(whole == split, "input {n}: {whole:?} but {split:?}");
        let _ = sniff(&input);
    }
}

#[test]
fn every_input_of_the_corpus_splits_at_every_byte() {
    for input in CORPUS {
        for limits in [Limits::OPEN, SMALL] {
            let whole = parse(input, &limits, || usize::MAX);
            assert_eq!(parse(input, &limits, || 1), whole);
            for cut in 1..input.len() {
                let mut pieces = [cut, usize::MAX].into_iter();
                let split = parse(input, &limits, || pieces.next().unwrap_or(1));
                assert_eq!(split, whole, "cut at {cut}");
            }
        }
    }
}

#[test]
fn parsing_allocates_for_keys_only_and_only_once() {
    let requests: [&[u8]; 5] = [
        b"get a b c\r\nset k 1 2 5\r\nvalue\r\n",
        b"incr k 1\r\nnonsense\r\n",
        b"mg key v t f c s k Oopaque q\r\n",
        b"ms key 5 T90 F7 c\r\nvalue\r\n",
        b"md key I T30\r\nma key N0 J13\r\n",
    ];
    let mut pipeline = requests.concat().repeat(200);
    let mut parser = Parser::new();
    let mut all = |parser: &mut Parser| {
        let mut base = 0;
        while base < pipeline.len() {
            let used = parser.parse(&mut pipeline[base..], &Limits::OPEN);
            base += used.expect("short lines").expect("whole requests");
        }
    };
    all(&mut parser);
    let (_, peak) = peak_allocated(|| all(&mut parser));
    assert_eq!(peak, 0, "a request was allocated for");
    let mut announced = b"set k 0 0 1048576\r\nabc".to_vec();
    let (_, peak) = peak_allocated(|| Parser::new().parse(&mut announced, &Limits::OPEN));
    assert!(peak < 1 << 10, "{peak} bytes were allocated for a value that was announced");
}

/// A packet with lengths that may be lies.
fn packet(random: &mut Prng) -> Vec<u8> {
    let any = |random: &mut Prng, list: &[usize]| list[random.below(list.len() as u64) as usize];
    let (extras, key) = (any(random, &[0, 4, 8, 20]), any(random, &[0, 1, 3, 250, 251]));
    let value = any(random, &[0, 1, 8, 9, 40]);
    let mut bytes = vec![0; 24 + extras + key + value];
    bytes[..2].copy_from_slice(&[0x80, random.below(0x28) as u8]);
    bytes[3] = key as u8;
    bytes[4] = extras as u8;
    bytes[10..12].copy_from_slice(&((extras + key + value) as u16).to_be_bytes());
    if random.below(3) == 0 {
        let at = random.below(24) as usize;
        bytes[at] = random.next_u64() as u8;
    }
    bytes.truncate(bytes.len() - random.below(2).min(1) as usize * random.below(12) as usize);
    bytes
}

/// What packets mean that arrive in pieces, and whether they end in bytes that are none.
fn parse_packets(
    input: &[u8],
    limits: &Limits,
    mut len_of_next: impl FnMut() -> usize,
) -> (Requests, bool) {
    let (mut parser, mut buf, mut requests) = (BinaryParser::default(), Vec::new(), Vec::new());
    let mut rest = input;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(len_of_next().clamp(1, rest.len()));
        buf.extend_from_slice(piece);
        rest = after;
        while !buf.is_empty() {
            match parser.parse(&buf, limits) {
                Ok(None) => {
                    assert!(parser.needed_bytes() <= limits.value_bytes_max + 24 + 20 + 65_535);
                    break;
                }
                Ok(Some(used)) => {
                    let spans: Vec<_> =
                        parser.spans().iter().map(|s| s.of(&buf[..used]).to_vec()).collect();
                    let request = parser.request();
                    if request != Request::Nothing {
                        requests.push((request, false, spans));
                    }
                    buf.drain(..used);
                    if matches!(request, Request::Binary(packet) if packet.last) {
                        return (requests, false);
                    }
                }
                Err(_) => return (requests, true),
            }
        }
    }
    (requests, false)
}

#[test]
fn packets_never_panic_and_splits_change_nothing() {
    let inputs = test_size(20_000, 100_000, 100_000_000);
    let mut random = Prng::new(0xB17);
    for n in 0..inputs {
        let input: Vec<u8> = (0..3).flat_map(|_| packet(&mut random)).collect();
        let limits = [Limits::OPEN, Limits::BEFORE_AUTH, SMALL][(n % 3) as usize];
        let whole = parse_packets(&input, &limits, || usize::MAX);
        let split = parse_packets(&input, &limits, || 1 + random.below(30) as usize);
        assert!(whole == split, "input {n}: {whole:?} but {split:?}");
        let _ = sniff(&input);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_stored_arrives(
        values in prop::collection::vec(
            ("[a-z]{1,250}", any::<u32>(), any::<i32>(), prop::collection::vec(any::<u8>(), 0..60)),
            1..6,
        ),
        step in 1usize..50,
    ) {
        let mut input = Vec::new();
        for (key, flags, expiry, data) in &values {
            let line = format!("set {key} {flags} {expiry} {}\r\n", data.len());
            input.extend_from_slice(&[line.as_bytes(), data, b"\r\n"].concat());
        }
        let (requests, _) = parse(&input, &Limits::OPEN, || step);
        prop_assert_eq!(requests.len(), values.len());
        for ((request, _, spans), (key, flags, expiry, data)) in requests.iter().zip(&values) {
            prop_assert_eq!(spans, &vec![key.as_bytes().to_vec(), data.clone()]);
            let Request::Store { flags: got, expiry: at, .. } = request else {
                return Err(TestCaseError::fail("no store"));
            };
            prop_assert_eq!((*got, *at), (*flags, i64::from(*expiry)));
        }
    }

    #[test]
    fn random_bytes_are_requests_or_wait(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let whole = parse(&bytes, &Limits::OPEN, || usize::MAX);
        prop_assert_eq!(parse(&bytes, &Limits::OPEN, || 3), whole);
        let packets = [&[0x80], &bytes[..]].concat();
        let whole = parse_packets(&packets, &Limits::OPEN, || usize::MAX);
        prop_assert_eq!(parse_packets(&packets, &Limits::OPEN, || 3), whole);
    }
}
