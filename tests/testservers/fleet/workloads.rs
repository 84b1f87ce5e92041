//! Workloads become available without nodes, pods or controllers: this writes the status that their controllers would write.
//!
//! A workload whose generation was not observed yet gets its status after a delay; every change of its spec therefore does that again.
//! Annotations of the pod template, which are part of the spec, ask for another course:
//!
//! - `fleet.test/delay: 5s`: how long the rollout takes, instead of [`DELAY`];
//! - `fleet.test/outcome: never`: the workload is observed, and never becomes available;
//! - `fleet.test/outcome: fail`: the same, and a Deployment says `ProgressDeadlineExceeded`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use reqwest::Client;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

/// How long a rollout takes that asks for nothing else.
const DELAY: Duration = Duration::from_millis(300);
/// The pause before an API server is asked again that does not answer.
const PAUSE: Duration = Duration::from_millis(200);
/// The kinds that get a status, by the path of their API.
const KINDS: [(&str, &str); 4] = [
    ("apps/v1", "deployments"),
    ("apps/v1", "statefulsets"),
    ("apps/v1", "daemonsets"),
    ("policy/v1", "poddisruptionbudgets"),
];

/// How an API server is asked.
#[derive(Clone, Debug)]
pub(super) struct Access {
    pub url: String,
    pub token: String,
    /// The certificate of the server, as PEM.
    pub certificate: String,
}

impl Access {
    /// Reads the kubeconfig of a member.
    ///
    /// # Errors
    /// When it cannot be read, or is not as [`super::servers::write_kubeconfig`] writes it.
    pub(super) fn read(kubeconfig: &Path) -> Result<Self> {
        let what = || kubeconfig.display().to_string();
        let text = std::fs::read_to_string(kubeconfig).with_context(what)?;
        let config: Value = serde_json::from_str(&text).with_context(what)?;
        let text = |pointer: &str| {
            let found = config.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
            found.with_context(|| format!("{} has no {pointer}", what()))
        };
        let certificate = BASE64_STANDARD.decode(text("/clusters/0/cluster/certificate-authority-data")?)?;
        let certificate = String::from_utf8(certificate).with_context(what)?;
        Ok(Self { url: text("/clusters/0/cluster/server")?, token: text("/users/0/user/token")?, certificate })
    }
}

/// Writes until it is dropped.
#[derive(Debug)]
pub(super) struct Workloads {
    runtime: Option<Runtime>,
}

impl Workloads {
    /// Begins to write the status of the workloads of these API servers, whether they answer yet or not.
    ///
    /// # Errors
    /// When a certificate is none.
    pub(super) fn start(servers: impl IntoIterator<Item = Access>) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("workloads")
            .enable_all()
            .build()
            .context("a runtime")?;
        for access in servers {
            let certificates = reqwest::Certificate::from_pem_bundle(access.certificate.as_bytes())?;
            let client = Client::builder().no_proxy().tls_certs_only(certificates).build().context("a client")?;
            let server = Arc::new(Server { access, client });
            for (api, plural) in KINDS {
                runtime.spawn(Arc::clone(&server).follow(api, plural));
            }
        }
        Ok(Self { runtime: Some(runtime) })
    }
}

