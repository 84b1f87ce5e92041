//! The command line.

pub mod exit;
pub mod output;

mod agent;
mod agent_token;
mod asked;
mod check;
mod checkouts;
mod commands;
mod commit_gates;
mod completion;
mod config_file;
mod cordon;
mod demo;
mod describe;
mod diff;
mod events;
mod explain;
mod export;
mod folder;
mod forge;
mod get;
pub mod help;
mod history;
mod init;
mod kinds;
mod listed;
mod member;
mod opened;
mod paths;
mod person;
mod plan;
mod plan_config;
mod proxy;
mod records;
mod rendering;
mod run;
mod schedule;
mod server;
mod simulate;
mod source;
mod status;
mod store;
mod subjects;
mod validate;
mod version;
mod wanted;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use exit::Exit;
use model::commands::Verb;
use system::telemetry::log;
use system::telemetry::log::LogFormat;

/// Makes a git repository the hub of a fleet of Kubernetes clusters.
#[derive(Debug, Parser)]
#[command(name = "gitfleet", version, max_term_width = 100, arg_required_else_help = true)]
#[command(
    after_help = "Exit codes: 0 success, 1 differences found, not converged, or refused, 2 error, 3 approval required, 64 wrong usage."
)]
pub struct Cli {
    /// How logs are written to standard error: text or json.
    #[arg(long, global = true, value_enum, value_name = "FORMAT", default_value = "text", env = "GITFLEET_LOG_FORMAT")]
    #[arg(help_heading = help::GLOBAL, hide_possible_values = true)]
    log_format: LogFormat,
    /// What is logged, such as `debug` or `gitfleet=debug,kube=info`.
    #[arg(long, global = true, value_name = "FILTER", env = "GITFLEET_LOG", help_heading = help::GLOBAL)]
    log: Option<String>,
    /// When to colour: auto, always or never.
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t)]
    #[arg(help_heading = help::GLOBAL, hide_possible_values = true)]
    color: help::Colour,
    /// The daemon's configuration file, for commands that ask the daemon; it may also stand after the command. Else GITFLEET_CONFIG,
    /// ./gitfleet.yaml, or gitfleet/gitfleet.yaml in the configuration folder of the user.
    #[arg(short, long, value_name = "FILE", help_heading = help::GLOBAL)]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write a repository and a configuration to begin with.
    Init(init::Args),
    /// Say whether all that the daemon needs is there: source, store, members, git host.
    Check(check::Args),
    /// Follow the source and keep the fleet in step with it.
    Run(run::Args),
    /// Show gitfleet at work: an example fleet, and changes made one after the other.
    Demo(demo::Args),
    /// Check every manifest of a folder; prints each error with file and line.
    Validate(validate::Args),
    /// Show what a tree would do to the fleet; needs no cluster.
    Plan(plan::Args),
    /// Simulate a rollout on a virtual clock; needs no cluster.
    Simulate(simulate::Args),
    /// Decide which clusters placements go to, from objects in files alone.
    Schedule(schedule::Args),
    /// Show why a placement has the clusters it has, and not others.
    Explain(explain::Args),
    /// Show records: placements, snapshots, runs, approvals, bindings, works, clusters.
    Get(get::Args),
    /// Show one object with its conditions and what happened to it.
    Describe(describe::Args),
    /// Show the snapshots of a placement: commits, who approved, what became of each.
    History(history::Args),
    /// Show how clusters differ from what they are to hold of a placement.
    Diff(diff::Args),
    /// Show what happened, as sentences.
    Events(events::Args),
    /// Show what needs a person, what is wrong, and how each placement stands.
    Status(status::Args),
    /// Approve a gate that waits for approval.
    Approve(commands::AtGate),
    /// Say no at a gate: the run ends, and its snapshot is not rolled out again.
    Reject(commands::AtGate),
    /// Start nothing new for a placement.
    Pause(commands::AtPlacement),
    /// Resume a placement; without a name, accept the rewritten history of the source.
    Resume(commands::Resume),
    /// Return a placement to an earlier snapshot.
    Rollback(commands::Rollback),
    /// Try failed clusters again, or a snapshot that was rolled back or rejected.
    Retry(commands::Retry),
    /// Keep placements away from a cluster: taint it, as a commit.
    Cordon(cordon::Cordon),
    /// Take the taint of a cordon away, as a commit.
    Uncordon(cordon::Cordon),
    /// Move placements off a cluster: cordon it and evict what is there, as a commit.
    Drain(cordon::DrainArgs),
    /// Print what other tools need of the records.
    #[command(subcommand)]
    Export(export::Export),
    /// Say that a source that moved is the same one.
    #[command(subcommand)]
    Source(source::SourceArgs),
    /// Back the store up, restore it, or continue after it was lost.
    #[command(subcommand)]
    Store(store::StoreCommand),
    /// Prepare a member cluster.
    #[command(subcommand)]
    Member(member::MemberArgs),
    /// Deliver to members from where they are, as a daemon says; or say which agents may.
    Agent(agent::Args),
    /// Connect the git host: statuses, comments, webhooks.
    #[command(subcommand)]
    Forge(forge::ForgeArgs),
    /// Print the CustomResourceDefinitions of the kinds that gitfleet reads.
    Crd,
    /// Print what the configuration file may hold.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print the version.
    Version(version::Args),
    /// Print a completion script for a shell, which completes names of placements and clusters too.
    Completion {
        /// The shell.
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Write the manual pages into a folder.
    Man {
        /// The folder; it is made if it is missing.
        folder: PathBuf,
    },
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Print the JSON schema of `gitfleet.yaml`.
    Schema,
}

