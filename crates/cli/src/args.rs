//! The command line.

mod flash;
mod graph;
mod lfs;
mod modes;
mod values;

use crate::options_file::OptionsFile;
use crate::records::FileFormat;
use crate::remote::RemoteArgs;
use crate::sql::SqlArgs;
use crate::top::TopArgs;
use crate::transfer::{ExportArgs, ImportArgs};
use clap::{Args, Parser, Subcommand, ValueEnum};
pub(crate) use flash::{FlashCommand, FlashLab, FlashShape};
pub(crate) use graph::{GraphArgs, GraphCommand};
pub(crate) use lfs::{LfsCommand, MountArgs};
pub(crate) use modes::{EventLoopArg, ModeArg};
use silica_console::values::{memory, pair, size};
use silica_console::{DurabilityArg, Global, RunArgs};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
pub(crate) use values::DatabaseArg;
use values::{database, positive, time};

/// Silica: a key-value store in a directory.
///
/// Without a command: a prompt on the store in ./silica-data (or --path).
#[derive(Parser)]
#[command(name = "silica", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// The words that say this.
    #[arg(skip)]
    pub(crate) words: Vec<OsString>,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Serve the store over RESP (redis-cli and any Redis client) and memcached's protocol.
    Serve(Box<ServeArgs>),
    /// Look at the options of a server: those in a file, and all that it would have.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print the completions of a shell, for its startup file or directory of completions.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Write a man page for every command.
    Man {
        /// Directory for the pages; it is created where it is missing.
        directory: PathBuf,
    },
    /// Load a file of records; an interrupted load goes on where it was.
    Load(LoadArgs),
    /// Write the entries of a keyspace, with expiry and user bits, as tsv, csv, ndjson or Redis's
    /// RDB (docs/formats/records.md).
    Export(ExportArgs),
    /// Take in what `silica export`, or Redis, wrote.
    Import(ImportArgs),
    /// Measure: workloads, index structures, the device.
    Bench(Box<BenchArgs>),
    /// Make table files for `silica ingest` of records in any order, or index keys with an
    /// entropy-coded trie: any number of them, in bounded memory.
    BuildTable(BuildTableArgs),
    /// Put the entries of table files into a keyspace in one step, newer than all that is there.
    Ingest {
        /// Files that `silica build-table` made.
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Create, drop and list keyspaces.
    #[command(subcommand)]
    Keyspace(KeyspaceCommand),
    /// Move a keyspace to another engine, with the options of --set; an interrupted migration goes
    /// on where it was. Of a running server: SILICA.MIGRATE.
    Migrate {
        /// The keyspace; the server's database N is dbN, and 0 is default.
        name: String,
        /// The engine that it is to have.
        #[arg(long, value_name = "ENGINE")]
        to: String,
    },
    /// Copy a backup into a new store directory and check it.
    Restore {
        /// Directory that `silica backup` wrote.
        backup: PathBuf,
    },
    /// Salvage what is intact of a damaged store; files that were there are kept aside.
    Repair {
        /// Directory of the store, if not --path.
        directory: Option<PathBuf>,
    },
    /// Record what a running server is asked into a trace that `silica bench replay` and `silica
    /// tune --trace` read (docs/formats/trace.md), until --seconds are over or Ctrl-C.
    Record(RecordArgs),
    /// Watch a running server in the terminal: work, latency, memory, databases, connections. Works
    /// for Redis, too. Keys: q quit, s sort, r reverse, Tab slow requests, space pause.
    Top(TopArgs),
    /// Measure what this machine can do (device, memory, cores), and keep it beside the data.
    Probe(ProbeArgs),
    /// Flash: make an image of it, look at its blocks, draw its wear, read all of it.
    #[command(subcommand)]
    Flash(FlashCommand),
    /// Graphs larger than memory: ranks, components, levels and triangles of an edge list, by way
    /// of flash or files.
    #[command(subcommand)]
    Graph(Box<GraphCommand>),
    /// A file system on flash: make one, say what it has, check and repair it.
    #[command(subcommand)]
    Lfs(LfsCommand),
    /// Mount a file system that `silica lfs create` made, until it is unmounted or Ctrl-C.
    Mount(MountArgs),
    /// SQL: a shell on a database at a path (SQLite's statements, on the ordered engine), or an
    /// unmodified program on this SQLite library (`silica sql run -- CMD`).
    Sql(Box<SqlArgs>),
    #[command(flatten)]
    Lab(LabVerb),
    /// Say which engine and options fit a workload best on this machine, and why; --apply moves.
    Tune(Box<TuneArgs>),
    /// Show prediction beside measurement of a keyspace, and what a change would do, or where the
    /// get of a key spends its time (--get), or what statements of SQL cost (--sql).
    Why {
        /// Directory of the store, a keyspace of --path, or HOST:PORT of a server's --admin; with
        /// --sql a database or a store.
        target: Option<String>,
        #[command(flatten)]
        get: GetArgs,
    },
    #[command(flatten)]
    Verb(Verb),
}

