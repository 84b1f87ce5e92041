//! The section of the file about a store in PostgreSQL.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use secrecy::SecretString;
use serde::Deserialize;

use super::values::{DURATION_FORMAT, duration};
use super::{Error, complaint, read_secret};
use model::manifest::InputError;

/// The schema of the tables unless the file names one.
pub(crate) const SCHEMA_DEFAULT: &str = "gitfleet";
/// Longest name of a schema in bytes. Source: PostgreSQL, `NAMEDATALEN`.
const SCHEMA_BYTES_MAX: usize = 63;
/// Shortest lease: below it, an ordinary pause of a process or of the database costs the leadership.
const LEASE_MIN: Duration = Duration::from_secs(2);
/// Lease where the file names none.
const LEASE_DEFAULT: Duration = Duration::from_secs(15);

/// A store in a PostgreSQL database, which several daemons may share: one of them leads.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Postgres {
    /// The address without a password, such as `postgresql://gitfleet@db.example:5432/gitfleet`. Either this or `urlFile`.
    #[serde(default)]
    pub url: Option<String>,
    /// File with the address, which may hold the password.
    #[serde(default)]
    pub url_file: Option<PathBuf>,
    /// File with the password.
    #[serde(default)]
    pub password_file: Option<PathBuf>,
    /// The schema of the tables. The daemon makes it where it may.
    #[serde(default = "schema_default")]
    pub schema: String,
    /// Whether the connection is encrypted, and the server verified.
    #[serde(default)]
    pub ssl_mode: SslMode,
    /// File with the certificates that the server's must come from; absent: those that the system trusts.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// File with the certificate that the daemon is known by.
    #[serde(default)]
    pub client_cert_file: Option<PathBuf>,
    /// File with its private key.
    #[serde(default)]
    pub client_key_file: Option<PathBuf>,
    /// How long the leader leads after its last sign of life, at least 2s. A leader that is lost is replaced after so long.
    #[serde(default = "lease_default", with = "duration")]
    #[schemars(with = "String", extend("format" = DURATION_FORMAT))]
    pub lease: Duration,
}

/// How the connection to a database is protected. Named as PostgreSQL's own tools name it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum SslMode {
    /// Encrypted, and the server's name and certificate are verified.
    #[default]
    #[serde(rename = "verify-full")]
    VerifyFull,
    /// Not encrypted: only for a server on this machine.
    #[serde(rename = "disable")]
    Disable,
}

fn schema_default() -> String {
    SCHEMA_DEFAULT.to_owned()
}

fn lease_default() -> Duration {
    LEASE_DEFAULT
}

impl Postgres {
    /// Returns the paths of files, for those who make them whole.
    pub(super) fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let Self { url_file, password_file, ca_file, client_cert_file, client_key_file, .. } = self;
        [url_file, password_file, ca_file, client_cert_file, client_key_file].into_iter().flatten()
    }

    /// Reads the address.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn address(&self) -> Result<SecretString, Error> {
        match (&self.url, &self.url_file) {
            (Some(url), _) => Ok(SecretString::from(url.clone())),
            (None, Some(path)) => read_secret(path),
            // The check of the file has refused it.
            (None, None) => Ok(SecretString::from(String::new())),
        }
    }

    /// Adds what the schema cannot say.
    pub(super) fn problems(&self, errors: &mut Vec<InputError>) {
        let mut refuse = |field: &str, message: &str, hint: &str| {
            let hint = Some(hint.to_owned());
            errors.push(InputError { hint, ..complaint(&format!("store.postgres{field}"), message) });
        };
        if self.url.is_some() == self.url_file.is_some() {
            refuse(
                "",
                "needs exactly one of `url` and `urlFile`",
                "say urlFile: FILE where the address holds a password",
            );
        }
        if self.url.as_deref().is_some_and(has_password) {
            refuse(".url", "holds a password", "put the password into a file and name it: passwordFile: FILE");
        }
        if let Some(url) = &self.url
            && self.ssl_mode == SslMode::Disable
            && !is_local(url)
        {
            refuse(
                ".sslMode",
                "is disable, and the server is not on this machine",
                "leave sslMode out: the connection is verified then",
            );
        }
        let begins = self.schema.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase() || byte == b'_');
        let is_plain =
            self.schema.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        if !begins || self.schema.len() > SCHEMA_BYTES_MAX || !is_plain {
            refuse(
                ".schema",
                "is no plain name",
                "use small letters, digits and underscores, at most 63, a letter first",
            );
        }
        if self.client_cert_file.is_some() != self.client_key_file.is_some() {
            refuse("", "needs both of `clientCertFile` and `clientKeyFile`, or none", "name the file that is missing");
        }
        if self.lease < LEASE_MIN {
            refuse(".lease", "is shorter than 2s", "15s is the default");
        }
    }
}

