//! The admin port, over HTTP: the dashboard, the figures behind it, and metrics for Prometheus.
//!
//! One thread answers requests, and between them samples the history once a second. A request
//! that takes long delays a sample; rows say when they ended, so their rates stay right.

mod history;
mod page;
mod prometheus;
mod replicas;
mod series;
mod status;
mod why;

use self::history::History;
use self::series::Snapshot;
use silica::engine::{Error, ErrorKind, Result};
use silica_commands::Service;
use std::borrow::Cow;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tiny_http::{Header, Method, Request, Response};

const ABOUT: &str = "silica: / is the dashboard; /metrics has every counter in the text format of \
                     Prometheus; /why has what the models predict of each database beside what it \
                     measured; /status, /history?span=SECONDS&after=UNIX_MS and /models are JSON\n";

/// The thread that answers on the admin port.
pub(crate) struct Admin {
    http: Arc<tiny_http::Server>,
    is_stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Admin {
    /// Listens on `address`, which must be a loopback one: there is no password; or on the socket
    /// there that was passed. Stores are in `directory`, if they are on a disk.
    pub(crate) fn start(
        service: &Arc<Service>,
        address: SocketAddr,
        passed: Option<&TcpListener>,
        directory: Option<PathBuf>,
    ) -> Result<Admin> {
        if !address.ip().is_loopback() {
            let text = format!(
                "the admin port has no password, so it listens on loopback only: {address} is not; \
                 use 127.0.0.1 and a proxy"
            );
            return Err(Error::new(ErrorKind::Config, text));
        }
        let http = match passed {
            Some(socket) => of_passed(socket),
            None => tiny_http::Server::http(address),
        };
        let http = http.map_err(|e| {
            Error::new(
                ErrorKind::Io,
                format!("listen on {address} for the admin port: {e}; choose another port"),
            )
        })?;
        service.observe();
        let (http, is_stopping) = (Arc::new(http), Arc::new(AtomicBool::new(false)));
        let history = History::new(&service.budget);
        let mut pages = Pages { service: Arc::clone(service), directory, history };
        let (requests, stop) = (Arc::clone(&http), Arc::clone(&is_stopping));
        let thread = thread::Builder::new().name("silica-admin".into());
        let thread = thread.spawn(move || pages.serve(&requests, &stop)).map_err(|e| {
            Error::new(ErrorKind::Io, format!("start the admin port's thread: {e}"))
        })?;
        Ok(Admin { http, is_stopping, thread: Some(thread) })
    }

    /// The address that is listened on, with its real port.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.http.server_addr().to_ip()
    }
}

/// Answers on a socket that somebody else listens on, too.
fn of_passed(
    socket: &TcpListener,
) -> std::result::Result<tiny_http::Server, Box<dyn std::error::Error + Send + Sync>> {
    let own = socket.try_clone()?;
    // The thread that accepts waits in the call.
    own.set_nonblocking(false)?;
    tiny_http::Server::from_listener(own, None)
}

impl Drop for Admin {
    fn drop(&mut self) {
        self.is_stopping.store(true, Ordering::Release);
        self.http.unblock();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("the admin port's thread panicked");
        }
    }
}

/// What is answered.
struct Answer {
    status: u16,
    kind: &'static str,
    body: Cow<'static, str>,
}

const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
const JSON: &str = "application/json";
const HTML: &str = "text/html; charset=utf-8";

impl Answer {
    fn new(status: u16, kind: &'static str, body: impl Into<Cow<'static, str>>) -> Self {
        Answer { status, kind, body: body.into() }
    }

    fn send(self, request: Request) {
        let headers = [
            ("Content-Type", self.kind),
            ("Cache-Control", "no-store"),
            ("Content-Security-Policy", page::POLICY),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
        ];
        let mut response = Response::from_string(self.body).with_status_code(self.status);
        let headers =
            headers.iter().filter_map(|(name, value)| Header::from_bytes(*name, *value).ok());
        headers.for_each(|header| response.add_header(header));
        // A client that is gone wants no answer.
        let _ = request.respond(response);
    }
}

/// What the thread has.
struct Pages {
    service: Arc<Service>,
    directory: Option<PathBuf>,
    history: History,
}

impl Pages {
    fn serve(&mut self, requests: &tiny_http::Server, is_stopping: &AtomicBool) {
        while !is_stopping.load(Ordering::Acquire) {
            let due_ms = self.history.due_ms(self.service.monotonic_ms());
            if due_ms == 0 {
                self.history.add(&Snapshot::take(&self.service));
                continue;
            }
            match requests.recv_timeout(Duration::from_millis(due_ms)) {
                Ok(Some(request)) => self.answer(request),
                Ok(None) => {}
                Err(error) => {
                    log::error!("the admin port cannot listen any more: {error}");
                    return;
                }
            }
        }
    }

    fn answer(&self, request: Request) {
        let url = request.url();
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        let answer = match request.method() {
            Method::Get | Method::Head => self.page(path, query),
            _ => Answer::new(405, TEXT, "only GET\n"),
        };
        answer.send(request);
    }

    fn page(&self, path: &str, query: &str) -> Answer {
        let service = &*self.service;
        match path {
            "/" | "/dashboard" => Answer::new(200, HTML, page::PAGE.as_str()),
            "/metrics" => Answer::new(200, TEXT, prometheus::metrics(service)),
            "/why" => Answer::new(200, TEXT, why::text(service)),
            "/models" => Answer::new(200, JSON, status::models(service)),
            "/status" => match status::json(service, self.directory.as_deref()) {
                Ok(json) => Answer::new(200, JSON, json),
                Err(error) => Answer::new(500, TEXT, format!("{error}\n")),
            },
            "/history" => match (number(query, "span", 300), number(query, "after", 0)) {
                (Ok(span_s), Ok(after_ms)) => {
                    Answer::new(200, JSON, self.history.json(span_s, after_ms))
                }
                (Err(text), _) | (_, Err(text)) => Answer::new(400, TEXT, text),
            },
            _ => Answer::new(404, TEXT, format!("not found; {ABOUT}")),
        }
    }
}

/// The number that `query` gives for `name`, or `usual` if it gives none; else what is wrong.
fn number(query: &str, name: &str, usual: u64) -> std::result::Result<u64, String> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let Some((_, value)) = pairs.into_iter().find(|(key, _)| *key == name) else {
        return Ok(usual);
    };
    value.parse().map_err(|_| format!("{name}={value} is no whole number; {ABOUT}"))
}
