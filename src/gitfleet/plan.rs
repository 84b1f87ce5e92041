//! `gitfleet plan`: the effects of a tree on the fleet.

use std::path::Path;
use std::sync::Arc;

use anyhow::{anyhow, bail};
use jiff::Timestamp;

use super::checkouts;
use super::exit::Exit;
use super::output::{self, Terminal};
use super::plan_config::{PlanRequest, Wanted};
use daemon::commit_reader;
use daemon::commit_reader::{Cache, read_candidate, read_commit, read_folder};
use daemon::rendering::Rendering;
use decide::status::work::counted;
use decide::tenancy::violations;
use model::id::CommitId;
use model::manifest::InputError;
use model::plan::Plan;
use model::tree::Tree;
use plan::plan_within;
use plan::pull_request::{Candidate, Showing, derived_key, plan_with_differences, pull_report};
use system::clock;
use views::plan_text::{PlanText, plan_lines};
use views::pull_request::{COMMENT_CHARS_MAX, ObjectDiff, OverrideEffect, PullReport, plan_comment};

/// Options of `plan`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
With --base it shows what changes: clusters, objects with their differences, deletions, and what a person must approve. Secret values \
are replaced by markers, equal ones by equal markers.

Examples:
  What would the folder that I edit do to an empty fleet?
    gitfleet plan
  What does my branch change?
    gitfleet plan --base main
  What would the daemon do next?
    gitfleet plan -c gitfleet.yaml
  What does my branch of one of several sources change?
    gitfleet plan -c gitfleet.yaml --source platform=../platform --source shop=. --base shop=main

