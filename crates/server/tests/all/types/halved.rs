//! Objects amid writes of which a reader sees a part: an engine that stops in the middle of a
//! batch until somebody wants to know whether what was read belongs together.

use crate::support::{Client, config, show};
use silica_engine::{
    Atomic, Capabilities, Descriptor, Durability, Engine, EntryRef, Error, ErrorKind, Expected,
    Layer, Op, Result, Update,
};
use silica_proto::Value;
use silica_server::{Config, Databases, Mode, Server};
use silica_testkit::Reference;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

#[derive(Default)]
struct State {
    /// The next batch of so many operations stops before its last one.
    stops_at: Option<usize>,
    /// A batch has stopped.
    has_stopped: bool,
    /// It may go on.
    may_go_on: bool,
    is_writing: bool,
    /// Batches that are done.
    done: usize,
}

/// Makes batches visible one operation after the other.
struct Halving {
    inner: Arc<Reference>,
    descriptor: Descriptor,
    is_in_order: bool,
    state: Mutex<State>,
    changed: Condvar,
}

impl Halving {
    fn new(is_in_order: bool) -> Arc<Self> {
        let (state, changed) = Default::default();
        let inner = Arc::new(Reference::new());
        let known = *inner.descriptor();
        // So that threads beside the loops run what is asked of it: a batch may stop one of them.
        let capabilities =
            Capabilities { may_wait: true, durable: true, synced: true, ..known.capabilities };
        let descriptor = Descriptor { capabilities, ..known };
        Arc::new(Halving { inner, descriptor, is_in_order, state, changed })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while held")
    }

    /// The next batch of at least so many operations stops before its last one.
    fn stop_at(&self, operations: usize) {
        *self.state() = State { stops_at: Some(operations), ..State::default() };
    }

    /// Waits until a batch has stopped, or one is done; true if it has stopped.
    fn has_stopped(&self) -> bool {
        let mut state = self.state();
        while !state.has_stopped && state.done == 0 {
            state = self.changed.wait(state).expect("no panic while held");
        }
        state.has_stopped
    }

    /// Lets a batch go on that has stopped.
    fn go_on(&self) {
        self.state().may_go_on = true;
        self.changed.notify_all();
    }

    /// Lets a batch go on that has stopped, and waits for its end.
    fn finish(&self) -> MutexGuard<'_, State> {
        let mut state = self.state();
        while state.is_writing {
            state.may_go_on = true;
            self.changed.notify_all();
            state = self.changed.wait(state).expect("no panic while held");
        }
        state
    }

    fn write_some(&self, ops: &[Op<'_>]) -> Result<()> {
        for op in ops {
            self.atomic().write_expecting(&[], &[*op], Durability::Buffered)?;
        }
        Ok(())
    }

    fn atomic(&self) -> &dyn Atomic {
        self.inner.as_atomic().expect("the reference has this view")
    }
}

impl Layer for Halving {
    type Inner = Reference;

    fn inner(&self) -> &Arc<Reference> {
        &self.inner
    }

    fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    fn as_atomic(&self) -> Option<&dyn Atomic> {
        Some(self)
    }
}

