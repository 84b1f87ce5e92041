use super::*;
use model::forge::StatusState;

const WRITES_MAX: usize = 3;
const PAUSE: std::time::Duration = std::time::Duration::from_secs(1);

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).expect("a test's instant is one")
}

fn limits(write_pause: std::time::Duration) -> Limits {
    Limits { description_chars: 140, comment_chars: 65_000, write_pause, writes_max: WRITES_MAX }
}

fn outbox() -> Outbox {
    Outbox::restore([], limits(std::time::Duration::ZERO))
}

fn status_slot(context: &str) -> Slot {
    Slot::Status { commit: CommitId::new("c1"), context: context.to_owned() }
}

fn comment_slot(id: &str) -> Slot {
    Slot::Comment { id: id.to_owned() }
}

fn status(context: &str, description: &str) -> SlotContent {
    SlotContent::Status(CommitStatus {
        context: context.to_owned(),
        state: StatusState::Pending,
        description: description.to_owned(),
        target_url: None,
    })
}

fn comment(body: &str) -> SlotContent {
    SlotContent::comment(1, body.to_owned())
}

fn write(outbox: &Outbox, now: Timestamp) -> Write {
    match outbox.next(now) {
        Next::Write(write) => *write,
        other => panic!("nothing is due: {other:?}"),
    }
}

/// Carries out what is due, with this end.
fn end(outbox: &mut Outbox, now: Timestamp, outcome: SendOutcome) -> Write {
    let write = write(outbox, now);
    outbox.begins(&write, now);
    outbox.ended(&write, outcome, now);
    write
}

fn stands(comment: u64) -> SendOutcome {
    SendOutcome::Stands { comment: Some(comment) }
}

fn failed(error: Error) -> SendOutcome {
    SendOutcome::Failed(error)
}

fn unreachable() -> Error {
    Error::Unreachable { what: "say it".into(), why: "no answer".into() }
}

fn limited(seconds: u64) -> Error {
    Error::RateLimited { what: "say it".into(), wait: std::time::Duration::from_secs(seconds) }
}

/// A life that continues from what the last one stored.
fn restored(outbox: &mut Outbox) -> Outbox {
    Outbox::restore(outbox.take_changed().into_values().flatten(), limits(std::time::Duration::ZERO))
}

#[test]
fn what_stands_is_not_said_again_also_after_a_restart() {
    let mut first = outbox();
    first.set(status_slot("a"), status("a", "1/3"), at(0));
    first.set(comment_slot("m"), comment("hello"), at(0));
    end(&mut first, at(0), SendOutcome::Stands { comment: None });
    end(&mut first, at(0), stands(7));
    let mut second = restored(&mut first);
    for outbox in [&mut first, &mut second] {
        outbox.set(status_slot("a"), status("a", "1/3"), at(9));
        outbox.set(comment_slot("m"), comment("hello"), at(9));
        assert_eq!(outbox.next(at(9)), Next::Nothing);
        assert_eq!(outbox.take_changed(), BTreeMap::new(), "nothing is stored either");
        outbox.set(comment_slot("m"), comment("bye"), at(9));
        let edit = write(outbox, at(9));
        assert_eq!((edit.comment, edit.sequence, edit.unsure), (Some(7), 2, false), "the comment is edited");
    }
}

#[test]
fn a_status_with_another_link_alone_is_the_same() {
    let mut outbox = outbox();
    outbox.set(status_slot("a"), status("a", "1/3"), at(0));
    end(&mut outbox, at(0), SendOutcome::Stands { comment: None });
    let SlotContent::Status(linked) = status("a", "1/3") else { unreachable!("it is one") };
    let linked = CommitStatus { target_url: Some("https://forge.example".into()), ..linked };
    outbox.set(status_slot("a"), SlotContent::Status(linked), at(0));
    assert_eq!(outbox.next(at(0)), Next::Nothing);
    // The comment to link to is often written while a status is under way.
    outbox.set(status_slot("a"), status("a", "2/3"), at(0));
    let begun = begin(&mut outbox, at(0));
    let SlotContent::Status(linked) = status("a", "2/3") else { unreachable!("it is one") };
    let linked = CommitStatus { target_url: Some("https://forge.example".into()), ..linked };
    outbox.set(status_slot("a"), SlotContent::Status(linked), at(0));
    outbox.ended(&begun[0], SendOutcome::Stands { comment: None }, at(0));
    assert_eq!(outbox.next(at(0)), Next::Nothing);
}

