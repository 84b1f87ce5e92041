//! Signatures of artifacts, made with openssl.

use std::fs;
use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::SigningKey;
use ed25519_dalek::pkcs8::EncodePublicKey as _;
use serde_json::json;
use sha2::{Digest as _, Sha512};
use tempfile::TempDir;

use super::super::*;
use model::artifact::{ArtifactSignature, SeenArtifact};

fn openssl(folder: &Path, args: &[&str]) {
    let output = Command::new("openssl").args(args).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "openssl {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Makes a key; returns its public half.
fn key(folder: &Path, name: &str, kind: &[&str]) -> Vec<u8> {
    openssl(folder, &[&["genpkey", "-quiet", "-out", name], kind].concat());
    openssl(folder, &["pkey", "-in", name, "-pubout", "-out", "public"]);
    fs::read(folder.join("public")).unwrap()
}

/// The key `ed-hashed`, which signs the hash of a message. Debian's openssl cannot.
fn ed25519_key() -> SigningKey {
    SigningKey::from_bytes(&[7; 32])
}

/// Returns a key's signature of a message, as base64.
fn signature(folder: &Path, name: &str, message: &str) -> String {
    if name == "ed-hashed" {
        let made = ed25519_key().sign_prehashed(Sha512::new_with_prefix(message), None).unwrap();
        return STANDARD.encode(made.to_bytes());
    }
    fs::write(folder.join("payload"), message).unwrap();
    if name == "ed" {
        openssl(folder, &["pkeyutl", "-sign", "-rawin", "-inkey", name, "-in", "payload", "-out", "signature"]);
    } else {
        let hash = if name.ends_with("sha384") { "-sha384" } else { "-sha256" };
        openssl(folder, &["dgst", hash, "-sign", name, "-out", "signature", "payload"]);
    }
    STANDARD.encode(fs::read(folder.join("signature")).unwrap())
}

fn sign(folder: &Path, name: &str, payload: &str) -> ArtifactSignature {
    ArtifactSignature::Tagged { payload: payload.as_bytes().to_vec(), signature: signature(folder, name, payload) }
}

const IN_TOTO: &str = "application/vnd.in-toto+json";

/// Makes a bundle of a statement, as cosign does from version 3 on.
fn bundle(folder: &Path, name: &str, statement: &str) -> serde_json::Value {
    bundle_of(folder, name, IN_TOTO, statement)
}

/// Makes a bundle with a payload of a type.
fn bundle_of(folder: &Path, name: &str, kind: &str, statement: &str) -> serde_json::Value {
    let message = format!("DSSEv1 {} {kind} {} {statement}", kind.len(), statement.len());
    let sig = signature(folder, name, &message);
    json!({
        "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
        "verificationMaterial": {"publicKey": {"hint": "any"}},
        "dsseEnvelope": {"payload": STANDARD.encode(statement), "payloadType": kind, "signatures": [{"sig": sig}]},
    })
}

fn statement(digest: &str, predicate: &str) -> String {
    let hex = digest.trim_start_matches("sha256:");
    json!({
        "_type": "https://in-toto.io/Statement/v1", "subject": [{"digest": {"sha256": hex}}], "predicateType": predicate, "predicate": {},
    })
    .to_string()
}

fn payload(digest: &str, kind: &str) -> String {
    format!(
        r#"{{"critical":{{"identity":{{"docker-reference":"r.example/fleet"}},"image":{{"docker-manifest-digest":"{digest}"}},"type":"{kind}"}},"optional":null}}"#
    )
}

const KIND: &str = "cosign container image signature";

#[test]
#[ignore = "needs openssl"]
fn a_listed_key_must_have_signed_this_digest() {
    let dir = TempDir::new().unwrap();
    let folder = dir.path();
    let p256 = ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"];
    let mut public = key(folder, "ec", &p256);
    public.extend(key(folder, "ed", &["-algorithm", "ED25519"]));
    public.extend(key(folder, "rsa", &["-algorithm", "RSA"]));
    for name in ["p384", "p384-sha384"] {
        public.extend(key(folder, name, &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"]));
    }
    key(folder, "stranger", &p256);
    let keys = CosignKeys::parse(&public).unwrap();
    assert_eq!(keys.count(), 5);
    let (digest, other) = (format!("sha256:{}", "0a".repeat(32)), format!("sha256:{}", "0b".repeat(32)));
    let (good, moved) = (payload(&digest, KIND), payload(&other, KIND));
    let altered = |mut signed: ArtifactSignature| {
        if let ArtifactSignature::Tagged { payload, .. } = &mut signed {
            *payload = good.clone().into_bytes();
        }
        signed
    };
    let unreadable =
        |signature: &str| ArtifactSignature::Tagged { payload: good.clone().into(), signature: signature.into() };
    let rows: Vec<(&str, Vec<ArtifactSignature>, &str)> = vec![
        ("none", vec![], "is not signed"),
        ("P-256", vec![sign(folder, "ec", &good)], "accepted"),
        ("Ed25519", vec![sign(folder, "ed", &good)], "accepted"),
        ("RSA", vec![sign(folder, "rsa", &good)], "accepted"),
        ("P-384", vec![sign(folder, "p384", &good)], "accepted"),
        ("P-384 and SHA-384", vec![sign(folder, "p384-sha384", &good)], "accepted"),
        ("stranger", vec![sign(folder, "stranger", &good)], "has a signature that no key"),
        ("stranger first", vec![sign(folder, "stranger", &good), sign(folder, "ec", &good)], "accepted"),
        ("another digest", vec![sign(folder, "ec", &moved)], "signs another artifact, sha256:0b0b"),
        ("moved, altered", vec![altered(sign(folder, "ec", &moved))], "has a signature that no key"),
        ("another type", vec![sign(folder, "ec", &payload(&digest, "atomic"))], "signs a \"atomic\""),
        ("no digest", vec![sign(folder, "ec", "{}")], "names no artifact"),
        ("no JSON", vec![sign(folder, "ec", "x")], "names no artifact"),
        ("no base64", vec![unreadable("?"), unreadable("")], "has 2 signatures that no key"),
        ("too long", vec![unreadable(&"A".repeat(SIGNATURE_BYTES_MAX + 4))], "has a signature that no key"),
    ];
    for (name, signatures, wanted) in rows {
        let found = checked(&digest, signatures, &keys);
        assert!(found.contains(wanted), "{name}: {found}");
    }
}

/// Returns what is said of an artifact.
fn checked(digest: &str, signatures: Vec<ArtifactSignature>, keys: &CosignKeys) -> String {
    let artifact = SeenArtifact { digest: digest.to_owned(), commit: CommitId::new("c"), signatures };
    match check_artifact(&artifact, keys) {
        Ok(key) => {
            assert!(key.starts_with("sha256:"), "{key}");
            "accepted".to_owned()
        }
        Err(refusal) => {
            let complaint = artifact_complaint(&artifact, &refusal);
            assert_eq!(complaint.path, format!("artifact {digest}"));
            complaint.message
        }
    }
}

#[test]
#[ignore = "needs openssl"]
fn a_bundle_counts_if_it_states_a_signature_of_this_digest() {
    const SIGNATURE: &str = "https://sigstore.dev/cosign/sign/v1";
    let dir = TempDir::new().unwrap();
    let folder = dir.path();
    let p256 = ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"];
    let mut public = key(folder, "ec", &p256);
    key(folder, "stranger", &p256);
    let ed25519 = ed25519_key().verifying_key().to_public_key_der().unwrap();
    let pem = format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(&ed25519));
    public.extend(pem.into_bytes());
    let keys = CosignKeys::parse(&public).unwrap();
    let (digest, other) = (format!("sha256:{}", "0a".repeat(32)), format!("sha256:{}", "0b".repeat(32)));
    let good = bundle(folder, "ec", &statement(&digest, SIGNATURE));
    let changed = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut bundle = good.clone();
        change(&mut bundle["dsseEnvelope"]);
        bundle
    };
    let moved = STANDARD.encode(statement(&other, SIGNATURE));
    let none = "has a signature that no key";
    let rows = [
        ("signed", good.clone(), "accepted"),
        ("Ed25519, of the hash", bundle(folder, "ed-hashed", &statement(&digest, SIGNATURE)), "accepted"),
        (
            "Ed25519, of the hash, another digest",
            bundle(folder, "ed-hashed", &statement(&other, SIGNATURE)),
            "signs another artifact, sha256:0b0b",
        ),
        ("a stranger", bundle(folder, "stranger", &statement(&digest, SIGNATURE)), none),
        ("another digest", bundle(folder, "ec", &statement(&other, SIGNATURE)), "signs another artifact, sha256:0b0b"),
        (
            "how it was built",
            bundle(folder, "ec", &statement(&digest, "https://slsa.dev/provenance/v1")),
            "is not signed: of the key sha256:",
        ),
        ("no statement", bundle(folder, "ec", "{}"), "names no artifact"),
        ("no subject", bundle(folder, "ec", &json!({"predicateType": SIGNATURE}).to_string()), "signs no artifact"),
        ("another payload", changed(&|envelope| envelope["payload"] = json!(moved)), none),
        ("another type", changed(&|envelope| envelope["payloadType"] = json!("text/plain")), none),
        ("no signature", changed(&|envelope| envelope["signatures"] = json!([])), none),
        (
            "two signatures",
            changed(&|envelope| {
                let one = envelope["signatures"][0].clone();
                envelope["signatures"] = json!([one.clone(), one]);
            }),
            none,
        ),
        ("a payload of another type", bundle_of(folder, "ec", "text/plain", &statement(&digest, SIGNATURE)), none),
        ("no base64", changed(&|envelope| envelope["payload"] = json!("?")), none),
        ("too long", changed(&|envelope| envelope["signatures"][0]["sig"] = json!("A".repeat(20_000))), none),
        ("a signature of a message", json!({"messageSignature": {"signature": "AAAA"}}), none),
    ];
    for (name, bundle, wanted) in rows {
        let found = checked(&digest, vec![ArtifactSignature::Bundle(bundle.to_string().into_bytes())], &keys);
        assert!(found.contains(wanted), "{name}: {found}");
    }
    // One that counts is enough.
    let text = |bundle: &serde_json::Value| ArtifactSignature::Bundle(bundle.to_string().into_bytes());
    let built = bundle(folder, "ec", &statement(&digest, "https://slsa.dev/provenance/v1"));
    assert_eq!(checked(&digest, vec![text(&built), text(&good)], &keys), "accepted");
}

#[test]
fn files_without_keys_are_refused() {
    for (content, wanted) in [
        ("", "no public key"),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "no public key"),
        ("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "its key 1 cannot be read"),
        ("-----BEGIN PUBLIC KEY-----\nAAAA\n", "no file of public keys"),
    ] {
        let found = CosignKeys::parse(content.as_bytes()).unwrap_err().join(" ");
        assert!(found.contains(wanted), "{content}: {found}");
    }
}
