//! Who may approve by the file of a placement, and that no commit chooses who approves it.

use super::*;
use model::approvers::ApproversByPath;
use model::commands::RefusalReason;
use model::forge::{Credentials, Permission};
use model::tenants::{Tenant, Tenants};
use model::tree::Tree;

/// Makes the accepted commit one in which the placement is in a file with owners.
fn commit(case: &mut Case, commit: &str, path: &str, owners: &[&str]) {
    let mut tree = Tree::clone(&case.fleet.tree);
    tree.commit = Some(commit.into());
    let placement = tree.placements.get_mut(&case.state.record.key).expect("it is there");
    placement.origin.path = path.into();
    placement.owners = owners.iter().map(|owner| (*owner).to_owned()).collect();
    case.fleet.tree = Arc::new(tree);
}

fn by_path(folders: &[(&str, &str)], code_owners: bool) -> Arc<ApproversByPath> {
    let folders = folders.iter().map(|(folder, approver)| ((*folder).to_owned(), vec![(*approver).to_owned()]));
    Arc::new(ApproversByPath::new(folders.collect(), code_owners))
}

fn writer(name: &str) -> Person {
    let credentials =
        Credentials { id: 1, permission: Permission::Write, teams: [].into(), took_part: None, comment: String::new() };
    Person { credentials: Some(credentials), ..Person::of(name, Channel::Comment) }
}

/// Returns who of these people would open the gate of stage one of the first run.
fn may(case: &Case, people: &[&'static str]) -> Vec<&'static str> {
    may_open(case, "p-0", people)
}

/// Returns who of these people would open the gate of stage one of a run.
fn may_open(case: &Case, run: &str, people: &[&'static str]) -> Vec<&'static str> {
    let command = Command { stage: Some("one".to_owned()), ..Command::new(Verb::Approve, run) };
    let placements = BTreeMap::from([(case.state.record.key.clone(), case.state.clone())]);
    let target = resolve(&placements, &command).expect("it waits");
    let opens = |name: &&&str| match execute(&case.state, &case.fleet, &target, &command, &writer(name), case.now) {
        Ok(_) => true,
        Err(refusal) => {
            assert_eq!(refusal.reason, RefusalReason::NotAllowed, "{name}: {refusal}");
            false
        }
    };
    people.iter().filter(opens).copied().collect()
}

const PEOPLE: [&str; 4] = ["ann", "bob", "ops", "mal"];

#[test]
fn the_file_decides_by_its_owners_then_its_folder_then_its_tenant() {
    // file, owners, whether they count, who may, who is shown
    type Row<'a> = (&'a str, &'a [&'a str], bool, &'a [&'a str], Option<&'a str>);
    let owners: &[&str] = &["user:ann"];
    let tenant = |path: &str, approver: &str| Tenant {
        name: path.into(),
        path: path.into(),
        approvers: vec![approver.to_owned()],
        namespaces: vec!["*".to_owned()],
        strategies: vec!["*".to_owned()],
        ..Tenant::default()
    };
    let rows: [Row<'_>; 7] = [
        ("p.yaml", &[], true, &["ops"], None),
        ("p.yaml", owners, true, &["ann"], Some("user:ann")),
        ("p.yaml", owners, false, &["ops"], None),
        ("a/p.yaml", &[], true, &["bob"], Some("user:bob")),
        ("a/p.yaml", owners, true, &["ann"], Some("user:ann")),
        ("a/team/p.yaml", &[], true, &["mal"], Some("user:mal")),
        ("b/p.yaml", &[], true, &["bob"], Some("user:bob")),
    ];
    for (path, owners, counts, wanted, shown) in rows {
        let mut case = Case::of(&[]);
        case.fleet.approvers = vec!["user:ops".to_owned()];
        case.fleet.by_path = by_path(&[("a", "user:bob"), ("b", "user:bob")], counts);
        case.fleet.tenants = Arc::new(Tenants::new(vec![tenant("a/team", "user:mal"), tenant("b", "user:mal")]));
        commit(&mut case, "c0", path, owners);
        case.settle();
        assert_eq!(may(&case, &PEOPLE), wanted, "{path} {owners:?} {counts}");
        assert_eq!(case.state.record.approvers.as_deref(), shown, "{path} {owners:?} {counts}");
        assert_eq!(case.state.record.replaced, [], "{path}: a new placement has nothing before");
    }
}

#[test]
fn a_commit_that_changes_who_decides_needs_who_decided_before_too() {
    // what the first commit has, what the second has, who may then
    type At<'a> = (&'a str, &'a [&'a str]);
    let rows: [(At<'_>, At<'_>, &[&str]); 8] = [
        (("p.yaml", &["user:ann"]), ("p.yaml", &["user:ann"]), &["ann"]),
        (("p.yaml", &["user:ann"]), ("p.yaml", &["user:mal"]), &[]),
        (("p.yaml", &["user:ann"]), ("p.yaml", &["user:mal", "user:ann"]), &["ann"]),
        (("p.yaml", &["user:ann"]), ("p.yaml", &[]), &[]),
        (("p.yaml", &[]), ("p.yaml", &["user:mal"]), &[]),
        (("p.yaml", &["user:ann"]), ("q.yaml", &["user:ann"]), &["ann"]),
        (("a/p.yaml", &[]), ("p.yaml", &[]), &[]),
        (("p.yaml", &[]), ("a/p.yaml", &["user:ops"]), &["ops"]),
    ];
    for (first, second, wanted) in rows {
        let mut case = Case::of(&[]);
        case.fleet.approvers = vec!["user:ops".to_owned()];
        case.fleet.by_path = by_path(&[("a", "user:bob")], true);
        commit(&mut case, "c0", first.0, first.1);
        case.settle();
        commit(&mut case, "c1", second.0, second.1);
        case.settle();
        assert_eq!(may(&case, &PEOPLE), wanted, "{first:?} {second:?}");
        // Another commit, while the gate waits, takes nothing back.
        commit(&mut case, "c2", second.0, second.1);
        case.settle();
        assert_eq!(may(&case, &PEOPLE), wanted, "{first:?} {second:?}, and another commit");
        // Other channels know no owners.
        case.say(Verb::Approve, "p-0 one").expect("the gate opens");
        case.settle();
        commit(&mut case, "c3", second.0, second.1);
        case.settle();
        let is_over = case.state.runs.values().all(|run| run.phase.is_final());
        assert!(is_over, "{first:?} {second:?}: {:?}", case.run("p-0").phase);
        assert_eq!(case.state.record.replaced, [], "{first:?} {second:?}");
    }
}

