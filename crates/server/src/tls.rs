//! TLS between a connection's socket and its buffers.
//!
//! What comes from the socket passes [`Session::open`] before it is kept, and replies pass
//! [`Session::seal`] before they are queued: the rest of a connection, and both kinds of loops,
//! move bytes without knowing what they are.

use crate::TlsFiles;
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{CertificateError, InconsistentKeys, RootCertStore, ServerConfig, ServerConnection};
use silica::engine::{Error, ErrorKind, Result};
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// Memory of a session beside what waits in it: keys, hashes, buffers that never shrink.
const SESSION_BYTES: usize = 8 << 10;
/// The largest record, with what is around it: no more waits in a session whose hands are shaken.
const RECORD_BYTES_MAX: usize = 18 << 10;

/// A certificate and key for the next connections that are accepted.
pub(crate) struct Tls {
    files: TlsFiles,
    config: RwLock<Arc<ServerConfig>>,
}

impl Tls {
    /// Reads the files; `now_ms` is the time since the Unix epoch.
    pub(crate) fn new(files: &TlsFiles, now_ms: u64) -> Result<Self> {
        let config = RwLock::new(Arc::new(read(files, now_ms)?));
        Ok(Tls { files: files.clone(), config })
    }

    /// What the files say now, for [`Tls::replace`].
    pub(crate) fn read_again(&self, now_ms: u64) -> Result<Arc<ServerConfig>> {
        read(&self.files, now_ms).map(Arc::new)
    }

    /// Takes `config` for connections to come.
    pub(crate) fn replace(&self, config: Arc<ServerConfig>) {
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
    }

    /// What the next connection is accepted with.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// A session for a connection that has just been accepted.
    pub(crate) fn session(&self) -> io::Result<Session> {
        let inner = ServerConnection::new(self.config()).map_err(io::Error::other)?;
        Ok(Session { inner, waiting: 0, sealed: Vec::new(), failed: false, farewell: false })
    }
}

/// One connection's TLS.
pub(crate) struct Session {
    inner: ServerConnection,
    /// Bytes from the socket that may wait inside for the rest of what they belong to.
    waiting: usize,
    /// Taken between uses, so that small replies do not allocate.
    sealed: Vec<u8>,
    failed: bool,
    farewell: bool,
}

impl Session {
    /// Passes what `wire` holds to `keep`, once it was checked. True while more may come.
    pub(crate) fn open(&mut self, mut wire: &[u8], mut keep: impl FnMut(&[u8])) -> bool {
        while !wire.is_empty() && !self.failed {
            let before = wire.len();
            let read = self.inner.read_tls(&mut wire);
            self.waiting += before - wire.len();
            let state = match read.map(|_| self.inner.process_new_packets()) {
                Ok(Ok(state)) => state,
                Ok(Err(error)) => return self.fail(&error),
                Err(error) => return self.fail(&error),
            };
            let mut reader = self.inner.reader();
            while let Ok(piece) = reader.fill_buf()
                && !piece.is_empty()
            {
                keep(piece);
                let taken = piece.len();
                reader.consume(taken);
            }
            if !self.inner.is_handshaking() {
                self.waiting = self.waiting.min(RECORD_BYTES_MAX);
            }
            if state.peer_has_closed() {
                return false;
            }
        }
        !self.failed
    }

    fn fail(&mut self, error: &dyn std::error::Error) -> bool {
        log::debug!("TLS: {error}");
        self.failed = true;
        false
    }

    /// Encrypts `plain`, behind whatever else has to be sent. The result goes back by
    /// [`Session::reuse`] where it was copied.
    pub(crate) fn seal(&mut self, mut plain: &[u8]) -> Vec<u8> {
        let mut sealed = std::mem::take(&mut self.sealed);
        self.write_into(&mut sealed);
        // The session takes so much at once, so that it never holds all of a large reply.
        while !plain.is_empty() {
            match self.inner.writer().write(plain) {
                Ok(taken) if taken > 0 => plain = &plain[taken..],
                // It was ended, or hands are not shaken yet and its buffer is full: neither
                // happens to those who have asked for something.
                _ => break,
            }
            self.write_into(&mut sealed);
        }
        sealed
    }

    fn write_into(&mut self, sealed: &mut Vec<u8>) {
        while self.inner.wants_write() {
            if self.inner.write_tls(sealed).is_err() {
                break;
            }
        }
    }

    /// Takes back what [`Session::seal`] gave.
    pub(crate) fn reuse(&mut self, mut sealed: Vec<u8>) {
        if sealed.capacity() <= RECORD_BYTES_MAX {
            sealed.clear();
            self.sealed = sealed;
        }
    }

    /// Whether the protocol itself has something to send.
    pub(crate) fn has_to_send(&self) -> bool {
        self.inner.wants_write()
    }

