//! What machines push about clusters, and what clusters claim: when it counts, and for how long.

use super::*;
use model::facts::{Facts, NodeFacts, Totals};
use model::pushed::{PropertyPush, Push, Pushing};

/// The cost of cluster `a`, until a second.
fn cost(value: &str, end: i64) -> (Push, String) {
    let properties = [("cost".to_owned(), value.to_owned())].into();
    let valid_until = Timestamp::from_second(end).ok();
    let what = Pushing::Properties(PropertyPush { valid_until, properties });
    (Push { cluster: "a".into(), what }, "costs".to_owned())
}

/// Returns the cost that policies read.
fn read(life: &Life) -> Option<String> {
    let (_, cluster) = life.core.fleet().clusters.iter().find(|(name, _)| name.as_str() == "a")?;
    cluster.properties.get("cost").cloned()
}

#[test]
fn what_is_pushed_counts_when_it_is_written_and_until_its_end() {
    let mut life = Life::with(&[("a.yaml", &cluster("a", ""))]);
    let (batch, answers) = life.core.push(vec![cost("1", 100)], life.now);
    assert_eq!(answers, [Ok(())]);
    life.core.refused(batch, life.now);
    life.wait(STORE_RETRY);
    assert_eq!(read(&life), None, "the store did not take it");
    let (batch, answers) = life.core.push(vec![cost("1", 100), cost("2", 100), cost("3", -1)], life.now);
    assert_eq!(answers.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, true, false]);
    life.keep(batch);
    life.settle();
    assert_eq!(read(&life).as_deref(), Some("2"), "the last of one token");
    assert_eq!(life.core.next_wake(), Timestamp::from_second(100).ok());
    let mut life = Life::begin(life.store, life.now);
    life.handle(SourceEvent::Accepted(tree(&[("a.yaml", &cluster("a", ""))])));
    life.online(BTreeSet::new());
    life.settle();
    assert_eq!(read(&life).as_deref(), Some("2"), "it survives a restart");
    life.wait(SECOND * 100);
    assert_eq!(read(&life), None);
}

#[test]
fn what_a_member_claimed_stays_while_it_cannot_be_read() {
    let mut life = Life::with(&[("a.yaml", &cluster("a", ""))]);
    let site = BTreeMap::from([("site".to_owned(), "x".to_owned())]);
    for (claims, kept) in [(Some(site.clone()), &site), (None, &site), (Some(BTreeMap::new()), &BTreeMap::new())] {
        let facts = Facts { claims, ..Facts::new(Ok(NodeFacts::default()), Ok(Totals::default())) };
        life.take_in(Event::Member(MemberEvent::Facts { cluster: "a".into(), facts: Box::new(facts) }));
        life.settle();
        assert_eq!(life.core.fleet().records["a"].claims, *kept);
    }
}
