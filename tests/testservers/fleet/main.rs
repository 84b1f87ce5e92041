//! The test fleet by hand: builds the servers, starts them in the background, ends them.

use std::process::ExitCode;

fn main() -> ExitCode {
    testservers::fleet::command::main()
}
