//! The header, the libraries, and programs in C and C++ on them.

mod header;
mod programs;

include!("../../link.rs");

/// This crate's directory.
fn own() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The directory with the libraries of this build.
fn libraries() -> &'static Path {
    static LIBRARIES: std::sync::OnceLock<PathBuf> = std::sync::OnceLock::new();
    LIBRARIES.get_or_init(|| {
        let binary = std::env::current_exe().expect("a test knows its binary");
        let deps = binary.parent().expect("a directory");
        let files = std::fs::read_dir(deps).expect("a directory").filter_map(|file| file.ok());
        let is_archive = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("libsilica_capi") && name.ends_with(".a")
        };
        let archives = files.map(|file| file.path()).filter(is_archive);
        let newest = archives.max_by_key(|path| path.metadata().and_then(|m| m.modified()).ok());
        let out = deps.join("../c");
        link(&newest.expect("cargo builds the static library"), own(), &out).expect("linked");
        out
    })
}
