//! What holds whatever happens.

use jiff::SignedDuration;
use proptest::prelude::*;

use super::world::World;
use crate::rollout::staged::*;
use model::api::staged::{RunState, StageTaskType};
use model::id::ClusterName;
use model::runs::{ClusterPhase, MetricState, RunCluster, RunPhase, RunRecord, StagePhase, StageRecord};

const STAGES: &str = "s after: a b c; t/2 before: d e f g; u/2 wait=30 healthy=10 metric=m: h i j; v after before wait=5: k; delete: x y";
const CLUSTERS: [&str; 13] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "x", "y"];
const SIGHTS: [&str; 12] =
    ["ready", "ready", "ready", "failed", "broken", "lost", "offline", "online", "gone", "unpicked", "removed", "held"];
const PEOPLE: [&str; 3] = ["ann", "bob", "eve"];

/// Something that happens.
#[derive(Clone, Debug)]
enum Act {
    See(usize, usize),
    Stop(bool),
    Initialize(bool),
    Approve(usize, usize),
    Retry,
    Pass(i64),
    Failures(usize),
    Answer(&'static str),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        12 => (0..CLUSTERS.len(), 0..SIGHTS.len()).prop_map(|(cluster, sight)| Act::See(cluster, sight)),
        1 => any::<bool>().prop_map(Act::Stop),
        1 => any::<bool>().prop_map(Act::Initialize),
        4 => (0..4_usize, 0..PEOPLE.len()).prop_map(|(stage, person)| Act::Approve(stage, person)),
        1 => Just(Act::Retry),
        3 => prop::sample::select(vec![0, 1, 5, 29, 30, 4319, 4320]).prop_map(Act::Pass),
        1 => (0..4_usize).prop_map(Act::Failures),
        3 => prop::sample::select(vec!["m=0", "m=1", "m=2", "m=?"]).prop_map(Act::Answer),
    ]
}

/// Clusters of a stage that are on their way.
fn in_flight(stage: &StageRecord) -> usize {
    stage.clusters.iter().filter(|cluster| cluster.phase == ClusterPhase::Updating).count()
}

/// Clusters of a stage that are unavailable by our doing.
fn unavailable(world: &World, stage: &StageRecord) -> usize {
    let counts = |cluster: &&RunCluster| {
        let seen = &world.clusters[&cluster.name];
        cluster.phase == ClusterPhase::Updating
            || (seen.unavailable && seen.in_fleet && cluster.phase != ClusterPhase::Failed)
    };
    stage.clusters.iter().filter(counts).count()
}

fn see(world: &mut World, cluster: usize, sight: usize) {
    let (name, seen) = (CLUSTERS[cluster], SIGHTS[sight]);
    match seen {
        // What is not bound has no health that a run goes by, except what was broken before.
        "removed" | "held" if !matches!(name, "x" | "y") => {}
        _ if matches!(name, "x" | "y") && matches!(seen, "ready" | "failed" | "broken" | "lost") => {}
        _ => world.see(name, seen),
    }
}

fn happen(world: &mut World, act: &Act) {
    match act {
        Act::See(cluster, sight) => see(world, *cluster, *sight),
        Act::Stop(stop) => world.stop = *stop,
        Act::Initialize(waits) => world.tell(if *waits { "state Initialize" } else { "state Run" }),
        Act::Approve(stage, person) => {
            let stage = world.run.stages[*stage].name.clone();
            let _ = world.approve(&stage, None, PEOPLE[*person], None);
        }
        Act::Retry => world.tell("retry"),
        Act::Pass(minutes) => world.now += SignedDuration::from_mins(*minutes),
        Act::Failures(at_most) => world.tell(&format!("failures {at_most}")),
        Act::Answer(answer) => world.tell(&format!("answer {answer}")),
    }
}

/// Every approval task that is done has enough words for exactly its stage.
fn cites_approvals(run: &RunRecord, required: usize) -> bool {
    run.stages.iter().all(|stage| {
        let done = stage
            .before
            .iter()
            .chain(&stage.after)
            .filter(|t| t.type_ == StageTaskType::Approval && t.done_at.is_some());
        done.into_iter().all(|task| {
            let mut people: Vec<&str> =
                task.approvals.iter().filter(|a| a.digest == stage.digest).map(|a| a.by.name.as_str()).collect();
            people.sort_unstable();
            people.dedup();
            people.len() >= required
        })
    })
}

