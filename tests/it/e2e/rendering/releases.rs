//! One chart that several releases render: each with its own name, namespace and files of values.

use super::*;

/// A chart as many are written: it names the release's namespace, and comes with values for production.
fn chart(scratch: &Scratch) {
    scratch.write("charts/shop/Chart.yaml", "apiVersion: v2\nname: shop\nversion: 1.0.0\n");
    scratch.write("charts/shop/values.yaml", "size: one\ncolor: blue\nregion: none\n");
    scratch.write("charts/shop/values-production.yaml", "size: two\ncolor: red\n");
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}, namespace: {{ .Release.Namespace }}}\n\
                    data: {key: {{ .Values.size }} {{ .Values.color }} {{ .Values.region }}}\n";
    scratch.write("charts/shop/templates/map.yaml", template);
}

fn two_environments() -> (Scratch, PathBuf) {
    let scratch = Scratch::new();
    let folder = programs(&scratch.path(""));
    configure(&scratch, &versions(&folder));
    scratch.write("clusters.yaml", &[cluster("east", "e"), cluster("west", "w")].concat());
    chart(&scratch);
    let staging = "{chart: ../../charts/shop, name: shop, namespace: staging}\n";
    scratch.write("env/staging/release.gitfleet.yaml", staging);
    let production = "chart: ../../charts/shop\nname: shop\nnamespace: production\nvalues:\n- ../../charts/shop/values-production.yaml\n\
                      - ../../values/all.yaml\n- own.yaml\n";
    scratch.write("env/production/release.gitfleet.yaml", production);
    scratch.write("values/all.yaml", "color: green\n");
    scratch.write("env/production/own.yaml", "region: here\n");
    for (name, member) in [("staging", "east"), ("production", "west")] {
        let policy = format!("  policy: {{placementType: PickFixed, clusterNames: [{member}]}}\n");
        let annotations = format!("{{gitfleet.io/path: env/{name}}}");
        // The Namespace stands beside the folder, as it does with Argo CD.
        let text = [namespace(name, &[]), annotated_placement(name, &annotations, name, &policy)].concat();
        scratch.write(&format!("{name}.yaml"), &text);
    }
    scratch.commit("first");
    (scratch, folder)
}

fn value(scratch: &Scratch, member: &str, namespace: &str) -> Option<String> {
    let file = format!("configmap..{namespace}.shop.yaml");
    let text = fs::read_to_string(scratch.path("members").join(member).join(file)).ok()?;
    text.lines().find_map(|line| line.trim().strip_prefix("key: ")).map(str::to_owned)
}

#[test]
fn each_release_has_its_namespace_and_its_values() {
    let (scratch, _) = two_environments();
    once(&scratch).text(0);
    // A later file wins, as with `helm --values`.
    assert_eq!(value(&scratch, "east", "staging").as_deref(), Some("one blue none"));
    assert_eq!(value(&scratch, "west", "production").as_deref(), Some("two green here"));
    let started = starts(&scratch.path(""), "helm");
    let wanted = [
        "template --namespace production --include-crds --skip-tests --values ./charts/shop/values-production.yaml \
         --values ./values/all.yaml --values ./env/production/own.yaml --skip-schema-validation -- shop ./charts/shop",
        "template --namespace staging --include-crds --skip-tests --skip-schema-validation -- shop ./charts/shop",
    ];
    assert_eq!(started, wanted, "the chart is not rendered by itself");

    // A file of values is an input of the release that names it, and of no other.
    scratch.write("values/all.yaml", "color: white\n");
    scratch.write("values/other.yaml", "color: black\n");
    scratch.commit("second");
    once(&scratch).text(0);
    assert_eq!(value(&scratch, "west", "production").as_deref(), Some("two white here"));
    assert_eq!(starts(&scratch.path(""), "helm").len(), 3);
}

#[test]
fn a_release_has_values_by_cluster_which_win() {
    let (scratch, _) = two_environments();
    let values = "region: \"{{ .Cluster.Name }}\"\n";
    scratch.write("env/production/values.gitfleet.yaml", values);
    let annotations = "{gitfleet.io/path: env/production, gitfleet.io/render-for: cluster}";
    let text =
        [namespace("production", &[]), annotated_placement("production", annotations, "production", "")].concat();
    scratch.write("production.yaml", &text);
    scratch.commit("second");
    once(&scratch).text(0);
    for member in ["east", "west"] {
        assert_eq!(value(&scratch, member, "production"), Some(format!("two green {member}")));
    }
}

#[test]
fn a_tenant_releases_a_chart_of_its_bases_alone() {
    let (scratch, _) = two_environments();
    let text = fs::read_to_string(scratch.path(CONFIG)).expect("the file");
    let tenants = |bases: &str| {
        let tenants =
            format!("tenants:\n- {{name: team, path: env/production, namespaces: [production], bases: {bases}}}\n");
        fs::write(scratch.path(CONFIG), format!("{text}{tenants}")).expect("a file");
    };
    tenants("[]");
    let refused = scratch.run(&["validate", FLEET, "-c", CONFIG]);
    for place in ["charts/shop", "values/all.yaml"] {
        let wanted =
            format!("env/production/release.gitfleet.yaml: tenant team: it builds on {place}, which is neither");
        assert!(refused.code == 1 && refused.out.contains(&wanted), "{}", refused.out);
    }
    tenants("[charts, values]");
    scratch.run(&["validate", FLEET, "-c", CONFIG]).text(0);
}

