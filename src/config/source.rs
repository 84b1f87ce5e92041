//! The section of the file about the followed git repository, folder or artifact.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::forge::App;
use super::values::{DURATION_FORMAT, duration};
use super::{Forge, complaint, no_label};
use model::api::check::is_dns_label;
use model::artifact::is_artifact;
use model::manifest::InputError;

mod artifact;

pub(super) use self::artifact::NO_FORGE;

/// Longest name of a source in bytes.
pub const IDENTITY_BYTES_MAX: usize = 253;
/// How often the source is polled, where no webhook reports changes.
pub const POLL_INTERVAL_DEFAULT: Duration = Duration::from_secs(30);
/// The shortest poll interval: below it a forge starts to refuse.
pub const POLL_INTERVAL_MIN: Duration = Duration::from_secs(1);
/// The subtree of the source that is read.
pub const SOURCE_PATH_DEFAULT: &str = ".";
/// Sources of one configuration: each is fetched and listed by itself.
pub const SOURCES_MAX: usize = 100;
/// One git repository, folder or artifact.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Source {
    /// Its name in a list `sources` of several, a DNS label: its files are in a folder of that name. It must stay the same.
    #[serde(default)]
    pub name: String,
    /// Where it is: a URL, `USER@HOST:PATH` for ssh, a local repository or a plain folder; or an artifact in an OCI registry,
    /// `oci://HOST/REPOSITORY:TAG` or `oci://HOST/REPOSITORY@sha256:DIGEST`. Never with a password in it: see `tokenFile`.
    pub url: String,
    /// What inventories on members name this source by. Absent: URL, branch and path; then a source that moves is another one until
    /// `gitfleet source rename` says otherwise. Of several sources that of the first counts, for all.
    #[serde(default)]
    pub identity: Option<String>,
    /// The branch; absent means the checked-out branch of a local repository, the default branch of a remote.
    #[serde(default)]
    pub branch: Option<String>,
    /// Only this subtree is read.
    #[serde(default = "source_path_default")]
    pub path: String,
    /// How often the source is polled, at least 1s.
    #[serde(default = "poll_interval_default", with = "duration")]
    #[schemars(with = "String", extend("format" = DURATION_FORMAT))]
    pub poll_interval: Duration,
    /// File with the token to read the source with; for an artifact the token or password of `user`.
    #[serde(default)]
    pub token_file: Option<PathBuf>,
    /// The account of a registry, for an artifact alone. Absent: `x-access-token`, where registries with tokens take any name.
    #[serde(default)]
    pub user: Option<String>,
    /// The GitHub App to read the source as, instead of with a token. It must be installed for the repository, and may read its contents.
    #[serde(default)]
    pub app: Option<App>,
    /// File with certificates of authorities, as PEM, that its server's may come from, beside those that the system trusts. It is read
    /// with each poll.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// The proxy that carries requests to it, such as `http://proxy.example:3128`, without an account. Absent: what `proxy` says.
    #[serde(default)]
    pub proxy: Option<String>,
    /// How it is reached where `url` is one of ssh; required there.
    #[serde(default)]
    pub ssh: Option<SshFiles>,
    /// What to do when the new tip does not descend from the accepted commit.
    #[serde(default)]
    pub on_history_rewrite: HistoryRewrite,
    /// Lets a token travel over plain `http://`, and has the registry of an artifact spoken to so.
    #[serde(default)]
    pub allow_insecure_http: bool,
    /// Whose signature a commit, or an artifact, needs to be accepted. Absent: none is needed.
    #[serde(default)]
    pub verify: Option<Box<Verify>>,
    /// Its repository on a git host, in a list `sources`: commit statuses, comments and approvals. Where there is one source, `forge`
    /// stands beside `source`.
    #[serde(default)]
    pub forge: Option<Box<Forge>>,
}

