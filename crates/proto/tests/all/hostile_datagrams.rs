//! The readers of the datagram protocol on input that nobody meant well.

use crate::support;
use silica_base::{Prng, peak_allocated, test_size};
use silica_proto::datagram::{Directory, Header, Kind, Replies, Reply, Request, Requests};
use silica_proto::memcached::Frame;

/// Datagrams of every kind.
fn corpus() -> Vec<Vec<u8>> {
    let header =
        |kind, count| Header { kind, room: 2, count, sequence: 1, word: 2 }.bytes().to_vec();
    let mut requests = header(Kind::Requests, 3);
    Request::Get(b"key").write(&mut requests);
    Request::Put { key: b"key", value: b"value", expires_unix_ms: 9 }.write(&mut requests);
    Request::Delete(b"k").write(&mut requests);
    let mut replies = header(Kind::Replies, 2);
    Reply::Done(b"value").write(&mut replies);
    Reply::Missing.write(&mut replies);
    let mut directory = header(Kind::Directory, 2);
    Directory::new(&[1, 2], None).write(&mut directory);
    let frame = [&Frame { id: 1, number: 0, count: 1 }.bytes()[..], b"get a\r\n"].concat();
    vec![header(Kind::Ask, 0), requests, replies, directory, header(Kind::Refusal, 0), frame]
}

/// Reads a datagram in every way; what was read lies within it.
fn read(datagram: &[u8]) {
    let _ = Frame::read(datagram);
    let Ok((header, rest)) = Header::read(datagram) else { return };
    let mut bytes = 0;
    for request in Requests::new(rest, header.count).flatten() {
        bytes += request.size().expect("what is read is within the limits");
    }
    assert!(bytes <= rest.len());
    let replies = Replies::new(rest, header.count).flatten();
    assert!(replies.map(|reply| reply.size()).sum::<usize>() <= rest.len());
}

#[test]
fn mutated_datagrams_never_panic_and_nothing_is_read_behind_them() {
    let corpus = corpus();
    let corpus: Vec<&[u8]> = corpus.iter().map(Vec::as_slice).collect();
    let pieces: [&[u8]; 5] =
        [b"\0", b"\xff\xff", b"\x01\x01\0\0k", b"\x02\xff\xff\xff", b"SiD\x01"];
    let mut random = Prng::new(0xDA);
    for _ in 0..test_size(20_000, 100_000, 100_000_000) {
        let datagram = support::mutate(&mut random, &corpus, &pieces);
        let (_, peak) = peak_allocated(|| read(&datagram));
        assert_eq!(peak, 0, "reading allocates nothing");
        if let Ok((header, rest)) = Header::read(&datagram) {
            let _ = Directory::read(rest, header.count);
        }
    }
}

#[test]
fn a_datagram_that_is_cut_is_malformed_at_every_length() {
    let whole = corpus().swap_remove(1);
    let (header, _) = Header::read(&whole).unwrap();
    for len in 24..whole.len() {
        let rest = &whole[24..len];
        let all: Result<Vec<_>, _> = Requests::new(rest, header.count).collect();
        assert!(all.is_err(), "{len} of {} bytes", whole.len());
    }
}
