//! What the poller is to do, as the configuration says.

use std::sync::Arc;
use std::time::Duration;

use super::token::TokenOrigin;
use crate::rendering::Rendering;
use crate::run::state_dir;
use config::{Configuration, HistoryRewrite, Source, Verify, read_secret};
use engine::store::Store;
use git::{HttpsAccess, SourceSpec, SshAccess};
use member::decryption::Decryption;
use model::id::CommitId;
use model::records::SourceRecord;
use model::tenants::Tenants;
use source::OwnersSyntax;

/// The settings of the poller.
pub struct PollerSettings {
    /// The followed branches: one, or one of each of several sources.
    pub branches: Vec<BranchSettings>,
    /// The accepted commit, from the store; of several sources the one that joins theirs.
    pub accepted: Option<CommitId>,
    /// The store that several daemons share, each with a mirror of its own; absent where there is one daemon.
    pub shared: Option<Arc<dyn Store>>,
    /// What renders folders of the source.
    pub rendering: Rendering,
    /// What tells whether encrypted files hold other values.
    pub decryption: Decryption,
    /// What the files of folders may ask for.
    pub tenants: Arc<Tenants>,
    /// Whose syntax the CODEOWNERS file has that names approvers; absent where none does.
    pub code_owners: Option<OwnersSyntax>,
}

/// The settings of a followed branch.
pub struct BranchSettings {
    /// The name of its source; empty where there is one source, which is then no folder of a tree.
    pub name: String,
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
    /// Where its token comes from, which is asked again before each poll.
    pub token: Option<TokenOrigin>,
    /// Whose signatures commits need.
    pub verify: Option<Box<Verify>>,
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
            branches: configuration.all_sources().iter().zip(source_specs(configuration)?).map(branch).collect(),
            accepted: None,
            shared: None,
            decryption: Decryption::default(),
            rendering: rendering.expect("a folder is made only where results go with the process"),
            tenants: Arc::new(configuration.tenants()),
            code_owners: code_owners(configuration),
        })
    }

    /// Tells whether there is a list of sources, which are read as one tree.
    pub fn is_joined(&self) -> bool {
        self.branches.iter().any(|branch| !branch.name.is_empty())
    }

    /// Adds what an earlier process knew of the sources.
    #[must_use]
    pub fn known(mut self, record: &SourceRecord) -> Self {
        self.accepted.clone_from(&record.accepted);
        let is_joined = self.is_joined();
        for branch in &mut self.branches {
            let own = if is_joined { record.sources.get(&branch.name) } else { Some(record) };
            // What a person accepted is named for all sources together.
            branch.accepted_rewrite.clone_from(&record.accepted_rewrite);
            branch.accepted = own.and_then(|own| own.accepted.clone());
            branch.branch = own.and_then(|own| own.branch.clone());
        }
        self
    }
}

fn code_owners(configuration: &Configuration) -> Option<OwnersSyntax> {
    let (_, forge) = configuration.forges().next().filter(|(_, forge)| forge.approvals.code_owners)?;
    Some(match forge.type_ {
        config::ForgeType::Github => OwnersSyntax::GitHub,
        config::ForgeType::Gitea => OwnersSyntax::Gitea,
    })
}

fn branch((source, spec): (&Source, SourceSpec)) -> BranchSettings {
    BranchSettings {
        name: source.name.clone(),
        spec,
        poll_interval: source.poll_interval,
        on_rewrite: source.on_history_rewrite,
        accepted_rewrite: None,
        accepted: None,
        branch: None,
        token: TokenOrigin::of(source),
        verify: source.verify.clone(),
    }
}

/// Returns the sources that a configuration names, with their tokens.
///
/// # Errors
/// A token's file cannot be read.
pub fn source_specs(configuration: &Configuration) -> Result<Vec<SourceSpec>, config::Error> {
    configuration.all_sources().iter().map(|source| source_spec(configuration, source)).collect()
}

/// Returns one of the sources that a configuration names, with its token.
///
/// # Errors
/// The token's file cannot be read.
pub fn source_spec(configuration: &Configuration, source: &Source) -> Result<SourceSpec, config::Error> {
    Ok(SourceSpec {
        location: source.url.clone(),
        branch: source.branch.clone(),
        path: source.path.clone(),
        token: source.token_file.as_deref().map(read_secret).transpose()?,
        user: source.user.clone(),
        signatures: source.verify.as_ref().is_some_and(|verify| verify.cosign.is_some()),
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
