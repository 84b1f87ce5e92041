//! Repositories behind HTTP, so that each daemon has a mirror: git's own program answers, one connection for each request.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

/// Serves the repositories in a folder until the process ends, and returns the address.
pub fn serve(folder: &Path) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, folder) = (listener.local_addr().unwrap(), folder.to_owned());
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let folder = folder.clone();
            thread::spawn(move || answer(client, &folder));
        }
    });
    format!("http://{address}")
}

/// A request as git's program wants it.
struct GitRequest {
    method: String,
    path: String,
    query: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl GitRequest {
    fn read(client: &TcpStream) -> Option<Self> {
        let mut reader = BufReader::new(client);
        let mut line = || {
            let mut line = String::new();
            reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
            Some(line.trim_end().to_owned())
        };
        let first = line()?;
        let mut words = first.split(' ');
        let (method, target) = (words.next()?.to_owned(), words.next()?);
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let (path, query) = (path.to_owned(), query.to_owned());
        let mut headers = Vec::new();
        while let Some((name, value)) = line()?.split_once(": ") {
            headers.push((name.to_lowercase(), value.to_owned()));
        }
        let request = Self { method, path, query, headers, body: Vec::new() };
        let length = request.header("content-length").parse().unwrap_or(0);
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        if request.header("transfer-encoding") == "chunked" {
            loop {
                let mut size = String::new();
                reader.read_line(&mut size).ok()?;
                let size = usize::from_str_radix(size.trim(), 16).ok()?;
                // Each piece ends with a line break.
                let mut piece = vec![0; size + 2];
                reader.read_exact(&mut piece).ok()?;
                body.extend_from_slice(&piece[..size]);
                if size == 0 {
                    break;
                }
            }
        }
        Some(Self { body, ..request })
    }

    fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(of, _)| of == name).map_or("", |(_, value)| value)
    }
}

fn answer(mut client: TcpStream, folder: &PathBuf) {
    let Some(request) = GitRequest::read(&client) else { return };
    let mut backend = Command::new("git");
    backend.arg("http-backend").env("GIT_PROJECT_ROOT", folder).env("GIT_HTTP_EXPORT_ALL", "1");
    backend.env("REQUEST_METHOD", &request.method).env("PATH_INFO", &request.path).env("QUERY_STRING", &request.query);
    backend.env("CONTENT_TYPE", request.header("content-type")).env("CONTENT_LENGTH", request.body.len().to_string());
    backend.env("HTTP_CONTENT_ENCODING", request.header("content-encoding"));
    backend.env("GIT_PROTOCOL", request.header("git-protocol"));
    let mut backend = backend.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut input = backend.stdin.take().unwrap();
    // It may have said enough before it has read everything.
    let fed = thread::spawn(move || drop(input.write_all(&request.body)));
    let output = backend.wait_with_output().unwrap().stdout;
    drop(fed.join());
    let end = output.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap_or(output.len());
    let (head, body) = (String::from_utf8_lossy(&output[..end]), output.get(end + 4..).unwrap_or_default());
    let status = head.lines().find_map(|line| line.strip_prefix("Status: ")).unwrap_or("200 OK");
    let head = format!("HTTP/1.1 {status}\r\n{head}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    // The client may be gone.
    drop(client.write_all(head.as_bytes()).and_then(|()| client.write_all(body)));
}
