//! Selects the files of a commit that are read, by their names.

use std::collections::{BTreeMap, BTreeSet};

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use model::manifest::InputError;
use model::rendering::{HELM_FILE, RELEASE_FILE, Renderer, Versions};

/// The ignore file at the root of the subtree; gitignore syntax.
pub const IGNORE_FILE: &str = ".gitfleetignore";

/// The greatest number of files of one source. More is a mistake in `path`, and would fill the memory.
pub const FILES_MAX: usize = 20_000;

/// Folders a path may go through.
pub const PATH_DEPTH_MAX: usize = 32;

/// Bytes of [`IGNORE_FILE`]: each pattern compiles to an automaton of many times its length.
pub(crate) const IGNORE_BYTES_MAX: usize = 32 * 1024;

/// Patterns of [`IGNORE_FILE`]: each is tried on every path.
pub(crate) const IGNORE_PATTERNS_MAX: usize = 1_000;

/// Extensions of files that are read.
const EXTENSIONS: [&str; 3] = [".yaml", ".yml", ".json"];

/// The files to read, and errors in the names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Paths to read, sorted.
    pub read: Vec<String>,
    /// The files that ask for a program to render their folder, sorted.
    pub markers: Vec<String>,
    /// Every complaint that needs no content.
    pub errors: Vec<InputError>,
    /// `None` if the files are a source. Else they are of several places, and these are the folders among them: `gitfleet.io/path` counts
    /// from there, and may name what is not among the files.
    pub places: Option<Vec<String>>,
}

impl Selection {
    /// Returns a path as `gitfleet.io/path` counts it.
    pub(super) fn within_place<'a>(&self, path: &'a str) -> &'a str {
        let places = self.places.iter().flatten();
        let below = places.filter_map(|place| path.strip_prefix(place.as_str())?.strip_prefix('/'));
        below.min_by_key(|rest| rest.len()).unwrap_or(path)
    }
}

/// A filter of paths that may be read, for use before the listing.
#[derive(Clone, Debug)]
pub struct Filter {
    ignored: Gitignore,
}

impl Filter {
    /// Takes the content of [`IGNORE_FILE`]; [`select`] reports lines that are no patterns.
    pub fn new(ignore_file: Option<&[u8]>) -> Self {
        Self { ignored: ignore_rules(ignore_file.unwrap_or_default(), &mut Vec::new()) }
    }

    /// Tells whether the ignore file names a path or a folder above it.
    pub fn ignores(&self, path: &str) -> bool {
        !is_odd(path) && self.ignored.matched_path_or_any_parents(path, false).is_ignore()
    }

    /// Tells whether a file is read, or would be if its folder needed no rendering.
    pub fn reads(&self, path: &str) -> bool {
        let candidate = EXTENSIONS.iter().any(|end| path.ends_with(end)) || Renderer::of_file(name(path)).is_some();
        // The matcher panics on an absolute path. Odd paths continue to `select`, which complains of them.
        candidate && !self.ignores(path)
    }
}

/// Returns the files of a subtree that are read.
///
/// `listing` has the paths of all its files, from its root, with slashes; `ignore_file` is what [`IGNORE_FILE`] holds.
/// Names that start with a dot, and everything in folders so named, are never read. A folder that has to be rendered first
/// is an error and not a guess: a guess would deliver, or delete, the wrong thing. [`select_rendering`] has it rendered.
pub fn select<'a>(listing: impl IntoIterator<Item = &'a str>, ignore_file: Option<&[u8]>) -> Selection {
    select_rendering(listing, ignore_file, &Versions::new())
}

/// As [`select`], where folders of these programs are rendered: they are named by `markers`, and no file in or below them is read.
pub fn select_rendering<'a>(
    listing: impl IntoIterator<Item = &'a str>,
    ignore_file: Option<&[u8]>,
    versions: &Versions,
) -> Selection {
    let mut errors = Vec::new();
    let filter = Filter { ignored: ignore_rules(ignore_file.unwrap_or_default(), &mut errors) };
    let mut paths: Vec<&str> = listing.into_iter().filter(|path| !is_hidden(path)).collect();
    paths.sort_unstable();
    paths.dedup();
    paths.retain(|path| filter.reads(path));
    let (markers, rendered) = rendered_folders(&paths, versions, &mut errors);
    let mut read: Vec<String> = Vec::new();
    let mut folded: BTreeMap<String, &str> = BTreeMap::new();
    for path in paths {
        if Renderer::of_file(name(path)).is_some() || is_below_one(path, &rendered) {
            continue;
        }
        if is_odd(path) {
            errors.push(odd(path));
            continue;
        }
        // A checkout on a file system that ignores case keeps only one of the two.
        if let Some(other) = folded.insert(path.to_lowercase(), path) {
            let message = format!("differs from {other} in capital letters only");
            errors.push(complaint(path, message, "rename one of the two"));
        }
        read.push(path.to_owned());
    }
    if read.len() > FILES_MAX {
        let message = format!("{} files are to be read, the limit is {FILES_MAX}", read.len());
        errors.push(complaint("", message, "narrow `source.path`, or add folders to .gitfleetignore"));
    }
    Selection { read, markers, errors, places: None }
}

/// Tells whether a path stands below a folder of a set; each with a slash at the end, the root as an empty text.
fn is_below_one(path: &str, folders: &BTreeSet<&str>) -> bool {
    folders.contains("") || path.match_indices('/').any(|(slash, _)| folders.contains(&path[..=slash]))
}

