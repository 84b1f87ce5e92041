//! `gitfleet simulate`: a rollout on a virtual clock.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;

use super::exit::Exit;
use super::folder::TreeFolder;
use super::output::{self, Terminal};
use super::plan::{read_later, read_revisions};
use super::records::load_configuration;
use super::rendering;
use daemon::rendering::Rendering;
use decide::snapshot;
use decide::status::work::listing;
use model::api::envelope;
use model::id::{ClusterName, ObjectId, ObjectKey, PlacementKey};
use model::tree::Tree;
use plan::simulate::Fate;
use plan::simulate::scenario::{Absence, Failure, LaterPush, Scenario, TimedApproval, simulate};
use views::simulation::gantt::gantt;
use views::simulation::timeline::timeline_lines;
use views::simulation::{Offset, Outcome, Simulated};

/// Options of `simulate`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
gitfleet makes the real decisions over simulated clusters: it contacts nothing, and the same call gives the same answer. Times \
count from the push of the commit. With --base that commit is rolled out everywhere first; without it the clusters hold nothing.

A TIME or DURATION is a number with a unit, such as 90s, 5m or 1h30m. A RANGE is one of them, or two as in 5s..2m: then each object \
takes a time between.

Examples:
  How does the strategy in this folder carry out its first rollout, if every gate is approved after ten minutes?
    gitfleet simulate fleet --approve-after 10m
  What does the newest commit do, with a canary that refuses it?
    gitfleet simulate fleet --base HEAD~1 --fail canary-1
  Who is touched when the new Deployment never becomes available, and one cluster is away for an hour?
    gitfleet simulate fleet --base HEAD~1 --never-available canary-1=Deployment/web --offline edge-7=10m..70m
  When does a fix arrive at the canary that the commit before it broke, if it is pushed ten minutes later?
    gitfleet simulate fleet --base HEAD~2 --head HEAD~1 --then HEAD@10m --never-available canary-1
  A chart for the pull request:
    gitfleet simulate fleet --base main --head my-branch --approve staging@1h -o mermaid

Exit codes: 0 every placement ends at the commit, 1 one does not, 2 the tree has errors or cannot be read, 3 approval required \
at the end, 64 wrong usage.")]
pub(crate) struct Args {
    #[command(flatten)]
    folder: TreeFolder,
    /// The daemon's configuration file, for its `render:`; by default that of a gitfleet.yaml in DIR or above it in its repository.
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The commit that is rolled out everywhere before the push.
    #[arg(long, value_name = "REV")]
    base: Option<String>,
    /// The commit that is pushed; HEAD if only --base is given.
    #[arg(long, value_name = "REV")]
    head: Option<String>,
    /// A commit that is pushed so long after it, while it may still roll out. May be repeated; needs --head.
    #[arg(long, value_name = "REV@TIME", requires = "head")]
    then: Vec<ThenAt>,
    /// Show only this placement, NAME or NAMESPACE/NAME. May be repeated.
    #[arg(long = "placement", value_name = "NAME")]
    placements: Vec<PlacementKey>,
    /// How long a cluster takes for one write. A rollout to a cluster is a few, one wave of kinds after the other.
    #[arg(long, value_name = "RANGE", default_value = "100ms")]
    apply: Range,
    /// How long a Deployment and the like takes to become available.
    #[arg(long, value_name = "RANGE", default_value = "10s")]
    available: Range,
    /// The cluster refuses what is pushed: all of it, or what one placement delivers, or one object as Kind/NAME or
    /// Kind/NAMESPACE/NAME. May be repeated.
    #[arg(long, value_name = "CLUSTER[=WHAT]")]
    fail: Vec<Where>,
    /// The same, but it is applied and never becomes available.
    #[arg(long, value_name = "CLUSTER[=WHAT]")]
    never_available: Vec<Where>,
    /// The cluster does not answer: from the push on, or between two times. May be repeated.
    #[arg(long, value_name = "CLUSTER[=FROM..UNTIL]")]
    offline: Vec<Away>,
    /// A person approves at this time what waits at a stage then; stage `deletion` is a deletion gate. May be repeated.
    #[arg(long, value_name = "[RUN/]STAGE@TIME")]
    approve: Vec<ApproveAt>,
    /// A person approves everything, so long after it is asked for. Nobody does by default.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    approve_after: Option<Duration>,
    /// Give up so long after the push.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "24h")]
    until: Duration,
    /// How to show it.
    #[arg(short, long, value_enum, default_value_t)]
    output: SimulationFormat,
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum SimulationFormat {
    /// A timeline for people.
    #[default]
    Text,
    /// JSON, for scripts.
    Json,
    /// A Gantt chart in mermaid's language.
    Mermaid,
}

/// Longest time that is simulated; virtual time is free, steps are not.
const UNTIL_MAX: Duration = Duration::from_hours(24 * 366);

fn duration(text: &str) -> Result<Duration, String> {
    let Some(duration) = model::api::check::duration(text) else {
        return Err(format!("{text:?} is no time; write a number with a unit, such as 90s, 5m or 1h30m"));
    };
    if duration > UNTIL_MAX { Err(format!("{text} is more than a year")) } else { Ok(duration) }
}

/// One duration, or a shortest and a longest.
#[derive(Clone, Copy, Debug)]
struct Range(Duration, Duration);

impl FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (first, last) = text.split_once("..").unwrap_or((text, text));
        let first = duration(first)?;
        let last = duration(last)?;
        if first > last { Err(format!("{text}: the first is longer than the second")) } else { Ok(Self(first, last)) }
    }
}

