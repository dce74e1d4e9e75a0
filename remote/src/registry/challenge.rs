//! What a registry wants to be shown: the challenges in `WWW-Authenticate` (RFC 9110, section
//! 11.6.1), of which one header may hold several.

/// A challenge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Challenge {
    /// The scheme, in lower case.
    pub(super) scheme: String,
    parameters: Vec<(String, String)>,
}

impl Challenge {
    /// The value of a parameter.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        let mut found = self.parameters.iter().filter(|(key, _)| key == name);
        found.next().map(|(_, value)| value.as_str())
    }

    /// The same without a parameter.
    pub(super) fn without(&self, name: &str) -> Challenge {
        let mut less = self.clone();
        less.parameters.retain(|(key, _)| key != name);
        less
    }
}

/// The challenges in `text`. What makes no sense is passed over.
pub(super) fn read(text: &str) -> Vec<Challenge> {
    let mut found: Vec<Challenge> = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([',', ' ', '\t']);
        let end = rest.find([' ', '\t', ',', '=']).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        if word.is_empty() {
            match rest.chars().next() {
                Some(odd) => rest = &rest[odd.len_utf8()..],
                None => return found,
            }
            continue;
        }
        let value = behind.trim_start().strip_prefix('=');
        match (value, found.last_mut()) {
            (Some(value), Some(challenge)) => {
                let (value, behind) = parameter(value.trim_start());
                challenge
                    .parameters
                    .push((word.to_ascii_lowercase(), value));
                rest = behind;
            }
            (Some(_), None) => rest = behind,
            (None, _) => {
                found.push(Challenge {
                    scheme: word.to_ascii_lowercase(),
                    parameters: Vec::new(),
                });
                rest = behind;
            }
        }
    }
}

/// A value, quoted or not, and what follows it.
fn parameter(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', ' ', '\t']).unwrap_or(text.len());
        return (text[..end].to_owned(), &text[end..]);
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '"' => return (value, &quoted[at + 1..]),
            '\\' => value.extend(characters.next().map(|(_, c)| c)),
            c => value.push(c),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_header_with_one_or_several() {
        let hub = read(
            r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a/b:pull,push""#,
        );
        assert_eq!(hub.len(), 1);
        assert_eq!(hub[0].scheme, "bearer");
        assert_eq!(hub[0].parameter("scope"), Some("repository:a/b:pull,push"));
        let two = read(r#"Basic realm="x, \"y\"", BEARER Realm=https://a/t , service = "s""#);
        assert_eq!(two.len(), 2);
        assert_eq!(two[0].parameter("realm"), Some("x, \"y\""));
        assert_eq!(two[1].parameter("realm"), Some("https://a/t"));
        assert_eq!(two[1].parameter("service"), Some("s"));
    }

    #[test]
    fn nonsense_ends() {
        for text in [
            "",
            "=",
            ",,,",
            "a=b",
            "Basic",
            "Bearer realm=\"",
            "x \"\" =\"\\",
            "ü=ü ü",
        ] {
            let _ = read(text);
        }
        assert_eq!(read("Basic")[0].scheme, "basic");
    }
}
