//! `gitfleet status`: what needs a person, what is wrong, and how each placement stands; once, live, or when it is over.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::anyhow;
use jiff::{SignedDuration, Timestamp};

use super::Daemon;
use super::exit::Exit;
use super::export::placement_named;
use super::output::{self, Terminal};
use super::records::{RecordsSource, locate};
use super::run::duration;
use super::subjects::Subjects;
use model::id::PlacementKey;
use model::text;
use system::clock;
use views::overview::overview;
use views::status_document::StatusDocument;
use views::summary::{StatusPart, Summary};
use views::tree::Line;

mod watch;

/// Options of `status`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without a name: what needs a person, with the command to answer; what is wrong with the source and with clusters; and one line for \
each placement, those in trouble first.

Examples:
  What needs me now?
    gitfleet status --waiting
  Every stage and every cluster of one placement, live:
    gitfleet status -w search
  In a script, after a push: wait until the rollout is over, and fail unless it succeeded.
    gitfleet status --wait --timeout 30m

Exit codes: 0 shown. With --exit-code or --wait: 0 everything that is shown is up to date, 3 approval required, 1 anything else. \
2 error, 64 wrong usage.")]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub(crate) struct Args {
    /// Show all of these placements, NAME or NAMESPACE/NAME: run, stages, clusters.
    #[arg(value_name = "NAME", value_parser = placement_named)]
    names: Vec<PlacementKey>,
    /// Only what waits for a person.
    #[arg(long, conflicts_with_all = ["failed", "names"])]
    waiting: bool,
    /// Only what failed, or waits for clusters that do not answer.
    #[arg(long, conflicts_with = "names")]
    failed: bool,
    /// Show all of every placement.
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// Show it live; `q` or Ctrl-C ends it.
    #[arg(short, long, conflicts_with = "output")]
    watch: bool,
    /// Wait until nothing that is shown moves or waits for time, and then show it.
    #[arg(long, conflicts_with = "watch")]
    wait: bool,
    /// With --wait: give up after this time, and exit 1.
    #[arg(long, value_name = "DURATION", requires = "wait", value_parser = duration)]
    timeout: Option<Duration>,
    /// Say by the exit code how it stands.
    #[arg(long)]
    exit_code: bool,
    /// How to show it.
    #[arg(short, long, value_enum, default_value_t)]
    output: StatusFormat,
    #[command(flatten)]
    daemon: Daemon,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum StatusFormat {
    /// Text for people.
    #[default]
    Text,
    /// JSON with plain texts, and times in whole seconds.
    Json,
    /// YAML of the same.
    Yaml,
}

/// Runs the command. Exits 0, or with `--exit-code` or `--wait` as the fleet stands.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let source = locate(&args.daemon)?;
    if args.watch {
        return watch::watch(args, source);
    }
    let mut summary = args.ask(&source)?;
    let mut is_late = false;
    if args.wait && !summary.is_settled() {
        let deadline = args.timeout.map(|timeout| after(clock::now(), timeout));
        let changes = args.changes(source)?;
        while !summary.is_settled() && !is_late {
            match next(&changes, deadline) {
                Some(read) => summary = read?,
                None => is_late = true,
            }
        }
    }
    print(args, &summary)?;
    if is_late {
        eprintln!("error: not over within {:#}", SignedDuration::try_from(args.timeout.unwrap_or_default())?);
        return Ok(Exit::NotAsWished);
    }
    Ok(args.exit(&summary))
}

fn after(now: Timestamp, time: Duration) -> Timestamp {
    SignedDuration::try_from(time).ok().and_then(|time| now.checked_add(time).ok()).unwrap_or(Timestamp::MAX)
}

/// Returns the next summary, or `None` at the deadline.
fn next(changes: &Receiver<anyhow::Result<Summary>>, deadline: Option<Timestamp>) -> Option<anyhow::Result<Summary>> {
    let received = match deadline {
        None => changes.recv().map_err(|_| RecvTimeoutError::Disconnected),
        Some(deadline) => {
            changes.recv_timeout(Duration::try_from(deadline.duration_since(clock::now())).unwrap_or_default())
        }
    };
    match received {
        Ok(read) => Some(read),
        Err(RecvTimeoutError::Timeout) => None,
        Err(RecvTimeoutError::Disconnected) => Some(Err(anyhow!("reading the fleet ended without a reason"))),
    }
}

fn print(args: &Args, summary: &Summary) -> anyhow::Result<()> {
    match args.output {
        StatusFormat::Json => drop(output::print_json(&StatusDocument::of(summary, summary.now(clock::now())))?),
        StatusFormat::Yaml => {
            let document = serde_json::to_value(StatusDocument::of(summary, summary.now(clock::now())))?;
            output::print(&output::render_yaml(&[document]))?;
        }
        StatusFormat::Text => {
            let terminal = Terminal::of_stdout();
            let lines = args.lines(summary, terminal.width.map(usize::from));
            output::print(&output::render_lines(&lines, terminal))?;
        }
    }
    Ok(())
}

impl Args {
    /// Asks how the part of the fleet stands that is to be shown.
    fn ask(&self, source: &RecordsSource) -> anyhow::Result<Summary> {
        let mut summary = source.summary(|commit| Subjects::open(&self.daemon)?.of(commit))?;
        if self.names.is_empty() {
            summary.keep(match (self.waiting, self.failed) {
                (true, _) => StatusPart::Waiting,
                (_, true) => StatusPart::Failed,
                _ => StatusPart::Everything,
            });
            return Ok(summary);
        }
        let mut rows = Vec::new();
        for name in &self.names {
            let Some(row) = source.row(name)? else {
                let known: Vec<String> = summary.placements.iter().map(|row| row.placement.to_string()).collect();
                let hint = match text::suggest(&name.to_string(), known.iter().map(String::as_str)) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "see `gitfleet get placements`".to_owned(),
                };
                return Err(anyhow!("there is no placement {name} ({hint})"));
            };
            rows.push(row);
        }
        summary.narrow(rows);
        Ok(summary)
    }

    /// Reads the summary at each change of the fleet, in a thread that ends with its first error.
    fn changes(&self, source: RecordsSource) -> anyhow::Result<Receiver<anyhow::Result<Summary>>> {
        let (sender, changes) = mpsc::channel();
        let question = Self { names: self.names.clone(), daemon: Daemon::default(), ..*self };
        if matches!(source, RecordsSource::Store(_)) {
            // Says that nothing changes without a daemon.
            source.wait(0)?;
        }
        let mut version = 0;
        thread::spawn(move || {
            loop {
                let read = question.ask(&source);
                let is_over = read.is_err();
                if sender.send(read).is_err() || is_over {
                    return;
                }
                match source.wait(version) {
                    Ok(next) => version = next,
                    Err(error) => return drop(sender.send(Err(error))),
                }
            }
        });
        Ok(changes)
    }

    /// Returns what to show, for a terminal of this width.
    fn lines(&self, summary: &Summary, width: Option<usize>) -> Vec<Line> {
        let now = summary.now(clock::now());
        if self.all || !self.names.is_empty() { summary.lines(now) } else { overview(summary, now, width) }
    }

    fn exit(&self, summary: &Summary) -> Exit {
        if !self.exit_code && !self.wait {
            return Exit::Done;
        }
        // All placements may be at the accepted commit, and the commit that people wait for is refused or was not read.
        summary.standing.iter().map(|kind| Exit::from(*kind)).fold(Exit::Done, Exit::and)
    }
}
