use std::sync::Arc;

use crate::{Selection, assemble, parse_blob, select};
use model::id::BlobId;
use model::manifest::InputError;
use model::tree::Tree;

const NAMESPACE: &str = "{group: '', version: v1, kind: Namespace, name: shop}";
const SOME: &str =
    "{group: '', version: v1, kind: Namespace, name: shop, selectionScope: NamespaceWithResourceSelectors}";

fn read(files: &[(&str, String)], places: Option<Vec<String>>) -> Result<Tree, Vec<InputError>> {
    let selection = Selection { places, ..select(files.iter().map(|(path, _)| *path), None) };
    let files =
        files.iter().map(|(path, text)| (Arc::from(*path), BlobId::new(*path), Arc::new(parse_blob(text.as_bytes()))));
    assemble(None, &selection, files)
}

/// Returns the errors without their hints, which rows about messages need not repeat.
fn errors(files: &[(&str, String)]) -> Vec<String> {
    let errors = read(files, None).err().unwrap_or_default();
    errors.into_iter().map(|error| InputError { hint: None, ..error }.to_string()).collect()
}

fn placement(name: &str, annotations: &str, selectors: &[&str]) -> String {
    format!(
        "apiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourcePlacement\nmetadata: {{name: {name}, annotations: \
         {{{annotations}}}}}\nspec: {{resourceSelectors: [{}]}}\n---\n",
        selectors.join(", ")
    )
}

fn path(folder: &str) -> String {
    format!("gitfleet.io/path: {folder}")
}

fn map(namespace: &str) -> String {
    let namespace = if namespace.is_empty() { String::new() } else { format!(", namespace: {namespace}") };
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c{namespace}}}\n---\n")
}

fn role() -> String {
    "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: reader}\n---\n".to_owned()
}

#[test]
fn one_object_may_stand_in_folders_that_no_placement_selects_both_of() {
    let twice = |text: String| [("a/x.yaml", text.clone()), ("b/x.yaml", text)];
    let beside = "b/x.yaml:1: ConfigMap shop/c: metadata.name: the same object stands at a/x.yaml:1 too";
    let both = |name: &str, line: usize| {
        format!("{beside}, and the ClusterResourcePlacement {name} (p.yaml:{line}) selects from both files")
    };
    let (a, b) = (placement("a", &path("a"), &[NAMESPACE]), placement("b", &path("b"), &[NAMESPACE]));
    let role_of = |more: &str| format!("{{group: rbac.authorization.k8s.io, version: v1, kind: ClusterRole{more}}}");
    let named = |selector: &str| placement("p", "", &[selector]);
    let maps = |more: &str| format!("{{group: '', version: v1, kind: ConfigMap{more}}}");
    let within = |namespace: &str, annotations: &str| {
        let text = placement("p", annotations, &[&maps("")]);
        text.replace("ClusterResourcePlacement", "ResourcePlacement")
            .replace("name: p,", &format!("name: p, namespace: {namespace},"))
    };
    let of_role = "b/x.yaml:1: ClusterRole.rbac.authorization.k8s.io reader: metadata.name: the same object stands at a/x.yaml:1 too";
    let rows: Vec<(&str, String, String, Vec<String>)> = vec![
        ("no placement", String::new(), map("shop"), vec![beside.to_owned()]),
        ("no folder is named", named(NAMESPACE), map("shop"), vec![beside.to_owned()]),
        ("a folder for each", [a.clone(), b.clone()].concat(), map("shop"), vec![]),
        ("a folder for one, and nobody sees the other", a.clone(), map("shop"), vec![]),
        ("folders that hold neither", placement("p", &path("p.yaml"), &[NAMESPACE]), map("shop"), vec![beside.to_owned()]),
        ("somebody selects from both", [a.clone(), named(NAMESPACE)].concat(), map("shop"), vec![both("p", 6)]),
        ("by label", [a.clone(), named("{group: '', version: v1, kind: Namespace, labelSelector: {matchLabels: {x: z}}}")].concat(), map("shop"), vec![both("p", 6)]),
        ("some kinds of it", [a.clone(), placement("p", "", &[SOME, &maps("")])].concat(), map("shop"), vec![both("p", 6)]),
        ("other kinds of it", [a.clone(), placement("p", "", &[SOME, "{group: apps, version: v1, kind: Deployment}"])].concat(), map("shop"), vec![]),
        ("other names of it", [a.clone(), placement("p", "", &[SOME, &maps(", name: d")])].concat(), map("shop"), vec![]),
        ("another namespace", [a.clone(), named("{group: '', version: v1, kind: Namespace, name: infra}")].concat(), map("shop"), vec![]),
        ("the Namespace alone", [a.clone(), named("{group: '', version: v1, kind: Namespace, name: shop, selectionScope: NamespaceOnly}")].concat(), map("shop"), vec![]),
        ("from within", [a.clone(), within("shop", "")].concat(), map("shop"), vec![format!("{beside}, and the ResourcePlacement shop/p (p.yaml:6) selects from both files")]),
        ("from within one folder", [a.clone(), within("shop", &path("a"))].concat(), map("shop"), vec![]),
        ("from within another namespace", [a.clone(), within("other", "")].concat(), map("shop"), vec![]),
        ("a cluster-scoped one", [a.clone(), named(&role_of(""))].concat(), role(), vec![format!("{of_role}, and the ClusterResourcePlacement p (p.yaml:6) selects from both files")]),
        ("a cluster-scoped one of a name", [a.clone(), named(&role_of(", name: other"))].concat(), role(), vec![]),
        ("with a namespace given", [placement("a", "gitfleet.io/path: a, gitfleet.io/default-namespace: shop", &[NAMESPACE]), placement("b", "gitfleet.io/path: b, gitfleet.io/default-namespace: other", &[NAMESPACE])].concat(), map(""), vec![]),
        ("given for both", [a, placement("p", "gitfleet.io/default-namespace: shop", &[NAMESPACE])].concat(), map(""), vec!["b/x.yaml:1: ConfigMap c: metadata.name: the same object stands at a/x.yaml:1 too, and the ClusterResourcePlacement p (p.yaml:6) selects from both files".to_owned()]),
    ];
    for (name, placements, text, wanted) in rows {
        let mut files = twice(text).to_vec();
        files.push(("p.yaml", placements));
        assert_eq!(errors(&files), wanted, "{name}");
    }
}

