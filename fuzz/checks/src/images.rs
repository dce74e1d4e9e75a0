//! The search for images in any text, and lists of images.

use std::collections::BTreeSet;

use kubepkg_core::Reference;
use kubepkg_core::descriptor::Platform;
use kubepkg_images::lists::{self, MAX_CHARTS, MAX_IMAGES};
use kubepkg_images::{Rules, walk};

/// Any text: the search ends, and what it finds is an image.
pub fn images(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    for seen in walk("x", text, &Rules::built_in()).sightings {
        let again = seen.image.to_string().parse::<Reference>();
        assert_eq!(again.as_ref(), Ok(&seen.image));
    }
}

/// A list of images: what is taken are references, each once, and what is refused is told short.
pub fn list(data: &[u8]) {
    let list = match lists::read(data, "list") {
        Ok(list) => list,
        Err(error) => {
            assert!(!error.faults.is_empty());
            assert!(error.to_string().len() < 16 * 1024, "{error}");
            return;
        }
    };
    assert!(list.images.len() <= MAX_IMAGES && list.charts.len() <= MAX_CHARTS);
    assert!(!list.images.is_empty() || !list.charts.is_empty());
    let mut seen = BTreeSet::new();
    for image in &list.images {
        let Ok(reference) = image.reference.parse::<Reference>() else {
            panic!("{} is no reference", image.reference);
        };
        let platform = image.platform.as_deref();
        assert!(platform.is_none_or(Platform::is_name), "{platform:?}");
        assert!(
            seen.insert((reference, platform)),
            "{image:?} is there twice"
        );
        assert!(image.line > 0);
    }
    for chart in &list.charts {
        assert!(
            !chart.name.is_empty() && chart.repository.contains("://"),
            "{chart:?}"
        );
    }
    // the same images, one a line
    let plain: String = list
        .images
        .iter()
        .map(|image| format!("{}\n", image.reference))
        .collect();
    if !plain.is_empty() {
        let again = lists::read(plain.as_bytes(), "plain").map(|list| list.images.len());
        let different: BTreeSet<_> = seen.into_iter().map(|(reference, _)| reference).collect();
        assert_eq!(again.ok(), Some(different.len()), "{plain}");
    }
}
