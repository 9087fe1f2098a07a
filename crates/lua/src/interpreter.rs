//! Runs scripts, and functions of libraries.

use crate::convert::Answer;
use crate::failure::{Failure, Raised, syntax_text};
use crate::host::{Dialect, Host};
use crate::library::{Library, LibraryFunction, register};
use crate::redis_table;
use crate::sandbox::Sandbox;
use crate::shared::{Poll, Shared};
use mlua::chunk::ChunkMode;
use mlua::{
    Error, Function, HookTriggers, Lua, LuaOptions, MultiValue, StdLib, Table, Value, VmState,
};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Instructions between two looks at memory and time: about 100 microseconds.
const INSTRUCTIONS: u32 = 10_000;
/// Compiled scripts that an interpreter keeps; when there are more, all are forgotten.
const SCRIPTS_MAX: usize = 256;
/// Libraries that an interpreter keeps; when there are more, all are forgotten and loaded anew.
const LIBRARIES_MAX: usize = 64;
/// Memory of an idle interpreter above which its garbage is collected.
const GARBAGE_BYTES: usize = 1 << 20;
/// What Lua says if there is no memory.
const NO_MEMORY: &str = "not enough memory";

/// What is called, and for whom.
#[derive(Debug, Clone, Copy)]
pub struct Call<'c> {
    /// How errors name it.
    pub name: &'c str,
    /// Its keys.
    pub keys: &'c [&'c [u8]],
    /// Its other arguments.
    pub args: &'c [&'c [u8]],
}

/// What runs.
#[derive(Debug, Clone, Copy)]
pub enum Source<'s> {
    /// A script with this name, which no script with another text has, and text.
    Script(&'s str, &'s [u8]),
    /// The function of this name in a library.
    Function(&'s Library, &'s str),
}

/// A state of Lua with its sandbox. Not to be shared between threads.
pub struct Interpreter {
    lua: Lua,
    sandbox: Sandbox,
    shared: Rc<Shared>,
    on_error: Function,
    scripts: BTreeMap<String, Function>,
    libraries: BTreeMap<u64, BTreeMap<String, Function>>,
}

/// A failure that is no fault of a script.
fn internal(error: Error) -> Failure {
    match Raised::of(&error) {
        Raised::Stop(stop) => Failure::Stopped(stop),
        Raised::Text(text) if text.contains(NO_MEMORY) => Failure::Memory,
        Raised::Text(text) | Raised::Reply(text) => Failure::Script(format!("ERR {text}")),
    }
}

