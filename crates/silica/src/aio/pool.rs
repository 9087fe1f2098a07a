//! Threads that wait, so that those who ask need not.

use super::Keyspace;
use async_channel::{Receiver, Sender};
use futures_channel::oneshot;
use silica_engine::{Durability, EntryRef, Error, ErrorKind, Op, OpKind, Result, WriteBatch};

/// Calls that one thread takes at a time; gets among them are one burst of the engine.
const BURST_CALLS: usize = 64;
/// Calls that may wait for a thread. Those beyond wait before they have taken any memory but
/// their own.
const WAITING_MAX: usize = 4096;

/// An answer on its way to whoever asked.
pub(super) type Answer<T> = oneshot::Sender<Result<T>>;

/// An operation that owns its keys and value.
pub(super) enum Owned {
    Put { key: Vec<u8>, value: Vec<u8>, expires_unix_ms: u64, user_bits: u32 },
    Delete(Vec<u8>),
    DeleteRange(Vec<u8>, Option<Vec<u8>>),
}

impl Owned {
    pub(super) fn of(op: &Op<'_>) -> Self {
        let key = op.key.to_vec();
        match op.kind {
            OpKind::Put(EntryRef { value, expires_unix_ms, user_bits }) => {
                Owned::Put { key, value: value.to_vec(), expires_unix_ms, user_bits }
            }
            OpKind::Delete => Owned::Delete(key),
            OpKind::DeleteRange(upper) => Owned::DeleteRange(key, upper.map(<[u8]>::to_vec)),
        }
    }

    fn add_to<'a>(&'a self, batch: &mut WriteBatch<'a>) {
        match self {
            Owned::Put { key, value, expires_unix_ms, user_bits } => {
                let (expires_unix_ms, user_bits) = (*expires_unix_ms, *user_bits);
                batch.put_entry(key, EntryRef { value, expires_unix_ms, user_bits })
            }
            Owned::Delete(key) => batch.delete(key),
            Owned::DeleteRange(lower, upper) => batch.delete_range(lower, upper.as_deref()),
        };
    }
}

/// What the threads are asked for.
pub(super) enum Call {
    Get { keyspace: crate::Keyspace, key: Vec<u8>, answer: Answer<Option<Vec<u8>>> },
    Write(Write),
    Run(Box<dyn FnOnce() + Send>),
}

pub(super) struct Write {
    pub(super) keyspace: crate::Keyspace,
    pub(super) ops: Vec<Owned>,
    pub(super) durability: Durability,
    pub(super) answer: Answer<()>,
}

/// A few threads that calls which would wait go to. Cheap to clone; the threads end when the last
/// clone, and the last [`Keyspace`] of it, is gone and what waited is done.
#[derive(Clone)]
pub struct Pool {
    calls: Sender<Call>,
}

impl Pool {
    /// A pool of `threads` threads, at least one. Two let gets go on while a write is synced; more
    /// help where the device serves more reads at a time than one burst has.
    ///
    /// # Errors
    /// `Io` if the system has no thread left.
    pub fn new(threads: usize) -> Result<Self> {
        let (calls, waiting) = async_channel::bounded(WAITING_MAX);
        for number in 0..threads.max(1) {
            let waiting: Receiver<Call> = waiting.clone();
            let builder = std::thread::Builder::new().name(format!("silica-aio-{number}"));
            let spawned = builder.spawn(move || answer_all(&waiting));
            spawned.map_err(|e| Error::io("starting a thread of the pool", e))?;
        }
        Ok(Pool { calls })
    }

    /// `keyspace`, whose calls are futures from here on.
    pub fn keyspace(&self, keyspace: &crate::Keyspace) -> Keyspace {
        Keyspace::new(self.clone(), keyspace.clone())
    }

