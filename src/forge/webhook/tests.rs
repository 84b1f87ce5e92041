//! Signatures and payloads as the hosts send them.

use std::collections::BTreeMap;

use model::text::hexadecimal;

use super::*;

const SECRET: &str = "s3cret";

fn hex(secret: &str, body: &[u8]) -> String {
    hexadecimal(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), body).as_ref())
}

/// Source: GitHub, "Validating webhook deliveries", the values for tests.
#[test]
fn a_signature_is_that_of_githubs_manual() {
    let signature = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    assert_eq!(hex("It's a Secret to Everybody", b"Hello, World!"), signature);
}

type Headers = BTreeMap<&'static str, String>;

/// The headers that Gitea sends: its own, and those of GitHub.
fn gitea_headers(event: &str, hex: &str) -> Headers {
    [
        ("content-type", "application/json".to_owned()),
        ("x-gitea-event", event.to_owned()),
        ("x-gitea-signature", hex.to_owned()),
        ("x-github-event", event.to_owned()),
        ("x-hub-signature-256", format!("sha256={hex}")),
    ]
    .into()
}

fn github_headers(event: &str, hex: &str) -> Headers {
    [
        ("content-type", "application/json".to_owned()),
        ("x-github-event", event.to_owned()),
        ("x-hub-signature-256", format!("sha256={hex}")),
    ]
    .into()
}

fn read_with(kind: Kind, secrets: &[&str], headers: &Headers, body: &[u8]) -> Result<Option<ForgeEvent>, Rejected> {
    let secrets: Vec<_> = secrets.iter().map(|secret| SecretString::from(*secret)).collect();
    read(kind, &secrets, Some(7), Delivery { header: &|name| headers.get(name).map(String::as_str), body })
}

const PUSH: &[u8] = b"{\n  \"ref\": \"refs/heads/main\",\n  \"repository\": {\n    \"id\": 7\n  }\n}";

#[test]
fn only_what_is_signed_with_a_secret_of_ours_is_read() {
    let (good, bad) = (hex(SECRET, PUSH), hex("other", PUSH));
    let compact: Vec<u8> = serde_json::to_vec(&serde_json::from_slice::<serde_json::Value>(PUSH).unwrap()).unwrap();
    let odd = &good[1..];
    let not_hex = format!("g{odd}");
    let wide = format!("é{}", &good[2..]);
    let empty_secret = hex("", PUSH);
    for (name, secrets, gitea, signed, is_good) in [
        ("good", &[SECRET][..], good.as_str(), PUSH, true),
        ("upper case", &[SECRET], &good.to_uppercase(), PUSH, true),
        ("the second secret", &["new", SECRET], &good, PUSH, true),
        ("the first of two", &[SECRET, "old"], &good, PUSH, true),
        ("another secret", &[SECRET], &bad, PUSH, false),
        ("empty", &[SECRET], "", PUSH, false),
        ("odd length", &[SECRET], odd, PUSH, false),
        ("not hexadecimal", &[SECRET], &not_hex, PUSH, false),
        ("not ASCII", &[SECRET], &wide, PUSH, false),
        ("the body written again", &[SECRET], &good, &compact, false),
        ("an empty secret", &[""], &empty_secret, PUSH, false),
        ("no secret", &[], &empty_secret, PUSH, false),
    ] {
        let expected = if is_good {
            Ok(Some(ForgeEvent::Push { branch: "main".into(), pushed: None }))
        } else {
            Err(Rejected::Signature)
        };
        assert_eq!(read_with(Kind::Gitea, secrets, &gitea_headers("push", gitea), signed), expected, "gitea: {name}");
        assert_eq!(
            read_with(Kind::GitHub, secrets, &github_headers("push", gitea), signed),
            expected,
            "github: {name}"
        );
    }
    let mut prefixed = gitea_headers("push", &good);
    prefixed.insert("x-gitea-signature", format!("sha256={good}"));
    assert_eq!(read_with(Kind::Gitea, &[SECRET], &prefixed, PUSH), Err(Rejected::Signature), "Gitea has no prefix");
    let mut bare = github_headers("push", &good);
    bare.insert("x-hub-signature-256", good.clone());
    assert_eq!(read_with(Kind::GitHub, &[SECRET], &bare, PUSH), Err(Rejected::Signature), "GitHub has one");
    let mut sha1 = github_headers("push", &good);
    sha1.remove("x-hub-signature-256");
    sha1.insert("x-hub-signature", format!("sha1={}", &good[..40]));
    assert_eq!(read_with(Kind::GitHub, &[SECRET], &sha1, PUSH), Err(Rejected::Signature), "SHA-1 is not enough");
    for kind in [Kind::Gitea, Kind::GitHub] {
        assert_eq!(read_with(kind, &[SECRET], &Headers::new(), PUSH), Err(Rejected::Signature), "no header");
    }
}