impl Interpreter {
    /// An interpreter that asks `poll` whether its scripts may go on, and takes at most
    /// `memory_bytes_max` bytes.
    pub fn new(memory_bytes_max: usize, poll: Box<Poll>) -> Result<Self, Failure> {
        // Coroutines come with the base library.
        let libs = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
        let options = LuaOptions::new().catch_rust_panics(false);
        let lua = Lua::new_with(libs, options).map_err(internal)?;
        let shared = Rc::new(Shared {
            dialect: Cell::default(),
            reply: RefCell::default(),
            random: Cell::new(0),
            error_place: RefCell::default(),
            registered: RefCell::default(),
            poll,
        });
        let sandbox = Sandbox::new(&lua, &shared).map_err(internal)?;
        let noted = Rc::clone(&shared);
        let note = move |lua: &Lua, value: Value| {
            noted.error_place.replace(error_place(lua));
            Ok(value)
        };
        let on_error = lua.create_function(note).map_err(internal)?;
        let watched = Rc::clone(&shared);
        let hook = move |lua: &Lua, _: &mlua::debug::Debug<'_>| match watched.poll(lua) {
            None => Ok(VmState::Continue),
            Some(stop) => Raised::stop(stop),
        };
        let triggers = HookTriggers::new().every_nth_instruction(INSTRUCTIONS);
        lua.set_global_hook(triggers, hook).map_err(internal)?;
        lua.set_memory_limit(memory_bytes_max).map_err(internal)?;
        let (scripts, libraries) = Default::default();
        Ok(Interpreter { lua, sandbox, shared, on_error, scripts, libraries })
    }

    /// Bytes that it holds.
    pub fn held_bytes(&self) -> usize {
        self.lua.used_memory()
    }

    /// Lets it take at most `bytes` bytes from now on, and what it holds already.
    pub fn limit_memory(&self, bytes: usize) {
        // Fails only for states that somebody else has made.
        let _ = self.lua.set_memory_limit(bytes);
    }

    /// Forgets what scripts have left behind, if that is much.
    pub fn collect_garbage(&self) {
        if self.held_bytes() > GARBAGE_BYTES {
            // Two rounds: the first one only finds what has a destructor.
            let _ = self.lua.gc_collect().and_then(|()| self.lua.gc_collect());
        }
    }

    fn compile(&self, source: &str, text: &[u8]) -> Result<Function, Failure> {
        let chunk = self.lua.load(text).set_name(source).set_mode(ChunkMode::Text);
        let chunk = chunk.set_environment(self.sandbox.outer.clone());
        chunk.into_function().map_err(|error| {
            let text = syntax_text(&error);
            match text.contains(NO_MEMORY) {
                true => Failure::Memory,
                false => Failure::Syntax(text),
            }
        })
    }

    /// Says whether `text` can be a script.
    pub fn check(&self, text: &[u8]) -> Result<(), Failure> {
        self.compile("@user_script", text).map(|_| ())
    }

    fn script(&mut self, name: &str, text: &[u8]) -> Result<Function, Failure> {
        if let Some(known) = self.scripts.get(name) {
            return Ok(known.clone());
        }
        let script = self.compile("@user_script", text)?;
        if self.scripts.len() >= SCRIPTS_MAX {
            self.scripts.clear();
        }
        self.scripts.insert(name.into(), script.clone());
        Ok(script)
    }

    /// Runs `source` for `call`; what it asks for is done by `host`.
    pub fn run(
        &mut self,
        call: &Call<'_>,
        source: Source<'_>,
        host: &mut dyn Host,
    ) -> Result<Answer, Failure> {
        let function = match source {
            Source::Script(name, text) => self.script(name, text)?,
            Source::Function(library, name) => self.function(library, name)?,
        };
        let is_script = matches!(source, Source::Script(..));
        self.shared.dialect.set(Dialect::Resp2);
        self.shared.random.set(crate::libraries::seeded(0));
        self.shared.error_place.replace(None);
        let host = RefCell::new(host);
        let result = self.lua.scope(|scope| {
            redis_table::connect(scope, &self.sandbox.redis, &host, &self.shared)?;
            let (keys, args) = (self.list(call.keys)?, self.list(call.args)?);
            let globals = &self.sandbox.globals;
            let returned: mlua::Result<MultiValue> = if is_script {
                globals.raw_set("KEYS", keys)?;
                globals.raw_set("ARGV", args)?;
                self.sandbox.run.call((function, &self.on_error))
            } else {
                self.sandbox.run_with.call((function, &self.on_error, keys, args))
            };
            let returned = returned?;
            let is_good = returned.front().is_some_and(|good| *good == Value::Boolean(true));
            let value = returned.get(1).cloned().unwrap_or(Value::Nil);
            match is_good {
                true => Ok(Ok(Answer::of(&value, self.shared.dialect.get())?)),
                false => Ok(Err(value)),
            }
        });
        self.tidy(is_script);
        match result {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(value)) => Err(self.failure(call.name, &value)),
            Err(error) => Err(internal(error)),
        }
    }

    /// Takes away what a script must not leave.
    fn tidy(&self, is_script: bool) {
        let globals = &self.sandbox.globals;
        let cleared = match is_script {
            true => globals.raw_set("KEYS", Value::Nil).and(globals.raw_set("ARGV", Value::Nil)),
            false => Ok(()),
        };
        // Setting what is there to nothing allocates nothing.
        let _ = cleared.and_then(|()| self.sandbox.clean.call::<()>(()));
    }

    fn list(&self, items: &[&[u8]]) -> mlua::Result<Table> {
        let table = self.lua.create_table_with_capacity(items.len(), 0)?;
        for (index, item) in items.iter().enumerate() {
            table.raw_set(index + 1, self.lua.create_string(item)?)?;
        }
        Ok(table)
    }

    /// What the error `value` of the script `name` is answered with.
    fn failure(&self, name: &str, value: &Value) -> Failure {
        let text = match self.error_text(value) {
            Ok(text) => text,
            Err(failure) => return failure,
        };
        match self.shared.error_place.take() {
            Some((source, line)) => {
                Failure::Script(format!("{text} script: {name}, on {source}:{line}."))
            }
            None => Failure::Script(format!("{text} script: {name}")),
        }
    }

    /// The text of the error `value`, its code first.
    fn error_text(&self, value: &Value) -> Result<String, Failure> {
        match value {
            Value::Error(error) => match Raised::of(error) {
                Raised::Stop(stop) => Err(Failure::Stopped(stop)),
                Raised::Reply(text) => Ok(text),
                Raised::Text(text) if text == NO_MEMORY => Err(Failure::Memory),
                Raised::Text(text) => Ok(format!("ERR {text}")),
            },
            Value::Table(table) => match table.raw_get::<Value>("err") {
                Ok(Value::String(text)) => Ok(text.to_string_lossy()),
                _ => Ok("ERR unknown error".into()),
            },
            Value::String(text) if *text == NO_MEMORY => Err(Failure::Memory),
            other => {
                let text = other.to_string();
                Ok(format!("ERR {}", text.unwrap_or_else(|_| other.type_name().into())))
            }
        }
    }

    /// The function `name` of `library`, which is loaded if it is not there yet.
    fn function(&mut self, library: &Library, name: &str) -> Result<Function, Failure> {
        if !self.libraries.contains_key(&library.id) {
            let functions = self.load_functions(&library.code)?;
            let functions = functions.into_iter().map(|(about, call)| (about.name, call));
            if self.libraries.len() >= LIBRARIES_MAX {
                self.libraries.clear();
            }
            self.libraries.insert(library.id, functions.collect());
        }
        let function = self.libraries[&library.id].get(name).cloned();
        function.ok_or_else(|| Failure::Script("ERR Function not found".into()))
    }

    /// The functions that a library with this code has.
    pub fn load(&mut self, code: &[u8]) -> Result<Vec<LibraryFunction>, Failure> {
        Ok(self.load_functions(code)?.into_iter().map(|(about, _)| about).collect())
    }

    fn load_functions(&self, code: &[u8]) -> Result<Vec<(LibraryFunction, Function)>, Failure> {
        let chunk = self.compile("@user_function", code)?;
        let redis = &self.sandbox.redis;
        self.shared.error_place.replace(None);
        self.shared.registered.replace(Some(Vec::new()));
        let result = self.lua.scope(|scope| {
            for name in ["call", "pcall", "log", "acl_check_cmd"] {
                redis.raw_set(name, Value::Nil)?;
            }
            let register = |_: &Lua, args: MultiValue| register(&self.shared.registered, &args);
            redis.raw_set("register_function", scope.create_function(register)?)?;
            self.sandbox.strict.call::<()>(true)?;
            self.sandbox.run.call::<MultiValue>((chunk, &self.on_error))
        });
        let undone = self.sandbox.strict.call::<()>(false);
        let undone = undone.and_then(|()| redis.raw_set("register_function", Value::Nil));
        self.tidy(false);
        let registered = self.shared.registered.take().unwrap_or_default();
        undone.map_err(internal)?;
        let returned = result.map_err(internal)?;
        if returned.front() == Some(&Value::Boolean(true)) {
            return Ok(registered);
        }
        let text = self.error_text(returned.get(1).unwrap_or(&Value::Nil))?;
        Err(Failure::Script(format!("ERR Error registering functions: {text}")))
    }
}

/// The line of a script or library that runs.
fn error_place(lua: &Lua) -> Option<(String, usize)> {
    let look = |level| {
        lua.inspect_stack(level, |frame| {
            let source = frame.source().source?;
            let line = frame.current_line().filter(|_| source.starts_with("@user_"))?;
            Some((source.into_owned(), line))
        })
    };
    (0..64).map_while(look).flatten().next()
}
