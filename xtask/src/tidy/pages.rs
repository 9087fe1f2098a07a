//! Markdown pages: links resolve, code they name exists, field tables add up.

use super::{Problem, Source};
use std::collections::BTreeSet;

/// Checks all pages.
pub fn check(sources: &[Source]) -> Vec<Problem> {
    let tree = Tree::new(sources);
    let mut problems = Vec::new();
    let mut linked = BTreeSet::from(["README.md".to_string()]);
    for page in sources.iter().filter(|s| s.is_page()) {
        linked.extend(targets(page).map(|(_, target)| resolve(&page.path, &target)));
    }
    for page in sources.iter().filter(|s| s.is_page()) {
        if !linked.iter().any(|l| *l == page.path || parent(&page.path) == l) {
            problems.push(page.problem(1, "no other page links to this one"));
        }
        problems.extend(links(page, &tree));
        problems.extend(names(page, &tree));
        if page.path.starts_with("docs/formats/") {
            problems.extend(field_tables(page, &tree));
        }
    }
    problems
}

/// What pages may point at.
struct Tree<'s> {
    sources: &'s [Source],
    paths: BTreeSet<&'s str>,
}

impl<'s> Tree<'s> {
    fn new(sources: &'s [Source]) -> Self {
        Tree { sources, paths: sources.iter().map(|s| s.path.as_str()).collect() }
    }

    /// True for a file, and for a directory with a file in it.
    fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let inside = format!("{path}/");
        path.is_empty() || self.paths.contains(path) || self.files_below(&inside).next().is_some()
    }

    fn files_below(&self, dir: &str) -> impl Iterator<Item = &'s Source> {
        self.sources
            .iter()
            .filter(move |s| s.path.starts_with(dir) && s.is_rust())
            .chain(self.sources.iter().filter(move |s| s.path.starts_with(dir) && !s.is_rust()))
    }

    /// True where the crate that `name` starts with has each module and item after it.
    fn has_code(&self, name: &str) -> bool {
        let mut parts = name.split("::");
        let package = parts.next().unwrap_or_default();
        let dir = crate_dir(package);
        parts.all(|part| {
            let part = part.trim_end_matches("()");
            let is_module = |s: &Source| {
                let inner = &s.path[dir.len()..];
                inner.ends_with(&format!("/{part}.rs")) || inner.contains(&format!("/{part}/"))
            };
            self.files_below(&dir).any(|s| is_module(s) || defines(&s.text, part))
        })
    }
}

/// The directory of the crate that code calls `name`.
fn crate_dir(name: &str) -> String {
    format!("crates/{}/", name.strip_prefix("silica_").unwrap_or(name))
}

/// True where `text` defines the item `name` or re-exports it.
fn defines(text: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let kinds = ["fn ", "struct ", "enum ", "trait ", "mod ", "const ", "static ", "type "];
    text.match_indices(name).any(|(at, _)| {
        let line = text[..at].rsplit('\n').next().unwrap_or_default();
        let exported = line.starts_with("pub use ");
        (exported || kinds.iter().any(|kind| line.ends_with(kind)))
            && !line.ends_with(is_part)
            && !text[at + name.len()..].starts_with(is_part)
    })
}

/// Lines outside fenced code.
fn prose(page: &Source) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    page.lines().filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// Links of `page` into this repository, with their lines.
fn targets(page: &Source) -> impl Iterator<Item = (usize, String)> {
    prose(page).flat_map(|(number, line)| {
        let ends = line.split("](").skip(1);
        let targets = ends.map(|rest| rest.split([')', ' ']).next().unwrap_or_default());
        let inside = targets.filter(|t| !t.contains("://") && !t.starts_with("mailto:"));
        inside.map(|target| (number, target.to_string())).collect::<Vec<_>>()
    })
}

fn links(page: &Source, tree: &Tree<'_>) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (number, target) in targets(page) {
        let path = resolve(&page.path, &target);
        let anchor = target.split_once('#').map_or("", |(_, anchor)| anchor);
        if !tree.has(&path) {
            problems.push(page.problem(number, format!("link to {target}: no such file")));
        } else if !anchor.is_empty() && !has_heading(tree, &path, anchor) {
            problems.push(page.problem(number, format!("link to {target}: no such heading")));
        }
    }
    problems
}

