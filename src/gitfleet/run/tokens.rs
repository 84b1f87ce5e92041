//! The tokens of the API: read from their files at the start, and again whenever a file changes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::person;
use config::{Configuration, read_secret};
use server::PageSettings;
use server::tokens::Tokens;
use system::secret_files::{SecretFile, reason};
use system::supervise::Supervisor;

/// The name under which the plugin generator of Argo CD reads decisions.
const PLUGIN: &str = "decisions.tokenFile";

/// The tokens that are for the same.
#[derive(Default)]
pub(super) struct TokenGroup {
    /// The tokens, as they are now.
    pub(super) tokens: Arc<Tokens>,
    /// The owners with a file, and where it is.
    files: Vec<(String, PathBuf)>,
}

impl TokenGroup {
    fn read<'a>(named: impl Iterator<Item = (&'a str, &'a Path)>) -> anyhow::Result<Self> {
        let files: Vec<_> = named.map(|(name, path)| (name.to_owned(), path.to_owned())).collect();
        let read = files.iter().map(|(name, path)| Ok((name.clone(), read_secret(path)?)));
        let tokens = Arc::new(Tokens::new(read.collect::<anyhow::Result<_>>()?));
        Ok(Self { tokens, files })
    }

    /// Uses another token whenever its file changes. A token that is valid no more opens no page either: `ended` is called with its owner.
    fn follow(&self, supervisor: &Supervisor, ended: impl Fn(&str) + Clone + Send + Sync + 'static) {
        for (name, path) in &self.files {
            let tokens = Arc::clone(&self.tokens);
            let owner = name.clone();
            let ended = ended.clone();
            let file = SecretFile { what: format!("the token {name} of the API"), path: path.clone() };
            file.follow(supervisor, move |path| {
                let token = read_secret(path).map_err(|error| reason(&error))?;
                if tokens.replace(&owner, token) {
                    ended(&owner);
                }
                Ok(())
            });
        }
    }
}

/// All tokens of the API, by what they are for.
pub(super) struct ApiTokens {
    /// Who may read decisions as a plugin of Argo CD.
    pub(super) readers: TokenGroup,
    /// Who may command, and read.
    pub(super) commanders: TokenGroup,
    /// Who may read and nothing else.
    pub(super) watchers: TokenGroup,
    /// Who may push scores and properties and nothing else.
    pub(super) pushers: TokenGroup,
}

impl ApiTokens {
    /// Reads the tokens of a configuration. One that names nobody who may command gets a new token for whoever runs the daemon, unless
    /// several daemons share its store: a token of one of them would be unknown to the next leader.
    ///
    /// # Errors
    /// A file cannot be read, or the new token not be written.
    pub(super) fn read(configuration: &Configuration, is_shared: bool) -> anyhow::Result<Self> {
        let store = &configuration.store.path;
        let http = &configuration.http;
        let plugin = configuration.decisions.as_ref().and_then(|decisions| decisions.token_file.as_deref());
        let commanders = if http.tokens.is_empty() && !is_shared {
            let tokens = Tokens::new(vec![(person::os_user(), person::issue_token(store)?)]);
            TokenGroup { tokens: Arc::new(tokens), ..TokenGroup::default() }
        } else {
            person::revoke_token(store)?;
            TokenGroup::read(http.tokens.iter().map(|token| (token.name.as_str(), token.token_file.as_path())))?
        };
        Ok(Self {
            readers: TokenGroup::read(plugin.map(|path| (PLUGIN, path)).into_iter())?,
            commanders,
            watchers: TokenGroup::read(
                http.read_tokens.iter().map(|token| (token.name.as_str(), token.token_file.as_path())),
            )?,
            pushers: TokenGroup::read(
                http.push_tokens.iter().map(|token| (token.name.as_str(), token.token_file.as_path())),
            )?,
        })
    }

    /// Follows the files of all tokens. A session of the page ends with the token that opened it.
    pub(super) fn follow(&self, page: Option<&Arc<PageSettings>>, supervisor: &Supervisor) {
        for (group, may_command) in [(&self.commanders, true), (&self.watchers, false)] {
            let page = page.map(Arc::clone);
            group.follow(supervisor, move |owner| {
                if let Some(page) = &page {
                    page.sessions.close_of(owner, may_command);
                }
            });
        }
        for group in [&self.readers, &self.pushers] {
            group.follow(supervisor, |_| {});
        }
    }
}
