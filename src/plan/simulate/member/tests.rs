use super::*;
use deliver::health::HealthRules;

#[test]
fn the_label_says_whose_a_deleted_object_is_whether_or_not_its_inventory_is_there() {
    let (p, q) = (PlacementKey::cluster_scoped("p"), PlacementKey::cluster_scoped("q"));
    let rows = [
        ("its inventory is there", &p, vec![&p], Some(&p)),
        ("its inventory is gone", &p, vec![], Some(&p)),
        ("it is another's", &q, vec![&p, &q], Some(&q)),
        ("it is another's whose inventory is gone", &q, vec![&p], None),
    ];
    for (name, label, inventories, expected) in rows {
        let object =
            serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "uid": "u"}});
        let read = LiveObject::read(&object, &HealthRules::default()).expect("it is an object");
        let live = read.with(|content| content.applyset = applyset_id(label).into());
        let mut member = SimulatedMember::default();
        member.inventories.extend(inventories.into_iter().map(|of| (of.clone(), Parent::default())));
        member.objects.insert(live.id.key(), live.clone());
        let order = WorkOrder { remove: true, ..testkit::records::work_order() };
        let (_, _, facts): (_, _, Vec<Fact>) = member.delete(&Arc::new(order), &live, false);
        let [Fact::Deleted { holder, .. }] = &facts[..] else { panic!("{name}: {facts:?}") };
        assert_eq!(holder.as_ref(), expected, "{name}");
    }
}
