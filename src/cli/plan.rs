//! `gitfleet plan`: the effects of a tree on the fleet.

use std::path::Path;
use std::sync::Arc;

use anyhow::{anyhow, bail};
use jiff::Timestamp;

use super::exit::Exit;
use super::output::{self, Terminal};
use super::plan_config::{PlanRequest, Wanted};
use crate::clock;
use crate::daemon::commit_reader::{self, Cache, read_candidate, read_commit, read_folder};
use crate::git;
use crate::model::id::{ClusterName, CommitId};
use crate::model::manifest::InputError;
use crate::model::names::first_of;
use crate::model::plan::{OcmPlan, PlacementPlan, Plan, Resource};
use crate::model::runs::DELETION_GATE;
use crate::model::tree::Tree;
use crate::plan::pull_request::{Showing, derived_key, pull_report};
use crate::plan::{Baseline, plan};
use crate::status::work::{counted, objects};
use crate::views::pull_request::{COMMENT_CHARS_MAX, PullReport, plan_comment};
use crate::views::tree::{Line, Style, refused_lines};

/// Objects that are listed for one placement, and clusters that are named on one line, before the rest is only counted.
const LISTED_MAX: usize = 20;

/// Options of `plan`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    wanted: Wanted,
    /// The instant that scores and taints are evaluated at, such as 2026-01-31T12:00:00Z; now by default.
    #[arg(long, value_name = "TIME")]
    now: Option<Timestamp>,
    /// How to show it.
    #[arg(short, long, value_enum, default_value_t)]
    output: PlanFormat,
    /// Exit 1 if there are changes from --base.
    #[arg(long)]
    exit_code: bool,
    /// Print the values of Secrets, which are replaced by markers otherwise.
    #[arg(long)]
    show_secrets: bool,
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum PlanFormat {
    /// A summary for people.
    #[default]
    Table,
    /// JSON, for scripts.
    Json,
    /// YAML of the same.
    Yaml,
    /// The comment that the daemon writes on a pull request: --head merged into --base, which counts as rolled out. Secret values
    /// are always masked.
    Markdown,
}

/// Runs the command. Exits 0 without errors, 1 with any (or with changes and `--exit-code`), 2 where the folder or a revision
/// cannot be read.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let asked = PlanRequest::of(&args.wanted)?;
    let planned = || output::with_spinner("planning", || make(args, &asked));
    let plan = match args.output {
        PlanFormat::Table => {
            let plan = planned()?;
            output::print(&output::render_lines(&plan_lines(&plan), Terminal::of_stdout()))?;
            plan
        }
        PlanFormat::Json => {
            let plan = planned()?;
            output::print_json(&plan)?;
            plan
        }
        PlanFormat::Yaml => {
            let plan = planned()?;
            output::print(&output::render_yaml(&[serde_json::to_value(&plan)?]))?;
            plan
        }
        PlanFormat::Markdown => {
            let report = output::with_spinner("planning", || pull(args, &asked))?;
            output::print(&plan_comment(&report, COMMENT_CHARS_MAX))?;
            report.plan
        }
    };
    let found = plan.has_errors() || (args.exit_code && plan.has_changes());
    Ok(if found { Exit::NotAsWished } else { Exit::Done })
}

/// Makes what the daemon would write on a pull request.
fn pull(args: &Args, asked: &PlanRequest) -> anyhow::Result<PullReport> {
    let Some(revision) = asked.base.as_deref() else {
        bail!("-o markdown is about a merge: name with --base what it would be merged into, such as --base main");
    };
    if args.show_secrets {
        bail!("-o markdown is made to be published, so it always masks secret values; leave --show-secrets out");
    }
    let (reader, _) = git::discover(&asked.repo)?;
    let (base, head) = (reader.resolve(revision)?, reader.resolve(asked.head.as_deref().unwrap_or("HEAD"))?);
    let mut cache = Cache::new();
    let tree = accepted(&reader, &base, &mut cache, "--base", revision)?;
    let candidate = match read_candidate(&reader, &base, &head, &cache) {
        Ok(candidate) => candidate,
        Err(error) => return Ok(PullReport::refused(Some(base), Some(head), error.refused()?)),
    };
    // There is no daemon here, so none of its key.
    let key = derived_key(&[&tree, &candidate.tree]);
    let showing = Showing { diffs: true, key: &key };
    let now = args.now.unwrap_or_else(clock::now);
    Ok(pull_report(&Baseline::rolled_out(&tree, now), &candidate, &showing, now))
}

