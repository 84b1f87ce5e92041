//! One followed branch of one location of any kind.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use gix::bstr::ByteSlice;
use secrecy::SecretString;
use sha2::{Digest, Sha256};

use super::artifact::ArtifactMirror;
use super::folder::FolderMirror;
use super::joined::JoinedRepository;
use super::mirror::{Mirror, full_branch_name};
use super::rendered::RenderedStore;
use super::repository::{Reader, open_options};
use super::ssh::is_ssh;
use super::{Error, JOINED_FOLDER, PACKS_MAX, REF_PREFIX, RENDERED_FOLDER, heal, mirror};
use crate::spec::{SourceSpec, Tip};
use model::artifact::{SeenArtifact, is_artifact, without_digest};
use model::id::CommitId;
use model::text::hexadecimal;

/// How much of a location's digest names its mirror, in bytes.
const MIRROR_NAME_BYTES: usize = 8;
/// How much of a location's own text names its mirror, in characters, as text for users who look.
const MIRROR_TEXT_MAX: usize = 40;

/// A followed branch.
pub struct Source {
    kind: SourceKind,
    last: Option<Tip>,
    /// The last commit whose objects were missing from our copy.
    doubted: Option<CommitId>,
    /// Has what was accepted of a repository that is read in place.
    copies: Option<JoinedRepository>,
}

enum SourceKind {
    Remote(Box<Mirror>),
    Artifact(Box<ArtifactMirror>),
    Local(Local),
    Folder(FolderMirror),
    Away(Away),
}

/// A place on this machine where nothing is now. What was accepted of it is read from a copy.
struct Away {
    spec: SourceSpec,
    state_dir: PathBuf,
    reader: Reader,
}

/// A repository read in place: its refs and objects, never its work tree.
struct Local {
    path: PathBuf,
    spec: SourceSpec,
    state_dir: PathBuf,
    reader: Reader,
}

impl Source {
    /// Determines the kind of the location and opens or creates gitfleet's data for it below `state_dir`.
    ///
    /// Does not use the network and does not wait. A folder inside a repository's work tree is a plain folder; only
    /// the repository's own root is read as a repository.
    ///
    /// # Errors
    /// `UnsupportedLocation`, `InsecureToken`, `PathInvalid`, `AccessFile`: the configuration is wrong. `NotARepository`: nothing is
    /// there, or a repository that cannot be opened; it is never taken for a plain folder then. `Disk`, `Repository`.
    pub fn open(spec: SourceSpec, state_dir: &Path) -> Result<Self, Error> {
        let kind = if is_artifact(&spec.location) {
            let dir = kept_dir(state_dir, "mirrors", &spec.location);
            SourceKind::Artifact(Box::new(ArtifactMirror::open(spec, dir)?))
        } else if spec.location.contains("://") || is_ssh(&spec.location) {
            let dir = kept_dir(state_dir, "mirrors", &spec.location);
            SourceKind::Remote(Box::new(Mirror::open(&spec, dir)?))
        } else {
            open_path(spec, state_dir)?
        };
        Ok(Self { kind, last: None, doubted: None, copies: None })
    }

