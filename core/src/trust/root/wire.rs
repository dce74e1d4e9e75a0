//! The form of a root file. The order of members is that of the signed JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What is signed, exactly as it was written: its JSON is the signed text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Signed {
    pub version: i64,
    pub expires: String,
    pub keys: BTreeMap<String, String>,
    pub roles: BTreeMap<String, Role>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub delegations: Vec<Delegation>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Role {
    pub keyids: Vec<String>,
    pub threshold: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Delegation {
    pub name: String,
    pub packages: Vec<String>,
    pub keyids: Vec<String>,
    pub threshold: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Signature {
    pub keyid: String,
    pub sig: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Signatures {
    pub signatures: Vec<Signature>,
}
