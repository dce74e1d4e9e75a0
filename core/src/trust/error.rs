//! Refusals and warnings, in words a site operator can act on.

use std::fmt;

use super::{Difference, RootError};
use crate::Digest;
use crate::error::{Classify, Kind};
use crate::index::signature::SignatureError;
use crate::index::{IndexError, LeftOutWhy};
use crate::keys::KeyId;
use crate::location::CanonicalUrl;
use crate::time::Time;

/// Why an index, or a package that claims to be from it, is refused. The text does not repeat
/// the URL of the repository, which [`Classify::place`] gives.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// There is no root of trust, and the entry wants one.
    #[error("this repository has no root of trust (root.yaml is missing)")]
    NoRoot {
        /// The index.
        url: CanonicalUrl,
    },
    /// A root cannot be used.
    #[error("{file}: {source}")]
    Root {
        /// The index.
        url: CanonicalUrl,
        /// The root file.
        file: String,
        /// What is wrong.
        source: Box<RootError>,
    },
    /// A step of the chain of roots is missing.
    #[error("root/{number}.yaml is missing: the chain of roots cannot be followed")]
    RootMissing {
        /// The index.
        url: CanonicalUrl,
        /// The version that is missing.
        number: u32,
    },
    /// The current root is given in two forms.
    #[error("root.yaml is version {version}, but differs from root/{version}.yaml")]
    RootTwin {
        /// The index.
        url: CanonicalUrl,
        /// Its version.
        version: u32,
    },
    /// A root lies under another number than its own.
    #[error("root/{number}.yaml holds version {found}")]
    RootNumber {
        /// The index.
        url: CanonicalUrl,
        /// The number of the file.
        number: u32,
        /// The version in it.
        found: u32,
    },
    /// Too few of the keys that must sign a root have.
    #[error("root version {version} is signed by {have} of {by}, and needs {need}")]
    RootUnsigned {
        /// The index.
        url: CanonicalUrl,
        /// Its version.
        version: u32,
        /// Whose signatures were counted.
        by: String,
        /// How many there are.
        have: usize,
        /// How many must be.
        need: u32,
    },
    /// The current root has expired.
    #[error(
        "root version {version} expired at {expires}, {} ago (it is {today})",
        span(today.since(*expires))
    )]
    RootExpired {
        /// The index.
        url: CanonicalUrl,
        /// Its version.
        version: u32,
        /// Its `expires`.
        expires: Time,
        /// The time it was judged by.
        today: Time,
    },
    /// A root below the accepted one.
    #[error(
        "root version {version} (expires {expires}) is older than version {accepted} (expires \
         {accepted_expires}), which was accepted before: refusing a rollback"
    )]
    RootOlder {
        /// The index.
        url: CanonicalUrl,
        /// Its version.
        version: u32,
        /// Its `expires`.
        expires: Time,
        /// Version of the accepted root.
        accepted: u32,
        /// `expires` of the accepted root.
        accepted_expires: Time,
    },
    /// Two roots of one version.
    #[error(
        "a forked root chain: root version {version} offered now (expires {offered_expires}) is \
         {offered}; in the chain accepted before, up to version {accepted_version} (expires \
         {accepted_expires}), it is {accepted}"
    )]
    RootFork {
        /// The index.
        url: CanonicalUrl,
        /// The version there are two of.
        version: u32,
        /// Digest of the one offered.
        offered: Box<Digest>,
        /// `expires` of the one offered.
        offered_expires: Time,
        /// Digest of the one accepted.
        accepted: Box<Digest>,
        /// Version of the root accepted last.
        accepted_version: u32,
        /// `expires` of the root accepted last.
        accepted_expires: Time,
    },
    /// An index without an expiry in a repository with a root.
    #[error("the index has no expiry, which a repository with a root of trust must give it")]
    NoExpiry {
        /// The index.
        url: CanonicalUrl,
    },
    /// The index is older than this side allows.
    #[error(
        "the index {}, and this side takes none older than {} (it is {today})",
        made_at(.generated), span(*max_age)
    )]
    TooOld {
        /// The index.
        url: CanonicalUrl,
        /// Its `generated`.
        generated: Option<Time>,
        /// Largest age in seconds.
        max_age: i64,
        /// The time it was judged by.
        today: Time,
    },
    /// The index is older than the accepted one.
    #[error(
        "the index {} is older than the one accepted before (at {first_seen}), which {}: refusing \
         a rollback",
        of_time(.generated), accepted_at(.accepted)
    )]
    Older {
        /// The index.
        url: CanonicalUrl,
        /// Its `generated`.
        generated: Option<Time>,
        /// `generated` of the accepted one.
        accepted: Option<Time>,
        /// When that was accepted.
        first_seen: Time,
    },
    /// Other trust than before.
    #[error(
        "the trust given for this repository is not the one that is stored ({id}): {}",
        stored_and_given(.differs)
    )]
    OtherTrust {
        /// The index.
        url: CanonicalUrl,
        /// Id of the entry.
        id: String,
        /// What differs.
        differs: Vec<Difference>,
    },
    /// There is no signature.
    #[error("the index is not signed ({}.sig is missing)", .url.file_name())]
    Unsigned {
        /// The index.
        url: CanonicalUrl,
    },
    /// The signature file cannot be read.
    #[error("the signature file of the index cannot be read: {source}")]
    Signature {
        /// The index.
        url: CanonicalUrl,
        /// What is wrong.
        source: Box<SignatureError>,
    },
    /// No trusted key signed these bytes.
    #[error(
        "the index is not signed by a key you trust, or was changed after signing; \
         trusted: {}; the signature file names: {}",
        ids(.trusted), ids(.claimed)
    )]
    Untrusted {
        /// The index.
        url: CanonicalUrl,
        /// The keys that were given.
        trusted: Vec<KeyId>,
        /// The keys the signature file names; the plain form names none.
        claimed: Vec<KeyId>,
    },
    /// Some trusted keys signed these bytes, but not enough.
    #[error(
        "the index is signed by {have} trusted {}, and needs {need}; trusted: {}; the signature \
         file names: {}",
        if *have == 1 { "key" } else { "keys" }, ids(.trusted), ids(.claimed)
    )]
    TooFew {
        /// The index.
        url: CanonicalUrl,
        /// How many signed.
        have: usize,
        /// How many must.
        need: u32,
        /// The keys that may sign.
        trusted: Vec<KeyId>,
        /// The keys the signature file names.
        claimed: Vec<KeyId>,
    },
    /// There is a signature, and nobody said whose it should be.
    #[error("the index is signed, and no public key is given to check that with")]
    KeyWanted {
        /// The index.
        url: CanonicalUrl,
    },
    /// An unsigned index where a signed one was accepted.
    #[error(
        "the index is not checked by any key; the one accepted before was signed by {}",
        ids(.keys)
    )]
    SignedBefore {
        /// The index.
        url: CanonicalUrl,
        /// Who signed the accepted one.
        keys: Vec<KeyId>,
    },
    /// Acceptable, but no usable index.
    #[error("the index is {}not valid: {source}", if *.signed { "signed but " } else { "" })]
    Index {
        /// The index.
        url: CanonicalUrl,
        /// Whether a trusted key signed it.
        signed: bool,
        /// What is wrong.
        source: Box<IndexError>,
    },
    /// The index says it belongs elsewhere.
    #[error("the index offered for this repository says that it is the index of {named}")]
    OtherRepository {
        /// The index wanted.
        url: CanonicalUrl,
        /// What it says.
        named: CanonicalUrl,
    },
    /// The index does not say where it belongs, but must.
    #[error(
        "the index does not name its own URL, and one of its keys is trusted for another \
         repository too: it could be that repository's index"
    )]
    NoUrl {
        /// The index.
        url: CanonicalUrl,
    },
    /// The index does not say where it belongs any more.
    #[error("the index does not name its own URL; the one accepted before does")]
    UrlDropped {
        /// The index.
        url: CanonicalUrl,
    },
    /// The key signs for another repository of this store.
    #[error(
        "the index does not name its own URL, and key {key} is one of {other}, which is known \
         here: it could be an index of that repository, offered under another URL"
    )]
    KnownKey {
        /// The index.
        url: CanonicalUrl,
        /// The key.
        key: KeyId,
        /// The repository it is known from.
        other: CanonicalUrl,
    },
    /// Two repositories would be served at one place.
    #[error("this repository and {other}, which is in the store, have the same place in a mirror")]
    SitesMeet {
        /// The index.
        url: CanonicalUrl,
        /// The index in the store.
        other: CanonicalUrl,
    },
    /// The record of a known repository is gone.
    #[error("the record of what was accepted for this repository ({id}) is missing")]
    RecordMissing {
        /// The index.
        url: CanonicalUrl,
        /// Its entry.
        id: String,
    },
    /// The memory belongs to another repository.
    #[error(
        "the record of what was accepted for this repository ({id}) is that of {recorded_url} ({recorded_id})"
    )]
    OtherMemory {
        /// The index.
        url: CanonicalUrl,
        /// Its entry.
        id: String,
        /// The URL in the record.
        recorded_url: CanonicalUrl,
        /// The entry in the record.
        recorded_id: String,
    },
    /// The index has no time, so it cannot be placed before or after the accepted one.
    #[error(
        "the index does not say when it was generated; the one accepted before {}",
        accepted_at(.accepted)
    )]
    NoGenerated {
        /// The index.
        url: CanonicalUrl,
        /// `generated` of the accepted index.
        accepted: Option<Time>,
    },
    /// Two different indexes of one time.
    #[error(
        "there are two different indexes, both signed and generated at {generated}: \
         accepted before was {accepted}, offered now is {offered}"
    )]
    Fork {
        /// The index.
        url: CanonicalUrl,
        /// `generated` of both.
        generated: Time,
        /// Digest of the accepted one.
        accepted: Box<Digest>,
        /// Digest of the other.
        offered: Box<Digest>,
    },
    /// The index is from the future.
    #[error(
        "the index was generated at {generated}, more than a day ahead of this \
         machine's clock ({clock})"
    )]
    Future {
        /// The index.
        url: CanonicalUrl,
        /// Its `generated`.
        generated: Time,
        /// The clock.
        clock: Time,
    },
    /// The index has expired.
    #[error(
        "the index expired at {expires}, {} ago (it is {today}{})",
        span(today.since(*expires)), generated_at(.generated)
    )]
    Expired {
        /// The index.
        url: CanonicalUrl,
        /// Its `expires`.
        expires: Time,
        /// Its `generated`.
        generated: Option<Time>,
        /// The time it was judged by.
        today: Time,
    },
    /// A package is not in the signed index.
    #[error("{package} is not in the signed index{}", index_of(.generated))]
    NotListed {
        /// Name, version and build.
        package: String,
        /// `generated` of the index.
        generated: Option<Time>,
        /// Whether the index has versions of it that this kubepkg is too old for.
        too_new: bool,
    },
    /// A package is in the signed index, and cannot be chosen.
    #[error("{package} cannot be used: {} (index{})", lacks(.why), index_of(.generated))]
    LeftOut {
        /// Name, version and build.
        package: String,
        /// `generated` of the index.
        generated: Option<Time>,
        /// Why.
        why: Box<LeftOutWhy>,
    },
    /// A package has another spec than in the signed index.
    #[error("{package} has the digest {claimed}, but the signed index lists {listed}")]
    OtherSpec {
        /// Name, version and build.
        package: String,
        /// The digest in the index.
        listed: Box<Digest>,
        /// The digest it came with.
        claimed: Box<Digest>,
    },
}