#[test]
fn of_many_changes_the_last_is_said_at_the_earliest_time() {
    let mut outbox = outbox();
    for (text, due) in [("1/3", 10), ("2/3", 30), ("3/3", 20)] {
        outbox.set(status_slot("a"), status("a", text), at(due));
    }
    assert_eq!(outbox.next(at(9)), Next::At(at(10)));
    assert_eq!(write(&outbox, at(10)).content, status("a", "3/3"));
    outbox.set(status_slot("a"), status("a", "failed"), at(5));
    assert_eq!(end(&mut outbox, at(5), SendOutcome::Stands { comment: None }).content, status("a", "failed"));
    outbox.set(status_slot("a"), status("a", "1/3"), at(40));
    outbox.set(status_slot("a"), status("a", "failed"), at(40));
    assert_eq!(outbox.next(at(50)), Next::Nothing, "it is as it was again");
}

#[test]
fn what_changes_while_it_is_written_is_said_after() {
    let mut outbox = outbox();
    outbox.set(comment_slot("m"), comment("one"), at(0));
    let first = write(&outbox, at(0));
    outbox.begins(&first, at(0));
    outbox.set(comment_slot("m"), comment("two"), at(0));
    outbox.ended(&first, stands(7), at(0));
    let second = write(&outbox, at(0));
    assert_eq!((second.content, second.comment, second.sequence), (comment("two"), Some(7), 2));
}

#[test]
fn after_a_lost_answer_the_forge_is_asked_first() {
    // slot, what is said, whether a second try asks first
    let reaction = Slot::Reaction { comment: 3, reaction: Reaction::Eyes };
    let rows = [
        (status_slot("a"), status("a", "x"), true),
        (comment_slot("m"), comment("x"), true),
        (reaction, SlotContent::Reaction, false),
    ];
    for (slot, content, unsure) in rows {
        let mut outbox = outbox();
        outbox.set(slot.clone(), content, at(0));
        let first = write(&outbox, at(0));
        assert!(!first.unsure, "{slot:?}: nobody wrote it before");
        outbox.begins(&first, at(0));
        // The life ends here: what was noted is what the next one has.
        let next_life = restored(&mut outbox.clone());
        assert_eq!(write(&next_life, at(0)).unsure, unsure, "{slot:?}: after a crash");
        outbox.ended(&first, failed(unreachable()), at(0));
        assert_eq!(outbox.next(at(0)), Next::At(at(1)), "{slot:?}");
        assert_eq!(write(&outbox, at(1)).unsure, unsure, "{slot:?}: after a lost answer");
        // Asked, and it stands.
        end(&mut outbox, at(1), stands(7));
        assert!(outbox.entry(&slot).is_none_or(|entry| !entry.unsure), "{slot:?}");
    }
}

#[test]
fn an_edit_may_be_repeated() {
    let mut outbox = outbox();
    outbox.set(comment_slot("m"), comment("one"), at(0));
    end(&mut outbox, at(0), stands(7));
    outbox.set(comment_slot("m"), comment("two"), at(0));
    end(&mut outbox, at(0), failed(unreachable()));
    let again = write(&outbox, at(1));
    assert_eq!((again.comment, again.unsure), (Some(7), false));
}

#[test]
fn pauses_of_the_forge_are_kept() {
    // failures in a row, seconds until the next try
    let rows = [
        (vec![unreachable()], 1),
        (vec![unreachable(), unreachable()], 2),
        (vec![unreachable(), unreachable(), unreachable()], 4),
        (std::iter::repeat_with(unreachable).take(20).collect(), 120),
        (vec![limited(77)], 77),
        (vec![limited(7200)], 7200),
    ];
    for (failures, wanted) in rows {
        let (mut outbox, mut now) = (outbox(), at(0));
        outbox.set(comment_slot("m"), comment("x"), now);
        outbox.set(comment_slot("n"), comment("x"), now);
        let name = format!("{failures:?}");
        for error in failures {
            if let Next::At(at) = outbox.next(now) {
                now = at;
            }
            end(&mut outbox, now, failed(error));
        }
        let then = now + SignedDuration::from_secs(wanted);
        assert_eq!(outbox.next(now), Next::At(then), "{name}: nothing else is said either");
        assert_eq!(write(&outbox, then).content, comment("x"), "{name}");
        end(&mut outbox, then, stands(1));
        assert!(matches!(outbox.next(then), Next::Write(_)), "{name}: it answers again");
    }
}

#[test]
fn what_was_refused_for_a_pause_was_not_written() {
    let mut outbox = outbox();
    outbox.set(comment_slot("m"), comment("x"), at(0));
    end(&mut outbox, at(0), failed(limited(5)));
    assert!(!write(&outbox, at(5)).unsure);
    end(&mut outbox, at(5), failed(unreachable()));
    end(&mut outbox, at(6), failed(limited(5)));
    assert!(write(&outbox, at(11)).unsure, "the try before may have been carried out");
}