Exit codes: 0 no errors, 1 errors in the tree (or changes, with --exit-code), 2 the folder or a revision cannot be read, 64 wrong \
usage.")]
pub(crate) struct Args {
    #[command(flatten)]
    wanted: Wanted,
    /// The instant that scores and taints are evaluated at, such as 2026-01-31T12:00:00Z; now by default.
    #[arg(long, value_name = "TIME")]
    now: Option<Timestamp>,
    /// How to show it.
    #[arg(short, long, value_enum, default_value_t)]
    output: PlanFormat,
    /// With text: leave out the differences of objects.
    #[arg(long)]
    summary: bool,
    /// Exit 1 if there are changes from --base.
    #[arg(long)]
    exit_code: bool,
    /// Print the values of Secrets, which are replaced by markers otherwise.
    #[arg(long)]
    show_secrets: bool,
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum PlanFormat {
    /// Text for people.
    #[default]
    #[value(alias = "text")]
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
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let asked = PlanRequest::of(&args.wanted)?;
    let plan = match args.output {
        // It shows more than the plan, which takes longer to find.
        PlanFormat::Table => {
            let described = output::with_spinner("planning", || describe(args, &asked))?;
            let Described { plan, stops, objects, overrides } = &described;
            let text = PlanText { plan, stops, objects, overrides };
            output::print(&output::render_lines(&plan_lines(&text), Terminal::of_stdout()))?;
            described.plan
        }
        PlanFormat::Json => {
            let plan = output::with_spinner("planning", || make(args, &asked))?;
            output::print_json(&plan)?;
            plan
        }
        PlanFormat::Yaml => {
            let plan = output::with_spinner("planning", || make(args, &asked))?;
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
    if args.show_secrets {
        bail!("-o markdown is made to be published, so it always masks secret values; leave --show-secrets out");
    }
    if !asked.sources.is_empty() {
        let pull = checkouts::read_pull(&asked.sources, asked.renders(), &asked.rendering()?)?;
        return report(args, asked, (&pull.base, &pull.head), pull.candidate, Some(&pull.name));
    }
    let Some(revision) = asked.base.as_deref() else {
        bail!("-o markdown is about a merge: name with --base what it would be merged into, such as --base main");
    };
    let (reader, _) = git::discover(&asked.repo)?;
    let base = reader.resolve(revision)?;
    let head = reader.resolve(asked.head.as_deref().unwrap_or("HEAD"))?;
    let mut cache = Cache::rendering(asked.rendering()?);
    let tree = accepted(&reader, &base, &mut cache, "--base", revision)?;
    let candidate = read_candidate(&reader, &base, &head, &cache);
    report(args, asked, (&tree, &head), candidate, None)
}

/// Says what a merge would bring to a tree that is rolled out. `only` names the one of several sources that it is in.
fn report(
    args: &Args,
    asked: &PlanRequest,
    (tree, head): (&Arc<Tree>, &CommitId),
    candidate: Result<Candidate, commit_reader::Error>,
    only: Option<&str>,
) -> anyhow::Result<PullReport> {
    let refused = |errors| PullReport::refused(tree.commit.clone(), Some(head.clone()), errors);
    let candidate = match candidate {
        Ok(candidate) => candidate,
        Err(error) => return Ok(refused(error.refused()?)),
    };
    let broken = violations(&candidate.tree, &asked.tenants());
    if !broken.is_empty() {
        return Ok(refused(broken));
    }
    // There is no daemon here, so none of its key.
    let key = derived_key(&[tree, &candidate.tree]);
    let showing = Showing { diffs: true, key: &key, only };
    let now = args.now.unwrap_or_else(clock::now);
    Ok(pull_report(&asked.rolled_out(tree, now), &candidate, &showing, now))
}

/// A plan for people: with the rollouts that it stops, the differences of objects, and what overrides change.
#[derive(Default)]
struct Described {
    plan: Plan,
    stops: Vec<String>,
    objects: Vec<ObjectDiff>,
    overrides: Vec<OverrideEffect>,
}

/// Makes a plan for people.
fn describe(args: &Args, asked: &PlanRequest) -> anyhow::Result<Described> {
    let (base, head) = match within_limits(asked)? {
        Ok(trees) => trees,
        // A refused head is a plan by itself.
        Err((commit, errors)) => {
            return Ok(Described { plan: Plan::refused(commit, errors), ..Described::default() });
        }
    };
    let now = args.now.unwrap_or_else(clock::now);
    // A plan needs no daemon.
    let stops = asked.stopped(base.as_ref(), &head, now);
    let stops = stops.unwrap_or_else(|error| vec![format!("Which rollouts run is not known: {error:#}")]);
    let (mut plan, objects, overrides) = match &base {
        Some(base) if !args.summary => {
            let key = derived_key(&[base, &head]);
            let mask = (!args.show_secrets).then_some(&key);
            plan_with_differences(&asked.rolled_out(base, now), &head, mask, now)
        }
        base => {
            let plan = planned(args, asked, base.as_ref(), &head);
            return Ok(Described { plan, stops, ..Described::default() });
        }
    };
    plan.warnings.extend(asked.unreached(&head));
    Ok(Described { plan, stops, objects, overrides })
}

/// Reads what is asked for. A head in which a tenant asks for more than the configuration allows is refused, as the daemon does.
fn within_limits(asked: &PlanRequest) -> anyhow::Result<Result<Trees, RefusedHead>> {
    let rendering = asked.rendering()?;
    let read = match &asked.sources[..] {
        [] => read_revisions(&asked.repo, asked.base.as_deref(), asked.head.as_deref(), &rendering)?,
        several => checkouts::read(several, asked.renders(), &rendering)?,
    };
    Ok(read.and_then(|(base, head)| match violations(&head, &asked.tenants()) {
        broken if broken.is_empty() => Ok((base, head)),
        broken => Err((head.commit.clone(), broken)),
    }))
}

fn make(args: &Args, asked: &PlanRequest) -> anyhow::Result<Plan> {
    Ok(match within_limits(asked)? {
        Ok((base, head)) => planned(args, asked, base.as_ref(), &head),
        Err((commit, errors)) => Plan::refused(commit, errors),
    })
}

fn planned(args: &Args, asked: &PlanRequest, base: Option<&Arc<Tree>>, head: &Arc<Tree>) -> Plan {
    let mut plan = plan_within(asked.tenants(), head, base, args.now.unwrap_or_else(clock::now));
    plan.warnings.extend(asked.unreached(head));
    if !args.show_secrets {
        plan::hide_secrets(&mut plan);
    }
    plan
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
    rendering: &Rendering,
) -> anyhow::Result<Result<Trees, RefusedHead>> {
    if base.is_none() && head.is_none() {
        return match read_folder(repo, rendering) {
            Ok(tree) => Ok(Ok((None, Arc::new(tree)))),
            Err(error) => Ok(Err((None, error.refused()?))),
        };
    }
    let (reader, _) = git::discover(repo)?;
    let head = reader.resolve(head.unwrap_or("HEAD"))?;
    let mut cache = Cache::rendering(rendering.clone());
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
    rendering: &Rendering,
) -> anyhow::Result<Vec<Arc<Tree>>> {
    if revisions.len() == 0 {
        return Ok(Vec::new());
    }
    let (reader, _) = git::discover(repo)?;
    let mut cache = Cache::rendering(rendering.clone());
    let mut trees = Vec::with_capacity(revisions.len());
    for revision in revisions {
        let commit = reader.resolve(revision)?;
        trees.push(accepted(&reader, &commit, &mut cache, "--then", revision)?);
    }
    Ok(trees)
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
        Err(error) => Err(base_refused(error, &format!("{option} {revision}"))),
    }
}

/// Says why something cannot count as accepted.
pub(super) fn base_refused(error: commit_reader::Error, what: &str) -> anyhow::Error {
    match error {
        commit_reader::Error::Refused(errors) => anyhow!(
            "{what} has {}, so it cannot be accepted; name a good commit. The first is {}",
            counted(errors.len(), "error"),
            errors.first().map(ToString::to_string).unwrap_or_default()
        ),
        error => anyhow::Error::from(error).context(format!("reading {what}")),
    }
}
