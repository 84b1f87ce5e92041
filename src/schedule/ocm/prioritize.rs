//! Prioritizers: each scores every cluster that passed the filters, from -100 to 100; a cluster's total is their weighted sum.

use fixedbitset::FixedBitSet;
use jiff::{SignedDuration, Timestamp};

use super::hub::RESOURCES;
use super::taint::slot_number;
use super::{Notice, Request};
use model::api::ocm::{AddOnCoordinate, PrioritizerPolicy, ScoreCoordinate, ScoreCoordinateType};

/// The criterion of a prioritizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PrioritizerKind {
    /// Fewer decisions of other placements that name it are better.
    Balance,
    /// Whether the placement already has it.
    Steady,
    /// The allocatable amount of a resource (of [`RESOURCES`]), compared with the others.
    Resource(usize),
    /// The score of an add-on.
    AddOn(AddOnCoordinate),
}

/// A prioritizer in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Prioritizer {
    pub(super) kind: PrioritizerKind,
    /// -10 to 10, and not 0.
    pub(super) weight: i64,
}

impl Prioritizer {
    /// Returns its name in the original.
    pub(super) fn name(&self) -> String {
        match &self.kind {
            PrioritizerKind::Balance => "Balance".to_owned(),
            PrioritizerKind::Steady => "Steady".to_owned(),
            PrioritizerKind::Resource(resource) => RESOURCES[*resource].1.to_owned(),
            PrioritizerKind::AddOn(coordinate) => {
                format!("AddOn/{}/{}", coordinate.resource_name, coordinate.score_name)
            }
        }
    }
}

/// Determines the prioritizers in use, with their weights.
///
/// # Errors
/// An unknown mode or prioritizer; one of weight 0 is ignored.
///
/// Source: Open Cluster Management. Entries are identified by type, built-in name, and add-on object: a built-in listed twice
/// has the last weight, an add-on listed twice counts twice.
pub(super) fn prioritizers(policy: &PrioritizerPolicy) -> Result<Vec<Prioritizer>, Notice> {
    let mut weights: Vec<(ScoreCoordinate, i32)> = match policy.mode.as_str() {
        "" | "Additive" => vec![(built_in("Balance"), 1), (built_in("Steady"), 1)],
        "Exact" => Vec::new(),
        other => return Err(Notice::new("", format!("incorrect prioritizer policy mode: {other}"))),
    };
    for config in &policy.configurations {
        let coordinate = match (&config.score_coordinate, &config.name) {
            (Some(coordinate), _) => coordinate.clone(),
            (None, Some(name)) => built_in(name),
            (None, None) => return Err(Notice::new("", "scoreCoordinate field is required")),
        };
        let weight = config.weight.unwrap_or(1);
        match weights.iter_mut().find(|(other, _)| is_same(other, &coordinate)) {
            Some((_, known)) => *known = weight,
            None => weights.push((coordinate, weight)),
        }
    }
    weights.retain(|(_, weight)| *weight != 0);
    weights
        .iter()
        .map(|(coordinate, weight)| Ok(Prioritizer { kind: kind(coordinate)?, weight: (*weight).into() }))
        .collect()
}

fn built_in(name: &str) -> ScoreCoordinate {
    ScoreCoordinate { built_in: Some(name.to_owned()), ..ScoreCoordinate::default() }
}

/// Tells whether the second of two entries replaces the weight of the first.
fn is_same(one: &ScoreCoordinate, other: &ScoreCoordinate) -> bool {
    one.add_on.is_none()
        && other.add_on.is_none()
        && one.type_ == other.type_
        && one.built_in.as_deref().unwrap_or_default() == other.built_in.as_deref().unwrap_or_default()
}

fn kind(coordinate: &ScoreCoordinate) -> Result<PrioritizerKind, Notice> {
    if coordinate.type_ == ScoreCoordinateType::AddOn {
        let add_on = coordinate.add_on.clone();
        return add_on.map(PrioritizerKind::AddOn).ok_or_else(|| Notice::new("", "addOn should not be empty"));
    }
    let name = coordinate.built_in.as_deref().unwrap_or_default();
    match name {
        "Balance" => Ok(PrioritizerKind::Balance),
        "Steady" => Ok(PrioritizerKind::Steady),
        _ => match RESOURCES.iter().position(|(_, prioritizer)| *prioritizer == name) {
            Some(resource) => Ok(PrioritizerKind::Resource(resource)),
            None => Err(Notice::new("", format!("incorrect builtin prioritizer: {name}"))),
        },
    }
}

/// The results of prioritizers.
pub(super) struct Prioritized {
    /// The total of every cluster, in order of name.
    pub(super) totals: Vec<(u32, i64)>,
    /// Scores that expired.
    pub(super) warning: Option<Notice>,
    /// When the first score in use expires.
    pub(super) expires: Option<Timestamp>,
}

