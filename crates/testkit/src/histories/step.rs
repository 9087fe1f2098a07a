//! One key's operations with values as numbers, and what each may do to a state.

use super::operation::{Answer, Call, Memory, Operation};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// A value's number; [`MISSING`] is that of a key that is not there.
pub(super) type Value = u32;

pub(super) const MISSING: Value = 0;

/// What a key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct State {
    value: Value,
    /// A bit for each thread that watches the key and since when nobody has written it.
    unwritten: u64,
}

/// Before the first call.
pub(super) const FIRST: State = State { value: MISSING, unwritten: 0 };

impl State {
    fn written(new: Value) -> Self {
        State { value: new, unwritten: 0 }
    }

    /// After `new` was left here. To remove what is missing is no write.
    fn leaving(self, new: Value) -> Self {
        if [self.value, new] == [MISSING; 2] { self } else { State::written(new) }
    }

    /// After the thread has ended its watch.
    fn unwatched(self, thread: u64) -> Self {
        State { unwritten: self.unwritten & !(1 << thread), ..self }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    /// Saw this.
    Get(Value),
    /// Leaves `new`, and saw `was` where that is known.
    Write { was: Option<Value>, new: Value },
    /// Removes what is there, and saw whether there was something.
    Remove { did: bool },
    /// Leaves `new` where it sees `expected`.
    Swap { expected: Value, new: Value, did: Option<bool> },
    /// Adds, and saw the sum where that is known.
    Add { by: i64, sum: Option<i64> },
    /// Saw this, and has watched since then. (Where nobody wrote between the two that is so.)
    Watch { saw: Value, thread: u64 },
    /// Leaves `new` where nobody has written since the thread began to watch.
    Commit { new: Value, thread: u64 },
    /// Did not.
    NoCommit { thread: u64 },
}

/// An operation that could have an effect or saw something.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    /// Its place in the list that the steps were made of.
    pub(super) operation: usize,
    pub(super) kind: Kind,
    pub(super) begin: u64,
    /// Absent where there was no answer: then it may happen at any time or never.
    pub(super) end: Option<u64>,
}

/// The steps of one key.
#[derive(Debug, Clone)]
pub(super) struct Steps {
    pub(super) list: Vec<Step>,
    memory: Memory,
    values: RefCell<Values>,
}

#[derive(Debug, Clone, Default)]
struct Values {
    states: BTreeMap<Vec<u8>, Value>,
    /// The decimal number that a state is, if it is one.
    numbers: BTreeMap<Value, i64>,
}

impl Values {
    fn state(&mut self, value: Option<&[u8]>) -> Value {
        let Some(value) = value else { return MISSING };
        if let Some(state) = self.states.get(value) {
            return *state;
        }
        let state = self.states.len() as Value + 1;
        self.states.insert(value.to_vec(), state);
        let text = std::str::from_utf8(value).ok();
        if let Some(number) = text.and_then(|text| text.parse().ok()) {
            self.numbers.insert(state, number);
        }
        state
    }

    fn state_of_number(&mut self, number: i64) -> Value {
        self.state(Some(number.to_string().as_bytes()))
    }
}

impl Steps {
    pub(super) fn new(operations: &[&Operation], memory: Memory) -> Self {
        let mut values = Values::default();
        let mut list = Vec::new();
        for (operation, of) in operations.iter().enumerate() {
            if let Some(kind) = kind(of, &mut values) {
                let end = (of.answer != Answer::Unknown).then_some(of.end);
                list.push(Step { operation, kind, begin: of.begin, end });
            }
        }
        Steps { list, memory, values: RefCell::new(values) }
    }