#[derive(Args)]
pub(crate) struct GetArgs {
    /// Read this key twice and show where each get spends its time: queue, memory, filter, index,
    /// cache, device, search.
    #[arg(long = "get", value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// Run these statements of SQL on a database, keep nothing of them, and show what each asks
    /// the engine for and what that costs by the model.
    #[arg(long = "sql", value_name = "SQL", conflicts_with = "key")]
    pub(crate) sql: Option<String>,
    #[command(flatten)]
    pub(crate) remote: RemoteArgs,
}

#[derive(Args)]
pub(crate) struct TuneArgs {
    /// Directory of the store, if not --path: its sizes count, and what was probed.
    pub(crate) directory: Option<PathBuf>,
    /// A trace (docs/formats/trace.md): the workload is what it holds.
    #[arg(long, value_name = "FILE", conflicts_with = "describe")]
    pub(crate) trace: Option<PathBuf>,
    /// What counts: throughput, cost, life, memory, writes, reads, or several with weights, such
    /// as throughput=1,cost=0.5.
    #[arg(long, value_name = "GOAL", default_value = "throughput")]
    pub(crate) goal: String,
    /// What must be kept to, such as life_years=5 (may be repeated): throughput and life_years at
    /// least; money, write_amplification, reads_per_get, device_bytes and memory at most.
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub(crate) bound: Vec<(String, String)>,
    /// Price of a GiB of memory.
    #[arg(long, value_name = "PRICE", default_value_t = 4.0)]
    pub(crate) memory_price: f64,
    /// Price of a GiB of the device.
    #[arg(long, value_name = "PRICE", default_value_t = 0.1)]
    pub(crate) device_price: f64,
    /// Months that both are used.
    #[arg(long, value_name = "N", default_value_t = 60.0)]
    pub(crate) months: f64,
    /// Do it: move the keyspace to the engine, or keep the options for its next opening.
    #[arg(long)]
    pub(crate) apply: bool,
}

#[derive(Args)]
pub(crate) struct RecordArgs {
    /// The trace, a new file.
    pub(crate) file: PathBuf,
    /// Address of the server; its database is the one of --keyspace.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:6379")]
    pub(crate) addr: String,
    /// File whose first line is the server's password.
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
    /// Seconds to record; without it, until Ctrl-C.
    #[arg(long, value_name = "S")]
    pub(crate) seconds: Option<f64>,
    /// Bytes of the trace after which it ends, such as 1GiB.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) max_size: Option<u64>,
    /// Record one key in so many, with all operations on it.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) one_key_in: u64,
    /// Keys as they are, not their hashes.
    #[arg(long)]
    pub(crate) real_keys: bool,
}

