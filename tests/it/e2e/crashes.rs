//! The staged rollout of `staged` with the daemon killed anywhere. It takes longest of all tests, and its name has it begin early: tests
//! begin in the order of their names.

use crate::e2e::fleet::accepted_write_count;
use crate::members::staged::{own, scenario};

/// How often the daemon is killed, each time in another part of the rollout.
const KILLS: usize = 20;

#[test]
fn a_staged_rollout_survives_kills_anywhere() {
    let fleet = own();
    // A refused object is tried again after pauses, as often as the time allows until a fix comes. It is not counted.
    let writes = || -> Vec<u64> {
        fleet
            .members
            .iter()
            .map(|member| accepted_write_count(&member.metrics().expect("metrics"), "secrets"))
            .collect()
    };
    let before = writes();
    let end = scenario(&fleet, "whole", None, None);
    let undisturbed: Vec<u64> = writes().iter().zip(&before).map(|(after, before)| after - before).collect();
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    for kill in 0..KILLS {
        // One kill in each twentieth of the scenario, anywhere in it.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let part = end.lines / KILLS;
        let at = kill * part + usize::try_from(random % part.max(1) as u64).expect("a small number");
        let before = writes();
        scenario(&fleet, &format!("killed{kill}"), Some(at.max(1)), Some(&end));
        let repeated: Vec<u64> = writes()
            .iter()
            .zip(&before)
            .zip(&undisturbed)
            .map(|((after, before), once)| (after - before).saturating_sub(*once))
            .collect();
        // What was in flight when it was killed may have been written or not, and is asked for again: two objects on each of
        // the two clusters that may be under way at once.
        assert!(repeated.iter().all(|more| *more <= 2), "killed at line {at}: written again {repeated:?}");
        assert!(
            repeated.iter().filter(|more| **more > 0).count() <= 2,
            "killed at line {at}: written again {repeated:?}"
        );
    }
}
