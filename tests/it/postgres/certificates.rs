//! A database that knows its daemons by their certificates, and takes no password.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::store::Error;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use store::{PostgresSettings, PostgresStore, Tls};

use crate::postgres::fleet::{Postgres, ServerHome, until};
use crate::postgres::scratch::{CONFIG, Scratch};
use crate::postgres::server::settings_at;

const SOON: Duration = Duration::from_mins(1);
/// Who connects must have a certificate of this name: the only way in.
const ACCESS: &str = "hostssl all all 127.0.0.1/32 cert clientcert=verify-full\n";

/// Files with a certificate and its key.
type Identity = (PathBuf, PathBuf);

/// Issues certificates.
struct Authority(Issuer<'static, KeyPair>, String);

impl Authority {
    fn new() -> Self {
        let (key, mut params) = (KeyPair::generate().unwrap(), CertificateParams::default());
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap().pem();
        Self(Issuer::new(params, key), certificate)
    }

    /// Writes a certificate for a name or an address, and its key.
    fn issue(&self, folder: &Path, file: &str, name: &str) -> Identity {
        let (key, mut params) = (KeyPair::generate().unwrap(), CertificateParams::new([name.to_owned()]).unwrap());
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let paths = (folder.join(format!("{file}.crt")), folder.join(format!("{file}.key")));
        fs::write(&paths.0, certificate.pem()).unwrap();
        fs::write(&paths.1, key.serialize_pem()).unwrap();
        paths
    }
}

/// Has a server verify whoever connects.
fn demand_certificates(postgres: &Postgres, data: &Path, authority: &Authority) {
    let owner = fs::metadata(data).unwrap();
    let (certificate, key) = authority.issue(data, "server", "127.0.0.1");
    let clients = data.join("clients.crt");
    fs::write(&clients, &authority.1).unwrap();
    for path in [certificate, key, clients] {
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        chown(&path, Some(owner.uid()), Some(owner.gid())).unwrap();
    }
    fs::write(data.join("pg_hba.conf"), ACCESS).unwrap();
    let settings = fs::read_to_string(data.join("postgresql.conf")).unwrap();
    fs::write(data.join("postgresql.conf"), settings + "ssl = on\nssl_ca_file = 'clients.crt'\n").unwrap();
    // It reads all of them again.
    postgres.server.signal("HUP").unwrap();
}

#[test]
fn a_daemon_is_known_by_its_certificate() {
    drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    let (home, scratch) = (ServerHome::temporary().unwrap(), Scratch::with_web());
    let postgres = Postgres::start(home.folder()).unwrap();
    let (authority, foreign) = (Authority::new(), Authority::new());
    demand_certificates(&postgres, &home.folder().join("postgres/data"), &authority);
    let ca = scratch.path("ca.crt");
    fs::write(&ca, &authority.1).unwrap();
    let folder = ca.parent().unwrap();
    let open = |identity: Option<Identity>| {
        let tls = Tls::Verified { ca: Some(ca.clone()), identity };
        PostgresStore::open(
            &PostgresSettings { password: None, tls, ..settings_at(&postgres.url, "gitfleet") },
            "default",
        )
    };
    let own = authority.issue(folder, "own", "gitfleet");
    until("the server to take connections", SOON, || Ok(open(Some(own.clone())).ok())).unwrap();

    let refusal = |identity: Option<Identity>| match open(identity) {
        Err(error @ (Error::Unavailable { .. } | Error::DatabaseRefused { .. })) => error.to_string(),
        other => panic!("the server lets nobody else in: {other:?}"),
    };
    let without = refusal(None);
    assert!(without.contains("valid client certificate"), "{without}");
    let other = refusal(Some(authority.issue(folder, "other", "somebody")));
    assert!(other.contains("certificate authentication failed"), "{other}");
    // The server ends the connection: what it says differs between versions of TLS.
    refusal(Some(foreign.issue(folder, "foreign", "gitfleet")));

    let text = fs::read_to_string(scratch.path(CONFIG)).unwrap();
    let files = "caFile: ./ca.crt, clientCertFile: ./own.crt, clientKeyFile: ./own.key";
    let store = format!("store: {{path: ./store, postgres: {{url: \"{}\", {files}}}}}", postgres.url);
    fs::write(scratch.path(CONFIG), text.replace("store: {path: ./store}", &store)).unwrap();
    scratch.run(&["run", "-c", CONFIG, "--once"]).text(0);
    assert!(scratch.run(&["status", "-c", CONFIG]).text(0).contains("web"));
}
