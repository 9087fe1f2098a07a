//! TLS on connections to other servers: whom they trust, and what went wrong in words that name the
//! option to change.

use crate::tls::{Tls, certificates, check_time, key, refused};
use crate::{LinkFiles, TlsFiles};
use rustls::pki_types::ServerName;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, RootCertStore,
    ServerConfig, StreamOwned,
};
use silica::engine::{Error, ErrorKind, Result};
use silica_base::{Clock, SystemClock};
use std::io;
use std::net::TcpStream;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

/// What connections to other servers have TLS with.
#[derive(Clone)]
pub(crate) struct Links {
    files: Arc<LinkFiles>,
    config: Arc<RwLock<Arc<ClientConfig>>>,
}

impl Links {
    /// Reads the files; `now_ms` is the time since the Unix epoch.
    pub(crate) fn new(files: &LinkFiles, now_ms: u64) -> Result<Self> {
        let config = Arc::new(RwLock::new(Arc::new(client_config(files, now_ms)?)));
        Ok(Links { files: Arc::new(files.clone()), config })
    }

    /// What the files say now, for [`Links::replace`].
    pub(crate) fn read_again(&self, now_ms: u64) -> Result<Arc<ClientConfig>> {
        client_config(&self.files, now_ms).map(Arc::new)
    }

    /// Takes `config` for connections to come.
    pub(crate) fn replace(&self, config: Arc<ClientConfig>) {
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
    }

    /// What the next connection is made with.
    pub(crate) fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Agrees on TLS with the server at `host`, until `until` at most.
    pub(crate) fn shake_hands(
        &self,
        host: &str,
        stream: TcpStream,
        until: Instant,
    ) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
        let config = self.config();
        let name = self.files.name.as_deref().unwrap_or(host);
        let name = ServerName::try_from(name.to_string())
            .map_err(|_| wrong(format!("'{name}' is no name of a server; set --tls-peer-name")))?;
        let session = ClientConnection::new(config, name).map_err(|error| wrong(error.to_string()));
        let mut stream = StreamOwned::new(session?, stream);
        while stream.conn.is_handshaking() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(explained(io::ErrorKind::TimedOut.into(), self));
            }
            stream.sock.set_read_timeout(Some(left))?;
            let moved = stream.conn.complete_io(&mut stream.sock);
            moved.map_err(|error| match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                    explained(io::ErrorKind::TimedOut.into(), self)
                }
                io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => wrong(
                    "it has closed the connection when it was asked for TLS: is that a plain port?"
                        .into(),
                ),
                _ => explained(error, self),
            })?;
        }
        Ok(stream)
    }
}

/// Both sides of TLS between servers that are equal: each asks the other one for a certificate.
/// Clones share what was read, which [`StopHandle::read_certificates`] of a server with this in its
/// [`Config::members`] reads again.
///
/// [`StopHandle::read_certificates`]: crate::StopHandle::read_certificates
/// [`Config::members`]: crate::Config::members
#[derive(Clone)]
pub struct BothSides {
    called: Arc<Tls>,
    calling: Links,
}

impl BothSides {
    /// Reads the files: `own` has the certificate of the side that is called.
    ///
    /// # Errors
    /// `Config`, or that of reading a file, with its name.
    pub fn read(own: &TlsFiles, links: &LinkFiles) -> Result<Self> {
        let now_ms = SystemClock::default().unix_ms();
        let files = TlsFiles { ca: Some(links.ca.clone()), ..own.clone() };
        let called = Arc::new(Tls::new(&files, now_ms)?);
        Ok(BothSides { called, calling: Links::new(links, now_ms)? })
    }

    /// What the side that calls makes its next connection with.
    pub fn client(&self) -> Arc<ClientConfig> {
        self.calling.config()
    }

    /// What the side that is called accepts its next connection with.
    pub fn server(&self) -> Arc<ServerConfig> {
        self.called.config()
    }

    /// `error` in words that name the option to change, if it is one of TLS.
    pub fn explain(&self, error: io::Error) -> io::Error {
        explained(error, &self.calling)
    }
}