#[test]
fn who_decided_before_is_forgotten_by_the_decision_that_ends_the_rollout() {
    let mut case = Case::of(&[]);
    case.fleet.approvers = vec!["user:ops".to_owned()];
    case.fleet.by_path = by_path(&[], true);
    for (number, owner) in [("c0", "user:ann"), ("c1", "user:mal"), ("c2", "user:mal")] {
        commit(&mut case, number, "p.yaml", &[owner]);
        case.settle();
    }
    assert!(may(&case, &PEOPLE).is_empty(), "ann decided before");
    // Other channels know no owners.
    case.say(Verb::Approve, "p-0 one").expect("the gate opens");
    for _ in 0..ROUNDS_MAX {
        if case.run("p-0").phase.is_final() {
            break;
        }
        case.decide();
        case.work();
    }
    assert_eq!(case.phases(), "p-0 Succeeded");
    assert_eq!(case.state.record.replaced, [], "before a person begins another rollout");
}

/// Clusters join by themselves after a commit that names others, and the next commit names those before again.
#[test]
fn whom_a_commit_named_decides_about_the_next_one_once_its_own_content_is_rolled_out() {
    let rows: [(bool, &str, &[&str]); 2] = [(true, "p-1-2", &[]), (false, "p-0-2", &["ann"])];
    for (has_content, run, wanted) in rows {
        let mut case = Case::of(&[]);
        case.fleet.approvers = vec!["user:ops".to_owned()];
        case.fleet.by_path = by_path(&[], true);
        commit(&mut case, "c0", "p.yaml", &["user:ann"]);
        case.settle();
        // Other channels know no owners.
        case.say(Verb::Approve, "p-0 one").expect("the gate opens");
        case.settle();
        if has_content {
            case.content("1");
        }
        commit(&mut case, "c1", "p.yaml", &["user:mal"]);
        case.settle();
        if has_content {
            assert!(may_open(&case, "p-1", &PEOPLE).is_empty(), "ann decided before");
            case.say(Verb::Approve, "p-1 one").expect("the gate opens");
            case.settle();
        }
        case.commit(&[("e.yaml", member("e", "one")), ("f.yaml", member("f", "two"))]);
        commit(&mut case, "c1", "p.yaml", &["user:mal"]);
        case.settle();
        assert!(may_open(&case, run, &PEOPLE).is_empty(), "{run}: as long as no other commit is accepted");
        commit(&mut case, "c2", "p.yaml", &["user:ann"]);
        case.settle();
        assert_eq!(may_open(&case, run, &PEOPLE), wanted, "{run}");
        assert_eq!(case.state.record.replaced.len(), 1, "{run}: {:?}", case.state.record.replaced);
    }
}

#[test]
fn who_decided_about_a_placement_decides_about_its_removal() {
    let mut case = Case::of(&[]);
    case.fleet.approvers = vec!["user:ops".to_owned()];
    case.fleet.by_path = by_path(&[], true);
    commit(&mut case, "c0", "p.yaml", &["user:ann"]);
    case.settle();
    let mut tree = Tree::clone(&case.fleet.tree);
    tree.commit = Some("c1".into());
    tree.placements.clear();
    case.fleet.tree = Arc::new(tree);
    case.settle();
    assert!(case.state.record.removed);
    assert_eq!(case.fleet.owners_of(&case.state.record), ["user:ann"]);
}
