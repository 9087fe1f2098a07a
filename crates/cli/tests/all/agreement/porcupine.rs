//! A second checker: porcupine, in Go, from the module proxy. Its search shares no line with ours.

use crate::clients::source;
use crate::support::scratch;
use silica_base::test_size;
use silica_testkit::histories::{Answer, Call, History, Operation};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The program, if it could be built.
pub(crate) struct Porcupine(Option<PathBuf>);

impl Porcupine {
    /// The checker in a long run, or if `SILICA_PORCUPINE` is set; else one that says nothing.
    pub(crate) fn of_soak() -> Self {
        let is_wanted = test_size(0, 0, 1) == 1 || std::env::var_os("SILICA_PORCUPINE").is_some();
        if !is_wanted {
            return Porcupine(None);
        }
        let program = scratch("porcupine").join("check");
        let mut build = Command::new("go");
        build.args(["build", "-o"]).arg(&program).arg(".").current_dir(source("agreement"));
        let output = build.stdin(Stdio::null()).output();
        let is_built = output.as_ref().is_ok_and(|output| output.status.success());
        if !is_built {
            println!("skipped: porcupine is not built (Go, and its module proxy): {output:?}");
        }
        Porcupine(is_built.then_some(program))
    }

    /// What it says of the keys of `history` that nobody watches; `None` if it is not there.
    pub(crate) fn check(&mut self, history: &History) -> Option<Result<(), String>> {
        let program = self.0.as_ref()?;
        let is_watch = |one: &&Operation| matches!(one.call, Call::Watch | Call::Commit(_));
        let watched: BTreeSet<&[u8]> =
            history.operations.iter().filter(is_watch).map(|one| &one.key[..]).collect();
        let mut text = String::new();
        for one in history.operations.iter().filter(|one| !watched.contains(&one.key[..])) {
            push(one, &mut text);
        }
        let mut child = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it was built");
        let mut input = child.stdin.take().expect("a pipe");
        input.write_all(text.as_bytes()).expect("written");
        drop(input);
        let output = child.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        Some(if output.status.success() { Ok(()) } else { Err(said) })
    }
}

fn hex(value: Option<&[u8]>) -> String {
    let Some(value) = value else { return "-".into() };
    value.iter().fold("=".to_string(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes every write");
        text
    })
}

/// Appends the line of an operation, unless that was refused.
fn push(one: &Operation, text: &mut String) {
    let none = || "-".to_string();
    let (call, first, second) = match &one.call {
        Call::Get => ("get", none(), none()),
        Call::Put(value) => ("put", hex(Some(value)), none()),
        Call::Delete => ("delete", none(), none()),
        Call::Replace(new) => ("replace", hex(new.as_deref()), none()),
        Call::Swap { expected, new } => ("swap", hex(expected.as_deref()), hex(new.as_deref())),
        Call::Add(by) => ("add", by.to_string(), none()),
        Call::Watch | Call::Commit(_) => return,
    };
    let (answer, value) = match &one.answer {
        Answer::Done => ("done", none()),
        Answer::Was(was) => ("was", hex(was.as_deref())),
        Answer::Did(did) => ("did", did.to_string()),
        Answer::Sum(sum) => ("sum", sum.to_string()),
        Answer::Refused => return,
        Answer::Unknown => ("unknown", none()),
    };
    let Operation { thread, key, begin, end, .. } = one;
    let key = hex(Some(key));
    writeln!(text, "{thread}\t{key}\t{call}\t{first}\t{second}\t{answer}\t{value}\t{begin}\t{end}")
        .expect("a string takes every write");
}
