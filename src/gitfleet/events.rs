//! `gitfleet events`: what happened, as sentences.

use std::collections::BTreeMap;

use super::Daemon;
use super::completion::{CompletedName, names};
use super::exit::Exit;
use super::history::ListFormat;
use super::listed;
use super::output::{self, Terminal};
use super::records::{RecordsSource, locate};
use engine::store::records::{PLACEMENT_PREFIX, snapshot_prefix};
use model::id::{ClusterName, CommitId, PlacementKey};
use model::records::JournalEntry;
use model::target::TargetWord;
use views::sentences::dated;

/// Events that are shown, unless another number is asked for.
const LIMIT_DEFAULT: usize = 100;

/// Options of `events`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Times are in UTC. `gitfleet export journal` prints the entries as JSON with all their facts.

Examples:
  gitfleet events web
  gitfleet events --cluster prod-eu-1 -w")]
pub(crate) struct Args {
    /// Only what concerns this placement: NAME or NAMESPACE/NAME.
    #[arg(add = names(CompletedName::Placements))]
    placement: Option<String>,
    /// Only what concerns this cluster.
    #[arg(long, value_name = "NAME", add = names(CompletedName::Clusters))]
    cluster: Option<String>,
    /// How many to show, the newest; 0 for all that are kept.
    #[arg(long, value_name = "COUNT", default_value_t = LIMIT_DEFAULT)]
    limit: usize,
    /// Keep showing what happens, until interrupted.
    #[arg(short, long)]
    watch: bool,
    /// How to show them; JSON is one entry a line.
    #[arg(short, long, value_enum, default_value_t)]
    output: ListFormat,
    #[command(flatten)]
    daemon: Daemon,
}

/// Runs the command. Exits 2 where there is no such placement and nothing is known of it.
///
/// # Errors
/// The records cannot be read, or nothing of the name was ever there.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let source = locate(&args.daemon)?;
    let placement = args.placement.as_deref().map(|name| key_of(&source, name)).transpose()?;
    let commits = placement.as_ref().map(|key| commits_of(&source, key)).transpose()?.unwrap_or_default();
    let cluster = args.cluster.as_deref().map(ClusterName::from);
    let mut after = 0;
    let mut version = 0;
    let mut is_first = true;
    loop {
        let mut entries = source.journal_after(placement.as_ref(), after)?;
        after = entries.last().map_or(after, |(number, _)| *number);
        entries.retain(|(_, entry)| cluster.is_none() || entry.cluster == cluster);
        let from = entries.len().saturating_sub(args.limit);
        let shown = if is_first && args.limit > 0 { &entries[from..] } else { &entries[..] };
        let shown: Vec<&JournalEntry> = shown.iter().map(|(_, entry)| entry).collect();
        if shown.is_empty() && is_first {
            eprintln!("No events found.");
        }
        if !output::print_on(&text(args.output, &shown, &commits, is_first)?)? || !args.watch {
            return Ok(Exit::Done);
        }
        is_first &= shown.is_empty();
        version = source.wait(version)?;
    }
}

/// Returns the placement that a name means; one that is gone is named by its key.
fn key_of(source: &RecordsSource, name: &str) -> anyhow::Result<PlacementKey> {
    let known = source.read_under(&[PLACEMENT_PREFIX.to_owned()])?;
    match listed::one_placement(&known, name) {
        Ok(record) => Ok(record.key.clone()),
        Err(error) => {
            let key = TargetWord::read(name).placement();
            // Removed placements, and those of OCM, are in the journal alone.
            if source.journal(Some(&key))?.is_empty() { Err(error) } else { Ok(key) }
        }
    }
}

/// Returns the commits of a placement's snapshots.
fn commits_of(source: &RecordsSource, key: &PlacementKey) -> anyhow::Result<BTreeMap<u64, CommitId>> {
    let saved = source.read_under(&[snapshot_prefix(key)])?;
    let of = saved.snapshots.get(key).into_iter().flat_map(BTreeMap::values);
    Ok(of.map(|snapshot| (snapshot.index, snapshot.commit.clone())).collect())
}

fn text(
    format: ListFormat,
    shown: &[&JournalEntry],
    commits: &BTreeMap<u64, CommitId>,
    has_header: bool,
) -> anyhow::Result<String> {
    if format == ListFormat::Json {
        let lines = shown.iter().map(|entry| Ok(serde_json::to_string(entry)? + "\n"));
        return lines.collect();
    }
    if shown.is_empty() {
        return Ok(String::new());
    }
    let table = dated(shown, &|_, index| commits.get(&index).map(|commit| commit.short().to_owned()));
    let text = output::render_table(&table, Terminal::of_stdout());
    let rows = text.split_once('\n').map_or("", |(_, rows)| rows);
    Ok(if has_header { text } else { rows.to_owned() })
}
