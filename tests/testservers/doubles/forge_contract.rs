//! What every git host must do for us, as one suite of cases: the double in `doubles/forge.rs` is held to it in unit tests, a real
//! Gitea in the end-to-end tests. Nothing panics: a case that fails is told.

use std::fmt::Debug;

use forge::{Error, Forge};
use model::forge::{CommitStatus, History, Permission, Reaction, StatusState, ThreadNumber};
use model::id::CommitId;

/// How a pull request gets into its base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// With a commit that joins both.
    Merge,
    /// As one new commit.
    Squash,
    /// As new commits on the base.
    Rebase,
    /// As new commits, and one that joins both.
    RebaseMerge,
    /// As it is.
    FastForward,
}

/// What a case failed with, for people.
pub type Outcome<T = ()> = Result<T, String>;

/// A host with one empty public repository that a test may fill. Accounts have the permissions that their names say:
/// `reader`, `writer`, `keeper` (an administrator) and `outsider`, who has none; `crew/release` is a team with `writer` in it.
pub trait Host: Sync {
    /// Returns the repository as the account of the token under test sees it; it is an administrator.
    fn forge(&self) -> &dyn Forge;

    /// Opens a pull request into `main` of a new branch with this many commits; where `moves_base`, `main` gets a commit of its
    /// own after the branch began.
    fn open_pull(&self, branch: &str, commits: usize, moves_base: bool) -> Outcome<ThreadNumber>;

    /// Merges a pull request, and returns the tip of `main` after it.
    fn merge(&self, number: ThreadNumber, way: Way) -> Outcome<CommitId>;

    /// Writes a comment as `writer`; returns its id.
    fn say(&self, thread: ThreadNumber, body: &str) -> Outcome<u64>;

    /// Changes a comment as `keeper`.
    fn edit(&self, id: u64, body: &str) -> Outcome;

    /// Deletes a comment.
    fn delete_comment(&self, id: u64) -> Outcome;

    /// Gives a comment a reaction as `writer`.
    fn react(&self, comment: u64, reaction: Reaction) -> Outcome;

    /// Approves an open pull request as `keeper`, in a review of the commit it ends with.
    fn approve(&self, number: ThreadNumber) -> Outcome;
}

/// Runs all cases.
///
/// # Errors
/// The first case that failed.
pub async fn check(host: &dyn Host) -> Outcome {
    pulls(host).await?;
    statuses(host).await?;
    comments(host).await?;
    texts(host).await?;
    reviews(host).await?;
    people(host).await?;
    issues(host).await
}

fn same<T: PartialEq + Debug>(case: &str, found: &T, wanted: &T) -> Outcome {
    if found == wanted { Ok(()) } else { Err(format!("{case}: found {found:?}, wanted {wanted:?}")) }
}

fn done<T>(case: &str, result: forge::Result<T>) -> Outcome<T> {
    result.map_err(|error| format!("{case}: {error}"))
}

/// Every way into the base leads back to the pull request from the last commit that it brought.
async fn pulls(host: &dyn Host) -> Outcome {
    let forge = host.forge();
    for (way, commits, moves_base) in [
        (Way::FastForward, 1, false),
        (Way::Merge, 1, false),
        (Way::Squash, 2, false),
        (Way::Rebase, 2, true),
        (Way::RebaseMerge, 2, true),
    ] {
        let case = format!("{way:?}");
        let number = host.open_pull(&format!("by-{way:?}").to_lowercase(), commits, moves_base)?;
        let open = done(&case, forge.open_pulls("main").await)?;
        same(&format!("{case}: open pull requests"), &open.iter().map(|pull| pull.number).collect(), &vec![number])?;
        same(&format!("{case}: of another base"), &done(&case, forge.open_pulls("other").await)?, &Vec::new())?;
        let before = done(&case, forge.pull(number).await)?.ok_or_else(|| format!("{case}: no pull request"))?;
        same(&format!("{case}: open"), &(before.is_open, before.is_fork, &before.merged), &(true, false, &None))?;
        same(
            &format!("{case}: of an open head"),
            &done(&case, forge.pulls_of_commit(&before.head).await)?,
            &Vec::new(),
        )?;
        let known = done(&case, forge.commits(&before).await)?;
        same(&format!("{case}: its commits"), &(known.head.as_ref(), known.all.len()), &(Some(&before.head), commits))?;
        if known.authors.is_empty() {
            return Err(format!("{case}: nobody wrote its commits"));
        }
        let tip = host.merge(number, way)?;
        let later = done(&case, forge.commits(&before).await)?;
        same(&format!("{case}: its commits after the merge"), &(later.head, later.all), &(known.head, known.all))?;
        same(&format!("{case}: of its tip"), &done(&case, forge.pulls_of_commit(&tip).await)?, &vec![number])?;
        let after = done(&case, forge.pull(number).await)?.ok_or_else(|| format!("{case}: no pull request"))?;
        let commit = after.merged.as_ref().map(|merge| merge.commit.clone());
        same(&format!("{case}: merged"), &(after.is_open, commit), &(false, Some(tip)))?;
        if after.merged.and_then(|merge| merge.by).is_none() {
            return Err(format!("{case}: nobody merged it"));
        }
    }
    same("no pull request", &done("pull 99999", forge.pull(99_999).await)?, &None)
}