/// A cluster, and what of it.
#[derive(Clone, Debug)]
struct Where {
    cluster: ClusterName,
    what: Option<String>,
}

impl FromStr for Where {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (cluster, what) = text.split_once('=').map_or((text, None), |(cluster, what)| (cluster, Some(what)));
        if cluster.is_empty() || what.is_some_and(str::is_empty) {
            return Err(format!("{text:?}: write CLUSTER, or CLUSTER=WHAT"));
        }
        Ok(Self { cluster: ClusterName::new(cluster), what: what.map(str::to_owned) })
    }
}

/// A cluster that is away for a while.
#[derive(Clone, Debug)]
struct Away(Absence);

impl FromStr for Away {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Where { cluster, what } = text.parse()?;
        let Some(what) = what else { return Ok(Self(Absence { cluster, from: Duration::ZERO, until: None })) };
        let Some((from, until)) = what.split_once("..") else {
            return Err(format!("{what:?}: write FROM..UNTIL, such as 10m..70m; either may be left out"));
        };
        let from = if from.is_empty() { Duration::ZERO } else { duration(from)? };
        let until = if until.is_empty() { None } else { Some(duration(until)?) };
        if until.is_some_and(|until| until <= from) {
            return Err(format!("{what}: it ends before it begins"));
        }
        Ok(Self(Absence { cluster, from, until }))
    }
}

/// An approval at a time.
#[derive(Clone, Debug)]
struct ApproveAt(TimedApproval);

impl FromStr for ApproveAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (gate, at) = text.rsplit_once('@').unwrap_or_default();
        let (run, stage) = gate.rsplit_once('/').map_or((None, gate), |(run, stage)| (Some(run), stage));
        if stage.is_empty() || run.is_some_and(str::is_empty) {
            return Err(format!("{text:?}: write STAGE@TIME or RUN/STAGE@TIME, such as staging@1h"));
        }
        Ok(Self(TimedApproval { run: run.map(str::to_owned), stage: stage.to_owned(), at: duration(at)? }))
    }
}

/// A commit that is pushed later.
#[derive(Clone, Debug)]
struct ThenAt {
    revision: String,
    at: Duration,
}

