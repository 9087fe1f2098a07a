//! Lua 5.1 for scripts that clients send: interpreter, sandbox, libraries, conversion of values.
//!
//! For a server whose scripts act on keys by commands. The crate knows no command and no key:
//! what a script may do beyond computing is the trait [`Host`]. A program that wants Lua for itself
//! uses `mlua`.
//!
//! ```
//! use silica_lua::*;
//!
//! /// Answers every command with its number of arguments.
//! struct Counts;
//!
//! impl Host for Counts {
//!     fn call(&mut self, args: &[&[u8]], _: Dialect, reply: &mut Vec<u8>) {
//!         reply.extend_from_slice(format!(":{}\r\n", args.len()).as_bytes());
//!     }
//! #   fn log(&mut self, _: LogLevel, _: &[u8]) {}
//! #   fn permits(&mut self, _: &[&[u8]]) -> Option<bool> { Some(true) }
//! }
//!
//! let mut interpreter = Interpreter::new(8 << 20, Box::new(|_| None))?;
//! let body = b"return redis.call('SET', KEYS[1], ARGV[1]) + 1";
//! let call = Call { name: "example", keys: &[b"key"], args: &[b"value"] };
//! let answer = interpreter.run(&call, Source::Script("example", body), &mut Counts)?;
//! assert_eq!(answer, Answer::Integer(4));
//! # Ok::<(), Failure>(())
//! ```
//!
//! * `interpreter`, `shared`: runs scripts and functions; the memory and time that they take;
//! * `library`: how a library registers its functions;
//! * `sandbox`: what a script sees: the protected globals, and no way out;
//! * `redis_table`: the table `redis`;
//! * `convert`: replies to values of Lua, and values of Lua to answers;
//! * `libraries`: `cjson`, `cmsgpack`, `struct`, `bit`, and random numbers;
//! * `failure`: errors with the place where they happened.
//!
//! Why `mlua`: it is the maintained wrapper of Lua's C source, which it brings along, counts a
//! state's memory, calls back after some instructions, and needs no unsafe code here. Why `rmp`:
//! it writes each kind of MessagePack value in its shortest form, which is what `cmsgpack` packs.
//! `cjson` is written out: its error texts name tokens and places, and it reads numbers that are
//! not JSON (`0x10`, `nan`, `012`), both of which scripts can see and no JSON crate has.
//!
//! Invariants:
//!
//! 1. A script leaves nothing for the next one: globals are protected, `KEYS`, `ARGV`, the dialect
//!    and the random numbers are set anew.
//! 2. No byte code is loaded, so a script cannot forge values.
//! 3. No script catches the error that ends it ([`Stop`]).
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod convert;
mod failure;
mod host;
mod interpreter;
mod libraries;
mod library;
mod redis_table;
mod sandbox;
mod sha1hex;
mod shared;

pub use convert::Answer;
pub use failure::Failure;
pub use host::{Dialect, Host, LogLevel, Stop};
pub use interpreter::{Call, Interpreter, Source};
pub use library::{FLAGS, Library, LibraryFunction};
pub use sha1hex::sha1_hex;
pub use shared::Poll;
