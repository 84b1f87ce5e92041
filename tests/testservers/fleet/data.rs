//! Backups of what the members hold, as an operator makes them: a copy of etcd's folder.

use std::{fs, path::Path};

use anyhow::{Context, Result};

use super::{Fleet, servers};

impl Fleet {
    /// Stops the members and their etcd, copies what they hold into the folder `to`, and starts them again.
    ///
    /// # Errors
    /// When a server does not start again, or something cannot be copied; with kind, where there is no common etcd.
    pub fn back_up(&self, to: &Path) -> Result<()> {
        self.while_stopped(|data| copy(data, to))
    }

    /// Stops the members and their etcd, puts the copy in the folder `from` back, and starts them again.
    ///
    /// # Errors
    /// As for [`Fleet::back_up`].
    pub fn restore(&self, from: &Path) -> Result<()> {
        self.while_stopped(|data| {
            fs::remove_dir_all(data).with_context(|| format!("remove {}", data.display()))?;
            copy(from, data)
        })
    }

    fn while_stopped(&self, work: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        let (etcd, port) = self.etcd.as_ref().context("the members have no etcd of ours")?;
        for member in &self.members {
            member.stop()?;
        }
        etcd.stop();
        work(&self.folder().join("etcd"))?;
        etcd.start()?;
        servers::await_etcd(etcd, *port)?;
        self.members.iter().try_for_each(|member| member.restart().with_context(|| member.name.clone()))
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let what = || format!("copy {} to {}", from.display(), to.display());
    if from.is_file() {
        return fs::copy(from, to).map(drop).with_context(what);
    }
    fs::create_dir_all(to).with_context(what)?;
    for entry in fs::read_dir(from).with_context(what)? {
        let entry = entry.with_context(what)?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    // Where only its owner may enter a folder, etcd expects so of its own.
    let permissions = fs::metadata(from).with_context(what)?.permissions();
    fs::set_permissions(to, permissions).with_context(what)
}
