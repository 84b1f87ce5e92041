//! Decides which folders of a tree are rendered, what their program reads, and what it must not be given.
//!
//! A folder with a kustomization is rendered unless another kustomization of the tree names it (as resource, base, component, or as a
//! folder of generators, transformers or validators), or it is a Component: it is then an input of the other. A folder with a chart is
//! rendered unless it lies below another chart, is a library, or a release names it: a folder with that file is rendered in its place. What a program could fetch, run or read elsewhere is refused here,
//! before the program is started.

mod chart;
mod encrypted;
mod hooks;
mod inputs;
mod kustomization;
mod release;
mod secrets;
mod values;

use std::collections::{BTreeMap, BTreeSet};

use self::chart::Chart;
use self::kustomization::{Kustomization, References, kustomization};
use self::release::ReleaseFile;
use model::folder::folder_of;
use model::id::BlobId;
use model::manifest::InputError;
use model::rendering::{
    Capabilities, HELM_FILE, InputFolder, KUSTOMIZE_FILES, RELEASE_FILE, RELEASE_NAMESPACE, Release, Renderer,
};

pub use encrypted::{encrypted_value_in_chart, with_encrypted_files};
pub use hooks::without_hooks;
pub use inputs::refused_input;
pub use secrets::hide_secrets;
pub use values::{FILLED_BYTES_MAX, VALUES_BYTES_MAX, ValuesTemplate};

/// Folders that one kustomization may reach through others.
pub(crate) const REACHED_MAX: usize = 1_000;

/// Kustomizations, charts and releases of which it is known what they say, each; with more, all are read again.
const KNOWN_MAX: usize = 20_000;

/// The files of a tree, as far as they are asked for. Paths are relative to the root of the source's subtree.
pub trait Files {
    /// Why files cannot be read.
    type Error;

    /// Lists all files in and below a folder, sorted; the root is an empty text. A folder that is not there has none.
    fn below(&mut self, folder: &str) -> Result<Vec<String>, Self::Error>;

    /// Identifies what a listed file holds: equal ids are equal contents. `None` where there is no such file.
    fn id(&mut self, path: &str) -> Result<Option<BlobId>, Self::Error>;

    /// Returns the content of a listed file; `None` where it cannot be read, which is a complaint of its own.
    fn content(&mut self, path: &str) -> Result<Option<Vec<u8>>, Self::Error>;
}

/// What kustomizations, charts and releases say, by path and content: nearly all of a commit stood in the one before.
#[derive(Debug, Default)]
pub struct KnownMarkers {
    kustomizations: SaidByFile<Result<(Kustomization, References), Vec<InputError>>>,
    charts: SaidByFile<Result<Chart, Box<InputError>>>,
    releases: SaidByFile<Result<ReleaseFile, Vec<InputError>>>,
}

/// What files say, by path and content.
type SaidByFile<T> = BTreeMap<(String, BlobId), T>;

/// A folder to render.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedFolder {
    /// Its path; the root is an empty text.
    pub path: String,
    /// The file that asks for it.
    pub marker: String,
    /// What Helm renders there; Kustomize renders the folder where there is none.
    pub release: Option<Release>,
    /// What the program may read: folders, each with everything below it, and files.
    pub reads: BTreeSet<String>,
}

impl RenderedFolder {
    /// Returns what renders it.
    pub fn renderer(&self) -> Renderer {
        if self.release.is_some() { Renderer::Helm } else { Renderer::Kustomize }
    }
}

/// The folders to render, by path, and everything that refuses the commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folders {
    /// The folders.
    pub rendered: Vec<RenderedFolder>,
    /// The folders whose files are the input of others or of themselves.
    pub inputs: BTreeSet<InputFolder>,
    /// Every complaint that needs no program.
    pub errors: Vec<InputError>,
}

/// Returns the folders that the files in `markers` ask to be rendered; see the module. `said` has what was read for other commits.
///
/// # Errors
/// Those of `files`.
pub fn folders<F: Files>(markers: &[String], files: &mut F, said: &mut KnownMarkers) -> Result<Folders, F::Error> {
    let mut resolver = Resolver { files, said, known: BTreeMap::new(), found: Folders::default() };
    let mut by_folder: BTreeMap<&str, Vec<&String>> = BTreeMap::new();
    for marker in markers {
        by_folder.entry(folder_of(marker)).or_default().push(marker);
    }
    let mut kustomizations = Vec::new();
    let mut charts = Vec::new();
    let mut releases = Vec::new();
    for (folder, markers) in by_folder {
        let names: Vec<&str> = markers.iter().map(|path| name(path)).collect();
        match names.as_slice() {
            [HELM_FILE] => charts.push((folder, markers[0])),
            [RELEASE_FILE] => releases.push((folder, markers[0])),
            // The release says how the chart beside it is rendered.
            [HELM_FILE, RELEASE_FILE] => releases.push((folder, markers[1])),
            [_] => kustomizations.push((folder, markers[0])),
            several => {
                let message = format!("the folder has {}, so what renders it is not clear", several.join(" and "));
                resolver.complain(markers[0], message, "keep one of them");
            }
        }
    }
    let with_release = resolver.releases(&releases)?;
    for (folder, marker) in charts {
        resolver.chart(folder, marker, with_release.contains(folder))?;
    }
    resolver.kustomizations(&kustomizations)?;
    let mut found = resolver.found;
    found.rendered.sort_by(|a, b| a.path.cmp(&b.path));
    found.errors.sort();
    found.errors.dedup();
    Ok(found)
}

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Joins a folder and what is in it.
fn joined(folder: &str, below: &str) -> String {
    if folder.is_empty() { below.to_owned() } else { format!("{folder}/{below}") }
}

