//! What the section says of an artifact in an OCI registry.

use super::super::complaint;
use super::Source;
use model::artifact::{ArtifactReference, is_artifact, without_digest};
use model::manifest::InputError;

/// Why an artifact has no git host.
pub(crate) const NO_FORGE: &str = "is for a repository; no git host has the commits of an artifact";

impl Source {
    /// Tells whether it is an artifact in a registry.
    pub fn is_artifact(&self) -> bool {
        is_artifact(&self.url)
    }

    /// Returns what names its place for as long as it is the same source: another pinned digest of an artifact makes no other one.
    pub fn place(&self) -> &str {
        without_digest(self.url.trim_end_matches('/'))
    }

    pub(super) fn artifact_problems(&self, errors: &mut Vec<InputError>) {
        let cosign = self.verify.as_ref().is_some_and(|verify| verify.cosign.is_some());
        let commits = self.verify.as_ref().is_some_and(|verify| verify.files_for_commits().next().is_some());
        if !self.is_artifact() {
            if cosign {
                let hint = Some("name `ssh`, `openpgp`, `x509` or `keyless` for the commits of a repository".into());
                let complaint = complaint("source.verify.cosign", "is for a source.url of oci://");
                errors.push(InputError { hint, ..complaint });
            }
            if self.user.is_some() {
                errors.push(complaint("source.user", "is for a source.url of oci://"));
            }
            return;
        }
        if let Err(reason) = ArtifactReference::parse(&self.url) {
            errors.push(complaint("source.url", format!("is no artifact: {reason}")));
        }
        if commits {
            let hint = Some("name `cosign: {keysFile: FILE}` for artifacts".into());
            let complaint = complaint("source.verify", "names keys of commits, and source.url is an artifact");
            errors.push(InputError { hint, ..complaint });
        }
        if self.branch.is_some() {
            errors.push(complaint("source.branch", "is for git; the tag of an artifact is in source.url"));
        }
        if self.user.as_ref().is_some_and(|user| user.is_empty() || user.contains(':')) {
            errors.push(complaint("source.user", "must be a name without `:`; its password is in `tokenFile`"));
        } else if self.user.is_some() && self.token_file.is_none() {
            errors.push(complaint("source.user", "needs `tokenFile`, the file of its token or password"));
        }
        if self.forge.is_some() {
            errors.push(complaint("source.forge", NO_FORGE));
        }
    }
}
