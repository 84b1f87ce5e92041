//! The bytes that the file holds for a record: compressed, without the lists that many records share.
//!
//! A report names every object of its placement, and members with the same content report the same. Such lists are kept once
//! (`parts.rs`), and the record has their identities. What remains is mostly field names and sentences, which the dictionary has.

use std::borrow::Cow;
use std::io;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use engine::store::VALUE_BYTES_MAX;

/// The identity of a part: the first 16 bytes of the SHA-256 of its text.
pub(super) type PartId = u128;

/// The first byte of what this format writes. No JSON begins with one of the marks.
const MARK: u8 = 0x1d;
/// The first byte of what format 2 wrote: deflated, without a dictionary. Records of format 1 have no mark.
const MARK_DEFLATED: u8 = 0x1f;
/// Stands in a record for a part. JSON has no such byte.
const PLACEHOLDER: u8 = 0;
/// Bytes from which a list becomes a part.
const PART_BYTES_MIN: usize = 256;
/// Bytes of a part's identity.
const ID_BYTES: usize = size_of::<PartId>();
/// Bytes by which an output grows while it is compressed or read.
const STEP_BYTES: usize = 1024;

/// Field names and sentences of records, the most frequent last. It belongs to the format: with another text nothing written before
/// could be read.
const DICTIONARY: &[u8] = include_bytes!("dictionary.txt");

/// The lists of a record that other records may share.
#[derive(Default, Deserialize)]
struct Lists<'a> {
    #[serde(borrow, default)]
    manifests: Option<&'a RawValue>,
    #[serde(borrow, default)]
    inventory: Option<&'a RawValue>,
}

/// A record as the file holds it.
pub(super) struct Packed<'a> {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Its parts, which are kept beside it.
    pub parts: Vec<(PartId, &'a [u8])>,
}

/// Packs and compresses. One for many records: its tables are much larger than a record.
pub(super) struct Packer(Compress);

impl Packer {
    pub(super) fn new() -> Self {
        // The fastest level: names and digests repeat, and higher levels find little more in them.
        Self(Compress::new(Compression::fast(), false))
    }

    /// Packs the bytes of a record.
    pub(super) fn pack<'a>(&mut self, value: &'a [u8]) -> Packed<'a> {
        let lists: Lists = serde_json::from_slice(value).unwrap_or_default();
        let lists = [lists.manifests, lists.inventory].into_iter().flatten().map(|list| list.get().as_bytes());
        let mut parts: Vec<&[u8]> = lists.filter(|list| list.len() >= PART_BYTES_MIN).collect();
        parts.sort_unstable_by_key(|part| part.as_ptr());
        let mut rest = Vec::new();
        let mut read = 0;
        for part in &parts {
            let start = part.as_ptr().addr() - value.as_ptr().addr();
            rest.extend_from_slice(&value[read..start]);
            rest.push(PLACEHOLDER);
            read = start + part.len();
        }
        rest.extend_from_slice(&value[read..]);
        let parts: Vec<(PartId, &[u8])> = parts.into_iter().map(|part| (id(part), part)).collect();
        let count = u8::try_from(parts.len()).expect("there is a field for each part");
        let mut bytes = vec![MARK, count];
        bytes.extend(parts.iter().flat_map(|(id, _)| id.to_be_bytes()));
        self.compress(&rest, &mut bytes);
        Packed { bytes, parts }
    }

    /// Returns the bytes that are kept for a part or an entry of the journal.
    pub(super) fn compressed(&mut self, value: &[u8]) -> Vec<u8> {
        let mut bytes = vec![MARK, 0];
        self.compress(value, &mut bytes);
        bytes
    }

    fn compress(&mut self, value: &[u8], out: &mut Vec<u8>) {
        let Self(compress) = self;
        compress.reset();
        compress.set_dictionary(DICTIONARY).expect("nothing was compressed yet");
        loop {
            out.reserve(STEP_BYTES);
            let read = usize::try_from(compress.total_in()).expect("a value is in memory");
            let status = compress.compress_vec(&value[read..], out, FlushCompress::Finish);
            if status.expect("compressing in memory cannot fail") == Status::StreamEnd {
                return;
            }
        }
    }
}

/// Returns the identities of the parts of a kept record.
pub(super) fn parts_of(kept: &[u8]) -> impl Iterator<Item = PartId> {
    split(kept).map(|(ids, _)| ids).unwrap_or_default().as_chunks().0.iter().map(|id| PartId::from_be_bytes(*id))
}

/// Reads what is kept. One for many records, as [`Packer`].
pub(super) struct Unpacker(Decompress);

impl Unpacker {
    pub(super) fn new() -> Self {
        Self(Decompress::new(false))
    }

    /// Returns what is kept without the parts, and the identities of the parts, whose places [`assembled`] knows.
    ///
    /// # Errors
    /// It is damaged, or holds more than a record may.
    pub(super) fn unpacked<'k>(&mut self, kept: &'k [u8]) -> io::Result<Unpacked<'k>> {
        let rest = match kept.first() {
            Some(&MARK) => self.decompress(split(kept).ok_or_else(damaged)?.1, DICTIONARY)?.into(),
            Some(&MARK_DEFLATED) => self.decompress(&kept[1..], &[])?.into(),
            _ => Cow::Borrowed(kept),
        };
        Ok(Unpacked { rest, parts: parts_of(kept).collect() })
    }

    fn decompress(&mut self, kept: &[u8], dictionary: &[u8]) -> io::Result<Vec<u8>> {
        let Self(decompress) = self;
        decompress.reset(false);
        if !dictionary.is_empty() {
            decompress.set_dictionary(dictionary).map_err(io::Error::other)?;
        }
        let mut out = Vec::new();
        loop {
            out.reserve(STEP_BYTES);
            let read = decompress.total_in();
            let written = decompress.total_out();
            let rest = kept.get(usize::try_from(read).map_err(io::Error::other)?..).unwrap_or_default();
            let status = decompress.decompress_vec(rest, &mut out, FlushDecompress::None).map_err(io::Error::other)?;
            if out.len() > VALUE_BYTES_MAX {
                return Err(io::Error::other(format!("it has more than {VALUE_BYTES_MAX} bytes")));
            }
            if status == Status::StreamEnd {
                return Ok(out);
            }
            if (decompress.total_in(), decompress.total_out()) == (read, written) {
                return Err(damaged());
            }
        }
    }
}

