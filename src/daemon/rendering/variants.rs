//! Folders that are rendered for clusters: once for each different list of values.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::{Configured, FilledValues, Inputs, Lister, RenderedFile, RenderedTree, Rendering, WantedFolder, add, keys};
use crate::daemon::commit_reader::Error;
use crate::model::manifest::InputError;
use crate::model::rendering::Renderer;
use crate::model::tree::Tree;
use crate::model::variants::{ClusterInputs, VALUES_FILE, described};
use crate::source::{self, ValuesTemplate};

/// The file of a kustomization in whose place the values of a cluster are given to Kustomize.
const KUSTOMIZE_VALUES: &str = "values.yaml";

/// What folders are rendered to for clusters.
#[derive(Clone, Debug, Default)]
pub struct RenderedVariants {
    /// All parts; those of different variants have equal paths.
    pub rendered: RenderedTree,
    /// The files of values, by the path of their folder's objects.
    pub templates: BTreeMap<String, ValuesTemplate>,
    /// Folder, inputs, parts.
    pub results: Vec<(String, ClusterInputs, Vec<RenderedFile>)>,
}

impl Rendering {
    /// Renders for clusters what placements of a tree ask for, those results that are not kept.
    ///
    /// What is wrong is added to `errors`; with any the result is incomplete and must not be used.
    ///
    /// # Errors
    /// As [`Rendering::render`].
    pub fn render_for_clusters<L: Lister>(
        &self,
        inputs: &Inputs<L>,
        tree: &Tree,
        folders: &RenderedTree,
        errors: &mut Vec<InputError>,
    ) -> Result<RenderedVariants, Error> {
        if !tree.placements.values().any(|placement| placement.renders_for_cluster()) {
            return Ok(RenderedVariants::default());
        }
        let by_path: BTreeMap<&str, &WantedFolder> =
            folders.folders.iter().map(|folder| (folder.objects_path(), folder)).collect();
        let paths: BTreeSet<String> = by_path.keys().map(|path| (*path).to_owned()).collect();
        let mut templates = BTreeMap::new();
        for path in source::asked_for(tree, &paths) {
            if let Some(template) = template(by_path[path], inputs, errors)? {
                templates.insert(path.to_owned(), template);
            }
        }
        if !errors.is_empty() {
            return Ok(RenderedVariants::default());
        }
        let wanted = match source::wanted_variants(tree, &templates) {
            Ok(wanted) => wanted,
            Err(more) => {
                errors.extend(more);
                return Ok(RenderedVariants::default());
            }
        };
        let (mut of, mut variants) = (Vec::new(), Vec::new());
        for (path, inputs) in wanted {
            for (inputs, cluster) in inputs {
                match templates[&path].filled(&inputs) {
                    Ok(content) => {
                        variants.push(variant(by_path[path.as_str()], &inputs, &content));
                        of.push((path.clone(), inputs));
                    }
                    Err(more) => errors.extend(more.into_iter().map(|error| {
                        let message = format!("for the cluster {cluster}: {}", error.message);
                        InputError { message, ..error }
                    })),
                }
            }
        }
        let Some(configured) = self.0.as_ref().filter(|_| errors.is_empty()) else {
            return Ok(RenderedVariants::default());
        };
        Configured::made(configured, of, variants, templates, inputs, errors)
    }
}

impl Configured {
    fn made<L: Lister>(
        &self,
        of: Vec<(String, ClusterInputs)>,
        variants: Vec<WantedFolder>,
        templates: BTreeMap<String, ValuesTemplate>,
        inputs: &Inputs<L>,
        errors: &mut Vec<InputError>,
    ) -> Result<RenderedVariants, Error> {
        let made = self.results(&variants, inputs, errors)?;
        let files = made.iter().flatten().cloned().collect();
        let results = of.into_iter().zip(made).map(|((path, inputs), files)| (path, inputs, files)).collect();
        let rendered = RenderedTree { files, keys: keys(&variants), folders: Vec::new() };
        Ok(RenderedVariants { rendered, templates, results })
    }
}

