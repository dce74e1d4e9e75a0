//! In words: what the images of a bundle have and the bundle does not. It is no fault, but
//! whoever creates or imports it has to know.

use std::collections::BTreeMap;

use super::closure::Closure;
use crate::bundle::head::Head;

/// Most layers that are named one by one.
const SHOWN: usize = 5;

/// What is to be said of platforms and layers that are left out.
pub fn outside(head: &Head, closure: &Closure) -> Vec<String> {
    let mut said = Vec::new();
    said.extend(platforms(head, closure));
    said.extend(layers(closure));
    said
}

fn platforms(head: &Head, closure: &Closure) -> Option<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let sparse = head.images.iter().filter(|image| image.sparse);
    for image in sparse {
        for platform in closure.left_out(&image.manifest.digest) {
            *counts.entry(platform.to_string()).or_default() += 1;
        }
    }
    if counts.is_empty() {
        return None;
    }
    let wanted: Vec<String> = head.platforms.iter().map(ToString::to_string).collect();
    let left: Vec<String> = counts
        .iter()
        .map(|(platform, images)| match images {
            1 => format!("{platform} (1 image)"),
            images => format!("{platform} ({images} images)"),
        })
        .collect();
    Some(format!(
        "the bundle is made for {} and carries nothing for other platforms; left out: {}",
        wanted.join(", "),
        left.join(", ")
    ))
}

fn layers(closure: &Closure) -> Vec<String> {
    let all = closure.elsewhere().count();
    let mut said: Vec<String> = closure
        .elsewhere()
        .take(SHOWN)
        .map(|(digest, place)| {
            let from = match place {
                Some(place) => format!("nodes fetch it from {place}"),
                None => "its manifest does not say where it is, so nodes cannot run it".to_owned(),
            };
            format!("layer {digest} may not be distributed and is not in the bundle: {from}")
        })
        .collect();
    if all > SHOWN {
        said.push(format!("the same holds for {} more layers", all - SHOWN));
    }
    said
}
