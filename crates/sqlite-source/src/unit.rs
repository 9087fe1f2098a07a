//! Making the translation unit.

use std::collections::BTreeSet;
use std::fmt::Write;

/// The version of the amalgamation.
pub const VERSION: &str = "3.54.1";

/// `sqlite3.c`.
pub const SOURCE: &str = include_str!("../sqlite3.c");
/// `sqlite3.h`.
pub const HEADER: &str = include_str!("../sqlite3.h");
/// `sqlite3ext.h`.
pub const EXTENSION_HEADER: &str = include_str!("../sqlite3ext.h");

/// The options that Debian compiles its library with, as far as the amalgamation knows them. Those
/// that need a parser of their own (`UPDATE … LIMIT`) are not among them.
pub const OPTIONS: &[(&str, Option<&str>)] = &[
    ("SQLITE_ENABLE_COLUMN_METADATA", None),
    ("SQLITE_ENABLE_DBSTAT_VTAB", None),
    ("SQLITE_ENABLE_FTS3", None),
    ("SQLITE_ENABLE_FTS3_PARENTHESIS", None),
    ("SQLITE_ENABLE_FTS3_TOKENIZER", None),
    ("SQLITE_ENABLE_FTS4", None),
    ("SQLITE_ENABLE_FTS5", None),
    ("SQLITE_ENABLE_LOAD_EXTENSION", None),
    ("SQLITE_ENABLE_MATH_FUNCTIONS", None),
    ("SQLITE_ENABLE_PREUPDATE_HOOK", None),
    ("SQLITE_ENABLE_RTREE", None),
    ("SQLITE_ENABLE_SESSION", None),
    ("SQLITE_ENABLE_STMTVTAB", None),
    ("SQLITE_ENABLE_UNLOCK_NOTIFY", None),
    ("SQLITE_LIKE_DOESNT_MATCH_BLOBS", None),
    ("SQLITE_MAX_VARIABLE_NUMBER", Some("250000")),
    ("SQLITE_SECURE_DELETE", None),
    ("SQLITE_SOUNDEX", None),
    ("SQLITE_THREADSAFE", Some("1")),
    ("SQLITE_USE_URI", Some("1")),
    ("HAVE_ISNAN", Some("1")),
    ("HAVE_USLEEP", Some("1")),
    ("HAVE_FDATASYNC", Some("1")),
    ("HAVE_LOCALTIME_R", Some("1")),
    ("HAVE_GMTIME_R", Some("1")),
];

/// One of SQLite's files, those of its functions that are fronted, and the C text behind it that
/// has ours.
#[derive(Debug, Clone, Copy)]
pub struct Front<'a> {
    /// As in the amalgamation's comments: `btree.c`.
    pub file: &'a str,
    /// `sqlite3BtreeOpen`; it becomes `stock_sqlite3BtreeOpen`.
    pub functions: &'a [&'a str],
    /// The file itself calls ours, too; else the others.
    pub is_for_itself: bool,
    /// C behind the file.
    pub text: &'a str,
}

