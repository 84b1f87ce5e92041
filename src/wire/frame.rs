//! Frames: the length in four bytes, most significant first, and JSON compressed by zlib.

use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Bytes of a frame or a body, compressed.
pub const FRAME_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Bytes of a frame or a body, decompressed: a report about 100,000 objects takes some 30 MB.
pub const CONTENT_BYTES_MAX: usize = 128 * 1024 * 1024;
/// Bytes of the length in front of a frame.
const LENGTH_BYTES: usize = 4;

/// Why a frame or a body cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is larger than allowed.
    #[error("{what} has more than {} MiB; the limit protects the memory of this process", max / (1024 * 1024))]
    TooLarge {
        /// What was measured.
        what: &'static str,
        /// The limit in bytes.
        max: usize,
    },
    /// It ends in the middle.
    #[error("the stream ended in the middle of a frame: {missing} bytes are missing")]
    Cut {
        /// How many bytes did not come.
        missing: usize,
    },
    /// It is not compressed by zlib, or damaged.
    #[error("a body is not compressed by zlib, or it is damaged")]
    Compression(#[source] std::io::Error),
    /// It is no JSON of the expected form. The text is left out: it may hold secrets.
    #[error(
        "a body has another form than expected (line {line}, column {column}); are both sides of versions that fit?"
    )]
    Form {
        /// The line of the JSON.
        line: usize,
        /// The column.
        column: usize,
    },
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Self::Form { line: error.line(), column: error.column() }
    }
}

/// Returns a value as a body: JSON, compressed.
pub fn pack<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, Error> {
    pack_bytes(&serde_json::to_vec(value)?)
}

/// Returns JSON as a body.
pub fn pack_bytes(json: &[u8]) -> Result<Vec<u8>, Error> {
    if json.len() > CONTENT_BYTES_MAX {
        return Err(Error::TooLarge { what: "a message", max: CONTENT_BYTES_MAX });
    }
    let mut encoder = ZlibEncoder::new(Vec::with_capacity(json.len() / 4), Compression::default());
    encoder.write_all(json).map_err(Error::Compression)?;
    let packed = encoder.finish().map_err(Error::Compression)?;
    if packed.len() > FRAME_BYTES_MAX {
        return Err(Error::TooLarge { what: "a compressed message", max: FRAME_BYTES_MAX });
    }
    Ok(packed)
}

/// Returns the JSON of a body.
///
/// # Errors
/// It is damaged, or larger than [`CONTENT_BYTES_MAX`] when decompressed.
pub fn inflate(body: &[u8]) -> Result<Vec<u8>, Error> {
    inflate_within(body, CONTENT_BYTES_MAX)
}

pub(super) fn inflate_within(body: &[u8], max: usize) -> Result<Vec<u8>, Error> {
    let mut json = Vec::new();
    ZlibDecoder::new(body).take(max as u64 + 1).read_to_end(&mut json).map_err(Error::Compression)?;
    if json.len() > max { Err(Error::TooLarge { what: "a decompressed message", max }) } else { Ok(json) }
}

/// Reads a value from a body.
///
/// # Errors
/// As [`inflate`], or its form is another.
pub fn unpack<T: DeserializeOwned>(body: &[u8]) -> Result<T, Error> {
    Ok(serde_json::from_slice(&inflate(body)?)?)
}

/// Returns a value as a frame of a stream.
pub fn frame<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, Error> {
    let body = pack(value)?;
    let length = u32::try_from(body.len()).map_err(|_| Error::TooLarge { what: "a frame", max: FRAME_BYTES_MAX })?;
    let mut frame = Vec::with_capacity(LENGTH_BYTES + body.len());
    frame.extend(length.to_be_bytes());
    frame.extend(body);
    Ok(frame)
}

/// Cuts a stream of bytes into frames.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
}

impl Frames {
    /// Takes bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next whole frame; `None` until more bytes have come.
    ///
    /// # Errors
    /// The frame is too large, damaged, or of another form: the stream cannot be read any further.
    pub fn take<T: DeserializeOwned>(&mut self) -> Result<Option<T>, Error> {
        let Some(length) = self.length() else { return Ok(None) };
        if length > FRAME_BYTES_MAX {
            return Err(Error::TooLarge { what: "a frame", max: FRAME_BYTES_MAX });
        }
        let end = LENGTH_BYTES + length;
        if self.bytes.len() < end {
            return Ok(None);
        }
        let value = unpack(&self.bytes[LENGTH_BYTES..end])?;
        self.bytes.drain(..end);
        Ok(Some(value))
    }

    /// Checks that the stream ended between two frames.
    ///
    /// # Errors
    /// It ended in the middle of one.
    pub fn finish(&self) -> Result<(), Error> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        let whole = LENGTH_BYTES + self.length().unwrap_or_default();
        Err(Error::Cut { missing: whole.saturating_sub(self.bytes.len()) })
    }

    fn length(&self) -> Option<usize> {
        let length = self.bytes.get(..LENGTH_BYTES)?.try_into().map(u32::from_be_bytes).ok()?;
        usize::try_from(length).ok()
    }
}
