use std::path::Path;

use super::*;

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
