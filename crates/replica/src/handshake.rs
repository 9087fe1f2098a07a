//! What a replica says before its primary sends anything.

use crate::wire::{Wire, failed};
use silica_commands::replication::{CAPABILITY, COMMANDS_ONLY, ELEMENTS, FILE};
use silica_commands::{LinkKind, Service};
use silica_engine::{Error, ErrorKind, Result};
use silica_proto::Value;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Primaries of primaries that are asked whether they follow this server.
const HOPS_MAX: usize = 16;
/// How long each of them is waited for.
const HOP_TIMEOUT: Duration = Duration::from_secs(2);

/// What the primary answers to PSYNC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Agreed {
    /// All data comes, whose position is the offset of the history; as blocks, if it knows these.
    Full { id: String, offset: u64, has_blocks: bool, has_records: bool },
    /// The stream goes on where this replica stands, perhaps under another id. A primary that makes
    /// records says up to where there are some.
    Continue { id: Option<String>, records_end: Option<u64> },
}

/// What the primary answers to PSYNC at first.
enum Answer {
    Agreed(Agreed),
    /// All data has to come, and it asks what of it is there, under a seed.
    Summary([u8; 16]),
}

/// Makes a summary under a seed, and returns its bytes.
pub(crate) type Summarize<'s> =
    dyn FnMut([u8; 16], &mut dyn FnMut() -> Result<()>) -> Result<Vec<u8>> + 's;

type GoesOn<'g> = dyn FnMut() -> Result<()> + 'g;

/// Says who this replica is, and agrees on where to begin; `needs_all` if its data has no position.
/// `asks_commands` if the stream is to have no records.
pub(crate) fn shake_hands(
    service: &Service,
    wire: &mut Wire,
    (needs_all, asks_commands): (bool, bool),
    summarize: &mut Summarize<'_>,
    goes_on: &mut GoesOn<'_>,
) -> Result<Agreed> {
    let pong = wire.ask(&[b"PING"], goes_on)?;
    match &pong {
        Value::Error(text) if !is_about_password(text) => return Err(refused(wire, "PING", text)),
        _ => {}
    }
    log_in(service, wire, goes_on)?;
    // Whoever is to take over follows this server still.
    let hands_over = service.replication.hands_over();
    if !hands_over {
        refuse_ring(service, wire, goes_on)?;
    }
    introduce(service, wire, asks_commands, goes_on)?;
    let (history, offset) = service.replication.position();
    let next = (offset + 1).to_string();
    let psync: &[&[u8]] = match needs_all {
        _ if hands_over => &[b"PSYNC", history.id.as_bytes(), next.as_bytes(), b"FAILOVER"],
        true => &[b"PSYNC", b"?", b"-1"],
        false => &[b"PSYNC", history.id.as_bytes(), next.as_bytes()],
    };
    wire.send(psync)?;
    let line = wire.line(goes_on)?;
    let first = agreed(wire, &String::from_utf8_lossy(&line))?;
    let seed = match first {
        Answer::Agreed(agreed) => return Ok(agreed),
        Answer::Summary(seed) => seed,
    };
    let summary = summarize(seed, goes_on)?;
    let told = wire.ask(&[b"REPLCONF", b"silica-summary", &summary], goes_on)?;
    if let Value::Error(text) = &told {
        // All of it comes, then.
        log::warn!("the primary {} does not take what is here already: {text}", wire.name);
        let nothing = silica_commands::Summary::default().encode();
        if let Value::Error(text) =
            wire.ask(&[b"REPLCONF", b"silica-summary", &nothing], goes_on)?
        {
            return Err(refused(wire, "a summary", &text));
        }
    }
    // Whoever was to take over has done so.
    wire.send(&psync[..3])?;
    let line = wire.line(goes_on)?;
    match agreed(wire, &String::from_utf8_lossy(&line))? {
        Answer::Summary(_) => Err(strange(wire, "+SUMMARY, again")),
        Answer::Agreed(agreed) => Ok(agreed),
    }
}

fn is_about_password(text: &str) -> bool {
    text.starts_with("NOAUTH") || text.starts_with("NOPERM") || text.contains("not permitted")
}

fn refused(wire: &Wire, what: &str, text: &str) -> Error {
    failed(format!("the primary {} refuses {what}: {text}", wire.name))
}

/// Gives the password, if there is one.
fn log_in(service: &Service, wire: &mut Wire, goes_on: &mut GoesOn<'_>) -> Result<()> {
    let auth = &service.replication.settings.primary_auth;
    let (user, password) = auth.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if password.is_empty() {
        return Ok(());
    }
    let (user, password) = (user.into_bytes(), password.into_bytes());
    let reply = match user.is_empty() {
        true => wire.ask(&[b"AUTH", &password], goes_on)?,
        false => wire.ask(&[b"AUTH", &user, &password], goes_on)?,
    };
    match reply {
        Value::Error(text) => {
            let text =
                format!("the primary {} refuses masterauth (and masteruser): {text}", wire.name);
            Err(Error::new(ErrorKind::Config, text))
        }
        _ => Ok(()),
    }
}

