//! `silica why`: prediction beside measurement.

mod flash;
mod sql;

use crate::args::GetArgs;
use crate::stages;
use crate::tune::{Asked, prediction_json};
use serde_json::{Value, json};
use silica::tune::recommend::{Figure, Measured, Why, why, workload_of};
use silica::{DEFAULT_KEYSPACE, Error, ErrorKind, OptionValues, Registry, Result};
use silica_console::{Global, Output};
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a server is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// More than any page of metrics.
const PAGE_BYTES_MAX: u64 = 16 << 20;
/// What the server's names of engines' metrics begin with.
const PREFIX: &str = "silica_engine_";

/// The engine of a cache on flash, which belongs to no keyspace.
const FLASH_CACHE: &str = "dida";

/// A keyspace as it tells of itself.
struct Told {
    keyspace: String,
    engine: String,
    options: OptionValues,
    measured: Measured,
}

/// Explains the keyspace of --keyspace, or the one that `target` names.
pub(crate) fn run(
    global: &Global,
    target: Option<&str>,
    get: &GetArgs,
    output: &mut Output,
) -> Result<()> {
    if let Some(text) = &get.sql {
        return sql::run(global, target, text, output);
    }
    let path = target.filter(|target| Path::new(target).is_dir()).map(PathBuf::from);
    let is_server = target.is_some_and(|target| path.is_none() && target.contains(':'));
    let mut name = global.keyspace.clone();
    if let Some(target) = target.filter(|_| path.is_none() && !is_server) {
        name = target.to_string();
    }
    let directory = path.unwrap_or_else(|| global.directory());
    if get.key.is_some() {
        return stages::run(global, &directory, &name, get, output);
    }
    let mut asked = Asked::new(global, Some(&directory))?;
    let told = match target.filter(|_| is_server) {
        Some(address) => of_server(global, address, &name)?,
        None => of_store(global, &directory, &name, &mut asked)?,
    };
    let keys = asked.workload.keys;
    asked.workload = workload_of(&told.measured, &asked.workload);
    if told.engine == FLASH_CACHE {
        // A cache does not know how many keys are asked for.
        asked.workload.keys = keys;
    }
    if global.describe.is_none() {
        asked.notes.push(
            "how popular keys are is assumed (Zipf 0.99): say it with --describe, such as uniform"
                .into(),
        );
    }
    if told.engine == FLASH_CACHE {
        return flash::show(&told, &asked, output);
    }
    let answer = why(&asked.question(), &told.engine, &told.options, &told.measured)?;
    show(&told, &answer, &asked, output)
}

fn of_store(global: &Global, path: &Path, name: &str, asked: &mut Asked) -> Result<Told> {
    let here = Global { engine: None, describe: None, ..global.clone() };
    let store = here.open_at(path, false)?;
    let infos = store.keyspaces()?;
    let keyspace = store.existing(name)?.ok_or_else(|| {
        let known: Vec<&str> = infos.iter().map(|info| info.name.as_str()).collect();
        let message = format!("no keyspace or directory '{name}'; there are {}", known.join(", "));
        Error::new(ErrorKind::NotFound, message)
    })?;
    let metrics = keyspace.metrics()?;
    let info = infos.iter().find(|info| info.name == name);
    let pairs = info.map(|info| info.options.clone()).unwrap_or_default();
    let engine = keyspace.engine().descriptor().name.to_string();
    let options = parse(&engine, &pairs)?;
    asked.notes.push(
        "what is counted begins with this opening; of a running server, ask its --admin address"
            .into(),
    );
    let measured = metrics.0.iter().map(|(name, value)| (name.to_string(), *value));
    let measured = silica_base::compact_map(measured);
    drop(keyspace);
    store.close()?;
    Ok(Told { keyspace: name.into(), engine, options, measured })
}

fn parse(engine: &str, pairs: &[(String, String)]) -> Result<OptionValues> {
    let registry = Registry::builtin();
    let spec = registry.find(engine)?;
    let pairs = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    OptionValues::parse(spec.options, pairs)
}

/// Asks a server's admin page.
fn of_server(global: &Global, address: &str, name: &str) -> Result<Told> {
    let host = address.trim_start_matches("http://");
    let host = host.split('/').next().unwrap_or(host);
    let page = page(host)?;
    let db = match name {
        DEFAULT_KEYSPACE => "0",
        other => other.strip_prefix("db").unwrap_or(other),
    };
    let (engine, measured) = of_page(&page, db).ok_or_else(|| {
        let message = format!("the server at {host} has no open database {db} (--keyspace dbN)");
        Error::new(ErrorKind::NotFound, message)
    })?;
    let options = match &*engine {
        FLASH_CACHE => OptionValues::parse(&[], [])?,
        _ => parse(&engine, &global.set)?,
    };
    Ok(Told { keyspace: name.into(), engine, options, measured })
}

