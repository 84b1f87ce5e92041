//! Writes a believable tree of any size, for tests and benchmarks.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Regions that clusters are spread over.
const REGIONS: [&str; 5] = ["eu-west", "eu-north", "us-east", "us-west", "ap-south"];
/// Every so many clusters one is for trying things out.
const STAGING_EVERY: usize = 10;

/// Writes a tree with about so many objects, and exactly so many placements and clusters, to a folder.
///
/// Each placement has a Namespace of its own; the other objects are shared out among the namespaces in the proportions of real
/// applications: one file an application with a Deployment, a Service, a ServiceAccount, a ConfigMap and a Secret. One placement
/// in four goes everywhere, one to two named clusters, one to three clusters of a region, one to a region as a whole. The same
/// numbers give the same bytes.
pub fn fleet(dir: &Path, objects: usize, placements: usize, clusters: usize) {
    let write = |path: String, text: String| {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().expect("every file is in a folder")).expect("the folder can be made");
        fs::write(path, text).expect("the file can be written");
    };
    for number in 0..clusters {
        write(format!("clusters/{}.yaml", cluster_name(number)), cluster(number));
    }
    for number in 0..placements {
        let namespace = format!("team-{number:03}");
        write(format!("teams/{namespace}/namespace.yaml"), namespace_text(&namespace));
        write(format!("placements/{namespace}.yaml"), placement(number, &namespace, clusters));
        let share = (objects / placements).saturating_sub(1) + usize::from(number < objects % placements);
        for first in (0..share).step_by(5) {
            let app = format!("app-{:03}", first / 5);
            let documents = application(&app, &namespace, first / 5 + number);
            let text = documents.into_iter().take(share - first).collect::<Vec<_>>().join("---\n");
            write(format!("teams/{namespace}/{app}.yaml"), text);
        }
    }
}

fn region(number: usize) -> &'static str {
    REGIONS[number % REGIONS.len()]
}

fn cluster_name(number: usize) -> String {
    format!("{}-{number:05}", region(number))
}

fn cluster(number: usize) -> String {
    let environment = if number.is_multiple_of(STAGING_EVERY) { "staging" } else { "production" };
    format!(
        "apiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata:\n  name: {}\n  labels:\n    region: {}\n    \
         environment: {environment}\n    order: \"{number}\"\nspec:\n  heartbeatPeriodSeconds: 60\n",
        cluster_name(number),
        region(number)
    )
}

fn namespace_text(name: &str) -> String {
    format!("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {name}\n  labels:\n    team: {name}\n")
}

fn placement(number: usize, namespace: &str, clusters: usize) -> String {
    let affinity = format!(
        "    affinity:\n      clusterAffinity:\n        requiredDuringSchedulingIgnoredDuringExecution:\n          \
         clusterSelectorTerms:\n            - labelSelector:\n                matchLabels:\n                  region: {}\n",
        region(number)
    );
    let mut policy = String::new();
    match number % 4 {
        1 if clusters > 1 => {
            let second = (number + 1) % clusters;
            let first = if number % clusters == second { 0 } else { number % clusters };
            let names = [cluster_name(first), cluster_name(second)].join(", ");
            write!(policy, "  policy:\n    placementType: PickFixed\n    clusterNames: [{names}]\n")
        }
        2 => write!(policy, "  policy:\n    placementType: PickN\n    numberOfClusters: 3\n{affinity}"),
        3 => write!(policy, "  policy:\n    placementType: PickAll\n{affinity}"),
        _ => Ok(()),
    }
    .expect("writing to a string cannot fail");
    format!(
        "apiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourcePlacement\nmetadata:\n  name: {namespace}\nspec:\n  \
         resourceSelectors:\n    - {{group: \"\", version: v1, kind: Namespace, name: {namespace}}}\n{policy}  strategy:\n    \
         type: RollingUpdate\n    rollingUpdate: {{maxUnavailable: 25%, maxSurge: 25%}}\n"
    )
}

/// Returns the documents of an application; `seed` makes its values differ from those of others.
fn application(app: &str, namespace: &str, seed: usize) -> [String; 5] {
    let head = |api_version: &str, kind: &str| {
        format!(
            "apiVersion: {api_version}\nkind: {kind}\nmetadata:\n  name: {app}\n  namespace: {namespace}\n  labels:\n    \
             app.kubernetes.io/name: {app}\n    app.kubernetes.io/part-of: {namespace}\n"
        )
    };
    let settings: Vec<String> = (0..8).map(|line| format!("    setting.{line} = {}\n", seed * 31 + line)).collect();
    let settings = settings.concat();
    [
        head("apps/v1", "Deployment")
            + &format!(
                "spec:\n  replicas: {}\n  selector:\n    matchLabels:\n      app.kubernetes.io/name: {app}\n  template:\n    \
                 metadata:\n      labels:\n        app.kubernetes.io/name: {app}\n    spec:\n      serviceAccountName: {app}\n      \
                 containers:\n        - name: main\n          image: registry.example/{app}:1.{seed}.0\n          ports:\n            \
                 - containerPort: 8080\n              name: http\n          resources:\n            requests: {{cpu: 100m, \
                 memory: 128Mi}}\n            limits: {{memory: 256Mi}}\n          readinessProbe:\n            httpGet: {{path: \
                 /ready, port: http}}\n          envFrom:\n            - configMapRef: {{name: {app}}}\n            - secretRef: \
                 {{name: {app}}}\n",
                1 + seed % 5
            ),
        head("v1", "Service")
            + &format!(
                "spec:\n  selector:\n    app.kubernetes.io/name: {app}\n  ports:\n    - {{name: http, port: 80, targetPort: http}}\n"
            ),
        head("v1", "ServiceAccount") + "automountServiceAccountToken: false\n",
        head("v1", "ConfigMap") + &format!("data:\n  LOG_LEVEL: info\n  application.conf: |\n{settings}"),
        head("v1", "Secret") + &format!("type: Opaque\nstringData:\n  API_TOKEN: not-a-real-token-{seed}\n"),
    ]
}
