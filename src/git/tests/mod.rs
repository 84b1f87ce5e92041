//! Against repositories that the real git made.

mod branch;
mod damage;
mod following;
mod https;
mod packed;
mod pulls;
mod reading;
mod signed;
mod ssh;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;
use std::time::Duration;

use tempfile::TempDir;

use super::*;
use model::error::ErrorClass;
use model::id::{BlobId, CommitId};

const PATIENCE: Duration = Duration::from_secs(20);

/// A folder for one test, with a repository `repo` and a state folder `state` in it.
struct Place {
    dir: TempDir,
}

impl Place {
    fn empty() -> Self {
        let place = Self { dir: tempfile::tempdir().unwrap() };
        fs::create_dir(place.repo()).unwrap();
        place.git(&["init", "-q", "-b", "main"]);
        place
    }

    fn with(files: &[(&str, &str)]) -> Self {
        let place = Self::empty();
        place.commit(files);
        place
    }

    fn repo(&self) -> PathBuf {
        self.dir.path().join("repo")
    }

    fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    fn git(&self, args: &[&str]) -> String {
        let output = Command::new("git")
            .args(args)
            .current_dir(self.repo())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.dir.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .envs([("GIT_AUTHOR_NAME", "a"), ("GIT_AUTHOR_EMAIL", "a@b"), ("GIT_COMMITTER_NAME", "a")])
            .env("GIT_COMMITTER_EMAIL", "a@b")
            .output()
            .unwrap();
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn commit(&self, files: &[(&str, &str)]) -> CommitId {
        write(&self.repo(), files);
        self.git(&["add", "-A", "-f"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", "change"]);
        self.head()
    }

    fn head(&self) -> CommitId {
        CommitId::new(self.git(&["rev-parse", "HEAD"]))
    }

    fn spec(&self) -> SourceSpec {
        SourceSpec { location: self.repo().display().to_string(), path: ".".to_owned(), ..SourceSpec::default() }
    }

    fn remote_spec(&self, branch: Option<&str>) -> SourceSpec {
        let location = format!("file://{}", self.repo().display());
        SourceSpec { location, branch: branch.map(str::to_owned), ..self.spec() }
    }

    fn open(&self, spec: SourceSpec) -> Source {
        Source::open(spec, &self.state()).unwrap()
    }
}

fn write(dir: &Path, files: &[(&str, &str)]) {
    for (path, content) in files {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}

/// A location or status, whether a token goes along, and what must come of it.
type Row<'a> = (&'a str, bool, fn(&Error) -> bool);

fn poll(source: &mut Source) -> Result<Option<Tip>, Error> {
    source.poll(&AtomicBool::new(false))
}

fn commit_of(source: &mut Source) -> CommitId {
    poll(source).unwrap().expect("the tip moved").commit
}

fn manifests(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let extension = name.rsplit_once('.').map(|(_, e)| e);
    !path.split('/').any(|part| part.starts_with('.'))
        && !path.split('/').any(|part| part == "ignored")
        && matches!(extension, Some("yaml" | "yml" | "json"))
}

fn paths(listing: &Listing) -> Vec<&str> {
    listing.files.iter().map(|file| &*file.path).collect()
}

fn complaints(listing: &Listing) -> Vec<String> {
    listing.errors.iter().map(|error| format!("{}: {}", error.path, error.message)).collect()
}

/// Returns what git itself finds wrong with a repository.
fn fsck(git_dir: &Path) -> String {
    let output = Command::new("git").arg("--git-dir").arg(git_dir).args(["fsck", "--strict"]).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    String::from_utf8(said).unwrap().lines().filter(|line| !line.starts_with("notice: HEAD")).collect()
}
