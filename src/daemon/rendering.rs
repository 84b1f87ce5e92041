//! Has folders rendered: decides with `source`, asks for results that are kept, and starts programs for the rest.
//!
//! A result is kept under a key: the digest of everything that it depends on, which is program, version, options, and the names and
//! contents of all files that may be read. So the daemon, `plan` and pull requests agree, nothing is rendered twice, and a commit
//! costs the folders that it changed.

mod encrypted;
mod folder;
mod inputs;
mod key;
mod variants;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rayon::prelude::*;

pub use self::encrypted::{encrypted_for_clusters, encryption_errors};
use self::folder::{FolderOutcome, rendered};
pub use self::inputs::{COMMIT_TIME_MAX, Inputs, Lister, Merge, OfCommit, OfMerge, OnDisk, PULL_TIME_MAX};
pub use self::variants::RenderedSource;
use super::commit_reader::Error;
use config::Render;
use git::{Reader, RenderedStore};
use model::folder::below;
use model::id::{BlobId, CommitId};
use model::manifest::InputError;
use model::rendering::{InputFolder, Renderer, Versions};
use render::{Program, Programs};
use source::{KnownMarkers, ParsedBlob, RenderedFolder};

/// Files that one folder may have its program read.
pub const INPUT_FILES_MAX: usize = 10_000;

/// Bytes of these files together.
pub const INPUT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The largest part that a result is divided into, in bytes: each part is read as one file of the source.
pub const PART_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Folders that failed for a reason that is not clear, and are remembered.
const FAILED_MAX: usize = 10_000;

/// The folder of the state folder in which programs work.
const SCRATCH: &str = "scratch";

/// Has folders rendered, or refuses them where no program is configured. Cheap to clone.
#[derive(Clone, Default)]
pub struct Rendering(Option<Arc<Configured>>);

struct Configured {
    versions: Versions,
    programs: Programs,
    place: ResultsPlace,
    /// Opened when something is rendered first.
    store: Mutex<Option<RenderedStore>>,
    /// What was read for commits before.
    markers: Mutex<KnownMarkers>,
    /// How long programs may render for one tree, if not as long as its [`Lister`] says.
    time_max: Option<Duration>,
    /// The keys of folders that failed for a reason that is not clear, and were not started again for want of time.
    failed: Mutex<BTreeSet<String>>,
}

/// Where results are.
enum ResultsPlace {
    /// They are kept below the state folder of the daemon.
    Kept(PathBuf),
    /// They go with this process.
    Scratch(tempfile::TempDir),
}

/// A part of what a folder was rendered to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedFile {
    /// The folder, as the path of its objects; further parts have a number.
    pub path: Arc<str>,
    /// The content.
    pub blob: BlobId,
    /// What rendered it.
    pub renderer: Renderer,
}

impl RenderedFile {
    fn below(self, folder: &str) -> Self {
        Self { path: below(folder, &self.path).into(), ..self }
    }
}

/// What the folders of a commit are rendered to.
#[derive(Clone, Debug, Default)]
pub struct RenderedTree {
    /// All parts, by path.
    pub files: Vec<RenderedFile>,
    /// The keys of the results.
    pub keys: BTreeSet<String>,
    /// The folders whose files the programs take, in the source.
    inputs: BTreeSet<InputFolder>,
    /// The folders, with what they depend on.
    folders: Vec<WantedFolder>,
}

impl RenderedTree {
    /// Returns the tree as the parts are in a folder of another.
    fn below(self, folder: &str) -> Self {
        Self { files: self.files.into_iter().map(|file| file.below(folder)).collect(), ..self }
    }

    /// Returns the parts as files to be read.
    pub fn wanted(&self) -> impl Iterator<Item = (Arc<str>, BlobId)> {
        self.files.iter().map(|file| (Arc::clone(&file.path), file.blob.clone()))
    }

    /// Takes hooks of Helm out of files that were read.
    pub fn without_hooks(
        &self,
        files: Vec<(Arc<str>, BlobId, Arc<ParsedBlob>)>,
    ) -> Vec<(Arc<str>, BlobId, Arc<ParsedBlob>)> {
        let charts = self.files.iter().filter(|file| file.renderer == Renderer::Helm);
        let charts: BTreeSet<(&str, &BlobId)> = charts.map(|file| (&*file.path, &file.blob)).collect();
        let without = |(path, blob, parsed): (Arc<str>, BlobId, Arc<ParsedBlob>)| {
            let parsed = if charts.contains(&(&*path, &blob)) { source::without_hooks(&parsed) } else { parsed };
            (path, blob, parsed)
        };
        files.into_iter().map(without).collect()
    }
}

