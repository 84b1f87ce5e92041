//! What a commit does that is to meet something else.

use std::collections::BTreeSet;

use plan::simulate::Dice;

use super::{BOTH, CLUSTERS_MAX, Cluster, LISTS, Object, Policy, Staged, Timeline, Written};
use crate::pairs::{
    APPROVERS, EVICT, EXPIRED, FAILURE, FOLLOW_UP, NAMESPACED, OVERRIDES, ROLLBACK, ROLLING, STAGED, SUPERSEDED,
    WRITTEN_RUN,
};

/// Clusters that a fleet has between meetings: one may join, and one may leave.
const CLUSTERS: std::ops::RangeInclusive<usize> = 3..=5;
/// Objects that a placement has at least between meetings, so that many may go.
const OBJECTS_MIN: u64 = 3;
/// Placements that are there at least.
const PLACEMENTS_MIN: u64 = 2;

/// What a commit does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Renew,
    Relabel,
    Join,
    Leave,
    Suspend,
    Override,
    NoOverride,
    BadOverride,
    NoBadOverride,
    HandOver,
    Rename,
    RenameBack,
    Split,
    Evict,
    WriteRun,
    Deselect,
    RemoveGuarded,
    Break,
    Unstage,
    /// The strategy names other approvers, or the same as before.
    Approvers,
    ApproversBack,
}

impl Act {
    /// Those that dice choose from; what is undone by a later one is there as often.
    pub const ALL: [Self; 20] = [
        Self::Renew,
        Self::Renew,
        Self::Relabel,
        Self::Relabel,
        Self::Join,
        Self::Leave,
        Self::Suspend,
        Self::Override,
        Self::NoOverride,
        Self::BadOverride,
        Self::NoBadOverride,
        Self::HandOver,
        Self::Rename,
        Self::RenameBack,
        Self::Split,
        Self::Evict,
        Self::WriteRun,
        Self::Deselect,
        Self::RemoveGuarded,
        Self::Break,
    ];
}

impl Timeline {
    /// Lets a feature act on a placement with the next commit, as dice of its own fall.
    pub fn act(&mut self, act: Act, placement: u64, dice: &mut Dice) {
        let number = self.any_of(placement, dice);
        self.value += 1;
        let value = self.value;
        match act {
            Act::Renew => self.renew(placement),
            Act::Relabel => {
                if let Some(cluster) = self.clusters.get_mut(&number) {
                    cluster.env = if cluster.env == "a" { "b" } else { "a" };
                }
            }
            Act::Join => self.join(placement, dice),
            Act::Leave => {
                if self.clusters.len() > 2 {
                    self.clusters.remove(&number);
                }
            }
            Act::Suspend => {
                if let Some(cluster) = self.clusters.get_mut(&number) {
                    cluster.suspended = !cluster.suspended;
                }
            }
            Act::Override => drop(self.overrides_of_b.insert(placement, value)),
            Act::NoOverride => drop(self.overrides_of_b.remove(&placement)),
            Act::BadOverride => drop(self.bad_overrides.insert(placement)),
            Act::NoBadOverride => drop(self.bad_overrides.remove(&placement)),
            Act::HandOver => {
                let role = dice.below(2);
                self.roles.insert(role, (placement, value));
            }
            Act::Rename => {
                self.rename(placement);
                if let Some(placement) = self.placements.get_mut(&placement).filter(|_| dice.chance(300)) {
                    placement.staged = None;
                }
            }
            Act::RenameBack => self.rename_back(placement),
            Act::Split if !self.splits.remove(&placement) => drop(self.splits.insert(placement)),
            Act::Split => {}
            Act::Evict => self.evict(placement, number),
            Act::WriteRun => drop(self.runs.insert(placement, Written { name: value, state: "Run", index: None })),
            Act::Deselect => self.deselect(placement, number),
            Act::RemoveGuarded => self.remove_guarded(placement),
            Act::Break => {
                let object = self.objects.iter_mut().find(|((of, _), _)| *of == placement);
                if let Some((_, object)) = object {
                    object.value = value;
                    object.never_on = (0..CLUSTERS_MAX).filter(|of| *of == number || dice.chance(400)).collect();
                }
            }
            Act::Unstage => {
                if let Some(placement) = self.placements.get_mut(&placement) {
                    placement.staged = None;
                }
            }
            Act::Approvers => {
                let now = self.list(placement);
                self.approvers.insert(placement, ((now + dice.between(1, LISTS - 1)) % LISTS, now));
            }
            Act::ApproversBack => {
                if let Some((now, before)) = self.approvers.get_mut(&placement) {
                    std::mem::swap(now, before);
                }
            }
        }
    }

    /// Returns a cluster that a placement picks and was not evicted from, where there is one.
    pub fn any_of(&self, number: u64, dice: &mut Dice) -> u64 {
        let evicted: BTreeSet<u64> = self.evictions_of(number).collect();
        let picks = |of: &u64, cluster: &Cluster| match self.placements.get(&number).map(|placement| &placement.policy)
        {
            Some(Policy::Env(env)) => cluster.env == *env,
            Some(Policy::Fixed(fixed)) => fixed.contains(of),
            _ => true,
        };
        let picked = self.clusters.iter().filter(|(of, cluster)| picks(of, cluster) && !evicted.contains(of));
        let picked: Vec<u64> = picked.map(|(of, _)| *of).collect();
        let other = dice.below(CLUSTERS_MAX);
        dice.pick(&picked).copied().unwrap_or(other)
    }