fn make(args: &Args, asked: &PlanRequest) -> anyhow::Result<Plan> {
    let (base, head) = match read_revisions(&asked.repo, asked.base.as_deref(), asked.head.as_deref())? {
        Ok(trees) => trees,
        // A refused head is a plan by itself.
        Err((commit, errors)) => return Ok(Plan::refused(commit, errors)),
    };
    let mut plan = plan(&head, base.as_ref(), args.now.unwrap_or_else(clock::now));
    plan.warnings.extend(asked.unreached(&head));
    if !args.show_secrets {
        plan.hide_secrets();
    }
    Ok(plan)
}

/// A base, where one was asked for, and a head.
pub(super) type Trees = (Option<Arc<Tree>>, Arc<Tree>);
/// A refused head: its commit and every error in it.
pub(super) type RefusedHead = (Option<CommitId>, Vec<InputError>);

/// Reads a folder as it stands, or with a revision as it is in those commits of its repository.
///
/// # Errors
/// The folder or a revision cannot be read, or the base is refused and so cannot be accepted.
pub(super) fn read_revisions(
    repo: &Path,
    base: Option<&str>,
    head: Option<&str>,
) -> anyhow::Result<Result<Trees, RefusedHead>> {
    if base.is_none() && head.is_none() {
        return match read_folder(repo) {
            Ok(tree) => Ok(Ok((None, Arc::new(tree)))),
            Err(error) => Ok(Err((None, error.refused()?))),
        };
    }
    let (reader, _) = git::discover(repo)?;
    let head = reader.resolve(head.unwrap_or("HEAD"))?;
    let mut cache = Cache::new();
    let base = match base {
        None => None,
        Some(revision) => {
            let base = reader.resolve(revision)?;
            Some(accepted(&reader, &base, &mut cache, "--base", revision)?)
        }
    };
    match read_commit(&reader, &head, &mut cache) {
        // A head with errors is a finding. A base with errors could not be accepted, so nothing compares with it.
        Ok(tree) => Ok(Ok((base, Arc::new(tree)))),
        Err(error) => Ok(Err((Some(head), error.refused()?))),
    }
}

/// Reads the commits that follow a head.
///
/// # Errors
/// One cannot be read, or would be refused and so change nothing.
pub(super) fn read_later<'a>(
    repo: &Path,
    revisions: impl ExactSizeIterator<Item = &'a str>,
) -> anyhow::Result<Vec<Arc<Tree>>> {
    if revisions.len() == 0 {
        return Ok(Vec::new());
    }
    let (reader, _) = git::discover(repo)?;
    let mut cache = Cache::new();
    let read = |revision: &str| {
        let commit = reader.resolve(revision)?;
        accepted(&reader, &commit, &mut cache, "--then", revision)
    };
    revisions.map(read).collect()
}

/// Reads a commit that counts as accepted, or says why it cannot be.
fn accepted(
    reader: &git::Reader,
    commit: &CommitId,
    cache: &mut Cache,
    option: &str,
    revision: &str,
) -> anyhow::Result<Arc<Tree>> {
    match read_commit(reader, commit, cache) {
        Ok(tree) => Ok(Arc::new(tree)),
        Err(commit_reader::Error::Refused(errors)) => Err(anyhow!(
            "{option} {revision} has {}, so it cannot be accepted; name a good commit. The first is {}",
            counted(errors.len(), "error"),
            errors.first().map(ToString::to_string).unwrap_or_default()
        )),
        Err(commit_reader::Error::Git(error)) => {
            Err(anyhow::Error::from(error).context(format!("reading {option} {revision}")))
        }
    }
}

/// Returns the summary for people, errors first.
fn plan_lines(plan: &Plan) -> Vec<Line> {
    if !plan.errors.is_empty() {
        return refused_lines(&plan.errors);
    }
    let warning = |warning: &InputError| line(Style::Progressing, format!("! {warning}"));
    let mut lines: Vec<Line> = plan.warnings.iter().map(warning).collect();
    for placement in &plan.placements {
        lines.extend(placement_lines(placement));
        lines.push(Line::default());
    }
    for placement in &plan.ocm_placements {
        lines.extend(ocm_lines(placement));
        lines.push(Line::default());
    }
    lines.push(summary(plan));
    lines
}