impl Rendering {
    /// Returns what a configuration asks for. With `state_dir` results are kept there, as only the daemon may; otherwise they go with the
    /// process.
    ///
    /// # Errors
    /// No temporary folder can be made.
    pub fn of(render: Option<&Render>, state_dir: Option<&Path>) -> std::io::Result<Self> {
        let Some(render) = render else { return Ok(Self::default()) };
        let (place, scratch) = if let Some(dir) = state_dir {
            (ResultsPlace::Kept(dir.join(git::RENDERED_FOLDER)), dir.join(SCRATCH))
        } else {
            let dir = tempfile::tempdir()?;
            let scratch = dir.path().join(SCRATCH);
            (ResultsPlace::Scratch(dir), scratch)
        };
        let programs = Programs::new(render.folder.clone(), scratch);
        Ok(Self(Some(Arc::new(Configured {
            versions: render.versions(),
            programs,
            place,
            store: Mutex::default(),
            markers: Mutex::default(),
            time_max: None,
            failed: Mutex::default(),
        }))))
    }

    /// Changes how programs are started: for tests, before anything is rendered.
    #[must_use]
    pub fn with_programs(self, change: impl FnOnce(Programs) -> Programs) -> Self {
        self.changed(|it| Configured { programs: change(it.programs.clone()), ..it })
    }

    /// Changes how long programs may render for one tree: for tests, before anything is rendered.
    #[must_use]
    pub fn within(self, time_max: Duration) -> Self {
        self.changed(|it| Configured { time_max: Some(time_max), ..it })
    }

    fn changed(self, change: impl FnOnce(Configured) -> Configured) -> Self {
        Self(self.0.and_then(Arc::into_inner).map(|it| Arc::new(change(it))))
    }

    /// Tells whether folders are rendered.
    pub fn is_configured(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the version of each program that renders.
    pub fn versions(&self) -> Versions {
        self.0.as_ref().map(|configured| configured.versions.clone()).unwrap_or_default()
    }

    /// Returns a reader that finds results too.
    ///
    /// # Errors
    /// The repository of results cannot be opened.
    pub fn reader(&self, reader: &Reader) -> Result<Reader, git::Error> {
        match &self.0 {
            Some(configured) => Ok(reader.with_rendered(&configured.store()?)),
            None => Ok(reader.clone()),
        }
    }

    /// Returns what parts hold.
    ///
    /// # Errors
    /// The repository of results cannot be read.
    pub fn contents<'a>(
        &self,
        parts: impl IntoIterator<Item = &'a BlobId>,
    ) -> Result<BTreeMap<BlobId, Vec<u8>>, git::Error> {
        let mut parts = parts.into_iter().peekable();
        let Some(configured) = &self.0 else { return Ok(BTreeMap::new()) };
        if parts.peek().is_none() {
            return Ok(BTreeMap::new());
        }
        let store = configured.store()?;
        parts.map(|part| Ok((part.clone(), store.content(part)?))).collect()
    }

    /// Keeps results for as long as their commit is kept.
    ///
    /// # Errors
    /// The repository of results cannot be written.
    pub fn pin(&self, commit: &CommitId, keys: &BTreeSet<String>) -> Result<(), git::Error> {
        match &self.0 {
            Some(configured) if !keys.is_empty() => configured.store()?.pin(commit, keys),
            _ => Ok(()),
        }
    }

    /// Has results written to the disk that no pin follows: of pull requests, and of commits that are refused.
    ///
    /// # Errors
    /// The disk cannot be written.
    pub fn sync(&self) -> Result<(), git::Error> {
        let Some(configured) = &self.0 else { return Ok(()) };
        let opened = configured.store.lock().unwrap_or_else(PoisonError::into_inner).clone();
        opened.map_or(Ok(()), |store| store.sync())
    }

    /// Drops results that no kept commit needs, all but the latest few.
    ///
    /// # Errors
    /// The repository of results cannot be written.
    pub fn retain(&self, is_kept: impl Fn(&CommitId) -> bool) -> Result<(), git::Error> {
        match &self.0 {
            Some(configured) => configured.store()?.retain(is_kept),
            None => Ok(()),
        }
    }

