//! Repository tasks: `cargo xtask ci | tidy | soak | docs | calls`.
#![forbid(unsafe_code)]
#![allow(unreachable_pub)] // Nothing outside a binary reaches in.

mod bench;
mod binaries;
mod bindings;
mod calls;
mod ci;
mod compare;
mod dax;
mod dist;
mod docs;
mod machine;
mod replicas;
mod serving;
mod setup;
mod site;
mod soak;
mod sqlite;
mod step;
mod tidy;
mod zoned;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str = "\
cargo xtask TASK

  ci            every check that main must pass; ends with `N passed, N failed`
  test [quick|ci|soak]
                all tests at one size, their binaries side by side
  tidy          the rules of this repository that no other tool checks
  docs          writes docs/config.md and docs/metrics.md from the code
  docs --check  fails where they are not current
  site          target/site/book: all pages as a site, every link of it tried
  calls [--against REVISION]
                instructions of the calls that users make most, by callgrind; fails if one takes
                over 1 % more than in REVISION
  sqlite        target/sqlite/libsqlite3.so.0: SQLite's library with Silica's storage below
  c             target/c: libsilica.so.0, libsilica.a and silica.h, optimised
  wheel         target/wheel/wheels: the Python package with the command line, optimised
  dist          target/dist: one program that needs nothing else, in an archive and a package for
                Debian, the wheel, checksums, and the list of what they consist of
  dist --debug  archive and package of target/debug/silica, installed on nothing
  dax           persistent memory in an emulated machine that is killed; installs the emulator
  zoned         drives with zones in an emulated machine that is stopped; installs the emulator
  soak          the long tests (hours), licences and advisories
  soak --minutes N  the same; the tests of each crate get an equal share of the time
  replicas [sync|lag|cost|failover]… [--binary FILE] [--rounds N] [--entries N] [--requests N]
                replicas beside redis-server, as tables
  dashboard [--binary FILE] [--seconds N]
                bytes and times of the dashboard's answers, and what it costs a server
  soak-server --seconds N [--durable] [--out DIR] [--binary FILE]
                a server under mixed load: memory, descriptors, latency as soak.csv and soak.svg";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let root = root();
    let good = match args[..] {
        ["ci"] => ci::run(&root),
        ["test"] => tests(&root, "quick"),
        ["test", size @ ("quick" | "ci" | "soak")] => tests(&root, size),
        ["tidy"] => report(tidy::run(&root)),
        ["docs"] => report(docs::run(&root, false)),
        ["docs", "--check"] => report(docs::run(&root, true)),
        ["site"] => report(site::make(&root).map(|path| println!("{}", path.display()))),
        ["calls"] => report(calls::run(&root, None)),
        ["calls", "--against", revision] => report(calls::run(&root, Some(revision))),
        ["sqlite"] => report(sqlite::run(&root).map(|path| println!("{}", path.display()))),
        ["c"] => report(bindings::c(&root).map(|path| println!("{}", path.display()))),
        ["wheel"] => report(bindings::wheel(&root).map(|path| println!("{}", path.display()))),
        ["dist"] => report(dist::make(&root).map(|path| println!("{}", path.display()))),
        ["dist", "--debug"] => report(dist::of_tests(&root)),
        ["dax"] => dax::run(&root),
        ["zoned"] => zoned::run(&root),
        ["soak"] => soak::run(&root, None),
        ["soak", "--minutes", minutes] => match minutes.parse() {
            Ok(minutes) => soak::run(&root, Some(minutes)),
            Err(_) => report(Err(format!("{minutes} is no number of minutes"))),
        },
        ["replicas", ref rest @ ..] => report(replicas::run(&root, rest)),
        ["dashboard", ref rest @ ..] => report(dashboard(&root, rest)),
        ["soak-server", "--seconds", seconds, ref rest @ ..] => {
            report(soak::server(&root, seconds, rest))
        }
        _ => {
            eprintln!("{USAGE}");
            false
        }
    };
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn tests(root: &Path, size: &str) -> bool {
    let mut steps = step::Steps::new(root);
    ci::tests(&mut steps, size, Duration::from_secs(3600 * if size == "soak" { 48 } else { 1 }));
    steps.close()
}

/// What the dashboard weighs and costs, of the optimised program or another one.
fn dashboard(root: &Path, arguments: &[&str]) -> Result<(), String> {
    let (mut binary, mut seconds) = (serving::binary(&step::target(root), "release"), 20);
    for pair in arguments.chunks(2) {
        match pair {
            ["--binary", file] => binary = file.into(),
            ["--seconds", number] => {
                seconds = number.parse().map_err(|_| format!("{number} is no number"))?;
            }
            _ => return Err(USAGE.into()),
        }
    }
    serving::dashboard::run(&binary, seconds)
}

/// The workspace's root directory.
fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().expect("xtask lies in the workspace").to_path_buf()
}

fn report(result: Result<(), String>) -> bool {
    match result {
        Ok(()) => true,
        Err(why) => {
            eprintln!("{}", why.trim_end());
            false
        }
    }
}
