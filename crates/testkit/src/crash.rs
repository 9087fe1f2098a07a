//! Power cuts: at random points, and at every device operation of a script.

use super::differential::caught;
use super::harness::DeviceHarness;
use super::history::{History, Observed};
use super::session::{Model, Outcome, Session, Stop, compare_gets, effect, ensure};
use super::workload::{Keys, Mix, Step, Steps};
use silica_base::Prng;
use silica_engine::Engine;

/// What a crash test did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CrashReport {
    /// Power cuts in all.
    pub cuts: u64,
    /// Those that hit a store while it was recovering from an earlier one.
    pub cuts_in_recovery: u64,
    /// Steps performed.
    pub steps: u64,
    /// Cuts after which writes that were never acknowledged as synced were gone.
    pub cuts_with_loss: u64,
}

/// Cuts the power `cuts` times at random points of random work on one store, recovery included,
/// and checks after each that every synced write is there, that nothing is invented, that
/// batches are whole and that unsynced writes survive in order.
///
/// # Panics
///
/// Where the store breaks a promise; the message has the call that reproduces it.
pub fn crash_random<H: DeviceHarness>(harness: &mut H, seed: u64, cuts: u64) -> CrashReport {
    let mut report = CrashReport::default();
    match caught(|| crash_random_run(harness, seed, cuts, &mut report)) {
        Ok(()) => report,
        Err(stop) => {
            panic!("crash_random(harness, {seed}, {}) reproduces this: {stop}", report.cuts)
        }
    }
}

fn crash_random_run<H: DeviceHarness>(
    harness: &mut H,
    seed: u64,
    cuts: u64,
    report: &mut CrashReport,
) -> Outcome {
    let workload = harness.workload();
    let mut prng = Prng::new(!seed);
    let mut steps = Steps::new(seed, workload, workload.crash_keys, Mix::CRASH);
    let order = harness.crash_order();
    let mut session = Session::fresh(harness, workload.crash_keys)?;
    let mut history = History::new(session.model.clone(), order);
    for cut in 0..cuts {
        // Short cycles make many cuts; a few long ones cross from one file into the next.
        let reach = match prng.below(30) {
            0 => 1000,
            1..=10 => 6,
            _ => 50,
        };
        if !prng.one_in(8) {
            let op = session.harness.op_count() + prng.below(reach);
            session.harness.cut_at_op(op);
        }
        let script = steps.by_ref().take(1 + prng.below(reach) as usize);
        report.steps += run_until_cut(&mut session, &mut history, script)?;
        session.harness.power_cut(prng.next_u64());
        report.cuts += 1;
        recover(&mut session, &mut prng, report)?;
        let written = std::mem::take(&mut session.model);
        session.model = history.settle(&Observed::read(session.engine(), &session.keys)?)?;
        report.cuts_with_loss += u64::from(session.model != written);
        if cut % 4 == 0 {
            session.engine().verify()?;
        }
        if cut % 16 == 0 {
            session.check_all()?;
        }
    }
    Ok(())
}

/// Performs steps until the power goes off or they end; how many.
fn run_until_cut<H: DeviceHarness>(
    session: &mut Session<'_, H>,
    history: &mut History,
    steps: impl Iterator<Item = Step>,
) -> Outcome<u64> {
    let mut done = 0;
    for step in steps {
        let written = effect(&step, session.keys.count());
        let mut result = session.step(&step);
        if result.is_ok() && matches!(step, Step::Reopen | Step::Kill) {
            result = compare_gets(session.engine(), &session.keys, &session.model);
        }
        let is_off = session.harness.power_is_off();
        match (result, written) {
            (Ok(()), Some((changes, durability))) => history.wrote(changes, durability),
            (Ok(()), None) if step == Step::Sync => history.synced(),
            (Ok(()), None) => {}
            (Err(Stop::Failed(_)), Some((changes, _))) if is_off => history.attempted(changes),
            (Err(Stop::Failed(_)), None) if is_off => {}
            (Err(stop), _) => {
                return Err(Stop::Wrong(format!("{step:?} without a power failure: {stop}")));
            }
        }
        done += 1;
        if is_off {
            break;
        }
    }
    Ok(done)
}

