//! Who opens a gate, with what, and who does not.

use super::*;
use model::commands::RefusalReason;

#[test]
fn an_approval_says_who_when_where_and_what() {
    let mut case = Case::of(&[]);
    case.settle();
    case.now += SignedDuration::from_secs(60);
    case.say(Verb::Approve, "p-0 one").expect("the gate opens");
    let task = &case.run("p-0").stages[0].after[0];
    let approval = &task.approvals[0];
    assert_eq!((approval.by.name.as_str(), approval.by.surface, approval.at), ("ann", Channel::Api, case.now));
    assert_eq!(approval.digest, case.run("p-0").stages[0].digest);
    assert_eq!(task.done_at, Some(case.now));
}

#[test]
fn what_is_refused() {
    use RefusalReason as R;
    type Row<'a> = (&'a str, &'a str, &'a str, Option<&'a str>, Result<(), R>);
    let narrowed = STRATEGY
        .replace("metadata: {name: s}", "metadata: {name: s, annotations: {gitfleet.io/approvers: 'user:bob'}}");
    let mut case = Case::of(&[]);
    let mut guarded = Case::of(&[("s.yaml", narrowed)]);
    case.settle();
    guarded.settle();
    let digest = case.run("p-0").stages[0].digest.to_string();
    let other = case.run("p-0").stages[1].digest.to_string();
    let rows: [Row<'_>; 8] = [
        ("a stage that does not wait", "ann", "p-0 two", None, Err(R::NotWaiting)),
        ("no such stage", "ann", "p-0 four", None, Err(R::NotFound)),
        ("no such run", "ann", "q-0 one", None, Err(R::NotFound)),
        ("another digest", "ann", "p-0 one", Some(&other), Err(R::DigestMismatch)),
        ("too short a digest", "ann", "p-0 one", Some(&digest[..3]), Err(R::DigestMismatch)),
        ("nothing of its deletions waits", "ann", "p deletion", None, Err(R::NotWaiting)),
        ("the beginning of the digest that was shown", "ann", "p-0 one", Some(&digest[..12]), Ok(())),
        ("once more", "ann", "p-0 one", None, Err(R::NotWaiting)),
    ];
    for (name, person, words, digest, expected) in rows {
        let answer = case.say_as(person, Verb::Approve, words, digest, None);
        case.settle();
        assert_eq!(answer.map(|_| ()).map_err(|refusal| refusal.reason), expected, "{name}");
    }
    let stranger = guarded.say(Verb::Approve, "p-0 one").expect_err("she may not");
    assert_eq!(stranger.reason, R::NotAllowed);
    assert_eq!(guarded.settle(), "a0 b- c- d-");
    guarded.say_as("bob", Verb::Approve, "p-0 one", None, None).expect("he may");
    assert_eq!(guarded.settle(), "a0 b0 c0 d0");
}

#[test]
fn a_gate_has_more_names_than_one() {
    for words in ["p-0 one", "p-0-after-one", "p-0-one", "p one"] {
        let mut case = Case::of(&[]);
        case.settle();
        for bare in ["p-0", "p"] {
            let refusal = case.say(Verb::Approve, bare).expect_err("nothing is guessed");
            assert_eq!(refusal.reason, RefusalReason::NotSpecific, "{bare}");
            assert!(refusal.message.contains("gitfleet approve p-0 one --digest "), "{}", refusal.message);
        }
        case.say(Verb::Approve, words).unwrap_or_else(|refusal| panic!("{words}: {refusal}"));
        assert_eq!(case.settle(), "a0 b0 c0 d0", "{words}");
    }
}

#[test]
fn a_run_may_be_called_as_another_placement_is() {
    let mut case = Case::of(&[]);
    case.settle();
    let mut other = case.state.clone();
    other.record.key.name = "p-0".to_owned();
    other.runs.clear();
    let placements = [&case.state, &other].map(|state| (state.record.key.clone(), state.clone()));
    let placements = BTreeMap::from(placements);
    let aim = |verb: Verb, stage: Option<&str>| {
        let command = Command { stage: stage.map(str::to_owned), ..Command::new(verb, "p-0") };
        resolve(&placements, &command).map(|aim| aim.placement.name).map_err(|refusal| refusal.reason)
    };
    assert_eq!(aim(Verb::Pause, None), Ok("p-0".to_owned()), "runs are not paused");
    assert_eq!(aim(Verb::Approve, None), Err(RefusalReason::Ambiguous));
    assert_eq!(aim(Verb::Approve, Some("deletion")), Err(RefusalReason::Ambiguous));
    assert_eq!(aim(Verb::Rollback, None), Err(RefusalReason::Ambiguous));
    assert_eq!(aim(Verb::Retry, None), Err(RefusalReason::Ambiguous));
    assert_eq!(aim(Verb::Approve, Some("one")), Ok("p".to_owned()), "a placement has no stage");
}