fn check(before: &World, after: &World, step: &Step) -> Result<(), TestCaseError> {
    let run = &after.run;
    for (index, stage) in run.stages.iter().enumerate() {
        let started = |name: &ClusterName| {
            step.start.contains(name)
                && before.run.stages[index]
                    .clusters
                    .iter()
                    .any(|c| c.name == *name && c.phase != ClusterPhase::Updating)
        };
        let started: Vec<_> = stage.clusters.iter().filter(|cluster| started(&cluster.name)).collect();
        prop_assert!(in_flight(stage) <= stage.max_concurrency, "{}", after.text());
        let breaks = |cluster: &&RunCluster| {
            let seen = &before.clusters[&cluster.name];
            !seen.unavailable && !seen.is_broken()
        };
        let breaks_one = started.iter().copied().any(|cluster| breaks(&cluster));
        prop_assert!(!breaks_one || unavailable(after, stage) <= stage.max_concurrency, "{}", after.text());
        let stops = before.stop || before.run.state == Some(RunState::Initialize);
        prop_assert!(started.is_empty() || !stops, "started while stopped: {}", after.text());
        prop_assert!(started.iter().all(|cluster| before.clusters[&cluster.name].online), "{}", after.text());
        if stage.phase.is_reached() && !stage.clusters.iter().all(|cluster| cluster.phase == ClusterPhase::Skipped) {
            prop_assert!(run.stages[..index].iter().all(|earlier| earlier.phase.is_done()), "{}", after.text());
            prop_assert!(stage.before.iter().all(|task| task.done_at.is_some()), "{}", after.text());
        }
        if stage.phase == StagePhase::Succeeded {
            prop_assert!(stage.after.iter().all(|task| task.done_at.is_some()), "{}", after.text());
        }
        if let Some(checks) = stage.checks.as_ref().filter(|_| stage.phase == StagePhase::Succeeded) {
            let answer = checks.metrics["m"].answer.filter(|_| checks.metrics["m"].failed.is_none());
            let had_time = checks.healthy_at().is_some_and(|at| stage.ended_at >= Some(at));
            prop_assert!(answer.is_some_and(|answer| answer.value <= 1.0) && had_time, "{checks:?}");
        }
        let has_failed = |state: &MetricState| state.failed.is_some();
        let fails = stage.checks.as_ref().is_some_and(|checks| checks.metrics.values().any(has_failed));
        prop_assert!(!fails || run.phase != RunPhase::Waiting && step.start.is_empty(), "{}", after.text());
    }
    if !step.remove.is_empty() {
        prop_assert!(run.stages.iter().all(|stage| stage.phase.is_done()), "{}", after.text());
        prop_assert!(step.remove.iter().all(|name| !before.clusters[name].held), "{}", after.text());
    }
    prop_assert!(cites_approvals(run, 2));
    Ok(())
}

/// Makes everything well: clusters answer and become available, people approve, time passes.
fn heal(world: &mut World) {
    world.stop = false;
    world.tell("state Run, retry");
    for name in CLUSTERS {
        let seen = world.clusters.get_mut(name).unwrap();
        (seen.online, seen.held, seen.removed) = (true, false, true);
        world.see(name, "ready");
    }
    for stage in ["s", "t", "u", "v"] {
        for person in PEOPLE {
            let _ = world.approve(stage, None, person, None);
        }
    }
    world.now += SignedDuration::from_mins(60);
    world.tell("answer m=0");
}

proptest! {
    #[test]
    fn runs_keep_their_promises_and_end(acts in prop::collection::vec(act(), 0..120), ungated in prop::bool::weighted(0.1)) {
        let mut world = World::new(STAGES);
        world.rules.required = 2;
        world.asks_no_gate = ungated;
        for act in &acts {
            happen(&mut world, act);
            let before = world.clone();
            let step = world.settle();
            if !ungated {
                check(&before, &world, &step)?;
            }
        }
        for _ in 0..40 {
            heal(&mut world);
            world.settle();
        }
        prop_assert_eq!(world.run.phase, RunPhase::Succeeded, "{}: {}", world.text(), world.run.message);
        let open = |stage: &StageRecord| stage.clusters.iter().any(|c| !matches!(c.phase, ClusterPhase::Succeeded | ClusterPhase::Skipped));
        prop_assert!(!world.run.stages.iter().chain(&world.run.deletion).any(open), "{}", world.text());
    }
}
