//! Reads the file that says how a chart is rendered: which chart, its name and namespace, files of values, and for what clusters.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::{Chart, Files, RenderedFolder, Resolver, complaint, in_source, is_in, joined, name};
use model::api::check::{is_dns_label, is_dns_subdomain};
use model::manifest::InputError;
use model::rendering::{Capabilities, HELM_FILE, RELEASE_NAMESPACE, Release};
use model::yaml;
use model::yaml::FieldError;

/// The longest name of a release, in characters.
///
/// Source: Helm, `ValidateReleaseName`, which takes DNS subdomains.
const NAME_LENGTH_MAX: usize = 53;

/// Files of values that one release may have.
const VALUES_MAX: usize = 32;

/// The longest version of Kubernetes, in bytes.
const KUBE_VERSION_LENGTH_MAX: usize = 63;

/// API versions that one release may name.
const API_VERSIONS_MAX: usize = 256;

/// What the file says. Its paths are relative to its folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ReleaseFile {
    /// The folder of the chart; that of the file by default.
    pub chart: Option<String>,
    /// The name; that of the folder by default.
    pub name: Option<String>,
    /// The namespace.
    pub namespace: Option<String>,
    /// Files of values.
    #[serde(default)]
    pub values: Vec<String>,
    /// The version of Kubernetes that templates read.
    pub kube_version: Option<String>,
    /// API versions that templates find.
    #[serde(default)]
    pub api_versions: Vec<String>,
}

/// Reads a file.
///
/// # Errors
/// Everything that is wrong with it, with lines.
fn release(path: &str, content: &[u8]) -> Result<ReleaseFile, Vec<InputError>> {
    let text =
        std::str::from_utf8(content).map_err(|_| vec![complaint(path, "is not UTF-8 text", "save it as UTF-8")])?;
    let mut documents = yaml::parse_documents(text).into_iter();
    let Some(document) = documents.next() else { return Ok(ReleaseFile::default()) };
    let document =
        document.map_err(|error| vec![InputError { line: error.line, ..complaint(path, error.message, "") }])?;
    if documents.next().is_some() {
        return Err(vec![complaint(path, "has several documents", "give each release a folder of its own")]);
    }
    let read = yaml::typed::<ReleaseFile>(&document.value).and_then(|read| {
        let errors = wrong(&read);
        if errors.is_empty() { Ok(read) } else { Err(errors) }
    });
    read.map_err(|errors| {
        let errors = errors.into_iter().map(|error| InputError {
            line: yaml::line_of(text, document.line, &error.field),
            field: Some(error.field).filter(|field| !field.is_empty()),
            hint: error.hint,
            ..complaint(path, error.message, "")
        });
        errors.collect()
    })
}

fn wrong(read: &ReleaseFile) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if read.name.as_ref().is_some_and(|name| !is_dns_subdomain(name) || name.len() > NAME_LENGTH_MAX) {
        let message = format!("must be a DNS subdomain of at most {NAME_LENGTH_MAX} characters");
        errors.push(FieldError::new("name", message).hint("use small letters, digits, dashes and dots"));
    }
    if read.namespace.as_ref().is_some_and(|namespace| !is_dns_label(namespace)) {
        errors.push(FieldError::new("namespace", "must be a DNS label").hint("use small letters, digits and dashes"));
    }
    if read.values.len() > VALUES_MAX {
        let message = format!("names {} files, the limit is {VALUES_MAX}", read.values.len());
        errors.push(FieldError::new("values", message).hint("put several into one"));
    }
    if read.kube_version.as_deref().is_some_and(|version| !is_kube_version(version)) {
        errors.push(FieldError::new("kubeVersion", "must be a version of Kubernetes").hint("write it as v1.34.0"));
    }
    if read.api_versions.len() > API_VERSIONS_MAX {
        let message = format!("has {} entries, the limit is {API_VERSIONS_MAX}", read.api_versions.len());
        errors.push(FieldError::new("apiVersions", message).hint("name those that the chart asks for"));
    }
    for (position, _) in read.api_versions.iter().enumerate().filter(|(_, version)| !is_api_version(version)) {
        let error = FieldError::new(format!("apiVersions[{position}]"), "must be an API version, or one with a kind");
        errors.push(error.hint("write it as monitoring.coreos.com/v1, or monitoring.coreos.com/v1/ServiceMonitor"));
    }
    errors
}

/// Tells whether a text is a version of Kubernetes: two or three numbers, and what a vendor adds to three.
///
/// Source: Helm, `ParseKubeVersion`, which takes some more.
fn is_kube_version(text: &str) -> bool {
    let bare = text.strip_prefix('v').unwrap_or(text);
    let has_two_numbers = bare.bytes().filter(|byte| *byte == b'.').count() == 1;
    let full = if has_two_numbers { format!("{bare}.0") } else { bare.to_owned() };
    text.len() <= KUBE_VERSION_LENGTH_MAX && semver::Version::parse(&full).is_ok()
}

