//! The search on histories that are right or wrong by construction, and beside a search that
//! tries every order.

use super::*;
use silica_base::Prng;
use silica_engine::Update;
use std::collections::BTreeSet;

fn value(n: u64) -> Vec<u8> {
    format!("value {n}").into_bytes()
}

fn was(n: u64) -> Answer {
    Answer::Was((n > 0).then(|| value(n)))
}

fn put(n: u64) -> Call {
    Call::Put(value(n))
}

/// Calls of one key by thread, begin, end, call, answer.
fn history<const N: usize>(calls: [(u64, u64, u64, Call, Answer); N]) -> History {
    let operation = |(thread, begin, end, call, answer)| Operation {
        thread,
        key: b"k".to_vec(),
        call,
        answer,
        begin,
        end,
    };
    History { operations: calls.into_iter().map(operation).collect() }
}

fn is_fine<const N: usize>(memory: Memory, calls: [(u64, u64, u64, Call, Answer); N]) -> bool {
    history(calls).check(memory).is_ok()
}

use Answer::{Did, Done, Sum, Unknown};
use Call::{Add, Delete, Get};
use Memory::{Forgets, Keeps};

#[test]
fn reads_go_forward() {
    let slow_put = || (0, 0, 9, put(1), Done);
    for memory in [Keeps, Forgets] {
        assert!(is_fine(memory, [slow_put(), (1, 1, 2, Get, was(0)), (1, 3, 4, Get, was(1))]));
    }
    let back = || [slow_put(), (1, 1, 2, Get, was(1)), (1, 3, 4, Get, was(0))];
    assert!(!is_fine(Keeps, back()), "a read that goes back");
    assert!(is_fine(Forgets, back()), "an entry that is forgotten");
    let again = [(0, 0, 1, put(1), Done), (1, 2, 3, Get, was(0)), (1, 4, 5, Get, was(1))];
    assert!(!is_fine(Forgets, again), "what is forgotten stays so");
}

#[test]
fn later_reads_are_not_stale() {
    for memory in [Keeps, Forgets] {
        let stale = [(0, 0, 1, put(1), Done), (0, 2, 3, put(2), Done), (1, 4, 5, Get, was(1))];
        assert!(!is_fine(memory, stale));
        let never = [(0, 0, 9, put(1), Done), (1, 1, 2, Get, was(2))];
        assert!(!is_fine(memory, never), "a value that nobody wrote");
        let deleted = [(0, 0, 1, put(1), Done), (0, 2, 3, Delete, Done), (1, 4, 5, Get, was(1))];
        assert!(!is_fine(memory, deleted), "a value that came back");
    }
}

#[test]
fn updates_see_one_another() {
    let replace = |n| Call::Replace(Some(value(n)));
    let both = |second| [(0, 0, 3, replace(1), was(0)), (1, 1, 2, replace(2), was(second))];
    assert!(is_fine(Keeps, both(1)));
    assert!(!is_fine(Keeps, both(0)), "a lost update");
    let sums = |a, b| [(0, 0, 3, Add(1), Sum(a)), (1, 1, 2, Add(2), Sum(b))];
    assert!(is_fine(Keeps, sums(1, 3)) && is_fine(Keeps, sums(3, 2)));
    assert!(!is_fine(Keeps, sums(1, 2)), "a lost increment");
    assert!(is_fine(Forgets, sums(1, 2)), "one that was forgotten");
    assert!(!is_fine(Forgets, sums(1, 4)));
    let swap = |from: u64, to| Call::Swap { expected: Some(value(from)), new: Some(value(to)) };
    let swaps = |did| {
        [(0, 0, 1, put(1), Done), (0, 2, 5, swap(1, 2), Did(true)), (1, 3, 4, swap(1, 3), Did(did))]
    };
    assert!(is_fine(Keeps, swaps(false)));
    assert!(!is_fine(Forgets, swaps(true)), "two from the same value");
    let refused = [(0, 0, 1, put(1), Done), (0, 2, 3, swap(1, 2), Did(false))];
    assert!(!is_fine(Keeps, refused.clone()), "a swap that should have been");
    assert!(is_fine(Forgets, refused));
}

