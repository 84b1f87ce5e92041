//! The test fleet by hand: builds the servers, starts them in the background, ends them. `tests/fleet.sh` runs it.

use std::{env, path::PathBuf, process::ExitCode};

use anyhow::{Context as _, Result, bail};

use super::{CLUSTERS, Console, Fleet, Options, Prometheus, Replicas, State, build_everything};
use crate::repository;

const HELP: &str = "\
A fleet of Kubernetes API servers and a Gitea on this machine, for tests and for trying things out.

Usage: fleet.sh COMMAND [OPTIONS]

Commands:
  build   build the servers and tools into the cache (a first time: about eleven minutes on two cores)
  up      start a fleet in the background, with a repository and people to click through, and print how to reach it
  status  list its processes; exit code 1 if one is gone or there is no fleet
  down    end exactly its processes and remove its folder

Options:
  --plain               servers only: clusters member-1 and so on, an empty Gitea (up)
  --members N           how many clusters (up; default 3); --plain goes without saying
  --no-gitea, --gitea   without or with a Gitea (up; default with); without, --plain goes without saying
  --controller-manager  with a controller manager for each cluster (up)
  --replicas N          so many daemons on one PostgreSQL, running (up)
  --agents N            so many agents of one pool, which deliver to two of the three clusters; one daemon goes without saying (up)
  --state DIR           the fleet's folder (default target/fleet)
  -h, --help            this text

Environment: GITFLEET_TEST_CACHE and others; see tests/testservers/fleet/README.md.
";

/// Exit code for errors.
const ERROR: u8 = 2;

/// Exit code for wrong usage.
const USAGE: u8 = 64;

/// A command line.
#[derive(Debug, PartialEq, Eq)]
struct Arguments {
    command: Command,
    members: usize,
    gitea: bool,
    plain: bool,
    controller_manager: bool,
    replicas: usize,
    agents: usize,
    state: PathBuf,
}

#[derive(Debug, PartialEq, Eq)]
enum Command {
    Build,
    Up,
    Status,
    Down,
    /// Makes workloads of a fleet available, until it is ended: what `up` leaves running.
    Workloads,
    Help,
}

impl Arguments {
    fn parse(words: impl IntoIterator<Item = String>) -> Result<Self> {
        let state = repository().join("target/fleet");
        let mut arguments = Self {
            command: Command::Help,
            members: 3,
            gitea: true,
            plain: false,
            controller_manager: false,
            replicas: 0,
            agents: 0,
            state,
        };
        let mut words = words.into_iter();
        arguments.command = match words.next().as_deref() {
            Some("build") => Command::Build,
            Some("up") => Command::Up,
            Some("status") => Command::Status,
            Some("down") => Command::Down,
            Some("workloads") => Command::Workloads,
            Some("help" | "--help" | "-h") => return Ok(arguments),
            Some(other) => bail!("unknown command `{other}`"),
            None => bail!("a command is missing"),
        };
        while let Some(word) = words.next() {
            let up = arguments.command == Command::Up;
            let word = word.as_str();
            match word {
                "--help" | "-h" => arguments.command = Command::Help,
                "--gitea" if up => arguments.gitea = true,
                "--no-gitea" if up => (arguments.gitea, arguments.plain) = (false, true),
                "--plain" if up => arguments.plain = true,
                "--controller-manager" if up => arguments.controller_manager = true,
                "--members" if up => (arguments.members, arguments.plain) = (number(word, words.next())?, true),
                "--replicas" if up => arguments.replicas = number(word, words.next())?,
                "--agents" if up => arguments.agents = number(word, words.next())?,
                "--state" => match words.next() {
                    Some(folder) if !folder.is_empty() => arguments.state = folder.into(),
                    _ => bail!("--state needs a folder"),
                },
                other => bail!("unknown option `{other}`"),
            }
        }
        if arguments.agents > 0 {
            arguments.replicas = arguments.replicas.max(1);
        }
        if arguments.replicas > 0 && arguments.plain {
            bail!("--replicas and --agents need the repository, which --plain, --members and --no-gitea go without");
        }
        Ok(arguments)
    }

    fn run(self) -> Result<ExitCode> {
        match self.command {
            Command::Help => print!("{HELP}"),
            Command::Build => {
                let (binaries, tools) = build_everything()?;
                println!("{binaries:#?}\n{tools:#?}");
                println!("{}", Prometheus::binary()?.display());
            }
            Command::Up => {
                if State::read(&self.state)?.is_some() {
                    bail!("a fleet is up in {}; `down` ends it", self.state.display());
                }
                let options = if self.plain { Options::members(self.members) } else { Options::named(CLUSTERS) };
                let mut options = options.in_folder(&self.state);
                options.gitea = self.gitea;
                options.controller_manager = self.controller_manager;
                let fleet = Fleet::start(options)?;
                let console = if self.plain { None } else { Some(Console::prepare(&fleet)?) };
                let replicas = match &console {
                    Some(console) if self.replicas > 0 => {
                        Some(Replicas::start(&fleet, console, self.replicas, self.agents)?)
                    }
                    _ => None,
                };
                let mut state = fleet.detach()?;
                if let Some(console) = &console {
                    state = state.with_console(console)?;
                }
                if let Some(replicas) = &replicas {
                    state = state.with_replicas(replicas)?;
                }
                println!("{}", state.describe());
            }
            Command::Status => {
                let Some(state) = State::read(&self.state)? else {
                    println!("no fleet in {}", self.state.display());
                    return Ok(ExitCode::from(1));
                };
                let (processes, all) = state.processes()?;
                println!("{}\n\n{processes}", state.describe());
                return Ok(ExitCode::from(u8::from(!all)));
            }
            Command::Workloads => {
                let state = State::read(&self.state)?.context("no fleet")?;
                state.make_workloads_available()?;
            }
            Command::Down => match State::read(&self.state)? {
                Some(state) => println!("{} processes ended", state.down()?),
                None => println!("no fleet in {}", self.state.display()),
            },
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Reads the number of an option.
fn number(option: &str, word: Option<String>) -> Result<usize> {
    match word.map(|word| word.parse()) {
        Some(Ok(number)) => Ok(number),
        _ => bail!("{option} needs a number"),
    }
}

/// Runs the command that the words after the program's name say.
pub fn main() -> ExitCode {
    let arguments = match Arguments::parse(env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("error: {error:#}\n\n{HELP}");
            return ExitCode::from(USAGE);
        }
    };
    arguments.run().unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::from(ERROR)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Arguments> {
        Arguments::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn command_lines() {
        let up = parse("up --members 5 --no-gitea --state /tmp/x").expect("a good line");
        assert_eq!((up.members, up.gitea, up.state), (5, false, PathBuf::from("/tmp/x")));
        let plain = |line: &str| parse(line).expect("a good line").plain;
        assert!(!plain("up") && plain("up --plain") && plain("up --members 3") && plain("up --no-gitea"));
        assert_eq!(parse("down --help").expect("help").command, Command::Help);
        let many = parse("up --replicas 3").expect("a good line");
        assert_eq!((many.replicas, many.agents, many.plain), (3, 0, false));
        let agents = parse("up --agents 2").expect("a good line");
        assert_eq!((agents.replicas, agents.agents), (1, 2), "somebody must give the agents orders");
        for wrong in [
            "",
            "start",
            "up --members",
            "up --members many",
            "down --members 3",
            "status --state",
            "up --replicas 3 --plain",
            "up --agents 2 --plain",
            "down --agents 2",
        ] {
            assert!(parse(wrong).is_err(), "`{wrong}` is wrong usage");
        }
    }
}
