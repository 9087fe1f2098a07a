//! What both the command line and the prompt can do.

use crate::args::Verb;
use crate::objects::{Found, check_all};
use crate::picture::Picture;
use crate::resp::{Resp, database_of, password};
use crate::session::Session;
use crate::text::object_of;
use crate::{expiry, scan, text};
use serde_json::{Map, Value, json};
use silica::tune::Workload;
use silica::{BackupReport, Count, Error, ErrorKind, Result, expires_after};
use silica_console::{Global, Output};
use std::ffi::OsString;
use std::path::Path;
use std::time::Instant;

/// Does what `verb` says.
pub(crate) fn run(verb: &Verb, session: &Session, output: &mut Output) -> Result<()> {
    if verb.remote().is_some_and(|remote| remote.addr.is_some()) {
        let message = "this store is open here; --addr is for `silica VERB --addr` by itself";
        return Err(Error::new(ErrorKind::Config, message));
    }
    match verb {
        Verb::Get { keys, form, raw } => get(session, keys, form.hex, *raw, output),
        Verb::Put { key, value, ttl, form, durability } => {
            let (key, value) = (text::parse(key, form.hex)?, text::parse(value, form.hex)?);
            let keyspace = session.keyspace()?;
            let durability = durability.map_or(keyspace.durability(), Into::into);
            expiry::put(keyspace, (&key, &value), *ttl, durability, output)
        }
        Verb::Ttl { keys, form } => {
            expiry::ttl(session.keyspace()?, &parse_all(keys, form.hex)?, form.hex, output)
        }
        Verb::Expire { key, ttl, form } => {
            let key = text::parse(key, form.hex)?;
            expiry::expire(session.keyspace()?, &key, *ttl, form.hex, output)
        }
        Verb::Persist { keys, form } => {
            expiry::persist(session.keyspace()?, &parse_all(keys, form.hex)?, form.hex, output)
        }
        Verb::Del { keys, form, durability } => {
            let keys = parse_all(keys, form.hex)?;
            let keyspace = session.keyspace()?;
            let durability = durability.map_or(keyspace.durability(), Into::into);
            expiry::delete(keyspace, &keys, durability, output)
        }
        Verb::Scan(args) => scan::run(args, session.keyspace()?, output),
        Verb::Count { exact, .. } => count(session, *exact, output),
        Verb::Stats { .. } => stats(session, output),
        Verb::Compact { .. } => compact(session, output),
        Verb::Sketch { addr: None, .. } => {
            let keyspace = session.keyspace()?;
            show_sketch(keyspace.name(), &keyspace.workload()?, output)
        }
        Verb::Sketch { addr: Some(_), .. } => {
            let message = "this store is open here; --addr is for `silica sketch` by itself";
            Err(Error::new(ErrorKind::Config, message))
        }
        Verb::Verify { .. } => verify(session, output),
        Verb::Inspect { svg, .. } => {
            svg.iter().try_for_each(|file| draw(session, file))?;
            inspect(session, output)
        }
        Verb::Backup { target, from, update, .. } => {
            let report = match from {
                Some(from) => session.store.backup_since(target, from)?,
                None if *update => session.store.update_backup(target)?,
                None => session.store.backup(target)?,
            };
            show_copy("backed up", &report, output)
        }
    }
}

/// Refuses keys and values that cannot be read, before a store is opened or created for them.
pub(crate) fn check(verb: &Verb) -> Result<()> {
    match verb {
        Verb::Get { keys, form, .. }
        | Verb::Del { keys, form, .. }
        | Verb::Ttl { keys, form }
        | Verb::Persist { keys, form } => parse_all(keys, form.hex).map(drop),
        Verb::Expire { key, form, .. } => text::parse(key, form.hex).map(drop),
        Verb::Put { key, value, ttl, form, .. } => {
            ttl.map(expires_after).transpose()?;
            text::parse(key, form.hex).and_then(|_| text::parse(value, form.hex)).map(drop)
        }
        Verb::Scan(args) => scan::range(args).map(drop),
        _ => Ok(()),
    }
}

fn parse_all(keys: &[OsString], hex: bool) -> Result<Vec<Vec<u8>>> {
    keys.iter().map(|k| text::parse(k, hex)).collect()
}

