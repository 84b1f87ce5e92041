//! Who may what: one table, whatever surface a person speaks on.
//!
//! Who a person is and what the forge vouches for was found out before. On the command line and over the API the store's folder
//! and the tokens of the configuration say who a person is, and a token what it is for; a comment can be written by anybody who
//! can read, so there the forge is asked, too.

use crate::model::commands::{Person, Verb};
use crate::model::forge::Permission;
use crate::model::id::PlacementKey;
use crate::model::runs::ApprovalRules;

/// Who may, as configuration and strategy say.
#[derive(Clone, Copy, Debug, Default)]
pub struct Policy<'a> {
    /// What the command is about; absent is the source.
    pub placement: Option<&'a PlacementKey>,
    /// What the configuration asks of an approval.
    pub rules: ApprovalRules,
    /// Who may approve by comment, as the configuration says: `user:NAME`, `team:ORG/NAME`. Without any, the permission counts.
    pub approvers: &'a [String],
    /// What the strategy's annotation `approvers` narrows that to; absent narrows nothing.
    pub narrowed: Option<&'a str>,
    /// What that annotation said before the change that is judged: a change does not choose who approves it.
    pub narrowed_before: Option<&'a str>,
}

/// What a verb takes.
enum Right {
    /// To be an approver who took no part in the change.
    Judge,
    /// To be an approver.
    Approver,
    /// To be allowed to push.
    Operator,
}

fn right(verb: Verb) -> Right {
    match verb {
        Verb::Approve => Right::Judge,
        Verb::Reject | Verb::Resume | Verb::Rollback | Verb::Adopt => Right::Approver,
        Verb::Pause | Verb::Retry => Right::Operator,
    }
}

/// Says whether a person may. An annotation can only narrow what the configuration allows.
///
/// # Errors
/// Why not, and who may, for people.
pub fn may(person: &Person, verb: Verb, policy: &Policy<'_>) -> Result<(), String> {
    person.grant.check(verb, policy.placement).map_err(|why| format!("{} may not: {why}", person.name))?;
    let Some(credentials) = &person.credentials else {
        return match right(verb) {
            Right::Judge | Right::Approver => narrowed(person, policy),
            Right::Operator => Ok(()),
        };
    };
    let has = |needed: Permission| {
        if credentials.permission >= needed {
            return Ok(());
        }
        let (has, needed) = (words(credentials.permission), words(needed));
        Err(format!("{} has {has} permission; {verb} requires {needed}", person.name))
    };
    match right(verb) {
        Right::Operator => return has(Permission::Write),
        Right::Judge | Right::Approver if policy.approvers.is_empty() => has(policy.rules.min_permission)?,
        // Whoever the configuration names may, whatever their permission on the host.
        Right::Judge | Right::Approver => {
            if !policy.approvers.iter().any(|entry| is_named(person, entry)) {
                let all = policy.approvers.join(", ");
                return Err(format!("{} is not among the approvers: {all}", person.name));
            }
        }
    }
    narrowed(person, policy)?;
    match &credentials.took_part {
        Some(how) if matches!(right(verb), Right::Judge) && !policy.rules.self_approval => {
            Err(format!("{} {how}; somebody else must approve it", person.name))
        }
        _ => Ok(()),
    }
}

/// Says whether the strategy's annotation lets a person, as it is and as it was before the change.
fn narrowed(person: &Person, policy: &Policy<'_>) -> Result<(), String> {
    let lists = [(policy.narrowed, "names"), (policy.narrowed_before, "named before this change")];
    for (approvers, verb) in lists {
        let Some(approvers) = approvers else { continue };
        if approvers.split(',').map(str::trim).any(|entry| is_named(person, entry)) {
            continue;
        }
        let has_team = approvers.split(',').any(|entry| entry.trim().starts_with("team:"));
        let teams = if has_team && person.credentials.is_none() {
            "; who is in a team is known to the forge alone, so its members approve there"
        } else {
            ""
        };
        return Err(format!(
            "{} may not approve here: the strategy {verb} {approvers} as approvers{teams}",
            person.name
        ));
    }
    Ok(())
}

