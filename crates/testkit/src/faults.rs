//! The device says no: failing writes, syncs and reads.

use super::differential::caught;
use super::harness::{DeviceHarness, Fault, Image};
use super::history::{History, Observed};
use super::session::{
    Model, Outcome, Session, Stop, apply, compare_gets, compare_scan, effect, ensure,
};
use super::workload::{Change, Keys, Mix, Step, Steps, Value};
use silica_engine::{Durability, Engine, Error, ErrorKind};

/// Steps that fill the store before the faults start.
const PRELUDE_STEPS: usize = 300;
/// More calls than any script makes.
const PASSES_MAX: u64 = 100_000;

/// What the fault test did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaultReport {
    /// Runs of the script.
    pub passes: u64,
    /// Runs in which an error reached the caller.
    pub errors: u64,
    /// Runs in which the store did not open because of the fault.
    pub failed_opens: u64,
    /// Runs after which the engine refused writes until it was reopened.
    pub poisoned: u64,
}

/// For each fault, lets the 1st, 2nd, 3rd, … call to which it applies fail while a store with
/// contents is opened and a script of `steps` steps runs, until a pass has no such call left.
/// Checks that errors have the right kind, that reads stay right, that a failed sync is final,
/// and that after reopening nothing acknowledged is lost.
///
/// # Panics
///
/// Where the store breaks a promise; the message has the fault, the call and the seed.
pub fn faults<H: DeviceHarness>(harness: &mut H, seed: u64, steps: usize) -> FaultReport {
    let mut report = FaultReport::default();
    let prepared = caught(|| prepare(harness, seed))
        .unwrap_or_else(|stop| panic!("faults(harness, {seed}, {steps}) without a fault: {stop}"));
    for fault in Fault::ALL {
        for nth in 1..=PASSES_MAX {
            let run = || Pass::new(harness, &prepared, fault).run(seed, steps, nth, &mut report);
            match caught(run) {
                Ok(true) => break,
                Ok(false) => assert!(nth < PASSES_MAX, "{fault:?} never has a clean pass"),
                Err(stop) => panic!(
                    "faults(harness, {seed}, {steps}) fails with {fault:?} at call {nth}: {stop}"
                ),
            }
        }
    }
    report
}

/// A store with contents, closed.
fn prepare<H: DeviceHarness>(harness: &mut H, seed: u64) -> Outcome<(Image, Model)> {
    let workload = harness.workload();
    let mut session = Session::fresh(harness, workload.crash_keys)?;
    let steps = Steps::new(!seed, workload, workload.crash_keys, Mix::CRASH);
    for step in steps.take(PRELUDE_STEPS).filter(|step| *step != Step::Clear) {
        session.step(&step)?;
    }
    session.step(&Step::Sync)?;
    session.close();
    let model = std::mem::take(&mut session.model);
    Ok((harness.image(), model))
}

/// How the engine of a run ends.
#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    PowerCut,
    Kill,
    Close,
}

impl End {
    fn bring_about(self, harness: &mut impl DeviceHarness, seed: u64) {
        match self {
            End::PowerCut => harness.power_cut(seed),
            End::Kill => harness.kill(),
            End::Close => {}
        }
    }
}

/// One run of the script with one fault.
struct Pass<'h, H> {
    harness: &'h mut H,
    start: &'h Model,
    fault: Fault,
    history: History,
    /// The last write, if it failed in a way that leaves open whether it happened.
    doubtful: Option<Vec<Change>>,
}

impl<'h, H: DeviceHarness> Pass<'h, H> {
    fn new(harness: &'h mut H, prepared: &'h (Image, Model), fault: Fault) -> Self {
        harness.restore(&prepared.0);
        let history = History::new(prepared.1.clone(), harness.crash_order());
        Pass { harness, start: &prepared.1, fault, history, doubtful: None }
    }

    fn keys(&self) -> Keys {
        let workload = self.harness.workload();
        Keys::new(&workload, workload.crash_keys)
    }

