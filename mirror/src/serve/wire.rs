//! A connection that sends parts of files where a body yielded their placeholder, and gathers the
//! small frames of HTTP/2.

use std::fs::File;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::io::Errno;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

use super::guard::Asked;
use super::socket::Socket;
use crate::http::{Buffer, Handoff, LARGE, Part, Pool, is_placeholder};

/// A socket, and the place where files are handed over to it.
#[derive(Debug)]
pub(super) struct Wire {
    stream: Socket,
    handoff: Handoff,
    asked: Arc<Asked>,
    buffers: Arc<Pool>,
    /// Frames of HTTP/2 that were written here and not sent yet.
    gathered: Option<Buffer>,
    /// How many of these bytes were sent.
    sent: usize,
    /// Some were written since sending was last tried.
    fresh: bool,
}

impl Wire {
    pub(super) fn new(
        stream: Socket,
        handoff: Handoff,
        asked: Arc<Asked>,
        buffers: Arc<Pool>,
    ) -> Wire {
        Wire {
            stream,
            handoff,
            asked,
            buffers,
            gathered: None,
            sent: 0,
            fresh: false,
        }
    }

    /// Gathers frames; sends them only to have room for more. The protocol's machine asks for a
    /// flush after each frame, so that is no reason to send either.
    fn poll_gather(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        loop {
            let buffer = self
                .gathered
                .get_or_insert_with(|| self.buffers.take(LARGE as u64));
            let taken = slices.iter().map(|slice| buffer.add(slice)).sum();
            if taken > 0 || slices.iter().all(|slice| slice.is_empty()) {
                self.fresh = true;
                return Poll::Ready(Ok(taken));
            }
            ready!(self.poll_send(cx))?;
        }
    }

    /// Sends what was gathered, and gives the buffer back.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.fresh = false;
        let Some(gathered) = &self.gathered else {
            return Poll::Ready(Ok(()));
        };
        while self.sent < gathered.filled() {
            let rest = &gathered.as_ref()[self.sent..];
            match ready!(Pin::new(&mut self.stream).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                n => {
                    self.sent += n;
                    self.asked.sent(n);
                }
            }
        }
        self.gathered = None;
        self.sent = 0;
        Poll::Ready(Ok(()))
    }

    /// Sends at most `len` bytes of the part that was handed over.
    fn poll_part(&self, cx: &mut Context<'_>, len: usize) -> Poll<io::Result<usize>> {
        let Socket::Plain(stream) = &self.stream else {
            return Poll::Ready(Err(broken("a file was handed over where it is encrypted")));
        };
        let send = || {
            self.handoff.send(|part| match part {
                Some(part) if len <= part.left => send_file(stream, part, len),
                _ => Err(broken("a placeholder came without its file")),
            })
        };
        loop {
            ready!(stream.poll_write_ready(cx))?;
            match stream.try_io(Interest::WRITABLE, send) {
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                    ) => {}
                sent => return Poll::Ready(sent),
            }
        }
    }
}

