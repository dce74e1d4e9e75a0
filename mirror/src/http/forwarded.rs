//! How a request came here: what proxies in front of the mirror say of it. Anybody can say it, so
//! it counts only from those the settings name.

use std::net::IpAddr;
use std::str::FromStr;

use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, header::GetAll};

const FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Most proxies one behind the other that are looked at.
const MAX_HOPS: usize = 32;

/// An address, or all addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    fn holds(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(one)) => {
                let differ = network.to_bits() ^ one.to_bits();
                differ.leading_zeros() >= u32::from(self.bits)
            }
            (IpAddr::V6(network), IpAddr::V6(one)) => {
                let differ = network.to_bits() ^ one.to_bits();
                differ.leading_zeros() >= u32::from(self.bits)
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Network, String> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let given: IpAddr = address
            .parse()
            .map_err(|_| "it is no address; write 10.0.0.5 or 10.0.0.0/8".to_owned())?;
        let address = given.to_canonical();
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => most,
            Some(bits) => bits
                .parse()
                .ok()
                .filter(|bits| *bits <= most && given == address)
                .ok_or_else(|| format!("behind / stands a number up to {most}"))?,
        };
        Ok(Network { address, bits })
    }
}

/// How a request came here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Way {
    /// The client's address, where it is known.
    pub(super) client: Option<IpAddr>,
    /// It came through a proxy that is trusted.
    pub(super) proxied: bool,
    /// Whether the client spoke TLS with that proxy, where it says so.
    pub(super) tls: Option<bool>,
}

/// The way of a request that `peer` sent with these headers.
pub(super) fn way(peer: Option<IpAddr>, headers: &HeaderMap, trusted: &[Network]) -> Way {
    let is_trusted = |address: IpAddr| trusted.iter().any(|network| network.holds(address));
    let proxied = peer.is_some_and(is_trusted);
    if !proxied {
        return Way {
            client: peer,
            ..Way::default()
        };
    }
    // each proxy appends whom it saw, so one goes back as long as it is a proxy who says so
    let mut client = peer;
    for hop in parts_from_the_end(&headers.get_all(FOR)).take(MAX_HOPS) {
        match (client.is_some_and(is_trusted), hop.and_then(address)) {
            (true, Some(before)) => client = Some(before),
            _ => break,
        }
    }
    let lines = headers.get_all(PROTO);
    let said = parts_from_the_end(&lines).take(MAX_HOPS).flatten();
    let said: Vec<&str> = said.map(str::trim).collect();
    let says = |scheme: &str| said.iter().any(|one| one.eq_ignore_ascii_case(scheme));
    Way {
        client,
        proxied,
        // where one of several proxies got it over TLS, clients are not sent around that
        tls: match (says("https"), says("http")) {
            (true, _) => Some(true),
            (false, true) => Some(false),
            (false, false) => None,
        },
    }
}

/// What stands between commas, the last first. A part that is no text is `None` and the others
/// count: a client may send any bytes before what its proxy appends.
fn parts_from_the_end<'h>(
    lines: &GetAll<'h, HeaderValue>,
) -> impl Iterator<Item = Option<&'h str>> + use<'h> {
    let lines = lines.iter().rev();
    let parts = lines.flat_map(|line| line.as_bytes().rsplit(|byte| *byte == b','));
    parts.map(|part| std::str::from_utf8(part).ok())
}

