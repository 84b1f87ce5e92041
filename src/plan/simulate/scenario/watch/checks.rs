//! Observes the checks of stages.

use jiff::Timestamp;

use super::Look;
use model::runs::{RunRecord, StageRecord};
use views::simulation::EventKind;

impl Look<'_> {
    pub(super) fn checks(
        &mut self,
        run: &RunRecord,
        stage: &StageRecord,
        seen: &mut (Option<Timestamp>, Option<Timestamp>),
    ) {
        let Some(checks) = &stage.checks else { return };
        if checks.asked_at.is_some() && seen.0.is_none() {
            let health =
                checks.given.healthy_for.iter().map(|time| format!("until its clusters are available for {time}"));
            let metrics = checks
                .given
                .metrics
                .iter()
                .map(|metric| format!("for {} to be {} (taken as given)", metric.name, metric.limits()));
            let wanted: Vec<String> = health.chain(metrics).collect();
            let message = format!("waits {} before the next stage", wanted.join(" and "));
            self.push(EventKind::GateAsked, Some(&run.name), Some(&stage.name), None, message);
        }
        if checks.done_at.is_some() && seen.1.is_none() {
            self.push(EventKind::GateOpened, Some(&run.name), Some(&stage.name), None, "its checks hold".to_owned());
        }
        *seen = (checks.asked_at, checks.done_at);
    }
}
