//! The repository: overlays of bases, charts, and placements that bring them to two members.

use anyhow::Result;

use crate::daemon::World;
use crate::generate;

/// Overlays, two of each base.
pub const KUSTOMIZATIONS: usize = 400;
/// Charts.
pub const CHARTS: usize = 100;
/// Placements, each of a share of the namespaces.
pub const PLACEMENTS: usize = 10;
/// What each member gets: a namespace with three objects for each overlay and each chart.
pub const OBJECTS: usize = (KUSTOMIZATIONS + CHARTS) * 4;
/// The members, as the configuration reaches them.
pub const MEMBERS: &str = "  - {name: '*', directory: './members/{name}'}\n";

/// Returns the folder of an overlay.
pub fn overlay(number: usize) -> String {
    format!("apps/{}/overlays/{}", app(number), if number.is_multiple_of(2) { "staging" } else { "production" })
}

/// Returns the folder of a chart.
pub fn chart(number: usize) -> String {
    format!("charts/chart-{number:03}")
}

fn app(number: usize) -> String {
    format!("app-{:03}", number / 2)
}

/// Returns the name of the file of a folder's ConfigMap on a member that is a folder.
pub fn delivered_file(folder: &str) -> String {
    let name = name_of(folder);
    format!("configmap..{}.{name}.yaml", namespace_of(folder))
}

fn name_of(folder: &str) -> &str {
    folder.split('/').nth(1).unwrap_or_default()
}

fn namespace_of(folder: &str) -> String {
    match folder.split('/').nth(3) {
        Some(environment) => format!("{}-{environment}", name_of(folder)),
        None => name_of(folder).to_owned(),
    }
}

/// Writes another value into one file of a folder.
pub fn change(world: &World, folder: &str, value: &str) -> Result<()> {
    if folder.starts_with("charts/") {
        return world.write(&format!("{folder}/values.yaml"), &values(name_of(folder), value));
    }
    world.write(&format!("{folder}/settings.yaml"), &settings(name_of(folder), value))
}

/// Writes the repository.
pub fn write(world: &World) -> Result<()> {
    world.write("clusters.yaml", &["a", "b"].map(|name| generate::member_cluster(name, "{}")).concat())?;
    for number in 0..PLACEMENTS {
        world.write(&format!("placements/team-{number}.yaml"), &placement(number))?;
    }
    for number in 0..KUSTOMIZATIONS {
        let (folder, name) = (overlay(number), app(number));
        if number.is_multiple_of(2) {
            write_base(world, &name)?;
        }
        let namespace = namespace_of(&folder);
        world.write(&format!("namespaces/{namespace}.yaml"), &namespace_with_team(&namespace, number))?;
        let kustomization = format!(
            "namespace: {namespace}\nlabels:\n- pairs: {{environment: env-{}}}\nresources: [../../base]\npatches:\n- path: settings.yaml\n\
             - target: {{kind: Deployment}}\n  patch: |\n    - {{op: replace, path: /spec/replicas, value: {}}}\n",
            number % 2,
            number % 5 + 1
        );
        world.write(&format!("{folder}/kustomization.yaml"), &kustomization)?;
        change(world, &folder, "first")?;
    }
    (0..CHARTS).try_for_each(|number| write_chart(world, number))
}

fn write_base(world: &World, name: &str) -> Result<()> {
    let base = format!("apps/{name}/base");
    world
        .write(&format!("{base}/kustomization.yaml"), "resources: [deployment.yaml, service.yaml, settings.yaml]\n")?;
    let without = |text: String| text.replace("  namespace: none\n", "").replace(", namespace: none", "");
    world.write(&format!("{base}/deployment.yaml"), &without(generate::deployment("none", name, "1.0.0")))?;
    world.write(&format!("{base}/service.yaml"), &without(generate::service("none", name)))?;
    world.write(&format!("{base}/settings.yaml"), &settings(name, "base"))
}

fn settings(name: &str, value: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n  value: {value}\n")
}

fn values(name: &str, value: &str) -> String {
    format!("namespace: {name}\nimage: registry.example/{name}\ntag: 1.0.0\nreplicas: 2\nsettings:\n  value: {value}\n")
}

fn write_chart(world: &World, number: usize) -> Result<()> {
    let folder = chart(number);
    let name = name_of(&folder);
    world.write(&format!("namespaces/{name}.yaml"), &namespace_with_team(name, number))?;
    let head = format!("apiVersion: v2\nname: {name}\nversion: 1.0.0\nappVersion: 1.0.0\n");
    world.write(&format!("{folder}/Chart.yaml"), &head)?;
    change(world, &folder, "first")?;
    let names =
        "{{- define \"labels\" }}\napp: {{ .Chart.Name }}\nversion: {{ .Chart.AppVersion | quote }}\n{{- end }}\n";
    world.write(&format!("{folder}/templates/_names.tpl"), names)?;
    let metadata = "metadata:\n  name: {{ .Chart.Name }}\n  namespace: {{ .Values.namespace }}\n  labels: {{- include \"labels\" . | nindent 4 }}\n";
    let deployment = format!(
        "apiVersion: apps/v1\nkind: Deployment\n{metadata}spec:\n  replicas: {{{{ .Values.replicas }}}}\n  selector:\n    matchLabels:\n      \
         app: {{{{ .Chart.Name }}}}\n  template:\n    metadata:\n      labels: {{{{- include \"labels\" . | nindent 8 }}}}\n      annotations:\n        \
         checksum: {{{{ toJson .Values.settings | sha256sum }}}}\n    spec:\n      containers:\n      - name: main\n        \
         image: {{{{ printf \"%s:%s\" .Values.image .Values.tag | quote }}}}\n"
    );
    world.write(&format!("{folder}/templates/deployment.yaml"), &deployment)?;
    let service = format!(
        "apiVersion: v1\nkind: Service\n{metadata}spec:\n  selector:\n    app: {{{{ .Chart.Name }}}}\n  ports:\n  - {{name: http, port: 80}}\n"
    );
    world.write(&format!("{folder}/templates/service.yaml"), &service)?;
    let settings = format!(
        "apiVersion: v1\nkind: ConfigMap\n{metadata}data:\n{{{{- range $key, $value := .Values.settings }}}}\n  {{{{ $key }}}}: {{{{ $value | quote }}}}\n{{{{- end }}}}\n"
    );
    world.write(&format!("{folder}/templates/settings.yaml"), &settings)
}

fn namespace_with_team(name: &str, number: usize) -> String {
    let team = number % PLACEMENTS;
    format!("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {name}\n  labels: {{team: team-{team}}}\n")
}

/// Returns a placement of the namespaces of a team on all members.
fn placement(number: usize) -> String {
    format!(
        "apiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourcePlacement\nmetadata: {{name: team-{number}}}\nspec:\n  \
         resourceSelectors:\n  - {{group: '', version: v1, kind: Namespace, labelSelector: {{matchLabels: {{team: team-{number}}}}}}}\n  \
         policy: {{placementType: PickAll}}\n  strategy:\n    type: RollingUpdate\n    rollingUpdate: {{maxUnavailable: 100%, \
         unavailablePeriodSeconds: 1}}\n"
    )
}
