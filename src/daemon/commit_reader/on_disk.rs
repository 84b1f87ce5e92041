//! Reads folders and files as they stand on disk: for commands, which need no repository.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;

use super::{Error, ParsedFile, assemble, chosen, varied};
use crate::rendering::{Inputs, OnDisk, RenderedSource, Rendering, encryption_errors};
use model::id::BlobId;
use model::manifest::InputError;
use model::tree::{Skipped, Tree};
use model::yaml::Meter;
use source::{Filter, IGNORE_FILE, Selection};

/// All findings about a folder, for `validate`.
#[derive(Debug)]
pub struct Survey {
    /// The tree, or every error in it.
    pub tree: Result<Tree, Vec<InputError>>,
    /// Documents that are no Kubernetes objects, by path and line, even if the tree is refused.
    pub skipped: Vec<Skipped>,
}

/// Reads a folder as it stands on disk, also inside a git checkout.
///
/// # Errors
/// As [`read_commit`](super::read_commit).
pub fn read_folder(dir: &Path, rendering: &Rendering) -> Result<Tree, Error> {
    survey(dir, rendering)?.tree.map_err(Error::Refused)
}

/// Reads the ignore file of a folder on disk.
fn ignore_in(dir: &Path) -> Result<Option<Vec<u8>>, git::Error> {
    let path = dir.join(IGNORE_FILE);
    match std::fs::read(&path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        // Without the ignore file everything it excludes would become part of the plan.
        Err(source) => Err(git::Error::Disk { path, source }),
    }
}

/// Reads a folder as [`read_folder`] does, and returns the skipped documents even if the tree is refused.
///
/// # Errors
/// The folder cannot be read, or a program is missing; never `Refused`.
pub fn survey(dir: &Path, rendering: &Rendering) -> Result<Survey, Error> {
    let ignore = ignore_in(dir)?;
    let filter = Filter::new(ignore.as_deref());
    let mut folder = git::read_folder(dir, &|path| filter.reads(path))?;
    let (selection, mut wanted) = chosen(folder.listing.files, ignore.as_deref(), rendering);
    let mut inputs = Inputs::new(OnDisk::new(dir), filter);
    let rendered = rendering.render(&mut inputs, &selection.markers, &mut folder.listing.errors)?;
    wanted.extend(rendered.wanted());
    folder.contents.extend(rendering.contents(rendered.files.iter().map(|file| &file.blob))?);
    let meter = source::COMMIT.meter();
    let files: Vec<_> = wanted
        .par_iter()
        .filter_map(|(path, blob)| {
            let content = folder.contents.get(blob)?;
            if meter.ran_over() {
                return None;
            }
            Some((path.clone(), blob.clone(), Arc::new(source::parse_blob_within(content, &meter))))
        })
        .collect();
    if meter.ran_over() {
        drop(files);
        let weight = |(path, blob): &(Arc<str>, BlobId)| {
            Some((path.clone(), source::parse_blob(folder.contents.get(blob)?).weight))
        };
        let refusal = source::COMMIT.refusal(wanted.iter().filter_map(weight));
        return Ok(Survey { tree: Err(refusal.into_iter().collect()), skipped: Vec::new() });
    }
    folder.listing.errors.extend(encryption_errors([&rendered], &files));
    let files = rendered.without_hooks(files);
    let skipped = files.iter().flat_map(|(path, _, blob)| source::skipped(path, blob)).collect();
    let tree = assemble(None, &selection, files, folder.listing.errors);
    let tree = match tree.and_then(|tree| varied::on_disk(tree, rendering, RenderedSource::only(inputs, rendered))) {
        Ok(tree) => Ok(tree),
        Err(Error::Refused(errors)) => Err(errors),
        Err(error) => return Err(error),
    };
    Ok(Survey { tree, skipped })
}

/// Reads files that the user named, whatever their names; a folder stands for the files in it that gitfleet reads. `-` is the
/// standard input.
///
/// # Errors
/// As [`read_commit`](super::read_commit); `Git` names the first file that cannot be read.
pub fn read_files(paths: &[PathBuf], rendering: &Rendering) -> Result<Tree, Error> {
    let mut errors = Vec::new();
    let mut files = Vec::new();
    let mut places = Vec::new();
    let meter = source::COMMIT.meter();
    for path in paths {
        let name = path.display().to_string();
        // `assemble` refuses it: what was read weighs more than a commit may.
        if meter.ran_over() {
            break;
        }
        if path.is_dir() {
            let place = name.trim_end_matches('/').to_owned();
            files.extend(files_of_folder(path, &place, rendering, &meter, &mut errors)?);
            places.push(place);
            continue;
        }
        let content = if name == "-" { read_input() } else { std::fs::read(path) };
        let content = content.map_err(|source| git::Error::Disk { path: path.clone(), source })?;
        let parsed = source::parse_blob_within(&content, &meter);
        // These files are in no repository: their names identify them as well as blob ids would.
        files.push((name.as_str().into(), BlobId::from(name.as_str()), Arc::new(parsed)));
    }
    assemble(None, &Selection { places: Some(places), ..Selection::default() }, files, errors)
}

/// Parses the files of a folder that gitfleet reads, with paths below `place`.
fn files_of_folder(
    dir: &Path,
    place: &str,
    rendering: &Rendering,
    meter: &Meter<'_>,
    errors: &mut Vec<InputError>,
) -> Result<Vec<ParsedFile>, Error> {
    let ignore = ignore_in(dir)?;
    let filter = Filter::new(ignore.as_deref());
    let mut folder = git::read_folder(dir, &|file| filter.reads(file))?;
    errors.extend(folder.listing.errors);
    let (selection, mut wanted) = chosen(folder.listing.files, ignore.as_deref(), rendering);
    errors.extend(selection.errors);
    let rendered = rendering.render(&mut Inputs::new(OnDisk::new(dir), filter), &selection.markers, errors)?;
    wanted.extend(rendered.wanted());
    folder.contents.extend(rendering.contents(rendered.files.iter().map(|file| &file.blob))?);
    let parsed = |(file, blob): (Arc<str>, BlobId)| {
        let parsed = source::parse_blob_within(folder.contents.get(&blob)?, meter);
        Some((format!("{place}/{file}").into(), blob, Arc::new(parsed)))
    };
    Ok(wanted.into_iter().filter_map(parsed).collect())
}

fn read_input() -> std::io::Result<Vec<u8>> {
    let mut content = Vec::new();
    std::io::stdin().read_to_end(&mut content).map(|_| content)
}