#[test]
fn what_is_denied_waits_for_a_person_and_lets_others_continue() {
    let forbidden = || Error::Forbidden { what: "comment".into(), why: "locked".into() };
    let mut outbox = outbox();
    outbox.set(comment_slot("m"), comment("one"), at(0));
    outbox.set(comment_slot("n"), comment("x"), at(0));
    end(&mut outbox, at(0), failed(forbidden()));
    assert_eq!(end(&mut outbox, at(0), stands(8)).slot, comment_slot("n"));
    assert_eq!(outbox.next(at(0)), Next::At(at(600)));
    for again in ["one", "two"] {
        outbox.set(comment_slot("m"), comment(again), at(20));
        assert_eq!(outbox.next(at(20)), Next::At(at(600)), "{again}: the person is still to come");
    }
    assert_eq!(end(&mut outbox, at(600), stands(9)).content, comment("two"));
    outbox.set(comment_slot("m"), comment("three"), at(601));
    assert!(matches!(outbox.next(at(601)), Next::Write(_)), "and came");
}

#[test]
fn what_is_refused_for_good_is_tried_once() {
    let mut outbox = outbox();
    outbox.set(status_slot("a"), status("a", "1/3"), at(0));
    end(&mut outbox, at(0), failed(Error::Refused { what: "status".into(), why: "no such commit".into() }));
    outbox.set(status_slot("a"), status("a", "1/3"), at(9));
    assert_eq!(outbox.next(at(9)), Next::Nothing);
    outbox.set(status_slot("a"), status("a", "2/3"), at(9));
    assert!(matches!(outbox.next(at(9)), Next::Write(_)), "other words are worth a try");
}

/// A host says so of what a token may not see: it may be repaired.
#[test]
fn what_cannot_be_seen_is_tried_again_after_a_pause() {
    let mut outbox = outbox();
    outbox.set(status_slot("a"), status("a", "1/3"), at(0));
    end(&mut outbox, at(0), failed(Error::NotFound { what: "status".into() }));
    assert_eq!(outbox.next(at(1)), Next::At(at(600)));
    assert!(matches!(outbox.next(at(600)), Next::Write(_)));
}

#[test]
fn a_comment_that_somebody_deleted_is_written_again() {
    let mut outbox = outbox();
    outbox.set(comment_slot("m"), comment("one"), at(0));
    end(&mut outbox, at(0), stands(7));
    outbox.set(comment_slot("m"), comment("two"), at(0));
    end(&mut outbox, at(0), SendOutcome::Gone);
    let again = write(&outbox, at(0));
    assert_eq!((again.comment, again.unsure, again.content), (None, true, comment("two")));
    end(&mut outbox, at(0), stands(9));
    assert_eq!(outbox.entry(&comment_slot("m")).and_then(|entry| entry.comment), Some(9));
}

#[test]
fn people_are_answered_first_and_comments_come_last() {
    let mut outbox = outbox();
    let reaction = Slot::Reaction { comment: 3, reaction: Reaction::Rocket };
    outbox.set(comment_slot("m"), comment("x"), at(0));
    outbox.set(status_slot("a"), status("a", "x"), at(0));
    outbox.set(reaction.clone(), SlotContent::Reaction, at(0));
    let order: Vec<Slot> = (0..3).map(|_| end(&mut outbox, at(0), stands(1)).slot).collect();
    assert_eq!(order, [reaction, status_slot("a"), comment_slot("m")]);
}

#[test]
fn writes_keep_the_forges_pause() {
    let mut outbox = Outbox::restore([], limits(PAUSE));
    outbox.set(comment_slot("m"), comment("x"), at(0));
    outbox.set(comment_slot("n"), comment("x"), at(0));
    end(&mut outbox, at(0), stands(1));
    assert_eq!(outbox.next(at(0)), Next::At(at(1)));
    end(&mut outbox, at(1), stands(2));
    assert_eq!(outbox.next(at(1)), Next::Nothing);
}

#[test]
fn nothing_is_kept_of_a_reaction_that_stands() {
    let mut outbox = outbox();
    let slot = Slot::Reaction { comment: 3, reaction: Reaction::Rocket };
    outbox.set(slot.clone(), SlotContent::Reaction, at(0));
    end(&mut outbox, at(0), SendOutcome::Stands { comment: None });
    assert_eq!(outbox.entry(&slot), None);
    assert_eq!(outbox.take_changed(), BTreeMap::from([(slot, None)]));
}

#[test]
fn a_forge_that_is_down_for_days_does_not_fill_the_memory() {
    let mut outbox = outbox();
    for position in 0..WAITING_MAX + 10 {
        outbox.set(comment_slot(&position.to_string()), comment("x"), at(0));
    }
    assert_eq!(outbox.waiting(), WAITING_MAX);
    outbox.set(comment_slot("0"), comment("y"), at(0));
    assert_eq!(outbox.waiting(), WAITING_MAX, "what waits already may change");
    let slot = comment_slot("1");
    outbox.release(&slot);
    assert_eq!((outbox.entry(&slot), outbox.waiting()), (None, WAITING_MAX - 1));
}

