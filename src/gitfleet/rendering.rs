//! What renders the folders of a tree for commands that need no daemon.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::forge::Row;
use config::{Configuration, FILE_NAME_DEFAULT};
use daemon::rendering::Rendering;
use member::decryption;
use render::Programs;

/// Returns what renders the folders of a tree: what a configuration says, or without one the `render:` of the `gitfleet.yaml` in the
/// tree or above it in its repository. Of the latter the versions count, and the programs are those of `PATH`: a tree must not say
/// which programs are started.
///
/// # Errors
/// That file cannot be read, or no temporary folder can be made.
pub(super) fn of_tree(dir: &Path, configuration: Option<&Configuration>) -> anyhow::Result<Rendering> {
    let own = match (configuration, own_file(dir)) {
        (None, Some(path)) => Configuration::render_of_tree(&path)?,
        _ => None,
    };
    let render = configuration.map_or(own.as_ref(), |configuration| configuration.render.as_ref());
    Rendering::of(render, None).context("cannot make a temporary folder for rendering")
}

/// Says of each program that a configuration names whether it is there, in that version.
pub(super) fn rows(configuration: &Configuration) -> Vec<Row> {
    const NEED: &str = "rendering";
    let Some(render) = &configuration.render else { return Vec::new() };
    let programs = Programs::new(render.folder.clone(), std::env::temp_dir());
    let rows = render.versions().into_iter().map(|(renderer, version)| match programs.find(renderer, &version) {
        Ok(found) => Row::ok(NEED, format!("{} {version} at {}", renderer.program(), found.path().display())),
        Err(error) => Row::missing(NEED, error.to_string()),
    });
    rows.collect()
}

/// Says whether the program that decrypts is there, in the version that a configuration names.
pub(super) fn decryption_rows(configuration: &Configuration) -> Option<Row> {
    const NEED: &str = "decryption";
    let decrypt = configuration.decrypt.as_ref()?;
    Some(match decryption::check(decrypt) {
        Ok(path) => Row::ok(NEED, format!("sops {} at {}", decrypt.version(), path.display())),
        Err(error) => Row::missing(NEED, error),
    })
}

/// Finds the configuration in a tree, or above it up to the root of its repository.
fn own_file(dir: &Path) -> Option<PathBuf> {
    let dir = dir.canonicalize().ok()?;
    let root = dir.ancestors().find(|folder| folder.join(".git").exists()).unwrap_or(&dir);
    let folders = dir.ancestors().take_while(|folder| folder.starts_with(root));
    folders.map(|folder| folder.join(FILE_NAME_DEFAULT)).find(|path| path.is_file())
}
