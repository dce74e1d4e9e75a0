//! Running work that can be interrupted: the first Ctrl-C (or SIGTERM) stops it cleanly, the
//! second one stops at once.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::error::CommandError;
use crate::printer::Printer;
use crate::report::INTERRUPTED;

/// How long running file operations may take to end after an interruption.
const GRACE: Duration = Duration::from_secs(5);

/// The user stopped the work.
#[derive(Debug)]
pub struct Interrupted {
    /// How to continue.
    pub again: String,
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// Knows whether the user wants us to stop.
#[derive(Clone)]
pub struct Interrupt(watch::Receiver<bool>);

impl Interrupt {
    /// Ends when the user wants us to stop.
    pub async fn requested(mut self) {
        if self.0.wait_for(|stop| *stop).await.is_err() {
            // the listener is gone: nobody can ask any more
            std::future::pending::<()>().await;
        }
    }

    fn listen(printer: Printer) -> Result<Interrupt, CommandError> {
        let (sender, receiver) = watch::channel(false);
        let failed = |error| CommandError::io("cannot listen for signals", error);
        // its own thread and runtime: it must answer when all workers are busy or stopped
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .map_err(failed)?;
        let streams = {
            let _inside = runtime.enter();
            signal(SignalKind::interrupt()).and_then(|i| Ok((i, signal(SignalKind::terminate())?)))
        };
        let (mut interrupt, mut terminate) = streams.map_err(failed)?;
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                runtime.block_on(async move {
                    let mut next = async || {
                        tokio::select! {
                            _ = interrupt.recv() => {}
                            _ = terminate.recv() => {}
                        }
                    };
                    next().await;
                    printer.say("stopping; press Ctrl-C again to stop at once");
                    sender.send_replace(true);
                    next().await;
                    // the user does not want to wait for anything
                    std::process::exit(i32::from(INTERRUPTED));
                });
            })
            .map_err(failed)?;
        Ok(Interrupt(receiver))
    }
}

fn runtime() -> Result<tokio::runtime::Runtime, CommandError> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CommandError::io("cannot start worker threads", error))
}

/// Does `work` on worker threads. An interruption drops it, which takes its unfinished files
/// away, and is reported together with `again`, how to continue. A file operation that runs
/// already (a commit, too) goes on for up to [`GRACE`], so `again` must be true whether it
/// ends or not.
pub fn run<T>(
    printer: &Printer,
    again: &str,
    work: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<T> {
    let runtime = runtime()?;
    let interrupt = Interrupt::listen(printer.clone())?;
    let result = runtime.block_on(async {
        tokio::select! {
            biased;
            result = work => result,
            () = interrupt.requested() => Err(Interrupted { again: again.to_owned() }.into()),
        }
    });
    runtime.shutdown_timeout(GRACE);
    result
}

/// Serves until the user wants us to stop: `serve` gets the future that says so, and ends well.
pub fn serve<T, F>(printer: &Printer, serve: impl FnOnce(Interrupt) -> F) -> anyhow::Result<T>
where
    F: Future<Output = anyhow::Result<T>>,
{
    let runtime = runtime()?;
    let interrupt = Interrupt::listen(printer.clone())?;
    let result = runtime.block_on(serve(interrupt));
    runtime.shutdown_timeout(GRACE);
    result
}