/// Where the daemon is, for commands that ask it.
#[derive(Debug, Default, clap::Args)]
pub struct Daemon {
    /// The daemon's configuration file: says where it listens and where its store is. Else GITFLEET_CONFIG, and unless --server is
    /// given ./gitfleet.yaml, or gitfleet/gitfleet.yaml in the configuration folder of the user.
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The daemon's address.
    #[arg(long, value_name = "HOST:PORT", env = "GITFLEET_SERVER")]
    server: Option<String>,
    /// File with the token that the daemon knows you by; else GITFLEET_TOKEN, else the one the daemon left in its store.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl Daemon {
    /// Returns the configuration's file, named or found. Where an address is named none is searched for: its token is for the daemon
    /// of its own store.
    fn config_file(&self) -> Option<PathBuf> {
        let option = self.config.as_deref();
        if self.server.is_some() { config_file::named(option) } else { config_file::find(option) }
    }
}

/// Returns the configuration that a command line names, in front of the command or after it.
fn named_configuration(matches: &ArgMatches) -> Option<&Path> {
    let mut last = matches;
    let mut config = last.get_raw("config").and_then(|mut values| values.next());
    while let Some((_, below)) = last.subcommand() {
        last = below;
        let is_given = matches!(last.try_contains_id("config"), Ok(true));
        if is_given && last.value_source("config") == Some(ValueSource::CommandLine) {
            config = last.try_get_raw("config").ok().flatten().and_then(|mut raw| raw.next()).or(config);
        }
    }
    config.map(Path::new)
}

/// Returns the command line with everything that its help says.
pub fn command() -> clap::Command {
    help::described(Cli::command())
}

fn parse() -> clap::error::Result<Cli> {
    let mut command = command();
    let matches = command.try_get_matches_from_mut(std::env::args_os());
    let matches = matches.map_err(|error| help::with_plain_usage(error, &mut command))?;
    if let Some(file) = named_configuration(&matches) {
        config_file::note_called_with(file);
    }
    Cli::from_arg_matches(&matches).map_err(|error| help::with_plain_usage(error, &mut command))
}

