//! How the server itself stands: what will end a mirror, or already keeps part of it from
//! working, while it still answers. For the page and the metrics.

use std::sync::Arc;

use super::Shared;
use super::health::UNWRITABLE;
use crate::tls::Facts;

/// How the server itself stands.
#[derive(Clone, Debug, Default)]
pub(crate) struct Condition {
    /// The certificate in use.
    pub certificate: Option<Arc<Facts>>,
    /// Files of settings that are read again when they change, by what is in them; and whether
    /// they were changed and cannot be used.
    pub settings: Vec<(&'static str, bool)>,
    /// Wrong logins since the beginning.
    pub wrong_logins: u64,
    /// Where the store is to be written: whether what clients push now could be kept, and if not
    /// why.
    pub writing: Option<Result<(), String>>,
}

impl Condition {
    /// How it stands now. It may write to the disk, as `/readyz` does, and not more often.
    pub(super) async fn of(shared: &Shared) -> Condition {
        let mut settings = Vec::new();
        if let Some(tls) = &shared.outside.tls {
            settings.push(("certificate", tls.is_unread()));
        }
        let mut wrong_logins = 0;
        if let Some(gate) = &shared.gate {
            settings.extend(gate.unread());
            wrong_logins = gate.wrong_logins();
        }
        let writing = match &shared.push {
            _ if shared.unwritable => Some(Err(UNWRITABLE.to_owned())),
            None => None,
            Some(_) => {
                let why = Arc::clone(&shared.readiness).why_not(shared).await;
                Some(why.map_or(Ok(()), Err))
            }
        };
        Condition {
            certificate: shared.outside.tls.as_ref().map(|tls| tls.facts()),
            settings,
            wrong_logins,
            writing,
        }
    }
}
