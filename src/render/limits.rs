//! What programs may use.

use std::time::Duration;

/// How long a program may take for one folder.
pub const TIME_MAX: Duration = Duration::from_secs(30);
/// The most that a program may print, in bytes.
pub const OUTPUT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The most that is kept of what a program says about an error, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 2_000;
/// The addresses that a program may use, in bytes. Go reserves far more of them than it needs memory.
pub const ADDRESSES_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;
/// The memory that a program may write to, in bytes.
pub const MEMORY_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// The memory at which a program collects garbage all the time, as Go reads it.
pub const MEMORY_GOAL: &str = "768MiB";
/// The largest file that a program may write, in bytes.
pub const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The files that a program may have open.
pub const OPEN_FILES_MAX: u64 = 1_024;