/// Opens the store after a power cut, now and then with further cuts on the way.
fn recover<H: DeviceHarness>(
    session: &mut Session<'_, H>,
    prng: &mut Prng,
    report: &mut CrashReport,
) -> Outcome {
    while prng.one_in(4) {
        let op = session.harness.op_count() + prng.below(16);
        session.harness.cut_at_op(op);
        let opened = session.reopen();
        let is_off = session.harness.power_is_off();
        if let (Err(e), false) = (opened, is_off) {
            return Err(Stop::Wrong(format!("the store does not open after a cut: {e}")));
        }
        session.harness.power_cut(prng.next_u64());
        report.cuts_in_recovery += u64::from(is_off);
    }
    let opened = session.reopen();
    opened.map_err(|e| Stop::Wrong(format!("the store does not open after a cut: {e}")))
}

/// Cuts the power at every `stride`-th device operation of a fixed script of `steps` steps, and
/// then, with `recovery_stride` above 0, once more at every `recovery_stride`-th operation of
/// each recovery.
///
/// # Panics
///
/// Where the store breaks a promise; the message has the seed and the operation.
pub fn crash_every_op<H: DeviceHarness>(
    harness: &mut H,
    seed: u64,
    steps: usize,
    stride: u64,
    recovery_stride: u64,
) -> CrashReport {
    let mut report = CrashReport::default();
    let workload = harness.workload();
    let script: Vec<Step> =
        Steps::new(seed, workload, workload.crash_keys, Mix::CRASH).take(steps).collect();
    let mut op = 0;
    loop {
        let run = || crash_at(harness, &script, op, recovery_stride, &mut report);
        match caught(run) {
            Ok(true) => op += stride,
            Ok(false) => return report,
            Err(stop) => panic!(
                "crash_every_op(harness, {seed}, {steps}, {stride}, {recovery_stride}) fails \
                 with the power cut at operation {op}: {stop}"
            ),
        }
    }
}

/// Runs `script` on an empty store with the power cut at operation `op`; false where it ended
/// before.
fn crash_at<H: DeviceHarness>(
    harness: &mut H,
    script: &[Step],
    op: u64,
    recovery_stride: u64,
    report: &mut CrashReport,
) -> Outcome<bool> {
    harness.wipe();
    let first = harness.op_count();
    harness.cut_at_op(first + op);
    let workload = harness.workload();
    let keys = || Keys::new(&workload, workload.crash_keys);
    let model: Model = vec![None; workload.crash_keys as usize];
    let mut history = History::new(model.clone(), harness.crash_order());
    match Session::open(harness, keys(), model) {
        Ok(mut session) => {
            report.steps += run_until_cut(&mut session, &mut history, script.iter().cloned())?;
        }
        Err(stop) => ensure(harness.power_is_off(), || format!("creating the store: {stop}"))?,
    }
    if !harness.power_is_off() {
        return Ok(false);
    }
    harness.power_cut(op);
    report.cuts += 1;
    let image = (recovery_stride > 0).then(|| harness.image());
    let before = harness.op_count();
    check_recovered(harness, &keys(), &mut history.clone())?;
    let recovery_ops = harness.op_count() - before;
    let Some(image) = image else { return Ok(true) };
    for nth in (0..recovery_ops).step_by(recovery_stride as usize) {
        harness.restore(&image);
        let cut = harness.op_count() + nth;
        harness.cut_at_op(cut);
        drop(harness.open());
        harness.power_cut(op ^ nth << 32);
        report.cuts += 1;
        report.cuts_in_recovery += 1;
        check_recovered(harness, &keys(), &mut history.clone())
            .map_err(|e| Stop::Wrong(format!("after a cut at operation {nth} of recovery: {e}")))?;
    }
    Ok(true)
}

fn check_recovered<H: DeviceHarness>(
    harness: &mut H,
    keys: &Keys,
    history: &mut History,
) -> Outcome {
    let engine = harness.open()?;
    let model = history.settle(&Observed::read(&engine, keys)?)?;
    engine.verify()?;
    compare_gets(&engine, keys, &model)
}
