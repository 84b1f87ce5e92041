//! `gitfleet explain`: why clusters were picked for a placement or not.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{anyhow, bail};
use jiff::Timestamp;

use super::completion::{CompletedName, names};
use super::exit::Exit;
use super::output::{self, Terminal};
use super::plan::read_revisions;
use super::records::{self, RecordsSource};
use super::{Daemon, config_file, opened, rendering};
use config::Configuration;
use daemon::commit_reader;
use daemon::commit_reader::SourceAt;
use daemon::rendering::Rendering;
use daemon::run;
use daemon::source_history::kept_reader;
use daemon::source_poller::source_specs;
use decide::status::work::counted;
use engine::persist::SavedRecords;
use model::explanation::{Explained, Explanation, Query};
use model::id::CommitId;
use model::records::SourceRecord;
use model::text;
use model::tree::Tree;
use plan::explain;
use system::clock;
use views::explanation::{EXPLAINED_MAX, cluster_lines, heading, moved_lines, table};
use views::tree::{Line, Style};

/// Options of `explain`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Asks the daemon, or its store when none runs, so what is explained is what was decided. With --repo it explains what a tree would \
decide, and with --base what changed and why. Picked clusters come first. RANK is among the clusters that passed every filter, \
SCORE the sum of the terms that -o wide and --cluster show. For an OCM Placement, DECIDED is the sum that decided when its \
clusters last changed, where one is another now.

Examples:
  gitfleet explain web
  gitfleet explain web --cluster edge-07
  gitfleet explain ns1/placement --repo . --base main --head HEAD")]
pub(crate) struct Args {
    /// A ClusterResourcePlacement, or NAMESPACE/NAME of a ResourcePlacement or an OCM Placement.
    #[arg(add = names(CompletedName::Placements))]
    placement: String,
    /// Only this cluster: the filter that rejected it and the values it compared, or every term of the score, the rank and the tie-break.
    #[arg(long, value_name = "NAME", add = names(CompletedName::Clusters))]
    cluster: Option<String>,
    /// ClusterResourcePlacement, ResourcePlacement or Placement, where two have the same name.
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Explain what the tree of this folder would decide, instead of what the daemon did.
    #[arg(long, value_name = "DIR")]
    repo: Option<PathBuf>,
    /// With --repo: the commit to compare with.
    #[arg(long, value_name = "REV", requires = "repo")]
    base: Option<String>,
    /// With --repo: the commit to explain; HEAD if only --base is given.
    #[arg(long, value_name = "REV", requires = "repo")]
    head: Option<String>,
    /// With --repo: the instant that scores and taints are evaluated at, such as 2026-01-31T12:00:00Z; now by default.
    #[arg(long, value_name = "TIME", requires = "repo")]
    now: Option<Timestamp>,
    /// How to show it.
    #[arg(short, long, value_enum, default_value_t)]
    output: ExplainFormat,
    #[command(flatten)]
    daemon: Daemon,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum ExplainFormat {
    /// A row for each cluster.
    #[default]
    Table,
    /// The same with every term of the scores, what broke ties, and every cluster.
    Wide,
    /// JSON, for scripts.
    Json,
    /// YAML of the same.
    Yaml,
}

/// Runs the command. Exits 0 with an explanation, 2 where there is no such placement or it could not be evaluated.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut explained = explained(args)?;
    // The heading is of the placement, also where one cluster is asked for.
    let heading = heading(&explained.explanation);
    if let Some(cluster) = &args.cluster {
        only(&mut explained, cluster)?;
    }
    match args.output {
        ExplainFormat::Json => output::print_json(&explained),
        ExplainFormat::Yaml => output::print(&output::render_yaml(&[serde_json::to_value(&explained)?])),
        ExplainFormat::Table | ExplainFormat::Wide => {
            output::print(&text(args, heading, &explained, Terminal::of_stdout()))
        }
    }
}

/// Leaves one cluster in an explanation.
fn only(explained: &mut Explained, cluster: &str) -> anyhow::Result<()> {
    let clusters = &mut explained.explanation.clusters;
    if !clusters.iter().any(|c| c.cluster_name.as_str() == cluster) {
        let near = text::suggest(cluster, clusters.iter().map(|c| c.cluster_name.as_str()));
        let hint = match near {
            Some(near) => format!("did you mean {near}?"),
            None => format!("it has {}; without --cluster all are shown", counted(clusters.len(), "cluster")),
        };
        bail!("the fleet has no cluster {cluster}; {hint}");
    }
    clusters.retain(|c| c.cluster_name.as_str() == cluster);
    explained.changes.iter_mut().for_each(|changes| changes.retain(|c| c.cluster_name.as_str() == cluster));
    Ok(())
}

