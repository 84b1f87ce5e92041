//! The failed parts of the daemon, for the probes.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a part that was restarted is still reported: long enough for somebody who looks at the probe after an alert.
const REPORTED_FOR: Duration = Duration::from_mins(10);
/// Parts that are reported at most; members are parts, and a fleet has thousands.
const PARTS_MAX: usize = 50;

/// What is known of a part that had an error in gitfleet.
#[derive(Debug)]
struct Trouble {
    /// It does not work right now, and everybody needs it.
    is_fatal: bool,
    /// When it was restarted; `None` while it does not work.
    restarted_at: Option<Instant>,
}

/// The parts of the daemon that do not work, or did not a while ago.
#[derive(Debug, Default)]
pub struct Health {
    parts: Mutex<BTreeMap<String, Trouble>>,
}

/// What the probes answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HealthReport {
    /// No part that everybody needs is missing.
    pub is_ready: bool,
    /// A line for each part that does not work, or did not a while ago.
    pub lines: Vec<String>,
}

impl Health {
    /// Notes that a part does not work. The probes need no token, so they name the part and no more: the log says why.
    /// `is_fatal` is a part that the whole daemon needs; a member is not.
    pub fn fail(&self, part: &str, is_fatal: bool) {
        let mut parts = self.parts();
        if parts.len() < PARTS_MAX || parts.contains_key(part) {
            parts.insert(part.to_owned(), Trouble { is_fatal, restarted_at: None });
        }
    }

    /// Notes that a part works again. What happened to it is still reported for a while.
    pub fn begin_again(&self, part: &str) {
        if let Some(trouble) = self.parts().get_mut(part) {
            trouble.restarted_at = Some(Instant::now());
        }
    }

    /// Forgets a part that works.
    pub fn clear(&self, part: &str) {
        self.parts().remove(part);
    }

    /// Returns what the probes answer.
    pub fn report(&self) -> HealthReport {
        let mut parts = self.parts();
        parts.retain(|_, trouble| trouble.restarted_at.is_none_or(|at| at.elapsed() < REPORTED_FOR));
        let of_all = parts.iter().filter(|(_, trouble)| trouble.is_fatal);
        let mut lines: Vec<String> =
            of_all.map(|(part, trouble)| format!("{part}: {}; the log says why", trouble.state())).collect();
        let others = parts.len() - lines.len();
        if others > 0 {
            lines.push(format!("members: {others} had an error in gitfleet; the log says which and why"));
        }
        HealthReport { is_ready: !parts.values().any(Trouble::is_missing), lines }
    }

    fn parts(&self) -> MutexGuard<'_, BTreeMap<String, Trouble>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Trouble {
    fn state(&self) -> &'static str {
        if self.restarted_at.is_some() { "was restarted" } else { "does not work" }
    }

    fn is_missing(&self) -> bool {
        self.is_fatal && self.restarted_at.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_everybody_needs_is_missed() {
        let health = Health::default();
        assert_eq!(health.report(), HealthReport { is_ready: true, lines: vec![] });
        health.fail("member c1", false);
        assert!(health.report().is_ready, "other members continue");
        health.fail("source", true);
        let report = health.report();
        let members = "members: 1 had an error in gitfleet; the log says which and why";
        assert_eq!(report.lines, ["source: does not work; the log says why", members]);
        assert!(!report.is_ready);
        health.begin_again("source");
        let report = health.report();
        assert!(report.is_ready && report.lines[0] == "source: was restarted; the log says why", "{report:?}");
        health.clear("source");
        assert_eq!(health.report().lines, [members]);
    }

    #[test]
    fn a_fleet_does_not_fill_the_report() {
        let health = Health::default();
        for n in 0..PARTS_MAX * 2 {
            health.fail(&format!("member c{n}"), false);
        }
        let lines = health.report().lines;
        assert!(lines.len() == 1 && lines[0].contains(&PARTS_MAX.to_string()), "{lines:?}");
    }
}
