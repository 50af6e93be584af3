//! Variants of a scenario for `weft twin`: which of its hosts are Linux kernels.

use super::draft::NodeDraft;
use super::names::matches;
use super::raw::Raw;
use super::source::Source;
use crate::limits::NAMES_TOLD;
use std::collections::BTreeSet;
use weft_node::Spanned;
use weft_node::StackError;

/// The scenario with some of its hosts on Linux kernels, and the others on weft's stack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Twin {
    /// What it is called.
    pub name: String,
    /// Names of nodes, or patterns of them.
    pub linux: Vec<String>,
    /// Assignments over the file.
    pub sets: Vec<String>,
}

impl Twin {
    /// Those that there always are: all hosts with weft's stack, and all with Linux.
    pub fn usual() -> [Twin; 2] {
        let twin = |name: &str, linux| Twin { name: name.to_owned(), linux, sets: Vec::new() };
        [twin("weft", Vec::new()), twin("linux", vec!["*".to_owned()])]
    }
}

fn is_host(draft: &NodeDraft) -> bool {
    draft.section.kind.as_ref().is_none_or(|kind| matches!(kind.get_ref().as_str(), "host" | "linux"))
}

/// Those of the file.
pub(super) fn all(source: &Source<'_>, raw: &Raw, drafts: &[NodeDraft]) -> Result<Vec<Twin>, StackError> {
    let usual = Twin::usual();
    let mut seen: BTreeSet<&str> = usual.iter().map(|twin| twin.name.as_str()).collect();
    let mut twins = Vec::new();
    for twin in &raw.twins {
        let name = &twin.name;
        let fits = !name.get_ref().is_empty() && name.get_ref().bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        if !fits {
            return Err(source.error(
                name.span(),
                format!("'{}' is no name of a variant", name.get_ref()),
                "use letters, digits, '-' and '_'",
            ));
        }
        if !seen.insert(name.get_ref()) {
            let help =
                "weft (no host is a Linux kernel) and linux (all are) are there without being named; give each other one a name of its own";
            return Err(source.error(name.span(), format!("there is a variant '{}' already", name.get_ref()), help));
        }
        for pattern in &twin.linux {
            if !drafts.iter().filter(|draft| is_host(draft)).any(|draft| matches(pattern.get_ref(), &draft.name)) {
                let hosts: Vec<&str> =
                    drafts.iter().filter(|draft| is_host(draft)).map(|draft| draft.name.as_str()).take(NAMES_TOLD).collect();
                let help = format!("the scenario has: {}", hosts.join(", "));
                return Err(source.error(pattern.span(), format!("there is no host '{}'", pattern.get_ref()), help));
            }
        }
        let linux = twin.linux.iter().map(|pattern| pattern.get_ref().clone()).collect();
        twins.push(Twin { name: name.get_ref().clone(), linux, sets: twin.set.clone() });
    }
    Ok(twins)
}

/// Every host is on the stack that the variant says.
pub(super) fn recast(drafts: &mut [NodeDraft], linux: &[String]) {
    for draft in drafts.iter_mut().filter(|draft| is_host(draft)) {
        let is_linux = linux.iter().any(|pattern| matches(pattern, &draft.name));
        draft.section.kind = is_linux.then(|| Spanned::new(draft.span.clone(), "linux".to_owned()));
        draft.section.kernel.take_if(|_| !is_linux);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Scenario, Text};
    use super::*;
    use crate::plan::NodeKind;
    use std::path::Path;

    const FILE: &str = "[nodes.a]\nkind = \"linux\"\nkernel = \"6.12\"\n[nodes.b]\ncount = 2\n[nodes.s]\nkind = \"switch\"\n[wires.w]\nbetween = [\"a\", \"s\"]\n[wires.v]\nbetween = [\"b*\", \"s\"]\n";

    fn kinds(twin: &Twin) -> String {
        let text = Text { file: "w.toml", folder: Path::new(""), text: FILE, sets: &[], read: &|_| Err(String::new()) };
        let scenario = Scenario::read(&text, Some(twin)).unwrap();
        let letter = |kind: &NodeKind| match kind {
            NodeKind::Host(_) => 'h',
            NodeKind::Guest(_) => 'l',
            NodeKind::Switch(_) => 's',
        };
        scenario.plan.nodes.iter().map(|node| letter(&node.kind)).collect()
    }

    #[test]
    fn hosts_are_on_the_stack_that_the_variant_says() {
        let [weft, linux] = Twin::usual();
        assert_eq!((kinds(&weft), kinds(&linux)), ("hhhs".to_owned(), "llls".to_owned()));
        let mixed = Twin { name: "mixed".to_owned(), linux: vec!["b2".to_owned()], sets: Vec::new() };
        assert_eq!(kinds(&mixed), "hhls");
    }

    #[test]
    fn wrong_variants_are_refused_with_their_line() {
        let read = |twins: &str| Scenario::parse("w.toml", &format!("{FILE}{twins}"), &[], &|_| Err(String::new()));
        let right = read("[[twins]]\nname = \"mixed\"\nlinux = [\"b*\"]\nset = [\"seed=3\"]\n").unwrap().twins;
        assert_eq!(right, [Twin { name: "mixed".to_owned(), linux: vec!["b*".to_owned()], sets: vec!["seed=3".to_owned()] }]);
        for (twins, line, what) in [
            ("[[twins]]\nname = \"linux\"\nlinux = []\n", 13, "there is a variant 'linux' already"),
            ("[[twins]]\nname = \"a b\"\nlinux = []\n", 13, "'a b' is no name of a variant"),
            ("[[twins]]\nname = \"m\"\nlinux = [\"s\"]\n", 14, "there is no host 's'"),
            ("[[twins]]\nname = \"m\"\nlinux = []\n[[twins]]\nname = \"m\"\nlinux = []\n", 16, "there is a variant 'm' already"),
        ] {
            let error = read(twins).unwrap_err();
            assert_eq!((error.line, error.what.contains(what)), (line, true), "{error}");
        }
    }
}