#[test]
fn a_doubted_comment_is_written_again_though_it_says_the_same() {
    let mut outbox = outbox();
    outbox.set(comment_slot("m"), comment("x"), at(0));
    end(&mut outbox, at(0), stands(7));
    outbox.doubt(&comment_slot("m"));
    outbox.set(comment_slot("m"), comment("x"), at(0));
    assert_eq!(write(&outbox, at(0)).comment, Some(7));
}

#[test]
fn what_a_commits_list_says_already() {
    let SlotContent::Status(wanted) = status("a", "1/3") else { unreachable!("it is one") };
    let with = |change: fn(&mut CommitStatus)| {
        let mut status = wanted.clone();
        change(&mut status);
        status
    };
    let rows = [
        ("nothing", vec![], false),
        ("the same", vec![wanted.clone()], true),
        ("another link", vec![with(|status| status.target_url = Some("x".into()))], true),
        ("another state", vec![with(|status| status.state = StatusState::Failure)], false),
        ("other words", vec![with(|status| status.description = "2/3".into())], false),
        ("another row", vec![with(|status| status.context = "b".into())], false),
    ];
    for (name, found, expected) in rows {
        assert_eq!(is_set_already(&found, &wanted), expected, "{name}");
    }
}

/// Begins everything that may be under way.
fn begin(outbox: &mut Outbox, now: Timestamp) -> Vec<Write> {
    let mut begun = Vec::new();
    while let Next::Write(write) = outbox.next(now) {
        outbox.begins(&write, now);
        begun.push(*write);
    }
    begun
}

#[test]
fn writes_of_different_slots_are_under_way_together_up_to_a_limit() {
    let mut outbox = outbox();
    for name in ["a", "b", "c", "d"] {
        outbox.set(status_slot(name), status(name, "1/3"), at(0));
    }
    let begun = begin(&mut outbox, at(0));
    assert_eq!((begun.len(), outbox.next(at(0))), (WRITES_MAX, Next::Nothing));
    outbox.ended(&begun[1], SendOutcome::Stands { comment: None }, at(0));
    assert_eq!(write(&outbox, at(0)).slot, status_slot("d"));
    assert!(outbox.take_changed().values().flatten().filter(|entry| entry.unsure).count() == WRITES_MAX - 1);
}

#[test]
fn of_one_slot_one_write_is_under_way_and_the_last_content_wins() {
    // what is set while "two" is under way, and what is written after it; "one" stands
    for (changes, after) in [(vec!["one"], Some("one")), (vec!["three", "two"], None), (vec!["three"], Some("three"))] {
        let mut outbox = outbox();
        outbox.set(comment_slot("m"), comment("one"), at(0));
        end(&mut outbox, at(0), stands(7));
        outbox.set(comment_slot("m"), comment("two"), at(0));
        let begun = begin(&mut outbox, at(0));
        for text in &changes {
            outbox.set(comment_slot("m"), comment(text), at(0));
            assert_eq!(outbox.next(at(0)), Next::Nothing, "{changes:?}: it is under way");
        }
        outbox.ended(&begun[0], stands(7), at(0));
        let left = begin(&mut outbox, at(0));
        assert_eq!(left.first().map(|write| &write.content), after.map(comment).as_ref(), "{changes:?}");
    }
}

#[test]
fn writes_that_fail_together_are_one_failure_and_one_alone_tries_again() {
    let mut outbox = outbox();
    for name in ["a", "b", "c"] {
        outbox.set(status_slot(name), status(name, "1/3"), at(0));
    }
    for write in begin(&mut outbox, at(0)) {
        outbox.ended(&write, failed(unreachable()), at(0));
    }
    assert_eq!(outbox.next(at(0)), Next::At(at(1)));
    let probe = begin(&mut outbox, at(1));
    assert_eq!(probe.len(), 1);
    outbox.ended(&probe[0], SendOutcome::Stands { comment: None }, at(1));
    assert_eq!(begin(&mut outbox, at(1)).len(), 2, "it answers again");
}

#[test]
fn a_pause_that_the_forge_wants_outlasts_what_was_under_way() {
    let mut outbox = outbox();
    outbox.set(status_slot("a"), status("a", "1/3"), at(0));
    outbox.set(status_slot("b"), status("b", "1/3"), at(0));
    let begun = begin(&mut outbox, at(0));
    outbox.ended(&begun[0], failed(limited(60)), at(0));
    outbox.ended(&begun[1], SendOutcome::Stands { comment: None }, at(0));
    assert_eq!(outbox.next(at(0)), Next::At(at(60)));
}
