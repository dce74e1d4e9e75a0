//! What was found, image by image.

use std::collections::{BTreeMap, BTreeSet};

use kubepkg_core::Reference;
use serde::Serialize;

use crate::documents::Unread;
use crate::explore::Explored;
use crate::found::{Findings, How, Place};
use crate::inputs::Outside;
use crate::possible::Possible;

/// Images and all that is to be said of them.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Images that are run, or named in a place that holds images.
    pub images: Vec<Entry>,
    /// What may be run besides.
    pub possible: Vec<PossibleEntry>,
    /// What could not be read.
    pub unread: Vec<Unread>,
    /// Charts that did not render.
    pub failed: Vec<Failed>,
    /// What is named and was not looked into.
    pub outside: Vec<Outside>,
    /// Charts whose values were not checked against their schema, as it would be fetched.
    pub schemas_skipped: Vec<String>,
    /// What was tried to find more; `None` where nothing was.
    pub explored: Option<Tries>,
}

/// A chart that did not render.
#[derive(Clone, Debug, Serialize)]
pub struct Failed {
    /// The chart.
    pub chart: String,
    /// Why.
    pub why: String,
}

/// One image.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    /// The image.
    pub image: Reference,
    /// The surest way it was found.
    pub how: How,
    /// Everywhere it stands, the surest first.
    pub places: Vec<Found>,
}

/// One place of an image.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Found {
    /// How it was found there.
    pub how: How,
    /// Where.
    #[serde(flatten)]
    pub place: Place,
}

/// An image that may be run.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PossibleEntry {
    /// The image, as far as it is known.
    pub image: Reference,
    /// Whether its version is a guess.
    pub version_assumed: bool,
    /// The chart whose value it is.
    pub chart: String,
    /// The value that names it; empty where it stands in a document.
    pub value: String,
    /// Where it stands in a document, or would stand.
    pub place: Option<Place>,
    /// Flags with which it is run, all of them together; empty where that is not known.
    pub include: Vec<String>,
    /// Whether it was rendered with these flags.
    pub tried: bool,
}

/// What was tried.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tries {
    /// How many settings.
    pub tried: usize,
    /// How many more there are.
    pub left_out: usize,
    /// Settings that do not render.
    pub failed: Vec<FailedTry>,
}

/// A setting with which a chart does not render.
#[derive(Clone, Debug, Serialize)]
pub struct FailedTry {
    /// The setting.
    pub flag: String,
    /// Helm's words.
    pub why: String,
}

impl Report {
    /// Adds what was found in documents.
    pub fn add(&mut self, findings: Findings) {
        let mut images: BTreeMap<Reference, Vec<Found>> = std::mem::take(&mut self.images)
            .into_iter()
            .map(|entry| (entry.image, entry.places))
            .collect();
        for seen in findings.sightings {
            let found = Found {
                how: seen.how,
                place: seen.place,
            };
            images.entry(seen.image).or_default().push(found);
        }
        self.unread.extend(findings.unread);
        let mut perhaps = Vec::new();
        for (image, mut places) in images {
            places.sort();
            places.dedup();
            let Some(first) = places.first() else {
                continue;
            };
            match first.how {
                How::Possible => perhaps.push((image, first.place.clone())),
                how => self.images.push(Entry { image, how, places }),
            }
        }
        for (image, place) in perhaps {
            self.possible.push(PossibleEntry {
                image,
                version_assumed: false,
                chart: String::new(),
                value: String::new(),
                place: Some(place),
                include: Vec::new(),
                tried: false,
            });
        }
    }

    /// Takes away what is no longer possible, because it is run by something else that was
    /// searched. To be called when all is added.
    pub fn tidy(&mut self) {
        let run = self.references();
        self.possible
            .retain(|one| one.version_assumed || !run.contains(&one.image));
    }

    /// The images of [`Report::images`].
    pub fn references(&self) -> BTreeSet<Reference> {
        self.images
            .iter()
            .map(|entry| entry.image.clone())
            .collect()
    }

