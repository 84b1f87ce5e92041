//! Random bytes of the system.

/// Bytes of one random number.
pub const RANDOM_BYTES: usize = 32;

/// Returns unpredictable bytes; `None` if the system provides none.
pub fn random() -> Option<[u8; RANDOM_BYTES]> {
    let mut bytes = [0; RANDOM_BYTES];
    rustls::crypto::aws_lc_rs::default_provider().secure_random.fill(&mut bytes).ok()?;
    Some(bytes)
}
