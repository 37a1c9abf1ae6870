//! TLS from certificate files. HTTP/1.1 only: a smaller surface, and a proxy in front speaks the rest.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// How often the files are looked at.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// A certificate chain and its key, PEM files; read again when replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// The certificate in force, replaced when the files are.
pub struct Tls {
    files: TlsFiles,
    current: ArcSwap<ServerConfig>,
    /// The files as they were when they were first read.
    first: [Option<FileState>; 2],
}

/// What changes when a file does. The length too: two writes may fall into one tick of the clock.
type FileState = (SystemTime, u64);

impl Tls {
    /// Reads the files; what cannot be used is refused with the file's name.
    pub fn load(files: TlsFiles) -> Result<Self, String> {
        let first = file_states(&files);
        let current = ArcSwap::from_pointee(read(&files)?);
        Ok(Self { files, current, first })
    }

    /// An acceptor with the certificate in force.
    pub fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.current.load_full())
    }

    /// Reads the files again. What cannot be used leaves the old certificate in force.
    pub fn reload(&self) {
        match read(&self.files) {
            Ok(fresh) => {
                self.current.store(Arc::new(fresh));
                tracing::info!("the TLS certificate was read again");
            }
            Err(error) => tracing::error!(%error, "the old TLS certificate stays in force"),
        }
    }

    /// Watches the files until the task is dropped.
    pub async fn watch_files(self: Arc<Self>) {
        let mut seen = self.first;
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            let now = file_states(&self.files);
            if now != seen {
                seen = now;
                self.reload();
            }
        }
    }
}

fn file_states(files: &TlsFiles) -> [Option<FileState>; 2] {
    [&files.cert, &files.key].map(|path| {
        let file = std::fs::metadata(path).ok()?;
        Some((file.modified().ok()?, file.len()))
    })
}

fn read(files: &TlsFiles) -> Result<ServerConfig, String> {
    let bad = |path: &Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&files.cert)
        .and_then(Iterator::collect)
        .map_err(|error| bad(&files.cert, &format!("no certificate can be read ({error})")))?;
    if chain.is_empty() {
        return Err(bad(&files.cert, &"holds no certificate"));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key)
        .map_err(|error| bad(&files.key, &format!("no private key can be read ({error})")))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|error| {
            bad(&files.key, &format!("certificate and key cannot be used together ({error})"))
        })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
