use std::collections::BTreeMap;

use super::*;
use crate::commit_rollout::{Shown, Thread};
use model::id::{CommitId, Digest};
use model::progress::StageProgress;

const COMMIT: &str = "abc1234def5678abc1234def5678abc1234def56";
const THREAD: ThreadNumber = 7;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(100_000 + seconds).expect("a test's instant is one")
}

fn me() -> ForgeUser {
    ForgeUser { id: 1, login: "gitfleet".into(), is_bot: false }
}

fn comment(body: &str) -> Comment {
    Comment {
        id: 3,
        thread: THREAD,
        author: ForgeUser { id: 2, login: "ann".into(), is_bot: false },
        body: body.into(),
        created_at: at(0),
        updated_at: at(0),
        via_app: false,
        url: String::new(),
    }
}

#[test]
fn whose_words_count() {
    type Change = fn(&mut Comment);
    // name, comment, what is done to it, when it is read, what comes of it
    let rows: [(&str, &str, Change, i64, &str); 13] = [
        ("a command", "/approve one", |_| {}, 5, "command"),
        ("our own", "/approve one", |c| c.author = me(), 5, "ignored"),
        ("our own, renamed", "/approve one", |c| c.author.id = 1, 5, "ignored"),
        ("another who took our name", "/approve one", |c| c.author.login = "gitfleet".into(), 5, "command"),
        ("a bot's", "/approve one", |c| c.author.is_bot = true, 5, "ignored"),
        ("an app's in ann's name", "/approve one", |c| c.via_app = true, 5, "ignored"),
        ("a day old", "/approve one", |_| {}, 24 * 3600, "command"),
        ("older", "/approve one", |_| {}, 24 * 3600 + 1, "ignored"),
        ("touched by the host", "/approve one", |c| c.updated_at = at(2), 5, "command"),
        ("edited", "/approve one", |c| c.updated_at = at(3), 5, "answered: edited"),
        ("edited, and no command", "hello", |c| c.updated_at = at(60), 90, "ignored"),
        ("a mistake", "/approve one sha=xyz", |_| {}, 5, "answered: "),
        ("an edited mistake", "/approve one sha=xyz", |c| c.updated_at = at(3), 5, "answered: edited"),
    ];
    for (name, body, change, read_at, wanted) in rows {
        let mut said = comment(body);
        change(&mut said);
        let found = verdict(&said, &me(), true, at(read_at));
        match (&found, wanted) {
            (CommentVerdict::Commands(all), "command") => assert_eq!(all.len(), 1, "{name}"),
            (CommentVerdict::Ignore(_), "ignored") => {}
            (CommentVerdict::Answer(answer), wanted) if wanted.starts_with("answered: ") => {
                assert!(answer.why.contains(&wanted["answered: ".len()..]), "{name}: {}", answer.why);
            }
            _ => panic!("{name}: {found:?}"),
        }
    }
}

fn gate(stage: &str, digest: &str) -> GateProgress {
    GateProgress {
        stage: stage.into(),
        digest: Digest::new(digest),
        since: at(0),
        given: 0,
        required: 1,
        approvers: None,
        owners: vec![],
        what: vec![],
    }
}

fn way(name: &str, state: ProgressState, waits: Option<&str>) -> Progress {
    let at_gate = |name_of: &str| StageProgress {
        name: name_of.into(),
        state: ProgressState::WaitingForPerson,
        message: String::new(),
        done: 1,
        total: 1,
        started_at: None,
        ended_at: None,
        gate: Some(gate(name_of, &format!("digest-{name}-{name_of}"))),
        approved_by: vec![],
        clusters: vec![],
    };
    Progress {
        placement: PlacementKey::cluster_scoped(name),
        snapshot: Some(1),
        commit: Some(CommitId::new(COMMIT)),
        run: Some(format!("{name}-1")),
        state,
        message: String::new(),
        done: 0,
        total: 1,
        stages: waits.map(at_gate).into_iter().collect(),
        clusters: vec![],
        deletions: None,
    }
}

/// A rollout told in [`THREAD`], and pointed to from 8; every gate was shown at 0.
fn rollout(ways: Vec<Progress>) -> CommitRollout {
    let mut rollout = CommitRollout {
        commit: CommitId::new(COMMIT),
        from: None,
        tree: None,
        subject: String::new(),
        trouble: None,
        placements: ways.into_iter().map(|way| (way.placement.clone(), way)).collect::<BTreeMap<_, _>>(),
        thread: Some(Thread { number: THREAD, is_issue: false }),
        also: [8].into(),
        lookups: 0,
        began_at: at(0),
        shown: vec![],
        asked: vec![],
        notices: vec![],
        reviewed: [].into(),
        url: None,
        help: false,
        read_until: BTreeMap::new(),
        ended_at: None,
    };
    rollout.note_shown(&rollout.waiting_gates(), at(0));
    rollout
}

