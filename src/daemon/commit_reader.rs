//! Reads a commit, or what is on disk, into a checked tree.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rayon::prelude::*;

use self::owners::Owners;
use super::rendering::{Inputs, OfCommit, RenderedSource, Rendering, encryption_errors};
use git::{Blob, Reader};
use member::decryption::Decryption;
use model::id::{BlobId, CommitId};
use model::manifest::InputError;
use model::tree::Tree;
use source::{Budget, Filter, IGNORE_FILE, OwnersSyntax, ParsedBlob, Selection, Weight};

mod candidate;
mod joined;
mod on_disk;
mod owners;
mod payload;
mod varied;
mod versions;

pub use candidate::{read_candidate, read_joined_candidate};
pub use joined::{SourceAt, read_joined};
pub use on_disk::{Survey, read_files, read_folder, survey};
pub use payload::read_payload;

/// Parsed files by blob.
type ParsedBlobs = BTreeMap<BlobId, Arc<ParsedBlob>>;

/// What commits are read with: parsed files, so that a commit costs only what it changed, and what renders folders.
#[derive(Default)]
pub struct Cache {
    parsed: ParsedBlobs,
    rendering: Rendering,
    decryption: Decryption,
    code_owners: Option<OwnersSyntax>,
    /// The results that the commit needs that was read last.
    rendered: BTreeSet<String>,
}

impl Cache {
    /// Creates an empty cache; folders that need a program are errors.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty cache that has folders rendered.
    pub fn rendering(rendering: Rendering) -> Self {
        Self { rendering, ..Self::default() }
    }

    /// Compares encrypted files of commits by the values that they hold. Those of pull requests are compared as they are encrypted: whoever
    /// opens one could have guesses of values checked.
    #[must_use]
    pub fn decrypting(self, decryption: Decryption) -> Self {
        Self { decryption, ..self }
    }

    /// Reads who owns the files of commits, where a syntax is given. Pull requests own nothing: whoever opens one would name approvers.
    #[must_use]
    pub fn owned(self, code_owners: Option<OwnersSyntax>) -> Self {
        Self { code_owners, ..self }
    }

    /// Returns the keys of the results that the commit needs that was read last.
    pub fn rendered(&self) -> &BTreeSet<String> {
        &self.rendered
    }
}

/// Why there is no tree.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The commit has errors: it is refused whole.
    #[error("{} in the files", count(.0.len()))]
    Refused(Vec<InputError>),
    /// The repository or folder cannot be read.
    #[error(transparent)]
    Git(#[from] git::Error),
    /// A program that renders folders is missing or cannot do its work, whatever the files.
    #[error(transparent)]
    Render(#[from] render::Error),
    /// One of several sources cannot be read.
    #[error("source {name}")]
    OfSource {
        /// The name of the source.
        name: String,
        /// Why; it is of no source.
        #[source]
        error: Box<Self>,
    },
}

impl Error {
    /// Returns what is wrong with the files.
    ///
    /// # Errors
    /// They cannot be read at all.
    pub fn refused(self) -> Result<Vec<InputError>, Self> {
        match self {
            Self::Refused(errors) => Ok(errors),
            other => Err(other),
        }
    }

    /// Returns the error without the source that it is of, and the name of that source where one of several cannot be read.
    pub fn of_source(&self) -> (&Self, Option<&str>) {
        match self {
            Self::OfSource { name, error } => (error, Some(name)),
            error => (error, None),
        }
    }

    /// Returns the whole of it as text for users, causes included.
    pub fn in_full(&self) -> String {
        match self {
            Self::Refused(_) => self.to_string(),
            Self::OfSource { name, error } => format!("source {name}: {}", error.in_full()),
            Self::Git(error) => error.in_full(),
            Self::Render(error) => match std::error::Error::source(error) {
                Some(cause) => format!("{error}: {cause}"),
                None => error.to_string(),
            },
        }
    }
}

fn count(errors: usize) -> String {
    if errors == 1 { "1 error".to_owned() } else { format!("{errors} errors") }
}

/// Reads a commit. `cache` keeps parsed files and drops those that the commit no longer has.
///
/// # Errors
/// `Refused` with every error of the commit, `Git` if it cannot be read.
pub fn read_commit(reader: &Reader, commit: &CommitId, cache: &mut Cache) -> Result<Tree, Error> {
    let mut listed = listed(reader, commit, &cache.rendering)?;
    let owners = Owners::read(cache.code_owners, reader, commit, &mut listed)?;
    let differing = versions::differing(reader, commit, &listed, &cache.rendering);
    let mut tree = read_listed(reader, commit, listed, cache, std::convert::identity)?;
    owners.note(&mut tree);
    tree.warnings.extend(differing);
    Ok(tree)
}

/// What a commit has to be read, before it is parsed.
struct ListedFiles<L> {
    selection: Selection,
    wanted: Vec<WantedFile>,
    sources: Vec<RenderedSource<L>>,
    errors: Vec<InputError>,
}

impl<L> Default for ListedFiles<L> {
    fn default() -> Self {
        Self { selection: Selection::default(), wanted: Vec::new(), sources: Vec::new(), errors: Vec::new() }
    }
}

/// Lists the files of a commit, and has its folders rendered.
fn listed<'a>(
    reader: &'a Reader,
    commit: &'a CommitId,
    rendering: &Rendering,
) -> Result<ListedFiles<OfCommit<'a>>, Error> {
    let ignore = ignore_file(reader, commit)?;
    let filter = Filter::new(ignore.as_deref());
    let listing = reader.files(commit, &|path| filter.reads(path)).map_err(refused_if_large)?;
    let (selection, mut wanted) = chosen(listing.files, ignore.as_deref(), rendering);
    // A path that cannot be listed does not end the reading: users get all errors of a commit at once.
    let mut errors = listing.errors;
    let mut inputs = Inputs::new(OfCommit::new(reader, commit), filter);
    let rendered = rendering.render(&mut inputs, &selection.markers, &mut errors).map_err(refused_rendering)?;
    wanted.extend(rendered.wanted());
    Ok(ListedFiles { selection, wanted, sources: vec![RenderedSource::only(inputs, rendered)], errors })
}