    /// Renders the folders that `markers` ask for, on all cores, those without a result that is kept.
    ///
    /// What is wrong with a folder is added to `errors`; with any the result is incomplete and must not be used.
    ///
    /// # Errors
    /// The files cannot be read, or a program cannot do its work, whatever the folder.
    pub fn render<L: Lister>(
        &self,
        inputs: &mut Inputs<L>,
        markers: &[String],
        errors: &mut Vec<InputError>,
    ) -> Result<RenderedTree, Error> {
        let Some(configured) = &self.0 else { return Ok(RenderedTree::default()) };
        if markers.is_empty() {
            return Ok(RenderedTree::default());
        }
        let folders = {
            let mut said = configured.markers.lock().unwrap_or_else(PoisonError::into_inner);
            source::folders(markers, inputs, &mut said)?
        };
        errors.extend(folders.errors);
        let mut wanted = Vec::new();
        for folder in folders.rendered {
            match configured.wanted(folder, inputs)? {
                Ok(one) => wanted.push(one),
                Err(error) => errors.push(error),
            }
        }
        errors.append(&mut inputs.errors);
        // Programs are not started for a commit that is refused in any case.
        if !errors.is_empty() {
            return Ok(RenderedTree::default());
        }
        let results = configured.results(&wanted, inputs, errors)?;
        Ok(RenderedTree {
            keys: keys(&wanted),
            files: results.into_iter().flatten().collect(),
            inputs: folders.inputs,
            folders: wanted,
        })
    }
}

/// A folder with what it depends on.
#[derive(Clone, Debug)]
struct WantedFolder {
    folder: Arc<RenderedFolder>,
    /// What may be read, by path.
    files: Arc<[(Arc<str>, BlobId)]>,
    /// What else it is rendered with, for clusters.
    values: Option<FilledValues>,
    key: String,
}

/// The values of clusters.
#[derive(Clone, Debug)]
struct FilledValues {
    /// The file that is given to the program in this form.
    path: String,
    /// Its content.
    content: Arc<[u8]>,
    /// Whose values they are, as text for users.
    of: String,
}

impl WantedFolder {
    /// Returns the path that its objects have.
    fn objects_path(&self) -> &str {
        if self.folder.path.is_empty() { "." } else { &self.folder.path }
    }

    /// Returns an error about the folder.
    fn complaint(&self, message: String, hint: &str) -> InputError {
        let message = match &self.values {
            Some(values) => format!("for clusters with {}: {message}", values.of),
            None => message,
        };
        complaint(&self.folder.marker, message, hint)
    }
}

fn keys(wanted: &[WantedFolder]) -> BTreeSet<String> {
    wanted.iter().map(|one| one.key.clone()).collect()
}

impl Configured {
    fn store(&self) -> Result<RenderedStore, git::Error> {
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = &*store {
            return Ok(store.clone());
        }
        let opened = match &self.place {
            ResultsPlace::Kept(dir) => RenderedStore::open(dir)?,
            ResultsPlace::Scratch(dir) => RenderedStore::open(&dir.path().join(git::RENDERED_FOLDER))?,
        };
        Ok(store.insert(opened).clone())
    }

    /// Adds what a folder depends on; the inner error refuses the commit.
    fn wanted<L: Lister>(
        &self,
        folder: RenderedFolder,
        inputs: &mut Inputs<L>,
    ) -> Result<Result<WantedFolder, InputError>, git::Error> {
        let files = inputs.files_in(&folder.reads)?;
        if files.len() > INPUT_FILES_MAX {
            let message =
                format!("{} files may be read to render this folder, the limit is {INPUT_FILES_MAX}", files.len());
            return Ok(Err(complaint(&folder.marker, message, "move what is not part of it elsewhere")));
        }
        let version = self.versions.get(&folder.renderer()).map(String::as_str).unwrap_or_default();
        let key = key::of_folder(&folder, version, &files);
        Ok(Ok(WantedFolder { folder: Arc::new(folder), files: files.into(), values: None, key }))
    }

