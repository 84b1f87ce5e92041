//! Objects of files that SOPS encrypted. They pass through gitfleet as they are in the source; whoever writes them to a member decrypts
//! the file just before.
//!
//! Source: SOPS, its format of encrypted files.

use std::collections::BTreeMap;
use std::sync::Arc;

use hmac::{Hmac, Mac as _};
use serde_json::{Map, Value, json};
use sha2::Sha256;

use super::id::{Digest, ObjectId};

/// The field that SOPS adds to each document that it encrypts.
pub const SOPS_FIELD: &str = "sops";
/// How an encrypted value begins.
const VALUE_START: &str = "ENC[AES256_GCM,";
/// How the digest of an object begins that is encrypted in the source. It stands on the member too, and says there that digests of the
/// object's values need a key.
const DIGEST_START: &str = "sops:";
/// Digits that name a key: enough to tell the few keys apart that one member meets.
const KEY_NAME_DIGITS: usize = 8;

/// The field below [`SOPS_FIELD`] in which an object that was rendered has the encrypted file that it was made of. SOPS authenticates the
/// file as it was before.
const MADE_OF_FIELD: &str = "gitfleet";

/// Where an object is encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encrypted {
    /// The whole file as it is in the source: SOPS authenticates all of it together.
    pub file: Arc<str>,
    /// Zero-based position among the objects of the file: of the object, or of the one that it was rendered from.
    pub ordinal: u32,
    /// Stands for the encrypted values in the object's digest; `None`: the values as they are encrypted do.
    pub values: Option<Digest>,
    /// The object of the file, where Kustomize made another one of it.
    pub made_of: Option<MadeOf>,
}

/// An encrypted object that another one was rendered from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MadeOf {
    /// What it is called.
    pub id: ObjectId,
    /// The values that have another place now: that, and the one in the file, as JSON pointers.
    pub moved: BTreeMap<String, String>,
}

/// What decrypts one object of a work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncryptedWork {
    /// The whole file.
    pub file: Arc<str>,
    /// Its path in the source, for people.
    pub path: Arc<str>,
    /// Zero-based position of the object among those of the file.
    pub ordinal: u32,
    /// Names file and object together, as they pass to an agent: the digest of the object may stand for several encryptions.
    pub content: Digest,
}

/// Tells whether SOPS encrypted a document: it leaves a message authentication code in each.
pub fn is_encrypted(document: &Value) -> bool {
    document.get(SOPS_FIELD).and_then(|sops| sops.get("mac")).is_some_and(Value::is_string)
}

/// Tells whether a digest is that of an object that is encrypted in the source.
pub fn is_of_encrypted(digest: &str) -> bool {
    digest.starts_with(DIGEST_START)
}

/// Returns the digest of an encrypted object from the SHA-256 of what identifies it.
pub fn digest_of(sha256: &Digest) -> Digest {
    Digest::new(format!("{DIGEST_START}{sha256}"))
}

/// Tells whether a value, or one in it, is encrypted.
pub fn has_encrypted_value(value: &Value) -> bool {
    match value {
        Value::String(text) => is_encrypted_value(text),
        Value::Array(list) => list.iter().any(has_encrypted_value),
        Value::Object(map) => map.values().any(has_encrypted_value),
        _ => false,
    }
}

/// Tells whether a text, which may be a whole file, has an encrypted value.
pub fn speaks_of_encrypted(text: &str) -> bool {
    text.contains(VALUE_START)
}

/// Tells whether a text is an encrypted value, or begins as one.
pub fn is_encrypted_value(text: &str) -> bool {
    text.starts_with(VALUE_START)
}

/// Returns the encrypted values of an object by their places, as JSON pointers; without those of the field of SOPS.
pub fn encrypted_places(object: &Value) -> BTreeMap<String, &str> {
    let mut found = BTreeMap::new();
    for (name, value) in object.as_object().into_iter().flatten().filter(|(name, _)| *name != SOPS_FIELD) {
        add_places(value, &step("", name), &mut found);
    }
    found
}

fn add_places<'v>(value: &'v Value, place: &str, found: &mut BTreeMap<String, &'v str>) {
    match value {
        Value::String(text) if is_encrypted_value(text) => drop(found.insert(place.to_owned(), text)),
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(at, one)| add_places(one, &step(place, &at.to_string()), found));
        }
        Value::Object(map) => map.iter().for_each(|(name, one)| add_places(one, &step(place, name), found)),
        _ => {}
    }
}

