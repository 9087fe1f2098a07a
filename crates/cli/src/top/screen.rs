//! The screen: one look at the server, drawn for 80 columns and 24 lines or more.

use super::sample::{Client, Sample, Span};
use super::shown;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span as Text};
use ratatui::widgets::{Block, Gauge, Paragraph, Row, Sparkline, Table};
use std::collections::VecDeque;

/// Looks whose rates the curve shows.
const CURVE_MAX: usize = 512;

/// What connections are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    Memory,
    Idle,
    Age,
    Address,
}

impl Sort {
    /// The order that comes after this one when the key is pressed.
    pub(super) fn next(self) -> Self {
        match self {
            Sort::Memory => Sort::Idle,
            Sort::Idle => Sort::Age,
            Sort::Age => Sort::Address,
            Sort::Address => Sort::Memory,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Sort::Memory => "memory",
            Sort::Idle => "idle time",
            Sort::Age => "age",
            Sort::Address => "address",
        }
    }
}

/// What the lower table lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lower {
    Clients,
    Slow,
}

/// What is drawn.
pub(super) struct Screen {
    pub(super) address: String,
    pub(super) before: Sample,
    pub(super) after: Sample,
    /// Requests a second of the last looks, newest last.
    pub(super) curve: VecDeque<u64>,
    pub(super) sort: Sort,
    pub(super) is_reversed: bool,
    pub(super) lower: Lower,
    pub(super) is_paused: bool,
    /// Why the server does not answer, if it does not.
    pub(super) failure: Option<String>,
}

impl Screen {
    /// The first look at a server.
    pub(super) fn new(address: &str, first: Sample) -> Self {
        Screen {
            address: address.into(),
            before: first.clone(),
            after: first,
            curve: VecDeque::new(),
            sort: Sort::Memory,
            is_reversed: false,
            lower: Lower::Clients,
            is_paused: false,
            failure: None,
        }
    }

    /// Takes the next look.
    pub(super) fn take(&mut self, next: Sample) {
        let is_same = next.text("run_id") == self.after.text("run_id");
        let before = std::mem::replace(&mut self.after, next);
        // Counters of another run say nothing about this one.
        self.before = if is_same { before } else { self.after.clone() };
        let rate = shown::requests(&self.span()).unwrap_or(0.0);
        self.curve.push_back(rate as u64);
        if self.curve.len() > CURVE_MAX {
            self.curve.pop_front();
        }
    }

