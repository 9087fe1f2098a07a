//! `silica export` and `silica import`: the entries of a keyspace, with their expiry and user bits,
//! as a file, and back.

use crate::load::{Plan, run_plan};
use crate::objects::{Stored, each_entry};
use crate::records::{Encoder, Entry, FileFormat};
use crate::remote::{Remote, RemoteArgs};
use crate::resp::database_of;
use crate::session::Session;
use clap::Args;
use indicatif::ProgressBar;
use silica::{EntryRef, Error, ErrorKind, Keyspace, Result};
use silica_console::values::size;
use silica_console::{Global, Output, has_terminal};
use silica_proto::rdb::{self, Event, FileReader, Restored, restore_any};
use silica_types::{Kind, Object, is_inner, is_marked, to_rdb};
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Bytes that are written at a time.
const WRITE_BYTES: usize = 1 << 20;
/// Entries that a server is asked for at a time.
const ENTRIES_ASKED: &str = "1000";
/// Longest string in a server's reply.
const STRING_BYTES_MAX: usize = 1 << 30;

#[derive(Args)]
pub(crate) struct ExportArgs {
    /// The file, which is replaced when it is complete; - (or none) is standard output.
    pub(crate) file: Option<PathBuf>,
    /// How entries are written; by the file's name where it is not given, else tsv.
    #[arg(long, value_enum)]
    pub(crate) format: Option<FileFormat>,
    /// In ndjson, what is no text is base64 instead of hexadecimal digits.
    #[arg(long)]
    pub(crate) base64: bool,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

#[derive(Args)]
pub(crate) struct ImportArgs {
    /// The file; - is standard input (which cannot be resumed).
    pub(crate) file: PathBuf,
    /// How entries are written; by the file's name where it is not given.
    #[arg(long, value_enum)]
    pub(crate) format: Option<FileFormat>,
    /// Go on where an import of the file that was interrupted stood.
    #[arg(long)]
    pub(crate) resume: bool,
    /// Take only the entries of this database of an RDB file; without it those of database N go
    /// to the keyspace dbN.
    #[arg(long, value_name = "N")]
    pub(crate) database: Option<u64>,
    /// Make what is imported durable, and remember the position, every so many bytes.
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "32MiB")]
    pub(crate) sync_every: u64,
    /// Import into the server at HOST:PORT, or the path of its unix socket, in place of a store:
    /// Silica's or Redis's.
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["resume", "sync_every"])]
    pub(crate) to: Option<String>,
    /// File whose first line is that server's password.
    #[arg(long, value_name = "FILE", requires = "to")]
    pub(crate) password_file: Option<PathBuf>,
    /// User to log in as, if not the default one.
    #[arg(long, value_name = "NAME", requires = "password_file")]
    pub(crate) user: Option<String>,
}

/// The format that the name of `file` says.
fn format_of(file: &Path) -> Option<FileFormat> {
    let ending = file.extension()?.to_str()?.to_ascii_lowercase();
    Some(match ending.as_str() {
        "tsv" => FileFormat::Tsv,
        "csv" => FileFormat::Csv,
        "ndjson" | "jsonl" => FileFormat::Ndjson,
        "rdb" => FileFormat::Rdb,
        "lp" => FileFormat::Lp,
        _ => return None,
    })
}

/// The format of the file that is imported.
pub(crate) fn format_to_import(args: &ImportArgs) -> Result<FileFormat> {
    args.format.or_else(|| format_of(&args.file)).ok_or_else(|| {
        let message = format!(
            "the name of {} does not tell its format; give --format tsv, csv, ndjson, rdb, plain \
             or lp",
            args.file.display()
        );
        Error::new(ErrorKind::Config, message)
    })
}

/// Imports a file into a store.
pub(crate) fn import(global: &Global, args: &ImportArgs, output: &mut Output) -> Result<()> {
    let format = format_to_import(args)?;
    let plan = Plan {
        file: &args.file,
        format,
        resume: args.resume,
        sync_every: args.sync_every,
        database: args.database,
        done: "imported",
    };
    run_plan(global, &plan, output)
}

