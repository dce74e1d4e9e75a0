//! The JSON form of a plan. It is documented in `docs/plan.md` and only added to.

use serde::{Deserialize, Serialize};

use super::{Action, At, Change, Note, Plan};
use crate::Digest;
use crate::resolve::Origin;

/// `apiVersion` of a plan.
pub const PLAN_API_VERSION: &str = "kubepkg.dev/v1";

/// Kind of a plan.
pub const PLAN_KIND: &str = "Plan";

/// A plan as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanDocument {
    /// [`PLAN_API_VERSION`].
    pub api_version: String,
    /// [`PLAN_KIND`].
    pub kind: String,
    /// Whether anything changes.
    pub changes_anything: bool,
    /// The rows, in the order they are carried out.
    pub changes: Vec<Row>,
    /// Requirements of installed packages that will not hold any more.
    pub breaks: Vec<Broken>,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// What is done.
    pub action: Action,
    /// The package.
    pub package: String,
    /// What is there now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Place>,
    /// What will be there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Place>,
    /// The repository.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub repository: String,
    /// Digest of the spec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// Whether the call asked for it.
    pub requested: bool,
    /// Everybody who wants it.
    pub why: Vec<Why>,
    /// What a person should know.
    pub notes: Vec<Remark>,
}

/// A version in a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Place {
    /// The version.
    pub version: String,
    /// The build.
    pub build: u32,
    /// The variant.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub variant: String,
}

/// A reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Why {
    /// The reason in words.
    pub text: String,
    /// The package that requires it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The capability it asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
}

/// A note with its words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Remark {
    /// The note in words.
    pub text: String,
    /// What it says.
    #[serde(flatten)]
    pub note: Note,
}

/// A requirement that will not hold any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Broken {
    /// The installed package.
    pub package: String,
    /// Its version.
    pub version: String,
    /// What it requires.
    pub requires: String,
}

impl From<&Plan> for PlanDocument {
    fn from(plan: &Plan) -> PlanDocument {
        let breaks = plan.breaks.iter().map(|broken| Broken {
            package: broken.package.clone(),
            version: broken.version.clone(),
            requires: broken.requires.clone(),
        });
        PlanDocument {
            api_version: PLAN_API_VERSION.to_owned(),
            kind: PLAN_KIND.to_owned(),
            changes_anything: !plan.is_nothing(),
            changes: plan.changes.iter().map(Row::from).collect(),
            breaks: breaks.collect(),
        }
    }
}

impl From<&Change> for Row {
    fn from(change: &Change) -> Row {
        let notes = change.notes.iter().map(|note| Remark {
            text: note.to_string(),
            note: note.clone(),
        });
        Row {
            action: change.action,
            package: change.package.clone(),
            from: change.from.as_ref().map(Place::from),
            to: change.to.as_ref().map(Place::from),
            repository: change.repository.clone(),
            digest: change.digest,
            requested: change.is_requested(),
            why: change.why.iter().map(Why::from).collect(),
            notes: notes.collect(),
        }
    }
}

impl From<&At> for Place {
    fn from(at: &At) -> Place {
        Place {
            version: at.version.clone(),
            build: at.build,
            variant: at.variant.clone(),
        }
    }
}

impl From<&Origin> for Why {
    fn from(origin: &Origin) -> Why {
        let text = origin.to_string();
        match origin {
            Origin::Requested | Origin::Displaced => Why {
                text,
                ..Why::default()
            },
            Origin::Package {
                name, version, via, ..
            }
            | Origin::Installed { name, version, via } => Why {
                text,
                package: Some(name.clone()),
                version: Some(version.clone()),
                via: via.clone(),
            },
        }
    }
}
