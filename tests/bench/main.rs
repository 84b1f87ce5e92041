//! The benchmarks that need servers, processes or large trees: `tests/bench.sh`. Never run by the tests.

#![allow(unreachable_pub, reason = "nothing is outside of a benchmark")]
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::disallowed_methods,
    clippy::unchecked_time_subtraction,
    reason = "a benchmark reads clocks and rounds figures"
)]

mod client;
mod daemon;
mod database;
mod fleets;
mod forge;
mod machine;
mod paths;
mod plan;
mod pool;
mod rendering;
mod scale;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use testservers::{fleet, generate};

use anyhow::{Result, bail};
use serde_json::Value;

use scale::{FleetSize, Manner};

const HELP: &str = "\
Benchmarks; see docs/benchmarks.md. Results go to target/bench/results.json.

Usage: bench.sh [OPTIONS] [B1 B2 B3 B5 B11 B12 B13 approvals memory]...    (all of them by default)

  B1      a commit that changes 10 objects, until 1, 4 and 8 clusters hold them
  B2      2,000 objects on 4 clusters, cold
  B3      requests while nothing changes, 1,000 objects on 4 clusters
  B5      the plan of 10,000 manifests, 40 placements, 100 clusters
  B11     a push to the first status of its commit on a Gitea
  B12     deliveries of the git host in a flood of others
  B13     B1 with the records in a file, on PostgreSQL, and by an agent, on 1 and 4 clusters
  approvals  an approving comment to the next stage's first write, and what a rollout asks of the git host
  memory  the daemon's resident memory with 4 clusters of 500 objects
  fleet   the whole daemon over hundreds of members: memory, delivery, restart, answers (only if it is named)
  render  400 kustomizations and 100 charts: cold, one file changed, memory; beside the programs alone (only if it is named)
  takeover  a follower on PostgreSQL whose leader is killed, over live members: time and memory (only if it is named)

Options:
  --minutes N   the window of B3, twice: with and without gitfleet (default 1; for the real figure 10)
  --size MxPxO  the fleet of `fleet`: members, placements, objects of a placement (default 300x50x20)
  --members KIND  `folders` (default), or `apiserver`: live members behind the double of tests/testservers/apiserver
  --latency TIME  how long its every request waits, such as 1ms
  --agents N    deliver by so many agents of one pool: their memory, and what passes on the wire
  --kill-seed N   kill the daemon at ten random moments of a rollout in the end; the same number, the same moments
  --faults LIST   what goes wrong there, such as 429=100,watch=30s
  -h, --help    this text
";

const ALL: [&str; 9] = ["B1", "B2", "B3", "B5", "B11", "B12", "B13", "approvals", "memory"];

/// Exit code for wrong usage.
const USAGE: u8 = 64;

/// A command line.
struct Arguments {
    wanted: Vec<String>,
    window: Duration,
    size: FleetSize,
    /// Whether the members of `fleet` are behind the double of API servers, and how that answers.
    live: Option<Manner>,
    kill_seed: Option<u64>,
    /// Agents that deliver in `fleet`; none where the daemon does.
    agents: usize,
}

impl Arguments {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self> {
        let mut arguments = Self {
            wanted: Vec::new(),
            window: Duration::from_mins(1),
            size: FleetSize::DEFAULT,
            live: None,
            kill_seed: None,
            agents: 0,
        };
        let mut manner = Manner::default();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--minutes" => match words.next().and_then(|number| number.parse().ok()) {
                    Some(minutes) => arguments.window = Duration::from_secs(60 * u64::max(minutes, 1)),
                    None => bail!("--minutes needs a number"),
                },
                "--size" => arguments.size = FleetSize::parse(&words.next().unwrap_or_default())?,
                "--members" => match words.next().as_deref() {
                    Some("folders") => arguments.live = None,
                    Some("apiserver") => arguments.live = Some(Manner::default()),
                    _ => bail!("--members needs `folders` or `apiserver`"),
                },
                "--latency" => manner.latency = words.next(),
                "--kill-seed" => match words.next().and_then(|number| number.parse().ok()) {
                    Some(seed) => arguments.kill_seed = Some(seed),
                    None => bail!("--kill-seed needs a number"),
                },
                "--agents" => match words.next().and_then(|number| number.parse().ok()) {
                    Some(agents) => arguments.agents = agents,
                    None => bail!("--agents needs a number"),
                },
                "--faults" => manner.faults = words.next(),
                "fleet" | "render" | "takeover" => arguments.wanted.push(word),
                name if ALL.contains(&name) => arguments.wanted.push(word),
                other => bail!("unknown word `{other}`"),
            }
        }
        match &mut arguments.live {
            Some(live) => *live = manner,
            None if manner != Manner::default() || arguments.agents > 0 => {
                bail!("--latency, --faults and --agents are for --members apiserver")
            }
            None => {}
        }
        if arguments.wanted.is_empty() {
            arguments.wanted = ALL.map(str::to_owned).to_vec();
        }
        Ok(arguments)
    }
}

async fn run(arguments: &Arguments) -> Result<()> {
    for id in &arguments.wanted {
        eprintln!("{id}: begins");
        let result: Value = match id.as_str() {
            "B1" => fleets::commit_to_applied().await?,
            "B2" => fleets::bulk().await?,
            "B3" => fleets::silence(arguments.window).await?,
            "B5" => plan::plan()?,
            "B11" => forge::push_to_status()?,
            "approvals" => forge::approvals()?,
            "B13" => paths::ways().await?,
            "render" => rendering::rendering()?,
            "takeover" => scale::takeover(arguments.size, &arguments.live.clone().unwrap_or_default()).await?,
            "fleet" => match &arguments.live {
                Some(manner) if arguments.agents > 0 => scale::agents(arguments.size, manner, arguments.agents).await?,
                Some(manner) => scale::apiservers(arguments.size, manner, arguments.kill_seed).await?,
                None => scale::folders(arguments.size)?,
            },
            "B12" => forge::deliveries().await?,
            _ => fleets::memory().await?,
        };
        let id = match id.as_str() {
            "fleet" if arguments.agents > 0 => "fleet-agents",
            "fleet" if arguments.live.is_some() => "fleet-apiserver",
            other => other,
        };
        machine::record(id, &result)?;
        println!("{id}: {result:#}");
    }
    eprintln!("written to {}", machine::RESULTS);
    Ok(())
}

#[tokio::main]
async fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--help" || word == "-h") {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let result = if let [first, folder] = words.as_slice()
        && first == plan::CHILD
    {
        plan::child(Path::new(folder))
    } else {
        if rustls::crypto::aws_lc_rs::default_provider().install_default().is_err() {
            eprintln!("error: another TLS provider is installed already");
            return ExitCode::FAILURE;
        }
        match Arguments::parse(words.into_iter()) {
            Ok(arguments) => run(&arguments).await,
            Err(error) => {
                eprintln!("error: {error:#}\n\n{HELP}");
                return ExitCode::from(USAGE);
            }
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
