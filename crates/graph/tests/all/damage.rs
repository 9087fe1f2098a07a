//! Bytes that were changed at rest, in files, which have no checksums of their own.

use crate::support::{AMPLE, build_of, run_of};
use silica_base::ErrorKind;
use silica_device::sim::{SimDevice, SimOptions};
use silica_graph::{FileStorage, Graph, Memory, PageRank, Rmat, triangles};

#[test]
fn damage_is_found_or_does_no_harm() {
    let device = SimDevice::new(1, SimOptions::default());
    let storage = FileStorage::open(device.clone()).unwrap();
    let memory = Memory::new(AMPLE);
    let mut rmat = Rmat::new(10, 1).unwrap();
    let edges: Vec<(u32, u32)> = (0..6_000).map(|_| rmat.edge()).collect();
    build_of(&storage, &memory, &edges).unwrap();
    let bytes = device.peek("shards").unwrap();
    let expected = {
        let graph = Graph::open(&storage, &memory).unwrap();
        (run_of(&graph, &PageRank::default(), 3).unwrap().1, graph.shard_bytes())
    };
    let mut found = 0;
    for at in (0..bytes.len()).step_by(4_099) {
        device.poke("shards", at as u64, &[bytes[at] ^ 0x41]);
        let outcome = Graph::open(&storage, &memory).and_then(|graph| {
            triangles(&graph, &mut |_| Ok(()))?;
            run_of(&graph, &PageRank::default(), 3).map(|(_, ranks)| ranks)
        });
        match outcome {
            Err(error) => {
                let is_refused =
                    matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Unsupported);
                assert!(is_refused || error.kind() == ErrorKind::NotFound, "{error}");
                found += 1;
            }
            Ok(ranks) => assert_eq!(ranks.len(), expected.0.len()),
        }
        device.poke("shards", at as u64, &bytes[at..=at]);
    }
    assert!(found > 0, "no damage was found");
    let graph = Graph::open(&storage, &memory).unwrap();
    assert_eq!(run_of(&graph, &PageRank::default(), 3).unwrap().1, expected.0);
}
