//! What objects may be called, what is gitfleet's own, and what members' folders then hold.

use std::fs;

use crate::cli::scratch::{CONFIG, FLEET, Outcome, Scratch, cluster, namespace, placement};

fn fleet() -> Scratch {
    let scratch = Scratch::new();
    scratch.configure();
    scratch.write("clusters.yaml", &[cluster("dev", "d"), cluster("prod", "p")].concat());
    scratch.write("app.yaml", &namespace("app", &[("a", "1"), ("b", "1"), ("c", "1")]));
    let dev = "  policy: {placementType: PickFixed, clusterNames: [dev]}\n";
    scratch.write("dev.yaml", &placement("dev", "app", dev));
    scratch.commit("first");
    scratch
}

fn once(scratch: &Scratch) -> Outcome {
    scratch.run(&["run", "-c", CONFIG, "--once"])
}

#[test]
fn d03_a_kind_that_leads_to_another_member_is_refused_with_file_and_line() {
    let scratch = fleet();
    once(&scratch).text(0);
    let foreign = scratch.path("members/prod/secret..app.db.yaml");
    fs::create_dir_all(foreign.parent().expect("a folder")).expect("prod's folder");
    fs::write(&foreign, "prod's own\n").expect("prod's file");
    let absolute = format!("kind: \"{}\"\n", scratch.path("elsewhere").display());
    for kind in ["kind: \"../prod/secret\"\n", &absolute] {
        let odd = format!("apiVersion: v1\n{kind}metadata: {{name: db, namespace: app}}\n");
        scratch.write("odd.yaml", &odd);
        scratch.commit("odd");
        let validated = scratch.run(&["validate", FLEET]);
        assert!(
            validated.text(1).starts_with("odd.yaml:2: ") && validated.out.contains("is no kind"),
            "{}",
            validated.out
        );
        let planned = scratch.run(&["plan", "--repo", FLEET, "-o", "json"]).json(1);
        assert_eq!((&planned["errors"][0]["path"], &planned["errors"][0]["line"]), (&"odd.yaml".into(), &2.into()));
        let found = once(&scratch);
        assert!(found.code == 1 && found.err.contains("odd.yaml:2"), "{}", found.err);
        scratch.remove("odd.yaml");
        scratch.commit("not any more");
        once(&scratch).text(0);
    }
    assert_eq!(fs::read_to_string(&foreign).expect("it is there"), "prod's own\n");
    assert!(!scratch.path("elsewhere").exists() && !scratch.path("elsewhere..app.db.yaml").exists());
    assert_eq!(scratch.member("dev").len(), 4);
}

#[test]
fn d13_a_placement_of_the_inventories_is_refused_and_no_other_is_held_up() {
    let scratch = fleet();
    once(&scratch).text(0);
    let inventory = scratch.path("members/dev/.inventory.crp.dev.yaml");
    let before = fs::read_to_string(&inventory).expect("the inventory");
    scratch.write("own.yaml", &namespace("gitfleet-system", &[("crp.dev", "mine now")]));
    scratch.write("thief.yaml", &placement("thief", "gitfleet-system", ""));
    scratch.write("app.yaml", &namespace("app", &[("a", "2"), ("b", "1"), ("c", "1")]));
    scratch.commit("a thief");
    let found = once(&scratch);
    assert_eq!(found.code, 1, "{}", found.err);
    let status = scratch.run(&["status", "-c", CONFIG]);
    assert!(status.out.contains("gitfleet-system") && status.out.contains("reserved"), "{}", status.out);
    let after = fs::read_to_string(&inventory).expect("the inventory");
    assert!(after.contains("gitfleet.io/placement: dev") && !after.contains("mine now"), "{after}");
    assert_ne!(before, after, "the other placement continued");
    assert!(!scratch.member("dev").iter().any(|file| file.contains("gitfleet-system")), "{:?}", scratch.member("dev"));
    assert!(scratch.member("prod").is_empty());
}

fn role(name: &str, verb: &str) -> String {
    format!(
        "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {{name: {name:?}, namespace: app}}\n\
         rules: [{{apiGroups: [\"\"], resources: [pods], verbs: [{verb}]}}]\n"
    )
}

#[test]
fn d14_two_roles_are_two_files_and_old_names_are_changed() {
    let scratch = fleet();
    scratch.write("roles.yaml", &[role("team:read", "get"), role("team_read", "list")].concat());
    scratch.commit("roles");
    once(&scratch).text(0);
    let [colon, underscore] = ["team%3Aread", "team_read"]
        .map(|name| scratch.path("members/dev").join(format!("role.rbac.authorization.k8s.io.app.{name}.yaml")));
    let read = |path: &std::path::Path| fs::read_to_string(path).unwrap_or_default();
    assert!(read(&colon).contains("get") && read(&underscore).contains("list"));

    // As the first version had it: one name for both, in it what was written last.
    let text = read(&colon);
    fs::rename(&colon, &underscore).expect("the old name");
    let times = |path: &std::path::Path| path.metadata().and_then(|m| m.modified()).expect("a time");
    let written = times(&underscore);
    once(&scratch).text(0);
    assert_eq!((read(&colon), times(&colon)), (text, written), "it was renamed and not written");
    assert!(read(&underscore).contains("list"), "what was lost is there again");
    assert_eq!(once(&scratch).code, 0);
    assert_eq!(scratch.member("dev").len(), 6);
}

#[test]
fn documents_that_are_no_mapping_are_named() {
    let scratch = fleet();
    scratch.write("text.yaml", "just some words\n");
    scratch.write("list.yaml", "- apiVersion: v1\n- kind: ConfigMap\n");
    scratch.write("values.yaml", "replicas: 3\n");
    scratch.commit("odd files");
    let validated = scratch.run(&["validate", FLEET]);
    assert_eq!(validated.text(0), "");
    for wanted in
        ["skipped: list.yaml:1 is a list", "skipped: text.yaml:1 is plain text", "skipped: values.yaml:1 has neither"]
    {
        assert!(validated.err.contains(wanted), "{}", validated.err);
    }
    let planned = scratch.run(&["plan", "--repo", FLEET]);
    let found = once(&scratch);
    assert_eq!((planned.code, found.code), (0, 0), "{}", found.err);
    for text in [&planned.out, &found.err] {
        assert!(text.contains("text.yaml:1: is plain text") && text.contains("list.yaml:1: is a list"), "{text}");
        assert!(!text.contains("values.yaml"), "{text}");
    }
}
