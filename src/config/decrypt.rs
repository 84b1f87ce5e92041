//! The section of the file about files that SOPS encrypted.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use super::complaint;
use model::manifest::InputError;

/// The program and the keys that decrypt files of the source which SOPS encrypted. Objects are decrypted just before they are applied, and
/// never stored in plaintext. Members of an agent are left to the keys of the agent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Decrypt {
    /// The version of `sops`, such as `v3.13.3`. A program of another version decrypts nothing.
    pub sops: String,
    /// The folder that the program is in; absent: it is looked for in `PATH`.
    #[serde(default)]
    pub folder: Option<PathBuf>,
    /// The file with age identities, as `age-keygen` writes it. It is read for each decryption.
    #[serde(default)]
    pub age_key_file: Option<PathBuf>,
    /// The folder of GnuPG with the private keys of PGP.
    #[serde(default)]
    pub gnupg_home: Option<PathBuf>,
    /// Lets `sops` use the network, for keys at a cloud or in Vault. Encrypted files name the servers that are asked.
    #[serde(default)]
    pub cloud_keys: Option<CloudKeys>,
}

/// How keys at a cloud are reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CloudKeys {
    /// The variables of the daemon's environment that `sops` gets, such as `AWS_REGION`. It gets no others.
    #[serde(default)]
    pub environment: Vec<String>,
}

impl Decrypt {
    /// Returns the version, as its release has it.
    pub fn version(&self) -> String {
        format!("v{}", self.sops.trim_start_matches('v'))
    }

    /// Adds what the schema cannot say.
    pub(super) fn problems(&self, errors: &mut Vec<InputError>) {
        let version = self.version();
        if semver::Version::parse(version.trim_start_matches('v')).is_err() {
            let message = format!("{version:?} is no version such as v3.13.3");
            let hint = Some("write the whole version".to_owned());
            errors.push(InputError { hint, ..complaint("decrypt.sops", message) });
        }
        if self.age_key_file.is_none() && self.gnupg_home.is_none() && self.cloud_keys.is_none() {
            let hint = Some("name `ageKeyFile`, `gnupgHome` or `cloudKeys`".to_owned());
            errors.push(InputError { hint, ..complaint("decrypt", "names no keys".to_owned()) });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use crate::Configuration;

    fn parse(section: &str) -> Result<Configuration, String> {
        let text =
            format!("apiVersion: gitfleet.io/v1alpha1\nkind: Configuration\nsource: {{url: .}}\ndecrypt: {section}\n");
        let parsed = Configuration::parse(&text, Path::new("/etc/fleet"), &BTreeMap::new());
        parsed.map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    }

    #[test]
    fn a_version_and_keys_are_named() {
        let read = parse("{sops: 3.13.3, ageKeyFile: keys/age.txt, folder: bin}").expect("it is right").decrypt;
        let read = read.expect("a section");
        assert_eq!((read.version().as_str(), read.age_key_file), ("v3.13.3", Some("/etc/fleet/keys/age.txt".into())));
        assert_eq!(read.folder, Some("/etc/fleet/bin".into()));
        for (section, wanted) in [
            ("{sops: three, ageKeyFile: a}", "decrypt.sops: \"vthree\" is no version"),
            ("{sops: v3.13.3}", "decrypt: names no keys"),
            ("{ageKeyFile: a}", "sops"),
        ] {
            let found = parse(section).expect_err("it is wrong");
            assert!(found.contains(wanted), "{section}: {found}");
        }
    }
}