/// Tells whether an address has a password in it.
fn has_password(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let people = rest.split(['/', '?']).next().and_then(|authority| authority.rsplit_once('@'));
    people.is_some_and(|(user, _)| user.contains(':')) || rest.contains("password=")
}

/// Tells whether a server is on this machine.
fn is_local(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = host.rsplit_once(':').filter(|(_, port)| !port.contains(']')).map_or(host, |(host, _)| host);
    let is_socket = host.is_empty() || host.starts_with("%2F") || host.starts_with("%2f");
    is_socket || matches!(host, "localhost" | "127.0.0.1" | "[::1]")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::*;
    use crate::Configuration;

    #[test]
    fn an_address_that_other_daemons_do_not_reach_needs_another() {
        let text = |store: &str, http: &str| {
            format!(
                "apiVersion: gitfleet.io/v1alpha1\nkind: Configuration\nsource: {{url: repo}}\nmembers: []\nstore: {{{store}}}\n\
                 http: {{{http}}}\n"
            )
        };
        let shared = "postgres: {url: 'postgresql://gitfleet@localhost/gitfleet', sslMode: disable}";
        let peer = "peerUrl: 'http://10.1.2.3:8080'";
        for (store, http, is_accepted) in [
            (shared, "listen: '0.0.0.0:8080'".to_owned(), false),
            (shared, "listen: '[::]:8080'".to_owned(), false),
            (shared, format!("listen: '0.0.0.0:8080', {peer}"), true),
            (shared, "listen: '10.1.2.3:8080'".to_owned(), true),
            (shared, String::new(), true),
            ("path: state", "listen: '0.0.0.0:8080'".to_owned(), true),
        ] {
            let parsed = Configuration::parse(&text(store, &http), Path::new("/"), &BTreeMap::new());
            let complaints: Vec<String> = match &parsed {
                Ok(_) => Vec::new(),
                Err(error) => vec![format!("{error:?}")],
            };
            let is_about_it =
                complaints.iter().all(|text| text.contains("http.peerUrl") && text.contains("GITFLEET_HTTP_PEER_URL"));
            assert!(complaints.is_empty() == is_accepted && is_about_it, "{store} {http}: {complaints:?}");
        }
    }

    #[test]
    fn addresses_are_read_without_a_client() {
        for (url, password, local) in [
            ("postgresql://gitfleet@db.example/gitfleet", false, false),
            ("postgresql://gitfleet:secret@db.example:5432/gitfleet", true, false),
            ("postgresql://db.example/gitfleet?password=secret", true, false),
            ("postgresql://gitfleet@127.0.0.1:5432/gitfleet", false, true),
            ("postgresql://gitfleet@[::1]:5432/gitfleet", false, true),
            ("postgresql://gitfleet@localhost/gitfleet", false, true),
            ("postgresql://gitfleet@%2Frun%2Fpostgresql/gitfleet", false, true),
            ("postgresql://127.0.0.1@db.example/gitfleet", false, false),
        ] {
            assert_eq!((has_password(url), is_local(url)), (password, local), "{url}");
        }
    }
}
