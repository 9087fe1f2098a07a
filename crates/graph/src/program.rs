//! What a program computes for each vertex.

use std::fmt::Debug;

/// A vertex, as programs see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vertex {
    /// Its number in the edge list.
    pub id: u32,
    /// Edges that enter it. 0 unless [`VertexProgram::counts_edges`].
    pub entering: u32,
    /// Edges that leave it. 0 unless [`VertexProgram::counts_edges`].
    pub leaving: u32,
}

/// The graph, as programs see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Totals {
    /// Vertices.
    pub vertices: u64,
    /// Edges.
    pub edges: u64,
}

/// An iteration, as programs see it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pass {
    /// The graph.
    pub totals: Totals,
    /// Counted from 1.
    pub iteration: u64,
    /// The sum of [`VertexProgram::contribution`] over all values before the iteration.
    pub sum_of_all: f64,
}

/// Whose values a vertex gathers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Neighbours {
    /// Those of the sources of edges that enter it.
    Sources,
    /// Those of the targets of edges that leave it, too.
    Both,
}

/// The value of a vertex as people and clients read it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// A real number.
    Real(f64),
    /// A whole number.
    Whole(u64),
    /// None, as the level of a vertex that is not reached.
    None,
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            // The shortest decimal text that reads back as the number.
            Number::Real(number) => write!(f, "{number}"),
            Number::Whole(number) => write!(f, "{number}"),
            Number::None => write!(f, "-"),
        }
    }
}

/// A value with a fixed number of bytes, little-endian where it is kept.
pub trait Fixed: Copy + PartialEq + Debug + Default + Send + Sync {
    /// Its bytes: 4 or 8.
    const BYTES: usize;
    /// Writes it to `BYTES` bytes.
    fn put(self, out: &mut [u8]);
    /// Reads it from `BYTES` bytes.
    fn get(bytes: &[u8]) -> Self;
}

macro_rules! fixed {
    ($($number:ty),*) => {$(
        impl Fixed for $number {
            const BYTES: usize = size_of::<$number>();

            #[inline]
            fn put(self, out: &mut [u8]) {
                out.copy_from_slice(&self.to_le_bytes());
            }

            #[inline]
            fn get(bytes: &[u8]) -> Self {
                <$number>::from_le_bytes(bytes.try_into().expect("as many bytes as it has"))
            }
        }
    )*};
}

fixed!(u32, u64, f32, f64);

/// A program in the vertex-centric model (003…, 3.7.3): in each iteration a vertex gathers the
/// values that its neighbours had before the iteration, and gets a new one.
///
/// The order in which values are gathered is that of the neighbours' numbers, sources before
/// targets, whatever memory and threads are; so sums of reals are the same from run to run.
pub trait VertexProgram: Sync {
    /// What a vertex has. It is kept on the storage.
    type Value: Fixed;
    /// What is gathered; in memory only.
    type Sum: Copy + Send;

    /// The name with all parameters, of at most 200 bytes: runs with another name begin anew.
    fn name(&self) -> String;

    /// Whose values are gathered.
    fn neighbours(&self) -> Neighbours {
        Neighbours::Sources
    }

    /// True if [`Vertex::entering`] and [`Vertex::leaving`] are asked for; they are read in each
    /// iteration, 8 bytes a vertex.
    fn counts_edges(&self) -> bool {
        false
    }

    /// True if values that did not change since the last iteration need not be gathered again:
    /// `apply` of a sum without them gives what the vertex has. Parts of the graph in which nothing
    /// changes are not read then.
    fn is_monotone(&self) -> bool {
        false
    }

    /// The value before the first iteration.
    fn begin(&self, totals: Totals, vertex: Vertex) -> Self::Value;

    /// The sum of no values.
    fn neutral(&self) -> Self::Sum;

    /// Adds a neighbour's value. Called for each edge.
    fn gather(&self, sum: &mut Self::Sum, value: Self::Value);

    /// The new value. The number of edges counts if [`VertexProgram::counts_edges`]; the id does
    /// not: it is 0.
    fn apply(
        &self,
        pass: &Pass,
        vertex: Vertex,
        before: Self::Value,
        sum: Self::Sum,
    ) -> Self::Value;

    /// What a value adds to [`Pass::sum_of_all`] of the next iteration.
    fn contribution(&self, _vertex: Vertex, _value: Self::Value) -> f64 {
        0.0
    }

    /// True if there is nothing left to do after an iteration that changed so many values.
    fn is_finished(&self, changed: u64) -> bool {
        changed == 0
    }

    /// The value as it is shown.
    fn number(&self, vertex: Vertex, value: Self::Value) -> Number;
}
