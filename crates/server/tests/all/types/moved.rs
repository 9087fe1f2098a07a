//! Large objects that go to another database while others go on.

use super::work::fill;
use crate::support::{Client, config, script, show};
use silica_engine::{
    Capabilities, Descriptor, Durability, Engine, Error, ErrorKind, Layer, Result, WriteBatch,
};
use silica_server::{Config, Databases, Mode, Server};
use silica_testkit::Reference;
use silica_types::is_inner;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Writes of pages wait while somebody holds them.
struct Holding {
    inner: Arc<Reference>,
    descriptor: Descriptor,
    held: Mutex<()>,
    /// Writes of pages that have come.
    came: AtomicUsize,
}

impl Holding {
    fn new() -> Arc<Self> {
        let inner = Arc::new(Reference::new());
        let known = *inner.descriptor();
        // So that threads beside the loops run what is asked of it.
        let capabilities =
            Capabilities { may_wait: true, durable: true, synced: true, ..known.capabilities };
        let descriptor = Descriptor { capabilities, ..known };
        let (held, came) = Default::default();
        Arc::new(Holding { inner, descriptor, held, came })
    }

    fn wait(&self, batch: &WriteBatch<'_>) {
        if batch.ops().iter().any(|op| is_inner(op.key)) {
            self.came.fetch_add(1, Ordering::SeqCst);
            drop(self.held.lock().expect("no panic while held"));
        }
    }
}

impl Layer for Holding {
    type Inner = Reference;

    fn inner(&self) -> &Arc<Reference> {
        &self.inner
    }

    fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    fn write(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        self.wait(batch);
        self.inner.write(batch, durability)
    }

    fn write_each(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        self.wait(batch);
        self.inner.write_each(batch, durability)
    }
}

struct Two([Arc<Holding>; 2]);

impl Databases for Two {
    fn open(&self, index: u32) -> Result<Arc<dyn Engine>> {
        let missing = || Error::new(ErrorKind::Unsupported, "there are two databases");
        let engine = self.0.get(index as usize).ok_or_else(missing)?;
        Ok(Arc::clone(engine) as Arc<dyn Engine>)
    }

    fn exists(&self, index: u32) -> bool {
        index < 2
    }

    fn swap(&self, _: u32, _: u32) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, "they stay where they are"))
    }
}

#[test]
fn others_go_on_while_a_large_object_goes_to_another_database() {
    let engines = [(); 2].map(|()| Holding::new());
    let config = Config { mode: Mode::Crcw, ..config() };
    let server = Server::start(config, Arc::new(Two(engines.clone()))).expect("a server");
    let [mut mover, mut other] = [(); 2].map(|()| Client::connect(&server));
    fill(&mut mover, "SADD large", 30_000);
    // Moves it there, copies it back, replaces the copy, and changes it meanwhile.
    for (line, from, members) in [
        ("MOVE large 1", 0, 30_000),
        ("COPY large large DB 0", 1, 30_000),
        ("COPY large copy DB 1 REPLACE", 0, 30_001),
        ("COPY large copy DB 1 REPLACE", 0, 30_002),
    ] {
        let to = 1 - from;
        assert_eq!(mover.ask(&format!("SELECT {from}")), "OK");
        let target = &engines[to];
        let held = target.held.lock().expect("no panic while held");
        let before = target.came.load(Ordering::SeqCst);
        mover.send(format!("{line}\r\n").as_bytes());
        while target.came.load(Ordering::SeqCst) == before {
            std::thread::yield_now();
        }
        // Of whatever database.
        script(&mut other, "SELECT 1 -> OK\nSET x y -> OK\nSELECT 0 -> OK\nSET x y -> OK");
        if members > 30_000 {
            assert_eq!(other.ask(&format!("SADD large {members}")), ":1", "while it is copied");
        }
        drop(held);
        assert_eq!(show(&mover.reply().expect("a reply")), ":1", "{line}");
        assert_eq!(mover.ask(&format!("SELECT {to}")), "OK");
        let key = line.split(' ').nth(if line.starts_with("MOVE") { 1 } else { 2 }).unwrap();
        assert_eq!(mover.ask(&format!("SCARD {key}")), format!(":{members}"), "{line}");
        let found = mover.ask(&format!("SMISMEMBER {key} member:00000000 member:00029999"));
        assert_eq!(found, "[:1 :1]", "{line}");
    }
    script(&mut mover, "SELECT 0 -> OK\nSCARD large -> :30002\nSELECT 1 -> OK\nDBSIZE -> :3");
    for engine in &engines {
        let engine = Arc::clone(engine) as Arc<dyn Engine>;
        super::engine_pages::check_all(&engine);
    }
    server.stop();
}
