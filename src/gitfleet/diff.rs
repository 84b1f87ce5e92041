//! `gitfleet diff`: what clusters hold of a placement against what they are to hold.

use std::path::PathBuf;

use anyhow::Context as _;

use super::Daemon;
use super::completion::{CompletedName, names};
use super::exit::Exit;
use super::kinds::Listing;
use super::output::{self, Terminal};
use super::records::locate;
use super::wanted::{ShownPart, prefixes};
use super::{listed, subjects};
use daemon::manifests::{Manifests, texts};
use decide::status::placement::PlacementView;
use engine::store::records::{OVERRIDE_PREFIX, PLACEMENT_PREFIX};
use model::id::ClusterName;
use model::records::Binding;
use model::text;
use system::clock;
use views::differences::{ClusterDifference, changes, live_differences, report};
use views::tree::{Line, Style};

/// What to do where the objects of a snapshot cannot be read.
const ANOTHER_CLONE: &str = "--repo names a clone of the source that has the commits";

/// Options of `diff`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Compares the snapshot that a cluster is assigned with the one it is to get, objects read from git, overrides applied, secret values \
masked; and shows what the daemon saw on the cluster that differs from what it delivered. Equal differences of several clusters are \
shown once.

Exit codes: 0 no difference, 1 differences, 2 error.

Examples:
  gitfleet diff web
  gitfleet diff web --cluster prod-eu-1")]
pub(crate) struct Args {
    /// The placement, NAME or NAMESPACE/NAME.
    #[arg(add = names(CompletedName::Placements))]
    placement: String,
    /// Only this cluster.
    #[arg(long, value_name = "NAME", add = names(CompletedName::Clusters))]
    cluster: Option<String>,
    /// A clone of the source that has the commits of the snapshots; else what the configuration names, or the clone that the current
    /// folder is in.
    #[arg(long, value_name = "DIR")]
    repo: Option<PathBuf>,
    #[command(flatten)]
    daemon: Daemon,
}

/// Runs the command. Exits 0 without a difference, 1 with one.
///
/// # Errors
/// There is no such placement or cluster, or the snapshots cannot be read from git.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let source = locate(&args.daemon)?;
    let known = source.read_under(&[PLACEMENT_PREFIX.to_owned()])?;
    let key = listed::one_placement(&known, &args.placement)?.key.clone();
    let mut wanted = prefixes(Listing::Placements, ShownPart::Whole, Some(std::slice::from_ref(&key)));
    wanted.push(OVERRIDE_PREFIX.to_owned());
    let saved = source.read_under(&wanted)?;
    let views = listed::views(&saved, &listed::names(&saved), clock::now());
    let view = views.iter().find(|view| view.record.key == key).with_context(|| format!("{key} has gone"))?;
    let cluster = args.cluster.as_deref().map(ClusterName::from);
    let mut bindings: Vec<&Binding> = view.bindings().filter(|binding| !binding.deleting).collect();
    if let Some(cluster) = cluster {
        bindings.retain(|binding| binding.cluster == cluster);
        if bindings.is_empty() {
            return Err(not_there(view, &cluster));
        }
    }
    let mut manifests = None;
    let mut found = Vec::with_capacity(bindings.len());
    for binding in bindings {
        let goal = view.goal().filter(|goal| binding.snapshot != Some(*goal));
        let mut lines = Vec::new();
        if let Some(goal) = goal {
            // Only here: it needs a clone of the source, and what was changed on the cluster is shown without one.
            if manifests.is_none() {
                manifests =
                    Some(Manifests::read_by(&saved, subjects::objects(&args.daemon, args.repo.as_deref())?, false));
            }
            let both = manifests.as_mut().map_or(Ok((Vec::new(), Vec::new())), |m| m.both(binding, goal));
            let (old, new) = both.context(ANOTHER_CLONE)?;
            lines.extend(changes(&texts(&old), &texts(&new)));
        }
        let work = view.work(&binding.cluster);
        lines.extend(work.into_iter().flat_map(|work| live_differences(&work.manifests)));
        if lines.is_empty() && goal.is_some() {
            lines.push(Line::default().with(Style::Muted, "  the objects are the same"));
        }
        found.push(ClusterDifference {
            cluster: binding.cluster.clone(),
            heading: heading(view, binding, goal),
            lines,
        });
    }
    output::print(&output::render_lines(&report(&found), Terminal::of_stdout()))?;
    Ok(if found.iter().all(|found| found.lines.is_empty()) { Exit::Done } else { Exit::NotAsWished })
}

fn not_there(view: &PlacementView, cluster: &ClusterName) -> anyhow::Error {
    let known: Vec<&str> = view.bindings().map(|binding| binding.cluster.as_str()).collect();
    let near = text::suggest(cluster.as_str(), known).map(|near| format!("; did you mean {near}?")).unwrap_or_default();
    anyhow::anyhow!("{} is not on {cluster}{near}", view.record.key)
}

/// Says which snapshots are compared.
fn heading(view: &PlacementView, binding: &Binding, goal: Option<u64>) -> String {
    let current = binding.snapshot.map_or_else(|| "no snapshot".to_owned(), |index| snapshot_name(view, index));
    match goal {
        Some(goal) => format!("{current} is to become {}", snapshot_name(view, goal)),
        None => format!("{current}, changed on the cluster"),
    }
}

/// Returns a snapshot's number, and its commit where that is known.
fn snapshot_name(view: &PlacementView, index: u64) -> String {
    match view.snapshot_at(index) {
        Some(snapshot) => format!("snapshot {index} ({})", snapshot.commit.short()),
        None => format!("snapshot {index}"),
    }
}
