//! `silica graph`: programs on graphs that are larger than memory, and graphs to try them on.

mod generate;
mod place;
mod results;
mod work;

use crate::args::GraphCommand;
use silica::Result;
use silica_console::{Global, Output};
use silica_graph::{Components, Levels, PageRank};

/// Iterations of PageRank if none are given: ranks of social graphs change by less than 1 % then.
const RANK_ITERATIONS: u64 = 20;

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