#[derive(Args)]
pub(crate) struct ProbeArgs {
    /// Only show what an earlier run kept.
    #[arg(long)]
    pub(crate) show: bool,
    /// Seconds of all measurements together.
    #[arg(long, default_value_t = 10.0)]
    pub(crate) seconds: f64,
    /// Bytes of the scratch file, which is gone afterwards.
    #[arg(long, value_parser = size, default_value = "256MiB")]
    pub(crate) size: u64,
    /// Bytes that the device may be written in its life, such as 600TB: its maker's figure.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) endurance: Option<u64>,
}

#[derive(Subcommand)]
pub(crate) enum KeyspaceCommand {
    /// Create a keyspace, with the engine of --engine and the options of --set.
    Create {
        /// Its name; the server's database N is the keyspace dbN, and 0 is default.
        name: String,
    },
    /// Remove a keyspace and everything in it.
    Drop {
        /// Its name.
        name: String,
    },
    /// List the keyspaces, their engines and options.
    List,
}

/// What both the command line and the prompt understand.
#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Print the values of keys.
    Get {
        /// Keys; \xNN, \n, \r, \t and \\ stand for bytes.
        #[arg(required = true)]
        keys: Vec<OsString>,
        #[command(flatten)]
        form: Form,
        /// Write the value's bytes as they are, and nothing else.
        #[arg(long)]
        raw: bool,
    },
    /// Map a key to a value.
    Put {
        /// The key.
        key: OsString,
        /// The value.
        value: OsString,
        /// How long it lives, such as 30s, "1h 30m" or 500ms; a number without a unit is seconds.
        #[arg(long, value_name = "TIME", value_parser = time)]
        ttl: Option<Duration>,
        #[command(flatten)]
        form: Form,
        /// What the write must survive; a power cut, if the store can survive one.
        #[arg(long)]
        durability: Option<DurabilityArg>,
    },
    /// Remove keys.
    Del {
        /// Keys to remove.
        #[arg(required = true)]
        keys: Vec<OsString>,
        #[command(flatten)]
        form: Form,
        /// What the write must survive; a power cut, if the store can survive one.
        #[arg(long)]
        durability: Option<DurabilityArg>,
    },
    /// Print how long keys live from now on.
    Ttl {
        /// The keys.
        #[arg(required = true)]
        keys: Vec<OsString>,
        #[command(flatten)]
        form: Form,
    },
    /// Let a key that is there live for some time from now on, and no longer.
    Expire {
        /// The key.
        key: OsString,
        /// How long, such as 30s, "1h 30m" or 500ms; a number without a unit is seconds. 0 removes
        /// the key.
        #[arg(value_name = "TIME", value_parser = time)]
        ttl: Duration,
        #[command(flatten)]
        form: Form,
    },
    /// Let keys live without a limit.
    Persist {
        /// The keys.
        #[arg(required = true)]
        keys: Vec<OsString>,
        #[command(flatten)]
        form: Form,
    },
    /// List keys and values: in the order of the keys where the engine keeps one, else in its own.
    Scan(ScanArgs),
    /// Print the number of entries.
    Count {
        /// Walk the store instead of estimating.
        #[arg(long)]
        exact: bool,
        #[command(flatten)]
        remote: RemoteArgs,
    },
    /// Print every metric.
    Stats {
        #[command(flatten)]
        remote: RemoteArgs,
    },
    /// Do all background work now, and rewrite what is in the order of its keys so that only what
    /// is live takes space.
    Compact {
        #[command(flatten)]
        remote: RemoteArgs,
    },
    /// Print what is asked of the keyspace: operations, sizes, popularity, working set.
    Sketch {
        /// Address of a running server; its database is the one of --keyspace.
        #[arg(long, value_name = "HOST:PORT")]
        addr: Option<String>,
        /// File whose first line is that server's password.
        #[arg(long, value_name = "FILE", requires = "addr")]
        password_file: Option<PathBuf>,
    },
    /// Check every file and index of the store.
    Verify {
        #[command(flatten)]
        remote: RemoteArgs,
    },
    /// Describe keyspaces, files and structures; buckets and their runs as a picture.
    Inspect {
        /// File for the picture of the keyspace, as SVG.
        #[arg(long, value_name = "FILE")]
        svg: Option<PathBuf>,
        #[command(flatten)]
        remote: RemoteArgs,
    },
    /// Write a backup into a new or empty directory, or bring one up to date.
    Backup {
        /// The directory.
        target: PathBuf,
        /// Earlier backup of this store: only files that are not in it are copied or linked anew.
        #[arg(long, value_name = "PREVIOUS")]
        from: Option<PathBuf>,
        /// The directory holds an earlier backup of this store, which is brought up to date.
        #[arg(long, conflicts_with = "from")]
        update: bool,
        #[command(flatten)]
        remote: RemoteArgs,
    },
}

