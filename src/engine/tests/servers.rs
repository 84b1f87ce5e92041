//! M7: two clusters that lead to one API server. One is delivered to; of the other it is said, and nothing is written there.

use super::*;

/// A commit with these clusters, and the placement `p` on all of them or on some.
fn fleet(clusters: &[&str], on: Option<&str>) -> Arc<Tree> {
    let policy = on.map(|on| format!(", policy: {{placementType: PickFixed, clusterNames: [{on}]}}"));
    let mut files = vec![
        ("d.yaml".to_owned(), payload("1")),
        ("p.yaml".to_owned(), placement("p", "", &policy.unwrap_or_default())),
    ];
    files.extend(clusters.iter().map(|name| (format!("{name}.yaml"), cluster(name, ""))));
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    tree(&files)
}

impl Life {
    /// A cluster answers, and its server is named so.
    fn is(&mut self, cluster: &str, server: &str) {
        let online = MemberEvent::Online {
            cluster: cluster.into(),
            version: None,
            server: Some(server.to_owned()),
            holds: BTreeMap::new(),
            kept: BTreeMap::new(),
            inventory: BTreeMap::new(),
        };
        self.take_in(Event::Member(online));
    }

    /// Returns which clusters were commanded anything since the effects were last taken.
    fn commanded(&mut self) -> BTreeSet<String> {
        let effects = std::mem::take(&mut self.effects).into_iter();
        let commanded = effects.filter_map(|effect| match effect {
            Effect::Command(cluster, MemberCommand::Order { .. }) => Some(cluster.to_string()),
            _ => None,
        });
        commanded.collect()
    }

    fn record(&self, cluster: &str) -> &ClusterRecord {
        &self.core.fleet.records[&ClusterName::from(cluster)]
    }

    /// Returns the clusters that are another's server, each as `CLUSTER=OTHER`.
    fn refused(&self) -> Vec<String> {
        let records = self.core.fleet.records.values();
        records.filter_map(|record| Some(format!("{}={}", record.name, record.same_as.as_ref()?))).collect()
    }

    /// The next process begins with what is stored, and with the accepted commit.
    fn again(self, tree: &Arc<Tree>) -> Self {
        let mut life = Self::begin(self.store, self.now);
        life.handle(SourceEvent::Restored(Ok(Arc::clone(tree))));
        life.handle(SourceEvent::Unchanged);
        for snapshot in life.reads() {
            let payload = payload_of(tree, &snapshot).expect("it is there");
            life.handle(SourceEvent::Payload(snapshot, Ok(payload)));
        }
        life
    }
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn m7_of_two_new_names_the_first_has_the_server_whichever_answers_first() {
    for order in [["a", "b"], ["b", "a"]] {
        let mut life = Life::begin(MemoryStore::new(), Timestamp::UNIX_EPOCH);
        life.handle(SourceEvent::Accepted(fleet(&["a", "b"], None)));
        for cluster in order {
            life.is(cluster, "one");
        }
        life.settle();
        assert_eq!(life.commanded(), names(&["a"]), "{order:?}");
        assert_eq!(life.refused(), ["b=a"], "{order:?}");
        let record = life.record("b");
        let message = record.message.clone().unwrap_or_default();
        assert!(!record.online && message.starts_with("b is the same server as a: "), "{order:?}: {message}");
    }
}

#[test]
fn m7_who_was_there_before_keeps_the_server_and_a_renamed_cluster_takes_it_over() {
    let mut life = Life::begin(MemoryStore::new(), Timestamp::UNIX_EPOCH);
    life.handle(SourceEvent::Accepted(fleet(&["b"], None)));
    life.is("b", "one");
    life.settle();
    let order = life.order(&p()).expect("it is delivered to");
    assert_eq!(order.cluster, "b".into());
    let both = fleet(&["a", "b"], None);
    life.handle(SourceEvent::Accepted(Arc::clone(&both)));
    life.is("a", "one");
    life.settle();
    assert_eq!((life.refused(), life.commanded()), (vec!["a=b".to_owned()], names(&[])));
    // Neither a start nor an outage changes that.
    let mut life = life.again(&both);
    life.is("a", "one");
    life.is("b", "one");
    life.settle();
    assert_eq!((life.refused(), life.commanded()), (vec!["a=b".to_owned()], names(&["b"])));
    life.take_in(Event::Member(MemberEvent::Offline { cluster: "b".into(), reason: "gone".into() }));
    life.take_in(Event::Member(MemberEvent::Offline { cluster: "a".into(), reason: "gone".into() }));
    life.is("a", "one");
    life.settle();
    assert_eq!((life.refused(), life.commanded()), (vec!["a=b".to_owned()], names(&[])));
    assert!(life.record("a").message.as_deref().is_some_and(|it| it.contains("same server")));
    // Nothing is deleted by a policy that leaves it.
    life.handle(SourceEvent::Accepted(fleet(&["a", "b"], Some("b"))));
    life.settle();
    assert!(!life.commanded().contains("a"));
    // The old name leaves: the new one is asked again.
    life.handle(SourceEvent::Accepted(fleet(&["a"], None)));
    let is_asked =
        |effect: &Effect| matches!(effect, Effect::Command(of, MemberCommand::Announce) if of.as_str() == "a");
    assert!(life.effects.iter().any(is_asked), "{:?}", life.effects);
    life.is("a", "one");
    life.settle();
    assert_eq!((life.refused(), life.commanded()), (Vec::new(), names(&["a"])));
}

#[test]
fn m7_a_cluster_that_leads_elsewhere_gives_its_server_up() {
    let mut life = Life::begin(MemoryStore::new(), Timestamp::UNIX_EPOCH);
    life.handle(SourceEvent::Accepted(fleet(&["a", "b"], None)));
    life.is("a", "one");
    life.is("b", "two");
    life.settle();
    assert_eq!(life.commanded(), names(&["a", "b"]));
    life.is("b", "one");
    life.settle();
    assert_eq!(life.refused(), ["b=a"]);
    let forgets =
        |effect: &Effect| matches!(effect, Effect::Command(of, MemberCommand::Forget(_)) if of.as_str() == "b");
    assert!(life.effects.iter().any(forgets), "it is left alone: {:?}", life.effects);
    life.effects.clear();
    life.is("a", "three");
    life.is("b", "one");
    life.settle();
    assert_eq!((life.refused(), life.commanded()), (Vec::new(), names(&["b"])));
}