/// The directory of the file at `path`.
fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

/// The path that `link` means in the page at `from`.
fn resolve(from: &str, link: &str) -> String {
    let link = link.split('#').next().unwrap_or_default();
    if link.is_empty() {
        return from.to_string();
    }
    let mut parts: Vec<&str> = parent(from).split('/').filter(|p| !p.is_empty()).collect();
    for part in link.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

fn has_heading(tree: &Tree<'_>, path: &str, anchor: &str) -> bool {
    let slug = |heading: &str| {
        let text = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = text.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.collect::<String>().replace(' ', "-")
    };
    let page = tree.sources.iter().find(|s| s.path == path && s.is_page());
    page.is_none_or(|p| prose(p).any(|(_, l)| l.starts_with('#') && slug(l) == anchor))
}

/// Code in backquotes that names a file or an item of this workspace must name one that exists.
fn names(page: &Source, tree: &Tree<'_>) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (number, line) in prose(page) {
        for name in line.split('`').skip(1).step_by(2) {
            let is_path = ["crates/", "xtask/", "docs/"].iter().any(|dir| name.starts_with(dir));
            let plain = |c: char| c.is_alphanumeric() || "_:/.-()".contains(c);
            let is_code = name.split("::").next().is_some_and(|c| {
                name.contains("::") && (c == "silica" || c.starts_with("silica_"))
            });
            if !name.chars().all(plain) {
                continue;
            }
            if is_path && !tree.has(name) || is_code && !tree.has_code(name) {
                problems.push(page.problem(number, format!("names {name}, which does not exist")));
            }
        }
    }
    problems
}

/// Cells of a table's row.
fn cells(line: &str) -> Option<Vec<&str>> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    Some(inner.split('|').map(|cell| cell.trim().trim_matches(['*', '`'])).collect())
}

/// The table of a format's fields that is being read.
struct Fields {
    offset: Option<usize>,
    size: usize,
    /// Where the next field starts; nothing after a field of variable size.
    next: Option<u64>,
}

/// A table with a column `bytes` (or `size`) and perhaps `offset` has no gap and no overlap. Its
/// row `total` says the sum, and a constant named there in backquotes has the same value.
fn field_tables(page: &Source, tree: &Tree<'_>) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut table: Option<Fields> = None;
    for (number, line) in prose(page) {
        let Some(cells) = cells(line) else {
            table = None;
            continue;
        };
        let column = |names: &[&str]| cells.iter().position(|c| names.contains(c));
        match &mut table {
            None => {
                let sizes = column(&["bytes", "size"]);
                table =
                    sizes.map(|size| Fields { offset: column(&["offset"]), size, next: Some(0) });
            }
            Some(fields) if !cells.iter().all(|c| c.chars().all(|c| "-: ".contains(c))) => {
                if let Err(what) = field(fields, &cells, line, tree) {
                    problems.push(page.problem(number, what));
                    fields.next = None;
                }
            }
            Some(_) => {}
        }
    }
    problems
}

fn field(fields: &mut Fields, cells: &[&str], line: &str, tree: &Tree<'_>) -> Result<(), String> {
    let value = |at: usize| cells.get(at).and_then(|cell| cell.parse::<u64>().ok());
    let offset = fields.offset.and_then(value);
    if cells.iter().any(|c| *c == "total" || c.starts_with("total ")) {
        let said = value(fields.size).ok_or("the total is not a number")?;
        if fields.next.is_some_and(|sum| sum != said) {
            return Err(format!("the fields sum to {}", fields.next.unwrap_or_default()));
        }
        let names = line.split('`').skip(1).step_by(2);
        for name in names.filter(|n| n.contains("::")) {
            let code = constant_in_code(tree, name);
            if code.as_deref() != Some(&said.to_string()) {
                return Err(format!("{name} is {} in the code", code.unwrap_or("missing".into())));
            }
        }
        fields.next = None;
    } else if let (Some(expected), Some(offset)) = (fields.next, offset)
        && expected != offset
    {
        return Err(format!("the field before ends at {expected}"));
    } else {
        fields.next = fields.next.zip(value(fields.size)).map(|(next, size)| next + size);
    }
    Ok(())
}