fn send_file(stream: &TcpStream, part: &Part, len: usize) -> io::Result<usize> {
    match sendfile(stream, &part.file, part.offset, len) {
        Ok(0) => {
            // the length was announced; ending the connection is the only honest answer
            tracing::error!("a file of the store ends early");
            Err(io::ErrorKind::UnexpectedEof.into())
        }
        Ok(sent) => Ok(sent),
        Err(Errno::IO) => {
            tracing::error!("cannot read a file of the store");
            Err(Errno::IO.into())
        }
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(target_os = "linux")]
fn sendfile(to: &TcpStream, file: &File, mut offset: u64, len: usize) -> Result<usize, Errno> {
    rustix::fs::sendfile(to, file, Some(&mut offset), len)
}

/// Never called: elsewhere nothing is handed over.
#[cfg(not(target_os = "linux"))]
fn sendfile(_: &TcpStream, _: &File, _: u64, _: usize) -> Result<usize, Errno> {
    Err(Errno::NOSYS)
}

fn broken(what: &'static str) -> io::Error {
    tracing::error!("{what}");
    io::Error::other(what)
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // The machine writes all it has before it reads: now there is no more to gather. Where
        // the socket takes no more, it wakes this task when it does.
        if let Poll::Ready(Err(error)) = self.poll_send(cx) {
            return Poll::Ready(Err(error));
        }
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if is_placeholder(bytes) {
            return self.poll_part(cx, bytes.len());
        }
        // pieces come here one by one only after they were copied together
        if self.handoff.is_taken() {
            return Poll::Ready(Err(broken("a placeholder was copied")));
        }
        if self.asked.is_multiplexed() {
            return self.poll_gather(cx, &[IoSlice::new(bytes)]);
        }
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.asked.is_multiplexed() {
            return self.poll_gather(cx, slices);
        }
        let first = slices.iter().position(|slice| !slice.is_empty());
        let slices = &slices[first.unwrap_or_default()..];
        match slices.iter().position(|slice| is_placeholder(slice)) {
            None => Pin::new(&mut self.stream).poll_write_vectored(cx, slices),
            Some(0) => self.poll_part(cx, slices[0].len()),
            // In a packet of its own: held back for the file, it made sending the file three
            // times as dear.
            Some(before) => Pin::new(&mut self.stream).poll_write_vectored(cx, &slices[..before]),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // everything was written
        if self.handoff.is_taken() {
            return Poll::Ready(Err(broken("a file was handed over and not sent")));
        }
        if self.gathered.is_some() {
            // They are sent in this task's next turn, which comes when others had theirs: who
            // makes more of the same answer is among them. What was tried waits for the socket.
            if self.fresh {
                cx.waker().wake_by_ref();
            }
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use http::Version;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    async fn connected(handoff: &Handoff) -> (Wire, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (client, server) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (server, _) = server.unwrap();
        let server = Socket::Plain(server);
        let wire = Wire::new(server, handoff.clone(), Arc::default(), Arc::default());
        (wire, client.unwrap())
    }

    fn file() -> Arc<File> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[b'f'; 100_000]).unwrap();
        Arc::new(file)
    }

    #[tokio::test]
    async fn what_stands_before_a_file_goes_before_it() {
        let handoff = Handoff::default();
        let (mut wire, mut client) = connected(&handoff).await;
        let placeholder = handoff.give(&file(), 10, 50_000).unwrap();
        let slices = |done: usize| {
            let before = [b"" as &[u8], b"head", b"er", &placeholder, b"after"];
            let mut skip = done;
            before.map(|piece| {
                let cut = skip.min(piece.len());
                skip -= cut;
                IoSlice::new(&piece[cut..])
            })
        };
        let mut done = 0;
        while done < 50_011 {
            done += wire.write_vectored(&slices(done)).await.unwrap();
        }
        wire.flush().await.unwrap();
        drop(wire);
        let mut got = Vec::new();
        client.read_to_end(&mut got).await.unwrap();
        let want = [b"header" as &[u8], &[b'f'; 50_000], b"after"].concat();
        assert!(got == want);
    }

    #[tokio::test]
    async fn no_byte_of_a_placeholder_is_sent_for_itself() {
        let handoff = Handoff::default();
        let (mut wire, mut client) = connected(&handoff).await;
        let stale = handoff.give(&file(), 0, 70_000).unwrap();
        let copied = stale.to_vec();
        assert!(wire.write(&copied).await.is_err(), "it was copied");
        assert!(wire.flush().await.is_err(), "it was lost");
        wire.write_all(&stale).await.unwrap();
        assert!(wire.write(&stale).await.is_err(), "its file was sent");
        handoff.give(&file(), 0, 10).unwrap();
        assert!(wire.write(&stale).await.is_err(), "it is another's");
        drop(wire);
        let mut got = Vec::new();
        client.read_to_end(&mut got).await.unwrap();
        assert!(got == [b'f'; 70_000]);
    }

    #[tokio::test]
    async fn frames_are_sent_together_and_none_stays_behind() {
        let (mut wire, mut client) = connected(&Handoff::default()).await;
        let _open = wire.asked.begin(Version::HTTP_2);
        let frame = vec![7; 16 * 1024];
        wire.write_all(&frame).await.unwrap();
        wire.flush().await.unwrap();
        assert_eq!(
            client.try_read(&mut [0]).unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
        let mut got = vec![0; frame.len()];
        let mut byte = [0];
        tokio::select! {
            read = client.read_exact(&mut got) => assert_eq!(read.unwrap(), frame.len()),
            _ = wire.read(&mut byte) => panic!("the client said nothing"),
        }
        // more than the socket takes, and then the end
        let all = vec![8; 64 * frame.len()];
        let (written, read) = tokio::join!(
            async {
                for frame in all.chunks(frame.len()) {
                    wire.write_all(frame).await?;
                    wire.flush().await?;
                }
                wire.shutdown().await
            },
            async {
                let mut got = Vec::new();
                client.read_to_end(&mut got).await.map(|_| got)
            }
        );
        written.unwrap();
        assert!(read.unwrap() == all);
    }

    #[tokio::test]
    async fn a_file_that_ends_early_is_an_error() {
        let handoff = Handoff::default();
        let (mut wire, _client) = connected(&handoff).await;
        let placeholder = handoff.give(&file(), 90_000, 50_000).unwrap();
        assert_eq!(wire.write(&placeholder).await.unwrap(), 10_000);
        let ended = wire.write(&placeholder[10_000..]).await.unwrap_err();
        assert_eq!(ended.kind(), io::ErrorKind::UnexpectedEof);
    }
}
