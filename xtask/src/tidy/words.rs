//! Words that may not stand in committed text.

use super::{Problem, Source};

/// A word in two halves (so that this file does not hold it), and why it is banned.
const BANNED: &[(&str, &str, &str)] = &[
    ("to", "do!(", "finish it"),
    ("unimpl", "emented!(", "finish it"),
    ("FIX", "ME", "fix it, or say in a sentence what is not done"),
    ("TO", "DO", "do it, or say in a sentence what is not done"),
    ("place", "holder", "write the thing itself"),
    ("/wor", "k/", "a path of one machine"),
    ("/ro", "ot/", "a path of one machine"),
    ("/ho", "me/", "a path of one machine"),
    ("_ne", "_bytes", "formats are little-endian: use to_le_bytes and from_le_bytes"),
    ("<<<<", "<<< ", "a conflict left in the text"),
    (">>>>", ">>> ", "a conflict left in the text"),
];

/// Registries other than the public one must not leak into lock and configuration files.
const PUBLIC_REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Checks all files.
pub fn check(sources: &[Source]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for source in sources {
        for (number, line) in source.lines() {
            // The configuration of the lint that bans the same words names them.
            let own = source.path == "clippy.toml";
            for (head, tail, why) in BANNED.iter().filter(|_| !own) {
                if line.contains(&format!("{head}{tail}")) {
                    problems.push(source.problem(number, format!("'{head}{tail}': {why}")));
                }
            }
            if names_foreign_registry(&source.path, line) {
                problems.push(source.problem(number, "names a registry other than crates.io"));
            }
        }
    }
    problems
}

fn names_foreign_registry(path: &str, line: &str) -> bool {
    let line = line.trim();
    match path {
        "Cargo.lock" => {
            line.starts_with("source = ") && line != format!("source = \"{PUBLIC_REGISTRY}\"")
        }
        ".cargo/config.toml" => {
            ["[source", "[registr", "registry", "replace-with"].iter().any(|w| line.starts_with(w))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn each_banned_word_is_found() {
        for (head, tail, _) in BANNED {
            let text = format!("fine\nnot {head}{tail} fine\n");
            let found = check(&[sample("docs/a.md", &text)]);
            assert_eq!(found.len(), 1, "{head}{tail}");
            assert_eq!(found[0].line, 2);
        }
        assert!(check(&[sample("docs/a.md", "networks\nroot\n")]).is_empty());
    }

    #[test]
    fn foreign_registries_are_found() {
        let lock = |source: &str| sample("Cargo.lock", &format!("source = \"{source}\"\n"));
        assert!(check(&[lock(PUBLIC_REGISTRY)]).is_empty());
        assert_eq!(check(&[lock("registry+https://mirror.example/index")]).len(), 1);
        let config = sample(".cargo/config.toml", "[source.crates-io]\n");
        assert_eq!(check(&[config]).len(), 1);
        assert!(check(&[sample(".cargo/config.toml", "[alias]\n")]).is_empty());
    }
}