#[test]
fn a_form_is_refused_even_where_it_is_signed() {
    let body = b"payload=%7B%7D";
    let mut headers = github_headers("push", &hex(SECRET, body));
    headers.insert("content-type", "application/x-www-form-urlencoded".into());
    assert_eq!(read_with(Kind::GitHub, &[SECRET], &headers, body), Err(Rejected::Malformed));
    headers.insert("content-type", "Application/JSON; charset=utf-8".into());
    assert_eq!(read_with(Kind::GitHub, &[SECRET], &headers, body), Err(Rejected::Malformed), "it is no JSON either");
}

#[test]
fn one_host_cannot_speak_as_the_other() {
    let good = hex(SECRET, PUSH);
    let gitea = gitea_headers("push", &good);
    assert_eq!(read_with(Kind::GitHub, &[SECRET], &gitea, PUSH), Err(Rejected::OtherHost));
    let forgejo: Headers = [
        ("content-type", "application/json".to_owned()),
        ("x-forgejo-event", "push".to_owned()),
        ("x-forgejo-signature", good.clone()),
    ]
    .into();
    assert!(matches!(read_with(Kind::Gitea, &[SECRET], &forgejo, PUSH), Ok(Some(_))));
    assert_eq!(read_with(Kind::Gitea, &[SECRET], &github_headers("push", &good), PUSH), Err(Rejected::Signature));
    let mut nameless = gitea;
    nameless.remove("x-gitea-event");
    assert_eq!(read_with(Kind::Gitea, &[SECRET], &nameless, PUSH), Err(Rejected::OtherHost));
}

