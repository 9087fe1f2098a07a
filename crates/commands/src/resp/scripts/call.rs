//! Runs a script or function from its arguments to its answer.

use super::host::{Commands, Message, RunCommand};
use super::libraries::Callable;
use super::running::Running;
use super::shebang::ScriptFlags;
use super::step::Step;
use super::store::Script;
use super::worker::{self, Worker};
use crate::acl::User;
use crate::budget::Claim;
use crate::burst::{Args, Input};
use crate::clients::Client;
use crate::engine_calls::error_text;
use crate::exec::HoldAll;
use crate::push::Kind;
use crate::replication::Effects;
use crate::resp::events::Event;
use crate::service::Service;
use silica::engine::Engine;
use silica_lua::{Answer, Call, Failure, Source, Stop, sha1_hex};
use silica_proto::parse_i64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Nanoseconds that a script may run on a thread that others wait for: as long as a large burst.
const SHORT_NS: u64 = 5_000_000;
/// Milliseconds below which a script that was slow counts as quick again.
const QUICK_MS: u64 = 2;
/// Runs after which a script lets other scripts that run anew go first, one by one.
const RUNS_ALONE: usize = 4;
/// Runs of a script whose keys others change each time, after which it fails.
const RUNS_MAX: usize = 1000;
/// Arguments of a request that are shown, and bytes of each.
const SHOWN: (usize, usize) = (16, 64);

const BUSY: &str = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or \
                    SHUTDOWN NOSAVE.";
const NO_SCRIPT: &str = "NOSCRIPT No matching script. Please use EVAL.";

/// What the first argument of a request that runs a script is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScriptKind {
    /// EVAL: a text.
    Text,
    /// EVALSHA: the name of a text.
    Name,
    /// FCALL: the name of a function.
    Function,
}

/// Where a script runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// On a thread that others wait for.
    Short,
    /// On one for requests that may take long.
    Long,
}

/// For whom a script runs.
pub(crate) struct ScriptCall {
    pub(crate) user: Arc<User>,
    pub(crate) client: Arc<Client>,
    /// Its request allows no writes.
    pub(crate) is_read_only: bool,
    /// The keys that its commands read are noted for its client.
    is_tracked: bool,
    /// The keys that it has changed.
    changed: Mutex<Vec<Box<[u8]>>>,
    /// What its commands have done, if somebody wants to know.
    events: Mutex<Vec<Event>>,
    /// What replicas are told of it.
    effects: Mutex<Effects>,
    /// Messages that wait until its transaction has taken effect.
    announced: Mutex<Vec<Message>>,
}

impl ScriptCall {
    pub(crate) fn new(
        user: Arc<User>,
        client: Arc<Client>,
        is_read_only: bool,
        is_tracked: bool,
    ) -> Self {
        let (changed, events, effects, announced) = Default::default();
        ScriptCall { user, client, is_read_only, is_tracked, changed, events, effects, announced }
    }

    /// Sends the messages of a script whose transaction has taken effect.
    pub(crate) fn publish(&self, service: &Service) {
        let mut announced = self.announced.lock().unwrap_or_else(PoisonError::into_inner);
        publish(service, std::mem::take(&mut *announced));
    }

    /// Adds what one of its commands has done.
    pub(crate) fn add_events(&self, events: &mut Vec<Event>) {
        if !events.is_empty() {
            self.events.lock().unwrap_or_else(PoisonError::into_inner).append(events);
        }
    }

    /// What replicas are told of it.
    pub(crate) fn effects(&self) -> MutexGuard<'_, Effects> {
        self.effects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What its commands have done, if somebody wanted to know.
    pub(crate) fn take_events(&self) -> Vec<Event> {
        std::mem::take(&mut *self.events.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The keys that it has changed.
    pub(crate) fn take_changed(&self) -> Vec<Box<[u8]>> {
        std::mem::take(&mut *self.changed.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What a script works with.
pub(crate) struct Environment<'e> {
    pub(crate) service: &'e Service,
    pub(crate) db: usize,
    pub(crate) engine: &'e dyn Engine,
    /// All of the database; not there inside a transaction.
    pub(crate) whole: Option<&'e Arc<dyn Engine>>,
    pub(crate) claim: &'e Claim,
    pub(crate) now_ms: u64,
    pub(crate) place: Place,
    /// Held when it takes effect.
    pub(crate) turn: &'e HoldAll<'e>,
}

/// What is run.
enum Program {
    Script(Arc<Script>),
    Function(Callable),
}

impl Program {
    fn name(&self) -> &str {
        match self {
            Program::Script(script) => &script.name,
            Program::Function(function) => &function.name,
        }
    }

    fn flags(&self) -> ScriptFlags {
        match self {
            Program::Script(script) => script.flags,
            Program::Function(function) => function.flags,
        }
    }

    fn is_slow(&self) -> bool {
        matches!(self, Program::Script(script) if script.is_slow.load(Relaxed))
    }

    fn note_slow(&self, is_slow: bool) {
        if let Program::Script(script) = self
            && script.is_slow.load(Relaxed) != is_slow
        {
            script.is_slow.store(is_slow, Relaxed);
        }
    }

    fn source(&self) -> Source<'_> {
        match self {
            Program::Script(script) => Source::Script(&script.name, &script.body),
            Program::Function(function) => {
                Source::Function(&function.library.library, &function.name)
            }
        }
    }
}

/// What a run of a script led to.
enum Ran {
    Answer(Result<Answer, String>),
    /// Others have changed what it read.
    Again,
    /// It has to run on a thread for long requests.
    Postponed,
}

/// Registers a script that takes long until it is dropped.
struct Registered<'s>(&'s Service, Arc<Running>);

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.0.runnings.end(&self.1);
    }
}

