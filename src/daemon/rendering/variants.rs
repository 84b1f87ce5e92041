//! Folders that are rendered for clusters: once for each different list of values.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Configured, FilledValues, Inputs, Lister, RenderedFile, RenderedTree, Rendering, WantedFolder, key, keys};
use crate::commit_reader::Error;
use model::folder::below;
use model::manifest::InputError;
use model::rendering::{InputFolder, Renderer};
use model::tree::{Placement, Tree};
use model::variants::{ClusterInputs, VALUES_FILE, described};
use source::{ValuesTemplate, WantedVariants};

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

/// The folders of a source that are rendered, with what reads their files.
pub struct RenderedSource<L> {
    /// The folder of the tree in which the source's files are: none where it is the only source.
    folder: String,
    /// What reads the files.
    pub inputs: Inputs<L>,
    /// What the folders are rendered to without a cluster.
    pub rendered: RenderedTree,
}

impl<L: Lister> RenderedSource<L> {
    /// Takes the folders of the only source of a tree.
    pub fn only(inputs: Inputs<L>, rendered: RenderedTree) -> Self {
        Self { folder: String::new(), inputs, rendered }
    }

    /// Returns the source as one whose files are in a folder of the tree.
    #[must_use]
    pub fn below(self, folder: &str) -> Self {
        Self { folder: folder.to_owned(), rendered: self.rendered.below(folder), ..self }
    }

    /// Returns the folders whose files the programs take, by their paths in the tree.
    pub fn input_folders(&self) -> impl Iterator<Item = InputFolder> {
        let of_tree = |path: &str| below(&self.folder, path);
        let inputs = self.rendered.inputs.iter();
        inputs.map(move |it| InputFolder { marker: of_tree(&it.marker), folder: of_tree(&it.folder) })
    }

    /// Returns its folders, with the path that their objects have in the tree.
    fn folders(&self) -> impl Iterator<Item = (String, &WantedFolder)> {
        self.rendered.folders.iter().map(|folder| (below(&self.folder, folder.objects_path()), folder))
    }

    /// Returns its folders as they are rendered for clusters; a cluster that lacks a value is an error.
    fn variants(
        &self,
        wanted: &WantedVariants,
        templates: &BTreeMap<String, ValuesTemplate>,
        errors: &mut Vec<InputError>,
    ) -> Vec<WantedVariant> {
        let mut variants = Vec::new();
        for (path, folder) in self.folders() {
            let Some((inputs, template)) = wanted.get(&path).zip(templates.get(&path)) else { continue };
            for (inputs, cluster) in inputs {
                match template.filled(inputs) {
                    Ok(content) => {
                        let wanted = variant(folder, inputs, &content);
                        variants.push(WantedVariant { path: path.clone(), inputs: inputs.clone(), wanted });
                    }
                    Err(wrong) => errors.extend(wrong.into_iter().map(|error| {
                        let message = format!("for the cluster {cluster}: {}", error.message);
                        InputError { message, ..error }
                    })),
                }
            }
        }
        variants
    }

    /// Reads the file of values by cluster of one of its folders, if the folder has one.
    fn template(
        &self,
        folder: &WantedFolder,
        errors: &mut Vec<InputError>,
    ) -> Result<Option<ValuesTemplate>, git::Error> {
        let path = below(&folder.folder.path, VALUES_FILE);
        let Some((_, blob)) = folder.files.iter().find(|(file, _)| **file == *path) else { return Ok(None) };
        let path = below(&self.folder, &path);
        if folder.folder.renderer() == Renderer::Kustomize {
            let plain = below(&folder.folder.path, KUSTOMIZE_VALUES);
            if !folder.files.iter().any(|(file, _)| **file == *plain) {
                let message =
                    format!("the values of clusters take the place of {KUSTOMIZE_VALUES}, which is not there");
                let hint = "add it with values for no cluster in particular, and name it in the kustomization";
                errors.push(super::complaint(&path, message, hint));
                return Ok(None);
            }
        }
        let content = self.inputs.blob(blob)?.into_content(&path);
        let template = content.map_err(|error| vec![*error]).and_then(|content| ValuesTemplate::read(&path, &content));
        match template {
            Ok(template) => Ok(Some(template)),
            Err(wrong) => {
                errors.extend(wrong);
                Ok(None)
            }
        }
    }
}

