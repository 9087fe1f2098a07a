//! `silica record`.

use crate::args::{Global, RecordArgs};
use crate::output::Output;
use crate::resp::{Resp, database_of, password};
use signal_hook::consts::{SIGINT, SIGTERM};
use silica::{Error, ErrorKind, Result};
use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Between two looks at what the server has recorded: it holds 2 MiB meanwhile.
const ROUND: Duration = Duration::from_millis(20);

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
    let mut file = File::create_new(&args.file).map_err(failed)?;
    let stopping = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stopping))
            .map_err(|e| Error::io("installing the signal handlers", e))?;
    }
    let keys = args.one_key_in.to_string();
    let mut start = vec!["SILICA.RECORD", &database, "START", "ONE", &keys];
    if args.real_keys {
        start.push("REALKEYS");
    }
    if let Err(e) = server.ask(&start) {
        // Nothing is in it.
        let _ = std::fs::remove_file(&args.file);
        return Err(e);
    }
    let (began, mut bytes) = (Instant::now(), 0);
    let is_over = |bytes: u64| {
        stopping.load(Ordering::Relaxed)
            || seconds.is_some_and(|seconds| began.elapsed() >= seconds)
            || args.max_size.is_some_and(|most| bytes >= most)
    };
    let mut last = Vec::new();
    loop {
        let (word, ends) = if is_over(bytes) { ("STOP", true) } else { ("READ", false) };
        let lines = server.ask(&["SILICA.RECORD", &database, word])?;
        file.write_all(&lines).map_err(failed)?;
        bytes += lines.len() as u64;
        if ends {
            last.extend(lines);
            break;
        }
        std::thread::sleep(ROUND);
    }
    // The recorder's last line says what it came to.
    let text = String::from_utf8_lossy(&last);
    let end = text.lines().last().unwrap_or_default().trim_start_matches("# the end: ");
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
