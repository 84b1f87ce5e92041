use super::*;
use model::id::PlacementKey;

const COMMIT: &str = "433feff0000000000000000000000000000000000";
const DIGEST: &str = "e02da7e57359000000000000";

/// Returns an entry about a placement, or about none.
fn entry(event: JournalKind, placement: &str, facts: Value) -> JournalEntry {
    assert!(event.documents(&facts), "{facts}");
    let placement = Some(placement).filter(|name| !name.is_empty()).map(|name| match name.split_once('/') {
        Some((namespace, name)) => PlacementKey::namespaced(namespace, name),
        None => PlacementKey::cluster_scoped(name),
    });
    let at = Timestamp::from_millisecond(1_700_000_000_123).expect("it is an instant");
    JournalEntry { at, event, placement, cluster: None, facts }
}

fn told(entry: &JournalEntry) -> Option<(NotificationKind, CloudEvent)> {
    notification(7, entry, "https://git.example/fleet.git#main:.")
}

fn request() -> JournalEntry {
    let facts = json!({
        "run": "web-0", "stage": "staging", "snapshot": 0, "commit": COMMIT, "digest": DIGEST, "message": "web-0-after-staging",
    });
    entry(JournalKind::ApprovalRequested, "web", facts)
}

#[test]
fn each_entry_that_is_told_has_a_sentence_and_what_to_run() {
    let at_5 = |more: Value| {
        let mut facts = json!({"snapshot": 5, "commit": COMMIT});
        facts.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        facts
    };
    let table = [
        (
            request(),
            "GateWaiting web",
            "web waits for an approval: snapshot 0 (commit 433feff), stage staging of run web-0, digest e02da7e57359",
            "gitfleet approve crp/web staging --digest e02da7e57359",
        ),
        (
            JournalEntry { placement: Some(PlacementKey::namespaced("shop", "api")), ..request() },
            "GateWaiting shop/api",
            "shop/api waits for an approval: snapshot 0 (commit 433feff), stage staging of run shop/web-0, digest e02da7e57359",
            "gitfleet approve rp/shop/api staging --digest e02da7e57359",
        ),
        (
            entry(JournalKind::DeletionsHeld, "web", json!({"digest": DIGEST, "message": "the placement is removed"})),
            "GateWaiting web",
            "web waits for an approval of deletions: the placement is removed",
            "gitfleet approve crp/web deletion",
        ),
        (
            entry(JournalKind::RolloutHalted, "web", at_5(json!({"run": null, "message": "1 cluster failed"}))),
            "RolloutHalted web",
            "the rollout of web halted at snapshot 5 (commit 433feff): 1 cluster failed",
            "gitfleet retry crp/web",
        ),
        (
            entry(
                JournalKind::RolledBack,
                "web",
                json!({"from": 5, "commit": COMMIT, "to": 4, "why": "ann rolled back"}),
            ),
            "RolledBack web",
            "web returns from snapshot 5 (commit 433feff) to snapshot 4: ann rolled back",
            "",
        ),
        (
            entry(JournalKind::RolloutSucceeded, "web", at_5(json!({}))),
            "RolloutDone web",
            "web is rolled out: snapshot 5 (commit 433feff) is available on all its clusters",
            "",
        ),
        (
            entry(
                JournalKind::CommitRefused,
                "",
                json!({"commit": COMMIT, "errors": 3, "message": "shop.yaml:13: is wrong"}),
            ),
            "CommitRefused 433feff0000000000000000000000000000000000",
            "commit 433feff is refused, the last good one stays accepted: shop.yaml:13: is wrong; and 2 more",
            "",
        ),
        (
            entry(JournalKind::CommitHeld, "", json!({"commit": COMMIT, "message": "history was rewritten"})),
            "CommitHeld 433feff0000000000000000000000000000000000",
            "commit 433feff waits until a person accepts it: history was rewritten",
            "gitfleet resume",
        ),
        // What an older version wrote.
        (
            entry(JournalKind::RolledBack, "web", json!({"to": 4, "why": "ann rolled back"})),
            "RolledBack web",
            "web returns from its snapshot to snapshot 4: ann rolled back",
            "",
        ),
    ];
    for (entry, subject, message, command) in table {
        let (kind, event) = told(&entry).expect("it is told");
        assert_eq!(format!("{kind:?} {}", event.subject), subject);
        assert_eq!(event.data.message, message);
        assert_eq!(event.data.command.unwrap_or_default(), command, "{message}");
        assert_eq!(event.type_, kind.event_type());
    }
}

