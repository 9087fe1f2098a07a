//! Calls of an engine.

use super::load::Client;
use super::operation::{Answer, Call};
use silica_base::Prng;
use silica_engine::{
    Budget, Durability, Engine, EngineExt, EntryRef, Error, ErrorKind, Update, WriteBatch,
};

impl Call {
    /// What the call does to a key that is `current`, and the answer to it.
    ///
    /// # Panics
    ///
    /// If the call is one that depends on more than the key's value.
    pub fn act_on(&self, current: Option<&[u8]>) -> (Update, Answer) {
        let become_ = |new: &Option<Vec<u8>>| new.clone().map_or(Update::Delete, Update::put);
        let was = || Answer::Was(current.map(<[u8]>::to_vec));
        match self {
            Call::Get | Call::Watch => (Update::Keep, was()),
            Call::Put(value) => (Update::put(value.clone()), Answer::Done),
            Call::Delete => (Update::Delete, Answer::Done),
            Call::Replace(new) => (become_(new), was()),
            Call::Swap { expected, new } if expected.as_deref() == current => {
                (become_(new), Answer::Did(true))
            }
            Call::Swap { .. } => (Update::Keep, Answer::Did(false)),
            Call::Add(by) => {
                let text = std::str::from_utf8(current.unwrap_or(b"0"));
                let number = text.ok().and_then(|text| text.parse::<i64>().ok());
                // What is no number was put by nobody: no order explains such an answer.
                let Some(number) = number else { return (Update::Keep, was()) };
                let sum = number.wrapping_add(*by);
                (Update::put(sum.to_string().into_bytes()), Answer::Sum(sum))
            }
            Call::Commit(_) => panic!("whether it commits depends on what was written before"),
        }
    }
}

/// What an error that the call ended with says of it.
///
/// # Panics
///
/// Where an engine without faults has no reason for it.
pub(super) fn refusal(error: &Error) -> Answer {
    match error.kind() {
        ErrorKind::Full | ErrorKind::Locked => Answer::Refused,
        _ => panic!("amid histories: {error}"),
    }
}

/// Calls an engine: everything that is no update by `get_many` and `write`, half of the puts as
/// batches that change their key several times.
#[derive(Clone, Copy)]
pub struct EngineClient<'a>(pub &'a dyn Engine);

impl EngineClient<'_> {
    fn update(&self, key: &[u8], call: &Call) -> silica_engine::Result<Answer> {
        let mut answer = Answer::Unknown;
        let atomic = self.0.as_atomic().expect("an engine with updates");
        atomic.update(key, Durability::Buffered, &mut |current: Option<EntryRef<'_>>| {
            let (update, said) = call.act_on(current.map(|entry| entry.value));
            answer = said;
            update
        })?;
        Ok(answer)
    }

    fn try_call(&self, key: &[u8], call: &Call) -> silica_engine::Result<Answer> {
        match call {
            Call::Get => self.0.get(key).map(Answer::Was),
            Call::Put(value) => {
                let mut batch = WriteBatch::new();
                // What a batch does to a key is seen as a whole; every other value tries that.
                if value.iter().fold(0, |sum, byte| sum ^ byte) & 1 == 1 {
                    batch.put(key, b"nobody sees this").delete(key);
                }
                self.0.write(batch.put(key, value), Durability::Buffered)?;
                Ok(Answer::Done)
            }
            Call::Delete => {
                self.0.delete(key, Durability::Buffered)?;
                Ok(Answer::Done)
            }
            _ => self.update(key, call),
        }
    }
}

impl Client for EngineClient<'_> {
    fn call(&mut self, key: &[u8], call: &Call) -> Answer {
        self.try_call(key, call).unwrap_or_else(|error| refusal(&error))
    }

    fn get_many(&mut self, keys: &[&[u8]]) -> Vec<Answer> {
        let found = self.0.get_all(keys).unwrap_or_else(|error| panic!("amid histories: {error}"));
        found.into_iter().map(Answer::Was).collect()
    }

    fn rest(&mut self, prng: &mut Prng) {
        if prng.below(2) == 0 {
            return std::thread::yield_now();
        }
        let budget = Budget::of(1 + prng.below(1 << 14));
        self.0.maintain(budget).expect("maintenance amid histories");
    }
}
