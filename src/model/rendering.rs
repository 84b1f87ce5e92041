//! The programs that render folders, and the versions of them that are asked for.

use std::collections::BTreeMap;

/// The file that makes a folder a chart of Helm.
pub const HELM_FILE: &str = "Chart.yaml";

/// The names that Kustomize looks for.
pub const KUSTOMIZE_FILES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// A program that renders folders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Renderer {
    /// `kustomize build`.
    Kustomize,
    /// `helm template`.
    Helm,
}

impl Renderer {
    /// Returns which program a file asks for by its name; `None` for any other file.
    pub fn of_file(name: &str) -> Option<Self> {
        if name == HELM_FILE { Some(Self::Helm) } else { KUSTOMIZE_FILES.contains(&name).then_some(Self::Kustomize) }
    }

    /// Returns the name of the program, which is that of its field in `render:` too.
    pub fn program(self) -> &'static str {
        match self {
            Self::Kustomize => "kustomize",
            Self::Helm => "helm",
        }
    }

    /// Returns what people call it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Kustomize => "Kustomize",
            Self::Helm => "Helm",
        }
    }
}

/// A folder whose files a kustomization or a chart takes: they are no more read, and the folder is no more rendered, by itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InputFolder {
    /// The file that takes them.
    pub marker: String,
    /// The folder: its own, or one that it names.
    pub folder: String,
}

/// The version of each program that is to render, such as `v5.8.2`. A program without one renders nothing.
pub type Versions = BTreeMap<Renderer, String>;
