//! Starts other programs, of the versions that the configuration names: `kustomize build` and `helm template` render folders, and `sops`
//! decrypts files.
//!
//! A program gets a scratch folder with exactly the files that it may read, and no environment, no terminal and no other program. It
//! is started by [`launch`], which takes the network away where the system permits that, and sets limits of memory, time and files.
//! What it says is data: an error of it refuses the commit.

mod error;
mod launch;
mod limits;
mod process;
mod programs;
mod sops;

pub use self::error::{Error, shortened};
pub use self::launch::launch;
pub use self::limits::*;
pub use self::programs::{InputFile, Job, Program, Programs};
pub use self::sops::{Keys, Sops, SopsError};