#[test]
fn what_one_folder_holds_twice_is_refused_whoever_selects_it() {
    let inside = placement("p", &path("apps/a"), &["{group: '', version: v1, kind: Namespace, name: other}"]);
    let files = |first: &'static str, second: &'static str, text: &str| {
        let values = ("apps/a/values.yaml", "a: 1\n".to_owned());
        errors(&[("p.yaml", inside.clone()), values, (first, text.to_owned()), (second, text.to_owned())])
    };
    let beside = "ConfigMap shop/c: metadata.name: the same object stands at";
    assert_eq!(
        files("apps/a/x.yaml", "apps/a/eu/x.yaml", &map("shop")),
        [format!("apps/a/x.yaml:1: {beside} apps/a/eu/x.yaml:1 too")]
    );
    assert_eq!(files("apps/a/x.yaml", "apps/ab/x.yaml", &map("shop")), Vec::<String>::new());
    assert_eq!(files("apps/b/x.yaml", "apps/c/x.yaml", &map("shop")).len(), 1, "no folder is named there");
    let override_of = "apiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourceOverride\nmetadata: {name: o}\nspec:\n  \
                       clusterResourceSelectors: [{group: '', version: v1, kind: Namespace, name: shop}]\n  policy: {overrideRules: \
                       [{overrideType: Delete}]}\n";
    assert_eq!(files("apps/a/x.yaml", "apps/b/x.yaml", override_of).len(), 1, "what configures gitfleet is there once");
    // The third is compared with the one in its own folder.
    let three = [("a/x.yaml", map("shop")), ("b/x.yaml", map("shop")), ("b/y.yaml", map("shop"))];
    let placements = ["a", "b"].map(|folder| placement(folder, &path(folder), &[NAMESPACE])).concat();
    let found = errors(&[&three[..], &[("p.yaml", placements)]].concat());
    assert_eq!(found, [format!("b/y.yaml:1: {beside} b/x.yaml:1 too")]);
}

