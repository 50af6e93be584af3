//! What is wanted of a group: a filter of sources, and how the wishes of several holders become one (RFC 3376 §3.2, RFC 3810 §4.2).

use std::collections::BTreeSet;
use std::net::IpAddr;
use weft_core::SourceFilter;
use weft_core::state::{Damage, Field, Reader, Writer};

/// A filter mode with its sources.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::ip) enum Filter {
    /// Only these; none: the group is not listened to.
    Include(BTreeSet<IpAddr>),
    /// All but these.
    Exclude(BTreeSet<IpAddr>),
}

impl Field for Filter {
    fn write(&self, out: &mut Writer) {
        out.put(&self.is_exclude());
        out.put(self.sources());
    }
    fn read(from: &mut Reader<'_>) -> Result<Filter, Damage> {
        let (exclude, sources) = (from.take()?, from.take()?);
        Ok(if exclude { Filter::Exclude(sources) } else { Filter::Include(sources) })
    }
}

impl Filter {
    /// The group is not listened to.
    pub(in crate::ip) const NOTHING: Filter = Filter::Include(BTreeSet::new());

    /// Is a packet from this source wanted?
    pub(in crate::ip) fn wants(&self, source: IpAddr) -> bool {
        match self {
            Filter::Include(sources) => sources.contains(&source),
            Filter::Exclude(sources) => !sources.contains(&source),
        }
    }

    pub(in crate::ip) fn is_nothing(&self) -> bool {
        matches!(self, Filter::Include(sources) if sources.is_empty())
    }

    pub(in crate::ip) const fn is_exclude(&self) -> bool {
        matches!(self, Filter::Exclude(_))
    }

    pub(in crate::ip) const fn sources(&self) -> &BTreeSet<IpAddr> {
        match self {
            Filter::Include(sources) | Filter::Exclude(sources) => sources,
        }
    }

    /// RFC 3376 §3.2: "if any such record has a filter mode of EXCLUDE, then the filter mode of the interface record is EXCLUDE, and the source
    /// list of the interface record is the intersection of the source lists of all socket records in EXCLUDE mode, minus those source addresses
    /// that appear in any socket record in INCLUDE mode"; "if all such records have a filter mode of INCLUDE, then the filter mode of the
    /// interface record is INCLUDE, and the source list of the interface record is the union of the source lists of all the socket records".
    pub(in crate::ip) fn merge<'a>(holders: impl Iterator<Item = &'a Filter>) -> Filter {
        let mut included = BTreeSet::new();
        let mut excluded: Option<BTreeSet<IpAddr>> = None;
        for holder in holders {
            match holder {
                Filter::Include(sources) => included.extend(sources.iter().copied()),
                Filter::Exclude(sources) => {
                    excluded = Some(match excluded {
                        None => sources.clone(),
                        Some(before) => before.intersection(sources).copied().collect(),
                    });
                }
            }
        }
        match excluded {
            None => Filter::Include(included),
            Some(excluded) => Filter::Exclude(excluded.difference(&included).copied().collect()),
        }
    }
}

impl From<SourceFilter> for Filter {
    fn from(filter: SourceFilter) -> Filter {
        match filter {
            SourceFilter::Include(sources) => Filter::Include(sources.into_iter().collect()),
            SourceFilter::Exclude(sources) => Filter::Exclude(sources.into_iter().collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filter() -> impl Strategy<Value = Filter> {
        let sources = proptest::collection::btree_set((0u8..8).prop_map(|last| IpAddr::from([192, 0, 2, last])), 0..6);
        (any::<bool>(), sources).prop_map(|(exclude, sources)| if exclude { Filter::Exclude(sources) } else { Filter::Include(sources) })
    }

    proptest! {
        /// The interface wants whatever some holder wants.
        #[test]
        fn merging_is_the_union_of_wishes(holders in proptest::collection::vec(filter(), 0..6)) {
            let merged = Filter::merge(holders.iter());
            for last in 0u8..9 {
                let source = IpAddr::from([192, 0, 2, last]);
                prop_assert_eq!(merged.wants(source), holders.iter().any(|holder| holder.wants(source)), "{}", source);
            }
        }
    }
}