/// An address with or without a port.
fn address(hop: &str) -> Option<IpAddr> {
    let hop = hop.trim();
    let bare = hop
        .strip_prefix('[')
        .and_then(|rest| rest.split(']').next());
    let found = hop
        .parse::<IpAddr>()
        .or_else(|_| bare.unwrap_or(hop).parse())
        .or_else(|_| hop.parse().map(|socket: std::net::SocketAddr| socket.ip()));
    found.ok().map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<V: AsRef<[u8]>>(peer: &str, lines: &[(HeaderName, V)]) -> Way {
        let trusted = ["10.0.0.0/8", "fd00::/64", "192.0.2.7"].map(|n| n.parse().unwrap());
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            let value = HeaderValue::from_bytes(value.as_ref()).unwrap();
            headers.append(name, value);
        }
        way(Some(peer.parse().unwrap()), &headers, &trusted)
    }

    #[test]
    fn what_is_said_counts_from_proxies_that_are_trusted() {
        for (peer, said, want) in [
            ("10.0.0.1", "198.51.100.4", "198.51.100.4"),
            ("::ffff:10.0.0.1", "198.51.100.4:1234", "198.51.100.4"),
            ("fd00::1", "[2001:db8::1]:443", "2001:db8::1"),
            ("192.0.2.7", " 2001:db8::1 ", "2001:db8::1"),
            // a client says something before its proxy does
            ("10.0.0.1", "127.0.0.1, 198.51.100.4", "198.51.100.4"),
            (
                "10.0.0.1",
                "127.0.0.1, 198.51.100.4, 10.9.9.9",
                "198.51.100.4",
            ),
            // others say it
            ("192.0.2.8", "198.51.100.4", "192.0.2.8"),
            ("198.51.100.9", "10.0.0.1", "198.51.100.9"),
            ("fd00:0:0:1::1", "198.51.100.4", "fd00:0:0:1::1"),
            // nobody says it
            ("10.0.0.1", "unknown", "10.0.0.1"),
            ("10.0.0.1", "198.51.100.4, unknown", "10.0.0.1"),
            ("10.0.0.1", "", "10.0.0.1"),
        ] {
            let got = of(peer, &[(FOR, said)]);
            assert_eq!(got.client, Some(want.parse().unwrap()), "{peer} {said}");
        }
        let lines = [(FOR, "198.51.100.4"), (FOR, "10.0.0.2")];
        assert_eq!(of("10.0.0.1", &lines).client, "198.51.100.4".parse().ok());
    }

    #[test]
    fn bytes_that_are_no_text_hide_nothing_a_proxy_appended() {
        for (said, want) in [
            (&b"\xff, 198.51.100.4"[..], "198.51.100.4"),
            (b"\xff,\xff", "10.0.0.1"),
            (b"\xff", "10.0.0.1"),
            (b"198.51.100.4, \xff, 10.0.0.2", "10.0.0.2"),
        ] {
            let way = of("10.0.0.1", &[(FOR, said), (PROTO, b"\xff, https")]);
            assert_eq!(way.client, want.parse().ok(), "{said:?}");
            assert_eq!(way.tls, Some(true));
        }
    }

    #[test]
    fn a_scheme_is_never_weaker_than_one_of_the_proxies_says() {
        for (peer, said, want) in [
            ("10.0.0.1", "https", Some(true)),
            ("10.0.0.1", "HTTP", Some(false)),
            ("10.0.0.1", "https, http", Some(true)),
            ("10.0.0.1", "gopher", None),
            ("192.0.2.8", "http", None),
        ] {
            assert_eq!(of(peer, &[(PROTO, said)]).tls, want, "{peer} {said}");
        }
    }

    #[test]
    fn a_network_is_an_address_and_a_number_of_bits() {
        let holds = |network: &str, address: &str| {
            let network: Network = network.parse().unwrap();
            network.holds(address.parse().unwrap())
        };
        assert!(holds("0.0.0.0/0", "203.0.113.1") && !holds("0.0.0.0/0", "::1"));
        assert!(holds("10.1.2.3", "10.1.2.3") && !holds("10.1.2.3", "10.1.2.4"));
        assert!(holds("10.1.2.3/24", "10.1.2.200") && !holds("10.1.2.3/24", "10.1.3.3"));
        assert!(holds("::/0", "::1") && holds("::1/128", "::1") && !holds("::1", "::2"));
        for bad in [
            "",
            "mirror.lan",
            "10.0.0.0/33",
            "10.0.0.0/-1",
            "::/129",
            "10.0.0.1/",
            "::ffff:10.0.0.1/96",
        ] {
            assert!(bad.parse::<Network>().is_err(), "{bad}");
        }
    }
}
