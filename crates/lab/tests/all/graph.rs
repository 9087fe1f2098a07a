//! Figure 3.10 at the size that the command has by itself.

use silica_base::SystemClock;
use silica_lab::figures::graph::{Input, rows};

#[test]
fn a_small_graph_has_room_for_what_storages_keep_in_spare() {
    let scratch = tempfile::tempdir().unwrap();
    let input = Input::rmat(0.0625, 1).unwrap();
    let rows = rows(&[input], scratch.path(), &SystemClock::default(), &mut |_, _| ()).unwrap();
    let metric = "both, emulator's clock, over conventional drive";
    let ratio = rows.iter().find(|row| row.metric == metric).unwrap().value;
    // Each part of the sort that is given up costs a page of its own: 1.021.
    assert!(ratio < 1.025, "{ratio}");
}