/// Says what an OCM Placement decides, and what comes and goes.
fn ocm_lines(placement: &OcmPlan) -> Vec<Line> {
    let heading = line(Style::Strong, format!("Placement {}/{}", placement.namespace, placement.name));
    let mut lines = vec![heading.with(Style::Muted, format!("  {}", placement.message))];
    lines.extend(placement.errors.iter().map(|error| line(Style::Bad, format!("  ✗ {error}"))));
    for group in &placement.groups {
        let name = if group.name.is_empty() { "clusters" } else { &group.name };
        let names = first_of(group.clusters.iter().map(ClusterName::as_str), LISTED_MAX);
        let names = if names.is_empty() { "none".to_owned() } else { names };
        lines.push(line(Style::Muted, format!("  {name:<9} ")).with(Style::Plain, names));
    }
    let moves = placement.changes.iter().flat_map(|changes| {
        let gained = changes.gained.iter().map(|cluster| line(Style::Ok, format!("  + {cluster}")));
        gained.chain(changes.lost.iter().map(|cluster| line(Style::Bad, format!("  - {cluster}"))))
    });
    lines.extend(moves);
    lines
}

fn line(style: Style, text: impl Into<String>) -> Line {
    Line::default().with(style, text)
}

fn summary(plan: &Plan) -> Line {
    let mut text = counted(plan.placements.len() + plan.ocm_placements.len(), "placement");
    let compared = plan.placements.iter().any(|p| p.changes.is_some());
    if compared {
        let changed = plan.placements.iter().filter(|p| is_changed(p)).count();
        text.extend([format!(", {changed} changed")]);
    }
    let deleted: usize = plan.placements.iter().flat_map(|p| &p.deletions).map(|d| d.resources.len()).sum();
    if deleted > 0 {
        text.extend([format!(", {}", counted(deleted, "deletion"))]);
    }
    let failing = plan.placements.iter().flat_map(PlacementPlan::errors).count()
        + plan.ocm_placements.iter().map(|placement| placement.errors.len()).sum::<usize>();
    match failing {
        0 => line(Style::Strong, text),
        _ => line(Style::Strong, text).with(Style::Bad, format!(", {}", counted(failing, "error"))),
    }
}

fn is_changed(placement: &PlacementPlan) -> bool {
    placement.removed || placement.changes.as_ref().is_some_and(|changes| !changes.is_empty())
}

fn placement_lines(placement: &PlacementPlan) -> Vec<Line> {
    let namespace = placement.namespace.as_ref().map(|ns| format!("{ns}/")).unwrap_or_default();
    let heading = line(Style::Strong, format!("{} {namespace}{}", placement.kind, placement.name));
    let heading = match (placement.removed, &placement.changes) {
        (true, _) => heading.with(Style::Bad, "  is removed"),
        (_, Some(_)) if !is_changed(placement) => heading.with(Style::Muted, "  does not change"),
        _ => heading,
    };
    let mut lines = vec![heading];
    let is_quiet = placement.changes.is_some() && !is_changed(placement) && placement.deletions.is_empty();
    if is_quiet && placement.errors().next().is_none() {
        return lines;
    }
    lines.extend(placement.errors().map(|error| line(Style::Bad, format!("  ✗ {error}"))));
    if !placement.removed {
        lines.extend(snapshot_line(placement));
        lines.push(clusters_line(placement));
        lines.push(line(Style::Muted, "  rollout   ").with(Style::Plain, rollout_text(placement)));
    }
    lines.extend(object_lines(placement));
    lines.extend(deletion_lines(placement));
    lines
}

fn snapshot_line(placement: &PlacementPlan) -> Option<Line> {
    let snapshot = placement.snapshot.as_ref()?;
    let standing = match &placement.changes {
        Some(changes) if changes.resources.is_empty() => ", as before",
        Some(_) => ", new",
        None => "",
    };
    let text = format!("{}, {}{standing}", snapshot.index, objects(snapshot.resources.len()));
    Some(line(Style::Muted, "  snapshot  ").with(Style::Plain, text))
}

