//! Folders with kustomizations and charts, rendered by the real programs: they arrive as plain files do, each result is made once, and
//! hostile ones do no harm.

mod hostile;
mod releases;
mod variants;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use config::Render;
use daemon::commit_reader::{Cache, read_candidate, read_commit, read_folder};
use daemon::rendering::Rendering;
use model::rendering::Renderer;
use model::tree::Tree;
use render::Programs;
use tempfile::TempDir;
use testservers::program;

use crate::e2e::fleet::Tools;
use crate::e2e::git as commands;
use crate::e2e::scratch::{CONFIG, FLEET, Outcome, Scratch, annotated_placement, cluster, namespace, placement};

const KUSTOMIZE: &str = "v5.8.2";
const HELM: &str = "v4.3.1";
const ONCE: [&str; 4] = ["run", "-c", CONFIG, "--once"];

fn tools() -> &'static Tools {
    static TOOLS: OnceLock<Tools> = OnceLock::new();
    TOOLS.get_or_init(|| Tools::build_or_cached().expect("helm and kustomize"))
}

/// Makes a folder with both programs, each behind a script that notes that it was started.
fn programs(place: &Path) -> PathBuf {
    let folder = place.join("programs");
    fs::create_dir_all(&folder).expect("a folder");
    for (name, path) in [("kustomize", &tools().kustomize), ("helm", &tools().helm)] {
        let log = place.join(format!("{name}.log"));
        let text = format!("#!/bin/bash\necho \"$@\" >> {}\nexec {} \"$@\"\n", log.display(), path.display());
        script(&folder.join(name), &text);
    }
    folder
}

fn script(path: &Path, text: &str) {
    fs::write(path, text).expect("a file");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("it is a program");
}

/// Returns what a program was asked to render, in order.
fn starts(place: &Path, name: &str) -> Vec<String> {
    let text = fs::read_to_string(place.join(format!("{name}.log"))).unwrap_or_default();
    let mut starts: Vec<String> = text.lines().filter(|line| !line.starts_with("version")).map(str::to_owned).collect();
    starts.sort();
    starts
}

/// Returns what renders with the programs of a folder, for this process.
fn rendering(programs: &Path) -> Rendering {
    let versions = (Some(KUSTOMIZE.to_owned()), Some(HELM.to_owned()));
    let render = Render { kustomize: versions.0, helm: versions.1, folder: Some(programs.to_owned()) };
    let rendering = Rendering::of(Some(&render), None).expect("a temporary folder");
    rendering.with_programs(|programs| programs.launched_by(program().into()))
}

fn files(folder: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }
}

fn map(name: &str, value: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: web}}\ndata: {{key: {value:?}}}\n")
}

/// Writes the configuration with a section `render`.
fn configure(scratch: &Scratch, render: &str) {
    scratch.configure();
    let text = fs::read_to_string(scratch.path(CONFIG)).expect("the file");
    fs::write(scratch.path(CONFIG), format!("{text}render: {render}\n")).expect("a file");
}

fn versions(folder: &Path) -> String {
    format!("{{kustomize: {KUSTOMIZE}, helm: {HELM}, folder: {:?}}}", folder.display().to_string())
}

