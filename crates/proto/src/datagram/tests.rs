use super::*;

/// Sums the sizes of each table of the page that ends in a total, and gives the totals.
fn totals() -> Vec<(String, usize, usize)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/protocols/datagram.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (mut totals, mut sum, mut next) = (Vec::new(), 0, 0);
    for line in page.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, offset, bytes, what, ..] = cells[..] else { continue };
        let Ok(bytes) = bytes.parse::<usize>() else {
            (sum, next) = (0, 0);
            continue;
        };
        if what.starts_with("total") {
            totals.push((what.to_string(), bytes, sum));
        } else {
            assert_eq!(offset.parse(), Ok(next), "{line}");
            (sum, next) = (sum + bytes, next + bytes);
        }
    }
    totals
}

#[test]
fn the_pages_tables_have_the_sizes_of_the_code() {
    let constants = [
        ("HEADER_BYTES", HEADER_BYTES),
        ("DIRECTORY_BYTES", DIRECTORY_BYTES),
        ("REQUEST_BYTES", REQUEST_BYTES),
        ("REPLY_BYTES", REPLY_BYTES),
    ];
    let totals = totals();
    assert_eq!(totals.len(), constants.len());
    for ((text, total, sum), (name, bytes)) in totals.iter().zip(constants) {
        assert!(text.contains(&format!("silica_proto::datagram::{name}")), "{text}");
        assert_eq!((*total, *sum), (bytes, bytes), "{text}");
    }
}

#[test]
fn bytes_are_those_of_version_1() {
    let header = Header { kind: Kind::Requests, room: 5, count: 2, sequence: 0x0102, word: 0x0304 };
    let mut datagram = header.bytes().to_vec();
    Request::Get(b"ab").write(&mut datagram);
    Request::Put { key: b"k", value: b"vw", expires_unix_ms: 5 }.write(&mut datagram);
    let want: &[u8] = b"SiD\x01\x03\x05\x02\0\x02\x01\0\0\0\0\0\0\x04\x03\0\0\0\0\0\0\
        \x01\x02\0\0ab\x02\x01\x02\0\x05\0\0\0\0\0\0\0kvw";
    assert_eq!(datagram, want);
    let (read, rest) = Header::read(&datagram).unwrap();
    assert_eq!(read, header);
    let put = Request::Put { key: b"k", value: b"vw", expires_unix_ms: 5 };
    let requests: Vec<_> = Requests::new(rest, read.count).collect();
    assert_eq!(requests, [Ok(Request::Get(b"ab")), Ok(put)]);
    assert_eq!(put.size(), Some(15));
    let mut replies = Vec::new();
    let all = [Reply::Done(b"v"), Reply::Missing, Reply::TooLarge, Reply::Failed, Reply::NoRoom];
    all.iter().for_each(|reply| reply.write(&mut replies));
    assert_eq!(replies, b"\0\0\x01\0v\x01\0\0\0\x02\0\0\0\x03\0\0\0\x04\0\0\0");
    assert_eq!(Replies::new(&replies, 5).map(Result::unwrap).collect::<Vec<_>>(), all);
}

#[test]
fn headers_of_others_are_told_apart() {
    let mut bytes = Header::refusal(7, Reason::Token).bytes();
    assert_eq!(Header::read(&bytes[..23]), Err(Unknown::Nothing));
    bytes[4] = 9;
    assert_eq!(Header::read(&bytes), Err(Unknown::Kind(7)));
    bytes[3] = 2;
    assert_eq!(Header::read(&bytes), Err(Unknown::Version(7)));
    bytes[0] = 0;
    assert_eq!(Header::read(&bytes), Err(Unknown::Nothing));
}

#[test]
fn directories_come_back_as_they_were() {
    let directory = Directory::new(&[1, 65_535], None);
    let mut bytes = Vec::new();
    directory.write(&mut bytes);
    assert_eq!(Directory::read(&bytes, 2), Ok(directory));
    assert_eq!(Directory::read(&bytes, 3), Err(Malformed));
    assert_eq!(Directory::read(&bytes, 0), Err(Malformed));
}

#[test]
fn keys_are_directed_evenly_and_as_the_page_says() {
    // FNV-1a of "a" is 0xaf63dc4c8601ec8c.
    assert_eq!(direction(b"a", 1000), (0xAF63_DC4C_usize ^ 0x8601_EC8C) % 1000);
    let mut counts = [0; 4];
    for n in 0..4000 {
        counts[direction(format!("key:{n}").as_bytes(), 4)] += 1;
    }
    assert!(counts.iter().all(|count| (800..1200).contains(count)), "{counts:?}");
}

#[test]
fn a_directory_is_read_as_it_was_written() {
    let seed = silica_base::HashSeed([7; 16]);
    for partitions in [None, Some(Partitions { count: 8, seed })] {
        let directory = Directory::new(&[5, 6, 7], partitions);
        let mut bytes = Vec::new();
        directory.write(&mut bytes);
        assert_eq!(bytes.len(), DIRECTORY_BYTES + 6 + if partitions.is_some() { 16 } else { 0 });
        assert_eq!(Directory::read(&bytes, 3), Ok(directory.clone()));
        bytes.pop();
        assert_eq!(Directory::read(&bytes, 3), Err(Malformed));
        let ports: std::collections::BTreeSet<usize> =
            (0..100u8).map(|n| directory.port_of(&[n])).collect();
        assert_eq!(ports, (0..3).collect());
    }
    let mut three = Vec::new();
    Directory::new(&[5], Some(Partitions { count: 8, seed })).write(&mut three);
    three[6] = 3;
    assert_eq!(Directory::read(&three, 1), Err(Malformed), "no power of two");
}
