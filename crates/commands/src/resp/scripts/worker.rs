//! The interpreter of a thread. A thread that has run no script has none.

use super::running::{Running, Runnings};
use super::store::Script;
use crate::budget::{Budget, Claim};
use crate::service::Service;
use silica_base::{Clock, SystemClock};
use silica_lua::{Failure, Interpreter, LibraryFunction, Stop};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// The part of the clients' memory that one interpreter may take at most.
const MEMORY_SHARE: usize = 4;
/// Memory that an interpreter may grow by before it is counted anew.
const STEP_BYTES: usize = 64 << 10;
/// Memory of an idle interpreter above which it is given up.
const IDLE_BYTES_MAX: usize = 4 << 20;
/// Scripts whose names a thread remembers.
const KNOWN_MAX: usize = 256;

/// What ends the script that runs.
struct Control {
    clock: SystemClock,
    runnings: Arc<Runnings>,
    /// What its interpreter holds of the clients' memory.
    claim: Claim,
    /// When the script has to leave the thread, in nanoseconds of the clock.
    deadline_ns: Cell<u64>,
    running: RefCell<Option<Arc<Running>>>,
}

impl Control {
    fn poll(&self, held_bytes: usize) -> Option<Stop> {
        if self.clock.monotonic_ns() > self.deadline_ns.get() {
            return Some(Stop::Preempted);
        }
        if self.running.borrow().as_ref().is_some_and(|running| running.is_killed()) {
            return Some(Stop::Killed);
        }
        if self.runnings.is_stopping() {
            return Some(Stop::Failed("ERR the server is being stopped".into()));
        }
        let claimed = self.claim.bytes();
        if held_bytes <= claimed {
            return None;
        }
        self.claim.grow(held_bytes - claimed + STEP_BYTES).err().map(Stop::Failed)
    }
}

/// An interpreter and what it needs between scripts.
pub(super) struct Worker {
    pub(super) interpreter: Interpreter,
    control: Rc<Control>,
    /// Scripts by name, as they were in a version of a store.
    known: BTreeMap<Vec<u8>, Arc<Script>>,
    version: (u64, u64),
}

thread_local! {
    static WORKER: RefCell<Option<Worker>> = const { RefCell::new(None) };
}

fn memory_bytes_max(budget: &Budget) -> usize {
    budget.max() / MEMORY_SHARE
}

impl Worker {
    fn new(service: &Service) -> Result<Self, String> {
        let claim = Claim::new(&service.budget);
        let control = Rc::new(Control {
            clock: SystemClock::default(),
            runnings: Arc::clone(&service.runnings),
            claim,
            deadline_ns: Cell::new(u64::MAX),
            running: RefCell::default(),
        });
        let polled = Rc::clone(&control);
        let poll = Box::new(move |bytes| polled.poll(bytes));
        let bytes_max = memory_bytes_max(&service.budget);
        let interpreter =
            Interpreter::new(bytes_max, poll).map_err(|failure| text(&failure, service))?;
        control.claim.set(interpreter.held_bytes());
        let version = (service.scripts.id, service.scripts.version());
        Ok(Worker { interpreter, control, known: BTreeMap::new(), version })
    }

    /// Does `work` with the interpreter of this thread.
    pub(super) fn with<T>(
        service: &Service,
        work: impl FnOnce(&mut Worker) -> T,
    ) -> Result<T, String> {
        let is_of = |worker: &Worker| worker.version.0 == service.scripts.id;
        let mut worker = match WORKER.take().filter(is_of) {
            Some(worker) => worker,
            None => Worker::new(service)?,
        };
        worker.refresh(service);
        // If it panics, the thread makes another interpreter.
        let result = work(&mut worker);
        worker.interpreter.collect_garbage();
        let held_bytes = worker.interpreter.held_bytes();
        worker.control.claim.set(held_bytes);
        if held_bytes <= IDLE_BYTES_MAX {
            WORKER.set(Some(worker));
        }
        Ok(result)
    }

    /// Forgets scripts that are void.
    fn refresh(&mut self, service: &Service) {
        let version = (service.scripts.id, service.scripts.version());
        if self.version != version || self.known.len() > KNOWN_MAX {
            self.known.clear();
            self.version = version;
        }
    }

    /// The script called `name`.
    pub(super) fn script(&mut self, service: &Service, name: &[u8]) -> Option<Arc<Script>> {
        if let Some(known) = self.known.get(name) {
            return Some(Arc::clone(known));
        }
        let script = service.scripts.get(name)?;
        self.known.insert(name.to_vec(), Arc::clone(&script));
        Some(script)
    }

    /// Lets what runs next go on for `limit_ns` nanoseconds, or as long as it likes and `running`
    /// is not killed.
    pub(super) fn watch(&self, limit_ns: Option<u64>, running: Option<Arc<Running>>) {
        let deadline = limit_ns.map(|limit| self.control.clock.monotonic_ns() + limit);
        self.control.deadline_ns.set(deadline.unwrap_or(u64::MAX));
        self.control.running.replace(running);
    }

    /// True if the time of what [`Worker::watch`] has begun is over.
    pub(super) fn is_late(&self) -> bool {
        self.control.clock.monotonic_ns() > self.control.deadline_ns.get()
    }
}

/// The error that answers a script which failed like this.
pub(super) fn text(failure: &Failure, service: &Service) -> String {
    match failure {
        Failure::Script(text) => text.clone(),
        Failure::Syntax(text) => format!("ERR Error compiling script (new function): {text}"),
        Failure::Memory => format!(
            "OOM the script needs more than {} bytes of memory, a part of the clients' memory; \
             let it hold less at once, or raise --client-memory",
            memory_bytes_max(&service.budget)
        ),
        Failure::Stopped(Stop::Failed(text)) => text.clone(),
        Failure::Stopped(Stop::Killed) => "ERR Script killed by user with SCRIPT KILL.".into(),
        Failure::Stopped(Stop::Preempted) => "ERR the script takes too long here".into(),
    }
}

/// Says why `body`, a script without its first line, is none.
pub(crate) fn check(service: &Service, body: &[u8]) -> Result<(), String> {
    Worker::with(service, |worker| {
        worker.watch(None, None);
        worker.interpreter.check(body).map_err(|failure| text(&failure, service))
    })?
}

/// The functions of a library with this text, without its first line.
pub(crate) fn functions(service: &Service, code: &[u8]) -> Result<Vec<LibraryFunction>, String> {
    /// Nanoseconds that a library may take to register its functions; Redis gives it as long.
    const LIMIT_NS: u64 = 500_000_000;
    Worker::with(service, |worker| {
        worker.watch(Some(LIMIT_NS), None);
        worker.interpreter.load(code).map_err(|failure| match failure {
            Failure::Syntax(text) => format!("ERR Error compiling function: {text}"),
            Failure::Stopped(Stop::Preempted) => {
                "ERR Error registering functions: FUNCTION LOAD timeout".into()
            }
            other => text(&other, service),
        })
    })?
}