fn get(
    session: &Session,
    keys: &[OsString],
    hex: bool,
    raw: bool,
    output: &mut Output,
) -> Result<()> {
    let keys = parse_all(keys, hex)?;
    let values = session.keyspace()?.get_many(&keys)?;
    let mut entries = Vec::new();
    for (key, value) in keys.iter().zip(&values) {
        let mut entry = Map::new();
        text::insert_bytes(&mut entry, "key", key, hex);
        entry.insert("found".into(), value.is_some().into());
        match value {
            Some(value) => {
                text::insert_bytes(&mut entry, "value", value, hex);
                if raw { output.raw(value)? } else { output.line(text::show(value, hex))? }
            }
            None => expiry::missing(key, hex, output),
        }
        entries.push(Value::Object(entry));
    }
    output.entries(entries);
    Ok(())
}

fn count(session: &Session, exact: bool, output: &mut Output) -> Result<()> {
    show_count(session.keyspace()?.count(exact)?, output)
}

pub(crate) fn show_count(count: Count, output: &mut Output) -> Result<()> {
    if count.low == count.high {
        output.line(count.estimate.to_string())?;
    } else {
        let line = format!(
            "about {} (between {} and {}; --exact walks the store)",
            count.estimate, count.low, count.high
        );
        output.line(line)?;
    }
    let object = output.object();
    object.insert("count".into(), count.estimate.into());
    object.insert("low".into(), count.low.into());
    object.insert("high".into(), count.high.into());
    object.insert("exact".into(), (count.low == count.high).into());
    Ok(())
}

fn stats(session: &Session, output: &mut Output) -> Result<()> {
    let keyspace = session.keyspace()?;
    let metrics = keyspace.metrics()?;
    let engine = keyspace.engine().descriptor().name;
    output.line(format!("keyspace '{}', engine {engine}", keyspace.name()))?;
    // In the list's order, which groups what belongs together.
    for metric in silica::metrics() {
        if let Some(value) = metrics.0.get(metric.name) {
            output.line(format!("{:<36} {:>16}  {}", metric.name, number(*value), metric.doc))?;
        }
    }
    let values = object_of(metrics.0.iter().map(|(n, v)| ((*n).to_string(), json!(v))));
    let object = output.object();
    object.insert("keyspace".into(), keyspace.name().into());
    object.insert("engine".into(), engine.into());
    object.insert("metrics".into(), values.into());
    Ok(())
}

/// What is asked of a keyspace of the server at `address`.
pub(crate) fn sketch_of_server(
    global: &Global,
    address: &str,
    password_file: Option<&Path>,
    output: &mut Output,
) -> Result<()> {
    let database = database_of(&global.keyspace)?;
    let mut server = Resp::connect(address, password(password_file)?.as_deref())?;
    let text = server.ask(&["SILICA.SKETCH", &database])?;
    let workload: Workload = String::from_utf8_lossy(&text).parse()?;
    show_sketch(&global.keyspace, &workload, output)
}

/// What is asked of the keyspace, in the text form that other commands read.
fn show_sketch(keyspace: &str, workload: &Workload, output: &mut Output) -> Result<()> {
    output.raw(workload.to_string().as_bytes())?;
    let pairs = |points: &[(f64, f64)]| json!(points);
    let mix = &workload.mix;
    let object = output.object();
    object.insert("keyspace".into(), keyspace.into());
    object.insert("keys".into(), workload.keys.into());
    object.insert(
        "mix".into(),
        json!({
            "get_hits": mix.get_hits,
            "get_misses": mix.get_misses,
            "inserts": mix.inserts,
            "overwrites": mix.overwrites,
            "deletes": mix.deletes,
            "scans": mix.scans,
            "modifies": mix.modifies,
        }),
    );
    object.insert("synced".into(), workload.synced.into());
    object.insert("burst".into(), workload.burst.into());
    object.insert("access".into(), workload.access.to_string().into());
    object.insert("key_bytes".into(), pairs(workload.key_bytes.parts()));
    object.insert("value_bytes".into(), pairs(workload.value_bytes.parts()));
    object.insert("scan_entries".into(), pairs(workload.scan_entries.parts()));
    object.insert("working_set".into(), pairs(&workload.working_set.points));
    object.insert("text".into(), workload.to_string().into());
    Ok(())
}

pub(crate) fn number(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.4}") }
}

/// Rewrites what it can, and does all background work.
fn compact(session: &Session, output: &mut Output) -> Result<()> {
    let started = Instant::now();
    let keyspace = session.keyspace()?;
    if keyspace.engine().descriptor().capabilities.ordered {
        keyspace.compact_range(..)?;
    }
    keyspace.settle()?;
    let seconds = started.elapsed().as_secs_f64();
    output.line(format!("compacted keyspace '{}' in {seconds:.2} s", keyspace.name()))?;
    output.object().insert("ok".into(), true.into());
    output.object().insert("seconds".into(), seconds.into());
    Ok(())
}

