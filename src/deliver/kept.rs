//! Decisions of people are written to the placement's inventories immediately, whatever other steps wait.

use super::inventory::Parent;
use super::step::{MemberView, Plan, Step};
use model::api::placement::ApplyStrategyType;
use model::work::WorkOrder;

/// Adds the write of an inventory whose pause or hold differs from the order's. The state of the work does not change. An order
/// that only reports writes nothing, and a leaving one removes its inventory.
pub fn add_write(mut plan: Plan, order: &WorkOrder, view: &MemberView<'_>) -> Plan {
    let is_stale = |parent: &&Parent| parent.kept != order.kept && order.source.is(&parent.source);
    let Some(parent) = view.parent.filter(is_stale) else { return plan };
    let writes = order.strategy.type_ != ApplyStrategyType::ReportDiff && !order.remove && plan.failure.is_none();
    // Such a write already contains the order's pause and hold.
    let is_written = |step: &Step| matches!(step, Step::WriteParent(_) | Step::DeleteParent);
    if writes && !plan.steps.iter().any(is_written) {
        plan.steps.push(Step::WriteParent(Box::new(Parent { kept: order.kept.clone(), ..parent.clone() })));
        plan.rechecks = plan.complete;
    }
    plan
}
