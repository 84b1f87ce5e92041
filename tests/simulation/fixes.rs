//! 6: a cluster that is unavailable with an older snapshot gets the newest, whatever the others do: docs/design/022 and
//! `src/rollout/rolling.rs`. That no more clusters are down than may be is checked beside, as ever.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use model::api::condition::ConditionStatus;
use model::records::BindingState;

use super::Run;
use super::check::{Checker, Verdict};
use super::records::{Binding, PlacementRecord};
use super::timeline::PLACEMENTS_MAX;
use super::twists::FIX;

/// A fix that was read arrives at a cluster that answers within so long: one that has just come back is heard first, and a payload
/// that could not be read is read again.
const ARRIVES: SignedDuration = SignedDuration::from_secs(60);

/// Clusters that wait for a fix, by binding, and since when.
pub type Waiting = BTreeMap<String, Timestamp>;

impl Checker {
    /// Notes which clusters wait for a fix. Asked when a whole batch is kept.
    pub(super) fn note_fixes(&mut self) {
        let due: Vec<String> =
            self.bindings.iter().filter(|(_, b)| self.waits_for_fix(b)).map(|(key, _)| key.clone()).collect();
        self.fixes.retain(|key, _| due.contains(key));
        for key in due {
            self.fixes.entry(key).or_insert(self.now);
        }
    }

    /// Tells whether a cluster is seen to be unavailable with an older snapshot, and nothing keeps the newest back: no person, no
    /// failure of the newest itself, and no payload that cannot be read.
    fn waits_for_fix(&self, binding: &Binding) -> bool {
        let newest = self.newest_snapshot(&binding.placement);
        let is_broken = binding.says(ConditionStatus::False, "Available", None)
            || binding.says(ConditionStatus::False, "Applied", Some("NotAllWorkHaveBeenApplied"));
        is_broken
            && binding.state == BindingState::Bound
            && !binding.deleting
            && binding.snapshot < newest
            && !self.silent.contains(&binding.cluster)
            && self.placements.get(&binding.placement).is_some_and(PlacementRecord::rolls_by_itself)
    }

    /// 6: fixes arrive.
    pub(super) fn fixes_arrive(&self) -> Verdict {
        for (key, since) in &self.fixes {
            // The first decisions of a life wait for the source and for every payload.
            let waits = self.start.is_unseen() || self.is_blind;
            let Some(binding) = self.bindings.get(key).filter(|_| !waits) else { continue };
            if self.now.duration_since(*since.max(&self.calm_since)) > ARRIVES {
                return Err(format!(
                    "6: {} is unavailable with snapshot {:?} of {} since {since}, and does not get the newest",
                    binding.cluster, binding.snapshot, binding.placement
                ));
            }
        }
        Ok(())
    }
}

impl Run {
    /// Something breaks on some clusters; a fix follows within seconds, or minutes, and now and then a second one.
    pub(super) fn break_something(&mut self) {
        let Some(dice) = &mut self.twists.fixes else { return };
        let most = if dice.chance(500) { 10 } else { 120 };
        let number = dice.below(PLACEMENTS_MAX);
        for _ in 0..dice.between(1, 2) {
            self.simulation.at(Duration::from_secs(dice.between(1, most)), FIX);
        }
        self.timeline.break_something(number);
        self.push(false);
    }

    pub(super) fn fix(&mut self) {
        self.timeline.repair();
        self.push(false);
    }
}

/// Forged violations are caught.
#[test]
fn w02_a_fix_that_waits_is_caught() {
    use serde_json::json;
    use simulated::Fact;

    use super::forged::{at_rest, broken_binding, kept, of_one_object, of_one_object_at};
    let record = |field: &str| {
        let mut record = json!({
            "key": "p", "spec": {"resourceSelectors": [], "strategy": {"type": "RollingUpdate"}}, "annotations": {},
            "generation": 1, "createdAt": "2026-01-01T00:00:00Z",
        });
        match field {
            "paused" => record["paused"] = json!({"by": "ann", "at": "2026-01-01T00:00:00Z"}),
            "halted" => record["halted"] = json!("too many failed"),
            "External" => record["spec"]["strategy"]["type"] = json!("External"),
            _ => {}
        }
        kept("placement/p", &record)
    };
    let rows = [
        ("the fix does not come", record(""), 90, Some("6: a is unavailable")),
        ("the fix has not come yet", record(""), 5, None),
        ("a person paused it", record("paused"), 90, None),
        ("the newest failed itself", record("halted"), 90, None),
        ("runs bring it", record("External"), 90, None),
    ];
    for (name, record, seconds, wanted) in rows {
        let mut checker = at_rest();
        checker.calm_since = Timestamp::UNIX_EPOCH;
        for fact in [Fact::Mark(0), record, of_one_object_at(1), broken_binding("a", 2), Fact::Mark(0)] {
            checker.see(&fact).unwrap();
        }
        checker.now += SignedDuration::from_secs(seconds);
        match (checker.fixes_arrive(), wanted) {
            (Ok(()), None) => {}
            (Err(why), Some(wanted)) => assert!(why.starts_with(wanted), "{name}: {why}"),
            (verdict, wanted) => panic!("{name}: {verdict:?}, wanted {wanted:?}"),
        }
    }
    let mut checker = at_rest();
    [of_one_object(), broken_binding("a", 2), Fact::Mark(0)].iter().try_for_each(|fact| checker.see(fact)).unwrap();
    checker.now += SignedDuration::from_mins(5);
    assert_eq!(checker.fixes_arrive(), Ok(()), "it has the newest");
}
