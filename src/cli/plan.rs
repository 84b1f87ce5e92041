//! `gitfleet plan`.

use super::exit::Exit;

/// Options of `plan`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn run(_args: &Args) -> anyhow::Result<Exit> {
    anyhow::bail!("not built yet")
}