/// Returns the place of what is below another.
///
/// Source: RFC 6901, JSON pointers.
fn step(place: &str, name: &str) -> String {
    format!("{place}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// Adds to a rendered object the encrypted file that it was made of, and the position of the file's object.
pub fn add_made_of(object: &mut Value, file: &str, ordinal: u32, made_of: &MadeOf) {
    if let Some(sops) = object.get_mut(SOPS_FIELD).and_then(Value::as_object_mut) {
        let value = json!({"file": file, "ordinal": ordinal, "id": made_of.id, "moved": made_of.moved});
        sops.insert(MADE_OF_FIELD.to_owned(), value);
    }
}

/// Takes out of an encrypted object what [`add_made_of`] added.
pub fn take_made_of(object: &mut Value) -> Option<(Arc<str>, u32, MadeOf)> {
    if !is_encrypted(object) {
        return None;
    }
    let value = object.get_mut(SOPS_FIELD)?.as_object_mut()?.remove(MADE_OF_FIELD)?;
    let field = |name: &str| value.get(name).cloned().unwrap_or_default();
    let file = field("file").as_str().unwrap_or_default().into();
    let ordinal = field("ordinal").as_u64().and_then(|ordinal| ordinal.try_into().ok());
    let made_of = MadeOf {
        id: serde_json::from_value(field("id")).unwrap_or_default(),
        moved: serde_json::from_value(field("moved")).unwrap_or_default(),
    };
    Some((file, ordinal.unwrap_or_default(), made_of))
}

impl Encrypted {
    /// Returns what identifies an object of the file: without recipients and signatures of SOPS, so that other recipients are no change;
    /// and where the values are known by a digest, without their encryption, so that another encryption is none either.
    pub fn identity(&self, object: &Value) -> Value {
        let mut identity = object.clone();
        if self.values.is_some() {
            for_each_text(&mut identity, &mut |value| {
                if has_encrypted_value(value) {
                    *value = Value::Null;
                }
            });
        }
        if let Some(fields) = identity.as_object_mut() {
            let values = self.values.as_ref().map(Digest::as_str);
            // The digest of the values says what is in the file, and not where it is now.
            let moved = self.made_of.as_ref().map(|of| &of.moved).filter(|moved| !moved.is_empty() && values.is_some());
            let sops = match moved {
                Some(moved) => json!({"values": values, "moved": moved}),
                None => json!({"values": values}),
            };
            fields.insert(SOPS_FIELD.to_owned(), sops);
        }
        identity
    }
}

/// Joins an object with its encrypted file into one value, which passes to an agent.
pub fn carried(object: &Value, file: &str, path: &str, ordinal: u32) -> Value {
    let mut carried = object.clone();
    if let Some(fields) = carried.as_object_mut() {
        fields.insert(SOPS_FIELD.to_owned(), json!({"file": file, "path": path, "ordinal": ordinal}));
    }
    carried
}

/// Takes what [`carried`] joined apart again; `None` where it is something else.
pub fn taken_apart(carried: &Value, content: &Digest) -> Option<(Value, EncryptedWork)> {
    let mut object = carried.clone();
    let sops = object.as_object_mut()?.remove(SOPS_FIELD)?;
    let work = EncryptedWork {
        file: sops.get("file")?.as_str()?.into(),
        path: sops.get("path")?.as_str()?.into(),
        ordinal: sops.get("ordinal")?.as_u64()?.try_into().ok()?,
        content: content.clone(),
    };
    Some((object, work))
}

/// Returns an object with its values in plaintext and without the field of SOPS. `encrypted` and `plain` are the object of the file
/// before and after its decryption; `object` is what overrides made of it.
///
/// Returns `None` where one is not the decryption of the other, or the object has an encrypted value that is not of its file.
pub fn revealed(object: &Value, encrypted: &Value, plain: &Value) -> Option<Value> {
    let mut values = BTreeMap::new();
    pair(encrypted, plain, &mut values)?;
    let mut object = object.clone();
    object.as_object_mut()?.remove(SOPS_FIELD);
    for_each_text(&mut object, &mut |value| {
        // Initialisation vectors are random, so no two values are encrypted alike.
        if let Some(plain) = value.as_str().and_then(|text| values.get(text)) {
            *value = Value::clone(plain);
        }
    });
    (!has_encrypted_value(&object)).then_some(object)
}

/// Collects which value each encrypted one stands for.
fn pair<'a>(encrypted: &'a Value, plain: &'a Value, values: &mut BTreeMap<&'a str, &'a Value>) -> Option<()> {
    match (encrypted, plain) {
        (Value::Object(encrypted), Value::Object(plain)) => {
            for (name, value) in without_sops(encrypted) {
                pair(value, plain.get(name)?, values)?;
            }
            (without_sops(encrypted).count() == without_sops(plain).count()).then_some(())
        }
        (Value::Array(encrypted), Value::Array(plain)) if encrypted.len() == plain.len() => {
            encrypted.iter().zip(plain).try_for_each(|(encrypted, plain)| pair(encrypted, plain, values))
        }
        (Value::String(text), plain) if is_encrypted_value(text) => {
            values.insert(text, plain);
            Some(())
        }
        (encrypted, plain) => (encrypted == plain).then_some(()),
    }
}

fn without_sops(object: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    object.iter().filter(|(name, _)| *name != SOPS_FIELD)
}

fn for_each_text(value: &mut Value, visit: &mut dyn FnMut(&mut Value)) {
    match value {
        Value::String(_) => visit(value),
        Value::Array(list) => list.iter_mut().for_each(|one| for_each_text(one, visit)),
        Value::Object(map) => map.values_mut().for_each(|one| for_each_text(one, visit)),
        _ => {}
    }
}

/// The key of digests of plaintext. Somebody who has it can check guesses; nobody else can.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct DigestKey([u8; 32]);

impl std::fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DigestKey(..)")
    }
}