#[test]
fn a_given_namespace_makes_no_second_object() {
    let given = |folder: &str| {
        placement("p", &format!("gitfleet.io/path: {folder}, gitfleet.io/default-namespace: shop"), &[NAMESPACE])
    };
    let files = |folder: &str| [("a/x.yaml", map("")), ("a/y.yaml", map("shop")), ("p.yaml", given(folder))];
    let wanted = "a/x.yaml:1: ConfigMap c: metadata.name: the same object in the namespace shop stands at a/y.yaml:1 too, and the \
                  ClusterResourcePlacement p (p.yaml:1) selects from both files";
    assert_eq!(errors(&files("a")), [wanted]);
    assert_eq!(errors(&files("a/x.yaml")), Vec::<String>::new());
}

#[test]
fn a_namespace_is_missing_where_nobody_gives_one() {
    let files = |annotations: &str, text: String| {
        let found = read(
            &[("a/x.yaml", text), ("b/x.yaml", map("shop")), ("p.yaml", placement("p", annotations, &[NAMESPACE]))],
            None,
        );
        found.err().unwrap_or_default().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let missing = "a/x.yaml:1: ConfigMap c: metadata.namespace: a ConfigMap is namespaced, and this one names no namespace (add metadata.namespace";
    assert_eq!(files("", map("")), [format!("{missing})")]);
    assert_eq!(files("gitfleet.io/path: b, gitfleet.io/default-namespace: shop", map("")), [format!("{missing})")]);
    let hint = ", or gitfleet.io/default-namespace to the ClusterResourcePlacement p (p.yaml:1))";
    assert_eq!(files("gitfleet.io/path: a", map("")), [format!("{missing}{hint}")]);
    assert_eq!(files("gitfleet.io/path: a, gitfleet.io/default-namespace: shop", map("")), Vec::<String>::new());
    assert_eq!(files("gitfleet.io/default-namespace: other", map("")), Vec::<String>::new());
    let own = "apiVersion: placement.kubernetes-fleet.io/v1\nkind: StagedUpdateStrategy\nmetadata: {name: s}\nspec: {stages: [{name: a}]}\n";
    assert_eq!(
        files("gitfleet.io/default-namespace: shop", own.to_owned()).len(),
        1,
        "placements give namespaces to payload"
    );
}

#[test]
fn folders_without_files_are_named() {
    let files = |folder: &str, more: (&'static str, &str)| {
        let found = read(
            &[
                ("apps/production/x.yaml", map("shop")),
                (more.0, more.1.to_owned()),
                ("p.yaml", placement("p", &path(folder), &[NAMESPACE])),
            ],
            None,
        );
        found.err().unwrap_or_default().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let wanted = |folder: &str, hint: &str| {
        vec![format!(
            "p.yaml:1: ClusterResourcePlacement.placement.kubernetes-fleet.io p: metadata.annotations.gitfleet.io/path: no file of the \
             source is read in {folder} ({hint})"
        )]
    };
    let nothing = ("values.yaml", "a: 1\n");
    let rows = [
        ("apps/production", nothing, vec![]),
        ("apps/production/x.yaml", nothing, vec![]),
        ("apps/prodution", nothing, wanted("apps/prodution", "did you mean `apps/production`?")),
        ("nowhere", nothing, wanted("nowhere", "name a folder with manifests; a base that others render is none")),
        ("apps/production/eu", nothing, wanted("apps/production/eu", "did you mean `apps/production`?")),
    ];
    for (folder, more, expected) in rows {
        assert_eq!(files(folder, more), expected, "{folder}");
    }
    let of = |folder: &str| {
        let text =
            placement("q", &path(folder), &[NAMESPACE]).replace("ClusterResourcePlacement", "ClusterResourceOverride");
        text.replace(
            "spec: {resourceSelectors",
            "spec: {policy: {overrideRules: [{overrideType: Delete}]}, clusterResourceSelectors",
        )
    };
    let lost = |folder: &str| files("apps/production", ("o.yaml", &of(folder)));
    assert_eq!((lost("apps/production"), lost("apps")), (vec![], vec![]));
    let name =
        "o.yaml:1: ClusterResourceOverride.placement.kubernetes-fleet.io q: metadata.annotations.gitfleet.io/path:";
    let none = |folder: &str| format!("{name} no placement has the folder {folder} or one in it");
    assert_eq!(lost("apps/prodution"), [format!("{} (did you mean `apps/production`?)", none("apps/prodution"))]);
    let hint = "annotate the placement that it is for with gitfleet.io/path, too";
    assert_eq!(lost("other"), [format!("{} ({hint})", none("other"))]);
    // What is wrong in a folder is why nothing is read there.
    let selection = Selection {
        errors: vec![InputError {
            path: "apps/broken/kustomization.yaml".to_owned(),
            line: 0,
            object: None,
            field: None,
            message: "is broken".to_owned(),
            hint: None,
        }],
        ..Selection::default()
    };
    let text = placement("p", &path("apps/broken"), &[NAMESPACE]);
    let found =
        assemble(None, &selection, [(Arc::from("p.yaml"), BlobId::new("p"), Arc::new(parse_blob(text.as_bytes())))]);
    assert_eq!(found.expect_err("it is refused").len(), 1);
}

#[test]
fn an_error_of_a_placement_is_not_one_of_each_object() {
    let wrong = [placement("a", &path("/a"), &[NAMESPACE]), placement("b", &path("b"), &[NAMESPACE])].concat();
    let found = errors(&[("a/x.yaml", map("shop")), ("b/x.yaml", map("shop")), ("p.yaml", wrong)]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("\"/a\" is not a folder as it is named from the root of the source"), "{found:?}");
}

#[test]
fn files_of_several_places_count_from_their_folder() {
    let placements = ["a", "b"].map(|folder| placement(folder, &path(folder), &[NAMESPACE])).concat();
    let elsewhere = placement("c", &path("elsewhere"), &[NAMESPACE]);
    let files =
        [("x/a/x.yaml", map("shop")), ("x/b/x.yaml", map("shop")), ("p.yaml", [placements, elsewhere].concat())];
    assert!(read(&files, Some(vec!["x".to_owned()])).is_ok());
    assert_eq!(read(&files, None).expect_err("a source").len(), 4);
}

#[test]
fn overrides_of_one_object_are_for_different_folders() {
    let files = |first: &str, second: &str| {
        let of = |name: &str, annotations: &str| {
            format!(
                "apiVersion: placement.kubernetes-fleet.io/v1\nkind: ResourceOverride\nmetadata: {{name: {name}, namespace: shop, annotations: \
                 {{{annotations}}}}}\nspec:\n  resourceSelectors: [{{group: '', version: v1, kind: ConfigMap, name: c}}]\n  policy: \
                 {{overrideRules: [{{overrideType: Delete}}]}}\n"
            )
        };
        let objects = [
            ("a/x.yaml", "values: 1\n".to_owned()),
            ("a/b/x.yaml", "values: 1\n".to_owned()),
            ("c/x.yaml", "values: 1\n".to_owned()),
        ];
        let placements =
            ["a", "a/b", "c"].map(|folder| placement(&folder.replace('/', "-"), &path(folder), &[NAMESPACE])).concat();
        let overrides = [("o1.yaml", of("one", first)), ("o2.yaml", of("two", second)), ("p.yaml", placements)];
        errors(&[&objects[..], &overrides[..]].concat())
    };
    let rows =
        [("", "", 1), ("a", "", 1), ("", "a", 1), ("a", "a", 1), ("a", "a/b", 1), ("a", "c", 0), ("a/b", "c", 0)];
    for (first, second, wanted) in rows {
        let annotation = |folder: &str| if folder.is_empty() { String::new() } else { path(folder) };
        let found = files(&annotation(first), &annotation(second));
        assert_eq!(found.len(), wanted, "{first} {second}: {found:?}");
        assert!(found.iter().all(|error| error.contains("one at o1.yaml:1 overrides ConfigMap c too")), "{found:?}");
    }
}

#[test]
fn a_folder_that_cannot_be_rendered_makes_no_other_one_empty() {
    let text = placement("web", &path("web"), &[NAMESPACE]);
    let broken = InputError {
        path: "broken/kustomization.yaml".to_owned(),
        line: 0,
        object: None,
        field: None,
        message: "is wrong".to_owned(),
        hint: None,
    };
    let markers = ["broken/kustomization.yaml", "web/Chart.yaml"].map(str::to_owned).to_vec();
    let selection = Selection { markers, errors: vec![broken.clone()], ..select(["p.yaml"], None) };
    let file = (Arc::from("p.yaml"), BlobId::new("p.yaml"), Arc::new(parse_blob(text.as_bytes())));
    assert_eq!(assemble(None, &selection, [file]).err(), Some(vec![broken]));
}
