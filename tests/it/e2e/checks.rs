//! Checks of a stage with a real Prometheus: no data, an answer outside the limits, one within, and a server that goes away.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;

use tempfile::TempDir;

use crate::e2e::daemon::{World, config_map, namespace};
use crate::e2e::fleet::Prometheus;

/// The metrics of an application, as Prometheus reads them.
#[derive(Clone, Default)]
struct Application {
    text: Arc<Mutex<String>>,
}

impl Application {
    /// Serves the metrics on a free port, as long as the test lives.
    fn serve(&self) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let (port, text) = (listener.local_addr().expect("an address").port(), Arc::clone(&self.text));
        thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let head = BufReader::new(&stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty());
                head.for_each(drop);
                let body = text.lock().expect("no other thread panics").clone();
                let head = "HTTP/1.0 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n";
                // Prometheus may have given up.
                drop(write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()));
            }
        });
        port
    }

    fn errors(&self, rate: &str) {
        *self.text.lock().expect("no other thread panics") = format!("errors{{app=\"web\"}} {rate}\n");
    }
}

const STRATEGY: &str = "---\napiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterStagedUpdateStrategy\nmetadata:\n  \
    name: careful\n  annotations:\n    gitfleet.io/stage-checks: |\n      canary:\n        healthyFor: 1s\n        metrics:\n        - \
    {name: error-rate, query: 'max(errors{app=\"web\"})', max: 0.01}\nspec:\n  stages:\n    - {name: canary, labelSelector: \
    {matchLabels: {stage: canary}}}\n    - {name: rest, labelSelector: {matchLabels: {stage: rest}}}\n---\napiVersion: \
    placement.kubernetes-fleet.io/v1\nkind: ClusterResourcePlacement\nmetadata:\n  name: web\n  annotations: \
    {gitfleet.io/staged-update-strategy: careful}\nspec:\n  strategy: {type: External}\n  resourceSelectors: [{group: '', version: v1, \
    kind: Namespace, name: web}]\n";

fn world(url: &str) -> World {
    let world = World::new(None, &[]);
    let configuration = format!(
        "apiVersion: gitfleet.io/v1alpha1\nkind: Configuration\nsource: {{url: ./repo, branch: main}}\nmembers: [{{name: '*', \
         directory: './members/{{name}}'}}]\nstore: {{path: ./state}}\nhttp: {{listen: '127.0.0.1:{}'}}\nprometheus: [{{name: \
         main, url: '{url}', interval: 1s, timeout: 1s}}]\n",
        world.port()
    );
    fs::write(world.config(), configuration).expect("the configuration is written");
    let cluster = |name: &str, stage: &str| {
        format!(
            "---\napiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata: {{name: {name}, labels: {{stage: \
             {stage}}}}}\nspec: {{}}\n"
        )
    };
    world.write("fleet.yaml", &[&cluster("a", "canary"), &cluster("b", "rest"), STRATEGY].concat());
    world.write("web.yaml", &[namespace("web"), config_map("web", "settings", "1")].concat());
    world
}

/// Returns what a member holds.
fn held(world: &World, member: &str) -> String {
    let file = world.path().join("members").join(member).join("configmap..web.settings.yaml");
    fs::read_to_string(file).unwrap_or_default()
}

#[test]
fn a_stage_waits_for_what_prometheus_answers() {
    let application = Application::default();
    let folder = TempDir::new().expect("a temporary folder");
    let prometheus = Prometheus::start(folder.path(), application.serve()).expect("Prometheus starts");
    let world = world(&prometheus.url());
    world.commit("first");
    let daemon = world.start();

    daemon.await_status("check error-rate, at most 0.01: no answer: no data");
    assert!(!held(&world, "a").is_empty() && held(&world, "b").is_empty());

    application.errors("0.5");
    let status = daemon.await_status("stage canary: the check error-rate answers 0.5, allowed: at most 0.01");
    assert!(status.contains("run web-0 is halted") || status.contains("halted: stage canary"), "{status}");
    assert_eq!(world.gitfleet(&["status", "--exit-code", "-c", "gitfleet.yaml"]).status.code(), Some(1));
    assert_eq!(held(&world, "b"), "");

    application.errors("0.002");
    daemon.await_rolled_out("web", 0);
    assert_ne!(held(&world, "b"), "");
    let journal = world.gitfleet(&["export", "journal", "web", "-c", "gitfleet.yaml"]);
    let journal = String::from_utf8_lossy(&journal.stdout).into_owned();
    assert!(journal.contains("error-rate answers 0.002, allowed: at most 0.01"), "{journal}");

    // The server is gone: the next run waits, and says why.
    prometheus.stop();
    world.write("web.yaml", &[namespace("web"), config_map("web", "settings", "2")].concat());
    world.commit("second");
    daemon.await_status("check error-rate, at most 0.01: no answer: the server does not answer");
    let second = "value: \"2\"";
    assert!(held(&world, "a").contains(second) && !held(&world, "b").contains(second), "{}", held(&world, "b"));
}
