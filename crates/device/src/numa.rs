//! Which node's memory is used, on machines where processors have memory of their own.
//!
//! What everybody reads is spread over all nodes; what threads of one node own comes to it. With
//! one node nothing is asked of the kernel, and where it refuses, memory stays where it is.

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

/// Memory is placed in whole pages of this size, the largest that the engines use.
const PAGE_BYTES: usize = silica_base::HUGE_PAGE_BYTES;
/// The kernel's `MPOL_MF_MOVE`: pages in use move, too.
const MOVE: usize = 1 << 1;
/// Nodes have smaller numbers.
const NODES_MAX: usize = 1024;
const CPUS_MAX: usize = 8 * size_of::<libc::cpu_set_t>();

/// The nodes of a machine that have memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Nodes(Vec<Node>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Node {
    number: usize,
    cpus: Vec<usize>,
}

/// Numbers of a list like `0-2,5`; none of what is no list.
fn numbers(list: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

impl Nodes {
    /// Those of this machine.
    pub fn here() -> &'static Nodes {
        static HERE: OnceLock<Nodes> = OnceLock::new();
        HERE.get_or_init(|| Nodes::read("/sys/devices/system/node".as_ref()))
    }

    /// Those that a directory like `/sys/devices/system/node` tells of; none where there is none.
    pub fn read(directory: &Path) -> Nodes {
        let list = |file: &str| {
            let text = std::fs::read_to_string(directory.join(file)).unwrap_or_default();
            numbers(&text).into_iter()
        };
        let with_memory = list("has_memory").filter(|number| *number < NODES_MAX);
        let node = |number| Node { number, cpus: list(&format!("node{number}/cpulist")).collect() };
        Nodes(with_memory.map(node).collect())
    }

    /// True where there is a choice.
    pub fn are_many(&self) -> bool {
        self.0.len() > 1
    }

    /// The only node on which a thread runs that may use these processors; `None` where there are
    /// several, or no choice.
    pub fn home(&self, cpus: &[usize]) -> Option<usize> {
        let has_all = |node: &&Node| cpus.iter().all(|cpu| node.cpus.contains(cpu));
        let is_known = self.are_many() && !cpus.is_empty();
        self.0.iter().find(|node| is_known && has_all(node)).map(|node| node.number)
    }

    /// The node that has all processors of the calling thread.
    pub fn home_of_caller(&self) -> Option<usize> {
        if !self.are_many() {
            return None;
        }
        // SAFETY: all bits zero is a set of processors.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes no more than the set's size.
        let asked = unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) };
        // SAFETY: the number lies within the set.
        let has = |cpu: &usize| unsafe { libc::CPU_ISSET(*cpu, &set) };
        let cpus: Vec<usize> = (0..CPUS_MAX).filter(|cpu| asked == 0 && has(cpu)).collect();
        self.home(&cpus)
    }

    /// Spreads the pages of `memory` over all nodes; false where there is no choice, or the kernel
    /// refuses.
    pub fn spread(&self, memory: &[AtomicU64]) -> bool {
        let all: Vec<usize> = self.0.iter().map(|node| node.number).collect();
        self.are_many() && place(memory, libc::MPOL_INTERLEAVE, &all)
    }
}

/// Brings the pages of `memory` to a node as far as it has room, those that are in use, too; false
/// where the kernel refuses.
pub fn bring(memory: &[AtomicU64], node: usize) -> bool {
    place(memory, libc::MPOL_PREFERRED, &[node])
}

fn place(memory: &[AtomicU64], policy: libc::c_int, nodes: &[usize]) -> bool {
    const BITS: usize = libc::c_ulong::BITS as usize;
    let start = (memory.as_ptr() as usize).next_multiple_of(PAGE_BYTES);
    let end = memory.as_ptr_range().end as usize / PAGE_BYTES * PAGE_BYTES;
    if start >= end {
        return false;
    }
    let mut mask = [0 as libc::c_ulong; NODES_MAX / BITS];
    nodes.iter().for_each(|node| mask[node / BITS] |= 1 << (node % BITS));
    // SAFETY: what the pages hold stays as it is, and the kernel reads as many bits of the mask as
    // it has.
    let placed = unsafe {
        let (policy, mask, bits) = (policy as usize, mask.as_ptr(), NODES_MAX + 1);
        libc::syscall(libc::SYS_mbind, start, end - start, policy, mask, bits, MOVE)
    };
    placed == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    fn machine(files: &[(&str, &str)]) -> Nodes {
        let directory = tempfile::tempdir().expect("a directory");
        for (name, text) in files {
            let path = directory.path().join(name);
            std::fs::create_dir_all(path.parent().expect("one")).expect("a directory");
            std::fs::write(path, text).expect("a file");
        }
        Nodes::read(directory.path())
    }

    #[test]
    fn threads_of_one_node_have_a_home_where_there_are_several() {
        let two = [
            ("has_memory", "0,2\n"),
            ("node0/cpulist", "0-3,8\n"),
            ("node1/cpulist", "4-5\n"),
            ("node2/cpulist", "6-7,9-11\n"),
        ];
        let nodes = machine(&two);
        assert!(nodes.are_many());
        let homes = [&[1, 8][..], &[7, 11], &[4], &[3, 6], &[]].map(|cpus| nodes.home(cpus));
        assert_eq!(homes, [Some(0), Some(2), None, None, None]);
        let one = machine(&[("has_memory", "0\n"), ("node0/cpulist", "0-1\n")]);
        assert_eq!((one.are_many(), one.home(&[0]), one.home_of_caller()), (false, None, None));
        for nothing in [machine(&[]), machine(&[("has_memory", "what?\n")])] {
            assert_eq!(nothing, Nodes::default());
        }
    }

    #[test]
    fn placed_memory_keeps_its_bytes_and_without_a_choice_nothing_is_placed() {
        let memory: Vec<AtomicU64> = (0..1 << 19).map(AtomicU64::new).collect();
        assert!(!Nodes::read("/nowhere".as_ref()).spread(&memory));
        assert!(!bring(&memory[..1000], 0), "not a whole page");
        // Kernels without nodes refuse it, and no harm is done.
        bring(&memory, 0);
        assert!(!bring(&memory, NODES_MAX - 1), "there is no such node");
        assert!(memory.iter().enumerate().all(|(at, word)| word.load(Relaxed) == at as u64));
    }
}
