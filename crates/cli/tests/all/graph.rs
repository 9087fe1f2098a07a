//! `silica graph` by the real program: ranks that clients read, kills, bad input.

use crate::support::{Reply, Server, arg, said, scratch, silica};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

/// Iterations of the run that is killed: more than are done while the test looks at it.
const ITERATIONS: &str = "400";
/// Byte of a record where the number of its iteration is (docs/formats/graph-store.md).
const ITERATION_AT: usize = 24;
const PAGE_BYTES: usize = 4096;

fn fresh(name: &str) -> PathBuf {
    let directory = scratch(name);
    std::fs::create_dir_all(&directory).expect("made");
    directory
}

fn run(args: &[&str]) -> Output {
    silica(args).output().expect("it runs")
}

fn json(args: &[&str]) -> serde_json::Value {
    let output = run(args);
    assert!(output.status.success(), "{}", said(&output));
    serde_json::from_slice(&output.stdout).expect("an object")
}

fn generate(directory: &Path, name: &str, edges: &str) -> PathBuf {
    let path = directory.join(name);
    json(&["graph", "generate", "--rmat", "10", "--edges", edges, arg(&path), "--json"]);
    path
}

#[test]
fn ranks_are_read_by_clients() {
    let directory = fresh("graph-ranks");
    let edges = generate(&directory, "web.edges", "5000");
    let store = directory.join("store");
    let table = directory.join("ranks.tsv");
    let found = json(&[
        "graph",
        "pagerank",
        arg(&edges),
        "--memory",
        "1MiB",
        "--top",
        "3",
        "--to",
        "db1",
        "--path",
        arg(&store),
        "--out",
        arg(&table),
        "--json",
    ]);
    assert_eq!(found["edges"], 5000);
    assert_eq!(found["put"], found["vertices"]);
    assert!(found["memory_peak_bytes"].as_u64() <= Some(1 << 20));
    // The image beside the edge list is gone.
    assert!(!directory.join("web.edges.silica-graph").exists());
    let table = std::fs::read_to_string(&table).expect("a table");
    let sum: f64 = table
        .lines()
        .map(|line| line.split_once('\t').expect("two columns").1.parse::<f64>().expect("a rank"))
        .sum();
    assert!((sum - 1.0).abs() < 1e-9, "{sum}");
    let top = &found["top"][0];
    let vertex = top["vertex"].to_string();
    let server = Server::start(&store, &[]);
    let mut client = server.client();
    client.ask(&[b"SELECT", b"1"]).expect("there");
    let Reply::Bytes(Some(rank)) = client.ask(&[b"GET", vertex.as_bytes()]).expect("an answer")
    else {
        panic!("no rank of {vertex}");
    };
    let rank: f64 = String::from_utf8_lossy(&rank).parse().expect("decimal text");
    assert_eq!(Some(rank), top["value"].as_f64());
}

#[test]
fn forms_and_media_give_the_same_answers() {
    let directory = fresh("graph-forms");
    let binary = generate(&directory, "a.edges", "4000");
    let text = generate(&directory, "a.txt", "4000");
    let packed = generate(&directory, "a.txt.gz", "4000");
    let flash = directory.join("flash");
    let made = run(&["flash", "create", arg(&flash), "--geometry", "4x4x16x16x4KiB"]);
    assert!(made.status.success(), "{}", said(&made));
    let files = directory.join("files");
    for program in ["components", "triangles", "bfs"] {
        let of = |edges: &Path, more: &[&str]| {
            let words = [&["graph", program, arg(edges), "--json"], more].concat();
            let mut found = json(&words);
            let names = ["first", "triangles", "levels", "components"];
            names.map(|name| found[name].take())
        };
        let expected = of(&binary, &[]);
        assert_eq!(of(&text, &[]), expected);
        assert_eq!(of(&packed, &[]), expected);
        assert_eq!(of(&binary, &["--flash", arg(&flash)]), expected);
        assert_eq!(of(&binary, &["--files", arg(&files)]), expected);
    }
    // Whoever reads text is told the number, too, as no exit code tells it.
    let count = json(&["graph", "triangles", arg(&text), "--json"])["triangles"].to_string();
    let told = run(&["graph", "triangles", arg(&text)]);
    assert!(said(&told).contains(&format!("{count} triangles in ")), "{}", said(&told));
    // The shards were there after the first program.
    let again = json(&["graph", "bfs", arg(&binary), "--flash", arg(&flash), "--json"]);
    assert_eq!(again["reused"], true);
}

