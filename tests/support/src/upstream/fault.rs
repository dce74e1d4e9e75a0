//! What can go wrong on the other side.

/// A fault of one answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// This status, with a short text.
    Status(u16),
    /// 429 with `Retry-After` in seconds.
    TooMany(u64),
    /// 401 that asks for a password.
    Unauthorized,
    /// The connection breaks after half of the body.
    CutBody,
    /// One bit in the middle of the body is another.
    WrongBytes,
    /// More bytes than there should be.
    LongBody,
    /// The `Content-Type` is this one.
    ContentType(&'static str),
    /// The request for a part is answered with the whole.
    IgnoreRange,
    /// No answer ever comes.
    Silence,
}

/// A fault waiting for its requests.
#[derive(Clone, Debug)]
pub(super) struct Script {
    part: String,
    fault: Fault,
    left: usize,
}

impl Script {
    pub fn new(part: &str, fault: Fault, times: usize) -> Script {
        Script {
            part: part.to_owned(),
            fault,
            left: times,
        }
    }

    /// The fault for a request, when it is meant.
    pub fn take(&mut self, path: &str) -> Option<Fault> {
        if self.left == 0 || !path.contains(&self.part) {
            return None;
        }
        self.left -= 1;
        Some(self.fault.clone())
    }
}
