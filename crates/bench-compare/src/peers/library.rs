//! C libraries that are opened when a run starts: nothing is compiled or linked for them, and one
//! that is not installed is a missing peer.

use silica::{Error, ErrorKind, Result};
use std::ffi::{CStr, CString, c_char};
use std::path::Path;

/// A C library, and how people get it.
pub(crate) struct Source {
    /// What people call it.
    pub(crate) name: &'static str,
    /// File names to try, in this order.
    pub(crate) files: &'static [&'static str],
    /// The Debian package that has it.
    pub(crate) package: &'static str,
}

/// An open C library.
pub(crate) struct Library {
    handle: libloading::Library,
    source: &'static Source,
}

impl Library {
    /// Opens the first file of `source` that is there; the error names the package that has it.
    pub(crate) fn open(source: &'static Source) -> Result<Self> {
        for file in source.files {
            // SAFETY: loading runs the initialisers of a well-known library, which ask nothing
            // of their caller.
            if let Ok(handle) = unsafe { libloading::Library::new(*file) } {
                return Ok(Library { handle, source });
            }
        }
        let message = format!(
            "{} is not installed (there is none of {}): apt-get install {}",
            source.name,
            source.files.join(", "),
            source.package
        );
        Err(Error::new(ErrorKind::NotFound, message))
    }

    /// The function `name`.
    ///
    /// # Safety
    /// `F` is the type of a pointer to that function, as the library's header declares it.
    pub(crate) unsafe fn function<F: Copy>(&self, name: &str) -> Result<F> {
        // SAFETY: the caller vouches for the type.
        let symbol = unsafe { self.handle.get::<F>(name) };
        symbol.map(|function| *function).map_err(|_| {
            let message = format!(
                "this {} has no function {name}; use the one of the Debian package {}",
                self.source.name, self.source.package
            );
            Error::new(ErrorKind::Unsupported, message)
        })
    }

    /// Leaves the library open until the process ends, as its functions have been handed out and
    /// its threads may run on.
    pub(crate) fn keep(self) {
        std::mem::forget(self.handle);
    }
}

/// Declares the functions that are used of one library, as its header has them, and makes a
/// struct of them that is filled when the library is opened. `NAME::get()` opens it once.
macro_rules! c_functions {
    ($(#[$doc:meta])* struct $name:ident of $source:ident; $($functions:tt)*) => {
        $crate::peers::library::c_calls! { $(#[$doc])* struct $name; $($functions)* }

        impl $name {
            /// The functions, from the library that is opened when they are first asked for.
            pub(super) fn get() -> silica::Result<&'static Self> {
                static OPENED: std::sync::OnceLock<silica::Result<$name>> =
                    std::sync::OnceLock::new();
                let opened = OPENED.get_or_init(|| Self::load(&$source, ""));
                opened.as_ref().map_err(silica::Error::duplicate)
            }
        }
    };
}
pub(crate) use c_functions;

/// Makes a struct of functions of a library whose names may all have a prefix there.
macro_rules! c_calls {
    (
        $(#[$doc:meta])*
        struct $name:ident;
        $(fn $function:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)?;)*
    ) => {
        $(#[$doc])*
        pub(super) struct $name {
            $($function: unsafe extern "C" fn($($type),*) $(-> $result)?,)*
        }

        impl $name {
            /// Opens `source` and looks every function up, `prefix` before its name.
            pub(super) fn load(
                source: &'static $crate::peers::library::Source,
                prefix: &str,
            ) -> silica::Result<Self> {
                let library = $crate::peers::library::Library::open(source)?;
                let name = |function: &str| format!("{prefix}{function}");
                let functions = $name {
                    $(
                        // SAFETY: the type is that of the library's header.
                        $function: unsafe { library.function(&name(stringify!($function)))? },
                    )*
                };
                library.keep();
                Ok(functions)
            }

            $(
                /// # Safety
                /// As the library's header says.
                #[allow(clippy::too_many_arguments, reason = "the header wants them")]
                pub(super) unsafe fn $function(&self, $($argument: $type),*) $(-> $result)? {
                    // SAFETY: the caller upholds what the header asks for.
                    unsafe { (self.$function)($($argument),*) }
                }
            )*
        }
    };
}
pub(crate) use c_calls;

/// `path` as C takes it.
pub(crate) fn c_path(path: &Path) -> Result<CString> {
    CString::new(path.as_os_str().as_encoded_bytes()).map_err(|_| {
        let message = format!("{}: a path cannot have a zero byte", path.display());
        Error::new(ErrorKind::Config, message)
    })
}

/// The text of a C string; nothing for a null pointer.
///
/// # Safety
/// `text` is null or a string that ends with a zero byte.
pub(crate) unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller vouches for the string.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// The bytes that a library lends.
///
/// # Safety
/// `data` points to `length` readable bytes that stay as they are during `'a`, or `length` is 0.
pub(crate) unsafe fn lent<'a>(data: *const c_char, length: usize) -> &'a [u8] {
    if length == 0 {
        return &[];
    }
    // SAFETY: the caller vouches for the bytes.
    unsafe { std::slice::from_raw_parts(data.cast(), length) }
}

/// The full version of a library that has been opened, from the name of its file, for libraries
/// that do not tell it: `7.8.3` of `librocksdb.so.7.8.3`.
pub(crate) fn version_of_file(stem: &str) -> Option<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let version = maps.lines().find_map(|line| line.rsplit_once('/')?.1.strip_prefix(stem));
    version.map(|v| v.trim_start_matches('.').to_string()).filter(|v| !v.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    static MISSING: Source = Source {
        name: "NoStore",
        files: &["libnostore-of-nobody.so.1", "libnostore-of-nobody.so"],
        package: "libnostore1",
    };

    static C: Source =
        Source { name: "C", files: &["no-such-file", "libc.so.6"], package: "libc6" };

    #[test]
    fn a_missing_library_names_its_package() {
        let error = Library::open(&MISSING).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let text = error.to_string();
        assert!(text.contains("NoStore is not installed"), "{text}");
        assert!(text.contains("libnostore-of-nobody.so.1"), "{text}");
        assert!(text.contains("apt-get install libnostore1"), "{text}");
    }

    #[test]
    fn a_missing_function_is_named() {
        let library = Library::open(&C).unwrap();
        // SAFETY: there is no such function.
        let function = unsafe { library.function::<extern "C" fn()>("no_such_function") };
        let text = function.err().unwrap().to_string();
        assert!(text.contains("no_such_function") && text.contains("libc6"), "{text}");
    }

    #[test]
    fn a_file_tells_its_version() {
        assert!(Library::open(&C).is_ok());
        assert_eq!(version_of_file("libc.so").as_deref(), Some("6"));
        assert_eq!(version_of_file("libnostore-of-nobody.so"), None);
    }
}
