//! `gitfleet init`: a repository and a configuration to begin with.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};

use super::config_file::quoted;
use super::exit::Exit;
use super::{output, person};

/// The configuration's file.
const CONFIGURATION: &str = "gitfleet.yaml";
/// The folder of the repository.
const REPOSITORY: &str = "fleet";

/// What is written: path and content.
const FILES: [(&str, &str); 4] = [
    (CONFIGURATION, include_str!("init/gitfleet.yaml")),
    ("fleet/clusters.yaml", include_str!("init/clusters.yaml")),
    ("fleet/apps/hello.yaml", include_str!("init/hello.yaml")),
    ("fleet/placements/hello.yaml", include_str!("init/placement.yaml")),
];

/// Options of `init`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Writes gitfleet.yaml and a git repository `fleet` with two clusters, an application and its placement. Nothing that is there is \
changed. Each cluster is a folder at first, so nothing else is needed.

Examples:
  gitfleet init my-fleet && cd my-fleet && gitfleet run --once && gitfleet status
  gitfleet init ~/fleet")]
pub(crate) struct Args {
    /// The folder; it is made if it is missing.
    #[arg(default_value = ".")]
    folder: PathBuf,
}

/// Runs the command. Exits 2 where something of it is there already.
///
/// # Errors
/// Something is there already, cannot be written, or git is not installed.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let folder = &args.folder;
    for name in [CONFIGURATION, REPOSITORY] {
        let path = folder.join(name);
        ensure!(!path.exists(), "{} is there already: nothing was written", path.display());
    }
    for (path, text) in FILES {
        write(&folder.join(path), text)?;
    }
    let repository = folder.join(REPOSITORY);
    let user = person::os_user();
    git(&repository, &["init", "--quiet", "--initial-branch=main"])?;
    git(&repository, &["add", "."])?;
    let name = format!("user.name={user}");
    let email = format!("user.email={user}@localhost");
    git(&repository, &["-c", &name, "-c", &email, "commit", "--quiet", "--message", "Begin the fleet"])?;
    let there =
        if folder == Path::new(".") { String::new() } else { format!("  cd {}\n", quoted(&folder.to_string_lossy())) };
    output::print(&format!(
        "wrote {CONFIGURATION} and the git repository {REPOSITORY}. Next:\n{there}  gitfleet run            # leave it running\n  \
         gitfleet status         # in a second terminal\nThen change something in {REPOSITORY}, and commit it.\n"
    ))
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let parent = path.parent().unwrap_or(path);
    fs::create_dir_all(parent).with_context(|| format!("making the folder {}", parent.display()))?;
    let file = fs::OpenOptions::new().write(true).create_new(true).open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.with_context(|| format!("writing {}", path.display()))
}

fn git(repository: &Path, words: &[&str]) -> anyhow::Result<()> {
    let output = Command::new("git").arg("-C").arg(repository).args(words).output();
    let output = output.context("starting git, which makes the repository; is it installed?")?;
    if !output.status.success() {
        let place = repository.display();
        bail!("git -C {place} {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
