//! Runs git without anybody's settings, for tests that play a developer.

use std::{path::Path, process::Command};

use anyhow::{Context, Result, bail};

/// Who commits in tests.
const NAME: &str = "Fleet Test";
const EMAIL: &str = "fleet@example.test";

/// Runs git in `folder` and returns what it prints, without the last line break. No settings of the user or the system
/// play a part, the author is always the same, and git never asks for a password.
///
/// # Errors
/// When git does not succeed; the error holds its arguments and its stderr.
pub fn git(folder: &Path, args: &[&str]) -> Result<String> {
    let mut git = Command::new("git");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("GIT_")) {
        git.env_remove(name);
    }
    git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_TERMINAL_PROMPT", "0");
    git.env("GIT_AUTHOR_NAME", NAME).env("GIT_AUTHOR_EMAIL", EMAIL);
    git.env("GIT_COMMITTER_NAME", NAME).env("GIT_COMMITTER_EMAIL", EMAIL);
    git.args(["-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always", "-c", "commit.gpgSign=false"]);
    git.args(["-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0"]);
    let output = git.current_dir(folder).args(args).output().context("start git; is it installed?")?;
    if !output.status.success() {
        bail!("git {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

/// Commits everything in the work tree `folder` (which becomes a repository if it is none) and returns the commit's id.
///
/// # Errors
/// When git does not succeed, for example because nothing changed.
pub fn commit_all(folder: &Path, message: &str) -> Result<String> {
    if !folder.join(".git").exists() {
        git(folder, &["init", "-q"])?;
    }
    git(folder, &["add", "-A"])?;
    git(folder, &["commit", "-q", "-m", message])?;
    git(folder, &["rev-parse", "HEAD"])
}

/// Pushes the current commit to a branch of `url`.
///
/// # Errors
/// When git does not succeed.
pub fn push(folder: &Path, url: &str, branch: &str) -> Result<()> {
    git(folder, &["push", "-q", url, &format!("HEAD:refs/heads/{branch}")]).map(drop)
}