/// A fleet of two clusters with a placement of the namespace `web`, which holds what an overlay and a chart render.
fn fleet() -> (Scratch, PathBuf) {
    let scratch = Scratch::new();
    let folder = programs(&scratch.path(""));
    configure(&scratch, &versions(&folder));
    scratch.write("clusters.yaml", &[cluster("east", "e"), cluster("west", "w")].concat());
    scratch.write("web.yaml", &namespace("web", &[("plain", "1")]));
    scratch.write("placement.yaml", &placement("web", "web", ""));
    scratch.write("app/base/kustomization.yaml", "resources: [map.yaml]\n");
    scratch.write("app/base/map.yaml", &map("base", "1"));
    let overlay = "namePrefix: prod-\nresources: [../../base]\nconfigMapGenerator:\n- name: made\n  namespace: web\n  files: [notes.txt]\n  \
                   options: {disableNameSuffixHash: true}\n";
    scratch.write("app/overlays/prod/kustomization.yaml", overlay);
    scratch.write("app/overlays/prod/notes.txt", "some notes\n");
    scratch.write("shop/Chart.yaml", "apiVersion: v2\nname: shop\nversion: 1.0.0\n");
    scratch.write("shop/values.yaml", "value: one\n");
    scratch.write("shop/templates/_helpers.tpl", "{{- define \"name\" }}{{ .Release.Name }}-chart{{ end }}\n");
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ include \"name\" . }}, namespace: web}\ndata: {key: {{ .Values.value }}}\n";
    scratch.write("shop/templates/map.yaml", template);
    scratch.commit("first");
    (scratch, folder)
}

const ALL: [&str; 5] = [
    "configmap..web.plain.yaml",
    "configmap..web.prod-base.yaml",
    "configmap..web.prod-made.yaml",
    "configmap..web.shop-chart.yaml",
    "namespace...web.yaml",
];

fn held(scratch: &Scratch, name: &str) -> String {
    fs::read_to_string(scratch.path("members/east").join(name)).expect("the member's file")
}

fn once(scratch: &Scratch) -> Outcome {
    scratch.run(&ONCE)
}

#[test]
fn kustomizations_and_charts_arrive_and_are_rendered_once() {
    let (scratch, folder) = fleet();
    once(&scratch).text(0);
    assert_eq!(scratch.member("east"), ALL);
    assert_eq!(scratch.member("west"), ALL);
    assert!(held(&scratch, "configmap..web.prod-made.yaml").contains("some notes"));
    let place = scratch.path("");
    // The base is an input of the overlay and is not rendered by itself.
    let overlay = "build --load-restrictor LoadRestrictionsRootOnly ./app/overlays/prod";
    let chart = "template --namespace default --include-crds --skip-tests --skip-schema-validation -- shop ./shop";
    assert_eq!(
        (starts(&place, "kustomize"), starts(&place, "helm")),
        (vec![overlay.to_owned()], vec![chart.to_owned()])
    );

    // A change of the chart renders the chart alone.
    scratch.write("shop/values.yaml", "value: two\n");
    scratch.commit("second");
    once(&scratch).text(0);
    assert!(held(&scratch, "configmap..web.shop-chart.yaml").contains("two"));
    assert_eq!((starts(&place, "kustomize").len(), starts(&place, "helm").len()), (1, 2));

    // Without the programs everything that was rendered is delivered further, in commits that do not change it too.
    fs::remove_dir_all(&folder).expect("the programs are gone");
    scratch.write("web.yaml", &namespace("web", &[("plain", "2")]));
    scratch.commit("third");
    once(&scratch).text(0);
    assert!(held(&scratch, "configmap..web.plain.yaml").contains('2'));
    scratch.run(&["rollback", "web", "--to", "0", "-c", CONFIG]).text(0);
    once(&scratch);
    assert!(held(&scratch, "configmap..web.shop-chart.yaml").contains("one"), "an earlier result is read again");

    // What is to be rendered waits for its program; the last good commit stays.
    scratch.write("app/base/map.yaml", &map("base", "2"));
    scratch.commit("fourth");
    let failed = once(&scratch);
    let words = format!("rendered by kustomize {KUSTOMIZE}, and there is no kustomize in {}", folder.display());
    assert!(failed.code != 0 && failed.err.contains(&words), "{}: {}", failed.code, failed.err);
    assert_eq!(scratch.member("east"), ALL);
    programs(&place);
    scratch.run(&["resume", "web", "-c", CONFIG]);
    once(&scratch);
    let plan = scratch.run(&["plan", "-c", CONFIG, "-o", "json"]).json(0);
    assert_eq!(plan["errors"].as_array().map_or(0, Vec::len), 0, "{plan}");
}

