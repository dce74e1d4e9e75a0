//! Whether a text is an image's reference, by how much its place says.
//!
//! `nginx` is a legal reference and so is nearly every word. In a container it is an image; in
//! a field that is merely called `image` it may be one; anywhere else it is a word.

use kubepkg_core::Reference;

use crate::rules::Rules;

/// What is known of the place a text stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// An image and nothing else stands here.
    Image,
    /// Images stand in places of this name, and sometimes something else.
    Named,
    /// Nothing.
    Anything,
}

/// What a text is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// An image.
    Image(Reference),
    /// It may be one: a bare word in a place that is called like one.
    Perhaps(Reference),
    /// Where an image stands, something that is no reference.
    Broken(String),
    /// Where an image stands, a text that something fills in when it is used.
    FilledIn(String),
    /// Something else.
    Other,
}

/// How often `docker://` stands before an image: where disks of virtual machines come from.
const TRANSPORT: &str = "docker://";

/// Ends of names of files that are no images of this kind.
const FILES: &[&str] = &[
    ".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp", ".ico", ".bmp", ".iso", ".img", ".qcow2",
    ".raw", ".vmdk", ".ova", ".gz", ".xz", ".zst", ".tar", ".tgz", ".zip", ".yaml", ".yml",
    ".json", ".xml", ".html", ".md", ".txt", ".sh", ".py", ".js", ".conf", ".crt", ".pem", ".key",
    ".sock", ".log", ".exe", ".dll", ".jar", ".war",
];

/// Words that stand in place of a version.
const MOVING: &[&str] = &[
    "latest", "stable", "nightly", "edge", "main", "master", "dev", "develop", "canary", "release",
    "unstable", "testing",
];

/// Judges `text` in a place of which `expect` is known.
pub fn judge(text: &str, expect: Expect, rules: &Rules) -> Verdict {
    let text = text.trim();
    if text.is_empty() {
        return Verdict::Other;
    }
    if rules.is_placeholder(text) {
        return Verdict::Other;
    }
    let plain = match text.strip_prefix(TRANSPORT) {
        Some(rest) => rest,
        // what a registry holds under this scheme are charts and the like
        None if text.contains("://") => return Verdict::Other,
        None => text,
    };
    let Ok(image) = plain.parse::<Reference>() else {
        return match expect {
            // a pattern is about images, and none
            Expect::Image if text.contains('*') => Verdict::Other,
            // no mistake, and nobody here knows what it becomes
            Expect::Image if text.contains(['$', '{', '<', '%']) => {
                Verdict::FilledIn(text.to_owned())
            }
            Expect::Image => Verdict::Broken(text.to_owned()),
            _ => Verdict::Other,
        };
    };
    let parts = Parts::of(plain);
    match expect {
        Expect::Image => Verdict::Image(image),
        Expect::Named => named(image, &parts),
        Expect::Anything if anywhere(&image, &parts, rules) => Verdict::Image(image),
        Expect::Anything => Verdict::Other,
    }
}

/// The parts of a reference that were written, not filled in.
struct Parts<'a> {
    host: Option<&'a str>,
    path: &'a str,
    tag: Option<&'a str>,
    digest: bool,
}

impl<'a> Parts<'a> {
    fn of(text: &'a str) -> Parts<'a> {
        let (rest, digest) = match text.split_once('@') {
            Some((rest, _)) => (rest, true),
            None => (text, false),
        };
        let (name, tag) = match rest.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
            _ => (rest, None),
        };
        match name.split_once('/') {
            Some((host, path)) if is_host(host) => Parts {
                host: Some(host),
                path,
                tag,
                digest,
            },
            _ => Parts {
                host: None,
                path: name,
                tag,
                digest,
            },
        }
    }

    fn is_file(&self) -> bool {
        let end = self.path.to_ascii_lowercase();
        self.tag.is_none() && !self.digest && FILES.iter().any(|file| end.ends_with(file))
    }
}

/// Whether a first element is surely the name of a host: it ends like one, or has a port.
fn is_host(element: &str) -> bool {
    let (name, port) = match element.rsplit_once(':') {
        Some((name, port)) => (name, Some(port)),
        None => (element, None),
    };
    if name == "localhost" || port.is_some() {
        return true;
    }
    let address =
        name.split('.').count() == 4 && name.bytes().all(|b| b == b'.' || b.is_ascii_digit());
    let last = name.rsplit_once('.').map(|(_, last)| last);
    let domain = last.is_some_and(|last| {
        last.len() >= 2
            && (last.bytes().all(|b| b.is_ascii_alphabetic()) || last.starts_with("xn--"))
    });
    domain && !address
}

fn has_letter(text: &str) -> bool {
    text.bytes().any(|b| b.is_ascii_alphabetic())
}

fn all_digits(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit())
}

/// In a place called like an image: with a registry, tag or digest it is one.
fn named(image: Reference, parts: &Parts<'_>) -> Verdict {
    if parts.is_file() || !has_letter(parts.path) {
        return Verdict::Other;
    }
    let yes_or_no = matches!(
        parts.path,
        "true" | "false" | "none" | "null" | "enabled" | "disabled" | "default"
    );
    if parts.digest || parts.tag.is_some() || parts.host.is_some() {
        return Verdict::Image(image);
    }
    match yes_or_no {
        true => Verdict::Other,
        false => Verdict::Perhaps(image),
    }
}

