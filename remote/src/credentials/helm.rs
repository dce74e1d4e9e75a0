//! Users and passwords of Helm repositories, as `helm repo add --username` keeps them in
//! `repositories.yaml`.

use kubepkg_core::yaml::{Value, go};

use super::Known;

/// The entries with a password: the address of the repository, and what is known for it.
pub(super) fn read(text: &[u8]) -> Result<Vec<(String, Known)>, String> {
    let root = go::parse(text).map_err(|e| {
        // the parser may quote what it found there, which may be a secret
        let _ = e;
        "it is no list of Helm repositories".to_owned()
    })?;
    let Some(repositories) = root.member("repositories") else {
        return Ok(Vec::new());
    };
    let Value::List(repositories) = &repositories.value else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for entry in repositories {
        let text = |name: &str| {
            let value = entry.member(name).and_then(|node| node.text());
            value.filter(|text| !text.is_empty()).map(String::from)
        };
        if let (Some(url), Some(user), Some(password)) =
            (text("url"), text("username"), text("password"))
        {
            found.push((url, Known::Password { user, password }));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_with_a_password() {
        let text = b"apiVersion: ''\nrepositories:\n- name: a\n  url: https://charts.example/a\n  \
                     username: u\n  password: p\n- name: b\n  url: https://charts.example/b\n  \
                     username: ''\n  password: ''\n";
        let found = read(text).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, "https://charts.example/a");
        assert!(read(b"repositories: []").unwrap().is_empty());
        assert!(read(b"").unwrap().is_empty());
        let why = read(b"password: secret: secret").unwrap_err();
        assert!(!why.contains("secret"), "{why}");
    }
}