/// A record without its parts.
pub(super) struct Unpacked<'k> {
    rest: Cow<'k, [u8]>,
    parts: Vec<PartId>,
}

impl<'k> Unpacked<'k> {
    /// Puts a record together; `part` returns the bytes of a part.
    ///
    /// # Errors
    /// A part cannot be read.
    pub(super) fn assembled<E>(self, mut part: impl FnMut(PartId) -> Result<Vec<u8>, E>) -> Result<Cow<'k, [u8]>, E> {
        if self.parts.is_empty() {
            return Ok(self.rest);
        }
        let mut ids = self.parts.into_iter();
        let mut pieces = self.rest.split(|byte| *byte == PLACEHOLDER);
        let mut value = pieces.next().unwrap_or_default().to_vec();
        for piece in pieces {
            if let Some(id) = ids.next() {
                value.extend_from_slice(&part(id)?);
            }
            value.extend_from_slice(piece);
        }
        Ok(value.into())
    }

    /// Returns what has no parts.
    ///
    /// # Errors
    /// It has parts.
    pub(super) fn whole(self) -> io::Result<Cow<'k, [u8]>> {
        self.assembled(|_| Err(io::Error::other("it has parts, and should have none")))
    }
}

/// Splits what is kept into the identities of its parts and its compressed rest; `None` where it has no parts by its form.
fn split(kept: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&MARK, rest) = kept.split_first()? else { return None };
    let (&count, rest) = rest.split_first()?;
    rest.split_at_checked(usize::from(count) * ID_BYTES)
}

fn id(part: &[u8]) -> PartId {
    let digest = Sha256::digest(part);
    PartId::from_be_bytes(*digest.first_chunk().expect("a SHA-256 has 32 bytes"))
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "it is cut")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use flate2::write::DeflateEncoder;

    use super::*;

    fn packed(value: &[u8]) -> Packed<'_> {
        Packer::new().pack(value)
    }

    fn whole(kept: &[u8]) -> io::Result<Vec<u8>> {
        Unpacker::new().unpacked(kept)?.whole().map(Cow::into_owned)
    }

    fn again(packed: &Packed) -> Vec<u8> {
        let parts: BTreeMap<PartId, Vec<u8>> = packed.parts.iter().map(|(id, part)| (*id, part.to_vec())).collect();
        let unpacked = Unpacker::new().unpacked(&packed.bytes).expect("it is whole");
        unpacked.assembled(|id| Ok::<_, io::Error>(parts[&id].clone())).expect("it has its parts").into_owned()
    }

    #[test]
    fn what_is_packed_comes_back() {
        let long = "a digest, and again a digest; ".repeat(100);
        for value in [&b""[..], b"{}", &[MARK], &[MARK, 1, 2], &[0, 0, 1], long.as_bytes(), &[MARK; 1000]] {
            let packed = packed(value);
            assert_eq!((again(&packed), packed.parts.len()), (value.to_vec(), 0));
            assert_eq!(whole(&Packer::new().compressed(value)).expect("it is whole"), value);
        }
        assert!(packed(long.as_bytes()).bytes.len() < long.len() / 10);
    }

    #[test]
    fn lists_that_records_share_are_parts() {
        let list = format!("[{}1]", "1, ".repeat(PART_BYTES_MIN));
        let record =
            |number: u64| format!(r#"{{"inventory":{list},"number":{number}, "manifests" : {list} ,"last":1}}"#);
        let one = record(1);
        let other = record(2);
        let one = packed(one.as_bytes());
        let other = packed(other.as_bytes());
        assert_eq!(one.parts, [(id(list.as_bytes()), list.as_bytes()); 2]);
        assert_eq!(parts_of(&one.bytes).collect::<Vec<_>>(), parts_of(&other.bytes).collect::<Vec<_>>());
        assert_eq!(again(&one), record(1).as_bytes());
        assert_eq!(again(&other), record(2).as_bytes());
        assert!(one.bytes.len() < 100, "{}: what is left of it is small", one.bytes.len());
        let short = br#"{"manifests":[1]}"#;
        assert!(packed(short).parts.is_empty(), "a short list stays in its record");
    }

    #[test]
    fn earlier_formats_are_read() {
        let mut encoder = DeflateEncoder::new(vec![MARK_DEFLATED], Compression::fast());
        io::Write::write_all(&mut encoder, b"{\"before\":1}").unwrap();
        assert_eq!(whole(&encoder.finish().unwrap()).unwrap(), b"{\"before\":1}");
        assert_eq!(whole(b"{}").unwrap(), b"{}", "format 1");
    }

    #[test]
    fn damaged_bytes_are_an_error() {
        let kept = Packer::new().compressed(&[b'x'; 1000]);
        assert!(whole(&kept[..kept.len() - 2]).is_err());
        for damaged in [&[MARK][..], &[MARK, 1], &[MARK, 0, 0xff, 0xff], &[MARK_DEFLATED, 0xff, 0xff]] {
            assert!(whole(damaged).is_err(), "{damaged:?}");
        }
    }
}
