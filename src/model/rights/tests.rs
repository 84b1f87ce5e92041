use std::collections::BTreeSet;

use super::*;
use crate::commands::Grant;
use crate::forge::Credentials;
use crate::runs::Channel;

fn commenter(name: &str, permission: Permission, teams: &[&str], took_part: Option<&str>) -> Person {
    let credentials = Credentials {
        id: 7,
        permission,
        teams: teams.iter().map(|team| (*team).to_owned()).collect::<BTreeSet<_>>(),
        took_part: took_part.map(str::to_owned),
        comment: String::new(),
    };
    Person { credentials: Some(credentials), ..Person::of(name, Channel::Comment) }
}

/// Name, permission, teams, part in the change, configured approvers, annotation, verbs that are allowed.
type Row<'a> = (&'a str, Permission, &'a [&'a str], Option<&'a str>, &'a [&'a str], Option<&'a str>, &'a [Verb]);

#[test]
fn who_may_what() {
    use Permission::{Admin, None as Nothing, Read, Triage, Write};
    use Verb::{Approve, Pause, Reject, Resume, Retry, Rollback};
    let author = Some("opened the pull request");
    let all = [Approve, Reject, Pause, Resume, Retry, Rollback];
    let rows: &[Row<'_>] = &[
        ("a reader", Read, &[], None, &[], None, &[]),
        ("a stranger", Nothing, &[], None, &[], None, &[]),
        ("a sorter of issues", Triage, &[], None, &[], None, &[]),
        ("a writer", Write, &[], None, &[], None, &all),
        ("the author", Write, &[], author, &[], None, &[Reject, Pause, Resume, Retry, Rollback]),
        ("an author who is admin", Admin, &[], author, &[], None, &[Reject, Pause, Resume, Retry, Rollback]),
        ("a writer beside named approvers", Write, &[], None, &["user:ann"], None, &[Pause, Retry]),
        ("ANN", Read, &[], None, &["user:ann"], None, &[Approve, Reject, Resume, Rollback]),
        ("a member", Write, &["org/release"], None, &["team:Org/Release"], None, &all),
        ("no member", Write, &["org/other"], None, &["team:org/release"], None, &[Pause, Retry]),
        ("narrowed out", Admin, &[], None, &[], Some("user:ann"), &[Pause, Retry]),
        ("narrowed to a permission", Write, &[], None, &[], Some("permission:admin"), &[Pause, Retry]),
        ("narrowed in", Admin, &[], None, &[], Some("user:ann, permission:admin"), &all),
        ("not widened", Read, &[], None, &[], Some("permission:read"), &[]),
        ("narrowed to a team", Write, &["o/t"], None, &[], Some("team:o/t"), &all),
        ("a word nobody knows", Admin, &[], None, &[], Some("group:x"), &[Pause, Retry]),
    ];
    for (name, permission, teams, part, approvers, narrowed, wanted) in rows {
        let person = commenter(name, *permission, teams, *part);
        let approvers: Vec<String> = approvers.iter().map(|entry| (*entry).to_owned()).collect();
        let approving = Approving { approvers: &approvers, owners: &[], narrowed: *narrowed };
        let policy = Policy { approving, ..Policy::default() };
        for verb in all {
            assert_eq!(may(&person, verb, &policy).is_ok(), wanted.contains(&verb), "{name}: {verb}");
        }
    }
}

fn approving([approvers, owners]: &[Vec<String>; 2]) -> Approving<'_> {
    Approving { approvers, owners, narrowed: None }
}

#[test]
fn owners_of_the_file_count_with_the_permission_and_those_before_a_change_too() {
    use Permission::{Read, Write};
    type Pair<'a> = [&'a [&'a str]; 2];
    type Row<'a> = (&'a str, Permission, &'a [&'a str], Pair<'a>, Option<Pair<'a>>, &'a str);
    let lists =
        |lists: [&[&str]; 2]| lists.map(|list| list.iter().map(|entry| (*entry).to_owned()).collect::<Vec<_>>());
    let (ops, none): (&[&str], &[&str]) = (&["user:ops"], &[]);
    // who, permission, teams, approvers and owners now, the same before, a word of the refusal
    let rows: [Row<'_>; 16] = [
        ("ann", Write, &[], [none, &["user:ann"]], None, ""),
        ("ANN", Write, &[], [ops, &["user:ann"]], None, ""),
        ("ann", Read, &[], [ops, &["user:ann"]], None, "has read permission; approve requires write"),
        ("ops", Write, &[], [ops, &["user:ann"]], None, "ops is not among the code owners: user:ann"),
        ("bob", Write, &["org/web"], [ops, &["user:ann", "team:org/web"]], None, ""),
        ("bob", Write, &["org/db"], [ops, &["team:org/web"]], None, "code owners"),
        ("bob@x.org", Write, &[], [none, &["email:bob@x.org"]], None, "code owners"),
        ("bob", Write, &[], [none, none], None, ""),
        (
            "mal",
            Write,
            &[],
            [none, &["user:mal"]],
            Some([none, &["user:ann"]]),
            "code owners before this change: user:ann",
        ),
        ("ann", Write, &[], [none, &["user:mal"]], Some([none, &["user:ann"]]), "code owners: user:mal"),
        ("ann", Write, &[], [none, &["user:mal", "user:ann"]], Some([none, &["user:ann"]]), ""),
        ("mal", Write, &[], [ops, &["user:mal"]], Some([ops, none]), "approvers before this change: user:ops"),
        ("mal", Write, &[], [none, &["user:mal"]], Some([none, none]), ""),
        ("mal", Write, &[], [&["user:mal"], none], Some([ops, none]), "approvers before this change: user:ops"),
        ("ops", Read, &[], [ops, none], Some([ops, none]), ""),
        ("ops", Write, &[], [ops, none], Some([ops, &["user:ann"]]), "code owners before this change: user:ann"),
    ];
    for (name, permission, teams, now, before, word) in rows {
        let (now, before) = (lists(now), before.map(lists));
        let earlier = before.iter().map(approving).collect();
        let policy = Policy { approving: approving(&now), before: earlier, ..Policy::default() };
        let found = may(&commenter(name, permission, teams, None), Verb::Approve, &policy);
        assert_eq!(found.is_ok(), word.is_empty(), "{name} {now:?} {before:?}: {found:?}");
        assert!(found.err().unwrap_or_default().contains(word), "{name} {now:?} {before:?}");
        let paused = may(&commenter(name, Write, teams, None), Verb::Pause, &policy);
        assert_eq!(paused, Ok(()), "{name}: a pause needs no approver");
    }
}

