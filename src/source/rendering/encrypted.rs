//! Keeps what SOPS encrypted readable when Kustomize has rendered it.
//!
//! SOPS authenticates a file whole, in its order, and Kustomize sorts and changes what it reads. So a rendered object takes the file that it
//! was made of along, which is decrypted as it is in git; the values of the object are found there. Flux, which decrypts what Kustomize
//! made, does not check the file.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::model::encrypted::{SOPS_FIELD, add_made_of, encrypted_values, is_encrypted, speaks_of_encrypted};
use crate::source::blob::parse_blob;
use crate::yaml;

/// What stands between two documents of a result.
const BORDER: &str = "\n---\n";

/// Why a result cannot be delivered, and what to do.
pub type Unreadable = (String, &'static str);

/// An encrypted file that a program read.
struct EncryptedFile<'a> {
    text: &'a str,
    /// The values of each of its objects.
    objects: Vec<Value>,
}

/// Returns what a program printed, each encrypted object with the file that it was made of. `inputs` are the files that the program read,
/// by their paths.
///
/// # Errors
/// An object is encrypted whose file cannot be told or decrypted, or a Secret has encrypted values and nothing that decrypts them.
pub fn with_encrypted_files<'a>(
    printed: Vec<u8>,
    inputs: impl IntoIterator<Item = (&'a str, &'a [u8])>,
) -> Result<Vec<u8>, Unreadable> {
    let encrypted = inputs.into_iter().filter_map(|(path, content)| Some((path, std::str::from_utf8(content).ok()?)));
    let encrypted: Vec<(&str, &str)> = encrypted.filter(|(_, text)| speaks_of_encrypted(text)).collect();
    let Some(text) = std::str::from_utf8(&printed).ok().filter(|_| !encrypted.is_empty()) else { return Ok(printed) };
    let (files, unread) = read(&encrypted);
    let mut made = Vec::new();
    for document in text.split(BORDER) {
        made.push(with_file(document, &files, &unread)?);
    }
    Ok(made.join(BORDER).into_bytes())
}

/// Returns encrypted files by the code that authenticates them, and why others cannot be read.
fn read<'a>(inputs: &[(&str, &'a str)]) -> (BTreeMap<String, EncryptedFile<'a>>, Vec<String>) {
    let (mut files, mut unread) = (BTreeMap::new(), Vec::new());
    for (path, text) in inputs.iter().copied() {
        let parsed = parse_blob(text.as_bytes());
        unread.extend(parsed.errors.iter().map(|error| error.at(path).to_string()));
        let Some(code) = parsed.documents.iter().find_map(|document| code(&document.object)) else { continue };
        let objects = parsed.documents.iter().map(|document| Value::clone(&document.object)).collect();
        files.insert(code.to_owned(), EncryptedFile { text, objects });
    }
    (files, unread)
}

/// Returns the code that authenticates the file of an encrypted object.
fn code(object: &Value) -> Option<&str> {
    object.get(SOPS_FIELD)?.get("mac")?.as_str()
}

/// Returns a document of a result; an encrypted object has its file.
fn with_file(
    document: &str,
    files: &BTreeMap<String, EncryptedFile<'_>>,
    unread: &[String],
) -> Result<String, Unreadable> {
    // Whoever reads the result complains of what is no YAML.
    let Some(Ok(parsed)) = yaml::parse_documents(document).into_iter().next() else { return Ok(document.to_owned()) };
    let mut object = parsed.value;
    if !is_encrypted(&object) {
        if undecrypted(&object) {
            let who = named(&object);
            return Err((
                format!("{who} has a value that SOPS encrypted, and what a generator makes of it cannot be decrypted"),
                "encrypt a Secret as a manifest, and name that file under `resources`",
            ));
        }
        return Ok(document.to_owned());
    }
    let Some(file) = code(&object).and_then(|code| files.get(code)) else {
        let why = unread.first().map(|why| format!(": {why}")).unwrap_or_default();
        return Err((
            format!("{} is encrypted by SOPS, and no file of the folder can be decrypted for it{why}", named(&object)),
            "encrypt a manifest with its apiVersion, kind and metadata in plain, and change nothing in the file afterwards",
        ));
    };
    let values = encrypted_values(&object);
    let has_all = |of: &&Value| values.is_subset(&encrypted_values(of));
    let Some(ordinal) = file.objects.iter().position(|of| has_all(&of)) else {
        return Err((
            format!("{} has values of more than one encrypted object", named(&object)),
            "encrypt what belongs to one object together, in one file",
        ));
    };
    add_made_of(&mut object, file.text, u32::try_from(ordinal).unwrap_or(u32::MAX));
    let end = if document.ends_with('\n') { "\n" } else { "" };
    Ok(yaml::to_string(&object).trim_end().to_owned() + end)
}