impl Verb {
    /// Which server it is to be asked of, where it can be asked of one.
    pub(crate) fn remote(&self) -> Option<&RemoteArgs> {
        match self {
            Verb::Count { remote, .. }
            | Verb::Stats { remote }
            | Verb::Compact { remote }
            | Verb::Verify { remote }
            | Verb::Inspect { remote, .. }
            | Verb::Backup { remote, .. } => Some(remote),
            _ => None,
        }
    }
}

#[derive(Args)]
pub(crate) struct ScanArgs {
    /// First key to list, where the engine keeps an order.
    #[arg(long, value_name = "KEY")]
    pub(crate) from: Option<OsString>,
    /// Key to end before.
    #[arg(long, value_name = "KEY")]
    pub(crate) to: Option<OsString>,
    /// List the keys that begin so.
    #[arg(long, value_name = "BYTES")]
    pub(crate) prefix: Option<OsString>,
    /// From the last key to the first.
    #[arg(long)]
    pub(crate) reverse: bool,
    /// Where an earlier scan in the engine's own order stopped.
    #[arg(long, default_value_t = 0, conflicts_with_all = ["from", "to", "prefix", "reverse"])]
    pub(crate) cursor: u64,
    /// Entries to list, roughly in an engine without order; 0 lists all.
    #[arg(long, default_value_t = 1000)]
    pub(crate) limit: usize,
    /// Leave the values out.
    #[arg(long)]
    pub(crate) keys_only: bool,
    #[command(flatten)]
    pub(crate) form: Form,
}

/// How keys and values are written.
#[derive(Args, Clone, Copy)]
pub(crate) struct Form {
    /// Keys and values are hexadecimal digits, in arguments and in output.
    #[arg(long)]
    pub(crate) hex: bool,
}

/// What a cache on flash has after a loss of power.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AfterPowerLoss {
    /// Nothing.
    Empty,
    /// What was on flash.
    Keep,
}

/// A name or address, and a port.
fn host_and_port(text: &str) -> Result<(String, u16), String> {
    let wrong = || format!("'{text}' is not HOST:PORT, such as 10.0.0.1:6379");
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() { Err(wrong()) } else { Ok((host.to_string(), port)) }
}

