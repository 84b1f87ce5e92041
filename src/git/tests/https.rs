//! Over https, from a server whose authority only the test knows, straight and through a proxy.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::*;

/// A git server behind TLS. It ends with the test's process.
struct Server {
    address: String,
    /// Its authority, as PEM.
    authority: String,
}

impl Server {
    /// Serves the repositories of a folder.
    fn start(folder: PathBuf) -> Self {
        let (ca_key, mut ca) = (KeyPair::generate().unwrap(), CertificateParams::default());
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = ca.self_signed(&ca_key).unwrap().pem();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &Issuer::new(ca, ca_key)).unwrap();
        let private = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], private).unwrap();
        let (config, listener) = (Arc::new(config), TcpListener::bind("127.0.0.1:0").unwrap());
        let address = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, config, folder) = (stream.unwrap(), Arc::clone(&config), folder.clone());
                std::thread::spawn(move || {
                    let connection = ServerConnection::new(config).unwrap();
                    // Whoever does not know the authority ends it.
                    drop(answer(StreamOwned::new(connection, stream), &folder));
                });
            }
        });
        Self { address, authority }
    }
}

/// Answers one request as git's own program for servers would.
fn answer(stream: impl Read + Write, folder: &Path) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        lines.push(line.trim().to_ascii_lowercase());
    }
    let header = |name: &str| lines.iter().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let path = lines.first().and_then(|line| line.split(' ').nth(1)).unwrap_or_default().to_owned();
    let mut git = Command::new("git");
    git.args(["upload-pack", "--stateless-rpc"]).env("GIT_PROTOCOL", header("git-protocol:").unwrap_or_default());
    let advertises = path.contains("/info/refs");
    if advertises {
        git.arg("--http-backend-info-refs");
    }
    let mut body = Vec::new();
    if header("transfer-encoding:") == Some("chunked") {
        loop {
            let mut size = String::new();
            stream.read_line(&mut size)?;
            let size = u64::from_str_radix(size.trim(), 16).unwrap();
            stream.by_ref().take(size).read_to_end(&mut body)?;
            stream.read_line(&mut String::new())?;
            if size == 0 {
                break;
            }
        }
    } else if let Some(size) = header("content-length:") {
        stream.by_ref().take(size.parse().unwrap()).read_to_end(&mut body)?;
    }
    let mut child = git.arg(folder.join("repo")).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    child.stdin.take().unwrap().write_all(&body)?;
    let said = child.wait_with_output()?.stdout;
    let kind = if advertises { "advertisement" } else { "result" };
    let stream = stream.get_mut();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-{kind}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        said.len()
    )?;
    stream.write_all(&said)?;
    stream.flush()
}

/// A proxy that connects whoever asks, and counts; returns its address. It ends with the test's process.
fn proxy() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, count) = (listener.local_addr().unwrap().to_string(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut client, counted) = (stream.unwrap(), Arc::clone(&counted));
            std::thread::spawn(move || {
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    let mut byte = [0];
                    client.read_exact(&mut byte).unwrap();
                    request.push(byte[0]);
                }
                let request = String::from_utf8(request).unwrap();
                let wanted = request.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next()).unwrap();
                counted.fetch_add(1, Ordering::SeqCst);
                let Ok(server) = TcpStream::connect(wanted) else {
                    client.write_all(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n").unwrap();
                    return;
                };
                client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
                let (mut from, mut to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                std::thread::spawn(move || {
                    drop(std::io::copy(&mut from, &mut to));
                    drop(to.shutdown(Shutdown::Write));
                });
                let mut server = server;
                drop(std::io::copy(&mut client, &mut server));
                drop(server.shutdown(Shutdown::Write));
            });
        }
    });
    (format!("http://{address}"), count)
}

fn spec(place: &Place, server: &Server, https: HttpsAccess) -> SourceSpec {
    let location = format!("https://{}/fleet.git", server.address);
    SourceSpec { location, branch: Some("main".to_owned()), https, ..place.spec() }
}

#[test]
fn a_private_authority_counts_where_it_is_named() {
    let place = Place::with(&[("a.yaml", "a: 1\n")]);
    let server = Server::start(place.dir.path().to_owned());
    let error = poll(&mut place.open(spec(&place, &server, HttpsAccess::default()))).unwrap_err();
    assert!(matches!(error, Error::Untrusted { .. }), "{error:?}");
    assert!(error.in_full().contains("`source.caFile`"), "{}", error.in_full());
    let ca_file = place.dir.path().join("ca.pem");
    let access = HttpsAccess { ca_file: Some(ca_file.clone()), proxy: None };
    let mut source = place.open(spec(&place, &server, access));
    let rows = [
        None,
        Some(""),
        Some("no certificate"),
        Some("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
    ];
    for content in rows {
        content.inspect(|content| fs::write(&ca_file, content).unwrap());
        let error = poll(&mut source).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Denied, "{content:?}: {error:?}");
        assert!(error.in_full().contains("ca.pem"), "{content:?}: {error:?}");
    }
    fs::write(&ca_file, &server.authority).unwrap();
    assert_eq!(commit_of(&mut source), place.head());
    let pushed = place.commit(&[("a.yaml", "a: 2\n")]);
    assert_eq!(commit_of(&mut source), pushed);
    let other = Server::start(place.dir.path().to_owned());
    fs::write(&ca_file, &other.authority).unwrap();
    let error = poll(&mut source).unwrap_err();
    assert!(matches!(error, Error::Untrusted { .. }), "of another authority: {error:?}");
}

#[test]
fn a_proxy_is_passed_where_it_is_named() {
    let place = Place::with(&[("a.yaml", "a: 1\n")]);
    let server = Server::start(place.dir.path().to_owned());
    let ca_file = place.dir.path().join("ca.pem");
    fs::write(&ca_file, &server.authority).unwrap();
    let (address, count) = proxy();
    let access = |proxy: Option<&str>| HttpsAccess { ca_file: Some(ca_file.clone()), proxy: proxy.map(str::to_owned) };
    let mut straight = place.open(spec(&place, &server, access(None)));
    assert_eq!((commit_of(&mut straight), count.load(Ordering::SeqCst)), (place.head(), 0));
    let pushed = place.commit(&[("a.yaml", "a: 2\n")]);
    let mut source = place.open(spec(&place, &server, access(Some(&address))));
    assert_eq!(commit_of(&mut source), pushed);
    assert!(count.load(Ordering::SeqCst) > 0);
    // Port 1 of the loopback is closed on any machine these tests run on.
    let mut lost = place.open(spec(&place, &server, access(Some("http://127.0.0.1:1"))));
    let error = poll(&mut lost).unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "never straight instead: {error:?}");
}
