//! The search for images in any text.

use kubepkg_core::Reference;
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
