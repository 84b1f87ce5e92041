//! Repositories that are read over https: whom else to trust, and which proxy to pass.

use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use gix::bstr::ByteSlice;
use gix::protocol::transport::client::blocking_io::http;
use reqwest::blocking::ClientBuilder;
use reqwest::{Certificate, Proxy};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::Error;

/// The largest file of authorities that is read, in bytes: all that a system trusts have some 220 KB.
const CA_SIZE_MAX_BYTES: u64 = 4 * 1024 * 1024;

/// How servers are reached over https, beside what the system says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpsAccess {
    /// Certificates of authorities, as PEM, that count beside those of the system.
    pub ca_file: Option<PathBuf>,
    /// The proxy that everything passes through; none of the environment counts then.
    pub proxy: Option<String>,
}

impl HttpsAccess {
    /// Returns what gix is to connect with; `None` where its own defaults do. Reads the file.
    ///
    /// # Errors
    /// `AccessFile` where the authorities cannot be read, `UnsupportedLocation` where the proxy's address is none.
    pub(super) fn options(&self, repo: &gix::Repository, location: &str) -> Result<Option<Box<dyn Any>>, Error> {
        if *self == Self::default() {
            return Ok(None);
        }
        let (certificates, proxy) = self.read(location)?;
        let configured = repo.transport_options(location.as_bytes().as_bstr(), None);
        let configured = configured.map_err(Error::at(location, "prepare fetching from"))?;
        let Some(mut options) = configured.and_then(|options| options.downcast::<http::Options>().ok()) else {
            return Ok(None);
        };
        let backend = http::reqwest::Options {
            configure_client: Some(Box::new(move |builder| Ok(with(builder, certificates.clone(), proxy.clone())))),
            configure_request: None,
        };
        options.backend = Some(Arc::new(Mutex::new(backend)));
        Ok(Some(options))
    }

    /// Returns the set-up of a client that connects so. Reads the file.
    ///
    /// # Errors
    /// As [`Self::options`].
    pub(super) fn configured(&self, builder: ClientBuilder, location: &str) -> Result<ClientBuilder, Error> {
        let (certificates, proxy) = self.read(location)?;
        Ok(with(builder, certificates, proxy))
    }

    fn read(&self, location: &str) -> Result<(Vec<Certificate>, Option<Proxy>), Error> {
        let certificates = match &self.ca_file {
            Some(path) => read_authorities(path).map_err(|reason| Error::AccessFile {
                location: location.to_owned(),
                path: path.clone(),
                reason,
            })?,
            None => Vec::new(),
        };
        let proxy = self.proxy.as_deref().map(Proxy::all).transpose().map_err(|_| {
            Error::unsupported(location, "the address of `source.proxy` is none: write http://HOST:PORT")
        })?;
        Ok((certificates, proxy))
    }
}

fn with(builder: ClientBuilder, certificates: Vec<Certificate>, proxy: Option<Proxy>) -> ClientBuilder {
    let builder = builder.tls_certs_merge(certificates);
    match proxy {
        Some(proxy) => builder.proxy(proxy),
        None => builder,
    }
}

fn not_pem(error: &dyn std::fmt::Display) -> String {
    format!("it is no file of certificates in PEM form: {error}")
}

/// Reads certificates of authorities.
///
/// # Errors
/// Why not, for people.
fn read_authorities(path: &Path) -> Result<Vec<Certificate>, String> {
    let size = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
    if size > CA_SIZE_MAX_BYTES {
        return Err(format!("it has {size} bytes, and {CA_SIZE_MAX_BYTES} are the limit"));
    }
    let pem = std::fs::read(path).map_err(|error| error.to_string())?;
    let mut roots = RootCertStore::empty();
    let mut certificates = Vec::new();
    for found in CertificateDer::pem_slice_iter(&pem) {
        let found = found.map_err(|error| not_pem(&error))?;
        // Each must be one that can be an authority: the client would say so later, and not of which file.
        roots.add(found.clone()).map_err(|error| not_pem(&error))?;
        certificates.push(Certificate::from_der(&found).map_err(|error| not_pem(&error))?);
    }
    if certificates.is_empty() { Err("it holds no certificate in PEM form".to_owned()) } else { Ok(certificates) }
}
