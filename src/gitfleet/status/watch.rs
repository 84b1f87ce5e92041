//! The live screen of `status -w`.

use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crossterm::cursor::{Hide, Show};
use crossterm::execute;
use crossterm::terminal::{self, EnterAlternateScreen, LeaveAlternateScreen};

use super::Args;
use crate::exit::Exit;
use crate::output;
use crate::output::Terminal;
use crate::records::RecordsSource;
use views::layout::{screen, wrapped};
use views::summary::Summary;

/// Moves to the top left.
const HOME: &str = "\x1b[H";
/// Ends a line: clears the rest of it.
const LINE_END: &str = "\x1b[K\r\n";
/// Clears what is below.
const CLEAR_BELOW: &str = "\x1b[J";

/// How often the screen is drawn though nothing changed: waits count down, and the window may have another size.
const TICK: Duration = Duration::from_secs(1);
/// What a terminal is taken for that does not say its size.
const SIZE_DEFAULT: (u16, u16) = (80, 24);
/// Ctrl-C, where the terminal sends keys as they are.
const CTRL_C: u8 = 3;

/// What the screen waits for.
enum Input {
    /// The fleet changed, or cannot be read.
    Fleet(anyhow::Result<Box<Summary>>),
    /// Somebody pressed a key.
    Key(u8),
}

/// Shows the fleet whenever it changes: on a terminal on a screen of its own until somebody ends it, elsewhere as text after text.
pub(super) fn watch(args: &Args, source: RecordsSource) -> anyhow::Result<Exit> {
    let terminal = Terminal::of_stdout();
    let changes = args.changes(source)?;
    if terminal.width.is_none() {
        loop {
            let summary = changes.recv()??;
            let text = output::render_lines(&args.lines(&summary, None), terminal);
            let mut out = io::stdout().lock();
            if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
                return Ok(args.exit(&summary));
            }
        }
    }
    let (sender, news) = mpsc::channel();
    let mut summary = changes.recv()??;
    let keys = sender.clone();
    thread::spawn(move || changes.into_iter().all(|read| sender.send(Input::Fleet(read.map(Box::new))).is_ok()));
    let screen = Screen::enter()?;
    if screen.has_keys {
        thread::spawn(move || {
            io::stdin().lock().bytes().map_while(Result::ok).all(|key| keys.send(Input::Key(key)).is_ok())
        });
    }
    loop {
        draw(args, &summary, terminal)?;
        match news.recv_timeout(TICK) {
            Ok(Input::Fleet(read)) => summary = *read?,
            // The thread that reads the fleet sends its error before it ends.
            Ok(Input::Key(b'q' | CTRL_C)) | Err(RecvTimeoutError::Disconnected) => return Ok(args.exit(&summary)),
            Ok(Input::Key(_)) | Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Draws what fits: what is most urgent is at the top.
fn draw(args: &Args, summary: &Summary, terminal: Terminal) -> io::Result<()> {
    let (width, height) =
        terminal::size().ok().filter(|(width, height)| *width > 0 && *height > 0).unwrap_or(SIZE_DEFAULT);
    let width = usize::from(width);
    let height = usize::from(height);
    let lines: Vec<_> = args.lines(summary, Some(width)).iter().flat_map(|line| wrapped(line, width)).collect();
    let text = output::render_lines(&screen(lines, height), Terminal { width: None, ..terminal });
    // The last line has no end, which would move all of them up.
    let text = text.trim_end_matches('\n').replace('\n', LINE_END);
    let mut out = io::stdout().lock();
    out.write_all(format!("{HOME}{text}\x1b[K{CLEAR_BELOW}").as_bytes())?;
    out.flush()
}

/// The other screen of a terminal, until it is dropped.
struct Screen {
    has_keys: bool,
}

impl Screen {
    fn enter() -> io::Result<Self> {
        // Where keys come from elsewhere, Ctrl-C has to stay a signal.
        let has_keys = io::stdin().is_terminal() && terminal::enable_raw_mode().is_ok();
        let screen = Self { has_keys };
        if has_keys {
            execute!(io::stdout(), EnterAlternateScreen, Hide)?;
        }
        Ok(screen)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if self.has_keys {
            // Nothing is left to do about a terminal that is gone.
            drop(execute!(io::stdout(), LeaveAlternateScreen, Show));
            drop(terminal::disable_raw_mode());
        }
    }
}
