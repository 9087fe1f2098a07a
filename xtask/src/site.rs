//! The pages as a site: `docs/SUMMARY.md` says the order, mdBook makes it, and every link is tried.
//!
//! A page of the repository keeps its links as the repository has them; here they become links of
//! the site. What a link means that is no page (a source file) stays as words.

use crate::step::{cargo, target};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The release of the program that makes the site.
const MDBOOK: &str = "mdbook@0.5.4";
/// Figures and what else pages show.
const ASSETS: [&str; 4] = ["svg", "png", "tsv", "json"];

const BOOK: &str = r#"[book]
title = "Silica"
language = "en"

[output.html]
smart-punctuation = false
"#;

/// Makes the site and returns the directory where it lies.
pub fn make(root: &Path) -> Result<PathBuf, String> {
    let stage = target(root).join("site");
    let source = stage.join("src");
    if stage.exists() {
        fs::remove_dir_all(&stage).map_err(|e| format!("{}: {e}", stage.display()))?;
    }
    let pages = Pages::of(root)?;
    for (from, to) in &pages.places {
        let bytes = fs::read(root.join(from)).map_err(|e| format!("{from}: {e}"))?;
        let bytes = match String::from_utf8(bytes) {
            Ok(text) if is_page(from) => pages.with_links(from, &text).into_bytes(),
            Ok(text) => text.into_bytes(),
            Err(e) => e.into_bytes(),
        };
        write(&source.join(to), &bytes)?;
    }
    write(&source.join("SUMMARY.md"), pages.summary(root)?.as_bytes())?;
    for (directory, listed) in &pages.directories {
        write(&source.join(directory).join("index.md"), listed.as_bytes())?;
    }
    write(&stage.join("book.toml"), BOOK.as_bytes())?;
    let output = Command::new(mdbook(root)?).arg("build").arg(&stage).output();
    let output = output.map_err(|e| format!("mdbook: {e}"))?;
    if !output.status.success() {
        return Err(format!("mdbook: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let site = stage.join("book");
    let broken = broken_links(&site)?;
    if broken.is_empty() { Ok(site) } else { Err(broken.join("\n")) }
}

/// The program, built once.
fn mdbook(root: &Path) -> Result<PathBuf, String> {
    let tools = target(root).join("tools");
    let program = tools.join("bin/mdbook");
    if !program.is_file() {
        let mut install = cargo(&["install", "--locked", "--quiet", MDBOOK]);
        install.args(["--no-default-features", "--features", "search", "--root"]).arg(&tools);
        // It makes one site: compiled for speed it would take twice as long, all told.
        install.args(["--debug", "--config", "profile.dev.debug=false"]);
        let output = install.output().map_err(|e| format!("cargo install: {e}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(format!("{MDBOOK} cannot be installed: {said}"));
        }
    }
    Ok(program)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let parent = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(parent).map_err(|e| format!("{}: {e}", parent.display()))?;
    fs::write(path, bytes).map_err(|e| format!("{}: {e}", path.display()))
}

fn is_page(path: &str) -> bool {
    path.ends_with(".md")
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}

/// The path that `link` means in a file at `from`.
fn resolve(from: &str, link: &str) -> String {
    let mut parts: Vec<&str> = parent(from).split('/').filter(|part| !part.is_empty()).collect();
    for part in link.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// How a file at `from` links to `to`.
fn relative(from: &str, to: &str) -> String {
    "../".repeat(parent(from).matches('/').count() + usize::from(!parent(from).is_empty())) + to
}

/// The first heading of a page.
fn title(text: &str) -> &str {
    text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or("?")
}

/// The pages of the repository and where they are in the site.
struct Pages {
    /// From the path in the repository to the one in the site.
    places: BTreeMap<String, String>,
    /// The list of pages of each directory that has no page of its own.
    directories: BTreeMap<String, String>,
    titles: BTreeMap<String, String>,
}

impl Pages {
    fn of(root: &Path) -> Result<Self, String> {
        let mut places = BTreeMap::new();
        for name in ["README.md", "ARCHITECTURE.md", "RELIABILITY.md", "CHANGELOG.md"] {
            places.insert(name.to_string(), name.to_string());
        }
        places.insert("examples/README.md".to_string(), "examples.md".to_string());
        let mut directories = vec![root.join("docs")];
        while let Some(directory) = directories.pop() {
            let all = fs::read_dir(&directory).map_err(|e| format!("{directory:?}: {e}"))?;
            for path in all.filter_map(|entry| Some(entry.ok()?.path())) {
                let kind = path.extension().and_then(|kind| kind.to_str()).unwrap_or_default();
                if path.is_dir() {
                    directories.push(path);
                } else if kind == "md" || ASSETS.contains(&kind) {
                    let path = path.strip_prefix(root).unwrap_or(&path);
                    let path = path.to_string_lossy().into_owned();
                    let place = path.trim_start_matches("docs/").to_string();
                    places.insert(path, place);
                }
            }
        }
        places.remove("docs/SUMMARY.md");
        let mut pages = Pages { places, directories: BTreeMap::new(), titles: BTreeMap::new() };
        for from in pages.places.keys().filter(|path| is_page(path)) {
            let text = fs::read_to_string(root.join(from)).map_err(|e| format!("{from}: {e}"))?;
            pages.titles.insert(from.clone(), title(&text).to_string());
        }
        pages.list_directories();
        Ok(pages)
    }

    fn list_directories(&mut self) {
        let of_docs = self.places.iter().filter(|(from, _)| is_page(from));
        let names: BTreeSet<&str> = of_docs.map(|(_, to)| parent(to)).collect();
        for name in names.into_iter().filter(|name| !name.is_empty()) {
            if !self.places.contains_key(&format!("docs/{name}/README.md")) {
                let pages = self.below(name).map(|(from, to)| {
                    let file = to.rsplit('/').next().unwrap_or(to);
                    format!("- [{}]({file})\n", self.titles[from])
                });
                let mut heading = name.to_string();
                heading[..1].make_ascii_uppercase();
                let listed = format!("# {heading}\n\n{}", pages.collect::<String>());
                self.directories.insert(name.to_string(), listed);
            }
        }
    }

    /// Pages directly in a directory of the site, but its README.
    fn below<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a String, &'a String)> {
        let is_below = move |to: &str| parent(to) == name && !to.ends_with("README.md");
        self.places.iter().filter(move |(from, to)| is_page(from) && is_below(to))
    }

    /// Where the site has what `path` means, if it does.
    fn place(&self, path: &str) -> Option<String> {
        let inside = path.trim_end_matches('/');
        let readme = self.places.get(&format!("{inside}/README.md"));
        let directory = inside.strip_prefix("docs/").unwrap_or_default();
        let listed = self.directories.contains_key(directory);
        let listed = listed.then(|| format!("{directory}/index.md"));
        self.places.get(inside).or(readme).cloned().or(listed)
    }

    /// A page with the site's links.
    fn with_links(&self, from: &str, text: &str) -> String {
        let (mut fenced, mut done) = (false, String::with_capacity(text.len()));
        for line in text.lines() {
            let fence = line.trim_start().starts_with("```");
            fenced ^= fence;
            let line = if fenced || fence { line.to_string() } else { self.line(from, line) };
            done += &line;
            done.push('\n');
        }
        done
    }

    fn line(&self, from: &str, line: &str) -> String {
        let mut parts = line.split("](");
        let mut done = parts.next().unwrap_or_default().to_string();
        for part in parts {
            let end = part.find([')', ' ']).unwrap_or(part.len());
            let (target, rest) = part.split_at(end);
            let is_ours = !target.contains("://") && !target.starts_with('#');
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            match self.place(&resolve(from, path)) {
                _ if !is_ours => done += &format!("]({target}{rest}"),
                Some(place) => {
                    // Where mdBook puts them.
                    let place = match place.strip_suffix("README.md") {
                        Some(directory) => format!("{directory}index.html"),
                        None => place,
                    };
                    let link = relative(&self.places[from], &place);
                    let anchor = if anchor.is_empty() { "" } else { &target[path.len()..] };
                    done += &format!("]({link}{anchor}{rest}");
                }
                // No page: the words of the link stay, without brackets.
                None => match done.rfind('[') {
                    Some(open) => {
                        done.remove(open);
                        done += rest.strip_prefix(')').unwrap_or(rest);
                    }
                    None => done += rest,
                },
            }
        }
        done
    }

    /// The order of the site; a directory stands for all of its pages.
    fn summary(&self, root: &Path) -> Result<String, String> {
        let path = root.join("docs/SUMMARY.md");
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let (mut done, mut listed) = (String::new(), BTreeSet::new());
        for line in text.lines() {
            let Some((words, target)) = line.split_once("](") else {
                done += &format!("{line}\n");
                continue;
            };
            let target = resolve("docs/SUMMARY.md", target.trim_end_matches(')'));
            let place = self.place(&target).ok_or(format!("docs/SUMMARY.md: no page {target}"))?;
            done += &format!("{words}]({place})\n");
            listed.insert(place.clone());
            if !self.places.contains_key(&target) || target.ends_with("decisions/README.md") {
                for (from, to) in self.below(parent(&place)) {
                    done += &format!("  - [{}]({to})\n", self.titles[from]);
                    listed.insert(to.clone());
                }
            }
        }
        let pages = self.places.iter().filter(|(from, _)| is_page(from));
        let missing: Vec<&str> =
            pages.filter(|(_, to)| !listed.contains(*to)).map(|(from, _)| from.as_str()).collect();
        match missing.is_empty() {
            true => Ok(done),
            false => Err(format!("docs/SUMMARY.md does not list {}", missing.join(", "))),
        }
    }
}

/// Every link within the site that leads nowhere.
fn broken_links(site: &Path) -> Result<Vec<String>, String> {
    let (mut texts, mut directories) = (BTreeMap::new(), vec![site.to_path_buf()]);
    let mut files = BTreeSet::new();
    while let Some(directory) = directories.pop() {
        let all = fs::read_dir(&directory).map_err(|e| format!("{}: {e}", directory.display()))?;
        for path in all.filter_map(|entry| Some(entry.ok()?.path())) {
            let name = path.strip_prefix(site).unwrap_or(&path).to_string_lossy().into_owned();
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            if name.ends_with(".html") {
                let text = fs::read_to_string(&path).map_err(|e| format!("{name}: {e}"))?;
                texts.insert(name.clone(), text);
            }
            files.insert(name);
        }
    }
    let mut broken = Vec::new();
    // The page of everything repeats them all; the page for what is not there has a base.
    let single = ["print.html", "404.html"];
    for (name, text) in texts.iter().filter(|(name, _)| !single.contains(&name.as_str())) {
        for link in attributes(text, "href").chain(attributes(text, "src")) {
            if link.contains(':') || link.is_empty() {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let path = if path.is_empty() { name.clone() } else { resolve(name, path) };
            let is_missing = |text: &String| !text.contains(&format!("id=\"{anchor}\""));
            if !files.contains(&path) {
                broken.push(format!("{name} links to {link}, which is not there"));
            } else if !anchor.is_empty() && texts.get(&path).is_some_and(is_missing) {
                broken.push(format!("{name} links to {link}, which has no such heading"));
            }
        }
    }
    Ok(broken)
}

/// The values of an attribute in a page.
fn attributes<'a>(text: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let start = format!(" {name}=\"");
    let values = text.match_indices(&start).map(|(at, start)| &text[at + start.len()..]);
    let values: Vec<&str> = values.filter_map(|rest| rest.split('"').next()).collect();
    values.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages() -> Pages {
        let places = [("README.md", "README.md"), ("docs/a.md", "a.md"), ("docs/f/x.md", "f/x.md")];
        let places = places.map(|(from, to)| (from.to_string(), to.to_string()));
        let titles = [("docs/f/x.md".to_string(), "Format X".to_string())].into();
        let mut pages = Pages { places: places.into(), directories: BTreeMap::new(), titles };
        pages.list_directories();
        pages
    }

    #[test]
    fn links_of_the_repository_become_links_of_the_site() {
        let pages = pages();
        let line = |from: &str, line: &str| pages.line(from, line);
        assert_eq!(line("README.md", "[a](docs/a.md#x) b"), "[a](a.md#x) b");
        assert_eq!(line("docs/f/x.md", "[r](../../README.md)"), "[r](../index.html)");
        assert_eq!(
            line("docs/a.md", "see [f](f), [g](f/x.md)."),
            "see [f](f/index.md), [g](f/x.md)."
        );
        assert_eq!(
            line("docs/a.md", "[code](../crates/x.rs), [w](https://w.example)"),
            "code, [w](https://w.example)"
        );
        assert_eq!(line("docs/a.md", "[here](#there)"), "[here](#there)");
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        let site = tempfile::tempdir().unwrap();
        let page =
            |name: &str, text: &str| write(&site.path().join(name), text.as_bytes()).unwrap();
        page("a.html", r##"<a href="b.html#good">b</a> <a href="#x">x</a> <img src="i.svg">"##);
        page(
            "b.html",
            r#"<h1 id="good">b</h1> <a href="d/c.html">c</a> <a href="https://w.example">w</a>"#,
        );
        let broken = broken_links(site.path()).unwrap();
        let expected = [
            "a.html links to #x, which has no such heading",
            "a.html links to i.svg, which is not there",
            "b.html links to d/c.html, which is not there",
        ];
        assert_eq!(broken, expected);
    }
}
