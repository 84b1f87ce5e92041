//! Hides secret values in objects for public places: comments on a git host are copied into mails and into their edit history.
//! [`model::secrets`] decides which values are secret.
//!
//! A marker replaces a hidden value and reveals neither the value nor its length. Equal values have equal markers, so that a
//! change is visible; the marker depends on a key, so that nobody can check guesses without it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac as _};
use serde_json::Value;
use sha2::Sha256;

use model::secrets::for_each_secret;

/// Hexadecimal digits of a marker: 48 bits, so that a million values do not collide by accident.
const MARKER_DIGITS: usize = 12;

/// The key of markers. Somebody who has it can check guesses.
#[derive(Clone)]
pub struct MaskKey([u8; 32]);

impl std::fmt::Debug for MaskKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MaskKey(..)")
    }
}

impl MaskKey {
    /// Takes 32 random bytes that never change, or markers would change from one text to the next.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the marker of a value.
    fn marker(&self, value: &[u8]) -> Value {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("a key of any length is taken");
        mac.update(value);
        let digest = format!("{:x}", mac.finalize().into_bytes());
        Value::String(format!("<masked:{}>", &digest[..MARKER_DIGITS]))
    }
}

/// Returns an object with all secret values hidden.
pub fn masked(object: &Value, key: &MaskKey) -> Value {
    let mut object = object.clone();
    for_each_secret(&mut object, &mut |value, is_base64| replace(value, is_base64, key));
    object
}

/// Replaces a value by its marker. The same bytes have the same marker in any encoding.
fn replace(value: &mut Value, is_base64: bool, key: &MaskKey) {
    let bytes = match &*value {
        Value::String(text) => {
            // YAML may fold base64 over several lines, which the decoder refuses.
            let decoded = is_base64.then(|| STANDARD.decode(text.split_whitespace().collect::<String>()).ok());
            decoded.flatten().unwrap_or_else(|| text.clone().into_bytes())
        }
        other => other.to_string().into_bytes(),
    };
    *value = key.marker(&bytes);
}

#[cfg(test)]
mod tests;