fn verify(session: &Session, output: &mut Output) -> Result<()> {
    let started = Instant::now();
    session.store.verify()?;
    let mut found = Found::default();
    let list = session.store.keyspaces()?;
    for info in &list {
        check_all(&session.store.keyspace(&info.name)?, &mut found)?;
    }
    let (keyspaces, seconds) = (list.len(), started.elapsed().as_secs_f64());
    output.line(format!("all well: {keyspaces} keyspaces checked in {seconds:.2} s"))?;
    if found != Found::default() {
        let Found { objects, elements, pages, dead_pages } = found;
        output.line(format!(
            "{objects} hashes, lists, sets, sorted sets and streams have {elements} elements on \
             {pages} pages; {dead_pages} pages wait to be removed"
        ))?;
    }
    let object = output.object();
    object.insert("ok".into(), true.into());
    object.insert("keyspaces".into(), keyspaces.into());
    object.insert("objects".into(), found.objects.into());
    object.insert("elements".into(), found.elements.into());
    object.insert("pages".into(), found.pages.into());
    object.insert("dead_pages".into(), found.dead_pages.into());
    object.insert("seconds".into(), seconds.into());
    Ok(())
}

/// Draws the buckets of the keyspace into a file.
fn draw(session: &Session, file: &Path) -> Result<()> {
    let keyspace = session.keyspace()?;
    silica::refuse_within_store(file, "the picture")?;
    let Some(picture) = Picture::of(&keyspace.inspect()?) else {
        let engine = keyspace.engine().descriptor().name;
        let message = format!(
            "keyspace '{}' has no buckets to be drawn: its engine is {engine}, not wip",
            keyspace.name()
        );
        return Err(Error::new(ErrorKind::Unsupported, message));
    };
    std::fs::write(file, picture.svg(&format!("keyspace {}", keyspace.name())))
        .map_err(|e| Error::io(format!("writing {}", file.display()), e))
}

fn inspect(session: &Session, output: &mut Output) -> Result<()> {
    let mut keyspaces = Vec::new();
    for info in session.store.keyspaces()? {
        let text = session.store.keyspace(&info.name)?.inspect()?;
        output.line(format!("keyspace '{}' in {}", info.name, info.directory))?;
        output.line(format!("  engine: {}", info.engine))?;
        for (name, value) in &info.options {
            output.line(format!("  option {name}: {value}"))?;
        }
        if let Some(picture) = Picture::of(&text) {
            picture.lines().iter().try_for_each(|l| output.line(format!("  {l}")))?;
        }
        text.lines().try_for_each(|l| output.line(format!("  {l}")))?;
        let options = object_of(info.options.into_iter().map(|(n, v)| (n, v.into())));
        let fields = text.lines().filter_map(|l| l.split_once(": "));
        let fields = object_of(fields.map(|(n, v)| (n.trim().to_string(), v.into())));
        keyspaces.push(json!({
            "name": info.name,
            "engine": info.engine,
            "directory": info.directory,
            "options": options,
            "structure": fields,
        }));
    }
    let path = session.store.path().display().to_string();
    output.object().insert("path".into(), path.into());
    output.object().insert("keyspaces".into(), keyspaces.into());
    Ok(())
}

/// Reports a backup or a restore.
pub(crate) fn show_copy(done: &str, report: &BackupReport, output: &mut Output) -> Result<()> {
    output.line(format!(
        "{done} {} keyspaces: {} files linked, {} written with {} bytes",
        report.keyspaces, report.files_linked, report.files_written, report.bytes_written
    ))?;
    if report.empty > 0 {
        output.line(format!(
            "{} of the keyspaces are in memory: they are empty in it; `silica export` writes what \
             one holds",
            report.empty
        ))?;
    }
    let object = output.object();
    object.insert("ok".into(), true.into());
    object.insert("keyspaces".into(), report.keyspaces.into());
    object.insert("keyspaces_empty".into(), report.empty.into());
    object.insert("files_linked".into(), report.files_linked.into());
    object.insert("files_shared".into(), report.files_shared.into());
    object.insert("files_written".into(), report.files_written.into());
    object.insert("bytes_written".into(), report.bytes_written.into());
    Ok(())
}
