//! Pointers of C: the only file with unsafe code.
//!
//! The functions here are not marked unsafe, since their callers are exported functions that are:
//! who calls those promises that each pointer is null or good for what the header says.

use silica::{Error, ErrorKind, KeyRange, Result};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::Bound;
use std::ptr;

/// A type that C sees as a name only, and what stands behind it.
pub(crate) trait Opaque {
    /// What is stored.
    type Body;
    /// First bytes of each handle of this type.
    const TAG: u64;
    /// What messages call it.
    const NAME: &'static str;
}

/// Says what stands behind a type that C sees as a name only.
macro_rules! opaque {
    ($name:ident, $body:ty, $tag:literal, $shown:literal) => {
        impl $crate::raw::Opaque for $name {
            type Body = $body;
            const TAG: u64 = u64::from_le_bytes(*$tag);
            const NAME: &'static str = $shown;
        }
    };
}
pub(crate) use opaque;

/// The tag of a handle that was freed, for as long as its memory is not used again.
const FREED: u64 = u64::from_le_bytes(*b"SIL-GONE");

#[repr(C)]
struct Tagged<B> {
    tag: u64,
    body: B,
}

fn wrong(name: &str, what: &str) -> Error {
    Error::new(ErrorKind::Config, format!("the {name} handle {what}"))
}

/// Refuses what is no handle of this type, as far as that can be known.
#[inline(always)]
fn check<T: Opaque>(handle: *const T) -> Result<()> {
    let tagged = handle.cast::<Tagged<T::Body>>();
    if handle.is_null() {
        return Err(wrong(T::NAME, "is NULL; pass one that was opened"));
    }
    if !tagged.is_aligned() {
        return Err(wrong(T::NAME, "is no handle of this library"));
    }
    // SAFETY: it is aligned and not null; the caller of the exported function promises that it
    // points to a handle. Only the tag is read, which each kind of handle begins with.
    match unsafe { ptr::read_volatile(handle.cast::<u64>()) } {
        tag if tag == T::TAG => Ok(()),
        FREED => Err(wrong(T::NAME, "was closed or freed before")),
        _ => Err(wrong(T::NAME, "is a handle of another type")),
    }
}

/// Writes a new handle for `body` to `*out`.
pub(crate) fn hand_out<T: Opaque>(body: T::Body, out: *mut *mut T) -> Result<()> {
    let handle = boxed::<T>(body);
    put(out, handle).inspect_err(|_| drop(unboxed(handle)))
}

/// A new handle for `body`.
pub(crate) fn boxed<T: Opaque>(body: T::Body) -> *mut T {
    Box::into_raw(Box::new(Tagged { tag: T::TAG, body })).cast()
}

/// What stands behind `handle`.
#[inline(always)]
pub(crate) fn body<'h, T: Opaque>(handle: *const T) -> Result<&'h T::Body> {
    check(handle)?;
    // SAFETY: its tag says that `boxed` made it of this type. Its owner does not free it during
    // this call, as the header demands.
    Ok(unsafe { &(*handle.cast::<Tagged<T::Body>>()).body })
}

/// What stands behind `handle`, which only one thread uses at a time.
pub(crate) fn body_mut<'h, T: Opaque>(handle: *mut T) -> Result<&'h mut T::Body> {
    check(handle)?;
    // SAFETY: its tag says that `boxed` made it of this type. The header demands that no other
    // call has this handle meanwhile.
    Ok(unsafe { &mut (*handle.cast::<Tagged<T::Body>>()).body })
}

/// Takes the body out of `handle`, which is gone then.
pub(crate) fn take<T: Opaque>(handle: *mut T) -> Result<T::Body> {
    check(handle)?;
    Ok(unboxed(handle))
}

fn unboxed<T: Opaque>(handle: *mut T) -> T::Body {
    // SAFETY: `check` saw the tag of a handle that `boxed` made, or `boxed` just made it, and
    // nobody uses it again.
    let mut tagged = unsafe { Box::from_raw(handle.cast::<Tagged<T::Body>>()) };
    // SAFETY: the tag is a part of the box. The store is volatile so that it happens although the
    // memory is given back next.
    unsafe { ptr::write_volatile(&raw mut tagged.tag, FREED) };
    tagged.body
}

/// Frees `handle`; null is fine, and what is no handle of this type is left alone.
pub(crate) fn release<T: Opaque>(handle: *mut T) {
    drop(take(handle));
}

/// `length` bytes from `bytes` on; null stands for none.
#[inline(always)]
pub(crate) fn slice<'b>(what: &str, bytes: *const c_void, length: usize) -> Result<&'b [u8]> {
    if length == 0 {
        return Ok(&[]);
    }
    if bytes.is_null() || length > isize::MAX as usize {
        let message = format!("the {what} is NULL with a length of {length}; pass its bytes");
        return Err(Error::new(ErrorKind::Config, message));
    }
    // SAFETY: the caller promises so many bytes, which nobody changes during the call.
    Ok(unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), length) })
}

/// A bound of a range; null stands for none.
pub(crate) fn bound<'b>(bytes: *const c_void, length: usize) -> Result<Option<&'b [u8]>> {
    if bytes.is_null() && length == 0 {
        return Ok(None);
    }
    slice("bound", bytes, length).map(Some)
}