    /// The states that `kind` may leave of `state`; none where its answer does not fit.
    pub(super) fn after(&self, state: State, kind: Kind) -> impl Iterator<Item = State> {
        // What a cache forgets it may as well forget at the last moment before that is seen.
        let value = state.value;
        let sees = |wanted| value == wanted || (wanted == MISSING && self.forgets());
        let only = |fits: bool, new: State| [fits.then_some(new), None];
        let leaves = |fits: bool, new| only(fits, state.leaving(new));
        let states = match kind {
            Kind::Get(found) => only(sees(found), State { value: found, ..state }),
            Kind::Write { was, new } => leaves(was.is_none_or(sees), new),
            Kind::Remove { did: true } => leaves(value != MISSING, MISSING),
            Kind::Remove { did: false } => only(sees(MISSING), State { value: MISSING, ..state }),
            Kind::Swap { expected, new, did: Some(true) | None } => leaves(sees(expected), new),
            Kind::Swap { expected, did: Some(false), .. } if value != expected => only(true, state),
            Kind::Swap { .. } => {
                only(self.forgets() && value != MISSING, State { value: MISSING, ..state })
            }
            Kind::Add { by, sum } => {
                let sums = [self.sum(value, by), self.sum(MISSING, by).filter(|_| self.forgets())];
                let fits = |value: Value| sum.is_none_or(|sum| self.number(value) == Some(sum));
                sums.map(|value| value.filter(|value| fits(*value)).map(State::written))
            }
            Kind::Watch { saw, thread } => {
                let unwritten = state.unwritten | 1 << thread;
                only(sees(saw), State { value: saw, unwritten })
            }
            Kind::Commit { new, thread } => {
                let holds = state.unwritten >> thread & 1 == 1;
                only(holds, state.leaving(new).unwatched(thread))
            }
            Kind::NoCommit { thread } => only(true, state.unwatched(thread)),
        };
        states.into_iter().flatten()
    }

    /// What a step may have seen and may have left; `None` for what its answer does not say.
    pub(super) fn trace(&self, kind: Kind) -> (Option<Value>, Option<Value>) {
        match kind {
            Kind::Get(found) | Kind::Watch { saw: found, .. } => (Some(found), Some(found)),
            Kind::Write { was, new } => (was, Some(new)),
            Kind::Remove { did } => ((!did).then_some(MISSING), Some(MISSING)),
            Kind::Swap { expected, new, did: Some(true) | None } => (Some(expected), Some(new)),
            Kind::Commit { new, .. } => (None, Some(new)),
            Kind::Swap { .. } | Kind::Add { .. } | Kind::NoCommit { .. } => (None, None),
        }
    }

    pub(super) fn forgets(&self) -> bool {
        self.memory == Memory::Forgets
    }

    fn sum(&self, state: Value, by: i64) -> Option<Value> {
        let number = if state == MISSING { 0 } else { self.number(state)? };
        Some(self.values.borrow_mut().state_of_number(number.wrapping_add(by)))
    }

    fn number(&self, state: Value) -> Option<i64> {
        self.values.borrow().numbers.get(&state).copied()
    }
}

/// What `of` saw and did; `None` where that is nothing.
///
/// # Panics
///
/// Where the answer is none to such a call.
fn kind(of: &Operation, values: &mut Values) -> Option<Kind> {
    let mut state = |value: &Option<Vec<u8>>| values.state(value.as_deref());
    Some(match (&of.call, &of.answer) {
        (_, Answer::Refused) | (Call::Get, Answer::Unknown) => return None,
        (Call::Get, Answer::Was(found)) => Kind::Get(state(found)),
        (Call::Put(value), Answer::Done | Answer::Unknown) => {
            Kind::Write { was: None, new: values.state(Some(value)) }
        }
        (Call::Delete, Answer::Done | Answer::Unknown) => Kind::Write { was: None, new: MISSING },
        (Call::Delete, Answer::Did(did)) => Kind::Remove { did: *did },
        (Call::Replace(new), Answer::Was(was)) => {
            Kind::Write { was: Some(state(was)), new: state(new) }
        }
        (Call::Replace(new), Answer::Unknown) => Kind::Write { was: None, new: state(new) },
        (Call::Swap { expected, new }, Answer::Did(_) | Answer::Unknown) => {
            let did = if let Answer::Did(did) = of.answer { Some(did) } else { None };
            Kind::Swap { expected: state(expected), new: state(new), did }
        }
        (Call::Watch, Answer::Was(saw)) => Kind::Watch { saw: state(saw), thread: of.thread },
        (Call::Watch, Answer::Unknown) => return None,
        (Call::Commit(_), Answer::Did(false)) => Kind::NoCommit { thread: of.thread },
        (Call::Commit(new), Answer::Did(true) | Answer::Unknown) => {
            Kind::Commit { new: state(new), thread: of.thread }
        }
        (Call::Add(by), Answer::Sum(sum)) => Kind::Add { by: *by, sum: Some(*sum) },
        // It has found no number, and left it.
        (Call::Add(_), Answer::Was(saw)) => Kind::Get(state(saw)),
        (Call::Add(by), Answer::Unknown) => Kind::Add { by: *by, sum: None },
        (call, answer) => panic!("{answer:?} is no answer to {call:?}"),
    })
}