    /// A cluster joins that a placement picks.
    fn join(&mut self, placement: u64, dice: &mut Dice) {
        let Some(joins) = (0..CLUSTERS_MAX).find(|number| !self.clusters.contains_key(number)) else { return };
        let mut cluster = Cluster::any(dice);
        match self.placements.get_mut(&placement).map(|placement| &mut placement.policy) {
            Some(Policy::Env(env)) => cluster.env = env,
            Some(Policy::Fixed(fixed)) => drop(fixed.insert(joins)),
            Some(Policy::Number(count)) => *count = self.clusters.len() as u64 + 1,
            Some(Policy::All) | None => {}
        }
        self.clusters.insert(joins, cluster);
    }

    fn renew(&mut self, namespace: u64) {
        for (_, object) in self.objects.range_mut((namespace, 0)..(namespace + 1, 0)) {
            object.value = self.value;
        }
    }

    /// All that is in a namespace goes: a gate asks about that much.
    fn remove_guarded(&mut self, number: u64) {
        if let Some(placement) = self.placements.get_mut(&number) {
            placement.guard_off = false;
        }
        self.objects.retain(|(of, _), _| *of != number);
    }

    /// Lets a placement be such that these features can act on it.
    pub fn suit(&mut self, number: u64, features: &[&str]) {
        let has = |feature: &str| features.contains(&feature);
        if number < PLACEMENTS_MIN && !self.placements.contains_key(&number) {
            let placement = self.placement();
            self.placements.insert(number, placement);
        }
        let Some(placement) = self.placements.get_mut(&number) else { return };
        let is_staged = [STAGED, FOLLOW_UP, SUPERSEDED, EXPIRED, WRITTEN_RUN, APPROVERS].into_iter().any(has);
        if is_staged {
            let staged = placement.staged.get_or_insert_with(Staged::plain);
            (staged.automatic, staged.missing, staged.in_no_stage) = (true, false, "Last");
            if has(EXPIRED) || has(FOLLOW_UP) || has(APPROVERS) {
                staged.after_first = "Approval";
            }
            staged.before_second |= has(FOLLOW_UP);
        } else if has(ROLLING) {
            placement.staged = None;
        }
        if has(FAILURE) {
            placement.deadline_s = 20;
        }
        if has(ROLLBACK) {
            placement.history = 10;
        }
        // Who names clusters evicts from none.
        if has(EVICT) && matches!(placement.policy, Policy::Fixed(_)) {
            placement.policy = Policy::All;
        }
        placement.queue &= !has(SUPERSEDED);
        placement.reports_only = false;
        if has(NAMESPACED) {
            self.splits.insert(number);
        } else if has(EVICT) {
            self.splits.remove(&number);
        }
        if has(OVERRIDES) {
            for overrides in [&mut self.overrides, &mut self.overrides_of_b] {
                overrides.entry(number).or_insert(number);
            }
        }
    }

    /// Lets features act on a placement again that had acted before: what is broken is repaired, and what was used up is there.
    pub fn make_ready(&mut self, number: u64, features: &[&str], dice: &mut Dice) {
        self.suit(number, features);
        self.value += 1;
        let value = self.value;
        for (_, object) in self.objects.range_mut((number, 0)..(number + 1, 0)) {
            if !object.never_on.is_empty() || !object.refused_on.is_empty() {
                (object.value, object.never_on, object.refused_on) = (value, BTreeSet::new(), BTreeSet::new());
            }
        }
        for at in 0..OBJECTS_MIN {
            let object = Object { kind: "ConfigMap", value, never_on: BTreeSet::new(), refused_on: BTreeSet::new() };
            self.objects.entry((number, at)).or_insert(object);
        }
        self.runs.remove(&number);
        self.bad_overrides.remove(&number);
        // Often both people are named before one of them is not.
        if features.contains(&APPROVERS) && dice.chance(500) {
            self.approvers.insert(number, (BOTH, BOTH));
        }
        if self.evictions_of(number).count() * 2 > self.clusters.len() {
            self.evictions.retain(|(of, ..)| *of != number);
        }
        for cluster in self.clusters.values_mut().filter(|cluster| cluster.suspended) {
            cluster.suspended = dice.chance(300);
        }
        let Some(policy) = self.placements.get_mut(&number).map(|placement| &mut placement.policy) else { return };
        // A place that cannot be filled leaves no room for any move.
        match policy {
            Policy::Fixed(fixed) => fixed.retain(|number| self.clusters.contains_key(number)),
            Policy::Number(count) => *count = (*count).min(self.clusters.len() as u64),
            Policy::All | Policy::Env(_) => {}
        }
        if self.clusters.len() < *CLUSTERS.start() {
            self.join(number, dice);
        } else if self.clusters.len() > *CLUSTERS.end() {
            let leaves = self.any_of(number, dice);
            self.clusters.remove(&leaves);
        }
    }
}

impl Staged {
    /// Two stages and nothing that waits.
    fn plain() -> Self {
        Self {
            max_concurrency: "2",
            after_first: "",
            before_second: false,
            has_third: false,
            in_no_stage: "Last",
            sorted: false,
            automatic: true,
            missing: false,
        }
    }
}