/// Says whether an entry `user:NAME`, `token:NAME`, `team:ORG/NAME` or `permission:NAME` means a person. Without a forge's word,
/// whoever the configuration's tokens or the store's folder admit has every permission, and is in no team; `token:` means those
/// alone.
fn is_named(person: &Person, entry: &str) -> bool {
    let Some((kind, name)) = entry.split_once(':') else { return false };
    match (kind, &person.credentials) {
        // Hosts do not distinguish capital letters in names of accounts; names of tokens are the operator's.
        ("user", Some(_)) => name.eq_ignore_ascii_case(&person.name),
        ("user" | "token", None) => name == person.name,
        ("team", Some(credentials)) => credentials.teams.iter().any(|team| team.eq_ignore_ascii_case(name)),
        ("permission", Some(credentials)) => permission(name).is_some_and(|needed| credentials.permission >= needed),
        ("permission", None) => true,
        // An entry that nobody understands means nobody: a typing mistake must not let more people approve.
        _ => false,
    }
}

/// Reads a permission as annotations spell it.
fn permission(name: &str) -> Option<Permission> {
    [Permission::Read, Permission::Triage, Permission::Write, Permission::Maintain, Permission::Admin]
        .into_iter()
        .find(|permission| spelled(*permission) == name)
}

fn spelled(permission: Permission) -> &'static str {
    match permission {
        Permission::None => "none",
        Permission::Read => "read",
        Permission::Triage => "triage",
        Permission::Write => "write",
        Permission::Maintain => "maintain",
        Permission::Admin => "admin",
    }
}

fn words(permission: Permission) -> &'static str {
    match permission {
        Permission::None => "no",
        other => spelled(other),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::model::commands::Grant;
    use crate::model::forge::Credentials;
    use crate::model::runs::Surface;

    fn commenter(name: &str, permission: Permission, teams: &[&str], took_part: Option<&str>) -> Person {
        let credentials = Credentials {
            id: 7,
            permission,
            teams: teams.iter().map(|team| (*team).to_owned()).collect::<BTreeSet<_>>(),
            took_part: took_part.map(str::to_owned),
            comment: String::new(),
        };
        Person { credentials: Some(credentials), ..Person::of(name, Surface::Comment) }
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
            let policy = Policy { approvers: &approvers, narrowed: *narrowed, ..Policy::default() };
            for verb in all {
                assert_eq!(may(&person, verb, &policy).is_ok(), wanted.contains(&verb), "{name}: {verb}");
            }
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
        let ann = Person::of("ann", Surface::Api);
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
            let policy = Policy { approvers: &["user:bea".to_owned()], narrowed, ..Policy::default() };
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
        let policy = Policy { narrowed: Some("token:ann"), ..Policy::default() };
        assert!(may(&ann, Verb::Approve, &policy).is_err());
    }

    #[test]
    fn d18_a_change_does_not_choose_who_approves_it() {
        // annotation now, annotation before, whether ann may approve
        for (narrowed, narrowed_before, allowed) in [
            (None, None, true),
            (Some("user:ann"), Some("user:bea"), false),
            (Some("user:bea"), Some("user:ann"), false),
            (Some("user:ann, user:bea"), Some("user:ann"), true),
            (None, Some("user:bea"), false),
        ] {
            let policy = Policy { narrowed, narrowed_before, ..Policy::default() };
            for ann in [Person::of("ann", Surface::Api), commenter("ann", Permission::Write, &[], None)] {
                assert_eq!(may(&ann, Verb::Approve, &policy).is_ok(), allowed, "{narrowed:?} {narrowed_before:?}");
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
            let person = Person { grant: grant.clone(), ..Person::of("ci", Surface::Api) };
            let policy = Policy { placement, ..Policy::default() };
            match (may(&person, verb, &policy), word) {
                (Ok(()), None) => {}
                (Err(why), Some(word)) => assert!(why.contains(word), "{why}"),
                (answer, _) => unreachable!("{verb} {placement:?}: {answer:?}"),
            }
        }
    }
}
