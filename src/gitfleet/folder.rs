//! The folder with a tree, as commands that need no daemon take it.

use std::path::{Path, PathBuf};

/// Where the tree is.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TreeFolder {
    /// The folder with the tree; the current one by default. As it stands on disk, or with --base or --head as it is in those commits
    /// of its repository.
    #[arg(value_name = "DIR", conflicts_with = "repo")]
    dir: Option<PathBuf>,
    /// The same as DIR.
    #[arg(long, value_name = "DIR", hide = true)]
    repo: Option<PathBuf>,
}

impl TreeFolder {
    /// Returns the folder, if one was named.
    pub(crate) fn named(&self) -> Option<&Path> {
        self.dir.as_deref().or(self.repo.as_deref())
    }

    /// Returns the folder that was named, or the current one.
    pub(crate) fn path(&self) -> &Path {
        self.named().unwrap_or(Path::new("."))
    }
}
