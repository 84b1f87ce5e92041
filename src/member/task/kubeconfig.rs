//! Follows a member's kubeconfig: another one is tried beside the running connection, and takes its place if it works.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tracing::{Instrument as _, Span};

use cluster::{Target, kubeconfig_digest};
use system::watched_file::WatchedFile;

/// Tells when a member's kubeconfig was replaced by another one that works; follows it until it is dropped.
pub(super) struct Replaced {
    news: mpsc::Receiver<()>,
    task: JoinHandle<()>,
}

impl Drop for Replaced {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Replaced {
    /// Follows a file. `target` makes what connects with it, as the file is then.
    pub(super) fn follow(
        path: PathBuf,
        context: Option<String>,
        target: Arc<impl Fn() -> Arc<dyn Target> + Send + Sync + 'static>,
        span: Span,
    ) -> Self {
        let (sender, news) = mpsc::channel(1);
        let task = async move {
            let mut changes = WatchedFile::of(&path);
            let digest = || kubeconfig_digest(&path, context.as_deref());
            let mut known = digest();
            loop {
                changes.next().await;
                let now = digest();
                if now == known {
                    continue;
                }
                known = now;
                let tried = match now {
                    Some(_) => target().connect().await.err().map(|error| error.to_string()),
                    None => Some("it cannot be read".to_owned()),
                };
                if let Some(reason) = tried {
                    let file = path.display();
                    tracing::warn!(%file, reason, "the kubeconfig changed and does not work; the connection stays as it is");
                } else if sender.send(()).await.is_err() {
                    return;
                }
            }
        };
        Self { news, task: tokio::spawn(task.instrument(span)) }
    }

    /// Waits for the next one.
    ///
    /// # Cancel safety
    /// May be dropped at any point: the next call tells of what was missed.
    pub(super) async fn next(&mut self) {
        if self.news.recv().await.is_none() {
            // Its task ended by an error: what the member has stays.
            std::future::pending::<()>().await;
        }
    }
}
