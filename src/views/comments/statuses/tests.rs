use super::*;
use crate::comments::fixtures::{HOSTILE, halted, waiting, with_text_everywhere};
use model::id::CommitId;

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
        (P::Skipped, S::Success, "3/4, skipped"),
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
fn one_for_the_whole_rollout() {
    use ProgressState as P;
    use StatusState as S;
    let with = |state: P| Progress { state, stages: vec![], ..waiting() };
    let rows = [
        (vec![waiting(), waiting(), with(P::Done)], S::Pending, "2 wait at canary, 1 done, 9/12 clusters"),
        (vec![waiting(), halted()], S::Failure, "1 failed, 1 waits at canary, 5/8 clusters"),
        (vec![waiting(), with(P::Error)], S::Error, "1 cannot be carried out, 1 waits at canary, 6/8 clusters"),
        (vec![with(P::Done), with(P::Skipped)], S::Success, "1 done, 1 skipped, 6/8 clusters"),
    ];
    for (placements, state, words) in rows {
        let placements: Vec<&Progress> = placements.iter().collect();
        let status = rollout_status(&placements, 140, Some("https://forge.example/o/r/pulls/7"));
        assert_eq!((status.context.as_str(), status.state, status.description.as_str()), ("gitfleet", state, words));
        assert_eq!(status.target_url.as_deref(), Some("https://forge.example/o/r/pulls/7"));
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
fn commits_that_are_refused() {
    let error = |message: &str| InputError {
        path: "web/a.yaml".into(),
        line: 7,
        object: None,
        field: None,
        message: message.into(),
        hint: None,
    };
    let rows = [
        (vec![error("no such field")], "not rolled out: web/a.yaml:7: no such field"),
        (
            vec![error("no such field"), error("b"), error("c")],
            "not rolled out: web/a.yaml:7: no such field (and 2 more)",
        ),
    ];
    for (errors, words) in rows {
        let status = refused_status(&errors, 140, None);
        let found = (status.context.as_str(), status.state, status.description.as_str());
        assert_eq!(found, (PLAN_CONTEXT, StatusState::Failure, words));
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
        let way = with_text_everywhere(&hostile, &ProgressState::WaitingForPerson);
        let whole = rollout_status(&[&way], 140, None);
        for status in statuses(&way, 140, None).into_iter().chain([whole]) {
            assert!(status.description.chars().count() <= 140);
            assert!(!status.description.contains(['\n', '\u{202e}']), "{:?}", status.description);
        }
    }
}
