//! Starts `sops` to decrypt one file. What it prints is plaintext, and what it says about a failure may hold some: neither is ever shown.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::process::run;
use super::{InputFile, Programs, launch};
use crate::programs::{Scratch, environment, version_in};

/// The name of the program.
const PROGRAM: &str = "sops";
/// The program that SOPS starts for PGP keys.
const GPG: &str = "gpg";
/// Exit code of SOPS: no key of this process opens the file.
///
/// Source: SOPS, its table of exit codes; so are the next two.
const EXIT_NO_KEY: i32 = 128;
/// Exit code: a value was changed after the encryption.
const EXIT_TREE: i32 = 25;
/// Exit code: the file was changed after the encryption.
const EXIT_MAC: i32 = 51;

/// The keys that files are decrypted with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys {
    /// The file with age identities.
    pub age_key_file: Option<PathBuf>,
    /// The folder of GnuPG with private keys.
    pub gnupg_home: Option<PathBuf>,
    /// The variables that the program gets of this process' environment to reach keys at a cloud, or in Vault, over the network; `None`:
    /// it has no network.
    pub cloud_environment: Option<Vec<String>>,
}

/// Why a file was not decrypted. No variant holds words of the program.
#[derive(Debug, thiserror::Error)]
pub enum SopsError {
    /// There is no such program.
    #[error("there is no sops in {places}: put sops {wanted} there, or set `decrypt.folder` (an agent: --sops-folder)")]
    Missing {
        /// The version that was asked for.
        wanted: String,
        /// Where it was looked for.
        places: String,
    },
    /// There is no gpg for keys of PGP.
    #[error("there is no gpg in {places}, and keys of PGP need it: install GnuPG there")]
    NoGpg {
        /// Where it was looked for.
        places: String,
    },
    /// The program has another version.
    #[error(
        "{path} is {}, and sops {wanted} was asked for: install that version, or change `decrypt.sops` (an agent: --sops)",
        found.as_deref().unwrap_or("of no version that can be read")
    )]
    OtherVersion {
        /// Where it is.
        path: String,
        /// The version that was asked for.
        wanted: String,
        /// The version that it says it has.
        found: Option<String>,
    },
    /// A configured file or folder of keys is not there.
    #[error("the keys at {} cannot be read: {source}", path.display())]
    Keys {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// No key opens the file.
    #[error(
        "no key that is configured opens it: add the age identity or PGP key that does, or encrypt the file for a key that is there (sops updatekeys)"
    )]
    NoKey,
    /// The file was changed by something else than SOPS.
    #[error("it was changed after it was encrypted: change it with sops alone")]
    Changed,
    /// The program refuses the file for another reason.
    #[error("sops refuses it (exit code {code}): sops decrypt says more where the keys are")]
    Refused {
        /// Its exit code.
        code: i32,
    },
    /// The program did not come to its end.
    #[error("sops did not decrypt it: {why}")]
    Ended {
        /// The limit, or what the system said.
        why: String,
    },
}

/// A `sops` of the version that was asked for.
#[derive(Clone, Debug)]
pub struct Sops {
    path: PathBuf,
    programs: Programs,
}

impl Programs {
    /// Finds `sops` and asks it for its version.
    ///
    /// # Errors
    /// `Missing`, `OtherVersion`; `Ended` where the system refuses.
    pub fn find_sops(&self, wanted: &str) -> Result<Sops, SopsError> {
        let Some(path) = self.locate(PROGRAM) else {
            return Err(SopsError::Missing { wanted: wanted.to_owned(), places: self.places() });
        };
        let sops = Sops { path, programs: self.clone() };
        let scratch = Scratch::new(&self.scratch).map_err(|error| ended(&error))?;
        let mut command = sops.command(&scratch, &Keys::default())?;
        let output = run(command.args(["--disable-version-check", "--version"]), PROGRAM, self.time_max);
        let text = String::from_utf8_lossy(&output.map_err(|error| ended(&error))?.printed).into_owned();
        // It writes its version without the `v` that the release has.
        let found = text.split_whitespace().find_map(|word| version_in(&format!("v{}", word.trim_start_matches('v'))));
        if found.as_deref() == Some(wanted) {
            return Ok(sops);
        }
        let path = sops.path.display().to_string();
        Err(SopsError::OtherVersion { path, wanted: wanted.to_owned(), found })
    }
}

