use super::*;
use crate::{KeptBytes, Prng, test_size};

fn bytes(prng: &mut Prng) -> Vec<u8> {
    let len = [10, 3000, 4080, 4096, 4097, 30_000, CLASSES * GRAIN_BYTES, 200_000];
    let len = len[prng.below(len.len() as u64) as usize] + prng.below(3) as usize;
    vec![prng.next_u64() as u8; len]
}

#[test]
fn pieces_of_all_sizes_keep_their_bytes_while_others_come_and_go_in_threads() {
    let seeds: Vec<u64> = (0..4).collect();
    std::thread::scope(|scope| {
        for seed in &seeds {
            scope.spawn(move || {
                let mut prng = Prng::new(*seed);
                let mut kept: Vec<(Vec<u8>, KeptBytes)> = Vec::new();
                for _ in 0..test_size(2000, 20_000, 200_000) {
                    if kept.len() < 100 {
                        let bytes = bytes(&mut prng);
                        let piece = KeptBytes::new(&bytes);
                        kept.push((bytes, piece));
                    } else {
                        let at = prng.below(100) as usize;
                        let (bytes, piece) = kept.swap_remove(at);
                        assert!(*piece == *bytes, "{} bytes", bytes.len());
                    }
                }
            });
        }
    });
}

#[test]
fn a_piece_stays_until_its_last_owner_goes() {
    std::thread::scope(|scope| {
        for n in 0..test_size(200, 2000, 20_000) as u32 {
            let bytes = n.to_le_bytes().repeat(1000);
            let piece = KeptBytes::new(&bytes);
            let others: Vec<_> = (0..2)
                .map(|_| {
                    let piece = piece.clone();
                    scope.spawn(move || piece.to_vec())
                })
                .collect();
            drop(piece);
            // What was given back is written again.
            let next = KeptBytes::new(&vec![0xFF; bytes.len()]);
            others.into_iter().for_each(|other| assert_eq!(other.join().expect("it ends"), bytes));
            assert!(next.iter().all(|byte| *byte == 0xFF));
            let (first, second) = (next.clone(), next.clone());
            drop(next);
            drop(first);
            let others: Vec<_> = (0..4).map(|_| KeptBytes::new(&bytes)).collect();
            assert!(
                second.iter().all(|byte| *byte == 0xFF) && others.iter().all(|o| **o == *bytes)
            );
        }
    });
}

/// Pieces of their own, so that other tests do not matter.
fn take(pieces: &mut Pieces, class: usize) -> Place {
    let place = pieces.take(class).expect("there is memory");
    // SAFETY: the piece was taken, and nothing else refers to it.
    unsafe { pieces.of(place).0.as_ptr().write_bytes(7, place.bytes()) };
    place
}

#[test]
fn free_pieces_hold_little_and_are_used_again() {
    let mut pieces = Pieces::new();
    let count = 20 << 20 >> 12;
    let mut all: Vec<Place> = (0..count).map(|_| take(&mut pieces, 0)).collect();
    let slabs = pieces.classes[0].slabs.len();
    assert_eq!((pieces.in_use, pieces.held), (20 << 20, 0));
    let mut prng = Prng::new(1);
    while !all.is_empty() {
        let place = all.swap_remove(prng.below(all.len() as u64) as usize);
        pieces.give_back(place);
        assert!(!GIVES_BACK || pieces.held <= HELD_BYTES_MAX.max(pieces.in_use / 16));
    }
    assert_eq!(pieces.in_use, 0);
    let mut again: Vec<_> = (0..count).map(|_| take(&mut pieces, 0)).collect();
    assert_eq!((pieces.classes[0].slabs.len(), pieces.held), (slabs, 0));
    again.sort_unstable_by_key(|place| (place.slab, place.piece));
    let is_twice = |two: &[Place]| (two[0].slab, two[0].piece) == (two[1].slab, two[1].piece);
    assert!(!again.windows(2).any(is_twice), "a piece belongs to one");
}

#[test]
fn memory_of_free_pieces_stays_within_the_room_and_goes_for_other_sizes() {
    const MIB: usize = 1 << 20;
    let mut pieces = Pieces::new();
    pieces.set_room(0, 16 * MIB);
    let all: Vec<Place> = (0..12 * MIB / GRAIN_BYTES).map(|_| take(&mut pieces, 0)).collect();
    all.into_iter().for_each(|place| pieces.give_back(place));
    assert_eq!((pieces.in_use, pieces.held), (0, 12 * MIB), "it is within the room");
    let larger: Vec<Place> =
        (0..8 * MIB / (8 * GRAIN_BYTES)).map(|_| take(&mut pieces, 7)).collect();
    let held = |room: usize| room - room / 8..=room;
    assert!(!GIVES_BACK || held(8 * MIB).contains(&pieces.held), "{} held", pieces.held);
    // In several calls: each gives back some.
    pieces.set_room(16 * MIB, 10 * MIB);
    for _ in 0..6 * MIB / GRAIN_BYTES / DISCARDED_MAX {
        pieces.set_room(10 * MIB, 10 * MIB);
    }
    assert!(!GIVES_BACK || held(2 * MIB).contains(&pieces.held), "{} held", pieces.held);
    larger.into_iter().for_each(|place| pieces.give_back(place));
    assert!(pieces.held <= 10 * MIB);
    pieces.set_room(10 * MIB, 0);
    while GIVES_BACK && pieces.held > HELD_BYTES_MAX {
        let before = pieces.held;
        pieces.set_room(0, 0);
        assert!(pieces.held < before, "it goes on until little is held");
    }
}
