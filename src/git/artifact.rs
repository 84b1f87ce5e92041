//! An artifact in an OCI registry, such as those of Flux: its files become a commit of ours, as the states of a plain folder do.
//!
//! Each digest is a commit without parents, so that whoever mirrors the artifact has the same commit for it, whichever digests it saw before.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use secrecy::{ExposeSecret, SecretString};

use self::registry::signatures::SignaturesSeen;
use self::registry::{FoundArtifact, RegistryClient};
use super::folder::{FolderMirror, Recorded, rebuild_folder};
use super::watchdog::{Stopped, watched};
use super::{Error, FETCH_TIME_MAX, OCI_KEPT_MAX_BYTES, SourceSpec, heal};
use model::artifact::{ArtifactReference, SeenArtifact};
use model::id::CommitId;

mod registry;
#[cfg(test)]
mod tests;
mod unpack;

/// The extension of the folder beside our repository that is there while an artifact is unpacked.
const SCRATCH: &str = "unpacked";
/// The folder of the files in it.
const FILES: &str = "files";
/// The archive in it.
const ARCHIVE: &str = "archive";

/// One artifact, and our repository of what it held.
pub(super) struct ArtifactMirror {
    reference: ArtifactReference,
    spec: SourceSpec,
    /// Where it is unpacked; there for the time of that alone.
    scratch: PathBuf,
    /// The unpacked files, and our repository of their states.
    pub folder: FolderMirror,
    /// What the last successful poll saw.
    pub seen: Option<SeenArtifact>,
    signatures: Option<SignaturesSeen>,
    /// The digest of an artifact that cannot be unpacked, and why: it is not downloaded again with each poll.
    refused: Option<(String, String)>,
    /// How large our repository may become before what nothing names is left out, in bytes.
    room: u64,
}

impl ArtifactMirror {
    /// Checks a location, and opens or creates our repository in `kept`. Does not use the network.
    ///
    /// # Errors
    /// `UnsupportedLocation` where the location names no artifact; `Disk`, `Repository`.
    pub(crate) fn open(spec: SourceSpec, kept: PathBuf) -> Result<Self, Error> {
        let reference = ArtifactReference::parse(&spec.location)
            .map_err(|reason| Error::UnsupportedLocation { location: spec.location.clone(), reason })?;
        let (reader, damage) = heal::open(&kept, &super::repository::open_options([]), &spec.location, &spec.path)?;
        let scratch = kept.with_extension(SCRATCH);
        let dir = scratch.join(FILES);
        let everything = spec.everything;
        let folder = FolderMirror { dir, excluded: Vec::new(), everything, kept, reader, damage };
        Ok(Self {
            reference,
            spec,
            scratch,
            folder,
            seen: None,
            signatures: None,
            refused: None,
            room: OCI_KEPT_MAX_BYTES,
        })
    }

    /// Asks which digest the tag has, and records what it holds if that is not the last commit already.
    ///
    /// # Errors
    /// `Artifact` where there is none that can be used; else as [`Source::poll`](super::Source::poll).
    pub(crate) fn poll(&mut self, interrupt: &AtomicBool) -> Result<CommitId, Error> {
        let flag = AtomicBool::new(false);
        let (polled, stopped) = watched(
            interrupt,
            FETCH_TIME_MAX,
            || None,
            || flag.store(true, Ordering::Relaxed),
            || self.poll_until(&flag),
        );
        match (polled, stopped) {
            (Err(Error::Interrupted { location }), Some(Stopped::Late(limit))) => {
                Err(Error::Timeout { location, limit })
            }
            (polled, _) => polled,
        }
    }

    fn poll_until(&mut self, stop: &AtomicBool) -> Result<CommitId, Error> {
        let reference = self.reference.clone();
        let spec = self.spec.clone();
        let mut registry = RegistryClient::connect(&reference, &spec, stop)?;
        let found = registry.find()?;
        if self.spec.signatures {
            let known = self.signatures.take();
            self.signatures = registry.signatures(&found.digest, known)?;
        }
        let commit = self.record(&mut registry, &found, stop)?;
        let signatures = self.signatures.as_ref().map(|seen| seen.signatures.clone()).unwrap_or_default();
        self.seen = Some(SeenArtifact { digest: found.digest, commit: commit.clone(), signatures });
        Ok(commit)
    }

