//! The pages of the program itself, which count as memory of the process like any other.

use rustix::mm::{Advice, madvise};
use std::ffi::c_void;

/// Gives back the pages of the program's file that starting has touched, and tells how many bytes
/// they had.
///
/// Reading options, naming every engine and relocating addresses touch more than half of the
/// program, and little of that is needed again. What is needed comes back from the file, a few
/// microseconds for each part. Costs a walk over the process's mappings, some milliseconds.
/// Nothing is given back where the system does not say which pages are unchanged.
pub fn return_start_pages() -> u64 {
    let Ok(program) = std::fs::read_link("/proc/self/exe") else { return 0 };
    let Ok(mappings) = std::fs::read_to_string("/proc/self/smaps") else { return 0 };
    let Some(program) = program.to_str() else { return 0 };
    unchanged(&mappings, program).into_iter().map(|part| part.give_back()).sum()
}

/// A mapping of the program's file, none of whose pages differs from the file.
#[derive(Debug, PartialEq, Eq)]
struct Unchanged {
    start: usize,
    end: usize,
    resident_bytes: u64,
}

impl Unchanged {
    fn give_back(&self) -> u64 {
        let start = std::ptr::without_provenance_mut::<c_void>(self.start);
        // SAFETY: the mapping is of a file and read-only, and no page of it was ever changed: what
        // is read or executed there later is read from the file again, and is the same.
        let has_given = unsafe { madvise(start, self.end - self.start, Advice::LinuxDontNeed) };
        if has_given.is_ok() { self.resident_bytes } else { 0 }
    }
}

/// Those of `mappings`, as the system tells them, that are of the file `program`, cannot be
/// written and never were.
fn unchanged(mappings: &str, program: &str) -> Vec<Unchanged> {
    let mut found = Vec::new();
    let mut part = None;
    for line in mappings.lines() {
        match head(line) {
            Some((start, end, rights, path)) => {
                let is_ours = path == program && rights.starts_with('r') && rights.ends_with('p');
                part = (is_ours && !rights.contains('w')).then_some((start, end, 0));
            }
            None => match (&mut part, field(line)) {
                (Some((_, _, resident)), Some(("Rss", kib))) => *resident = kib << 10,
                // What is resident comes first, and later what is no longer the file's.
                (Some((start, end, resident)), Some(("Anonymous", 0))) => {
                    found.push(Unchanged { start: *start, end: *end, resident_bytes: *resident });
                }
                _ => {}
            },
        }
    }
    found
}

/// First line of a mapping: where it starts and ends, its rights and its file.
fn head(line: &str) -> Option<(usize, usize, &str, &str)> {
    let (addresses, rest) = line.split_once(' ')?;
    let (start, end) = addresses.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    // The path is the sixth field, and may have spaces.
    let mut fields = rest.splitn(5, ' ');
    let rights = fields.next()?;
    Some((number(start)?, number(end)?, rights, fields.nth(3)?.trim_start()))
}

/// A number of KiB that a mapping has.
fn field(line: &str) -> Option<(&str, u64)> {
    let (name, rest) = line.split_once(':')?;
    Some((name, rest.trim().strip_suffix(" kB")?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPPINGS: &str = "\
55d0-55d8 r--p 00000000 08:01 1234                       /opt/a program
Rss:                  16 kB
Anonymous:             0 kB
55d8-55e8 r-xp 00008000 08:01 1234                       /opt/a program
Rss:                  64 kB
Anonymous:             4 kB
55e8-55f0 rw-p 00018000 08:01 1234                       /opt/a program
Rss:                   8 kB
Anonymous:             0 kB
7f00-7f10 r-xp 00000000 08:01 99                         /lib/libc.so.6
Rss:                  60 kB
Anonymous:             0 kB
7ff0-7ff8 rw-p 00000000 00:00 0 
Rss:                   8 kB
Anonymous:             0 kB
7ffa-7ffb r-xp 00000000 00:00 0                          [vdso]
Rss:                   4 kB
Anonymous:             0 kB
";

    #[test]
    fn only_what_nobody_wrote_is_given_back() {
        let found = unchanged(MAPPINGS, "/opt/a program");
        assert_eq!(found, [Unchanged { start: 0x55d0, end: 0x55d8, resident_bytes: 16 << 10 }]);
        assert_eq!(unchanged("", "/opt/a program"), []);
        assert_eq!(unchanged(MAPPINGS, ""), []);
    }

    #[test]
    fn the_program_goes_on_without_its_pages() {
        if !cfg!(miri) {
            assert!(return_start_pages() > 100 << 10, "a program has more than its first pages");
        }
        assert_eq!("it goes on".len(), 10);
    }
}