/// Parses what was listed. `finish` is applied to each file that was parsed.
fn read_listed(
    reader: &Reader,
    commit: &CommitId,
    listed: ListedFiles<OfCommit<'_>>,
    cache: &mut Cache,
    finish: fn(ParsedFile) -> ParsedFile,
) -> Result<Tree, Error> {
    let ListedFiles { selection, wanted, sources, mut errors } = listed;
    let with_results = cache.rendering.reader(reader)?;
    let mut files = parsed(&with_results, wanted, &cache.parsed, &source::COMMIT, &mut errors)?;
    identify(&mut files, &cache.decryption, &cache.parsed);
    let parsed_now = files.iter().map(|(_, blob, parsed)| (blob.clone(), Arc::clone(parsed))).collect();
    let parsed_before = std::mem::replace(&mut cache.parsed, parsed_now);
    cache.rendered = sources.iter().flat_map(|source| &source.rendered.keys).cloned().collect();
    errors.extend(encryption_errors(sources.iter().map(|source| &source.rendered), &files));
    for source in &sources {
        files = source.rendered.without_hooks(files);
    }
    let files = files.into_iter().map(finish).collect();
    let mut tree = assemble(Some(commit.clone()), &selection, files, errors)?;
    let parse = |wanted, errors: &mut Vec<InputError>| {
        let with_results = cache.rendering.reader(reader)?;
        let files = parsed(&with_results, wanted, &parsed_before, &source::COMMIT, errors)?;
        cache.parsed.extend(files.iter().map(|(_, blob, parsed)| (blob.clone(), Arc::clone(parsed))));
        Ok(files.into_iter().map(finish).collect())
    };
    let keys = varied::add(&mut tree, &cache.rendering, &sources, parse).map_err(refused_rendering)?;
    cache.rendered.extend(keys);
    Ok(tree)
}

/// Adds which values the encrypted files have that are not known.
fn identify(files: &mut [ParsedFile], decryption: &Decryption, known: &ParsedBlobs) {
    let fresh = files
        .par_iter_mut()
        .filter(|(_, blob, parsed)| !known.contains_key(blob) && !parsed.encrypted_files().is_empty());
    fresh.for_each(|(path, _, parsed)| decryption.identify(path, Arc::make_mut(parsed)));
}

/// A file that is to be parsed.
type WantedFile = (Arc<str>, BlobId);

/// A file with its blob and its parsed content.
type ParsedFile = (Arc<str>, BlobId, Arc<ParsedBlob>);

/// Reads and parses the files that the cache lacks, on all cores, within the budget. An unreadable file adds an error.
fn parsed(
    reader: &Reader,
    wanted: Vec<WantedFile>,
    cache: &ParsedBlobs,
    budget: &Budget,
    errors: &mut Vec<InputError>,
) -> Result<Vec<ParsedFile>, Error> {
    // A file with several paths is read once.
    let missing: BTreeMap<BlobId, Arc<str>> = wanted
        .iter()
        .filter(|(_, blob)| !cache.contains_key(blob))
        .map(|(path, blob)| (blob.clone(), path.clone()))
        .collect();
    let (blobs, paths): (Vec<BlobId>, Vec<Arc<str>>) = missing.into_iter().unzip();
    let meter = budget.meter();
    let parse = |position: usize, content: Blob| {
        // The budget is exhausted for all cores: what they still parse is dropped.
        if meter.ran_over() {
            return Ok(Arc::default());
        }
        let content = content.into_content(&paths[position])?;
        Ok::<_, Box<InputError>>(Arc::new(source::parse_blob_within(&content, &meter)))
    };
    let fresh = reader.each_blob(&blobs, parse).map_err(refused_if_large)?;
    if meter.ran_over() {
        // Before the files are read again: both together would exceed the budget.
        drop(fresh);
        errors.push(over_budget(reader, &wanted, cache, budget)?);
        return Err(Error::Refused(sorted(std::mem::take(errors))));
    }
    let mut read = ParsedBlobs::new();
    for (blob, result) in blobs.into_iter().zip(fresh) {
        match result {
            Ok(parsed) => drop(read.insert(blob, parsed)),
            Err(error) => errors.push(*error),
        }
    }
    // The meter counts only values, and a file with two paths once: objects are counted here, path by path.
    let added = wanted.iter().filter_map(|(path, blob)| read.get(blob).map(|parsed| (path.clone(), parsed.weight)));
    if let Some(refusal) = budget.refusal(added) {
        errors.push(refusal);
        return Err(Error::Refused(sorted(std::mem::take(errors))));
    }
    let known = |blob: &BlobId| cache.get(blob).or_else(|| read.get(blob)).cloned();
    Ok(wanted.into_iter().filter_map(|(path, blob)| known(&blob).map(|parsed| (path, blob, parsed))).collect())
}

