//! `approve`, `reject`, `pause`, `resume`, `rollback`, `retry`: what a person says goes to the daemon, or into its store where
//! none runs.

use std::path::PathBuf;

use anyhow::Context as _;
use secrecy::SecretString;

use super::books::{self, Source, load_configuration, locate};
use super::exit::Exit;
use super::{Daemon, output, person, run};
use crate::config::read_secret;
use crate::engine::clock;
use crate::engine::obey::obey_in_store;
use crate::model::commands::{Command, Done, Person, Refusal, Verb};
use crate::model::runs::Surface;
use crate::store::embedded::EmbeddedStore;

/// What ends the help of every command that tells something.
const EXIT_CODES: &str = "Exit codes: 0 done, 1 refused: nothing has changed, 2 error, 64 wrong usage.";

/// Options of `approve` and `reject`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub struct AtGate {
    /// A run or an approval request, as `get approvals` names it; with stage `deletion` a placement. NAME or NAMESPACE/NAME.
    run: String,
    /// The stage that waits; `deletion` for the deletion gate of a placement.
    stage: Option<String>,
    /// The digest that was shown, or how it begins: a gate that has become one of another is left alone.
    #[arg(long, value_name = "HEX", value_parser = digest)]
    digest: Option<String>,
    #[command(flatten)]
    tell: Tell,
}

/// Options of `pause`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub struct AtPlacement {
    /// The placement, NAME or NAMESPACE/NAME.
    placement: String,
    #[command(flatten)]
    tell: Tell,
}

/// Options of `resume`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub struct Resume {
    /// The placement, NAME or NAMESPACE/NAME; without it the source: a rewritten history that is held is let in.
    placement: Option<String>,
    #[command(flatten)]
    tell: Tell,
}

/// Options of `rollback`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub struct Rollback {
    /// The placement or the run to take back, NAME or NAMESPACE/NAME.
    name: String,
    /// The snapshot to return to; absent is the last that succeeded everywhere.
    #[arg(long, value_name = "INDEX")]
    to: Option<u64>,
    #[command(flatten)]
    tell: Tell,
}

/// Options of `retry`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub struct Retry {
    /// The placement or the run, NAME or NAMESPACE/NAME.
    name: String,
    #[command(flatten)]
    tell: Tell,
}

/// What every command to the fleet takes.
#[derive(Debug, clap::Args)]
pub struct Tell {
    /// Why, in a word, for the record.
    #[arg(long, value_name = "WORD")]
    reason: Option<String>,
    /// Why, at length, for the record.
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,
    /// How to show what happened.
    #[arg(short, long, value_enum, default_value_t)]
    output: Answer,
    /// File with the token that the daemon knows you by; else GITFLEET_TOKEN, else the one the daemon left in its store.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    #[command(flatten)]
    daemon: Daemon,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Answer {
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

impl AtGate {
    /// Runs `approve` or `reject`.
    ///
    /// # Errors
    /// Neither the daemon nor its store can be told.
    pub fn run(&self, verb: Verb) -> anyhow::Result<Exit> {
        let command = Command { stage: self.stage.clone(), digest: self.digest.clone(), ..blank(verb, &self.run) };
        self.tell.tell(command)
    }
}

impl AtPlacement {
    /// Runs `pause`.
    ///
    /// # Errors
    /// Neither the daemon nor its store can be told.
    pub fn run(&self) -> anyhow::Result<Exit> {
        self.tell.tell(blank(Verb::Pause, &self.placement))
    }
}

impl Resume {
    /// Runs `resume`.
    ///
    /// # Errors
    /// Neither the daemon nor its store can be told.
    pub fn run(&self) -> anyhow::Result<Exit> {
        self.tell.tell(blank(Verb::Resume, self.placement.as_deref().unwrap_or_default()))
    }
}

impl Rollback {
    /// Runs `rollback`.
    ///
    /// # Errors
    /// Neither the daemon nor its store can be told.
    pub fn run(&self) -> anyhow::Result<Exit> {
        self.tell.tell(Command { to: self.to, ..blank(Verb::Rollback, &self.name) })
    }
}

impl Retry {
    /// Runs `retry`.
    ///
    /// # Errors
    /// Neither the daemon nor its store can be told.
    pub fn run(&self) -> anyhow::Result<Exit> {
        self.tell.tell(blank(Verb::Retry, &self.name))
    }
}

fn blank(verb: Verb, target: &str) -> Command {
    Command {
        verb,
        target: target.to_owned(),
        stage: None,
        to: None,
        to_commit: None,
        digest: None,
        reason: None,
        message: None,
    }
}

impl Tell {
    /// Tells the daemon, or the store, and shows the answer. A refusal is said on standard error.
    fn tell(&self, command: Command) -> anyhow::Result<Exit> {
        let command = Command { reason: self.reason.clone(), message: self.message.clone(), ..command };
        let answer = match locate(&self.daemon)? {
            Source::Daemon(address) => books::tell(&address, &self.token()?, &command)?,
            Source::Store(path) => self.tell_store(&path, &command)?,
        };
        match answer {
            Ok(done) => self.show(&done),
            Err(refusal) => {
                eprintln!("refused: {refusal}");
                Ok(Exit::NotAsWished)
            }
        }
    }

    fn show(&self, done: &Done) -> anyhow::Result<Exit> {
        match self.output {
            Answer::Text => output::print(&format!("{}\n", done.message)),
            Answer::Json => output::print_json(done),
        }
    }

    fn tell_store(&self, path: &std::path::Path, command: &Command) -> anyhow::Result<Result<Done, Refusal>> {
        let file = self.daemon.config.as_deref().context("a store is found by its configuration; name it with -c")?;
        let configuration = load_configuration(file)?;
        // Opening for writing would make a store where there is none.
        drop(EmbeddedStore::open_read_only(path)?);
        let store = run::open_store(path)?;
        let person = Person::of(person::os_user(), Surface::CommandLine);
        Ok(obey_in_store(&store, configuration.approval_rules(), command, &person, clock::now())?)
    }

    fn token(&self) -> anyhow::Result<SecretString> {
        if let Some(path) = &self.token_file {
            return Ok(read_secret(path)?);
        }
        if let Some(token) = std::env::var("GITFLEET_TOKEN").ok().filter(|token| !token.is_empty()) {
            return Ok(SecretString::from(token));
        }
        let advice = "name a token with --token-file or GITFLEET_TOKEN, or the daemon's configuration with -c";
        let file = self.daemon.config.as_deref().context(advice)?;
        let left = person::token_path(&load_configuration(file)?.store.path);
        read_secret(&left).with_context(|| {
            format!("the daemon left no token for this user (are people named under `http.tokens`?); {advice}")
        })
    }
}
