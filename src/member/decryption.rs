//! Decrypts files of the source that SOPS encrypted: at the last moment, in memory, and for nobody but the member.
//!
//! Why it is this way: docs/design/059-encrypted-secrets.md.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;

use config::Decrypt;
use decide::snapshot::go_json;
use engine::store;
use engine::store::records::{DIGEST_KEY, load, put};
use engine::store::{Expected, Store};
use model::encrypted::{DigestKey, revealed};
use model::id::Digest;
use model::work::Desired;
use render::{Keys, Programs, Sops, SopsError};
use source::ParsedBlob;
use system::random::random;

/// Programs that decrypt for members at once.
const RUNS_MAX: usize = 4;

/// Files of which digests are kept in memory; with more, all are decrypted again.
const KNOWN_FILES_MAX: usize = 10_000;

/// The folder of the state folder in which the program works.
const SCRATCH: &str = "scratch";

/// Decrypts, or says that nothing is configured for that. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Decryption {
    key: DigestKey,
    with: Option<Arc<Configured>>,
}

#[derive(Debug)]
struct Configured {
    version: String,
    programs: Programs,
    keys: Keys,
    /// The program, and when its file was changed: asking for the version of each run would double their cost.
    found: Mutex<Option<(Sops, SystemTime)>>,
    runs: Arc<Semaphore>,
    /// The digests of the objects of files that were decrypted, by the digest of the file: a folder is rendered again for any of its files, and
    /// a key that is away for a moment is no other value.
    digests: Mutex<BTreeMap<[u8; 32], Vec<Digest>>>,
}

/// Why an object cannot be decrypted. The text is for people, and holds nothing of the object.
#[derive(Debug, thiserror::Error)]
enum DecryptionFailure {
    #[error(
        "nothing is configured to decrypt it: add a section `decrypt` (an agent: --sops, --age-key-file), with a key that opens it"
    )]
    NotConfigured,
    #[error(transparent)]
    Sops(#[from] SopsError),
    #[error("what it is decrypted to is another object than the file says")]
    OtherContent,
    #[error("decrypting it ended because of an error in gitfleet; please report it")]
    Panicked,
}

/// Why there is no key of digests.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The system gives no random bytes.
    #[error("the system gives no random bytes for the key that plaintext is digested with")]
    NoRandomness,
}

/// Returns the key of digests of plaintext: that of an earlier process, or a new one.
fn digest_key(store: &dyn Store) -> Result<DigestKey, KeyError> {
    if let Some(record) = load::<[u8; 32]>(store, DIGEST_KEY)? {
        return Ok(DigestKey::new(record.value));
    }
    let bytes = random_bytes()?;
    store.batch(vec![put(DIGEST_KEY.to_owned(), &bytes, Expected::Absent)?])?;
    Ok(DigestKey::new(bytes))
}

fn random_bytes() -> Result<[u8; 32], KeyError> {
    random().ok_or(KeyError::NoRandomness)
}

impl Decryption {
    /// Returns what a configuration asks for. The program works in a folder of `state_dir`, and finds there what the source holds, never
    /// plaintext.
    pub fn new(key: DigestKey, decrypt: Option<&Decrypt>, state_dir: &Path) -> Self {
        let with = decrypt.map(|decrypt| {
            let keys = Keys {
                age_key_file: decrypt.age_key_file.clone(),
                gnupg_home: decrypt.gnupg_home.clone(),
                cloud_environment: decrypt.cloud_keys.as_ref().map(|cloud| cloud.environment.clone()),
            };
            let programs = Programs::new(decrypt.folder.clone(), state_dir.join(SCRATCH));
            let found = Mutex::default();
            let runs = Arc::new(Semaphore::new(RUNS_MAX));
            Arc::new(Configured { version: decrypt.version(), programs, keys, found, runs, digests: Mutex::default() })
        });
        Self { key, with }
    }

