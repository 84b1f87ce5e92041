//! Keys that change while commits need signatures.

use super::*;
use config::{SshSigners, VerifiedCommits};

#[test]
#[ignore = "needs ssh-keygen"]
fn a_refused_commit_is_checked_again_when_its_signer_is_listed() {
    let dir = tempfile::tempdir().unwrap();
    let repo = dir.path().join("repo");
    let first = repository(&dir, &[("cluster.yaml", CLUSTER)]);
    let key = |name: &str| {
        let path = dir.path().join(name);
        let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&path).status();
        assert!(made.unwrap().success());
        (path.display().to_string(), fs::read_to_string(path.with_extension("pub")).unwrap())
    };
    let (_, listed) = key("alice");
    let (path, unlisted) = key("bob");
    let allowed = dir.path().join("allowed");
    fs::write(&allowed, format!("alice {listed}")).unwrap();
    let ssh = Some(SshSigners { allowed_signers_file: allowed.clone() });
    let verify = Verify { commits: VerifiedCommits::All, ssh, openpgp: None, x509: None, keyless: None, cosign: None };
    let (followed, mut news) = begin_verified(&dir, Some(first.clone()), Some(verify));
    assert_eq!(told(next(&mut news), &[]), "not restored", "nothing is fetched yet");
    assert_eq!(told(next(&mut news), &[(&first, "first")]), "accepted first", "an earlier process accepted it");

    fs::write(repo.join("a.yaml"), map("a", "1")).unwrap();
    git(&repo, &["add", "-A"]);
    let signing = format!("user.signingKey={path}");
    git(&repo, &["-c", "gpg.format=ssh", "-c", &signing, "commit", "-q", "-S", "-m", "by bob"]);
    let second = CommitId::new(git(&repo, &["rev-parse", "HEAD"]));
    followed.requests.send(SourceRequest::Poll).unwrap();
    assert_eq!(told(next(&mut news), &[(&second, "second")]), "refused second");

    // A file that cannot be read accepts nobody, and a failure is no refusal.
    fs::write(&allowed, "bob\n").unwrap();
    followed.requests.send(SourceRequest::Poll).unwrap();
    let failed = told(next(&mut news), &[]);
    assert!(failed.starts_with("failed: cannot read") && failed.contains("line 1: has no key"), "{failed}");

    fs::write(&allowed, format!("alice {listed}bob {unlisted}")).unwrap();
    followed.requests.send(SourceRequest::Poll).unwrap();
    assert_eq!(told(next(&mut news), &[(&second, "second")]), "accepted second");
}