#[test]
fn lost_results_are_made_again_also_those_of_older_snapshots() {
    let (scratch, _) = fleet();
    once(&scratch).text(0);
    scratch.write("shop/values.yaml", "value: two\n");
    scratch.commit("second");
    once(&scratch).text(0);
    fs::remove_dir_all(scratch.path("store/git/rendered.git")).expect("the results are lost");
    scratch.run(&["rollback", "web", "--to", "0", "-c", CONFIG]).text(0);
    once(&scratch);
    assert!(held(&scratch, "configmap..web.shop-chart.yaml").contains("one"));
    let diff = scratch.run(&["diff", "web", "-c", CONFIG]);
    assert!(diff.code <= 1 && !diff.err.contains("cannot be read"), "{}{}", diff.out, diff.err);
}

#[test]
fn another_version_of_a_program_renders_nothing() {
    let (scratch, folder) = fleet();
    configure(&scratch, &format!("{{kustomize: v5.0.0, helm: {HELM}, folder: {folder:?}}}"));
    let failed = once(&scratch);
    let words = format!("rendered by kustomize v5.0.0, and {}/kustomize is {KUSTOMIZE}: install", folder.display());
    assert!(failed.code != 0 && failed.err.contains(&words), "{}: {}", failed.code, failed.err);
    // A program that nothing needs may be missing, and one without a version is named where it is needed.
    configure(&scratch, &format!("{{kustomize: {KUSTOMIZE}, folder: {folder:?}}}"));
    let refused = scratch.run(&["validate", FLEET, "-c", CONFIG]);
    let words = "shop/Chart.yaml: this folder has to be rendered by Helm, and no version of it is configured (set `render: {helm: VERSION}`";
    assert!(refused.text(1).contains(words), "{}", refused.out);
    configure(&scratch, "{kustomize: five}");
    let refused = scratch.run(&["validate", FLEET, "-c", CONFIG]);
    assert!(refused.code != 0 && refused.err.contains("render.kustomize: \"vfive\" is no version"), "{}", refused.err);
}

#[test]
fn a_program_that_is_replaced_is_asked_for_its_version_again() {
    let place = TempDir::new().expect("a folder");
    let folder = place.path().join("programs");
    fs::create_dir(&folder).expect("a folder");
    let install = |version: &str| script(&folder.join("kustomize"), &format!("#!/bin/bash\necho {version}\n"));
    let programs = Programs::new(Some(folder.clone()), place.path().join("scratch")).launched_by(program().into());
    install("v5.8.2");
    programs.find(Renderer::Kustomize, "v5.8.2").expect("it is there");
    install("v5.10.0");
    let error = programs.find(Renderer::Kustomize, "v5.8.2").expect_err("it is another").to_string();
    assert!(error.contains("kustomize is v5.10.0"), "{error}");
    programs.find(Renderer::Kustomize, "v5.10.0").expect("it is there");
}