    /// Does the same for a daemon, with the key that its store keeps.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub fn open(decrypt: Option<&Decrypt>, store: &dyn Store, state_dir: &Path) -> Result<Self, KeyError> {
        let key = match decrypt {
            Some(_) => digest_key(store)?,
            // Nothing is decrypted, and members may hold what others decrypted: no digest of that is to be compared later.
            None => DigestKey::new(random_bytes()?),
        };
        Ok(Self::new(key, decrypt, state_dir))
    }

    /// Returns the key of digests of plaintext.
    pub fn key(&self) -> &DigestKey {
        &self.key
    }

    /// Adds to the objects of a file which values they have, as digests, so that the same values encrypted again are no change. Where
    /// that is not possible their encryption stands for them, and the reason is logged.
    pub fn identify(&self, path: &str, parsed: &mut ParsedBlob) {
        let Some(with) = &self.with else { return };
        for file in parsed.encrypted_files() {
            match self.digests(with, &file) {
                Ok(digests) => parsed.set_values(&file, &digests),
                Err(error) => {
                    let reason = error.to_string();
                    tracing::info!(file = path, reason, "an encrypted file is compared as it is encrypted");
                }
            }
        }
    }

    /// Returns digests of the objects of a file in plaintext.
    fn digests(&self, with: &Configured, file: &str) -> Result<Vec<Digest>, DecryptionFailure> {
        let known = || with.digests.lock().unwrap_or_else(PoisonError::into_inner);
        let name: [u8; 32] = Sha256::digest(file).into();
        if let Some(digests) = known().get(&name) {
            return Ok(digests.clone());
        }
        let plain = with.objects(file)?;
        if plain.len() != source::parse_blob(file.as_bytes()).documents.len() {
            return Err(DecryptionFailure::OtherContent);
        }
        let digests: Vec<Digest> = plain.iter().map(|object| self.key.source_digest(&go_json(object))).collect();
        let mut known = known();
        if known.len() >= KNOWN_FILES_MAX {
            known.clear();
        }
        known.insert(name, digests.clone());
        Ok(digests)
    }

    /// Returns a manifest as it is to be on its member.
    ///
    /// # Errors
    /// Why it cannot be decrypted, as text for users that holds nothing of the object.
    ///
    /// # Cancel safety
    /// Only the answer is lost: the program that decrypts runs to its end.
    pub async fn reveal<'a>(&self, desired: &'a Desired) -> Result<Cow<'a, Desired>, String> {
        let Some(encrypted) = desired.encrypted.clone() else { return Ok(Cow::Borrowed(desired)) };
        let path = Arc::clone(&encrypted.path);
        let failed =
            |error: DecryptionFailure| format!("{}, encrypted in {path}, cannot be decrypted: {error}", desired.id);
        let with = self.with.clone().ok_or_else(|| failed(DecryptionFailure::NotConfigured))?;
        let object = Arc::clone(&desired.object);
        let turn = Arc::clone(&with.runs).acquire_owned().await.expect("the semaphore is never closed");
        let runs = Arc::clone(&with);
        let ordinal = encrypted.ordinal as usize;
        let plain = tokio::task::spawn_blocking(move || {
            // Until the program has ended, also where its answer is not awaited any more.
            let _turn = turn;
            let plain = runs.objects(&encrypted.file)?;
            let parsed = source::parse_blob(encrypted.file.as_bytes());
            let pair = parsed.documents.get(ordinal).zip(plain.get(ordinal));
            pair.and_then(|(encrypted, plain)| revealed(&object, &encrypted.object, plain))
                .ok_or(DecryptionFailure::OtherContent)
        });
        let plain = plain.await.unwrap_or(Err(DecryptionFailure::Panicked)).map_err(failed)?;
        Ok(Cow::Owned(Desired { object: Arc::new(plain), ..desired.clone() }))
    }
}

impl Configured {
    /// Returns the objects of a file in plaintext.
    fn objects(&self, file: &str) -> Result<Vec<Arc<Value>>, DecryptionFailure> {
        let plain = self.sops()?.decrypt(file, &self.keys)?;
        // Its complaints quote what they are about: they are not shown.
        Ok(source::parse_blob(&plain).documents.into_iter().map(|document| document.object).collect())
    }

    /// Returns the program; it is asked for its version again where its file is another.
    fn sops(&self) -> Result<Sops, SopsError> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((sops, at)) = &*found
            && changed_at(sops) == Some(*at)
        {
            return Ok(sops.clone());
        }
        let sops = self.programs.find_sops(&self.version)?;
        *found = changed_at(&sops).map(|at| (sops.clone(), at));
        Ok(sops)
    }
}

/// Returns when the file of a program was changed.
fn changed_at(sops: &Sops) -> Option<SystemTime> {
    std::fs::metadata(sops.path()).and_then(|file| file.modified()).ok()
}

/// Says whether the configured program and its keys are there, for people.
///
/// # Errors
/// What is missing, as text for users.
pub fn check(decrypt: &Decrypt) -> Result<PathBuf, String> {
    let programs = Programs::new(decrypt.folder.clone(), std::env::temp_dir());
    let sops = programs.find_sops(&decrypt.version()).map_err(|error| error.to_string())?;
    Ok(sops.path().to_owned())
}
