//! The calls of objects as tables in `shim/silica_store.h`, which says what each does. Callers
//! uphold the rules in `ffi.rs`.

use crate::failure::{Failure, code};
use crate::ffi::{SilicaDb, Words, guard, set, slice, text};
use crate::objects::{Elements, Place, Sought};
use silica_types::Kind;
use std::ffi::{c_char, c_int};
use std::ptr::null_mut;
use std::rc::Rc;

/// A cursor over the elements of objects.
struct SilicaElements {
    elements: Elements,
    words: Words,
}

/// What is looked for.
#[repr(C)]
struct SilicaSought {
    name: *const c_char,
    key: *const u8,
    only: *const u8,
    key_size: u32,
    only_size: u32,
    number: i64,
    position: i64,
}

/// An element.
#[repr(C)]
struct SilicaElement {
    id: *const u8,
    name: *const u8,
    value: *const u8,
    id_size: u32,
    name_size: u32,
    value_size: u32,
    position: i64,
    ttl_ms: i64,
    score: f64,
}

/// Opens a cursor over objects of a kind.
#[unsafe(no_mangle)]
unsafe extern "C" fn silica_sql_elements_open(
    db: *mut SilicaDb,
    kind: c_int,
    elements: *mut *mut SilicaElements,
) -> c_int {
    // SAFETY: by rule 1.
    let Some(db) = (unsafe { db.as_ref() }) else { return code::MISUSE };
    guard(Some(&db.words), || {
        set(elements, null_mut())?;
        let kind = Kind::ALL.into_iter().find(|known| *known as c_int == kind);
        let kind = kind.ok_or_else(|| Failure::misuse("a kind of objects that is none"))?;
        let cursor = Elements::new(Rc::clone(&db.tables), kind);
        let opened = SilicaElements { elements: cursor, words: Rc::clone(&db.words) };
        set(elements, Box::into_raw(Box::new(opened)))?;
        Ok(code::OK)
    })
}

/// Closes a cursor over objects.
#[unsafe(no_mangle)]
unsafe extern "C" fn silica_sql_elements_close(elements: *mut SilicaElements) {
    guard(None, || {
        if !elements.is_null() {
            // SAFETY: made by `silica_sql_elements_open` and closed once, by rule 1.
            drop(unsafe { Box::from_raw(elements) });
        }
        Ok(code::OK)
    });
}

/// Searches for elements.
#[unsafe(no_mangle)]
unsafe extern "C" fn silica_sql_elements_search(
    elements: *mut SilicaElements,
    sought: *const SilicaSought,
) -> c_int {
    // SAFETY: by rule 1.
    let Some(SilicaElements { elements, words }) = (unsafe { elements.as_mut() }) else {
        return code::MISUSE;
    };
    guard(Some(words), || {
        // SAFETY: by rule 3.
        let sought = unsafe { sought.as_ref() };
        let sought = sought.ok_or_else(|| Failure::misuse("a search for nothing"))?;
        // SAFETY: by rule 3.
        let name = (!sought.name.is_null()).then(|| unsafe { text(sought.name) }.to_string_lossy());
        let place = name.as_deref().map_or(Place::Database(sought.number), Place::Keyspace);
        // SAFETY: by rule 3.
        let key = unsafe { slice(sought.key, sought.key_size as usize) };
        let is_one = !sought.only.is_null();
        // SAFETY: by rule 3.
        let only = is_one.then(|| unsafe { slice(sought.only, sought.only_size as usize) });
        let only = only.map(|bytes| (bytes, sought.position));
        elements.search(Sought { place, key, only })?;
        Ok(code::OK)
    })
}

/// To the next element.
#[unsafe(no_mangle)]
unsafe extern "C" fn silica_sql_elements_step(elements: *mut SilicaElements) -> c_int {
    // SAFETY: by rule 1.
    let Some(SilicaElements { elements, words }) = (unsafe { elements.as_mut() }) else {
        return code::MISUSE;
    };
    guard(Some(words), || {
        elements.step()?;
        Ok(code::OK)
    })
}

/// The element here.
#[unsafe(no_mangle)]
unsafe extern "C" fn silica_sql_elements_here(
    elements: *mut SilicaElements,
    element: *mut SilicaElement,
) -> c_int {
    // SAFETY: by rule 1.
    let Some(SilicaElements { elements, words }) = (unsafe { elements.as_ref() }) else {
        return code::MISUSE;
    };
    guard(Some(words), || {
        let Some(here) = elements.here() else { return Ok(code::DONE) };
        let found = SilicaElement {
            id: here.id.as_ptr(),
            name: here.name.as_ptr(),
            value: here.value.as_ptr(),
            id_size: here.id.len() as u32,
            name_size: here.name.len() as u32,
            value_size: here.value.len() as u32,
            position: i64::try_from(here.position).unwrap_or(i64::MAX),
            ttl_ms: here.ttl_ms.unwrap_or(-1),
            score: here.score,
        };
        if !element.is_null() {
            set(element, found)?;
        }
        Ok(code::OK)
    })
}