/// A list of files is one option of Helm: a comma in a name begins another.
#[test]
fn a_comma_in_a_path_leads_nowhere_else() {
    let (scratch, _) = two_environments();
    let outside = scratch.path("outside.yaml");
    fs::write(&outside, "color: outside\n").expect("a file");
    let name = format!("x,{}", outside.display());
    let release = format!("chart: ../../charts/shop\nname: shop\nnamespace: production\nvalues: [{name:?}]\n");
    scratch.write("env/production/release.gitfleet.yaml", &release);
    scratch.write(&format!("env/production/{name}"), "color: inside\n");
    scratch.commit("second");
    once(&scratch).text(0);
    assert_eq!(value(&scratch, "west", "production").as_deref(), Some("one inside none"));
}

/// Many charts make a ServiceMonitor, or another kind, only where the cluster has it.
#[test]
fn a_release_says_what_its_clusters_can_do() {
    let (scratch, _) = two_environments();
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}, namespace: {{ .Release.Namespace }}}\n\
                    data: {key: {{ .Capabilities.KubeVersion.Version }} {{ .Capabilities.APIVersions.Has \"example.com/v1/Monitor\" }} \
                    {{ .Capabilities.APIVersions.Has \"apps/v1\" }}}\n";
    scratch.write("charts/shop/templates/map.yaml", template);
    scratch.write("charts/shop/Chart.yaml", "apiVersion: v2\nname: shop\nversion: 1.0.0\nkubeVersion: '>=1.30.0'\n");
    let release = |capabilities: &str| {
        let text = format!("chart: ../../charts/shop\nname: shop\nnamespace: production\n{capabilities}");
        scratch.write("env/production/release.gitfleet.yaml", &text);
    };
    release("kubeVersion: v1.31.4\napiVersions: [example.com/v1/Monitor]\n");
    scratch.commit("second");
    once(&scratch).text(0);
    assert_eq!(value(&scratch, "west", "production").as_deref(), Some("v1.31.4 true true"));
    let others = value(&scratch, "east", "staging").expect("it is rendered");
    assert!(others.ends_with(" false true") && !others.starts_with("v1.31.4"), "{others}");
    release("kubeVersion: '1.29'\n");
    let refused = scratch.run(&["validate", FLEET, "-c", CONFIG]);
    let words = "chart requires kubeVersion: >=1.30.0 which is incompatible with Kubernetes v1.29";
    assert!(refused.code == 1 && refused.out.contains(words), "{}", refused.out);
}

#[test]
fn a_wrong_release_refuses_the_commit_with_its_line() {
    let (scratch, _) = two_environments();
    scratch.write(
        "env/production/release.gitfleet.yaml",
        "chart: ../../charts/shop\nvalues: [missing.yaml]\nnamspace: a\n",
    );
    let refused = scratch.run(&["validate", FLEET, "-c", CONFIG]);
    let wanted = "env/production/release.gitfleet.yaml:3: namspace: unknown field (did you mean `namespace`?)";
    assert!(refused.code == 1 && refused.out.contains(wanted), "{}", refused.out);
    scratch.write("env/production/release.gitfleet.yaml", "chart: ../../charts/shop\nvalues: [missing.yaml]\n");
    let refused = scratch.run(&["validate", FLEET, "-c", CONFIG]);
    let wanted = "env/production/release.gitfleet.yaml: values[0]: \"missing.yaml\" is no file of the source";
    assert!(refused.code == 1 && refused.out.contains(wanted), "{}", refused.out);
}

#[test]
fn a_program_that_a_busy_machine_ended_is_started_once_more() {
    let (scratch, folder) = two_environments();
    let place = scratch.path("");
    let helm = fs::read_to_string(folder.join("helm")).expect("the script");
    let ended = |times: usize| {
        let count = place.join("ended");
        let stop = format!(
            "if [[ $1 == template && $(/usr/bin/wc -l < {0} 2>/dev/null || echo 0) -lt {times} ]]; then echo >> {0}; kill -9 $$; fi\n",
            count.display()
        );
        drop(fs::remove_file(&count));
        script(&folder.join("helm"), &helm.replacen('\n', &format!("\n{stop}"), 1));
    };
    ended(2);
    once(&scratch).text(0);
    assert_eq!(value(&scratch, "west", "production").as_deref(), Some("two green here"));
    // What fails twice is refused: it may be the folder.
    scratch.write("values/all.yaml", "color: white\n");
    scratch.commit("second");
    ended(2);
    let refused = once(&scratch);
    let words = "env/production/release.gitfleet.yaml: helm was ended at a limit of memory, time or size of files";
    assert!(refused.code != 0 && refused.err.contains(words), "{}{}", refused.out, refused.err);
}

#[test]
fn folders_that_time_is_not_enough_for_are_no_error_of_the_commit() {
    let (scratch, folder) = two_environments();
    let read = |rendering: &Rendering| read_folder(&scratch.path(FLEET), rendering);
    let error = read(&rendering(&folder).within(std::time::Duration::ZERO)).expect_err("there is no time");
    let text = error.in_full();
    assert_eq!(text, "2 of 2 folders could not be rendered within 0 s; the rest is rendered in another attempt");
    assert!(error.refused().is_err(), "it is no error of the files");
    read(&rendering(&folder)).expect("there is time");
}