    /// Returns the parts of each result, those of folders with errors left out.
    fn results<L: Lister>(
        &self,
        wanted: &[WantedFolder],
        inputs: &Inputs<L>,
        errors: &mut Vec<InputError>,
    ) -> Result<Vec<Vec<RenderedFile>>, Error> {
        let store = self.store()?;
        let known = store.get(wanted.iter().map(|one| one.key.as_str()))?;
        // Different inputs may come to the same values.
        let mut seen = BTreeSet::new();
        let missing = wanted.iter().zip(&known).filter(|(one, known)| known.is_none() && seen.insert(&one.key));
        let missing: Vec<&WantedFolder> = missing.map(|(one, _)| one).collect();
        let programs = self.programs_for(&missing)?;
        let mut fresh: BTreeMap<&str, Vec<BlobId>> = BTreeMap::new();
        let made = self.made(&missing, &programs, inputs)?;
        let left = missing.len() - made.len();
        for (one, outcome) in made {
            match outcome {
                FolderOutcome::Rendered(parts) => drop(fresh.insert(&one.key, store.put(&one.key, &parts)?)),
                FolderOutcome::Refused(error) | FolderOutcome::Unclear(error) => errors.push(*error),
            }
        }
        if !fresh.is_empty() && matches!(self.place, ResultsPlace::Kept(_)) {
            tracing::info!(rendered = fresh.len(), folders = wanted.len(), "folders were rendered");
        }
        // A commit that is refused in any case needs no other attempt.
        if left > 0 && errors.is_empty() {
            let folders = missing.len();
            let seconds = self.time_max::<L>().unwrap_or_default().as_secs();
            return Err(render::Error::Unfinished { folders, left, seconds }.into());
        }
        let file = |one: &WantedFolder, (position, blob)| {
            let folder = one.objects_path();
            let path = if position == 0 { folder.to_owned() } else { format!("{folder}#{}", position + 1) };
            RenderedFile { path: path.into(), blob, renderer: one.folder.renderer() }
        };
        let results = wanted.iter().zip(known).map(|(one, known)| {
            let parts = known.or_else(|| fresh.get(one.key.as_str()).cloned()).unwrap_or_default();
            parts.into_iter().enumerate().map(|part| file(one, part)).collect()
        });
        Ok(results.collect())
    }

    /// Renders folders on all cores, and once more, each alone, where a busy machine may have been the cause of a failure. Folders that time
    /// is not enough for are left out; one of them that had its failure is refused with the next, in another attempt.
    fn made<'w, L: Lister>(
        &self,
        missing: &[&'w WantedFolder],
        programs: &[(Renderer, Program)],
        inputs: &Inputs<L>,
    ) -> Result<Vec<(&'w WantedFolder, FolderOutcome)>, Error> {
        let time_max = self.time_max::<L>();
        let attempt = |one: &'w WantedFolder| {
            let is_late = time_max.is_some_and(|time_max| inputs.begun.elapsed() >= time_max);
            if is_late { Ok(None) } else { rendered(one, programs, inputs).map(|outcome| Some((one, outcome))) }
        };
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // Those that failed come last, so that all others have a result then.
        let (last, first): (Vec<_>, Vec<_>) = missing.iter().copied().partition(|one| failed.contains(&one.key));
        let first: Vec<_> = first.par_iter().map(|one| attempt(one)).collect::<Result<_, Error>>()?;
        let last: Vec<_> = last.par_iter().map(|one| attempt(one)).collect::<Result<_, Error>>()?;
        let mut made = Vec::new();
        for (one, outcome) in first.into_iter().chain(last).flatten() {
            let is_first = matches!(outcome, FolderOutcome::Unclear(_)) && !failed.contains(&one.key);
            let settled = if is_first { attempt(one)? } else { Some((one, outcome)) };
            let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
            match settled {
                Some(settled) => {
                    failed.remove(&one.key);
                    made.push(settled);
                }
                // The list is full and is emptied: a folder in it may be started once more.
                None if failed.len() >= FAILED_MAX => failed.clear(),
                None => drop(failed.insert(one.key.clone())),
            }
        }
        Ok(made)
    }

    /// Returns how long programs may render for one tree: for a person who waits for it as long as it takes.
    fn time_max<L: Lister>(&self) -> Option<Duration> {
        let of_tree = matches!(self.place, ResultsPlace::Kept(_)).then_some(L::TIME_MAX);
        self.time_max.or(of_tree)
    }

    /// Returns the programs that folders need: one that nothing needs may be missing.
    fn programs_for(&self, missing: &[&WantedFolder]) -> Result<Vec<(Renderer, Program)>, render::Error> {
        let renderers: BTreeSet<Renderer> = missing.iter().map(|one| one.folder.renderer()).collect();
        let find = |renderer: Renderer| {
            let version = self.versions.get(&renderer).map(String::as_str).unwrap_or_default();
            Ok((renderer, self.programs.find(renderer, version)?))
        };
        renderers.into_iter().map(find).collect()
    }
}

fn complaint(path: &str, message: String, hint: &str) -> InputError {
    let hint = (!hint.is_empty()).then(|| hint.to_owned());
    InputError { path: path.to_owned(), line: 0, object: None, field: None, message, hint }
}

#[cfg(test)]
mod tests;
