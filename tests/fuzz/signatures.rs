//! Fuzz target: whatever stands as a signature, only what a listed key signed counts; and no file of keys makes its reader fail badly.
//!
//! The keys were made for this target, and their private halves are gone. Inputs that are kept have a signature of each kind, so that the
//! fuzzer begins with some that count.

use std::sync::LazyLock;

use git::signature::{
    AllowedSigners, Authorities, CertifiedSigners, CosignKeys, Keyring, Keys, SignatureRefusal, check, check_artifact,
};
use jiff::Timestamp;
use model::artifact::{ArtifactSignature, SeenArtifact};
use model::id::CommitId;

/// What the kept signatures of commits are of.
const COMMIT: &[u8] = include_bytes!("keys/commit");
/// The time at which keys count: the certificates are valid for decades.
const NOW: Timestamp = Timestamp::constant(1_796_083_200, 0);

static KEYS: LazyLock<Keys> = LazyLock::new(|| Keys {
    ssh: Some(AllowedSigners::parse(include_str!("keys/allowed_signers")).unwrap()),
    openpgp: Some(Keyring::parse(include_bytes!("keys/openpgp.asc")).unwrap()),
    x509: Some(CertifiedSigners {
        authorities: Authorities::parse(include_bytes!("keys/authority.pem")).unwrap(),
        identities: vec!["ann@example.com".to_owned()],
        ..CertifiedSigners::default()
    }),
    cosign: Some(CosignKeys::parse(include_bytes!("keys/cosign.pub")).unwrap()),
});

/// The kept signatures, which count.
const KEPT: [&[u8]; 6] = [
    include_bytes!("corpus/signatures/commit-ssh"),
    include_bytes!("corpus/signatures/commit-cert"),
    include_bytes!("corpus/signatures/commit-openpgp"),
    include_bytes!("corpus/signatures/commit-x509"),
    include_bytes!("corpus/signatures/artifact-bundle"),
    include_bytes!("corpus/signatures/artifact-tagged"),
];

/// Without this a target that refuses everything would find nothing.
static KEPT_COUNT: LazyLock<()> = LazyLock::new(|| {
    for kept in KEPT {
        assert!(counts(kept), "a kept signature does not count: {}", String::from_utf8_lossy(kept));
    }
});

pub(super) fn run(input: &[u8]) {
    LazyLock::force(&KEPT_COUNT);
    counts(input);
}

/// Takes an input; tells whether it is a signature that counts.
fn counts(input: &[u8]) -> bool {
    let Some((kind, rest)) = input.split_first() else { return false };
    match kind {
        b'c' => commit(rest),
        b'b' => artifact(&ArtifactSignature::Bundle(rest.to_vec())),
        b't' => {
            let text = String::from_utf8_lossy(rest);
            let (signature, payload) = text.split_once('\n').unwrap_or((&text, ""));
            artifact(&ArtifactSignature::Tagged {
                payload: payload.as_bytes().to_vec(),
                signature: signature.to_owned(),
            })
        }
        _ => {
            keys(rest);
            false
        }
    }
}

/// A signature is of one text.
fn commit(signature: &[u8]) -> bool {
    let ask = |payload: &[u8]| check(payload, &[signature.to_vec()], &KEYS, NOW);
    let Ok(signer) = ask(COMMIT) else { return false };
    assert!(signer.name.contains("ann@example.com"), "{signer} is not listed");
    for at in [0, COMMIT.len() / 2, COMMIT.len() - 1] {
        let mut other = COMMIT.to_vec();
        other[at] ^= 1;
        assert_eq!(ask(&other), Err(SignatureRefusal::Bad(signer.clone())), "a flipped bit of the commit");
    }
    true
}

/// A signature is of one artifact.
fn artifact(signature: &ArtifactSignature) -> bool {
    let keys = KEYS.cosign.as_ref().expect("they are given");
    let ask = |byte: &str| {
        let digest = format!("sha256:{}", byte.repeat(32));
        let commit = CommitId::from("0".repeat(40).as_str());
        check_artifact(&SeenArtifact { digest, commit, signatures: vec![signature.clone()] }, keys)
    };
    let answers = ["0a", "0b"].map(ask);
    assert!(answers.iter().any(Result::is_err), "one signature for two artifacts");
    answers[0].is_ok()
}

/// A file of keys is read, or what is wrong with it is said.
fn keys(content: &[u8]) {
    let text = String::from_utf8_lossy(content);
    let answers = [
        AllowedSigners::parse(&text).map(|keys| keys.count()),
        Keyring::parse(content).map(|keys| keys.count()),
        CosignKeys::parse(content).map(|keys| keys.count()),
        Authorities::parse(content)
            .map(|authorities| CertifiedSigners { authorities, ..CertifiedSigners::default() }.authorities()),
    ];
    for answer in answers {
        match answer {
            Ok(count) => assert!(count > 0, "no key counts, and nobody is told"),
            Err(errors) => assert!(!errors.is_empty() && errors.iter().all(|error| !error.is_empty())),
        }
    }
}