    fn span(&self) -> Span<'_> {
        Span { before: &self.before, after: &self.after }
    }

    /// Draws everything.
    pub(super) fn draw(&self, frame: &mut Frame<'_>) {
        let databases = self.after.databases().len().clamp(1, 4) as u16 + 3;
        let [head, upper, memory, middle, lower, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(6),
            Constraint::Length(1),
            Constraint::Length(databases),
            Constraint::Min(4),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        self.draw_head(frame, head);
        let [work, latency, curve] = Layout::horizontal([
            Constraint::Length(44),
            Constraint::Length(16),
            Constraint::Min(10),
        ])
        .areas(upper);
        draw_rows(frame, work, "Work", &shown::work(&self.span()), 2);
        draw_rows(frame, latency, "Bursts", &shown::latency(&self.span()), 1);
        self.draw_curve(frame, curve);
        self.draw_memory(frame, memory);
        self.draw_databases(frame, middle);
        match self.lower {
            Lower::Clients => self.draw_clients(frame, lower),
            Lower::Slow => self.draw_slow(frame, lower),
        }
        let keys = "q quit   s sort by   r reverse   Tab connections/slow requests   space pause";
        frame.render_widget(Paragraph::new(keys).style(quiet()), foot);
    }

    fn draw_head(&self, frame: &mut Frame<'_>, area: Rect) {
        let (name, version) = match self.after.text("silica_version") {
            "" => ("Redis", self.after.text("redis_version")),
            version => ("Silica", version),
        };
        let up = shown::seconds(self.after.number("uptime_in_seconds").unwrap_or(0.0) as u64);
        let mut line = Line::from(vec![
            Text::styled(format!("{name} {version}"), bold()),
            Text::raw(format!(" at {}, up {up}", self.address)),
        ]);
        // Whoever does not answer has no role that is known; its place is the reason's.
        match &self.failure {
            Some(why) => line.push_span(Text::styled(format!("  {why}; trying again"), alarm())),
            None => {
                let (role, is_well) = shown::role(&self.after);
                let style = if is_well { Style::new() } else { alarm() };
                line.push_span(Text::styled(role, style));
            }
        }
        if self.is_paused && self.failure.is_none() {
            line.push_span(Text::styled("  paused", alarm()));
        }
        frame.render_widget(line, area);
    }

    fn draw_curve(&self, frame: &mut Frame<'_>, area: Rect) {
        let highest = self.curve.iter().copied().max().unwrap_or(0);
        let title = format!("Requests/s, top {}", shown::count(highest as f64));
        let block = Block::bordered().title(title);
        let width = block.inner(area).width as usize;
        let data: Vec<u64> =
            self.curve.iter().copied().skip(self.curve.len().saturating_sub(width)).collect();
        let style = Style::new().fg(Color::Cyan);
        let curve = Sparkline::default().data(&data).max(highest.max(1)).style(style).block(block);
        frame.render_widget(curve, area);
    }

    fn draw_memory(&self, frame: &mut Frame<'_>, area: Rect) {
        let used = self.after.number("used_memory").unwrap_or(0.0);
        let most = self.after.number("maxmemory").filter(|most| *most > 0.0);
        let whole = most.or(self.after.number("total_system_memory")).unwrap_or(used).max(1.0);
        let of = if most.is_some() { "the limit" } else { "the machine" };
        let (used_text, whole_text) = (shown::bytes(used), shown::bytes(whole));
        let label = format!("memory {used_text} of {of}, {whole_text}");
        let style = Style::new().fg(Color::Blue).bg(Color::DarkGray);
        let label = Text::styled(label, Style::new().fg(Color::White).add_modifier(Modifier::BOLD));
        let gauge = Gauge::default().ratio((used / whole).min(1.0)).label(label).gauge_style(style);
        frame.render_widget(gauge, area);
    }

    fn draw_databases(&self, frame: &mut Frame<'_>, area: Rect) {
        let metric = |number: u64, name: &str| self.after.number(&format!("db{number}_{name}"));
        let cell = |value: Option<String>| value.unwrap_or_else(|| "-".into());
        let rows = self.after.databases().into_iter().map(|d| {
            let of = |name: &str| metric(d.number, name);
            let engine = if d.engine.is_empty() { "-".into() } else { d.engine.clone() };
            Row::new([
                d.number.to_string(),
                engine,
                shown::count(d.keys),
                cell(of("write_amplification").map(|ratio| format!("{ratio:.2}"))),
                cell(of("device_reads_per_get").map(|ratio| format!("{ratio:.2}"))),
                cell(of("live_bytes").map(shown::bytes)),
                cell(of("dead_bytes").map(shown::bytes)),
                cell(of("disk_bytes").map(shown::bytes)),
                cell(of("evictions").map(shown::count)),
            ])
        });
        let widths = [3, 7, 8, 7, 7, 10, 10, 10, 8].map(Constraint::Length);
        let head = ["db", "engine", "keys", "w.amp.", "reads", "live", "dead", "files", "evicted"];
        let table = Table::new(rows, widths).header(Row::new(head).style(quiet()));
        frame.render_widget(table.block(Block::bordered().title("Databases")), area);
    }

    fn draw_clients(&self, frame: &mut Frame<'_>, area: Rect) {
        let mut clients: Vec<&Client> = self.after.clients.iter().collect();
        match self.sort {
            Sort::Memory => {
                silica_base::compact_sort_by_key(&mut clients, |c| std::cmp::Reverse(c.bytes))
            }
            Sort::Idle => silica_base::compact_sort_by_key(&mut clients, |c| c.idle_s),
            Sort::Age => {
                silica_base::compact_sort_by_key(&mut clients, |c| std::cmp::Reverse(c.age_s))
            }
            Sort::Address => {
                silica_base::compact_sort_by(&mut clients, |a, b| a.address.cmp(&b.address))
            }
        }
        if self.is_reversed {
            clients.reverse();
        }
        let rows = clients.into_iter().map(|c| {
            Row::new([
                c.address.clone(),
                c.name.clone(),
                c.db.to_string(),
                c.command.clone(),
                shown::bytes(c.bytes as f64),
                shown::seconds(c.idle_s),
                shown::seconds(c.age_s),
            ])
        });
        let widths = [21, 10, 2, 12, 9, 8, 8].map(Constraint::Length);
        let head = ["address", "name", "db", "last command", "memory", "idle", "age"];
        let table = Table::new(rows, widths).header(Row::new(head).style(quiet()));
        let order = if self.is_reversed { ", reversed" } else { "" };
        let title = format!("Connections by {}{order}", self.sort.name());
        frame.render_widget(table.block(Block::bordered().title(title)), area);
    }

    fn draw_slow(&self, frame: &mut Frame<'_>, area: Rect) {
        let now_s = self.after.number("server_time_usec").unwrap_or(0.0) as u64 / 1_000_000;
        let rows = self.after.slow.iter().map(|slow| {
            let ago = shown::seconds(now_s.saturating_sub(slow.unix_s));
            Row::new([ago, shown::micros(slow.micros as f64), slow.request.clone()])
        });
        let widths = [Constraint::Length(12), Constraint::Length(10), Constraint::Min(20)];
        let head = Row::new(["ago", "took", "request"]).style(quiet());
        let table = Table::new(rows, widths).header(head);
        let title = "Slow requests, newest first";
        frame.render_widget(table.block(Block::bordered().title(title)), area);
    }
}

