//! The dashboard in a browser: what it shows is what INFO says, it draws, and it complains of
//! nothing. Chromium is asked for by `cargo xtask ci`; without it these tests say so and pass.

use crate::support::{Client, Reply, Server, arg, scratch};
use std::io::Read;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The browser, if there is one.
fn chromium() -> Option<&'static str> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let starts = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    let found = names.into_iter().find(starts);
    if found.is_none() {
        println!("skipped: no Chromium is installed (Debian: apt-get install chromium)");
    }
    found
}

/// Looks at `url` without a screen, for some seconds of the page's time.
fn browse(browser: &str, directory: &Path, url: &str, what: &[&str]) -> Output {
    let profile = format!("--user-data-dir={}", directory.join("profile").display());
    let mut command = Command::new("timeout");
    command.args(["120", browser, "--headless", "--no-sandbox", "--disable-gpu", &profile]);
    // Nothing of the browser's own goes to the network.
    command.args(["--disable-dev-shm-usage", "--disable-background-networking", "--no-first-run"]);
    command.args(["--enable-logging=stderr", "--v=0", "--virtual-time-budget=6000"]);
    command.args(what).arg(url).env("HOME", directory).stdin(Stdio::null());
    command.output().expect("timeout is there")
}

/// What the page complained of.
fn complaints(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stderr);
    text.lines().filter(|line| line.contains(":CONSOLE")).map(String::from).collect()
}

/// The text of the element that has `field`.
fn shown<'d>(dom: &'d str, field: &str) -> Option<&'d str> {
    let start = format!("data-field=\"{field}\">");
    let rest = &dom[dom.find(&start)? + start.len()..];
    rest.split('<').next()
}

/// The image data of a PNG file, not yet unfiltered.
fn image_data(png: &[u8]) -> Vec<u8> {
    let (mut rest, mut packed) = (&png[8..], Vec::new());
    while let Some((head, after)) = rest.split_first_chunk::<8>() {
        let len = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
        if &head[4..] == b"IDAT" {
            packed.extend_from_slice(&after[..len]);
        }
        rest = &after[len + 4..];
    }
    let mut data = Vec::new();
    flate2::read::ZlibDecoder::new(&packed[..]).read_to_end(&mut data).expect("a PNG's data");
    data
}

/// A server with an admin port, that has done something.
fn busy(directory: &Path) -> (Server, String) {
    let free = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    let admin = free.local_addr().expect("it is bound").to_string();
    drop(free);
    let server = Server::start(&directory.join("store"), &["--admin", &admin]);
    let mut client = server.client();
    for i in 0..500 {
        let key = format!("key{i}");
        client.ask(&[b"SET", key.as_bytes(), b"value"]).unwrap();
        client.ask(&[b"MGET", key.as_bytes(), b"missing"]).unwrap();
    }
    (server, admin)
}

fn info(client: &mut Client) -> Vec<(String, String)> {
    let Ok(Reply::Bytes(Some(bytes))) = client.ask(&[b"INFO"]) else { panic!("INFO is a text") };
    let text = String::from_utf8(bytes).unwrap();
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

#[test]
fn numbers_on_the_page_are_those_of_info() {
    let Some(browser) = chromium() else { return };
    let directory = scratch("dashboard");
    let (server, admin) = busy(&directory);
    let output = browse(browser, &directory, &format!("http://{admin}/#all"), &["--dump-dom"]);
    let dom = String::from_utf8_lossy(&output.stdout);
    assert_eq!(complaints(&output), Vec::<String>::new());
    assert!(dom.contains(">live</span>"), "the page is not live: {dom}");
    let mut compared = 0;
    for (name, value) in info(&mut server.client()) {
        let is_steady = ["keyspace_", "maxmemory", "maxclients", "total_connections", "run_id"]
            .iter()
            .chain(&["db0_puts", "db0_gets", "db0_get_hits", "db0_entries", "db0_engine"])
            .any(|start| name.starts_with(start));
        // This test's own connection came after the page.
        if !is_steady || name == "total_connections_received" {
            continue;
        }
        let found = shown(&dom, &name).unwrap_or_else(|| panic!("no {name} on the page"));
        let is_equal = found == value || found.parse::<f64>().ok() == value.parse().ok();
        assert!(is_equal, "{name}: INFO has {value}, the page {found}");
        compared += 1;
    }
    assert!(compared >= 10, "{compared} fields");
    assert_eq!(shown(&dom, "keyspace_misses"), Some("500"));
}

#[test]
fn the_page_draws_in_every_size_and_theme() {
    let Some(browser) = chromium() else { return };
    let directory = scratch("dashboard-drawn");
    let (_server, admin) = busy(&directory);
    let url = format!("http://{admin}/");
    let files = [
        ("wide", "1440,1800", &[][..]),
        ("phone", "390,3000", &[]),
        ("dark", "1440,1800", &["--blink-settings=preferredColorScheme=0"]),
    ];
    let mut lightness = Vec::new();
    for (name, size, more) in files {
        let file: PathBuf = directory.join(format!("{name}.png"));
        let screenshot = format!("--screenshot={}", arg(&file));
        let size = format!("--window-size={size}");
        let what = [&[&screenshot[..], &size[..], "--hide-scrollbars"], more].concat();
        let output = browse(browser, &directory, &url, &what);
        assert_eq!(complaints(&output), Vec::<String>::new(), "{name}");
        let png = std::fs::read(&file).unwrap_or_else(|e| panic!("{name}: {e}"));
        let data = image_data(&png);
        let mut kinds = [0_u64; 256];
        data.iter().for_each(|byte| kinds[usize::from(*byte)] += 1);
        let distinct = kinds.iter().filter(|count| **count > 0).count();
        assert!(distinct > 100, "{name} is blank: {distinct} kinds of bytes");
        lightness.push(png.len());
    }
    assert_ne!(lightness[0], lightness[2], "the dark page is another picture");
}

/// A page whose server is gone says so, and that it tries again.
#[test]
fn a_page_without_a_server_says_so() {
    let Some(browser) = chromium() else { return };
    let directory = scratch("dashboard-gone");
    let (server, admin) = busy(&directory);
    let page = directory.join("page.html");
    let mut socket = std::net::TcpStream::connect(&admin).unwrap();
    std::io::Write::write_all(&mut socket, b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    std::fs::write(&page, text.split_once("\r\n\r\n").unwrap().1).unwrap();
    drop(server);
    let url = format!("file://{}", page.display());
    let output = browse(browser, &directory, &url, &["--dump-dom"]);
    let dom = String::from_utf8_lossy(&output.stdout);
    assert!(dom.contains("the server does not answer; trying again in"), "{dom}");
    assert!(dom.contains("class=\"is-gone\""), "{dom}");
}
