//! Commits that need a signature: what is accepted, what is refused and how that is said, with keys that ssh-keygen and gpg make.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use crate::cli::git;
use crate::cli::scratch::{CONFIG, FLEET, Outcome, Scratch, cluster, namespace, placement};

const ALLOWED: &str = "allowed_signers";

/// A fleet whose commits need a signature, and who signs them.
struct Signed {
    scratch: Scratch,
}

impl Signed {
    /// Makes the keys of `alice`, who may sign, and of `mallory`, and a first commit that alice signed.
    fn new(verify: &str) -> Self {
        let signed = Self { scratch: Scratch::new() };
        let allowed = ["alice", "mallory"].map(|name| format!("{name}@example.com {}\n", signed.key(name)));
        signed.allow(&allowed[0]);
        signed.configure(verify);
        signed.scratch.write("clusters.yaml", &cluster("east", "e"));
        signed.scratch.write("placement.yaml", &placement("web", "web", ""));
        signed.git(&["init", "-q"]);
        signed
    }

    /// Writes the configuration.
    fn configure(&self, verify: &str) {
        self.scratch.configure();
        let path = self.scratch.path(CONFIG);
        let text = fs::read_to_string(&path).expect("the configuration");
        let text = text.replace("branch: main}", &format!("branch: main, verify: {{{verify}}}}}"));
        fs::write(path, text).expect("a file");
    }

    fn allow(&self, signers: &str) {
        fs::write(self.scratch.path(ALLOWED), signers).expect("a file");
    }

    /// Makes an SSH key; returns its public part.
    fn key(&self, name: &str) -> String {
        let path = self.scratch.path(name);
        let made =
            Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-C", "", "-f"]).arg(&path).status();
        assert!(made.expect("ssh-keygen starts").success());
        fs::read_to_string(path.with_extension("pub")).expect("the key").trim().to_owned()
    }

    fn git(&self, args: &[&str]) -> String {
        git::git(&self.scratch.path(FLEET), args).expect("git")
    }

    /// Runs git so that it signs as somebody where it is told to.
    fn git_as(&self, who: &str, args: &[&str]) -> String {
        let key = format!("user.signingKey={}", self.scratch.path(who).display());
        self.git(&[&["-c", "gpg.format=ssh", "-c", &key], args].concat())
    }

    /// Writes a value and commits it, signed or not; returns the short id.
    fn commit(&self, value: &str, signer: Option<&str>) -> String {
        self.scratch.write("web.yaml", &namespace("web", &[("a", value)]));
        self.git(&["add", "-A"]);
        match signer {
            Some(who) => self.git_as(who, &["commit", "-q", "-S", "-m", value]),
            None => self.git(&["commit", "-q", "-m", value]),
        };
        self.head()
    }

    /// Returns the id of the tip as messages have it.
    fn head(&self) -> String {
        self.git(&["rev-parse", "--short=7", "HEAD"])
    }

    fn once(&self) -> Outcome {
        self.scratch.run(&["run", "-c", CONFIG, "--once"])
    }

    /// Returns the value that the member has.
    fn value(&self) -> String {
        let file = self.scratch.path("members/east/configmap..web.a.yaml");
        let text = fs::read_to_string(file).expect("the object");
        let line = text.lines().find(|line| line.trim().starts_with("key:")).expect("a value");
        line.replace(['\'', '"'], "").trim().trim_start_matches("key: ").to_owned()
    }

    /// Checks that the tip is accepted.
    fn accepts(&self, value: &str) {
        let found = self.once();
        assert_eq!((found.code, self.value()), (0, value.to_owned()), "{}", found.err);
    }