impl DigestKey {
    /// Takes 32 random bytes. They must stay the same: other digests look like other values.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the digest of what a file of the source holds in plaintext.
    pub fn source_digest(&self, plain: &[u8]) -> Digest {
        Digest::new(self.hmac("source", plain))
    }

    /// Returns the digest of what a member holds. It names the key by which it was made: see [`are_comparable`].
    pub fn member_digest(&self, plain: &[u8]) -> Digest {
        Digest::new(format!("{}:{}", &self.hmac("key", b"")[..KEY_NAME_DIGITS], self.hmac("member", plain)))
    }

    /// The purpose comes first: digests for one tell nothing about those for another.
    fn hmac(&self, purpose: &str, bytes: &[u8]) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        mac.update(purpose.as_bytes());
        mac.update(&[0]);
        mac.update(bytes);
        format!("{:x}", mac.finalize().into_bytes())
    }
}

/// Tells whether two digests of what a member holds were made by the same key, or both without one. A member may move to an agent with
/// another key, and its digests then differ though nothing changed.
pub fn are_comparable(one: &Digest, other: &Digest) -> bool {
    key_name(one) == key_name(other)
}

fn key_name(digest: &Digest) -> Option<&str> {
    digest.as_str().split_once(':').map(|(key, _)| key)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "ENC[AES256_GCM,data:1,iv:a,tag:t,type:str]";
    const TWO: &str = "ENC[AES256_GCM,data:2,iv:b,tag:t,type:int]";

    fn encrypted() -> Value {
        json!({"kind": "Secret", "data": {"a": ONE}, "list": [{"b": TWO}, "c"], "sops": {"mac": "ENC[..]"}})
    }

    fn plain() -> Value {
        json!({"kind": "Secret", "data": {"a": "secret"}, "list": [{"b": 5}, "c"]})
    }

    #[test]
    fn a_rendered_object_has_the_file_that_it_was_made_of() {
        let made_of = MadeOf {
            id: ObjectId { kind: "Secret".to_owned(), name: "a".to_owned(), ..ObjectId::default() },
            moved: BTreeMap::from([("/data/a~1b".to_owned(), "/data/c".to_owned())]),
        };
        let mut object = encrypted();
        add_made_of(&mut object, "text", 3, &made_of);
        assert_eq!(take_made_of(&mut object), Some(("text".into(), 3, made_of)));
        assert_eq!((&object, take_made_of(&mut object.clone())), (&encrypted(), None));
        // What is not encrypted has no such field, whatever it is called.
        let mut plain = json!({"kind": "Secret", "sops": {"gitfleet": {"file": "text", "ordinal": 0}}});
        assert_eq!((take_made_of(&mut plain), plain["sops"]["gitfleet"]["file"].as_str()), (None, Some("text")));
        // Of a wrong one nothing is left.
        let mut wrong = encrypted();
        wrong["sops"]["gitfleet"] = json!([]);
        assert_eq!(take_made_of(&mut wrong), Some(("".into(), 0, MadeOf::default())));
        assert_eq!(wrong, encrypted());
    }

    #[test]
    fn where_encrypted_values_are() {
        let value = |name: &str| format!("{VALUE_START}data:{name}]");
        let object =
            json!({"data": {"a/b": value("1"), "c": [1, value("2")]}, "d": "plain", "sops": {"mac": value("m")}});
        let places = encrypted_places(&object);
        let expected = [("/data/a~1b".to_owned(), value("1")), ("/data/c/1".to_owned(), value("2"))];
        assert_eq!(places, expected.iter().map(|(place, value)| (place.clone(), value.as_str())).collect());
    }

    #[test]
    fn a_value_at_another_place_is_another_identity_where_its_encryption_does_not_count() {
        let of = |moved: &[(&str, &str)], values: Option<&str>| Encrypted {
            file: "".into(),
            ordinal: 0,
            values: values.map(Digest::new),
            made_of: Some(MadeOf {
                id: ObjectId::default(),
                moved: moved.iter().map(|(to, from)| ((*to).to_owned(), (*from).to_owned())).collect(),
            }),
        };
        let identity = |of: Encrypted| of.identity(&encrypted());
        let known = Some("k");
        assert_ne!(identity(of(&[("/data/a", "/data/b")], known)), identity(of(&[("/data/a", "/data/c")], known)));
        assert_ne!(identity(of(&[("/data/a", "/data/b")], known)), identity(of(&[], known)));
        let plain = Encrypted { made_of: None, ..of(&[], known) };
        assert_eq!(identity(of(&[], known)), identity(plain));
        assert_eq!(identity(of(&[("/data/a", "/data/b")], None)), identity(of(&[], None)));
    }

    #[test]
    fn what_sops_encrypted() {
        let rows = [
            (encrypted(), true),
            (json!({"sops": {"version": "3.13.3"}}), false),
            (json!({"sops": "mac"}), false),
            (json!({"data": {"a": ONE}}), false),
        ];
        for (document, wanted) in rows {
            assert_eq!(is_encrypted(&document), wanted, "{document}");
        }
    }

    #[test]
    fn values_are_put_where_overrides_left_their_encryption() {
        let overridden = json!({"kind": "Secret", "labels": {"x": "y"}, "moved": [ONE], "sops": {"mac": "m"}});
        assert_eq!(revealed(&encrypted(), &encrypted(), &plain()), Some(plain()));
        assert_eq!(
            revealed(&overridden, &encrypted(), &plain()),
            Some(json!({"kind": "Secret", "labels": {"x": "y"}, "moved": ["secret"]}))
        );
    }

    #[test]
    fn what_does_not_belong_together_reveals_nothing() {
        let foreign = json!({"kind": "Secret", "data": {"a": "ENC[AES256_GCM,data:3,iv:c,tag:t,type:str]"}});
        let changed = json!({"kind": "Secret", "data": {"a": "secret"}, "list": [{"b": 5}, "d"]});
        let more = json!({"kind": "Secret", "data": {"a": "secret", "z": 1}, "list": [{"b": 5}, "c"]});
        let less = json!({"kind": "Secret", "data": {"a": "secret"}});
        for (object, plain) in
            [(&foreign, &plain()), (&encrypted(), &changed), (&encrypted(), &more), (&encrypted(), &less)]
        {
            assert_eq!(revealed(object, &encrypted(), plain), None, "{plain}");
        }
    }

    #[test]
    fn another_encryption_is_no_change_where_the_values_are_known_and_other_recipients_never_are() {
        let of = |values: Option<&str>| Encrypted {
            file: "".into(),
            ordinal: 0,
            values: values.map(Digest::new),
            made_of: None,
        };
        let mut again = encrypted();
        again["data"]["a"] = json!("ENC[AES256_GCM,data:9,iv:z,tag:t,type:str]");
        let mut recipients = encrypted();
        recipients["sops"] = json!({"mac": "another", "age": []});
        let mut label = encrypted();
        label["kind"] = json!("Other");
        let known = of(Some("k"));
        assert_eq!(known.identity(&again), known.identity(&encrypted()));
        assert_ne!(known.identity(&label), known.identity(&encrypted()));
        assert_ne!(of(Some("l")).identity(&encrypted()), known.identity(&encrypted()));
        assert_ne!(of(None).identity(&again), of(None).identity(&encrypted()));
        assert_eq!(of(None).identity(&recipients), of(None).identity(&encrypted()));
    }

    #[test]
    fn an_object_passes_with_its_file() {
        let content = Digest::new("d");
        let (object, work) = taken_apart(&carried(&encrypted(), "text", "a/b.yaml", 3), &content).expect("as it was");
        assert_eq!((&*work.file, &*work.path, work.ordinal, &work.content), ("text", "a/b.yaml", 3, &content));
        assert_eq!(object.get("sops"), None);
        assert_eq!(object["data"], encrypted()["data"]);
        assert_eq!(taken_apart(&encrypted(), &content), None);
    }

    #[test]
    fn digests_need_the_key_and_differ_by_purpose() {
        let one = DigestKey::new([1; 32]);
        let two = DigestKey::new([2; 32]);
        assert_eq!(one.source_digest(b"value"), one.source_digest(b"value"));
        assert_ne!(one.source_digest(b"value"), two.source_digest(b"value"));
        let member = one.member_digest(b"value");
        assert!(!member.as_str().contains(one.source_digest(b"value").as_str()));
        assert!(are_comparable(&member, &one.member_digest(b"other")) && member != one.member_digest(b"other"));
        assert!(!are_comparable(&member, &two.member_digest(b"value")));
        assert!(are_comparable(&"plain".into(), &"other".into()) && !are_comparable(&member, &"plain".into()));
        assert_eq!(format!("{one:?}"), "DigestKey(..)");
    }
}
