//! What stands between members: a proxy that delays, holds back and cuts what they send.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What happens to what is sent from one member to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Weather {
    /// It arrives.
    #[default]
    Fair,
    /// It arrives later.
    Slow(Duration),
    /// It does not arrive until this is over, as when all packets are lost.
    Lost,
    /// Connections are cut.
    Cut,
}

/// The links between members, by the addresses of both.
#[derive(Clone, Default)]
pub(crate) struct Links(Arc<Mutex<HashMap<(String, String), Weather>>>);

impl Links {
    /// Sets what happens on the way from one to another, and not on the way back.
    pub(crate) fn set(&self, from: &str, to: &str, weather: Weather) {
        let key = (from.to_string(), to.to_string());
        self.0.lock().expect("links").insert(key, weather);
    }

    /// All is fair.
    pub(crate) fn heal(&self) {
        self.0.lock().expect("links").clear();
    }

    fn get(&self, from: &str, to: &str) -> Weather {
        let key = (from.to_string(), to.to_string());
        self.0.lock().expect("links").get(&key).copied().unwrap_or_default()
    }
}

/// A proxy before the member that is reached at `front` and listens at `back`.
pub(crate) fn start(front: TcpListener, back: String, links: Links, stop: Arc<AtomicBool>) {
    let name = front.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        for stream in front.incoming() {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let (Ok(stream), back, links) = (stream, back.clone(), links.clone()) else { continue };
            let (name, stop) = (name.clone(), Arc::clone(&stop));
            std::thread::spawn(move || {
                let _ = connect(stream, &back, (&name, &links), &stop);
            });
        }
    });
}

fn connect(
    caller: TcpStream,
    back: &str,
    (name, links): (&str, &Links),
    stop: &Arc<AtomicBool>,
) -> std::io::Result<()> {
    let server = TcpStream::connect(back)?;
    for stream in [&caller, &server] {
        stream.set_nodelay(true)?;
    }
    // Who calls stands in its first message.
    let from: Arc<Mutex<Option<String>>> = Arc::default();
    let (name, links) = (name.to_string(), links.clone());
    let way = |is_forth: bool| {
        let (from, name, links) = (Arc::clone(&from), name.clone(), links.clone());
        move || -> Weather {
            // Who does not say who he is has no name.
            let from = from.lock().expect("a name").clone().unwrap_or_default();
            if is_forth { links.get(&from, &name) } else { links.get(&name, &from) }
        }
    };
    let (forth, back_way) = (way(true), way(false));
    let back_stream = (server.try_clone()?, caller.try_clone()?);
    let back_stop = Arc::clone(stop);
    std::thread::spawn(move || pump(back_stream, &back_way, &back_stop, |_| {}));
    pump((caller, server), &forth, stop, |bytes| {
        let mut from = from.lock().expect("a name");
        if from.is_none() {
            *from = name_in(bytes);
        }
    });
    Ok(())
}

/// The value of "from" in a hello.
fn name_in(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let (_, rest) = text.split_once("\"from\":\"")?;
    rest.split_once('"').map(|(name, _)| name.to_string())
}

fn pump(
    (mut from, mut to): (TcpStream, TcpStream),
    weather: &dyn Fn() -> Weather,
    stop: &AtomicBool,
    mut look: impl FnMut(&[u8]),
) {
    let mut buffer = vec![0; 64 << 10];
    let _ = from.set_read_timeout(Some(Duration::from_millis(20)));
    'pump: loop {
        if stop.load(Ordering::Relaxed) || weather() == Weather::Cut {
            break;
        }
        let len = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(len) => len,
            Err(e)
                if matches!(
                    e.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                ) =>
            {
                continue;
            }
            Err(_) => break,
        };
        look(&buffer[..len]);
        loop {
            match weather() {
                Weather::Fair => break,
                Weather::Slow(delay) => {
                    std::thread::sleep(delay);
                    break;
                }
                Weather::Cut => break 'pump,
                Weather::Lost if stop.load(Ordering::Relaxed) => break 'pump,
                Weather::Lost => std::thread::sleep(Duration::from_millis(5)),
            }
        }
        if to.write_all(&buffer[..len]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
