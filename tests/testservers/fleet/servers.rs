//! The command lines of the servers behind a member: one etcd for all, and for each an API server and, where asked
//! for, a controller manager.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context, Result};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::json;

use super::{
    binaries::Binaries,
    process::{Process, Spec},
    wait::{free_port, http},
};

/// How long a server may take until it is ready, on a loaded machine too.
pub(super) const READY: Duration = Duration::from_mins(1);

/// Controllers that run when a controller manager is asked for: what removes namespaces and dependent objects and gives
/// namespaces their usual furniture. Workload controllers are left out: `workloads` stands in for them, with no pods at all.
const CONTROLLERS: &str = "namespace-controller,garbage-collector-controller,serviceaccount-controller,\
                           serviceaccount-token-controller,root-ca-certificate-publisher-controller,resourcequota-controller";

/// Starts an etcd in `folder` and waits until it serves; returns it with its port.
///
/// # Errors
/// When it does not start, or not in time.
pub(super) fn etcd(binaries: &Binaries, folder: &Path, fsync: bool) -> Result<(Process, u16)> {
    let (client, peer) = (free_port()?, free_port()?);
    let client_url = format!("http://127.0.0.1:{client}");
    let peer_url = format!("http://127.0.0.1:{peer}");
    let spec = Spec::new("etcd", &binaries.etcd, folder)
        .flag("data-dir", folder.join("etcd").display())
        .flag("listen-client-urls", &client_url)
        .flag("advertise-client-urls", &client_url)
        .flag("listen-peer-urls", &peer_url)
        .flag("initial-advertise-peer-urls", &peer_url)
        .flag("initial-cluster", format!("default={peer_url}"))
        .flag("log-level", "warn")
        .flag("unsafe-no-fsync", !fsync);
    let etcd = spec.spawn()?;
    await_etcd(&etcd, client)?;
    Ok((etcd, client))
}

/// Waits until an etcd serves at its port.
///
/// # Errors
/// When it ended, or does not serve in time.
pub(super) fn await_etcd(etcd: &Process, port: u16) -> Result<()> {
    let look = || Ok(http("GET", port, "/health", &[], "").ok().filter(|(status, _)| *status == 200));
    etcd.until("etcd to be healthy", READY, look).map(drop)
}

/// Describes the API server of one member. Its data live below the member's own prefix of the common etcd.
pub(super) fn kube_apiserver(
    binaries: &Binaries,
    folder: &Path,
    name: &str,
    etcd: u16,
    port: u16,
    token: &str,
) -> Result<Spec> {
    let own = folder.join(name);
    fs::create_dir_all(&own).with_context(|| format!("create {}", own.display()))?;
    let tokens = own.join("tokens.csv");
    fs::write(&tokens, format!("{token},admin,admin,\"system:masters\"\n")).context("write the token file")?;
    // The server makes a key and a certificate for itself before it looks for the key of service accounts: the same key
    // serves for both, and no key of ours lies in the repository.
    let key = own.join("apiserver.key");
    Ok(Spec::new(&format!("{name}-apiserver"), &binaries.kube_apiserver, folder)
        .flag("etcd-servers", format!("http://127.0.0.1:{etcd}"))
        .flag("etcd-prefix", format!("/{name}"))
        .flag("cert-dir", own.display())
        .flag("secure-port", port)
        .flag("bind-address", "127.0.0.1")
        .flag("advertise-address", "127.0.0.1")
        // Nobody looks for this API server by the service `kubernetes`, and a loopback address is no valid endpoint.
        .flag("endpoint-reconciler-type", "none")
        .flag("service-cluster-ip-range", "10.96.0.0/16")
        .flag("service-account-issuer", "https://kubernetes.default.svc")
        .flag("service-account-signing-key-file", key.display())
        .flag("service-account-key-file", key.display())
        .flag("token-auth-file", tokens.display())
        .flag("authorization-mode", "RBAC")
        .flag("disable-admission-plugins", "ServiceAccount"))
}

/// Describes the controller manager of one member.
pub(super) fn controller_manager(folder: &Path, name: &str, kubeconfig: &Path) -> Result<Spec> {
    let own = folder.join(name);
    Ok(Spec::new(&format!("{name}-controller-manager"), &Binaries::controller_manager()?, folder)
        .flag("kubeconfig", kubeconfig.display())
        .flag("authentication-kubeconfig", kubeconfig.display())
        .flag("authorization-kubeconfig", kubeconfig.display())
        .flag("service-account-private-key-file", own.join("apiserver.key").display())
        .flag("root-ca-file", own.join("apiserver.crt").display())
        .flag("cert-dir", own.join("controller-manager").display())
        .flag("bind-address", "127.0.0.1")
        .flag("secure-port", free_port()?)
        .flag("leader-elect", false)
        .flag("controllers", CONTROLLERS))
}

/// Writes the kubeconfig of a member; JSON, which is YAML too. The context has the member's name. The certificate (PEM) is in it, so that the
/// file may be copied anywhere.
///
/// # Errors
/// When it cannot be written.
pub(super) fn write_kubeconfig(path: &Path, name: &str, url: &str, token: &str, certificate: &str) -> Result<()> {
    let authority = BASE64_STANDARD.encode(certificate);
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": name, "cluster": { "server": url, "certificate-authority-data": authority } }],
        "users": [{ "name": name, "user": { "token": token } }],
        "contexts": [{ "name": name, "context": { "cluster": name, "user": name } }],
        "current-context": name,
    });
    fs::write(path, format!("{kubeconfig:#}\n")).with_context(|| format!("write {}", path.display()))
}