    /// Checks that the tip is refused with these words about a commit, and that the member keeps what it has.
    fn refuses(&self, about: &str, words: &str, stays: &str) {
        let found = self.once();
        assert_eq!((found.code, self.value()), (1, stays.to_owned()), "{}", found.err);
        let status = self.scratch.run(&["status", "--exit-code", "-c", CONFIG]);
        assert_eq!(status.code, 1, "{}", status.out);
        let journal = self.scratch.run(&["export", "journal", "-c", CONFIG]).out;
        let entry = journal.lines().rfind(|line| line.contains("CommitRefused")).expect("an entry of the journal");
        // A commit is in the journal once, with the reason that it was first refused for.
        assert!(entry.contains(&format!("commit {about}: ")), "{about}: {entry}");
        for said in [&found.err, &status.out] {
            assert!(said.contains(&format!("commit {about}: ")) && said.contains(words), "{about} {words}: {said}");
        }
    }
}

const SSH: &str = "ssh: {allowedSignersFile: allowed_signers}";

#[test]
#[ignore = "needs ssh-keygen"]
fn every_commit_needs_a_signature() {
    let fleet = Signed::new(SSH);
    // Before it nothing was accepted: what came before it is not checked.
    fleet.commit("0", None);
    fleet.commit("1", Some("alice"));
    fleet.accepts("1");
    let accepted = fleet.git(&["rev-parse", "HEAD"]);

    let middle = fleet.commit("2", None);
    fleet.refuses(&middle, "is not signed", "1");
    fleet.commit("3", Some("alice"));
    fleet.refuses(&middle, "is not signed", "1");
    fleet.git_as("alice", &["rebase", "-q", "--exec", "git commit -q --amend --no-edit -S", &accepted]);
    fleet.accepts("3");
    let accepted = fleet.git(&["rev-parse", "HEAD"]);

    // A signed merge does not speak for what it merges.
    fleet.git(&["checkout", "-q", "-b", "topic"]);
    let topic = fleet.commit("4", None);
    fleet.git(&["checkout", "-q", "main"]);
    fleet.git_as("alice", &["merge", "-q", "--no-ff", "-S", "-m", "merge", "topic"]);
    fleet.refuses(&topic, "is not signed", "3");
    fleet.git(&["reset", "-q", "--hard", &accepted]);
    fleet.accepts("3");

    let unknown = fleet.commit("5", Some("mallory"));
    fleet.refuses(&unknown, "is signed with the SSH key SHA256:", "3");
    let listed = fs::read_to_string(fleet.scratch.path("mallory.pub")).expect("the key");
    let alice = fs::read_to_string(fleet.scratch.path(ALLOWED)).expect("the signers");
    fleet.allow(&format!("{alice}mallory valid-before=\"20200101\" {listed}"));
    fleet.refuses(&unknown, "of mallory, which was valid only before 2020-01-01T00:00:00Z", "3");
    fleet.allow(&format!("{alice}mallory namespaces=\"git\" {listed}"));
    fleet.accepts("5");

    // The content of another commit under a good signature.
    fleet.commit("6", Some("alice"));
    let object = fleet.git(&["cat-file", "commit", "HEAD"]);
    let tree = fleet.git(&["rev-parse", "HEAD^{tree}"]);
    let other = fleet.git(&["rev-parse", "HEAD~1^{tree}"]);
    fs::write(fleet.scratch.path("object"), object.replace(&tree, &other) + "\n").expect("a file");
    let forged = fleet.git(&["hash-object", "-t", "commit", "-w", &fleet.scratch.path("object").display().to_string()]);
    fleet.git(&["reset", "-q", "--hard", &forged]);
    fleet.refuses(&fleet.head(), "has a bad signature: what the SSH key SHA256:", "5");
}

#[test]
#[ignore = "needs ssh-keygen"]
fn a_person_who_accepts_a_rewritten_history_replaces_no_signature() {
    let fleet = Signed::new(SSH);
    fleet.commit("1", Some("alice"));
    fleet.accepts("1");
    fleet.scratch.write("web.yaml", &namespace("web", &[("a", "2")]));
    fleet.git(&["commit", "-q", "-a", "--amend", "-m", "rewritten"]);
    let held = fleet.once();
    assert!(held.code == 1 && held.err.contains("history was rewritten"), "{}", held.err);
    fleet.scratch.run(&["resume", "-c", CONFIG]).text(0);
    fleet.refuses(&fleet.head(), "is not signed", "1");
    fleet.git_as("alice", &["commit", "-q", "--amend", "--no-edit", "-S"]);
    assert_eq!(
        (fleet.once().code, fleet.value()),
        (1, "1".to_owned()),
        "it is another history, of which nobody said a word"
    );
    fleet.scratch.run(&["resume", "-c", CONFIG]).text(0);
    fleet.accepts("2");
}

