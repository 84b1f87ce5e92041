//! The pure parts: parsing, freezing, scheduling, planning a delivery. `cargo bench --bench steps`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use decide::snapshot;
use decide::state::Payload;
use deliver::claim::{Holder, Peers};
use deliver::health::HealthRules;
use deliver::holdings::{Holdings, Wanted};
use deliver::inventory::{Held, Parent, applyset_id, labelled};
use deliver::lists::Unlisted;
use deliver::live::LiveObject;
use deliver::plan::plan;
use deliver::progress::Progress;
use deliver::step::MemberView;
use divan::{Bencher, black_box};
use jiff::Timestamp;
use model::cluster::Cluster;
use model::id::{BlobId, ClusterName, ObjectKey, PlacementKey};
use model::tree::Tree;
use model::work::WorkOrder;
use schedule::{BadValues, Fleet, Request, schedule};
use testservers::generate;

fn main() {
    divan::main();
}

/// Reads generated files as a commit's.
fn tree(files: &[(String, String)]) -> Tree {
    let selection = source::select(files.iter().map(|(path, _)| path.as_str()), None);
    let files = files.iter().enumerate().map(|(number, (path, text))| {
        let blob = Arc::new(source::parse_blob(text.as_bytes()));
        (Arc::from(path.as_str()), BlobId::new(number.to_string()), blob)
    });
    source::assemble(None, &selection, files).expect("the generated tree is without errors")
}

#[divan::bench]
fn parse_1000_deployments(bencher: Bencher<'_, '_>) {
    let texts: Vec<String> =
        (0..1000).map(|number| generate::deployment("team", &format!("app-{number}"), "1.0.0")).collect();
    bencher.bench(|| texts.iter().map(|text| source::parse_blob(text.as_bytes()).documents.len()).sum::<usize>());
}

#[divan::bench]
fn select_and_freeze_10000_manifests_of_40_placements(bencher: Bencher<'_, '_>) {
    let tree = tree(&generate::tree(generate::PLAN));
    bencher.bench(|| {
        for placement in tree.placements.values() {
            let manifests = snapshot::select(&tree, placement).expect("the selectors fit the tree");
            black_box(snapshot::freeze(&manifests, None));
        }
    });
}

#[divan::bench]
fn schedule_pick_all_over_10000_clusters(bencher: Bencher<'_, '_>) {
    let cluster = |number: usize| {
        let labels = BTreeMap::from([("tier".to_owned(), format!("t{}", number % 3))]);
        (ClusterName::new(generate::cluster_name(number)), Cluster { labels, ..Cluster::default() })
    };
    let clusters: Fleet = (0..10_000).map(cluster).collect();
    let placement = PlacementKey::cluster_scoped("app");
    let request = Request {
        placement: &placement,
        policy: None,
        policy_index: 0,
        clusters: &clusters,
        bindings: &[],
        keep_held: true,
        bad_values: BadValues::Mismatch,
        tenant: None,
    };
    bencher.bench(|| schedule(black_box(&request)).expect("a plain policy is scheduled").bindings.len());
}

/// Returns an order of 500 Deployments.
fn order() -> WorkOrder {
    let files: Vec<(String, String)> = (0..500)
        .map(|number| (format!("{number}.yaml"), generate::deployment("team", &format!("app-{number}"), "1.0.0")))
        .collect();
    let (placement, manifests) = (PlacementKey::cluster_scoped("app"), tree(&files).manifests);
    let frozen = snapshot::freeze(&manifests, None);
    let payload = Payload::of(manifests, &frozen, &placement).expect("there is no envelope");
    WorkOrder {
        placement,
        cluster: "member-1".into(),
        generation: 1,
        source: "bench".into(),
        snapshot: 0,
        commit: "abc".into(),
        digest: "def".into(),
        strategy: model::api::placement::ApplyStrategy::default(),
        manifests: payload.desired,
        held: BTreeSet::new(),
        prune: BTreeSet::new(),
        kept: model::records::Kept::default(),
        user: None,
        tenant: None,
        remove: false,
        abandon: false,
    }
}

/// A member with no other placement.
struct Alone;

impl Peers for Alone {
    fn holder(&self, _label: &str) -> Holder<'_> {
        Holder::Nobody
    }

    fn delivery(&self, _placement: &PlacementKey) -> Option<(&WorkOrder, &Progress)> {
        None
    }

    fn are_known(&self) -> bool {
        true
    }

    fn may_have_unseen(&self, _container: &ObjectKey, _ours: &str) -> bool {
        false
    }
}

/// Plans a delivery: of a cluster that has nothing (`false`), or everything (`true`).
#[divan::bench(args = [false, true])]
fn plan_delivery_of_500_objects(bencher: Bencher<'_, '_>, is_settled: bool) {
    let order = order();
    let live: Holdings = order
        .manifests
        .iter()
        .filter(|_| is_settled)
        .filter_map(|d| {
            LiveObject::read(&labelled(&d.object, &order.placement, "", &d.digest).ok()?, &HealthRules::default())
        })
        .collect();
    let mut wanted = Wanted::default();
    order.manifests.iter().for_each(|d| wanted.insert(&d.key, &[Arc::new(order.placement.clone())].into()));
    let holds = Held { index: 0, commit: order.commit.clone(), digest: order.digest.clone() };
    let wide = Parent::default().widened(&order);
    let parent = Parent { holds: is_settled.then_some(holds), ..wide };
    let ours = &applyset_id(&order.placement);
    let (parent, unlisted) = (Some(&parent), &Unlisted::default());
    let view = MemberView { live: &live, wanted: &wanted, parent, unlisted, ours, peers: &Alone };
    let progress = Progress::default();
    let now = Timestamp::UNIX_EPOCH;
    let found = plan(&order, &view, &progress, now);
    assert_eq!((found.steps.is_empty(), found.complete), (is_settled, is_settled), "{found:?}");
    bencher.bench(|| plan(black_box(&order), &view, &progress, now));
}