    /// Opens one of several sources. Where its place on this machine is away, and `copies` has what was `accepted` of it, that is read.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_among(
        spec: SourceSpec,
        state_dir: &Path,
        copies: &JoinedRepository,
        accepted: Option<&CommitId>,
    ) -> Result<Self, Error> {
        let has_copy = accepted.is_some_and(|commit| copies.reader().has(commit));
        let opened = match Self::open(spec.clone(), state_dir) {
            Err(Error::NotARepository { .. }) if has_copy => {
                let kind = away(spec, state_dir, copies)?;
                Self { kind, last: None, doubted: None, copies: None }
            }
            opened => opened?,
        };
        Ok(Self { copies: Some(copies.clone()), ..opened })
    }

    /// Polls the branch; fetches or records new commits. `None` if it has not moved since the last poll.
    ///
    /// The first successful poll of a source always answers. `interrupt` ends a running fetch; a read that blocks ends
    /// by the HTTP client's limits (20 s to connect, 30 s without a byte); over ssh it ends at once.
    ///
    /// # Errors
    /// `EmptyRepository`, `BranchMissing`: nothing to follow; the caller knows whether there ever was. `AccessDenied`,
    /// `Untrusted`, `AccessFile`, `SshProgram`, `Unreachable`, `Timeout`, `Remote`, `NotARepository`, `Artifact`: see there. `Interrupted`. None of them means deletion.
    pub fn poll(&mut self, interrupt: &AtomicBool) -> Result<Option<Tip>, Error> {
        if let SourceKind::Away(Away { spec, state_dir, .. }) = &self.kind {
            self.kind = open_path(spec.clone(), state_dir)?;
        }
        let tip = match &mut self.kind {
            SourceKind::Remote(mirror) => mirror.poll(interrupt)?,
            SourceKind::Artifact(artifact) => Tip { commit: artifact.poll(interrupt)?, branch: None },
            SourceKind::Local(local) => match (local.poll(), &self.copies) {
                (Err(error @ Error::NotARepository { .. }), Some(copies)) => {
                    let spec = local.spec.clone();
                    let state_dir = local.state_dir.clone();
                    self.kind = away(spec, &state_dir, copies)?;
                    self.last = None;
                    return Err(error);
                }
                (polled, _) => polled?,
            },
            SourceKind::Folder(folder) => Tip { commit: folder.poll()?, branch: None },
            // It was opened above.
            SourceKind::Away(_) => return Ok(None),
        };
        if self.last.as_ref() == Some(&tip) {
            return Ok(None);
        }
        self.last = Some(tip.clone());
        Ok(Some(tip))
    }

    /// Uses another token from the next request on; tells whether it is another one. Only remotes have one.
    ///
    /// # Errors
    /// As [`Self::open`]; the token stays as it was.
    pub fn use_token(&mut self, token: SecretString) -> Result<bool, Error> {
        match &mut self.kind {
            SourceKind::Remote(mirror) => mirror.use_token(token),
            SourceKind::Artifact(artifact) => Ok(artifact.use_token(token)),
            SourceKind::Local(_) | SourceKind::Folder(_) | SourceKind::Away(_) => Ok(false),
        }
    }

    /// Marks our copy to be cloned again with the next poll, because part of a commit could not be read. Once per commit: an
    /// object that is still missing then is missing on the remote too. Returns whether it will be cloned again.
    pub fn doubt(&mut self, commit: &CommitId, error: &Error) -> bool {
        if !matches!(error, Error::Repository { .. } | Error::ObjectMissing { .. })
            || self.doubted.as_ref() == Some(commit)
        {
            return false;
        }
        self.doubted = Some(commit.clone());
        match &mut self.kind {
            SourceKind::Remote(mirror) => mirror.doubt(error.in_full()),
            SourceKind::Artifact(artifact) => artifact.folder.damage = Some(error.in_full()),
            SourceKind::Folder(folder) => folder.damage = Some(error.in_full()),
            // A repository of somebody else must not be cloned again.
            SourceKind::Local(_) | SourceKind::Away(_) => return false,
        }
        true
    }

    /// Rebuilds a remote's mirror if fetches have left many packs; tells whether it did.
    ///
    /// The branch is fetched afresh beside, everything else that `refs/gitfleet/` needs is copied and checked, then the
    /// two are swapped: a failure or a crash leaves the old one. Nobody may pin meanwhile. Readers taken before may
    /// miss objects afterwards: take new ones.
    ///
    /// # Errors
    /// As [`Self::poll`]; `ObjectMissing` where a pinned commit is incomplete, then nothing is replaced.
    pub fn compact(&mut self, interrupt: &AtomicBool) -> Result<bool, Error> {
        self.compact_above(PACKS_MAX, interrupt)
    }

    pub(super) fn compact_above(&mut self, packs_max: usize, interrupt: &AtomicBool) -> Result<bool, Error> {
        match &mut self.kind {
            SourceKind::Remote(mirror) => mirror::compact(mirror, packs_max, interrupt),
            _ => Ok(false),
        }
    }

    /// Brings the head of a pull request here, below `refs/gitfleet/pull/`, and returns it. Servers publish it as
    /// `refs/pull/NUMBER/head`, also after its branch is gone. Objects of strangers come with it: ask only where that is wanted.
    ///
    /// # Errors
    /// `PullMissing` where there is no such ref: a local repository read in place rarely has one, a plain folder never.
    /// Otherwise as [`Self::poll`]; `Timeout` after [`PULL_FETCH_TIME_MAX`](super::PULL_FETCH_TIME_MAX).
    pub fn fetch_pull(&mut self, number: u64, interrupt: &AtomicBool) -> Result<CommitId, Error> {
        let (head, reason) = match &mut self.kind {
            SourceKind::Remote(mirror) => (mirror.fetch_pull(number, interrupt)?, "the server publishes no such ref"),
            SourceKind::Local(local) => {
                local.reopen()?;
                (
                    local.reader.published_pull(number)?,
                    "a repository read in place has the refs that are in it; follow the server's URL",
                )
            }
            SourceKind::Folder(_) => (None, "a plain folder has no pull requests; follow the server's URL"),
            SourceKind::Artifact(_) => (None, "an artifact has no pull requests"),
            SourceKind::Away(_) => (None, "the repository is away"),
        };
        head.ok_or_else(|| Error::PullMissing { location: self.reader().location().to_owned(), number, reason })
    }

    /// Tells whether the branch that is checked out is followed, whichever that is.
    pub fn follows_checkout(&self) -> bool {
        matches!(&self.kind, SourceKind::Local(local) if local.spec.branch.is_none())
    }

    /// Tells whether a copy is kept of it, which others that follow it do not see.
    pub fn is_mirrored(&self) -> bool {
        matches!(self.kind, SourceKind::Remote(_) | SourceKind::Artifact(_))
    }

    /// Tells whether what comes after a commit has it as an ancestor: each digest of an artifact stands alone.
    pub fn has_history(&self) -> bool {
        !matches!(self.kind, SourceKind::Artifact(_))
    }

    /// Returns what the last successful poll of an artifact saw.
    pub fn artifact(&self) -> Option<&SeenArtifact> {
        if let SourceKind::Artifact(artifact) = &self.kind { artifact.seen.as_ref() } else { None }
    }

    /// Tells whether its commits can be signed: those of a plain folder are written here, by nobody.
    pub fn may_be_signed(&self) -> bool {
        !matches!(self.kind, SourceKind::Folder(_))
    }

    /// Returns what the last successful poll saw.
    pub fn tip(&self) -> Option<&Tip> {
        self.last.as_ref()
    }

    /// Returns what reads the repository; take a new one after a poll that answered.
    pub fn reader(&self) -> &Reader {
        match &self.kind {
            SourceKind::Remote(mirror) => &mirror.reader,
            SourceKind::Artifact(artifact) => &artifact.folder.reader,
            SourceKind::Local(local) => &local.reader,
            SourceKind::Folder(folder) => &folder.reader,
            SourceKind::Away(away) => &away.reader,
        }
    }

    /// Returns the plain folder and what is excluded from it, or the repository's own folder; `None` for a remote.
    pub(super) fn watched_place(&self) -> Option<(PathBuf, Option<Vec<PathBuf>>)> {
        match &self.kind {
            SourceKind::Remote(_) | SourceKind::Artifact(_) => None,
            SourceKind::Local(local) => Some((local.reader.git_dir(), None)),
            SourceKind::Folder(folder) => Some((folder.dir.clone(), Some(folder.excluded.clone()))),
            // Where nothing is nothing can be watched, and that is said.
            SourceKind::Away(away) => Some((PathBuf::from(&away.spec.location), None)),
        }
    }
}