/// The translation unit: the amalgamation with `fronts`, and, if there is a `prefix`, with that
/// before every public name, so that it links beside another SQLite.
///
/// # Errors
/// In words, if the amalgamation lacks a file, a function or a version that is named.
pub fn translation_unit(fronts: &[Front<'_>], prefix: Option<&str>) -> Result<String, String> {
    if !SOURCE.contains(&format!("#define SQLITE_VERSION        \"{VERSION}\"")) {
        return Err(format!("sqlite3.c is not version {VERSION}"));
    }
    let mut unit = String::with_capacity(SOURCE.len() + (64 << 10));
    if let Some(prefix) = prefix {
        unit.push_str(&prefixes(prefix));
    }
    let mut rest = SOURCE;
    for front in fronts {
        let (begin, end) = (marker("Begin file", front.file), marker("End of", front.file));
        let at = rest.find(&begin).ok_or_else(|| format!("sqlite3.c has no '{begin}' here"))?;
        let len = rest[at..].find(&end).ok_or_else(|| format!("sqlite3.c has no '{end}'"))?;
        let file = &rest[at..at + len];
        unit.push_str(&rest[..at]);
        for function in front.functions {
            if !file.contains(&format!("{function}(")) {
                return Err(format!("{} does not define {function}", front.file));
            }
        }
        if front.is_for_itself {
            unit.push_str(&renamed(file, front.functions)?);
            unit.push_str(front.text);
            rest = &rest[at + len..];
            continue;
        }
        for function in front.functions {
            writeln!(unit, "#define {function} stock_{function}").expect("a string takes all");
        }
        // What is called before its definition was declared under its own name only.
        for function in front.functions {
            writeln!(unit, "{}", declaration(function)?).expect("a string takes all");
        }
        unit.push_str(file);
        for function in front.functions {
            writeln!(unit, "#undef {function}").expect("a string takes all");
        }
        unit.push_str(front.text);
        rest = &rest[at + len..];
    }
    unit.push_str(rest);
    Ok(unit)
}

/// `file` with other names where it defines `functions`, and those declared before it. None of them
/// is public any more.
fn renamed(file: &str, functions: &[&str]) -> Result<String, String> {
    let (mut file, mut declared) = (file.to_string(), String::new());
    for function in functions {
        let call = format!("{function}(");
        let head_of = |at: usize| -> Option<(usize, usize)> {
            let line = file[..at].rfind('\n').map_or(0, |newline| newline + 1);
            let end = at + file[at..].find(['{', ';'])?;
            let is_definition = ["SQLITE_PRIVATE ", "SQLITE_API "]
                .iter()
                .any(|kind| file[line..at].starts_with(kind) && file[end..].starts_with('{'));
            is_definition.then_some((line, end))
        };
        let found = file.match_indices(&call).find_map(|(at, _)| head_of(at));
        let (line, end) = found.ok_or_else(|| format!("no definition of {function} is found"))?;
        let head = file[line..end].replacen(function, &format!("stock_{function}"), 1);
        let head = head.replacen("SQLITE_API", "static", 1);
        writeln!(declared, "{head};").expect("a string takes all");
        file.replace_range(line..end, &head);
    }
    Ok(declared + &file)
}

fn marker(what: &str, file: &str) -> String {
    format!("/************** {what} {file} *")
}

/// The first declaration of `function` in the amalgamation, without its attributes.
fn declaration(function: &str) -> Result<String, String> {
    let is_name = |at: usize| {
        let before = SOURCE[..at].chars().next_back();
        before.is_some_and(|c| c == ' ' || c == '*')
    };
    let call = format!("{function}(");
    let places = SOURCE.match_indices(&call).map(|(at, _)| at).filter(|at| is_name(*at));
    for at in places {
        let line = SOURCE[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let Some(head) = SOURCE[line..at].strip_prefix("SQLITE_PRIVATE") else { continue };
        let len = SOURCE[at..].find(");").ok_or("a declaration has no end")? + 2;
        return Ok(format!("SQLITE_PRIVATE {} {}", head.trim(), &SOURCE[at..at + len]));
    }
    Err(format!("sqlite3.c does not declare {function}"))
}

/// The public names, in their order.
pub fn public_names() -> BTreeSet<&'static str> {
    let is_of_name = |c: char| c == '_' || c.is_ascii_alphanumeric();
    let lines = HEADER.lines().filter(|line| line.trim_start().starts_with("SQLITE_API"));
    lines
        .filter_map(|line| {
            let declared = line.match_indices("sqlite3").find_map(|(at, _)| {
                let len = line[at..].find(|c| !is_of_name(c)).unwrap_or(line.len() - at);
                let is_declared = line[at + len..].starts_with(['(', '[', ';']);
                is_declared.then(|| &line[at..at + len])
            });
            declared.filter(|name| *name != "sqlite3")
        })
        .collect()
}

/// Defines each public name as itself behind `prefix`.
pub fn prefixes(prefix: &str) -> String {
    public_names().iter().map(|name| format!("#define {name} {prefix}{name}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_and_the_constant_name_the_version_that_is_here() {
        let page = include_str!("../README.md");
        let defined = |name: &str| {
            let start = SOURCE.find(&format!("#define {name} ")).expect("it is defined");
            let line = SOURCE[start..].lines().next().expect("a line");
            line.split('"').nth(1).expect("a string")
        };
        assert_eq!(defined("SQLITE_VERSION"), VERSION);
        assert!(page.contains(&format!("| version | {VERSION} |")));
        assert!(page.contains(&format!("| source id | {} |", defined("SQLITE_SOURCE_ID"))));
    }

    #[test]
    fn the_files_are_those_whose_hashes_the_page_has() {
        use sha2::{Digest, Sha256};
        let page = include_str!("../README.md");
        for (name, text) in
            [("sqlite3.c", SOURCE), ("sqlite3.h", HEADER), ("sqlite3ext.h", EXTENSION_HEADER)]
        {
            let hash = Sha256::digest(text.as_bytes());
            let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
            assert!(page.contains(&format!("| SHA-256 of `{name}` | {hash} |")), "{name}: {hash}");
        }
    }

    #[test]
    fn a_fronted_function_has_another_name_in_its_file_only() {
        let front = Front {
            file: "btree.c",
            functions: &["sqlite3BtreeOpen"],
            is_for_itself: false,
            text: "/* ours */\n",
        };
        let unit = translation_unit(&[front], None).expect("a unit");
        let (begin, ours) = (unit.find("#define sqlite3BtreeOpen "), unit.find("/* ours */"));
        assert!(begin.expect("renamed") < ours.expect("put in"));
        let plain = unit.len() - SOURCE.len();
        assert!(plain < 1000, "{plain} bytes more");
        let error = Front {
            file: "main.c",
            functions: &["sqlite3ErrStr"],
            is_for_itself: true,
            text: "/* ours */\n",
        };
        let unit = translation_unit(&[error], None).expect("a unit");
        assert!(unit.contains("SQLITE_PRIVATE const char *stock_sqlite3ErrStr(int rc){"));
        assert!(unit.contains("z = sqlite3ErrStr(db->errCode);"));
        let missing = Front { functions: &["sqlite3BtreeFly"], ..front };
        assert!(translation_unit(&[missing], None).expect_err("refused").contains("Fly"));
        let missing = Front { file: "tree.c", ..front };
        assert!(translation_unit(&[missing], None).is_err());
    }

    #[test]
    fn public_names_are_those_of_the_header() {
        let names = public_names();
        for name in ["sqlite3_open", "sqlite3_prepare_v2", "sqlite3_temp_directory"] {
            assert!(names.contains(name), "{name}");
        }
        assert!(names.len() > 250, "{}", names.len());
    }
}