/// Something to tell the user about an index that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// Nothing was verified.
    Unsigned {
        /// The index.
        url: CanonicalUrl,
    },
    /// It expires soon.
    ExpiresSoon {
        /// The index.
        url: CanonicalUrl,
        /// When.
        expires: Time,
        /// The time it was judged by.
        today: Time,
    },
    /// Its root expires soon.
    RootExpiresSoon {
        /// The index.
        url: CanonicalUrl,
        /// When.
        expires: Time,
        /// The time it was judged by.
        today: Time,
    },
    /// It does not expire and is old.
    Old {
        /// The index.
        url: CanonicalUrl,
        /// Its `generated`.
        generated: Time,
        /// The time it was judged by.
        today: Time,
    },
    /// It does not say when it was made.
    NoGenerated {
        /// The index.
        url: CanonicalUrl,
    },
    /// Who is trusted, or what is asked, is another than before.
    TrustChanged {
        /// The index.
        url: CanonicalUrl,
        /// What is other.
        changes: Vec<Difference>,
    },
    /// The clock of this machine is behind what it has seen.
    ClockBehind {
        /// The clock.
        clock: Time,
        /// `generated` of the index accepted last, which was used as the time.
        accepted: Time,
    },
}

impl TrustError {
    fn url(&self) -> Option<&CanonicalUrl> {
        match self {
            TrustError::NoRoot { url }
            | TrustError::Root { url, .. }
            | TrustError::RootMissing { url, .. }
            | TrustError::RootTwin { url, .. }
            | TrustError::RootNumber { url, .. }
            | TrustError::RootUnsigned { url, .. }
            | TrustError::RootExpired { url, .. }
            | TrustError::RootOlder { url, .. }
            | TrustError::RootFork { url, .. }
            | TrustError::NoExpiry { url }
            | TrustError::TooOld { url, .. }
            | TrustError::Older { url, .. }
            | TrustError::OtherTrust { url, .. }
            | TrustError::TooFew { url, .. }
            | TrustError::Unsigned { url }
            | TrustError::Signature { url, .. }
            | TrustError::Untrusted { url, .. }
            | TrustError::Index { url, .. }
            | TrustError::OtherRepository { url, .. }
            | TrustError::NoUrl { url }
            | TrustError::KeyWanted { url }
            | TrustError::SignedBefore { url, .. }
            | TrustError::UrlDropped { url }
            | TrustError::KnownKey { url, .. }
            | TrustError::SitesMeet { url, .. }
            | TrustError::OtherMemory { url, .. }
            | TrustError::RecordMissing { url, .. }
            | TrustError::NoGenerated { url, .. }
            | TrustError::Fork { url, .. }
            | TrustError::Future { url, .. }
            | TrustError::Expired { url, .. } => Some(url),
            TrustError::NotListed { .. }
            | TrustError::LeftOut { .. }
            | TrustError::OtherSpec { .. } => None,
        }
    }
}

