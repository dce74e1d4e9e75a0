//! Collection: taking away what nothing reaches, while others push and pull.

mod ledger;
mod list;
mod standing;

pub(super) use list::List;
pub(super) use standing::Standings;
