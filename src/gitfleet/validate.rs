//! `gitfleet validate`: every error of a tree, with file and line.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::bail;
use serde::Serialize;

use super::checkouts::{self, SourceOptions, checkouts};
use super::exit::Exit;
use super::output;
use super::records::load_configuration;
use super::rendering;
use config::{Configuration, Source};
use daemon::commit_reader::{Survey, survey};
use decide::status::work::{counted, objects};
use decide::tenancy::violations;
use model::api::groups::OCM_GROUP;
use model::manifest::InputError;
use model::tenants::Tenants;
use model::tree::{Skipped, Tree};
use plan::plan;
use system::clock;

/// Options of `validate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder to check, as it stands on disk; by default the current one. With --config it is the folder of `source.path`, by default that of
    /// a source on this machine, and of several sources all are read, as the daemon would read them.
    dir: Option<PathBuf>,
    /// The daemon's configuration file, for its `render:`, its sources, and the limits of its `tenants:`. By default only the `render:` of a
    /// gitfleet.yaml in the folder or above it in its repository counts.
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where a clone of one of several sources is, such as shop=../shop; for each that is not on this machine where the configuration
    /// has it. Its files count as they stand.
    #[arg(long, value_name = "NAME=DIR", requires = "config", conflicts_with = "dir")]
    source: Vec<String>,
    /// How to show what is wrong.
    #[arg(short, long, value_enum, default_value_t)]
    output: ValidateFormat,
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum ValidateFormat {
    /// One error a line: `path:line: object: field: message (hint)`.
    #[default]
    Table,
    /// JSON with errors, warnings and skipped documents.
    Json,
}

/// What is to be said about a folder. The field names are a contract with scripts.
#[derive(Debug, Serialize)]
struct Findings {
    /// Each of them refuses the commit.
    errors: Vec<InputError>,
    /// What is wrong with one placement alone, which then keeps its last good state.
    warnings: Vec<InputError>,
    /// Documents that are not read.
    skipped: Vec<SkippedDocument>,
}

#[derive(Debug, Serialize)]
struct SkippedDocument {
    path: String,
    line: u32,
    reason: String,
}

/// Runs the command. Exits 0 without errors, 1 with any, 2 where the folder cannot be read.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let configuration = args.config.as_deref().map(load_configuration).transpose()?;
    let (findings, summary) = output::with_spinner("reading", || surveyed(args, configuration.as_ref()).map(findings))?;
    match args.output {
        ValidateFormat::Table => {
            output::print(
                &findings.errors.iter().flat_map(|error| [error.to_string(), "\n".to_owned()]).collect::<String>(),
            )?;
        }
        ValidateFormat::Json => drop(output::print_json(&findings)?),
    }
    // On standard error: what reads errors or JSON from the output is not to trip over these.
    for SkippedDocument { path, line, reason } in &findings.skipped {
        eprintln!("skipped: {path}:{line} {reason}");
    }
    for warning in &findings.warnings {
        eprintln!("warning: {warning}");
    }
    eprintln!("{summary}");
    Ok(if findings.errors.is_empty() { Exit::Done } else { Exit::NotAsWished })
}

/// Reads what is to be checked, and holds it against the limits of tenants where it is known which folders they are of.
fn surveyed(args: &Args, configuration: Option<&Configuration>) -> anyhow::Result<Survey> {
    let Some(configuration) = configuration else {
        let dir = args.dir.as_deref().unwrap_or(Path::new("."));
        return Ok(survey(dir, &rendering::of_tree(dir, None)?)?);
    };
    let several = !configuration.sources.is_empty();
    if !several && !args.source.is_empty() {
        let only = &configuration.source.url;
        bail!("the configuration has one source ({only}); name a clone of it without --source: gitfleet validate DIR");
    }
    let (survey, has_all) = if several && args.dir.is_none() {
        let options = SourceOptions::read(configuration, &args.source, &[], &[])?;
        // Nothing is compared, so nobody asks which commits are accepted.
        let checkouts = checkouts(configuration, &options, || Ok(BTreeMap::new()))?;
        let rendering = rendering::of_tree(Path::new("."), Some(configuration))?;
        (checkouts::survey(&checkouts, configuration.render.is_some(), &rendering)?, true)
    } else {
        let (dir, is_source) = folder(args.dir.as_deref(), &configuration.source);
        (survey(&dir, &rendering::of_tree(&dir, Some(configuration))?)?, is_source && !several)
    };
    let tenants = configuration.tenants();
    if has_all {
        return Ok(within_limits(survey, &tenants));
    }
    if !tenants.is_empty() {
        let which = if several { "all sources: leave DIR out" } else { "source.path: name it as DIR" };
        eprintln!("not checked: the limits of tenants count from the folder of {which}");
    }
    Ok(survey)
}

