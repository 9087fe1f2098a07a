//! TLS on connections to other servers: whether a link has it, and its settings.

use crate::front::Wire;
use crate::resp::config::Ready;
use crate::service::Service;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// What a connection to another server is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkKind {
    /// A replica follows its primary.
    Replication,
    /// Nodes of a cluster, and MIGRATE.
    Cluster,
}

/// Which connections to other servers are encrypted.
#[derive(Debug, Default)]
pub(crate) struct Encryption {
    /// The setting `tls-replication`.
    pub(crate) replication: AtomicBool,
    /// The setting `tls-cluster`.
    pub(crate) cluster: AtomicBool,
}

impl Service {
    /// The setting that says whether connections of `kind` are encrypted, and whether they are. In
    /// a cluster a replica reaches its primary at the port that all nodes use.
    pub fn encryption(&self, kind: LinkKind) -> (&'static str, bool) {
        match kind {
            LinkKind::Replication if self.cluster.is_none() => {
                ("tls-replication", self.encryption.replication.load(Relaxed))
            }
            _ => ("tls-cluster", self.encryption.cluster.load(Relaxed)),
        }
    }

    /// Connects to another server, encrypted if the setting says so. It waits for `timeout` at
    /// most, which then is the timeout of each call.
    ///
    /// # Errors
    /// As the system says. If the two sides cannot agree on TLS, the text names the setting.
    pub fn dial(
        &self,
        kind: LinkKind,
        host: &str,
        port: u16,
        timeout: Duration,
    ) -> io::Result<Box<dyn Wire>> {
        let (setting, encrypts) = self.encryption(kind);
        self.front.dial(host, port, timeout, encrypts).map_err(|error| match encrypts {
            true => io::Error::new(error.kind(), format!("{error} ({setting} is yes)")),
            false => error,
        })
    }

    /// Why a connection of `kind` may have ended before the other side said anything, if its
    /// setting may be the reason; to be put behind the error.
    pub fn encryption_hint(&self, kind: LinkKind) -> String {
        match self.encryption(kind) {
            (setting, false) => format!("; if that port speaks TLS, set {setting} to yes"),
            (_, true) => String::new(),
        }
    }

    /// The port at which other servers reach this one: that for TLS if their links have it.
    pub fn link_port(&self, kind: LinkKind) -> u16 {
        match (self.encryption(kind).1, self.front.tls_port()) {
            (true, port @ 1..) => port,
            _ => self.front.port(),
        }
    }
}

/// True if `bytes`, the first that came, are a message of TLS: the answer of a server that speaks
/// it to one that does not.
pub fn is_tls(bytes: &[u8]) -> bool {
    matches!(bytes, [0x15 | 0x16, 3, ..])
}

fn wanted(service: &Service, text: &[u8]) -> Result<bool, String> {
    match &text.to_ascii_lowercase()[..] {
        b"yes" => service.front.can_encrypt().map(|()| true),
        b"no" => Ok(false),
        _ => Err("argument must be 'yes' or 'no'".into()),
    }
}

/// `CONFIG SET tls-replication`: the next link to a primary has TLS, or has none.
pub(crate) fn replication(service: &Service, text: &[u8]) -> Result<Ready, String> {
    let is_on = wanted(service, text)?;
    Ok(Box::new(move |service| {
        service.encryption.replication.store(is_on, Relaxed);
        Ok(())
    }))
}

/// `CONFIG SET tls-cluster`. The port of a node is that for TLS or the plain one from its start on.
pub(crate) fn cluster(service: &Service, text: &[u8]) -> Result<Ready, String> {
    let is_on = wanted(service, text)?;
    if service.cluster.is_some() && service.itself().is_some() {
        let text = "a node of a cluster has announced its port; give --tls-cluster at its start";
        return Err(text.into());
    }
    Ok(Box::new(move |service| {
        service.encryption.cluster.store(is_on, Relaxed);
        Ok(())
    }))
}
