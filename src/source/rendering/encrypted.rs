//! Keeps what SOPS encrypted readable when Kustomize has rendered it.
//!
//! SOPS authenticates a file whole, in its order, and Kustomize sorts and changes what it reads. So a rendered object takes the file that it
//! was made of along, which is decrypted as it is in git; the values of the object are found there. Flux, which decrypts what Kustomize
//! made, does not check the file.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::blob::parse_blob;
use model::encrypted::{
    MadeOf, SOPS_FIELD, add_made_of, encrypted_places, is_encrypted, is_encrypted_value, speaks_of_encrypted,
    take_made_of,
};
use model::id::ObjectId;
use model::yaml;

/// The most that encrypted files may add to one result, in bytes: each object has its own copy.
pub(super) const ADDED_BYTES_MAX: usize = 16 * 1024 * 1024;

/// What stands between two documents of a result.
const BORDER: &str = "\n---\n";

/// Why a result cannot be delivered, and what to do.
pub(super) type Unreadable = (String, &'static str);

/// An encrypted file that a program read.
struct EncryptedFile<'a> {
    text: &'a str,
    objects: Vec<EncryptedObject>,
}

/// An object of such a file.
struct EncryptedObject {
    id: ObjectId,
    /// Its encrypted values, and where they are.
    places: BTreeMap<String, String>,
}

/// The encrypted files, by the code that authenticates them.
type EncryptedFiles<'a> = BTreeMap<String, Vec<EncryptedFile<'a>>>;

/// Returns what Kustomize printed, each encrypted object with the file that it was made of. `inputs` are the files that it read, by their
/// paths.
///
/// # Errors
/// An object is encrypted whose file cannot be told or decrypted; an encrypted value stands elsewhere; the files add too much.
pub fn with_encrypted_files<'a>(
    printed: Vec<u8>,
    inputs: impl IntoIterator<Item = (&'a str, &'a [u8])>,
) -> Result<Vec<u8>, Unreadable> {
    let encrypted = encrypted_inputs(inputs);
    let Ok(text) = std::str::from_utf8(&printed) else { return Ok(printed) };
    if encrypted.is_empty() && !text.contains(SOPS_FIELD) {
        return Ok(printed);
    }
    let (files, unread) = read(&encrypted);
    let mut made = Vec::new();
    let mut added = 0;
    for document in text.split(BORDER) {
        let document = with_file(document, &files, &unread, &mut added)?;
        if added > ADDED_BYTES_MAX {
            let message =
                format!("its encrypted files are more than {ADDED_BYTES_MAX} bytes, counted once for each object");
            return Err((message, "encrypt fewer objects in one file"));
        }
        made.push(document);
    }
    Ok(made.join(BORDER).into_bytes())
}

/// Returns why what Helm printed cannot be delivered: templates make text of text, so nothing decrypts what they make of an encrypted file.
pub fn encrypted_value_in_chart<'a>(
    printed: &[u8],
    inputs: impl IntoIterator<Item = (&'a str, &'a [u8])>,
) -> Option<Unreadable> {
    if encrypted_inputs(inputs).is_empty() {
        return None;
    }
    let documents = yaml::parse_documents(std::str::from_utf8(printed).ok()?).into_iter().flatten();
    let object = documents.map(|document| document.value).find(|object| !is_encrypted(object) && has_stray(object))?;
    let message =
        format!("{} has a value that SOPS encrypted, and what Helm renders of it is not decrypted", named(&object));
    Some((message, "make a Secret of the value, encrypt that outside of the chart, and have the chart name it"))
}

/// Returns the files in which SOPS encrypted something.
fn encrypted_inputs<'a>(inputs: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Vec<(&'a str, &'a str)> {
    let texts = inputs.into_iter().filter_map(|(path, content)| Some((path, std::str::from_utf8(content).ok()?)));
    texts.filter(|(_, text)| speaks_of_encrypted(text)).collect()
}

/// Returns encrypted files, and why others cannot be read.
fn read<'a>(inputs: &[(&str, &'a str)]) -> (EncryptedFiles<'a>, Vec<String>) {
    let mut files = EncryptedFiles::new();
    let mut unread = Vec::new();
    for (path, text) in inputs.iter().copied() {
        let parsed = parse_blob(text.as_bytes());
        // Positions would not be those of the decrypted file.
        if !parsed.errors.is_empty() {
            unread.extend(parsed.errors.iter().map(|error| error.at(path).to_string()));
            continue;
        }
        let Some(code) = parsed.documents.iter().find_map(|document| code(&document.object)) else { continue };
        let objects = parsed.documents.iter().map(|document| {
            let places = encrypted_places(&document.object).into_iter();
            let places = places.map(|(place, value)| (value.to_owned(), place)).collect();
            EncryptedObject { id: document.id.clone(), places }
        });
        let file = EncryptedFile { text, objects: objects.collect() };
        files.entry(code.to_owned()).or_default().push(file);
    }
    (files, unread)
}

