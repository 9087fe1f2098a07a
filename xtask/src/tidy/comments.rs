//! Comments that cannot be read alone, and engines named where none may be.

use super::{Problem, Source};

/// Beginnings of a comment, each in two halves (so that this file does not hold it), that send the
/// reader to another comment.
const BEGINNINGS: &[(&str, &str)] =
    &[("The sa", "me "), ("The sa", "me."), ("The sa", "me,"), ("Of so ma", "ny")];

/// Engines, by the names that users write.
const ENGINES: &[&str] = &["wip", "silt", "mica"];

/// Crates and files that may name an engine: engines, what models or measures each of them, and the
/// facade's list and defaults.
const MAY_NAME: &[&str] = &[
    "crates/wip/",
    "crates/silt/",
    "crates/mica/",
    "crates/tune/",
    "crates/lab/",
    "crates/bench/",
    "crates/bench-compare/",
    "crates/silica/src/registry.rs",
    "crates/silica/src/options.rs",
    "xtask/",
];

/// Checks all Rust files.
pub fn check(sources: &[Source]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for source in sources.iter().filter(|source| source.is_rust()) {
        let mut was_comment = false;
        for (number, line) in source.lines() {
            let comment = comment_of(line);
            let begins = comment.filter(|_| !was_comment).is_some_and(leads_elsewhere);
            if begins {
                let what = "a comment stands alone: name the thing instead of pointing at another";
                problems.push(source.problem(number, what));
            }
            was_comment = comment.is_some_and(|text| !text.is_empty());
        }
        problems.extend(engines(source));
    }
    problems
}

/// The text of a line that is a comment.
fn comment_of(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    Some(text.trim_start_matches(['/', '!']).trim())
}

fn leads_elsewhere(text: &str) -> bool {
    BEGINNINGS.iter().any(|(head, tail)| {
        text.strip_prefix(head).is_some_and(|rest| format!("{rest} ").starts_with(tail))
    })
}

/// Lines of code, tests aside, that name an engine where none may be named.
fn engines(source: &Source) -> Vec<Problem> {
    let is_test = source.path.contains("/tests") || source.path.contains("_tests.rs");
    let is_other = !source.path.starts_with("crates/") || source.path.contains("/examples/");
    if is_test || is_other || MAY_NAME.iter().any(|path| source.path.starts_with(path)) {
        return Vec::new();
    }
    let code = source.lines().take_while(|(_, line)| !line.starts_with("#[cfg(test)]"));
    let named = code.filter(|(_, line)| comment_of(line).is_none()).filter_map(|(number, line)| {
        let name = ENGINES.iter().find(|name| line.contains(&format!("\"{name}\"")))?;
        let what = format!("names the engine '{name}': ask its descriptor or the list of specs");
        Some(source.problem(number, what))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn a_comment_that_leads_elsewhere_is_found() {
        let text =
            format!("/// {}me of a bucket.\nfn a() {{}}\n// Fine.\n// {}me.\n", "The sa", "The sa");
        let found = check(&[sample("crates/silica/src/a.rs", &text)]);
        assert_eq!(found.iter().map(|p| p.line).collect::<Vec<_>>(), [1], "the second goes on");
        let other = format!("// {}ny of them.\n", "Of so ma");
        assert_eq!(check(&[sample("crates/base/src/a.rs", &other)]).len(), 1);
        assert!(check(&[sample("crates/base/src/a.rs", "// The sameness of two.\n")]).is_empty());
    }

    #[test]
    fn an_engine_is_named_only_where_it_may_be() {
        let text = "let name = \"wip\";\n// \"wip\"\n#[cfg(test)]\nconst A: &str = \"silt\";\n";
        let lines =
            |path: &str| check(&[sample(path, text)]).iter().map(|p| p.line).collect::<Vec<_>>();
        assert_eq!(lines("crates/server/src/a.rs"), [1]);
        for path in ["crates/wip/src/a.rs", "crates/server/tests/all/a.rs", "xtask/src/a.rs"] {
            assert_eq!(lines(path), [] as [usize; 0], "{path}");
        }
    }
}
