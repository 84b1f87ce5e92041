use super::super::fixtures::{HOSTILE, halted, waiting, with_text_everywhere};
use super::*;
use crate::model::id::CommitId;

fn told(progress: &Progress) -> Vec<(String, StatusState, String)> {
    statuses(progress, 140, None).into_iter().map(|s| (s.context, s.state, s.description)).collect()
}

fn row(context: &str, state: StatusState, words: &str) -> (String, StatusState, String) {
    (context.to_owned(), state, words.to_owned())
}

#[test]
fn one_for_the_placement_and_each_stage_that_began() {
    use StatusState::{Failure, Pending, Success};
    assert_eq!(
        told(&waiting()),
        [
            row("gitfleet/web", Pending, "canary 2/2, waiting for approval"),
            row("gitfleet/web/staging", Success, "1/1 clusters"),
            row("gitfleet/web/canary", Pending, "2/2, waiting for approval"),
        ]
    );
    assert_eq!(
        told(&halted())[0],
        row("gitfleet/web", Failure, "canary 1/2, failed: 1 cluster of stage canary failed")
    );
}

#[test]
fn states() {
    use ProgressState as P;
    use StatusState as S;
    let commit = || CommitId::new("def5678abc");
    let rows = [
        (P::Queued, S::Pending, "3/4, not begun"),
        (P::Moving, S::Pending, "3/4, on the way"),
        (P::WaitingForPerson, S::Pending, "3/4, waiting for approval"),
        (P::Waiting, S::Pending, "3/4, waiting: why"),
        (P::Paused, S::Pending, "3/4, paused: why"),
        (P::Done, S::Success, "3/4 clusters"),
        (P::Skipped, S::Success, "3/4, passed over"),
        (P::Failed, S::Failure, "3/4, failed: why"),
        (P::Error, S::Error, "3/4, cannot be carried out: why"),
        (P::Rejected, S::Failure, "3/4, rejected: why"),
        (P::Superseded { by: commit() }, S::Success, "superseded by def5678"),
        (P::RolledBack { to: commit() }, S::Failure, "3/4, rolled back to def5678"),
    ];
    for (state, wanted, words) in rows {
        let progress = Progress { state, stages: vec![], message: "why".into(), ..waiting() };
        assert_eq!(told(&progress), [row("gitfleet/web", wanted, words)]);
    }
}

#[test]
fn contexts_do_not_collide() {
    let rows = [
        (PlacementKey::cluster_scoped("web"), "gitfleet/web"),
        (PlacementKey::namespaced("web", "canary"), "gitfleet/web:canary"),
        (PlacementKey::cluster_scoped("plan"), "gitfleet/:plan"),
        (PlacementKey::namespaced("plan", "plan"), "gitfleet/plan:plan"),
    ];
    for (key, wanted) in rows {
        assert_eq!(context(&key), wanted);
    }
}

#[test]
fn what_a_change_is_worth() {
    let status = |state, description: &str| CommitStatus {
        context: "gitfleet/web".into(),
        state,
        description: description.into(),
        target_url: None,
    };
    use StatusState::{Pending, Success};
    let old = status(Pending, "canary 3/12, on the way");
    let rows = [
        ("nothing", status(Pending, "canary 3/12, on the way"), Worth::Nothing),
        ("progress", status(Pending, "canary 4/12, on the way"), Worth::Later),
        ("another stage", status(Pending, "prod 4/12, on the way"), Worth::Now),
        ("a person", status(Pending, "canary 3/12, waiting for approval"), Worth::Now),
        ("done", status(Success, "canary 3/12, on the way"), Worth::Now),
        ("a link", CommitStatus { target_url: Some("http://x".into()), ..old.clone() }, Worth::Later),
    ];
    for (name, new, wanted) in rows {
        assert_eq!(is_worth(Some(&old), &new), wanted, "{name}");
    }
    assert_eq!(is_worth(None, &old), Worth::Now);
}

#[test]
fn plans() {
    use StatusState as S;
    let error = |message: &str| InputError {
        path: "web/a.yaml".into(),
        line: 7,
        object: None,
        field: None,
        message: message.into(),
        hint: None,
    };
    let errors = [error("no such field"), error("b"), error("c")];
    let rows = [
        (PlanOutcome::Pending, S::Pending, "looking at what would change"),
        (PlanOutcome::Made { placements: 0, clusters: 0 }, S::Success, "no placement changes"),
        (PlanOutcome::Made { placements: 1, clusters: 1 }, S::Success, "1 placement changes, 1 cluster"),
        (PlanOutcome::Made { placements: 2, clusters: 5 }, S::Success, "2 placements change, 5 clusters"),
        (PlanOutcome::Refused(&errors[..1]), S::Failure, "web/a.yaml:7: no such field"),
        (PlanOutcome::Refused(&errors), S::Failure, "web/a.yaml:7: no such field (and 2 more)"),
        (PlanOutcome::Failed("git does not answer"), S::Error, "git does not answer"),
    ];
    for (outcome, state, words) in rows {
        let status = plan_status(outcome, 140, None);
        assert_eq!((status.context.as_str(), status.state, status.description.as_str()), (PLAN_CONTEXT, state, words));
    }
    let long = [error(&"x".repeat(300)), error("b")];
    let status = refused_status(&long, 140, None);
    assert_eq!(status.description.chars().count(), 140);
    assert!(status.description.starts_with("not rolled out: web/a.yaml:7: xxx"), "{}", status.description);
    assert!(status.description.ends_with("… (and 1 more)"), "{}", status.description);
}

#[test]
fn descriptions_fit_and_hide_nothing() {
    for hostile in HOSTILE.iter().map(|text| (*text).to_owned()).chain(["é\u{301}".repeat(300)]) {
        for status in statuses(&with_text_everywhere(&hostile, ProgressState::Failed), 140, None) {
            assert!(status.description.chars().count() <= 140);
            assert!(!status.description.contains(['\n', '\u{202e}']), "{:?}", status.description);
        }
    }
}
