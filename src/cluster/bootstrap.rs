//! Gets a token for gitfleet's account on a member, once, with an administrator's kubeconfig.

use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::Api;
use kube::api::PostParams;
use kube::config::Kubeconfig;
use serde_json::{Value, json};

use super::Error;
use super::connect::{SignIn, about_member, chain, connect};

/// How often to check a Secret without a token.
const LOOKS_MAX: u32 = 20;
/// Pause between two checks.
const LOOK_PAUSE: Duration = Duration::from_millis(500);

/// Where a token comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenSource {
    /// The lasting one that the cluster has put into a Secret of this name.
    Secret(&'static str),
    /// A new one that ends after this time, at most: a cluster may grant less.
    Request(Duration),
}

/// An administrator's access to a member.
pub struct Admin {
    member: String,
    path: PathBuf,
    context: Option<String>,
    kubeconfig: Kubeconfig,
}

impl Admin {
    /// Reads the administrator's kubeconfig.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(member: &str, path: &Path, context: Option<&str>) -> Result<Self, Error> {
        let admin = |kubeconfig| Self {
            member: member.to_owned(),
            path: path.to_owned(),
            context: context.map(str::to_owned),
            kubeconfig,
        };
        match Kubeconfig::read_from(path) {
            Ok(kubeconfig) => Ok(admin(kubeconfig)),
            Err(error) => Err(admin(Kubeconfig::default()).access(chain(&error))),
        }
    }

    fn access(&self, reason: impl Into<String>) -> Error {
        Error::Access { cluster: self.member.clone(), path: self.path.display().to_string(), reason: reason.into() }
    }

    /// Returns what a kubeconfig says of the cluster: server, certificate authority, proxy; nothing of the administrator.
    ///
    /// # Errors
    /// The context or its cluster is missing, or the server is not verified.
    pub fn cluster(&self, server: Option<&str>) -> Result<Value, Error> {
        let wanted = self.context.as_ref().or(self.kubeconfig.current_context.as_ref());
        let wanted = wanted.ok_or_else(|| self.access("has no current context; name one with --context"))?;
        let context = self.kubeconfig.contexts.iter().find(|context| context.name == *wanted);
        let context = context.and_then(|context| context.context.as_ref());
        let context = context.ok_or_else(|| self.access(format!("has no context {wanted}")))?;
        let found = self.kubeconfig.clusters.iter().find(|cluster| cluster.name == context.cluster);
        let found = found.and_then(|cluster| cluster.cluster.as_ref());
        let found = found.ok_or_else(|| self.access(format!("has no cluster {}", context.cluster)))?;
        if found.insecure_skip_tls_verify == Some(true) {
            return Err(self.access(
                "does not verify the server (insecure-skip-tls-verify), so the token would go to whoever answers; \
                 give it certificate-authority-data",
            ));
        }
        let server = server.or(found.server.as_deref());
        let mut cluster = json!({"server": server.ok_or_else(|| self.access("names no server"))?});
        if let Some(data) = &found.certificate_authority_data {
            cluster["certificate-authority-data"] = json!(data);
        } else if let Some(file) = &found.certificate_authority {
            // The kubeconfig that is made is used on another machine, so the certificate goes into it.
            // Paths are relative to the kubeconfig; `Kubeconfig::read_from` has made them whole.
            let pem = std::fs::read(file).map_err(|error| self.access(format!("{file}: {error}")))?;
            cluster["certificate-authority-data"] =
                serde_json::to_value(k8s_openapi::ByteString(pem)).map_err(|error| self.access(error.to_string()))?;
        }
        for (key, value) in [("proxy-url", &found.proxy_url), ("tls-server-name", &found.tls_server_name)] {
            if let Some(value) = value {
                cluster[key] = json!(value);
            }
        }
        Ok(cluster)
    }

    /// Returns a token of an account. Waits some seconds for a Secret that was made just before.
    ///
    /// # Errors
    /// The member does not answer or refuses, or has put no token into the Secret.
    ///
    /// # Cancel safety
    /// May be dropped at any point: a token that was made by request is lost, and is valid until it expires.
    pub async fn token(&self, namespace: &str, account: &str, source: TokenSource) -> Result<String, Error> {
        let client = connect(&self.member, &self.path, self.context.as_deref(), SignIn::Any).await?.client;
        let refused = |error: kube::Error| match error {
            kube::Error::Api(status) if status.code == 404 => Error::Refused {
                object: format!("the account {namespace}/{account} of {}", self.member),
                code: 404,
                reason: status.reason,
                message: format!(
                    "{}; apply what `gitfleet member bootstrap {}` prints first",
                    status.message, self.member
                ),
            },
            error => about_member(&self.member, &error),
        };
        match source {
            TokenSource::Request(lifetime) => {
                let seconds = i64::try_from(lifetime.as_secs()).ok();
                let spec = TokenRequestSpec { expiration_seconds: seconds, ..TokenRequestSpec::default() };
                let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
                let accounts: Api<ServiceAccount> = Api::namespaced(client, namespace);
                let made = accounts.create_token_request(account, &PostParams::default(), &request).await;
                Ok(made.map_err(refused)?.status.and_then(|status| status.token).unwrap_or_default())
            }
            TokenSource::Secret(name) => {
                let secrets: Api<Secret> = Api::namespaced(client, namespace);
                for _ in 0..LOOKS_MAX {
                    let data = secrets.get(name).await.map_err(refused)?.data.unwrap_or_default();
                    if let Some(token) = data.get("token").and_then(|token| String::from_utf8(token.0.clone()).ok()) {
                        return Ok(token);
                    }
                    tokio::time::sleep(LOOK_PAUSE).await;
                }
                Err(self.access(format!(
                    "the cluster has put no token into the Secret {namespace}/{name} within {} s; \
                     request one with --token-lifetime",
                    (LOOK_PAUSE * LOOKS_MAX).as_secs()
                )))
            }
        }
    }
}
