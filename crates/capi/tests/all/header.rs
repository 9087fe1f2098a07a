//! `silica.h` is what the sources say, and the library exports what it declares.

use crate::{libraries, own};
use std::collections::BTreeSet;
use std::process::Command;

fn header() -> String {
    std::fs::read_to_string(own().join("include/silica.h")).expect("the header is committed")
}

/// Functions that the header declares.
fn declared() -> BTreeSet<String> {
    let text = header();
    let before_bracket = text.split('(').filter_map(|part| part.rsplit([' ', '*', '\n']).next());
    let is_name = |name: &&str| name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    let names = before_bracket.filter(|name| name.starts_with("silica_")).filter(is_name);
    names.map(str::to_string).collect()
}

#[test]
fn it_is_current() {
    let config = cbindgen::Config::from_file(own().join("cbindgen.toml")).expect("a good file");
    let builder = cbindgen::Builder::new().with_config(config);
    let bindings = sources().into_iter().fold(builder, |builder, path| builder.with_src(path));
    let mut made = Vec::new();
    bindings.generate().expect("the sources are good").write(&mut made);
    let made = String::from_utf8(made).expect("text");
    let path = own().join("include/silica.h");
    if std::env::var_os("SILICA_WRITE_PAGES").is_some() {
        std::fs::write(&path, &made).expect("written");
    }
    let how = "write it with SILICA_WRITE_PAGES=1 cargo test -p silica-capi --test all header::";
    assert!(std::fs::read_to_string(&path).unwrap_or_default() == made, "silica.h is old; {how}");
}

/// The sources in the order in which the header has them.
fn sources() -> Vec<std::path::PathBuf> {
    let files = [
        "error",
        "store",
        "keyspace",
        "expiry",
        "batch",
        "iterator",
        "snapshot",
        "transaction",
        "cache",
    ];
    files.iter().map(|file| own().join(format!("src/{file}.rs"))).collect()
}

#[test]
fn every_function_is_explained() {
    let text = header();
    for name in declared() {
        let at = text.find(&format!("{name}(")).expect("it is declared");
        let before = text[..at].rsplit("*/").next().expect("text");
        let apart = before.matches('\n').count();
        assert!(apart <= 1, "{name} has no comment above it");
    }
}

#[test]
fn the_library_exports_what_it_declares_and_nothing_else() {
    let library = libraries().join(crate::NAME);
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output();
    let listed = String::from_utf8(output.expect("nm starts").stdout).expect("text");
    let names = listed.lines().filter_map(|line| line.rsplit(' ').next());
    let (functions, versions): (Vec<&str>, Vec<&str>) =
        names.partition(|name| name.starts_with("silica_"));
    let bare: BTreeSet<String> = functions
        .iter()
        .map(|name| name.strip_suffix("@@SILICA_0.1").expect("a version").to_string())
        .collect();
    assert_eq!(bare, declared());
    assert_eq!(versions, ["SILICA_0.1"]);
}

#[test]
fn unsafe_blocks_stand_in_one_file() {
    for entry in std::fs::read_dir(own().join("src")).expect("a directory") {
        let path = entry.expect("an entry").path();
        let text = std::fs::read_to_string(&path).expect("text");
        let holds = text.contains("unsafe {");
        assert_eq!(holds, path.ends_with("raw.rs"), "{}", path.display());
    }
}
