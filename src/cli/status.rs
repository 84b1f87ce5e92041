//! `gitfleet status`: the rollout as a tree, once or live.

use std::io::Write as _;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::Daemon;
use super::exit::Exit;
use super::output::{self, Terminal};
use super::records::{RecordsSource, locate};
use crate::clock;
use crate::views::summary::Summary;

/// Moves to the top left and clears what is below: the tree is drawn again in place.
const REDRAW: &str = "\x1b[H\x1b[J";

/// How often the tree is drawn though nothing changed.
const TICK: Duration = Duration::from_secs(1);

/// Options of `status`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Keep showing it as it changes, until interrupted.
    #[arg(short, long)]
    watch: bool,
    #[command(flatten)]
    daemon: Daemon,
}

/// Runs the command. Exits 0 when everything is at the accepted commit, 3 when a person must act, 1 otherwise.
pub fn run(args: &Args) -> anyhow::Result<Exit> {
    let source = locate(&args.daemon)?;
    let terminal = Terminal::of_stdout();
    if !args.watch {
        let (text, exit) = show(&source.summary()?, terminal);
        output::print(&text)?;
        return Ok(exit);
    }
    watch(source, terminal)
}

/// Draws the tree whenever records change, and on a terminal also as time passes, so that waits count down.
fn watch(source: RecordsSource, terminal: Terminal) -> anyhow::Result<Exit> {
    let is_terminal = terminal.width.is_some();
    let (sender, changes) = mpsc::channel();
    let mut summary = source.summary()?;
    thread::spawn(move || {
        let mut version = 0;
        loop {
            let read = source.wait(version).and_then(|next| {
                version = next;
                source.summary()
            });
            let is_over = read.is_err();
            if sender.send(read).is_err() || is_over {
                return;
            }
        }
    });
    loop {
        let (text, exit) = show(&summary, terminal);
        let redraw = if is_terminal { REDRAW } else { "" };
        let mut out = std::io::stdout().lock();
        if out.write_all(format!("{redraw}{text}").as_bytes()).and_then(|()| out.flush()).is_err() {
            return Ok(exit);
        }
        drop(out);
        // On a terminal time alone changes the text. A pipe gets a tree for each change, and no more.
        summary = match changes.recv_timeout(if is_terminal { TICK } else { Duration::MAX }) {
            Ok(read) => read?,
            // No change yet: the thread sends its error before it ends.
            Err(_) => summary,
        };
    }
}

fn show(summary: &Summary, terminal: Terminal) -> (String, Exit) {
    let text = output::render_lines(&summary.lines(clock::now()), terminal);
    // All placements may be at the accepted commit, and the commit that people wait for is refused or was not read.
    let exit = summary.standing.iter().map(|kind| Exit::from(*kind)).fold(Exit::Done, Exit::and);
    match &summary.complaint {
        Some(complaint) => (format!("{complaint}\n\n{text}"), exit),
        None => (text, exit),
    }
}
