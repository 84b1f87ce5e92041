//! Which documents that SOPS encrypted can be read: what they are must stand there in plain.

use serde_json::Value;

use model::api::{FieldError, envelope};
use model::encrypted::{SOPS_FIELD, has_encrypted_value};

/// Bytes of one file that SOPS encrypted: it passes whole with each of its objects.
pub const ENCRYPTED_BYTES_MAX: usize = 1024 * 1024;

/// Objects in one such file.
pub const ENCRYPTED_OBJECTS_MAX: usize = 16;

/// The fields that say what an object is and who selects it.
const PLAIN_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

const ONLY_VALUES: &str = "encrypt values alone, such as with: sops encrypt --encrypted-regex '^(data|stringData)$'";
const ONE_BY_ONE: &str = "encrypt objects in files of their own";

/// Returns why an encrypted document cannot be read, if so. `bytes` has the file that it is in, and `objects` stand before it.
pub(super) fn refusal(document: &Value, is_list: bool, bytes: usize, objects: usize) -> Option<FieldError> {
    if let Some(field) = PLAIN_FIELDS.into_iter().find(|field| document.get(*field).is_some_and(has_encrypted_value)) {
        return Some(FieldError::new(field, "is encrypted, so what the object is cannot be known").hint(ONLY_VALUES));
    }
    if is_list {
        return Some(FieldError::new(SOPS_FIELD, "a List cannot be encrypted").hint(ONE_BY_ONE));
    }
    if envelope::is_envelope(document) {
        return Some(FieldError::new(SOPS_FIELD, "an envelope cannot be encrypted").hint(ONE_BY_ONE));
    }
    if bytes > ENCRYPTED_BYTES_MAX {
        let why = format!("the file has {bytes} bytes, the limit of an encrypted one is {ENCRYPTED_BYTES_MAX}");
        return Some(FieldError::new(SOPS_FIELD, why).hint(ONE_BY_ONE));
    }
    if objects >= ENCRYPTED_OBJECTS_MAX {
        let why = format!("the file has more than {ENCRYPTED_OBJECTS_MAX} objects, the limit of an encrypted one");
        return Some(FieldError::new(SOPS_FIELD, why).hint(ONE_BY_ONE));
    }
    None
}

/// Returns the error of an encrypted document of one of gitfleet's own kinds.
pub(super) fn own_kind() -> FieldError {
    let hint = "leave it in plain: gitfleet decides by what it says";
    FieldError::new(SOPS_FIELD, "this kind cannot be encrypted").hint(hint)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;
    use crate::parse_blob;

    const SOPS: &str = "sops: {mac: 'ENC[AES256_GCM,data:m]', version: 3.13.3}\n";
    const VALUE: &str = "'ENC[AES256_GCM,data:v,type:str]'";

    fn secret(name: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}, namespace: app}}\nstringData: {{a: {VALUE}}}\n{SOPS}"
        )
    }

    #[test]
    fn an_encrypted_object_keeps_its_whole_file() {
        let text = format!("{}---\n{}", secret("a"), secret("b"));
        let parsed = parse_blob(text.as_bytes());
        assert_eq!(parsed.errors, []);
        for (document, ordinal) in parsed.documents.iter().zip(0..) {
            let encrypted = document.encrypted.as_ref().expect("it is encrypted");
            assert_eq!((&*encrypted.file, encrypted.ordinal, &encrypted.values), (text.as_str(), ordinal, &None));
        }
        let plain = parse_blob(text.replace("mac: ", "mark: ").as_bytes());
        assert!(
            plain.documents.iter().all(|document| document.encrypted.is_none()) && plain.encrypted_files().is_empty()
        );
    }

    #[test]
    fn what_cannot_be_read_encrypted() {
        let large = format!("{}# {}\n", secret("a"), "x".repeat(ENCRYPTED_BYTES_MAX));
        let mut many = String::new();
        for number in 0..=ENCRYPTED_OBJECTS_MAX {
            write!(many, "---\n{}", secret(&format!("s{number}"))).expect("text");
        }
        let rows = [
            (
                format!("apiVersion: {VALUE}\nkind: {VALUE}\nmetadata: {{name: {VALUE}}}\n{SOPS}"),
                "apiVersion: is encrypted",
            ),
            (
                format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: a, labels: {{x: {VALUE}}}}}\n{SOPS}"),
                "metadata: is encrypted",
            ),
            (format!("apiVersion: v1\nkind: List\nitems: []\n{SOPS}"), "sops: a List cannot be encrypted"),
            (
                format!(
                    "apiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ResourceEnvelope\nmetadata: {{name: e, namespace: app}}\ndata: {{}}\n{SOPS}"
                ),
                "sops: an envelope cannot be encrypted",
            ),
            (
                format!(
                    "apiVersion: cluster.kubernetes-fleet.io/v1beta1\nkind: MemberCluster\nmetadata: {{name: e}}\n{SOPS}"
                ),
                "sops: this kind cannot be encrypted",
            ),
            (large, "sops: the file has"),
            (many, "sops: the file has more than 16 objects"),
        ];
        for (text, wanted) in rows {
            let errors = parse_blob(text.as_bytes()).errors;
            let found = errors.iter().map(|error| error.at("f.yaml").to_string()).collect::<Vec<_>>().join("; ");
            assert!(errors.len() == 1 && found.contains(wanted), "{wanted}: {found}");
        }
    }
}