impl Classify for TrustError {
    fn kind(&self) -> Kind {
        Kind::Refused
    }

    fn place(&self) -> Option<String> {
        self.url().map(ToString::to_string)
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            TrustError::NoRoot { .. } => {
                "this side trusts a root for it, so plain signatures do not count; ask the \
                 publisher where the root went"
            }
            TrustError::Root { source, .. } => return source.hint(),
            TrustError::RootMissing { .. } | TrustError::RootNumber { .. } => {
                "get all root files again, from one place; the publisher must serve root/1.yaml \
                 up to the version of root.yaml"
            }
            TrustError::RootTwin { .. } => {
                "the publisher may be changing its root just now: get the files again later"
            }
            TrustError::RootUnsigned { .. } => {
                "ask the publisher, over a way you trust, for the root keys; a new root must be \
                 signed by enough keys of the one before and by enough of its own"
            }
            TrustError::RootExpired { .. } => {
                "get a newer root: make the bundle again on the connected side; if there is none, \
                 the publisher must make one (`kubepkg trust root next`). Check this machine's \
                 clock too"
            }
            TrustError::RootOlder { .. } | TrustError::Older { .. } => {
                "get the files again from the publisher; if they stay old, somebody holds newer \
                 ones back. `kubepkg trust reset ID` (`kubepkg trust show` lists the ids) drops what \
                 was accepted, if the publisher says that it went back on purpose"
            }
            TrustError::RootFork { .. } => {
                "do not use either before the publisher has said which is genuine; if it began \
                 anew, `kubepkg trust reset ID` (`kubepkg trust show` lists the ids) drops what was \
                 accepted"
            }
            TrustError::NoExpiry { .. } => {
                "ask the publisher to make the index with an expiry (`kubepkg repo index \
                 --expires 720h`)"
            }
            TrustError::TooOld { .. } => {
                "get a newer index: make the bundle again on the connected side; --max-age allows \
                 older ones"
            }
            TrustError::OtherTrust { .. } => {
                "leave the flags away to use what is stored; if the trust is meant to change, \
                 say so with --change-trust"
            }
            TrustError::Unsigned { .. } => {
                "ask the publisher for a signed index; --allow-unsigned accepts it on nobody's word"
            }
            TrustError::Signature { .. } => {
                "fetch index.yaml and index.yaml.sig again, both from the publisher"
            }
            TrustError::TooFew { .. } => {
                "ask the publisher to have the index signed by more of its keys (`kubepkg trust \
                 sign index.yaml --key KEY`)"
            }
            TrustError::Untrusted { .. } => {
                "ask the publisher, over a way you trust, which key signs now; if it is another \
                 one, give that with --public-key FILE, or get the newer root that names it where a \
                 root is trusted; else do not use this file"
            }
            TrustError::Index { source, .. } => {
                return source.hint().or_else(|| {
                    Some("tell the publisher; only a corrected and newly signed index helps".into())
                });
            }
            TrustError::OtherRepository { .. } => {
                "give the URL the index names, if that is the repository you mean; else somebody \
                 has exchanged the files"
            }
            TrustError::NoUrl { .. } => {
                "use a separate key for each repository, or have the publisher put `repository:` \
                 with the URL into the index and sign it again"
            }
            TrustError::KeyWanted { .. } => {
                "give the publisher's public key with --public-key FILE; --allow-unsigned is for \
                 an index without a signature"
            }
            TrustError::SignedBefore { .. } => {
                "give the publisher's public key with --public-key FILE; an index without a \
                 signature never replaces a signed one"
            }
            TrustError::UrlDropped { .. } => {
                "ask the publisher to make the index with its URL (`kubepkg repo index --url URL`) \
                 and sign it again"
            }
            TrustError::KnownKey { .. } => {
                "if it is the same repository, use the URL it had before; if it is another one, \
                 ask the publisher to make the index with its URL (`kubepkg repo index --url \
                 URL`) and sign it again"
            }
            TrustError::SitesMeet { .. } => {
                "use the URL that is in the store, or another store for this one"
            }
            TrustError::OtherMemory { .. } => {
                "give the entry an id of its own in the trust file; if it has one, records were \
                 mixed up or changed: restore them from a backup"
            }
            TrustError::RecordMissing { id, .. } => {
                return Some(format!(
                    "restore it from a backup; without it an old index cannot be told from a new \
                     one. `kubepkg trust reset {id}` (with --store DIR for a store) accepts that"
                ));
            }
            TrustError::NoGenerated { .. } => {
                "ask the publisher for an index made with `kubepkg repo index`, which writes the \
                 time"
            }
            TrustError::Fork { .. } => {
                "do not use either before the publisher has said which is genuine; a newer index \
                 settles it"
            }
            TrustError::Future { .. } => {
                "set this machine's clock if it is wrong; if it is right, the publisher's was not"
            }
            TrustError::Expired { .. } => {
                "get a newer index: make the bundle again on the connected side; if there is none, \
                 the publisher has stopped, or somebody holds it back. Check this machine's clock \
                 too"
            }
            TrustError::LeftOut { why, .. } => match **why {
                LeftOutWhy::Newer { .. } => {
                    "a newer kubepkg may understand it; upgrade kubepkg on this side"
                }
                LeftOutWhy::Delegation { .. } => {
                    "have its PackageSource signed by those the package is handed to (`kubepkg \
                     trust sign FILE --key KEY`) and the index made anew, and make the bundle again"
                }
                LeftOutWhy::Approvals { .. } => {
                    "have its PackageSource approved (`kubepkg trust sign FILE --approve --key KEY`) \
                     and the index made anew, and make the bundle again"
                }
            },
            TrustError::NotListed { too_new: true, .. } => {
                "the index holds versions of it that need a newer kubepkg; upgrade kubepkg"
            }
            TrustError::NotListed { .. } => {
                "the bundle claims more than the publisher signed, or the publisher has withdrawn \
                 this version since; make the bundle again"
            }
            TrustError::OtherSpec { .. } => {
                "the package was changed after the index was signed; make the bundle again"
            }
        };
        Some(hint.to_owned())
    }
}

