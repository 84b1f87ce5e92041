//! Members that a changed configuration reaches otherwise, and files that change nothing.

use std::collections::BTreeMap;
use std::path::Path;

use super::*;
use crate::persist::SavedRecords;
use crate::{Effect, Event, SourceEvent};
use model::records::MemberKind;
use testkit::trees::{member as cluster, tree};

fn configuration(members: &str) -> Configuration {
    let text = format!(
        "apiVersion: gitfleet.io/v1alpha1\nkind: Configuration\nsource: {{url: /fleet, branch: main}}\n\
         members: {members}\nstore: {{path: /state}}\n"
    );
    Configuration::parse(&text, Path::new("/"), &BTreeMap::new()).expect("it has no errors")
}

/// Returns which members' tasks start and stop, in order.
fn tasks(effects: Vec<Effect>) -> Vec<String> {
    let task = |effect| match effect {
        Effect::StartMember(name, _) => Some(format!("start {name}")),
        Effect::StopMember(name) => Some(format!("stop {name}")),
        _ => None,
    };
    effects.into_iter().filter_map(task).collect()
}

fn read(members: &str, at_restart: &[&'static str]) -> Event {
    let members = configuration(members).members;
    Event::Configuration(ConfigurationEvent::Read { members, at_restart: at_restart.to_vec() })
}

/// A core with the clusters `a` and `b`, of which only `a` is reached.
fn core() -> Core {
    let now = Timestamp::UNIX_EPOCH;
    let (mut core, _) = Core::begin(configuration("[{name: a, directory: /out/a}]"), SavedRecords::default(), now);
    let files = [("a.yaml", cluster("a", "labels: {}")), ("b.yaml", cluster("b", "labels: {}"))];
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    let effects = core.take_in(Event::Source(SourceEvent::Accepted(tree(&files))), now);
    assert_eq!(tasks(effects), ["start a"]);
    core
}

#[test]
fn a_member_that_is_added_begins_and_one_that_is_reached_otherwise_begins_again() {
    let (mut core, now) = (core(), Timestamp::UNIX_EPOCH);
    let kind = |core: &Core| core.fleet.records.get(&ClusterName::from("b")).map(|record| record.kind);
    assert_eq!(kind(&core), Some(MemberKind::Unreachable));
    let both = "[{name: a, directory: /out/a}, {name: b, directory: /out/b}]";
    assert_eq!(tasks(core.take_in(read(both, &[]), now)), ["start b"]);
    assert_eq!((kind(&core), core.source.record.configuration.as_deref()), (Some(MemberKind::Directory), None));
    assert!(core.queue.clusters.contains(&ClusterName::from("b")), "policies may pick it now");
    assert_eq!(tasks(core.take_in(read(both, &[]), now)), Vec::<String>::new());
    let moved = "[{name: a, directory: /new/a}, {name: b, directory: /out/b}]";
    assert_eq!(tasks(core.take_in(read(moved, &[]), now)), ["stop a", "start a"]);
}

#[test]
fn what_cannot_be_used_changes_nothing_and_is_said() {
    let (mut core, now) = (core(), Timestamp::UNIX_EPOCH);
    let unusable = Event::Configuration(ConfigurationEvent::Unusable("no such file".to_owned()));
    for (event, tasks_then, complaint) in [
        (unusable, &[][..], Some("it cannot be used, and changes nothing: no such file")),
        (
            read("[{name: b, directory: /out/b}]", &[]),
            &[],
            Some("no entry of `members:` names a any more: restart the daemon if they are to leave the fleet"),
        ),
        (
            read("[{name: '*', directory: '/out/{name}'}]", &["http", "store"]),
            &["start b"],
            Some("http, store changed: restart the daemon to use it"),
        ),
        (read("[{name: '*', directory: '/out/{name}'}]", &[]), &[], None),
    ] {
        assert_eq!(tasks(core.take_in(event, now)), tasks_then, "{complaint:?}");
        assert_eq!(core.source.record.configuration.as_deref(), complaint);
        let left = core.fleet.records.values().filter(|record| record.left).count();
        assert_eq!(left, 0, "{complaint:?}");
    }
}