    /// True where the fault had no call left to strike.
    fn run(mut self, seed: u64, steps: usize, nth: u64, report: &mut FaultReport) -> Outcome<bool> {
        let workload = self.harness.workload();
        report.passes += 1;
        self.harness.fail_at(self.fault, nth);
        let keys = self.keys();
        let (harness, start) = (&mut *self.harness, self.start.clone());
        let mut model = start.clone();
        let mut failed_open = false;
        let end = [End::PowerCut, End::Kill, End::Close][nth as usize % 3];
        match Session::open(harness, keys, start) {
            Ok(mut session) => {
                let script = Steps::new(seed, workload, workload.crash_keys, Mix::CRASH);
                let mut watch = Watch {
                    fault: self.fault,
                    history: &mut self.history,
                    doubtful: &mut self.doubtful,
                    errors: 0,
                };
                let is_poisoned = watch.run(&mut session, script.take(steps))?;
                report.errors += u64::from(watch.errors > 0);
                report.poisoned += u64::from(is_poisoned);
                model = std::mem::take(&mut session.model);
                end.bring_about(session.harness, nth);
            }
            Err(Stop::Failed(error)) => {
                self.check_kind(&error)?;
                end.bring_about(self.harness, nth);
                report.failed_opens += 1;
                failed_open = true;
            }
            Err(stop) => return Err(stop),
        }
        let is_clean = self.harness.fault_is_pending();
        ensure(!is_clean || !failed_open, || "the store did not open without a fault".into())?;
        self.harness.clear_faults();
        self.check_afterwards(model, end)?;
        Ok(is_clean)
    }

    fn check_kind(&self, error: &Error) -> Outcome {
        ensure(error.kind() == kind_of(self.fault), || {
            format!("{:?} surfaces as {:?}: {error}", self.fault, error.kind())
        })
    }