fn explained(args: &Args) -> anyhow::Result<Explained> {
    let query = Query { placement: args.placement.clone(), kind: args.kind.clone() };
    let Some(repo) = &args.repo else {
        return match records::locate(&args.daemon)? {
            RecordsSource::Daemon(server) => server.explain(&query),
            // Only a configuration leads to a store, so there is one.
            RecordsSource::Store(_) => {
                let file = config_file::require(args.daemon.config.as_deref())?;
                from_store(&records::load_configuration(&file)?, &query)
            }
        };
    };
    let configuration = args.daemon.config.as_deref().map(records::load_configuration).transpose()?;
    let rendering = rendering::of_tree(repo, configuration.as_ref())?;
    let (base, head) = match read_revisions(repo, args.base.as_deref(), args.head.as_deref(), &rendering)? {
        Ok(trees) => trees,
        Err((_, errors)) => {
            let first = errors.first().map(ToString::to_string).unwrap_or_default();
            bail!("the tree has {}; the first is {first}", counted(errors.len(), "error"));
        }
    };
    Ok(explain::from_trees(base.as_ref(), &head, &query, args.now.unwrap_or_else(clock::now))?)
}

/// Explains from the store and the mirror that the daemon left.
fn from_store(configuration: &Configuration, query: &Query) -> anyhow::Result<Explained> {
    let store = opened::read_only(&configuration.store)?;
    let records = SavedRecords::read(&*store)?;
    let Some(accepted) = records.source.as_ref().and_then(|source| source.accepted.clone()) else {
        bail!("the store holds no accepted commit; run `gitfleet run --once` first");
    };
    let known = records.source.clone().unwrap_or_default();
    let tree = read_accepted(configuration, &known, &accepted)
        .map_err(|error| anyhow!("the accepted commit {accepted} cannot be read: {error}"))?;
    Ok(explain::from_records(configuration, records, Arc::new(tree), query, clock::now())?)
}

/// Reads the accepted commit again.
fn read_accepted(configuration: &Configuration, known: &SourceRecord, accepted: &CommitId) -> anyhow::Result<Tree> {
    let state_dir = run::state_dir(configuration);
    let rendering = Rendering::of(configuration.render.as_ref(), Some(&state_dir))?;
    let mut cache = commit_reader::Cache::rendering(rendering);
    let sources = source_specs(configuration)?.into_iter().map(|spec| git::Source::open(spec, &state_dir));
    let sources = sources.collect::<Result<Vec<_>, _>>()?;
    if configuration.sources.is_empty() {
        return Ok(commit_reader::read_commit(sources[0].reader(), accepted, &mut cache)?);
    }
    let at = configuration.sources.iter().zip(&sources).filter_map(|(settings, source)| {
        let commit = known.sources.get(&settings.name)?.accepted.as_ref()?;
        Some(SourceAt { name: &settings.name, reader: source.reader(), commit })
    });
    let at: Vec<SourceAt<'_>> = at.collect();
    let all = kept_reader(&configuration.sources, &state_dir)?;
    Ok(commit_reader::read_joined(&all, accepted, &at, &mut cache)?)
}

fn text(args: &Args, heading: Vec<Line>, explained: &Explained, terminal: Terminal) -> String {
    let explanation: &Explanation = &explained.explanation;
    let mut lines = heading;
    lines.push(Line::default());
    if let Some(changes) = &explained.changes {
        lines.extend(moved_lines(changes));
        lines.push(Line::default());
    }
    if args.cluster.is_some() {
        lines.extend(explanation.clusters.iter().flat_map(cluster_lines));
        return output::render_lines(&lines, terminal);
    }
    let wide = args.output == ExplainFormat::Wide;
    let mut text = output::render_lines(&lines, terminal);
    text.push_str(&output::render_table(&table(explanation, wide), terminal));
    if !wide && let Some(rest) = explanation.clusters.len().checked_sub(EXPLAINED_MAX).filter(|n| *n > 0) {
        let more = format!("and {}; -o wide shows all", counted(rest, "more cluster"));
        text.push_str(&output::render_lines(&[Line::default().with(Style::Muted, more)], terminal));
    }
    text
}