#[derive(Args)]
pub(crate) struct ServeArgs {
    /// Directory of the store; it is created where it is missing.
    pub(crate) directory: Option<PathBuf>,
    /// Serve a cache in memory instead of a store: memory in all. When it is full, entries that
    /// nobody reads give way, and nothing outlives the process but what --image keeps.
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    #[arg(conflicts_with_all = ["directory", "path", "memory", "keyspace_memory"])]
    pub(crate) cache: Option<u64>,
    /// Follow the server at this address, Redis or Silica: take all its data, then every write.
    /// REPLICAOF NO ONE ends that; the setting replicaof (CONFIG REWRITE) comes before this option.
    #[arg(long, value_name = "HOST:PORT", value_parser = host_and_port, conflicts_with = "cluster")]
    pub(crate) replica_of: Option<(String, u16)>,
    /// Ask for no huge pages: on some virtual machines the first use of each takes milliseconds.
    #[arg(long)]
    pub(crate) plain_pages: bool,
    /// Directory for the cache's memory image: a clean stop (not SHUTDOWN NOSAVE) leaves there what
    /// the cache holds, and the next start takes it back, once.
    #[arg(long, value_name = "DIR", requires = "cache")]
    pub(crate) image: Option<PathBuf>,
    /// Directory for flash behind the cache's memory, new or a cache's: it is as large as that, and
    /// holds what it held after a restart. Or a block device that `silica flash create` made flash.
    #[arg(long, value_name = "PATH", requires = "cache")]
    #[arg(conflicts_with_all = ["image", "database"])]
    pub(crate) flash: Option<PathBuf>,
    /// Directory for the cache's other files if the flash is a block device.
    #[arg(long, value_name = "DIR", requires = "flash")]
    pub(crate) flash_files: Option<PathBuf>,
    /// Bytes of flash; fixed when the cache is created (4 GiB).
    #[arg(long, value_name = "SIZE", value_parser = size, requires = "flash")]
    pub(crate) flash_size: Option<u64>,
    /// Times that all of the flash may be written in a day: what would be more stays in memory.
    #[arg(long, value_name = "N", value_parser = positive, requires = "flash")]
    pub(crate) flash_writes_per_day: Option<f64>,
    /// What a cache on flash has if the machine was started anew without a clean stop: nothing, or
    /// what was on flash, for which every delete and overwrite waits for a sync.
    #[arg(long, value_name = "WHAT", value_enum, requires = "flash")]
    #[arg(default_value_t = AfterPowerLoss::Empty)]
    pub(crate) after_power_loss: AfterPowerLoss,
    /// Engine and options of database N (SELECT N), such as 1=mica,memory_bytes=64MiB; it is
    /// created where it is missing, and stays so without the option (may be repeated).
    #[arg(long, value_name = "N=ENGINE[,OPTION=VALUE...]", value_parser = database)]
    pub(crate) database: Vec<DatabaseArg>,
    /// Agreement ports of all members of a group that agrees about database 0, this one's among
    /// them: a write is acknowledged when a majority has it.
    #[arg(long, value_name = "HOST:PORT,...", value_delimiter = ',', requires = "member")]
    #[arg(conflicts_with_all = ["cache", "database", "memcached", "udp", "datagrams", "record"])]
    pub(crate) replicated_by: Vec<String>,
    /// Which of them is this one.
    #[arg(long, value_name = "HOST:PORT", requires = "replicated_by")]
    pub(crate) member: Option<String>,
    /// Address to listen on for the other members, if they reach this one by another.
    #[arg(long, value_name = "HOST:PORT", requires = "member")]
    pub(crate) member_listen: Option<String>,
    /// Members of the group that do not lead answer reads, with what they have.
    #[arg(long, requires = "replicated_by")]
    pub(crate) stale_reads: bool,
    /// Databases that SELECT reaches, from 0 on; each is there when it is first used.
    #[arg(long, value_name = "N", default_value_t = silica_server::DATABASES_MAX)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=16))]
    pub(crate) databases: u32,
    /// Address to listen on; a port alone is one of loopback.
    #[arg(long, visible_alias = "port", value_name = "[HOST:]PORT")]
    #[arg(default_value = "127.0.0.1:6379")]
    pub(crate) listen: String,
    /// Socket in the file system to listen on too, for the same protocols; only this user may
    /// connect to it.
    #[arg(long, value_name = "SOCKET")]
    pub(crate) unix: Option<PathBuf>,
    /// Address to listen on for memcached's protocols alone; --listen takes all protocols and
    /// tells them apart by a connection's first bytes.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) memcached: Option<String>,
    /// Loopback address to listen on for datagrams of memcached's protocols (UDP). They carry no
    /// password, so there must not be one.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) udp: Option<String>,
    /// Address for the datagram protocol (UDP, many requests in a datagram); each loop has a port,
    /// this and the following. Loopback, unless there is a password.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) datagrams: Option<String>,
    /// Be a node of a cluster: redis-cli --cluster, or CLUSTERX SETNODES, says which slots it
    /// serves (docs/cluster.md). Clients have database 0 only.
    #[arg(long)]
    pub(crate) cluster: bool,
    /// Address at which clients and other nodes reach this one, if it is not that of --listen.
    #[arg(long, value_name = "HOST:PORT", requires = "cluster")]
    pub(crate) cluster_announce: Option<String>,
    /// File that keeps the map of the cluster; `CLUSTER` in the directory that is served. A cache
    /// without one begins anew.
    #[arg(long, value_name = "FILE", requires = "cluster")]
    pub(crate) cluster_file: Option<PathBuf>,
    /// File with the nodes and their slots, as CLUSTERX SETNODES takes them, behind a line
    /// `version N`; it is taken if that is not older than what the node knows.
    #[arg(long, value_name = "FILE", requires = "cluster")]
    pub(crate) cluster_nodes: Option<PathBuf>,
    /// Serve the slots that have a node while others have none.
    #[arg(long, requires = "cluster")]
    pub(crate) cluster_partial_coverage: bool,
    /// Loopback address for the dashboard (open it in a browser) and metrics over HTTP (GET
    /// /metrics, the text format of Prometheus).
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) admin: Option<String>,
    /// Record what database 0 is asked from the start to the stop, into a new file: a trace
    /// (docs/formats/trace.md), keys as hashes. Of a running server: `silica record`.
    #[arg(long, value_name = "FILE", conflicts_with = "cache")]
    pub(crate) record: Option<PathBuf>,
    /// Certificate of the server (PEM, those between it and its authority behind it): --listen and
    /// --memcached speak TLS, unless --tls-listen says where. SIGHUP reads it again.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The certificate's private key (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Authorities (PEM) of which clients must have a certificate; without it they need none.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// Address for TLS of its own, for all protocols; the others stay plain.
    #[arg(long, value_name = "HOST:PORT", requires = "tls_cert")]
    pub(crate) tls_listen: Option<String>,
    /// Follow a primary by TLS; the setting tls-replication, which CONFIG SET changes.
    #[arg(long)]
    pub(crate) tls_replication: bool,
    /// Nodes of a cluster, and MIGRATE, reach other servers by TLS: the port that a node announces
    /// is that of --tls-listen, or of --listen if all of it speaks TLS. Clients need TLS, too.
    #[arg(long)]
    pub(crate) tls_cluster: bool,
    /// The members of --replicated-by reach each other by TLS, and both sides show a certificate.
    #[arg(long, requires = "member")]
    pub(crate) tls_members: bool,
    /// Authorities (PEM) of which other servers must have a certificate; those of --tls-ca if it is
    /// not given.
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_peer_ca: Option<PathBuf>,
    /// Name for which the certificates of other servers are, if that is not the host by which they
    /// are reached.
    #[arg(long, value_name = "NAME")]
    pub(crate) tls_peer_name: Option<String>,
    /// Certificate that other servers are shown if they ask for one; --tls-cert if it is not given.
    #[arg(long, value_name = "FILE", requires = "tls_client_key")]
    pub(crate) tls_client_cert: Option<PathBuf>,
    /// That certificate's private key.
    #[arg(long, value_name = "FILE", requires = "tls_client_cert")]
    pub(crate) tls_client_key: Option<PathBuf>,
    /// Password that clients must give with AUTH; beyond loopback it is needed, or TLS.
    #[arg(long, value_name = "WORD", conflicts_with = "password_file")]
    pub(crate) password: Option<String>,
    /// File whose first line is the password, which keeps it out of the process list.
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
    /// File of users, their passwords and what they may do, in Redis's form.
    #[arg(long, value_name = "FILE")]
    pub(crate) acl_file: Option<PathBuf>,
    /// What acknowledged writes survive; a power cut, if the store can survive one.
    #[arg(long)]
    pub(crate) durability: Option<DurabilityArg>,
    /// Event loops, each a thread; 0 means one for each core.
    #[arg(long, visible_alias = "threads", value_name = "N", default_value_t = 0)]
    pub(crate) loops: usize,
    /// Who reads and writes an engine's partitions; for a cache.
    #[arg(long, value_enum, default_value_t = ModeArg::Crcw)]
    pub(crate) mode: ModeArg,
    /// How event loops wait for sockets and move their bytes.
    #[arg(long, value_enum, default_value_t = EventLoopArg::Auto)]
    pub(crate) event_loop: EventLoopArg,
    /// Part of --memory for requests and replies of all clients; a value must fit twice. An
    /// eighth where it is not given, at least 16 MiB or half.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) client_memory: Option<u64>,
    /// Milliseconds that a statement of SQL may take; 0 for any time.
    #[arg(long, value_name = "MS", default_value_t = 5_000)]
    pub(crate) sql_time_limit: u64,
    /// File (TOML) of these options, without their dashes, and of settings that CONFIG SET takes,
    /// which SIGHUP reads again. Variables such as SILICA_LISTEN come before it, and what stands
    /// here before both.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The file, read.
    #[arg(skip)]
    pub(crate) file: Option<OptionsFile>,
}