impl Source {
    /// Returns the folder of a source on this machine; `None` for a remote one.
    ///
    /// As git reads it: with a scheme, or with a `:` before the first `/`, it is remote; `file://` is local.
    pub fn local(&self) -> Option<&Path> {
        if let Some(path) = self.url.strip_prefix("file://") {
            return Some(Path::new(path));
        }
        if self.url.contains("://") || self.is_short_ssh() { None } else { Some(Path::new(&self.url)) }
    }

    /// Tells whether the URL is `USER@HOST:PATH`.
    fn is_short_ssh(&self) -> bool {
        !self.url.contains("://") && self.url.split('/').next().unwrap_or_default().contains(':')
    }

    fn is_ssh(&self) -> bool {
        self.is_short_ssh() || self.url.starts_with("ssh://")
    }

    /// Returns the paths that it names, to be made whole.
    pub(super) fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let ssh = self.ssh.iter_mut().flat_map(|ssh| [&mut ssh.key_file, &mut ssh.known_hosts_file]);
        let verify = self.verify.iter_mut().flat_map(|verify| verify.paths());
        let app = self.app.iter_mut().map(|app| &mut app.private_key_file);
        let forge = self.forge.iter_mut().flat_map(|forge| forge.paths());
        self.token_file.iter_mut().chain(app).chain(&mut self.ca_file).chain(ssh).chain(verify).chain(forge)
    }

    fn https_problems(&self, errors: &mut Vec<InputError>) {
        let is_http = self.url.starts_with("https://") || self.url.starts_with("http://") || is_artifact(&self.url);
        let is_https = self.url.starts_with("https://") || (is_artifact(&self.url) && !self.allow_insecure_http);
        if self.ca_file.is_some() && !is_https {
            errors.push(complaint("source.caFile", "is for a source.url of https"));
        }
        let Some(proxy) = &self.proxy else { return };
        if !is_http {
            errors.push(complaint("source.proxy", "is for a source.url of https or http"));
        }
        if let Some(problem) = proxy_problem(proxy) {
            errors.push(complaint("source.proxy", problem));
        }
    }

    /// Returns the repository on GitHub as an App is asked for it: the host's address, owner and name. `None` where the URL has another
    /// shape.
    pub fn on_github(&self) -> Option<(String, String, String)> {
        let (scheme, rest) = self.url.split_once("://").filter(|(scheme, _)| matches!(*scheme, "https" | "http"))?;
        let (host, path) = rest.split_once('/')?;
        let (owner, name) = path.trim_end_matches('/').split_once('/')?;
        let name = name.strip_suffix(".git").unwrap_or(name);
        // The owner ends at the first slash, so only the name could have another.
        if owner.is_empty() || name.is_empty() || name.contains('/') {
            return None;
        }
        Some((format!("{scheme}://{host}"), owner.to_owned(), name.to_owned()))
    }

    fn app_problems(&self, errors: &mut Vec<InputError>) {
        if self.app.is_none() {
            return;
        }
        if self.token_file.is_some() {
            errors.push(complaint("source", "names both tokenFile and app; keep one of them"));
        }
        if self.on_github().is_none() {
            let hint = Some("write https://HOST/OWNER/NAME, or use tokenFile or ssh".into());
            errors.push(InputError {
                hint,
                ..complaint("source.app", "source.url is no repository on GitHub over https")
            });
        }
        if self.ca_file.is_some() || self.proxy.is_some() {
            errors.push(complaint(
                "source.app",
                "GitHub is asked for tokens without source.caFile and source.proxy; use tokenFile",
            ));
        }
    }

    fn ssh_problems(&self, errors: &mut Vec<InputError>) {
        if self.is_ssh() && self.ssh.is_none() {
            let hint = Some("write ssh: {keyFile: FILE, knownHostsFile: FILE}".into());
            errors.push(InputError { hint, ..complaint("source.ssh", "is missing; source.url is one of ssh") });
        }
        if self.is_ssh() && self.token_file.is_some() {
            errors.push(complaint("source.tokenFile", "is for https; ssh uses the key of `source.ssh`"));
        }
        if !self.is_ssh() && self.ssh.is_some() {
            let hint = Some("write ssh://git@HOST/PATH, or remove it".into());
            errors.push(InputError { hint, ..complaint("source.ssh", "is given, and source.url is not one of ssh") });
        }
    }
}