/// Iterations that the records in the file of the results say are finished.
fn finished(results: &Path) -> u64 {
    let bytes = std::fs::read(results).unwrap_or_default();
    let records = bytes.chunks(PAGE_BYTES).filter(|page| page.starts_with(b"SiGState"));
    let iteration = |page: &[u8]| {
        let bytes = page[ITERATION_AT..ITERATION_AT + 8].try_into().expect("eight bytes");
        u64::from_le_bytes(bytes)
    };
    records.map(iteration).max().unwrap_or(0)
}

#[test]
fn a_run_that_was_killed_goes_on_where_it_was() {
    let directory = fresh("graph-kill");
    let edges = generate(&directory, "web.edges", "3000");
    let (files, others) = (directory.join("files"), directory.join("others"));
    let of = |files: &Path| {
        let words = ["graph", "pagerank", arg(&edges), "--iterations", ITERATIONS, "--json"];
        [&words[..], &["--damping", "0.99", "--files", arg(files)]].concat().join("\n")
    };
    let command = of(&files);
    let words: Vec<&str> = command.lines().collect();
    let mut child = silica(&words).stdout(Stdio::null()).spawn().expect("it runs");
    while finished(&files.join("results")) < 3 {
        assert!(child.try_wait().expect("a state").is_none(), "it ended before it was killed");
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().expect("killed");
    child.wait().expect("gone");
    let resumed = json(&words);
    assert!(resumed["resumed"].as_u64() >= Some(3), "{resumed}");
    let command = of(&others);
    let straight = json(&command.lines().collect::<Vec<_>>());
    assert_eq!(straight["resumed"], 0);
    assert_eq!(straight["top"], resumed["top"]);
}

#[test]
fn bad_input_is_refused_in_words() {
    let directory = fresh("graph-bad");
    let edges = directory.join("bad.txt");
    std::fs::write(&edges, "# a graph\n1 2\n2 x\n3 -4\n2 3\n").expect("written");
    let refused = run(&["graph", "pagerank", arg(&edges)]);
    assert_eq!(refused.status.code(), Some(2));
    let words = said(&refused);
    assert!(words.contains("line 3") && words.contains("--skip-bad"), "{words}");
    let image = directory.join("bad.txt.silica-graph");
    assert!(!image.exists(), "a build that failed leaves an image of tens of MiB");
    let found = json(&["graph", "components", arg(&edges), "--skip-bad", "--json"]);
    assert_eq!((&found["skipped"], &found["components"]), (&2.into(), &1.into()));
    let missing = run(&["graph", "pagerank", arg(&directory.join("none"))]);
    assert_eq!(missing.status.code(), Some(1), "{}", said(&missing));
    let no_vertex = run(&["graph", "bfs", arg(&edges), "--skip-bad", "--start", "77"]);
    assert_eq!(no_vertex.status.code(), Some(1), "{}", said(&no_vertex));
    std::fs::write(&edges, "").expect("written");
    let empty = json(&["graph", "pagerank", arg(&edges), "--json"]);
    assert_eq!(empty["vertices"], 0);
    let there = run(&["graph", "generate", "--rmat", "4", "--edges", "9", arg(&edges)]);
    assert_eq!(there.status.code(), Some(2), "{}", said(&there));
}
