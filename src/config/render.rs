//! The section of the file about programs that render folders.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use super::complaint;
use model::manifest::InputError;
use model::rendering::{Renderer, Versions};

/// Programs that render folders of the source with a kustomization or a chart. A folder whose program has no version here refuses the
/// commit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Render {
    /// The version of `kustomize`, such as `v5.8.2`. A program of another version renders nothing.
    #[serde(default)]
    pub kustomize: Option<String>,
    /// The version of `helm`, such as `v4.3.1`.
    #[serde(default)]
    pub helm: Option<String>,
    /// The folder that the programs are in; absent: they are looked for in `PATH`.
    #[serde(default)]
    pub folder: Option<PathBuf>,
}

impl Render {
    /// Returns the version of each program, as the program prints it.
    pub fn versions(&self) -> Versions {
        let given = [(Renderer::Kustomize, &self.kustomize), (Renderer::Helm, &self.helm)];
        let versions = given.into_iter().filter_map(|(renderer, version)| {
            Some((renderer, format!("v{}", version.as_ref()?.trim_start_matches('v'))))
        });
        versions.collect()
    }

    /// Adds what the schema cannot say.
    pub(super) fn problems(&self, errors: &mut Vec<InputError>) {
        for (renderer, version) in self.versions() {
            if semver::Version::parse(version.trim_start_matches('v')).is_err() {
                let message = format!("{version:?} is no version such as v1.2.3");
                let hint = Some("write the whole version: results are kept by it".to_owned());
                let error = complaint(&format!("render.{}", renderer.program()), message);
                errors.push(InputError { hint, ..error });
            }
        }
    }
}