#[test]
fn commands_take_the_versions_of_the_tree_and_the_programs_of_the_path() {
    let (scratch, folder) = fleet();
    let refused = scratch.run(&["validate", FLEET]);
    assert!(refused.text(1).contains("no version of it is configured"), "{}", refused.out);
    // The folder that a tree names is not used: a tree must not say which programs are started.
    let evil = scratch.path("evil");
    fs::create_dir(&evil).expect("a folder");
    script(&evil.join("kustomize"), "#!/bin/bash\ntouch ran\n");
    scratch.write(
        "gitfleet.yaml",
        &format!("apiVersion: gitfleet.io/v1alpha1\nkind: Configuration\nrender: {}\n", versions(&evil)),
    );
    scratch.commit("configuration");
    let with_path = |args: &[&str]| {
        let path = folder.display().to_string();
        let output = scratch.command(args).env("PATH", path).output().expect("it starts");
        (
            output.status.code(),
            String::from_utf8(output.stdout).expect("text"),
            String::from_utf8(output.stderr).expect("text"),
        )
    };
    let (code, out, err) = with_path(&["validate", FLEET]);
    assert_eq!((code, err.contains("no errors")), (Some(0), true), "{out}{err}");
    for args in [
        &["plan", "--repo", FLEET][..],
        &["plan", "--repo", FLEET, "--base", "HEAD~1"],
        &["simulate", FLEET],
        &["schedule", FLEET],
    ] {
        let (code, out, err) = with_path(args);
        assert_eq!(code, Some(0), "{args:?}: {out}{err}");
    }
    scratch.write("app/base/map.yaml", &map("base", "2"));
    scratch.write("shop/values.yaml", "value: two\n");
    scratch.commit("second");
    let (code, out, err) = with_path(&["plan", "--repo", FLEET, "--base", "HEAD~1"]);
    assert!(code == Some(0) && out.contains("prod-base") && out.contains("shop-chart"), "{out}{err}");
    // From a folder below, the file above it counts.
    let (code, out, err) = with_path(&["validate", &format!("{FLEET}/app")]);
    assert_eq!(code, Some(0), "{out}{err}");
    let (code, err) = {
        let output = scratch.command(&["validate", FLEET]).env("PATH", &evil).output().expect("it starts");
        (output.status.code(), String::from_utf8(output.stderr).expect("text"))
    };
    assert!(code == Some(2) && err.contains("there is no helm in PATH") || err.contains("of no version"), "{err}");
    // The daemon has its own versions, and says where plans have others.
    let configuration =
        "apiVersion: gitfleet.io/v1alpha1\nkind: Configuration\nrender: {kustomize: v5.8.2, helm: v4.3.0}\n";
    scratch.write("gitfleet.yaml", configuration);
    scratch.commit("another version");
    let said = once(&scratch);
    let words = "gitfleet.yaml: render.helm: plans are rendered by helm v4.3.0 (by gitfleet.yaml), and the daemon renders with v4.3.1";
    assert!(said.code == 0 && said.err.contains(words) && !said.err.contains("render.kustomize"), "{}", said.err);
}

#[test]
fn overlays_of_one_base_go_to_the_clusters_of_their_environment() {
    let scratch = Scratch::new();
    configure(&scratch, &versions(&programs(&scratch.path(""))));
    scratch.write("clusters.yaml", &[cluster("east", "e"), cluster("west", "w")].concat());
    scratch.write("app/base/kustomization.yaml", "resources: [shop.yaml]\n");
    let base = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: \
                {key: base}\n";
    scratch.write("app/base/shop.yaml", base);
    for (folder, member) in [("staging", "east"), ("production", "west")] {
        let patch = format!(
            "resources: [../base]\npatches:\n- target: {{kind: ConfigMap}}\n  patch: |\n    - op: replace\n      path: /data/key\n      value: {folder}\n"
        );
        scratch.write(&format!("app/{folder}/kustomization.yaml"), &patch);
        let annotations = format!("{{gitfleet.io/path: app/{folder}, gitfleet.io/default-namespace: shop}}");
        let policy = format!("  policy: {{placementType: PickFixed, clusterNames: [{member}]}}\n");
        scratch.write(&format!("{folder}.yaml"), &annotated_placement(folder, &annotations, "shop", &policy));
    }
    scratch.commit("first");
    let checked = scratch.run(&["validate", FLEET, "-c", CONFIG]);
    assert_eq!(
        (checked.code, &*checked.err),
        (0, "4 objects, 2 placements, 2 clusters: no errors\n"),
        "{}",
        checked.out
    );
    once(&scratch).text(0);
    let value = |member: &str| {
        let text = fs::read_to_string(scratch.path("members").join(member).join("configmap..shop.c.yaml"));
        let text = text.expect("it is in the namespace of its placement");
        text.lines().find_map(|line| line.trim().strip_prefix("key: ")).map(str::to_owned)
    };
    assert_eq!((value("east").as_deref(), value("west").as_deref()), (Some("staging"), Some("production")));
    // A base is no folder of its own, and without folders the two are one object.
    scratch.write("staging.yaml", &annotated_placement("staging", "{gitfleet.io/path: app/base}", "shop", ""));
    let base = scratch.run(&["validate", FLEET, "-c", CONFIG]);
    assert!(base.code == 1 && base.out.contains("no file of the source is read in app/base"), "{}", base.out);
    scratch.write("staging.yaml", &annotated_placement("staging", "{}", "shop", ""));
    let both = scratch.run(&["validate", FLEET, "-c", CONFIG]);
    let wanted = "the same object stands at app/production:1 too, and the ClusterResourcePlacement staging (staging.yaml:2) selects from both";
    assert!(both.code == 1 && both.out.contains(wanted), "{}", both.out);
}

