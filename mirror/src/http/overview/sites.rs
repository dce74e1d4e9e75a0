//! The indexes a store serves, with the packages that are here.

use std::sync::Arc;

use kubepkg_core::Digest;
use kubepkg_core::carried::{self, Carried};
use kubepkg_core::location::CanonicalUrl;
use kubepkg_core::store::{Names, SiteEntry};

use crate::http::content::read_all;
use crate::source::Source;

/// Indexes that are looked at; a site has a handful.
const SITES: usize = 1000;

/// Longest `carried.json` that is read: a hundred thousand versions.
const MAX_CARRIED: u64 = 32 * 1024 * 1024;

/// One index.
#[derive(Clone, Debug)]
pub(crate) struct SiteSeen {
    /// Its URL.
    pub url: CanonicalUrl,
    /// Digest of the index file.
    pub index: Option<Digest>,
    /// The packages that are here; `None` where that cannot be read.
    pub carried: Option<Carried>,
    /// Digest of the list they were read from.
    list: Option<Digest>,
}

#[cfg(test)]
impl SiteSeen {
    /// An index of which only this is known.
    pub(crate) fn carrying(carried: Carried) -> SiteSeen {
        SiteSeen {
            url: carried.repository.clone(),
            index: None,
            carried: Some(carried),
            list: None,
        }
    }
}

/// Looks at all of them. What `before` has of the same list is not read again.
pub(super) fn of(
    source: &dyn Source,
    names: &Names,
    before: Option<&Vec<Arc<SiteSeen>>>,
) -> Vec<Arc<SiteSeen>> {
    let mut sites: Vec<Arc<SiteSeen>> = Vec::new();
    for (folder, site) in names.sites.iter().take(SITES) {
        let digest = |file: &str| site.files.get(file).map(|file| file.digest);
        let (index, list) = (digest(site.url.file_name()), digest(carried::FILE));
        let mut known = before.into_iter().flatten();
        let same = known.find(|seen| {
            let read = seen.carried.is_some() || list.is_none();
            seen.url == site.url && seen.index == index && seen.list == list && read
        });
        sites.push(match same {
            Some(seen) => Arc::clone(seen),
            None => Arc::new(SiteSeen {
                url: site.url.clone(),
                index,
                carried: read(source, folder, site),
                list,
            }),
        });
    }
    sites.sort_by(|a, b| a.url.as_str().cmp(b.url.as_str()));
    sites
}

fn read(source: &dyn Source, folder: &str, site: &SiteEntry) -> Option<Carried> {
    let file = source.site_file(folder, site, carried::FILE).ok()??;
    if file.len > MAX_CARRIED {
        return None;
    }
    let bytes = read_all(&file).ok()?;
    Carried::read(&bytes).ok()
}
