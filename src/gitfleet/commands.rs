//! `approve`, `reject`, `pause`, `resume`, `rollback`, `retry`: sends a person's command to the daemon, or executes it in the
//! store if no daemon runs.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _};

use anyhow::Context as _;

use super::completion::{CompletedName, names};
use super::exit::Exit;
use super::records::{RecordsSource, load_configuration, locate};
use super::{Daemon, commit_gates, config_file, opened, output, person};
use decide::status::work::counted;
use engine::execute::{Authority, execute_in_store, preview_in_store};
use model::commands::{Command, Done, Person, Refusal, RefusalReason, Verb, WaitingGate};
use model::id::ClusterName;
use model::names::first_of;
use model::runs::Channel;
use system::clock;

/// The end of the help of every command that changes something.
pub(super) const EXIT_CODES: &str =
    "Exit codes: 0 done, also where it was so already; 1 refused: nothing has changed; 2 error; 64 wrong usage.";

/// Clusters that are listed before a person is asked.
const CLUSTERS_SHOWN_MAX: usize = 10;
/// Digits of a commit that must be named at least.
const SHA_SHOWN_MIN: usize = 4;
/// Longest answer that is read, in bytes.
const ANSWER_BYTES_MAX: u64 = 64;

/// Options of `approve` and `reject`.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("{EXIT_CODES}

Examples:
  gitfleet approve web-3 staging
  gitfleet approve --commit 433feff --stage staging"))]
pub(crate) struct AtGate {
    /// A run or an approval request, as `get approvals` names it, or a placement, which stands for its run; with stage `deletion` a
    /// placement. NAME or NAMESPACE/NAME; where a name fits several, crp/NAME or rp/NAMESPACE/NAME is one placement.
    #[arg(required_unless_present = "commit", add = names(CompletedName::Runs))]
    run: Option<String>,
    /// The stage that waits; `deletion` for the deletion gate of a placement. `approve` without one shows the gate that waits and
    /// asks, on a terminal; elsewhere it is refused.
    #[arg(add = names(CompletedName::Stages))]
    stage: Option<String>,
    /// Instead of a run: every gate of this commit, or the beginning of its id, in all placements. It shows them and asks once; where a
    /// script says it, the stage is to be named. Deletions are approved one by one.
    #[arg(long, value_name = "SHA", value_parser = sha, conflicts_with_all = ["run", "stage", "digest"])]
    commit: Option<String>,
    /// With --commit: only gates of this stage.
    #[arg(long = "stage", value_name = "STAGE", requires = "commit", add = names(CompletedName::Stages))]
    at: Option<String>,
    /// The digest that was shown, or how it begins; if the digest of the gate has changed, nothing is approved.
    #[arg(long, value_name = "HEX", value_parser = digest)]
    digest: Option<String>,
    /// On a terminal: do not ask, and approve what waits at that moment.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    options: CommandOptions,
}

/// Options of `pause`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct AtPlacement {
    /// The placement: NAME or NAMESPACE/NAME, or crp/NAME or rp/NAMESPACE/NAME.
    #[arg(add = names(CompletedName::Placements))]
    placement: String,
    #[command(flatten)]
    options: CommandOptions,
}

/// Options of `resume`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Resume {
    /// The placement: NAME or NAMESPACE/NAME, or crp/NAME or rp/NAMESPACE/NAME; without it the source: a rewritten history that is held is accepted, and where
    /// gitfleet has not read the source since it started, it continues with the accepted commit.
    #[arg(add = names(CompletedName::Placements))]
    placement: Option<String>,
    #[command(flatten)]
    options: CommandOptions,
}

/// Options of `rollback`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Rollback {
    /// The placement or the run to take back: NAME or NAMESPACE/NAME; a placement also as crp/NAME or rp/NAMESPACE/NAME.
    #[arg(add = names(CompletedName::Runs))]
    name: String,
    /// The snapshot to return to; absent is the last that succeeded everywhere, and where that is the current one, the one before.
    #[arg(long, value_name = "INDEX")]
    to: Option<u64>,
    /// Only show where it would return to.
    #[arg(long)]
    dry_run: bool,
    /// On a terminal: do not ask.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    options: CommandOptions,
}

/// Options of `retry`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Retry {
    /// The placement or the run: NAME or NAMESPACE/NAME; a placement also as crp/NAME or rp/NAMESPACE/NAME.
    #[arg(add = names(CompletedName::Runs))]
    name: String,
    #[command(flatten)]
    options: CommandOptions,
}

