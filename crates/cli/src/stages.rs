//! `silica why --get KEY`: the stages that a get goes through, and what each takes.

use crate::args::GetArgs;
use crate::resp::database_of;
use crate::text::object_of;
use serde_json::{Value, json};
use silica::{Error, ErrorKind, Result, StageTimes};
use silica_console::{Global, Output};
use std::path::Path;

/// What one get said.
#[derive(Default)]
struct Told {
    engine: String,
    value_bytes: Option<u64>,
    /// Stage, nanoseconds, and how often it was entered.
    stages: Vec<(String, u64, u64)>,
}

impl Told {
    fn new(engine: &str, value: Option<&[u8]>, times: &StageTimes) -> Self {
        let stages = times
            .iter()
            .map(|(stage, time)| (stage.name().to_string(), time.nanoseconds, time.times));
        Told {
            engine: engine.into(),
            value_bytes: value.map(|value| value.len() as u64),
            stages: stages.collect(),
        }
    }

    /// What a server answers to `SILICA.STAGES`.
    fn of_text(text: &str) -> Option<Self> {
        let mut told = Told::default();
        for line in text.lines() {
            let mut words = line.split(' ');
            match words.next()? {
                "engine" => told.engine = words.next()?.into(),
                "value_bytes" => told.value_bytes = Some(words.next()?.parse().ok()?),
                "stage" => {
                    let name = words.next()?.into();
                    let mut number = || words.next()?.parse().ok();
                    told.stages.push((name, number()?, number()?));
                }
                _ => {}
            }
        }
        Some(told)
    }

    fn of(&self, stage: &str) -> (u64, u64) {
        let found = self.stages.iter().find(|(name, ..)| name == stage);
        found.map_or((0, 0), |(_, nanoseconds, times)| (*nanoseconds, *times))
    }

    fn nanoseconds(&self) -> u64 {
        self.stages.iter().map(|(_, nanoseconds, _)| nanoseconds).sum()
    }

    fn json(&self) -> Value {
        let stages = self.stages.iter().map(|(name, nanoseconds, times)| {
            (name.clone(), json!({ "nanoseconds": nanoseconds, "times": times }))
        });
        json!({ "nanoseconds": self.nanoseconds(), "stages": object_of(stages) })
    }
}

/// Reads the key of `get` twice, of the store in `path` or of a server.
pub(crate) fn run(
    global: &Global,
    path: &Path,
    keyspace: &str,
    get: &GetArgs,
    output: &mut Output,
) -> Result<()> {
    let key = get.key.as_deref().unwrap_or_default();
    let told = match get.remote.connect(global)? {
        Some(mut server) => {
            server.ask(&["SELECT", &database_of(keyspace)?])?;
            let mut ask = || {
                let text = server.ask(&["SILICA.STAGES", key])?;
                Told::of_text(&String::from_utf8_lossy(&text)).ok_or_else(|| {
                    Error::new(ErrorKind::Io, "the server does not say where a get spends its time")
                })
            };
            [ask()?, ask()?]
        }
        None => of_store(global, path, keyspace, key)?,
    };
    show(key, &told, output)
}

fn of_store(global: &Global, path: &Path, name: &str, key: &str) -> Result<[Told; 2]> {
    let here = Global { engine: None, describe: None, ..global.clone() };
    let store = here.open_at(path, false)?;
    let keyspace = store.existing(name)?.ok_or_else(|| {
        Error::new(ErrorKind::NotFound, format!("no keyspace '{name}'; `silica keyspace list`"))
    })?;
    let engine = keyspace.engine().descriptor().name;
    let get = || -> Result<Told> {
        let (value, times) = keyspace.get_staged(key)?;
        Ok(Told::new(engine, value.as_deref(), &times))
    };
    let told = [get()?, get()?];
    drop(keyspace);
    store.close()?;
    Ok(told)
}

fn show(key: &str, told: &[Told; 2], output: &mut Output) -> Result<()> {
    let [first, again] = told;
    let found = match again.value_bytes {
        Some(bytes) => format!("{bytes} bytes"),
        None => "not there".into(),
    };
    output.line(format!("key '{key}' of engine {}: {found}", again.engine))?;
    output.line(format!(
        "{:8} {:>12} {:>6} {:>12} {:>6}",
        "stage", "first, us", "", "again, us", ""
    ))?;
    let us = |nanoseconds: u64| format!("{:.1}", nanoseconds as f64 / 1e3);
    for stage in silica::Stage::ALL {
        let (one, two) = (first.of(stage.name()), again.of(stage.name()));
        if one.0 + two.0 > 0 {
            let (one, two) =
                ((us(one.0), format!("{}x", one.1)), (us(two.0), format!("{}x", two.1)));
            let line =
                format!("{:8} {:>12} {:>6} {:>12} {:>6}", stage.name(), one.0, one.1, two.0, two.1);
            output.line(line)?;
        }
    }
    let all = (us(first.nanoseconds()), us(again.nanoseconds()));
    output.line(format!("{:8} {:>12} {:>6} {:>12}", "all", all.0, "", all.1))?;
    if again.value_bytes.is_none() {
        output.missing();
    }
    let object = output.object();
    object.insert("engine".into(), again.engine.clone().into());
    object.insert("value_bytes".into(), again.value_bytes.into());
    object.insert("first".into(), first.json());
    object.insert("again".into(), again.json());
    Ok(())
}