/// The newest of each context counts, and a commit that is not there is refused for good.
async fn statuses(host: &dyn Host) -> Outcome {
    let forge = host.forge();
    let number = host.open_pull("statuses", 1, false)?;
    let head = done("statuses", forge.pull(number).await)?.ok_or("statuses: no pull request")?.head;
    same("no status yet", &done("statuses", forge.statuses(&head).await)?, &Vec::new())?;
    let status = |stage: &str, state: StatusState, url: Option<&str>| CommitStatus {
        context: format!("gitfleet/web/{stage}"),
        state,
        description: "3/12 clusters, waiting for approval".into(),
        target_url: url.map(str::to_owned),
    };
    let canary = status("canary", StatusState::Success, Some("https://gitfleet.example/a"));
    let prod = status("prod", StatusState::Failure, None);
    for status in [&status("canary", StatusState::Pending, None), &prod, &canary] {
        done("set a status", forge.set_status(&head, status).await)?;
    }
    let mut found = done("statuses", forge.statuses(&head).await)?;
    found.sort();
    same("the newest of each context", &found, &vec![canary.clone(), prod])?;
    let unknown = CommitId::from("0123456789abcdef0123456789abcdef01234567");
    match forge.set_status(&unknown, &canary).await {
        Err(Error::Refused { .. }) => Ok(()),
        other => Err(format!("a status on an unknown commit: {other:?}")),
    }
}

async fn comments(host: &dyn Host) -> Outcome {
    let forge = host.forge();
    let me = done("whoami", forge.whoami().await)?;
    let thread = host.open_pull("comments", 1, false)?;
    let own = done("comment", forge.create_comment(thread, "<!-- mark -->\nfirst").await)?;
    same("own comment", &(own.thread, &own.author, own.body.as_str()), &(thread, &me, "<!-- mark -->\nfirst"))?;
    let theirs = host.say(thread, "/approve canary")?;
    let listed = done("comments", forge.comments(thread, None).await)?;
    same("all, oldest first", &listed.iter().map(|c| c.id).collect(), &vec![own.id, theirs])?;
    let last = listed.last().ok_or("comments: none")?;
    same("theirs", &(last.author.login.as_str(), last.thread), &("writer", thread))?;
    let since = done("since", forge.comments(thread, Some(last.updated_at)).await)?;
    if !since.iter().any(|comment| comment.id == theirs) {
        return Err("comments since an instant leave out the one of that instant".into());
    }
    let later = last.updated_at.checked_add(jiff::SignedDuration::from_hours(1)).map_err(|e| e.to_string())?;
    same("since later", &done("since", forge.comments(thread, Some(later)).await)?, &Vec::new())?;
    let edited = done("edit", forge.update_comment(own.id, "second").await)?.ok_or("edit: it is gone")?;
    same("edited", &(edited.id, edited.body.as_str(), &edited.author), &(own.id, "second", &me))?;
    let read = done("comment", forge.comment(own.id).await)?.ok_or("comment: it is gone")?;
    same("read again", &(read.body.as_str(), read.thread), &("second", thread))?;
    for reaction in [Reaction::Eyes, Reaction::Eyes, Reaction::Rocket, Reaction::Confused] {
        done("react", forge.react(theirs, reaction).await)?;
    }
    host.delete_comment(own.id)?;
    same("deleted", &done("comment", forge.comment(own.id).await)?, &None)?;
    same("an edit of a deleted one", &done("edit", forge.update_comment(own.id, "third").await)?, &None)?;
    match forge.create_comment(99_999, "nowhere").await {
        Err(Error::NotFound { .. }) => Ok(()),
        other => Err(format!("a comment on nothing: {other:?}")),
    }
}

