//! One scheduling cycle of a placement.

use model::api::placement::PlacementType;

use crate::{Error, Outcome, Request, bindings, pick};

/// Decides which clusters a placement goes to, and how its bindings change. The order of `bindings` does not matter.
///
/// # Errors
/// [`Error::Incomplete`] for the policy; [`Error::BadValue`] and [`Error::BadRequirement`] with [`crate::BadValues::Error`]; the others
/// for records that contradict each other.
///
/// Source: KubeFleet, one scheduling cycle. It differs for a cluster that is no longer in the fleet: KubeFleet unschedules that
/// binding, here it is left.
pub fn schedule(request: &Request<'_>) -> Result<Outcome, Error> {
    let placement_type = request.policy.map_or(PlacementType::PickAll, |policy| policy.placement_type);
    let bindings = bindings::Classified::of(request)?;
    match (placement_type, request.policy) {
        (PlacementType::PickN, Some(policy)) => pick::pick_n(request, &bindings, policy),
        (PlacementType::PickFixed, Some(policy)) => pick::pick_fixed(request, &bindings, policy),
        _ => pick::pick_all(request, &bindings),
    }
}
