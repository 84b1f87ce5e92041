//! Every surface of one fleet, compared with files that are kept: what people and programs see stays as it is, whatever becomes of the
//! code behind it.

use sha2::{Digest as _, Sha256};

use crate::cli::scratch::Scratch;

pub mod fleet;
pub mod kept;
pub mod plain;

use fleet::{GoldenFleet, typed};
use kept::Kept;
use plain::Plain;

/// Words of `get` for our listings.
pub const LISTINGS: [&str; 12] = [
    "placements",
    "snapshots",
    "policies",
    "overrides",
    "bindings",
    "runs",
    "approvals",
    "works",
    "ocmplacements",
    "placementdecisions",
    "evictions",
    "clusters",
];

/// Kinds of KubeFleet and OCM that are shown from records.
const KINDS: [&str; 20] = [
    "ClusterResourcePlacement",
    "ResourcePlacement",
    "ClusterResourceSnapshot",
    "ResourceSnapshot",
    "ClusterSchedulingPolicySnapshot",
    "SchedulingPolicySnapshot",
    "ClusterResourceOverrideSnapshot",
    "ResourceOverrideSnapshot",
    "ClusterResourceBinding",
    "ResourceBinding",
    "ClusterStagedUpdateRun",
    "StagedUpdateRun",
    "ClusterApprovalRequest",
    "ApprovalRequest",
    "Work",
    "placements.cluster.open-cluster-management.io",
    "PlacementDecision",
    "ClusterResourcePlacementEviction",
    "MemberCluster",
    "ManagedCluster",
];

const STATUS: [&str; 6] =
    ["status", "status --all", "status search", "status web --exit-code", "status wbe", "status -o json"];

const DESCRIBED: [&str; 16] = [
    "describe placement web",
    "describe placement search",
    "describe placement team/notes",
    "describe crp broken",
    "describe rp team/notes",
    "describe cluster p2",
    "describe membercluster p2",
    "describe snapshot web-1-snapshot",
    "describe policy search-0",
    "describe override greetings-0",
    "describe binding web-p2-1473fa00",
    "describe work fleet-member-p2/web-work",
    "describe run search-0",
    "describe approval search-1-after-staging",
    "describe ocmplacement apps/best",
    "describe eviction nowhere",
];

const PAST: [&str; 11] = [
    "history web",
    "history search",
    "history search -o json",
    "events --limit 0",
    "events search",
    "events --cluster d",
    "events web --limit 3 -o json",
    "export decisions",
    "export decisions -o wide",
    "export decisions -o json",
    "export journal",
];

const EXPLAINED: [&str; 8] = [
    "explain web",
    "explain search -o wide",
    "explain team/notes",
    "explain apps/best",
    "explain follower -o json",
    "explain web --cluster d",
    "diff web",
    "diff search",
];

/// What the tree would do before the last commit, which is refused, and with it.
const PLANNED: [&str; 9] = [
    "validate fleet",
    "plan --repo fleet --base HEAD~4 --head HEAD~1",
    "plan --repo fleet --base HEAD~4 --head HEAD~1 --summary",
    "plan --repo fleet --base HEAD~4 --head HEAD~1 -o markdown",
    "plan --repo fleet --base HEAD~4 --head HEAD~1 -o json",
    "plan --repo fleet --base HEAD~1 --head HEAD",
    "plan --repo fleet --base HEAD~1 --head HEAD -o markdown",
    "plan --repo fleet --base HEAD~1 --head HEAD -o json",
    "simulate --repo fleet --head HEAD~1",
];

/// What the API answers to `GET`.
const ANSWERS: [&str; 19] = [
    "/healthz",
    "/readyz",
    "/api/v1/summary",
    "/api/v1/placements",
    "/api/v1/placements?state=Failed&limit=1",
    "/api/v1/placements/web",
    "/api/v1/placements/team/notes",
    "/api/v1/placements/none",
    "/api/v1/clusters",
    "/api/v1/bindings",
    "/api/v1/bindings?placement=web",
    "/api/v1/works",
    "/api/v1/works?placement=web&cluster=p2",
    "/api/v1/events?limit=1000",
    "/api/v1/events?placement=web&cluster=p2",
    "/api/v1/records",
    "/api/v1/explain?placement=web",
    "/api/v1/journal?placement=old",
    "/api/v1/none",
];

