use std::path::Path;

use super::*;
use crate::engine::fixtures::{member, payload, placement, tree};
use crate::engine::member;
use crate::model::facts::Facts;
use crate::model::records::WorkStatus;

#[test]
fn a_first_look_that_is_over_is_not_waited_for_while_the_store_is_left_alone() {
    let text = "apiVersion: gitfleet.io/v1alpha1\nkind: Configuration\nsource: {url: /fleet, branch: main}\n\
        members: [{name: '*', kubeconfig: {path: /kubeconfig, context: '{name}'}}]\nstore: {path: /state}\n";
    let configuration = Configuration::parse(text, Path::new("/"), &BTreeMap::new()).expect("it has no errors");
    let start = Timestamp::UNIX_EPOCH;
    for late in [FIRST_LOOK_MAX, FIRST_LOOK_MAX + SignedDuration::from_secs(5)] {
        let (mut core, _) = Core::begin(configuration.clone(), Books::default(), start);
        core.unseen.insert("a".into());
        let now = start + late;
        let retry_at = now + STORE_RETRY;
        core.agenda.put_back([], [], retry_at);
        assert!(core.decide(now).is_none(), "the store is left alone");
        assert_eq!(core.next_wake(), Some(retry_at), "after {late}");
    }
}

#[test]
fn a_members_task_that_was_begun_anew_is_told_its_orders_again() {
    let text = "apiVersion: gitfleet.io/v1alpha1\nkind: Configuration\nsource: {url: /fleet, branch: main}\n\
        members: [{name: '*', kubeconfig: {path: /kubeconfig, context: '{name}'}}]\nstore: {path: /state}\n";
    let configuration = Configuration::parse(text, Path::new("/"), &BTreeMap::new()).expect("it has no errors");
    let now = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(1);
    let (mut core, _) = Core::begin(configuration, Books::default(), now);
    let files = [("a.yaml", member("a", "")), ("p.yaml", placement("p", "", "")), ("x.yaml", payload("1"))];
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    core.take_in(Event::Source(News::Accepted(tree(&files))), now);
    let cluster = || ClusterName::from("a");
    let (holds, inventory) = (BTreeMap::new(), BTreeMap::new());
    core.take_in(Event::Member(member::Event::Online { cluster: cluster(), version: None, holds, inventory }), now);
    let facts = Facts { nodes: Err("it is not told".to_owned()), requested: Err("it is not told".to_owned()) };
    core.take_in(Event::Member(member::Event::Facts { cluster: cluster(), facts: Box::new(facts) }), now);
    let told = |core: &mut Core| {
        let mut orders = Vec::new();
        while let Some(mut batch) = core.decide(now) {
            batch.ops.clear();
            for effect in core.written(batch, now) {
                if let Effect::Tell(_, member::Command::Order { order, reported, .. }) = effect {
                    orders.push((order.manifests.len(), reported.map(|work| work.generation)));
                }
            }
        }
        orders
    };
    assert_eq!(told(&mut core), [(2, None)]);
    let status = WorkStatus { generation: 1, complete: true, ..WorkStatus::default() };
    let placement = PlacementKey::cluster_scoped("p");
    core.take_in(Event::Member(member::Event::Work { cluster: cluster(), placement, status }), now);
    assert!(told(&mut core).is_empty(), "it knows its order");
    core.take_in(Event::Member(member::Event::Restarted { cluster: cluster() }), now);
    assert_eq!(told(&mut core), [(2, Some(1))], "with what was reported before");
}