/// What `silica config` does.
#[derive(Subcommand)]
pub(crate) enum ConfigCommand {
    /// Read a file of options, and say what is wrong with it, if anything is.
    Check {
        /// The file.
        file: PathBuf,
    },
    /// Show every option that `silica serve` with these arguments would have, and whether it is
    /// from the command line, the environment, the file or nowhere.
    Show {
        /// Arguments of `silica serve`.
        #[arg(value_name = "ARGUMENTS", trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
}

#[derive(Args)]
pub(crate) struct LoadArgs {
    /// The file; - is standard input (which cannot be resumed).
    pub(crate) file: PathBuf,
    /// How records are written.
    #[arg(long, value_enum, default_value_t = FileFormat::Tsv)]
    pub(crate) format: FileFormat,
    /// Begin at the start even where an earlier load was interrupted.
    #[arg(long)]
    pub(crate) restart: bool,
    /// Make what is loaded durable, and remember the position, every so many bytes.
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "32MiB")]
    pub(crate) sync_every: u64,
}

#[derive(Clone, Copy, ValueEnum, PartialEq, Eq)]
pub(crate) enum KeyFormat {
    /// A record per line: key, TAB, value, with escapes; makes table files.
    Tsv,
    /// A record per line: key, TAB, value, with backslashes as they are; makes table files.
    Plain,
    /// Key length and value length (u32, little-endian), key, value; makes table files.
    Lp,
    /// A key per line, which is hashed; makes an index.
    Lines,
    /// Hashes of 16 bytes each, little-endian; makes an index.
    Hashes,
}

