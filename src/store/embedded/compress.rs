//! Compresses the bytes of records: a report names every object, and reports of many clusters take most of a store.

use std::borrow::Cow;
use std::io::{self, Read as _, Write as _};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;

use crate::store::VALUE_BYTES_MAX;

/// The first byte of compressed bytes. No JSON begins with it, so records of earlier versions are read as they are.
const MARK: u8 = 0x1f;
/// Records below this size are kept as they are: they would hardly become smaller.
const COMPRESSED_FROM: usize = 256;

/// Returns the bytes that are kept for a record.
pub(super) fn compressed(value: &[u8]) -> Cow<'_, [u8]> {
    if value.len() < COMPRESSED_FROM && value.first() != Some(&MARK) {
        return Cow::Borrowed(value);
    }
    // The fastest level: names and digests repeat, and higher levels find little more in them.
    let mut encoder = DeflateEncoder::new(vec![MARK], Compression::fast());
    encoder.write_all(value).and_then(|()| encoder.finish()).expect("writing to memory cannot fail").into()
}

/// Returns the bytes of a record from those that are kept.
///
/// # Errors
/// They are damaged, or hold more than a record may.
pub(super) fn decompressed(kept: &[u8]) -> io::Result<Cow<'_, [u8]>> {
    let Some((&MARK, rest)) = kept.split_first() else { return Ok(Cow::Borrowed(kept)) };
    let mut value = Vec::new();
    DeflateDecoder::new(rest).take(VALUE_BYTES_MAX as u64 + 1).read_to_end(&mut value)?;
    if value.len() > VALUE_BYTES_MAX {
        return Err(io::Error::other(format!("it has more than {VALUE_BYTES_MAX} bytes")));
    }
    Ok(value.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_comes_back() {
        let long = "a digest, and again a digest; ".repeat(100);
        for value in [&b""[..], b"{}", &[MARK], &[MARK, 1, 2], long.as_bytes(), &[MARK; 1000]] {
            let kept = compressed(value);
            assert_eq!(decompressed(&kept).expect("it is whole"), value);
        }
        assert!(compressed(long.as_bytes()).len() < long.len() / 10);
        assert_eq!(compressed(b"{}"), &b"{}"[..], "as earlier versions wrote it");
    }

    #[test]
    fn damaged_bytes_are_an_error() {
        let kept = compressed(&[b'x'; 1000]).into_owned();
        assert!(decompressed(&kept[..kept.len() - 2]).is_err());
        assert!(decompressed(&[MARK, 0xff, 0xff]).is_err());
    }
}
