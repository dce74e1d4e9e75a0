//! Withdrawing published versions, and taking that back. The version stays listed: who has it
//! must be able to see what became of it.

use super::{BuildError, Draft, Version};
use crate::index::{Withdrawn, version_and_build};
use crate::time::Time;

impl Draft {
    /// Marks a version withdrawn, in every build of it where none is given. Gives the number
    /// of builds.
    pub fn set_withdrawn(
        &mut self,
        package: &str,
        version: &str,
        build: Option<u32>,
        withdrawn: &Withdrawn,
    ) -> Result<usize, BuildError> {
        let mut count = 0;
        for found in self.builds(package, version, build)? {
            found.withdrawn = Some(withdrawn.clone());
            count += 1;
        }
        Ok(count)
    }

    /// Takes the withdrawal of a version back, in every build of it where none is given. The
    /// statement stays, with the time it ended: clusters that have seen it keep to it until
    /// they see its end.
    pub fn lift_withdrawal(
        &mut self,
        package: &str,
        version: &str,
        build: Option<u32>,
        at: Time,
    ) -> Result<usize, BuildError> {
        let mut count = 0;
        for found in self.builds(package, version, build)? {
            if let Some(withdrawn) = found.withdrawn.as_mut().filter(|w| w.holds()) {
                // A lift counts only behind the withdrawal.
                withdrawn.lifted = Some(at.max(withdrawn.since.plus(1)));
                count += 1;
            }
        }
        match count {
            0 => Err(BuildError::NotWithdrawn(named(package, version, build))),
            count => Ok(count),
        }
    }

    /// The builds of a version, at least one.
    fn builds(
        &mut self,
        package: &str,
        version: &str,
        build: Option<u32>,
    ) -> Result<Vec<&mut Version>, BuildError> {
        let wanted = |found: &&mut Version| {
            found.text.trim_start_matches('v') == version.trim_start_matches('v')
                && build.is_none_or(|build| i64::from(found.build) == i64::from(build))
        };
        let versions = self.packages.get_mut(package).into_iter().flatten();
        let found: Vec<_> = versions.filter(wanted).collect();
        match found.as_slice() {
            [] => Err(BuildError::NotListed(named(package, version, build))),
            _ => Ok(found),
        }
    }
}

fn named(package: &str, version: &str, build: Option<u32>) -> String {
    let version = version_and_build(version, build.unwrap_or_default());
    format!("{package} {version}")
}