    /// Adds what values of `chart` name, and what exploring it brought. An image that was
    /// rendered with some setting needs no guess.
    pub fn add_possible(
        &mut self,
        chart: &str,
        possible: Vec<Possible>,
        explored: Option<Explored>,
    ) {
        let mut tries = self.explored.take();
        let mut brought = BTreeSet::new();
        if let Some(explored) = explored {
            let all = tries.get_or_insert_default();
            all.tried += explored.tried;
            all.left_out += explored.left_out;
            all.failed
                .extend(explored.failed.into_iter().map(|(extra, why)| FailedTry {
                    flag: extra.flag(),
                    why,
                }));
            for (image, found) in explored.images {
                brought.insert(image.clone());
                self.possible.push(PossibleEntry {
                    image,
                    version_assumed: false,
                    chart: chart.to_owned(),
                    value: String::new(),
                    place: Some(found.place),
                    include: found
                        .by
                        .first()
                        .map(|extra| vec![extra.flag()])
                        .unwrap_or_default(),
                    tried: true,
                });
            }
        }
        self.explored = tries;
        for one in possible {
            let rendered = |image: &Reference| match one.version_assumed {
                true => image.repository() == one.image.repository(),
                false => *image == one.image,
            };
            if brought.iter().any(rendered) {
                continue;
            }
            self.possible.push(PossibleEntry {
                image: one.image,
                version_assumed: one.version_assumed,
                chart: chart.to_owned(),
                value: one.value,
                place: one.place,
                include: one
                    .switches
                    .iter()
                    .map(|pair| format!("--set {pair}"))
                    .collect(),
                tried: false,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explore::Brought;
    use crate::found::Sighting;
    use crate::helm::Extra;

    fn image(text: &str) -> Reference {
        text.parse().unwrap()
    }

    fn seen(text: &str, how: How, path: &str) -> Sighting {
        let place = Place {
            path: path.to_owned(),
            ..Place::default()
        };
        Sighting {
            image: image(text),
            how,
            place,
        }
    }

    #[test]
    fn places_come_together_and_the_surest_leads() {
        let mut report = Report::default();
        let findings = |sightings| Findings {
            sightings,
            unread: Vec::new(),
        };
        report.add(findings(vec![
            seen("a.io/b:1", How::Annotation, "x"),
            seen("a.io/c:1", How::Possible, "y"),
        ]));
        report.add(findings(vec![
            seen("a.io/b:1", How::Container, "z"),
            seen("a.io/b:1", How::Annotation, "x"),
        ]));
        assert_eq!(report.images.len(), 1);
        let entry = &report.images[0];
        assert_eq!((entry.how, entry.places.len()), (How::Container, 2));
        assert_eq!(report.possible.len(), 1);
        report.add(findings(vec![seen("a.io/c:1", How::Field, "w")]));
        report.tidy();
        assert!(report.possible.is_empty());
    }

    #[test]
    fn what_was_rendered_with_a_setting_needs_no_guess() {
        let guess = |text: &str, assumed| Possible {
            image: image(text),
            version_assumed: assumed,
            value: "v".to_owned(),
            place: None,
            switches: vec!["a.enabled=true".to_owned()],
        };
        let brought = Brought {
            by: vec![Extra::Set("b=true".to_owned())],
            how: How::Container,
            place: Place::default(),
        };
        let explored = Explored {
            images: [(image("a.io/b:2"), brought)].into(),
            tried: 4,
            ..Explored::default()
        };
        let mut report = Report::default();
        let guesses = vec![guess("a.io/b:1", true), guess("a.io/c:1", false)];
        report.add_possible("web", guesses, Some(explored));
        let told: Vec<_> = report
            .possible
            .iter()
            .map(|p| (p.image.to_string(), p.include.clone()))
            .collect();
        assert_eq!(
            told,
            [
                ("a.io/b:2".to_owned(), vec!["--set b=true".to_owned()]),
                (
                    "a.io/c:1".to_owned(),
                    vec!["--set a.enabled=true".to_owned()]
                ),
            ]
        );
        assert_eq!(report.explored.unwrap().tried, 4);
    }
}
