//! Artifacts in a real OCI registry as the source of a fleet of folders.

use std::fs;
use std::io::Write as _;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use testservers::fleet::OciRegistry;
use testservers::scratch::{CONFIG, Outcome, Scratch, cluster, namespace, placement};

const REPOSITORY: &str = "team/fleet";
const FLUX: &str = "application/vnd.cncf.flux.content.v1.tar+gzip";
const PLAIN: &str = "application/vnd.oci.image.layer.v1.tar";
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
const SIGNED: &str = "application/vnd.dev.cosign.simplesigning.v1+json";

/// A layer of a manifest: media type, content, annotations.
type Layer<'a> = (&'a str, &'a [u8], serde_json::Value);

/// A fleet of one folder that follows an artifact.
struct World {
    registry: OciRegistry,
    scratch: Scratch,
}

fn digest(content: &[u8]) -> String {
    let hex: Vec<String> = Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{}", hex.concat())
}

impl World {
    fn new() -> Self {
        let scratch = Scratch::new();
        fs::create_dir(scratch.path("registry")).unwrap();
        let registry = OciRegistry::start(&scratch.path("registry")).unwrap();
        Self { registry, scratch }
    }

    /// Writes the configuration. `name` is the tag or digest, `more` further fields of the source.
    fn configure(&self, name: &str, more: &str) {
        let url = format!("oci://{}/{REPOSITORY}{name}", self.registry.host());
        let text = format!(
            "apiVersion: gitfleet.io/v1alpha1\nkind: Configuration\nsource: {{url: \"{url}\", allowInsecureHttp: true, user: \
             {}, tokenFile: ./password{more}}}\nmembers:\n  - {{name: \"*\", directory: \"./members/{{name}}\"}}\nstore: {{path: \
             ./store}}\nhttp: {{listen: \"127.0.0.1:0\"}}\n",
            OciRegistry::USER
        );
        fs::write(self.scratch.path(CONFIG), text).unwrap();
        fs::write(self.scratch.path("password"), OciRegistry::PASSWORD).unwrap();
    }

