//! `gitfleet history`: the snapshots of a placement, who approved them, and what became of each.

use super::Daemon;
use super::completion::{CompletedName, names};
use super::exit::Exit;
use super::kinds::Listing;
use super::listed;
use super::output::{self, Terminal};
use super::records::locate;
use super::subjects::Subjects;
use super::wanted::ShownPart;
use engine::store::records::PLACEMENT_PREFIX;
use system::clock;
use views::history::{history, history_table};

/// Options of `history`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The newest comes first. SUBJECT is known where the configuration (-c) names a source whose history is on this machine.

Examples:
  gitfleet history web
  gitfleet history shop/web -o json")]
pub(crate) struct Args {
    /// The placement, NAME or NAMESPACE/NAME.
    #[arg(add = names(CompletedName::Placements))]
    placement: String,
    /// How to show it.
    #[arg(short, long, value_enum, default_value_t)]
    output: ListFormat,
    #[command(flatten)]
    daemon: Daemon,
}

/// How a list is shown that has no objects of Kubernetes' API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ListFormat {
    /// A table.
    #[default]
    Table,
    /// JSON, for scripts.
    Json,
}

/// Runs the command. Exits 2 where there is no such placement.
///
/// # Errors
/// There is no such placement, or the records cannot be read.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let source = locate(&args.daemon)?;
    let known = source.read_under(&[PLACEMENT_PREFIX.to_owned()])?;
    let key = listed::one_placement(&known, &args.placement)?.key.clone();
    let saved = source.read_for(Listing::Placements, ShownPart::Whole, Some(&key.to_string()))?;
    let now = clock::now();
    let subjects = Subjects::open(&args.daemon);
    let views = listed::views(&saved, &listed::names(&saved), now);
    let view = views.iter().find(|view| view.record.key == key);
    let past = view.map(|view| history(view, &|commit| subjects.as_ref().and_then(|subjects| subjects.of(commit))));
    let past = past.unwrap_or_default();
    match args.output {
        ListFormat::Json => output::print_json(&past),
        ListFormat::Table if past.is_empty() => {
            eprintln!("No snapshots of {key} found.");
            Ok(Exit::Done)
        }
        ListFormat::Table => output::print(&output::render_table(&history_table(&past, now), Terminal::of_stdout())),
    }
}