/// Returns the total of every cluster that passed the filters.
///
/// # Errors
/// Prioritizers that cannot be evaluated.
pub(super) fn totals(request: &Request<'_>, passed: &FixedBitSet) -> Result<Prioritized, Notice> {
    let prioritizers = request.policy.prioritizers.as_ref().map_err(Clone::clone)?;
    let slots: Vec<u32> = passed.ones().map(slot_number).collect();
    let mut totals: Vec<(u32, i64)> = slots.iter().map(|&slot| (slot, 0)).collect();
    let mut warning = None;
    let mut expires: Option<Timestamp> = None;
    for prioritizer in prioritizers {
        let scored = score(request, &prioritizer.kind, &slots);
        for ((_, total), score) in totals.iter_mut().zip(&scored.scores) {
            *total += prioritizer.weight * score;
        }
        if !scored.expired.is_empty() {
            let names = request.hub.names();
            let PrioritizerKind::AddOn(coordinate) = &prioritizer.kind else { continue };
            let late: Vec<String> = scored
                .expired
                .iter()
                .map(|&slot| format!("{}/{}", names[slot as usize], coordinate.resource_name))
                .collect();
            let message = format!("AddOnPlacementScores {} expired", late.join(" "));
            // Only the last warning survives, as in the original.
            warning = Some(Notice::new(&prioritizer.name(), message));
        }
        expires = [expires, scored.expires].into_iter().flatten().min();
    }
    Ok(Prioritized { totals, warning, expires })
}

/// The result of one prioritizer.
#[derive(Default)]
pub(super) struct Scored {
    /// Its score of each given cluster.
    pub(super) scores: Vec<i64>,
    /// Clusters whose score expired.
    expired: Vec<u32>,
    /// When the first score in use expires.
    expires: Option<Timestamp>,
}

impl Scored {
    /// Scores that do not expire.
    fn lasting(scores: Vec<i64>) -> Self {
        Self { scores, ..Self::default() }
    }
}

/// Returns one prioritizer's scores, without its weight.
pub(super) fn score(request: &Request<'_>, kind: &PrioritizerKind, slots: &[u32]) -> Scored {
    match kind {
        PrioritizerKind::Balance => Scored::lasting(balance(request, slots)),
        PrioritizerKind::Steady => Scored::lasting(steady(request, slots)),
        PrioritizerKind::Resource(resource) => Scored::lasting(by_resource(request.hub.allocatable(*resource), slots)),
        PrioritizerKind::AddOn(coordinate) => by_add_on(request, coordinate, slots),
    }
}

fn steady(request: &Request<'_>, slots: &[u32]) -> Vec<i64> {
    let Some(held) = request.hub.held(request.key) else { return vec![0; slots.len()] };
    slots.iter().map(|&slot| if held.contains(slot as usize) { 100 } else { 0 }).collect()
}

/// Source: Open Cluster Management, prioritizer Balance: halved, cut, doubled, so that scores are even. The largest count is
/// that of any name, candidate or not.
#[allow(clippy::cast_possible_truncation, reason = "the original truncates toward zero")]
fn balance(request: &Request<'_>, slots: &[u32]) -> Vec<i64> {
    let (counts, largest) = request.hub.counts_of_others(request.key);
    let scores = slots.iter().map(|&slot| match counts[slot as usize] {
        // The formula gives the same, but divides by zero if no cluster is named at all.
        0 => 100,
        count => 2 * ((100.0 * (0.5 - f64::from(count) / f64::from(largest))) as i64),
    });
    scores.collect()
}

/// Source: Open Cluster Management, prioritizers by resource: linear between the least and the most of the clusters that
/// passed. Clusters without the resource get the middle, 0; if all have the same, each gets 100.
#[allow(clippy::cast_possible_truncation, reason = "the original truncates toward zero")]
fn by_resource(allocatable: &[f64], slots: &[u32]) -> Vec<i64> {
    let mut least = f64::INFINITY;
    let mut most = f64::NEG_INFINITY;
    for &slot in slots {
        // Clusters without the resource have NaN, which `min` and `max` ignore.
        least = least.min(allocatable[slot as usize]);
        most = most.max(allocatable[slot as usize]);
    }
    #[allow(clippy::float_cmp, reason = "the original tells equal values apart from all others")]
    let same = least == most;
    let scores = slots.iter().map(|&slot| match allocatable[slot as usize] {
        value if value.is_nan() => 0,
        _ if same => 100,
        value => ((((value - least) / (most - least)) - 0.5) * 2.0 * 100.0) as i64,
    });
    scores.collect()
}

/// Source: Open Cluster Management, prioritizer AddOn. A score is still valid at the very end of its validity.
fn by_add_on(request: &Request<'_>, coordinate: &AddOnCoordinate, slots: &[u32]) -> Scored {
    let Some((values, until)) = request.hub.score_columns(&coordinate.resource_name, &coordinate.score_name) else {
        return Scored::lasting(vec![0; slots.len()]);
    };
    let mut scored = Scored { scores: Vec::with_capacity(slots.len()), ..Scored::default() };
    let mut first_end: Option<Timestamp> = None;
    for &slot in slots {
        let value = values.map_or(0, |values| values[slot as usize]);
        let value = match until.get(slot as usize).copied().flatten() {
            Some(end) if request.now > end => {
                scored.expired.push(slot);
                0
            }
            Some(end) => {
                // A score of 0 adds the same once it has expired: no total changes then.
                if value != 0 {
                    first_end = Some(first_end.map_or(end, |first| first.min(end)));
                }
                value
            }
            None => value,
        };
        scored.scores.push(value.into());
    }
    // At the end itself it is still valid, so the next evaluation is just after.
    scored.expires = first_end.and_then(|end| end.checked_add(SignedDuration::from_nanos(1)).ok());
    scored
}
