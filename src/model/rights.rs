//! Authorizes people's commands: one table for every channel.
//!
//! The callers have already determined the person and the forge's facts. On the command line and over the API, the store's
//! folder and the configured tokens identify a person, and a token lists its purposes. Anybody who can read may write a
//! comment, so comments also need the forge's facts.

use std::iter;

use crate::commands::{Person, Verb};
use crate::forge::Permission;
use crate::id::PlacementKey;
use crate::runs::ApprovalRules;

/// The rights in configuration and strategy.
#[derive(Clone, Debug, Default)]
pub struct Policy<'a> {
    /// The target of the command; absent means the source.
    pub placement: Option<&'a PlacementKey>,
    /// The configured rules for approvals.
    pub rules: ApprovalRules,
    /// Who may approve.
    pub approving: Approving<'a>,
    /// Who could before the change under evaluation, where that differs, and who could approve under another placement what this one
    /// takes over. Each of them counts, too: a change does not choose its own approvers.
    pub before: Vec<Approving<'a>>,
}

/// Who may approve: by comment whom configuration and owners name, and everywhere only whom the strategy names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Approving<'a> {
    /// The configured approvers: `user:NAME`, `team:ORG/NAME`. If empty, the permission counts.
    pub approvers: &'a [String],
    /// The owners by the CODEOWNERS file. If there are any, they count instead, as far as they have the permission: whoever may push names
    /// owners, and nobody whom the host does not know as one who may push.
    pub owners: &'a [String],
    /// The restriction in the strategy's annotation `approvers`; absent means none.
    pub narrowed: Option<&'a str>,
}

/// The requirement of a verb.
enum Right {
    /// An approver who did not contribute to the change.
    Evaluate,
    /// An approver.
    Approver,
    /// An account that may push.
    Operator,
}

fn right(verb: Verb) -> Right {
    match verb {
        Verb::Approve => Right::Evaluate,
        Verb::Reject | Verb::Resume | Verb::Rollback | Verb::Adopt | Verb::Enroll | Verb::Revoke => Right::Approver,
        Verb::Pause | Verb::Retry => Right::Operator,
    }
}

/// Authorizes a person. An annotation can only restrict the configuration.
///
/// # Errors
/// Why not, and who is authorized, as text for users.
pub fn may(person: &Person, verb: Verb, policy: &Policy<'_>) -> Result<(), String> {
    person.grant.check(verb, policy.placement).map_err(|why| format!("{} may not: {why}", person.name))?;
    // A person whom a configured token or the store's folder admits has no permission on the git host to check.
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
        let has = permission_name(credentials.permission);
        let needed = permission_name(needed);
        Err(format!("{} has {has} permission; {verb} requires {needed}", person.name))
    };
    let chosen = |of: Approving<'_>, when: &str| {
        let (list, what) = match (of.owners, of.approvers) {
            ([], []) => return has(policy.rules.min_permission),
            // A configured approver is authorized, whatever their permission on the host.
            ([], approvers) => (approvers, "approvers"),
            (owners, _) => (owners, "code owners"),
        };
        if !list.iter().any(|entry| is_named(person, entry)) {
            return Err(format!("{} is not among the {what}{when}: {}", person.name, list.join(", ")));
        }
        if of.owners.is_empty() { Ok(()) } else { has(policy.rules.min_permission) }
    };
    match right(verb) {
        Right::Operator => return has(Permission::Write),
        Right::Evaluate | Right::Approver => {
            chosen(policy.approving, "")?;
            policy.before.iter().try_for_each(|before| chosen(*before, " before this change"))?;
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

/// Checks the strategy's annotation, present and before the change.
fn narrowed(person: &Person, policy: &Policy<'_>) -> Result<(), String> {
    let before = policy.before.iter().map(|before| (before.narrowed, "named before this change"));
    for (approvers, verb) in iter::once((policy.approving.narrowed, "names")).chain(before) {
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

/// Tells whether an entry `user:NAME`, `token:NAME`, `team:ORG/NAME` or `permission:NAME` matches a person. A person without
/// forge facts, admitted by the configured tokens or the store's folder, has every permission and no team; `token:` matches
/// only those.
fn is_named(person: &Person, entry: &str) -> bool {
    let Some((kind, name)) = entry.split_once(':') else { return false };
    match (kind, &person.credentials) {
        // Hosts ignore case in account names; token names are the operator's, so their case counts.
        ("user", Some(_)) => name.eq_ignore_ascii_case(&person.name),
        ("user" | "token", None) => name == person.name,
        ("team", Some(credentials)) => credentials.teams.iter().any(|team| team.eq_ignore_ascii_case(name)),
        ("permission", Some(credentials)) => permission(name).is_some_and(|needed| credentials.permission >= needed),
        ("permission", None) => true,
        // An invalid entry matches nobody: a typing mistake must not admit more approvers.
        _ => false,
    }
}

/// Parses a permission in an annotation.
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

fn permission_name(permission: Permission) -> &'static str {
    match permission {
        Permission::None => "no",
        other => spelled(other),
    }
}

#[cfg(test)]
mod tests;
