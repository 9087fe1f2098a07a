//! Edge lists: what is read, what is refused, and in which words.

use crate::support::{AMPLE, build_of, files, run_of};
use flate2::Compression;
use flate2::write::GzEncoder;
use silica_base::{ErrorKind, Result};
use silica_graph::edge_file::EdgeWriter;
use silica_graph::{BuildOptions, BuildReport, Components, Edges, Graph, Memory};
use std::io::Write;

fn edges_of(bytes: &[u8], skips_bad: bool) -> Result<(Vec<(u32, u32)>, u64)> {
    let mut edges = Vec::new();
    let mut input = Edges::new(bytes).skip_bad(skips_bad);
    let report = input.read(1024, &mut |source, target| {
        edges.push((source, target));
        Ok(())
    })?;
    assert_eq!(report.edges, edges.len() as u64);
    Ok((edges, report.bad))
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::default());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

fn binary(edges: &[(u32, u32)]) -> Vec<u8> {
    let mut writer = EdgeWriter::new(Vec::new()).unwrap();
    for (source, target) in edges {
        writer.push(*source, *target).unwrap();
    }
    writer.finish().unwrap()
}

/// More than a block of the binary format, and than a buffer.
fn many() -> Vec<(u32, u32)> {
    (0..9_000u32).map(|number| (number.wrapping_mul(0x9E37_79B9), number)).collect()
}

#[test]
fn text_binary_and_gzip_are_the_same_edges() {
    let edges = many();
    let text = crate::support::text(&edges);
    let binary = binary(&edges);
    for bytes in [text.as_bytes(), &binary, &packed(text.as_bytes()), &packed(&binary)] {
        assert_eq!(edges_of(bytes, false).unwrap(), (edges.clone(), 0));
    }
    // Several members, as `cat a.gz b.gz` makes.
    let two = [packed(b"1 2\n"), packed(b"3 4\n")].concat();
    assert_eq!(edges_of(&two, false).unwrap().0, [(1, 2), (3, 4)]);
}

#[test]
fn snaps_form_is_read() {
    let text =
        "# Directed graph\r\n# FromNodeId\tToNodeId\r\n0\t11342\r\n0\t824020\r\n\r\n% x\n7,8\n9 9";
    let expected = [(0, 11342), (0, 824_020), (7, 8), (9, 9)];
    assert_eq!(edges_of(text.as_bytes(), false).unwrap().0, expected);
    assert_eq!(edges_of(b"", false).unwrap().0, []);
    assert_eq!(edges_of(b"# nothing\n", false).unwrap().0, []);
}

#[test]
fn lines_that_are_no_edge_are_named_or_counted() {
    let long = "7".repeat(6_000);
    let cases = [
        ("x 2", "no whole number"),
        ("1 -2", "negative"),
        ("1 4294967296", "too large"),
        ("18446744073709551616 1", "too large"),
        ("1", "one field"),
        ("1 2 3", "3 fields"),
        ("1.5 2", "no whole number"),
        (&long, "4096 bytes"),
    ];
    for (line, reason) in cases {
        let text = format!("1 2\n# a comment\n{line}\n3 4\n");
        let error = edges_of(text.as_bytes(), false).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        let message = error.to_string();
        assert!(message.contains("line 3") && message.contains(reason), "{message}");
        assert!(message.contains("--skip-bad"), "{message}");
        let (edges, bad) = edges_of(text.as_bytes(), true).unwrap();
        assert_eq!((edges, bad), (vec![(1, 2), (3, 4)], 1));
    }
}

#[test]
fn a_report_has_the_first_bad_lines_in_words() {
    let text: String = (0..25).map(|number| format!("{number} x\n{number} 1\n")).collect();
    let memory = Memory::new(AMPLE);
    let mut input = Edges::new(text.as_bytes()).skip_bad(true);
    let options = BuildOptions::default();
    let report: BuildReport =
        silica_graph::build(&files(1), &memory, &mut input, &options, &mut |_| Ok(())).unwrap();
    assert_eq!((report.edges, report.bad, report.bad_lines.len()), (25, 25, 10));
    assert_eq!(report.bad_lines[9].line, 19);
    assert!(report.bad_lines[9].reason.contains("\"x\""));
}

#[test]
fn input_that_was_cut_or_damaged_is_refused() {
    let edges = many();
    let binary = binary(&edges);
    for cut in (8..binary.len()).step_by(97).chain([binary.len() - 1]) {
        let error = edges_of(&binary[..cut], false).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "cut at {cut}: {error}");
    }
    for at in (16..binary.len()).step_by(1_009) {
        let mut bytes = binary.clone();
        bytes[at] ^= 4;
        assert_eq!(edges_of(&bytes, false).unwrap_err().kind(), ErrorKind::Corruption, "{at}");
    }
    let mut newer = binary.clone();
    newer[8] = 2;
    assert_eq!(edges_of(&newer, false).unwrap_err().kind(), ErrorKind::Unsupported);
    let packed = packed(crate::support::text(&edges).as_bytes());
    for cut in [3, packed.len() / 2, packed.len() - 1] {
        let error = edges_of(&packed[..cut], false).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "cut at {cut}: {error}");
    }
}

#[test]
fn the_binary_form_stays_as_its_page_says() {
    let golden = [
        &b"SiGEdges\x01\0\0\0\0\0\0\0\x02\0\0\0"[..],
        &silica_base::checksum(b"\x01\0\0\0\x02\0\0\0\xff\xff\xff\xff\0\0\0\0").to_le_bytes(),
        b"\x01\0\0\0\x02\0\0\0\xff\xff\xff\xff\0\0\0\0\0\0\0\0",
        &silica_base::checksum(b"\x02\0\0\0\0\0\0\0").to_le_bytes(),
        b"\x02\0\0\0\0\0\0\0",
    ];
    assert_eq!(binary(&[(1, 2), (u32::MAX, 0)]), golden.concat());
}

#[test]
fn a_list_that_is_refused_leaves_no_graph() {
    let (memory, storage) = (Memory::new(AMPLE), files(1));
    build_of(&storage, &memory, &[(1, 2)]).unwrap();
    let mut input = Edges::new(&b"1 2\n3 x\n"[..]);
    let options = BuildOptions::default();
    silica_graph::build(&storage, &memory, &mut input, &options, &mut |_| Ok(())).unwrap_err();
    assert_eq!(Graph::open(&storage, &memory).err().unwrap().kind(), ErrorKind::NotFound);
    assert_eq!(memory.free_bytes(), AMPLE);
    build_of(&storage, &memory, &[(8, 9)]).unwrap();
    let graph = Graph::open(&storage, &memory).unwrap();
    assert_eq!(run_of(&graph, &Components, 9).unwrap().1.len(), 2);
    assert!(graph.has(9).unwrap() && !graph.has(1).unwrap());
}
