//! What is asked of the page.

use url::form_urlencoded;

/// Longest search in characters: longer than any reference.
const MAX_SEARCH: usize = 500;

/// The query of the page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    /// What is searched for, in small letters; empty for everything.
    pub search: String,
    /// The part of the list, from 1 on.
    pub page: usize,
}

impl Asked {
    /// Reads a query. What it does not know says nothing: people type.
    pub(super) fn read(query: &str) -> Asked {
        let mut asked = Asked {
            search: String::new(),
            page: 1,
        };
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*key {
                "q" => {
                    let trimmed = value.trim().chars().take(MAX_SEARCH);
                    asked.search = trimmed.collect::<String>().to_lowercase();
                }
                "page" => asked.page = value.parse().unwrap_or(1).max(1),
                _ => {}
            }
        }
        asked
    }

    /// Whether this is the page as one opens it, with everything on it.
    pub(super) fn is_whole(&self) -> bool {
        self.search.is_empty() && self.page == 1
    }

    /// The address of another part of the same list.
    pub(super) fn at(&self, page: usize) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        if !self.search.is_empty() {
            query.append_pair("q", &self.search);
        }
        if page > 1 {
            query.append_pair("page", &page.to_string());
        }
        match query.finish() {
            query if query.is_empty() => "/#repositories".to_owned(),
            query => format!("/?{query}#repositories"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_typed_is_a_query() {
        for (query, search, page) in [
            ("", "", 1),
            ("q=", "", 1),
            ("q=+Web%2F1.0+", "web/1.0", 1),
            ("q=%3Cscript%3E&page=3", "<script>", 3),
            ("page=0", "", 1),
            ("page=-1", "", 1),
            ("page=99999999999999999999999", "", 1),
            ("q=%FF&x=y", "\u{fffd}", 1),
        ] {
            let asked = Asked::read(query);
            assert_eq!((&*asked.search, asked.page), (search, page), "{query}");
        }
        let long = format!("q={}", "x".repeat(10_000));
        assert_eq!(Asked::read(&long).search.len(), MAX_SEARCH);
    }

    #[test]
    fn parts_of_a_list_keep_the_search() {
        let asked = Asked::read("q=a%26b");
        assert_eq!(asked.at(2), "/?q=a%26b&page=2#repositories");
        assert_eq!(Asked::read(&asked.at(2)[2..23]).search, "a&b");
        assert_eq!(Asked::default().at(1), "/#repositories");
    }
}
