//! Decisions of people are written to the placement's inventories immediately, whatever other steps wait.

use super::inventory::Parent;
use super::step::{MemberView, Plan, Step};
use model::api::placement::ApplyStrategyType;
use model::work::WorkOrder;

/// Adds the write of an inventory whose pause or hold differs from the order's. The state of the work does not change. An order
/// that only reports writes nothing, and a leaving one removes its inventory.
pub fn add_write(mut plan: Plan, order: &WorkOrder, view: &MemberView<'_>) -> Plan {
    let Some(parent) = view.parent else { return plan };
    let is_stale = parent.kept != order.kept && order.source.is(&parent.source);
    let writes = order.strategy.type_ != ApplyStrategyType::ReportDiff && !order.remove && plan.failure.is_none();
    // Such a write already contains the order's pause and hold.
    let is_written = plan.steps.iter().any(|step| matches!(step, Step::WriteParent(_) | Step::DeleteParent));
    if is_stale && writes && !is_written {
        plan.steps.push(Step::WriteParent(Box::new(Parent { kept: order.kept.clone(), ..parent.clone() })));
        plan.rechecks = plan.complete;
    }
    plan
}