/// Anywhere: only a reference with registry and version stands for itself.
fn anywhere(image: &Reference, parts: &Parts<'_>, rules: &Rules) -> bool {
    let Some(host) = parts.host else {
        return false;
    };
    if !has_letter(parts.path) || parts.is_file() {
        return false;
    }
    let known = rules.is_registry(image.host());
    if parts.digest {
        return true;
    }
    let Some(tag) = parts.tag else {
        return false;
    };
    if known {
        return true;
    }
    // An API like monitoring.example.com/v1:prometheuses, a port, or a path with a line number.
    let version =
        (tag.bytes().any(|b| b.is_ascii_digit()) && !all_digits(tag)) || MOVING.contains(&tag);
    let last = parts.path.rsplit('/').next().unwrap_or_default();
    version && !is_api_version(last) && !host.ends_with(".svc") && !host.contains(".svc.")
}

/// `v1`, `v1beta2`.
fn is_api_version(text: &str) -> bool {
    let Some(rest) = text.strip_prefix('v') else {
        return false;
    };
    let digits = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let (number, stage) = rest.split_at(digits);
    let stage = stage
        .strip_prefix("alpha")
        .or(stage.strip_prefix("beta"))
        .unwrap_or(stage);
    !number.is_empty() && all_digits(stage)
}

#[cfg(test)]
mod tests {
    use super::*;

    const D: &str = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";

    fn verdict(text: &str, expect: Expect) -> Verdict {
        judge(text, expect, &Rules::built_in())
    }

    #[track_caller]
    fn image(text: &str, expect: Expect) {
        let got = verdict(text, expect);
        assert!(matches!(got, Verdict::Image(_)), "{text}: {got:?}");
    }

    #[track_caller]
    fn other(text: &str, expect: Expect) {
        let got = verdict(text, expect);
        assert!(
            matches!(got, Verdict::Other | Verdict::Broken(_)),
            "{text}: {got:?}"
        );
    }

    #[test]
    fn whole_references_are_images_anywhere() {
        for text in [
            "quay.io/argoproj/argoexec:v4.0.6",
            "ghcr.io/cloudnative-pg/postgresql:16",
            "registry.example.com:5000/app:1.2",
            "my.example.com/team/app:main",
            "public.ecr.aws/x/y:latest",
            "123456789012.dkr.ecr.eu-west-1.amazonaws.com/app:7",
            &format!("registry.example.com/app@{D}"),
            &format!("registry.example.com/app:1@{D}"),
        ] {
            image(text, Expect::Anything);
        }
    }

    #[test]
    fn other_texts_are_no_images_anywhere() {
        for text in [
            "",
            " ",
            "nginx",
            "nginx:1.27",
            "true",
            "10.0.0.0/8",
            "10.0.0.1:8080",
            "fd00::/8",
            "https://quay.io/a/b:1",
            "oci://ghcr.io/org/chart:1.0",
            "/var/lib/x:ro",
            "web.default.svc:80",
            "web.default.svc/metrics:v1",
            "apps/v1:Deployment",
            "networking.k8s.io/v1:Ingress",
            "monitoring.example.com/v1beta1:v2",
            "example.com/path:8080",
            "github.com/foo/bar@v1.2.3",
            "golang.org/x/net",
            "v1.2.3",
            "v1.2.3/foo:bar",
            "1.2.3.4/a:v1",
            "the image of quay.io/a/b:1 is old",
            "quay.io/a/B:1",
            "user@example.com",
            "docker.io",
            "12:30",
            "a:b:c",
            "sha256:12",
            "example.com/logo.png",
            "k8s.io/api",
            "system:serviceaccount:a:b",
        ] {
            other(text, Expect::Anything);
        }
    }

    #[test]
    fn in_a_place_called_image_less_is_needed() {
        for text in [
            "nginx:1.27",
            "alpine:3",
            "org/app:1",
            "quay.io/org/app",
            &format!("app@{D}"),
            "docker://quay.io/a/b:1",
        ] {
            image(text, Expect::Named);
        }
        for text in ["nginx", "org/app"] {
            assert!(
                matches!(verdict(text, Expect::Named), Verdict::Perhaps(_)),
                "{text}"
            );
        }
        for text in [
            "auto",
            "none",
            "false",
            "images/logo.png",
            "https://example.com/x.png",
            "10:30",
            "ghcr.io/org/*",
            "{{ .Values.image }}",
            "$(IMAGE)",
            "an image",
            "example.com/a.svg",
        ] {
            other(text, Expect::Named);
        }
    }

    #[test]
    fn where_an_image_must_stand_everything_counts_but_patterns() {
        image("nginx", Expect::Image);
        image("Registry.example.com/app", Expect::Image);
        assert_eq!(
            verdict("quay.io/Org/app:1", Expect::Image),
            Verdict::Broken("quay.io/Org/app:1".to_owned())
        );
        for text in ["auto", "ghcr.io/org/*", ""] {
            assert_eq!(verdict(text, Expect::Image), Verdict::Other, "{text}");
        }
        for text in ["${IMAGE}", "quay.io/a/b:{{ .Tag }}", "<image>"] {
            let filled_in = Verdict::FilledIn(text.to_owned());
            assert_eq!(verdict(text, Expect::Image), filled_in);
            assert_eq!(verdict(text, Expect::Named), Verdict::Other, "{text}");
        }
    }
}
