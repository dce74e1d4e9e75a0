//! Who is let in to a repository.
//!
//! A request may mean several names of the store. What is found and what is demanded for it are
//! decided on one snapshot of the names, the one that is answered from: nothing is served that
//! another one was asked about. A repository somebody may not read is refused in the same words
//! whether it is there or not.

use std::sync::Arc;

use kubepkg_core::name::RepositoryName;
use kubepkg_core::store::{Names, StoreError};

use super::content::standing;
use super::error::{ApiError, Code};
use super::fresh::names;
use super::{Asking, Shared, auth};
use crate::access::Action;
use crate::namespace::{Found, Own};
use crate::route::{Ask, Place, Target};
use crate::source::{Age, Standing};

/// What `names` have at a place, for who may read it.
pub(super) fn admit<'n>(
    shared: &Shared,
    asking: &Asking,
    own: Own<'_>,
    place: &Place,
    names: &'n Names,
) -> Result<Option<Found<'n>>, ApiError> {
    if auth::reads_are_open(shared) {
        return Ok(place.find(names, own));
    }
    let may_read = |name: &RepositoryName| auth::may_read(shared, asking, name);
    seen(own, place, names, may_read)
        .map_err(|hidden| auth::refused(shared, asking, Action::Pull, hidden.as_str()))
}

/// What somebody sees of a place. The error is the name in which they are refused: the first of
/// those the place may mean that they may not read, wherever among them something lies.
fn seen<'n>(
    own: Own<'_>,
    place: &Place,
    names: &'n Names,
    may_read: impl Fn(&RepositoryName) -> bool,
) -> Result<Option<Found<'n>>, RepositoryName> {
    let found = place.find(names, own);
    if found.is_some_and(|found| may_read(found.name)) {
        return Ok(found);
    }
    let mut candidates = place.candidates(own).into_iter();
    match candidates.find(|name| !may_read(name)) {
        Some(hidden) => Err(hidden),
        None => Ok(found),
    }
}

/// Makes sure that what is asked for may be said to be here: what was condemned is taken off
/// that list first, and looked up only then, in the names that are answered; what is damaged is
/// not here.
pub(super) async fn settled(
    shared: &Shared,
    place: &Place,
    ask: &Ask,
    found: Option<Found<'_>>,
) -> Result<Option<Arc<Names>>, ApiError> {
    let digest = match ask {
        Ask::Blob(digest) | Ask::Manifest(Target::Digest(digest)) => Some(*digest),
        Ask::Manifest(Target::Tag(tag)) => found
            .and_then(|found| found.repository.tags.get(tag))
            .map(|entry| entry.digest),
        _ => None,
    };
    let Some(digest) = digest else {
        return Ok(None);
    };
    match standing(&shared.source, &digest).await? {
        Standing::Sound => Ok(None),
        Standing::Quarantined => {
            let code = match ask {
                Ask::Blob(_) => Code::BlobUnknown,
                _ => Code::ManifestUnknown,
            };
            Err(ApiError::not_in(place, code, ask))
        }
        Standing::Condemned => match shared.source.rescue(vec![digest]).await {
            Ok(()) | Err(StoreError::Missing { .. }) => names(shared, Age::Moment).await.map(Some),
            Err(error) => Err(ApiError::store(&error)),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::Method;
    use proptest::prelude::*;

    use super::*;
    use crate::route::{Endpoint, parse};

    fn place(path: &str, query: &str) -> Place {
        match parse(&Method::GET, &format!("{path}/tags/list"), query).unwrap() {
            Endpoint::Repository(place, _) => place,
            other => panic!("{other:?}"),
        }
    }

    /// What is seen of a place where `stored` is there and `hidden` may not be read.
    fn seen_of(place: &Place, stored: &[&str], hidden: &[&str]) -> Result<Option<String>, String> {
        let mut names = Names::default();
        for name in stored {
            let name = name.parse().unwrap();
            names.repositories.insert(name, Arc::default());
        }
        let may_read = |name: &RepositoryName| !hidden.contains(&name.as_str());
        seen(Own::default(), place, &names, may_read)
            .map(|found| found.map(|found| found.name.to_string()))
            .map_err(|hidden| hidden.to_string())
    }

    #[test]
    fn every_spelling_of_a_hidden_repository_is_refused_in_its_name() {
        for (path, query, hidden) in [
            ("/v2/docker.io/x", "", "docker.io/library/x"),
            ("/v2/x", "ns=docker.io", "docker.io/library/x"),
            ("/v2/docker.io/v2/x", "", "docker.io/library/x"),
            ("/v2/ghcr.io/v2/a", "", "ghcr.io/a"),
            ("/v2/ghcr.io/a", "ns=ghcr.io", "ghcr.io/a"),
            ("/ghcr.io/v2/a", "", "ghcr.io/a"),
        ] {
            let place = place(path, query);
            for stored in [&[][..], &[hidden]] {
                let refused = seen_of(&place, stored, &[hidden]);
                assert_eq!(refused, Err(hidden.to_owned()), "{path}?{query} {stored:?}");
            }
            let found = seen_of(&place, &[hidden], &[]);
            assert_eq!(found, Ok(Some(hidden.to_owned())), "{path}?{query}");
            assert_eq!(seen_of(&place, &[], &["a/b"]), Ok(None));
        }
    }

    #[test]
    fn who_may_not_read_the_one_that_is_meant_never_gets_another() {
        let place = place("/v2/ghcr.io/v2/a", "");
        let both = ["ghcr.io/v2/a", "ghcr.io/a"];
        let refused = seen_of(&place, &both, &["ghcr.io/v2/a"]);
        assert_eq!(refused, Err("ghcr.io/v2/a".to_owned()));
        let found = seen_of(&place, &both[1..], &["ghcr.io/v2/a"]);
        assert_eq!(found, Ok(Some("ghcr.io/a".to_owned())));
    }

    proptest! {
        /// Of what somebody may not read they do not learn whether it is there, unless they may
        /// read another one that is meant as well.
        #[test]
        fn a_refusal_tells_nothing(stored in 0_u8..16, hidden in 0_u8..16) {
            let place = place("/v2/docker.io/v2/x", "");
            let candidates: Vec<String> = place
                .candidates(Own::default())
                .iter()
                .map(ToString::to_string)
                .collect();
            let of = |bits: u8| -> Vec<&str> {
                let all = candidates.iter().enumerate();
                all.filter(|(at, _)| bits & (1 << at) != 0)
                    .map(|(_, name)| name.as_str())
                    .collect()
            };
            prop_assert!(candidates.len() <= 4);
            let (stored, hidden) = (of(stored), of(hidden));
            let readable: Vec<&str> = stored
                .iter()
                .filter(|name| !hidden.contains(name))
                .copied()
                .collect();
            let seen = seen_of(&place, &stored, &hidden);
            match &seen {
                Ok(Some(name)) => prop_assert!(readable.contains(&name.as_str())),
                _ if readable.is_empty() => prop_assert_eq!(&seen, &seen_of(&place, &[], &hidden)),
                Ok(None) => prop_assert!(stored.is_empty()),
                Err(name) => prop_assert!(hidden.contains(&name.as_str())),
            }
        }
    }
}
