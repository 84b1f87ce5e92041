//! `gitfleet describe`: one object with its fields and events; a placement as a page.

use serde_json::Value;

use super::Daemon;
use super::completion::{CompletedName, names};
use super::exit::Exit;
use super::get::named;
use super::kinds::{GetKind, Listing};
use super::listed;
use super::output::{self, Terminal};
use super::records::{RecordsSource, locate};
use super::subjects::Subjects;
use super::wanted::ShownPart;
use decide::status::placement::PlacementView;
use decide::status::work::counted;
use engine::store::records::{PLACEMENT_PREFIX, RUN_PREFIX};
use model::id::PlacementKey;
use model::records::JournalEntry;
use system::clock;
use views::describe::{cluster_lines, events_table, object_lines};
use views::description::placement_page;
use views::sentences::recent;
use views::tree::{Line, Style};

/// Events of a placement's page; `gitfleet events` has all.
const PAGE_EVENTS_MAX: usize = 20;

/// Options of `describe`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A placement is shown as a page: how it stands, its clusters, and the last events; a cluster with its state in words. Names of kinds (`describe crp web`) show every field \
and condition, as kubectl does on a hub.

Where only an OCM Placement has the name, `placement` is that one.

Examples:
  gitfleet describe placement web
  gitfleet describe placement web -n shop
  gitfleet describe cluster prod-eu-1")]
pub(crate) struct Args {
    /// What kind of object it is: one of these words, or a kind by its name, plural or short name.
    #[arg(value_parser = GetKind::parser())]
    kind: GetKind,
    /// Its name, or NAMESPACE/NAME.
    #[arg(add = names(CompletedName::Runs))]
    name: String,
    /// Only objects in this namespace.
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    #[command(flatten)]
    daemon: Daemon,
}

/// Runs the command. Exits 2 where nothing has the name.
///
/// # Errors
/// Nothing has the name, or the records cannot be read.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let source = locate(&args.daemon)?;
    let kind = args.kind;
    let name = full_name(args.kind, &args.name, args.namespace.as_deref());
    if kind.is_ours && kind.listing == Listing::Placements {
        return describe_placements(args, &name, &source);
    }
    describe_objects(&source, kind, &name)
}

/// Returns a name with the namespace that is given beside it.
fn full_name(kind: GetKind, name: &str, namespace: Option<&str>) -> String {
    match namespace {
        Some(namespace) if !name.contains('/') && !kind.is_cluster_wide() => format!("{namespace}/{name}"),
        _ => name.to_owned(),
    }
}

/// Prints each object of a name with its events.
fn describe_objects(source: &RecordsSource, kind: GetKind, name: &str) -> anyhow::Result<Exit> {
    let saved = source.read_for(kind.listing, ShownPart::Whole, Some(name))?;
    let objects = named(&saved, kind, name)?;
    let terminal = Terminal::of_stdout();
    let mut text = String::new();
    for (position, object) in objects.iter().enumerate() {
        if position > 0 {
            text.push('\n');
        }
        let record = saved.clusters.values().find(|cluster| object["metadata"]["name"] == cluster.name.as_str());
        // A cluster's record has more to say than its object; all other kinds show the object.
        let lines = match record {
            Some(cluster) if kind.is_ours && kind.listing == Listing::Clusters => {
                cluster_lines(cluster, object, clock::now())
            }
            _ => object_lines(object),
        };
        text.push_str(&output::render_lines(&lines, terminal));
        let mut events = Vec::new();
        if let Some(subject) = Subject::of(kind.listing, object) {
            events = source.journal(subject.placement.as_ref().or(subject.ocm_placement.as_ref()))?;
            events.retain(|entry| subject.concerns(entry));
        }
        let heading = Line::default().with(Style::Strong, "Events:");
        if events.is_empty() {
            text.push_str(&output::render_lines(&[heading.with(Style::Plain, "  <none>")], terminal));
        } else {
            text.push_str(&output::render_lines(&[heading], terminal));
            let events: Vec<&JournalEntry> = events.iter().collect();
            text.push_str(&output::render_table(&events_table(&events, clock::now()), terminal));
        }
    }
    output::print(&text)
}

/// Prints the page of each placement of a name; where only OCM Placements have it, those.
fn describe_placements(args: &Args, name: &str, source: &RecordsSource) -> anyhow::Result<Exit> {
    let saved = source.read_for(Listing::Placements, ShownPart::Whole, Some(name))?;
    if !saved.placements.iter().any(|record| listed::is_meant(&record.key, name)) {
        let of_ocm = GetKind { listing: Listing::OcmPlacements, only: None, is_ours: true };
        let known = source.read_for(Listing::OcmPlacements, ShownPart::Whole, Some(name))?;
        if named(&known, of_ocm, name).is_ok() {
            return describe_objects(source, of_ocm, name);
        }
        // Says which name is near.
        listed::one_placement(&source.read_under(&[PLACEMENT_PREFIX.to_owned()])?, name)?;
    }
    // What is shown to be copied must not fit anything else, whatever that is called.
    let names = listed::names(&source.read_under(&[PLACEMENT_PREFIX.to_owned(), RUN_PREFIX.to_owned()])?);
    let approvers = saved.source.as_ref().and_then(|source| source.approvers.as_deref());
    let subjects = Subjects::open(&args.daemon);
    let mut pages = Vec::new();
    let views = listed::views(&saved, &names, clock::now());
    for view in views.iter().filter(|view| listed::is_meant(&view.record.key, name)) {
        pages.push(page(view, approvers, subjects.as_ref(), source)?);
    }
    output::print(&pages.join("\n"))
}