#[test]
fn an_author_may_approve_where_the_configuration_says_so() {
    let rules = ApprovalRules { self_approval: true, ..ApprovalRules::default() };
    let author = commenter("ann", Permission::Write, &[], Some("opened the pull request"));
    assert_eq!(may(&author, Verb::Approve, &Policy { rules, ..Policy::default() }), Ok(()));
}

#[test]
fn elsewhere_than_in_comments_the_annotation_alone_narrows() {
    let ann = Person::of("ann", Channel::Api);
    // annotation, whether ann may approve, a word of the refusal
    for (narrowed, wanted) in [
        (None, None),
        (Some("user:ann"), None),
        (Some("user:Ann"), Some("user:Ann")),
        (Some("token:ann"), None),
        (Some("token:bea"), Some("token:bea")),
        (Some("permission:admin"), None),
        (Some("team:o/t"), Some("its members approve there")),
    ] {
        let bea = ["user:bea".to_owned()];
        let before = Approving { approvers: &bea, owners: &bea, narrowed: None };
        let approving = Approving { narrowed, ..before };
        let policy = Policy { approving, before: vec![before], ..Policy::default() };
        match (may(&ann, Verb::Approve, &policy), wanted) {
            (Ok(()), None) => {}
            (Err(why), Some(word)) => assert!(why.contains(word), "{why}"),
            (answer, _) => unreachable!("{narrowed:?}: {answer:?}"),
        }
        assert_eq!(may(&ann, Verb::Retry, &policy), Ok(()));
    }
}

#[test]
fn a_token_of_a_name_is_nobody_on_the_forge() {
    let ann = commenter("ann", Permission::Admin, &[], None);
    let policy = Policy { approving: by_strategy(Some("token:ann")), ..Policy::default() };
    assert!(may(&ann, Verb::Approve, &policy).is_err());
}

fn by_strategy(narrowed: Option<&str>) -> Approving<'_> {
    Approving { narrowed, ..Approving::default() }
}

#[test]
fn d18_a_change_does_not_choose_who_approves_it() {
    // annotation now, annotations before, whether ann may approve
    type Before<'a> = &'a [Option<&'a str>];
    let rows: [(Option<&str>, Before<'_>, bool); 7] = [
        (None, &[], true),
        (Some("user:ann"), &[Some("user:bea")], false),
        (Some("user:bea"), &[Some("user:ann")], false),
        (Some("user:ann, user:bea"), &[Some("user:ann")], true),
        (None, &[Some("user:bea")], false),
        (Some("user:ann"), &[Some("user:ann"), Some("user:bea")], false),
        (Some("user:ann"), &[Some("user:ann"), None], true),
    ];
    for (narrowed, before, allowed) in rows {
        let earlier = before.iter().copied().map(by_strategy).collect();
        let policy = Policy { approving: by_strategy(narrowed), before: earlier, ..Policy::default() };
        for ann in [Person::of("ann", Channel::Api), commenter("ann", Permission::Write, &[], None)] {
            assert_eq!(may(&ann, Verb::Approve, &policy).is_ok(), allowed, "{narrowed:?} {before:?}");
        }
    }
}

#[test]
fn a_token_does_what_it_is_for() {
    use Verb::{Approve, Retry};
    let (web, api) = (PlacementKey::cluster_scoped("web"), PlacementKey::cluster_scoped("api"));
    let all = Grant::default();
    let approves = Grant { verbs: Some([Approve].into()), placements: None };
    let web_only = Grant { verbs: None, placements: Some(vec!["we*".to_owned()]) };
    // grant, verb, placement, a word of the refusal
    for (grant, verb, placement, word) in [
        (&all, Approve, Some(&web), None),
        (&all, Retry, None, None),
        (&approves, Approve, Some(&api), None),
        (&approves, Retry, Some(&api), Some("its token may approve only, not retry")),
        (&web_only, Retry, Some(&web), None),
        (&web_only, Retry, Some(&api), Some("for the placements we* only, not for placement api")),
        (&web_only, Retry, None, Some("not for the source")),
    ] {
        let person = Person { grant: grant.clone(), ..Person::of("ci", Channel::Api) };
        let policy = Policy { placement, ..Policy::default() };
        match (may(&person, verb, &policy), word) {
            (Ok(()), None) => {}
            (Err(why), Some(word)) => assert!(why.contains(word), "{why}"),
            (answer, _) => unreachable!("{verb} {placement:?}: {answer:?}"),
        }
    }
}
