//! The examples and a program that does everything wrong, compiled and run.

use crate::{libraries, own};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What each example prints.
const EXAMPLES: [(&str, &str); 5] = [
    ("basics", "ann likes blue (4 bytes)\nann likes blue\nann is gone\n"),
    (
        "batches",
        "3 operations\n2 sessions\nbob's ends within a minute: yes\n\
         bob's had a limit: 1, and has none now: 1\ncid is absent: 1\n",
    ),
    (
        "ranges",
        "mars is 1.52 au\nmercury is 0.39 au\nvenus is 0.72 au\nmars is gone\nmars was 1.52 au\n\
         mars of the backup is 1.52 au\n",
    ),
    ("transactions", "conflict\nann has 50 after 2 tries\ncid has nothing\n"),
    ("cache", "1000 entries\nkey 7 has value\nkey x is absent\nputs are counted: yes\n"),
];

const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-Werror", "-pedantic"];

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// How a program is made.
struct Build<'a> {
    compiler: &'a str,
    flags: &'a [&'a str],
    /// The static library instead of the shared one.
    is_static: bool,
}

const PLAIN: Build<'_> = Build { compiler: "cc", flags: &["-std=c99"], is_static: false };

impl Build<'_> {
    /// Makes `out` of `source`.
    fn run(&self, source: &Path, out: &Path) -> Output {
        let libraries = libraries();
        let mut command = Command::new(self.compiler);
        command.args(STRICT).args(["-D_POSIX_C_SOURCE=200809L", "-O1", "-g"]).args(self.flags);
        command.arg(source).arg("-o").arg(out).arg("-I").arg(libraries);
        if self.is_static {
            command.arg("-x").arg("none").arg(libraries.join("libsilica.a"));
        } else {
            command.arg("-L").arg(libraries).arg("-lsilica");
            command.arg(format!("-Wl,-rpath,{}", libraries.display()));
        }
        command.args(crate::SYSTEM);
        command.output().expect("the compiler starts")
    }
}

fn sources() -> Vec<(PathBuf, Option<&'static str>)> {
    let examples =
        EXAMPLES.iter().map(|(name, said)| (own().join(format!("examples/{name}.c")), Some(*said)));
    examples.chain([(own().join("tests/all/misuse.c"), None)]).collect()
}

/// Makes all programs and runs them, if they are to be run.
fn all(build: &Build<'_>, runs: bool) {
    for (source, said) in sources() {
        let directory = tempfile::tempdir().expect("a directory");
        let program = directory.path().join("program");
        let made = build.run(&source, &program);
        assert!(made.status.success(), "{}: {}", source.display(), text(&made));
        if !runs {
            continue;
        }
        let output = Command::new(&program).arg(directory.path().join("data")).output();
        let output = output.expect("it starts");
        assert!(output.status.success(), "{}: {}", source.display(), text(&output));
        let said = said.unwrap_or("0 failures\n");
        assert!(text(&output).starts_with(said), "{}: {}", source.display(), text(&output));
    }
}

#[test]
fn they_run_on_the_shared_library() {
    all(&PLAIN, true);
}

#[test]
fn they_run_on_the_static_library() {
    all(&Build { is_static: true, ..PLAIN }, true);
}

#[test]
fn the_program_of_the_manual_runs() {
    let page = own().join("../../docs/c.md");
    let page = std::fs::read_to_string(page).expect("the manual is there");
    let program = page.split_once("```c\n").and_then(|(_, rest)| rest.split_once("```"));
    let directory = tempfile::tempdir().expect("a directory");
    let (source, binary) = (directory.path().join("app.c"), directory.path().join("app"));
    std::fs::write(&source, program.expect("a program").0).expect("written");
    let made = PLAIN.run(&source, &binary);
    assert!(made.status.success(), "{}", text(&made));
    let output = Command::new(binary).current_dir(directory.path()).output().expect("it starts");
    assert_eq!(text(&output), "ann likes blue\n");
}

#[test]
fn they_are_also_c11_and_cpp() {
    all(&Build { flags: &["-std=c11"], ..PLAIN }, false);
    if Command::new("c++").arg("--version").output().is_err() {
        println!("left out: there is no C++ compiler (Debian: g++)");
        return;
    }
    all(&Build { compiler: "c++", flags: &["-std=c++11", "-x", "c++"], is_static: false }, false);
}

#[test]
fn they_are_clean_under_the_address_sanitizer() {
    let sanitized = Build { flags: &["-std=c99", "-fsanitize=address,undefined"], ..PLAIN };
    let directory = tempfile::tempdir().expect("a directory");
    let empty = directory.path().join("empty.c");
    std::fs::write(&empty, "int main(void) { return 0; }\n").expect("written");
    if !sanitized.run(&empty, &directory.path().join("empty")).status.success() {
        println!("left out: the C compiler has no address sanitizer");
        return;
    }
    all(&sanitized, true);
}

#[test]
fn the_address_sanitizer_sees_what_is_not_freed() {
    let directory = tempfile::tempdir().expect("a directory");
    let source = directory.path().join("leaks.c");
    let leaks = "#include <silica.h>\nint main(void) { silica_error *e; silica_sync(0, &e); e = 0; \
                 return 0; }\n";
    std::fs::write(&source, leaks).expect("written");
    let program = directory.path().join("leaks");
    let build = Build { flags: &["-std=c99", "-fsanitize=address", "-O0"], ..PLAIN };
    if !build.run(&source, &program).status.success() {
        println!("left out: the C compiler has no address sanitizer");
        return;
    }
    let output = Command::new(program).output().expect("it starts");
    assert!(text(&output).contains("detected memory leaks"), "{}", text(&output));
}