/// Returns what a line tells a daemon about a run or a placement; `None` where it tells it something else, or nothing.
///
/// # Errors
/// It is no command line of ours.
pub fn told(line: &str) -> clap::error::Result<Option<model::commands::Command>> {
    let cli = Cli::try_parse_from(line.split_whitespace())?;
    Ok(match cli.command {
        // One about a commit is several commands, one for each gate.
        Command::Approve(args) if !args.is_of_commit() => Some(args.command(Verb::Approve)),
        Command::Reject(args) if !args.is_of_commit() => Some(args.command(Verb::Reject)),
        Command::Pause(args) => Some(args.command()),
        Command::Resume(args) => Some(args.command()),
        Command::Rollback(args) => Some(args.command()),
        Command::Retry(args) => Some(args.command()),
        _ => None,
    })
}

/// Runs the command line; returns the process's exit code.
pub fn main() -> Exit {
    // A shell that completes a line calls us with this variable, and no command is carried out.
    clap_complete::CompleteEnv::with_factory(command).var(completion::VARIABLE).complete();
    let cli = match parse() {
        Ok(cli) => cli,
        Err(error) => {
            // A closed pipe is no reason to complain about a help text.
            drop(error.print());
            return if error.use_stderr() { Exit::Usage } else { Exit::Done };
        }
    };
    let silence = match cli.command {
        // What the simulated daemon would log is in what it prints.
        Command::Simulate(_) | Command::Plan(_) => Some("off"),
        Command::Demo(_) => Some(demo::LOG_FILTER),
        _ => None,
    };
    output::set_colour(cli.color);
    if let Err(error) = log::init(cli.log_format, cli.log.as_deref().or(silence), cli.color.wanted()) {
        return fail(&error.into());
    }
    config_file::note_in_front(cli.config);
    let result = match cli.command {
        Command::Init(args) => init::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Agent(args) => agent::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Validate(args) => validate::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Schedule(args) => schedule::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Get(args) => get::run(&args),
        Command::Describe(args) => describe::run(&args),
        Command::History(args) => history::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Events(args) => events::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Approve(args) => args.run(Verb::Approve),
        Command::Reject(args) => args.run(Verb::Reject),
        Command::Pause(args) => args.run(),
        Command::Resume(args) => args.run(),
        Command::Rollback(args) => args.run(),
        Command::Retry(args) => args.run(),
        Command::Cordon(args) => args.cordon(),
        Command::Uncordon(args) => args.uncordon(),
        Command::Drain(args) => args.run(),
        Command::Export(what) => export::run(&what),
        Command::Source(what) => what.run(),
        Command::Store(what) => store::run(&what),
        Command::Member(what) => member::run(&what),
        Command::Forge(what) => what.run(),
        Command::Crd => output::print(&crd()),
        Command::Config(ConfigCommand::Schema) => output::print(&format!("{:#}\n", config::schema())),
        Command::Version(args) => version::run(&args),
        Command::Completion { shell } => completion::script(shell).and_then(|script| output::print(&script)),
        Command::Man { folder } => man(&folder),
    };
    result.unwrap_or_else(|error| fail(&error))
}

/// Writes a manual page of each command.
fn man(folder: &Path) -> anyhow::Result<Exit> {
    let place = folder.display();
    std::fs::create_dir_all(folder).with_context(|| format!("making the folder {place}"))?;
    clap_mangen::generate_to(command(), folder).with_context(|| format!("writing manual pages into {place}"))?;
    output::print(&format!("wrote the manual pages into {place}; `man -l {place}/gitfleet.1` shows the first\n"))
}

/// Returns the CustomResourceDefinitions as YAML documents.
fn crd() -> String {
    model::api::crds().iter().flat_map(|crd| ["---\n".to_owned(), model::yaml::to_string(crd)]).collect()
}

/// Says on standard error what went wrong, and its cause, once.
fn fail(error: &anyhow::Error) -> Exit {
    let causes = model::text::causes(error.chain().map(ToString::to_string));
    eprintln!("{} {}", output::alarm("error:"), config_file::as_called(&model::text::lines(&causes)));
    // What lacks a configuration was called wrongly.
    if error.is::<config_file::NoConfiguration>() { Exit::Usage } else { Exit::Error }
}
