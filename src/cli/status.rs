//! `gitfleet status`: the rollout as a tree, once or live.

use std::io::Write as _;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::Daemon;
use super::exit::Exit;
use super::get::views;
use super::output::{self, Terminal};
use super::records::{RecordsSource, locate};
use crate::clock;
use crate::model::records::{SourceRecord, StoreRecord};
use crate::status::fleet::fleet_states;
use crate::status::rollout::rollout_state;
use crate::store::saved::Records;
use crate::views::tree::{StatusView, status_lines};

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
        let (text, exit) = show(&source.read()?, terminal);
        output::print(&text)?;
        return Ok(exit);
    }
    watch(source, terminal)
}

/// Draws the tree whenever records change, and on a terminal also as time passes, so that waits count down.
fn watch(source: RecordsSource, terminal: Terminal) -> anyhow::Result<Exit> {
    let is_terminal = terminal.width.is_some();
    let (sender, changes) = mpsc::channel();
    let mut saved = source.read()?;
    thread::spawn(move || {
        let mut version = 0;
        loop {
            let read = source.wait(version).and_then(|next| {
                version = next;
                source.read()
            });
            let is_over = read.is_err();
            if sender.send(read).is_err() || is_over {
                return;
            }
        }
    });
    loop {
        let (text, exit) = show(&saved, terminal);
        let redraw = if is_terminal { REDRAW } else { "" };
        let mut out = std::io::stdout().lock();
        if out.write_all(format!("{redraw}{text}").as_bytes()).and_then(|()| out.flush()).is_err() {
            return Ok(exit);
        }
        drop(out);
        // On a terminal time alone changes the text. A pipe gets a tree for each change, and no more.
        saved = match changes.recv_timeout(if is_terminal { TICK } else { Duration::MAX }) {
            Ok(read) => read?,
            // No change yet: the thread sends its error before it ends.
            Err(_) => saved,
        };
    }
}

fn show(saved: &Records, terminal: Terminal) -> (String, Exit) {
    let placements = views(saved);
    let unseen = SourceRecord::default();
    let (source, clusters, ocm) = (saved.source.as_ref().unwrap_or(&unseen), &saved.clusters, &saved.ocm);
    let view = StatusView { source, branch: None, placements: &placements, clusters, ocm, now: clock::now() };
    let text = output::render_lines(&status_lines(&view), terminal);
    let states = placements.iter().map(rollout_state);
    let states = fleet_states(saved.store.as_ref(), source, clusters.values(), states);
    // All placements may be at the accepted commit, and the commit that people wait for is refused or was not read.
    let exit = states.iter().map(Exit::from).fold(Exit::Done, Exit::and);
    match saved.store.as_ref().and_then(StoreRecord::complaint) {
        Some(complaint) => (format!("{complaint}\n\n{text}"), exit),
        None => (text, exit),
    }
}
