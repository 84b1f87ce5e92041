//! The keys whose signatures commits and artifacts need, in files that may change while the daemon runs.

use super::super::commit_signatures::{complaints, complaints_of_artifact};
use super::branch::Branch;
use config::{Verify, read_public};
use model::artifact::SeenArtifact;
use model::id::CommitId;
use model::manifest::InputError;
use system::clock;

/// Checks signatures before a tip is accepted.
pub(super) struct Verifier {
    verify: Box<Verify>,
    /// What the tip was refused with for a signature.
    refused_with: Option<Signing>,
}

/// What the answer about a tip depends on: what the files of keys hold, and of an artifact the signatures beside it, which may come later.
#[derive(PartialEq, Eq)]
struct Signing {
    keys: Vec<Option<Vec<u8>>>,
    artifact: Option<SeenArtifact>,
}

impl Verifier {
    pub(super) fn new(verify: Box<Verify>) -> Self {
        Self { verify, refused_with: None }
    }

    fn signing(&self, source: &git::Source) -> Signing {
        let keys = self.verify.files().map(|path| read_public(path).ok()).collect();
        Signing { keys, artifact: source.artifact().cloned() }
    }
}

impl Branch {
    /// Returns what is wrong with the signatures of a tip and of what came with it. A person who accepts a rewritten history says
    /// nothing about them.
    ///
    /// The accepted commit is not checked again: what is rolled out does not depend on keys that expire.
    pub(super) fn unsigned(&mut self, tip: &CommitId) -> Result<Vec<InputError>, git::Error> {
        let accepted = self.accepted.as_ref();
        let Some(verifier) = &mut self.verifier else { return Ok(Vec::new()) };
        if accepted == Some(tip) {
            return Ok(Vec::new());
        }
        // Before they are read for the check: what changes meanwhile is noticed then.
        let signing = verifier.signing(&self.source);
        let wrong = match &signing.artifact {
            Some(artifact) if artifact.commit == *tip => complaints_of_artifact(artifact, &verifier.verify)?,
            // A commit of an artifact that is not the present one has no signature, and is refused.
            _ => complaints(self.source.reader(), &verifier.verify, accepted, tip, clock::wall())?,
        };
        verifier.refused_with = (!wrong.is_empty()).then_some(signing);
        Ok(wrong)
    }

    /// Checks a refused tip again if the files of keys, or the signatures of an artifact, changed since.
    pub(super) fn notice_keys(&mut self) {
        let Some(verifier) = &mut self.verifier else { return };
        if verifier.refused_with.as_ref().is_some_and(|with| *with != verifier.signing(&self.source)) {
            verifier.refused_with = None;
            tracing::info!("signatures or the keys that count changed; the refused commit is checked again");
            self.unread = self.source.tip().map(|tip| tip.commit.clone());
        }
    }
}