/// Exports a keyspace of a store, or a database of a server.
pub(crate) fn export(global: &Global, args: &ExportArgs, output: &mut Output) -> Result<()> {
    let file = args.file.as_deref().filter(|file| *file != Path::new("-"));
    let format = args.format.or_else(|| format_of(file?)).unwrap_or(FileFormat::Tsv);
    if matches!(format, FileFormat::Plain | FileFormat::Lp) {
        let message = "export writes tsv, csv, ndjson or rdb, which keep the expiry";
        return Err(Error::new(ErrorKind::Config, message));
    }
    if file.is_none() && format == FileFormat::Rdb && std::io::stdout().is_terminal() {
        let message = "an RDB file is no text; give a file, or a pipe";
        return Err(Error::new(ErrorKind::Config, message));
    }
    let started = Instant::now();
    let mut export = match args.remote.connect(global)? {
        Some(mut server) => {
            let database = database_of(&global.keyspace)?;
            let estimate = server.count(&database)?;
            let mut export = Export::begin(args, format, file, estimate)?;
            of_server(&mut server, &database, &mut export)?;
            export
        }
        None => {
            let session = Session::open(global, false)?;
            let keyspace = session.keyspace()?;
            let mut export = Export::begin(args, format, file, keyspace.count(false)?.estimate)?;
            export.database = database_of(keyspace.name()).map_or(0, |n| n.parse().unwrap_or(0));
            of_keyspace(keyspace, &mut export)?;
            session.close()?;
            export
        }
    };
    export.end()?;
    let (entries, bytes) = (export.entries, export.bytes);
    let seconds = started.elapsed().as_secs_f64();
    if let Some(file) = file {
        output.line(format!(
            "exported {entries} entries, {bytes} bytes, to {} in {seconds:.2} s",
            file.display()
        ))?;
    }
    let object = output.object();
    object.insert("entries".into(), entries.into());
    object.insert("bytes".into(), bytes.into());
    object.insert("seconds".into(), seconds.into());
    Ok(())
}

/// Hands every entry of `keyspace` to `export`.
fn of_keyspace(keyspace: &Keyspace, export: &mut Export<'_>) -> Result<()> {
    each_entry(keyspace, &mut |key, entry| export.entry_of(keyspace, key, entry))
}

/// Hands every entry of a server's database to `export`.
fn of_server(server: &mut Remote, database: &str, export: &mut Export<'_>) -> Result<()> {
    server.ask(&["SELECT", database])?;
    export.database = database.parse().unwrap_or(0);
    let mut cursor = String::from("0");
    loop {
        let reply = server.ask(&["SILICA.ENTRIES", &cursor, "COUNT", ENTRIES_ASKED])?;
        let strange = |why: &str| {
            Error::new(ErrorKind::Io, format!("the server's entries cannot be read: {why}"))
        };
        let (next, mut file) = reply.split_first_chunk::<8>().ok_or_else(|| strange("cut"))?;
        let mut reader = FileReader::new(STRING_BYTES_MAX);
        loop {
            let (event, taken) = reader.next(file).map_err(|e| strange(&e.to_string()))?;
            file = &file[taken..];
            match event {
                Event::Entry(entry) => {
                    let (expires_unix_ms, user_bits) = (entry.expires_unix_ms, entry.user_bits);
                    let value = &*entry.value;
                    if export.is_rdb && is_inner(&entry.key) {
                        continue;
                    }
                    if export.is_rdb && is_marked(user_bits) {
                        let key = String::from_utf8_lossy(&entry.key).into_owned();
                        let payload = server.dump(&entry.key)?;
                        let wrong = |_| strange(&format!("the payload of {key}"));
                        if let Restored::Object(value) =
                            restore_any(&payload, STRING_BYTES_MAX).map_err(wrong)?
                        {
                            export.object(&entry.key, value, expires_unix_ms);
                        }
                        continue;
                    }
                    export.entry(&entry.key, &EntryRef { value, expires_unix_ms, user_bits })?;
                }
                Event::Nothing | Event::Function(_) | Event::Field(..) => {}
                Event::End => break,
                Event::Cut | Event::Other(_) | Event::Object(_) => return Err(strange("cut")),
            }
        }
        match u64::from_le_bytes(*next) {
            0 => return Ok(()),
            next => cursor = next.to_string(),
        }
    }
}

