//! A real `redis-server` for one test: its own process, a unix socket in its own folder, nothing on disk.
//! It ends with the test.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The longest that a server may take to answer: far more than it does, so that a test never hangs.
const ANSWER_MAX: Duration = Duration::from_secs(60);

pub struct Redis {
    server: Child,
    folder: PathBuf,
    connection: BufReader<UnixStream>,
}

/// What Redis answers, as far as these tests ask.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply {
    Done,
    Number(u64),
    Bytes(Vec<u8>),
    Nothing,
    Error(String),
}

impl Redis {
    /// A server that listens; `None`, and a printed reason, where the program is not installed.
    pub fn start(name: &str) -> Option<Self> {
        let folder = std::env::temp_dir().join(format!("tally-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let socket = folder.join("redis");
        let spawned = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--appendonly", "no"])
            .arg("--unixsocket")
            .arg(&socket)
            .arg("--dir")
            .arg(&folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn();
        let mut server = match spawned {
            Ok(server) => server,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                println!("skip: redis-server is not installed (Debian package redis-server)");
                let _ = std::fs::remove_dir_all(&folder);
                return None;
            }
            Err(error) => panic!("redis-server does not start: {error}"),
        };
        // It says when it listens; the pipe ends where it died instead.
        let mut log = BufReader::new(server.stdout.take().unwrap());
        let mut said = String::new();
        while !said.contains("eady to accept connections") {
            let bytes = log.read_line(&mut said).unwrap();
            assert!(bytes > 0, "redis-server ended: {said}");
        }
        server.stdout = Some(log.into_inner());
        let connection = UnixStream::connect(&socket).unwrap();
        connection.set_read_timeout(Some(ANSWER_MAX)).unwrap();
        Some(Self {
            server,
            folder,
            connection: BufReader::new(connection),
        })
    }

    /// The answer to a command of these words.
    pub fn call(&mut self, words: &[&[u8]]) -> Reply {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend(format!("${}\r\n", word.len()).into_bytes());
            request.extend_from_slice(word);
            request.extend(b"\r\n");
        }
        self.connection.get_mut().write_all(&request).unwrap();
        let mut line = String::new();
        self.connection.read_line(&mut line).unwrap();
        let line = line.trim_end();
        let (kind, rest) = line.split_at_checked(1).unwrap();
        match kind {
            "+" => Reply::Done,
            "-" => Reply::Error(rest.to_owned()),
            ":" => Reply::Number(rest.parse().unwrap()),
            "$" if rest == "-1" => Reply::Nothing,
            "$" => {
                let mut bytes = vec![0; rest.parse::<usize>().unwrap() + 2];
                self.connection.read_exact(&mut bytes).unwrap();
                bytes.truncate(bytes.len() - 2);
                Reply::Bytes(bytes)
            }
            _ => panic!("Redis answers {line}"),
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
