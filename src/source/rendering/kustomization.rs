//! Reads what a kustomization names, and refuses what it must not ask for.

use std::collections::BTreeSet;

use serde_json::Value;

use super::complaint;
use crate::blob::BLOB_BYTES_MAX;
use model::manifest::InputError;
use model::yaml;

/// Fields whose elements are files, or folders with a kustomization.
const RESOURCES: [&str; 3] = ["resources", "bases", "components"];

/// Fields whose elements are the same, or the content itself.
const PLUGINS: [&str; 3] = ["generators", "transformers", "validators"];

/// Fields whose elements are files.
const FILES: [&str; 3] = ["crds", "configurations", "patchesstrategicmerge"];

/// Fields whose elements name a file by `path`.
const PATHS: [&str; 3] = ["patches", "patchesjson6902", "replacements"];

/// Fields whose elements are made of files.
const GENERATORS: [&str; 2] = ["configmapgenerator", "secretgenerator"];

/// Fields that start another program.
const CHARTS: [&str; 3] = ["helmcharts", "helmchartinflationgenerator", "helmglobals"];

/// A kustomization, as far as it matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Kustomization {
    /// It is a Component, which only another kustomization includes.
    pub is_component: bool,
    /// The folders that it names; found by its reader.
    pub folders: BTreeSet<String>,
}

/// What a kustomization names, each with its field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct References {
    /// Files or folders.
    pub resources: Vec<(String, String)>,
    /// Files.
    pub files: Vec<(String, String)>,
}

/// Reads a kustomization.
///
/// # Errors
/// It cannot be read, or asks for something that is never done.
pub(super) fn kustomization(path: &str, content: &[u8]) -> Result<(Kustomization, References), Vec<InputError>> {
    let mut reading =
        Reading { path, read: Kustomization::default(), references: References::default(), errors: vec![] };
    let text =
        std::str::from_utf8(content).map_err(|_| vec![complaint(path, "is not UTF-8 text", "save it as UTF-8")])?;
    if text.len() > BLOB_BYTES_MAX {
        return Err(vec![complaint(path, format!("has more than {BLOB_BYTES_MAX} bytes"), "divide it")]);
    }
    for document in yaml::parse_documents(text) {
        match document {
            Ok(document) => reading.document(&document.value),
            Err(error) => {
                reading.errors.push(InputError { line: error.line, ..complaint(path, error.message, "") });
            }
        }
    }
    if reading.errors.is_empty() { Ok((reading.read, reading.references)) } else { Err(reading.errors) }
}

struct Reading<'p> {
    path: &'p str,
    read: Kustomization,
    references: References,
    errors: Vec<InputError>,
}

impl Reading<'_> {
    fn document(&mut self, value: &Value) {
        let Some(fields) = value.as_object() else {
            self.errors.push(complaint(self.path, "is no kustomization", ""));
            return;
        };
        for (name, value) in fields {
            let folded = folded(name);
            let field = folded.as_str();
            if CHARTS.contains(&field) {
                let hint = "put the chart into a folder of its own, with its Chart.yaml: gitfleet renders it";
                self.refuse(name, "Kustomize would start helm, which fetches charts".to_owned(), hint);
            } else if field == "kind" {
                self.read.is_component = value == "Component";
            } else if RESOURCES.contains(&field) {
                for (at, text) in texts(name, value) {
                    self.resource(&at, text);
                }
            } else if PLUGINS.contains(&field) {
                // Several lines are the plugin itself, and name no file.
                for (at, text) in texts(name, value).filter(|(_, text)| !is_inline(text)) {
                    self.resource(&at, text);
                }
            } else if FILES.contains(&field) {
                for (at, text) in texts(name, value).filter(|(_, text)| !is_inline(text)) {
                    self.file(&at, text);
                }
            } else if PATHS.contains(&field) {
                for (at, element) in elements(name, value) {
                    self.file_in(&at, element, "path");
                }
            } else if GENERATORS.contains(&field) {
                for (at, element) in elements(name, value) {
                    for inner in ["files", "env", "envs"] {
                        self.file_in(&at, element, inner);
                    }
                }
            } else if field == "openapi" {
                self.file_in(name, value, "path");
            }
        }
    }

    /// Takes what a field in an element names: one file, or a list of them.
    fn file_in(&mut self, at: &str, element: &Value, wanted: &str) {
        let fields = element.as_object().into_iter().flatten();
        for (name, value) in fields.filter(|(name, _)| folded(name) == wanted) {
            let at = format!("{at}.{name}");
            if let Value::String(text) = value {
                self.file(&at, text);
            }
            for (at, text) in texts(&at, value) {
                // Of files, `key=path` names the key.
                let path = if wanted == "files" { text.split_once('=').map_or(text, |(_, path)| path) } else { text };
                self.file(&at, path);
            }
        }
    }

    fn resource(&mut self, at: &str, text: &str) {
        if is_remote(text) {
            return self.refuse_remote(at, text);
        }
        self.references.resources.push((at.to_owned(), text.to_owned()));
    }

    fn file(&mut self, at: &str, text: &str) {
        if is_remote(text) {
            return self.refuse_remote(at, text);
        }
        if !text.is_empty() {
            self.references.files.push((at.to_owned(), text.to_owned()));
        }
    }

    fn refuse_remote(&mut self, at: &str, text: &str) {
        // An address may hold a password.
        let shown = if text.contains('@') { "an address".to_owned() } else { format!("{text:?}") };
        let hint = "commit what it has, and name that: nothing is fetched while a folder is rendered";
        self.refuse(at, format!("{shown} is remote"), hint);
    }

    fn refuse(&mut self, field: &str, message: String, hint: &str) {
        let error = complaint(self.path, message, hint);
        self.errors.push(InputError { field: Some(field.to_owned()), ..error });
    }
}

/// Returns a field's name as Kustomize compares it: whatever its case, and with the letters that count as `s` and `k`.
///
/// Source: package encoding/json of Go.
pub(super) fn folded(name: &str) -> String {
    let characters = name.chars().map(|c| match c {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        c => c.to_ascii_lowercase(),
    });
    characters.collect()
}

/// Tells whether a text is content and no name of a file.
fn is_inline(text: &str) -> bool {
    text.trim().contains('\n')
}

/// Tells whether Kustomize could take a text for something to fetch: a URL, or a repository in one of git's spellings.
pub(super) fn is_remote(text: &str) -> bool {
    let text = text.trim().to_ascii_lowercase();
    let first = text.split('/').next().unwrap_or_default();
    text.contains("://")
        || text.contains("::")
        || text.contains("?ref=")
        || text.contains("?version=")
        || text.contains("_git/")
        || first.contains(':')
        || first.contains('@')
        || (text.contains('/') && !first.starts_with('.') && ["com", "org"].contains(&last_part(first)))
        || text.split('/').any(|name| name.len() > 4 && last_part(name) == "git")
}

/// Returns what follows the last dot of a name; nothing where it has none.
fn last_part(name: &str) -> &str {
    name.rsplit_once('.').map_or("", |(_, last)| last)
}

/// Returns the texts of a list, each with its place.
fn texts<'v>(name: &str, value: &'v Value) -> impl Iterator<Item = (String, &'v str)> {
    elements(name, value).filter_map(|(at, element)| Some((at, element.as_str()?)))
}

fn elements<'v>(name: &str, value: &'v Value) -> impl Iterator<Item = (String, &'v Value)> {
    let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().enumerate().map(move |(position, element)| (format!("{name}[{position}]"), element))
}
