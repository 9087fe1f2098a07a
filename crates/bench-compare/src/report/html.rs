//! The few pieces of HTML that the page is made of.

const STYLE: &str = "\
body{font:15px/1.5 system-ui,sans-serif;max-width:1000px;margin:2em auto;padding:0 1em;color:#222}\
table{border-collapse:collapse;margin:1em 0;font-size:14px}\
td,th{border-bottom:1px solid #ddd;padding:.2em .7em;text-align:left;vertical-align:top}\
h2{margin-top:2.5em;border-bottom:2px solid #ddd}h3{margin-top:2em}\
svg{max-width:100%;height:auto;display:block}\
.ahead{color:#17803d;font-weight:600}.behind{color:#b42318;font-weight:600}.open{color:#777}\
.warning{background:#fff3cd;padding:.6em 1em}";

/// A page that grows from top to bottom.
pub(super) struct Page {
    text: String,
}

impl Page {
    pub(super) fn new(title: &str) -> Self {
        let title = escape(title);
        let text = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}\
             </title><style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n"
        );
        Page { text }
    }

    pub(super) fn heading(&mut self, level: u8, text: &str) {
        self.text += &format!("<h{level}>{}</h{level}>\n", escape(text));
    }

    pub(super) fn paragraph(&mut self, text: &str) {
        self.text += &format!("<p>{}</p>\n", escape(text));
    }

    pub(super) fn warning(&mut self, text: &str) {
        self.text += &format!("<p class=\"warning\">{}</p>\n", escape(text));
    }

    /// Adds a chart as it is.
    pub(super) fn svg(&mut self, svg: &str) {
        self.text += svg;
        self.text.push('\n');
    }

    /// Adds a table; cells are HTML already.
    pub(super) fn table(&mut self, head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) {
        self.text += "<table><tr>";
        for cell in head {
            self.text += &format!("<th>{}</th>", escape(cell));
        }
        self.text += "</tr>\n";
        for row in rows {
            self.text += "<tr>";
            for cell in row {
                self.text += &format!("<td>{cell}</td>");
            }
            self.text += "</tr>\n";
        }
        self.text += "</table>\n";
    }

    pub(super) fn finish(mut self) -> String {
        self.text += "</body></html>\n";
        self.text
    }
}

/// Text that HTML shows as it is.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            other => out.push(other),
        }
    }
    out
}

/// A figure with as many digits as people read.
pub(super) fn figure(value: f64, unit: &str) -> String {
    if unit == "bytes" {
        return match value {
            v if v >= 1e9 => format!("{:.2} GB", v / 1e9),
            v if v >= 1e6 => format!("{:.1} MB", v / 1e6),
            v => format!("{:.1} kB", v / 1e3),
        };
    }
    match value.abs() {
        v if v >= 1e6 => format!("{:.2} M", value / 1e6),
        v if v >= 1e4 => format!("{:.1} k", value / 1e3),
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}