/// Reads all certificates of a server again, for connections to come: the certificates hold all
/// together, or all stay as they were.
pub(crate) fn read_again(
    own: Option<&Tls>,
    links: Option<&Links>,
    members: Option<&BothSides>,
    now_ms: u64,
) -> Result<()> {
    let called: Vec<&Tls> = own.into_iter().chain(members.map(|both| &*both.called)).collect();
    let calling: Vec<&Links> = links.into_iter().chain(members.map(|both| &both.calling)).collect();
    let accept = called.iter().map(|tls| tls.read_again(now_ms)).collect::<Result<Vec<_>>>()?;
    let connect = calling.iter().map(|links| links.read_again(now_ms));
    let connect = connect.collect::<Result<Vec<_>>>()?;
    called.iter().zip(accept).for_each(|(tls, config)| tls.replace(config));
    calling.iter().zip(connect).for_each(|(links, config)| links.replace(config));
    Ok(())
}

impl std::fmt::Debug for BothSides {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BothSides")
    }
}

/// How one side of TLS trusts another one, as a client.
fn client_config(files: &LinkFiles, now_ms: u64) -> Result<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    for authority in certificates(&files.ca)? {
        roots.add(authority).map_err(|e| refused(&files.ca, &e.to_string()))?;
    }
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|e| Error::new(ErrorKind::Config, format!("TLS: {e}")))?
        .with_root_certificates(roots);
    let Some((cert, key_file)) = &files.identity else { return Ok(builder.with_no_client_auth()) };
    let chain = certificates(cert)?;
    check_time(&chain[0], cert, &provider, now_ms)?;
    builder
        .with_client_auth_cert(chain, key(key_file)?)
        .map_err(|e| refused(cert, &format!("with the key in {}: {e}", key_file.display())))
}

fn wrong(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// `error` in words that say what to change; errors that are none of TLS stay as they are.
pub(crate) fn explained(error: io::Error, links: &Links) -> io::Error {
    if error.kind() == io::ErrorKind::TimedOut && error.get_ref().is_none() {
        let text = "it does not answer the first message of TLS: is that a plain port?";
        return io::Error::new(io::ErrorKind::TimedOut, text);
    }
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        Some(tls) => wrong(words(tls, &links.files)),
        None => error,
    }
}

/// What a failure of TLS means for whoever has set it up.
pub(crate) fn words(error: &rustls::Error, files: &LinkFiles) -> String {
    use CertificateError as C;
    use rustls::Error as E;
    let ca = files.ca.display();
    match error {
        E::InvalidMessage(_) => "it answers without TLS: is that a plain port?".into(),
        E::InvalidCertificate(C::Expired | C::ExpiredContext { .. }) => {
            "its certificate has expired".into()
        }
        E::InvalidCertificate(C::NotValidYet | C::NotValidYetContext { .. }) => {
            "its certificate is not valid yet; are both clocks right?".into()
        }
        E::InvalidCertificate(C::InvalidPurpose | C::InvalidPurposeContext { .. }) => {
            "its certificate is none of a server (extendedKeyUsage)".into()
        }
        E::InvalidCertificate(C::UnknownIssuer) => {
            format!("its certificate is of no authority in {ca} (--tls-peer-ca)")
        }
        E::InvalidCertificate(C::NotValidForName | C::NotValidForNameContext { .. }) => format!(
            "its certificate is for another name ({error}); --tls-peer-name says which to expect"
        ),
        E::AlertReceived(alert) => match (&files.identity, alert) {
            (None, AlertDescription::CertificateRequired | AlertDescription::HandshakeFailure) => {
                "it asks for a certificate: give --tls-client-cert and --tls-client-key".into()
            }
            (Some((cert, _)), alert) => format!(
                "it refuses TLS with the certificate in {} (--tls-client-cert): {alert:?}",
                cert.display()
            ),
            (None, alert) => format!("it refuses TLS: {alert:?}"),
        },
        other => format!("TLS: {other}"),
    }
}
