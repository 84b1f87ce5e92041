//! The text of a signature: one block, and nothing beside it.

use super::SignatureKind;

/// What begins and ends the blocks that git reads, by their label.
///
/// Source: git, the formats of gpg-interface.c.
const LABELS: [(&str, SignatureKind); 4] = [
    ("SSH SIGNATURE", SignatureKind::Ssh),
    ("PGP SIGNATURE", SignatureKind::OpenPgp),
    ("PGP MESSAGE", SignatureKind::OpenPgp),
    ("SIGNED MESSAGE", SignatureKind::X509),
];

/// Returns what kind of signature a text is, and the text without blanks around it.
///
/// Text before or after the block is refused, and so is a second block: it is signed by nobody, and programs differ in what they make
/// of it.
///
/// # Errors
/// Why it is none.
pub(super) fn read(signature: &[u8]) -> Result<(SignatureKind, &str), &'static str> {
    let text = std::str::from_utf8(signature).map_err(|_| "it is no text")?.trim();
    let known = LABELS.iter().find(|(label, _)| text.starts_with(&format!("-----BEGIN {label}-----")));
    let (label, kind) = known.ok_or("it begins as none of SSH, OpenPGP or X.509 does")?;
    let end = format!("-----END {label}-----");
    match text.find(&end) {
        None => Err("its end is missing"),
        Some(at) if at + end.len() < text.len() => Err("more follows after its end"),
        Some(_) if text.matches("-----BEGIN").count() > 1 => Err("another one begins in it"),
        Some(_) => Ok((*kind, text)),
    }
}
