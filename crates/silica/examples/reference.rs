//! Prints the pages that are made from the code: `config` (engines and their options) or
//! `metrics`. `cargo xtask docs` writes them to docs/.

use silica::tune::recommend::WHY_METRICS;
use silica::{MetricKind, OptionKind, OptionSpec, Registry};

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("config") => print!("{}", config()),
        Some("metrics") => print!("{}", metrics()),
        other => {
            eprintln!("use `config` or `metrics`, not {other:?}");
            std::process::exit(2);
        }
    }
}

const MADE: &str = "Made from the code by `cargo xtask docs`; edit the code, not this page.\n";

fn config() -> String {
    let mut out = format!("# Options\n\n{MADE}\n");
    out += "Give them as `--set NAME=VALUE` on the command line, with `OpenOptions::set` or\n\
            `Silica::create_keyspace` in the library. Sizes take `KiB`, `MB`, `G` and so on.\n\
            *Fixed* options are chosen when a keyspace is created and stay.\n\n\
            The write-ahead logs of keyspaces that are created lie in a directory for each of\n\
            them below `--log-path` (`OpenOptions::log_path`), on another device most likely, so\n\
            that synced writes do not wait behind flushes and compactions. Later openings find\n\
            them without the option; keyspaces that exist keep their logs where they are.\n\n\
            The memory of a store is one number: `--memory`, `OpenOptions::memory_bytes`. A\n\
            server takes the memory for its clients out of it (`--client-memory`, an eighth\n\
            where it is not given; see [server.md](server.md)). Keyspaces with a\n\
            `memory_bytes` of their own, or a part from `--keyspace-memory NAME=SIZE`\n\
            (`OpenOptions::keyspace_memory`), get that; the others share the rest equally.\n";
    for engine in Registry::builtin().iter() {
        out += &format!("\n## Engine `{}`\n\n{}.\n\n", engine.name, engine.doc);
        out += "| option | values | default | fixed | what it does |\n|---|---|---|---|---|\n";
        engine.options.iter().for_each(|spec| out += &option(spec));
    }
    out
}

fn option(spec: &OptionSpec) -> String {
    let values = match spec.kind {
        OptionKind::Count(low, high) => format!("{low} to {high}"),
        OptionKind::Size(low, high) => format!("{} to {}", size(low), size(high)),
        OptionKind::Bool => "true, false".to_string(),
        OptionKind::Choice(words) => words.join(", "),
    };
    let default = match spec.kind {
        OptionKind::Size(..) => size(spec.default),
        _ => spec.show(spec.default),
    };
    let fixed = if spec.fixed { "yes" } else { "" };
    format!("| `{}` | {values} | {default} | {fixed} | {} |\n", spec.name, spec.doc)
}

fn size(bytes: u64) -> String {
    const UNITS: [(u32, &str); 4] = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    for (shift, unit) in UNITS {
        if bytes > 0 && bytes.trailing_zeros() >= shift {
            return format!("{} {unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

fn metrics() -> String {
    let mut out = format!("# Metrics\n\n{MADE}\n");
    out += "`silica stats`, `INFO` and the benchmarks show them under these names. A counter only\n\
            grows while the store is open, a gauge goes up and down, a ratio is a quotient of\n\
            others.\n\n| metric | kind | meaning |\n|---|---|---|\n";
    for metric in silica::metrics() {
        let kind = match metric.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Ratio => "ratio",
        };
        out += &format!("| `{}` | {kind} | {} |\n", metric.name, metric.doc);
    }
    out += "\n## Models\n\n\
            What the models say of each database that is open, beside what it\n\
            measured, as `silica why` and the admin port's `/why` have it. Prometheus gets them\n\
            as `silica_NAME` with the labels `db` and `engine`.\n\n\
            | metric | kind | meaning |\n|---|---|---|\n";
    for (name, is_counter, doc) in WHY_METRICS {
        let kind = if is_counter { "counter" } else { "gauge" };
        out += &format!("| `{name}` | {kind} | {doc} |\n");
    }
    out
}