fn ids(ids: &[KeyId]) -> String {
    match ids {
        [] => "none".to_owned(),
        ids => {
            let texts: Vec<_> = ids.iter().map(ToString::to_string).collect();
            texts.join(", ")
        }
    }
}

fn made_at(generated: &Option<Time>) -> String {
    match generated {
        Some(generated) => format!("was generated at {generated}"),
        None => "does not say when it was generated".to_owned(),
    }
}

fn of_time(generated: &Option<Time>) -> String {
    match generated {
        Some(generated) => format!("generated at {generated}"),
        None => "without a time".to_owned(),
    }
}

fn accepted_at(accepted: &Option<Time>) -> String {
    match accepted {
        Some(accepted) => format!("was generated at {accepted}"),
        None => "was another one".to_owned(),
    }
}

fn generated_at(generated: &Option<Time>) -> String {
    match generated {
        Some(generated) => format!(", the index was generated at {generated}"),
        None => String::new(),
    }
}

fn index_of(generated: &Option<Time>) -> String {
    match generated {
        Some(generated) => format!(" of {generated}"),
        None => String::new(),
    }
}

fn stored_and_given(differs: &[Difference]) -> String {
    let one = |Difference { what, before, now }: &Difference| {
        format!("stored {what}: {before}, given: {now}")
    };
    let texts: Vec<String> = differs.iter().map(one).collect();
    texts.join("; ")
}

