//! Reads what matters of a chart.

use serde_json::Value;

use super::kustomization::folded;
use super::{complaint, is_in, joined, name};
use model::manifest::InputError;
use model::yaml;

/// A chart, as far as it matters here.
#[derive(Clone, Debug)]
pub(super) struct Chart {
    /// It is a library: only other charts use it.
    pub is_library: bool,
    /// Its name.
    pub name: String,
    dependencies: Vec<String>,
}

/// Reads a Chart.yaml.
///
/// # Errors
/// It cannot be read.
pub(super) fn chart(path: &str, content: &[u8]) -> Result<Chart, Box<InputError>> {
    let text =
        std::str::from_utf8(content).map_err(|_| Box::new(complaint(path, "is not UTF-8 text", "save it as UTF-8")))?;
    let mut chart = Chart { is_library: false, name: String::new(), dependencies: Vec::new() };
    for document in yaml::parse_documents(text) {
        let document = document
            .map_err(|error| Box::new(InputError { line: error.line, ..complaint(path, error.message, "") }))?;
        for (field, value) in document.value.as_object().into_iter().flatten() {
            match folded(field).as_str() {
                "name" => value.as_str().unwrap_or_default().clone_into(&mut chart.name),
                "type" => chart.is_library = value == "library",
                "dependencies" => {
                    let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
                    chart
                        .dependencies
                        .extend(list.iter().filter_map(|it| it.get("name").and_then(Value::as_str)).map(str::to_owned));
                }
                _ => {}
            }
        }
    }
    Ok(chart)
}

impl Chart {
    /// Returns an error for each dependency that is in no folder and no archive below `charts/`.
    pub(super) fn not_vendored(&self, path: &str, folder: &str, below: &[String]) -> Vec<InputError> {
        let charts = joined(folder, "charts");
        let hint = "run `helm dependency build` and commit charts/: nothing is fetched while a folder is rendered";
        let mut errors = Vec::new();
        for (position, wanted) in self.dependencies.iter().enumerate() {
            let own = joined(&charts, wanted);
            if !below.iter().any(|file| is_in(file, &own) || is_archive(file, wanted)) {
                let error = complaint(path, format!("the chart {wanted:?} is not in charts/"), hint);
                errors.push(InputError { field: Some(format!("dependencies[{position}]")), ..error });
            }
        }
        errors
    }
}

/// Tells whether a file is a packed version of a chart.
fn is_archive(file: &str, chart: &str) -> bool {
    let version = name(file).strip_suffix(".tgz").and_then(|stem| stem.strip_prefix(chart));
    version.is_some_and(|version| version.starts_with('-'))
}
