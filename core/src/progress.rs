//! How long work is reported without printing: libraries call this, the command draws it.

/// Receives the progress of one piece of work. Bytes only ever go up; content that turns out
/// not to be needed is counted as done, so that the total is reached.
pub trait Progress: Send + Sync {
    /// A phase begins: what is done, in a few words, and how many bytes it will take.
    fn begin(&self, what: &str, total: u64);

    /// `bytes` more are done.
    fn advance(&self, bytes: u64);

    /// The phase is over.
    fn end(&self);
}

/// Reports to nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn begin(&self, _what: &str, _total: u64) {}
    fn advance(&self, _bytes: u64) {}
    fn end(&self) {}
}
