//! Key ids in JSON: a list of texts.

use std::collections::BTreeSet;

use serde::{Deserialize, Deserializer, Serializer, de};

use crate::keys::KeyId;

pub fn serialize<S: Serializer>(ids: &BTreeSet<KeyId>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(ids.iter().map(ToString::to_string))
}

pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeSet<KeyId>, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    let id = |text: &String| {
        text.parse()
            .map_err(|_| de::Error::custom(format!("{text:?} is no key id")))
    };
    texts.iter().map(id).collect()
}
