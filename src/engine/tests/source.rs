//! What the journal says of commits that are not accepted.

use super::*;
use model::journal::JournalKind;
use model::manifest::InputError;
use model::records::JournalEntry;

fn error(message: &str) -> InputError {
    let path = "placements/shop.yaml".to_owned();
    InputError { path, line: 13, object: None, field: None, message: message.to_owned(), hint: None }
}

fn refused(commit: &str) -> SourceEvent {
    SourceEvent::Refused(CommitId::new(commit), vec![error("is wrong"), error("is wrong, too")])
}

/// Returns the entries about commits, with their facts.
pub(super) fn entries(store: &MemoryStore) -> Vec<String> {
    let entries = store.journal(0, 100).expect("it can be read").into_iter().map(|(_, entry)| entry);
    let of_source = |entry: &JournalEntry| matches!(entry.event, JournalKind::CommitRefused | JournalKind::CommitHeld);
    let text = |entry: JournalEntry| {
        assert!(entry.event.documents(&entry.facts), "{}", entry.facts);
        format!("{} {} {}", entry.event, entry.facts["commit"], entry.facts["message"])
    };
    entries.filter(of_source).map(text).collect()
}

#[test]
fn a_commit_that_is_not_accepted_is_in_the_journal_once() {
    let mut life = Life::with(&[]);
    life.handle(SourceEvent::Accepted(commit("1", "")));
    life.handle(refused("bad"));
    let batch = life.core.decide(life.now).expect("there is something to store");
    life.core.refused(batch, life.now);
    life.wait(STORE_RETRY);
    let first = "CommitRefused \"bad\" \"placements/shop.yaml:13: is wrong\"";
    assert_eq!(entries(&life.store), [first], "also after the store refused it");
    life.handle(refused("bad"));
    life.settle();
    // The next process accepts what was accepted, and then refuses the newest commit again.
    let mut life = Life::begin(life.store, life.now);
    life.handle(SourceEvent::Restored(Ok(commit("1", ""))));
    life.settle();
    life.handle(refused("bad"));
    life.settle();
    assert_eq!(entries(&life.store), [first]);

    life.handle(refused("worse"));
    life.settle();
    life.handle(SourceEvent::Unchanged);
    life.settle();
    life.handle(refused("worse"));
    life.settle();
    life.handle(SourceEvent::Rewritten(CommitId::new("other")));
    life.settle();
    life.handle(SourceEvent::Switched(CommitId::new("third"), "branch x is checked out".to_owned()));
    life.settle();
    let found = entries(&life.store);
    let commits: Vec<&str> = found.iter().filter_map(|text| text.split('"').nth(1)).collect();
    assert_eq!(commits, ["bad", "worse", "worse", "other", "third"], "again after it was taken back: {found:?}");
    assert_eq!(
        found[3..],
        ["CommitHeld \"other\" \"history was rewritten\"", "CommitHeld \"third\" \"branch x is checked out\"",]
    );
}