fn page(
    view: &PlacementView,
    approvers: Option<&str>,
    subjects: Option<&Subjects>,
    source: &RecordsSource,
) -> anyhow::Result<String> {
    let terminal = Terminal::of_stdout();
    let page = placement_page(view, approvers, &|commit| subjects.and_then(|subjects| subjects.of(commit)));
    let mut text = output::render_lines(&page.head, terminal);
    text.push('\n');
    text.push_str(&output::render_table(&page.clusters, terminal));
    if page.unlisted > 0 {
        let words = format!("and {}", counted(page.unlisted, "more cluster"));
        text.push_str(&output::render_lines(&[Line::default().with(Style::Muted, words)], terminal));
    }
    let entries = source.journal(Some(&view.record.key))?;
    let commit = |index: u64| view.snapshot_at(index).map(|snapshot| snapshot.commit.short().to_owned());
    text.push('\n');
    text.push_str(&output::render_table(&recent(&entries, PAGE_EVENTS_MAX, &commit, view.now), terminal));
    if let Some(rest) = entries.len().checked_sub(PAGE_EVENTS_MAX).filter(|rest| *rest > 0) {
        let words = format!("{} before; gitfleet events {}", counted(rest, "event"), view.word());
        text.push_str(&output::render_lines(&[Line::default().with(Style::Muted, words)], terminal));
    }
    Ok(text)
}

/// What an event must name to be an event of an object; absent asks for nothing.
#[derive(Default)]
struct Subject {
    placement: Option<PlacementKey>,
    ocm_placement: Option<PlacementKey>,
    cluster: Option<String>,
    run: Option<String>,
    stage: Option<String>,
}

impl Subject {
    /// Returns what events of an object name; `None` for what has no events.
    fn of(listing: Listing, object: &Value) -> Option<Self> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let namespace = text("/metadata/namespace");
        let placed = |name: Option<String>| name.map(|name| PlacementKey { namespace: namespace.clone(), name });
        let parent = text("/metadata/labels/kubernetes-fleet.io~1parent-CRP");
        Some(match listing {
            Listing::Overrides => return None,
            Listing::Clusters => Self { cluster: text("/metadata/name"), ..Self::default() },
            Listing::Runs => {
                Self { placement: placed(text("/spec/placementName")), run: text("/metadata/name"), ..Self::default() }
            }
            // A request names its run and no placement, and a deletion gate its placement and no run.
            Listing::Approvals => Self {
                placement: placed(text("/spec/placementName")),
                run: text("/spec/parentStageRollout"),
                stage: text("/spec/targetStage"),
                ..Self::default()
            },
            Listing::Bindings => {
                Self { placement: placed(parent), cluster: text("/spec/targetCluster"), ..Self::default() }
            }
            Listing::Works => {
                // Source: KubeFleet, whose works are in the namespace of their member; the placement's is a label.
                let cluster = namespace.as_deref().and_then(|name| name.strip_prefix("fleet-member-"));
                let of = text("/metadata/labels/kubernetes-fleet.io~1parent-placement-namespace");
                let placement = parent.map(|name| PlacementKey { namespace: of, name });
                Self { placement, cluster: cluster.map(str::to_owned), ..Self::default() }
            }
            Listing::Snapshots | Listing::Policies => Self { placement: placed(parent), ..Self::default() },
            Listing::Evictions => Self {
                placement: placed(text("/spec/placementName")),
                cluster: text("/spec/clusterName"),
                ..Self::default()
            },
            Listing::Placements => Self { placement: placed(text("/metadata/name")), ..Self::default() },
            Listing::OcmPlacements => Self { ocm_placement: placed(text("/metadata/name")), ..Self::default() },
            Listing::PlacementDecisions => Self {
                ocm_placement: placed(text("/metadata/labels/cluster.open-cluster-management.io~1placement")),
                ..Self::default()
            },
        })
    }

    fn concerns(&self, entry: &JournalEntry) -> bool {
        let ocm_placement = self.ocm_placement.as_ref().map(ToString::to_string);
        self.placement.as_ref().is_none_or(|wanted| entry.placement.as_ref() == Some(wanted))
            && self.cluster.as_deref().is_none_or(|wanted| entry.cluster.as_ref().is_some_and(|c| c.as_str() == wanted))
            && has_fact(entry, "ocmPlacement", ocm_placement.as_deref())
            && has_fact(entry, "run", self.run.as_deref())
            && has_fact(entry, "stage", self.stage.as_deref())
    }
}

/// Tells whether an entry has the wanted text as a fact; where none is wanted any entry has it.
fn has_fact(entry: &JournalEntry, name: &str, wanted: Option<&str>) -> bool {
    wanted.is_none_or(|wanted| entry.facts.get(name).and_then(Value::as_str) == Some(wanted))
}