/// Names and values in so many columns.
fn draw_rows(
    frame: &mut Frame<'_>,
    area: Rect,
    title: &str,
    rows: &[(String, String)],
    columns: usize,
) {
    let block = Block::bordered().title(title.to_string());
    let inside = block.inner(area);
    frame.render_widget(block, area);
    let lines = rows.len().div_ceil(columns);
    let width = inside.width as usize / columns;
    let name_width = if columns > 1 { 10 } else { 5 };
    let text: Vec<Line<'_>> = (0..lines)
        .map(|line| {
            let mut parts = Vec::new();
            for (name, value) in rows.iter().skip(line).step_by(lines.max(1)) {
                let rest = width.saturating_sub(name_width + 2);
                parts.push(Text::styled(format!("{name:<name_width$}"), quiet()));
                parts.push(Text::styled(format!("{value:>rest$}  "), bold()));
            }
            Line::from(parts)
        })
        .collect();
    frame.render_widget(Paragraph::new(text), inside);
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn quiet() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

fn alarm() -> Style {
    Style::new().fg(Color::Yellow).add_modifier(Modifier::BOLD)
}

#[cfg(test)]
mod tests {
    use super::super::sample::tests::sample;
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use std::time::Instant;

    /// The screen's lines at 80 columns and 24 lines.
    fn drawn(screen: &Screen) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).expect("it is in memory");
        terminal.draw(|frame| screen.draw(frame)).expect("it is in memory");
        let buffer = terminal.backend().buffer();
        let line = |cells: &[ratatui::buffer::Cell]| cells.iter().map(|c| c.symbol()).collect();
        buffer.content.chunks(80).map(line).collect()
    }

    fn client(address: &str, bytes: u64, idle_s: u64) -> Client {
        let command = "get".into();
        Client { address: address.into(), bytes, idle_s, command, ..Client::default() }
    }

    #[test]
    fn figures_stand_on_eighty_columns_and_connections_are_sorted() {
        let start = Instant::now();
        let info = |requests: u64, gets: u64| {
            format!(
                "silica_version:0.1.0\r\nuptime_in_seconds:65\r\nused_memory:67108864\r\n\
                 maxmemory:268435456\r\ntotal_commands_processed:{requests}\r\n\
                 keyspace_hits:{gets}\r\nkeyspace_misses:0\r\ndb0_engine:wip\r\ndb0_gets:{gets}\r\n\
                 db0_entries_estimate:4321\r\ndb0_write_amplification:3.25\r\n\
                 role:master\r\nconnected_slaves:2\r\nmaster_repl_offset:100\r\n\
                 slave0:ip=a,port=1,state=online,offset=93,lag=0\r\n\
                 slave1:ip=b,port=1,state=online,offset=99,lag=1\r\n"
            )
        };
        let mut screen = Screen::new("127.0.0.1:6379", sample(start, 0, &info(100, 10)));
        let mut second = sample(start, 2, &info(2100, 1010));
        second.clients = vec![client("10.0.0.1:1", 100, 9), client("10.0.0.2:2", 5000, 4)];
        screen.take(second);
        let text = drawn(&screen).join("\n");
        for part in [
            "Silica 0.1.0 at 127.0.0.1:6379, up 1 min 5 s, 2 replicas, 7 B behind",
            "requests/s   1.00 k",
            "reads/s         500",
            "hit ratio   100.0 %",
            "memory 64.0 MiB of the limit, 256 MiB",
            "0   wip     4.32 k   3.25",
            "Connections by memory",
        ] {
            assert!(text.contains(part), "no {part:?} in\n{text}");
        }
        let line_of = |screen: &Screen, part: &str| {
            drawn(screen).iter().position(|line| line.contains(part)).expect(part)
        };
        assert!(line_of(&screen, "10.0.0.2:2") < line_of(&screen, "10.0.0.1:1"));
        screen.is_reversed = true;
        assert!(line_of(&screen, "10.0.0.2:2") > line_of(&screen, "10.0.0.1:1"));
        screen.failure = Some("connection refused".into());
        assert!(drawn(&screen)[0].contains("connection refused; trying again"));
    }

    #[test]
    fn a_server_that_began_anew_has_no_rates_yet() {
        let start = Instant::now();
        let info = |run: &str, requests: u64| {
            format!("run_id:{run}\r\ntotal_commands_processed:{requests}\r\n")
        };
        let mut screen = Screen::new("x", sample(start, 0, &info("a", 100)));
        screen.take(sample(start, 1, &info("b", 90_000)));
        screen.take(sample(start, 2, &info("b", 90_007)));
        assert_eq!(screen.curve, [0, 7]);
    }
}