/// What a version that is left out lacks.
fn lacks(why: &LeftOutWhy) -> String {
    match why {
        LeftOutWhy::Newer { unknown } => {
            format!("it is made for another kubepkg ({})", unknown.join(", "))
        }
        LeftOutWhy::Delegation { name, have, need } => {
            format!("it has {have} of {need} signatures of those that {name} is handed to")
        }
        LeftOutWhy::Approvals { have, need } => format!("it has {have} of {need} approvals"),
    }
}

/// A span for people: in days, below that in hours, minutes or seconds.
fn span(seconds: i64) -> String {
    let (count, unit) = match seconds.max(0) {
        s if s >= 2 * 86_400 => (s / 86_400, "days"),
        s if s >= 2 * 3_600 => (s / 3_600, "hours"),
        s if s >= 2 * 60 => (s / 60, "minutes"),
        1 => (1, "second"),
        s => (s, "seconds"),
    };
    format!("{count} {unit}")
}

/// A time to come, for people.
fn ahead(seconds: i64) -> String {
    match seconds {
        ..=0 => "now".to_owned(),
        seconds => format!("in {}", span(seconds)),
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::Unsigned { url } => write!(
                f,
                "the index of {url} was accepted unsigned: nobody vouches for its packages"
            ),
            Warning::ExpiresSoon {
                url,
                expires,
                today,
            } => write!(
                f,
                "the index of {url} expires at {expires}, {}; what carries it must arrive \
                 before that",
                ahead(expires.since(*today))
            ),
            Warning::RootExpiresSoon {
                url,
                expires,
                today,
            } => write!(
                f,
                "the root of trust of {url} expires at {expires}, {}; the publisher must make the \
                 next one before that",
                ahead(expires.since(*today))
            ),
            Warning::Old {
                url,
                generated,
                today,
            } => write!(
                f,
                "the index of {url} is {} old ({generated}) and has no expiry: nothing shows \
                 whether newer ones are being held back",
                span(today.since(*generated))
            ),
            Warning::NoGenerated { url } => write!(
                f,
                "the index of {url} does not say when it was generated: an older one cannot be \
                 told from it"
            ),
            Warning::TrustChanged { url, changes } => {
                write!(f, "trust in {url} changed: ")?;
                for (n, change) in changes.iter().enumerate() {
                    let comma = if n > 0 { "; " } else { "" };
                    let Difference { what, before, now } = change;
                    write!(f, "{comma}{what} from {before} to {now}")?;
                }
                Ok(())
            }
            Warning::ClockBehind { clock, accepted } => write!(
                f,
                "this machine's clock ({clock}) is behind an index accepted before ({accepted}); \
                 expiry was judged by the latter. Set the clock"
            ),
        }
    }
}