#[derive(Args)]
pub(crate) struct BuildTableArgs {
    /// File of records or keys; of records - is standard input.
    pub(crate) input: PathBuf,
    /// File for the table or the index.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Bytes of a table file; then another one begins, whose name ends in .2 and so on.
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "1GiB")]
    pub(crate) file_bytes: u64,
    /// File for the sorted hashes.
    #[arg(long, value_name = "FILE")]
    pub(crate) sorted: Option<PathBuf>,
    /// What the input is, and with that what is made of it.
    #[arg(long, value_enum, default_value_t = KeyFormat::Lines)]
    pub(crate) format: KeyFormat,
    /// Threads that sort and merge; 0 means one for each core.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) threads: usize,
    /// Average keys of a virtual bucket.
    #[arg(long, value_name = "G", default_value_t = 256)]
    pub(crate) group: u32,
    /// Largest trie that is Huffman coded.
    #[arg(long, value_name = "H", default_value_t = 64)]
    pub(crate) hmax: u32,
    /// Entries of a chunk: a sparse index that finds the chunk, not the entry.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) per_chunk: Option<u64>,
}

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub(crate) special: Option<BenchSpecial>,
    /// What to do, by name; `silica bench list` shows them all.
    #[arg(required = true)]
    pub(crate) workload: Option<String>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

