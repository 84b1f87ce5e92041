//! Manifests for the benchmarks, as text: the same in every run.

/// How large a tree is.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Payload objects, the placements' Namespaces included.
    pub manifests: usize,
    /// Placements; each places one namespace.
    pub placements: usize,
    /// Member clusters.
    pub clusters: usize,
}

/// The tree that DESIGN's B5 asks for.
pub const PLAN: Shape = Shape { manifests: 10_000, placements: 40, clusters: 100 };

/// Regions that clusters are labelled with, in turn.
const REGIONS: [&str; 4] = ["north", "east", "south", "west"];

/// Returns a tree's files, path and text: one document a file, like a repository that people keep.
///
/// Objects are Deployments, Services, ConfigMaps and ServiceAccounts in turn. A quarter of the placements goes to all
/// clusters, a quarter to one region, a quarter to ten clusters of a region, a quarter to five by name.
pub fn tree(shape: Shape) -> Vec<(String, String)> {
    let mut files = Vec::with_capacity(shape.manifests + shape.placements + shape.clusters);
    for number in 0..shape.clusters {
        let name = cluster_name(number);
        let labels = format!("{{region: {}, tier: t{}}}", REGIONS[number % REGIONS.len()], number % 3);
        files.push((format!("clusters/{name}.yaml"), member_cluster(&name, &labels)));
    }
    let each = shape.manifests / shape.placements;
    for team in 0..shape.placements {
        let name = format!("team-{team:02}");
        files.push((format!("{name}/placement.yaml"), placement(&name, &policy(team, shape.clusters))));
        files.push((format!("{name}/namespace.yaml"), namespace(&name)));
        files.extend((1..each).map(|number| {
            let (kind, text) = object(&name, number);
            (format!("{name}/{kind}-{number:04}.yaml"), text)
        }));
    }
    files
}

/// Returns one payload object, and its kind for the file's name.
fn object(namespace: &str, number: usize) -> (&'static str, String) {
    let name = format!("app-{number:04}");
    match number % 4 {
        0 => ("deployment", deployment(namespace, &name, "1.0.0")),
        1 => ("service", service(namespace, &name)),
        2 => ("configmap", config_map(namespace, &name, "value")),
        _ => ("serviceaccount", service_account(namespace, &name)),
    }
}

/// Returns the name of a cluster by its number.
pub fn cluster_name(number: usize) -> String {
    format!("member-{number:05}")
}

fn policy(team: usize, clusters: usize) -> String {
    let region = REGIONS[team / 4 % REGIONS.len()];
    let affinity = format!(
        "affinity: {{clusterAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{clusterSelectorTerms: \
         [{{labelSelector: {{matchLabels: {{region: {region}}}}}}}]}}}}}}"
    );
    match team % 4 {
        0 => "{placementType: PickAll}".to_owned(),
        1 => format!("{{placementType: PickAll, {affinity}}}"),
        2 => format!("{{placementType: PickN, numberOfClusters: 10, {affinity}}}"),
        _ => {
            let names: Vec<String> = (0..5).map(|n| cluster_name((team * 7 + n) % clusters)).collect();
            format!("{{placementType: PickFixed, clusterNames: [{}]}}", names.join(", "))
        }
    }
}

/// Returns a MemberCluster; `labels` is a mapping as YAML.
pub fn member_cluster(name: &str, labels: &str) -> String {
    format!(
        "---\napiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata:\n  name: {name}\n  \
         labels: {labels}\nspec: {{}}\n"
    )
}

/// Returns a placement of a namespace with everything in it; all its clusters may move at once.
pub fn placement(name: &str, policy: &str) -> String {
    format!(
        "---\napiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourcePlacement\nmetadata:\n  name: {name}\n\
         spec:\n  resourceSelectors:\n    - {{group: '', version: v1, kind: Namespace, name: {name}}}\n  \
         policy: {policy}\n  strategy:\n    type: RollingUpdate\n    \
         rollingUpdate: {{maxUnavailable: 100%, maxSurge: 25%, unavailablePeriodSeconds: 1}}\n"
    )
}

/// Returns a Namespace.
pub fn namespace(name: &str) -> String {
    format!("---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n")
}

/// Returns a ConfigMap with one value.
pub fn config_map(namespace: &str, name: &str, value: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: {namespace}\n  \
         labels: {{app: {name}}}\ndata:\n  value: \"{value}\"\n"
    )
}

fn service_account(namespace: &str, name: &str) -> String {
    format!("---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: {name}, namespace: {namespace}}}\n")
}

/// Returns a Service of the pods of its name.
pub fn service(namespace: &str, name: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Service\nmetadata:\n  name: {name}\n  namespace: {namespace}\nspec:\n  \
         selector: {{app: {name}}}\n  ports:\n    - {{name: http, port: 80, targetPort: 8080}}\n"
    )
}

/// Returns a Deployment of a version.
pub fn deployment(namespace: &str, name: &str, version: &str) -> String {
    format!(
        r#"---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}
  namespace: {namespace}
  labels:
    app: {name}
    app.kubernetes.io/version: "{version}"
spec:
  replicas: 3
  revisionHistoryLimit: 5
  selector:
    matchLabels:
      app: {name}
  strategy:
    rollingUpdate: {{maxSurge: 1, maxUnavailable: 0}}
  template:
    metadata:
      labels:
        app: {name}
    spec:
      serviceAccountName: {name}
      containers:
        - name: main
          image: registry.example/team/{name}:{version}
          args: ["serve", "--listen=:8080", "--log-level=info"]
          ports:
            - {{name: http, containerPort: 8080}}
          env:
            - {{name: REGION, value: "north"}}
            - {{name: LIMIT, value: "100"}}
          resources:
            requests: {{cpu: 100m, memory: 128Mi}}
            limits: {{memory: 256Mi}}
          readinessProbe:
            httpGet: {{path: /healthz, port: http}}
            periodSeconds: 5
"#
    )
}
