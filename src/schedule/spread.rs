//! Topology spread: how evenly a placement is distributed over the values of a label.

use fixedbitset::FixedBitSet;

use model::api::placement::{TopologySpreadConstraint, UnsatisfiableAction};
use model::explanation::Refusal;

use super::fleet::Fleet;

/// The domain of a cluster without the label.
pub(super) const NO_DOMAIN: u32 = u32::MAX;
/// The penalty of a violated constraint for a cluster that is picked anyway.
///
/// Source: KubeFleet, topology spread.
const VIOLATION: i32 = -1000;

/// One constraint, with the number of the placement's clusters in each domain.
pub(super) struct Spread<'a> {
    /// The constraint.
    pub constraint: &'a TopologySpreadConstraint,
    /// The domain of each cluster, or [`NO_DOMAIN`].
    domains: Vec<u32>,
    counts: Vec<i64>,
}

/// The counts for evaluating a pick.
#[derive(Clone, Copy)]
struct Levels {
    least: i64,
    second: i64,
    most: i64,
}

impl Levels {
    /// Returns the effect of picking a cluster of a domain that has `count`.
    fn effect(self, count: i64, max_skew: i64) -> Effect {
        let change = if self.most == self.least {
            1
        } else if count == self.least && self.least != self.second {
            // A pick raises the smallest count only if that is unique.
            -1
        } else {
            i32::from(count == self.most)
        };
        let skew = self.most - self.least + i64::from(change);
        Effect { skew, change, violates: skew > max_skew }
    }
}

/// The effect of picking a cluster of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Effect {
    /// The resulting skew.
    pub skew: i64,
    /// The change of the skew.
    change: i32,
    /// The resulting skew exceeds the constraint.
    pub violates: bool,
}

impl<'a> Spread<'a> {
    /// Counts the domains of a constraint over the whole fleet. `chosen` are the placement's clusters.
    pub(crate) fn of(fleet: &Fleet, constraint: &'a TopologySpreadConstraint, chosen: &FixedBitSet) -> Self {
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
    pub(crate) fn domain(&self, slot: usize) -> u32 {
        self.domains[slot]
    }

    /// Counts one more cluster.
    pub(crate) fn choose(&mut self, slot: usize) {
        // `NO_DOMAIN` is beyond every count: a cluster without the label is not counted.
        if let Some(count) = self.counts.get_mut(self.domains[slot] as usize) {
            *count += 1;
        }
    }

    /// Returns the effect of a pick in each domain.
    ///
    /// Source: KubeFleet, topology spread: the resulting skew is evaluated, even if it is smaller than before.
    pub(crate) fn effects(&self) -> Vec<Effect> {
        let Some(levels) = self.levels() else { return Vec::new() };
        let max = i64::from(self.constraint.max_skew.unwrap_or(1));
        self.counts.iter().map(|&count| levels.effect(count, max)).collect()
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
    pub(crate) fn rejects(&self) -> bool {
        self.constraint.when_unsatisfiable.unwrap_or_default() == UnsatisfiableAction::DoNotSchedule
    }

    /// Returns the contribution of an effect to a score; `None` if the cluster is rejected.
    pub(crate) fn score(&self, effect: Effect) -> Option<i32> {
        match (effect.violates, self.rejects()) {
            (true, true) => None,
            (true, false) => Some(VIOLATION),
            (false, _) => Some(-effect.change),
        }
    }

    /// Returns the refusal of a cluster for an effect.
    pub(crate) fn refusal(&self, effect: Effect) -> Refusal {
        Refusal {
            filter: "TopologySpreadConstraints".to_owned(),
            subject: format!("skew over {}", self.constraint.topology_key),
            observed: Some(effect.skew.to_string()),
            wanted: format!("<= {}", self.constraint.max_skew.unwrap_or(1)),
        }
    }
}

/// Sums the scores of a cluster over all constraints. Without the label a constraint adds nothing.
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