fn waiting() -> CommitRollout {
    rollout(vec![way("web", ProgressState::WaitingForPerson, Some("canary"))])
}

/// Two placements that wait at a stage of the same name.
fn both() -> CommitRollout {
    rollout(vec![
        way("api", ProgressState::WaitingForPerson, Some("canary")),
        way("web", ProgressState::WaitingForPerson, Some("canary")),
    ])
}

/// Says what a line means: commands as `verb target [stage] [@digest] [to=]`, or why not and what to copy.
fn says(rollout: &CommitRollout, thread: ThreadNumber, line: &str, said_at: Timestamp) -> String {
    let Chat::Commands(chats) = parse(line, "gitfleet", true) else { panic!("{line} is no command") };
    match meaning(rollout, thread, &chats[0], said_at, "/") {
        Ok(all) => all.iter().map(words).collect::<Vec<_>>().join("; "),
        Err(Answer { why, lines, .. }) => lines.iter().fold(format!("no: {why}"), |text, line| text + " | " + line),
    }
}

fn words(meaning: &Meaning) -> String {
    let Meaning::Do(command) = meaning else { return format!("{meaning:?}") };
    let part =
        |mark: &str, text: &Option<String>| text.as_ref().map_or_else(String::new, |text| format!(" {mark}{text}"));
    format!(
        "{} {}{}{}{}{}",
        command.verb,
        command.target,
        part("", &command.stage),
        part("@", &command.digest),
        part("to=", &command.to_commit),
        part("-- ", &command.message)
    )
}

#[test]
fn what_lines_mean() {
    use ProgressState::{Done, Failed, Moving, Superseded, WaitingForPerson};
    let moving = || rollout(vec![way("api", Done, None), way("web", Moving, None)]);
    let failed = || rollout(vec![way("web", Failed, None)]);
    let ended = || CommitRollout { ended_at: Some(at(0)), ..rollout(vec![way("web", Done, None)]) };
    let superseded = || CommitRollout {
        ended_at: Some(at(0)),
        ..rollout(vec![way("web", Superseded { by: CommitId::new("fedcba9876") }, None)])
    };
    let deleting = || {
        let mut way = Progress { run: None, ..way("web", WaitingForPerson, None) };
        way.deletions = Some(gate("deletion", "digest-deletion"));
        rollout(vec![way])
    };
    let rewritten = || CommitRollout { trouble: Some(Trouble::Rewritten), ..rollout(vec![]) };
    let line = "| /approve canary placement=web sha=abc1234";
    let rows: Vec<(CommitRollout, ThreadNumber, &str, &str)> = vec![
        (waiting(), 7, "/approve canary", "approve crp/web canary @digest-web-canary"),
        (waiting(), 7, "/approve canary sha=abc1234", "approve crp/web canary @digest-web-canary"),
        (waiting(), 7, "/approve --all", "approve crp/web canary @digest-web-canary"),
        (waiting(), 7, "/reject canary -- too soon", "reject crp/web canary @digest-web-canary -- too soon"),
        (waiting(), 7, "/approve", "no: approve needs a stage; what waits: LINE"),
        (waiting(), 7, "/approve prod", "no: stage prod needs no approval; pending: LINE"),
        (waiting(), 7, "/approve canary sha=fff1234", "no: this conversation is about commit abc1234, not fff1234"),
        (waiting(), 7, "/pause sha=fff1234", "no: this conversation is about commit abc1234, not fff1234"),
        (waiting(), 8, "/approve canary", "no: this change is rolled out together with #7; write the command there"),
        (waiting(), 8, "/status", "Status"),
        (waiting(), 7, "/help", "Help"),
        (waiting(), 7, "/approve canary placement=web", "approve crp/web canary @digest-web-canary"),
        (waiting(), 7, "/approve canary placement=db", "no: no placement db is rolled out here; there is web"),
        (deleting(), 7, "/approve deletion", "approve crp/web deletion @digest-deletion"),
        (deleting(), 7, "/approve canary", "no: stage canary needs no approval; pending:"),
        (moving(), 7, "/approve canary", "no: nothing waits for an approval here"),
        (moving(), 7, "/pause -- lunch", "pause crp/web -- lunch"),
        (moving(), 7, "/resume", "resume crp/web"),
        (moving(), 7, "/pause placement=api", "no: nothing here is left to pause"),
        (moving(), 7, "/rollback", "no: more than one placement is rolled out here; name one"),
        (moving(), 7, "/rollback placement=web", "rollback crp/web"),
        (moving(), 7, "/rollback placement=api to=1234567", "rollback crp/api to=1234567"),
        (failed(), 7, "/retry", "retry crp/web"),
        (
            failed(),
            7,
            "/retry canary",
            "no: retry is about a whole placement: leave canary out, or write placement=canary",
        ),
        (failed(), 7, "/retry cluster=north", "no: one cluster alone cannot be tried again"),
        (ended(), 7, "/approve canary", "no: this rollout is over"),
        (ended(), 7, "/retry", "no: this rollout is over"),
        (ended(), 7, "/rollback", "rollback crp/web"),
        (
            superseded(),
            7,
            "/approve canary",
            "no: this rollout was superseded by commit fedcba9; its gates are listed there",
        ),
        (superseded(), 7, "/rollback", "no: this rollout was superseded by commit fedcba9"),
        (superseded(), 7, "/retry", "no: this rollout was superseded by commit fedcba9"),
        (rewritten(), 7, "/resume", "resume "),
        (rewritten(), 7, "/resume sha=fff1234", "no: this conversation is about commit abc1234, not fff1234"),
        (rewritten(), 7, "/pause", "no: nothing here is left to pause"),
    ];
    for (rollout, thread, said, wanted) in rows {
        means(&rollout, thread, said, &wanted.replace("LINE", line));
    }
}