impl FromStr for ThenAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // From the right: a revision may have an `@` of its own, as in `HEAD@{1}`.
        let Some((revision, at)) = text.rsplit_once('@').filter(|(revision, _)| !revision.is_empty()) else {
            return Err(format!("{text:?}: write REV@TIME, such as HEAD@10m"));
        };
        let at = duration(at)?;
        if at.is_zero() {
            return Err(format!("{text}: it comes after the first push; write a time above 0s"));
        }
        Ok(Self { revision: revision.to_owned(), at })
    }
}

impl ThenAt {
    /// Returns it as the option that it was given by.
    fn option(&self) -> String {
        format!("--then {}@{}", self.revision, format_duration(self.at))
    }
}

/// Reads what is pushed later, in order of time.
///
/// # Errors
/// Two at one time, one after the end, a commit that cannot be read or that would be refused.
fn later_pushes(args: &Args, rendering: &Rendering) -> anyhow::Result<Vec<LaterPush>> {
    let mut all: Vec<&ThenAt> = args.then.iter().collect();
    all.sort_by_key(|then| then.at);
    if let Some([first, second]) = all.array_windows().find(|[first, second]| first.at == second.at) {
        return Err(Misuse(format!("{} and {}: give each a time of its own", first.option(), second.option())).into());
    }
    if let Some(last) = all.last().filter(|last| last.at >= args.until) {
        return Err(Misuse(format!(
            "{}: the simulation ends before, at --until {}",
            last.option(),
            format_duration(args.until)
        ))
        .into());
    }
    let trees = read_later(args.folder.path(), all.iter().map(|then| then.revision.as_str()), rendering)?;
    Ok(all.into_iter().zip(trees).map(|(then, tree)| LaterPush { tree, at: then.at }).collect())
}

/// Returns a time as options have it.
fn format_duration(time: Duration) -> String {
    Offset::of(time).text()
}

/// Options that do not fit each other.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Misuse(String);

/// Runs the command. Exits 0 when every placement ends at the commit, 1 when one does not, 3 when all that is missing is a
/// person, 2 with errors in the tree, 64 where an option names what the tree does not have.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let configuration = args.config.as_deref().map(load_configuration).transpose()?;
    let rendering = rendering::of_tree(args.folder.path(), configuration.as_ref())?;
    let then = match later_pushes(args, &rendering) {
        Ok(then) => then,
        Err(error) if error.is::<Misuse>() => {
            eprintln!("error: {error}");
            return Ok(Exit::Usage);
        }
        Err(error) => return Err(error),
    };
    let simulated = match read_revisions(args.folder.path(), args.base.as_deref(), args.head.as_deref(), &rendering)? {
        Err((_, errors)) => Simulated::refused(errors),
        Ok((base, head)) => {
            let scenario = Scenario {
                placements: args.placements.iter().cloned().collect(),
                apply: (args.apply.0, args.apply.1),
                available: (args.available.0, args.available.1),
                failures: Vec::new(),
                absences: args.offline.iter().map(|away| away.0.clone()).collect(),
                approvals: args.approve.iter().map(|at| at.0.clone()).collect(),
                approve_after: args.approve_after,
                until: args.until,
                base,
                head,
                then,
            };
            match checked(args, scenario) {
                Ok(scenario) => output::with_spinner("simulating", || simulate(&scenario)),
                Err(error) => {
                    eprintln!("error: {error:#}");
                    return Ok(Exit::Usage);
                }
            }
        }
    };
    match args.output {
        SimulationFormat::Text => {
            output::print(&output::render_lines(&timeline_lines(&simulated), Terminal::of_stdout()))?
        }
        SimulationFormat::Json => output::print_json(&simulated)?,
        SimulationFormat::Mermaid => {
            // A chart cannot show them.
            output::complain(&simulated.errors);
            output::print(&gantt(&simulated))?
        }
    };
    Ok(exit(&simulated))
}