impl std::ops::Deref for Source {
    type Target = Reader;

    fn deref(&self) -> &Reader {
        self.reader()
    }
}

/// Opens, for reading alone, what this machine has of a source: the repository itself, or the copy that a daemon keeps below
/// `state_dir`. Nothing is created or repaired, so it may be done while a daemon runs.
///
/// # Errors
/// `Repository` where there is none yet, or it cannot be opened.
pub fn read_kept(location: &str, subtree: &str, state_dir: &Path) -> Result<Reader, Error> {
    let path = Path::new(location.strip_prefix("file://").unwrap_or(location));
    let place = match path.canonicalize() {
        Ok(dir) if dir.join("HEAD").is_file() || dir.join(".git").exists() => dir,
        Ok(dir) => kept_dir(state_dir, "folders", &dir.to_string_lossy()),
        Err(_) => kept_dir(state_dir, "mirrors", location),
    };
    let reader = Reader::open(&place, open_options([]), location, subtree)?;
    let rendered = RenderedStore::kept(&state_dir.join(RENDERED_FOLDER));
    Ok(rendered.map_or_else(|| reader.clone(), |rendered| reader.with_rendered(&rendered)))
}

/// Opens what this machine has of several sources, as [`read_kept`] does: their files, and the commits that join them. A source of which
/// there is nothing yet is left out. Each is a location with its subtree.
///
/// # Errors
/// `Repository` where no commit joins them yet.
pub fn read_kept_sources<'a>(
    sources: impl Iterator<Item = (&'a str, &'a str)>,
    state_dir: &Path,
) -> Result<Reader, Error> {
    let dir = state_dir.join(JOINED_FOLDER);
    let joined = Reader::open(&dir, open_options([]), &dir.display().to_string(), ".")?;
    let readers = sources.filter_map(|(location, subtree)| read_kept(location, subtree, state_dir).ok());
    Ok(readers.fold(joined, |all, reader| all.with_blobs_of(&reader)))
}

