//! Servers from Debian's packages: unpacked into the cache, nothing is installed.

use std::{
    fs,
    fs::File,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use super::binaries::cache;

/// Returns a binary of a package below `usr/bin`: from the cache, else from the package, which takes some seconds. `size` says how much is
/// fetched.
///
/// # Errors
/// When this is no Debian, or the package cannot be fetched.
pub(super) fn binary(package: &str, program: &str, size: &str) -> Result<PathBuf> {
    let cache = cache()?;
    let folder = cache.join(format!("{package}-debian"));
    let binary = folder.join(program);
    if binary.is_file() {
        return Ok(binary);
    }
    fs::create_dir_all(&cache).with_context(|| format!("create the cache {}", cache.display()))?;
    let lock = File::create(cache.join(format!("{package}.lock"))).context("create the lock file")?;
    lock.lock().context("wait for another process that fetches the same")?;
    if binary.is_file() {
        return Ok(binary);
    }
    eprintln!("fleet: fetching Debian's package {package} ({size})");
    let unfinished = cache.join(format!("{package}.unfinished"));
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished).context("remove an interrupted download")?;
    }
    fs::create_dir_all(&unfinished)?;
    let fetched = fetched(package, &unfinished).with_context(|| {
        format!("{program} comes from Debian's package {package}; elsewhere, put its binary at {}", binary.display())
    })?;
    let tree = unfinished.join("tree");
    run(Command::new("dpkg-deb").arg("-x").arg(&fetched).arg(&tree))?;
    fs::create_dir_all(&folder)?;
    // Last, and in one step: a binary that is there is whole.
    fs::rename(tree.join("usr/bin").join(program), &binary).context("take the binary out of the package")?;
    fs::remove_dir_all(&unfinished).context("remove the rest of the package")?;
    Ok(binary)
}

/// Downloads the package. Where the machine's lists of packages are absent or too old, lists of our own are read: neither needs
/// root.
fn fetched(package: &str, folder: &Path) -> Result<PathBuf> {
    if download(package, folder, &[]).is_err() {
        let (state, lists) = (folder.join("state"), folder.join("lists"));
        fs::create_dir_all(state.join("lists/partial"))?;
        fs::create_dir_all(lists.join("archives/partial"))?;
        let (state, lists) = (format!("Dir::State={}", state.display()), format!("Dir::Cache={}", lists.display()));
        let own = ["-o", &state, "-o", &lists, "-o", "Debug::NoLocking=1"];
        run(Command::new("apt-get").args(own).arg("update"))?;
        download(package, folder, &own)?;
    }
    let mut entries = fs::read_dir(folder)?.filter_map(Result::ok).map(|entry| entry.path());
    let package = entries.find(|path| path.extension().is_some_and(|extension| extension == "deb"));
    package.context("apt-get download left no package")
}

fn download(package: &str, folder: &Path, options: &[&str]) -> Result<()> {
    run(Command::new("apt-get").args(options).args(["download", package]).current_dir(folder))
}

fn run(command: &mut Command) -> Result<()> {
    let program = command.get_program().display().to_string();
    let output = command.output().with_context(|| format!("run {program}"))?;
    if !output.status.success() {
        bail!("{program} ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