fn exit(simulated: &Simulated) -> Exit {
    if !simulated.errors.is_empty() {
        return Exit::Error;
    }
    let exits = simulated.placements.iter().map(|placement| match placement.outcome {
        Outcome::Done => Exit::Done,
        Outcome::WaitsForPerson => Exit::WaitingForPerson,
        _ => Exit::NotAsWished,
    });
    exits.fold(Exit::Done, Exit::and)
}

/// Checks what options name against the tree, and finds the objects that fail.
fn checked(args: &Args, mut scenario: Scenario) -> anyhow::Result<Scenario> {
    // Any of the commits may bring it or take it away.
    let later = scenario.then.iter().map(|push| &push.tree);
    let trees: Vec<&Arc<Tree>> = scenario.base.iter().chain([&scenario.head]).chain(later).collect();
    for key in &scenario.placements {
        if !trees.iter().any(|tree| tree.placements.contains_key(key)) {
            let all = scenario.head.placements.keys().map(ToString::to_string);
            return Err(anyhow!("--placement {key}: the tree has no such placement; it has {}", listing(all)));
        }
    }
    let away = scenario.absences.iter().map(|absence| ("--offline", &absence.cluster));
    let failing = args.fail.iter().map(|at| ("--fail", &at.cluster));
    let never = args.never_available.iter().map(|at| ("--never-available", &at.cluster));
    for (option, cluster) in away.chain(failing).chain(never) {
        if !trees.iter().any(|tree| tree.clusters.contains_key(cluster)) {
            let all = scenario.head.clusters.keys().map(ToString::to_string);
            return Err(anyhow!("{option} {cluster}: the tree has no such cluster; it has {}", listing(all)));
        }
    }
    let refused = args.fail.iter().map(|at| ("--fail", at, Fate::Refused));
    let all = refused.chain(args.never_available.iter().map(|at| ("--never-available", at, Fate::NeverAvailable)));
    let failures = all.map(|(option, at, fate)| {
        let objects = at.what.as_ref().map(|what| objects_of(option, what, &scenario.head)).transpose()?;
        Ok::<_, anyhow::Error>(Failure { cluster: at.cluster.clone(), objects, fate })
    });
    scenario.failures = failures.collect::<Result<_, _>>()?;
    Ok(scenario)
}

/// Returns the objects that a placement delivers, or those of a kind and name, in envelopes too.
fn objects_of(option: &str, what: &str, tree: &Tree) -> anyhow::Result<BTreeSet<ObjectKey>> {
    // A placement goes first: NAMESPACE/NAME looks as Kind/NAME does.
    let Ok(key) = what.parse::<PlacementKey>();
    if let Some(placement) = tree.placements.get(&key) {
        let selected = snapshot::select(tree, placement).map_err(|error| anyhow!("{option} {what}: {error}"))?;
        let held = snapshot::enveloped(&selected, &key).unwrap_or_default();
        return Ok(selected.iter().chain(&held).map(|manifest| manifest.id.key()).collect());
    }
    let parts: Vec<&str> = what.split('/').collect();
    let (kind, namespace, name) = match parts[..] {
        [kind, name] => (kind, None, name),
        [kind, namespace, name] => (kind, Some(namespace), name),
        _ => ("", None, ""),
    };
    // Envelopes of KubeFleet's own kinds are inputs; annotated ConfigMaps are objects like others.
    let envelopes =
        tree.manifests.iter().chain(&tree.inputs).filter_map(|m| envelope::entries(&m.object).ok()).flatten();
    let inner = envelopes.filter_map(|(_, object)| ObjectId::of(&object)).map(|id| id.key());
    let given = tree.in_given_namespaces();
    let plain = tree.manifests.iter().chain(&given).map(|manifest| manifest.id.key());
    let found = plain.chain(inner).filter(|key| {
        key.kind.eq_ignore_ascii_case(kind) && key.name == name && namespace.is_none_or(|of| key.namespace == of)
    });
    let found: BTreeSet<ObjectKey> = found.collect();
    if found.is_empty() {
        return Err(anyhow!("{option} {what}: the tree has no such placement, and no such object as Kind/NAME"));
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