#[test]
fn payloads_become_hints() {
    let push = |branch: &str| Ok(Some(ForgeEvent::Push { branch: branch.into(), pushed: None }));
    let pull = Ok(Some(ForgeEvent::PullRequest { number: 12, pushed: None }));
    let long = format!(r#"{{"ref": "refs/heads/{}", "repository": {{"id": 7}}}}"#, "x".repeat(BRANCH_BYTES_MAX + 1));
    for (name, event, body, expected) in [
        ("push", "push", r#"{"ref": "refs/heads/a/b", "repository": {"id": 7}}"#, push("a/b")),
        ("a tag", "push", r#"{"ref": "refs/tags/v1", "repository": {"id": 7}}"#, Ok(None)),
        (
            "GitHub deletes a branch",
            "push",
            r#"{"ref": "refs/heads/gone", "deleted": true, "head_commit": null, "repository": {"id": 7}}"#,
            push("gone"),
        ),
        (
            "Gitea deletes a branch",
            "delete",
            r#"{"ref": "gone", "ref_type": "branch", "repository": {"id": 7}}"#,
            Ok(None),
        ),
        ("a branch without end", "push", &long, Ok(None)),
        ("ping", "ping", r#"{"zen": "Keep it logically awesome.", "hook_id": 1}"#, Ok(None)),
        (
            "opened",
            "pull_request",
            r#"{"action": "opened", "number": 12, "pull_request": {"head": {"sha": "a"}}, "repository": {"id": 7}}"#,
            pull.clone(),
        ),
        (
            "Gitea's push to one",
            "pull_request",
            r#"{"action": "synchronized", "number": 12, "repository": {"id": 7}}"#,
            pull.clone(),
        ),
        (
            "merged",
            "pull_request",
            r#"{"action": "closed", "number": 12, "pull_request": {"merged": true}, "repository": {"id": 7}}"#,
            pull,
        ),
        (
            "a comment on GitHub",
            "issue_comment",
            r#"{"action": "created", "issue": {"number": 12, "pull_request": {}}, "comment": {"id": 99, "body": "/approve canary"}, "repository": {"id": 7}}"#,
            Ok(Some(ForgeEvent::Comment { thread: 12, id: 99, said: None })),
        ),
        (
            "a comment on Gitea",
            "issue_comment",
            r#"{"action": "created", "is_pull": true, "issue": {"id": 1, "number": 12}, "comment": {"id": 99}, "repository": {"id": 7}}"#,
            Ok(Some(ForgeEvent::Comment { thread: 12, id: 99, said: None })),
        ),
        (
            "an edit",
            "issue_comment",
            r#"{"action": "edited", "issue": {"number": 12}, "comment": {"id": 99, "body": "x", "user": {"id": 3}}, "sender": {"id": 3}, "repository": {"id": 7}}"#,
            Ok(Some(ForgeEvent::Comment { thread: 12, id: 99, said: None })),
        ),
        (
            "a deletion",
            "issue_comment",
            r#"{"action": "deleted", "issue": {"number": 12}, "comment": {"id": 99}, "repository": {"id": 7}}"#,
            Ok(None),
        ),
        // On Gitea this is a comment on a line of a review.
        ("a review comment", "pull_request_comment", r#"{"action": "created"}"#, Ok(None)),
        (
            "another repository",
            "push",
            r#"{"ref": "refs/heads/a", "repository": {"id": 8}}"#,
            Err(Rejected::OtherRepository),
        ),
        ("no repository", "push", r#"{"ref": "refs/heads/a"}"#, Err(Rejected::Malformed)),
        (
            "a repository without id",
            "push",
            r#"{"ref": "refs/heads/a", "repository": {"id": "7"}}"#,
            Err(Rejected::Malformed),
        ),
        ("no ref", "push", r#"{"repository": {"id": 7}}"#, Err(Rejected::Malformed)),
        ("no number", "pull_request", r#"{"action": "opened", "repository": {"id": 7}}"#, Err(Rejected::Malformed)),
        ("no comment", "issue_comment", r#"{"action": "created", "repository": {"id": 7}}"#, Err(Rejected::Malformed)),
        ("no JSON", "push", "{", Err(Rejected::Malformed)),
        ("nothing", "push", "", Err(Rejected::Malformed)),
    ] {
        assert_eq!(parse(event, Some(7), body.as_bytes()), expected, "{name}");
    }
    let other = br#"{"ref": "refs/heads/a", "repository": {"id": 8}}"#;
    assert_eq!(parse("push", None, other), push("a"), "as long as our own id is not known");
    let deep = "[".repeat(100_000);
    assert_eq!(parse("push", None, deep.as_bytes()), Err(Rejected::Malformed), "deep nesting is no overflow");
}

/// What deliveries bear witness of, beside the hint: of a comment's first text, and of who pushed.
#[test]
fn deliveries_tell_a_comments_first_text_and_who_pushed() {
    let commit = "6dcb09b5b57875f334f61aebed695e2e4193db5e";
    let zeros = "0".repeat(40);
    let pushed = |id: u64, login: &str| {
        let by = ForgeUser { id, login: login.into(), is_bot: false };
        Some(Pushed { commit: CommitId::from(commit), by })
    };
    let said = Some(Said { author: 3, body: text_digest("/approve é") });
    let comment = |user: &str, sender: &str, body: &str| {
        format!(
            r#"{{"action": "created", "issue": {{"number": 12}}, "comment": {{"id": 99, {body} "user": {user}}}, {sender} "repository": {{"id": 7}}}}"#
        )
    };
    let text = r#""body": "/approve é","#;
    for (name, body, expected) in [
        ("its author sent it", comment(r#"{"id": 3, "login": "ann"}"#, r#""sender": {"id": 3},"#, text), said.clone()),
        ("nobody is named as sender", comment(r#"{"id": 3}"#, "", text), said),
        ("another sent it", comment(r#"{"id": 3}"#, r#""sender": {"id": 4},"#, text), None),
        ("an account that is gone", comment(r#"{"id": -1}"#, r#""sender": {"id": -1},"#, text), None),
        ("no author", comment("null", "", text), None),
        ("no text", comment(r#"{"id": 3}"#, "", ""), None),
    ] {
        let wanted = Ok(Some(ForgeEvent::Comment { thread: 12, id: 99, said: expected }));
        assert_eq!(parse("issue_comment", Some(7), body.as_bytes()), wanted, "{name}");
    }
    let ann = r#"{"id": 3, "login": "ann"}"#;
    for (name, after, sender, expected) in [
        ("a push", commit, ann, pushed(3, "ann")),
        ("a deletion", zeros.as_str(), ann, None),
        ("no commit", "main", ann, None),
        ("nobody", commit, "null", None),
        ("an account that is gone", commit, r#"{"id": -1, "login": "ghost"}"#, None),
    ] {
        let body =
            format!(r#"{{"ref": "refs/heads/x", "after": "{after}", "sender": {sender}, "repository": {{"id": 7}}}}"#);
        let wanted = Ok(Some(ForgeEvent::Push { branch: "x".into(), pushed: expected.clone() }));
        assert_eq!(parse("push", Some(7), body.as_bytes()), wanted, "{name}");
        for (action, is_push) in [("synchronize", true), ("synchronized", true), ("opened", false), ("closed", false)] {
            let body = format!(
                r#"{{"action": "{action}", "number": 12, "pull_request": {{"head": {{"sha": "{after}"}}}}, "sender": {sender}, "repository": {{"id": 7}}}}"#
            );
            let wanted = ForgeEvent::PullRequest { number: 12, pushed: expected.clone().filter(|_| is_push) };
            assert_eq!(parse("pull_request", Some(7), body.as_bytes()), Ok(Some(wanted)), "{name}: {action}");
        }
    }
}