/// Returns the folder that is checked, and whether it is that of the source. A folder that is named is taken to be.
fn folder(named: Option<&Path>, source: &Source) -> (PathBuf, bool) {
    if let Some(dir) = named {
        return (dir.to_owned(), true);
    }
    match source.local() {
        // A bare repository has no files.
        Some(root) if !(root.join("HEAD").is_file() && root.join("objects").is_dir()) => {
            (root.join(&source.path), true)
        }
        _ => (PathBuf::from("."), source.path == "."),
    }
}

/// Returns the findings, with what a tenant may not ask for among the errors.
fn within_limits(survey: Survey, tenants: &Tenants) -> Survey {
    let Ok(tree) = &survey.tree else { return survey };
    match violations(tree, tenants) {
        broken if broken.is_empty() => survey,
        broken => Survey { tree: Err(broken), ..survey },
    }
}

/// Returns what is to be said, and the summary.
fn findings(survey: Survey) -> (Findings, String) {
    let skipped = survey.skipped.into_iter().map(|Skipped { path, line, why }| SkippedDocument {
        path,
        line,
        reason: why.to_string(),
    });
    let skipped = skipped.collect();
    match survey.tree {
        Err(errors) => {
            let summary = counted(errors.len(), "error");
            (Findings { errors, warnings: Vec::new(), skipped }, summary)
        }
        Ok(tree) => {
            // Open Cluster Management's pick clusters and deliver nothing; `plan` counts them as well.
            let picking = tree.inputs.iter().filter(|it| it.id.group == OCM_GROUP && it.id.kind == "Placement").count();
            let counts = [
                objects(tree.manifests.len()),
                counted(tree.placements.len() + picking, "placement"),
                counted(tree.clusters.len(), "cluster"),
            ];
            let warnings = warnings(tree);
            let warned = match warnings.len() {
                0 => String::new(),
                number => format!(", {}", counted(number, "warning")),
            };
            let summary = format!("{}: no errors{warned}", counts.join(", "));
            (Findings { errors: Vec::new(), warnings, skipped }, summary)
        }
    }
}

/// Returns what is odd, and what only the tree as a whole shows of its placements: what `plan` would stumble over.
fn warnings(tree: Tree) -> Vec<InputError> {
    let skipped: Vec<InputError> = tree.skipped.iter().filter_map(Skipped::complaint).collect();
    let plan = plan(&Arc::new(tree), None, clock::now());
    // Those that are not read have a list of their own.
    let mut warnings: Vec<InputError> = plan.warnings.into_iter().filter(|it| !skipped.contains(it)).collect();
    for placement in &plan.placements {
        let namespace = placement.namespace.as_ref().map(|ns| format!("{ns}/")).unwrap_or_default();
        warnings.extend(placement.errors().map(|message| InputError {
            path: placement.path.clone().unwrap_or_default(),
            line: placement.line.unwrap_or_default(),
            object: Some(format!("{} {namespace}{}", placement.kind, placement.name)),
            field: None,
            message,
            hint: None,
        }));
    }
    warnings.extend(plan.ocm_placements.into_iter().flat_map(|placement| placement.errors));
    warnings.sort();
    warnings.dedup();
    warnings
}