impl Drop for Workloads {
    fn drop(&mut self) {
        // A runtime that is dropped within another one would panic.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

struct Server {
    access: Access,
    client: Client,
}

impl Server {
    async fn follow(self: Arc<Self>, api: &'static str, plural: &'static str) {
        loop {
            // A watch that ended, and a server that does not answer, are the same: both are asked again.
            drop(Arc::clone(&self).watch(api, plural).await);
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Watches one kind from what is there, until the server ends it.
    async fn watch(self: Arc<Self>, api: &'static str, plural: &'static str) -> Result<()> {
        let request = self.client.get(format!("{}/apis/{api}/{plural}?watch=1", self.access.url));
        let mut answer = request.bearer_auth(&self.access.token).send().await?.error_for_status()?;
        let (mut text, mut writes) = (Vec::new(), JoinSet::new());
        while let Some(chunk) = answer.chunk().await? {
            text.extend_from_slice(&chunk);
            while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
                let event: Value = serde_json::from_slice(&text.drain(..=end).collect::<Vec<u8>>())?;
                ensure!(event["type"] != "ERROR", "the watch ended: {event}");
                let object = &event["object"];
                if event["type"] != "DELETED"
                    && object["metadata"]["generation"] != object["status"]["observedGeneration"]
                {
                    writes.spawn(Arc::clone(&self).write(api, plural, object.clone()));
                }
            }
            while writes.try_join_next().is_some() {}
        }
        Ok(())
    }

    /// Writes the status after the delay. An object that changed in between is left to the event of its change.
    async fn write(self: Arc<Self>, api: &'static str, plural: &'static str, object: Value) {
        tokio::time::sleep(delay(&object)).await;
        let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
        let change = json!({
            "metadata": {"resourceVersion": text("resourceVersion")},
            "status": status(plural, &object, &now()),
        });
        let path = format!("/apis/{api}/namespaces/{}/{plural}/{}/status", text("namespace"), text("name"));
        let request = self.client.patch(format!("{}{path}?fieldManager=workloads", self.access.url));
        let request = request.bearer_auth(&self.access.token).header("Content-Type", "application/merge-patch+json");
        drop(request.body(change.to_string()).send().await);
    }
}

#[expect(clippy::disallowed_methods, reason = "a controller dates what it writes")]
fn now() -> String {
    jiff::Timestamp::now().to_string()
}

/// Returns an annotation of the pod template; empty where it has none.
fn annotation<'a>(object: &'a Value, name: &str) -> &'a str {
    object["spec"]["template"]["metadata"]["annotations"][name].as_str().unwrap_or_default()
}

fn delay(object: &Value) -> Duration {
    annotation(object, "fleet.test/delay")
        .parse::<jiff::SignedDuration>()
        .map_or(DELAY, jiff::SignedDuration::unsigned_abs)
}

/// Returns the status that a controller would write.
fn status(plural: &str, object: &Value, now: &str) -> Value {
    let outcome = annotation(object, "fleet.test/outcome");
    let is_available = !["never", "fail"].contains(&outcome);
    let wanted = if plural == "daemonsets" { 1 } else { object["spec"]["replicas"].as_u64().unwrap_or(1) };
    let available = if is_available { wanted } else { 0 };
    let generation = &object["metadata"]["generation"];
    let condition = |kind: &str, is_true: bool, reason: &str, message: &str| {
        let status = if is_true { "True" } else { "False" };
        json!({
            "type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": now, "lastUpdateTime": now,
        })
    };
    match plural {
        "deployments" => {
            let availability = if is_available {
                condition("Available", true, "MinimumReplicasAvailable", "Deployment has minimum availability.")
            } else {
                condition(
                    "Available",
                    false,
                    "MinimumReplicasUnavailable",
                    "Deployment does not have minimum availability.",
                )
            };
            let progress = match outcome {
                "never" => condition("Progressing", true, "ReplicaSetUpdated", "The new replica set is progressing."),
                "fail" => {
                    let message = "The new replica set has timed out progressing.";
                    condition("Progressing", false, "ProgressDeadlineExceeded", message)
                }
                _ => condition("Progressing", true, "NewReplicaSetAvailable", "The new replica set is available."),
            };
            json!({
                "observedGeneration": generation, "replicas": wanted, "updatedReplicas": wanted, "readyReplicas": available,
                "availableReplicas": available, "unavailableReplicas": wanted - available,
                "conditions": [availability, progress],
            })
        }
        "statefulsets" => json!({
            "observedGeneration": generation, "replicas": wanted, "updatedReplicas": wanted, "currentReplicas": wanted,
            "readyReplicas": available, "availableReplicas": available,
            "currentRevision": format!("revision-{generation}"), "updateRevision": format!("revision-{generation}"),
        }),
        "daemonsets" => json!({
            "observedGeneration": generation, "desiredNumberScheduled": wanted, "currentNumberScheduled": wanted,
            "updatedNumberScheduled": wanted, "numberMisscheduled": 0, "numberReady": available, "numberAvailable": available,
            "numberUnavailable": wanted - available,
        }),
        // With no Pods nothing is disturbed: every disruption is allowed.
        _ => json!({
            "observedGeneration": generation, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2, "disruptionsAllowed": 1,
            "conditions": [{
                "type": "DisruptionAllowed", "status": "True", "reason": "SufficientPods", "message": "", "lastTransitionTime": now,
                "observedGeneration": generation,
            }],
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_asks_for_delay_and_outcome() {
        for (annotations, after, available, progressing) in [
            (json!({}), DELAY, 2, "NewReplicaSetAvailable"),
            (json!({"fleet.test/delay": "5s"}), Duration::from_secs(5), 2, "NewReplicaSetAvailable"),
            (json!({"fleet.test/outcome": "never"}), DELAY, 0, "ReplicaSetUpdated"),
            (
                json!({"fleet.test/outcome": "fail", "fleet.test/delay": "1500ms"}),
                Duration::from_millis(1500),
                0,
                "ProgressDeadlineExceeded",
            ),
        ] {
            let object = json!({
                "metadata": {"generation": 7}, "spec": {"replicas": 2, "template": {"metadata": {"annotations": annotations}}},
            });
            let found = status("deployments", &object, "2026-01-01T00:00:00Z");
            assert_eq!(delay(&object), after, "{annotations}");
            assert_eq!(found["availableReplicas"], available, "{annotations}");
            assert_eq!(found["conditions"][1]["reason"], progressing, "{annotations}");
            assert_eq!(found["observedGeneration"], 7);
        }
    }
}