/// Whose text a comment's is, and who gave it a reaction.
async fn texts(host: &dyn Host) -> Outcome {
    let forge = host.forge();
    let me = done("whoami", forge.whoami().await)?;
    let thread = host.open_pull("texts", 1, false)?;
    let id = host.say(thread, "I will look tomorrow")?;
    let read = async |case: &str| done(case, forge.comment(id).await)?.ok_or(format!("{case}: it is gone"));
    let first = read("as it was written").await?;
    same("as it was written", &done("history", forge.history(&first).await)?, &History::Untouched)?;
    // At once: a clock of whole seconds sees nothing.
    host.edit(id, "/approve canary")?;
    let second = read("edited by another").await?;
    same("its author stays", &(second.author.login.as_str(), second.body.as_str()), &("writer", "/approve canary"))?;
    same("edited by another", &done("history", forge.history(&second).await)?, &History::Edited)?;
    host.edit(id, "I will look tomorrow")?;
    let third = read("with its first text again").await?;
    same("with its first text again", &done("history", forge.history(&third).await)?, &History::Edited)?;
    let own = done("comment", forge.create_comment(thread, "a gate waits\n\n```text\n/approve canary\n```\n").await)?;
    same("no reaction yet", &done("reactions", forge.reactions(own.id, Reaction::Rocket).await)?.len(), &0)?;
    host.react(own.id, Reaction::Rocket)?;
    host.react(own.id, Reaction::Eyes)?;
    done("react", forge.react(own.id, Reaction::Rocket).await)?;
    let mut given = done("reactions", forge.reactions(own.id, Reaction::Rocket).await)?;
    given.sort_by_key(|given| given.by.login != "writer");
    let by: Vec<&str> = given.iter().map(|given| given.by.login.as_str()).collect();
    same("who gave a rocket", &by, &vec!["writer", me.login.as_str()])?;
    if given.iter().any(|given| given.at < own.created_at) {
        return Err("a reaction is older than its comment".into());
    }
    let after = done("comment", forge.comment(own.id).await)?.ok_or("its reactions made it go")?;
    same("a reaction changes no text", &(&after.body, after.updated_at), &(&own.body, own.updated_at))
}

/// Reviews that approve name their commit, and stay after the merge.
async fn reviews(host: &dyn Host) -> Outcome {
    let forge = host.forge();
    let number = host.open_pull("reviews", 1, false)?;
    let pull = done("pull", forge.pull(number).await)?.ok_or("reviews: no pull request")?;
    same("no review yet", &done("reviews", forge.approvals(number).await)?, &Vec::new())?;
    host.approve(number)?;
    let found = done("reviews", forge.approvals(number).await)?;
    let words: Vec<_> = found.iter().map(|review| (review.by.login.as_str(), &review.commit)).collect();
    same("a review", &words, &vec![("keeper", &pull.head)])?;
    host.merge(number, Way::Merge)?;
    same("a review after the merge", &done("reviews", forge.approvals(number).await)?, &found)
}

async fn people(host: &dyn Host) -> Outcome {
    let forge = host.forge();
    for (login, wanted) in [
        ("reader", Permission::Read),
        ("writer", Permission::Write),
        ("WRITER", Permission::Write),
        ("keeper", Permission::Admin),
        ("outsider", Permission::Read),
    ] {
        same(login, &done(login, forge.permission(login).await)?, &wanted)?;
    }
    if forge.permission("nobody-of-that-name").await.is_ok() {
        return Err("the permission of nobody is told".into());
    }
    for (login, wanted) in [("writer", true), ("reader", false), ("outsider", false)] {
        same(login, &done(login, forge.is_team_member("crew/release", login).await)?, &wanted)?;
    }
    match forge.is_team_member("crew/nothing", "writer").await {
        Err(Error::NotFound { .. }) => Ok(()),
        other => Err(format!("a team that is not there: {other:?}")),
    }
}

/// Our issues are found again by their texts; those of others and pull requests are not among them.
async fn issues(host: &dyn Host) -> Outcome {
    let forge = host.forge();
    same("no issue yet", &done("own issues", forge.own_issues().await)?, &Vec::new())?;
    let first = done("open", forge.open_issue("Rollout of abc1234", "<!-- one -->").await)?;
    let second = done("open", forge.open_issue("Rollout of def5678", "<!-- two -->").await)?;
    let found = done("own issues", forge.own_issues().await)?;
    same("own issues", &found, &vec![(second, "<!-- two -->".to_owned()), (first, "<!-- one -->".to_owned())])?;
    same("an issue is no pull request", &done("pull", forge.pull(first).await)?, &None)?;
    done("comment on an issue", forge.create_comment(first, "progress").await).map(drop)
}
