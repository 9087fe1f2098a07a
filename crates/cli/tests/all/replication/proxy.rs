//! A way to a server that can be cut: all connections to it go through the test.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Bytes that are passed on at a time.
const PIECE_BYTES: usize = 64 << 10;

/// Passes connections to its own port on to a server's.
pub(super) struct Proxy {
    /// Where it listens.
    pub(super) port: u16,
    way: Arc<Way>,
}

struct Way {
    to: u16,
    is_cut: AtomicBool,
    /// Both ends of all connections since the last cut.
    ends: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    /// Passes on to port `to` of the loopback device.
    pub(super) fn start(to: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
        let port = listener.local_addr().expect("a bound socket has an address").port();
        let way = Arc::new(Way { to, is_cut: AtomicBool::new(false), ends: Mutex::default() });
        let shared = Arc::clone(&way);
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                shared.pass(near);
            }
        });
        Proxy { port, way }
    }

    /// Ends all connections and takes no new ones.
    pub(super) fn cut(&self) {
        self.way.is_cut.store(true, Relaxed);
        for end in self.way.ends.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // One that has ended already is no matter.
            let _ = end.shutdown(Shutdown::Both);
        }
    }

    /// Takes connections again.
    pub(super) fn mend(&self) {
        self.way.is_cut.store(false, Relaxed);
    }
}

impl Way {
    fn pass(&self, near: TcpStream) {
        if self.is_cut.load(Relaxed) {
            return;
        }
        let Ok(far) = TcpStream::connect(("127.0.0.1", self.to)) else { return };
        let pair = near.try_clone().and_then(|n| far.try_clone().map(|f| (n, f)));
        let Ok((near_too, far_too)) = pair else { return };
        for end in [&near, &far] {
            let _ = end.set_nodelay(true);
        }
        let kept = near.try_clone().and_then(|n| far.try_clone().map(|f| [n, f]));
        self.ends.lock().unwrap_or_else(PoisonError::into_inner).extend(kept.into_iter().flatten());
        thread::spawn(move || copy(near, far));
        thread::spawn(move || copy(far_too, near_too));
    }
}

/// Passes bytes on until one side ends; then both do.
fn copy(mut from: TcpStream, mut to: TcpStream) {
    let mut piece = vec![0; PIECE_BYTES];
    while let Ok(len @ 1..) = from.read(&mut piece) {
        if to.write_all(&piece[..len]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
