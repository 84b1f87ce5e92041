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
    /// What that annotation said before the change that is evaluated: a change does not choose who approves it.
    pub narrowed_before: Option<&'a str>,
}

/// What a verb takes.
enum Right {
    /// To be an approver who took no part in the change.
    Evaluate,
    /// To be an approver.
    Approver,
    /// To be allowed to push.
    Operator,
}

fn right(verb: Verb) -> Right {
    match verb {
        Verb::Approve => Right::Evaluate,
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
            Right::Evaluate | Right::Approver => narrowed(person, policy),
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
        Right::Evaluate | Right::Approver if policy.approvers.is_empty() => has(policy.rules.min_permission)?,
        // Whoever the configuration names may, whatever their permission on the host.
        Right::Evaluate | Right::Approver => {
            if !policy.approvers.iter().any(|entry| is_named(person, entry)) {
                let all = policy.approvers.join(", ");
                return Err(format!("{} is not among the approvers: {all}", person.name));
            }
        }
    }
    narrowed(person, policy)?;
    match &credentials.took_part {
        Some(how) if matches!(right(verb), Right::Evaluate) && !policy.rules.self_approval => {
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
mod tests;
