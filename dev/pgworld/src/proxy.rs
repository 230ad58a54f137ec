//! A proxy that recognises the client's messages and cuts connections between two messages.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Point at which a connection is cut. A planned cut happens once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Cut instead of forwarding the n-th message from now, counted over all connections.
    Message(usize),
    /// Cut instead of forwarding a `COMMIT`.
    BeforeCommit,
    /// Cut instead of forwarding the server's answer to a `COMMIT`.
    AfterCommit,
    /// Like [`Cut::AfterCommit`] for the n-th `COMMIT` from now, counted over all connections.
    AfterCommits(usize),
}

/// A proxy in front of a server.
#[derive(Debug)]
pub struct CuttingProxy {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    cut: Option<Cut>,
    messages: usize,
    commits: usize,
    cuts: usize,
}

/// Treatment of a message.
enum Verdict {
    Pass,
    Cut,
    PassAndDropAnswer,
}

impl CuttingProxy {
    /// Starts a proxy to a Unix socket.
    pub fn start(socket: PathBuf) -> CuttingProxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port on loopback");
        let address = listener.local_addr().expect("its address");
        let state: Arc<Mutex<State>> = Arc::default();
        let shared = state.clone();
        // This thread and those of the connections end with the process.
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                serve(client, &socket, &shared);
            }
        });
        CuttingProxy { address, state }
    }

    /// Address on which the proxy listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Plans the cut of one connection, which replaces an earlier plan.
    pub fn cut(&self, cut: Cut) {
        let mut state = lock(&self.state);
        (state.cut, state.messages, state.commits) = (Some(cut), 0, 0);
    }

    /// Number of clients' messages since the last call of [`CuttingProxy::cut`].
    pub fn messages(&self) -> usize {
        lock(&self.state).messages
    }

    /// Number of connections cut so far.
    pub fn cuts(&self) -> usize {
        lock(&self.state).cuts
    }
}

fn lock(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(client: TcpStream, socket: &Path, state: &Arc<Mutex<State>>) {
    // If the server does not run, the client's connection is closed.
    let Ok(server) = UnixStream::connect(socket) else { return };
    let drops_answers = Arc::new(Mutex::new(false));
    let (Ok(from_client), Ok(from_server)) = (client.try_clone(), server.try_clone()) else { return };
    let (shared, drops) = (state.clone(), drops_answers.clone());
    std::thread::spawn(move || {
        drop(pass_messages(from_client, &server, &shared, &drops));
        drop(server.shutdown(Shutdown::Both));
    });
    std::thread::spawn(move || {
        drop(pass_answers(from_server, &client, &drops_answers));
        drop(client.shutdown(Shutdown::Both));
    });
}

/// Forwards whole messages. A message has a type (except the first one), a length and the contents.
fn pass_messages(
    mut client: TcpStream,
    mut server: &UnixStream,
    state: &Mutex<State>,
    drops_answers: &Mutex<bool>,
) -> io::Result<()> {
    let mut is_first = true;
    loop {
        let mut head = vec![0; if is_first { 4 } else { 5 }];
        client.read_exact(&mut head)?;
        let length: [u8; 4] = head[head.len() - 4..].try_into().expect("four bytes");
        let mut body = vec![0; (u32::from_be_bytes(length) as usize).saturating_sub(4)];
        client.read_exact(&mut body)?;
        let is_commit = !is_first && head[0] == b'Q' && body == b"COMMIT\0";
        is_first = false;
        let verdict = verdict(&mut lock(state), is_commit);
        if let Verdict::Cut = verdict {
            return client.shutdown(Shutdown::Both);
        }
        if let Verdict::PassAndDropAnswer = verdict {
            *drops_answers.lock().unwrap_or_else(PoisonError::into_inner) = true;
        }
        server.write_all(&head)?;
        server.write_all(&body)?;
    }
}

fn verdict(state: &mut State, is_commit: bool) -> Verdict {
    state.messages += 1;
    state.commits += usize::from(is_commit);
    let verdict = match state.cut {
        Some(Cut::Message(number)) if state.messages >= number => Verdict::Cut,
        Some(Cut::BeforeCommit) if is_commit => Verdict::Cut,
        Some(Cut::AfterCommit) if is_commit => Verdict::PassAndDropAnswer,
        Some(Cut::AfterCommits(number)) if is_commit && state.commits >= number => Verdict::PassAndDropAnswer,
        _ => return Verdict::Pass,
    };
    state.cut = None;
    state.cuts += 1;
    verdict
}

fn pass_answers(mut server: UnixStream, mut client: &TcpStream, drops_answers: &Mutex<bool>) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = server.read(&mut buffer)?;
        if read == 0 || *drops_answers.lock().unwrap_or_else(PoisonError::into_inner) {
            return Ok(());
        }
        client.write_all(&buffer[..read])?;
    }
}
