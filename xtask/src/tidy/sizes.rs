//! Sizes of files, functions and lines, and what a lib.rs may hold.
//!
//! Functions are found by indentation: rustfmt closes each with a `}` in the column where its
//! signature starts. CI formats first, so nothing needs a parser.

use super::{Problem, Source};

const FILE_LINES_MAX: usize = 800;
const FUNCTION_LINES_MAX: usize = 70;
const COLUMNS_MAX: usize = 100;

/// Checks all Rust files.
pub fn check(sources: &[Source]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for source in sources.iter().filter(|s| s.is_rust()) {
        problems.extend(file(source));
        problems.extend(columns(source));
        problems.extend(functions(source));
        if source.path.ends_with("/lib.rs") {
            problems.extend(library_root(source));
        }
    }
    problems
}

fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs") || path.ends_with("_tests.rs")
}

/// Lines before a trailing `mod tests {`, which are the file's own.
fn own_lines(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let tests = lines.windows(2).position(|w| w[0] == "#[cfg(test)]" && w[1] == "mod tests {");
    tests.unwrap_or(lines.len())
}

fn file(source: &Source) -> Option<Problem> {
    let lines = own_lines(&source.text);
    let long = lines > FILE_LINES_MAX && !is_test(&source.path);
    let what = format!("{lines} lines without tests; {FILE_LINES_MAX} are the limit");
    long.then(|| source.problem(1, what))
}

fn columns(source: &Source) -> Vec<Problem> {
    let wide = |line: &&str| line.chars().count() > COLUMNS_MAX;
    let lines = source.lines().filter(|(_, line)| wide(line));
    let what = format!("wider than {COLUMNS_MAX} columns");
    lines.map(|(number, _)| source.problem(number, what.clone())).collect()
}

fn functions(source: &Source) -> Vec<Problem> {
    let lines: Vec<&str> = source.text.lines().collect();
    let mut problems = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        let indent = &line[..line.len() - line.trim_start().len()];
        let (body, arguments) = (format!("{indent}}}"), format!("{indent})"));
        let one_line = line.ends_with('}') || line.ends_with(';');
        let rest = &lines[start..];
        let closes = |l: &&str| **l == body || l.starts_with(&arguments) && l.ends_with(';');
        let end = rest.iter().position(closes);
        let length = if one_line { 1 } else { end.map_or(rest.len(), |e| e + 1) };
        if length > FUNCTION_LINES_MAX {
            let what = format!("fn {name} has {length} lines; {FUNCTION_LINES_MAX} are the limit");
            problems.push(source.problem(start + 1, what));
        }
    }
    problems
}

/// The name where `line` starts a function.
fn function_name(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    loop {
        let (word, after) = rest.split_once(' ')?;
        match word {
            "pub" | "const" | "async" | "unsafe" | "extern" | "\"C\"" => rest = after,
            _ if word.starts_with("pub(") => rest = after,
            "fn" => return after.split(['(', '<']).next(),
            _ => return None,
        }
    }
}

fn library_root(source: &Source) -> Vec<Problem> {
    let allowed = ["pub use ", "use ", "mod ", "pub mod ", "extern crate ", "#", "//", "}", " "];
    let foreign = |line: &str| {
        let good = line.is_empty() || allowed.iter().any(|a| line.starts_with(a));
        !good || line.ends_with("mod tests {") || line.starts_with("mod ") && line.ends_with('{')
    };
    let found = source.lines().find(|(_, line)| foreign(line));
    let what = "lib.rs holds docs, mod lines and re-exports only";
    found.map(|(number, _)| source.problem(number, what)).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        check(&[sample(path, text)]).len()
    }

    #[test]
    fn long_files_are_found_unless_tests() {
        let long = "\n".repeat(FILE_LINES_MAX + 1);
        assert_eq!(count("crates/a/src/b.rs", &long), 1);
        assert_eq!(count("crates/a/src/b/tests.rs", &long), 0);
        assert_eq!(count("crates/a/tests/b.rs", &long), 0);
        let tested = format!("#[cfg(test)]\nmod tests {{\n{long}}}\n");
        assert_eq!(count("crates/a/src/b.rs", &tested), 0);
    }

    #[test]
    fn wide_lines_are_found() {
        assert_eq!(count("crates/a/src/b.rs", &format!("//{}", "é".repeat(98))), 0);
        assert_eq!(count("crates/a/src/b.rs", &format!("//{}", "é".repeat(99))), 1);
    }

    #[test]
    fn long_functions_are_found_and_named() {
        let body = |n| "        x();\n".repeat(n);
        let text =
            |n| format!("impl A {{\n    pub(crate) fn f<T>(\n    ) {{\n{}    }}\n}}\n", body(n));
        assert_eq!(count("crates/a/src/b.rs", &text(FUNCTION_LINES_MAX - 3)), 0);
        let found = check(&[sample("crates/a/src/b.rs", &text(FUNCTION_LINES_MAX - 2))]);
        let expected = "crates/a/src/b.rs:2: fn f has 71 lines; 70 are the limit";
        assert_eq!(found[0].to_string(), expected);
    }

    #[test]
    fn declarations_without_a_body_have_one_line() {
        let text = format!("trait A {{\n    fn f(&self);\n{}}}\n", "    // more\n".repeat(100));
        assert_eq!(count("crates/a/src/b.rs", &text), 0);
        let wrapped = format!(
            "trait A {{\n    fn f(\n        &self,\n    ) -> u8;\n{}}}\n",
            "\n".repeat(100)
        );
        assert_eq!(count("crates/a/src/b.rs", &wrapped), 0);
    }

    #[test]
    fn a_library_root_holds_no_code() {
        let good = "//! Docs.\n#![forbid(unsafe_code)]\n\nmod a;\npub use a::{\n    B,\n};\n";
        assert_eq!(count("crates/a/src/lib.rs", good), 0);
        for bad in ["fn f() {}\n", "pub struct S;\n", "mod a {\n}\n", "impl S {}\n"] {
            assert_eq!(count("crates/a/src/lib.rs", bad), 1, "{bad}");
        }
    }
}