#[test]
fn other_entries_are_told_to_nobody() {
    for known in JournalKind::ALL {
        let is_told = told(&entry(known.value.clone(), "web", Value::Null)).is_some();
        let reports = matches!(known.section, "How rollouts stand" | "The source");
        let others = [JournalKind::ApprovalRequested, JournalKind::RolledBack];
        assert_eq!(is_told, reports || others.contains(&known.value), "{}", known.value);
    }
}

#[test]
fn an_event_is_the_same_each_time_and_different_from_others() {
    let (_, event) = told(&request()).expect("it is told");
    assert_eq!(told(&request()).map(|(_, again)| again), Some(event.clone()));
    assert_eq!(
        json!(event),
        json!({
            "specversion": "1.0",
            "id": "1700000000123-7",
            "source": "/gitfleet/https%3A%2F%2Fgit.example%2Ffleet.git%23main%3A.",
            "type": "io.gitfleet.gate.waiting.v1",
            "subject": "web",
            "time": "2023-11-14T22:13:20.123Z",
            "datacontenttype": "application/json",
            "data": {
                "message": event.data.message,
                "source": "https://git.example/fleet.git#main:.",
                "placement": "web",
                "run": "web-0",
                "stage": "staging",
                "snapshot": 0,
                "commit": COMMIT,
                "digest": DIGEST,
                "command": "gitfleet approve crp/web staging --digest e02da7e57359",
            },
        })
    );
    let ids = [
        notification(8, &request(), "s"),
        notification(7, &JournalEntry { at: Timestamp::UNIX_EPOCH, ..request() }, "s"),
    ];
    assert!(ids.into_iter().flatten().all(|(_, other)| other.id != event.id));
}

#[test]
fn a_template_gives_the_message_and_nothing_that_the_text_makes_up() {
    let hostile = json!({"snapshot": 1, "commit": COMMIT, "message": "<!channel> [x](https://y) & `z`\nweb is fine"});
    let (_, event) = told(&entry(JournalKind::RolloutHalted, "web", hostile)).expect("it is told");
    let message =
        "the rollout of web halted at snapshot 1 (commit 433feff): <!channel> [x](https://y) & `z`\\nweb is fine";
    let card = |text: &str, font: &str| json!({"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": text, "fontType": font}]});
    let table = [
        (NotificationTemplate::CloudEvents, "application/cloudevents+json; charset=utf-8", json!(event).to_string()),
        (
            NotificationTemplate::Slack,
            "application/json",
            json!({"text": "the rollout of web halted at snapshot 1 (commit 433feff): &lt;!channel&gt; [x](https://y) &amp; `z`\\nweb is fine\n`gitfleet retry crp/web`"})
                .to_string(),
        ),
        (
            NotificationTemplate::Teams,
            "application/json",
            json!({"type": "message", "attachments": [{
                "contentType": "application/vnd.microsoft.card.adaptive",
                "content": {
                    "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                    "type": "AdaptiveCard", "version": "1.2",
                    "body": [card(message, "Default"), card("gitfleet retry crp/web", "Monospace")],
                },
            }]})
            .to_string(),
        ),
        (NotificationTemplate::Plain, "text/plain; charset=utf-8", format!("{message}\ngitfleet retry crp/web\n")),
    ];
    for (template, content_type, text) in table {
        assert_eq!(body(template, &event), NotificationBody { content_type, text }, "{template:?}");
    }
}

#[test]
fn a_message_has_an_end() {
    let facts = json!({"commit": COMMIT, "errors": 1, "message": "x".repeat(100_000)});
    let (_, event) = told(&entry(JournalKind::CommitRefused, "", facts)).expect("it is told");
    assert_eq!(event.data.message.chars().count(), MESSAGE_CHARS_MAX);
}
