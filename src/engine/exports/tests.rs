use super::*;
use testkit::trees::{BOUND, managed, ocm_placement, tree};

#[test]
fn what_ocm_placements_decided_is_exported_and_withdrawn() {
    let fleet = [BOUND, &managed("a", "{}", "[]")].concat();
    let mut ocm = Ocm::default();
    let mut exports = Exports::default();
    let listed = |exports: &Exports| {
        let names = |record: &DecisionsRecord| {
            record.groups.iter().flat_map(|g| &g.clusters).map(|c| c.cluster_name.to_string()).collect::<Vec<_>>()
        };
        exports.iter().map(|(key, r)| (key.name.clone(), names(r), r.removed)).collect::<Vec<_>>()
    };
    let both = [ocm_placement("p", "{}"), ocm_placement("q", "{}")].concat();
    let due = ocm.follow(&tree(&[("f.yaml", &fleet), ("p.yaml", &both)]));
    ocm.decide_each(due.clone(), Timestamp::UNIX_EPOCH);
    exports.extend(changed_by_ocm(&exports, &ocm, &due));
    let on_a = || vec!["a".to_owned()];
    assert_eq!(listed(&exports), [("p".to_owned(), on_a(), false), ("q".to_owned(), on_a(), false)]);
    // Forgotten in a life that exported nothing any more.
    let due = ocm.follow(&tree(&[("f.yaml", &fleet), ("p.yaml", &ocm_placement("p", "{}"))]));
    ocm.decide_each(due, Timestamp::UNIX_EPOCH);
    exports.extend(changed_by_ocm(&exports, &ocm, &BTreeSet::new()));
    assert_eq!(listed(&exports), [("p".to_owned(), on_a(), false), ("q".to_owned(), Vec::new(), true)]);
}