/// Tells whether a path is in or below a folder.
fn is_in(path: &str, folder: &str) -> bool {
    folder.is_empty() || path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// Returns where a relative path leads from a folder; `None` where it leads out of the tree.
fn resolved(folder: &str, relative: &str) -> Option<String> {
    let mut names: Vec<&str> = folder.split('/').filter(|name| !name.is_empty()).collect();
    for name in relative.split('/') {
        match name {
            "" | "." => {}
            ".." => drop(names.pop()?),
            name => names.push(name),
        }
    }
    Some(names.join("/"))
}

/// Returns where a path leads from a folder; `None` where that is out of the source.
fn in_source(folder: &str, path: &str) -> Option<String> {
    if path.starts_with('/') { None } else { resolved(folder, path) }
}

fn complaint(path: &str, message: impl Into<String>, hint: &str) -> InputError {
    let hint = (!hint.is_empty()).then(|| hint.to_owned());
    InputError { path: path.to_owned(), line: 0, object: None, field: None, message: message.into(), hint }
}

struct Resolver<'f, F> {
    files: &'f mut F,
    said: &'f mut KnownMarkers,
    /// Kustomizations that were read, by folder.
    known: BTreeMap<String, Option<Kustomization>>,
    found: Folders,
}

impl<F: Files> Resolver<'_, F> {
    /// Notes that a kustomization or a chart takes the files of a folder.
    fn takes(&mut self, marker: &str, folder: &str) {
        self.found.inputs.insert(InputFolder { marker: marker.to_owned(), folder: folder.to_owned() });
    }

    fn complain(&mut self, path: &str, message: impl Into<String>, hint: &str) {
        self.found.errors.push(complaint(path, message, hint));
    }

    /// Returns what a file says, and reads it unless that is known.
    fn said<T: Clone>(
        &mut self,
        path: &str,
        of: fn(&mut KnownMarkers) -> &mut SaidByFile<T>,
        read: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, F::Error> {
        let key = self.files.id(path)?.map(|id| (path.to_owned(), id));
        if let Some(known) = key.as_ref().and_then(|key| of(self.said).get(key)) {
            return Ok(known.clone());
        }
        // Asked for again with the next commit, which needs the complaint too.
        let Some(content) = self.files.content(path)? else { return Ok(read(&[])) };
        let said = read(&content);
        if let Some(key) = key {
            let known = of(self.said);
            if known.len() >= KNOWN_MAX {
                known.clear();
            }
            known.insert(key, said.clone());
        }
        Ok(said)
    }

    /// Takes a chart. One that a release names is its input.
    fn chart(&mut self, folder: &str, marker: &str, is_released: bool) -> Result<(), F::Error> {
        let Some(chart) = self.vendored_chart(folder, marker)? else { return Ok(()) };
        self.takes(marker, folder);
        if !chart.is_library && !is_released {
            let name = if folder.is_empty() { chart.name } else { name(folder).to_owned() };
            self.found.rendered.push(RenderedFolder {
                path: folder.to_owned(),
                marker: marker.to_owned(),
                release: Some(Release {
                    chart: folder.to_owned(),
                    name,
                    namespace: RELEASE_NAMESPACE.to_owned(),
                    values: Vec::new(),
                    capabilities: Capabilities::default(),
                }),
                reads: BTreeSet::from([folder.to_owned()]),
            });
        }
        Ok(())
    }

    /// Reads a chart, and complains of dependencies that are not there.
    fn vendored_chart(&mut self, folder: &str, marker: &str) -> Result<Option<Chart>, F::Error> {
        match self.said(marker, |said| &mut said.charts, |content| chart::chart(marker, content))? {
            Ok(chart) => {
                let below = self.files.below(&joined(folder, "charts"))?;
                self.found.errors.extend(chart.not_vendored(marker, folder, &below));
                Ok(Some(chart))
            }
            Err(error) => {
                self.found.errors.push(*error);
                Ok(None)
            }
        }
    }

    fn kustomizations(&mut self, markers: &[(&str, &String)]) -> Result<(), F::Error> {
        let mut referenced = BTreeSet::new();
        let mut reached = Vec::new();
        for (folder, marker) in markers {
            let reads = self.reached(folder)?;
            if let Some(circle) = self.circle(folder) {
                let message = format!("the kustomization leads back to itself: {}", circle.join(" -> "));
                self.complain(marker, message, "take one of the references out");
            }
            referenced.extend(reads.iter().filter(|read| *read != folder).cloned());
            reached.push((*folder, *marker, reads));
        }
        for (folder, marker, reads) in reached {
            let is_component = self.known.get(folder).is_some_and(|it| it.as_ref().is_some_and(|it| it.is_component));
            if !is_component && !referenced.contains(folder) {
                self.found.rendered.push(RenderedFolder {
                    path: folder.to_owned(),
                    marker: marker.clone(),
                    release: None,
                    reads,
                });
            }
        }
        Ok(())
    }

    /// Returns the folders that a kustomization reads: its own, and those it names, directly or not.
    fn reached(&mut self, folder: &str) -> Result<BTreeSet<String>, F::Error> {
        let mut reads = BTreeSet::new();
        let mut next = vec![folder.to_owned()];
        while let Some(folder) = next.pop() {
            if reads.len() > REACHED_MAX {
                let message = format!("the kustomization reaches more than {REACHED_MAX} folders");
                self.complain(&folder, message, "divide it");
                break;
            }
            self.read(&folder)?;
            if let Some(Some(kustomization)) = self.known.get(&folder) {
                next.extend(kustomization.folders.iter().filter(|it| !reads.contains(*it)).cloned());
            }
            reads.insert(folder);
        }
        Ok(reads)
    }

    /// Returns the way from a folder back to itself.
    fn circle(&self, folder: &str) -> Option<Vec<String>> {
        let mut seen = BTreeSet::new();
        let mut ways = vec![vec![folder.to_owned()]];
        while let Some(way) = ways.pop() {
            let last = way.last()?;
            let Some(Some(kustomization)) = self.known.get(last) else { continue };
            for next in &kustomization.folders {
                let longer: Vec<String> = way.iter().chain([next]).cloned().collect();
                if next == folder {
                    return Some(longer.into_iter().map(|it| if it.is_empty() { ".".into() } else { it }).collect());
                }
                if seen.insert(next.clone()) {
                    ways.push(longer);
                }
            }
        }
        None
    }

    /// Reads the kustomization of a folder, once.
    fn read(&mut self, folder: &str) -> Result<(), F::Error> {
        if self.known.contains_key(folder) {
            return Ok(());
        }
        let below = self.files.below(folder)?;
        let marker = KUSTOMIZE_FILES.iter().map(|name| joined(folder, name)).find(|path| below.contains(path));
        let read = match marker {
            // The program says that there is none.
            None => None,
            Some(marker) => self.understood(folder, &marker, &below)?,
        };
        self.known.insert(folder.to_owned(), read);
        Ok(())
    }

    fn understood(&mut self, folder: &str, marker: &str, below: &[String]) -> Result<Option<Kustomization>, F::Error> {
        let said = self.said(marker, |said| &mut said.kustomizations, |content| kustomization(marker, content))?;
        let (mut read, references) = match said {
            Ok(read) => read,
            Err(errors) => {
                self.found.errors.extend(errors);
                return Ok(None);
            }
        };
        self.takes(marker, folder);
        for (field, reference) in references.files {
            if !in_source(folder, &reference).is_some_and(|path| is_in(&path, folder)) {
                let message = format!("{reference:?} is not in or below the folder of the kustomization");
                let hint =
                    "Kustomize reads files nowhere else: move it, or make its folder a kustomization and name that";
                self.found.errors.push(InputError { field: Some(field), ..complaint(marker, message, hint) });
            }
        }
        for (field, reference) in references.resources {
            let Some(place) = in_source(folder, &reference) else {
                let message = format!("{reference:?} leads out of the source's path");
                let error =
                    complaint(marker, message, "put it below `source.path`, or set that to a folder above both");
                self.found.errors.push(InputError { field: Some(field), ..error });
                continue;
            };
            if below.contains(&place) {
                continue;
            }
            let is_folder = below.iter().any(|path| is_in(path, &place)) || !self.files.below(&place)?.is_empty();
            if is_folder {
                self.takes(marker, &place);
                read.folders.insert(place);
                continue;
            }
            let message =
                format!("{reference:?} is no file in or below the folder of the kustomization, and no folder");
            let hint = "commit what is missing, remote bases too; Kustomize reads a file elsewhere only where its folder is a kustomization, \
                        and that is named";
            self.found.errors.push(InputError { field: Some(field), ..complaint(marker, message, hint) });
        }
        Ok(Some(read))
    }
}

#[cfg(test)]
mod tests;
