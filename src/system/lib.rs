//! What the daemon and its agents need of the machine: time, logs and metrics, supervised tasks, watched files, the fence of writes.

pub mod clock;
pub mod fence;
pub mod instruction;
pub mod random;
pub mod secret_files;
pub mod supervise;
pub mod telemetry;
pub mod watch;
pub mod watched_file;
