//! The few pieces of HTML that the page is made of.

const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:15px/1.5 system-ui,sans-serif;max-width:1150px;margin:2em auto;padding:0 1em;color:#222}\
table{border-collapse:collapse;margin:1em 0;font-size:14px}\
td,th{border-bottom:1px solid #ddd;padding:.2em .6em;text-align:left;vertical-align:top}\
h2{margin-top:2.5em;border-bottom:2px solid #ddd}h3{margin-top:2em}\
svg{max-width:100%;height:auto;display:block}\
.ahead{color:#17803d;font-weight:600}.behind{color:#b42318;font-weight:600}.open{color:#777}\
.warning{background:#fff3cd;padding:.6em 1em}\
.wide{overflow-x:auto}small{color:#777;font-weight:400}td small{white-space:nowrap}\
nav a{margin-right:1em}\
@media(prefers-color-scheme:dark){body{background:#16181b;color:#ddd}td,th,h2{border-color:#3a3d42}\
a{color:#8ab4f8}svg{filter:invert(.91) hue-rotate(180deg)}.ahead{color:#5fce86}\
.behind{color:#ff8a7d}.open,small{color:#999}.warning{background:#4a3c10}}";

/// A page that grows from top to bottom.
pub(super) struct Page {
    text: String,
    /// Where the links to the sections go, and those.
    contents_at: usize,
    contents: String,
}

impl Page {
    pub(super) fn new(title: &str) -> Self {
        let title = escape(title);
        let text = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}\
             </title><meta name=\"viewport\" content=\"width=device-width\">\
             <style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n"
        );
        Page { text, contents_at: 0, contents: String::new() }
    }

    /// Links to all sections will stand here.
    pub(super) fn contents(&mut self) {
        self.contents_at = self.text.len();
    }

    /// Begins a section.
    pub(super) fn section(&mut self, text: &str) {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty());
        let id = words.collect::<Vec<_>>().join("-").to_lowercase();
        let text = escape(text);
        self.contents += &format!("<a href=\"#{id}\">{text}</a> ");
        self.text += &format!("<h2 id=\"{id}\">{text}</h2>\n");
    }

    /// Begins a part of a section.
    pub(super) fn heading(&mut self, text: &str) {
        self.text += &format!("<h3>{}</h3>\n", escape(text));
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
        self.text += "<div class=\"wide\"><table><tr>";
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
        self.text += "</table></div>\n";
    }

    pub(super) fn finish(mut self) -> String {
        if self.contents_at > 0 {
            self.text.insert_str(self.contents_at, &format!("<nav>{}</nav>\n", self.contents));
        }
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

/// A figure and its unit.
pub(super) fn with_unit(value: f64, unit: &str) -> String {
    match unit {
        "bytes" | "bytes/s" => figure(value, unit),
        "1/s" => format!("{}/s", figure(value, unit)),
        unit => format!("{} {}", figure(value, unit), escape(unit)),
    }
}

/// A figure with as many digits as people read.
pub(super) fn figure(value: f64, unit: &str) -> String {
    if unit == "bytes/s" {
        return format!("{}/s", figure(value, "bytes"));
    }
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