impl Atomic for Halving {
    fn update(
        &self,
        key: &[u8],
        durability: Durability,
        decide: &mut dyn FnMut(Option<EntryRef<'_>>) -> Update,
    ) -> Result<()> {
        let _alone = self.finish();
        self.atomic().update(key, durability, decide)
    }

    fn update_all(
        &self,
        keys: &[&[u8]],
        durability: Durability,
        decide: &mut dyn FnMut(&[Option<EntryRef<'_>>]) -> Vec<Update>,
    ) -> Result<()> {
        let mut alone = self.finish();
        let mut updates = Vec::new();
        self.atomic().update_all(keys, durability, &mut |entries| {
            updates = decide(entries);
            vec![Update::Keep; keys.len()]
        })?;
        let mut ops: Vec<Op<'_>> = Vec::new();
        for (key, update) in keys.iter().zip(&updates) {
            ops.extend(update.kind().map(|kind| Op { key, kind }));
        }
        let Some((last, first)) = ops.split_last() else { return Ok(()) };
        if alone.stops_at.is_none_or(|operations| ops.len() < operations) {
            self.write_some(&ops)?;
            alone.done += 1;
            self.changed.notify_all();
            return Ok(());
        }
        alone.stops_at = None;
        alone.is_writing = true;
        drop(alone);
        self.write_some(first)?;
        let mut state = self.state();
        state.has_stopped = true;
        self.changed.notify_all();
        while !state.may_go_on {
            state = self.changed.wait(state).expect("no panic while held");
        }
        self.write_some(&[*last])?;
        (state.is_writing, state.done) = (false, state.done + 1);
        self.changed.notify_all();
        Ok(())
    }

    fn write_expecting(
        &self,
        expected: &[Expected<'_>],
        ops: &[Op<'_>],
        durability: Durability,
    ) -> Result<bool> {
        self.update_expecting(expected, ops, durability, &mut || {})
    }

    fn order_epoch(&self) -> Option<u64> {
        self.is_in_order.then_some(0)
    }

    fn settle(&self) {
        drop(self.finish());
    }
}

/// One engine for database 0.
struct Only(Arc<Halving>);

impl Databases for Only {
    fn open(&self, index: u32) -> Result<Arc<dyn Engine>> {
        match index {
            0 => Ok(Arc::clone(&self.0) as Arc<dyn Engine>),
            _ => Err(Error::new(ErrorKind::Unsupported, "there is one database")),
        }
    }

    fn exists(&self, index: u32) -> bool {
        index == 0
    }

    fn swap(&self, _: u32, _: u32) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, "there is one database"))
    }
}

fn start(is_in_order: bool) -> (Server, Arc<Halving>, [Client; 2]) {
    let engine = Halving::new(is_in_order);
    let config = Config { mode: Mode::Crcw, ..config() };
    let server = Server::start(config, Arc::new(Only(Arc::clone(&engine)))).expect("a server");
    let clients = [(); 2].map(|()| Client::connect(&server));
    (server, engine, clients)
}

fn bulks(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.iter().map(show).collect(),
        other => panic!("{other:?}"),
    }
}

/// Lists that lose most of their pages while somebody reads them, or writes to them.
#[test]
fn pages_that_go_while_an_object_is_read_are_not_missing() {
    for is_in_order in [true, false] {
        for read in [
            "LRANGE list 0 -1",
            "LINDEX list 150",
            "LSET list 1 x",
            "EVAL return(redis.call('lrange',KEYS[1],0,-1)) 1 list",
            "SORT list ALPHA",
        ] {
            let (server, engine, [mut writer, mut reader]) = start(is_in_order);
            let values = format!(" {}", "v".repeat(100)).repeat(200);
            assert_eq!(writer.ask(&format!("RPUSH list{values}")), ":200");
            engine.stop_at(3);
            writer.send(b"LTRIM list 0 9\r\n");
            assert!(engine.has_stopped());
            let answer = show(&reader.ask_value(read));
            engine.go_on();
            assert_eq!(show(&writer.reply().expect("a reply")), "OK");
            assert!(!answer.contains("MISCONF"), "{read} {is_in_order}: {answer}");
            assert_eq!(reader.ask("LLEN list"), ":10");
            server.stop();
        }
    }
}

/// A hash whose page is split: half of its fields have left it, and the entry does not say where
/// they are yet.
#[test]
fn fields_that_move_between_pages_are_found() {
    for is_in_order in [true, false] {
        for transaction in [false, true] {
            let (server, engine, [mut writer, mut reader]) = start(is_in_order);
            let value = "v".repeat(100);
            let field = |n: usize| format!("field:{:03}", n * 7 % 100);
            let mut splits = 0;
            for n in 0..100 {
                // A page that is new, one that is not, and the entry.
                engine.stop_at(3);
                writer.send(format!("HSET hash {} {value}\r\n", field(n)).as_bytes());
                if engine.has_stopped() {
                    splits += 1;
                    let names: String = (0..n).map(|n| format!(" {}", field(n))).collect();
                    let line = format!("HMGET hash{names}");
                    let found = match transaction {
                        false => reader.ask_value(&line),
                        true => {
                            assert_eq!(reader.ask("MULTI"), "OK");
                            assert_eq!(reader.ask(&line), "QUEUED");
                            match reader.ask_value("EXEC") {
                                Value::Array(mut replies) => replies.remove(0),
                                other => panic!("{other:?}"),
                            }
                        }
                    };
                    engine.go_on();
                    let found = bulks(&found);
                    let missing = found.iter().filter(|found| !found.contains(&value)).count();
                    assert_eq!((found.len(), missing), (n, 0), "{is_in_order} {transaction}");
                }
                assert_eq!(show(&writer.reply().expect("a reply")), ":1");
            }
            assert!(splits > 3, "{splits} splits");
            server.stop();
        }
    }
}
