//! Topology spread: how evenly a placement is over the values of a label.

use fixedbitset::FixedBitSet;

use crate::api::placement::{TopologySpreadConstraint, UnsatisfiableAction};
use crate::model::explanation::Refusal;

use super::fleet::Fleet;

/// The domain of a cluster without the label.
pub(super) const NO_DOMAIN: u32 = u32::MAX;
/// What a violated constraint costs a cluster that is taken anyway.
///
/// Source: KubeFleet, topology spread.
const VIOLATION: i32 = -1000;

/// One constraint, with how many clusters of each domain the placement has.
pub(super) struct Spread<'a> {
    /// The constraint.
    pub constraint: &'a TopologySpreadConstraint,
    /// The domain of each cluster, or [`NO_DOMAIN`].
    domains: Vec<u32>,
    counts: Vec<i64>,
}

/// The counts that a choice is evaluated by.
#[derive(Clone, Copy)]
struct Levels {
    least: i64,
    second: i64,
    most: i64,
}

/// What choosing a cluster of a domain would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Effect {
    /// The skew that would be.
    pub skew: i64,
    /// By how much the skew changes.
    change: i32,
    /// The skew would be more than the constraint allows.
    pub violates: bool,
}

impl<'a> Spread<'a> {
    /// Counts the domains of a constraint over the whole fleet. `chosen` are the clusters the placement has.
    pub fn of(fleet: &Fleet, constraint: &'a TopologySpreadConstraint, chosen: &FixedBitSet) -> Self {
        let mut spread = Self { constraint, domains: vec![NO_DOMAIN; fleet.len()], counts: Vec::new() };
        let mut last: Option<String> = None;
        fleet.labels().for_each_value(&constraint.topology_key, |value, slot| {
            // Values come one after the other, so another value is another domain.
            if last.as_deref() != Some(value) {
                last = Some(value.to_owned());
                spread.counts.push(0);
            }
            let domain = spread.counts.len() - 1;
            spread.domains[slot] = u32::try_from(domain).unwrap_or(NO_DOMAIN);
            spread.counts[domain] += i64::from(chosen.contains(slot));
        });
        spread
    }

    /// Returns a cluster's domain, or [`NO_DOMAIN`].
    pub fn domain(&self, slot: usize) -> u32 {
        self.domains[slot]
    }

    /// Counts one more cluster.
    pub fn choose(&mut self, slot: usize) {
        // `NO_DOMAIN` lies beyond every count: a cluster without the label is counted nowhere.
        if let Some(count) = self.counts.get_mut(self.domains[slot] as usize) {
            *count += 1;
        }
    }

    /// Returns what a choice in each domain would do, by domain.
    ///
    /// Source: KubeFleet, topology spread: the skew that would be is evaluated, also where it is smaller than before.
    pub fn effects(&self) -> Vec<Effect> {
        let Some(levels) = self.levels() else { return Vec::new() };
        let max = i64::from(self.constraint.max_skew.unwrap_or(1));
        let skew = levels.most - levels.least;
        let effect = |&count: &i64| {
            let change = if levels.most == levels.least {
                1
            } else if count == levels.least && levels.least != levels.second {
                // Only where the smallest count is unique does a choice raise it.
                -1
            } else {
                i32::from(count == levels.most)
            };
            let skew = skew + i64::from(change);
            Effect { skew, change, violates: skew > max }
        };
        self.counts.iter().map(effect).collect()
    }

    fn levels(&self) -> Option<Levels> {
        let first = *self.counts.first()?;
        let mut levels = Levels { least: first, second: i64::MAX, most: first };
        for &count in &self.counts[1..] {
            levels.most = levels.most.max(count);
            if count < levels.least {
                levels.second = levels.least;
                levels.least = count;
            } else {
                levels.second = levels.second.min(count);
            }
        }
        if self.counts.len() == 1 {
            levels.second = first;
        }
        Some(levels)
    }

    /// Tells whether the constraint rejects clusters that violate it.
    pub fn rejects(&self) -> bool {
        self.constraint.when_unsatisfiable.unwrap_or_default() == UnsatisfiableAction::DoNotSchedule
    }

    /// Returns what an effect adds to a score; `None` where the cluster is rejected.
    pub fn score(&self, effect: Effect) -> Option<i32> {
        match (effect.violates, self.rejects()) {
            (true, true) => None,
            (true, false) => Some(VIOLATION),
            (false, _) => Some(-effect.change),
        }
    }

    /// Returns the refusal of a cluster whose choice would have an effect.
    pub fn refusal(&self, effect: Effect) -> Refusal {
        Refusal {
            filter: "TopologySpreadConstraints".to_owned(),
            subject: format!("skew over {}", self.constraint.topology_key),
            observed: Some(effect.skew.to_string()),
            wanted: format!("<= {}", self.constraint.max_skew.unwrap_or(1)),
        }
    }
}

/// Sums the scores of a cluster over all constraints. Without its label a constraint adds nothing.
///
/// # Errors
/// The first constraint that rejects the cluster, with the effect.
pub(super) fn evaluate(
    spreads: &[Spread<'_>],
    effects: &[Vec<Effect>],
    domain: impl Fn(usize) -> u32,
) -> Result<i32, (usize, Effect)> {
    let mut sum = 0_i32;
    for (number, (spread, effects)) in spreads.iter().zip(effects).enumerate() {
        // Kubernetes would reject a cluster without the label; KubeFleet does not.
        let Some(&effect) = effects.get(domain(number) as usize) else { continue };
        sum = sum.saturating_add(spread.score(effect).ok_or((number, effect))?);
    }
    Ok(sum)
}
