//! Who may give a command at all, before it is known what it is about.

use crate::model::commands::{Person, Verb};
use crate::model::id::PlacementKey;
use crate::model::runs::ApprovalRules;
use crate::rollout::rights::{Policy, may};

/// A gate that waits, and who may approve it by its strategy.
pub type NarrowedGate<'a> = (&'a PlacementKey, Option<&'a str>);

/// Tells why a person may not give one of these commands, to any of the gates that wait. Whoever may give it to one of them is
/// not refused here.
///
/// # Errors
/// Why not, and who may, as text for users.
pub fn may_some(
    person: &Person,
    verbs: &[Verb],
    rules: ApprovalRules,
    approvers: &[String],
    gates: &[NarrowedGate<'_>],
) -> Result<(), String> {
    let policy = Policy { rules, approvers, ..Policy::default() };
    for verb in verbs {
        may(person, *verb, &policy)?;
        let of_gates = gates
            .iter()
            .map(|(key, narrowed)| may(person, *verb, &Policy { placement: Some(key), narrowed: *narrowed, ..policy }));
        let of_gates: Vec<Result<(), String>> = of_gates.collect();
        if of_gates.iter().all(Result::is_err) {
            of_gates.into_iter().next().unwrap_or(Ok(()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::forge::{Credentials, Permission};
    use crate::model::runs::Channel;

    #[test]
    fn whoever_may_open_one_of_the_gates_is_told_which_there_are() {
        let person = |permission, took_part: Option<&str>| Person {
            credentials: Some(Credentials {
                id: 1,
                permission,
                teams: [].into(),
                took_part: took_part.map(str::to_owned),
                comment: String::new(),
            }),
            ..Person::of("ann", Channel::Comment)
        };
        let key = PlacementKey::cluster_scoped("web");
        let (own, other) = ((&key, Some("user:ann")), (&key, Some("user:bob")));
        let writer = || person(Permission::Write, None);
        // who, what, the gates, a word of why not
        let rows = [
            (writer(), Verb::Approve, vec![(&key, None)], ""),
            (writer(), Verb::Approve, vec![], ""),
            (person(Permission::Read, None), Verb::Approve, vec![(&key, None)], "requires write"),
            (person(Permission::Read, None), Verb::Pause, vec![], "requires write"),
            (person(Permission::Write, Some("opened #1")), Verb::Approve, vec![(&key, None)], "opened #1"),
            (person(Permission::Write, Some("opened #1")), Verb::Reject, vec![(&key, None)], ""),
            (writer(), Verb::Approve, vec![other, own], ""),
            (writer(), Verb::Approve, vec![other, other], "names user:bob"),
        ];
        for (person, verb, gates, word) in rows {
            let found = may_some(&person, &[verb], ApprovalRules::default(), &[], &gates);
            assert_eq!(found.is_ok(), word.is_empty(), "{verb} {gates:?}: {found:?}");
            assert!(found.err().unwrap_or_default().contains(word), "{verb} {gates:?}");
        }
    }
}
