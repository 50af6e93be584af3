//! One group on one interface: what its holders want, and what is still to be said of it.

use super::filter::Filter;
use super::{Record, RecordKind};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use weft_core::Instant;

/// One group on one interface.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) holders: BTreeMap<u64, Filter>,
    pub(super) current: Filter,
    /// Reports of a change of mode that are still to be sent.
    pub(super) mode_left: u32,
    /// Likewise of changes of sources, by source.
    pub(super) sources_left: BTreeMap<IpAddr, u32>,
    /// Answer to a query for this group, and about which sources (none: all).
    pub(super) response: Option<(Instant, BTreeSet<IpAddr>)>,
    /// Older versions: reports of joining that are still to be sent.
    pub(super) old_left: u32,
    /// Older versions: this host was the last to report.
    pub(super) last_reporter: bool,
}

impl Default for Group {
    fn default() -> Group {
        Group {
            holders: BTreeMap::new(),
            current: Filter::NOTHING,
            mode_left: 0,
            sources_left: BTreeMap::new(),
            response: None,
            old_left: 0,
            last_reporter: false,
        }
    }
}

weft_core::fields!(struct Group { holders, current, mode_left, sources_left, response, old_left, last_reporter });

impl Group {
    /// Does what is counted follow from the rest?
    pub(super) fn is_sound(&self) -> bool {
        self.current == Filter::merge(self.holders.values()) && self.sources_left.values().all(|left| *left > 0)
    }

    /// Notes what is to be told of a change.
    pub(super) fn changed(&mut self, before: &Filter, robustness: u32) {
        if before.is_exclude() != self.current.is_exclude() {
            self.mode_left = robustness;
            self.sources_left.clear();
            return;
        }
        for source in before.sources().symmetric_difference(self.current.sources()) {
            self.sources_left.insert(*source, robustness);
        }
    }

    pub(super) fn is_pending(&self) -> bool {
        self.mode_left > 0 || !self.sources_left.is_empty()
    }

    /// RFC 3376 §5.1: what a state-change report says of this group now; counts it as said once more.
    pub(super) fn change_records(&mut self, group: IpAddr, out: &mut Vec<Record>) {
        if self.mode_left > 0 {
            self.mode_left -= 1;
            let kind = if self.current.is_exclude() { RecordKind::ToExclude } else { RecordKind::ToInclude };
            return out.push(Record { kind, group, sources: self.current.sources().iter().copied().collect() });
        }
        let (allow, block): (Vec<IpAddr>, Vec<IpAddr>) = self.sources_left.keys().partition(|source| self.current.wants(**source));
        for (kind, sources) in [(RecordKind::Allow, allow), (RecordKind::Block, block)] {
            if !sources.is_empty() {
                out.push(Record { kind, group, sources });
            }
        }
        self.sources_left.retain(|_, left| {
            *left -= 1;
            *left > 0
        });
    }

    /// RFC 3376 §4.2.12: a current-state record; §5.2: about these sources only, if there are any.
    pub(super) fn state_record(&self, group: IpAddr, asked: &BTreeSet<IpAddr>) -> Option<Record> {
        if asked.is_empty() {
            let kind = if self.current.is_exclude() { RecordKind::IsExclude } else { RecordKind::IsInclude };
            let sources = self.current.sources().iter().copied().collect();
            return (!self.current.is_nothing()).then_some(Record { kind, group, sources });
        }
        let sources: Vec<IpAddr> = asked.iter().copied().filter(|source| self.current.wants(*source)).collect();
        (!sources.is_empty()).then_some(Record { kind: RecordKind::IsInclude, group, sources })
    }
}