/// Tells whether a file is of a chart that another of the charts depends on.
fn is_vendored(path: &str, charts: &BTreeSet<&str>) -> bool {
    let inside = charts.iter().filter_map(|chart| path.strip_prefix(chart));
    inside.into_iter().any(|path| path.split('/').any(|part| part == "charts"))
}

fn odd(path: &str) -> InputError {
    let message = format!("the path is absolute, has more than {PATH_DEPTH_MAX} folders, or an odd part");
    complaint(path, message, "rename the file, or add it to .gitfleetignore")
}

fn complaint(path: &str, message: String, hint: &str) -> InputError {
    InputError { path: path.to_owned(), line: 0, object: None, field: None, message, hint: Some(hint.to_owned()) }
}

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn is_hidden(path: &str) -> bool {
    path.split('/').any(|part| part.starts_with('.') && part != "..")
}

/// Tells whether a path cannot be a key: it would mean something else, or nothing, on a file system.
fn is_odd(path: &str) -> bool {
    path.split('/').any(|part| part.is_empty() || part == ".." || part.contains(['\\', '\0']))
        || path.split('/').count() > PATH_DEPTH_MAX + 1
}

fn ignore_rules(content: &[u8], errors: &mut Vec<InputError>) -> Gitignore {
    let Ok(text) = std::str::from_utf8(content) else {
        errors.push(complaint(IGNORE_FILE, "is not UTF-8 text".to_owned(), "save it as UTF-8"));
        return Gitignore::empty();
    };
    let patterns = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')).count();
    let over = [(content.len(), IGNORE_BYTES_MAX, "bytes"), (patterns, IGNORE_PATTERNS_MAX, "patterns")];
    if let Some((held, max, of_what)) = over.into_iter().find(|(held, max, _)| held > max) {
        let hint = "name folders instead of files, or narrow `source.path`";
        errors.push(complaint(IGNORE_FILE, format!("has {held} {of_what}, the limit is {max}"), hint));
        return Gitignore::empty();
    }
    let mut builder = GitignoreBuilder::new("");
    for (number, line) in (1u32..).zip(text.lines()) {
        if let Err(error) = builder.add_line(None, line) {
            let complaint =
                complaint(IGNORE_FILE, format!("{line:?} is not a pattern: {error}"), "use gitignore syntax");
            errors.push(InputError { line: number, ..complaint });
        }
    }
    builder.build().unwrap_or_else(|error| {
        errors.push(complaint(IGNORE_FILE, format!("the patterns do not work together: {error}"), "simplify them"));
        Gitignore::empty()
    })
}

/// Returns the files that ask for rendering, and their folders with a slash at the end. Where no version of the program is
/// given the topmost folder is an error; the root is then no folder, because it cannot be ignored as a whole.
fn rendered_folders<'a>(
    paths: &[&'a str],
    versions: &Versions,
    errors: &mut Vec<InputError>,
) -> (Vec<String>, BTreeSet<&'a str>) {
    let mut markers = Vec::new();
    let mut folders = BTreeSet::new();
    let mut refused: BTreeSet<&str> = BTreeSet::new();
    let mut charts: BTreeSet<&str> = BTreeSet::new();
    let mut found: Vec<(&str, Renderer)> =
        paths.iter().filter_map(|path| Some((*path, Renderer::of_file(name(path))?))).collect();
    // A folder comes before what is below it.
    found.sort_by_key(|(path, _)| (path.matches('/').count(), *path));
    for (path, renderer) in found {
        let folder = &path[..path.len() - name(path).len()];
        // What is below a chart is part of it: the charts that it depends on, templates, examples.
        let is_part = !folder.is_empty() && is_below_one(folder.trim_end_matches('/'), &charts);
        if is_part || is_below_one(folder, &refused) {
            if is_part && name(path) == RELEASE_FILE && !is_vendored(path, &charts) {
                let message = "stands in a folder of a chart, and is a part of it".to_owned();
                let hint = "put it beside the Chart.yaml, or into a folder outside of the chart";
                errors.push(complaint(path, message, hint));
            }
            continue;
        }
        if is_odd(path) {
            errors.push(odd(path));
            continue;
        }
        if versions.contains_key(&renderer) {
            markers.push(path.to_owned());
            folders.insert(folder);
            if name(path) == HELM_FILE {
                charts.insert(folder);
            }
            continue;
        }
        let line = if folder.is_empty() { format!("/{path}") } else { format!("/{folder}") };
        let program = renderer.program();
        let message =
            format!("this folder has to be rendered by {}, and no version of it is configured", renderer.title());
        let hint = format!(
            "set `render: {{{program}: VERSION}}` in gitfleet.yaml; or add the line `{}` to {IGNORE_FILE}, and commit the \
             rendered manifests elsewhere",
            escaped(&line)
        );
        errors.push(complaint(path, message, &hint));
        if !folder.is_empty() {
            refused.insert(folder);
            folders.insert(folder);
        }
    }
    markers.sort_unstable();
    (markers, folders)
}

/// Returns a path as a gitignore line that means it and nothing else.
fn escaped(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for character in path.chars() {
        if matches!(character, '*' | '?' | '[' | '\\') {
            text.push('\\');
        }
        text.push(character);
    }
    text
}

#[cfg(test)]
mod tests;