/// Reads a folder's file of values by cluster, if it has one.
fn template<L: Lister>(
    folder: &WantedFolder,
    inputs: &Inputs<L>,
    errors: &mut Vec<InputError>,
) -> Result<Option<ValuesTemplate>, Error> {
    let path = in_folder(folder, VALUES_FILE);
    let Some((path, blob)) = folder.files.iter().find(|(file, _)| **file == *path) else { return Ok(None) };
    if folder.folder.renderer == Renderer::Kustomize {
        let plain = in_folder(folder, KUSTOMIZE_VALUES);
        if !folder.files.iter().any(|(file, _)| **file == *plain) {
            let message = format!("the values of clusters take the place of {KUSTOMIZE_VALUES}, which is not there");
            let hint = "add it with values for no cluster in particular, and name it in the kustomization";
            errors.push(super::complaint(path, message, hint));
            return Ok(None);
        }
    }
    let content = match inputs.blob(blob)?.into_content(path) {
        Ok(content) => content,
        Err(error) => {
            errors.push(*error);
            return Ok(None);
        }
    };
    match ValuesTemplate::read(path, &content) {
        Ok(template) => Ok(Some(template)),
        Err(wrong) => {
            errors.extend(wrong);
            Ok(None)
        }
    }
}

fn in_folder(folder: &WantedFolder, name: &str) -> String {
    match folder.folder.path.as_str() {
        "" => name.to_owned(),
        path => format!("{path}/{name}"),
    }
}

/// Returns a folder as it is rendered with the values of clusters.
fn variant(folder: &WantedFolder, inputs: &ClusterInputs, content: &[u8]) -> WantedFolder {
    let name = match folder.folder.renderer {
        Renderer::Helm => VALUES_FILE,
        Renderer::Kustomize => KUSTOMIZE_VALUES,
    };
    let values = FilledValues { path: in_folder(folder, name), content: Arc::from(content), of: described(inputs) };
    let mut digest = Sha256::new();
    // By the values as they are given to the program, not by whose they are: clusters may differ and get the same.
    for part in [folder.key.as_str(), "values", &values.path] {
        add(&mut digest, part);
    }
    digest.update(content);
    WantedFolder { values: Some(values), key: format!("{:x}", digest.finalize()), ..folder.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::id::BlobId;
    use crate::model::variants::ClusterField;
    use crate::source::RenderedFolder;

    fn folder(renderer: Renderer, path: &str, key: &str) -> WantedFolder {
        let folder = RenderedFolder {
            path: path.to_owned(),
            marker: String::new(),
            renderer,
            release: String::new(),
            reads: BTreeSet::new(),
        };
        let files = Arc::from([(Arc::from("web/a.yaml"), BlobId::from("a"))]);
        WantedFolder { folder: Arc::new(folder), files, values: None, key: key.to_owned() }
    }

    #[test]
    fn a_key_is_of_what_the_program_is_given() {
        let of = |region: &str| ClusterInputs::from([(ClusterField::Label("region".to_owned()), region.to_owned())]);
        let chart = folder(Renderer::Helm, "web", "1");
        let first = variant(&chart, &of("eu"), b"a: 1\n");
        // Other inputs that make the same values are the same result.
        assert_eq!(first.key, variant(&chart, &of("us"), b"a: 1\n").key);
        let others = [
            chart.key.clone(),
            variant(&chart, &of("eu"), b"a: 2\n").key,
            variant(&folder(Renderer::Helm, "web", "2"), &of("eu"), b"a: 1\n").key,
            variant(&folder(Renderer::Kustomize, "web", "1"), &of("eu"), b"a: 1\n").key,
            variant(&folder(Renderer::Helm, "shop", "1"), &of("eu"), b"a: 1\n").key,
        ];
        for other in &others {
            assert_ne!(first.key, *other);
        }
        let path = |folder: &WantedFolder| variant(folder, &of("eu"), b"").values.map(|values| values.path);
        assert_eq!(path(&chart).as_deref(), Some("web/values.gitfleet.yaml"));
        assert_eq!(path(&folder(Renderer::Kustomize, "", "1")).as_deref(), Some("values.yaml"));
    }
}