/// The literal that the constant named by a path such as `silica_parts::cuckoo::HEADER_BYTES` is
/// set to.
fn constant_in_code(tree: &Tree<'_>, path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split("::").collect();
    let (name, modules) = parts.split_last()?;
    let dir = crate_dir(modules.first()?);
    let inside = |s: &&Source| {
        let holds =
            |m: &&str| s.path.contains(&format!("/{m}.")) || s.path.contains(&format!("/{m}/"));
        s.is_rust() && modules[1..].iter().all(holds)
    };
    let start = format!("const {name}: ");
    let mut lines = tree.files_below(&dir).filter(inside).flat_map(|s| s.text.lines());
    let line = lines.find(|line| line.contains(&start))?;
    let value = line.split_once(" = ")?.1.trim_end_matches(';');
    Some(value.replace('_', ""))
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    fn problems(page: &str, text: &str) -> Vec<String> {
        let code = "pub fn open() {}\npub const HEAD_BYTES: usize = 16;\n";
        let index = "[a](docs/a.md) [b](docs/b.md) [f](docs/formats) [p](docs/papers.md)\n";
        let sources = [
            sample(page, text),
            sample("crates/silica/src/store.rs", code),
            sample("docs/b.md", "# The head\n"),
            sample("INDEX.md", index),
        ];
        let found = check(&sources).into_iter().filter(|p| p.path == page);
        found.map(|p| p.what).collect()
    }

    #[test]
    fn links_resolve() {
        let good = "[b](b.md) [h](b.md#the-head) [c](../crates/silica) [w](https://a.example)\n";
        assert_eq!(problems("docs/a.md", good), [""; 0]);
        assert_eq!(problems("docs/a.md", "[b](c.md)\n"), ["link to c.md: no such file"]);
        assert_eq!(problems("docs/a.md", "[b](b.md#x)\n"), ["link to b.md#x: no such heading"]);
        assert_eq!(problems("docs/a.md", "```\n[b](c.md)\n```\n"), [""; 0]);
    }

    #[test]
    fn pages_are_linked() {
        assert_eq!(problems("NOTE.md", ""), ["no other page links to this one"]);
        assert_eq!(problems("docs/formats/new.md", ""), [""; 0]);
    }

    #[test]
    fn named_code_exists() {
        let good = "`crates/silica/src/store.rs` `silica::open` `silica::store::open()` `a::b`\n";
        assert_eq!(problems("README.md", good), [""; 0]);
        for gone in ["crates/silica/src/gone.rs", "silica::ope", "silica_gone::open"] {
            let expected = format!("names {gone}, which does not exist");
            assert_eq!(problems("docs/papers.md", &format!("| `{gone}` |\n")), [expected]);
        }
    }

    #[test]
    fn field_tables_add_up() {
        let table = |rows: &str| {
            let text = format!("| offset | bytes | field |\n|---|---|---|\n{rows}");
            problems("docs/formats/a.md", &text)
        };
        let good = "| 0 | 4 | magic |\n| 4 | 8 | len |\n| | **12** | total |\n";
        assert_eq!(table(good), [""; 0]);
        assert_eq!(table("| 0 | 4 | a |\n| 5 | 8 | b |\n"), ["the field before ends at 4"]);
        assert_eq!(table("| 0 | 4 | a |\n| | 5 | total |\n"), ["the fields sum to 4"]);
        assert_eq!(table("| 0 | n | a |\n| n | 5 | b |\n"), [""; 0]);
    }

    #[test]
    fn totals_agree_with_the_code() {
        let table = |size: u32, name: &str| {
            let total = format!("| total `{name}` | {size} | |\n");
            let text = format!("| field | bytes | |\n|---|---|---|\n| a | {size} | |\n{total}");
            problems("docs/formats/a.md", &text)
        };
        assert_eq!(table(16, "silica::store::HEAD_BYTES"), [""; 0]);
        let expected = ["silica::store::HEAD_BYTES is 16 in the code"];
        assert_eq!(table(17, "silica::store::HEAD_BYTES"), expected);
        let gone = table(1, "silica::gone::HEAD_BYTES");
        assert!(gone.contains(&"silica::gone::HEAD_BYTES is missing in the code".to_string()));
    }
}