#[test]
fn a_commit_needs_a_key_that_nobody_has_written() {
    let commit = |did| (0, 20, 21, Call::Commit(Some(value(3))), Did(did));
    let watch = |n| (0, 2, 3, Call::Watch, was(n));
    let first = || (1, 0, 1, put(1), Done);
    for memory in [Keeps, Forgets] {
        assert!(is_fine(memory, [first(), watch(1), commit(true), (1, 22, 23, Get, was(3))]));
        assert!(!is_fine(memory, [first(), watch(1), commit(true), (1, 22, 23, Get, was(1))]));
        assert!(!is_fine(memory, [first(), commit(true)]), "nothing was watched");
        let again = [watch(0), commit(true), (0, 22, 23, Call::Commit(None), Did(true))];
        assert!(!is_fine(memory, again), "watched once");
        // Others write what was there.
        let back = |did| {
            let others = [(1, 4, 5, put(2), Done), (1, 6, 7, put(1), Done)];
            let [two, one] = others;
            [first(), watch(1), two, one, commit(did)]
        };
        assert!(!is_fine(memory, back(true)) && is_fine(memory, back(false)));
        let same = [first(), watch(1), (1, 4, 5, put(1), Done), commit(true)];
        assert!(!is_fine(memory, same), "a write of what was there");
        let gone = [watch(0), (1, 4, 5, put(1), Done), (1, 6, 7, Delete, Done), commit(true)];
        assert!(!is_fine(memory, gone), "a key that came and went");
        // Writes that may have come before or after.
        assert!(is_fine(memory, [(1, 0, 30, put(1), Done), watch(1), commit(true)]));
        assert!(is_fine(memory, [first(), watch(1), (1, 4, 30, put(2), Done), commit(true)]));
        assert!(is_fine(memory, [first(), watch(1), (1, 4, 5, Delete, Did(true)), commit(false)]));
        assert!(is_fine(memory, [watch(0), (1, 4, 5, Delete, Did(false)), commit(true)]));
    }
}

#[test]
fn deletes_tell_what_they_found() {
    let deletes =
        |a, b| [(0, 0, 1, put(1), Done), (0, 2, 5, Delete, Did(a)), (1, 3, 4, Delete, Did(b))];
    assert!(is_fine(Keeps, deletes(true, false)) && is_fine(Keeps, deletes(false, true)));
    assert!(!is_fine(Forgets, deletes(true, true)), "one entry removed twice");
    assert!(!is_fine(Keeps, deletes(false, false)), "an entry that was overlooked");
    assert!(is_fine(Forgets, deletes(false, false)));
}

#[test]
fn calls_without_an_answer_happen_late_or_never_but_once() {
    let unknown = |n| (0, 0, 0, put(n), Unknown);
    let reads = |a, b| [unknown(1), (1, 2, 3, Get, was(a)), (1, 4, 5, Get, was(b))];
    for (a, b, fine) in [(0, 0, true), (0, 1, true), (1, 1, true), (1, 0, false)] {
        assert_eq!(is_fine(Keeps, reads(a, b)), fine, "{a} {b}");
    }
    let twice =
        [unknown(1), (1, 1, 2, Get, was(1)), (1, 3, 4, Delete, Done), (1, 5, 6, Get, was(1))];
    assert!(!is_fine(Forgets, twice), "a put that was applied twice");
    let early = [(1, 0, 1, Get, was(1)), (0, 2, 2, put(1), Unknown)];
    assert!(!is_fine(Forgets, early), "an effect before its call");
    let refused = |n| [(0, 0, 1, put(1), Answer::Refused), (1, 2, 3, Get, was(n))];
    assert!(is_fine(Keeps, refused(0)) && !is_fine(Keeps, refused(1)));
}