    /// Runs anything that waits on a thread of the pool, and answers with what it returns:
    /// transactions, backups, whatever has no future of its own.
    ///
    /// # Errors
    /// What `work` returns; `Closed` if it panicked.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.ask(|answer| Call::Run(Box::new(move || drop(answer.send(work()))))).await
    }

    /// Sends a call, and waits for its answer.
    pub(super) async fn ask<T>(&self, call: impl FnOnce(Answer<T>) -> Call) -> Result<T> {
        self.send(call).await?.await.map_err(|_| gone())?
    }

    /// Sends a call, whose answer comes later.
    pub(super) async fn send<T>(
        &self,
        call: impl FnOnce(Answer<T>) -> Call,
    ) -> Result<oneshot::Receiver<Result<T>>> {
        let (answer, receiver) = oneshot::channel();
        self.calls.send(call(answer)).await.map_err(|_| gone())?;
        Ok(receiver)
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pool({} calls wait)", self.calls.len())
    }
}

pub(super) fn gone() -> Error {
    Error::new(ErrorKind::Closed, "the call's thread panicked; what it was to do may have happened")
}

/// Answers calls until there are none and nobody is left who could ask.
fn answer_all(waiting: &Receiver<Call>) {
    let (mut gets, mut writes) = (Vec::new(), Vec::new());
    while let Ok(first) = waiting.recv_blocking() {
        let more = std::iter::from_fn(|| waiting.try_recv().ok());
        for call in std::iter::once(first).chain(more).take(BURST_CALLS) {
            match call {
                Call::Get { keyspace, key, answer } => gets.push((keyspace, key, answer)),
                Call::Write(write) => writes.push(write),
                // How long it takes is not known, so nothing that was taken waits for it.
                Call::Run(work) => {
                    get(&mut gets);
                    write(&mut writes);
                    run(work);
                }
            }
        }
        // Gets first: a sync takes longer.
        get(&mut gets);
        write(&mut writes);
    }
}

/// A panic of somebody's work ends that work and not the thread.
fn run(work: Box<dyn FnOnce() + Send>) {
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
}

type Get = (crate::Keyspace, Vec<u8>, Answer<Option<Vec<u8>>>);

/// Answers gets, those of a keyspace as one burst.
fn get(gets: &mut Vec<Get>) {
    gets.retain(|(_, _, answer)| !answer.is_canceled());
    while let Some((keyspace, ..)) = gets.first() {
        let keyspace = keyspace.clone();
        let of_it: Vec<Get> = gets.extract_if(.., |get| get.0.is(&keyspace)).collect();
        let keys: Vec<&[u8]> = of_it.iter().map(|(_, key, _)| key.as_slice()).collect();
        match keyspace.get_many(&keys) {
            Ok(values) => {
                for ((_, _, answer), value) in of_it.into_iter().zip(values) {
                    let _ = answer.send(Ok(value));
                }
            }
            Err(error) => of_it.into_iter().for_each(|(_, _, answer)| {
                let _ = answer.send(Err(error.duplicate()));
            }),
        }
    }
}

/// Applies writes, those of a keyspace one after another, and syncs once for all of them.
fn write(writes: &mut Vec<Write>) {
    while let Some(first) = writes.first() {
        let keyspace = first.keyspace.clone();
        let of_it: Vec<Write> =
            writes.extract_if(.., |write| write.keyspace.is(&keyspace)).collect();
        let is_synced = |write: &Write| write.durability == Durability::Synced;
        // Alone it leaves the sync to the engine, which may share it with other threads.
        let share = of_it.iter().filter(|write| is_synced(write)).count() > 1;
        let mut unsynced = Vec::new();
        for one in of_it {
            let durability = if share { Durability::Buffered } else { one.durability };
            match apply(&one, durability) {
                Ok(()) if share && is_synced(&one) => unsynced.push(one.answer),
                done => drop(one.answer.send(done)),
            }
        }
        if !unsynced.is_empty() {
            let synced = keyspace.sync();
            for answer in unsynced {
                let failed = synced.as_ref().err().map(Error::duplicate);
                let _ = answer.send(failed.map_or(Ok(()), Err));
            }
        }
    }
}

fn apply(write: &Write, durability: Durability) -> Result<()> {
    let mut batch = WriteBatch::new();
    write.ops.iter().for_each(|op| op.add_to(&mut batch));
    write.keyspace.write_with(&batch, durability)
}
