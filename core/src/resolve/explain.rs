//! From the solver's conflict to reasons in plain sentences.
//!
//! The conflict is a graph: what requires what, and what rules out what. Its leaves are the
//! reasons; the shortest way from a request to each of them is its chain.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use petgraph::graph::NodeIndex;
use petgraph::visit::EdgeRef as _;
use resolvo::conflict::{ConflictCause, ConflictEdge, ConflictGraph, ConflictNode};
use resolvo::{Requirement, SolvableId, VersionSetId};

use super::error::{ANY_VERSION, Fault, Proof, Reason, ResolveError};
use super::help::help;
use super::model::{Goal, Model};
use super::origin::Origin;
use super::terms::{Item, Name, Rule};
use crate::select::Selection;

/// How many reasons are told, and links of a chain: a person reads no more.
const MAX_REASONS: usize = 5;
const MAX_LINKS: usize = 6;

/// How many versions are looked at for the variants they have.
const MAX_DECODED: usize = 20;

/// How many parties of one disagreement are named.
const MAX_WANTS: usize = 6;

type Graph = ConflictGraph<SolvableId>;

/// What the solver's conflict means.
pub(super) fn explain(graph: &Graph, model: &Model<'_, '_>) -> ResolveError {
    let paths = Paths::new(graph, model);
    let explainer = Explainer {
        graph,
        model,
        paths,
    };
    let mut found: Vec<(usize, Fault, NodeIndex)> = explainer.faults();
    found.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    let mut reasons: Vec<Reason> = Vec::new();
    let mut seen: BTreeMap<Fault, usize> = BTreeMap::new();
    for (_, fault, at) in found {
        // versions of one package that fail for one reason are told once
        match seen.get(&without_versions(&fault)) {
            Some(known) => {
                if reasons[*known].fault != fault {
                    reasons[*known].others += 1;
                }
            }
            None => {
                seen.insert(without_versions(&fault), reasons.len());
                reasons.push(Reason {
                    chain: explainer.chain(at),
                    fault,
                    others: 0,
                });
            }
        }
    }
    let help = help(&reasons, model);
    let more = reasons.len().saturating_sub(MAX_REASONS);
    reasons.truncate(MAX_REASONS);
    ResolveError::Unsatisfiable(Proof {
        reasons,
        more,
        help,
    })
}

/// The shortest ways from the root to all nodes, along requirements.
struct Paths {
    depth: BTreeMap<NodeIndex, usize>,
    parent: BTreeMap<NodeIndex, (NodeIndex, Requirement)>,
}

impl Paths {
    fn new(graph: &Graph, model: &Model<'_, '_>) -> Paths {
        let mut paths = Paths {
            depth: [(graph.root_node, 0)].into(),
            parent: BTreeMap::new(),
        };
        let mut queue = VecDeque::from([graph.root_node]);
        while let Some(node) = queue.pop_front() {
            let depth = paths.depth[&node] + 1;
            let mut next: Vec<_> = graph
                .graph
                .edges(node)
                .filter_map(|edge| match edge.weight() {
                    ConflictEdge::Requires(by) => Some((edge.target(), *by)),
                    ConflictEdge::Conflict(_) => None,
                })
                .collect();
            // the graph's own order is not the same from run to run
            next.sort_by_key(|(target, by)| (item(graph, model, *target), *by));
            for (target, by) in next {
                if let std::collections::btree_map::Entry::Vacant(new) = paths.depth.entry(target) {
                    new.insert(depth);
                    paths.parent.insert(target, (node, by));
                    queue.push_back(target);
                }
            }
        }
        paths
    }

    fn depth(&self, node: NodeIndex) -> usize {
        self.depth.get(&node).copied().unwrap_or(usize::MAX)
    }
}

fn item(graph: &Graph, model: &Model<'_, '_>, node: NodeIndex) -> Option<Item> {
    match graph.graph[node] {
        ConflictNode::Solvable(id) => Some(model.terms.item_of(id)),
        _ => None,
    }
}

struct Explainer<'g, 'm, 'a, 'c> {
    graph: &'g Graph,
    model: &'m Model<'a, 'c>,
    paths: Paths,
}

impl Explainer<'_, '_, '_, '_> {
    fn item(&self, node: NodeIndex) -> Option<Item> {
        item(self.graph, self.model, node)
    }