fn away(spec: SourceSpec, state_dir: &Path, copies: &JoinedRepository) -> Result<SourceKind, Error> {
    let reader = copies.copies_of(&spec)?;
    Ok(SourceKind::Away(Away { spec, state_dir: state_dir.to_owned(), reader }))
}

fn open_path(spec: SourceSpec, state_dir: &Path) -> Result<SourceKind, Error> {
    let path = PathBuf::from(&spec.location);
    let metadata = std::fs::metadata(&path).map_err(|error| Error::not_a_repository(&spec.location, &error))?;
    if !metadata.is_dir() {
        return Err(Error::not_a_repository(&spec.location, &"it is not a folder"));
    }
    let bare = path.join("HEAD").is_file() && path.join("objects").is_dir() && path.join("refs").is_dir();
    if bare || path.join(".git").exists() {
        let reader = match Reader::open(&path, open_options([]), &spec.location, &spec.path) {
            Err(Error::Repository { cause, .. }) => return Err(Error::not_a_repository(&spec.location, &cause)),
            other => other?,
        };
        let local = Local { path, spec, state_dir: state_dir.to_owned(), reader };
        local.repair();
        return Ok(SourceKind::Local(local));
    }
    Ok(SourceKind::Folder(open_folder(spec, state_dir)?))
}

/// Opens or creates the repository for the states of a folder.
fn open_folder(spec: SourceSpec, state_dir: &Path) -> Result<FolderMirror, Error> {
    let dir = Path::new(&spec.location).canonicalize();
    let dir = dir.map_err(|error| Error::not_a_repository(&spec.location, &error))?;
    let kept = kept_dir(state_dir, "folders", &dir.to_string_lossy());
    let (reader, damage) = heal::open(&kept, &open_options([]), &spec.location, &spec.path)?;
    let mut excluded = spec.excluded;
    // It may lie inside of the folder: each state that is recorded there would be a change of the folder.
    excluded.push(state_dir.to_owned());
    let everything = spec.everything;
    Ok(FolderMirror { dir, excluded, everything, kept, reader, damage })
}

