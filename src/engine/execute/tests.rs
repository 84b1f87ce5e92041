use std::collections::BTreeMap;

use decide::names::Names;
use model::api::staged::RunState;
use model::records::DeletionGate;
use testkit::records::{Case, at, run, run_at_approval};

use super::*;

/// Reads `NAME` or `NAMESPACE/NAME`.
fn key(text: &str) -> PlacementKey {
    let Ok(key) = text.parse();
    key
}

/// Makes placements with runs: `NAME` waits after its stage canary, `(NAME)` has ended, `[NAME]` is stopped there by its document.
fn placements(all: &[(&str, &[&str])]) -> BTreeMap<PlacementKey, PlacementState> {
    let mut made = BTreeMap::new();
    for (of, names) in all {
        let mut state = PlacementState::new(Case::of(&[]).record);
        state.record.key = key(of);
        for word in *names {
            let name = word.trim_matches(['(', ')', '[', ']']).to_owned();
            let mut run = RunRecord { name, placement: key(of), ..run_at_approval() };
            if word.starts_with('(') {
                run.phase = RunPhase::Succeeded;
            }
            if word.starts_with('[') {
                (run.phase, run.state) = (RunPhase::Stopped, Some(RunState::Stop));
            }
            state.runs.insert(run);
        }
        made.insert(key(of), state);
    }
    mark(&mut made);
    made
}

/// Marks what shares a name, as the core does.
fn mark(all: &mut BTreeMap<PlacementKey, PlacementState>) {
    let names = Names::of(all.iter().map(|(key, state)| (key, &state.runs)));
    for (key, state) in all {
        state.shared_name = names.is_shared(key, &state.runs);
    }
}

/// Reads a command as the command line takes it: a verb, a target and a stage.
fn command(line: &str) -> Command {
    let words: Vec<&str> = line.split(' ').collect();
    let verbs = [Verb::Approve, Verb::Reject, Verb::Pause, Verb::Resume, Verb::Retry, Verb::Rollback];
    let verb = verbs.into_iter().find(|verb| verb.to_string() == words[0]).expect("a verb");
    let digest = words.iter().position(|word| *word == "--digest").map(|at| words[at + 1].to_owned());
    let stage = words.get(2).filter(|word| !word.starts_with("--")).map(|stage| (*stage).to_owned());
    Command { stage, digest, ..Command::new(verb, words[1]) }
}

fn found(all: &BTreeMap<PlacementKey, PlacementState>, line: &str) -> String {
    match resolve(all, &command(line)) {
        Ok(target) => {
            let run = target.run.map(|run| format!(" run {run}")).unwrap_or_default();
            format!("{} {}{run}", target.placement.kind(), target.placement)
        }
        Err(refusal) => format!("{:?}: {}", refusal.reason, refusal.message),
    }
}

#[test]
fn words_find_placements_and_runs() {
    let both = placements(&[("web", &["web-0"]), ("team/web", &["web-0"])]);
    let ended = placements(&[("web", &["web-0"]), ("team/web", &["(web-0)"])]);
    let near = placements(&[("web", &["web-1"]), ("web-1", &["web-1-0"])]);
    let rows = [
        (&both, "pause crp/web", "ClusterResourcePlacement web run web-0"),
        (&both, "pause /web", "ClusterResourcePlacement web run web-0"),
        (&both, "pause team/web", "ResourcePlacement team/web run web-0"),
        (&both, "pause rp/team/web", "ResourcePlacement team/web run web-0"),
        (&both, "pause ClusterResourcePlacement/web", "ClusterResourcePlacement web run web-0"),
        (&both, "approve crp/web canary", "ClusterResourcePlacement web run web-0"),
        (&both, "approve /web-0 canary", "ClusterResourcePlacement web run web-0"),
        (&both, "approve csur/web-0 canary", "ClusterResourcePlacement web run web-0"),
        (&both, "approve team/web-0 canary", "ResourcePlacement team/web run web-0"),
        (&both, "rollback rp/team/web", "ResourcePlacement team/web run web-0"),
        (
            &both,
            "rollback web",
            "Ambiguous: web fits ClusterResourcePlacement web and ResourcePlacement team/web; write one of these:\n  \
             gitfleet rollback crp/web\n  gitfleet rollback rp/team/web",
        ),
        (
            &both,
            "approve web-0 canary",
            "Ambiguous: web-0 fits ClusterResourcePlacement web and ResourcePlacement team/web; write one of these:\n  \
             gitfleet approve crp/web canary\n  gitfleet approve rp/team/web canary",
        ),
        (&ended, "approve web-0 canary", "ClusterResourcePlacement web run web-0"),
        (&ended, "retry web-0", "ClusterResourcePlacement web run web-0"),
        (&ended, "retry team/web-0", "ResourcePlacement team/web run web-0"),
        (&near, "approve web-1 canary", "ClusterResourcePlacement web run web-1"),
        (&near, "pause web-1", "ClusterResourcePlacement web-1 run web-1-0"),
        (&near, "retry crp/web-1", "ClusterResourcePlacement web-1 run web-1-0"),
        (&near, "retry csur/web-1", "ClusterResourcePlacement web run web-1"),
    ];
    for (all, line, expected) in rows {
        assert_eq!(found(all, line), expected, "{line}");
    }
    let unclear = found(&near, "retry web-1");
    assert!(unclear.contains("\n  gitfleet retry crp/web\n  gitfleet retry crp/web-1"), "{unclear}");
}