/// Tells whether a text is an API version, with or without a group and a kind.
fn is_api_version(text: &str) -> bool {
    text.len() <= 253 && text.split('/').count() <= 3 && text.split('/').all(is_part_of_api_version)
}

fn is_part_of_api_version(part: &str) -> bool {
    part.starts_with(|first: char| first.is_ascii_alphanumeric())
        && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'))
}

/// Returns an error about a field of a file.
fn refused(marker: &str, field: &str, message: String, hint: &str) -> InputError {
    InputError { field: Some(field.to_owned()), ..complaint(marker, message, hint) }
}

impl<F: Files> Resolver<'_, F> {
    /// Takes releases, each a folder and its file, and returns the folders of their charts.
    pub(super) fn releases(&mut self, releases: &[(&str, &String)]) -> Result<BTreeSet<String>, F::Error> {
        let mut charts = BTreeSet::new();
        for (folder, marker) in releases {
            // The chart beside it is never rendered without it, whatever is wrong.
            charts.insert((*folder).to_owned());
            match self.said(marker, |said| &mut said.releases, |content| release(marker, content))? {
                Ok(said) => charts.extend(self.release(folder, marker, said)?),
                Err(errors) => self.found.errors.extend(errors),
            }
        }
        Ok(charts)
    }

    /// Takes a release, and returns the folder of its chart.
    fn release(&mut self, folder: &str, marker: &str, said: ReleaseFile) -> Result<Option<String>, F::Error> {
        let Some((chart_folder, chart)) = self.chart_of(folder, marker, said.chart.as_deref())? else {
            return Ok(None);
        };
        self.takes(marker, folder);
        self.takes(marker, &chart_folder);
        let mut reads = BTreeSet::from([folder.to_owned(), chart_folder.clone()]);
        let mut values = Vec::new();
        for (position, path) in said.values.iter().enumerate() {
            let Some(place) = self.file_at(folder, path)? else {
                let message = format!("{path:?} is no file of the source");
                let hint = "name a committed file by its path from the folder of this one: nothing is fetched while a folder is rendered";
                self.found.errors.push(refused(marker, &format!("values[{position}]"), message, hint));
                continue;
            };
            if !is_in(&place, folder) && !is_in(&place, &chart_folder) {
                self.takes(marker, &place);
                reads.insert(place.clone());
            }
            values.push(place);
        }
        let own_name = if folder.is_empty() { chart.name } else { name(folder).to_owned() };
        let release = Release {
            chart: chart_folder.clone(),
            name: said.name.unwrap_or(own_name),
            namespace: said.namespace.unwrap_or_else(|| RELEASE_NAMESPACE.to_owned()),
            values,
            capabilities: Capabilities { kube_version: said.kube_version, api_versions: said.api_versions },
        };
        self.found.rendered.push(RenderedFolder {
            path: folder.to_owned(),
            marker: marker.to_owned(),
            release: Some(release),
            reads,
        });
        Ok(Some(chart_folder))
    }

    /// Returns the chart of a release, with its folder; without one that can be rendered the reason is added to the errors.
    fn chart_of(
        &mut self,
        folder: &str,
        marker: &str,
        named: Option<&str>,
    ) -> Result<Option<(String, Chart)>, F::Error> {
        let place = named.map_or_else(|| Some(folder.to_owned()), |path| in_source(folder, path));
        let Some(place) = place else {
            let message = format!("{:?} leads out of the source's path", named.unwrap_or_default());
            let hint = "put the chart below `source.path`, or set that to a folder above both";
            self.found.errors.push(refused(marker, "chart", message, hint));
            return Ok(None);
        };
        if place != folder && self.files.id(&joined(folder, HELM_FILE))?.is_some() {
            let message = format!("the folder has a {HELM_FILE} of its own");
            self.found.errors.push(refused(marker, "chart", message, "give the release a folder of its own"));
            return Ok(None);
        }
        let file = joined(&place, HELM_FILE);
        if self.files.id(&file)?.is_none() {
            let shown = if place.is_empty() { "." } else { &place };
            let message = format!("there is no {HELM_FILE} in {shown}");
            let hint = "name the folder of a chart by its path from the folder of this file";
            self.found.errors.push(refused(marker, "chart", message, hint));
            return Ok(None);
        }
        let chart = self.vendored_chart(&place, &file)?;
        if chart.as_ref().is_some_and(|chart| chart.is_library) {
            let message = format!("{file} is a library, which has no objects");
            self.found.errors.push(refused(marker, "chart", message, "name a chart that uses it"));
            return Ok(None);
        }
        Ok(chart.map(|chart| (place, chart)))
    }

    /// Returns where a file is that a release names, if it is there.
    fn file_at(&mut self, folder: &str, path: &str) -> Result<Option<String>, F::Error> {
        let Some(place) = in_source(folder, path) else { return Ok(None) };
        Ok(self.files.id(&place)?.map(|_| place))
    }
}
