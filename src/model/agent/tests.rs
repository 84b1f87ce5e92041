use proptest::prelude::*;

use super::*;

fn pool(name: &str) -> AgentChoice {
    AgentChoice::Pool { pool: name.to_owned() }
}

fn agents(names: impl IntoIterator<Item = String>) -> BTreeMap<String, BTreeSet<String>> {
    names.into_iter().map(|name| (name, BTreeSet::from(["eu".to_owned()]))).collect()
}

fn clusters(count: usize) -> Vec<ClusterName> {
    (0..count).map(|i| ClusterName::from(format!("eu-{i:03}").as_str())).collect()
}

fn assigned(clusters: &[ClusterName], agents: &BTreeMap<String, BTreeSet<String>>) -> BTreeMap<ClusterName, String> {
    let choice = pool("eu");
    assign(clusters.iter().map(|cluster| (cluster, &choice)), agents)
}

#[test]
fn a_named_member_goes_to_its_agent_alone_and_a_pools_to_agents_of_the_pool() {
    let (one, two) = (ClusterName::from("edge-1"), ClusterName::from("eu-1"));
    let (named, pooled) = (AgentChoice::Named("edge-3".to_owned()), pool("eu"));
    let members = [(&one, &named), (&two, &pooled)];
    let other = BTreeMap::from([("other".to_owned(), BTreeSet::from(["us".to_owned()]))]);
    assert_eq!(assign(members, &other), BTreeMap::new());
    let both =
        BTreeMap::from([("edge-3".to_owned(), BTreeSet::new()), ("a".to_owned(), BTreeSet::from(["eu".to_owned()]))]);
    let wanted = BTreeMap::from([(one.clone(), "edge-3".to_owned()), (two.clone(), "a".to_owned())]);
    assert_eq!(assign(members, &both), wanted);
}

#[test]
fn a_choice_is_a_name_or_a_pool() {
    for (text, choice) in [(r#""edge-3""#, AgentChoice::Named("edge-3".to_owned())), (r#"{"pool":"eu"}"#, pool("eu"))] {
        assert_eq!(serde_json::from_str::<AgentChoice>(text).expect("a choice"), choice);
        assert_eq!(serde_json::to_string(&choice).expect("JSON"), text);
    }
}

proptest! {
    #[test]
    fn an_agent_that_leaves_moves_only_its_own_members(count in 2..8_usize, gone in 0..8_usize) {
        let names: Vec<String> = (0..count).map(|i| format!("agent-{i}")).collect();
        let gone = names[gone % count].clone();
        let clusters = clusters(200);
        let before = assigned(&clusters, &agents(names.clone()));
        let after = assigned(&clusters, &agents(names.into_iter().filter(|name| *name != gone)));
        for (cluster, agent) in &before {
            if *agent != gone {
                prop_assert_eq!(&after[cluster], agent);
            }
        }
        prop_assert_eq!(after.len(), clusters.len());
    }

    #[test]
    fn members_spread(names in proptest::collection::btree_set("[a-z]{1,12}", 2..6)) {
        let clusters = clusters(1_000);
        let assigned = assigned(&clusters, &agents(names.clone()));
        let mean = clusters.len() / names.len();
        for name in &names {
            let own = assigned.values().filter(|agent| *agent == name).count();
            // Seven standard deviations of a fair choice lie within.
            prop_assert!(own > mean / 2 && own < mean * 2, "{name} has {own} of {}", clusters.len());
        }
    }

    #[test]
    fn the_order_of_members_changes_nothing(seed in any::<u64>()) {
        let agents = agents((0..4).map(|i| format!("agent-{i}")));
        let mut clusters = clusters(50);
        let first = assigned(&clusters, &agents);
        let turn = usize::try_from(seed % 50).expect("small");
        clusters.rotate_left(turn);
        prop_assert_eq!(assigned(&clusters, &agents), first);
    }
}
