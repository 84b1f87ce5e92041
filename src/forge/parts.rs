//! The contributors to a pull request: authors by the addresses in commits, pushers by the host's records.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::try_join_all;

use super::client::{has_next, parsed, query, segment};
use super::rest::Rest;
use super::shapes::{Activity, CommitOfPull, Comparison, Happened, NewsItem, NewsText, Parents, PushText, User};
use super::{Error, Kind, Result};
use model::forge::{Commits, ForgeUser, Merge, PullRequest};
use model::id::CommitId;

/// Commits of a pull request that GitHub lists; further ones are unknown.
///
/// Source: GitHub, "REST API endpoints for pull requests", "List commits on a pull request".
const GITHUB_COMMITS_MAX: usize = 250;
/// Pages of a conversation that are read for pushes, of 50 entries each.
const TIMELINE_PAGES_MAX: u32 = 40;
/// Pages of a repository's news that are read for pushes, the newest first, of 50 entries each.
const NEWS_PAGES_MAX: u32 = 4;
/// Pauses between the looks for the push of a pull request's last commit: hosts mostly note it within a second.
const PUSH_LOOK_PAUSES: [Duration; 4] =
    [Duration::from_millis(250), Duration::from_millis(750), Duration::from_secs(2), Duration::from_secs(5)];
/// Pages without an entry after which a conversation counts as read: Gitea leaves entries out of pages, and says no total.
const EMPTY_PAGES_MAX: u32 = 4;

/// Returns what a host knows of a pull request's commits.
pub(super) async fn commits(rest: &Rest, pull: &PullRequest) -> Result<Commits> {
    let what = format!("read the commits of #{}", pull.number);
    let fields = if rest.kind == Kind::Gitea { "?verification=false&files=false" } else { "" };
    let path = rest.route(&format!("/pulls/{}/commits{fields}", pull.number));
    let mut listed = rest.client.list::<CommitOfPull>(&what, &path).await?;
    if rest.kind == Kind::GitHub && listed.len() >= GITHUB_COMMITS_MAX {
        let why =
            format!("the host lists {GITHUB_COMMITS_MAX} commits at most, and this pull request has as many or more");
        return Err(Error::Refused { what, why });
    }
    let is_listed = listed.iter().any(|commit| commit.sha == pull.head.as_str());
    if rest.kind == Kind::Gitea && !pull.is_fork && !is_listed {
        listed.splice(..0, unlisted(rest, pull, listed.first()).await?);
    }
    // Gitea lists the newest commit first, GitHub the oldest.
    let head = match rest.kind {
        Kind::Gitea => listed.first(),
        Kind::GitHub => listed.last(),
    };
    let head = head.map(|commit| CommitId::new(commit.sha.as_str()));
    // A pull request brings something, so an empty list says nothing of who brought it.
    if listed.is_empty() {
        return Err(Error::Refused { what, why: "the host lists none of its commits".to_owned() });
    }
    let all: BTreeSet<CommitId> = listed.iter().map(|commit| CommitId::new(commit.sha.as_str())).collect();
    let people = listed.into_iter().flat_map(|commit| [commit.author, commit.committer]);
    let authors = distinct(people.flatten());
    let pushers = match rest.kind {
        Kind::Gitea => gitea_pushers(rest, pull, &all).await?,
        Kind::GitHub => github_pushers(rest, pull, &all).await?,
    };
    Ok(Commits { head, all, authors, pushers })
}

