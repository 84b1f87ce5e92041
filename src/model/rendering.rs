//! The programs that render folders, and the versions of them that are asked for.

use std::collections::BTreeMap;

/// The file that makes a folder a chart of Helm.
pub const HELM_FILE: &str = "Chart.yaml";

/// The file that says how a chart is rendered: [`Release`].
pub const RELEASE_FILE: &str = "release.gitfleet.yaml";

/// The namespace that charts are rendered for where nothing says another: Helm's own default.
pub const RELEASE_NAMESPACE: &str = "default";

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
        match name {
            HELM_FILE | RELEASE_FILE => Some(Self::Helm),
            name => KUSTOMIZE_FILES.contains(&name).then_some(Self::Kustomize),
        }
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

/// A chart as it is rendered: what Helm calls a release. Paths are relative to the root of the source's subtree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// The folder of the chart; the root is an empty text.
    pub chart: String,
    /// The name, which templates read as `.Release.Name`.
    pub name: String,
    /// The namespace, which templates read as `.Release.Namespace`.
    pub namespace: String,
    /// Files of values beside the chart's own; a later one wins.
    pub values: Vec<String>,
    /// What the cluster can do.
    pub capabilities: Capabilities,
}

/// What templates read of a cluster as `.Capabilities`, beside what the program takes for granted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// The version of Kubernetes, such as `v1.34.0`; absent where it is the program's own.
    pub kube_version: Option<String>,
    /// API versions, such as `monitoring.coreos.com/v1`, and kinds of them, such as `monitoring.coreos.com/v1/ServiceMonitor`.
    pub api_versions: Vec<String>,
}

/// A folder whose files a kustomization, a chart or a release takes: they are no more read, and the folder is no more rendered, by itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InputFolder {
    /// The file that takes them.
    pub marker: String,
    /// The folder: its own, or one that it names. Of a file of values that stands elsewhere it is that file alone.
    pub folder: String,
}

/// The version of each program that is to render, such as `v5.8.2`. A program without one renders nothing.
pub type Versions = BTreeMap<Renderer, String>;