fn means(rollout: &CommitRollout, thread: ThreadNumber, said: &str, wanted: &str) {
    let got = says(rollout, thread, said, at(60));
    assert!(got.starts_with(wanted), "{said}: {got}");
    if !wanted.starts_with("no: ") {
        assert_eq!(got, wanted, "{said}");
    }
}

#[test]
fn what_lines_mean_where_several_placements_wait() {
    let deleting_both = || {
        let all = ["api", "web"].map(|name| Progress {
            deletions: Some(gate("deletion", "digest-deletion")),
            ..way(name, ProgressState::WaitingForPerson, None)
        });
        rollout(all.into())
    };
    let line = "| /approve canary placement=web sha=abc1234";
    let rows: Vec<(CommitRollout, ThreadNumber, &str, &str)> = vec![
        (
            both(),
            7,
            "/approve canary",
            "no: 2 placements wait at stage canary; write the first line to approve it for all of them, or one of the others: \
             | /approve canary sha=abc1234 | /approve canary placement=api sha=abc1234 LINE",
        ),
        (
            both(),
            7,
            "/approve canary sha=abc1234",
            "approve crp/api canary @digest-api-canary; approve crp/web canary @digest-web-canary",
        ),
        (
            both(),
            7,
            "/reject canary sha=abc1234 -- no",
            "reject crp/api canary @digest-api-canary -- no; reject crp/web canary @digest-web-canary -- no",
        ),
        (
            deleting_both(),
            7,
            "/approve deletion sha=abc1234",
            "no: deletions wait in more than one placement, and each is named by itself; write one of these: \
             | /approve deletion placement=api sha=abc1234 | /approve deletion placement=web sha=abc1234",
        ),
        (both(), 7, "/approve canary placement=api", "approve crp/api canary @digest-api-canary"),
        (
            both(),
            7,
            "/approve --all",
            "approve crp/api canary @digest-api-canary; approve crp/web canary @digest-web-canary",
        ),
    ];
    for (rollout, thread, said, wanted) in rows {
        means(&rollout, thread, said, &wanted.replace("LINE", line));
    }
}

#[test]
fn j2_what_is_offered_is_accepted_where_two_placements_have_one_name() {
    let twins = |state: ProgressState, waits: Option<&str>| {
        let namespaced =
            Progress { placement: PlacementKey::namespaced("team", "duo"), ..way("duo", state.clone(), waits) };
        rollout(vec![way("duo", state, waits), namespaced])
    };
    let waiting = twins(ProgressState::WaitingForPerson, Some("canary"));
    let deleting = {
        let mut rollout = twins(ProgressState::WaitingForPerson, None);
        for progress in rollout.placements.values_mut() {
            progress.deletions = Some(gate("deletion", "digest-deletion"));
        }
        rollout.note_shown(&rollout.waiting_gates(), at(0));
        rollout
    };
    let done = twins(ProgressState::Done, None);
    // what is written, the targets of the lines that are offered
    let rows = [
        (&waiting, "/approve canary", vec!["crp/duo canary", "rp/team/duo canary"]),
        (&deleting, "/approve deletion", vec!["crp/duo deletion", "rp/team/duo deletion"]),
        (&done, "/rollback", vec!["crp/duo", "rp/team/duo"]),
    ];
    for (rollout, said, targets) in rows {
        let refused = says(rollout, THREAD, said, at(60));
        let lines: Vec<&str> = refused.split(" | ").skip(1).filter(|line| line.contains("placement=")).collect();
        assert_eq!(lines.len(), 2, "{refused}");
        for (line, target) in lines.iter().zip(targets) {
            let meant = says(rollout, THREAD, line, at(60));
            assert!(meant.split_once(' ').is_some_and(|(_, meant)| meant.starts_with(target)), "{line}: {meant}");
        }
    }
    for (word, target) in [("crp/duo", "crp/duo"), ("rp/team/duo", "rp/team/duo"), ("duo", "crp/duo")] {
        assert_eq!(says(&done, THREAD, &format!("/rollback placement={word}"), at(60)), format!("rollback {target}"));
    }
}