/// The options of every command that changes something.
#[derive(Debug, clap::Args)]
pub(crate) struct CommandOptions {
    /// Why, for the record.
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
    /// Reason code that the condition of an approval request shows.
    #[arg(long, value_name = "WORD", hide = true)]
    reason: Option<String>,
    /// How to show what happened.
    #[arg(short, long, value_enum, default_value_t)]
    output: CommandAnswer,
    #[command(flatten)]
    daemon: Daemon,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum CommandAnswer {
    /// A sentence.
    #[default]
    Text,
    /// JSON: `message` and `at`.
    Json,
}

/// What people have seen of a digest.
fn digest(text: &str) -> Result<String, String> {
    let is_digest = (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit());
    if is_digest { Ok(text.to_ascii_lowercase()) } else { Err("a digest has 1 to 64 hexadecimal digits".to_owned()) }
}

/// The beginning of a commit's id.
fn sha(text: &str) -> Result<String, String> {
    let is_sha = (SHA_SHOWN_MIN..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit());
    if is_sha {
        Ok(text.to_ascii_lowercase())
    } else {
        Err(format!("a commit has {SHA_SHOWN_MIN} to 64 hexadecimal digits"))
    }
}

impl AtGate {
    /// Returns what a line says that names a run or a placement.
    pub(super) fn command(&self, verb: Verb) -> Command {
        let run = self.run.as_deref().unwrap_or_default();
        Command { stage: self.stage.clone(), digest: self.digest.clone(), ..Command::new(verb, run) }
    }

    /// Tells whether a line names a commit, and so every gate of it.
    pub(super) fn is_of_commit(&self) -> bool {
        self.commit.is_some()
    }

    /// Runs `approve` or `reject`.
    ///
    /// # Errors
    /// Neither the daemon nor its store accepts the command.
    pub(crate) fn run(&self, verb: Verb) -> anyhow::Result<Exit> {
        if let Some(commit) = &self.commit {
            let gates = commit_gates::waiting(&self.options, verb, commit, self.at.as_deref())?;
            return commit_gates::decide(&self.options, verb, gates, self.yes, self.at.is_some());
        }
        let command = self.command(verb);
        let is_seen = self.yes || self.digest.is_some();
        // A rejection opens nothing, and who names a digest has seen the gate. A script is not asked.
        if verb != Verb::Approve || is_seen || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            return self.options.send(command);
        }
        let gate = match self.options.preview(&command)? {
            Ok(gate) => gate,
            Err(refusal) => return Ok(refused(&refusal)),
        };
        if !confirm(&gate)? {
            eprintln!("not approved: nothing has changed");
            return Ok(Exit::NotAsWished);
        }
        // What was shown is what is approved: where the gate has changed since, it is refused.
        let digest = Some(gate.digest.to_string());
        self.options.send(Command { target: gate.name, stage: Some(gate.stage), digest, ..command })
    }
}

impl AtPlacement {
    pub(super) fn command(&self) -> Command {
        Command::new(Verb::Pause, &self.placement)
    }

    /// Runs `pause`.
    ///
    /// # Errors
    /// Neither the daemon nor its store accepts the command.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        self.options.send(self.command())
    }
}

impl Resume {
    pub(super) fn command(&self) -> Command {
        Command::new(Verb::Resume, self.placement.as_deref().unwrap_or_default())
    }

    /// Runs `resume`.
    ///
    /// # Errors
    /// Neither the daemon nor its store accepts the command.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        self.options.send(self.command())
    }
}

impl Rollback {
    pub(super) fn command(&self) -> Command {
        Command { to: self.to, ..Command::new(Verb::Rollback, &self.name) }
    }

    /// Runs `rollback`.
    ///
    /// # Errors
    /// Neither the daemon nor its store accepts the command.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let command = self.command();
        let asks = !self.yes && io::stdin().is_terminal() && io::stderr().is_terminal();
        if !self.dry_run && !asks {
            return self.options.send(command);
        }
        let way = match self.options.preview(&command)? {
            Ok(way) => way,
            Err(refusal) => return Ok(refused(&refusal)),
        };
        if self.dry_run {
            return output::print(&format!(
                "{}; {} ({})\n",
                way.opens,
                counted(way.clusters.len(), "cluster"),
                named(&way)
            ));
        }
        eprintln!("{}", way.opens);
        eprintln!("  clusters  {}", named(&way));
        if !answers_yes("roll back")? {
            eprintln!("not rolled back: nothing has changed");
            return Ok(Exit::NotAsWished);
        }
        // What was shown is what is done, whatever came meanwhile.
        self.options.send(Command { to: way.snapshot, ..command })
    }
}

impl Retry {
    pub(super) fn command(&self) -> Command {
        Command::new(Verb::Retry, &self.name)
    }

