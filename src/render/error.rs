//! Errors of rendering, and what programs say, made fit to be shown.

use std::io;
use std::path::{Path, PathBuf};

use super::{MEMORY_BYTES_MAX, MESSAGE_BYTES_MAX, OUTPUT_BYTES_MAX};
use model::text::is_unseen;

/// Why a folder was not rendered.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such program.
    #[error(
        "folders are to be rendered by {program} {wanted}, and there is no {program} in {places}: put it there, or set `render.folder`"
    )]
    Missing {
        /// The program.
        program: &'static str,
        /// The version that was asked for.
        wanted: String,
        /// Where it was looked for.
        places: String,
    },
    /// The program has another version.
    #[error(
        "folders are to be rendered by {program} {wanted}, and {path} is {}: install that version, or change `render.{program}`",
        found.as_deref().unwrap_or("of no version that can be read")
    )]
    OtherVersion {
        /// The program.
        program: &'static str,
        /// Where it is.
        path: String,
        /// The version that was asked for.
        wanted: String,
        /// The version that it says it has.
        found: Option<String>,
    },
    /// The program cannot be started.
    #[error("{program} cannot be started")]
    Start {
        /// The program.
        program: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The folder that the program works in cannot be made.
    #[error("the folder {} for rendering cannot be written", path.display())]
    Scratch {
        /// The folder or file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The program refuses the folder.
    #[error("{program} says: {message}")]
    Failed {
        /// The program.
        program: &'static str,
        /// What it said.
        message: String,
    },
    /// The program needs too much memory.
    #[error("{program} needs more memory than the {MEMORY_BYTES_MAX} bytes that it may have")]
    Memory {
        /// The program.
        program: &'static str,
    },
    /// The program takes too long.
    #[error("{program} took longer than {seconds} s and was ended")]
    Slow {
        /// The program.
        program: &'static str,
        /// The limit.
        seconds: u64,
    },
    /// The program prints too much.
    #[error("{program} printed more than {OUTPUT_BYTES_MAX} bytes and was ended")]
    Large {
        /// The program.
        program: &'static str,
    },
    /// There are more folders than time.
    #[error(
        "{left} of {folders} folders could not be rendered within {seconds} s; the rest is rendered in another attempt"
    )]
    Unfinished {
        /// The folders that had no result.
        folders: usize,
        /// Those that have none still.
        left: usize,
        /// The limit.
        seconds: u64,
    },
    /// The program was ended by the system, at a limit of memory or time.
    #[error("{program} was ended at a limit of memory, time or size of files ({how})")]
    Ended {
        /// The program.
        program: &'static str,
        /// How it ended.
        how: String,
    },
}

impl Error {
    /// Names the program that cannot be started; for `map_err`.
    pub(super) fn start(program: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::Start { program, source }
    }

    /// Names the folder or file that cannot be written; for `map_err`.
    pub(super) fn scratch(path: &Path) -> impl Fn(io::Error) -> Self {
        |source| Self::Scratch { path: path.to_owned(), source }
    }

    /// Tells whether the folder is the cause: the commit is then refused. Otherwise another attempt may succeed.
    pub fn is_of_the_folder(&self) -> bool {
        matches!(self, Self::Failed { .. } | Self::Memory { .. } | Self::Large { .. }) || self.may_be_of_the_machine()
    }

    /// Tells whether a busy machine may be the cause as well as the folder: the next attempt may succeed.
    pub fn may_be_of_the_machine(&self) -> bool {
        matches!(self, Self::Slow { .. } | Self::Ended { .. })
    }
}

/// Tells whether a program ended because it got no more memory.
///
/// Source: package runtime of Go.
pub(super) fn lacks_memory(said: &[u8]) -> bool {
    String::from_utf8_lossy(said).lines().any(|line| {
        line.starts_with("fatal error:") && (line.contains("out of memory") || line.contains("cannot allocate memory"))
    })
}

/// Makes what a program said fit for an error: from its first `Error`, on one line, without the scratch folder and control
/// characters. It still has to be shortened, by [`shortened`], when secret values are hidden.
pub(super) fn message(said: &[u8], root: &str) -> String {
    let text = String::from_utf8_lossy(said);
    let start = text.lines().position(|line| line.starts_with("Error:")).unwrap_or(0);
    let lines = text.lines().skip(start).take_while(|line| !is_trace(line));
    let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    let text = words.join(" ").replace(&format!("{root}/"), "").replace(root, ".");
    let text = text.strip_prefix("Error: ").unwrap_or(&text);
    text.chars().filter(|c| !is_unseen(*c)).collect()
}

/// Tells whether a line begins the list of what a program of Go was doing when it failed.
fn is_trace(line: &str) -> bool {
    line.starts_with("goroutine ") || line.starts_with("runtime stack:")
}

/// Shortens what a program said to [`MESSAGE_BYTES_MAX`].
pub fn shortened(mut text: String) -> String {
    if text.len() > MESSAGE_BYTES_MAX {
        let end = (0..=MESSAGE_BYTES_MAX).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        text.truncate(end);
        text.push_str("...");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_programs_say() {
        let rows: [(&str, &str); 4] = [
            ("# Warning: 'bases' is deprecated\nError: /s/tree/app: no\n", "app: no"),
            ("Error: a\n\t* b\u{1b}[31m c\u{202e}\n", "a * b[31m c"),
            ("fatal error: out of memory\n\ngoroutine 1 [running]:\nmain.main()\n", "fatal error: out of memory"),
            ("in /s/tree\n", "in ."),
        ];
        for (said, shown) in rows {
            assert_eq!(message(said.as_bytes(), "/s/tree"), shown);
        }
        let rows = [
            ("fatal error: runtime: out of memory\n\nruntime stack:\nruntime.throw()\n", true),
            ("runtime: out of memory: cannot allocate 4194304-byte block\nfatal error: out of memory\n", true),
            ("fatal error: out of memory allocating heap arena metadata\n", true),
            ("fatal error: all goroutines are asleep - deadlock!\n", false),
            ("Error: a.yaml: fatal error: out of memory\n", false),
        ];
        for (said, lacks) in rows {
            assert_eq!(lacks_memory(said.as_bytes()), lacks, "{said}");
            assert!(!message(said.as_bytes(), "/s").contains("runtime stack"), "{said}");
        }
        assert_eq!(shortened("ü".repeat(MESSAGE_BYTES_MAX)).len(), MESSAGE_BYTES_MAX + 3);
    }
}
