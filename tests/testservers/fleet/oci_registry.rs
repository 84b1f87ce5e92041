//! An OCI registry, from Debian's package docker-registry, that wants an account.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context, Result, ensure};
use reqwest::blocking::{Client, RequestBuilder};
use serde_json::{Value, json};

use super::{
    debian,
    process::{Process, Spec, Watchdog},
    wait::{free_port, http},
};

/// How long it may take to become ready.
const READY_MAX: Duration = Duration::from_mins(1);
/// What bcrypt makes of the password.
const HASH: &str = "$2b$05$abcdefghijklmnopqrstuuoXuKqgZXLiJqzfmMXDDhSFPIvxV7t8.";

/// A running registry; ends when dropped.
pub struct OciRegistry {
    process: Process,
    port: u16,
    /// Ends the server and removes its folder however the test ends.
    _watchdog: Watchdog,
}

impl OciRegistry {
    /// The account that may read and write.
    pub const USER: &str = "robot";
    /// Its password.
    pub const PASSWORD: &str = "hunter2";

    /// Starts a registry in an empty folder.
    ///
    /// # Errors
    /// When the binary cannot be had, or the server does not become ready; the error shows its log.
    pub fn start(folder: &Path) -> Result<Self> {
        let (binary, port) = (debian::binary("docker-registry", "docker-registry", "5 MB")?, free_port()?);
        let watchdog = Watchdog::start(folder)?;
        let (accounts, configuration) = (folder.join("accounts"), folder.join("registry.yml"));
        fs::write(&accounts, format!("{}:{HASH}\n", Self::USER)).context("write the accounts")?;
        let text = json!({
            "version": "0.1",
            "storage": {"filesystem": {"rootdirectory": folder.join("data")}},
            "http": {"addr": format!("127.0.0.1:{port}")},
            "auth": {"htpasswd": {"realm": "test", "path": accounts}},
        });
        fs::write(&configuration, text.to_string()).context("write the configuration")?;
        let process = Spec::new("docker-registry", &binary, folder)
            .arg("serve")
            .arg(configuration.display().to_string())
            .spawn()?;
        process.until("the registry is ready", READY_MAX, || {
            Ok(http("GET", port, "/v2/", &[], "").is_ok_and(|(status, _)| status == 401).then_some(()))
        })?;
        Ok(Self { process, port, _watchdog: watchdog })
    }

    /// Returns host and port.
    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Ends it, as a crash would.
    pub fn stop(&self) {
        self.process.stop();
    }

    /// Puts a blob into a repository; returns how a manifest names it.
    ///
    /// # Errors
    /// The registry refuses it.
    pub fn blob(&self, repository: &str, media_type: &str, content: &[u8], digest: &str) -> Result<Value> {
        let url = format!("http://{}/v2/{repository}/blobs/uploads/", self.host());
        let begun = Self::sent(Client::new().post(url), 202)?;
        let place = begun.headers().get("Location").context("an upload has a place")?.to_str()?.to_owned();
        let request = Client::new().put(place).query(&[("digest", digest)]);
        Self::sent(request.header("Content-Type", "application/octet-stream").body(content.to_vec()), 201)?;
        Ok(json!({"mediaType": media_type, "digest": digest, "size": content.len()}))
    }

    /// Puts a manifest, or a list of them, under a tag or its digest.
    ///
    /// # Errors
    /// The registry refuses it.
    pub fn manifest(&self, repository: &str, name: &str, manifest: &Value) -> Result<()> {
        let url = format!("http://{}/v2/{repository}/manifests/{name}", self.host());
        let kind = manifest["mediaType"].as_str().context("a manifest says what it is")?;
        let request = Client::new().put(url).header("Content-Type", kind).body(manifest.to_string());
        Self::sent(request, 201).map(drop)
    }

    fn sent(request: RequestBuilder, wanted: u16) -> Result<reqwest::blocking::Response> {
        let answer = request.basic_auth(Self::USER, Some(Self::PASSWORD)).send().context("ask the registry")?;
        let status = answer.status().as_u16();
        ensure!(status == wanted, "the registry answers {status}, and not {wanted}");
        Ok(answer)
    }
}
