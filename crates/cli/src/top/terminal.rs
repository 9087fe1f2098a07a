//! The loop of the terminal: looks, draws, and takes keys.

use super::sample::Sample;
use super::screen::{Lower, Screen};
use crate::resp::Resp;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use silica::{Error, Result};
use std::time::{Duration, Instant};

/// Shows the server until `q` or Ctrl-C; the terminal is as it was before afterwards. A server that
/// is gone is asked again each `interval`.
pub(super) fn run(
    address: &str,
    interval: Duration,
    resp: Resp,
    first: Sample,
    connect: impl Fn() -> Result<Resp>,
) -> Result<()> {
    let failed = |what: &'static str| move |e| Error::io(format!("{what} the terminal"), e);
    let terminal = ratatui::try_init().map_err(failed("preparing"))?;
    let mut top = Top { screen: Screen::new(address, first), resp: Some(resp), interval, terminal };
    let result = top.run(&connect);
    ratatui::try_restore().map_err(failed("restoring"))?;
    result.map_err(failed("drawing on"))
}

struct Top {
    screen: Screen,
    /// None after the connection was lost.
    resp: Option<Resp>,
    interval: Duration,
    terminal: DefaultTerminal,
}

impl Top {
    fn run(&mut self, connect: &dyn Fn() -> Result<Resp>) -> std::io::Result<()> {
        let mut looked = Instant::now();
        loop {
            let screen = &self.screen;
            self.terminal.draw(|frame| screen.draw(frame))?;
            let rest = self.interval.saturating_sub(looked.elapsed());
            if event::poll(rest)? {
                if let Event::Key(key) = event::read()?
                    && self.screen.press(key)
                {
                    return Ok(());
                }
                continue;
            }
            looked = Instant::now();
            if !self.screen.is_paused {
                self.look(connect);
            }
        }
    }

    /// Asks the server; what is wrong is shown.
    fn look(&mut self, connect: &dyn Fn() -> Result<Resp>) {
        let connected = self.resp.take().map_or_else(connect, Ok);
        let looked = connected.and_then(|mut resp| Ok((Sample::take(&mut resp)?, resp)));
        match looked {
            Ok((sample, resp)) => {
                self.screen.take(sample);
                (self.screen.failure, self.resp) = (None, Some(resp));
            }
            Err(error) => self.screen.failure = Some(error.to_string()),
        }
    }
}

impl Screen {
    /// Does what a key is for; true if it ends the program.
    fn press(&mut self, key: KeyEvent) -> bool {
        if key.kind == KeyEventKind::Release {
            return false;
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return true,
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return true,
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('r') => self.is_reversed = !self.is_reversed,
            KeyCode::Char(' ' | 'p') => self.is_paused = !self.is_paused,
            KeyCode::Tab => {
                self.lower = match self.lower {
                    Lower::Clients => Lower::Slow,
                    Lower::Slow => Lower::Clients,
                };
            }
            _ => {}
        }
        false
    }
}