/// Returns the code that authenticates the file of an encrypted object.
fn code(object: &Value) -> Option<&str> {
    object.get(SOPS_FIELD)?.get("mac")?.as_str()
}

/// Returns a document of a result; an encrypted object has its file, whose bytes are added.
fn with_file(
    document: &str,
    files: &EncryptedFiles<'_>,
    unread: &[String],
    added: &mut usize,
) -> Result<String, Unreadable> {
    // Whoever reads the result complains of what is no YAML.
    let Some(Ok(parsed)) = yaml::parse_documents(document).into_iter().next() else { return Ok(document.to_owned()) };
    let mut object = parsed.value;
    // Nobody else says what an object was made of.
    drop(take_made_of(&mut object));
    if has_stray(&object) {
        let who = named(&object);
        return Err((
            format!(
                "{who} has a value that SOPS encrypted where it is not decrypted: in a generator, in a part of a text, or in a List"
            ),
            "encrypt a manifest, and name that file under `resources` or `patches`",
        ));
    }
    if !is_encrypted(&object) {
        return Ok(document.to_owned());
    }
    let Some(of_code) = code(&object).and_then(|code| files.get(code)) else {
        let why = unread.first().map(|why| format!(": {why}")).unwrap_or_default();
        return Err((
            format!("{} is encrypted by SOPS, and no file of the folder can be decrypted for it{why}", named(&object)),
            "encrypt a manifest with its apiVersion, kind and metadata in plain, and change nothing in the file afterwards",
        ));
    };
    let places = encrypted_places(&object);
    let found = of_code.iter().find_map(|file| {
        let mut objects = file.objects.iter();
        let position = objects.position(|of| places.values().all(|value| of.places.contains_key(*value)))?;
        Some((file, position))
    });
    let Some((file, position)) = found else {
        return Err((
            format!("{} has values of more than one encrypted object", named(&object)),
            "encrypt what belongs to one object together, in one file",
        ));
    };
    let of = &file.objects[position];
    let moved = places.iter().filter_map(|(place, value)| Some((place.clone(), of.places.get(*value)?.clone())));
    let made_of = MadeOf { id: of.id.clone(), moved: moved.filter(|(to, from)| to != from).collect() };
    *added += file.text.len();
    add_made_of(&mut object, file.text, u32::try_from(position).unwrap_or(u32::MAX), &made_of);
    let end = if document.ends_with('\n') { "\n" } else { "" };
    Ok(yaml::to_string(&object).trim_end().to_owned() + end)
}

/// Tells whether an object has an encrypted value that nothing decrypts. What is encrypted as a manifest may have values that are whole.
fn has_stray(object: &Value) -> bool {
    let is_manifest = is_encrypted(object);
    for (name, value) in object.as_object().into_iter().flatten() {
        if name != SOPS_FIELD
            && has_text(value, &|text| speaks_of_encrypted(text) && !(is_manifest && is_encrypted_value(text)))
        {
            return true;
        }
    }
    has_encoded(object) || has_encrypted_item(object)
}

/// Tells whether an object is a Secret with an encrypted value that was encoded afterwards.
fn has_encoded(object: &Value) -> bool {
    if object.get("kind").is_none_or(|kind| kind != "Secret") {
        return false;
    }
    let data = object.get("data").and_then(Value::as_object);
    let mut values = data.into_iter().flat_map(|map| map.values()).filter_map(Value::as_str);
    values.any(|text| {
        let bare: String = text.split_whitespace().collect();
        STANDARD.decode(bare).is_ok_and(|bytes| speaks_of_encrypted(&String::from_utf8_lossy(&bytes)))
    })
}

/// Tells whether an element of a List is encrypted: SOPS authenticates the List, and not the element.
fn has_encrypted_item(list: &Value) -> bool {
    let items = list.get("items").and_then(Value::as_array);
    items.into_iter().flatten().any(|item| is_encrypted(item) || has_encrypted_item(item))
}

fn has_text(value: &Value, is_it: &impl Fn(&str) -> bool) -> bool {
    match value {
        Value::String(text) => is_it(text),
        Value::Array(list) => list.iter().any(|one| has_text(one, is_it)),
        Value::Object(map) => map.values().any(|one| has_text(one, is_it)),
        _ => false,
    }
}