#[test]
fn what_nothing_is_called_is_answered_with_what_waits() {
    let all = placements(&[("web", &["web-0"]), ("team/api", &["api-0"]), ("shop", &["[shop-0]"])]);
    let unknown = found(&all, "approve canary");
    for line in ["gitfleet approve web-0 canary --digest ", "gitfleet approve team/api-0 canary --digest "] {
        assert!(unknown.contains(line), "{unknown}");
    }
    assert!(!unknown.contains("shop-0"), "a stopped run asks nobody: {unknown}");
    assert!(!found(&all, "pause canary").contains("what waits"));
}

/// Executes a line and returns what is answered.
fn said(all: &BTreeMap<PlacementKey, PlacementState>, line: &str, surface: Channel) -> String {
    let (command, ann) = (command(line), Person::of("ann", surface));
    let answer = resolve(all, &command)
        .and_then(|target| execute(&all[&target.placement], &FleetState::default(), &target, &command, &ann, at(60)));
    match answer {
        Ok(executed) => executed.done.message,
        Err(refusal) => format!("refused: {}", refusal.message),
    }
}

#[test]
fn every_line_that_is_shown_is_accepted() {
    let mut all = placements(&[
        ("web", &["web-0"]),
        ("team/web", &["web-0"]),
        ("shop/web", &["web-1", "(web-0)"]),
        ("web-1", &["web-1-0"]),
        ("crp/x", &["x-0"]),
    ]);
    let gate = serde_json::json!({
        "digest": "9f8e7d6c5b4a", "reason": "more than half", "deletions": {}, "leaving": ["east"], "since": at(0),
    });
    let gate: DeletionGate = serde_json::from_value(gate).expect("a gate");
    for state in all.values_mut() {
        state.record.deletion_gate = Some(gate.clone());
    }
    for (key, state) in &all {
        let run = state.runs.values().find(|run| !run.phase.is_final()).map(|run| run.name.clone());
        let target = CommandTarget { placement: key.clone(), run, stage: None, gate: None };
        let gates = gates::waiting_gates(state, &target);
        assert_eq!(gates.len(), 2, "{key}");
        for gate in gates {
            let line = gate.line(Verb::Approve).replace("gitfleet ", "");
            assert!(resolve(&all, &command(&line)).is_ok_and(|found| found.placement == *key), "{key}: {line}");
            let said = said(&all, &line, Channel::Api);
            assert!(said.starts_with("approved"), "{key}: {line}: {said}");
        }
        let paused = said(&all, &format!("pause {}", key.qualified()), Channel::Api);
        let resume = paused.split('`').nth(1).expect("a line").replace("gitfleet ", "");
        assert!(resolve(&all, &command(&resume)).is_ok_and(|found| found.placement == *key), "{key}: {resume}");
    }
}

#[test]
fn an_approval_says_what_it_does_to_a_run_that_does_not_continue() {
    let mut all = placements(&[("web", &["[web-0]"]), ("gone", &["gone-0"]), ("still", &["still-0"])]);
    all.get_mut(&key("gone")).expect("it is there").record.removed = true;
    let pause = Pause { by: "bob".into(), at: at(50), reason: None };
    all.get_mut(&key("still")).expect("it is there").record.paused = Some(pause);
    let rows = [
        (
            "approve web-0 canary",
            "the run web-0 is stopped: its document says `state: Stop`, and it continues only with `state: Run`",
        ),
        (
            "approve gone-0 canary",
            "refused: git has no ClusterResourcePlacement gone any more; a run of it waits until git has it again",
        ),
        (
            "approve still-0 canary",
            "nothing begins until `gitfleet resume still`; then the run continues after stage canary",
        ),
        ("reject still-0 canary", "until `gitfleet retry still`"),
    ];
    for (line, expected) in rows {
        let found = said(&all, line, Channel::Api);
        assert!(found.contains(expected), "{line}: {found}");
    }
    let in_comment = said(&all, "reject still-0 canary", Channel::Comment);
    assert!(in_comment.contains("`/gitfleet retry placement=still`"), "{in_comment}");
    let mut prepared = placements(&[("web", &[])]);
    let run = RunRecord { name: "web-0".into(), ..run() };
    prepared.get_mut(&key("web")).expect("it is there").runs.insert(run);
    let found = said(&prepared, "approve web-0 canary", Channel::Api);
    assert!(found.contains("it begins with `state: Run` in its document"), "{found}");
}

#[test]
fn a_refused_answer_to_a_gate_shows_the_line_for_what_waits() {
    let all = placements(&[("web", &["(web-0)", "web-1"])]);
    for line in ["approve web-0 canary", "approve web-1 production", "approve web-1 nothing", "approve web"] {
        let found = said(&all, line, Channel::Api);
        assert!(found.starts_with("refused"), "{line}: {found}");
        assert!(found.contains("\n  gitfleet approve web-1 canary --digest "), "{line}: {found}");
    }
    assert!(!said(&all, "approve web-0 canary", Channel::Comment).contains("gitfleet approve"));
}
