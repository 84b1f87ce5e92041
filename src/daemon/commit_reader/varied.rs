//! Adds to a tree which folders are rendered, and what they are rendered to for clusters: known only once placements and clusters were read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Error, ParsedFile, WantedFile, sorted};
use crate::rendering::{Lister, RenderedFile, RenderedSource, Rendering, encrypted_for_clusters};
use model::manifest::InputError;
use model::tree::Tree;
use source::{ParsedBlob, VariantFiles};

/// Notes which folders were rendered, renders them for clusters where placements ask for it, and adds the objects to the tree; returns the keys
/// of the results. `parse` reads files that were rendered.
///
/// # Errors
/// As [`super::read_commit`].
pub(super) fn add<L: Lister>(
    tree: &mut Tree,
    rendering: &Rendering,
    sources: &[RenderedSource<L>],
    parse: impl FnOnce(Vec<WantedFile>, &mut Vec<InputError>) -> Result<Vec<ParsedFile>, Error>,
) -> Result<BTreeSet<String>, Error> {
    tree.input_folders = sources.iter().flat_map(RenderedSource::input_folders).collect();
    let mut errors = Vec::new();
    let made = rendering.render_for_clusters(sources, tree, &mut errors)?;
    if !errors.is_empty() {
        return Err(Error::Refused(sorted(errors)));
    }
    if made.templates.is_empty() {
        return Ok(BTreeSet::new());
    }
    // Variants that do not differ are one file.
    let wanted: BTreeSet<WantedFile> = made.rendered.wanted().collect();
    let files = parse(wanted.into_iter().collect(), &mut errors)?;
    errors.extend(encrypted_for_clusters(&files));
    let files = made.rendered.without_hooks(files);
    if !errors.is_empty() {
        return Err(Error::Refused(sorted(errors)));
    }
    let parsed: BTreeMap<WantedFile, Arc<ParsedBlob>> =
        files.into_iter().map(|(path, blob, parsed)| ((path, blob), parsed)).collect();
    let results = made.results.into_iter().map(|(folder, inputs, files)| {
        let part = |file: RenderedFile| {
            let parsed = parsed.get(&(Arc::clone(&file.path), file.blob.clone())).cloned();
            (file.path, file.blob, parsed.unwrap_or_default())
        };
        VariantFiles { folder, inputs, parts: files.into_iter().map(part).collect() }
    });
    source::add_variants(tree, &made.templates, results.collect()).map_err(|errors| Error::Refused(sorted(errors)))?;
    Ok(made.rendered.keys)
}

/// As [`add`], for a folder on disk.
///
/// # Errors
/// As [`add`].
pub(super) fn on_disk<L: Lister>(
    mut tree: Tree,
    rendering: &Rendering,
    source: RenderedSource<L>,
) -> Result<Tree, Error> {
    let parse = |wanted: Vec<WantedFile>, errors: &mut Vec<InputError>| {
        let contents = rendering.contents(wanted.iter().map(|(_, blob)| blob))?;
        let meter = source::COMMIT.meter();
        let parse = |(path, blob): WantedFile| {
            let parsed = contents.get(&blob).map(|content| source::parse_blob_within(content, &meter));
            (path, blob, Arc::new(parsed.unwrap_or_default()))
        };
        let files: Vec<ParsedFile> = wanted.into_iter().map(parse).collect();
        let weights = files.iter().map(|(path, _, parsed)| (path.clone(), parsed.weight));
        let refusal = source::COMMIT.refusal(weights);
        let more = || source::COMMIT.complaint(".", "more YAML values", source::COMMIT.cost.nodes);
        errors.extend(refusal.or_else(|| meter.ran_over().then(more)));
        Ok(files)
    };
    add(&mut tree, rendering, &[source], parse)?;
    Ok(tree)
}