/// Tells whether an object is a Secret with values as SOPS leaves them, also in the base64 of a generator.
fn undecrypted(object: &Value) -> bool {
    let values = |field: &str| object.get(field).and_then(Value::as_object).into_iter().flat_map(|map| map.values());
    let decoded = |text: &str| {
        let bare: String = text.split_whitespace().collect();
        STANDARD.decode(bare).is_ok_and(|bytes| speaks_of_encrypted(&String::from_utf8_lossy(&bytes)))
    };
    object.get("kind").is_some_and(|kind| kind == "Secret")
        && values("data")
            .chain(values("stringData"))
            .filter_map(Value::as_str)
            .any(|text| speaks_of_encrypted(text) || decoded(text))
}

/// Names an object for people.
fn named(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let namespace = match text("/metadata/namespace") {
        "" => String::new(),
        namespace => format!("{namespace}/"),
    };
    format!("{} {namespace}{}", text("/kind"), text("/metadata/name"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::encrypted::Encrypted;

    const FILE: &str = "# ours\nkind: Secret\napiVersion: v1\nmetadata: {name: db}\nstringData:\n  b: 'ENC[AES256_GCM,data:b]'\n  a: 'ENC[AES256_GCM,data:a]'\nsops: {mac: 'ENC[AES256_GCM,data:m]', version: 3.13.3}\n";

    /// What Kustomize makes of the file: sorted, with other metadata.
    fn printed() -> String {
        let sops = "sops:\n  mac: ENC[AES256_GCM,data:m]\n  version: 3.13.3\n";
        format!(
            "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: web\n---\napiVersion: v1\nkind: Secret\nmetadata:\n  name: prod-db\n  namespace: web\n\
             stringData:\n  a: ENC[AES256_GCM,data:a]\n  b: ENC[AES256_GCM,data:b]\n{sops}---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\n"
        )
    }

    fn made(printed: &str, inputs: &[(&str, &str)]) -> Result<String, Unreadable> {
        let inputs = inputs.iter().map(|(path, text)| (*path, text.as_bytes()));
        with_encrypted_files(printed.as_bytes().to_vec(), inputs).map(|made| String::from_utf8(made).expect("text"))
    }

    #[test]
    fn an_encrypted_object_of_a_result_has_the_file_that_it_was_made_of() {
        let two = FILE.replace("name: db", "name: other").replace("data:a", "data:c").replace("data:b", "data:d");
        let text = format!("{two}---\n{FILE}");
        let made = made(&printed(), &[("app/kustomization.yaml", ""), ("app/db.yaml", &text)]).expect("it can be read");
        assert!(made.starts_with("apiVersion: v1\nkind: Namespace\n") && made.ends_with("name: c\n"), "{made}");
        let parsed = parse_blob(made.as_bytes());
        assert_eq!((parsed.errors.as_slice(), parsed.documents.len()), (&[][..], 3));
        let secret = &parsed.documents[1];
        let encrypted = Encrypted { file: text.into(), ordinal: 1, values: None };
        assert_eq!((secret.id.name.as_str(), secret.encrypted.as_ref()), ("prod-db", Some(&encrypted)));
        let expected = parse_blob(printed().as_bytes());
        assert_eq!(secret.object, expected.documents[1].object, "nothing of it is in the object");
        assert!([0, 2].iter().all(|at| parsed.documents[*at].encrypted.is_none()));
    }

    #[test]
    fn results_without_encrypted_files_stay_as_they_are() {
        for inputs in [&[("a.yaml", "a: b")][..], &[("a.yaml", FILE)]] {
            let plain = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata: {a: aHVudGVy}\n---\na: [\n";
            assert_eq!(made(plain, inputs), Ok(plain.to_owned()));
        }
    }

    #[test]
    fn what_cannot_be_decrypted_is_refused() {
        let changed = FILE.replace("data:m", "data:n");
        let closed = FILE.replace("name: db", "name: 'ENC[AES256_GCM,data:x]'");
        let second = FILE.replace("data:a", "data:x");
        let generated =
            |value: &str| format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: g}}\ndata: {{f: {value:?}}}\n");
        let base64 = STANDARD.encode(FILE);
        let rows = [
            (printed(), ("app/db.yaml", changed.as_str()), "Secret web/prod-db is encrypted by SOPS, and no file"),
            (printed(), ("app/db.yaml", &closed), "can be decrypted for it: app/db.yaml:4: metadata: is encrypted"),
            (printed(), ("app/db.yaml", &second), "has values of more than one encrypted object"),
            (generated(&base64), ("app/db.yaml", FILE), "Secret g has a value that SOPS encrypted"),
            (generated(&format!("{}\n{}", &base64[..70], &base64[70..])), ("a", FILE), "Secret g has a value"),
            (generated("ENC[AES256_GCM,data:b]"), ("app/db.yaml", FILE), "Secret g has a value that SOPS encrypted"),
        ];
        for (printed, input, expected) in rows {
            let (message, _) = made(&printed, &[input]).expect_err(expected);
            assert!(message.contains(expected), "{expected}: {message}");
        }
    }
}