fn clusters_line(placement: &PlacementPlan) -> Line {
    let gained = placement.changes.as_ref().map(|changes| &changes.clusters.gained);
    let mut pieces: Vec<(Style, String)> = Vec::new();
    for work in placement.works.iter().take(LISTED_MAX) {
        let name = &work.cluster_name;
        let is_new = gained.is_some_and(|gained| gained.contains(name));
        let is_other = placement.changes.as_ref().is_some_and(|changes| changes.overridden.contains(name));
        let piece = match (is_new, is_other) {
            (true, _) => (Style::Ok, format!("+{name}")),
            (false, true) => (Style::Strong, format!("~{name}")),
            (false, false) => (Style::Plain, name.to_string()),
        };
        pieces.push(piece);
    }
    if let Some(more) = placement.works.len().checked_sub(LISTED_MAX).filter(|n| *n > 0) {
        pieces.push((Style::Muted, format!("and {more} more")));
    }
    let lost = placement.changes.iter().flat_map(|changes| &changes.clusters.lost);
    pieces.extend(lost.map(|name| (Style::Bad, format!("-{name}"))));
    let mut shown = line(Style::Muted, "  clusters  ").with(Style::Plain, placement.works.len().to_string());
    for (position, (style, text)) in pieces.into_iter().enumerate() {
        shown = shown.with(Style::Plain, if position == 0 { ": " } else { ", " }).with(style, text);
    }
    shown
}

fn rollout_text(placement: &PlacementPlan) -> String {
    let rollout = &placement.rollout;
    let mut text = rollout.type_.as_str().to_owned();
    for (word, name) in [("strategy", &rollout.strategy), ("run", &rollout.run)] {
        if let Some(name) = name {
            text.extend([format!(", {word} {name}")]);
        }
    }
    for stage in &rollout.stages {
        text.extend([format!("; {} ({})", stage.name, counted(stage.clusters.len(), "cluster"))]);
    }
    if !rollout.ignored.is_empty() {
        let names = first_of(rollout.ignored.iter().map(ClusterName::as_str), LISTED_MAX);
        text.extend([format!("; in no stage, left as they are: {names}")]);
    }
    text
}

/// Returns the objects that differ from the base, or all of them without one.
fn object_lines(placement: &PlacementPlan) -> Vec<Line> {
    let marked = |style, mark, of: &[Resource]| of.iter().map(|r| (style, mark, r.0.to_string())).collect::<Vec<_>>();
    let listed = match (&placement.changes, &placement.snapshot) {
        (Some(changes), _) => [
            marked(Style::Ok, "+", &changes.resources.added),
            marked(Style::Progressing, "~", &changes.resources.changed),
            marked(Style::Bad, "-", &changes.resources.removed),
        ]
        .concat(),
        (None, Some(snapshot)) => marked(Style::Plain, " ", &snapshot.resources),
        (None, None) => Vec::new(),
    };
    let shown = listed.iter().take(LISTED_MAX).map(|(style, mark, name)| line(*style, format!("    {mark} {name}")));
    let mut lines: Vec<Line> = shown.collect();
    if let Some(more) = listed.len().checked_sub(LISTED_MAX).filter(|n| *n > 0) {
        lines.push(line(Style::Muted, format!("      and {more} more; -o json shows all")));
    }
    lines
}

fn deletion_lines(placement: &PlacementPlan) -> Vec<Line> {
    let mut lines = Vec::new();
    for deletion in placement.deletions.iter().take(LISTED_MAX) {
        let mut names: Vec<String> = deletion.resources.iter().take(LISTED_MAX).map(|r| r.0.to_string()).collect();
        if let Some(more) = deletion.resources.len().checked_sub(LISTED_MAX).filter(|n| *n > 0) {
            names.push(format!("and {more} more"));
        }
        lines.push(line(Style::Bad, format!("  deletes from {}: {}", deletion.cluster_name, names.join(", "))));
    }
    if let Some(more) = placement.deletions.len().checked_sub(LISTED_MAX).filter(|n| *n > 0) {
        lines.push(line(Style::Bad, format!("  and from {}", counted(more, "more cluster"))));
    }
    if let Some(reason) = &placement.deletion_guard {
        let text = format!("  ! a person must approve this first: {reason}");
        lines.push(line(Style::Progressing, text));
        let hint = format!("    once it is accepted: gitfleet approve {} {DELETION_GATE}", placement.name);
        lines.push(line(Style::Muted, hint));
    }
    lines
}
