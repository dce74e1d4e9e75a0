//! Receiving an index: what comes in is read on a blocking thread while more comes.

use bytes::Bytes;
use http::StatusCode;
use tokio::sync::mpsc;

use super::Read;
use super::incoming::Incoming;
use crate::error::{Fault, RemoteError};
use crate::http::{Answer, Ask, Http};

/// Pieces that wait to be read.
const WAITING: usize = 16;

impl Http {
    /// The index that `ask` is answered with, read while it comes in; with `whole`, kept and
    /// read at its end.
    pub(crate) async fn receive_index(
        &self,
        place: &str,
        ask: &Ask,
        whole: bool,
    ) -> Result<Read, RemoteError> {
        let mut tries = self.tries();
        loop {
            let mut answer = self.send(place, ask, &mut tries).await?;
            if answer.response.status() != StatusCode::OK {
                return Err(answer.refusal(place).await);
            }
            match receive(&mut answer, whole).await {
                Ok(read) => {
                    answer.went_well();
                    return Ok(read);
                }
                Err(fault) => self.again(place, &answer, fault, &mut tries)?,
            }
        }
    }
}

async fn receive(answer: &mut Answer, whole: bool) -> Result<Read, Fault> {
    let (pieces, mut coming) = mpsc::channel::<Bytes>(WAITING);
    let reading = tokio::task::spawn_blocking(move || {
        let mut incoming = Incoming::new(whole);
        while let Some(piece) = coming.blocking_recv() {
            incoming.push(&piece)?;
        }
        incoming.finish()
    });
    let expected = answer.response.content_length();
    let mut received = 0;
    let cut = loop {
        match answer.response.chunk().await {
            Ok(Some(piece)) => {
                received += piece.len() as u64;
                if pieces.send(piece).await.is_err() {
                    // it made no sense; the reader says why
                    break None;
                }
            }
            Ok(None) => break None,
            Err(error) => break Some(error.without_url()),
        }
    };
    drop(pieces);
    let read = match reading.await {
        Ok(read) => read.map_err(Fault::Shape),
        Err(panic) => Err(Fault::Shape(panic.to_string())),
    };
    match cut {
        Some(error) => Err(Fault::Cut {
            received,
            expected,
            source: Some(error),
        }),
        None => read,
    }
}
