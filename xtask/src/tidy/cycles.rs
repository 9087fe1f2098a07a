//! Modules of a crate that know each other in circles: how many may only fall.
//!
//! A module is a file or folder directly under a crate's `src`; it knows those whose paths stand
//! in it behind `crate::`. Tests do not count, and neither do comments.

use super::{Problem, Source};
use std::collections::{BTreeMap, BTreeSet};

/// Modules in circles that a crate may have; a crate that is not listed may have none. Whoever
/// cuts a circle lowers the number.
const CYCLIC_MAX: &[(&str, usize)] =
    &[("bench", 4), ("bench-compare", 6), ("cli", 8), ("commands", 11), ("mica", 5), ("proto", 2)];

/// By module, those that it knows.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Checks all crates.
pub fn check(sources: &[Source]) -> Vec<Problem> {
    let mut graphs: BTreeMap<&str, Graph> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.is_rust()) {
        let Some((name, path)) = place(&source.path) else { continue };
        let module = path.split('/').next().unwrap_or(path).trim_end_matches(".rs");
        if path.ends_with("tests.rs") || ["lib", "main"].contains(&module) {
            continue;
        }
        let known = graphs.entry(name).or_default().entry(module.to_string()).or_default();
        known.extend(names(&source.text).into_iter().filter(|other| other != module));
    }
    graphs.iter().filter_map(|(name, graph)| judge(name, graph)).collect()
}

/// The crate that a file belongs to, and its path below that crate's `src`.
fn place(path: &str) -> Option<(&str, &str)> {
    path.strip_prefix("crates/")?.split_once("/src/")
}

fn judge(name: &str, graph: &Graph) -> Option<Problem> {
    let listed = CYCLIC_MAX.iter().find(|(listed, _)| *listed == name);
    let max = listed.map_or(0, |(_, max)| *max);
    let cyclic: Vec<&str> = graph.keys().map(String::as_str).filter(|m| meets(graph, m)).collect();
    (cyclic.len() > max).then(|| Problem {
        path: format!("crates/{name}/src"),
        line: 1,
        what: format!(
            "{} modules know each other in circles; {max} are the limit (CYCLIC_MAX): {}",
            cyclic.len(),
            cyclic.join(", ")
        ),
    })
}

/// True if a way leads from `module` back to itself.
fn meets(graph: &Graph, module: &str) -> bool {
    let mut seen = BTreeSet::new();
    let mut left = vec![module];
    while let Some(next) = left.pop() {
        for known in graph.get(next).into_iter().flatten() {
            if known == module {
                return true;
            }
            if seen.insert(known.as_str()) {
                left.push(known);
            }
        }
    }
    false
}

/// The first words of all paths in `text` that begin with `crate::`.
fn names(text: &str) -> BTreeSet<String> {
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    let own = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    let code = own.lines().filter(is_code).collect::<Vec<_>>().join("\n");
    let mut found = BTreeSet::new();
    for rest in code.split("crate::").skip(1) {
        match rest.strip_prefix('{') {
            Some(list) => found.extend(heads(list)),
            None => found.extend(word(rest)),
        }
    }
    found
}

/// The first word of each path of a list in braces.
fn heads(list: &str) -> Vec<String> {
    let (mut depth, mut starts, mut found) = (0, true, Vec::new());
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => starts = true,
            _ if starts && !c.is_whitespace() => {
                starts = false;
                found.extend(word(&list[at..]));
            }
            _ => {}
        }
    }
    found
}

/// The module that `text` begins with; types and macros are none.
fn word(text: &str) -> Option<String> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    let (word, rest) = text.split_at(end);
    let is_module = word.starts_with(|c: char| c.is_ascii_lowercase()) && !rest.starts_with('!');
    is_module.then(|| word.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    fn problems(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<Source> = files
            .iter()
            .map(|(path, text)| sample(&format!("crates/new/src/{path}"), text))
            .collect();
        check(&sources).iter().map(Problem::to_string).collect()
    }

    #[test]
    fn circles_are_found_over_any_number_of_modules() {
        let circle = [
            ("lib.rs", "use crate::a::A;"),
            ("a.rs", "use crate::{d::D, b::{B, c}};\n"),
            ("b/mod.rs", "fn f() -> crate::c::C {}"),
            ("c.rs", "// not crate::d\nuse crate::a::A;\nuse crate::c::C;"),
            ("d.rs", "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n"),
        ];
        let expected = "crates/new/src:1: 3 modules know each other in circles; 0 are the limit \
                        (CYCLIC_MAX): a, b, c";
        assert_eq!(problems(&circle), [expected]);
        assert_eq!(problems(&circle[1..3]), [""; 0], "a way there is no way back");
    }

    #[test]
    fn what_a_module_knows_within_itself_does_not_count() {
        let files = [("a/mod.rs", "use crate::a::b::B;"), ("a/b.rs", "use crate::a::A;")];
        assert_eq!(problems(&files), [""; 0]);
    }
}
