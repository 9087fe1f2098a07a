//! What the way through C costs: gets of a cached value of 100 bytes, from Rust and through
//! `silica_get` and `silica_get_into`.
//!
//! `overhead [GETS]` prints nanoseconds of a get of each way, best of 11 rounds that take turns.
//! `overhead GETS rust|rust-with|c|c-into` runs one way once, for callgrind.

use silica_capi::error::{silica_code, silica_error};
use silica_capi::keyspace::{silica_get, silica_get_into, silica_keyspace};
use std::ffi::c_void;
use std::hint::black_box;
use std::ptr::null_mut;
use std::time::Instant;

const KEYS: usize = 1000;
const ROUNDS: usize = 11;
const WAYS: [&str; 4] = ["rust", "c", "rust-with", "c-into"];

type Bytes = *const c_void;
type Fault = *mut *mut silica_error;
type Get = unsafe extern "C" fn(
    *const silica_keyspace,
    Bytes,
    usize,
    *mut *mut c_void,
    *mut usize,
    Fault,
) -> silica_code;
type GetInto = unsafe extern "C" fn(
    *const silica_keyspace,
    Bytes,
    usize,
    *mut c_void,
    usize,
    *mut usize,
    Fault,
) -> silica_code;

/// A store whose keyspace is open both ways.
struct Opened {
    keyspace: silica::Keyspace,
    handle: *mut silica_keyspace,
    keys: Vec<String>,
}

fn opened(path: &std::path::Path) -> (silica::Silica, Opened) {
    let options = silica::OpenOptions::new().background_threads(0);
    let store = options.durability(silica::Durability::Buffered).open(path).expect("a store");
    let keyspace = store.keyspace("default").expect("a keyspace");
    let keys: Vec<String> = (0..KEYS).map(|n| format!("key {n:06}")).collect();
    for key in &keys {
        keyspace.put(key, [b'v'; 100]).expect("room");
    }
    let handle = silica_capi::keyspace::handle_of(keyspace.clone());
    (store, Opened { keyspace, handle, keys })
}

impl Opened {
    /// Gets `count` values in this way, and returns the sum of their lengths.
    fn run(&self, way: &str, count: usize) -> usize {
        let keys = self.keys.iter().cycle().take(count);
        // Called through pointers, as a program in C calls a shared library.
        let get = black_box(silica_get as Get);
        let get_into = black_box(silica_get_into as GetInto);
        let sum = |get: &dyn Fn(&str) -> usize| keys.map(|key| get(black_box(key))).sum();
        match way {
            "rust" => sum(&|key| {
                let value = self.keyspace.get(key).expect("a get");
                black_box(value).map_or(0, |value| value.len())
            }),
            "rust-with" => sum(&|key| {
                let mut buffer = [0; 128];
                let length = self.keyspace.get_with(key, |entry| {
                    let value = entry.map_or(&[][..], |entry| entry.value);
                    buffer[..value.len()].copy_from_slice(value);
                    value.len()
                });
                black_box(&buffer);
                length.expect("a get")
            }),
            "c" => sum(&|key| {
                let (mut value, mut length, mut error) = (null_mut(), 0, null_mut());
                let (bytes, handle) = (key.as_ptr().cast(), self.handle);
                // SAFETY: every pointer is one to a variable or a live handle.
                let code =
                    unsafe { get(handle, bytes, key.len(), &mut value, &mut length, &mut error) };
                assert_eq!(code, silica_code::SILICA_OK);
                // SAFETY: the call allocated it.
                unsafe { silica_capi::error::silica_free(black_box(value)) };
                length
            }),
            "c-into" => sum(&|key| {
                let (mut buffer, mut length, mut error) = ([0u8; 128], 0, null_mut());
                let (bytes, room) = (key.as_ptr().cast(), buffer.len());
                let to: *mut c_void = buffer.as_mut_ptr().cast();
                // SAFETY: every pointer is one to a variable or a live handle.
                let code = unsafe {
                    let handle = self.handle;
                    get_into(handle, bytes, key.len(), to, room, &mut length, &mut error)
                };
                assert_eq!(code, silica_code::SILICA_OK);
                black_box(&buffer);
                length
            }),
            _ => panic!("use one of {WAYS:?}"),
        }
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let count = arguments.next().map_or(1_000_000, |count| count.parse().expect("a number"));
    let directory = tempfile::tempdir().expect("a directory");
    let (store, opened) = opened(directory.path());
    if let Some(way) = arguments.next() {
        println!("{}", opened.run(&way, count));
    } else {
        let mut best = [f64::INFINITY; WAYS.len()];
        for _ in 0..ROUNDS {
            for (way, best) in WAYS.iter().zip(&mut best) {
                let begun = Instant::now();
                assert_eq!(opened.run(way, count), 100 * count);
                *best = best.min(begun.elapsed().as_secs_f64() * 1e9 / count as f64);
            }
        }
        for (way, best) in WAYS.iter().zip(best) {
            println!("{way:10} {best:7.1} ns");
        }
    }
    // SAFETY: nobody uses the handle after this.
    unsafe { silica_capi::keyspace::silica_keyspace_free(opened.handle) };
    drop(store);
}
