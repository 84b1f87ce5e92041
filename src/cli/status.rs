//! `gitfleet status`: the rollout as a tree, once or live.

use std::io::Write as _;

use super::Daemon;
use super::books::{Source, locate};
use super::exit::Exit;
use super::get::views;
use super::output::{self, Terminal};
use crate::engine::clock;
use crate::report::converge::converged;
use crate::report::tree::{StatusView, status_lines};

/// Moves to the top left and clears what is below: the tree is drawn anew in place.
const REDRAW: &str = "\x1b[H\x1b[J";

/// Options of `status`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Keep showing it as it changes, until interrupted.
    #[arg(short, long)]
    watch: bool,
    #[command(flatten)]
    daemon: Daemon,
}

/// Runs the command. Exits 0 when everything is at the accepted commit, 3 when a person is waited for, 1 otherwise.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let source = locate(&args.daemon)?;
    let terminal = Terminal::of_stdout();
    let mut version = 0;
    loop {
        let (text, exit) = show(&source, terminal)?;
        if !args.watch {
            output::print(&text)?;
            return Ok(exit);
        }
        let redraw = if terminal.width.is_some() { REDRAW } else { "" };
        let mut out = std::io::stdout().lock();
        if out.write_all(format!("{redraw}{text}").as_bytes()).and_then(|()| out.flush()).is_err() {
            return Ok(exit);
        }
        drop(out);
        version = source.wait(version)?;
    }
}

fn show(source: &Source, terminal: Terminal) -> anyhow::Result<(String, Exit)> {
    let books = source.read()?;
    let placements = views(&books);
    let view =
        StatusView { source: &books.source, branch: None, placements: &placements, ocm: &books.ocm, now: clock::now() };
    let text = output::render_lines(&status_lines(&view), terminal);
    let worst = placements.iter().map(|view| Exit::from(&converged(view))).fold(Exit::Done, Exit::and);
    let refused =
        !books.source.refused.is_empty() || books.source.failure.is_some() || books.source.held_rewrite.is_some();
    Ok((text, if refused { worst.and(Exit::NotAsWished) } else { worst }))
}
