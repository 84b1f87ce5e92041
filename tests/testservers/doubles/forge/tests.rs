//! Holds the fake to the contract.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;

use crate::doubles::forge::{Failure, Fake, Moment};
use crate::doubles::forge_contract::{Host, Outcome, Way, check};
use forge::{Error, Forge};
use model::error::ErrorClass;
use model::forge::{Part, Permission, Reaction, ThreadNumber};
use model::id::CommitId;

struct InMemory {
    fake: Fake,
    commits: AtomicU64,
}

impl InMemory {
    fn new() -> Self {
        let fake = Fake::new("gitfleet");
        for (login, permission) in
            [("reader", Permission::Read), ("writer", Permission::Write), ("keeper", Permission::Admin)]
        {
            fake.add_user(login);
            fake.permit(login, permission);
        }
        fake.add_user("outsider");
        fake.set_team("crew/release", &["writer"]);
        fake.set_time(Timestamp::UNIX_EPOCH);
        Self { fake, commits: AtomicU64::new(0) }
    }

    fn commit(&self) -> CommitId {
        CommitId::new(format!("{:040x}", self.commits.fetch_add(1, Ordering::Relaxed)))
    }
}

impl Host for InMemory {
    fn forge(&self) -> &dyn Forge {
        &self.fake
    }

    fn open_pull(&self, branch: &str, commits: usize, _: bool) -> Outcome<ThreadNumber> {
        let mut head = self.commit();
        let number = self.fake.open_pull("writer", branch, "main", branch, &head);
        for _ in 1..commits {
            head = self.commit();
            self.fake.commit_as("writer", number, &head, Part::Pushed);
        }
        self.fake.edit_pull(number, |pull| pull.head = head);
        Ok(number)
    }

    fn merge(&self, number: ThreadNumber, way: Way) -> Outcome<CommitId> {
        let mut head = None;
        self.fake.edit_pull(number, |pull| head = Some(pull.head.clone()));
        let commit = if way == Way::FastForward { head.ok_or("no pull request")? } else { self.commit() };
        self.fake.merge(number, &commit, "keeper");
        Ok(commit)
    }

    fn say(&self, thread: ThreadNumber, body: &str) -> Outcome<u64> {
        Ok(self.fake.say("writer", thread, body))
    }

    fn edit(&self, id: u64, body: &str) -> Outcome {
        self.fake.edit_comment(id, body);
        Ok(())
    }

    fn delete_comment(&self, id: u64) -> Outcome {
        self.fake.delete_comment(id);
        Ok(())
    }

    fn react(&self, comment: u64, reaction: Reaction) -> Outcome {
        self.fake.react_as("writer", comment, reaction);
        Ok(())
    }

    fn approve(&self, number: ThreadNumber) -> Outcome {
        let mut head = None;
        self.fake.edit_pull(number, |pull| head = Some(pull.head.clone()));
        self.fake.review("keeper", number, &head.ok_or("no pull request")?);
        Ok(())
    }
}

#[tokio::test]
async fn the_fake_keeps_the_contract() {
    check(&InMemory::new()).await.expect("the fake does what hosts do");
}

#[tokio::test]
async fn failures_strike_when_and_where_they_are_wanted() {
    let fake = Fake::new("gitfleet");
    let thread = fake.open_pull("ann", "t", "main", "b", &"a".into());
    fake.fail("create_comment", Moment::Before, Failure::Unreachable);
    fake.fail("create_comment", Moment::After, Failure::Unreachable);
    fake.fail("", Moment::Before, Failure::RateLimited(Duration::from_secs(9)));
    assert!(matches!(fake.whoami().await, Err(Error::RateLimited { wait, .. }) if wait.as_secs() == 9));
    for comments in [0, 1, 2] {
        let failed = fake.create_comment(thread, "x").await.is_err();
        assert_eq!((failed, fake.comments_of(thread).len()), (comments < 2, comments));
    }
    fake.outage(Some(Failure::Unauthenticated));
    for _ in 0..2 {
        assert_eq!(fake.whoami().await.map_err(|error| error.class()), Err(ErrorClass::Denied));
    }
    fake.outage(None);
    assert!(fake.whoami().await.is_ok());
    assert_eq!((fake.count("create_comment"), fake.count("whoami")), (3, 4));
}
