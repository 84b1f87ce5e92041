//! The token of the source, which may be replaced while the daemon runs.

use std::path::PathBuf;

use secrecy::{ExposeSecret as _, SecretString};
use tokio::runtime::{Builder, Runtime};

use super::branch::Branch;
use config::{Source, read_pem, read_secret};
use forge::{Auth, InstallationTokens, Kind, Reach, Settings};
use system::secret_files::reason;

/// Where the token of a source comes from.
#[derive(Clone, Debug)]
pub enum TokenOrigin {
    /// A file that holds it.
    File(PathBuf),
    /// A GitHub App, which gets one for an hour at most.
    App {
        /// Its id.
        id: u64,
        /// The file of its private key.
        key_file: PathBuf,
        /// The host, the owner and the name of the repository.
        repository: (String, String, String),
    },
}

impl TokenOrigin {
    /// Returns where a source has its token from, if it needs one.
    pub fn of(source: &Source) -> Option<Self> {
        match source.app.as_ref().zip(source.on_github()) {
            Some((app, repository)) => {
                Some(Self::App { id: app.id, key_file: app.private_key_file.clone(), repository })
            }
            None => source.token_file.clone().map(Self::File),
        }
    }
}

/// Reads tokens. It waits for a git host in a runtime of its own: those who read sources do so without one.
pub struct TokenReader {
    origin: TokenOrigin,
    app: Option<AppTokens>,
}

/// What asks GitHub, for as long as the key of the App stays the same.
struct AppTokens {
    pem: SecretString,
    runtime: Runtime,
    tokens: InstallationTokens,
}

impl TokenReader {
    /// Creates a reader; reads nothing.
    pub fn new(origin: TokenOrigin) -> Self {
        Self { origin, app: None }
    }

    /// Returns the token as it is now. Blocks; must not be called in a tokio runtime.
    ///
    /// # Errors
    /// Why there is none, as text for users.
    pub fn read(&mut self) -> Result<SecretString, String> {
        let (id, key_file, repository) = match &self.origin {
            TokenOrigin::File(path) => return read_secret(path).map_err(|error| reason(&error)),
            TokenOrigin::App { id, key_file, repository } => (*id, key_file, repository.clone()),
        };
        let pem = read_pem(key_file).map_err(|error| reason(&error))?;
        let known = self.app.take().filter(|known| known.pem.expose_secret() == pem.expose_secret());
        let app = match known {
            Some(known) => known,
            None => AppTokens::new(id, pem, repository)?,
        };
        let token = app.runtime.block_on(app.tokens.token()).map_err(|error| error.to_string());
        self.app = Some(app);
        token
    }
}

impl AppTokens {
    fn new(id: u64, pem: SecretString, (url, owner, name): (String, String, String)) -> Result<Self, String> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| error.to_string())?;
        let auth = Auth::App { id, pem: pem.clone() };
        let settings = Settings { kind: Kind::GitHub, url: Some(url), owner, name, auth, reach: Reach::default() };
        let tokens = runtime.block_on(async { InstallationTokens::new(&settings) });
        Ok(Self { pem, runtime, tokens: tokens.map_err(|error| error.to_string())? })
    }
}

/// The token of a followed branch.
pub(super) struct BranchToken {
    reader: TokenReader,
    /// A token was read in this process.
    is_known: bool,
    /// Why the present one is not used; reported once.
    problem: Option<String>,
}

impl BranchToken {
    pub(super) fn new(origin: TokenOrigin) -> Self {
        // The token of a file is part of what the source was opened with.
        let is_known = matches!(origin, TokenOrigin::File(_));
        Self { reader: TokenReader::new(origin), is_known, problem: None }
    }
}

impl Branch {
    /// Uses the token as it is now. One that cannot be read, or not be used, changes nothing.
    ///
    /// # Errors
    /// `NoToken` where none was read so far.
    pub(super) fn renew_token(&mut self) -> Result<(), git::Error> {
        let Some(token) = &mut self.token else { return Ok(()) };
        let read = token.reader.read();
        let used = read.and_then(|token| self.source.use_token(token).map_err(|error| error.in_full()));
        let problem = used.as_ref().err().cloned();
        match used {
            Ok(is_new) => {
                if is_new && token.is_known {
                    tracing::info!(about = "the token of the source", "a secret changed and is used");
                }
                token.is_known = true;
            }
            Err(reason) if !token.is_known => {
                let location = self.source.reader().location().to_owned();
                return Err(git::Error::NoToken { location, reason });
            }
            Err(reason) if token.problem.as_ref() == Some(&reason) => {}
            Err(reason) => tracing::warn!(about = "the token of the source", reason, "a secret stays as it was"),
        }
        token.problem = problem;
        Ok(())
    }
}
