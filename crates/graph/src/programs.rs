//! The programs that come with the engine.

use crate::program::{Neighbours, Number, Pass, Totals, Vertex, VertexProgram};

/// PageRank: a vertex has what its sources have, divided among the edges that leave them. What
/// vertices without such edges have is divided among all.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PageRank {
    /// Share of a rank that goes along edges; the rest is divided among all.
    pub damping: f64,
}

impl Default for PageRank {
    fn default() -> Self {
        PageRank { damping: 0.85 }
    }
}

impl PageRank {
    /// What goes along each edge. A vertex without edges that leave it has its whole rank.
    fn share(vertex: Vertex, rank: f64) -> f64 {
        rank / f64::from(vertex.leaving.max(1))
    }
}

impl VertexProgram for PageRank {
    type Value = f64;
    type Sum = f64;

    fn name(&self) -> String {
        format!("pagerank damping={}", self.damping)
    }

    fn counts_edges(&self) -> bool {
        true
    }

    fn begin(&self, totals: Totals, vertex: Vertex) -> f64 {
        Self::share(vertex, 1.0 / totals.vertices as f64)
    }

    fn neutral(&self) -> f64 {
        0.0
    }

    #[inline]
    fn gather(&self, sum: &mut f64, value: f64) {
        *sum += value;
    }

    #[inline]
    fn apply(&self, pass: &Pass, vertex: Vertex, _before: f64, sum: f64) -> f64 {
        let all = pass.totals.vertices as f64;
        let rank = (1.0 - self.damping) / all + self.damping * (sum + pass.sum_of_all / all);
        Self::share(vertex, rank)
    }

    fn contribution(&self, vertex: Vertex, value: f64) -> f64 {
        if vertex.leaving == 0 { value } else { 0.0 }
    }

    fn number(&self, vertex: Vertex, value: f64) -> Number {
        Number::Real(value * f64::from(vertex.leaving.max(1)))
    }
}

/// Connected components of the undirected graph: the least id that a vertex is connected to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Components;

impl VertexProgram for Components {
    type Value = u32;
    type Sum = u32;

    fn name(&self) -> String {
        "components".to_string()
    }

    fn neighbours(&self) -> Neighbours {
        Neighbours::Both
    }

    fn is_monotone(&self) -> bool {
        true
    }

    fn begin(&self, _totals: Totals, vertex: Vertex) -> u32 {
        vertex.id
    }

    fn neutral(&self) -> u32 {
        u32::MAX
    }

    #[inline]
    fn gather(&self, sum: &mut u32, value: u32) {
        *sum = (*sum).min(value);
    }

    #[inline]
    fn apply(&self, _pass: &Pass, _vertex: Vertex, before: u32, sum: u32) -> u32 {
        before.min(sum)
    }

    fn number(&self, _vertex: Vertex, value: u32) -> Number {
        Number::Whole(u64::from(value))
    }
}

/// Breadth-first search: how many edges a vertex is away from the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Levels {
    /// Id of the vertex at level 0.
    pub start: u32,
    /// Edges lead in both directions.
    pub is_undirected: bool,
}

/// The level of a vertex that is not reached.
const FAR: u32 = u32::MAX;

impl VertexProgram for Levels {
    type Value = u32;
    type Sum = u32;

    fn name(&self) -> String {
        format!("bfs start={} undirected={}", self.start, self.is_undirected)
    }

    fn neighbours(&self) -> Neighbours {
        if self.is_undirected { Neighbours::Both } else { Neighbours::Sources }
    }

    fn is_monotone(&self) -> bool {
        true
    }

    fn begin(&self, _totals: Totals, vertex: Vertex) -> u32 {
        if vertex.id == self.start { 0 } else { FAR }
    }

    fn neutral(&self) -> u32 {
        FAR
    }

    #[inline]
    fn gather(&self, sum: &mut u32, value: u32) {
        *sum = (*sum).min(value);
    }

    #[inline]
    fn apply(&self, _pass: &Pass, _vertex: Vertex, before: u32, sum: u32) -> u32 {
        before.min(sum.saturating_add(1))
    }

    fn number(&self, _vertex: Vertex, value: u32) -> Number {
        if value == FAR { Number::None } else { Number::Whole(u64::from(value)) }
    }
}