/// Returns the commits of a branch that Gitea does not list, the newest first. It updates a pull request some time after a push, and
/// never if the pull request was merged meanwhile, although the merge brings the pushed commits. Then it may also take the branch's last
/// commit for where the branch began, and list none: what the merge brought is what its first parent lacks.
async fn unlisted(rest: &Rest, pull: &PullRequest, newest: Option<&CommitOfPull>) -> Result<Vec<CommitOfPull>> {
    let what = format!("compare the commits of #{} with its branch", pull.number);
    let from = match (newest, &pull.merged) {
        (Some(commit), _) => commit.sha.clone(),
        (None, None) => pull.base.clone(),
        (None, Some(merge)) => match first_parent(rest, &what, merge).await? {
            Some(parent) => parent,
            None => return Ok(Vec::new()),
        },
    };
    let range = format!("{}...{}", segment(&what, &from)?, segment(&what, pull.head.as_str())?);
    let path = rest.route(&format!("/compare/{range}?verification=false&files=false"));
    Ok(rest.client.get::<Comparison>(&what, &path).await?.commits)
}

/// Returns the commit of the target branch that a merge was made on; `None` for a merge that made no commit of its own.
async fn first_parent(rest: &Rest, what: &str, merge: &Merge) -> Result<Option<String>> {
    let commit = segment(what, merge.commit.as_str())?;
    let path = rest.route(&format!("/git/commits/{commit}?stat=false&verification=false&files=false"));
    let mut parents = rest.client.get::<Parents>(what, &path).await?.parents;
    Ok((parents.len() > 1).then(|| parents.swap_remove(0).sha))
}

fn distinct(users: impl Iterator<Item = User>) -> Vec<ForgeUser> {
    // Accounts that are gone have no id, and nobody can approve as one of them.
    let known: BTreeSet<ForgeUser> = users.map(User::read).filter(|user| user.id > 0).collect();
    known.into_iter().collect()
}