/// Records a folder as it stands, also the work tree of a repository, as a commit of a repository below `state_dir`. Returns what reads
/// it. `everything` is as in [`SourceSpec`].
///
/// # Errors
/// `NotARepository` where there is no folder; `EmptyRepository`, `SourceTooLarge`, `Disk`, `Repository`.
pub fn record_folder(dir: &Path, everything: bool, state_dir: &Path) -> Result<(Reader, CommitId), Error> {
    let location = dir.display().to_string();
    let mut folder = open_folder(SourceSpec { location, everything, ..SourceSpec::default() }, state_dir)?;
    let commit = folder.poll()?;
    Ok((folder.reader, commit))
}

/// Returns where our copy of a location is kept. Branch, path and pinned digest do not matter: pins outlive a change of each.
fn kept_dir(state_dir: &Path, folder: &str, location: &str) -> PathBuf {
    let location = without_digest(location);
    let mut name: String = location
        .rsplit("://")
        .next()
        .unwrap_or(location)
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(MIRROR_TEXT_MAX)
        .collect();
    name.push('-');
    name.push_str(&hexadecimal(&Sha256::digest(location.as_bytes())[..MIRROR_NAME_BYTES]));
    state_dir.join(folder).join(name + ".git")
}

impl Local {
    /// Repairs our own refs in it; everything else in it belongs to somebody else.
    fn repair(&self) {
        let dir = self.reader.git_dir();
        // Reading continues: a repository may be read-only for us, and writing a pin says so then.
        if let Err(error) = heal::repair_own_refs(&dir) {
            tracing::warn!(repository = %dir.display(), %error, "gitfleet's own refs in it cannot be read");
        }
    }

    /// Opens the repository again: packs and configuration of the user's repository change under us, and opening is cheap.
    fn reopen(&mut self) -> Result<(), Error> {
        self.reader = match Reader::open(&self.path, open_options([]), &self.spec.location, &self.spec.path) {
            Err(Error::Repository { cause, .. }) => {
                return Err(Error::not_a_repository(&self.spec.location, &cause));
            }
            other => other?,
        };
        self.repair();
        Ok(())
    }

    fn poll(&mut self) -> Result<Tip, Error> {
        self.reopen()?;
        let repo = self.reader.local();
        let reading = Error::at(&self.spec.location, "read the branches of");
        let name = if let Some(branch) = &self.spec.branch {
            full_branch_name(branch)
        } else if let Some(name) = repo.head_name().map_err(&reading)? {
            name.as_bstr().to_str_lossy().into_owned()
        } else {
            let commit = repo.head_commit().map_err(&reading)?;
            return Ok(Tip { commit: CommitId::new(commit.id.to_string()), branch: None });
        };
        let branch = name.strip_prefix("refs/heads/").unwrap_or(&name).to_owned();
        let location = self.spec.location.clone();
        let Ok(full) = gix::refs::FullName::try_from(name.as_str()) else {
            return Err(Error::BranchMissing { location, branch });
        };
        let Some(mut reference) = repo.try_find_reference(full.as_ref()).map_err(&reading)? else {
            return Err(if has_refs(&repo).map_err(&reading)? {
                Error::BranchMissing { location, branch }
            } else {
                Error::EmptyRepository { location }
            });
        };
        let commit = reference.peel_to_commit().map_err(&reading)?;
        Ok(Tip { commit: CommitId::new(commit.id.to_string()), branch: Some(branch) })
    }
}

/// Tells whether a repository has any ref that does not belong to gitfleet.
fn has_refs(repo: &gix::Repository) -> gix::Result<bool> {
    for reference in repo.references()?.all()? {
        if !reference?.name().as_bstr().starts_with(REF_PREFIX.as_bytes()) {
            return Ok(true);
        }
    }
    Ok(false)
}