/// A folder that a kustomization builds on is no more rendered by itself: so a tenant could take what the platform has from clusters.
#[test]
fn a_tenant_builds_on_no_folder_of_the_platform_but_its_bases() {
    let (scratch, _) = fleet();
    let tenants = |bases: &str| {
        let text = fs::read_to_string(scratch.path(CONFIG)).expect("the file");
        let before = text.split("tenants:").next().unwrap_or_default();
        let tenants = format!("tenants:\n- {{name: team, path: team, namespaces: [web], bases: {bases}}}\n");
        fs::write(scratch.path(CONFIG), format!("{before}{tenants}")).expect("a file");
    };
    tenants("[]");
    scratch.write("limits/kustomization.yaml", "resources: [map.yaml]\n");
    scratch.write("limits/map.yaml", &map("limits", "1"));
    scratch.commit("limits");
    once(&scratch).text(0);
    assert!(held(&scratch, "configmap..web.limits.yaml").contains("limits"));
    let without = "resources: [../limits]\npatches:\n- target: {kind: ConfigMap}\n  patch: |\n    $patch: delete\n    apiVersion: v1\n    \
                   kind: ConfigMap\n    metadata: {name: any}\n";
    scratch.write("team/kustomization.yaml", without);
    scratch.commit("without limits");
    let refused = once(&scratch);
    let wanted =
        "team/kustomization.yaml: tenant team: it builds on limits, which is neither in its folder nor in its bases";
    assert!(refused.code != 0 && refused.err.contains(wanted), "{}: {}", refused.code, refused.err);
    assert!(held(&scratch, "configmap..web.limits.yaml").contains("limits"));
    let validated = scratch.run(&["validate", FLEET, "-c", CONFIG]);
    assert!(validated.code == 1 && validated.out.contains(wanted), "{}", validated.out);
    tenants("[limits]");
    scratch.run(&["validate", FLEET, "-c", CONFIG]).text(0);
}

#[test]
fn an_empty_result_waits_at_the_deletion_guard() {
    let scratch = Scratch::new();
    configure(&scratch, &versions(&programs(&scratch.path(""))));
    scratch.write("clusters.yaml", &[cluster("east", "e"), cluster("west", "w")].concat());
    scratch.write("web.yaml", &namespace("web", &[]));
    scratch.write("placement.yaml", &annotated_placement("web", "{}", "web", ""));
    let names: Vec<String> = (0..12).map(|number| format!("m{number}")).collect();
    let maps: Vec<String> = names.iter().map(|name| map(name, "1")).collect();
    scratch.write("app/maps.yaml", &maps.join("---\n"));
    scratch.write("app/kustomization.yaml", "resources: [maps.yaml]\n");
    scratch.commit("first");
    once(&scratch).text(0);
    assert_eq!(scratch.member("east").len(), 13);
    let all = "resources: [maps.yaml]\npatches:\n- target: {kind: ConfigMap}\n  patch: |\n    $patch: delete\n    apiVersion: v1\n    kind: \
               ConfigMap\n    metadata: {name: any}\n";
    scratch.write("app/kustomization.yaml", all);
    scratch.commit("second");
    let waits = once(&scratch);
    assert!(waits.code == 3 && waits.err.contains("would be deleted"), "{}: {}", waits.code, waits.err);
    assert_eq!(scratch.member("east").len(), 13);
    let digest_needed = scratch.run(&["approve", "web", "deletion", "-c", CONFIG]);
    assert_eq!(digest_needed.code, 0, "{}", digest_needed.err);
    once(&scratch).text(0);
    assert_eq!(scratch.member("east"), ["namespace...web.yaml"]);
}

