//! Keys that go with the test.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// A folder with keys.
pub(super) struct Folder {
    dir: TempDir,
}

impl Folder {
    pub(super) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.dir.path()).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
        command.env("HOME", self.dir.path()).env("GNUPGHOME", self.dir.path()).stderr(Stdio::piped());
        command
    }

    fn run(&self, program: &str, args: &[&str], input: &[u8]) -> Vec<u8> {
        let mut child = self
            .command(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{program} is missing, tests/run.sh gets it: {error}"));
        child.stdin.take().unwrap().write_all(input).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    /// Makes an SSH key; returns its public part as `TYPE KEY`.
    pub(super) fn ssh_key(&self, name: &str, kind: &[&str]) -> String {
        let args = [&["-q", "-N", "", "-C", "", "-f", name, "-t"], kind].concat();
        self.run("ssh-keygen", &args, b"");
        fs::read_to_string(self.dir.path().join(format!("{name}.pub"))).unwrap().trim().to_owned()
    }

    /// Has an authority certify a key, which is then also there under another name, with its certificate.
    pub(super) fn ssh_certify(&self, key: &str, name: &str, authority: &str, more: &[&str]) {
        for end in ["", ".pub"] {
            let path = |name: &str| self.dir.path().join(format!("{name}{end}"));
            fs::copy(path(key), path(name)).unwrap();
        }
        let public = format!("{name}.pub");
        self.run("ssh-keygen", &[&["-q", "-s", authority, "-I", name], more, &[&public]].concat(), b"");
        // ssh-keygen signs with the certificate that it is given in place of the key.
        let certificate = self.dir.path().join(format!("{name}-cert.pub"));
        fs::rename(certificate, self.dir.path().join(public)).unwrap();
    }

    /// Signs a text with an SSH key.
    pub(super) fn ssh_sign(&self, name: &str, namespace: &str, text: &str) -> Vec<u8> {
        self.run("ssh-keygen", &["-Y", "sign", "-q", "-n", namespace, "-f", name], text.as_bytes())
    }

    /// Runs gpg.
    pub(super) fn gpg(&self, args: &[&str], input: &[u8]) -> Vec<u8> {
        let args = [&["--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", ""], args].concat();
        self.run("gpg", &args, input)
    }

    /// Makes an OpenPGP key that signs; returns its fingerprint.
    pub(super) fn gpg_key(&self, user: &str, expires: &str) -> String {
        self.gpg(&["--quick-generate-key", user, "ed25519", "sign", expires], b"");
        let listed = self.gpg(&["--list-keys", "--with-colons", user], b"");
        let listed = String::from_utf8(listed).unwrap();
        let line = listed.lines().find(|line| line.starts_with("fpr:")).unwrap();
        line.split(':').nth(9).unwrap().to_owned()
    }

    /// Signs a text as git has it signed.
    pub(super) fn gpg_sign(&self, key: &str, more: &[&str], text: &str) -> Vec<u8> {
        self.gpg(&[more, &["-bsa", "-u", key]].concat(), text.as_bytes())
    }

    /// Exports public keys as text.
    pub(super) fn gpg_export(&self, keys: &[&str]) -> Vec<u8> {
        self.gpg(&[&["--armor", "--export"], keys].concat(), b"")
    }

    /// Revokes a key with the certificate that gpg made with it.
    pub(super) fn gpg_revoke(&self, key: &str) {
        let path = self.dir.path().join("openpgp-revocs.d").join(format!("{key}.rev"));
        let certificate = fs::read_to_string(path).unwrap().replace(":-----BEGIN", "-----BEGIN");
        self.gpg(&["--import"], certificate.as_bytes());
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // gpg starts an agent for the folder, which would stay; without gpg there is none.
        drop(self.command("gpgconf").args(["--kill", "all"]).output());
    }
}
