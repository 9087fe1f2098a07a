//! The dashboard: one page that needs nothing but this server.
//!
//! Its parts are plain files beside this one, put into one answer when it is first asked for, so
//! that a browser makes one request for it.

use std::sync::LazyLock;

const HTML: &str = include_str!("page/index.html");
const STYLE: &str = include_str!("page/style.css");
/// In the order in which they need each other.
const SCRIPTS: [&str; 4] = [
    include_str!("page/format.js"),
    include_str!("page/chart.js"),
    include_str!("page/panels.js"),
    include_str!("page/main.js"),
];

/// What a browser lets the page do: what stands in it, and requests to this server.
pub(super) const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; \
                                 script-src 'unsafe-inline'; connect-src 'self'; img-src data:; \
                                 base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The whole page.
pub(super) static PAGE: LazyLock<String> = LazyLock::new(|| {
    let script = SCRIPTS.join("\n");
    HTML.replace("/* STYLE */", STYLE).replace("/* SCRIPT */", &script)
});

#[cfg(test)]
mod tests {
    use super::*;

    /// What a page may weigh so that it is there within 100 ms on a slow line, too.
    const BYTES_MAX: usize = 64 << 10;

    #[test]
    fn the_page_is_small_and_needs_nothing_else() {
        assert!(PAGE.len() <= BYTES_MAX, "{} bytes", PAGE.len());
        let outside = ["src=", "url(", "@import", "href=\"http", "import("];
        for word in outside {
            assert!(!PAGE.contains(word), "the page loads something: {word}");
        }
        assert!(!PAGE.contains("/* STYLE */") && !PAGE.contains("/* SCRIPT */"));
    }
}
