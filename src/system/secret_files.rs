//! Follows the files of secrets while the daemon runs: what a file holds is used when it changes. What cannot be used changes nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::supervise::Supervisor;
use super::watched_file::WatchedFile;
use crate::telemetry::metrics::Part;
use model::text;

/// A file of the configuration with a secret in it.
#[derive(Clone, Debug)]
pub struct SecretFile {
    /// What it holds, as a log says it, such as `the token of the git host`.
    pub what: String,
    /// Where it is.
    pub path: PathBuf,
}

impl SecretFile {
    /// Calls `renew` now and whenever the file holds something else, until the process ends. `renew` reads the file and uses what it
    /// holds, or says why it cannot, without any of the content; then what was used before stays in use.
    pub fn follow(self, supervisor: &Supervisor, renew: impl Fn(&Path) -> Result<(), String> + Send + Sync + 'static) {
        let supervisor = supervisor.clone();
        let file = Arc::new(self);
        let renew = Arc::new(renew);
        let life = move || {
            let file = Arc::clone(&file);
            let renew = Arc::clone(&renew);
            async move { file.follow_forever(renew.as_ref()).await }
        };
        tokio::spawn(async move { supervisor.repeat(Part::Configuration, life).await });
    }

    async fn follow_forever(&self, renew: &(impl Fn(&Path) -> Result<(), String> + Sync)) {
        let mut changes = WatchedFile::of(&self.path);
        // Used once more, because the file may have changed between the start of the process and the watch.
        let mut known = self.digest();
        self.renew(renew, false);
        loop {
            changes.next().await;
            let now = self.digest();
            // Once for each content: a folder with other files wakes this, too.
            if now != known {
                known = now;
                self.renew(renew, true);
            }
        }
    }

    fn renew(&self, renew: &impl Fn(&Path) -> Result<(), String>, has_changed: bool) {
        let about = &self.what;
        let file = self.path.display();
        match renew(&self.path) {
            Ok(()) if has_changed => tracing::info!(%file, %about, "a secret changed and is used"),
            Ok(()) => {}
            Err(reason) => tracing::warn!(%file, reason, %about, "a secret stays as it was"),
        }
    }

    fn digest(&self) -> Option<config::SecretDigest> {
        config::secret_digest(&self.path)
    }
}

/// Says why a secret cannot be used, on one line.
pub fn reason(error: &dyn std::error::Error) -> String {
    text::causes(std::iter::successors(Some(error), |error| error.source()).map(ToString::to_string))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use secrecy::ExposeSecret as _;
    use tokio::sync::mpsc;

    use super::*;

    /// How long a change may take to be noticed.
    const LIMIT: Duration = Duration::from_secs(25);

    #[tokio::test]
    async fn each_content_is_used_once_and_what_cannot_be_used_is_left() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        fs::write(&path, "first").expect("a file");
        let (used, mut calls) = mpsc::unbounded_channel();
        let file = SecretFile { what: "the token".to_owned(), path: path.clone() };
        file.follow(&Supervisor::without_pauses(), move |path| {
            let read = config::read_secret(path).map(|secret| secret.expose_secret().to_owned());
            let _ = used.send(read.as_ref().map_err(|error| reason(error)).cloned());
            read.map(drop).map_err(|error| reason(&error))
        });
        let mut next =
            async || tokio::time::timeout(LIMIT, calls.recv()).await.expect("in time").expect("it is followed");
        assert_eq!(next().await, Ok("first".to_owned()));
        // Another file in the folder wakes the task, and is none of its business.
        fs::write(folder.path().join("other"), "x").expect("a file");
        fs::write(&path, "").expect("a file");
        let empty = next().await.expect_err("it is empty");
        assert!(empty.contains("token is empty"), "{empty}");
        fs::write(folder.path().join("new"), "second\n").expect("a file");
        fs::rename(folder.path().join("new"), &path).expect("it is moved");
        assert_eq!(next().await, Ok("second".to_owned()));
        fs::remove_file(&path).expect("it is there");
        let absent = next().await.expect_err("it is gone");
        assert!(absent.contains("cannot be read: No such file"), "{absent}");
    }
}
