use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use super::*;
use crate::parse_blob;

/// Files of a tree: path and content.
struct Tree(BTreeMap<&'static str, &'static str>);

impl Files for Tree {
    type Error = Infallible;

    fn below(&mut self, folder: &str) -> Result<Vec<String>, Infallible> {
        Ok(self.0.keys().filter(|path| is_in(path, folder)).map(ToString::to_string).collect())
    }

    fn id(&mut self, path: &str) -> Result<Option<BlobId>, Infallible> {
        Ok(self.0.get(path).map(|content| BlobId::from(*content)))
    }

    fn content(&mut self, path: &str) -> Result<Option<Vec<u8>>, Infallible> {
        Ok(self.0.get(path).map(|content| content.as_bytes().to_vec()))
    }
}

/// Returns the folders of a tree, as `path: what is read`, and its errors.
fn found(files: &[(&'static str, &'static str)]) -> (Vec<String>, Vec<String>) {
    let mut said = KnownMarkers::default();
    let found = found_again(files, &mut said);
    assert_eq!(found_again(files, &mut said), found, "what is known says the same");
    found
}

fn found_again(files: &[(&'static str, &'static str)], said: &mut KnownMarkers) -> (Vec<String>, Vec<String>) {
    let markers: Vec<String> = files
        .iter()
        .map(|(path, _)| (*path).to_owned())
        .filter(|path| Renderer::of_file(name(path)).is_some())
        .collect();
    let Ok(folders) = folders(&markers, &mut Tree(files.iter().copied().collect()), said);
    let shown = |folder: RenderedFolder| {
        let reads: Vec<&str> = folder.reads.iter().map(String::as_str).collect();
        format!("{} {:?}: {}", folder.renderer().program(), folder.path, reads.join(" "))
    };
    (folders.rendered.into_iter().map(shown).collect(), folders.errors.iter().map(ToString::to_string).collect())
}

#[test]
fn what_changed_is_read_again() {
    let mut said = KnownMarkers::default();
    let chart = |kind| [("web/Chart.yaml", kind), ("web/templates/x.yaml", "")];
    let (rendered, _) = found_again(&chart("{name: web, type: application}"), &mut said);
    assert_eq!(rendered, ["helm \"web\": web"]);
    let (rendered, _) = found_again(&chart("{name: web, type: library}"), &mut said);
    assert!(rendered.is_empty());
}

#[test]
fn which_folders_are_rendered() {
    type Row = (&'static str, &'static [(&'static str, &'static str)], &'static [&'static str]);
    let rows: [Row; 11] = [
        ("one", &[("a/kustomization.yaml", "resources: [x.yaml]"), ("a/x.yaml", "")], &["kustomize \"a\": a"]),
        (
            "overlays of a base",
            &[
                ("app/base/kustomization.yaml", "resources: [x.yaml]"),
                ("app/base/x.yaml", ""),
                ("app/one/kustomization.yml", "resources: [../base]"),
                ("app/two/Kustomization", "resources:\n- ../base/\n- x.yaml"),
                ("app/two/x.yaml", ""),
            ],
            &["kustomize \"app/one\": app/base app/one", "kustomize \"app/two\": app/base app/two"],
        ),
        (
            "through another",
            &[
                ("a/kustomization.yaml", "bases: [../b]"),
                ("b/kustomization.yaml", "components: [../c]"),
                ("c/kustomization.yaml", "kind: Component"),
            ],
            &["kustomize \"a\": a b c"],
        ),
        ("a component alone", &[("c/kustomization.yaml", "kind: Component\npatches: []")], &[]),
        (
            "one above the others",
            &[
                ("kustomization.yaml", "resources: [a, ./b]"),
                ("a/kustomization.yaml", ""),
                ("b/kustomization.yaml", ""),
                ("c/kustomization.yaml", ""),
            ],
            &["kustomize \"\":  a b", "kustomize \"c\": c"],
        ),
        (
            "a folder of transformers",
            &[("a/kustomization.yaml", "transformers: [../t]"), ("t/kustomization.yaml", "resources: []")],
            &["kustomize \"a\": a t"],
        ),
        (
            "text is no name",
            &[("a/kustomization.yaml", "transformers:\n- |-\n  a: b\n  c: d\n")],
            &["kustomize \"a\": a"],
        ),
        ("a chart", &[("web/Chart.yaml", "name: w"), ("web/templates/x.yaml", "{{")], &["helm \"web\": web"]),
        ("a library", &[("lib/Chart.yaml", "name: l\ntype: library")], &[]),
        (
            "dependencies in folder and archive",
            &[
                ("web/Chart.yaml", "dependencies: [{name: a}, {name: b-c}]"),
                ("web/charts/a/values.yaml", ""),
                ("web/charts/b-c-1.2.3.tgz", ""),
            ],
            &["helm \"web\": web"],
        ),
        (
            "names as Go reads them",
            &[("a/kustomization.yaml", "RESOURCES: [../b]"), ("b/kustomization.yaml", "")],
            &["kustomize \"a\": a b"],
        ),
    ];
    for (name, files, expected) in rows {
        assert_eq!(found(files), (expected.iter().map(ToString::to_string).collect(), vec![]), "{name}");
    }
}

