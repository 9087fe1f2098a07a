//! README.md and the pages for newcomers as they have them: their blocks are pasted into a shell,
//! in their order.

use crate::support::{said, scratch};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What `cargo` does in the place of the real one: the binary was built already, and the checks
/// would start this test again.
const CARGO: &str = r#"#!/bin/sh
case "$1 $2" in
"build --release" | "xtask ci") ;;
"run --release") shift 3; exec "$PWD/target/release/silica" "$@" ;;
*) echo "README.md runs cargo $*, which its test does not know" >&2; exit 1 ;;
esac
"#;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// The text of all blocks that are marked `sh`, in their order.
fn blocks(page: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<String> = None;
    for line in page.lines() {
        match &mut open {
            Some(_) if line == "```" => blocks.extend(open.take()),
            Some(block) => {
                block.push_str(line);
                block.push('\n');
            }
            None if line == "```sh" => open = Some(String::new()),
            None => {}
        }
    }
    assert!(open.is_none(), "a block has no end");
    blocks
}

/// What the comments behind commands say that these print.
fn promised(block: &str) -> Vec<&str> {
    block.lines().filter_map(|line| line.split_once("# prints ").map(|(_, text)| text)).collect()
}

/// A directory as a clone of the repository has it after a build: what was built, and the files.
fn clone(page: &str) -> PathBuf {
    let clone = scratch(&page.replace('/', "-"));
    let built = clone.join("target/release");
    std::fs::create_dir_all(&built).expect("a directory");
    symlink(env!("CARGO_BIN_EXE_silica"), built.join("silica")).expect("a link");
    symlink(repository().join("docs"), clone.join("docs")).expect("a link");
    let tools = clone.join("tools");
    std::fs::create_dir_all(&tools).expect("a directory");
    let cargo = tools.join("cargo");
    std::fs::write(&cargo, CARGO).expect("a file");
    std::fs::set_permissions(&cargo, PermissionsExt::from_mode(0o755)).expect("a mode");
    clone
}

/// Pastes all blocks of a page into one shell, as a terminal is.
fn paste(page: &str) {
    if Command::new("redis-cli").arg("--version").output().is_err() {
        println!("skipped: redis-cli is missing (Debian: apt-get install redis-tools)");
        return;
    }
    // Another store has the usual port, unless something of the machine's does already.
    let _redis = TcpListener::bind("127.0.0.1:6379");
    let text = std::fs::read_to_string(repository().join(page)).expect("the page");
    let blocks = blocks(&text);
    assert!(blocks.len() >= 4, "{blocks:?}");
    assert!(blocks.iter().map(|block| promised(block).len()).sum::<usize>() >= 4);
    let clone = clone(page);
    // Each block prints what tells its output apart.
    let mut script = String::from("set -eu\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n");
    for block in &blocks {
        script += &format!("{block}echo '--- the block is done'\n");
    }
    let path = std::env::var("PATH").unwrap_or_default();
    // README.md puts the program there itself.
    let installed = if page == "README.md" { "tools" } else { "target/release" };
    let path = format!("{}:{path}", clone.join(installed).display());
    let mut bash = Command::new("bash");
    bash.args(["-c", &script]).current_dir(&clone).stdin(Stdio::null()).env("PATH", path);
    let output = bash.output().expect("bash starts");
    assert!(output.status.success(), "{page}: {}", said(&output));
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let printed: Vec<&str> = printed.split("--- the block is done\n").collect();
    assert_eq!(printed.len(), blocks.len() + 1, "{}", said(&output));
    for (block, printed) in blocks.iter().zip(printed) {
        for text in promised(block) {
            let found = printed.lines().any(|line| line.starts_with(text.trim()));
            assert!(found, "{text:?} is not in the output of\n{block}\n{}", said(&output));
        }
    }
}

#[test]
fn the_blocks_work_by_copy_and_paste() {
    paste("README.md");
}

#[test]
fn the_blocks_of_the_tutorial_work() {
    paste("docs/tutorial.md");
}

#[test]
fn the_blocks_of_the_recipes_work() {
    paste("docs/how-to.md");
}

/// The workspace has two programs; `cargo run` is to be this one, and `cargo build` to make both.
#[test]
fn cargo_run_is_silica_and_cargo_build_makes_the_laboratory_too() {
    let read = |file: &str| std::fs::read_to_string(repository().join(file)).expect("a manifest");
    let has = |file: &str, line: &str| read(file).lines().any(|other| other == line);
    assert!(has("crates/cli/Cargo.toml", "default-run = \"silica\""));
    assert!(!read("crates/lab/Cargo.toml").contains("default-run"));
    assert!(has("Cargo.toml", "default-members = [\"crates/*\"]"));
}
