//! Connections between members, with TLS or without.

use std::io;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// Certificates of a member. Each connection asks for them anew, so certificates that were replaced
/// hold from the next connection on.
pub trait Certificates: Send + Sync {
    /// What the side that calls shows and trusts.
    fn client(&self) -> Arc<ClientConfig>;

    /// What the side that is called shows and trusts.
    fn server(&self) -> Arc<ServerConfig>;

    /// Says an error of TLS in words that name what to change.
    fn explain(&self, error: io::Error) -> io::Error;
}

/// What members have TLS with. Both sides show a certificate.
#[derive(Clone)]
pub struct Tls {
    /// The certificates of this member.
    pub certificates: Arc<dyn Certificates>,
    /// The name for which the certificates of members are; the host of their address if there is
    /// none.
    pub name: Option<String>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Bytes to and from a member.
pub(crate) trait Bytes: AsyncRead + AsyncWrite + Send + Sync + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Sync + Unpin> Bytes for S {}

/// A connection.
pub(crate) type Stream = Box<dyn Bytes>;

/// Connects to the member at `address`.
pub(crate) async fn connect(address: &str, tls: Option<&Tls>) -> io::Result<Stream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let Some(tls) = tls else { return Ok(Box::new(stream)) };
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let name = tls.name.as_deref().unwrap_or(host.trim_matches(['[', ']']));
    let name = ServerName::try_from(name.to_string());
    let name = name.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let connector = TlsConnector::from(tls.certificates.client());
    let stream = connector.connect(name, stream).await;
    Ok(Box::new(stream.map_err(|error| tls.certificates.explain(error))?))
}

/// Serves a connection that was accepted.
pub(crate) async fn accept(stream: TcpStream, tls: Option<&Tls>) -> io::Result<Stream> {
    stream.set_nodelay(true)?;
    let Some(tls) = tls else { return Ok(Box::new(stream)) };
    let acceptor = TlsAcceptor::from(tls.certificates.server());
    Ok(Box::new(acceptor.accept(stream).await?))
}