/// The files that ssh uses; no other key, known host or setting counts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SshFiles {
    /// File with the private key, without a passphrase and readable by gitfleet's user alone. It is read with each poll.
    pub key_file: PathBuf,
    /// File with the keys of the host, as ssh has it; it is read with each poll. A host with another key is not spoken to.
    pub known_hosts_file: PathBuf,
}

/// What to do when the new tip does not descend from the accepted commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum HistoryRewrite {
    /// The last good commit stays and running rollouts continue, until a person accepts the new tip.
    #[default]
    Hold,
    /// The new tip is taken.
    Accept,
}

/// Whose signature a commit needs to be accepted: nobody's word replaces it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Verify {
    /// Which commits need one.
    #[serde(default)]
    pub commits: VerifiedCommits,
    /// The SSH keys that count.
    #[serde(default)]
    pub ssh: Option<SshSigners>,
    /// The OpenPGP keys that count.
    #[serde(default)]
    pub openpgp: Option<OpenPgpKeys>,
    /// The X.509 certificates that count.
    #[serde(default)]
    pub x509: Option<X509Signers>,
    /// The X.509 certificates for a login that count, as gitsign has them: each is valid for minutes, and counts as of the time that the
    /// signature names, which is the signer's word.
    #[serde(default)]
    pub keyless: Option<KeylessSigners>,
    /// The keys of cosign that count, for an artifact in a registry.
    #[serde(default)]
    pub cosign: Option<CosignKeyFile>,
}

/// Which commits need a signature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum VerifiedCommits {
    /// Every commit that came since the accepted one, also by a merge, at most 1,000; the tip alone while none was accepted yet.
    #[default]
    All,
    /// The tip of the branch: whoever signs it answers for what it merges.
    Head,
}

/// The SSH keys that count.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SshSigners {
    /// File of allowed signers as ssh-keygen reads it, with times in UTC. It is read again when it changes.
    pub allowed_signers_file: PathBuf,
}

/// The OpenPGP keys that count.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OpenPgpKeys {
    /// File of public keys as `gpg --export` writes them, armoured or not. It is read again when it changes.
    pub keys_file: PathBuf,
}

/// The keys of cosign that count.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CosignKeyFile {
    /// File of public keys as PEM, as `cosign public-key` prints them, one after the other. It is read again when it changes.
    pub keys_file: PathBuf,
}

/// The X.509 certificates that count: they are valid now, for signing code or protecting e-mail, and name one of the identities.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct X509Signers {
    /// File with the certificates of authorities, as PEM. It is read again when it changes.
    pub ca_file: PathBuf,
    /// Who may sign: the e-mail address or the URI among the alternative names of the certificate.
    pub identities: Vec<String>,
}

/// The X.509 certificates for a login that count.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeylessSigners {
    /// File with the certificates of authorities, as PEM, such as those of a Fulcio. It is read again when it changes.
    pub ca_file: PathBuf,
    /// Who may sign.
    pub identities: Vec<LoginIdentity>,
}

/// Who logged in, and where.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LoginIdentity {
    /// Who vouches for the login: the URL of the OpenID Connect issuer.
    pub issuer: String,
    /// The e-mail address or the URI in the certificate.
    pub identity: String,
}