#[test]
fn a_plain_folder_is_rendered_with_files_that_are_no_manifests() {
    let (scratch, _) = fleet();
    fs::remove_dir_all(scratch.path("fleet/.git")).expect("it is no repository any more");
    let text = fs::read_to_string(scratch.path(CONFIG)).expect("the file");
    fs::write(scratch.path(CONFIG), text.replace(", branch: main", "")).expect("a file");
    once(&scratch).text(0);
    assert_eq!(scratch.member("east"), ALL);
}

#[test]
fn a_hundred_folders_cost_what_changed() {
    let place = TempDir::new().expect("a folder");
    let rendering = rendering(&programs(place.path()));
    let repo = place.path().join("repo");
    for number in 0..30 {
        files(
            &repo,
            &[
                (&format!("app-{number}/kustomization.yaml"), "resources: [map.yaml]\n"),
                (&format!("app-{number}/map.yaml"), &map(&format!("m{number}"), "1")),
            ],
        );
    }
    commands::git(place.path(), &["init", "-q", "-b", "main", "repo"]).expect("git works");
    commands::commit_all(&repo, "first").expect("git works");
    let (reader, _) = git::discover(&repo).expect("a repository");
    let mut cache = Cache::rendering(rendering.clone());
    let read = |cache: &mut Cache| {
        read_commit(&reader, &reader.resolve("HEAD").expect("a commit"), cache).expect("it is read")
    };
    assert_eq!(read(&mut cache).manifests.len(), 30);
    assert_eq!(starts(place.path(), "kustomize").len(), 30);
    files(&repo, &[("app-7/map.yaml", &map("m7", "2")), ("README.md", "words")]);
    commands::commit_all(&repo, "second").expect("git works");
    assert_eq!(read(&mut cache).manifests.len(), 30);
    assert_eq!(starts(place.path(), "kustomize").len(), 31);
    // The folder as it stands, with the same results: the same key from git and from the disk.
    assert_eq!(read_folder(&repo, &rendering).expect("it is read").manifests.len(), 30);
    assert_eq!(starts(place.path(), "kustomize").len(), 31);
}

#[test]
fn a_pull_request_is_rendered_as_the_merge_would_be() {
    let place = TempDir::new().expect("a folder");
    let rendering = rendering(&programs(place.path()));
    let repo = place.path().join("repo");
    let chart = "apiVersion: v2\nname: shop\nversion: 1.0.0\n";
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ template \"name\" }}, namespace: web}\ndata: {key: {{ .Values.key }}}\n";
    files(
        &repo,
        &[
            ("shop/Chart.yaml", chart),
            ("shop/values.yaml", "key: one\n"),
            ("shop/templates/map.yaml", template),
            ("shop/templates/_names.tpl", "{{ define \"name\" }}old{{ end }}"),
        ],
    );
    commands::git(place.path(), &["init", "-q", "-b", "main", "repo"]).expect("git works");
    commands::commit_all(&repo, "first").expect("git works");
    commands::git(&repo, &["checkout", "-q", "-b", "change"]).expect("git works");
    files(&repo, &[("shop/values.yaml", "key: two\n")]);
    commands::commit_all(&repo, "change").expect("git works");
    commands::git(&repo, &["checkout", "-q", "main"]).expect("git works");
    files(&repo, &[("shop/templates/_names.tpl", "{{ define \"name\" }}new{{ end }}")]);
    commands::commit_all(&repo, "meanwhile").expect("git works");
    let (reader, _) = git::discover(&repo).expect("a repository");
    let (base, head) = (reader.resolve("main").expect("a commit"), reader.resolve("change").expect("a commit"));
    let mut cache = Cache::rendering(rendering);
    read_commit(&reader, &base, &mut cache).expect("it is read");
    let candidate = read_candidate(&reader, &base, &head, &cache).expect("it is read");
    assert_eq!(objects(&candidate.tree), ["new: two"]);
    assert_eq!(candidate.conflicts, Vec::<String>::new());
    // A file that is no manifest can be in conflict too.
    commands::git(&repo, &["checkout", "-q", "change"]).expect("git works");
    files(&repo, &[("shop/templates/_names.tpl", "{{ define \"name\" }}other{{ end }}")]);
    commands::commit_all(&repo, "conflict").expect("git works");
    let (reader, _) = git::discover(&repo).expect("a repository");
    let head = reader.resolve("change").expect("a commit");
    let candidate = read_candidate(&reader, &base, &head, &cache).expect("it is read");
    assert_eq!(candidate.conflicts, ["shop/templates/_names.tpl"]);
}

