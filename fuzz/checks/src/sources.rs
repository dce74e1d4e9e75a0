//! Files of PackageSources, as publishers write them.

use kubepkg_core::Digest;
use kubepkg_core::index::Index;
use kubepkg_core::index::build::{collect, read_file};
use kubepkg_core::time::Time;

/// A file of PackageSources; what is taken from it makes an index that is accepted.
pub fn sources(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    let Ok(found) = read_file("file", text) else {
        return;
    };
    let count = found.len();
    let Ok(mut draft) = collect(found) else {
        return;
    };
    assert_eq!(draft.versions(), count);
    for used in draft.unpinned_charts() {
        let pinned = draft.pin(&used.chart, &Digest::sha256(b"chart"));
        assert!(pinned.is_ok_and(|places| places > 0));
    }
    let Ok(text) = draft.to_yaml(Time::from_unix(0), None) else {
        panic!("a draft without a gap is not written");
    };
    match Index::read(&text) {
        Ok(index) => {
            let versions: usize = index.packages.values().map(|p| p.versions.len()).sum();
            assert_eq!((versions, index.left_out.len()), (count, 0));
        }
        Err(error) => panic!("{error}\n{}", String::from_utf8_lossy(&text)),
    }
}