/// What INFO says of the server at the other end.
struct Told(String);

impl Told {
    fn get(&self, name: &str) -> Option<&str> {
        let line = self.0.lines().find(|line| line.split(':').next() == Some(name))?;
        Some(line[name.len() + 1..].trim_end())
    }
}

/// Asks who the other side is; nothing if it does not say.
fn told(wire: &mut Wire, goes_on: &mut GoesOn<'_>) -> Result<Option<Told>> {
    let mut all = String::new();
    for section in [&b"server"[..], b"replication"] {
        match wire.ask(&[b"INFO", section], goes_on)? {
            Value::Bulk(text) | Value::Verbatim(text) => all += &String::from_utf8_lossy(&text),
            Value::Error(text) if text.starts_with("NOAUTH") => {
                let text = format!(
                    "the primary {} wants a password: CONFIG SET masterauth, or the setting of \
                     that name ({text})",
                    wire.name
                );
                return Err(Error::new(ErrorKind::Config, text));
            }
            // A user that may only replicate.
            _ => return Ok(None),
        }
    }
    Ok(Some(Told(all)))
}

/// Refuses a primary that is this server, or follows it.
fn refuse_ring(service: &Service, wire: &mut Wire, goes_on: &mut GoesOn<'_>) -> Result<()> {
    let Some(mut other) = told(wire, goes_on)? else { return Ok(()) };
    let refuse = |text: String| Err(Error::new(ErrorKind::Config, text));
    if other.get("run_id") == Some(service.run_id()) {
        return refuse(format!("{} is this server itself: it cannot follow itself", wire.name));
    }
    if other.get("loading") == Some("1") {
        return Err(failed(format!("the primary {} loads its data still", wire.name)));
    }
    let mut hosts = vec![wire.name.clone()];
    while let (Some("slave"), Some(host), Some(port)) =
        (other.get("role"), other.get("master_host"), other.get("master_port"))
        && hosts.len() < HOPS_MAX
    {
        let Ok(port) = port.parse() else { return Ok(()) };
        // What cannot be asked is no reason to refuse: the link may be all there is.
        let next = Wire::connect(service, host, port, HOP_TIMEOUT).and_then(|mut next| {
            // It may have another password, or none.
            let _ = log_in(service, &mut next, goes_on);
            told(&mut next, goes_on)
        });
        let Ok(Some(next)) = next else { return Ok(()) };
        if next.get("run_id") == Some(service.run_id()) {
            return refuse(format!(
                "{} follows this server ({}): a ring of servers would follow each other for ever",
                wire.name,
                hosts.join(", which follows ")
            ));
        }
        hosts.push(format!("{host}:{port}"));
        other = next;
    }
    Ok(())
}

/// Tells the primary where this replica listens and what it understands.
fn introduce(
    service: &Service,
    wire: &mut Wire,
    asks_commands: bool,
    goes_on: &mut GoesOn<'_>,
) -> Result<()> {
    let settings = &service.replication.settings;
    let announced = settings.announce_port.load(Relaxed);
    let own = service.link_port(LinkKind::Replication);
    let port = if announced == 0 { own.into() } else { announced };
    let port = port.to_string();
    let ip = settings.announce_ip.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let mut all: Vec<Vec<&[u8]>> = vec![vec![b"REPLCONF", b"listening-port", port.as_bytes()]];
    if !ip.is_empty() {
        all.push(vec![b"REPLCONF", b"ip-address", ip.as_bytes()]);
    }
    let mut can: Vec<&[u8]> = vec![b"REPLCONF", b"capa", b"eof", b"capa", b"psync2"];
    if settings.has_records.load(Relaxed) {
        can.extend([&b"capa"[..], CAPABILITY.as_bytes()]);
        if service.keeps_elements() {
            can.extend([&b"capa"[..], ELEMENTS.as_bytes()]);
        }
        if asks_commands {
            can.extend([&b"capa"[..], COMMANDS_ONLY.as_bytes()]);
        }
    }
    all.push(can);
    for request in all {
        if let Value::Error(text) = wire.ask(&request, goes_on)? {
            // An old one knows fewer of them, and does without.
            log::info!("the primary {} does not take a REPLCONF: {text}", wire.name);
        }
    }
    Ok(())
}