    /// Prepares the last message, which tells that nothing was cut off. False where it was
    /// prepared before, or there is nobody to tell.
    pub(crate) fn say_farewell(&mut self) -> bool {
        if self.farewell || self.failed || self.inner.is_handshaking() {
            return false;
        }
        self.farewell = true;
        self.inner.send_close_notify();
        true
    }

    pub(crate) fn is_shaking_hands(&self) -> bool {
        self.inner.is_handshaking()
    }

    /// True after anything that is not TLS, or TLS on which the two sides cannot agree.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed
    }

    /// An upper bound of the memory that the session holds.
    pub(crate) fn held_bytes(&self) -> usize {
        SESSION_BYTES + self.waiting + self.sealed.capacity()
    }
}

/// What the files say, for the side that is connected to.
fn read(files: &TlsFiles, now_ms: u64) -> Result<ServerConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = certificates(&files.cert)?;
    check_time(&chain[0], &files.cert, &provider, now_ms)?;
    let key = key(&files.key)?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|e| Error::new(ErrorKind::Config, format!("TLS: {e}")))?;
    let builder = match &files.ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for authority in certificates(path)? {
                roots.add(authority).map_err(|e| refused(path, &e.to_string()))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = verifier.build().map_err(|e| refused(path, &e.to_string()))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    builder.with_single_cert(chain, key).map_err(|error| match error {
        rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
            let why = format!("its key is not the one in {}", files.key.display());
            refused(&files.cert, &why)
        }
        other => refused(&files.key, &other.to_string()),
    })
}

/// A private key.
pub(crate) fn key(path: &Path) -> Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_file(path).map_err(|e| {
        unusable(path, e, "private key", "PEM, PKCS#8, PKCS#1 or SEC1, without password")
    })
}

/// Certificates, one at least.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let found: Vec<_> = read.map_err(|e| unusable(path, e, "certificate", "PEM"))?;
    match found.is_empty() {
        true => Err(unusable(path, pem::Error::NoItemsFound, "certificate", "PEM")),
        false => Ok(found),
    }
}

/// Refuses a certificate that no client would accept any more, or yet.
pub(crate) fn check_time(
    certificate: &CertificateDer<'_>,
    path: &Path,
    provider: &CryptoProvider,
    now_ms: u64,
) -> Result<()> {
    let parsed =
        ParsedCertificate::try_from(certificate).map_err(|e| refused(path, &e.to_string()))?;
    let now = UnixTime::since_unix_epoch(Duration::from_millis(now_ms));
    let algorithms = provider.signature_verification_algorithms.all;
    // Without an authority nothing is trusted, but the times are looked at before that.
    let nobody = RootCertStore::empty();
    match verify_server_cert_signed_by_trust_anchor(&parsed, &nobody, &[], now, algorithms) {
        Err(rustls::Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        )) => Err(refused(path, "it has expired; get a new one")),
        Err(rustls::Error::InvalidCertificate(
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
        )) => Err(refused(path, "it is not valid yet; is the clock right?")),
        _ => Ok(()),
    }
}

pub(crate) fn refused(path: &Path, why: &str) -> Error {
    Error::new(ErrorKind::Config, format!("TLS with {}: {why}", path.display()))
}

fn unusable(path: &Path, error: pem::Error, what: &str, form: &str) -> Error {
    match error {
        pem::Error::Io(error) => {
            Error::io(format!("reading the {what} for TLS from {}", path.display()), error)
        }
        pem::Error::NoItemsFound => refused(path, &format!("there is no {what} in it ({form})")),
        other => refused(path, &format!("{other:?} (wanted: a {what}, {form})")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn file(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/certificates").join(name)
    }

    fn why(cert: &str, key: &str, ca: Option<&str>, now_ms: u64) -> String {
        let files = TlsFiles { cert: file(cert), key: file(key), ca: ca.map(file) };
        match Tls::new(&files, now_ms) {
            Ok(_) => "fine".into(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn files_that_cannot_work_are_refused_by_name() {
        // A moment of the year 2026.
        let now = 1_790_000_000_000;
        assert_eq!(why("server.pem", "server.key", None, now), "fine");
        assert_eq!(why("server.pem", "server.key", Some("authority.pem"), now), "fine");
        for (refused, words) in [
            (why("none.pem", "server.key", None, now), ["certificate", "none.pem"]),
            (why("server.pem", "none.key", None, now), ["private key", "none.key"]),
            (why("server.pem", "server.key", Some("none.pem"), now), ["reading", "none.pem"]),
            (why("server.pem", "client.key", None, now), ["its key is not the one", "client.key"]),
            (why("server.key", "server.key", None, now), ["no certificate", "server.key"]),
            (why("server.pem", "client.pem", None, now), ["no private key", "client.pem"]),
            (why("make.sh", "server.key", None, now), ["no certificate", "make.sh"]),
            (why("expired.pem", "expired.key", None, now), ["has expired", "expired.pem"]),
            (why("server.pem", "server.key", None, 1), ["not valid yet", "server.pem"]),
        ] {
            assert!(words.iter().all(|word| refused.contains(word)), "{refused}");
        }
    }
}
