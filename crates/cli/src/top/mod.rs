//! `silica top`: what a server does, in a terminal.

mod sample;
mod screen;
mod shown;
mod terminal;

use self::sample::{Sample, Span};
use self::shown::{Figures, figures};
use crate::resp::{Resp, password};
use crate::text::object_of;
use clap::Args;
use serde_json::{Map, Value, json};
use silica::{Error, ErrorKind, Result};
use silica_console::{Global, Output};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args)]
pub(crate) struct TopArgs {
    /// The server, at HOST:PORT or the path of its unix socket.
    #[arg(long, value_name = "ADDRESS")]
    addr: Option<String>,
    /// File whose first line is the server's password.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// User to log in as, if not the default one.
    #[arg(long, value_name = "NAME", requires = "password_file")]
    user: Option<String>,
    /// Seconds between looks.
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    interval: f64,
    /// Look once, over one interval, and print that as lines; so does --json, as one object, and
    /// an output that is no terminal.
    #[arg(long)]
    once: bool,
}

/// Shows what the server does until `q` is pressed.
pub(crate) fn run(_: &Global, args: &TopArgs, output: &mut Output) -> Result<()> {
    let wrong = |message: &str| Err(Error::new(ErrorKind::Config, message));
    let Some(address) = &args.addr else {
        return wrong("which server is it? give --addr HOST:PORT, or the path of its unix socket");
    };
    if !(0.1..=3600.0).contains(&args.interval) {
        return wrong("--interval takes 0.1 to 3600 seconds");
    }
    let connect = || {
        let word = password(args.password_file.as_deref())?;
        Resp::connect_as(address, args.user.as_deref(), word.as_deref())
    };
    let interval = Duration::from_secs_f64(args.interval);
    let mut resp = connect()?;
    let first = Sample::take(&mut resp)?;
    if output.is_json() || args.once || !std::io::stdout().is_terminal() {
        std::thread::sleep(interval);
        let second = Sample::take(&mut resp)?;
        return print(address, &Span { before: &first, after: &second }, output);
    }
    terminal::run(address, interval, resp, first, connect)
}

/// One look, as lines or as one object.
fn print(address: &str, span: &Span<'_>, output: &mut Output) -> Result<()> {
    let Figures { groups } = figures(span);
    for (title, rows) in &groups {
        output.line(title)?;
        for (name, value) in rows {
            output.line(format!("  {name:<26} {value:>14}"))?;
        }
    }
    span.after
        .refused
        .iter()
        .try_for_each(|refusal| output.line(format!("not told: {refusal}")))?;
    let object = output.object();
    object.insert("address".into(), address.into());
    object.insert("fields".into(), fields(span.after).into());
    object.insert("rates".into(), rates(span).into());
    let client = |c: &sample::Client| {
        json!({"address": c.address, "name": c.name, "command": c.command, "db": c.db,
               "age_s": c.age_s, "idle_s": c.idle_s, "bytes": c.bytes})
    };
    object.insert("clients".into(), span.after.clients.iter().map(client).collect());
    let slow = |slow: &sample::Slow| {
        let sample::Slow { unix_s, micros, request } = slow;
        json!({"unix_s": unix_s, "micros": micros, "request": request})
    };
    object.insert("slow_requests".into(), span.after.slow.iter().map(slow).collect());
    object.insert("not_told".into(), span.after.refused.clone().into());
    Ok(())
}

/// The fields of INFO, numbers as numbers.
fn fields(sample: &Sample) -> Map<String, Value> {
    let value = |text: &String| match (text.parse::<u64>(), text.parse::<f64>()) {
        (Ok(number), _) => json!(number),
        (_, Ok(number)) if text.bytes().all(|b| b.is_ascii_digit() || b == b'.') => json!(number),
        _ => json!(text),
    };
    object_of(sample.fields.iter().map(|(name, text)| (name.clone(), value(text))))
}

/// What happened in a second of the span; `null` for what this server does not tell.
fn rates(span: &Span<'_>) -> Map<String, Value> {
    let values = [
        ("requests", shown::requests(span)),
        ("reads", span.rate(|s| s.total("gets"))),
        ("writes", shown::writes(span)),
        ("hit_ratio", span.hit_ratio()),
        ("bytes_received", span.rate(|s| s.number("total_net_input_bytes"))),
        ("bytes_sent", span.rate(|s| s.number("total_net_output_bytes"))),
        ("cores", shown::cores(span)),
        ("p50_us", span.percentile_us(0.5).map(|us| us as f64)),
        ("p99_us", span.percentile_us(0.99).map(|us| us as f64)),
    ];
    values.map(|(name, value)| (name.to_string(), json!(value))).into_iter().collect()
}
