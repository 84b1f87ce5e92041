use super::*;
use engine::store::MemoryStore;
use model::id::Digest;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).expect("a test's instant is one")
}

fn said(author: u64) -> Said {
    Said { author, body: Digest::new("d") }
}

fn push(number: usize, by: u64) -> Pushed {
    let by = ForgeUser { id: by, login: "ann".into(), is_bot: false };
    Pushed { commit: CommitId::new(format!("{number:040x}")), by }
}

#[test]
fn what_deliveries_told_is_kept_and_bounded() {
    let store = MemoryStore::new();
    let mut known = Deliveries::read(&MemoryStore::new(), RecordPlace::of("")).expect("it is read");
    known.take_comment(7, 1, said(2), at(0));
    known.take_comment(8, 1, said(3), at(1));
    assert_eq!(known.comment(1).map(|known| (known.thread, known.said.author)), Some((7, 2)), "the first counts");
    known.take_push(push(1, 2), at(0));
    known.take_push(push(1, 3), at(0));
    store.batch(known.take_changed().into_iter().map(|op| op.expect("it is written")).collect()).expect("it is kept");
    assert!(known.take_changed().is_empty());
    let mut known = Deliveries::read(&store, RecordPlace::of("")).expect("it is read");
    assert_eq!(known.comment(1).map(|known| known.thread), Some(7));
    let commits = [CommitId::new(format!("{:040x}", 1))].into();
    assert_eq!(known.pushers(&commits).map(|by| by.id).collect::<Vec<_>>(), [2, 3]);

    known.forget(at(24 * 3600 + 2));
    assert!(known.comment(1).is_none() && known.pushers(&commits).count() == 2);
    known.forget(at(24 * 3600 * 91));
    assert_eq!(known.pushers(&commits).count(), 0);
    store.batch(known.take_changed().into_iter().map(|op| op.expect("it is written")).collect()).expect("it is kept");
    assert!(Deliveries::read(&store, RecordPlace::of("")).expect("it is read").pushes.is_empty());

    for number in 0..=COMMENTS_MAX {
        known.take_comment(7, number as u64, said(2), at(i64::try_from(number).expect("it is small")));
        known.take_push(push(number, 2), at(0));
    }
    known.forget(at(20_000));
    assert_eq!((known.comments.len(), known.pushes.len()), (COMMENTS_MAX, PUSHES_MAX));
    assert!(known.comment(0).is_none(), "the oldest goes");
}
