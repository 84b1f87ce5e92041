//! Compares the versions of programs that a repository names for its plans with those that the daemon renders with: with others a plan in CI may
//! show what no cluster gets.

use super::{ListedFiles, OfCommit};
use crate::rendering::Rendering;
use config::{Configuration, FILE_NAME_DEFAULT};
use git::{Reader, RootFile};
use model::folder::{below, folder_of, within};
use model::id::CommitId;
use model::manifest::InputError;
use model::rendering::Renderer;

/// Returns a warning for each program of another version, where the commit has folders to render. The file is the one that `gitfleet plan`
/// takes the versions from: in the folder that is read, or above it.
pub(super) fn differing(
    reader: &Reader,
    commit: &CommitId,
    listed: &ListedFiles<OfCommit<'_>>,
    rendering: &Rendering,
) -> Vec<InputError> {
    if listed.selection.markers.is_empty() {
        return Vec::new();
    }
    let Some((file, text)) = own_file(reader, commit) else { return Vec::new() };
    // A file above what is read has no path in it.
    let path = within(reader.subtree(), &file).unwrap_or(".").to_owned();
    // What is wrong with the file is an error of whoever plans by it.
    let Ok(Some(section)) = Configuration::render_of_text(&text) else { return Vec::new() };
    let named = section.versions();
    let ours = rendering.versions();
    let other = |(renderer, version): (&Renderer, &String)| {
        let version_here = ours.get(renderer).filter(|ours| *ours != version)?;
        let program = renderer.program();
        Some(InputError {
            path: path.clone(),
            line: 0,
            object: None,
            field: Some(format!("render.{program}")),
            message: format!(
                "plans are rendered by {program} {version} (by {file}), and the daemon renders with {version_here}"
            ),
            hint: Some("name the same version here and in the configuration of the daemon".to_owned()),
        })
    };
    named.iter().filter_map(other).collect()
}

/// Reads the configuration of a tree.
fn own_file(reader: &Reader, commit: &CommitId) -> Option<(String, String)> {
    let mut folder = reader.subtree();
    loop {
        let path = below(folder, FILE_NAME_DEFAULT);
        if let Ok(RootFile::Content(content)) = reader.file_of_root(commit, &path) {
            return Some((path, String::from_utf8(content).ok()?));
        }
        if folder.is_empty() {
            return None;
        }
        folder = folder_of(folder);
    }
}