    /// Pushes the tree of one value under the tag `main`; returns the digest.
    fn push(&self, value: &str, media_type: &str) -> String {
        let mut builder = tar::Builder::new(Vec::new());
        let files = [
            ("clusters.yaml", cluster("east", "e")),
            ("apps/placement.yaml", placement("web", "web", "")),
            ("apps/web.yaml", namespace("web", &[("a", value)])),
        ];
        for (path, content) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            builder.append_data(&mut header, path, content.as_bytes()).unwrap();
        }
        let mut layer = builder.into_inner().unwrap();
        if media_type == FLUX {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(&layer).unwrap();
            layer = encoder.finish().unwrap();
        }
        self.put("main", &[(media_type, &layer, json!({}))], value)
    }

    /// Puts a manifest of layers, each with annotations, under a tag; returns its digest.
    fn put(&self, tag: &str, layers: &[Layer<'_>], revision: &str) -> String {
        let blob =
            |kind: &str, content: &[u8]| self.registry.blob(REPOSITORY, kind, content, &digest(content)).unwrap();
        let config = blob("application/vnd.oci.image.config.v1+json", b"{}");
        let layer = |(kind, content, annotations): &Layer<'_>| {
            let mut layer = blob(kind, content);
            layer["annotations"] = annotations.clone();
            layer
        };
        let layers: Vec<_> = layers.iter().map(layer).collect();
        let manifest = json!({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": layers,
            "annotations": {"org.opencontainers.image.revision": revision},
        });
        self.registry.manifest(REPOSITORY, tag, &manifest).unwrap();
        digest(manifest.to_string().as_bytes())
    }

    /// Makes a key as cosign does; its public half is in `NAME.pub`.
    fn key(&self, name: &str) {
        let curve = ["genpkey", "-quiet", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", name];
        self.openssl(&curve);
        self.openssl(&["pkey", "-in", name, "-pubout", "-out", &format!("{name}.pub")]);
    }

    fn openssl(&self, args: &[&str]) {
        let output = Command::new("openssl").args(args).current_dir(self.scratch.path("")).output().unwrap();
        assert!(output.status.success(), "openssl {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Signs a digest beside an artifact, as `cosign sign --key` does.
    fn sign(&self, artifact: &str, signed: &str, key: &str) {
        let payload = json!({
            "critical": {
                "identity": {"docker-reference": format!("{}/{REPOSITORY}", self.registry.host())},
                "image": {"docker-manifest-digest": signed},
                "type": "cosign container image signature",
            },
            "optional": null,
        });
        let payload = payload.to_string();
        let annotations = json!({ "dev.cosignproject.cosign/signature": self.signature(&payload, key) });
        let tag = format!("{}.sig", artifact.replace(':', "-"));
        self.put(&tag, &[(SIGNED, payload.as_bytes(), annotations)], key);
    }

    /// Returns a key's signature of a message, as base64.
    fn signature(&self, message: &str, key: &str) -> String {
        fs::write(self.scratch.path("payload"), message).unwrap();
        self.openssl(&["dgst", "-sha256", "-sign", key, "-out", "signature", "payload"]);
        STANDARD.encode(fs::read(self.scratch.path("signature")).unwrap())
    }

    /// States something of an artifact by a bundle, as cosign does from version 3 on: `https://sigstore.dev/cosign/sign/v1` is a signature. This
    /// registry keeps no lists of what refers to an artifact, so cosign keeps one under a tag, in which it long said another type.
    fn bundle(&self, artifact: &str, states: &str, key: &str) {
        const IN_TOTO: &str = "application/vnd.in-toto+json";
        let subject = json!([{"digest": {"sha256": artifact.trim_start_matches("sha256:")}, "annotations": {}}]);
        let statement = json!({
            "_type": "https://in-toto.io/Statement/v1", "subject": subject, "predicateType": states, "predicate": {},
        })
        .to_string();
        let message = format!("DSSEv1 {} {IN_TOTO} {} {statement}", IN_TOTO.len(), statement.len());
        let signatures = json!([{ "sig": self.signature(&message, key) }]);
        let bundle = json!({
            "mediaType": BUNDLE,
            "verificationMaterial": {"publicKey": {"hint": "any"}, "tlogEntries": []},
            "dsseEnvelope": {"payload": STANDARD.encode(&statement), "payloadType": IN_TOTO, "signatures": signatures},
        })
        .to_string();
        let manifest = self.put("bundle", &[(BUNDLE, bundle.as_bytes(), json!({}))], states);
        let kind = "application/vnd.oci.image.manifest.v1+json";
        let index = json!({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": [{"mediaType": kind, "digest": manifest, "size": 1, "artifactType": "application/vnd.oci.empty.v1+json"}],
        });
        self.registry.manifest(REPOSITORY, &artifact.replace(':', "-"), &index).unwrap();
    }

    fn once(&self) -> Outcome {
        self.scratch.run(&["run", "-c", CONFIG, "--once"])
    }

    /// Returns the value that the member has.
    fn value(&self) -> String {
        let file = self.scratch.path("members/east/configmap..web.a.yaml");
        let text = fs::read_to_string(file).unwrap();
        let line = text.lines().find(|line| line.trim().starts_with("key:")).unwrap();
        line.replace(['\'', '"'], "").trim().trim_start_matches("key: ").to_owned()
    }

    fn delivers(&self, value: &str) {
        let found = self.once();
        assert_eq!((found.code, self.value()), (0, value.to_owned()), "{}", found.err);
    }

    /// Checks that the artifact is refused with these words, and that the member keeps what it has.
    fn refuses(&self, words: &str, stays: &str) {
        let found = self.once();
        assert_eq!((found.code, self.value()), (1, stays.to_owned()), "{}", found.err);
        let status = self.scratch.run(&["status", "--exit-code", "-c", CONFIG]);
        assert_eq!(status.code, 1, "{}", status.out);
        for said in [&found.err, &status.out] {
            assert!(said.contains(words) && !said.contains(OciRegistry::PASSWORD), "{words}: {said}");
        }
    }
}

#[test]
fn a_tag_is_followed_and_a_digest_stays() {
    let world = World::new();
    world.configure(":main", ", identity: team");
    let first = world.push("1", FLUX);
    world.delivers("1");
    world.push("2", PLAIN);
    world.delivers("2");
    // What cannot be unpacked leaves everything as it is.
    let broken = world.put("main", &[(PLAIN, b"no archive", json!({}))], "3");
    world.refuses(&format!("cannot use the artifact {broken} of oci://"), "2");
    // Back to an earlier digest is no rewritten history.
    world.push("1", FLUX);
    world.delivers("1");
    world.push("4", FLUX);
    world.configure(&format!("@{first}"), ", identity: team");
    world.delivers("1");
    // The registry is gone: what was accepted stays.
    world.registry.stop();
    world.refuses("cannot reach oci://", "1");
}

#[test]
fn an_account_is_needed() {
    let world = World::new();
    world.configure(":main", "");
    world.push("1", FLUX);
    world.delivers("1");
    world.push("2", FLUX);
    fs::write(world.scratch.path("password"), "wrong").unwrap();
    world.refuses("the account or its token is wrong", "1");
    let check = world.scratch.run(&["check", "-c", CONFIG]);
    assert!(check.out.contains("the account or its token is wrong"), "{}", check.out);
    fs::write(world.scratch.path("password"), OciRegistry::PASSWORD).unwrap();
    world.delivers("2");
}

#[test]
fn an_artifact_needs_the_signature_of_a_listed_key() {
    let world = World::new();
    world.configure(":main", ", verify: {cosign: {keysFile: alice.pub}}");
    world.key("alice");
    world.key("mallory");
    let first = world.push("1", FLUX);
    world.sign(&first, &first, "alice");
    world.delivers("1");
    let check = world.scratch.run(&["check", "-c", CONFIG]);
    assert!(check.out.contains(&format!("1 key; {first} is signed with the key sha256:")), "{}", check.out);
    let second = world.push("2", FLUX);
    world.refuses(&format!("artifact {second}: is not signed"), "1");
    world.sign(&second, &second, "mallory");
    world.refuses("has a signature that no key of `source.verify.cosign` made", "1");
    world.sign(&second, &first, "alice");
    world.refuses("signs another artifact", "1");
    // A signature that comes after the push.
    world.sign(&second, &second, "alice");
    world.delivers("2");
}

#[test]
fn a_bundle_of_a_listed_key_counts_if_it_states_a_signature() {
    const SIGNATURE: &str = "https://sigstore.dev/cosign/sign/v1";
    let world = World::new();
    world.configure(":main", ", verify: {cosign: {keysFile: alice.pub}}");
    world.key("alice");
    world.key("mallory");
    let first = world.push("1", FLUX);
    world.bundle(&first, SIGNATURE, "alice");
    world.delivers("1");
    let second = world.push("2", FLUX);
    world.refuses("is not signed", "1");
    world.bundle(&second, SIGNATURE, "mallory");
    world.refuses("has a signature that no key of `source.verify.cosign` made", "1");
    // What was found out about an artifact does not say that it may run.
    world.bundle(&second, "https://slsa.dev/provenance/v1", "alice");
    world.refuses("it has an attestation of the type", "1");
    world.bundle(&second, SIGNATURE, "alice");
    world.delivers("2");
}
