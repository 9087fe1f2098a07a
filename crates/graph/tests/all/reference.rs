//! The same questions asked of petgraph.

use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::unionfind::UnionFind;
use petgraph::visit::Bfs;
use petgraph::visit::EdgeRef;
use silica_graph::Number;
use std::collections::{BTreeMap, BTreeSet};

/// A graph in petgraph.
pub(crate) struct Reference {
    graph: DiGraph<u32, ()>,
    nodes: BTreeMap<u32, NodeIndex>,
}

impl Reference {
    pub(crate) fn new(edges: &[(u32, u32)]) -> Self {
        let mut graph = DiGraph::new();
        let ids: BTreeSet<u32> = edges.iter().flat_map(|(a, b)| [*a, *b]).collect();
        let nodes: BTreeMap<u32, NodeIndex> =
            ids.iter().map(|id| (*id, graph.add_node(*id))).collect();
        for (source, target) in edges {
            graph.add_edge(nodes[source], nodes[target], ());
        }
        Reference { graph, nodes }
    }

    pub(crate) fn vertices(&self) -> usize {
        self.graph.node_count()
    }

    /// Power iteration over petgraph's edges, with what dangling vertices have shared by all.
    pub(crate) fn ranks(&self, damping: f64, iterations: u64) -> BTreeMap<u32, f64> {
        let all = self.graph.node_count() as f64;
        let mut ranks = vec![1.0 / all; self.graph.node_count()];
        for _ in 0..iterations {
            let mut next = vec![0.0; ranks.len()];
            let mut dangling = 0.0;
            for node in self.graph.node_indices() {
                let count = self.graph.edges(node).count();
                if count == 0 {
                    dangling += ranks[node.index()];
                }
                for edge in self.graph.edges(node) {
                    next[edge.target().index()] += ranks[node.index()] / count as f64;
                }
            }
            let rank = |sum: &f64| (1.0 - damping) / all + damping * (sum + dangling / all);
            ranks = next.iter().map(rank).collect();
        }
        self.nodes.iter().map(|(id, node)| (*id, ranks[node.index()])).collect()
    }

    /// petgraph's own PageRank. Without random jumps it has the usual definition, for graphs
    /// without repeated edges.
    pub(crate) fn walk(&self, iterations: usize) -> BTreeMap<u32, f64> {
        let ranks = petgraph::algo::page_rank::page_rank(&self.graph, 1.0f64, iterations);
        self.nodes.iter().map(|(id, node)| (*id, ranks[node.index()])).collect()
    }

    /// The least id of each vertex's component.
    pub(crate) fn components(&self) -> Vec<(u32, Number)> {
        let mut union = UnionFind::new(self.graph.node_count());
        for edge in self.graph.edge_references() {
            union.union(edge.source().index(), edge.target().index());
        }
        let mut least = BTreeMap::new();
        for (id, node) in &self.nodes {
            least.entry(union.find_mut(node.index())).or_insert(*id);
        }
        let label = |node: &NodeIndex| Number::Whole(u64::from(least[&union.find(node.index())]));
        self.nodes.iter().map(|(id, node)| (*id, label(node))).collect()
    }

    /// The level of each vertex.
    pub(crate) fn levels(&self, start: u32) -> Vec<(u32, Number)> {
        let mut levels = BTreeMap::from([(self.nodes[&start], 0u64)]);
        let mut search = Bfs::new(&self.graph, self.nodes[&start]);
        while let Some(node) = search.next(&self.graph) {
            let level = levels[&node];
            for target in self.graph.neighbors(node) {
                levels.entry(target).or_insert(level + 1);
            }
        }
        let level = |node| levels.get(node).map_or(Number::None, |level| Number::Whole(*level));
        self.nodes.iter().map(|(id, node)| (*id, level(node))).collect()
    }

    /// Triangles, by looking at each pair of neighbours of each vertex.
    pub(crate) fn triangles(&self) -> u64 {
        let mut neighbours: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for edge in self.graph.edge_references() {
            let (a, b) = (self.graph[edge.source()], self.graph[edge.target()]);
            if a != b {
                neighbours.entry(a.min(b)).or_default().insert(a.max(b));
            }
        }
        let mut count = 0;
        for list in neighbours.values() {
            for one in list {
                let of_one = neighbours.get(one);
                count += of_one.map_or(0, |of_one| of_one.intersection(list).count() as u64);
            }
        }
        count
    }
}