/// A file that is being written.
struct Export<'a> {
    out: Box<dyn Write>,
    /// What it is called until it is complete, and then.
    names: Option<(PathBuf, &'a Path)>,
    encoder: Option<Encoder>,
    buffer: Vec<u8>,
    database: u64,
    /// Values that are no strings are written as Redis writes them.
    is_rdb: bool,
    entries: u64,
    bytes: u64,
    bar: Option<ProgressBar>,
}

impl<'a> Export<'a> {
    fn begin(
        args: &ExportArgs,
        format: FileFormat,
        file: Option<&'a Path>,
        estimate: u64,
    ) -> Result<Self> {
        let mut names = None;
        let out: Box<dyn Write> = match file {
            None => Box::new(std::io::stdout().lock()),
            Some(file) => {
                silica::refuse_within_store(file, "the export")?;
                let mut part = file.as_os_str().to_owned();
                part.push(".part");
                let part = PathBuf::from(part);
                let made = File::create(&part);
                names = Some((part, file));
                Box::new(made.map_err(|e| failed(file, e))?)
            }
        };
        let mut buffer = Vec::new();
        let encoder = Some(Encoder::begin(format, args.base64, &mut buffer));
        let bar = has_terminal().then(|| ProgressBar::new(estimate));
        let is_rdb = format == FileFormat::Rdb;
        let (database, entries, bytes) = (0, 0, 0);
        Ok(Export { out, names, encoder, buffer, database, is_rdb, entries, bytes, bar })
    }

    /// Writes an entry of `keyspace`; one that is part of an object only with that.
    fn entry_of(&mut self, keyspace: &Keyspace, key: &[u8], entry: &EntryRef<'_>) -> Result<()> {
        let kind = Kind::of_user_bits(entry.user_bits);
        let (true, Some(kind)) = (self.is_rdb, kind) else {
            return if self.is_rdb && is_inner(key) { Ok(()) } else { self.entry(key, entry) };
        };
        let mut object = Object::decode(kind, entry.value)?;
        let value = to_rdb(&mut object, &mut Stored(keyspace), 0)?;
        self.object(key, value, entry.expires_unix_ms);
        if self.buffer.len() >= WRITE_BYTES { self.flush() } else { Ok(()) }
    }

    fn object(&mut self, key: &[u8], value: rdb::Object, expires_unix_ms: u64) {
        let (database, key) = (self.database, key.to_vec());
        if let Some(encoder) = &mut self.encoder {
            let entry = rdb::ObjectEntry { database, key, value, expires_unix_ms };
            encoder.object(&entry, &mut self.buffer);
        }
        self.entries += 1;
    }

    fn entry(&mut self, key: &[u8], entry: &EntryRef<'_>) -> Result<()> {
        let EntryRef { value, expires_unix_ms, user_bits } = *entry;
        let database = self.database;
        let entry =
            Entry { database, key: key.into(), value: value.into(), expires_unix_ms, user_bits };
        if let Some(encoder) = &mut self.encoder {
            encoder.entry(&entry, &mut self.buffer);
        }
        self.entries += 1;
        if self.buffer.len() >= WRITE_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        if let Some(bar) = &self.bar {
            bar.set_position(self.entries);
        }
        self.bytes += self.buffer.len() as u64;
        let written = self.out.write_all(&self.buffer).and_then(|()| self.out.flush());
        self.buffer.clear();
        written.map_err(|e| match (&self.names, e.kind()) {
            (None, std::io::ErrorKind::BrokenPipe) => silica_console::pipe_closed(),
            (None, _) => Error::io("writing to standard output", e),
            (Some((_, file)), _) => failed(file, e),
        })
    }

    /// Completes the file and gives it its name.
    fn end(&mut self) -> Result<()> {
        if let Some(encoder) = self.encoder.take() {
            encoder.end(&mut self.buffer);
        }
        self.flush()?;
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        let Some((part, file)) = self.names.take() else { return Ok(()) };
        let named = File::open(&part).and_then(|made| made.sync_all());
        named.and_then(|()| std::fs::rename(&part, file)).map_err(|e| failed(file, e))
    }
}

impl Drop for Export<'_> {
    fn drop(&mut self) {
        if let Some((part, _)) = &self.names {
            // It is not complete.
            let _ = std::fs::remove_file(part);
        }
    }
}

fn failed(file: &Path, error: std::io::Error) -> Error {
    Error::io(format!("writing {}", file.display()), error)
}
