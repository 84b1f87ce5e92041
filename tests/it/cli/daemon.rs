//! A running daemon, for what talks to one.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::cli::scratch::{CONFIG, Scratch};

/// The token that the generator presents.
pub const TOKEN: &str = "0123456789abcdef";

/// A daemon with a token for the plugin generator, ended when dropped.
pub struct Daemon {
    child: Child,
    /// Where it listens.
    pub address: String,
}

impl Daemon {
    /// Starts it in the folder of a configuration, and waits until it listens.
    pub fn start(scratch: &Scratch) -> Self {
        fs::write(scratch.path("token"), format!("{TOKEN}\n")).expect("a file");
        let text = fs::read_to_string(scratch.path(CONFIG)).expect("the configuration");
        fs::write(scratch.path(CONFIG), text + "decisions: {tokenFile: ./token}\n").expect("a file");
        let mut command = scratch.command(&["run", "-c", CONFIG, "--log-format", "json"]);
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the daemon starts");
        let mut lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
        let address = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let line: Value = serde_json::from_str(&line).ok()?;
            (line["message"] == "listening").then(|| line["address"].as_str().map(str::to_owned))?
        });
        // What it logs later is read so that it is never kept waiting; the thread ends with the daemon.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address: address.expect("the daemon says where it listens") }
    }

    /// Asks as the generator does; returns status and answer.
    pub fn ask(&self, token: Option<&str>, question: &Value) -> (u16, Value) {
        let body = question.to_string();
        let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        let mut stream = TcpStream::connect(&self.address).expect("the daemon listens");
        write!(
            stream,
            "POST /api/v1/getparams.execute HTTP/1.0\r\nContent-Type: application/json\r\n{token}Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .expect("a question");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
        let body = answer.split_once("\r\n\r\n").expect("a body").1;
        (status, serde_json::from_str(body).unwrap_or_else(|_| panic!("{answer}")))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
