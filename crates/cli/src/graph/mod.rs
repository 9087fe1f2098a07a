//! `silica graph`: programs on graphs that are larger than memory, and graphs to try them on.

mod generate;
mod place;
mod results;
mod work;

use clap::{Args, Subcommand};
use silica::Result;
use silica_console::values::size;
use silica_console::{Global, Output};
use silica_graph::{Components, Levels, PageRank};
use std::path::PathBuf;

/// Iterations of PageRank if none are given: ranks of social graphs change by less than 1 % then.
const RANK_ITERATIONS: u64 = 20;

#[derive(Subcommand)]
pub(crate) enum GraphCommand {
    /// Rank vertices by who leads to them.
    Pagerank {
        #[command(flatten)]
        common: GraphArgs,
        /// Share of a rank that goes along edges.
        #[arg(long, value_name = "SHARE", default_value_t = 0.85, value_parser = share)]
        damping: f64,
    },
    /// Find which vertices are connected, whatever the direction of edges: the least of them names
    /// the component.
    Components {
        #[command(flatten)]
        common: GraphArgs,
    },
    /// Find how many edges each vertex is away from one of them.
    Bfs {
        #[command(flatten)]
        common: GraphArgs,
        /// The vertex to start at; without it, the one that most edges leave.
        #[arg(long, value_name = "VERTEX")]
        start: Option<u32>,
        /// Edges lead in both directions.
        #[arg(long)]
        undirected: bool,
    },
    /// Count the triangles, whatever the direction of edges.
    Triangles {
        #[command(flatten)]
        common: GraphArgs,
    },
    /// Make an edge list: text if OUT ends in .txt, text as gzip if it ends in .gz, else binary
    /// (docs/formats/graph-edges.md).
    Generate {
        /// R-MAT with the parameters of Graph500, of 2^SCALE vertices.
        #[arg(long, value_name = "SCALE", required = true)]
        #[arg(value_parser = clap::value_parser!(u32).range(1..=32))]
        rmat: u32,
        /// Edges.
        #[arg(long, value_name = "N")]
        edges: u64,
        /// Seed of the random numbers.
        #[arg(long, value_name = "N", default_value_t = 1)]
        seed: u64,
        /// The edge list, a new file.
        out: PathBuf,
    },
}

/// What the programs have in common.
#[derive(Args)]
pub(crate) struct GraphArgs {
    /// The edge list: text with two vertices a line (SNAP's form), the binary form, or either as
    /// gzip.
    pub(crate) edges: PathBuf,
    /// Flash to work on: an image or a drive (`silica flash create`). Without it, an image beside
    /// the edge list, which goes when the program is finished.
    #[arg(long, value_name = "PATH", conflicts_with = "files")]
    pub(crate) flash: Option<PathBuf>,
    /// Work on plain files in this directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) files: Option<PathBuf>,
    /// Use the flash whatever it holds.
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Iterations at most; 20 for pagerank, any number for the others.
    #[arg(long, value_name = "N")]
    pub(crate) iterations: Option<u64>,
    /// Begin anew where an interrupted run could go on.
    #[arg(long)]
    pub(crate) anew: bool,
    /// Count lines that are no edge instead of refusing the list.
    #[arg(long)]
    pub(crate) skip_bad: bool,
    /// Threads.
    #[arg(long, value_name = "N", default_value_t = 2)]
    #[arg(value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=64))]
    pub(crate) threads: usize,
    /// Results that are shown.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) top: usize,
    /// Write every vertex and its result into this file: a line each, with a tab between.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Put every result into this keyspace of the store (--path): the key is the vertex, the value
    /// the result, both as decimal text.
    #[arg(long, value_name = "KEYSPACE")]
    pub(crate) to: Option<String>,
    /// Bytes of the image beside the edge list, if its size is to be another than that of the
    /// longest graph that the list may hold.
    #[arg(long, value_name = "SIZE", value_parser = size, conflicts_with_all = ["flash", "files"])]
    pub(crate) flash_size: Option<u64>,
}

/// Does what `silica graph` says.
pub(crate) fn run(global: &Global, command: &GraphCommand, output: &mut Output) -> Result<()> {
    match command {
        GraphCommand::Pagerank { common, damping } => {
            let program = PageRank { damping: *damping };
            work::vertices(global, common, RANK_ITERATIONS, |_| Ok(program), output)
        }
        GraphCommand::Components { common } => {
            work::vertices(global, common, u64::MAX, |_| Ok(Components), output)
        }
        GraphCommand::Bfs { common, start, undirected } => {
            let program = |graph: &work::Opened<'_>| {
                let start = work::start_of(graph, *start)?;
                Ok(Levels { start, is_undirected: *undirected })
            };
            work::vertices(global, common, u64::MAX, program, output)
        }
        GraphCommand::Triangles { common } => work::triangles(global, common, output),
        GraphCommand::Generate { rmat, edges, seed, out } => {
            generate::run(*rmat, *edges, *seed, out, output)
        }
    }
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "use a share from 0 to 1, such as 0.85".to_string())
}
