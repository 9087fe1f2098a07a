use super::*;
use silica_base::{Prng, Result};

#[test]
fn what_is_written_is_read() {
    let mut prng = Prng::new(3);
    let mut writer = TraceWriter::new(Vec::new()).unwrap();
    let mut expected = Vec::new();
    for i in 0..2000u64 {
        let mut key = vec![0; 1 + prng.below(40) as usize];
        prng.fill(&mut key);
        let kind = match prng.below(4) {
            0 => TraceKind::Get,
            1 => TraceKind::Put { value_bytes: prng.below(5000) as usize },
            2 => TraceKind::Delete,
            _ => TraceKind::Scan { entries: 1 + prng.below(100) as usize },
        };
        writer.record(&Event { time: Duration::from_micros(i / 3), kind, key: &key }).unwrap();
        expected.push((Duration::from_micros(i / 3), kind, key));
    }
    let bytes = writer.finish().unwrap();
    let mut reader = TraceReader::new(&bytes[..], "test").unwrap();
    for (time, kind, key) in &expected {
        let event = reader.next().unwrap().unwrap();
        assert_eq!((event.time, event.kind, event.key), (*time, *kind, &key[..]));
    }
    assert!(reader.next().unwrap().is_none());
}

#[test]
fn wrong_lines_are_named() {
    for (text, line, why) in [
        ("", 1, "silica-trace 1"),
        ("silica-trace 2\n", 1, "silica-trace 1"),
        ("silica-trace 1\n\n# x\n1 fetch k\n", 4, "operation"),
        ("silica-trace 1\n1 get k\n2 get\n", 3, "no key"),
        ("silica-trace 1\nx get k\n", 2, "time"),
        ("silica-trace 1\n5 get k\n4 get k\n", 3, "before"),
        ("silica-trace 1\n1 put k\n", 2, "size"),
        ("silica-trace 1\n1 put k 99999999999\n", 2, "size"),
        ("silica-trace 1\n1 scan k 0\n", 2, "entries"),
        ("silica-trace 1\n1 get k 7\n", 2, "too many"),
        ("silica-trace 1\n1 get a\\q\n", 2, "\\xNN"),
        ("silica-trace 1\n1 get a\\x4\n", 2, "\\xNN"),
        ("silica-trace 1\n1 get  k\n", 2, "no key"),
        ("silica-trace 1\n1 get k", 2, "cut off"),
        ("silica-trace 1\n# one key in 0\n", 2, "one key in"),
        ("silica-trace 1\n1 get k\n# one key in 4\n", 3, "before the first operation"),
    ] {
        let read = || -> Result<()> {
            let mut reader = TraceReader::new(text.as_bytes(), "the.trace")?;
            while reader.next()?.is_some() {}
            Ok(())
        };
        let error = read().unwrap_err().to_string();
        let place = format!("the.trace, line {line}:");
        assert!(error.contains(&place) && error.contains(why), "{text:?}: {error}");
    }
    let long = format!("silica-trace 1\n1 get {}\n", "k".repeat(LINE_BYTES_MAX));
    let mut reader = TraceReader::new(long.as_bytes(), "t").unwrap();
    assert!(reader.next().unwrap_err().to_string().contains("line 2: it has more than 1 MiB"));
}

#[test]
fn a_trace_that_was_cut_is_read_up_to_the_cut() {
    let text = "silica-trace 1\n1 put k 50\n2 get k\n3 put key 123\n";
    for end in "silica-trace 1\n".len()..=text.len() {
        let mut reader = TraceReader::new(&text.as_bytes()[..end], "t").unwrap().up_to_cut();
        let mut events = 0;
        while let Some(event) = reader.next().unwrap() {
            events += 1;
            assert_eq!(event.time, Duration::from_micros(events));
        }
        let whole = text[..end].bytes().filter(|byte| *byte == b'\n').count() as u64;
        assert_eq!(events, whole - 1, "cut at {end}");
        let cut = (!text[..end].ends_with('\n')).then_some(whole + 1);
        assert_eq!(reader.cut_line(), cut, "cut at {end}");
        assert!(reader.next().unwrap().is_none(), "the end stays the end");
    }
    // What is wrong before the cut is wrong.
    let mut reader = TraceReader::new(&b"silica-trace 1\n1 git k\n2 g"[..], "t").unwrap();
    assert!(reader.next().is_err());
}

#[test]
fn the_share_of_the_keys_is_told() {
    let mut writer = TraceWriter::new(Vec::new()).unwrap();
    writer.one_key_in(8).unwrap();
    writer.comment("made\nby a test").unwrap();
    let event = Event { time: Duration::ZERO, kind: TraceKind::Get, key: b"k" };
    writer.record(&event).unwrap();
    let bytes = writer.finish().unwrap();
    let mut reader = TraceReader::new(&bytes[..], "t").unwrap();
    assert_eq!(reader.next().unwrap().unwrap().key, b"k");
    assert_eq!(reader.one_key_in(), 8);
    assert!(reader.next().unwrap().is_none());
}