/// What moved the branch, of a branch of our own repository. Another's does not tell us.
async fn github_pushers(rest: &Rest, pull: &PullRequest, all: &BTreeSet<CommitId>) -> Result<Vec<ForgeUser>> {
    if pull.is_fork {
        return Ok(Vec::new());
    }
    let what = format!("read who pushed to #{}", pull.number);
    let path = rest.route(&format!("/activity?ref={}", query(&format!("refs/heads/{}", pull.head_ref))));
    // Linked pages, not numbered: the newest hundred.
    match rest.client.find::<Vec<Activity>>(&what, &rest.client.page(&path, 1)).await {
        Ok(found) => {
            let moves = found.into_iter().flatten();
            let of_pull = moves.filter(|moved| all.contains(&CommitId::new(moved.after.as_str())));
            Ok(distinct(of_pull.filter_map(|moved| moved.actor)))
        }
        // An older server does not have it, or the token may not; deliveries tell then.
        Err(Error::Forbidden { .. } | Error::Refused { .. }) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Gitea records a push some time after it happened, and none in a conversation that was merged meanwhile. So without a record
/// for the last commit it is asked again. If all its records were read, the pusher is unknown in the end; otherwise the push
/// may be older than the records that were read.
async fn gitea_pushers(rest: &Rest, pull: &PullRequest, all: &BTreeSet<CommitId>) -> Result<Vec<ForgeUser>> {
    let mut pauses = PUSH_LOOK_PAUSES.into_iter();
    loop {
        let noted = gitea_pushes(rest, pull, all).await?;
        let pause = pauses.next();
        let is_over = match noted.news {
            // Asking again does not help: this host notes no pushes there.
            News::Absent => true,
            News::Newest => pause.is_none(),
            News::All => false,
        };
        // Pushes to a fork are noted in the fork.
        if pull.is_fork || noted.has_head || is_over {
            return Ok(distinct(noted.pushers.into_iter()));
        }
        let Some(pause) = pause else { break };
        tokio::time::sleep(pause).await;
    }
    Err(Error::Refused {
        what: format!("read who pushed to #{}", pull.number),
        why: format!("the host has not recorded yet who pushed commit {}", pull.head.short()),
    })
}

/// What Gitea noted of pushes to a pull request.
struct Noted {
    pushers: Vec<User>,
    /// The push of its last commit is among them.
    has_head: bool,
    news: News,
}

/// What was read of a repository's news.
enum News {
    /// The host has none.
    Absent,
    /// As much as is read.
    Newest,
    /// Everything.
    All,
}

/// A push: by whom, and of which commits.
type PushNote = (Option<User>, Vec<CommitId>);

/// Pushes are noted in the conversation once it is open, and in the repository's news before.
async fn gitea_pushes(rest: &Rest, pull: &PullRequest, all: &BTreeSet<CommitId>) -> Result<Noted> {
    let what = format!("read who pushed to #{}", pull.number);
    let (told, (reported, news)) =
        tokio::try_join!(told_pushes(rest, pull, &what), reported_pushes(rest, pull, &what))?;
    let mut noted = Noted { pushers: Vec::new(), has_head: false, news };
    for (user, commits) in told.into_iter().chain(reported) {
        noted.has_head |= commits.contains(&pull.head);
        if commits.iter().any(|commit| all.contains(commit)) {
            noted.pushers.extend(user);
        }
    }
    Ok(noted)
}

/// Returns the pushes that the conversation of a pull request notes.
async fn told_pushes(rest: &Rest, pull: &PullRequest, what: &str) -> Result<Vec<PushNote>> {
    let path = rest.route(&format!("/issues/{}/timeline", segment(what, &pull.number.to_string())?));
    // Gitea answers `null` for a page whose entries are all left out.
    let read = async |page| rest.client.get::<Option<Vec<Happened>>>(what, &rest.client.page(&path, page)).await;
    let mut pushes = Vec::new();
    let mut page = 1;
    let mut empty = 0;
    while page <= TIMELINE_PAGES_MAX && empty < EMPTY_PAGES_MAX {
        // Together as many as are read in any case: nothing is asked in vain.
        let count = (EMPTY_PAGES_MAX - empty).min(TIMELINE_PAGES_MAX - page + 1);
        for happened in try_join_all((page..page + count).map(&read)).await? {
            let happened = happened.unwrap_or_default();
            empty = if happened.is_empty() { empty + 1 } else { 0 };
            pushes.extend(happened.into_iter().filter(|happened| happened.type_ == "pull_push").map(|push| {
                let text: PushText = serde_json::from_str(push.body.as_deref().unwrap_or_default()).unwrap_or_default();
                (push.user, text.commit_ids.iter().map(|commit| CommitId::new(commit.as_str())).collect())
            }));
        }
        page += count;
    }
    Ok(pushes)
}

/// Returns the pushes that the repository's news report, and how much of the news was read.
async fn reported_pushes(rest: &Rest, pull: &PullRequest, what: &str) -> Result<(Vec<PushNote>, News)> {
    let path = rest.route("/activities/feeds");
    let target = format!("refs/heads/{}", pull.base);
    let mut pushes = Vec::new();
    let mut read = News::Absent;
    let mut count = 0;
    for page in 1..=NEWS_PAGES_MAX {
        // Forgejo and older servers may not have it; deliveries tell then.
        let Some(answer) = rest.client.find_answer(what, &rest.client.page(&path, page)).await? else { break };
        let news: Vec<NewsItem> = parsed(what, &answer)?;
        count += news.len();
        // Unlike that of a conversation, its total counts all entries, of this page and others.
        let is_all = news.is_empty() || !has_next(&answer.headers, rest.kind, count);
        read = if is_all { News::All } else { News::Newest };
        // A push to the target branch is the merge: it brings the same commits, and does not tell who pushed them.
        let other = news.into_iter().filter(|item| item.op_type == "commit_repo" && item.ref_name != target);
        pushes.extend(other.map(|push| {
            let text: NewsText = serde_json::from_str(push.content.as_deref().unwrap_or_default()).unwrap_or_default();
            let commits = text.commits.into_iter().flatten().chain(text.head_commit);
            (push.act_user, commits.map(|commit| CommitId::new(commit.sha1.as_str())).collect())
        }));
        if matches!(read, News::All) {
            break;
        }
    }
    Ok((pushes, read))
}
