use super::*;
use model::runs::{RunCause, RunPhase, RunRecord};

/// Reads `NAME` or `NAMESPACE/NAME`.
fn key(text: &str) -> PlacementKey {
    let Ok(key) = text.parse();
    key
}

/// Makes runs of a placement; one in brackets has ended.
fn runs(of: &PlacementKey, names: &[&str]) -> Runs {
    let run = |name: &&str| {
        let ended = name.strip_prefix('(').and_then(|name| name.strip_suffix(')'));
        RunRecord {
            name: ended.unwrap_or(name).to_owned(),
            placement: of.clone(),
            cause: RunCause::Snapshot,
            phase: if ended.is_some() { RunPhase::Succeeded } else { RunPhase::Waiting },
            ..testkit::records::run()
        }
    };
    names.iter().map(run).collect()
}

fn names(all: &[(&str, &[&str])]) -> (Names, Vec<(PlacementKey, Runs)>) {
    let all: Vec<_> = all.iter().map(|(of, names)| (key(of), runs(&key(of), names))).collect();
    (Names::of(all.iter().map(|(key, runs)| (key, runs))), all)
}

#[test]
fn a_shared_name_is_found_where_a_bare_one_is_looked_for() {
    type Row<'a> = (&'a [(&'a str, &'a [&'a str])], &'a [&'a str]);
    // placements with their runs, those whose names are shared
    let rows: [Row<'_>; 9] = [
        (&[("web", &["web-0"]), ("api", &["api-0"])], &[]),
        (&[("web", &["web-0"]), ("shop/web", &["web-0"])], &["web"]),
        (&[("web", &[]), ("shop/web", &[])], &["web"]),
        (&[("web", &["web-0"]), ("shop/other", &["web-0"])], &["web"]),
        (&[("shop/web", &["web-0"]), ("team/web", &["web-0"])], &[]),
        (&[("shop/web", &["web-1"]), ("shop/web-1", &["web-1-0"])], &["shop/web", "shop/web-1"]),
        (&[("web", &["web-1"]), ("web-1", &[])], &["web", "web-1"]),
        // Nobody is told to do something about a run that has ended; whoever names the other may mean it.
        (&[("web", &["(web-1)"]), ("web-1", &[])], &["web-1"]),
        (&[("crp/web", &[]), ("web", &[])], &["web", "crp/web"]),
    ];
    for (placements, expected) in rows {
        let (names, all) = names(placements);
        let shared = all.iter().filter(|(key, runs)| names.is_shared(key, runs)).map(|(key, _)| key.to_string());
        let expected: BTreeSet<&str> = expected.iter().copied().collect();
        assert_eq!(
            shared.collect::<BTreeSet<_>>(),
            expected.iter().map(ToString::to_string).collect(),
            "{placements:?}"
        );
    }
}

#[test]
fn what_comes_and_goes_concerns_whoever_has_the_name() {
    let (mut names, all) = names(&[("web", &["web-0"]), ("shop/web", &["web-0"])]);
    let (web, _) = &all[0];
    let none = BTreeSet::new();
    assert_eq!(names.set(web, Some(&runs(web, &["web-0"]))), none, "nothing came or went");
    assert_eq!(names.set(web, Some(&runs(web, &["web-0", "web-1"]))), none, "a name of its own");
    let other = key("shop/web");
    assert_eq!(names.set(&other, None), [web.clone()].into());
    assert!(!names.is_shared(web, &runs(web, &["web-0"])));
    assert_eq!(names.set(&other, Some(&Runs::new())), [web.clone()].into());
    assert!(names.is_shared(web, &runs(web, &["web-0"])));
}

#[test]
fn runs_have_the_scope_of_their_placements() {
    let (names, _) = names(&[("web", &["web-1-2"]), ("web-1", &[]), ("shop/web", &["a"]), ("team/web", &["b"])]);
    let rows = [
        ("web-1", "web-1-2", true),
        ("web", "web-1-2", false),
        ("shop/web-1", "web-1-2", false),
        ("shop/x", "a", true),
        ("team/x", "a", false),
    ];
    for (of, name, expected) in rows {
        assert_eq!(names.has_run_beside(&key(of), name), expected, "{of} {name}");
    }
}