/// Returns names and values of ConfigMaps.
fn objects(tree: &Tree) -> Vec<String> {
    let shown = |manifest: &model::manifest::Manifest| {
        format!("{}: {}", manifest.id.name, manifest.object["data"]["key"].as_str().unwrap_or_default())
    };
    tree.manifests.iter().map(shown).collect()
}

#[test]
fn charts_with_dependencies_hooks_definitions_and_ignored_files() {
    let place = TempDir::new().expect("a folder");
    let rendering = rendering(&programs(place.path()));
    let repo = place.path().join("repo");
    let hook = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: hook, namespace: web, annotations: {helm.sh/hook: pre-install}}\n";
    let test =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: test, namespace: web, annotations: {helm.sh/hook: test}}\n";
    let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a.b.example}\nspec: {group: b.example, \
               scope: Cluster, names: {kind: A, plural: a}, versions: []}\n";
    files(
        &repo,
        &[
            (
                "shop/Chart.yaml",
                "apiVersion: v2\nname: shop\nversion: 1.0.0\ndependencies: [{name: sub, version: 1.0.0}]\n",
            ),
            ("shop/templates/hook.yaml", hook),
            ("shop/templates/test.yaml", test),
            ("shop/templates/ignored.yaml", &map("ignored", "1")),
            ("shop/.helmignore", "ignored.yaml\n"),
            ("shop/crds/a.yaml", crd),
            ("shop/charts/sub/Chart.yaml", "apiVersion: v2\nname: sub\nversion: 1.0.0\n"),
            (
                "shop/charts/sub/templates/map.yaml",
                &map("{{ .Release.Name }}-{{ .Chart.Name }}", "{{ .Release.Namespace }}"),
            ),
        ],
    );
    let tree = read_folder(&repo, &rendering).expect("it is read");
    let names: Vec<&str> = tree.manifests.iter().map(|manifest| manifest.id.name.as_str()).collect();
    assert_eq!(names, ["shop-sub", "a.b.example"]);
    let warnings: Vec<String> = tree.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let words = "is a hook of Helm; it is not delivered, because gitfleet runs no hooks";
    assert!(warnings[0].starts_with("shop:") && warnings[0].ends_with(words), "{warnings:?}");
    assert_eq!(&*tree.manifests[0].origin.path, "shop");
    // No link is followed, not even one that a manifest could be beside.
    symlink("Chart.yaml", repo.join("shop/link.txt")).expect("a link");
    let error = read_folder(&repo, &rendering).expect_err("it is refused").refused().expect("by its files");
    assert_eq!(
        error[0].to_string(),
        "shop/link.txt: a symbolic link: links are not followed (put the files themselves here, or list it in .gitfleetignore)"
    );
}