/// A folder as it is rendered with the values of clusters.
struct WantedVariant {
    /// The path of its objects in the tree.
    path: String,
    inputs: ClusterInputs,
    wanted: WantedFolder,
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
        sources: &[RenderedSource<L>],
        tree: &Tree,
        errors: &mut Vec<InputError>,
    ) -> Result<RenderedVariants, Error> {
        let mut made = RenderedVariants::default();
        let Some(configured) = &self.0 else { return Ok(made) };
        if !tree.placements.values().any(Placement::renders_for_cluster) {
            return Ok(made);
        }
        let paths: BTreeSet<String> = sources.iter().flat_map(RenderedSource::folders).map(|(path, _)| path).collect();
        let seen: BTreeSet<&str> = source::asked_for(tree, &paths).collect();
        for source in sources {
            for (path, folder) in source.folders().filter(|(path, _)| seen.contains(path.as_str())) {
                made.templates.extend(source.template(folder, errors)?.map(|template| (path, template)));
            }
        }
        let wanted = match source::wanted_variants(tree, &made.templates) {
            Ok(wanted) if errors.is_empty() => wanted,
            Err(wrong) if errors.is_empty() => {
                errors.extend(wrong);
                return Ok(made);
            }
            // A folder whose file of values cannot be read has none: what follows from that is no error of its own.
            Ok(_) | Err(_) => return Ok(made),
        };
        let variants = sources.iter().map(|source| source.variants(&wanted, &made.templates, errors));
        let variants: Vec<Vec<WantedVariant>> = variants.collect();
        // Programs are not started for a commit that is refused in any case.
        if errors.is_empty() {
            for (source, variants) in sources.iter().zip(variants) {
                made.add(configured, source, variants, errors)?;
            }
        }
        Ok(made)
    }
}

impl RenderedVariants {
    /// Renders what is wanted of one source.
    fn add<L: Lister>(
        &mut self,
        configured: &Configured,
        source: &RenderedSource<L>,
        variants: Vec<WantedVariant>,
        errors: &mut Vec<InputError>,
    ) -> Result<(), Error> {
        let wanted: Vec<WantedFolder> = variants.iter().map(|variant| variant.wanted.clone()).collect();
        let mut wrong = Vec::new();
        let made = configured.results(&wanted, &source.inputs, &mut wrong)?;
        errors.extend(wrong.into_iter().map(|error| error.below(&source.folder)));
        self.rendered.keys.extend(keys(&wanted));
        for (WantedVariant { path, inputs, .. }, files) in variants.into_iter().zip(made) {
            let files: Vec<RenderedFile> = files.into_iter().map(|file| file.below(&source.folder)).collect();
            self.rendered.files.extend(files.iter().cloned());
            self.results.push((path, inputs, files));
        }
        Ok(())
    }
}

/// Returns a folder as it is rendered with the values of clusters.
fn variant(folder: &WantedFolder, inputs: &ClusterInputs, content: &[u8]) -> WantedFolder {
    let name = match folder.folder.renderer() {
        Renderer::Helm => VALUES_FILE,
        Renderer::Kustomize => KUSTOMIZE_VALUES,
    };
    let values =
        FilledValues { path: below(&folder.folder.path, name), content: Arc::from(content), of: described(inputs) };
    let key = key::of_variant(&folder.key, &values.path, content);
    WantedFolder { values: Some(values), key, ..folder.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::id::BlobId;
    use model::rendering::{Capabilities, Release};
    use model::variants::ClusterField;
    use source::RenderedFolder;

    fn folder(renderer: Renderer, path: &str, key: &str) -> WantedFolder {
        let release = (renderer == Renderer::Helm).then(|| Release {
            chart: path.to_owned(),
            name: String::new(),
            namespace: String::new(),
            values: Vec::new(),
            capabilities: Capabilities::default(),
        });
        let path = path.to_owned();
        let marker = String::new();
        let reads = BTreeSet::new();
        let folder = RenderedFolder { path, marker, release, reads };
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