    /// Who `node` is as one that requires something, by name or via a capability.
    fn origin(&self, node: NodeIndex, via: Option<String>) -> Origin {
        match self.item(node) {
            Some(Item::Release(package, at, slot)) => Origin::Package {
                version: self.model.release(&package, at).listed.version.clone(),
                name: package.to_string(),
                variant: slot.map(|variant| variant.to_string()),
                via,
            },
            Some(Item::Stays(package)) => Origin::Installed {
                version: match self.model.goal {
                    Goal::Install(install) => {
                        let installed = install.state.packages.get(package.as_ref());
                        installed.map_or_else(String::new, |i| i.version.clone())
                    }
                    Goal::Pack(_) => String::new(),
                },
                name: package.to_string(),
                via,
            },
            _ => Origin::Requested,
        }
    }

    /// The faults, each with its depth and the node it is about.
    fn faults(&self) -> Vec<(usize, Fault, NodeIndex)> {
        let mut found = Vec::new();
        let mut disputed = BTreeSet::new();
        for edge in self.graph.graph.edge_references() {
            let (from, to) = (edge.source(), edge.target());
            let depth = self.paths.depth(from);
            match edge.weight() {
                ConflictEdge::Requires(wanted) if Some(to) == self.graph.unresolved_node => {
                    found.push((depth, self.unresolved(from, *wanted), from));
                }
                ConflictEdge::Requires(_) => {}
                ConflictEdge::Conflict(ConflictCause::Excluded) => {
                    if let (Some(item), ConflictNode::Excluded(why)) =
                        (self.item(from), self.graph.graph[to])
                    {
                        let fault = Fault::Unusable {
                            package: self.model.shown(&item),
                            why: self.model.terms.text_of(why),
                        };
                        found.push((depth, fault, from));
                    }
                }
                ConflictEdge::Conflict(ConflictCause::Constrains(_)) => {
                    if let Some(ruled_out) = self.item(to) {
                        let fault = self.clash(from, to, &ruled_out);
                        found.push((depth.max(self.paths.depth(to)), fault, from));
                    }
                }
                ConflictEdge::Conflict(ConflictCause::ForbidMultipleInstances) => {
                    disputed.extend(self.item(from).map(|item| item.name()));
                    disputed.extend(self.item(to).map(|item| item.name()));
                }
                ConflictEdge::Conflict(ConflictCause::Locked(_)) => {}
            }
        }
        for name in disputed {
            found.extend(self.dispute(&name));
        }
        found
    }

    /// Nothing meets what `from` requires.
    fn unresolved(&self, from: NodeIndex, wanted: Requirement) -> Fault {
        let set = match wanted {
            Requirement::Single(set) => Some(set),
            Requirement::Union(union) => self.model.terms.union_of(union).first().copied(),
        };
        let Some(set) = set else {
            return Fault::NoProvider {
                capability: String::new(),
                by: self.origin(from, None),
            };
        };
        let (name, rule) = self.model.terms.set_of(set);
        let by = self.origin(from, None);
        match (self.model.terms.name_of(name), rule) {
            (Name::Unoffered(capability), _) => Fault::NoProvider {
                capability: capability.to_string(),
                by,
            },
            (_, Rule::Offers(capability)) => Fault::NoProvider {
                capability: capability.to_string(),
                by,
            },
            (Name::Package(package), rule) => {
                let releases = self.model.world.releases(&package);
                if self.model.world.lock().is_some() {
                    let locked = releases.first();
                    return Fault::NotLocked {
                        package: package.to_string(),
                        wanted: wanted_text(&rule),
                        by,
                        locked: locked.map(|release| release.listed.version.clone()),
                    };
                }
                match self.model.world.catalog().supplier(&package) {
                    None => Fault::Missing {
                        package: package.to_string(),
                        by,
                    },
                    Some(supplier) => Fault::NoVersion {
                        wanted: wanted_text(&rule),
                        by,
                        source: supplier.name.clone(),
                        has: self.has(&package, &releases, &rule),
                        package: package.to_string(),
                    },
                }
            }
            (Name::Standing(what), _) => Fault::NoProvider {
                capability: what.to_string(),
                by,
            },
            (Name::Value(place), _) => Fault::Missing {
                package: place.package.to_string(),
                by,
            },
        }
    }