/// What the answer to PSYNC means.
fn agreed(wire: &Wire, line: &str) -> Result<Answer> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let is_id = |id: &str| id.len() == 40 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    match words[..] {
        ["+FULLRESYNC", id, offset, ref own @ ..]
            if is_id(id) && matches!(own, [] | [CAPABILITY | FILE]) =>
        {
            let offset = offset.parse().map_err(|_| strange(wire, line))?;
            let (id, has_blocks, has_records) =
                (id.to_string(), own == [CAPABILITY], !own.is_empty());
            Ok(Answer::Agreed(Agreed::Full { id, offset, has_blocks, has_records }))
        }
        ["+CONTINUE"] => Ok(goes_on_at(None, None)),
        ["+CONTINUE", id] if is_id(id) => Ok(goes_on_at(Some(id), None)),
        ["+CONTINUE", id, CAPABILITY, end] if is_id(id) => {
            let records_end = Some(end.parse().map_err(|_| strange(wire, line))?);
            Ok(goes_on_at(Some(id), records_end))
        }
        ["+SUMMARY", digits] if digits.len() == 32 => {
            let number = u128::from_str_radix(digits, 16).map_err(|_| strange(wire, line))?;
            Ok(Answer::Summary(number.to_be_bytes()))
        }
        _ if line.starts_with("-NOMASTERLINK") || line.starts_with("-LOADING") => {
            Err(failed(format!("the primary {} is not ready: {}", wire.name, &line[1..])))
        }
        _ if line.starts_with('-') => {
            let text = format!(
                "the primary {} refuses PSYNC, which every Redis since 2.8 speaks: {}",
                wire.name,
                &line[1..]
            );
            Err(Error::new(ErrorKind::Unsupported, text))
        }
        _ => Err(strange(wire, line)),
    }
}

fn goes_on_at(id: Option<&str>, records_end: Option<u64>) -> Answer {
    Answer::Agreed(Agreed::Continue { id: id.map(str::to_string), records_end })
}

fn strange(wire: &Wire, line: &str) -> Error {
    let shown: String = line.chars().take(100).collect();
    failed(format!("the primary {} answers PSYNC by what is no answer: {shown}", wire.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::Scripted;

    fn answer(line: &str) -> Result<Answer> {
        agreed(&Wire::over(Box::new(Scripted::default()), Duration::from_secs(1)), line)
    }

    fn agrees(line: &str) -> Agreed {
        match answer(line) {
            Ok(Answer::Agreed(agreed)) => agreed,
            Ok(Answer::Summary(_)) => panic!("{line}: a summary is asked for"),
            Err(error) => panic!("{line}: {error}"),
        }
    }

    #[test]
    fn answers_to_psync_are_understood() {
        let id = "0123456789abcdef0123456789abcdef01234567";
        let full = |has_blocks, has_records| Agreed::Full {
            id: id.into(),
            offset: 77,
            has_blocks,
            has_records,
        };
        assert_eq!(agrees(&format!("+FULLRESYNC {id} 77")), full(false, false));
        assert_eq!(agrees(&format!("+FULLRESYNC {id} 77 {CAPABILITY}")), full(true, true));
        assert_eq!(agrees(&format!("+FULLRESYNC {id} 77 {FILE}")), full(false, true));
        let on = |id: Option<&str>, records_end| Agreed::Continue {
            id: id.map(str::to_string),
            records_end,
        };
        assert_eq!(agrees("+CONTINUE"), on(None, None));
        assert_eq!(agrees(&format!("+CONTINUE {id}")), on(Some(id), None));
        assert_eq!(agrees(&format!("+CONTINUE {id} {CAPABILITY} 9")), on(Some(id), Some(9)));
        let Ok(Answer::Summary(seed)) = answer("+SUMMARY 000102030405060708090a0b0c0d0e0f") else {
            panic!("no summary");
        };
        assert_eq!(seed, std::array::from_fn(|n| n as u8));
    }

    #[test]
    fn what_is_no_answer_is_refused_in_words() {
        let id = "0".repeat(40);
        for line in [
            String::new(),
            "+OK".into(),
            "+CONTINUE short".into(),
            format!("+FULLRESYNC {id}"),
            format!("+FULLRESYNC {id} much"),
            format!("+FULLRESYNC {} 7", "g".repeat(40)),
            format!("+FULLRESYNC {id} 7 other"),
            format!("+CONTINUE {id} {CAPABILITY} -1"),
            "+SUMMARY 00".into(),
            format!("+SUMMARY {}", "x".repeat(32)),
            "x".repeat(1 << 16),
        ] {
            let error = answer(&line).err().unwrap_or_else(|| panic!("{line} is an answer"));
            let text = error.to_string();
            assert!(text.contains("what is no answer") && text.len() < 300, "{text}");
        }
    }

    #[test]
    fn a_primary_that_is_not_ready_is_asked_again_and_one_without_psync_is_named() {
        for line in ["-NOMASTERLINK Can't SYNC while not connected", "-LOADING Redis is loading"] {
            let error = answer(line).err().expect("not ready");
            assert_eq!(error.kind(), ErrorKind::Io, "{error}");
            assert!(error.to_string().contains("is not ready"), "{error}");
        }
        let error = answer("-ERR unknown command 'PSYNC'").err().expect("refused");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }

    #[test]
    fn fields_of_info_are_found_whole() {
        let told = Told("# Server\r\nrun_id:abc\r\nrun_id_old:x\r\nrole:slave\r\n".into());
        assert_eq!((told.get("run_id"), told.get("role")), (Some("abc"), Some("slave")));
        assert_eq!((told.get("run"), told.get("master_host")), (None, None));
    }
}
