//! Makes the demo's commits one after the other, and says what comes of each, as the daemon's API tells it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::time::Instant;

use super::changes::{self, DemoChange, FIRST_RUN, GATE_STAGE, Goal, STAGED};
use super::{example, say};
use crate::person;
use crate::records::RecordsSource;
use crate::server::Server;
use config::{Configuration, read_secret};
use engine::store::records::SOURCE_PREFIX;
use git::{NewCommit, WorkTree};
use model::commands::{Command, Verb};
use model::id::CommitId;
use model::records::SourceRecord;
use system::clock;

/// How long a commit may take to lead where it is to lead; only a failure takes that long.
const GOAL_TIME_MAX: Duration = Duration::from_mins(1);
/// The message of the first commit.
const FIRST: &str = "An example fleet";
/// Whom the commits are by.
const AUTHOR: (&str, &str) = ("gitfleet demo", "demo@localhost");

/// The demo's repository.
pub(super) struct DemoRepository {
    work_tree: WorkTree,
    /// Its first commit.
    first: CommitId,
}

impl DemoRepository {
    /// Makes a repository with the example in a folder.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn create(folder: &Path) -> anyhow::Result<Self> {
        let mut work_tree = WorkTree::create(folder)?;
        let first = commit(&mut work_tree, FIRST, &example::files())?;
        Ok(Self { work_tree, first })
    }
}

fn commit(work_tree: &mut WorkTree, message: &str, files: &[(String, String)]) -> anyhow::Result<CommitId> {
    let seconds = clock::wall().as_second();
    let commit = work_tree.commit(&NewCommit { branch: "main", files, message, author: AUTHOR, seconds });
    commit.with_context(|| format!("committing {message:?}"))
}

/// The demo, under way.
pub(super) struct DemoScript {
    repository: DemoRepository,
    server: Server,
    records: RecordsSource,
    pause: Duration,
    /// Ends with the daemon.
    daemon: Receiver<()>,
    /// The line of each placement that was said last.
    said: BTreeMap<String, String>,
}

impl DemoScript {
    /// Prepares to talk to the daemon of a configuration. `pause` comes before each change; `daemon` ends when the daemon does.
    ///
    /// # Errors
    /// The daemon left no token.
    pub(super) fn open(
        configuration: &Configuration,
        repository: DemoRepository,
        pause: Duration,
        daemon: Receiver<()>,
    ) -> anyhow::Result<Self> {
        let address = configuration.http.listen.to_string();
        let token = read_secret(&person::token_path(&configuration.store.path))?;
        let server = Server::new(&address, Some(token.clone()));
        let records = RecordsSource::Daemon(Server::new(&address, Some(token)));
        Ok(Self { repository, server, records, pause, daemon, said: BTreeMap::new() })
    }

    /// Says what comes of the first commit, and makes the changes.
    ///
    /// # Errors
    /// The daemon does not answer, or a commit does not lead where it is to lead. None where the daemon was ended meanwhile.
    pub(super) fn play(&mut self, changes: &[&DemoChange]) -> anyhow::Result<()> {
        let played = self.play_all(changes);
        if self.is_ended() { Ok(()) } else { played }
    }

    fn play_all(&mut self, changes: &[&DemoChange]) -> anyhow::Result<()> {
        say("0. The first commit brings the example. `search` goes in stages; its gate is approved for you.\n");
        let first = self.repository.first.clone();
        say(&format!("   commit {} {FIRST}\n", first.short()));
        self.await_goal(Goal::Waits(STAGED), &first)?;
        self.approve()?;
        self.await_goal(Goal::Everywhere, &first)?;
        let mut number = 0;
        for change in changes {
            self.rest();
            if self.is_ended() {
                return Ok(());
            }
            // A change may be made of more than one commit.
            let is_new = std::mem::replace(&mut number, change.number) != change.number;
            let heading = if is_new { format!("{number}.") } else { "  ".to_owned() };
            say(&format!("\n{heading} {}\n", change.says));
            let file = change.file().context("the example lacks a file that the demo changes")?;
            let commit = match commit(&mut self.repository.work_tree, change.message, &[file]) {
                Ok(commit) => commit,
                Err(error) => {
                    say(&format!("   Somebody else committed: the demo makes no further change ({error:#}).\n"));
                    return Ok(());
                }
            };
            say(&format!("   commit {} {}\n", commit.short(), change.message));
            let source = self.await_goal(change.goal, &commit)?;
            for error in source.refused {
                say(&format!("   refused: {error}\n"));
            }
        }
        Ok(())
    }

    /// Opens the gate of the first commit, as a person would.
    fn approve(&self) -> anyhow::Result<()> {
        let stage = Some(GATE_STAGE.to_owned());
        let command = Command { stage, ..Command::new(Verb::Approve, FIRST_RUN) };
        let done = self.server.execute(&command)?.with_context(|| format!("approving {FIRST_RUN} {GATE_STAGE}"))?;
        say(&format!("   gitfleet approve {FIRST_RUN} {GATE_STAGE}: {}\n", done.message));
        Ok(())
    }

    /// Says how placements move until a goal is reached; returns the source's record then.
    fn await_goal(&mut self, goal: Goal, commit: &CommitId) -> anyhow::Result<SourceRecord> {
        let deadline = Instant::now() + GOAL_TIME_MAX;
        let mut version = 0;
        loop {
            let rows = self.records.summary(|_| None)?.placements;
            let source = self.records.read_under(&[SOURCE_PREFIX.to_owned()])?.source.unwrap_or_default();
            for row in &rows {
                let line = changes::line(row);
                let said = self.said.insert(row.placement.to_string(), line.clone());
                if said.is_none_or(|said| said != line) {
                    say(&format!("{line}\n"));
                }
            }
            if goal.is_reached(commit, &source, &rows) {
                return Ok(source);
            }
            if Instant::now() >= deadline {
                bail!("commit {} did not lead to {goal:?} within {} s", commit.short(), GOAL_TIME_MAX.as_secs());
            }
            version = self.records.wait(version)?;
        }
    }

    /// Waits, or until the daemon has ended.
    fn rest(&self) {
        // Nothing is ever sent.
        let _ = self.daemon.recv_timeout(self.pause);
    }

    fn is_ended(&self) -> bool {
        matches!(self.daemon.try_recv(), Err(TryRecvError::Disconnected))
    }
}
