//! `silica import --to`: the entries of a file as requests to a server, which may be Redis.
//!
//! Strings are SET, all other values RESTORE in Redis's form, both over what the keys hold: so an
//! import that was interrupted is begun anew.

use crate::load::each_entry;
use crate::records::{Entry, FileFormat};
use crate::resp::{Resp, password};
use crate::transfer::{ImportArgs, format_to_import};
use silica::{Error, ErrorKind, Result};
use silica_console::{Global, Output};
use silica_proto::rdb::dump_object;
use silica_types::{Kind, Object, Page, PageId, Pages, is_inner, is_marked, to_rdb};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Requests, and bytes of them, that are sent at once.
const REQUESTS_MAX: usize = 256;
const BYTES_MAX: usize = 1 << 20;

/// Pages of one object, as the file has them before the entry of its key.
#[derive(Default)]
struct Held(BTreeMap<PageId, Arc<Page>>);

impl Pages for Held {
    fn get(&mut self, page: PageId) -> Result<Arc<Page>> {
        let missing = || Error::new(ErrorKind::Corruption, "a page of the object is missing");
        self.0.get(&page).cloned().ok_or_else(missing)
    }

    fn put(&mut self, _: PageId, _: Arc<Page>) {}

    fn remove(&mut self, _: PageId) {}

    fn new_id(&mut self) -> Result<u64> {
        Err(Error::new(ErrorKind::Unsupported, "objects are only read here"))
    }
}

/// What goes to the server.
struct Sending {
    server: Resp,
    /// The only database that is wanted.
    wanted: Option<u64>,
    database: u64,
    pages: Held,
    requests: Vec<Vec<Vec<u8>>>,
    bytes: usize,
    now_ms: u64,
    records: u64,
    expired: u64,
    elsewhere: u64,
    without_flags: u64,
}

impl Sending {
    fn push(&mut self, request: Vec<Vec<u8>>) -> Result<()> {
        self.bytes += request.iter().map(Vec::len).sum::<usize>();
        self.requests.push(request);
        if self.requests.len() >= REQUESTS_MAX || self.bytes >= BYTES_MAX {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.bytes = 0;
        self.server.tell_all(&std::mem::take(&mut self.requests))
    }

    fn take(&mut self, entry: &Entry<'_>) -> Result<()> {
        if let Some(page) = PageId::of_key(&entry.key) {
            self.pages.0.insert(page, Arc::new(entry.value.to_vec().into()));
            return Ok(());
        }
        let mut pages = std::mem::take(&mut self.pages);
        if self.wanted.is_some_and(|wanted| wanted != entry.database) {
            self.elsewhere += 1;
            return Ok(());
        }
        if !entry.is_live(self.now_ms) {
            self.expired += 1;
            return Ok(());
        }
        // What goes to a chosen database of the server comes from one database.
        if self.wanted.is_none() && self.database != entry.database {
            self.database = entry.database;
            self.push(vec![b"SELECT".to_vec(), entry.database.to_string().into_bytes()])?;
        }
        let expires = entry.expires_unix_ms.to_string().into_bytes();
        let (key, word) = (entry.key.to_vec(), |word: &str| word.as_bytes().to_vec());
        let mut request = match Kind::of_user_bits(entry.user_bits) {
            Some(kind) => {
                let mut object = Object::decode(kind, &entry.value)?;
                let payload = dump_object(&to_rdb(&mut object, &mut pages, 0)?);
                vec![word("RESTORE"), key, expires, payload, word("ABSTTL"), word("REPLACE")]
            }
            None if entry.expires_unix_ms == 0 => vec![word("SET"), key, entry.value.to_vec()],
            None => vec![word("SET"), key, entry.value.to_vec(), word("PXAT"), expires],
        };
        let is_string = !is_marked(entry.user_bits);
        self.without_flags += u64::from(is_string && entry.user_bits != 0);
        self.records += 1;
        self.push(std::mem::take(&mut request))
    }
}

/// Objects are whole only in a file that has the pages before their key's entry, as RDB has.
fn refuse_pages(entry: &Entry<'_>, format: FileFormat) -> Result<()> {
    if format == FileFormat::Rdb || !(is_inner(&entry.key) || is_marked(entry.user_bits)) {
        return Ok(());
    }
    let message = "the file has parts of hashes, lists, sets, sorted sets or streams, which a \
                   server takes only as a whole; export it as rdb (silica export FILE.rdb)";
    Err(Error::new(ErrorKind::Unsupported, message))
}

/// Imports the file of `args` to the server at an address.
pub(crate) fn run(
    global: &Global,
    (address, args): (&str, &ImportArgs),
    output: &mut Output,
) -> Result<()> {
    if global.path.is_some() {
        let message = "--path names a store, --to a server; give one of them";
        return Err(Error::new(ErrorKind::Config, message));
    }
    let format = format_to_import(args)?;
    if args.file != Path::new("-") {
        // Nothing is sent of a file that is damaged.
        each_entry(&args.file, format, |entry, _| refuse_pages(entry, format))?;
    }
    let password = password(args.password_file.as_deref())?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let mut sending = Sending {
        server: Resp::connect_as(address, args.user.as_deref(), password.as_deref())?,
        wanted: args.database,
        database: 0,
        pages: Held::default(),
        requests: Vec::new(),
        bytes: 0,
        now_ms: now.map_or(0, |d| d.as_millis() as u64),
        records: 0,
        expired: 0,
        elsewhere: 0,
        without_flags: 0,
    };
    let started = Instant::now();
    each_entry(&args.file, format, |entry, _| {
        refuse_pages(entry, format)?;
        sending.take(entry)
    })?;
    sending.flush()?;
    let Sending { records, expired, elsewhere, without_flags, .. } = sending;
    let seconds = started.elapsed().as_secs_f64();
    output.line(format!("imported {records} records to {address} in {seconds:.2} s"))?;
    for (count, what) in [
        (expired, "left out as they have expired"),
        (elsewhere, "left out as they are of other databases"),
        (without_flags, "imported without the flags of memcached, which these requests do not set"),
    ] {
        if count > 0 {
            output.line(format!("{count} entries {what}"))?;
        }
    }
    let object = output.object();
    object.insert("records".into(), records.into());
    object.insert("expired".into(), expired.into());
    object.insert("elsewhere".into(), elsewhere.into());
    object.insert("without_flags".into(), without_flags.into());
    object.insert("seconds".into(), seconds.into());
    Ok(())
}
