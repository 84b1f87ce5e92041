//! Certificates and signatures that openssl makes.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use jiff::SignedDuration;

use super::*;

/// What signs commits of people.
const USAGE: &str = "extendedKeyUsage=emailProtection\nkeyUsage=critical,digitalSignature\n";
const ISSUER: &str = "https://login.example.com";

/// Authorities and people, in a folder.
struct Pki(tempfile::TempDir);

impl Pki {
    fn new() -> Self {
        let pki = Self(tempfile::tempdir().unwrap());
        pki.authority("root", None);
        pki.authority("other", None);
        pki.authority("between", Some("root"));
        pki.authority("login", None);
        pki.write("commit", COMMIT);
        pki
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    fn openssl(&self, args: &str) {
        let output = Command::new("openssl").args(args.split_whitespace()).current_dir(self.0.path()).output().unwrap();
        assert!(output.status.success(), "openssl {args}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn key(&self, name: &str, algorithm: &str) {
        self.openssl(&format!("genpkey -algorithm {algorithm} -out {name}.key"));
        self.openssl(&format!("req -new -key {name}.key -subj /CN={name} -out {name}.csr"));
    }

    fn authority(&self, name: &str, above: Option<&str>) {
        self.key(name, "EC -pkeyopt ec_paramgen_curve:P-256");
        let extensions =
            "basicConstraints=critical,CA:true\nkeyUsage=critical,keyCertSign\nsubjectKeyIdentifier=hash\n";
        self.write(&format!("{name}.ext"), extensions);
        let by = above.map_or(format!("-signkey {name}.key"), |above| {
            format!("-CA {above}.crt -CAkey {above}.key -CAcreateserial")
        });
        self.openssl(&format!("x509 -req -in {name}.csr -days 3650 {by} -extfile {name}.ext -out {name}.crt"));
    }

    /// Makes a certificate of somebody, for 30 days.
    fn person(&self, name: &str, by: &str, algorithm: &str, extensions: &str) {
        self.key(name, algorithm);
        self.write(&format!("{name}.ext"), &format!("subjectKeyIdentifier=hash\n{extensions}"));
        self.openssl(&format!("x509 -req -in {name}.csr -days 30 -CA {by}.crt -CAkey {by}.key -CAcreateserial -extfile {name}.ext -out {name}.crt"));
    }

    /// Makes a usual one of somebody with an address.
    fn usual(&self, name: &str, by: &str) {
        self.person(name, by, P256, &format!("subjectAltName=email:{name}@example.com\n{USAGE}"));
    }

    /// Makes one for a login, that was valid on one day of 2020 where it is old.
    fn login(&self, name: &str, issuer: &str, is_old: bool) {
        self.key(name, P256);
        let extensions = format!(
            "subjectAltName=critical,email:{name}@example.com\nextendedKeyUsage=codeSigning\nkeyUsage=critical,digitalSignature\n\
             1.3.6.1.4.1.57264.1.8=ASN1:UTF8String:{issuer}\n"
        );
        self.write(&format!("{name}.ext"), &extensions);
        if is_old {
            self.write("index.txt", "");
            self.write("serial", "01\n");
            let config = "[ca]\ndefault_ca=d\n[d]\ndatabase=index.txt\nserial=serial\nnew_certs_dir=.\ndefault_md=sha256\npolicy=p\n[p]\ncommonName=supplied\n";
            self.write("ca.cnf", config);
            self.openssl(&format!(
                "ca -batch -config ca.cnf -in {name}.csr -cert login.crt -keyfile login.key -startdate 20200101000000Z \
                 -enddate 20200102000000Z -extfile {name}.ext -out {name}.crt -notext"
            ));
        } else {
            self.openssl(&format!("x509 -req -in {name}.csr -days 1 -CA login.crt -CAkey login.key -CAcreateserial -extfile {name}.ext -out {name}.crt"));
        }
    }

    /// Signs the commit, as git has it.
    fn sign(&self, name: &str, options: &str) -> Vec<Vec<u8>> {
        self.openssl(&format!(
            "cms -sign -binary -in commit -signer {name}.crt -inkey {name}.key -outform PEM -out signature {options}"
        ));
        let text = String::from_utf8(self.read("signature")).unwrap();
        vec![text.replace("CMS-----", "SIGNED MESSAGE-----").into_bytes()]
    }

    fn keys(&self) -> Keys {
        let authorities = |name: &str| Authorities::parse(&self.read(name)).unwrap();
        let identities = ["ann@example.com", "uri@example.com", "https://ci.example.com/build"].map(str::to_owned);
        let keyless = ["ann", "old"].map(|name| (ISSUER.to_owned(), format!("{name}@example.com")));
        Keys {
            x509: Some(CertifiedSigners {
                authorities: authorities("root.crt"),
                identities: identities.into(),
                keyless_authorities: authorities("login.crt"),
                keyless: keyless.into(),
            }),
            ..Keys::default()
        }
    }
}

const P256: &str = "EC -pkeyopt ec_paramgen_curve:P-256";

fn now() -> Timestamp {
    system::clock::wall()
}

fn days(days: i64) -> Timestamp {
    now() + SignedDuration::from_hours(24 * days)
}

fn san(names: &str, usage: &str) -> String {
    format!("subjectAltName={names}\n{usage}")
}

#[test]
#[ignore = "needs openssl"]
#[expect(clippy::too_many_lines, reason = "a table")]
fn certificates_count_by_authority_person_time_and_usage() {
    let pki = Pki::new();
    pki.usual("ann", "root");
    pki.usual("bob", "root");
    let commit = || COMMIT.to_owned();
    let ann = pki.sign("ann", "");
    let mut cases: Vec<Case> = vec![
        ("as it should be", commit(), ann.clone(), now(), "signed by ann@example.com"),
        ("another tree", other_tree(), ann.clone(), now(), "has a bad signature"),
        ("another message", other_message(), ann.clone(), now(), "has a bad signature"),
        ("expired", commit(), ann.clone(), days(31), "which is expired"),
        ("not valid yet", commit(), ann.clone(), days(-1), "which is not valid yet"),
        ("a person who is not listed", commit(), pki.sign("bob", ""), now(), "names bob@example.com, whom"),
        ("by the id of its key", commit(), pki.sign("ann", "-keyid"), now(), "signed by ann@example.com"),
        ("the commit inside, in parts", commit(), pki.sign("ann", "-stream -indef"), now(), "a content of its own"),
        ("SHA-384", commit(), pki.sign("ann", "-md sha384"), now(), "signed by ann@example.com"),
        ("SHA-512", commit(), pki.sign("ann", "-md sha512"), now(), "signed by ann@example.com"),
        ("SHA-1", commit(), pki.sign("ann", "-md sha1"), now(), "a hash that is too weak"),
        ("no attributes", commit(), pki.sign("ann", "-noattr"), now(), "no signed attributes"),
        ("the commit inside", commit(), pki.sign("ann", "-nodetach"), now(), "a content of its own"),
        ("no certificate", commit(), pki.sign("ann", "-nocerts"), now(), "not hold the certificate"),
        ("two signers", commit(), pki.sign("ann", "-signer bob.crt -inkey bob.key"), now(), "has 2 signers"),
        (
            "another kind of content",
            commit(),
            pki.sign("ann", "-econtent_type 1.2.3.4"),
            now(),
            "another kind of content",
        ),
    ];
    for (name, by, algorithm, extensions, options, wanted) in [
        ("outside", "other", P256, san("email:ann@example.com", USAGE), "", "no authority of `source.verify` issued"),
        (
            "below",
            "between",
            P256,
            san("email:ann@example.com", USAGE),
            "-certfile between.crt",
            "signed by ann@example.com",
        ),
        ("gap", "between", P256, san("email:ann@example.com", USAGE), "", "no authority of `source.verify` issued"),
        ("rsa", "root", "RSA -pkeyopt rsa_keygen_bits:2048", san("email:ann@example.com", USAGE), "", "signed by ann@"),
        (
            "weak",
            "root",
            "RSA -pkeyopt rsa_keygen_bits:1024",
            san("email:ann@example.com", USAGE),
            "",
            "fewer than 2048 bits",
        ),
        (
            "p384",
            "root",
            "EC -pkeyopt ec_paramgen_curve:P-384",
            san("email:ann@example.com", USAGE),
            "",
            "signed by ann@",
        ),
        (
            "pss",
            "root",
            "RSA -pkeyopt rsa_keygen_bits:2048",
            san("email:ann@example.com", USAGE),
            "-keyopt rsa_padding_mode:pss",
            "an algorithm that is not read",
        ),
        ("capitals", "root", P256, san("email:Ann@Example.com", USAGE), "", "signed by Ann@Example.com"),
        ("second", "root", P256, san("email:x@example.com,email:ann@example.com", USAGE), "", "signed by ann@"),
        (
            "uri",
            "root",
            P256,
            san("URI:https://ci.example.com/build", "extendedKeyUsage=codeSigning"),
            "",
            "signed by https://ci",
        ),
        (
            "uris",
            "root",
            P256,
            san("URI:https://ci.example.com/Build", USAGE),
            "",
            "whom `source.verify` does not list",
        ),
        ("dns", "root", P256, san("DNS:ann.example.com", USAGE), "", "names nobody, whom"),
        ("bare", "root", P256, USAGE.to_owned(), "", "names nobody, whom"),
        (
            "server",
            "root",
            P256,
            san("email:ann@example.com", "extendedKeyUsage=serverAuth"),
            "",
            "neither for signing code",
        ),
        ("free", "root", P256, san("email:ann@example.com", ""), "", "neither for signing code"),
        (
            "agree",
            "root",
            P256,
            san("email:ann@example.com", "extendedKeyUsage=emailProtection\nkeyUsage=critical,keyAgreement"),
            "",
            "not for signing",
        ),
        (
            "ca",
            "root",
            P256,
            san("email:ann@example.com", "basicConstraints=critical,CA:true\nextendedKeyUsage=emailProtection"),
            "",
            "is one of an authority",
        ),
        (
            "strange",
            "root",
            P256,
            san("email:ann@example.com", &format!("{USAGE}1.2.3.4.5=critical,ASN1:NULL")),
            "",
            "which cannot be checked",
        ),
        ("false", "ann", P256, san("email:ann@example.com", USAGE), "-certfile ann.crt", "is signed with"),
    ] {
        pki.person(name, by, algorithm, &extensions);
        cases.push((name, commit(), pki.sign(name, options), now(), wanted));
    }
    check_all(cases, &pki.keys());
}

#[test]
#[ignore = "needs openssl"]
fn certificates_for_a_login_count_by_who_vouches_as_of_the_time_of_signing() {
    let pki = Pki::new();
    pki.login("ann", ISSUER, false);
    pki.login("bob", ISSUER, false);
    pki.login("old", ISSUER, true);
    let commit = || COMMIT.to_owned();
    let ann = pki.sign("ann", "");
    let keys = pki.keys();
    let cases: Vec<Case> = vec![
        ("as it should be", commit(), ann.clone(), now(), "signed by ann@example.com"),
        ("long after", commit(), ann.clone(), days(400), "signed by ann@example.com"),
        ("another tree", other_tree(), ann.clone(), now(), "has a bad signature"),
        ("ahead", commit(), ann.clone(), days(-1), "ahead of this clock"),
        (
            "another person",
            commit(),
            pki.sign("bob", ""),
            now(),
            "bob@example.com by a login at https://login.example.com, whom",
        ),
        ("signed when it was over", commit(), pki.sign("old", ""), now(), "which is expired"),
        ("no time", commit(), pki.sign("ann", "-noattr"), now(), "no signed attributes"),
    ];
    check_all(cases, &keys);
    let elsewhere = Pki::new();
    elsewhere.login("ann", "https://evil.example.com", false);
    let signature = elsewhere.sign("ann", "");
    assert!(said(COMMIT, &signature, &keys, now()).contains("no authority"), "another authority");
    let words = said(COMMIT, &signature, &elsewhere.keys(), now());
    assert!(words.contains("by a login at https://evil.example.com, whom"), "another login: {words}");
    // Authorities of the one kind are none of the other.
    let swapped = |keys: Keys| {
        let x509 = keys.x509.unwrap();
        let (authorities, keyless_authorities) = (x509.keyless_authorities, x509.authorities);
        Keys { x509: Some(CertifiedSigners { authorities, keyless_authorities, ..x509 }), ..Keys::default() }
    };
    let swapped = swapped(pki.keys());
    assert!(said(COMMIT, &ann, &swapped, now()).contains("no authority"), "a login by an authority of people");
    pki.usual("eve", "login");
    assert!(said(COMMIT, &pki.sign("eve", ""), &keys, now()).contains("no authority"), "no login by one of logins");
}

#[test]
#[ignore = "needs openssl"]
fn no_bit_of_a_signature_or_its_attributes_can_change() {
    let pki = Pki::new();
    pki.usual("ann", "root");
    let (signature, keys, now) = (pki.sign("ann", ""), pki.keys(), now());
    let mut unnoticed = 0;
    for changed in flipped(&signature[0]) {
        let words = said(COMMIT, &[changed], &keys, now);
        unnoticed += usize::from(words.starts_with("signed by"));
        assert!(!words.starts_with("signed by") || words == "signed by ann@example.com", "{words}");
    }
    // Versions and the list of hashes in front are read by nobody.
    assert!(unnoticed < 200, "{unnoticed} bits can change");
}

#[test]
fn files_of_authorities_that_cannot_be_used_are_errors() {
    for (content, wanted) in [
        ("", "it holds no certificate"),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "certificate 1: cannot be read"),
        ("-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n", "cannot be read"),
    ] {
        let errors = Authorities::parse(content.as_bytes()).unwrap_err();
        assert!(errors.iter().any(|error| error.contains(wanted)), "{content:?}: {errors:?}");
    }
}

/// What gpgsm 2.2.40 wrote about the commit, with a certificate that was valid for 30 days from the day of the fixture.
#[test]
fn a_signature_of_gpgsm_is_read() {
    let text = include_bytes!("x509/gpgsm.pem");
    let authorities = Authorities::parse(include_bytes!("x509/gpgsm-root.pem")).unwrap();
    let identities = vec!["ann@example.com".to_owned()];
    let keys = Keys {
        x509: Some(CertifiedSigners { authorities, identities, ..CertifiedSigners::default() }),
        ..Keys::default()
    };
    let then: Timestamp = "2026-11-27T00:00:00Z".parse().unwrap();
    for (commit, now, wanted) in [
        (COMMIT.to_owned(), then, "signed by ann@example.com"),
        (other_tree(), then, "has a bad signature"),
        (COMMIT.to_owned(), then + SignedDuration::from_hours(24 * 40), "which is expired"),
    ] {
        let words = said(&commit, &[text.to_vec()], &keys, now);
        assert!(words.contains(wanted), "{words}");
    }
}

#[test]
#[ignore = "needs openssl"]
fn a_text_that_is_no_message_is_unreadable() {
    let pki = Pki::new();
    pki.usual("ann", "root");
    let keys = pki.keys();
    let signature = String::from_utf8(pki.sign("ann", "")[0].clone()).unwrap();
    let body: String = signature.lines().filter(|line| !line.starts_with('-')).collect();
    let bytes = STANDARD.decode(body).unwrap();
    let deep = [[0x30, 0x80].repeat(2_000), [0, 0].repeat(2_000)].concat();
    for (name, bytes, wanted) in [
        ("nothing", vec![], "it ends too early"),
        ("cut", bytes[..bytes.len() - 1].to_vec(), "it ends too early"),
        ("more", [&bytes[..], &[0]].concat(), "more follows"),
        ("a number", vec![2, 1, 1], "is none"),
        ("deep", deep, "nested too deeply"),
        ("a length of four bytes", vec![0x30, 0x84, 0, 0, 0, 0], "a length that no signature has"),
        ("a tag of two bytes", vec![0x3f, 0x81, 0x01, 0], "a tag that no signature has"),
        ("a string of no end", vec![0x04, 0x80], "a length that no signature has"),
        ("a list of no end", vec![0x30, 0x80], "it ends too early"),
    ] {
        let text =
            format!("-----BEGIN SIGNED MESSAGE-----\n{}\n-----END SIGNED MESSAGE-----\n", STANDARD.encode(bytes));
        let words = said(COMMIT, &[text.into_bytes()], &keys, now());
        assert!(words.contains("cannot be read") && words.contains(wanted), "{name}: {words}");
    }
}