    /// Opens the store where a sync failed and the device was not restarted since, so that it may
    /// refuse to sync what it failed to sync once. Where it opens and syncs, what it shows must
    /// survive a power cut, although the device may have dropped what the failed sync was about.
    fn open_on_failed_device(&mut self) -> Outcome {
        match self.harness.open() {
            Ok(engine) => {
                let observed = Observed::read(&engine, &self.keys())?;
                let shown = self.history.clone().settle(&observed)?;
                if engine.sync().is_ok() {
                    self.history = History::new(shown, self.harness.crash_order());
                }
                Ok(())
            }
            Err(e) if matches!(e.kind(), ErrorKind::Poisoned | ErrorKind::Io) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Reopens the store and compares it with what was acknowledged.
    fn check_afterwards(mut self, model: Model, end: End) -> Outcome {
        if end != End::PowerCut && self.fault != Fault::Sync {
            // Buffered writes survive the process, unless a failed sync lost them.
            self.history = History::new(model, self.harness.crash_order());
        }
        if let Some(changes) = self.doubtful.take() {
            self.history.attempted(changes);
        }
        let within = |stop: Stop| Stop::Wrong(format!("opened again after {end:?}: {stop}"));
        if self.fault == Fault::Sync && end != End::PowerCut {
            self.open_on_failed_device().map_err(within)?;
            self.harness.power_cut(0);
        }
        let opened = self.harness.open();
        let engine = opened.map_err(|e| within(e.into()))?;
        let keys = self.keys();
        let observed = Observed::read(&engine, &keys)?;
        let mut model = self.history.settle(&observed).map_err(within)?;
        compare_scan(&engine, &keys, &model, 16).map_err(within)?;
        engine.verify()?;
        drop(engine);
        let mut session = Session::open(self.harness, keys, model.clone()).map_err(within)?;
        let change = (1, Some(Value { key: 1, stamp: u64::MAX, len: 20, meta: false }));
        session.write(&[change], Durability::Synced).map_err(within)?;
        apply(&mut model, &[change]);
        session.reopen()?;
        compare_gets(session.engine(), &session.keys, &model).map_err(within)
    }
}

fn kind_of(fault: Fault) -> ErrorKind {
    match fault {
        Fault::Full => ErrorKind::Full,
        Fault::Write | Fault::ShortWrite | Fault::Sync | Fault::Read => ErrorKind::Io,
    }
}

/// Performs the script and judges the errors on the way.
struct Watch<'a> {
    fault: Fault,
    history: &'a mut History,
    doubtful: &'a mut Option<Vec<Change>>,
    errors: u64,
}

impl Watch<'_> {
    /// True where the engine was poisoned before the script ended.
    fn run<H: DeviceHarness>(
        &mut self,
        session: &mut Session<'_, H>,
        script: impl Iterator<Item = Step>,
    ) -> Outcome<bool> {
        let all = Step::Get((0..session.keys.count()).collect());
        for (index, step) in script.chain([all]).enumerate() {
            let reopens = matches!(step, Step::Reopen | Step::Kill);
            if self.fault == Fault::Sync && reopens {
                // A failed sync may lose what was only buffered, and only reopening shows it.
                continue;
            }
            let written = effect(&step, session.keys.count());
            let Err(stop) = session.step(&step) else {
                match written {
                    Some((changes, durability)) => self.history.wrote(changes, durability),
                    None if step == Step::Sync => self.history.synced(),
                    None => {}
                }
                continue;
            };
            let Stop::Failed(error) = stop else { return Err(stop) };
            let within = |stop| Stop::Wrong(format!("step {index}, {step:?}: {stop}"));
            self.errors += 1;
            ensure(!session.harness.fault_is_pending(), || format!("error without cause: {error}"))
                .map_err(within)?;
            if reopens {
                session.reopen()?;
                continue;
            }
            if self.after_error(session, &step, written.map(|w| w.0), &error).map_err(within)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Judges an error; true where the engine is poisoned.
    fn after_error<H: DeviceHarness>(
        &mut self,
        session: &mut Session<'_, H>,
        step: &Step,
        changes: Option<Vec<Change>>,
        error: &Error,
    ) -> Outcome<bool> {
        let is_poison = error.kind() == ErrorKind::Poisoned;
        ensure(is_poison || error.kind() == kind_of(self.fault), || {
            format!("{:?} surfaces as {:?}: {error}", self.fault, error.kind())
        })?;
        let happened = self.look(session, changes.as_deref())?;
        let probe = [(0, Some(Value { key: 0, stamp: 1 << 40, len: 16, meta: false }))];
        let before = session.model.clone();
        if let (true, Some(changes)) = (happened, &changes) {
            apply(&mut session.model, changes);
        }
        match session.write(&probe, Durability::Buffered) {
            Ok(()) => {
                let was_sync = *step == Step::Sync
                    || matches!(step, Step::Write(_, Durability::Synced))
                    || matches!(step, Step::UpdateAll(_, Durability::Synced))
                    || matches!(step, Step::Update(_, _, Durability::Synced));
                ensure(self.fault != Fault::Sync || !was_sync, || {
                    "the engine takes writes after a failed sync".into()
                })?;
                ensure(!is_poison, || "a poisoned engine takes writes".into())?;
                if let (true, Some(changes)) = (happened, changes) {
                    self.history.wrote(changes, Durability::Buffered);
                }
                self.history.wrote(probe.to_vec(), Durability::Buffered);
                Ok(false)
            }
            Err(Stop::Failed(e)) if e.kind() == ErrorKind::Poisoned => {
                session.model = before;
                *self.doubtful = changes;
                Ok(true)
            }
            Err(stop) => Err(Stop::Wrong(format!("the next write fails, not Poisoned: {stop}"))),
        }
    }

    /// True where the failed `changes` are visible; they are so all together or not at all.
    fn look<H: DeviceHarness>(
        &self,
        session: &Session<'_, H>,
        changes: Option<&[Change]>,
    ) -> Outcome<bool> {
        let (engine, keys) = (session.engine(), &session.keys);
        let as_before = compare_gets(engine, keys, &session.model);
        let (Some(changes), Err(Stop::Wrong(why))) = (changes, &as_before) else {
            return as_before.map(|()| false);
        };
        let mut after = session.model.clone();
        apply(&mut after, changes);
        compare_gets(engine, keys, &after)
            .map(|()| true)
            .map_err(|_| Stop::Wrong(format!("a failed write is neither undone nor done: {why}")))
    }
}
