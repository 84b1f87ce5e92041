//! Several sources: what is known of each, and of all together.

use super::source::entries;
use super::*;
use model::manifest::InputError;
use model::tree::JoinedSource;

const TEXT: &str = "apiVersion: gitfleet.io/v1alpha1\nkind: Configuration\n\
    sources: [{name: one, url: /one, branch: main}, {name: two, url: /two, branch: main}]\n\
    members: [{name: '*', directory: '/out/{name}'}]\nstore: {path: /state}\n";

fn begin(store: MemoryStore, text: &str) -> Life {
    let configuration = Configuration::parse(text, Path::new("/"), &BTreeMap::new()).expect("it has no errors");
    let now = Timestamp::UNIX_EPOCH;
    let (core, effects) = Core::begin(configuration, SavedRecords::read(&store).expect("it can be read"), now);
    Life { core, store, now, effects }
}

fn joined(one: &str, two: &str) -> SourceEvent {
    let source = |name: &str, commit: &str| JoinedSource { name: name.into(), commit: CommitId::new(commit) };
    let mut joined = Tree::clone(&commit(one, ""));
    joined.sources = vec![source("one", one), source("two", two)];
    SourceEvent::Accepted(Arc::new(joined))
}

fn of(name: &str, news: SourceEvent) -> SourceEvent {
    SourceEvent::Of(name.to_owned(), Box::new(news))
}

fn refused(name: &str, commit: &str) -> SourceEvent {
    let path = format!("{name}/x.yaml");
    let error = InputError { path, line: 1, object: None, field: None, message: "is wrong".to_owned(), hint: None };
    of(name, SourceEvent::Refused(CommitId::new(commit), vec![error]))
}

/// Returns what the record says of all sources: the newest commit, errors, failure.
fn summary(life: &Life) -> (String, usize, String) {
    let source = life.core.source();
    let seen = source.seen.as_ref().map(ToString::to_string).unwrap_or_default();
    (seen, source.refused.len(), source.failure.clone().unwrap_or_default())
}

#[test]
fn what_one_source_is_refused_for_stays_while_another_is_accepted() {
    let mut life = begin(MemoryStore::new(), TEXT);
    life.handle(joined("1", "a"));
    life.settle();
    let accepted = life.core.accepted().cloned().expect("a commit is accepted");
    assert_eq!(summary(&life), (accepted.to_string(), 0, String::new()));
    life.handle(refused("two", "b"));
    life.settle();
    assert_eq!(summary(&life), ("b".to_owned(), 1, String::new()));
    life.handle(joined("2", "a"));
    life.handle(refused("two", "b"));
    life.settle();
    assert_eq!(summary(&life), ("b".to_owned(), 1, String::new()));
    assert_eq!(entries(&life.store), ["CommitRefused \"b\" \"two/x.yaml:1: is wrong\""], "the journal has it once");
    assert_eq!(life.core.source().sources["one"].accepted, Some(CommitId::new("2")));
    // The next process knows each.
    let mut life = begin(life.store, TEXT);
    assert_eq!(life.core.source().sources["two"].accepted, Some(CommitId::new("a")));
    assert_eq!(life.core.source().sources["two"].refused.len(), 1);
    life.handle(joined("2", "c"));
    life.settle();
    assert_eq!(summary(&life).1, 0);
    // A source that is listed no more is forgotten.
    let text = TEXT.replace(", {name: two, url: /two, branch: main}", "");
    let life = begin(life.store, &text);
    assert_eq!(life.core.source().sources.keys().collect::<Vec<_>>(), ["one"]);
}

#[test]
fn a_source_that_cannot_be_read_holds_nothing_of_the_others_back() {
    let mut life = begin(MemoryStore::new(), TEXT);
    life.handle(of("two", SourceEvent::Failed("no answer".to_owned())));
    life.handle(joined("1", "a"));
    life.handle(of("one", SourceEvent::Unchanged));
    life.online(BTreeSet::new());
    life.settle();
    assert!(life.order(&p()).is_some(), "its objects are delivered");
    life.handle(of("two", SourceEvent::Failed("no answer".to_owned())));
    life.handle(of("one", SourceEvent::Failed("moved".to_owned())));
    assert_eq!(summary(&life).2, "one: moved; two: no answer");
    life.handle(of("one", SourceEvent::Readable));
    life.handle(of("two", SourceEvent::Unchanged));
    assert_eq!(summary(&life).2, "");
}

#[test]
fn the_rewritten_history_of_one_source_waits_by_its_name() {
    let mut life = begin(MemoryStore::new(), TEXT);
    life.handle(joined("1", "a"));
    life.handle(of("two", SourceEvent::Rewritten(CommitId::new("b"))));
    life.settle();
    let source = life.core.source();
    assert_eq!(source.held_rewrite, Some(CommitId::new("b")));
    assert_eq!(source.held_why.as_deref(), Some("source two: history was rewritten"));
    life.handle(joined("1", "b"));
    assert_eq!(life.core.source().held_rewrite, None);
}