impl ScriptCall {
    /// Runs the script that `args` call; its answer, or an error. Returns `None`, and has done
    /// nothing, if it has to run at [`Place::Long`]. Commands that it calls are run by `run`.
    pub(crate) fn run(
        &self,
        kind: ScriptKind,
        environment: &Environment<'_>,
        args: Args<'_>,
        run: &mut RunCommand<'_>,
    ) -> Option<Result<Answer, String>> {
        let service = environment.service;
        let ran = split(kind, args).and_then(|keys| {
            Worker::with(service, |worker| {
                let program = program(worker, service, kind, args.get(1))?;
                self.run_program(worker, &program, environment, (args, keys), run)
            })?
        });
        ran.transpose()
    }

    /// Runs `program` until it has taken effect; `None` if it has to run elsewhere.
    fn run_program(
        &self,
        worker: &mut Worker,
        program: &Program,
        environment: &Environment<'_>,
        (args, keys): (Args<'_>, usize),
        run: &mut RunCommand<'_>,
    ) -> Result<Option<Answer>, String> {
        let service = environment.service;
        if self.is_read_only
            && matches!(program, Program::Function(_))
            && !program.flags().no_writes
        {
            let text = "ERR Can not execute a script with write flag using *_ro command.";
            return Err(text.into());
        }
        let is_short = environment.place == Place::Short;
        if is_short && program.is_slow() {
            return postpone(service);
        }
        let began_ms = service.monotonic_ms();
        let registered = (!is_short).then(|| {
            let is_function = matches!(program, Program::Function(_));
            let running = Running::new(program.name().into(), is_function, shown(args), began_ms);
            service.runnings.begin(&running);
            Registered(service, running)
        });
        let running = registered.as_ref().map(|registered| Arc::clone(&registered.1));
        worker.watch(is_short.then_some(SHORT_NS), running.clone());
        let mut turn = None;
        for runs in 1..=RUNS_MAX {
            match self.run_once(worker, program, environment, (args, keys), run, running.clone()) {
                Ran::Answer(answer) => {
                    if !is_short && service.monotonic_ms() - began_ms < QUICK_MS {
                        program.note_slow(false);
                    }
                    return answer.map(Some);
                }
                Ran::Again if is_short && worker.is_late() => return postpone(service),
                Ran::Again => {
                    if !is_short && runs >= RUNS_ALONE && turn.is_none() {
                        turn = Some(service.script_turn());
                    }
                }
                Ran::Postponed => {
                    program.note_slow(true);
                    return postpone(service);
                }
            }
        }
        self.effects().clear();
        Err(format!(
            "ERR others have changed the script's keys during each of {RUNS_MAX} runs; make it \
             shorter, or use fewer keys that others write"
        ))
    }

    /// Runs `program` once.
    fn run_once(
        &self,
        worker: &mut Worker,
        program: &Program,
        environment: &Environment<'_>,
        (args, keys): (Args<'_>, usize),
        run: &mut RunCommand<'_>,
        running: Option<Arc<Running>>,
    ) -> Ran {
        let &Environment { service, db, engine, whole, claim, now_ms, turn, .. } = environment;
        let bytes_max = service.budget.max() / 4;
        let step = Step::new(engine, now_ms, bytes_max);
        let claimed = claim.bytes();
        // It may run again: only its last run counts.
        self.take_events();
        self.effects().clear();
        let mut commands = Commands {
            service,
            user: &self.user,
            client: &self.client,
            db,
            step: &step,
            whole,
            claim,
            is_tracked: self.is_tracked,
            is_read_only: self.is_read_only || program.flags().no_writes,
            run: &mut |engine, input| run(engine, input),
            input: Input::default(),
            announced: Vec::new(),
            shown: Vec::new(),
            running,
            is_postponed: false,
        };
        let all: Vec<&[u8]> = args.from(3).collect();
        let (keys, rest) = all.split_at(keys);
        let call = Call { name: program.name(), keys, args: rest };
        let result = worker.interpreter.run(&call, program.source(), &mut commands);
        let announced = std::mem::take(&mut commands.announced);
        let shown = std::mem::take(&mut commands.shown);
        let is_postponed = commands.is_postponed;
        drop(commands);
        let ran = match result {
            _ if is_postponed => Ran::Postponed,
            Err(Failure::Stopped(Stop::Preempted)) => Ran::Postponed,
            Err(failure @ (Failure::Stopped(_) | Failure::Syntax(_) | Failure::Memory)) => {
                self.take_events();
                self.effects().clear();
                Ran::Answer(Err(worker::text(&failure, service)))
            }
            Ok(answer) => self.commit(step, Ok(answer), turn),
            // What it wrote before its error stays.
            Err(Failure::Script(text)) => self.commit(step, Err(text), turn),
        };
        if matches!(ran, Ran::Answer(_)) {
            shown.iter().for_each(|line| service.monitors.show(service, line));
        }
        match (&ran, whole) {
            (Ran::Answer(_), Some(_)) => publish(service, announced),
            (Ran::Answer(_), None) => {
                // The transaction may run again: only its last run counts.
                *self.announced.lock().unwrap_or_else(PoisonError::into_inner) = announced;
            }
            _ => {}
        }
        claim.set(claimed);
        ran
    }

    /// Makes what `step` has written everybody's; `answer` is the script's answer then.
    fn commit(&self, step: Step<'_>, answer: Result<Answer, String>, turn: &HoldAll<'_>) -> Ran {
        (turn.hold)();
        match step.commit(&[], &mut |_, _| true) {
            Ok(None) => {
                (turn.unhold)();
                Ran::Again
            }
            Ok(Some(keys)) => {
                *self.changed.lock().unwrap_or_else(PoisonError::into_inner) = keys;
                Ran::Answer(answer)
            }
            Err(error) => {
                self.effects().clear();
                Ran::Answer(Err(error_text(&error)))
            }
        }
    }
}

fn publish(service: &Service, messages: Vec<Message>) {
    for (kind, channel, text) in messages {
        let name: &[u8] = if kind == Kind::Shard { b"SPUBLISH" } else { b"PUBLISH" };
        service.tell_words(&[name, &channel, &text]);
        // Its audience was answered already; without memory nobody gets it.
        if let Err(text) = service.publish(kind, &channel, &text) {
            log::warn!("a message of a script is lost: {text}");
        }
    }
}

/// A script goes to a thread for long requests, unless one there has run for too long already.
fn postpone(service: &Service) -> Result<Option<Answer>, String> {
    match service.runnings.is_busy(service.monotonic_ms()) {
        true => Err(BUSY.into()),
        false => Ok(None),
    }
}

/// How many of the arguments from the third on are keys.
fn split(kind: ScriptKind, args: Args<'_>) -> Result<usize, String> {
    let is_function = kind == ScriptKind::Function;
    let Some(keys) = parse_i64(args.get(2)) else {
        return Err(match is_function {
            true => "ERR Bad number of keys provided".into(),
            false => "ERR value is not an integer or out of range".into(),
        });
    };
    match usize::try_from(keys) {
        Err(_) => Err("ERR Number of keys can't be negative".into()),
        Ok(keys) if keys > args.len() - 3 => {
            Err("ERR Number of keys can't be greater than number of args".into())
        }
        Ok(keys) => Ok(keys),
    }
}

/// The program that the argument `what` of a request names.
fn program(
    worker: &mut Worker,
    service: &Service,
    kind: ScriptKind,
    what: &[u8],
) -> Result<Program, String> {
    match kind {
        ScriptKind::Name => {
            worker.script(service, what).map(Program::Script).ok_or_else(|| NO_SCRIPT.into())
        }
        ScriptKind::Function => {
            let function = service.libraries.find(what);
            function.map(Program::Function).ok_or_else(|| "ERR Function not found".into())
        }
        ScriptKind::Text => {
            let name = sha1_hex(what);
            if let Some(script) = worker.script(service, name.as_bytes()) {
                return Ok(Program::Script(script));
            }
            let script = Script::new(name, what)?;
            let checked = worker.interpreter.check(&script.body);
            checked.map_err(|failure| worker::text(&failure, service))?;
            service.scripts.add(script, true).map(Program::Script)
        }
    }
}

/// The arguments of a request, shortened.
fn shown(args: Args<'_>) -> Vec<Vec<u8>> {
    let (most, bytes) = SHOWN;
    args.from(0).take(most).map(|arg| arg[..arg.len().min(bytes)].to_vec()).collect()
}