    fn record(
        &mut self,
        registry: &mut RegistryClient<'_>,
        found: &FoundArtifact,
        interrupt: &AtomicBool,
    ) -> Result<CommitId, Error> {
        let message = self.message(found);
        if self.folder.damage.is_none()
            && let Some(commit) = self.folder.recorded(&message)
        {
            return Ok(commit);
        }
        if let Some((digest, reason)) = &self.refused
            && *digest == found.digest
        {
            return Err(self.unusable(digest, reason.clone()));
        }
        self.clear()?;
        self.make_room()?;
        let recorded = self.unpacked(registry, found, interrupt, &message);
        if let Err(error) = self.clear() {
            tracing::warn!(error = error.in_full(), "the unpacked files of the artifact cannot be removed");
        }
        let commit = recorded?;
        tracing::info!(digest = found.digest, commit = commit.short(), "the artifact was unpacked");
        Ok(commit)
    }

    /// Downloads and unpacks it, and makes a commit of its files.
    fn unpacked(
        &mut self,
        registry: &mut RegistryClient<'_>,
        found: &FoundArtifact,
        interrupt: &AtomicBool,
        message: &str,
    ) -> Result<CommitId, Error> {
        let archive = self.scratch.join(ARCHIVE);
        fs::create_dir_all(&self.folder.dir).map_err(Error::disk(&self.scratch))?;
        registry.download(found, &archive)?;
        let file = fs::File::open(&archive).map_err(Error::disk(&self.scratch))?;
        match unpack::unpack(file, found.is_compressed, &self.folder.dir, interrupt) {
            Ok(()) => {}
            Err(unpack::UnpackFailure::Refused(reason)) => {
                self.refused = Some((found.digest.clone(), reason.clone()));
                return Err(self.unusable(&found.digest, reason));
            }
            Err(unpack::UnpackFailure::Disk(path, source)) => return Err(Error::Disk { path, source }),
            Err(unpack::UnpackFailure::Interrupted) => {
                return Err(Error::Interrupted { location: self.spec.location.clone() });
            }
        }
        self.folder.record_as(&Recorded::Alone(message)).map_err(|error| match error {
            Error::EmptyRepository { .. } => self.unusable(&found.digest, "it holds no manifest".to_owned()),
            other => other,
        })
    }

    /// Makes our repository again, without the commits that nothing names, once it has become large: whoever may push could fill the disk
    /// with digests that are never accepted.
    ///
    /// # Errors
    /// It cannot be read or written; then the old one stays.
    fn make_room(&mut self) -> Result<(), Error> {
        let objects = self.folder.kept.join("objects");
        let before = size_of(&objects).map_err(Error::disk(&objects))?;
        if before <= self.room {
            return Ok(());
        }
        for pin in rebuild_folder(&mut self.folder)? {
            tracing::warn!(pin, "the commit of an artifact is not whole and could not be kept");
        }
        let after = size_of(&objects).map_err(Error::disk(&objects))?;
        // What is needed may be more than that by itself.
        self.room = OCI_KEPT_MAX_BYTES.max(after.saturating_mul(2));
        tracing::info!(before, after, "commits of artifacts that nothing names were removed");
        Ok(())
    }

    fn unusable(&self, digest: &str, reason: String) -> Error {
        Error::Artifact { location: self.spec.location.clone(), digest: digest.to_owned(), reason }
    }

    /// Removes what is unpacked, also that of a process that died.
    fn clear(&self) -> Result<(), Error> {
        match fs::remove_dir_all(&self.scratch) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(Error::Disk { path: self.scratch.clone(), source })
            }
            _ => Ok(()),
        }
    }

    /// Returns the message of the commit, which says what it was made from and how.
    fn message(&self, found: &FoundArtifact) -> String {
        let files = if self.spec.everything { "all" } else { "manifests" };
        let revision = found.revision.as_ref().map(|revision| format!("Revision: {revision}\n"));
        format!("OCI artifact {}\n\n{}Files: {files}\n", found.digest, revision.unwrap_or_default())
    }

    /// Uses another token from the next request on; tells whether it is another one.
    pub(crate) fn use_token(&mut self, token: SecretString) -> bool {
        if self.spec.token.as_ref().map(ExposeSecret::expose_secret) == Some(token.expose_secret()) {
            return false;
        }
        self.spec.token = Some(token);
        true
    }
}

/// Returns how many bytes the files in and below a folder of objects have: it holds one level of folders.
fn size_of(objects: &Path) -> io::Result<u64> {
    let mut total = 0;
    for entry in fs::read_dir(objects)? {
        let folder = entry?.path();
        if !folder.is_dir() {
            continue;
        }
        for entry in fs::read_dir(folder)? {
            total += entry?.metadata()?.len();
        }
    }
    Ok(total)
}
