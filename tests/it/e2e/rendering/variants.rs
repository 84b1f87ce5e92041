//! Charts and kustomizations that are rendered for clusters: each different list of values once, whatever the values hold.

use serde_json::Value;

use super::*;

const PATH: &str = "gitfleet.io/render-for: cluster, gitfleet.io/path: ";

fn values(region: &str) -> String {
    format!("region: '{region}'\nreplicas: '{{{{ .Cluster.Labels.replicas | default \"1\" | int }}}}'\n")
}

/// A chart with its own values, and values by cluster.
fn chart(scratch: &Scratch) {
    scratch.write("web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n");
    scratch.write("web/values.yaml", "region: nowhere\nreplicas: 1\n");
    scratch.write("web/values.gitfleet.yaml", &values("{{ .Cluster.Labels.region }}"));
    scratch.write("web/templates/namespace.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: web}\n");
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: region, namespace: web}\ndata:\n  key: {{ .Values.region | quote }}\n  \
                    replicas: {{ mul .Values.replicas 2 | quote }}\n{{- if eq .Values.region \"eu\" }}\n---\napiVersion: v1\nkind: ConfigMap\n\
                    metadata: {name: only-eu, namespace: web}\n{{- end }}\n";
    scratch.write("web/templates/map.yaml", template);
    scratch.write("web-placement.yaml", &annotated_placement("web", &format!("{{{PATH}web}}"), "web", ""));
}

/// A kustomization that copies values from a file of its own, and values by cluster in the place of that.
fn kustomization(scratch: &Scratch) {
    let local = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: values\n  annotations: {config.kubernetes.io/local-config: 'true'}\n";
    scratch.write("shop/values.yaml", &format!("{local}data: {{region: nowhere}}\n"));
    scratch
        .write("shop/values.gitfleet.yaml", &format!("{local}data: {{region: '{{{{ .Cluster.Labels.region }}}}'}}\n"));
    scratch.write("shop/objects.yaml", &namespace("shop", &[("region", "none")]));
    let text = "resources: [objects.yaml, values.yaml]\nreplacements:\n- source: {kind: ConfigMap, name: values, fieldPath: data.region}\n  targets:\n  \
                - select: {kind: ConfigMap, name: region, namespace: shop}\n    fieldPaths: [data.key]\n";
    scratch.write("shop/kustomization.yaml", text);
    scratch.write("shop-placement.yaml", &annotated_placement("shop", &format!("{{{PATH}shop}}"), "shop", ""));
}

fn three() -> Scratch {
    let scratch = Scratch::new();
    let folder = programs(&scratch.path(""));
    configure(&scratch, &versions(&folder));
    scratch.write("clusters.yaml", &[cluster("east", "eu"), cluster("north", "eu"), cluster("west", "us")].concat());
    scratch
}

/// What a member's ConfigMap says under `key`.
fn key(scratch: &Scratch, member: &str, namespace: &str) -> String {
    let path = scratch.path("members").join(member).join(format!("configmap..{namespace}.region.yaml"));
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().find_map(|line| line.trim().strip_prefix("key: ")).unwrap_or_default().to_owned()
}

fn keys(scratch: &Scratch, namespace: &str) -> [String; 3] {
    ["east", "north", "west"].map(|member| key(scratch, member, namespace))
}

fn planned(scratch: &Scratch, args: &[&str]) -> Value {
    scratch.run(&[&["plan", "-c", CONFIG, "-o", "json"], args].concat()).json(0)
}

#[test]
fn a_chart_is_rendered_once_for_each_list_of_values() {
    let scratch = three();
    chart(&scratch);
    scratch.commit("first");
    let plan = planned(&scratch, &[]);
    let placement = &plan["placements"][0];
    let wanted = serde_json::json!([
        {"values": {"label region": "eu"}, "clusters": ["east", "north"]},
        {"values": {"label region": "us"}, "clusters": ["west"]},
    ]);
    assert_eq!(placement["variants"], wanted, "{plan}");
    let text = scratch.run(&["plan", "--repo", FLEET, "-c", CONFIG]);
    let text = text.text(0);
    assert!(text.contains("variants") && text.contains("label region=eu: east, north"), "{text}");
    scratch.run(&["validate", FLEET, "-c", CONFIG]).text(0);

    let place = scratch.path("");
    fs::remove_file(place.join("helm.log")).expect("the programs were started");
    once(&scratch).text(0);
    assert_eq!(keys(&scratch, "web"), ["eu", "eu", "us"]);
    assert_eq!(
        scratch.member("north"),
        ["configmap..web.only-eu.yaml", "configmap..web.region.yaml", "namespace...web.yaml"]
    );
    assert_eq!(scratch.member("west"), ["configmap..web.region.yaml", "namespace...web.yaml"]);
    // Without a cluster, and for two regions.
    assert_eq!(starts(&place, "helm").len(), 3, "{:?}", starts(&place, "helm"));

    // Another cluster of a region that is known costs nothing, and is no rollout of the others.
    let more = [cluster("east", "eu"), cluster("north", "eu"), cluster("west", "us"), cluster("south", "us")].concat();
    scratch.write("clusters.yaml", &more);
    scratch.commit("second");
    once(&scratch).text(0);
    assert_eq!((key(&scratch, "south", "web").as_str(), starts(&place, "helm").len()), ("us", 3));

    // A cluster with values that nobody had brings a variant of the same snapshot; one that changes its label gets another.
    let relabelled =
        [cluster("east", "eu"), cluster("north", "za"), cluster("west", "us"), cluster("south", "za")].concat();
    scratch.write("clusters.yaml", &relabelled);
    scratch.commit("third");
    let plan = planned(&scratch, &["--base", "HEAD~1"]);
    assert_eq!(plan["placements"][0]["snapshot"]["index"], "0");
    assert_eq!(plan["placements"][0]["changes"]["overridden"], serde_json::json!(["north", "south"]), "{plan}");
    // The plans rendered for themselves.
    let before = starts(&place, "helm").len();
    once(&scratch).text(0);
    assert_eq!(starts(&place, "helm").len(), before + 1);
    assert_eq!(keys(&scratch, "web"), ["eu", "za", "us"]);
    assert_eq!(
        scratch.member("north"),
        ["configmap..web.region.yaml", "namespace...web.yaml"],
        "it lost what europe has"
    );
    let described = scratch.run(&["get", "bindings", "-c", CONFIG, "-o", "json"]);
    assert!(described.text(0).contains("rendered with label region=za"), "{}", described.out);

    // Without the program it is delivered further, and a rollback brings what was there, after a loss of the results, too.
    scratch.write("web/values.gitfleet.yaml", &values("{{ .Cluster.Labels.region }}-2"));
    scratch.commit("fourth");
    once(&scratch).text(0);
    assert_eq!(keys(&scratch, "web"), ["eu-2", "za-2", "us-2"]);
    fs::remove_dir_all(scratch.path("store/git/rendered.git")).expect("the results are lost");
    scratch.run(&["rollback", "web", "--to", "0", "-c", CONFIG]).text(0);
    once(&scratch);
    assert_eq!(keys(&scratch, "web"), ["eu", "za", "us"]);
}

#[test]
fn a_kustomization_gets_the_values_of_clusters_in_the_place_of_its_own() {
    let scratch = three();
    kustomization(&scratch);
    scratch.commit("first");
    let plan = planned(&scratch, &[]);
    assert_eq!(plan["placements"][0]["variants"].as_array().map(Vec::len), Some(2), "{plan}");
    once(&scratch).text(0);
    assert_eq!(keys(&scratch, "shop"), ["eu", "eu", "us"]);
    assert_eq!(
        scratch.member("west"),
        ["configmap..shop.region.yaml", "namespace...shop.yaml"],
        "the values are no object"
    );
    // For a placement that does not ask for it, it is what `kustomize build` makes.
    scratch.write("shop-placement.yaml", &annotated_placement("shop", "{gitfleet.io/path: shop}", "shop", ""));
    scratch.commit("second");
    once(&scratch).text(0);
    assert_eq!(keys(&scratch, "shop"), ["nowhere", "nowhere", "nowhere"]);
    fs::remove_file(scratch.path("fleet/shop/values.yaml")).expect("the file");
    scratch.write("shop/kustomization.yaml", "resources: [objects.yaml]\n");
    scratch.write("shop-placement.yaml", &annotated_placement("shop", &format!("{{{PATH}shop}}"), "shop", ""));
    let refused = scratch.run(&["validate", FLEET, "-c", CONFIG]);
    let words = "shop/values.gitfleet.yaml: the values of clusters take the place of values.yaml, which is not there";
    assert!(refused.text(1).contains(words), "{}", refused.out);
}

#[test]
fn what_a_property_holds_stays_a_text() {
    let scratch = three();
    chart(&scratch);
    kustomization(&scratch);
    let hostile =
        ["a\nb: c", "'\"", "{{ .Release.Name }}", "- [x", "true", "*a &b !c", "x # y", "%{z}", "---\nkind: Secret"];
    let member = |(number, value): (usize, &&str)| {
        let properties = serde_json::json!({"x": value}).to_string();
        let annotations = serde_json::json!({"gitfleet.io/properties": properties});
        format!(
            "---\napiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata: {{name: c{number}, annotations: {annotations}}}\nspec: {{}}\n"
        )
    };
    scratch.write("clusters.yaml", &hostile.iter().enumerate().map(member).collect::<String>());
    let text = fs::read_to_string(scratch.path("fleet/shop/values.gitfleet.yaml")).expect("the file");
    scratch.write("shop/values.gitfleet.yaml", &text.replace(".Cluster.Labels.region", ".Cluster.Properties.x"));
    scratch.write("web/values.gitfleet.yaml", &values("{{ .Cluster.Properties.x }}"));
    scratch.commit("first");
    let plan = planned(&scratch, &[]);
    for (placement, name) in [(0, "shop"), (1, "web")] {
        let placement = &plan["placements"][placement];
        assert_eq!(placement["name"], name);
        for (number, value) in hostile.iter().enumerate() {
            let work = &placement["works"][number];
            assert_eq!(work["clusterName"], format!("c{number}"));
            let manifests = work["manifests"].as_array().expect("a list");
            let found = manifests.iter().find(|object| object["metadata"]["name"] == "region").expect("the map");
            assert_eq!(found["data"]["key"], *value, "{name}");
            assert_eq!(manifests.len(), 2, "{name}: {work}");
        }
    }
}

#[test]
fn a_commit_is_refused_with_the_cluster_the_file_and_the_line() {
    let scratch = three();
    chart(&scratch);
    scratch.commit("first");
    once(&scratch).text(0);
    let member = |name: &str, labels: &str| {
        format!(
            "---\napiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata: {{name: {name}, labels: {{{labels}}}}}\nspec: {{}}\n"
        )
    };
    let refused = |words: &str| {
        let refused = scratch.run(&["validate", FLEET, "-c", CONFIG]);
        assert!(refused.text(1).contains(words), "{}", refused.out);
    };
    scratch.write("more.yaml", &member("south", "zone: a"));
    refused(
        "web/values.gitfleet.yaml:1: region: for the cluster south: the cluster has no label region (give it one, or add",
    );
    scratch.write("more.yaml", &member("south", "region: eu, replicas: many"));
    refused(
        "web/values.gitfleet.yaml:2: replicas: for the cluster south: the label replicas is \"many\", which is not a whole number",
    );
    // The last good commit stays.
    scratch.commit("second");
    let failed = once(&scratch);
    assert!(failed.code != 0 && failed.err.contains("for the cluster south"), "{}", failed.err);
    assert_eq!(keys(&scratch, "web"), ["eu", "eu", "us"]);
    // What the program says names the values.
    scratch.write("more.yaml", &member("south", "region: boom"));
    scratch.write(
        "web/templates/fail.yaml",
        "{{ if eq .Values.region \"boom\" }}{{ fail \"no such region\" }}{{ end }}\n",
    );
    refused("web/Chart.yaml: for clusters with label region=boom: ");
    refused("no such region");
    fs::remove_file(scratch.path("fleet/web/values.gitfleet.yaml")).expect("the file");
    refused("no rendered folder in the folder web has a file values.gitfleet.yaml");
}

#[test]
fn what_is_rendered_for_clusters_stays_within_its_tenant() {
    let scratch = three();
    chart(&scratch);
    let path = scratch.path(CONFIG);
    let text = fs::read_to_string(&path).expect("the file");
    let tenant = "tenants: [{name: team, path: web, namespaces: [web], clusterKinds: [Namespace]}]\n";
    fs::write(&path, format!("{text}{tenant}")).expect("a file");
    scratch.commit("first");
    planned(&scratch, &[]);
    let other = "{{ if eq .Values.region \"us\" }}\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: kube-system}\n{{ end }}\n";
    scratch.write("web/templates/other.yaml", other);
    scratch.commit("second");
    let plan = scratch.run(&["plan", "-c", CONFIG, "-o", "json"]).json(1);
    let error = plan["errors"][0]["message"].as_str().unwrap_or_default();
    assert_eq!(error, "tenant team: it is in the namespace kube-system, and its namespaces are web", "{plan}");
    let refused = once(&scratch);
    assert!(refused.code != 0 && refused.err.contains("kube-system"), "{}", refused.err);
    assert!(scratch.member("west").is_empty());
}

/// A chart of another repository than the clusters, with the placement among its templates.
#[test]
fn a_chart_of_one_of_several_sources_has_values_by_cluster() {
    let scratch = three();
    chart(&scratch);
    let place = scratch.path("");
    let text = fs::read_to_string(scratch.path(CONFIG)).expect("the configuration");
    let sources = "sources: [{name: platform, url: ./fleet, branch: main}, {name: shop, url: ./shop, branch: main}]";
    let several = text.replace("source: {url: ./fleet, branch: main}", sources);
    assert_ne!(text, several);
    fs::write(scratch.path(CONFIG), several).expect("a file");
    fs::create_dir(place.join("shop")).expect("a folder");
    fs::rename(place.join(FLEET).join("web"), place.join("shop/web")).expect("the chart moves");
    let placement = place.join("shop/web/templates/placement.yaml");
    fs::rename(place.join(FLEET).join("web-placement.yaml"), placement).expect("the placement moves");
    scratch.commit("the platform");
    commands::commit_all(&place.join("shop"), "the chart").expect("git commits");
    once(&scratch).text(0);
    assert_eq!(keys(&scratch, "web"), ["eu", "eu", "us"]);
    assert_eq!(starts(&place, "helm").len(), 3, "{:?}", starts(&place, "helm"));

    // What is wrong says in which repository.
    fs::write(place.join("shop/web/values.gitfleet.yaml"), values("{{ .Cluster.Labels.nowhere }}")).expect("a file");
    commands::commit_all(&place.join("shop"), "a label that no cluster has").expect("git commits");
    let refused = once(&scratch);
    let wanted = "shop/web/values.gitfleet.yaml:1: region: for the cluster east:";
    assert!(refused.err.contains(wanted), "{}", refused.err);
    assert_eq!(keys(&scratch, "web"), ["eu", "eu", "us"]);
}
