//! What hosts tell of edits, reactions, reviews, authors and pushers.

use super::*;
use model::forge::{Comment, History, Merge, PullRequest};

/// An answer of GraphQL about one comment.
fn edits(body: &str, edited: &str, includes: bool) -> String {
    format!(
        r#"{{"data": {{"node": {{"body": "{body}", "lastEditedAt": {edited}, "includesCreatedEdit": {includes}}}}}}}"#
    )
}

#[tokio::test]
async fn github_tells_of_edits_in_its_query_language() {
    let node = r#"{"id": 77, "node_id": "IC_kwDOABCD"}"#;
    let first = "/approve canary";
    let when = r#""2026-03-01T12:00:00Z""#;
    // name, what it answers, what that means
    for (name, answer, wanted) in [
        ("never edited", edits(first, "null", false), Some(History::Untouched)),
        ("edited within the second of its writing", edits(first, when, true), Some(History::Edited)),
        ("edited without its first text", edits(first, when, false), Some(History::Edited)),
        ("another text than was read", edits("hello", "null", false), Some(History::Edited)),
        ("not to be seen", r#"{"data": {"node": null}, "errors": [{"type": "NOT_FOUND"}]}"#.to_owned(), None),
        ("an error", r#"{"errors": [{"message": "Something went wrong"}]}"#.to_owned(), None),
        ("something else than a comment", r#"{"data": {"node": {}}}"#.to_owned(), None),
        ("nothing", "[]".to_owned(), None),
    ] {
        let (script, forge, _) = host(Kind::GitHub, vec![ok(COMMENT), ok(node), ok(&answer)]).await;
        let comment = Comment { body: first.into(), ..forge.comment(77).await.unwrap().unwrap() };
        assert_eq!(forge.history(&comment).await.ok(), wanted, "{name}");
        let seen = script.seen();
        assert_eq!(seen[1], "GET /api/v3/repos/platform/fleet/issues/comments/77 Bearer t0ken");
        assert!(seen[2].starts_with("POST /api/graphql Bearer t0ken {"), "{}", seen[2]);
        assert!(seen[2].contains("IC_kwDOABCD") && seen[2].contains("lastEditedAt"), "{}", seen[2]);
    }
    let (_, forge, _) = host(Kind::GitHub, vec![ok(COMMENT), (404, Vec::new(), "{}".into())]).await;
    let comment = forge.comment(77).await.unwrap().unwrap();
    assert_eq!(forge.history(&comment).await.unwrap(), History::Edited, "what is gone is nobody's word");
}

#[tokio::test]
async fn gitea_tells_of_former_texts_on_its_pages_and_nothing_of_a_failure() {
    let none = r#"{"results": null}"#;
    let two = r#"{"results": [{"name": "<b>bo</b> edited", "value": 2}, {"name": "created", "value": 1}]}"#;
    let quiet = r#"{"i18n": {}, "editedHistoryCountMap": {}}"#;
    let other = r#"{"i18n": {}, "editedHistoryCountMap": {"12": 2}}"#;
    let ours = r#"{"i18n": {}, "editedHistoryCountMap": {"77": 2}}"#;
    let failed = r#"{"i18n": {}, "editedHistoryCountMap": null}"#;
    let page = |code: u16, body: &str| (code, Vec::new(), body.to_owned());
    // name, the list's answer, the overview's, what that means
    for (name, list, overview, wanted) in [
        ("never edited", page(200, none), page(200, quiet), History::Untouched),
        ("another was", page(200, none), page(200, other), History::Untouched),
        ("edited", page(200, two), page(200, ours), History::Edited),
        ("an edit that is just being written", page(200, two), page(200, quiet), History::Edited),
        ("an edit between the two", page(200, none), page(200, ours), History::Edited),
        ("its database failed", page(200, none), page(200, failed), History::Untold),
        ("a private repository", page(404, "{}"), page(404, "{}"), History::Untold),
        ("a page to sign in", page(303, ""), page(303, ""), History::Untold),
        ("a page of text", page(200, "<html>"), page(200, quiet), History::Untold),
    ] {
        let (script, forge, _) = host(Kind::Gitea, vec![ok(COMMENT), list, overview]).await;
        let comment = forge.comment(77).await.unwrap().unwrap();
        assert_eq!(forge.history(&comment).await.unwrap(), wanted, "{name}");
        let seen = script.seen();
        assert_eq!(seen[1], "GET /platform/fleet/issues/42/content-history/list?comment_id=77", "without the token");
        assert_eq!(seen[2], "GET /platform/fleet/issues/42/content-history/overview");
    }
}

#[tokio::test]
async fn github_tells_of_reactions_reviews_authors_and_pushers() {
    let user = |id: u64, login: &str| format!(r#"{{"id": {id}, "login": "{login}", "type": "User"}}"#);
    let (ann, bo) = (user(11, "ann"), user(12, "bo"));
    let at = "2026-03-01T12:00:00Z";
    let reactions = format!(
        r#"[{{"user": {ann}, "content": "rocket", "created_at": "{at}"}}, {{"user": {bo}, "content": "+1", "created_at": "{at}"}},
            {{"user": null, "content": "rocket", "created_at": "{at}"}}]"#
    );
    let review = |id: u64, state: &str| {
        format!(r#"{{"id": {id}, "user": {bo}, "state": "{state}", "commit_id": "{COMMIT}", "submitted_at": "{at}"}}"#)
    };
    let pending = format!(r#"{{"id": 9, "user": {bo}, "state": "PENDING", "commit_id": "{COMMIT}"}}"#);
    let reviews = [
        review(1, "COMMENTED"),
        review(2, "APPROVED"),
        review(3, "DISMISSED"),
        review(4, "CHANGES_REQUESTED"),
        pending,
    ];
    let other = "1".repeat(40);
    let commits = format!(
        r#"[{{"sha": "{other}", "author": null, "committer": {{"id": 19864447, "login": "web-flow", "type": "User"}}}},
            {{"sha": "{COMMIT}", "author": {ann}, "committer": {ann}}}]"#
    );
    let activity = format!(
        r#"[{{"after": "{COMMIT}", "actor": {bo}}}, {{"after": "{zeros}", "actor": {ann}}}, {{"after": "{other}", "actor": null}}]"#,
        zeros = "0".repeat(40)
    );
    let answers = vec![
        ok(&reactions),
        ok(&format!("[{}]", reviews.join(","))),
        ok(PULL),
        ok(&commits),
        ok(&activity),
        ok(&commits),
        (404, Vec::new(), "{}".into()),
    ];
    let (script, forge, _) = host(Kind::GitHub, answers).await;
    let given = forge.reactions(77, Reaction::Rocket).await.unwrap();
    assert_eq!(given.iter().map(|given| given.by.id).collect::<Vec<_>>(), [11]);
    let approvals = forge.approvals(42).await.unwrap();
    assert_eq!(approvals.iter().map(|review| (review.id, review.by.id)).collect::<Vec<_>>(), [(2, 12)]);
    let pull = PullRequest { is_fork: false, ..forge.pull(42).await.unwrap().unwrap() };
    let known = forge.commits(&pull).await.unwrap();
    let logins = |users: &[ForgeUser]| users.iter().map(|user| user.login.clone()).collect::<Vec<_>>();
    assert_eq!((known.head, known.all.len()), (Some(COMMIT.into()), 2));
    assert_eq!(
        (logins(&known.authors), logins(&known.pushers)),
        (vec!["ann".into(), "web-flow".into()], vec!["bo".into()])
    );
    let seen = script.seen();
    assert!(seen[4].contains("/activity?ref=refs%2Fheads%2F"), "{}", seen[4]);
    let without = forge.commits(&pull).await.unwrap();
    assert!(without.pushers.is_empty(), "an older server does not tell");

    let many = format!("[{}]", vec![format!(r#"{{"sha": "{other}"}}"#); 250].join(","));
    let (_, forge, _) = host(Kind::GitHub, vec![ok(&many)]).await;
    assert!(matches!(forge.commits(&pull).await, Err(Error::Refused { .. })), "there may be more");
}

#[tokio::test]
async fn gitea_tells_of_pushers_in_the_conversation_and_in_the_news() {
    let user = |id: u64, login: &str| format!(r#"{{"id": {id}, "login": "{login}"}}"#);
    let (ann, bo, cyd, dan) = (user(11, "ann"), user(12, "bo"), user(13, "cyd"), user(14, "dan"));
    let other = "1".repeat(40);
    let commits = format!(
        r#"[{{"sha": "{COMMIT}", "author": {ann}, "committer": {ann}}}, {{"sha": "{other}", "author": null, "committer": null}}]"#
    );
    let push = |by: &str, commit: &str| {
        let body = format!(r#"{{\"is_force_push\":false,\"commit_ids\":[\"{commit}\"]}}"#);
        format!(r#"{{"type": "pull_push", "user": {by}, "body": "{body}"}}"#)
    };
    let talk = format!(r#"{{"type": "comment", "user": {dan}, "body": "{COMMIT}"}}"#);
    let timeline = format!("[{}, {}, {talk}]", push(&bo, COMMIT), push(&dan, &"2".repeat(40)));
    let news = |by: &str, kind: &str, commit: &str| {
        let content = format!(r#"{{\"Commits\":[{{\"Sha1\":\"{commit}\"}}],\"HeadCommit\":null}}"#);
        format!(r#"{{"op_type": "{kind}", "act_user": {by}, "ref_name": "refs/heads/change", "content": "{content}"}}"#)
    };
    let feed = format!("[{}, {}]", news(&cyd, "commit_repo", &other), news(&dan, "comment_pull", "x"));
    let total = vec![("x-total-count", "2".to_owned())];
    let mut answers = vec![ok(PULL), (200, total, commits)];
    // Code comments are left out of pages: one without entries is not the last.
    let pushed = format!("[{}]", push(&ann, COMMIT));
    let pages = [&timeline, "[]", &pushed, "[]", "null", "[]", "[]"];
    answers.extend((1..).zip(pages).map(|(page, body)| at(&format!("/timeline?limit=50&page={page}"), ok(body))));
    // Its total says that there is no further page.
    answers.push(at("/feeds", (200, vec![("x-total-count", "2".to_owned())], feed)));
    let (_, forge, _) = host(Kind::Gitea, answers).await;
    let pull = forge.pull(42).await.unwrap().unwrap();
    let known = forge.commits(&pull).await.unwrap();
    let logins = |users: &[ForgeUser]| users.iter().map(|user| user.login.clone()).collect::<Vec<_>>();
    assert_eq!((known.head, known.all.len()), (Some(COMMIT.into()), 2), "the newest comes first");
    assert_eq!(logins(&known.authors), ["ann"]);
    assert_eq!(logins(&known.pushers), ["ann", "bo", "cyd"]);
}

#[tokio::test]
async fn d10_a_push_that_gitea_has_not_noted_yet_is_looked_for_again() {
    let bo = r#"{"id": 12, "login": "bo"}"#;
    let content = format!(r#"{{\"Commits\":[{{\"Sha1\":\"{COMMIT}\"}}],\"HeadCommit\":null}}"#);
    let push = |branch: &str, by: &str| {
        let branch = format!("refs/heads/{branch}");
        format!(r#"[{{"op_type": "commit_repo", "act_user": {by}, "ref_name": "{branch}", "content": "{content}"}}]"#)
    };
    let commits = || (200, vec![("x-total-count", "1".to_owned())], format!(r#"[{{"sha": "{COMMIT}"}}]"#));
    let quiet = || (0..4).map(|_| at("/timeline", ok("[]")));
    let feeds = |pages: &[&str]| pages.iter().map(|page| at("/feeds", ok(page))).collect::<Vec<_>>();
    let nothing_yet = || quiet().chain(feeds(&["[]"]));
    let mut answers = vec![ok(PULL), commits()];
    answers.extend(nothing_yet());
    // The merge brings the same commits to the target branch, and may be noted before the push.
    answers.extend(quiet().chain(feeds(&[&push("main", r#"{"id": 11, "login": "ann"}"#), "[]"])));
    answers.extend(quiet().chain(feeds(&[&push("change", bo), "[]"])));
    // For ever nothing: whoever it was may be the one who approves.
    answers.push(commits());
    answers.extend((0..5).flat_map(|_| nothing_yet()));
    // A fork's pushes are noted elsewhere.
    answers.push(commits());
    answers.extend(nothing_yet());
    let (_, forge, _) = host(Kind::Gitea, answers).await;
    let pull = PullRequest { is_fork: false, ..forge.pull(42).await.unwrap().unwrap() };
    let known = forge.commits(&pull).await.unwrap();
    assert_eq!(known.pushers.iter().map(|user| user.id).collect::<Vec<_>>(), [12]);
    let unknown = forge.commits(&pull).await.unwrap_err();
    assert!(matches!(&unknown, Error::Refused { why, .. } if why.contains("has not recorded yet")), "{unknown}");
    assert!(forge.commits(&PullRequest { is_fork: true, ..pull }).await.unwrap().pushers.is_empty());
}

#[tokio::test]
async fn d10_a_merge_that_hides_all_commits_does_not_hide_who_pushed_them() {
    let cyd = r#"{"id": 13, "login": "cyd"}"#;
    let (merge, before) = ("3".repeat(40), "4".repeat(40));
    let nothing = || (200, vec![("x-total-count", "0".to_owned())], "[]".to_owned());
    let parents = |count: usize| {
        let one = format!(r#"{{"sha": "{before}"}}"#);
        ok(&format!(r#"{{"parents": [{}]}}"#, vec![one; count].join(", ")))
    };
    let compared = format!(r#"{{"commits": [{{"sha": "{COMMIT}", "author": null, "committer": null}}]}}"#);
    let content = format!(r#"{{\"Commits\":[{{\"Sha1\":\"{COMMIT}\"}}],\"HeadCommit\":null}}"#);
    let feed = format!(
        r#"[{{"op_type": "commit_repo", "act_user": {cyd}, "ref_name": "refs/heads/change", "content": "{content}"}}]"#
    );
    let mut answers = vec![ok(PULL), nothing(), parents(2), ok(&compared)];
    answers.extend([ok("[]"), ok("[]"), ok("[]"), ok("[]"), ok(&feed), ok("[]")]);
    // A merge without a commit of its own does not show what it brought.
    answers.extend([nothing(), parents(1)]);
    let (script, forge, _) = host(Kind::Gitea, answers).await;
    let merged = Some(Merge { commit: merge.as_str().into(), by: None });
    let pull = PullRequest { is_fork: false, merged, ..forge.pull(42).await.unwrap().unwrap() };
    let known = forge.commits(&pull).await.unwrap();
    assert_eq!(known.pushers.iter().map(|user| user.id).collect::<Vec<_>>(), [13]);
    assert!(script.seen()[3].contains(&format!("/compare/{before}...{COMMIT}")), "{}", script.seen()[3]);
    let unknown = forge.commits(&pull).await.unwrap_err();
    assert!(matches!(&unknown, Error::Refused { why, .. } if why.contains("lists none")), "{unknown}");
}

#[tokio::test]
async fn d10_a_push_just_before_the_merge_belongs_to_the_pull_request() {
    let user = |id: u64, login: &str| format!(r#"{{"id": {id}, "login": "{login}"}}"#);
    let (ann, bo, cyd) = (user(11, "ann"), user(12, "bo"), user(13, "cyd"));
    let listed = "1".repeat(40);
    let commits = format!(r#"[{{"sha": "{listed}", "author": {ann}, "committer": {ann}}}]"#);
    let compared = format!(r#"{{"commits": [{{"sha": "{COMMIT}", "author": {bo}, "committer": null}}]}}"#);
    let content = format!(r#"{{\"Commits\":[{{\"Sha1\":\"{COMMIT}\"}}],\"HeadCommit\":null}}"#);
    let feed = format!(
        r#"[{{"op_type": "commit_repo", "act_user": {cyd}, "ref_name": "refs/heads/change", "content": "{content}"}}]"#
    );
    let mut answers = vec![ok(PULL), (200, vec![("x-total-count", "1".to_owned())], commits), ok(&compared)];
    answers.extend((0..4).map(|_| at("/timeline", ok("[]"))));
    answers.extend([at("/feeds", ok(&feed)), at("/feeds", ok("[]"))]);
    let (script, forge, _) = host(Kind::Gitea, answers).await;
    let pull = PullRequest { is_fork: false, ..forge.pull(42).await.unwrap().unwrap() };
    let known = forge.commits(&pull).await.unwrap();
    let logins = |users: &[ForgeUser]| users.iter().map(|user| user.login.clone()).collect::<Vec<_>>();
    assert_eq!((known.head, known.all.len()), (Some(COMMIT.into()), 2));
    assert_eq!((logins(&known.authors), logins(&known.pushers)), (vec!["ann".into(), "bo".into()], vec!["cyd".into()]));
    assert!(script.seen()[2].contains(&format!("/compare/{listed}...{COMMIT}")), "{}", script.seen()[2]);
}
