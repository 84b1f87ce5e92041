//! The keys whose signatures commits need, in files that may change while the daemon runs.

use super::super::commit_signatures::complaints;
use super::branch::Branch;
use crate::clock;
use crate::config::{Verify, read_public};
use crate::git;
use crate::model::id::CommitId;
use crate::model::manifest::InputError;

/// Checks signatures before a tip is accepted.
pub(super) struct Verifier {
    verify: Box<Verify>,
    /// What the files of keys held when the tip was refused for a signature.
    refused_with: Option<Vec<Option<Vec<u8>>>>,
}

impl Verifier {
    pub(super) fn new(verify: Box<Verify>) -> Self {
        Self { verify, refused_with: None }
    }

    fn contents(&self) -> Vec<Option<Vec<u8>>> {
        self.verify.files().map(|path| read_public(path).ok()).collect()
    }
}

impl Branch {
    /// Returns what is wrong with the signatures of a tip and of what came with it. A person who accepts a rewritten history says
    /// nothing about them.
    ///
    /// The accepted commit is not checked again: what is rolled out does not depend on keys that expire.
    pub(super) fn unsigned(&mut self, tip: &CommitId) -> Result<Vec<InputError>, git::Error> {
        let accepted = self.accepted.as_ref();
        let Some(verifier) = self.verifier.as_mut().filter(|_| accepted != Some(tip)) else { return Ok(Vec::new()) };
        // Before they are read for the check: what changes meanwhile is noticed then.
        let contents = verifier.contents();
        let wrong = complaints(self.source.reader(), &verifier.verify, accepted, tip, clock::wall())?;
        verifier.refused_with = (!wrong.is_empty()).then_some(contents);
        Ok(wrong)
    }

    /// Checks a refused tip again if the files of keys changed since: its signer may be listed now.
    pub(super) fn notice_keys(&mut self) {
        let Some(verifier) = &mut self.verifier else { return };
        if verifier.refused_with.as_ref().is_some_and(|with| *with != verifier.contents()) {
            verifier.refused_with = None;
            tracing::info!("the keys whose signatures count changed; the refused commit is checked again");
            self.unread = self.source.tip().map(|tip| tip.commit.clone());
        }
    }
}
