//! A client of a mirror that speaks TLS.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::served::{Answer, parse};

/// Longest wait for an answer; only a test that fails waits as long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Trusts the CA in a file, asks for `localhost`.
pub struct Client {
    config: Arc<ClientConfig>,
}

impl Client {
    pub fn trusting(ca: &Path) -> Client {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_file(ca).unwrap())
            .unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Client {
            config: Arc::new(config),
        }
    }

    /// Asks for `path`; the error of a server it does not trust.
    pub fn get(&self, host: &str, path: &str) -> std::io::Result<Answer> {
        let tcp = TcpStream::connect(host)?;
        tcp.set_read_timeout(Some(PATIENCE))?;
        let name = ServerName::try_from("localhost").unwrap();
        let session = ClientConnection::new(Arc::clone(&self.config), name).unwrap();
        let mut stream = StreamOwned::new(session, tcp);
        let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes())?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes)?;
        Ok(parse(&bytes))
    }
}
