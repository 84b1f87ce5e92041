//! What people decided of a placement is kept on its inventories at once, whatever else is to be done there.

use super::inventory::Parent;
use super::step::{MemberView, Plan, Step};
use crate::api::placement::ApplyStrategyType;
use crate::model::work::WorkOrder;

/// Adds the write of an inventory that does not keep what an order says of pauses and holds. How the work stands is not changed by it.
/// What only reports writes nothing, and what leaves takes its inventory along.
pub fn tell(mut plan: Plan, order: &WorkOrder, view: &MemberView<'_>) -> Plan {
    let is_stale = |parent: &&Parent| parent.kept != order.kept && order.source.is(&parent.source);
    let Some(parent) = view.parent.filter(is_stale) else { return plan };
    let writes = order.strategy.type_ != ApplyStrategyType::ReportDiff && !order.remove && plan.failure.is_none();
    // Such a write takes what is kept from the same order.
    let is_written = |step: &Step| matches!(step, Step::WriteParent(_) | Step::DeleteParent);
    if writes && !plan.steps.iter().any(is_written) {
        plan.steps.push(Step::WriteParent(Parent { kept: order.kept.clone(), ..parent.clone() }));
        plan.rechecks = plan.complete;
    }
    plan
}
