use serde_json::json;

use super::*;
use crate::health::HealthRules;

fn live(name: &str, applyset: &str) -> LiveObject {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "n"}});
    let live = LiveObject::read(&object, &HealthRules::default()).expect("an object");
    live.with(|content| content.applyset = applyset.into())
}

#[test]
fn objects_stand_under_the_label_they_carry_last() {
    let names = |holdings: &Holdings, applyset: &str| {
        holdings.labelled(applyset).map(|(key, _)| key.name.clone()).collect::<Vec<_>>()
    };
    let mut holdings: Holdings = [live("b", "x"), live("a", "x"), live("c", "y")].into_iter().collect();
    assert_eq!((names(&holdings, "x"), names(&holdings, "y")), (vec!["a".into(), "b".into()], vec!["c".into()]));
    let taken = live("a", "y");
    holdings.insert(Arc::new(taken.id.key()), taken);
    assert_eq!((names(&holdings, "x"), names(&holdings, "y")), (vec!["b".into()], vec!["a".into(), "c".into()]));
    assert!(holdings.remove(&live("b", "").id.key()).is_some_and(|known| &*known.applyset == "x"));
    assert_eq!((names(&holdings, "x"), holdings.labelled.len()), (Vec::new(), 1));
    holdings.retain(|key| key.name == "c");
    assert_eq!(names(&holdings, "y"), ["c"]);
    assert_eq!(holdings.objects.len(), 1);
}

#[test]
fn who_wants_an_object_is_told_in_order() {
    let key = Arc::new(live("a", "").id.key());
    let [web, db] = ["web", "db"].map(|name| Arc::new(PlacementKey::cluster_scoped(name)));
    let mut wanted = Wanted::default();
    for placement in [&web, &db, &web] {
        wanted.insert(&key, &[Arc::clone(placement)].into());
    }
    assert_eq!(wanted.by(&key), [Arc::clone(&db), Arc::clone(&web)]);
    wanted.remove(&key, &db);
    assert_eq!(wanted.by(&key), [Arc::clone(&web)]);
    wanted.remove(&key, &web);
    assert!(wanted.by(&key).is_empty() && wanted.0.is_empty(), "nothing is kept of it");
}