impl Sops {
    /// Returns where the program is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Decrypts a file, and returns it in plaintext, in the format that it has.
    ///
    /// # Errors
    /// `Keys`, `NoKey`, `Changed`, `Refused`: because of file and keys. `Ended`, `NoGpg`: because of the machine.
    pub fn decrypt(&self, file: &str, keys: &Keys) -> Result<Vec<u8>, SopsError> {
        keys.check()?;
        let scratch = Scratch::new(&self.programs.scratch).map_err(|error| ended(&error))?;
        // The file as it is in git. Plaintext passes through a pipe alone.
        let input = InputFile { path: "file".into(), content: file.as_bytes().to_vec() };
        scratch.write(&[input]).map_err(|error| ended(&error))?;
        let format = if file.trim_start().starts_with('{') { "json" } else { "yaml" };
        let mut command = self.command(&scratch, keys)?;
        command.args(["--config", "/dev/null", "decrypt", "--input-type", format, "--output-type", format, "file"]);
        let output = run(&mut command, PROGRAM, self.programs.time_max).map_err(|error| ended(&error))?;
        match output.status.code() {
            Some(0) => Ok(output.printed),
            Some(EXIT_NO_KEY) => Err(SopsError::NoKey),
            Some(EXIT_TREE | EXIT_MAC) => Err(SopsError::Changed),
            Some(code) => Err(SopsError::Refused { code }),
            None => Err(SopsError::Ended { why: format!("it was ended at a limit ({})", output.status) }),
        }
    }

    fn command(&self, scratch: &Scratch, keys: &Keys) -> Result<Command, SopsError> {
        let argument = if keys.cloud_environment.is_some() { launch::ARGUMENT_NETWORK } else { launch::ARGUMENT };
        let mut command = Command::new(&self.programs.launcher);
        command.arg(argument).arg(&self.path).current_dir(scratch.tree()).env_clear();
        command.envs(environment(&scratch.root)).envs(keys.environment(&self.programs)?);
        if keys.cloud_environment.is_some() {
            command.env_remove("HTTP_PROXY").env_remove("HTTPS_PROXY");
            let named = keys.cloud_environment.iter().flatten();
            command.envs(named.filter_map(|name| Some((name, std::env::var_os(name)?))));
        }
        Ok(command)
    }
}

impl Keys {
    /// Looks whether files and folders are there: SOPS would say no more than that no key opens the file.
    fn check(&self) -> Result<(), SopsError> {
        for path in [&self.age_key_file, &self.gnupg_home].into_iter().flatten() {
            // Opened: that the file is there does not say that it may be read.
            std::fs::File::open(path).map_err(|source| SopsError::Keys { path: path.clone(), source })?;
        }
        Ok(())
    }

    fn environment(&self, programs: &Programs) -> Result<Vec<(&'static str, OsString)>, SopsError> {
        let mut variables = Vec::new();
        if let Some(path) = &self.age_key_file {
            variables.push(("SOPS_AGE_KEY_FILE", path.clone().into_os_string()));
        }
        if let Some(path) = &self.gnupg_home {
            let gpg = programs.locate(GPG).or_else(|| programs.of_path().locate(GPG));
            let gpg = gpg.ok_or_else(|| SopsError::NoGpg { places: programs.places() })?;
            variables.push(("GNUPGHOME", path.clone().into_os_string()));
            variables.push(("SOPS_GPG_EXEC", gpg.into_os_string()));
        }
        Ok(variables)
    }
}

/// Words for a program that did not come to its end. The errors of `render` about that hold nothing that it printed.
fn ended(error: &super::Error) -> SopsError {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    SopsError::Ended { why: format!("{error}{cause}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_and_missing_keys_are_named() {
        let dir = tempfile::tempdir().expect("a folder");
        let programs = Programs::new(Some(dir.path().to_owned()), dir.path().join("scratch"));
        let error = programs.find_sops("v3.13.3").expect_err("there is none").to_string();
        let words = format!("there is no sops in {}: put sops v3.13.3 there", dir.path().display());
        assert!(error.starts_with(&words), "{error}");
        let keys = Keys { age_key_file: Some(dir.path().join("age.txt")), ..Keys::default() };
        let error = keys.check().expect_err("there is none").to_string();
        assert!(error.contains("age.txt cannot be read"), "{error}");
    }

    #[test]
    fn the_environment_names_keys_and_nothing_else() {
        let programs = Programs::new(None, PathBuf::from("/s"));
        let keys = Keys { age_key_file: Some("/k/age.txt".into()), ..Keys::default() };
        assert_eq!(keys.environment(&programs).expect("no gpg"), [("SOPS_AGE_KEY_FILE", "/k/age.txt".into())]);
        assert_eq!(Keys::default().environment(&programs).expect("no gpg"), []);
    }
}