/// Names an object for people.
fn named(object: &Value) -> String {
    ObjectId::of(object).map_or_else(|| "an object".to_owned(), |id| id.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::encrypted::Encrypted;

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
        let id = ObjectId { kind: "Secret".into(), version: "v1".into(), name: "db".into(), ..ObjectId::default() };
        let made_of = Some(MadeOf { id, moved: BTreeMap::new() });
        let encrypted = Encrypted { file: text.into(), ordinal: 1, values: None, made_of };
        assert_eq!((secret.id.name.as_str(), secret.encrypted.as_ref()), ("prod-db", Some(&encrypted)));
        let expected = parse_blob(printed().as_bytes());
        assert_eq!(secret.object, expected.documents[1].object, "nothing of it is in the object");
        assert!([0, 2].iter().all(|at| parsed.documents[*at].encrypted.is_none()));
    }

    #[test]
    fn a_file_is_kept_as_it_is_byte_by_byte() {
        let odd = FILE.replace("# ours\n", "# ours \t\r\n#  \u{a0}'\"|>\r\n\n\n").replace("v1\n", "v1\t\n") + "\n\n";
        let made = made(&printed(), &[("app/db.yaml", &odd)]).expect("it can be read");
        let parsed = parse_blob(made.as_bytes());
        assert_eq!(parsed.documents[1].encrypted.as_ref().map(|of| &*of.file), Some(odd.as_str()));
    }

    #[test]
    fn values_that_moved_are_known() {
        let moved = printed().replace("  b: ENC", "  c: ENC");
        let parsed = parse_blob(made(&moved, &[("app/db.yaml", FILE)]).expect("it can be read").as_bytes());
        let made_of =
            parsed.documents[1].encrypted.as_ref().and_then(|of| of.made_of.as_ref()).expect("it is rendered");
        let expected = BTreeMap::from([("/stringData/c".to_owned(), "/stringData/b".to_owned())]);
        assert_eq!(made_of.moved, expected);
    }

    #[test]
    fn nobody_else_says_what_an_object_was_made_of() {
        let forged = printed()
            .replace("  version: 3.13.3\n", "  version: 3.13.3\n  gitfleet:\n    file: forged\n    ordinal: 0\n");
        let parsed = parse_blob(made(&forged, &[("app/db.yaml", FILE)]).expect("it can be read").as_bytes());
        assert_eq!(parsed.documents[1].encrypted.as_ref().map(|of| &*of.file), Some(FILE));
        let (message, _) = made(&forged, &[]).expect_err("there is no file");
        assert!(message.contains("no file of the folder can be decrypted for it"), "{message}");
    }

    #[test]
    fn encrypted_values_in_charts() {
        let values = "password: 'ENC[AES256_GCM,data:a]'\nsops: {mac: 'ENC[AES256_GCM,data:m]'}\n";
        let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: 'x ENC[AES256_GCM,data:a]'}\n";
        let found = |printed: &str, inputs: &[(&str, &str)]| {
            let inputs = inputs.iter().map(|(path, text)| (*path, text.as_bytes()));
            encrypted_value_in_chart(printed.as_bytes(), inputs).map(|(message, _)| message)
        };
        let message = "Secret s has a value that SOPS encrypted, and what Helm renders of it is not decrypted";
        assert_eq!(found(secret, &[("values.yaml", values)]).as_deref(), Some(message));
        assert_eq!(found("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n", &[("values.yaml", values)]), None);
        assert_eq!(found(secret, &[("values.yaml", "a: b")]), None);
    }

    #[test]
    fn files_do_not_add_without_end() {
        let many: Vec<String> = (0..40).map(|_| printed()).collect();
        let large = format!("{FILE}# {}\n", "x".repeat(1_000_000));
        let (message, _) = made(&many.join("---\n"), &[("app/db.yaml", &large)]).expect_err("it is too much");
        assert!(message.contains("its encrypted files are more than 16777216 bytes"), "{message}");
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
            (
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: 'x ENC[AES256_GCM,data:b]'}\n"
                    .to_owned(),
                ("app/db.yaml", FILE),
                "ConfigMap c has a value that SOPS encrypted",
            ),
            (printed().replace("  a: ENC[AES256_GCM,data:a]", "  a: at ENC[AES256_GCM,data:a]"), ("a", FILE), "where it is not decrypted"),
            (printed().replace("stringData:\n  a: ENC[AES256_GCM,data:a]", &format!("data:\n  a: {base64}")), ("a", FILE), "where it is"),
            (
                "apiVersion: v1\nkind: FooList\nmetadata: {name: l}\nitems:\n- {kind: Secret, apiVersion: v1, metadata: {name: s}, sops: {mac: x, gitfleet: {}}}\n".to_owned(),
                ("a", FILE),
                "FooList l has a value that SOPS encrypted where it is not decrypted",
            ),
        ];
        for (printed, input, expected) in rows {
            let (message, _) = made(&printed, &[input]).expect_err(expected);
            assert!(message.contains(expected), "{expected}: {message}");
        }
    }
}