    /// The versions of `package` there are, and where a variant is wanted, their variants.
    fn has(&self, package: &str, releases: &[Selection<'_>], rule: &Rule) -> String {
        let has = self.model.world.catalog().has(package, releases);
        match rule {
            Rule::Version { variant, .. } if !variant.is_empty() && !releases.is_empty() => {
                let variants = variants_there(self.model, package, rule);
                match variants.is_empty() {
                    true => format!("{has}; it has no variants"),
                    false => format!("{has}; its variants: {}", variants.join(", ")),
                }
            }
            _ => has,
        }
    }

    fn clash(&self, from: NodeIndex, to: NodeIndex, ruled_out: &Item) -> Fault {
        match self.item(from) {
            Some(item) => Fault::Clash {
                package: self.model.shown(&item),
                with: self.model.shown(ruled_out),
            },
            // only a removal rules out something by itself
            None => {
                let package = ruled_out.package().map(ToString::to_string);
                let mut by: Vec<Origin> = self
                    .requirers(to)
                    .into_iter()
                    .map(|(node, set)| self.origin(node, self.via(set)))
                    .collect();
                by.sort();
                by.dedup();
                by.truncate(MAX_WANTS);
                Fault::Removed {
                    package: package.unwrap_or_default(),
                    by,
                }
            }
        }
    }

    /// The nodes that require `node`, and by which set of it.
    fn requirers(&self, node: NodeIndex) -> Vec<(NodeIndex, VersionSetId)> {
        let incoming = petgraph::Direction::Incoming;
        let mut found = Vec::new();
        for edge in self.graph.graph.edges_directed(node, incoming) {
            let ConflictEdge::Requires(requirement) = edge.weight() else {
                continue;
            };
            match *requirement {
                Requirement::Single(set) => found.push((edge.source(), set)),
                Requirement::Union(union) => {
                    let item = self.item(node);
                    let sets = self.model.terms.union_of(union);
                    let of = sets.iter().copied().find(|set| {
                        let (name, rule) = self.model.terms.set_of(*set);
                        item.as_ref().is_some_and(|item| {
                            self.model.terms.name_of(name) == item.name()
                                && self.model.takes(&rule, item)
                        })
                    });
                    found.extend(of.map(|set| (edge.source(), set)));
                }
            }
        }
        found
    }

    fn via(&self, set: VersionSetId) -> Option<String> {
        match self.model.terms.set_of(set).1 {
            Rule::Offers(capability) => Some(capability.to_string()),
            _ => None,
        }
    }

    /// All that want something of `name`, of which only one item can be chosen.
    fn dispute(&self, name: &Name) -> Option<(usize, Fault, NodeIndex)> {
        let nodes = self.graph.graph.node_indices();
        let of_name = nodes.filter(|node| self.item(*node).is_some_and(|i| i.name() == *name));
        let mut wants: BTreeMap<(usize, String, Origin), (NodeIndex, Option<String>)> =
            BTreeMap::new();
        for node in of_name {
            for (from, set) in self.requirers(node) {
                let rule = self.model.terms.set_of(set).1;
                if matches!(rule, Rule::Any) {
                    continue;
                }
                let by = self.origin(from, self.via(set));
                let item = self.item(from).map(|item| self.model.shown(&item));
                let key = (self.paths.depth(from), wanted_text(&rule), by);
                wants.insert(key, (from, item));
            }
        }
        let ((depth, ..), (at, _)) = wants.last_key_value()?;
        let (depth, at) = (*depth, *at);
        let mut shown: Vec<(String, Origin)> = Vec::new();
        let mut items: Vec<String> = Vec::new();
        for ((_, what, by), (_, item)) in &wants {
            // what is installed wants what its version in the repository wants: told once
            let twin = shown
                .iter_mut()
                .find(|(known, of)| known == what && twins(of, by));
            if let Some((_, of)) = twin {
                if matches!(by, Origin::Installed { .. }) {
                    *of = by.clone();
                }
                continue;
            }
            // of the versions of one package that want the same, the first stands for all
            let same = |(known, of): &(String, Origin)| known == what && same_package(of, by);
            if !shown.iter().any(same) && shown.len() < MAX_WANTS {
                shown.push((what.clone(), by.clone()));
                items.extend(item.clone());
            }
        }
        if shown.len() < 2 {
            return None;
        }
        let fault = match name {
            Name::Package(package) => Fault::Disagree {
                package: package.to_string(),
                wants: shown,
            },
            Name::Value(place) => Fault::Values {
                package: place.package.to_string(),
                key: match place.key.as_str() {
                    "" => place.component.clone(),
                    key => format!("{key} of component {}", place.component),
                },
                wants: shown,
            },
            Name::Standing(_) | Name::Unoffered(_) => {
                items.sort();
                Fault::Clash {
                    package: items.first().cloned().unwrap_or_default(),
                    with: items.last().cloned().unwrap_or_default(),
                }
            }
        };
        Some((depth, fault, at))
    }

    /// How the root leads to `node`, each link a sentence.
    fn chain(&self, node: NodeIndex) -> Vec<String> {
        let mut links = Vec::new();
        let mut at = node;
        while let Some((parent, by)) = self.paths.parent.get(&at) {
            if let (Some(from), Some(to)) = (self.item(*parent), self.item(at)) {
                let what = to.package().map_or_else(String::new, ToString::to_string);
                let how = match by {
                    Requirement::Single(set) => match self.model.terms.set_of(*set).1 {
                        Rule::Version { constraint, .. } if !constraint.is_empty() => {
                            format!("{what} {constraint}")
                        }
                        _ => what,
                    },
                    Requirement::Union(union) => {
                        let sets = self.model.terms.union_of(*union);
                        match sets.first().and_then(|set| self.via(*set)) {
                            Some(capability) => format!("{capability}, which {what} offers"),
                            None => what,
                        }
                    }
                };
                links.push(format!("{} requires {how}", self.model.shown(&from)));
            }
            at = *parent;
        }
        links.reverse();
        if links.len() > MAX_LINKS {
            let left_out = links.len() - MAX_LINKS;
            links.drain(MAX_LINKS / 2..MAX_LINKS / 2 + left_out);
            links.insert(MAX_LINKS / 2, format!("{left_out} more links"));
        }
        links
    }
}

/// What a rule wants, in words.
fn wanted_text(rule: &Rule) -> String {
    match rule {
        Rule::Version {
            constraint,
            variant,
            ..
        } => {
            let version = match constraint.as_ref() {
                "" => ANY_VERSION,
                constraint => constraint,
            };
            match (constraint.as_ref(), variant.as_ref()) {
                (_, "") => version.to_owned(),
                ("", variant) => format!("variant {variant}"),
                (_, variant) => format!("{version} in variant {variant}"),
            }
        }
        Rule::Offers(capability) => format!("a version that offers {capability}"),
        Rule::Is(Item::Value(_, value)) => value.to_string(),
        Rule::Stays => "the installed version".to_owned(),
        Rule::Among(_) => "a version that asks for the variant".to_owned(),
        Rule::Any | Rule::Nothing | Rule::Changes | Rule::Is(_) => ANY_VERSION.to_owned(),
    }
}

fn same_package(a: &Origin, b: &Origin) -> bool {
    match (a, b) {
        (Origin::Package { name: a, .. }, Origin::Package { name: b, .. }) => a == b,
        _ => a == b,
    }
}

/// Whether one is the installed version and the other one a version to install.
fn twins(a: &Origin, b: &Origin) -> bool {
    match (a, b) {
        (Origin::Package { name: a, .. }, Origin::Installed { name: b, .. })
        | (Origin::Installed { name: a, .. }, Origin::Package { name: b, .. }) => a == b,
        _ => false,
    }
}

/// The variants of the versions of `package` that meet the constraint of `rule`; of many
/// versions those of the newest, because each is decoded for that.
pub(super) fn variants_there(model: &Model<'_, '_>, package: &str, rule: &Rule) -> Vec<String> {
    let Rule::Version { constraint, .. } = rule else {
        return Vec::new();
    };
    let constraint = model.world.constraint(constraint);
    let releases = model.world.releases(package);
    let fitting = releases
        .iter()
        .filter(|release| super::world::meets(release, &constraint));
    let variants = fitting
        .take(MAX_DECODED)
        .flat_map(|release| &release.listed.spec().variants)
        .map(|variant| variant.name.clone());
    let variants: BTreeSet<String> = variants.collect();
    variants.into_iter().collect()
}

/// The fault with all versions of requiring packages taken out.
fn without_versions(fault: &Fault) -> Fault {
    let plain = |origin: &Origin| match origin {
        Origin::Package { name, via, .. } => Origin::Package {
            name: name.clone(),
            version: String::new(),
            variant: None,
            via: via.clone(),
        },
        other => other.clone(),
    };
    let name = |shown: &str| shown.split(' ').next().unwrap_or_default().to_owned();
    let mut fault = fault.clone();
    match &mut fault {
        Fault::Missing { by, .. }
        | Fault::NoVersion { by, .. }
        | Fault::NotLocked { by, .. }
        | Fault::NoProvider { by, .. } => *by = plain(by),
        Fault::Disagree { wants, .. } | Fault::Values { wants, .. } => {
            wants.iter_mut().for_each(|(_, by)| *by = plain(by));
        }
        Fault::Clash { package, with } => {
            let mut both = [name(package), name(with)];
            both.sort();
            [*package, *with] = both;
        }
        Fault::Removed { by, .. } => by.iter_mut().for_each(|by| *by = plain(by)),
        Fault::Unusable { package, .. } => *package = name(package),
    }
    fault
}
