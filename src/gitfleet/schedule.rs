//! `gitfleet schedule`: scheduling alone, from objects to decisions.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::exit::Exit;
use super::output::{self, Format, Terminal};
use super::rendering;
use daemon::commit_reader;
use plan::offline;
use system::clock;
use views::scheduled::{Scheduled, table};

/// Options of `schedule`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Reads placements (KubeFleet's and Open Cluster Management's), clusters, and what a hub keeps of earlier decisions: bindings, policy \
snapshots, PlacementDecisions, AddOnPlacementScores. One invalid object fails the call: exit 1, and nothing is decided. A \
placement that gets fewer clusters than it asks for is a decision like another: exit 0, with a warning beside the table.

SCORE is the topology spread score and the affinity score of a ClusterResourcePlacement or ResourcePlacement (higher is better, the \
first counts first), and the sum over the prioritizers of an Open Cluster Management Placement.

Examples:
  gitfleet schedule placements.yaml clusters/
  kubectl get crp,memberclusters,clusterresourcebindings -o yaml | gitfleet schedule -f -")]
pub(crate) struct Args {
    /// Files or folders with objects; `-` is the standard input. The current folder by default.
    #[arg(value_name = "FILE")]
    places: Vec<PathBuf>,
    /// The same, as kubectl has it. Several may follow.
    #[arg(short = 'f', long = "filename", value_name = "FILE", num_args = 1..)]
    files: Vec<PathBuf>,
    /// The instant that heartbeats, tolerations and scores are evaluated at, such as 2026-01-31T12:00:00Z; now by default.
    #[arg(long, value_name = "TIME")]
    now: Option<Timestamp>,
    /// How to show the decisions.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// Runs the command. Exits 0 with decisions, 1 where an object is invalid, 2 where a file cannot be read.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let now = args.now.unwrap_or_else(clock::now);
    let mut places: Vec<PathBuf> = args.places.iter().chain(&args.files).cloned().collect();
    if places.is_empty() {
        places.push(".".into());
    }
    let folder = places.iter().find(|place| place.is_dir()).map_or(Path::new("."), PathBuf::as_path);
    let rendering = rendering::of_tree(folder, None)?;
    let decided = match commit_reader::read_files(&places, &rendering) {
        Ok(tree) => offline::schedule(&tree, now),
        Err(error) => Err(error.refused()?),
    };
    let objects = match decided {
        Ok(objects) => objects,
        Err(errors) => {
            output::complain(&errors);
            return Ok(Exit::NotAsWished);
        }
    };
    match args.output {
        Format::Json => output::print_json(&list(&objects)),
        Format::Yaml => output::print(&output::render_yaml(&[list(&objects)])),
        Format::Name => output::print(&output::render_names(&objects)),
        Format::Table | Format::Wide => {
            // On standard error, where they do not get between the rows.
            for shortfall in Scheduled::of(&objects).iter().filter_map(Scheduled::shortfall) {
                eprintln!("warning: {shortfall}");
            }
            output::print(&output::render_table(&table(&objects, args.output == Format::Wide), Terminal::of_stdout()))
        }
    }
}

/// A `List` also of one object or none, unlike what `get` prints: scripts read `items`.
fn list(items: &[Value]) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}
