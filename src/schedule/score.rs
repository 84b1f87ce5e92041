//! The affinity score of a cluster: the sum of the preferred terms.

use fixedbitset::FixedBitSet;

use model::api::placement::{PreferredClusterSelector, PropertySorter, SortOrder};

use super::column::Column;
use super::fleet::Fleet;
use super::{BadValues, Error, Request, filter, properties};

/// One preferred term, prepared for evaluation.
pub(super) struct Term<'a> {
    /// Its place in the policy.
    pub index: usize,
    /// The term.
    pub preferred: &'a PreferredClusterSelector,
    /// The clusters that match its labels; `None` without a label selector.
    labels: Option<FixedBitSet>,
    /// Smallest and largest value of the property it ranks by, over all clusters that report it.
    range: Option<(&'a Column, f64, f64)>,
}

impl Term<'_> {
    /// Returns the term's contribution to a cluster's score.
    ///
    /// Source: KubeFleet, affinity score: rounded term by term, half away from zero.
    #[allow(clippy::cast_possible_truncation, reason = "a weight is at most 100, and the fraction at most 1")]
    pub(crate) fn score(&self, slot: usize) -> i32 {
        let weight = self.preferred.weight;
        if self.labels.as_ref().is_some_and(|labels| !labels.contains(slot)) {
            return 0;
        }
        let Some(sorter) = &self.preferred.preference.property_sorter else { return weight };
        let Some((column, low, high)) = self.range else { return 0 };
        let Some(value) = column.float(slot) else { return 0 };
        // If all clusters have the same value none is preferred, and there is no range to divide by.
        if high <= low {
            return 0;
        }
        let fraction = (value - low) / (high - low);
        let fraction = match sorter.sort_order {
            SortOrder::Descending => fraction,
            SortOrder::Ascending => 1.0 - fraction,
        };
        (fraction * f64::from(weight)).round() as i32
    }
}

/// Returns the preferred terms with a weight.
pub(super) fn terms<'a>(request: &Request<'a>) -> Result<Vec<Term<'a>>, Error> {
    let fleet = request.clusters;
    let preferred = filter::affinity(request.policy)
        .map_or(&[][..], |affinity| &affinity.preferred_during_scheduling_ignored_during_execution);
    let weighted = preferred.iter().enumerate().filter(|(_, preferred)| preferred.weight != 0);
    let terms = weighted.map(|(index, preferred)| {
        // The term's property selector is ignored: KubeFleet's score does not use it.
        let labels = preferred.preference.label_selector.as_ref().map(|selector| fleet.labels().matching(selector));
        let sorter = preferred.preference.property_sorter.as_ref();
        let range = sorter.map(|sorter| range(fleet, sorter, index, request.bad_values)).transpose()?.flatten();
        Ok(Term { index, preferred, labels, range })
    });
    terms.collect()
}

fn range<'a>(
    fleet: &'a Fleet,
    sorter: &PropertySorter,
    index: usize,
    bad_values: BadValues,
) -> Result<Option<(&'a Column, f64, f64)>, Error> {
    let why = properties::unreadable(&sorter.name);
    match (why, bad_values) {
        (Some(why), BadValues::Error) => {
            let field = format!("{}.propertySorter.name", filter::preferred_path(index));
            return Err(Error::BadRequirement { field, why });
        }
        (Some(_), BadValues::Mismatch) => return Ok(None),
        (None, _) => {}
    }
    let Some(column) = fleet.property(&sorter.name) else { return Ok(None) };
    if bad_values == BadValues::Error
        // An invalid value on any cluster fails it, filtered or not: the extremes are those of the whole fleet.
        && let Some(slot) = column.bad().ones().next()
    {
        let field = format!("{}.propertySorter", filter::preferred_path(index));
        return Err(properties::bad_value(fleet, slot, &sorter.name, field));
    }
    Ok(column.extremes().map(|(low, high)| (column, low, high)))
}
