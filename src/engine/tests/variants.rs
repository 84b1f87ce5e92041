//! Values by cluster: a changed label moves its cluster, and a new life delivers what the last one did.

use super::*;
use testkit::trees::varied;

/// A commit whose content is the region of each cluster.
fn regions(commit: &str, clusters: &[(&str, &str)]) -> Arc<Tree> {
    varied(commit, clusters, &[&placement("p", "gitfleet.io/render-for: cluster", "")], payload)
}

/// What an order brings to its cluster.
fn brings(order: &WorkOrder) -> String {
    let value = |desired: &model::work::Desired| desired.object.pointer("/data/v")?.as_str().map(str::to_owned);
    order.manifests.iter().find_map(value).unwrap_or_default()
}

impl Life {
    /// Returns the orders since they were last asked for, and reports them as done.
    fn delivered(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        loop {
            self.settle();
            let orders: Vec<Arc<WorkOrder>> = std::mem::take(&mut self.effects)
                .into_iter()
                .filter_map(|effect| match effect {
                    Effect::Command(_, MemberCommand::Order { order, .. }) => Some(order),
                    _ => None,
                })
                .collect();
            if orders.is_empty() {
                all.sort();
                return all;
            }
            for order in orders {
                all.push(format!("{} {} {}", order.cluster, order.snapshot, brings(&order)));
                let inventory = order.manifests.iter().map(|desired| ObjectKey::clone(&desired.key)).collect();
                let manifests = order.manifests.iter().map(|desired| available(desired.id.clone())).collect();
                let status = WorkStatus {
                    generation: order.generation,
                    complete: true,
                    inventory,
                    manifests,
                    ..WorkStatus::default()
                };
                let (cluster, placement) = (order.cluster.clone(), order.placement.clone());
                self.take_in(Event::Member(MemberEvent::Work { cluster, placement, status: Arc::new(status) }));
            }
            self.now += SignedDuration::from_mins(1);
        }
    }

    fn is_rendered_with(&self, cluster: &str) -> String {
        let bindings = self.core.placements()[&p()].shared_bindings();
        let binding = bindings.iter().find(|binding| binding.cluster.as_str() == cluster).expect("it is bound");
        binding.overrides.variant.as_ref().map(model::variants::described).unwrap_or_default()
    }
}

fn available(id: model::id::ObjectId) -> model::records::ManifestStatus {
    use model::records::{ApplyOutcome, Availability, ManifestStatus};
    ManifestStatus {
        id,
        applied: ApplyOutcome::Applied,
        message: String::new(),
        availability: Some(Availability::Available),
        generation: None,
        manifest: None,
        owned: None,
        differences: Vec::new(),
        differs_since: None,
        observed_at: None,
    }
}

const CLUSTERS: [(&str, &str); 3] = [("a", "eu"), ("b", "us"), ("c", "eu")];

fn begun() -> Life {
    let mut life = Life::begin(MemoryStore::new(), Timestamp::UNIX_EPOCH);
    life.handle(SourceEvent::Accepted(regions("1", &CLUSTERS)));
    for (name, _) in CLUSTERS {
        life.answers(name, BTreeSet::new());
    }
    life
}

#[test]
fn a_label_moves_its_cluster_alone() {
    let mut life = begun();
    assert_eq!(life.delivered(), ["a 0 eu", "b 0 us", "c 0 eu"]);
    assert_eq!(life.is_rendered_with("a"), "label region=eu");
    // Both variants are known: nothing of the payload changes, and no placement reads the label to pick clusters.
    life.handle(SourceEvent::Accepted(regions("2", &[("a", "us"), ("b", "us"), ("c", "eu")])));
    assert_eq!(life.delivered(), ["a 0 us"]);
    // A region that nobody had is a variant of the same snapshot, kept with the commit that brought it.
    life.handle(SourceEvent::Accepted(regions("3", &[("a", "za"), ("b", "us"), ("c", "eu")])));
    assert_eq!(life.delivered(), ["a 0 za"]);
    let snapshot = life.core.placements()[&p()].newest().cloned().expect("it is there");
    let commits: Vec<&str> = snapshot.commits().map(CommitId::as_str).collect();
    assert_eq!(commits, ["1", "1", "1", "3"]);
    // The variants that no cluster has go.
    life.handle(SourceEvent::Accepted(regions("4", &[("a", "eu"), ("b", "eu"), ("c", "eu")])));
    assert_eq!(life.delivered(), ["a 0 eu", "b 0 eu"]);
    life.handle(SourceEvent::Accepted(regions("5", &[("a", "eu"), ("b", "eu"), ("c", "eu")])));
    assert!(life.delivered().is_empty());
    let snapshot = life.core.placements()[&p()].newest().cloned().expect("it is there");
    assert_eq!(snapshot.commits().collect::<BTreeSet<_>>(), BTreeSet::from([&"1".into()]));
}

#[test]
fn a_new_life_reads_what_clusters_still_have() {
    let mut life = begun();
    assert_eq!(life.delivered().len(), 3);
    // `c` does not answer and keeps europe's, though no cluster of the commit is there any more.
    life.take_in(Event::Member(MemberEvent::Offline { cluster: "c".into(), reason: "gone".into() }));
    let moved = regions("2", &[("a", "us"), ("b", "us"), ("c", "us")]);
    life.handle(SourceEvent::Accepted(Arc::clone(&moved)));
    life.delivered();
    let mut life = Life::begin(life.store, life.now);
    life.handle(SourceEvent::Restored(Ok(Arc::clone(&moved))));
    life.settle();
    let trees = [regions("1", &CLUSTERS), moved];
    for snapshot in life.reads() {
        let payload = decide::payload::payload_among(&[&trees[0], &trees[1]], &snapshot).expect("it is there");
        assert!(payload.has_inputs(snapshot.variants.as_ref()));
        life.handle(SourceEvent::Payload(snapshot, Ok(payload)));
    }
    life.handle(SourceEvent::Unchanged);
    life.settle();
    let state = &life.core.placements()[&p()];
    let payload = state.payloads.get(&0).expect("it is known");
    for binding in state.bindings() {
        assert!(payload.variant(binding.overrides.variant.as_ref()).is_ok(), "{}", binding.cluster);
    }
}