    /// Runs `retry`.
    ///
    /// # Errors
    /// Neither the daemon nor its store accepts the command.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        self.options.send(self.command())
    }
}

/// Returns whoever sits at the machine of the store.
fn operator() -> Person {
    Person::of(person::os_user(), Channel::CommandLine)
}

/// Says why nothing was done. What is so already is no failure.
fn refused(refusal: &Refusal) -> Exit {
    let message = config_file::as_called(&refusal.to_string());
    if refusal.reason == RefusalReason::SoAlready {
        eprintln!("nothing to do: {message}");
        return Exit::Done;
    }
    eprintln!("refused: {message}");
    Exit::NotAsWished
}

/// Shows a gate and what it opens, and asks. Anything but a yes is a no.
fn confirm(gate: &WaitingGate) -> anyhow::Result<bool> {
    eprintln!("stage {} of {} waits for approval", gate.stage, gate.name);
    eprintln!("  digest    {}", gate.digest.short());
    eprintln!("  clusters  {}", named(gate));
    eprintln!("  then      {}", gate.opens);
    answers_yes("approve")
}

/// Returns the first names of the clusters that something concerns.
pub(super) fn named(gate: &WaitingGate) -> String {
    first_of(gate.clusters.iter().map(ClusterName::as_str), CLUSTERS_SHOWN_MAX)
}

pub(super) fn answers_yes(question: &str) -> anyhow::Result<bool> {
    eprint!("{question}? [y/N] ");
    let mut answer = String::new();
    io::stdin().lock().take(ANSWER_BYTES_MAX).read_line(&mut answer).context("reading your answer")?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

impl CommandOptions {
    /// Sends the command to the daemon, or executes it in the store, and prints the answer. A refusal goes to standard error.
    pub(super) fn send(&self, command: Command) -> anyhow::Result<Exit> {
        match self.answer(command)? {
            Ok(done) => self.show(&done),
            Err(exit) => Ok(exit),
        }
    }

    /// As [`CommandOptions::send`], and returns what was done.
    pub(super) fn answer(&self, command: Command) -> anyhow::Result<Result<Done, Exit>> {
        let command = Command { reason: self.reason.clone(), message: self.message.clone(), ..command };
        let answer = match locate(&self.daemon)? {
            RecordsSource::Daemon(server) => server.execute(&command)?,
            RecordsSource::Store(settings) => self.execute_in_store(&settings, &command)?,
        };
        match answer {
            Ok(done) => Ok(Ok(done)),
            Err(refusal) => {
                let exit = refused(&refusal);
                if refusal.reason == RefusalReason::NotFound
                    && !command.verb.is_about_agents()
                    && let Some(near) = commit_gates::near(self, &command.target)
                {
                    eprintln!("did you mean {near}?");
                }
                Ok(Err(exit))
            }
        }
    }

    /// Tells whether JSON is wanted.
    pub(super) fn is_json(&self) -> bool {
        matches!(self.output, CommandAnswer::Json)
    }

    /// Finds where the records are, and where commands go.
    pub(super) fn source(&self) -> anyhow::Result<RecordsSource> {
        locate(&self.daemon)
    }

    /// Asks what an approval would open.
    pub(super) fn preview(&self, command: &Command) -> anyhow::Result<Result<WaitingGate, Refusal>> {
        match locate(&self.daemon)? {
            RecordsSource::Daemon(server) => server.preview(command),
            RecordsSource::Store(settings) => {
                let authority = self.authority()?;
                let store = opened::read_only(&settings)?;
                Ok(preview_in_store(&*store, &authority, command, &operator(), clock::now())?)
            }
        }
    }

    fn authority(&self) -> anyhow::Result<Authority> {
        Ok(Authority::of(&load_configuration(&config_file::require(self.daemon.config.as_deref())?)?))
    }

    fn show(&self, done: &Done) -> anyhow::Result<Exit> {
        match self.output {
            CommandAnswer::Text => output::print(&format!("{}\n", config_file::as_called(&done.message))),
            CommandAnswer::Json => output::print_json(done),
        }
    }

    fn execute_in_store(&self, settings: &config::Store, command: &Command) -> anyhow::Result<Result<Done, Refusal>> {
        let configuration = load_configuration(&config_file::require(self.daemon.config.as_deref())?)?;
        let authority = Authority::of(&configuration);
        // Opening for writing would make a store where there is none, which only an adoption is for.
        if command.verb != Verb::Adopt {
            drop(opened::read_only(settings)?);
        }
        let store = opened::writable(&configuration.store)?;
        Ok(execute_in_store(&*store, &authority, command, &operator(), clock::now())?)
    }
}
