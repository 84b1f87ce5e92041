//! What the poller is to do, as the configuration says.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::config::{self, Configuration, HistoryRewrite, Verify, read_secret};
use crate::daemon::decryption::Decryption;
use crate::daemon::rendering::Rendering;
use crate::daemon::run::state_dir;
use crate::git::{HttpsAccess, SourceSpec, SshAccess};
use crate::model::id::CommitId;
use crate::model::tenants::Tenants;
use crate::store::Store;

/// The settings of the poller.
pub struct PollerSettings {
    /// Where it is.
    pub spec: SourceSpec,
    /// How often it is polled.
    pub poll_interval: Duration,
    /// What to do about a rewritten history.
    pub on_rewrite: HistoryRewrite,
    /// A tip of a rewritten history that a person accepted.
    pub accepted_rewrite: Option<CommitId>,
    /// The accepted commit, from the store.
    pub accepted: Option<CommitId>,
    /// The branch that was followed because it was checked out, from the store.
    pub branch: Option<String>,
    /// The file of the token, which is read again before each poll.
    pub token_file: Option<PathBuf>,
    /// The store that several daemons share, each with a mirror of its own; absent where there is one daemon.
    pub shared: Option<Arc<dyn Store>>,
    /// Whose signatures commits need.
    pub verify: Option<Box<Verify>>,
    /// What renders folders of the source.
    pub rendering: Rendering,
    /// What tells whether encrypted files hold other values.
    pub decryption: Decryption,
    /// What the files of folders may ask for.
    pub tenants: Arc<Tenants>,
}

impl PollerSettings {
    /// Returns what a configuration says, without anything of an earlier process.
    ///
    /// # Errors
    /// The token's file cannot be read.
    pub fn of(configuration: &Configuration) -> Result<Self, config::Error> {
        let state_dir = state_dir(configuration);
        let rendering = Rendering::of(configuration.render.as_ref(), Some(&state_dir));
        Ok(Self {
            spec: source_spec(configuration)?,
            poll_interval: configuration.source.poll_interval,
            on_rewrite: configuration.source.on_history_rewrite,
            accepted_rewrite: None,
            accepted: None,
            branch: None,
            token_file: configuration.source.token_file.clone(),
            shared: None,
            verify: configuration.source.verify.clone(),
            decryption: Decryption::default(),
            rendering: rendering.expect("a folder is made only where results go with the process"),
            tenants: Arc::new(configuration.tenants()),
        })
    }
}

/// Returns the source that a configuration names, with its token.
///
/// # Errors
/// The token's file cannot be read.
pub fn source_spec(configuration: &Configuration) -> Result<SourceSpec, config::Error> {
    let source = &configuration.source;
    Ok(SourceSpec {
        location: source.url.clone(),
        branch: source.branch.clone(),
        path: source.path.clone(),
        token: source.token_file.as_deref().map(read_secret).transpose()?,
        allow_insecure_http: source.allow_insecure_http,
        https: HttpsAccess { ca_file: source.ca_file.clone(), proxy: source.proxy.clone() },
        ssh: source
            .ssh
            .as_ref()
            .map(|ssh| SshAccess { key_file: ssh.key_file.clone(), known_hosts_file: ssh.known_hosts_file.clone() }),
        excluded: configuration.excluded_paths(),
        everything: configuration.render.is_some(),
    })
}