#[test]
#[ignore = "needs ssh-keygen"]
fn the_tip_alone_may_need_one() {
    let fleet = Signed::new(&format!("commits: Head, {SSH}"));
    fleet.commit("1", Some("alice"));
    fleet.accepts("1");
    fleet.commit("2", None);
    fleet.commit("3", Some("alice"));
    fleet.accepts("3");
    fleet.git(&["checkout", "-q", "-b", "topic"]);
    fleet.commit("4", Some("mallory"));
    fleet.git(&["checkout", "-q", "main"]);
    fleet.git_as("alice", &["merge", "-q", "--no-ff", "-S", "-m", "merge", "topic"]);
    fleet.accepts("4");
    let last = fleet.commit("5", None);
    fleet.refuses(&last, "is not signed", "4");
}

/// Makes an OpenPGP key, and a program that git runs as gpg with it; returns the program's path and the key's fingerprint.
fn gpg(fleet: &Signed) -> (String, String) {
    let home = fleet.scratch.path("gnupg");
    fs::create_dir(&home).expect("a folder");
    fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).expect("permissions");
    let program = fleet.scratch.path("gpg");
    let text = format!(
        "#!/bin/sh\nexec gpg --homedir '{}' --batch --quiet --pinentry-mode loopback --passphrase '' \"$@\"\n",
        home.display()
    );
    fs::write(&program, text).expect("a file");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("permissions");
    let run = |args: &[&str]| {
        let output = Command::new(&program).args(args).output().expect("gpg starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    run(&["--quick-generate-key", "Alice <alice@example.com>", "ed25519", "sign", "never"]);
    fs::write(fleet.scratch.path("keys.asc"), run(&["--armor", "--export"])).expect("a file");
    let listed = run(&["--list-keys", "--with-colons"]);
    let line = listed.lines().find(|line| line.starts_with("fpr:")).expect("a key");
    (program.display().to_string(), line.split(':').nth(9).expect("a fingerprint").to_owned())
}

#[test]
#[ignore = "needs gpg"]
fn openpgp_and_what_check_says() {
    let fleet = Signed::new("openpgp: {keysFile: keys.asc}");
    let (program, fingerprint) = gpg(&fleet);
    fleet.scratch.write("web.yaml", &namespace("web", &[("a", "1")]));
    fleet.git(&["add", "-A"]);
    let (program, key) = (format!("gpg.program={program}"), format!("user.signingKey={fingerprint}"));
    let sign = ["-c", &program, "-c", &key, "commit", "-q", "-S", "-m"];
    fleet.git(&[&sign[..], &["first"]].concat());
    let check = || fleet.scratch.run(&["check", "-c", CONFIG]);
    let found = check();
    let wanted = format!("1 key; {} is signed with the OpenPGP key {fingerprint} of Alice", fleet.head());
    assert!(found.code == 0 && found.out.contains(&wanted), "{}", found.out);
    fleet.accepts("1");

    let ssh = fleet.commit("2", Some("alice"));
    fleet.refuses(&ssh, "is signed with a key of SSH, and `source.verify` names none of that kind", "1");
    let found = check();
    assert!(found.code == 1 && found.out.contains(&format!("{ssh} is signed with a key of SSH")), "{}", found.out);

    fs::remove_file(fleet.scratch.path("keys.asc")).expect("the keys");
    let found = check();
    assert!(found.code == 1 && found.out.contains("keys.asc"), "{}", found.out);
    let found = fleet.once();
    assert!(found.code == 2 && found.err.contains("cannot read") && found.err.contains("keys.asc"), "{}", found.err);
    // gpg starts an agent for the folder, which would stay.
    let ended =
        Command::new("gpgconf").arg("--homedir").arg(fleet.scratch.path("gnupg")).args(["--kill", "all"]).status();
    assert!(ended.expect("gpgconf starts").success());
}

#[test]
#[ignore = "needs ssh-keygen"]
fn a_plain_folder_has_no_signatures() {
    let fleet = Signed::new(SSH);
    fs::remove_dir_all(fleet.scratch.path(FLEET).join(".git")).expect("the repository");
    let text = fs::read_to_string(fleet.scratch.path(CONFIG)).expect("the configuration");
    fs::write(fleet.scratch.path(CONFIG), text.replace("branch: main, ", "")).expect("a file");
    let found = fleet.once();
    assert!(found.code == 2 && found.err.contains("a plain folder has no signed commits"), "{}", found.err);
}

/// Makes a certificate of somebody, and a program that git runs as gpgsm with it; returns the program's path.
fn gpgsm(fleet: &Signed, name: &str) -> String {
    let folder = fleet.scratch.path("");
    let openssl = |args: &str| {
        let output = Command::new("openssl").args(args.split_whitespace()).current_dir(&folder).output();
        let output = output.expect("openssl starts");
        assert!(output.status.success(), "openssl {args}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    if !fleet.scratch.path("root.crt").exists() {
        openssl(&format!(
            "req -x509 {key} -keyout root.key -out root.crt -subj /CN=root -days 10 -addext keyUsage=critical,keyCertSign"
        ));
    }
    fs::write(
        fleet.scratch.path("person.ext"),
        format!("subjectAltName=email:{name}@example.com\nextendedKeyUsage=emailProtection\n"),
    )
    .expect("a file");
    openssl(&format!("req -new {key} -keyout {name}.pem -out {name}.csr -subj /CN={name}"));
    openssl(&format!(
        "x509 -req -in {name}.csr -days 10 -CA root.crt -CAkey root.key -CAcreateserial -extfile person.ext -out {name}.crt"
    ));
    let program = fleet.scratch.path(&format!("{name}-gpgsm"));
    // What git waits for beside the signature.
    let text = format!(
        "#!/bin/sh\necho '[GNUPG:] SIG_CREATED ' >&2\nopenssl cms -sign -binary -signer '{folder}/{name}.crt' -inkey \
         '{folder}/{name}.pem' -outform PEM | sed 's/CMS-----/SIGNED MESSAGE-----/'\n",
        folder = folder.display()
    );
    fs::write(&program, text).expect("a file");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("permissions");
    program.display().to_string()
}

#[test]
#[ignore = "needs openssl"]
fn certificates_of_a_listed_authority_and_person() {
    let fleet = Signed::new("x509: {caFile: root.crt, identities: [alice@example.com]}");
    let programs = ["alice", "bob"].map(|name| gpgsm(&fleet, name));
    let commit = |value: &str, program: &str| {
        fleet.scratch.write("web.yaml", &namespace("web", &[("a", value)]));
        fleet.git(&["add", "-A"]);
        let program = format!("gpg.x509.program={program}");
        fleet.git(&[
            "-c",
            "gpg.format=x509",
            "-c",
            &program,
            "-c",
            "user.signingKey=x",
            "commit",
            "-q",
            "-S",
            "-m",
            value,
        ]);
        fleet.head()
    };
    let first = commit("1", &programs[0]);
    let found = fleet.scratch.run(&["check", "-c", CONFIG]);
    let words = format!("0 keys, 1 authority; {first} is signed with the X.509 certificate ");
    assert!(found.code == 0 && found.out.contains(&words), "{}", found.out);
    assert!(found.out.contains(" of alice@example.com"), "{}", found.out);
    fleet.accepts("1");
    let second = commit("2", &programs[1]);
    fleet.refuses(&second, "which names bob@example.com, whom `source.verify` does not list", "1");
    fleet.git(&["reset", "-q", "--hard", &first]);
    let third = fleet.commit("3", Some("alice"));
    fleet.refuses(&third, "is signed with a key of SSH", "1");
}