/// Text that ends with a zero byte.
pub(crate) fn text<'t>(what: &str, text: *const c_char) -> Result<&'t str> {
    let bad = |how: &str| Error::new(ErrorKind::Config, format!("the {what} is {how}"));
    if text.is_null() {
        return Err(bad("NULL; pass text that ends with a zero byte"));
    }
    // SAFETY: the caller promises that a zero byte ends it, and that nobody changes it.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| bad("not UTF-8; encode it so"))
}

/// The texts of an array that ends with a null pointer; null stands for an empty one.
pub(crate) fn texts<'t>(what: &str, array: *const *const c_char) -> Result<Vec<&'t str>> {
    let mut all = Vec::new();
    if array.is_null() {
        return Ok(all);
    }
    loop {
        // SAFETY: the caller promises an array that ends with a null pointer, which was not met.
        let entry = unsafe { *array.add(all.len()) };
        if entry.is_null() {
            return Ok(all);
        }
        all.push(text(what, entry)?);
    }
}

/// Writes `value` to `*out`.
#[inline(always)]
pub(crate) fn put<T>(out: *mut T, value: T) -> Result<()> {
    if out.is_null() {
        let message = "the pointer for the result is NULL; pass the address of a variable";
        return Err(Error::new(ErrorKind::Config, message));
    }
    // SAFETY: the caller promises that a pointer that is not null is good for a result.
    unsafe { ptr::write(out, value) };
    Ok(())
}

/// Writes `value` to `*out`, unless `out` is null.
#[inline(always)]
pub(crate) fn put_if<T>(out: *mut T, value: T) {
    let _ = put(out, value);
}

/// What `*at` is.
pub(crate) fn read<T: Copy>(what: &str, at: *const T) -> Result<T> {
    if at.is_null() {
        let message = format!("the pointer to the {what} is NULL; pass the address of a variable");
        return Err(Error::new(ErrorKind::Config, message));
    }
    // SAFETY: the caller promises a value there.
    Ok(unsafe { *at })
}

/// A copy of `bytes`, and of a zero byte behind them, in memory of `malloc`; null if there is none.
#[inline(always)]
pub(crate) fn allocated(bytes: &[u8]) -> *mut c_void {
    // SAFETY: `malloc` takes every length, and its result is checked.
    let copy = unsafe { libc::malloc(bytes.len() + 1) };
    if !copy.is_null() {
        let end = copy.cast::<u8>().wrapping_add(bytes.len());
        // SAFETY: the new allocation has room for the bytes and one more, and is nobody else's.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), copy.cast::<u8>(), bytes.len());
            ptr::write(end, 0);
        }
    }
    copy
}

/// Gives back what [`allocated`] made; null is fine.
pub(crate) fn deallocate(memory: *mut c_void) {
    // SAFETY: the caller promises memory that a call of this library allocated, or null.
    unsafe { libc::free(memory) }
}

/// Refuses a buffer with room and without an address.
#[inline(always)]
pub(crate) fn check_buffer(buffer: *mut c_void, room: usize) -> Result<()> {
    if buffer.is_null() && room > 0 {
        let message = "the buffer is NULL with room for bytes; pass its address";
        return Err(Error::new(ErrorKind::Config, message));
    }
    Ok(())
}

/// Copies as many of `bytes` to `to` as `room` says, which [`check_buffer`] has seen.
#[inline(always)]
pub(crate) fn copy(bytes: &[u8], to: *mut c_void, room: usize) {
    let length = bytes.len().min(room);
    if length > 0 {
        // SAFETY: the caller promises `room` bytes of its own there.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast::<u8>(), length) };
    }
}

/// What a walk of C calls with each entry.
type Visit = unsafe extern "C" fn(*mut c_void, *const c_void, usize, *const c_void, usize) -> c_int;

/// Shows an entry to `visit`; true if it wants more.
pub(crate) fn visited(visit: Visit, context: *mut c_void, key: &[u8], value: &[u8]) -> bool {
    let (k, v) = (key.as_ptr().cast(), value.as_ptr().cast());
    // SAFETY: the caller promises a function of this type; both slices live during the call.
    unsafe { visit(context, k, key.len(), v, value.len()) == 0 }
}

/// The range from `lower` on and before `upper`; a null bound stands for no bound.
pub(crate) fn range(
    lower: *const c_void,
    lower_length: usize,
    upper: *const c_void,
    upper_length: usize,
) -> Result<KeyRange> {
    let lower = bound(lower, lower_length)?.map(<[u8]>::to_vec);
    let upper = bound(upper, upper_length)?.map(<[u8]>::to_vec);
    Ok(KeyRange {
        lower: lower.map_or(Bound::Unbounded, Bound::Included),
        upper: upper.map_or(Bound::Unbounded, Bound::Excluded),
    })
}

/// Hands out `text` in memory of `malloc`.
pub(crate) fn hand_out_text(text: &str, out: *mut *mut c_char) -> Result<()> {
    let copy = allocated(text.as_bytes()).cast::<c_char>();
    if copy.is_null() {
        return Err(no_memory());
    }
    put(out, copy).inspect_err(|_| deallocate(copy.cast()))
}

/// The error for memory that `malloc` does not have.
pub(crate) fn no_memory() -> Error {
    Error::new(ErrorKind::Full, "malloc has no memory for the result")
}
