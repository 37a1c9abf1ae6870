//! Syslog as RFC 5424 has it, one message for each head.

use std::fmt;
use std::io;
use std::path::PathBuf;

use rlinks_store::audit::checkpoints::{Checkpoint, PublishedHeads};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpStream, UdpSocket, UnixDatagram, lookup_host};
use url::Url;

/// Facility "log audit" (13), severity "notice" (5).
const PRIORITY: u8 = 13 * 8 + 5;
const UDP_PORT: u16 = 514;
const TCP_PORT: u16 = 601;

/// Where messages are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Syslog {
    Udp(String),
    Tcp(String),
    Unix(PathBuf),
}

impl fmt::Display for Syslog {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Udp(address) => write!(out, "syslog://{address}"),
            Self::Tcp(address) => write!(out, "syslog+tcp://{address}"),
            Self::Unix(path) => write!(out, "syslog+unix://{}", path.display()),
        }
    }
}

impl Syslog {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let url = Url::parse(text).ok()?;
        let address = |port| {
            let host = url.host_str().filter(|host| !host.is_empty())?;
            matches!(url.path(), "" | "/").then(|| format!("{host}:{}", url.port().unwrap_or(port)))
        };
        match url.scheme() {
            "syslog" | "syslog+udp" => address(UDP_PORT).map(Self::Udp),
            "syslog+tcp" => address(TCP_PORT).map(Self::Tcp),
            "syslog+unix" if url.host_str().is_none() && url.path().len() > 1 => {
                Some(Self::Unix(url.path().into()))
            }
            _ => None,
        }
    }

    /// Sends these heads, and the statements about keys by which they can be verified.
    pub(super) async fn send(&self, heads: &PublishedHeads, moved: &[&Checkpoint]) -> io::Result<()> {
        let statements = heads.statements.iter().map(serde_json::to_string);
        let lines = moved.iter().map(serde_json::to_string).chain(statements);
        let messages: Vec<String> = lines
            .map(|line| {
                format!("<{PRIORITY}>1 {} - rmax - audit-head - {}", heads.ts, line.expect("a head is JSON"))
            })
            .collect();
        match self {
            Self::Udp(address) => {
                let to = lookup_host(address).await?.next().ok_or(io::ErrorKind::NotFound)?;
                let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
                let socket = UdpSocket::bind(any).await?;
                socket.connect(to).await?;
                for message in &messages {
                    socket.send(message.as_bytes()).await?;
                }
            }
            Self::Tcp(address) => {
                let mut stream = TcpStream::connect(address).await?;
                for message in &messages {
                    // Each with its length before it, as RFC 6587 has it.
                    stream.write_all(format!("{} {message}", message.len()).as_bytes()).await?;
                }
                stream.shutdown().await?;
            }
            Self::Unix(path) => {
                let socket = UnixDatagram::unbound()?;
                for message in &messages {
                    socket.send_to(message.as_bytes(), path).await?;
                }
            }
        }
        Ok(())
    }
}
