//! The main job on real input: Debian's package descriptions are loaded, every record is read
//! back through redis-cli, a second load is killed in the middle, and the store recovers with
//! the first load whole.

use crate::support::{Server, arg, read_all, said, scratch, silica, silica_ok};
use silica_base::test_size;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

type Records = BTreeMap<String, String>;

/// At least `count` real records: package fields, or else the words of a dictionary.
fn records(count: usize) -> Records {
    let packages = Command::new("apt-cache").arg("dumpavail").output();
    let packages = packages.map_or(Vec::new(), |output| output.stdout);
    let mut records = package_fields(&String::from_utf8_lossy(&packages), count);
    if records.len() < count {
        records = dictionary(count);
    }
    assert!(
        records.len() >= count,
        "no {count} real records here: run apt-get update for package descriptions, \
         or install a word list such as wamerican in /usr/share/dict/words"
    );
    records
}

/// One record for each field of each package version; a field's further lines are joined to it.
fn package_fields(dump: &str, count: usize) -> Records {
    let mut records = Records::new();
    for stanza in dump.split("\n\n") {
        let mut fields: Vec<(&str, String)> = Vec::new();
        for line in stanza.lines() {
            if let Some(more) = line.strip_prefix(' ') {
                let Some(last) = fields.last_mut() else { continue };
                last.1.push(' ');
                last.1.push_str(more.trim());
            } else if let Some((name, value)) = line.split_once(':') {
                fields.push((name, value.trim().to_string()));
            }
        }
        let field = |name| fields.iter().find(|f| f.0 == name).map(|f| f.1.clone());
        let Some((package, version)) = field("Package").zip(field("Version")) else { continue };
        for (name, value) in fields.into_iter().filter(|f| !f.1.is_empty()) {
            records.insert(format!("{package}_{version}/{name}"), value.replace('\t', " "));
        }
        if records.len() >= count {
            break;
        }
    }
    records
}

fn dictionary(count: usize) -> Records {
    let text = std::fs::read_to_string("/usr/share/dict/words").unwrap_or_default();
    let words = text.lines().filter(|w| !w.is_empty() && !w.contains(['"', '\\', ' ', '\'']));
    words.take(count).enumerate().map(|(i, w)| (w.to_string(), format!("{i} {w}"))).collect()
}

fn write_tsv(path: &Path, records: &Records) {
    let lines: String = records.iter().map(|(key, value)| format!("{key}\t{value}\n")).collect();
    std::fs::write(path, lines).expect("the scratch directory can be written");
}

/// Every record through redis-cli: its output must be all values, byte for byte.
fn read_through_redis_cli(port: u16, records: &Records) {
    let mut child = Command::new("redis-cli")
        .args(["-h", "127.0.0.1", "-p", &port.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("redis-cli runs (package redis-tools)");
    let mut stdin = child.stdin.take().expect("piped");
    let commands: String = records.keys().map(|key| format!("GET \"{key}\"\n")).collect();
    let writer = std::thread::spawn(move || stdin.write_all(commands.as_bytes()));
    let output = child.wait_with_output().expect("own child");
    assert!(output.status.success(), "redis-cli: {}", said(&output));
    writer.join().expect("no panic").expect("redis-cli reads its commands");
    let output = String::from_utf8(output.stdout).expect("the records are UTF-8");
    let mut lines = output.lines();
    for (key, value) in records {
        assert_eq!(lines.next(), Some(value.as_str()), "value of {key}");
    }
    assert_eq!(lines.next(), None, "redis-cli said more than was asked");
}

/// Starts to load `file` and kills the load after `delay`.
fn killed_load(file: &Path, path: &Path, delay: Duration) {
    let args = ["load", arg(file), "--path", arg(path), "--format", "plain"];
    let mut child =
        silica(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    std::thread::sleep(delay);
    let _ = child.kill();
    child.wait().expect("own child");
}

/// Of the second load's records, how many the store has; each must be right.
fn present(server: &Server, records: &Records) -> usize {
    let keys: Vec<Vec<u8>> = records.keys().map(|key| key.clone().into_bytes()).collect();
    let found = read_all(&mut server.client(), &keys);
    for ((key, value), found) in records.iter().zip(&found) {
        let right = found.as_ref().is_none_or(|found| found == value.as_bytes());
        assert!(right, "{key} has a value that nobody wrote");
    }
    found.iter().flatten().count()
}

/// Interrupts second loads until one was hit in its middle; that one's file and records. The
/// right moment is searched by halving, with new keys each time.
fn load_killed_in_the_middle(
    dir: &Path,
    path: &Path,
    first: &Records,
    whole: Duration,
) -> (PathBuf, Records) {
    let (mut low, mut high) = (Duration::ZERO, whole * 2);
    for attempt in 0..60 {
        let again = |(key, value): (&String, &String)| (format!("{attempt}:{key}"), value.clone());
        let second: Records = first.iter().map(again).collect();
        let file = dir.join(format!("second-{attempt}.tsv"));
        write_tsv(&file, &second);
        let delay = (low + high) / 2;
        killed_load(&file, path, delay);
        silica_ok(&["verify", "--path", arg(path)]);
        let server = Server::start(path, &[]);
        let loaded = present(&server, &second);
        server.kill();
        println!("killed after {delay:?}: {loaded} of {} records were there", second.len());
        match loaded {
            0 => low = delay,
            all if all == second.len() => high = delay,
            _ => return (file, second),
        }
        if high - low < Duration::from_millis(1) {
            (low, high) = (Duration::ZERO, whole * 2);
        }
    }
    panic!("no kill fell into the middle of a load that takes {whole:?}");
}

#[test]
fn load_read_kill_and_recover_real_records() {
    let dir = scratch("main-job");
    let (path, file) = (dir.join("data"), dir.join("first.tsv"));
    let first = records(test_size(5_000, 50_000, 500_000) as usize);
    write_tsv(&file, &first);

    let start = Instant::now();
    silica_ok(&["load", arg(&file), "--path", arg(&path), "--format", "plain"]);
    let whole = start.elapsed();
    let server = Server::start(&path, &[]);
    read_through_redis_cli(server.port, &first);
    server.stop();

    let (file, second) = load_killed_in_the_middle(&dir, &path, &first, whole);
    let server = Server::start(&path, &[]);
    read_through_redis_cli(server.port, &first);
    server.kill();

    silica_ok(&["load", arg(&file), "--path", arg(&path), "--format", "plain"]);
    let server = Server::start(&path, &[]);
    assert_eq!(present(&server, &second), second.len());
    assert_eq!(present(&server, &first), first.len());
    server.stop();
    let _ = std::fs::remove_dir_all(dir);
}
