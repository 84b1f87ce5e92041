//! Signatures of artifacts, made with openssl.

use std::fs;
use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tempfile::TempDir;

use super::super::*;
use crate::model::artifact::{ArtifactSignature, SeenArtifact};

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

fn sign(folder: &Path, name: &str, payload: &str) -> ArtifactSignature {
    fs::write(folder.join("payload"), payload).unwrap();
    if name == "ed" {
        openssl(folder, &["pkeyutl", "-sign", "-rawin", "-inkey", name, "-in", "payload", "-out", "signature"]);
    } else {
        openssl(folder, &["dgst", "-sha256", "-sign", name, "-out", "signature", "payload"]);
    }
    let signature = STANDARD.encode(fs::read(folder.join("signature")).unwrap());
    ArtifactSignature { payload: payload.as_bytes().to_vec(), signature }
}

fn payload(digest: &str, kind: &str) -> String {
    format!(
        r#"{{"critical":{{"identity":{{"docker-reference":"r.example/fleet"}},"image":{{"docker-manifest-digest":"{digest}"}},"type":"{kind}"}},"optional":null}}"#
    )
}

const KIND: &str = "cosign container image signature";

#[test]
fn a_listed_key_must_have_signed_this_digest() {
    let dir = TempDir::new().unwrap();
    let folder = dir.path();
    let p256 = ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"];
    let mut public = key(folder, "ec", &p256);
    public.extend(key(folder, "ed", &["-algorithm", "ED25519"]));
    public.extend(key(folder, "rsa", &["-algorithm", "RSA"]));
    key(folder, "stranger", &p256);
    let keys = CosignKeys::parse(&public).unwrap();
    assert_eq!(keys.count(), 3);
    let (digest, other) = (format!("sha256:{}", "0a".repeat(32)), format!("sha256:{}", "0b".repeat(32)));
    let (good, moved) = (payload(&digest, KIND), payload(&other, KIND));
    let altered = |mut signed: ArtifactSignature| {
        signed.payload = good.clone().into_bytes();
        signed
    };
    let unreadable = |signature: &str| ArtifactSignature { payload: good.clone().into(), signature: signature.into() };
    let rows: Vec<(&str, Vec<ArtifactSignature>, &str)> = vec![
        ("none", vec![], "is not signed"),
        ("P-256", vec![sign(folder, "ec", &good)], "accepted"),
        ("Ed25519", vec![sign(folder, "ed", &good)], "accepted"),
        ("RSA", vec![sign(folder, "rsa", &good)], "accepted"),
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
        let artifact = SeenArtifact { digest: digest.clone(), commit: CommitId::new("c"), signatures };
        let found = match check_artifact(&artifact, &keys) {
            Ok(key) => {
                assert!(key.starts_with("sha256:"), "{key}");
                "accepted".to_owned()
            }
            Err(refusal) => {
                let complaint = artifact_complaint(&artifact, &refusal);
                assert_eq!(complaint.path, format!("artifact {digest}"));
                complaint.message
            }
        };
        assert!(found.contains(wanted), "{name}: {found}");
    }
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