/// A chart, and value files of the whole repository.
const SHOP: [(&str, &str); 4] = [
    ("charts/shop/Chart.yaml", "name: shop"),
    ("charts/shop/values-production.yaml", "a: 1"),
    ("values/all.yaml", "a: 1"),
    ("values/other.yaml", "a: 1"),
];

#[test]
fn releases_of_a_chart() {
    type Row = (&'static [(&'static str, &'static str)], &'static [&'static str]);
    let rows: [Row; 5] = [
        (&[], &["charts/shop as shop in default with []; reads charts/shop"]),
        // Several releases of one chart, which is no more rendered by itself.
        (
            &[
                (
                    "production/release.gitfleet.yaml",
                    "{chart: ../charts/shop, namespace: shop, values: [../values/all.yaml, ../charts/shop/values-production.yaml]}",
                ),
                ("staging/release.gitfleet.yaml", "{chart: ../charts/shop/, name: test, values: [v.yaml]}"),
                ("staging/v.yaml", ""),
            ],
            &[
                "production as production in shop with [\"values/all.yaml\", \"charts/shop/values-production.yaml\"]; reads charts/shop production values/all.yaml",
                "staging as test in default with [\"staging/v.yaml\"]; reads charts/shop staging",
            ],
        ),
        // Beside the chart, and at the root.
        (
            &[("charts/shop/release.gitfleet.yaml", "values: [values-production.yaml]")],
            &["charts/shop as shop in default with [\"charts/shop/values-production.yaml\"]; reads charts/shop"],
        ),
        (&[("release.gitfleet.yaml", "chart: charts/shop")], &[" as shop in default with []; reads  charts/shop"]),
        // With a mistake nothing else is rendered in its place.
        (&[("charts/shop/release.gitfleet.yaml", "values: [nothing.yaml]")], &[]),
    ];
    for (files, expected) in rows {
        let files: BTreeMap<_, _> = SHOP.iter().chain(files).copied().collect();
        let markers: Vec<String> =
            files.keys().filter(|path| Renderer::of_file(name(path)).is_some()).map(ToString::to_string).collect();
        let Ok(folders) = folders(&markers, &mut Tree(files), &mut KnownMarkers::default());
        let shown = folders.rendered.iter().filter(|_| folders.errors.is_empty()).map(|folder| {
            let Release { name, namespace, values, .. } = folder.release.as_ref().expect("it is a chart");
            let reads: Vec<&str> = folder.reads.iter().map(String::as_str).collect();
            format!("{} as {name} in {namespace} with {values:?}; reads {}", folder.path, reads.join(" "))
        });
        assert_eq!(shown.collect::<Vec<_>>(), expected, "{:?}", folders.errors);
        let taken = |folder: &str| folders.inputs.iter().any(|input| input.folder == folder);
        assert_eq!(taken("values/all.yaml"), expected.len() == 2);
        assert!(taken("charts/shop") && !taken("values"));
    }
}

#[test]
fn capabilities_of_a_release() {
    let text = "{chart: charts/shop, kubeVersion: v1.34.0-gke.100, apiVersions: [v1, monitoring.coreos.com/v1/ServiceMonitor]}";
    let files = [SHOP.as_slice(), &[("release.gitfleet.yaml", text)]].concat();
    let markers = ["release.gitfleet.yaml".to_owned(), "charts/shop/Chart.yaml".to_owned()];
    let Ok(folders) = folders(&markers, &mut Tree(files.into_iter().collect()), &mut KnownMarkers::default());
    let release = folders.rendered[0].release.as_ref().expect("it is a chart");
    assert_eq!(release.capabilities.kube_version.as_deref(), Some("v1.34.0-gke.100"));
    assert_eq!(release.capabilities.api_versions, ["v1", "monitoring.coreos.com/v1/ServiceMonitor"]);
    for version in ["1.30", "v1.30", "1.30.2", "v1.30.2+k3s1"] {
        let text = format!("chart: ../charts/shop\nkubeVersion: '{version}'");
        let (_, errors) = found(&[SHOP.as_slice(), &[("r/release.gitfleet.yaml", text.leak())]].concat());
        assert_eq!(errors, [""; 0], "{version}");
    }
}

#[test]
fn releases_that_are_refused() {
    let rows = [
        ("chart: ../../x", "chart: \"../../x\" leads out of the source's path"),
        ("chart: /charts/shop", "chart: \"/charts/shop\" leads out of the source's path"),
        ("chart: ../nothing", "chart: there is no Chart.yaml in nothing"),
        ("", "chart: there is no Chart.yaml in r (name the folder of a chart"),
        ("chart: ../lib", "chart: lib/Chart.yaml is a library"),
        ("chart: ../dependent", "dependencies[0]: the chart \"b\" is not in charts/"),
        (
            "chart: ../charts/shop\nvalues: [v.yaml]",
            "r/release.gitfleet.yaml: values[0]: \"v.yaml\" is no file of the source",
        ),
        ("chart: ../charts/shop\nvalues: ['https://example.com/v.yaml']", "is no file of the source"),
        ("chart: ../charts/shop\nvalues: [/etc/passwd]", "\"/etc/passwd\" is no file of the source"),
        ("chart: ../charts/shop\nvalues: [../../etc/passwd]", "is no file of the source"),
        ("chart: ../charts/shop\nvalues: [../values]", "\"../values\" is no file of the source"),
        ("chart: ../charts/shop\n\nvalues: v.yaml", "r/release.gitfleet.yaml:3: values: invalid type"),
        (
            "chart: ../charts/shop\nvalue: [v.yaml]",
            "r/release.gitfleet.yaml:2: value: unknown field (did you mean `values`?)",
        ),
        ("chart: ../charts/shop\nname: --debug", "name: must be a DNS subdomain of at most 53 characters"),
        ("chart: ../charts/shop\nnamespace: a.b", "namespace: must be a DNS label"),
        (
            "chart: ../charts/shop\nkubeVersion: 1.30",
            "r/release.gitfleet.yaml:2: kubeVersion: invalid type: floating point",
        ),
        (
            "chart: ../charts/shop\nkubeVersion: latest",
            "kubeVersion: must be a version of Kubernetes (write it as v1.34.0)",
        ),
        ("chart: ../charts/shop\nkubeVersion: '--debug'", "kubeVersion: must be a version of Kubernetes"),
        (
            "chart: ../charts/shop\napiVersions:\n- a/v1\n- b/v1,c/v1",
            "r/release.gitfleet.yaml:4: apiVersions[1]: must be an API version, or one with a kind (write it as monitoring",
        ),
        ("chart: ../charts/shop\napiVersions: [a/b/c/d]", "apiVersions[0]: must be an API version"),
        ("chart: ../charts/shop\napiVersions: ['']", "apiVersions[0]: must be an API version"),
        ("chart: a\n---\nchart: b", "has several documents"),
        ("- a", "r/release.gitfleet.yaml"),
        ("a: [", "r/release.gitfleet.yaml"),
    ];
    for (content, expected) in rows {
        let mut files = SHOP.to_vec();
        files.extend([
            ("r/release.gitfleet.yaml", content),
            ("lib/Chart.yaml", "{name: l, type: library}"),
            ("dependent/Chart.yaml", "{name: d, dependencies: [{name: b}]}"),
        ]);
        let (_, errors) = found(&files);
        assert!(errors.join("\n").contains(expected), "{content}: {errors:?}");
    }
    let values = "x.yaml, ".repeat(33);
    let many = format!("chart: ../charts/shop\nvalues: [{values}]");
    let (_, errors) = found(&[SHOP.as_slice(), &[("r/release.gitfleet.yaml", many.leak())]].concat());
    assert!(errors.join("\n").contains("values: names 33 files, the limit is 32"), "{errors:?}");
    let both = [("a/Chart.yaml", "name: a"), ("a/release.gitfleet.yaml", "chart: ../charts/shop")];
    let (_, errors) = found(&[SHOP.as_slice(), &both].concat());
    assert!(errors.join("\n").contains("chart: the folder has a Chart.yaml of its own"), "{errors:?}");
    let (_, errors) = found(&[("a/kustomization.yaml", ""), ("a/release.gitfleet.yaml", "")]);
    assert!(errors.join("\n").contains("the folder has kustomization.yaml and release.gitfleet.yaml"), "{errors:?}");
}

#[test]
fn whose_files_a_folder_takes() {
    let files = [
        ("a/kustomization.yaml", "resources: [../b, x.yaml, inner]"),
        ("a/x.yaml", ""),
        ("a/inner/kustomization.yaml", ""),
        ("b/kustomization.yaml", "components: [../c]"),
        ("c/kustomization.yaml", "kind: Component"),
        ("web/Chart.yaml", "name: w"),
    ];
    let markers: Vec<String> =
        files.iter().map(|(path, _)| (*path).to_owned()).filter(|it| *it != "a/x.yaml").collect();
    let Ok(folders) = folders(&markers, &mut Tree(files.into()), &mut KnownMarkers::default());
    assert_eq!(folders.errors, []);
    let taken: Vec<(&str, &str)> = folders.inputs.iter().map(|it| (it.marker.as_str(), it.folder.as_str())).collect();
    let expected = [
        ("a/inner/kustomization.yaml", "a/inner"),
        ("a/kustomization.yaml", "a"),
        ("a/kustomization.yaml", "a/inner"),
        ("a/kustomization.yaml", "b"),
        ("b/kustomization.yaml", "b"),
        ("b/kustomization.yaml", "c"),
        ("c/kustomization.yaml", "c"),
        ("web/Chart.yaml", "web"),
    ];
    assert_eq!(taken, expected);
}

#[test]
fn what_is_refused_before_a_program_starts() {
    let remote = "is remote";
    let rows: &[(&str, &str)] = &[
        ("resources: ['https://example.com/x.yaml']", remote),
        ("resources: ['HTTPS://example.com/x.yaml']", remote),
        ("resources: [\" https://example.com/x.yaml\\n\"]", remote),
        ("resources: ['github.com/org/repo//base?ref=v1']", remote),
        ("resources: ['git@example.com:org/repo.git']", "an address is remote"),
        ("resources: ['ssh://git@example.com/org/repo']", "an address is remote"),
        ("resources: ['git::https://example.com/org/repo']", remote),
        ("resources: ['gh:org/repo']", remote),
        ("resources: ['org/repo.git']", remote),
        ("resources: ['file:///etc']", remote),
        ("Resources: ['https://example.com/x.yaml']", remote),
        ("re\u{17f}ources: ['https://example.com/x.yaml']", remote),
        ("bases: ['https://example.com/org/repo']", remote),
        ("components: ['https://example.com/org/repo']", remote),
        ("generators: ['https://example.com/x.yaml']", remote),
        ("transformers: ['https://example.com/x.yaml']", remote),
        ("validators: ['https://example.com/x.yaml']", remote),
        ("crds: ['https://example.com/x.json']", remote),
        ("configurations: ['https://example.com/x.yaml']", remote),
        ("openapi: {path: 'https://example.com/x.json'}", remote),
        ("patches: [{path: 'https://example.com/x.yaml'}]", remote),
        ("patchesJson6902: [{Path: 'https://example.com/x.yaml'}]", remote),
        ("patchesStrategicMerge: ['https://example.com/x.yaml']", remote),
        ("replacements: [{path: 'https://example.com/x.yaml'}]", remote),
        ("configMapGenerator: [{name: a, files: ['k=https://example.com/x']}]", remote),
        ("configMapGenerator: [{name: a, envs: ['https://example.com/x']}]", remote),
        ("secretGenerator: [{name: a, env: 'https://example.com/x'}]", remote),
        ("resources: [/etc]", "leads out of the source's path"),
        ("resources: [../../..]", "leads out of the source's path"),
        ("resources: [nothing.yaml]", "is no file in or below the folder of the kustomization, and no folder"),
        ("resources: [../other.yaml]", "is no file in or below"),
        ("resources: [example.test/org/repo]", "is no file in or below"),
        ("patches: [{path: ../other.yaml}]", "is not in or below the folder of the kustomization"),
        ("patches: [{path: /etc/passwd}]", "is not in or below the folder of the kustomization"),
        ("configMapGenerator: [{name: a, files: [k=/proc/self/environ]}]", "is not in or below"),
        ("configMapGenerator: [{name: a, envs: [../../../x]}]", "is not in or below"),
        ("openapi: {path: ../x.json}", "is not in or below"),
        ("helmCharts: [{name: a}]", "Kustomize would start helm"),
        ("HelmCharts: [{name: a}]", "Kustomize would start helm"),
        ("helmChartInflationGenerator: [{chartName: a}]", "Kustomize would start helm"),
        ("resources: [.]", "leads back to itself: a -> a"),
        ("- a list", "is no kustomization"),
        ("a: [", "a/kustomization.yaml"),
        ("a: &a [1]\nb: *c", "a/kustomization.yaml"),
    ];
    for (content, expected) in rows {
        let (rendered, errors) = found(&[("a/kustomization.yaml", content), ("other.yaml", "")]);
        let text = errors.join("\n");
        assert!(text.contains(expected), "{content}: {rendered:?} {text}");
        assert!(text.starts_with("a/kustomization.yaml") && !text.contains("git@"), "{text}");
    }
    let rows: &[(&[(&str, &str)], &str)] = &[
        (
            &[("a/Chart.yaml", "dependencies: [{name: b, repository: 'https://example.com'}]")],
            "dependencies[0]: the chart \"b\" is not in charts/ (run `helm dependency build` and commit charts/",
        ),
        (
            &[("a/Chart.yaml", "dependencies: [{name: b}]"), ("a/charts/bc-1.tgz", "")],
            "the chart \"b\" is not in charts/",
        ),
        (&[("a/Chart.yaml", "a: [")], "a/Chart.yaml"),
        (&[("a/Chart.yaml", ""), ("a/kustomization.yaml", "")], "the folder has Chart.yaml and kustomization.yaml"),
        (&[("a/kustomization.yml", ""), ("a/kustomization.yaml", "")], "has kustomization.yml and kustomization.yaml"),
    ];
    for (files, expected) in rows {
        let (rendered, errors) = found(files);
        assert!(errors.join("\n").contains(expected), "{files:?}: {rendered:?} {errors:?}");
    }
}

#[test]
fn circles_are_refused_and_not_left_out() {
    let (rendered, errors) = found(&[
        ("a/kustomization.yaml", "resources: [../b]"),
        ("b/kustomization.yaml", "resources: [../c]"),
        ("c/kustomization.yaml", "resources: [../a]"),
    ]);
    assert_eq!(rendered, Vec::<String>::new());
    assert_eq!(errors.len(), 3);
    assert_eq!(
        errors[0],
        "a/kustomization.yaml: the kustomization leads back to itself: a -> b -> c -> a (take one of the references out)"
    );
}

#[test]
fn inputs_that_ask_for_programs_or_addresses() {
    let rows = [
        (
            "metadata:\n  annotations:\n    config.kubernetes.io/function: |\n      exec: {path: ./x}\n",
            "asks for a function",
        ),
        ("config.k8s.io/function: |\n  container: {image: x}\n", "asks for a function"),
        ("apiVersion: builtin\nkind: PatchTransformer\npath: https://example.com/x\n", "names a remote file"),
        ("apiVersion: builtin\nkind: ConfigMapGenerator\nfiles: [a=https://example.com/x]\n", "names a remote file"),
        ("APIVERSION: builtin\nkind: PatchTransformer\nPATH: /etc/passwd\n", "names a remote file"),
        (
            "transformers:\n- |-\n  apiVersion: builtin\n  kind: PatchTransformer\n  path: https://example.com/x\n",
            "names a remote",
        ),
        // What is written with escapes is what YAML reads.
        ("apiVersion: \"buil\\x74in\"\nkind: PatchTransformer\npath: https://example.com/x\n", "names a remote file"),
        ("metadata:\n  annotations:\n    \"config.kubernetes.io/\\u0066unction\": x\n", "asks for a function"),
        ("a: \"\\t\"\nb: C:\\x\n", ""),
        ("apiVersion: builtin\nkind: LabelTransformer\nfieldSpecs: [{path: metadata/labels}]\n", ""),
        ("apiVersion: v1\nkind: ConfigMap\ndata: {builtin: 'https://example.com', path: 'https://example.com'}\n", ""),
        ("a: [", ""),
    ];
    for (content, expected) in rows {
        let refused = refused_input("a.yaml", content.as_bytes()).map(|error| error.to_string()).unwrap_or_default();
        assert!(refused.contains(expected) && refused.is_empty() == expected.is_empty(), "{content}: {refused}");
    }
}

#[test]
fn secret_values_are_not_shown() {
    let rows = [
        ("kind: Secret\nstringData:\n  password: hunter22\n", "bad hunter22 in Secret", "bad (hidden) in Secret"),
        ("kind: Secret\nmetadata: {name: app}\ndata:\n  a: \"aHVudGVy\"\n", "app: aHVudGVy", "app: (hidden)"),
        ("secretGenerator:\n- name: a\n  literals:\n  - token=hunter22\n", "x token=hunter22 y", "x token=(hidden) y"),
        ("password: hunter22\nreplicas: 1234\n", "hunter22 of 1234", "(hidden) of 1234"),
        ("API_TOKEN=hunter22\n", "hunter22", "(hidden)"),
        ("color: hunter22\n", "hunter22", "hunter22"),
        // What cannot be parsed is covered too, and a block of text line by line.
        (
            "kind: Secret\nstringData: {a: [\n  key: |\n    first line\n    second line\n",
            "at second line",
            "at (hidden)",
        ),
        ("kind: Secret\nstringData: {a: abcd, b: abcdefgh}\n", "x abcdefgh", "x (hidden)"),
        (r#"{"kind":"Secret","data":{"a":"aHVudGVy","b":"Yg=="}}"#, "at aHVudGVy", "at (hidden)"),
    ];
    for (input, message, shown) in rows {
        assert_eq!(hide_secrets(message, [input.as_bytes(), b"\xff"]), shown, "{input}");
    }
}

#[test]
fn hooks_are_taken_out_with_a_warning() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: batch/v1\nkind: Job\nmetadata:\n  name: b\n  annotations: {helm.sh/hook: pre-install}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n";
    let blob = Arc::new(parse_blob(text.as_bytes()));
    let without = without_hooks(&blob);
    let left: Vec<(u32, &str)> = without.documents.iter().map(|it| (it.ordinal, it.id.name.as_str())).collect();
    // The places of the others stay: records name them.
    assert_eq!(left, [(0, "a"), (2, "c")]);
    let warnings: Vec<String> = without.warnings.iter().map(|warning| warning.at("web").to_string()).collect();
    assert_eq!(
        warnings,
        ["web:5: Job.batch b: is a hook of Helm; it is not delivered, because gitfleet runs no hooks"]
    );
    let plain = Arc::new(parse_blob(b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"));
    assert!(Arc::ptr_eq(&without_hooks(&plain), &plain));
}
