//! `gitfleet export`: records in the form that other tools read.

use anyhow::bail;
use serde_json::{Value, json};

use super::Daemon;
use super::exit::Exit;
use super::output::{self, Format, Terminal};
use super::records::locate;
use engine::store::records::{DECISIONS_PREFIX, HUB_PREFIX};
use model::decisions::DecisionsRecord;
use model::id::PlacementKey;
use model::target::TargetWord;
use views::table::Table;

/// What is exported.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Export {
    /// The clusters of each placement, as the PlacementDecisions on the hub hold them.
    Decisions(DecisionsArgs),
    /// What happened, oldest first: one JSON object a line.
    Journal(Journal),
}

/// Options of `export journal`.
#[derive(Debug, clap::Args)]
pub(crate) struct Journal {
    /// Only what concerns this placement: `NAME` or `NAMESPACE/NAME`.
    #[arg(value_parser = placement_named)]
    placement: Option<PlacementKey>,
    #[command(flatten)]
    daemon: Daemon,
}

/// Options of `export decisions`.
#[derive(Debug, clap::Args)]
pub(crate) struct DecisionsArgs {
    /// Only this placement: `NAME` or `NAMESPACE/NAME`.
    placement: Option<String>,
    /// How to show them; with `name`, the names of clusters, one a line.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
    #[command(flatten)]
    daemon: Daemon,
}

/// Reads the name of a placement: `NAME` alone is a cluster-scoped one.
#[expect(clippy::unnecessary_wraps, reason = "this is what clap takes")]
pub(crate) fn placement_named(word: &str) -> Result<PlacementKey, std::convert::Infallible> {
    Ok(TargetWord::read(word).placement())
}

/// Runs the command.
pub(crate) fn run(what: &Export) -> anyhow::Result<Exit> {
    match what {
        Export::Decisions(args) => decisions(args),
        Export::Journal(args) => journal(args),
    }
}

fn journal(args: &Journal) -> anyhow::Result<Exit> {
    let entries = locate(&args.daemon)?.journal(args.placement.as_ref())?;
    let mut text = String::new();
    for entry in &entries {
        text.push_str(&serde_json::to_string(entry)?);
        text.push('\n');
    }
    output::print(&text)
}

fn decisions(args: &DecisionsArgs) -> anyhow::Result<Exit> {
    let saved = locate(&args.daemon)?.read_under(&[DECISIONS_PREFIX.to_owned(), HUB_PREFIX.to_owned()])?;
    let mut records: Vec<&DecisionsRecord> = saved.decisions.iter().filter(|record| !record.removed).collect();
    if let Some(wanted) = &args.placement {
        records.retain(|record| is_named(record, wanted));
        if records.is_empty() {
            bail!("no placement {wanted} has been decided; `gitfleet get placements` shows how they stand");
        }
    }
    // On standard error: what reads the decisions is not to trip over it.
    for problem in records.iter().filter_map(|record| record.problem.as_ref()) {
        eprintln!("warning: {problem}");
    }
    for hub in &saved.hubs {
        // What a record has just said is not said again for the hub.
        let own = hub.problems.iter().filter(|problem| records.iter().all(|it| it.problem.as_ref() != Some(*problem)));
        for description in hub.message.iter().chain(own) {
            eprintln!("warning: {description}");
        }
    }
    match args.output {
        Format::Json => output::print_json(&document(&records)),
        Format::Yaml => output::print(&model::yaml::to_string(&document(&records))),
        Format::Name => output::print(&names(&records)),
        Format::Table | Format::Wide => {
            output::print(&output::render_table(&table(&records, args.output == Format::Wide), Terminal::of_stdout()))
        }
    }
}

fn is_named(record: &DecisionsRecord, wanted: &str) -> bool {
    match wanted.split_once('/') {
        Some((namespace, name)) => record.key.namespace.as_deref() == Some(namespace) && record.key.name == name,
        None => record.key.name == wanted,
    }
}

/// One object with a list, so that there is room for more beside it.
fn document(records: &[&DecisionsRecord]) -> Value {
    json!({"placements": records.iter().map(|record| placement(record)).collect::<Vec<_>>()})
}

fn placement(record: &DecisionsRecord) -> Value {
    let groups = record.groups.iter().enumerate();
    let decisions = groups.flat_map(|(index, group)| {
        group.clusters.iter().map(move |cluster| {
            json!({
                "clusterName": cluster.cluster_name, "reason": cluster.reason,
                "decisionGroup": {"index": index, "name": group.name},
            })
        })
    });
    let mut value =
        json!({"kind": record.key.kind, "name": record.key.name, "decisions": decisions.collect::<Vec<_>>()});
    for (field, text) in
        [("namespace", &record.key.namespace), ("placementLabel", &record.label), ("problem", &record.problem)]
    {
        if let Some(text) = text {
            value[field] = text.as_str().into();
        }
    }
    value
}

fn names(records: &[&DecisionsRecord]) -> String {
    let clusters = records.iter().flat_map(|record| record.groups.iter().flat_map(|group| &group.clusters));
    // A cluster of several placements is named once.
    let names: std::collections::BTreeSet<&str> = clusters.map(|cluster| cluster.cluster_name.as_str()).collect();
    names.into_iter().flat_map(|name| [name, "\n"]).collect()
}

fn table(records: &[&DecisionsRecord], wide: bool) -> Table {
    let mut table = Table::default();
    table.headers.extend(["PLACEMENT", "KIND", "GROUP", "CLUSTER"].map(str::to_owned));
    table.headers.extend(wide.then(|| "REASON".to_owned()));
    for record in records {
        let name = record.key.namespace.as_ref().map_or_else(String::new, |namespace| format!("{namespace}/"));
        for (index, group) in record.groups.iter().enumerate() {
            let shown = if group.name.is_empty() { index.to_string() } else { format!("{index} ({})", group.name) };
            for cluster in &group.clusters {
                let place = format!("{name}{}", record.key.name);
                let mut row = vec![place, record.key.kind.clone(), shown.clone(), cluster.cluster_name.to_string()];
                row.extend(wide.then(|| cluster.reason.clone()));
                table.rows.push(row);
            }
        }
    }
    table
}