#[test]
fn a_quorum_is_of_persons_and_forgets() {
    let mut case = Case::of(&[]);
    case.fleet.approvals.required = 2;
    case.settle();
    case.say(Verb::Approve, "p-0 one").expect("the first voice");
    assert_eq!(case.settle(), "a0 b- c- d-");
    let again = case.say(Verb::Approve, "p-0 one").expect_err("one person is one voice");
    assert_eq!(again.reason, RefusalReason::NotPossible);
    case.later(73 * 3600);
    let late = case.say_as("bob", Verb::Approve, "p-0 one", None, None).expect_err("it was asked for long ago");
    assert_eq!(late.reason, RefusalReason::Expired);
    assert_eq!(case.say(Verb::Retry, "p-0").expect("it asks again"), "p-0 asks for approval of stage one again");
    case.say_as("bob", Verb::Approve, "p-0 one", None, None).expect("another voice");
    assert_eq!(case.settle(), "a0 b- c- d-", "the first has expired");
    case.say(Verb::Approve, "p-0 one").expect("again");
    assert_eq!(case.settle(), "a0 b0 c0 d0");
}

#[test]
fn an_approval_is_for_one_snapshot() {
    let mut case = Case::of(&[]);
    case.settle();
    let old = case.run("p-0").stages[0].digest.to_string();
    case.content("1");
    assert_eq!(case.settle(), "a1 b- c- d-");
    assert_eq!(case.phases(), "p-0 Superseded, p-1 Waiting");
    let late = case.say_as("ann", Verb::Approve, "p-1 one", Some(&old), None).expect_err("it was of another");
    assert_eq!(late.reason, RefusalReason::DigestMismatch);
    assert_eq!(case.say(Verb::Approve, "p-0 one").expect_err("it is over").reason, RefusalReason::NotWaiting);
    assert_eq!(case.settle(), "a1 b- c- d-");
}

#[test]
fn a_rejected_snapshot_is_held() {
    let mut case = Case::rolled_out(&[]);
    case.content("1");
    case.settle();
    case.say(Verb::Reject, "p-1 one").expect("she may");
    assert_eq!(case.settle(), "a1 b0 c0 d0");
    assert_eq!(case.phases(), "p-0 Succeeded, p-1 Rejected");
    assert_eq!(case.state.record.held.as_ref().map(|held| held.index), Some(1));
    case.say(Verb::Retry, "p").expect("again");
    case.settle();
    assert_eq!(case.phases(), "p-0 Succeeded, p-1 Rejected, p-1-2 Waiting", "with gates of its own");
    case.content("2");
    case.settle();
    assert!(case.phases().ends_with("p-1-2 Superseded, p-2 Waiting"), "{}", case.phases());
    assert_eq!(case.state.record.held, None, "another digest");
}

#[test]
fn deletions_wait_for_a_person_and_nothing_else_does() {
    let emptied = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n---\n".to_owned();
    let mut case = Case::rolled_out(&[("s.yaml", STRATEGY.to_owned())]);
    let member =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: other, namespace: a}\ndata: {v: '1'}\n---\n".to_owned();
    case.commit(&[("p.yaml", placement(&format!("{AUTOMATIC}, gitfleet.io/when-superseded: Queue")))]);
    case.settle();
    case.commit(&[("x.yaml", String::new()), ("y.yaml", [emptied, member].concat())]);
    case.settle();
    assert_eq!(case.state.record.closed_gate(), None, "one of two objects goes: that is not more than half");

    let mut case = Case::rolled_out(&[]);
    case.content("1");
    case.settle();
    case.commit(&[("p.yaml", String::new()), ("x.yaml", payload("0"))]);
    assert_eq!(case.settle(), "a1? b0? c0? d0?");
    assert_eq!(case.phases(), "p-0 Succeeded, p-1 Waiting", "whoever says yes to p says it to its removal");
    let gate = case.state.record.closed_gate().expect("removing a placement waits").clone();
    let wrong = case.say_as("ann", Verb::Approve, "p deletion", Some("0000000000"), None).expect_err("another digest");
    assert_eq!(wrong.reason, RefusalReason::DigestMismatch);
    let bare =
        case.say_as("ann", Verb::Approve, "p", Some(&gate.digest.as_str()[..12]), None).expect_err("a bare name");
    assert_eq!(bare.reason, RefusalReason::NotSpecific);
    let shown = &gate.digest.as_str()[..12];
    case.say_as("ann", Verb::Approve, "p deletion", Some(shown), None).expect("the gate opens");
    case.work();
    assert_eq!(case.settle(), "", "everything is gone");
}
