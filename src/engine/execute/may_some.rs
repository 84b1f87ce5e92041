//! Who may give a command at all, before it is known what it is about.

use model::commands::{Person, Verb};
use model::id::PlacementKey;
use model::rights::{Approving, Policy, may};
use model::runs::ApprovalRules;

/// A gate that waits, who may approve it by its strategy, and who by the CODEOWNERS file.
pub type NarrowedGate<'a> = (&'a PlacementKey, Option<&'a str>, &'a [String]);

/// Tells why a person may not give one of these commands, to any of the gates that wait. Whoever may give it to one of them is
/// not refused here. An owner of one of their files is none of the approvers, and may nevertheless.
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
    let policy = Policy { rules, approving: Approving { approvers, ..Approving::default() }, ..Policy::default() };
    for verb in verbs {
        let of_gate = |(key, narrowed, owners): &NarrowedGate<'_>| {
            let approving = Approving { narrowed: *narrowed, ..policy.approving };
            let of_gate = Policy { placement: Some(key), approving, ..policy.clone() };
            let as_owner = Policy { approving: Approving { owners, ..approving }, ..of_gate.clone() };
            may(person, *verb, &of_gate).or_else(|why| may(person, *verb, &as_owner).map_err(|_| why))
        };
        let of_gates: Vec<Result<(), String>> = gates.iter().map(of_gate).collect();
        if of_gates.iter().any(Result::is_ok) {
            continue;
        }
        may(person, *verb, &policy)?;
        of_gates.into_iter().next().unwrap_or(Ok(()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::forge::{Credentials, Permission};
    use model::runs::Channel;

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
        let none: &[String] = &[];
        let ann = ["user:ann".to_owned()];
        let own = (&key, Some("user:ann"), none);
        let other = (&key, Some("user:bob"), none);
        let owned = (&key, None, ann.as_slice());
        let plain = (&key, None, none);
        let writer = || person(Permission::Write, None);
        // who, what, the gates, a word of why not
        let rows = [
            (writer(), Verb::Approve, vec![plain], ""),
            (writer(), Verb::Approve, vec![], ""),
            (writer(), Verb::Approve, vec![owned], ""),
            (person(Permission::Read, None), Verb::Approve, vec![owned], "requires write"),
            (person(Permission::Read, None), Verb::Approve, vec![plain], "requires write"),
            (person(Permission::Read, None), Verb::Pause, vec![], "requires write"),
            (person(Permission::Write, Some("opened #1")), Verb::Approve, vec![plain], "opened #1"),
            (person(Permission::Write, Some("opened #1")), Verb::Reject, vec![plain], ""),
            (writer(), Verb::Approve, vec![other, own], ""),
            (writer(), Verb::Approve, vec![other, other], "names user:bob"),
        ];
        for (person, verb, gates, word) in rows {
            let found = may_some(&person, &[verb], ApprovalRules::default(), &[], &gates);
            assert_eq!(found.is_ok(), word.is_empty(), "{verb} {gates:?}: {found:?}");
            assert!(found.err().unwrap_or_default().contains(word), "{verb} {gates:?}");
        }
        let others = ["user:ops".to_owned()];
        for (gates, is_refused) in [(vec![], true), (vec![plain], true), (vec![plain, owned], false)] {
            let found = may_some(&writer(), &[Verb::Reject], ApprovalRules::default(), &others, &gates);
            assert_eq!(found.is_err(), is_refused, "{gates:?}: {found:?}");
        }
    }
}
