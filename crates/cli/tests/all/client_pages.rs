//! The examples in docs/clients, with the clients that they name, against the real binary.

use crate::support::{Server, scratch};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A page of docs/clients.
struct Page(String);

impl Page {
    fn read(name: &str) -> Self {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/clients");
        Page(std::fs::read_to_string(docs.join(name)).expect("the page is there"))
    }

    /// Its block in this language.
    fn block(&self, language: &str) -> &str {
        let begin = format!("```{language}\n");
        let (_, rest) = self.0.split_once(&begin).expect("a block in this language");
        rest.split_once("```").expect("an end").0
    }

    /// What its commands install, such as `redis@6.3.1`.
    fn wanted(&self, command: &str) -> &str {
        let line = self.block("sh").lines().find_map(|line| line.strip_prefix(command));
        line.expect("the page says how to install the client").trim()
    }
}

pub(crate) fn run(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output().map_err(|e| format!("{command:?}: {e}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(text(&[output.stdout, output.stderr].concat())),
    }
}

/// A directory that outlives the test, with what `fetch` puts there; `None`, and a printed reason,
/// if that cannot be had here.
pub(crate) fn fetched(page: &str, fetch: impl Fn(&Path) -> Result<(), String>) -> Option<PathBuf> {
    let binary = std::env::current_exe().expect("a test knows its binary");
    let place = binary.with_file_name(format!("client-of-{page}"));
    let done = place.join("complete");
    if done.exists() {
        return Some(place);
    }
    let _ = std::fs::remove_dir_all(&place);
    std::fs::create_dir_all(&place).expect("a directory");
    if let Err(why) = fetch(&place) {
        println!("left out: what {page} needs cannot be had here: {why}");
        return None;
    }
    std::fs::write(done, "").expect("written");
    Some(place)
}

/// Writes the page's example, for the server's port, into `file`; runs `command` and compares what
/// it says with what the page says.
fn must_print(page: &Page, language: &str, file: &Path, command: &mut Command) {
    let server = Server::start(&scratch(&format!("{language}-page")).join("data"), &[]);
    let code = page.block(language).replace("7379", &server.port.to_string());
    std::fs::write(file, code).expect("written");
    let said = run(command).unwrap_or_else(|said| panic!("{language}: {said}"));
    assert_eq!(said, page.block("text"), "{language}");
    server.stop();
}

#[test]
fn go() {
    let page = Page::read("go.md");
    let place = fetched("go", |place| {
        run(Command::new("go").current_dir(place).args(["mod", "init", "example"]))?;
        let get = ["get", page.wanted("go get ")];
        run(Command::new("go").current_dir(place).args(get)).map(drop)
    });
    let Some(place) = place else { return };
    let mut go = Command::new("go");
    go.current_dir(&place).args(["run", "."]);
    must_print(&page, "go", &place.join("main.go"), &mut go);
}

#[test]
fn node() {
    let page = Page::read("node.md");
    let place = fetched("node", |place| {
        let manifest = place.join("package.json");
        std::fs::write(manifest, "{\"private\": true}\n").map_err(|e| e.to_string())?;
        let install = ["install", "--no-audit", "--no-fund", page.wanted("npm install ")];
        run(Command::new("npm").current_dir(place).args(install)).map(drop)
    });
    let Some(place) = place else { return };
    let mut node = Command::new("node");
    node.current_dir(&place).arg("example.mjs");
    must_print(&page, "js", &place.join("example.mjs"), &mut node);
}

#[test]
fn java() {
    let page = Page::read("java.md");
    let place = fetched("java", |place| {
        std::fs::write(place.join("pom.xml"), page.block("xml")).map_err(|e| e.to_string())?;
        let copy = ["-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"];
        run(Command::new("mvn").current_dir(place).args(copy)).map(drop)
    });
    let Some(place) = place else { return };
    let mut java = Command::new("java");
    java.current_dir(&place).args(["-Xmx128m", "-cp", "lib/*", "Example.java"]);
    // A logger that says that there is none writes to the other stream.
    must_print(&page, "java", &place.join("Example.java"), &mut java);
}