/// Reads files again one after the other, keeping none, and names the file that exceeds the budget: with parallel reads, which
/// file exceeded it first was random.
fn over_budget(
    reader: &Reader,
    wanted: &[WantedFile],
    cache: &ParsedBlobs,
    budget: &Budget,
) -> Result<InputError, git::Error> {
    let mut failure = None;
    let weight = |(path, blob): &(Arc<str>, BlobId)| match reader.blob(blob) {
        Ok(content) => Some((path.clone(), source::parse_blob(&content).weight)),
        // It has its own error and was never parsed, so it used no budget.
        Err(git::Error::BlobTooLarge { .. }) => Some((path.clone(), Weight::default())),
        Err(error) => {
            failure = Some(error);
            None
        }
    };
    let added = wanted.iter().filter(|(_, blob)| !cache.contains_key(blob));
    let refusal = budget.refusal(added.map_while(weight));
    match failure {
        Some(error) => Err(error),
        None => Ok(refusal.unwrap_or_else(|| budget.complaint(".", "more YAML values", budget.cost.nodes))),
    }
}

/// Turns an object that is too large into a refusal: another attempt would fail the same way.
fn refused_if_large(error: git::Error) -> Error {
    match error {
        git::Error::SourceTooLarge { .. } | git::Error::BlobTooLarge { .. } => {
            Error::Refused(vec![about_the_whole(error.to_string())])
        }
        error => Error::Git(error),
    }
}

/// As [`refused_if_large`], for what rendering needs.
fn refused_rendering(error: Error) -> Error {
    match error {
        Error::Git(error) => refused_if_large(error),
        other => other,
    }
}

/// Creates an error that no single file causes.
pub(super) fn about_the_whole(message: String) -> InputError {
    let hint = Some("take large files out, or add folders to .gitfleetignore".to_owned());
    InputError { path: ".".to_owned(), line: 0, object: None, field: None, message, hint }
}

/// Reads the ignore file; one that is too large is an error, and then nothing is ignored.
fn ignore_file(reader: &Reader, commit: &CommitId) -> Result<Option<Vec<u8>>, Error> {
    reader.file(commit, IGNORE_FILE).map_err(|error| match refused_if_large(error) {
        Error::Refused(errors) => Error::Refused(
            errors.into_iter().map(|error| InputError { path: IGNORE_FILE.to_owned(), ..error }).collect(),
        ),
        error => error,
    })
}

/// Returns the listed files that gitfleet reads, with path and blob.
fn chosen(listed: Vec<git::File>, ignore: Option<&[u8]>, rendering: &Rendering) -> (Selection, Vec<WantedFile>) {
    let blobs: BTreeMap<Arc<str>, BlobId> = listed.into_iter().map(|file| (file.path, file.blob)).collect();
    let selection = source::select_rendering(blobs.keys().map(AsRef::as_ref), ignore, &rendering.versions());
    let read = selection.read.iter().filter_map(|path| blobs.get_key_value(path.as_str()));
    let wanted = read.map(|(path, blob)| (path.clone(), blob.clone())).collect();
    (selection, wanted)
}

fn assemble(
    commit: Option<CommitId>,
    selection: &Selection,
    files: Vec<ParsedFile>,
    errors: Vec<InputError>,
) -> Result<Tree, Error> {
    if errors.is_empty() {
        return source::assemble(commit, selection, files).map_err(|errors| Error::Refused(sorted(errors)));
    }
    // A tree without the unreadable files would look like a request to delete their objects.
    let known = Selection { errors: [selection.errors.clone(), errors.clone()].concat(), ..selection.clone() };
    let more = source::assemble(commit, &known, files).err().unwrap_or_default();
    Err(Error::Refused(sorted([errors, more].concat())))
}

fn sorted(mut errors: Vec<InputError>) -> Vec<InputError> {
    errors.sort();
    errors.dedup();
    errors
}