/// The live page.
const PAGES: [&str; 23] = [
    "/",
    "/?trouble=1&group=strategy",
    "/placements/web",
    "/placements/web?tab=diff&from=0&to=1&lines=1",
    "/placements/web?tab=explain",
    "/placements/web?tab=events",
    "/placements/web?tab=history",
    "/placements/search",
    "/placements/search?group=region",
    "/placements/search/graph.svg",
    "/placements/team/notes",
    "/placements/old",
    "/clusters",
    "/clusters/p2",
    "/events",
    "/events?trouble=1",
    "/commits/d4991f2",
    "/badge/web.svg",
    "/badge/team/notes.svg",
    "/act?verb=approve&target=search-1&stage=staging",
    "/act?verb=pause&target=web",
    "/sign-in",
    "/none",
];

/// Returns what a terminal shows of some commands.
fn shown(fleet: &GoldenFleet, lines: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let show = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        typed(&words, &fleet.run(&words))
    };
    lines.into_iter().map(|line| show(line.as_ref())).collect()
}

/// Returns what is answered at some paths.
fn answered(fleet: &GoldenFleet, paths: &[&str], plain: impl Fn(&str) -> String) -> String {
    let answer = |path: &&str| {
        let (status, body) = fleet.ask(path);
        format!("GET {path}\n{status}\n{}\n\n", plain(&body))
    };
    paths.iter().map(answer).collect()
}

#[test]
fn every_surface_of_a_fleet() {
    let fleet = GoldenFleet::play("./fleet");
    let plain = Plain::of(&fleet);
    let mut kept = Kept::in_folder("golden");
    kept.compare("told.txt", &plain.aged(&fleet.told));
    kept.compare("log.txt", &plain.log(&fleet.daemon.log()));
    kept.compare("status.txt", &plain.aged(&shown(&fleet, STATUS)));
    let tables = LISTINGS
        .iter()
        .flat_map(|kind| ["", " -o wide", " -o name", " --kubefleet"].map(|more| format!("get {kind}{more}")));
    kept.compare("get.txt", &plain.aged(&shown(&fleet, tables)));
    let tables = KINDS.iter().map(|kind| format!("get {kind}"));
    kept.compare("get-kinds.txt", &plain.aged(&shown(&fleet, tables)));
    let objects = LISTINGS.iter().map(|kind| format!("get {kind} -o json"));
    kept.compare("get-objects.txt", &plain.exact(&shown(&fleet, objects.chain(["get crp web -o yaml".to_owned()]))));
    kept.compare("described.txt", &plain.aged(&shown(&fleet, DESCRIBED)));
    kept.compare("past.txt", &plain.aged(&shown(&fleet, PAST)));
    kept.compare("explained.txt", &plain.aged(&shown(&fleet, EXPLAINED)));
    kept.compare("planned.txt", &plain.exact(&shown(&fleet, PLANNED)));
    kept.compare("answers.txt", &answered(&fleet, &ANSWERS, |body| plain.items(body)));
    kept.compare("stream.txt", &plain.stream(&fleet.streamed()));
    kept.compare("pages.txt", &answered(&fleet, &PAGES, |body| plain.page(body)));
    kept.compare("metrics.txt", &plain::metrics(&fleet.ask("/metrics").1));
    kept.finish();
}

/// Compares what `gitfleet demo` says with what is kept.
pub fn compare_demo(out: &str, err: &str) {
    let mut kept = Kept::in_folder("golden");
    kept.compare("demo.txt", &plain::demo(&format!("{out}[stderr]\n{err}")));
    kept.finish();
}

#[test]
fn schemas_that_people_and_programs_read() {
    let scratch = Scratch::new();
    let digest = |text: &str| Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let schema = scratch.run(&["config", "schema"]);
    let definitions = scratch.run(&["crd"]);
    let definition = |document: &str| {
        let name = document.lines().find_map(|line| line.strip_prefix("  name: ")).expect("a definition has a name");
        format!("{}  {name}\n", digest(document))
    };
    let text = format!("{}  config schema\n", digest(schema.text(0)));
    let text = definitions.text(0).split("---\n").skip(1).map(definition).fold(text, |text, line| text + &line);
    let mut kept = Kept::in_folder("golden");
    kept.compare("schemas.txt", &text);
    kept.finish();
}
