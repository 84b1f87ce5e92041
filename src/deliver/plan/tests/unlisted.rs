use super::*;
use crate::health::HealthRules;
use crate::lists::Lists;

/// Returns a kind whose list failed.
fn unlisted(kind: &str) -> Unlisted {
    let mut lists = Lists::default();
    lists.expect(kind);
    lists.fail(kind, "500".to_owned());
    lists.unlisted(std::iter::once(kind.to_owned()))
}

#[test]
fn d02_nothing_is_pruned_or_recorded_while_a_kind_is_not_listed() {
    let mut member = Member::default();
    member.settle(&order("p", web()));
    member.log.clear();
    member.unlisted = unlisted("Secret");
    let less = vec![desired("Namespace", "n", "2"), desired("ConfigMap", "settings", "")];
    let next = WorkOrder { snapshot: 1, digest: Digest::from("h1"), ..order("p", less) };
    let plan = member.settle(&next);
    assert_eq!(member.log, ["apply Namespace n", "apply ConfigMap n/settings"], "what is seen is applied");
    assert!(!plan.complete && plan.failure.is_none(), "it continues when the kind is listed");
    let leave = WorkOrder { remove: true, ..order("p", vec![]) };
    member.log.clear();
    assert!(!member.settle(&leave).complete);
    assert_eq!(member.log, [""; 0], "neither an object nor the inventory is removed");
    member.unlisted = Unlisted::default();
    assert!(member.settle(&leave).complete);
    assert_eq!(member.log.last().map(String::as_str), Some("delete parent"));
}

#[test]
fn d02_an_object_of_a_kind_that_is_not_listed_is_not_taken_for_missing() {
    let mut member = Member::default();
    let order = order("p", web());
    member.settle(&order);
    member.log.clear();
    member.live.remove(&order.manifests[1].key);
    member.unlisted = unlisted("ConfigMap");
    assert!(!member.settle(&order).complete);
    assert_eq!(member.log, [""; 0]);
    assert_eq!(member.outcome(&order, 1), State::Wait);
    assert_eq!(member.outcome(&order, 0), State::Done, "other kinds are as they were");
}

#[test]
fn d02_what_nobody_decided_about_is_left_alone() {
    for remove in [false, true] {
        let mut member = Member::default();
        member.settle(&order("p", web()));
        member.log.clear();
        let settings = desired("ConfigMap", "settings", "").id.key();
        member.undecided.insert(settings.clone());
        let manifests = if remove { vec![] } else { vec![desired("Namespace", "n", "")] };
        let next = WorkOrder { snapshot: 1, digest: Digest::from("h1"), remove, ..order("p", manifests) };
        assert!(!member.settle(&next).complete, "it is reported and decided about");
        assert!(member.live.get(&settings).is_some() && member.parent.is_some(), "{:?}", member.log);
        member.undecided.clear();
        assert!(member.settle(&next).complete);
        assert!(member.live.get(&settings).is_none());
    }
}

#[test]
fn a_custom_resource_waits_for_its_definition() {
    let mut definition = desired("apiextensions.k8s.io/v1/CustomResourceDefinition", "widgets.example.org", "");
    definition.object = Arc::new(json!({"spec": {"group": "example.org", "names": {"kind": "Widget"}}}));
    let order = order("p", vec![desired("example.org/v1/Widget", "w", ""), definition]);
    let mut member = Member::default();
    let covered = Parent::default().widened(&order);
    member.parent = Some(covered);
    let first = member.plan(&order, &wanted(&[&order]));
    assert_eq!(first.steps, [Step::Apply { position: 1, put_back: false, probe: true }]);
    // Applied and not established: nothing to do, not complete.
    let mut live = LiveObject::read(
        &json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.org"}}),
        &HealthRules::default(),
    )
    .expect("an object");
    live.change(|content| {
        content.applyset = applyset_id(&order.placement).into();
        content.manifest = Some(order.manifests[1].digest.clone());
    });
    member.live.insert(order.manifests[1].key.clone(), live);
    member.attempted(&order.manifests[1], ApplyOutcome::Applied, Vec::new());
    let waiting = member.plan(&order, &wanted(&[&order]));
    assert!(waiting.steps.is_empty() && !waiting.complete);
    let live = member.live.remove(&order.manifests[1].key).expect("it is there");
    let live = live.with(|content| content.availability = Availability::Available);
    member.live.insert(order.manifests[1].key.clone(), live);
    assert_eq!(
        member.plan(&order, &wanted(&[&order])).steps,
        [Step::Apply { position: 0, put_back: false, probe: true }]
    );
}
