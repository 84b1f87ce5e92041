//! Fuzz target: whatever an object claims to be, its file stays in its folder, and no two objects share one.

use std::path::{Component, Path};

use cluster::WatchedKind;
use cluster::directory::names::FileName;
use model::api::identity::identify;
use model::id::{ObjectId, ObjectKey};
use serde_json::json;

/// Bytes of a file name that file systems take.
const FILE_NAME_BYTES_MAX: usize = 255;

// Two identities, one line a part: API version, kind, namespace, name.
pub(super) fn run(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let mut lines = text.split('\n');
    let mut next = || {
        let [api_version, kind, namespace, name] = std::array::from_fn(|_| lines.next().unwrap_or_default());
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"namespace": namespace, "name": name}})
    };
    let objects = [next(), next()];
    let claimed = objects.each_ref().map(|object| ObjectId::of(object).expect("it has all parts"));
    for (object, claimed) in objects.iter().zip(&claimed) {
        stays_in_its_folder(&claimed.key());
        if let Ok(id) = identify(object) {
            assert_eq!(id, *claimed, "what is accepted is what was written");
            let parts = [&id.group, &id.version, &id.kind, &id.namespace, &id.name];
            for part in parts {
                assert!(!part.contains(['/', '%']) && !part.contains(char::is_control), "{id:?}");
                assert!(part.len() <= 253 && part != "." && part != "..", "{id:?}");
            }
            assert!(object["apiVersion"] == *id.api_version(), "{id:?}");
        }
    }
    let [one, other] = claimed.map(|id| ObjectKey { kind: id.kind.to_ascii_lowercase().into(), ..id.key() });
    assert_eq!(FileName::of(&one) == FileName::of(&other), one == other, "{one:?} {other:?}");
}

fn stays_in_its_folder(key: &ObjectKey) {
    let kind = WatchedKind { group: key.group.to_string(), kind: key.kind.to_string() };
    let file = FileName::of(key);
    assert!(file.is_of_kind(&kind) && !file.is_inventory() && !file.is_temporary(), "{key:?}");
    for name in [&file, &file.temporary(), &FileName::of_inventory(&key.name)] {
        let parts: Vec<_> = Path::new(name.as_str()).components().collect();
        assert!(matches!(parts.as_slice(), [Component::Normal(_)]), "{name:?}");
        assert!(name.as_str().len() <= FILE_NAME_BYTES_MAX, "{name:?}");
    }
}
