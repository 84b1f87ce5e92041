use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use engine::store::records;
use engine::store::records::DROPPED_KEY;
use engine::store::{Error, MemoryStore, Op, Result, Versioned};
use model::records::{DroppedCommits, JournalEntry};

/// A store that refuses every batch for a while.
#[derive(Default)]
struct Refusing {
    store: MemoryStore,
    refuses: AtomicBool,
}

impl Store for Refusing {
    fn get(&self, key: &str) -> Result<Option<Versioned>> {
        self.store.get(key)
    }

    fn scan_each(&self, prefixes: &[&str], found: &mut dyn FnMut(&str, &[u8], u64) -> bool) -> Result<()> {
        self.store.scan_each(prefixes, found)
    }

    fn batch(&self, ops: Vec<Op>) -> Result<u64> {
        if self.refuses.load(Ordering::SeqCst) {
            return Err(Error::ReadOnly { path: "here".into() });
        }
        self.store.batch(ops)
    }

    fn journal(&self, after: u64, limit: usize) -> Result<Vec<(u64, JournalEntry)>> {
        self.store.journal(after, limit)
    }

    fn journal_back(&self, before: Option<u64>, limit: usize) -> Result<Vec<(u64, JournalEntry)>> {
        self.store.journal_back(before, limit)
    }
}

/// Returns the dropped commits that a store has.
fn kept(store: &Refusing) -> Vec<CommitId> {
    let found = records::load::<DroppedCommits>(store, DROPPED_KEY).unwrap();
    found.map(|record| record.value.commits.into_iter().collect()).unwrap_or_default()
}

/// Waits until the thread has done what was asked before.
fn done(followed: &Followed) {
    let (reply, answer) = oneshot::channel();
    followed.requests.send(SourceRequest::Branch { source: String::new(), reply }).unwrap();
    answer.blocking_recv().unwrap();
}

/// A branch that dropped a commit, which one daemon has accepted.
struct Rewritten {
    dir: TempDir,
    store: Arc<Refusing>,
    lost: CommitId,
    tip: CommitId,
    leader: (Followed, mpsc::Receiver<SourceEvent>),
}

fn rewritten() -> Rewritten {
    let dir = tempfile::tempdir().unwrap();
    let base = repository(&dir, &[("c.yaml", CLUSTER), ("x.yaml", &map("x", "1"))]);
    let (store, repo) = (Arc::new(Refusing::default()), dir.path().join("repo"));
    let mut leader = begin_in(&dir, "one", None, Some(Arc::clone(&store) as Arc<dyn Store>), None);
    let names = [(&base, "base")];
    assert_eq!(told(next(&mut leader.1), &names), "accepted base");
    let lost = commit(&repo, &[("x.yaml", &map("x", "2"))]);
    leader.0.requests.send(SourceRequest::Poll).unwrap();
    assert_eq!(told(next(&mut leader.1), &[(&lost, "lost")]), "accepted lost");
    assert_eq!(kept(&store), [], "the branch has all");
    git(&repo, &["reset", "-q", "--hard", base.as_str()]);
    let tip = commit(&repo, &[("x.yaml", &map("x", "3"))]);
    git(&repo, &["reflog", "expire", "--expire=now", "--all"]);
    git(&repo, &["gc", "-q", "--prune=now"]);
    Rewritten { dir, store, lost, tip, leader }
}

fn poll_until(wanted: &[&str], leader: &mut (Followed, mpsc::Receiver<SourceEvent>), names: &[(&CommitId, &str)]) {
    leader.0.requests.send(SourceRequest::Poll).unwrap();
    let found: Vec<String> = wanted.iter().map(|_| told(next(&mut leader.1), names)).collect();
    assert_eq!(found, wanted);
}

#[test]
fn a_dropped_commit_is_delivered_by_a_daemon_that_never_saw_it() {
    let Rewritten { dir, store, lost, tip, mut leader } = rewritten();
    let names = [(&lost, "lost"), (&tip, "tip")];
    poll_until(&["held tip"], &mut leader, &names);
    assert_eq!(kept(&store), std::slice::from_ref(&lost));
    drop(leader);

    // A follower has fetched the branch before it leads.
    Source::open(spec(&dir), &dir.path().join("two")).unwrap().poll(&AtomicBool::new(false)).unwrap();
    let shared = || Some(Arc::clone(&store) as Arc<dyn Store>);
    let (followed, mut news) = begin_in(&dir, "two", Some(lost.clone()), shared(), None);
    let Some(SourceEvent::Restored(Ok(tree))) = next(&mut news) else { panic!("its accepted commit can be read") };
    assert_eq!((tree.commit.as_ref(), values(&tree)), (Some(&lost), vec!["x=2".to_owned()]));
    assert_eq!(told(next(&mut news), &names), "held tip");

    // What records name stays; what they do not name any more goes.
    let retain = |named: &CommitId| SourceRequest::Retain { named: BTreeSet::from([named.clone()]), at: lost.clone() };
    followed.requests.send(retain(&lost)).unwrap();
    done(&followed);
    assert_eq!(kept(&store), std::slice::from_ref(&lost));
    followed.requests.send(SourceRequest::AcceptRewrite(tip.clone())).unwrap();
    assert_eq!(told(next(&mut news), &names), "accepted tip");
    done(&followed);
    assert_eq!(kept(&store), std::slice::from_ref(&lost), "until records are stored that do not name it");
    followed.requests.send(retain(&tip)).unwrap();
    done(&followed);
    assert_eq!(store.get(DROPPED_KEY).unwrap(), None);
    drop(followed);

    // Without a copy, and without the commit in the store, nobody has it.
    let (_followed, mut news) = begin_in(&dir, "three", Some(lost.clone()), shared(), None);
    assert_eq!(told(next(&mut news), &names), "not restored");
}

#[test]
fn a_daemon_without_a_copy_reads_a_dropped_commit_once_it_has_fetched() {
    let Rewritten { dir, store, lost, tip, mut leader } = rewritten();
    let names = [(&lost, "lost"), (&tip, "tip")];
    poll_until(&["held tip"], &mut leader, &names);
    drop(leader);
    let (_followed, mut news) = begin_in(&dir, "two", Some(lost.clone()), Some(store as Arc<dyn Store>), None);
    let found: Vec<String> = (0..3).map(|_| told(next(&mut news), &names)).collect();
    assert_eq!(found, ["not restored", "held tip", "restored lost"]);
}

#[test]
fn what_cannot_be_stored_is_at_risk_and_tried_again() {
    let Rewritten { dir: _dir, store, lost, tip, mut leader } = rewritten();
    let names = [(&lost, "lost"), (&tip, "tip")];
    store.refuses.store(true, Ordering::SeqCst);
    poll_until(&["at risk: true", "held tip"], &mut leader, &names);
    assert_eq!(kept(&store), []);
    store.refuses.store(false, Ordering::SeqCst);
    poll_until(&["at risk: false"], &mut leader, &names);
    assert_eq!(kept(&store), [lost]);
}