fn page(host: &str) -> Result<String> {
    let failed = |e| Error::io(format!("asking http://{host}/metrics (a server's --admin)"), e);
    let mut addresses = host.to_socket_addrs().map_err(failed)?;
    let address = addresses.next().ok_or_else(|| {
        Error::new(ErrorKind::Config, format!("'{host}' is no address; use HOST:PORT"))
    })?;
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(failed)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    let request = format!("GET /metrics HTTP/1.0\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(failed)?;
    let mut bytes = Vec::new();
    stream.take(PAGE_BYTES_MAX).read_to_end(&mut bytes).map_err(failed)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    if !text.starts_with("HTTP/1") || !text.contains(PREFIX) {
        let message = format!("{host} is no --admin address of a silica server");
        return Err(Error::new(ErrorKind::Config, message));
    }
    Ok(text)
}

/// Engine and metrics of database `db` in the text format of Prometheus.
fn of_page(page: &str, db: &str) -> Option<(String, Measured)> {
    let (mut engine, mut measured) = (None, Measured::new());
    for line in page.lines().filter_map(|line| line.strip_prefix(PREFIX)) {
        let Some((name, rest)) = line.split_once('{') else { continue };
        let Some((labels, value)) = rest.split_once("} ") else { continue };
        if !labels.split(',').any(|label| label == format!("db=\"{db}\"")) {
            continue;
        }
        let of = labels.split(',').find_map(|label| label.strip_prefix("engine=\""));
        engine = of.map(|of| of.trim_end_matches('"').to_string()).or(engine);
        if let Ok(value) = value.trim().parse() {
            measured.insert(name.trim_end_matches("_total").to_string(), value);
        }
    }
    engine.map(|engine| (engine, measured))
}

fn show(told: &Told, answer: &Why, asked: &Asked, output: &mut Output) -> Result<()> {
    output.line(format!("keyspace '{}', engine {}", told.keyspace, told.engine))?;
    answer.to_string().lines().try_for_each(|line| output.line(line))?;
    asked.notes.iter().try_for_each(|note| output.line(format!("note: {note}")))?;
    json_of(told, answer, asked, output);
    Ok(())
}

/// A figure for programs.
fn figure_json(figure: &Figure) -> Value {
    json!({
        "name": figure.name,
        "predicted": figure.predicted,
        "measured": figure.measured,
        "drift_percent": figure.drift_percent(),
    })
}

fn json_of(told: &Told, answer: &Why, asked: &Asked, output: &mut Output) {
    let figures: Vec<Value> = answer.figures.iter().map(figure_json).collect();
    let stalls = answer.stalls.iter().map(|stall| {
        json!({
            "cause": stall.cause,
            "term": stall.term,
            "meaning": stall.meaning,
            "writes": stall.writes,
            "share": stall.share,
        })
    });
    let what_if = answer.what_if.iter().map(|other| {
        json!({
            "option": other.option,
            "value": other.shown,
            "prediction": prediction_json(&other.prediction),
        })
    });
    let extra = answer.extra_bytes.as_ref();
    let extra = extra.map(|(term, bytes)| json!({ "term": term, "bytes_per_byte": bytes }));
    let object = output.object();
    object.insert("keyspace".into(), told.keyspace.clone().into());
    object.insert("engine".into(), told.engine.clone().into());
    object.insert("figures".into(), figures.into());
    object.insert("extra_bytes".into(), extra.into());
    object.insert("stalls".into(), stalls.collect());
    object.insert("prediction".into(), prediction_json(&answer.prediction));
    object.insert("what_if".into(), what_if.collect());
    object.insert("advice".into(), answer.advice.clone().into());
    object.insert("notes".into(), asked.notes.clone().into());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_metrics_is_read() {
        let page = "HTTP/1.1 200 OK\r\n\r\n# TYPE silica_engine_gets_total counter\n\
                    silica_engine_gets_total{db=\"0\",engine=\"wip\"} 12\n\
                    silica_engine_gets_total{db=\"10\",engine=\"silt\"} 99\n\
                    silica_engine_runs{db=\"0\",engine=\"wip\"} 3.5\nnonsense\n\
                    silica_engine_x{db=\"0\"\n";
        let (engine, measured) = of_page(page, "0").unwrap();
        assert_eq!(engine, "wip");
        assert_eq!(measured, Measured::from([("gets".into(), 12.0), ("runs".into(), 3.5)]));
        assert_eq!(of_page(page, "10").unwrap().0, "silt");
        assert!(of_page(page, "1").is_none());
    }
}
