//! Lines of each engine, of its tests, and of what it uses from below the boundary, counted from
//! the sources that this program was built of.

use super::super::sheet::Sheet;
use silica::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Crates of engines.
const ENGINES: [&str; 5] = ["wip", "silt", "mica", "dida", "pmem"];
/// Crates below engines of which an engine may use all.
const WHOLE: [&str; 4] = ["base", "device", "engine", "flash"];
/// The crate below engines whose modules are counted one by one.
const PARTS: &str = "parts";
/// The suite that every engine passes.
const SUITE: &str = "crates/testkit/src";

/// Lines that are neither empty nor comments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Lines {
    code: usize,
    tests: usize,
}

impl Lines {
    /// Those of a file; what follows `#[cfg(test)] mod` is tests.
    fn of(text: &str, is_test: bool) -> Lines {
        let mut lines = Lines::default();
        let (mut in_tests, mut was_marked) = (is_test, false);
        for line in text.lines().map(str::trim) {
            in_tests |= was_marked && line.starts_with("mod ") && line.ends_with('{');
            was_marked = line == "#[cfg(test)]";
            match line.is_empty() || line.starts_with("//") {
                true => {}
                false if in_tests => lines.tests += 1,
                false => lines.code += 1,
            }
        }
        lines
    }

    fn add(&mut self, other: Lines) {
        self.code += other.code;
        self.tests += other.tests;
    }
}

/// Rust files at or below `path`.
fn files(path: &Path) -> Result<Vec<PathBuf>> {
    if path.is_file() {
        return Ok(vec![path.to_path_buf()]);
    }
    let failed = |e| Error::io(format!("reading {}", path.display()), e);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
    Ok(found)
}

fn is_test(file: &Path) -> bool {
    let stem = file.file_stem().map_or(String::new(), |stem| stem.to_string_lossy().into_owned());
    let in_tests = file.components().any(|part| part.as_os_str() == "tests");
    in_tests || stem == "tests" || stem.ends_with("_tests")
}

/// Lines at or below `path`; none if it is not there.
fn count(path: &Path) -> Result<Lines> {
    let mut lines = Lines::default();
    if !path.exists() {
        return Ok(lines);
    }
    for file in files(path)? {
        let text = std::fs::read_to_string(&file)
            .map_err(|e| Error::io(format!("reading {}", file.display()), e))?;
        lines.add(Lines::of(&text, is_test(&file)));
    }
    Ok(lines)
}

/// Names that `text` takes out of the crate `silica_parts`.
fn names_used(text: &str) -> BTreeSet<String> {
    let begin = format!("silica_{PARTS}::");
    let mut names = BTreeSet::new();
    for (at, _) in text.match_indices(&begin) {
        let rest = &text[at + begin.len()..];
        let Some(list) = rest.strip_prefix('{') else {
            names.insert(word(rest));
            continue;
        };
        let (mut depth, mut begins) = (1, true);
        for (at, letter) in list.char_indices() {
            match letter {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 1 => begins = true,
                _ if begins && !letter.is_whitespace() => {
                    names.insert(word(&list[at..]));
                    begins = false;
                }
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
    }
    names
}

/// The word that `text` begins with.
fn word(text: &str) -> String {
    text.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
}

/// Names that the crate's root takes out of its modules, with the module of each.
fn exported(root: &str) -> BTreeMap<String, String> {
    let mut modules = BTreeMap::new();
    for line in root.lines().filter_map(|line| line.strip_prefix("pub use ")) {
        let Some((module, names)) = line.split_once("::") else { continue };
        let names = names.trim_matches(['{', '}', ';']).split([',', ' ']);
        for name in names.map(|name| name.trim_matches(['{', '}', ';'])) {
            modules.insert(name.to_string(), module.to_string());
        }
    }
    modules
}

/// Modules of `parts` that the sources below `engine` name.
fn modules_used(engine: &Path, exported: &BTreeMap<String, String>) -> Result<BTreeSet<String>> {
    let mut modules = BTreeSet::new();
    for file in files(&engine.join("src"))? {
        let text = std::fs::read_to_string(&file)
            .map_err(|e| Error::io(format!("reading {}", file.display()), e))?;
        let names = names_used(&text);
        modules.extend(names.into_iter().map(|name| exported.get(&name).cloned().unwrap_or(name)));
    }
    Ok(modules)
}

/// A row for each engine, and what all of them save together.
pub(super) fn rows(sheet: &mut Sheet) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let parts = root.join("crates").join(PARTS).join("src");
    let Ok(lib) = std::fs::read_to_string(parts.join("lib.rs")) else {
        sheet.remark("lines: the sources that this program was built of are not there");
        return Ok(());
    };
    let exported = exported(&lib);
    let suite = count(&root.join(SUITE))?;
    let suite = suite.code + suite.tests;
    let mut shared: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for engine in ENGINES {
        let directory = root.join("crates").join(engine);
        let mut own = count(&directory.join("src"))?;
        own.tests += count(&directory.join("tests"))?.tests;
        let manifest = std::fs::read_to_string(directory.join("Cargo.toml")).unwrap_or_default();
        let mut uses = Vec::new();
        for name in WHOLE.iter().filter(|name| manifest.contains(&format!("silica-{name}"))) {
            let lines = count(&root.join("crates").join(name).join("src"))?.code;
            uses.push((name.to_string(), lines));
        }
        for module in modules_used(&directory, &exported)? {
            let file = parts.join(format!("{module}.rs"));
            let place = if file.exists() { file } else { parts.join(&module) };
            uses.push((format!("{PARTS}::{module}"), count(&place)?.code));
        }
        for (name, lines) in &uses {
            let of = shared.entry(name.clone()).or_default();
            *of = (*lines, of.1 + 1);
        }
        let used: usize = uses.iter().map(|(_, lines)| lines).sum();
        let mut row = |metric: &str, value: usize| {
            sheet.add("lines", engine, metric, value as f64, None);
        };
        row("lines of code", own.code);
        row("lines of tests", own.tests);
        row("lines of code that it uses from below the boundary", used);
        row("lines of the suite that it passes", suite);
    }
    let once: usize = shared.values().map(|(lines, _)| lines).sum();
    let copies: usize = shared.values().map(|(lines, users)| lines * users).sum();
    sheet.add("lines", "all engines", "lines below the boundary, once", once as f64, None);
    sheet.add("lines", "all engines", "lines, if each had its own", copies as f64, None);
    let spared = (suite * (ENGINES.len() - 1)) as f64;
    sheet.add("lines", "all engines", "lines of tests, if each had its own suite", spared, None);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_tests_are_apart_and_comments_do_not_count() {
        let text = "//! Doc.\nfn a() {}\n\n#[cfg(test)]\nfn helper() {}\n#[cfg(test)]\n\
                    mod tests {\n    // why\n    fn b() {}\n}\n";
        let lines = Lines::of(text, false);
        assert_eq!(lines, Lines { code: 4, tests: 3 });
        assert_eq!(Lines::of(text, true), Lines { code: 0, tests: 7 });
    }

    #[test]
    fn names_come_out_of_lists_and_of_paths() {
        let text =
            "use silica_parts::{Room, table::{Reader, Writer}, wal};\nsilica_parts::ect::Trie";
        let names: Vec<String> = names_used(text).into_iter().collect();
        assert_eq!(names, ["Room", "ect", "table", "wal"]);
        let root = "pub use fuse::{BITS_MAX, FuseFilter};\npub use room::Room;\n";
        let exported = exported(root);
        assert_eq!(exported["FuseFilter"], "fuse");
        assert_eq!(exported["Room"], "room");
    }
}
