//! For whom something is counted.

use std::net::IpAddr;
use std::sync::Arc;

use super::Who;
use super::failures::group;

/// A user, or an address of those who show no login.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Client {
    /// A user, wherever the requests come from.
    User(Arc<str>),
    /// Everybody without a login at one address, which of IPv6 is a network.
    Address(IpAddr),
    /// Everybody of whom nothing is known.
    Unknown,
}

impl Client {
    /// Who asks, without a login from this address.
    pub fn of(who: &Who, address: Option<IpAddr>) -> Client {
        match (who, address) {
            (Who::User(name), _) => Client::User(Arc::clone(name)),
            (Who::Nobody, Some(address)) => Client::Address(group(address)),
            (Who::Nobody, None) => Client::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_one_client_everywhere_and_others_are_told_apart_by_address() {
        let of = |who: &Who, address: &str| Client::of(who, Some(address.parse().unwrap()));
        let alice = Who::User("alice".into());
        assert_eq!(of(&alice, "192.0.2.1"), of(&alice, "192.0.2.2"));
        assert_ne!(of(&alice, "192.0.2.1"), of(&Who::Nobody, "192.0.2.1"));
        for (one, other, same) in [
            ("192.0.2.1", "192.0.2.2", false),
            ("192.0.2.1", "::ffff:192.0.2.1", true),
            ("2001:db8::1", "2001:db8::2", true),
            ("2001:db8::1", "2001:db8:0:1::1", false),
        ] {
            let same_client = of(&Who::Nobody, one) == of(&Who::Nobody, other);
            assert_eq!(same_client, same, "{one} {other}");
        }
    }
}