#[test]
fn a_mistyped_answer_to_a_gate_gets_the_lines_for_what_waits() {
    let Chat::Mistake(why) = parse("/approve web-1 canary", "gitfleet", true) else { panic!("it is one") };
    assert_eq!(waiting_lines(&waiting(), &why, "/"), ["/approve canary placement=web sha=abc1234"]);
    let Chat::Mistake(why) = parse("/retry sha=x", "gitfleet", true) else { panic!("it is one") };
    assert!(waiting_lines(&waiting(), &why, "/").is_empty());
}

#[test]
fn an_approval_is_of_what_its_author_saw() {
    let gate = |digest: &str, from: i64| Shown {
        placement: PlacementKey::cluster_scoped("web"),
        stage: "canary".into(),
        digest: Digest::new(digest),
        since: Some(at(0)),
        from: at(from),
    };
    let now = "digest-web-canary";
    let other_stage = Shown { stage: "other".into(), ..gate("x", 0) };
    // name, what was shown when, when it was said, how the answer begins; whether naming the commit helps
    let rows = [
        ("shown before", vec![gate(now, 0)], 10, "approve", true),
        ("in the same second", vec![gate(now, 10)], 10, "approve", true),
        ("shown after", vec![gate(now, 11)], 10, "no: what waits was not shown yet", false),
        ("never shown", vec![], 10, "no: what waits was not shown yet", false),
        ("another stage changed", vec![other_stage, gate(now, 9)], 10, "approve", true),
        ("changed long before", vec![gate("old", 0), gate(now, 10)], 41, "approve", true),
        (
            "changed just before",
            vec![gate("old", 0), gate(now, 10)],
            40,
            "no: what waits changed while you wrote",
            true,
        ),
        ("changed after", vec![gate("old", 0), gate(now, 50)], 40, "no: what waits changed while you wrote", false),
        ("the new is not shown yet", vec![gate("old", 0)], 40, "no: what waits was not shown yet", false),
    ];
    for (name, shown, said_at, wanted, helps) in rows {
        let rollout = CommitRollout { shown, ..waiting() };
        let got = says(&rollout, THREAD, "/approve canary", at(said_at));
        assert!(got.starts_with(wanted), "{name}: {got}");
        if wanted.starts_with("no") {
            assert!(got.ends_with("| /approve canary placement=web sha=abc1234"), "{name}: {got}");
        }
        let named = says(&rollout, THREAD, "/approve canary sha=abc1234", at(said_at));
        assert_eq!(named.starts_with("approve "), helps, "{name}: who names the commit has looked: {named}");
    }
}

#[test]
fn all_that_wait_at_a_stage_are_those_that_could_be_seen() {
    let mut rollout = both();
    rollout.shown.retain(|shown| shown.placement.name == "api");
    let line = "/approve canary sha=abc1234";
    assert_eq!(says(&rollout, THREAD, line, at(60)), "approve crp/api canary @digest-api-canary");
    rollout.shown.clear();
    let got = says(&rollout, THREAD, line, at(60));
    assert!(got.starts_with("no: what waits was not shown yet"), "{got}");
}

#[test]
fn a_word_for_one_gate_is_none_for_the_next_with_the_same_content() {
    let mut rollout = rollout(vec![way("web", ProgressState::WaitingForPerson, Some("one"))]);
    let approve = ChatCommand { stage: Some("one".into()), ..parsed("/approve one") };
    assert!(meaning(&rollout, THREAD, &approve, at(1), "/").is_ok());
    // The same digest waits on the other side of the stage, or in the next run.
    let waiting = rollout.placements.values_mut().next().expect("there is one");
    waiting.stages[0].gate.as_mut().expect("it waits").since = at(60);
    assert!(rollout.has_unshown());
    assert!(meaning(&rollout, THREAD, &approve, at(1), "/").is_err());
    rollout.note_shown(&rollout.waiting_gates(), at(61));
    assert!(!rollout.has_unshown());
    assert!(meaning(&rollout, THREAD, &approve, at(1), "/").is_err());
    assert!(meaning(&rollout, THREAD, &approve, at(62), "/").is_ok());
}

fn parsed(line: &str) -> ChatCommand {
    match parse(line, "gitfleet", true) {
        Chat::Commands(mut all) if all.len() == 1 => all.remove(0),
        other => panic!("{other:?}"),
    }
}
