//! One repository of a mirror holds the content of one upstream location.
//!
//! Different locations can have one mirrored name (`example.com_5000/x` and
//! `example.com:5000/x`, a chart of a Helm repository and an image of a registry). Within a
//! bundle that is refused when places are given; this is the same rule between imports, where
//! only the store remembers what the name stood for.

use super::{Change, Repository};
use crate::name::RepositoryName;

/// A repository holds the content of another upstream location.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{repository} holds the content of {recorded} and cannot take that of {offered} too")]
pub struct OtherUpstream {
    /// The repository.
    pub repository: RepositoryName,
    /// Where its content comes from.
    pub recorded: String,
    /// What was to be brought in.
    pub offered: String,
}

/// Whether content of the location `offered` may enter the repository `name`, which stands as
/// `current`. Answers the change that records the location, where it is not yet.
///
/// A repository without a location, one that was only pushed to, takes the first.
pub fn check_upstream(
    name: &RepositoryName,
    current: Option<&Repository>,
    offered: &str,
) -> Result<Option<Change>, OtherUpstream> {
    match current.and_then(|repository| repository.upstream.as_deref()) {
        Some(recorded) if recorded == offered => Ok(None),
        Some(recorded) => Err(OtherUpstream {
            repository: name.clone(),
            recorded: recorded.to_owned(),
            offered: offered.to_owned(),
        }),
        None => Ok(Some(Change::Upstream {
            repository: name.clone(),
            new: Some(offered.to_owned()),
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Names;

    #[test]
    fn the_first_location_stays_the_only_one() {
        let name: RepositoryName = "example.com_5000/x".parse().unwrap();
        let (first, other) = ("oci://example.com:5000/x", "helm://example.com:5000/x");
        let mut names = Names::default();
        let change = check_upstream(&name, None, first).unwrap().unwrap();
        assert!(names.differs(&change));
        names.apply(&change, 1);
        assert!(!names.differs(&change));
        let current = names.repositories.get(&name).map(|r| &**r);
        assert_eq!(check_upstream(&name, current, first), Ok(None));
        let error = check_upstream(&name, current, other).unwrap_err();
        assert_eq!((&*error.recorded, &*error.offered), (first, other));
    }

    #[test]
    fn a_repository_written_without_a_location_is_read() {
        let old = r#"{"manifests":{},"tags":{},"blobs":{}}"#;
        let repository: Repository = serde_json::from_str(old).unwrap();
        assert_eq!(repository, Repository::default());
        assert_eq!(serde_json::to_string(&repository).unwrap(), old);
    }
}
