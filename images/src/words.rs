//! The words names are made of: `sidecarImage`, `sidecar-image`, `SIDECAR_IMAGE`.

/// Words of a name in lower case. `/` and `.` begin anew: of `example.com/proxyImage` the last
/// part counts.
pub(crate) fn words(name: &str) -> Vec<String> {
    let name = name.rsplit(['/', '.']).next().unwrap_or(name);
    let mut words: Vec<String> = Vec::new();
    let mut before = ' ';
    let mut characters = name.chars().peekable();
    while let Some(c) = characters.next() {
        if !c.is_alphanumeric() {
            before = ' ';
            continue;
        }
        let ends_capitals = c.is_uppercase()
            && before.is_uppercase()
            && characters.peek().is_some_and(|next| next.is_lowercase());
        let begins = before == ' ' || (c.is_uppercase() && !before.is_uppercase()) || ends_capitals;
        if begins {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut() {
            word.extend(c.to_lowercase());
        }
        before = c;
    }
    words
}

/// What stands behind `image` in the name of a field that holds one.
const BEHIND: &[&str] = &[
    "name",
    "names",
    "ref",
    "reference",
    "uri",
    "url",
    "path",
    "full",
];

/// What a name says of its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// Nothing.
    Nothing,
    /// Just `image`.
    Image,
    /// An image among others: `sidecarImage`, `imageName`, `images`.
    Images,
}

/// Whether a field of this name holds an image.
pub(crate) fn field(name: &str) -> Named {
    let words = words(name);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["image"] => Named::Image,
        [.., "image" | "images"] => Named::Images,
        // containerImageName, imageRef
        [.., "image", last] if BEHIND.contains(&last) => Named::Images,
        // dockerimage
        [only] if only.ends_with("image") && only.len() > "image".len() => Named::Images,
        _ => Named::Nothing,
    }
}

/// What names an aspect of an image and not the image.
const ASPECTS: &[&str] = &[
    "pull",
    "policy",
    "secret",
    "secrets",
    "tag",
    "tags",
    "registry",
    "digest",
    "size",
    "cache",
    "repository",
    "repo",
    "prefix",
    "name",
    "version",
    "dir",
    "format",
    "scan",
    "credential",
    "credentials",
    "provider",
];

/// Whether a variable or argument of this name holds images: the word stands anywhere in it,
/// unless another one says that it is about something else.
pub(crate) fn option(name: &str) -> bool {
    if field(name) != Named::Nothing {
        return true;
    }
    let words = words(name);
    let image = |word: &String| word == "image" || word == "images";
    match words.iter().position(image) {
        // RELATED_IMAGE_PULL_SECRET_CONTROLLER is one all the same
        Some(at) if at > 0 && words[at - 1] == "related" => true,
        Some(at) => !words[at..]
            .iter()
            .any(|word| ASPECTS.contains(&word.as_str())),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fall_into_words() {
        for (name, want) in [
            ("sidecarImage", "sidecar image"),
            ("RELATED_IMAGE_API", "related image api"),
            ("image-name", "image name"),
            ("sidecar.istio.io/proxyImage", "proxy image"),
            ("imageURL", "image url"),
            ("IMAGEName", "image name"),
            ("image2Use", "image2 use"),
            ("", ""),
        ] {
            assert_eq!(words(name).join(" "), want, "{name}");
        }
    }

    #[test]
    fn fields_that_hold_images() {
        assert_eq!(field("image"), Named::Image);
        for name in [
            "proxyImage",
            "image_name",
            "images",
            "imageRef",
            "dockerimage",
            "docker-image",
        ] {
            assert_eq!(field(name), Named::Images, "{name}");
        }
        for name in [
            "imagePullPolicy",
            "imagePullSecrets",
            "imageTag",
            "imagination",
            "name",
            "imageRegistry",
        ] {
            assert_eq!(field(name), Named::Nothing, "{name}");
        }
    }

    #[test]
    fn options_that_hold_images() {
        for name in [
            "RELATED_IMAGE_API",
            "acme-http01-solver-image",
            "IMAGE_PROXY",
            "KAFKA_IMAGES",
            "RELATED_IMAGE_PULL_SECRET_X",
        ] {
            assert!(option(name), "{name}");
        }
        for name in [
            "IMAGE_PULL_POLICY",
            "image-pull-secrets",
            "IMAGE_TAG",
            "POD_NAME",
            "image-cache-dir",
        ] {
            assert!(!option(name), "{name}");
        }
    }
}