#[derive(Subcommand)]
pub(crate) enum BenchSpecial {
    /// The entropy-coded trie: bits per key, lookup, construction.
    Ect {
        /// Keys to index.
        #[arg(long, default_value_t = 10_000_000)]
        keys: u64,
        /// Average keys of a virtual bucket.
        #[arg(long, value_name = "G", default_value_t = 256)]
        group: u32,
        /// Largest trie that is Huffman coded.
        #[arg(long, value_name = "H", default_value_t = 64)]
        hmax: u32,
        /// Entries of a chunk: a sparse index that finds the chunk, not the entry.
        #[arg(long, value_name = "K")]
        per_chunk: Option<u64>,
    },
    /// Partial-key cuckoo tables: occupancy, inserts, lookups.
    Cuckoo {
        /// Keys in all tables together.
        #[arg(long, default_value_t = 10_000_000)]
        keys: u64,
        /// Slots of one table.
        #[arg(long, default_value_t = silica_bench::CUCKOO_SLOTS_DEFAULT)]
        slots: u32,
        /// Bits of a tag.
        #[arg(long, default_value_t = 15)]
        tag_bits: u32,
    },
    /// The device under --path: random reads, bandwidth, syncs; beside fio where it is installed.
    Device {
        /// Bytes of the test file.
        #[arg(long, value_parser = size, default_value = "1GiB")]
        size: u64,
        /// Seconds of each measurement.
        #[arg(long, default_value_t = 3.0)]
        seconds: f64,
    },
    /// What the benchmarks themselves cost: drawing operations, driving a store that does nothing.
    Generator {
        /// Operations of each measurement.
        #[arg(long, value_name = "N", default_value_t = 4_000_000)]
        operations: u64,
    },
    /// Replay a trace (docs/formats/trace.md) on a new store, or on the one at --path.
    Replay {
        /// The trace.
        trace: PathBuf,
        /// At the trace's own times instead of as fast as possible; latency then counts from the
        /// moment an operation was due.
        #[arg(long)]
        timed: bool,
        /// Threads; each takes the operations on its share of the keys.
        #[arg(long, value_name = "T", default_value_t = 1)]
        threads: usize,
        /// Operations in one call, where so many of one kind follow one another.
        #[arg(long, value_name = "N", default_value_t = 1)]
        batch: usize,
        /// What writes must survive.
        #[arg(long, default_value = "buffered")]
        durability: DurabilityArg,
    },
    /// Every workload: what it does, its sizes, and what it reproduces.
    List,
    #[command(flatten)]
    Lab(BenchLab),
}

/// Benchmarks that `silica-lab` does.
#[derive(Subcommand)]
pub(crate) enum BenchLab {
    /// Compare stores of ours, of other people and the limits of the machine on the same work.
    Compare(LabArgs),
    /// Our datagram protocol at rising rates and with unlike keys: loss, latency, bursts.
    Datagrams(LabArgs),
    /// What stores write for each byte put, beside what their models predict.
    Models(LabArgs),
    /// Draw the charts of SILT's paper from runs on this machine.
    Figures(LabArgs),
}

/// Verbs that `silica-lab` does.
#[derive(Subcommand)]
pub(crate) enum LabVerb {
    /// What a design would cost: primitives and models of write amplification, sizes in items.
    Model(LabArgs),
    /// What a design writes, counted in memory: the judge of the models.
    Simulate(LabArgs),
}

/// Arguments that `silica-lab` reads, its --help among them.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub(crate) struct LabArgs {
    /// What silica-lab, the program beside this one, takes: --help shows it.
    #[arg(value_name = "ARGUMENTS", trailing_var_arg = true, allow_hyphen_values = true)]
    _all: Vec<OsString>,
}
