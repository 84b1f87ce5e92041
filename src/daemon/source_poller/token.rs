//! The token of the source, which may be replaced while the daemon runs.

use std::path::PathBuf;

use super::branch::Branch;
use crate::config::read_secret;

/// A token's file.
pub(super) struct TokenFile {
    pub path: PathBuf,
    /// Why what it holds now is not used; reported once.
    problem: Option<String>,
}

impl TokenFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, problem: None }
    }
}

impl Branch {
    /// Uses the token that the file holds now. One that cannot be read, or not be used, changes nothing.
    pub(super) fn renew_token(&mut self) {
        let Some(file) = &mut self.token_file else { return };
        let read = read_secret(&file.path).map_err(|error| error.to_string());
        let used = read.and_then(|token| self.source.use_token(token).map_err(|error| error.in_full()));
        let problem = used.as_ref().err().cloned();
        match used {
            Ok(true) => tracing::info!("the token of the source changed and is used"),
            Ok(false) => {}
            Err(reason) if file.problem.as_ref() == Some(&reason) => {}
            Err(reason) => tracing::warn!(reason, "the token of the source stays as it was"),
        }
        file.problem = problem;
    }
}