/// Right calls by the hundred, and one stale read in the middle of them.
#[test]
fn the_piece_is_short_and_shown() {
    let mut calls = Vec::new();
    for n in 1..=300 {
        let at = 10 * n;
        let stale = if n == 200 { n - 2 } else { n };
        calls.push((0, at, at + 3, put(n), Done));
        calls.push((1, at + 1, at + 2, Get, was(n - 1)));
        calls.push((1, at + 4, at + 5, Get, was(stale)));
    }
    let calls: [_; 900] = calls.try_into().unwrap();
    let piece = history(calls).check(Keeps).unwrap_err();
    let want = "\
no order of these calls of key \"k\" explains every answer (it is missing at first):
  thread 0  [--]               put \"value 198\"
  thread 0        [--]         put \"value 200\"
  thread 1              [--]   get -> \"value 198\"
";
    assert_eq!(piece.to_string(), want);
}

/// Some calls and answers, right or wrong by chance.
fn random_history(prng: &mut Prng) -> History {
    let count = 1 + prng.below(6);
    let state = |prng: &mut Prng| Some(prng.below(3)).filter(|n| *n > 0).map(value);
    let operation = |thread| {
        let (call, answer) = match prng.below(8) {
            0..=2 => (Get, Answer::Was(state(prng))),
            3..=4 => (put(1 + prng.below(2)), Done),
            5 => (Delete, if prng.below(2) == 0 { Done } else { Did(prng.below(2) == 0) }),
            6 => (Call::Replace(state(prng)), Answer::Was(state(prng))),
            _ => {
                let (expected, new) = (state(prng), state(prng));
                (Call::Swap { expected, new }, Did(prng.below(2) == 0))
            }
        };
        let answer = if prng.below(8) == 0 { Unknown } else { answer };
        let begin = prng.below(12);
        let end = begin + 1 + prng.below(6);
        Operation { thread, key: Vec::new(), call, answer, begin, end }
    };
    History { operations: (0..count).map(operation).collect() }
}

/// Tries every order, with every effect that an unknown call may have, and forgetting anywhere.
fn has_order(open: &[Operation], current: Option<Vec<u8>>, memory: Memory) -> bool {
    if open.iter().all(|operation| operation.answer == Unknown) {
        return true;
    }
    if memory == Forgets && current.is_some() && has_order(open, None, memory) {
        return true;
    }
    let is_answered = |operation: &&Operation| operation.answer != Unknown;
    let first_end = open.iter().filter(is_answered).map(|operation| operation.end).min();
    (0..open.len()).any(|n| {
        let Operation { call, answer, begin, .. } = &open[n];
        let (update, said) = call.act_on(current.as_deref());
        let said = match (answer, call) {
            (Did(_), Delete) => Did(current.is_some()),
            _ => said,
        };
        let after = match update {
            Update::Keep => current.clone(),
            Update::Delete => None,
            Update::Put { value, .. } => Some(value),
        };
        let rest = [&open[..n], &open[n + 1..]].concat();
        let may_be_next = first_end.is_none_or(|end| *begin <= end);
        let fits = *answer == Unknown || *answer == said;
        may_be_next && fits && has_order(&rest, after, memory)
    })
}

#[test]
fn every_order_is_considered() {
    let mut prng = Prng::new(3);
    let mut found = BTreeSet::new();
    for number in 0..silica_base::test_size(20_000, 200_000, 20_000_000) {
        let history = random_history(&mut prng);
        for memory in [Keeps, Forgets] {
            let fine = has_order(&history.operations, None, memory);
            let checked = history.check(memory);
            assert_eq!(checked.is_ok(), fine, "history {number}, {memory:?}: {history:#?}");
            found.insert((memory == Keeps, fine));
            if let Err(piece) = checked {
                let left = &piece.operations;
                assert!(!has_order(left, None, memory), "{number}: a piece with an order: {piece}");
            }
        }
    }
    assert_eq!(found.len(), 4, "right ones and wrong ones for both");
}