impl Verify {
    /// Returns the files that it names.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.files_for_commits().chain(self.cosign.iter().map(|cosign| &cosign.keys_file))
    }

    /// Returns the files that it names of keys of commits.
    fn files_for_commits(&self) -> impl Iterator<Item = &PathBuf> {
        let ssh = self.ssh.iter().map(|ssh| &ssh.allowed_signers_file);
        let openpgp = self.openpgp.iter().map(|openpgp| &openpgp.keys_file);
        let x509 = self.x509.iter().map(|x509| &x509.ca_file);
        ssh.chain(openpgp).chain(x509).chain(self.keyless.iter().map(|keyless| &keyless.ca_file))
    }

    /// Returns the paths that it names, to be made whole.
    pub(super) fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let ssh = self.ssh.iter_mut().map(|ssh| &mut ssh.allowed_signers_file);
        let openpgp = self.openpgp.iter_mut().map(|openpgp| &mut openpgp.keys_file);
        let x509 = self.x509.iter_mut().map(|x509| &mut x509.ca_file);
        let cosign = self.cosign.iter_mut().map(|cosign| &mut cosign.keys_file);
        ssh.chain(openpgp).chain(x509).chain(self.keyless.iter_mut().map(|keyless| &mut keyless.ca_file)).chain(cosign)
    }

    fn problems(&self, errors: &mut Vec<InputError>) {
        if self.files().next().is_none() {
            let hint = "name at least one file of keys: `ssh.allowedSignersFile`, `openpgp.keysFile`, `x509.caFile` or `keyless.caFile`; for an \
                        artifact `cosign.keysFile`";
            let complaint = complaint("source.verify", "names no keys, so no commit would be accepted");
            errors.push(InputError { hint: Some(hint.into()), ..complaint });
        }
        let x509 = self
            .x509
            .iter()
            .map(|x509| ("x509", x509.identities.is_empty(), x509.identities.iter().any(String::is_empty)));
        let keyless = self.keyless.iter().map(|keyless| {
            let mut logins = keyless.identities.iter();
            let has_blank = logins.any(|login| login.issuer.is_empty() || login.identity.is_empty());
            ("keyless", keyless.identities.is_empty(), has_blank)
        });
        for (name, is_empty, has_blank) in x509.chain(keyless) {
            let field = format!("source.verify.{name}.identities");
            if is_empty {
                errors.push(complaint(&field, "is empty, so no certificate would count"));
            }
            if has_blank {
                errors.push(complaint(&field, "has an entry with an empty text, which is nobody's"));
            }
        }
    }
}

impl Source {
    /// Returns what the schema cannot say.
    pub(super) fn problems(&self) -> Vec<InputError> {
        let source = self;
        let mut errors = Vec::new();
        if source.url.is_empty() {
            errors.push(complaint("source.url", "is empty"));
        }
        let authority = source.url.split_once("://").map(|(_, rest)| rest.split('/').next().unwrap_or_default());
        // A user alone is no secret: URLs of ssh name one.
        if authority.and_then(|a| a.rsplit_once('@')).is_some_and(|(user, _)| user.contains(':')) {
            // Without the URL: it holds a password.
            errors.push(complaint("source.url", "holds a password; put it into a file and name that as `tokenFile`"));
        }
        if source.url.starts_with("http://")
            && (source.token_file.is_some() || source.app.is_some())
            && !source.allow_insecure_http
        {
            let message = "would send the token over plain http";
            let hint = Some("use https, or say allowInsecureHttp: true".into());
            errors.push(InputError { hint, ..complaint("source.url", message) });
        }
        source.ssh_problems(&mut errors);
        source.https_problems(&mut errors);
        source.app_problems(&mut errors);
        source.artifact_problems(&mut errors);
        if source.identity.as_ref().is_some_and(|name| name.is_empty() || name.len() > IDENTITY_BYTES_MAX) {
            errors.push(complaint("source.identity", "must have 1 to 253 characters"));
        }
        if source.poll_interval < POLL_INTERVAL_MIN {
            errors.push(complaint("source.pollInterval", "is shorter than 1s"));
        }
        if let Some(verify) = &source.verify {
            verify.problems(&mut errors);
        }
        let path = Path::new(&source.path);
        if !path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
            let message = format!("{:?} must be a path inside the repository, without `..`", source.path);
            errors.push(complaint("source.path", message));
        }
        errors
    }
}

