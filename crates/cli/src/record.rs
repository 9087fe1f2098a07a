//! `silica record`.

use crate::args::RecordArgs;
use crate::resp::{Resp, database_of, password};
use signal_hook::consts::{SIGINT, SIGTERM};
use silica::{Error, ErrorKind, Result};
use silica_console::{Global, Output};
use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Between two looks at what the server has recorded: it holds 2 MiB meanwhile.
const ROUND: Duration = Duration::from_millis(20);

/// How the last line of a trace begins.
const END: &str = "# the end: ";

/// Records what a server is asked until the time is over, the trace is large enough, or a signal
/// comes.
pub(crate) fn run(global: &Global, args: &RecordArgs, output: &mut Output) -> Result<()> {
    let seconds = args.seconds.map(Duration::try_from_secs_f64).transpose().map_err(|_| {
        Error::new(ErrorKind::Config, "--seconds takes a number over zero, such as 60")
    })?;
    let database = database_of(&global.keyspace)?;
    let mut server =
        Resp::connect(&args.addr, password(args.password_file.as_deref())?.as_deref())?;
    let name = args.file.display().to_string();
    let failed = |e| Error::io(format!("writing the trace {name}; it must be a new file"), e);
    silica::refuse_within_store(&args.file, "the trace")?;
    let mut file = File::create_new(&args.file).map_err(failed)?;
    let stopping = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stopping))
            .map_err(|e| Error::io("installing the signal handlers", e))?;
    }
    let (keys, most) = (args.one_key_in.to_string(), args.max_size.map(|most| most.to_string()));
    let mut start = vec!["SILICA.RECORD", &database, "START", "ONE", &keys];
    start.extend(most.iter().flat_map(|most| ["MAX", most]));
    if args.real_keys {
        start.push("REALKEYS");
    }
    if let Err(e) = server.ask(&start) {
        // Nothing is in it.
        let _ = std::fs::remove_file(&args.file);
        return Err(e);
    }
    let began = Instant::now();
    let is_over = || {
        stopping.load(Ordering::Relaxed)
            || seconds.is_some_and(|seconds| began.elapsed() >= seconds)
    };
    let taken = take(&mut server, &database, (&mut file, &name), &is_over);
    let Taken { last, bytes } = taken.inspect_err(|_| {
        // It is not to record for nobody. Where it does not hear this, it gives up by itself.
        let _ = server.ask(&["SILICA.RECORD", &database, "STOP"]);
    })?;
    // The recorder's last line says what it came to.
    let end = last.trim_start_matches(END);
    output
        .line(format!("{name}: {end}, {bytes} bytes in {:.1} s", began.elapsed().as_secs_f64()))?;
    let numbers: Vec<u64> = end.split(' ').filter_map(|word| word.parse().ok()).collect();
    let object = output.object();
    object.insert("trace".into(), name.clone().into());
    for (name, number) in ["operations", "dropped", "unrecorded"].into_iter().zip(numbers) {
        object.insert(name.into(), number.into());
    }
    object.insert("bytes".into(), bytes.into());
    object.insert("seconds".into(), began.elapsed().as_secs_f64().into());
    Ok(())
}

/// What was taken from a server.
struct Taken {
    /// The trace's last line.
    last: String,
    bytes: u64,
}

/// Writes what the server records into `file`, until that is over or the trace is full.
fn take(
    server: &mut Resp,
    database: &str,
    (file, name): (&mut impl Write, &str),
    is_over: &dyn Fn() -> bool,
) -> Result<Taken> {
    let failed = |e| {
        let what = format!("writing the trace {name}; what it has up to its last line is a trace");
        Error::io(what, e)
    };
    let mut bytes = 0;
    loop {
        let ends = is_over();
        let word = if ends { "STOP" } else { "READ" };
        let lines = server.ask(&["SILICA.RECORD", database, word])?;
        file.write_all(&lines).map_err(failed)?;
        bytes += lines.len() as u64;
        let lines = lines.trim_ascii_end();
        let start = lines.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if ends || lines[start..].starts_with(END.as_bytes()) {
            if !ends {
                server.ask(&["SILICA.RECORD", database, "STOP"])?;
            }
            return Ok(Taken {
                last: String::from_utf8_lossy(&lines[start..]).into_owned(),
                bytes,
            });
        }
        std::thread::sleep(ROUND);
    }
}