/// Adds what is wrong with a list of several sources.
pub(super) fn check_sources(sources: &[Source], errors: &mut Vec<InputError>) {
    if sources.len() > SOURCES_MAX {
        errors.push(complaint("sources", format!("names {} sources, the limit is {SOURCES_MAX}", sources.len())));
    }
    let mut names = BTreeMap::new();
    let mut urls = BTreeMap::new();
    for (index, source) in sources.iter().enumerate() {
        let at = |field: &str| format!("sources[{index}].{field}");
        let of_one = source.problems().into_iter().map(|error| {
            let field = error.field.map(|field| field.replacen("source.", &format!("sources[{index}]."), 1));
            InputError { field, ..error }
        });
        errors.extend(of_one);
        if !is_dns_label(&source.name) {
            let hint = Some("give each of several sources a name: its files are in a folder of that name".into());
            errors.push(InputError { hint, ..complaint(&at("name"), no_label(&source.name)) });
        } else if let Some(first) = names.insert(&source.name, index) {
            errors.push(complaint(&at("name"), format!("{:?} is the name of sources[{first}] too", source.name)));
        }
        if let Some(first) = urls.insert(source.place(), index) {
            let hint = Some("name a repository once, with a `path` that holds all folders".into());
            errors.push(InputError { hint, ..complaint(&at("url"), format!("is the url of sources[{first}] too")) });
        }
        if index > 0 && source.identity.is_some() {
            let hint = Some("remove it: inventories name all sources by the first one's".into());
            errors.push(InputError { hint, ..complaint(&at("identity"), "is not used") });
        }
    }
    check_forges(sources, errors);
}

/// Adds what is wrong with the git hosts of several sources. Gates are opened for the whole fleet, so whoever approves is known in the same way
/// in each repository: by accounts of one host, under the same rules.
fn check_forges(sources: &[Source], errors: &mut Vec<InputError>) {
    let all = sources.iter().enumerate();
    let forges: Vec<(usize, &Forge)> =
        all.filter_map(|(index, source)| Some((index, source.forge.as_deref()?))).collect();
    for (position, (index, forge)) in forges.iter().enumerate() {
        let prefix = format!("sources[{index}].");
        let mut own = Vec::new();
        forge.problems(&mut own);
        errors.extend(
            own.into_iter()
                .map(|error| InputError { field: error.field.map(|field| prefix.clone() + &field), ..error }),
        );
        let earlier = &forges[..position];
        if let Some((same, _)) = earlier.iter().find(|(_, other)| other.is_same_repository(forge)) {
            let hint = Some("name a repository once, with a `path` that holds all folders".into());
            let message = format!("is the repository of sources[{same}] too");
            errors.push(InputError { hint, ..complaint(&format!("{prefix}forge.repository"), message) });
        }
        let Some((first, other)) = earlier.first() else { continue };
        if !other.is_same_host(forge) {
            let hint =
                Some("leave `forge` out where a source is on another host: approvers are accounts of one host".into());
            let message = format!("is another git host than that of sources[{first}]");
            errors.push(InputError { hint, ..complaint(&format!("{prefix}forge.url"), message) });
        }
        if other.approvals != forge.approvals {
            let hint = Some("repeat them; who may approve what is limited with `approvers` of tenants".into());
            let message = format!("differ from those of sources[{first}]; gates are of the whole fleet");
            errors.push(InputError { hint, ..complaint(&format!("{prefix}forge.approvals"), message) });
        }
    }
}

/// Returns what is wrong with the address of a proxy. Never repeats it: it may hold a password.
pub(super) fn proxy_problem(proxy: &str) -> Option<&'static str> {
    let authority = proxy.strip_prefix("http://").or_else(|| proxy.strip_prefix("https://"));
    match authority.map(|rest| rest.strip_suffix('/').unwrap_or(rest)) {
        Some(authority) if authority.contains('@') => Some("names an account; proxies that want one are not supported"),
        Some(authority) if !authority.is_empty() && !authority.contains(['/', '?', '#']) => None,
        _ => Some("must be an address such as http://proxy.example:3128"),
    }
}

fn source_path_default() -> String {
    SOURCE_PATH_DEFAULT.to_owned()
}

fn poll_interval_default() -> Duration {
    POLL_INTERVAL_DEFAULT
}
