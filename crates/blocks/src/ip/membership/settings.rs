//! Parameters and counters that IGMP and MLD share.

use weft_core::*;

/// Parameters.
#[derive(Clone, Debug)]
pub(in crate::ip) struct Settings {
    pub(super) robustness: u32,
    pub(super) unsolicited_interval: Duration,
    pub(super) unsolicited_interval_old: Duration,
    /// 0: by the querier, else the version as the protocol numbers it.
    pub(super) force_version: u8,
    pub(super) memberships_max: usize,
    pub(super) sources_max: usize,
}

const fn number(name: &'static str, min: u64, max: u64, default: &'static str, doc: &'static str) -> Parameter {
    Parameter { name, value: ParameterType::Unsigned { min, max }, default, live: true, doc }
}

const fn time(name: &'static str, default: &'static str, doc: &'static str) -> Parameter {
    Parameter { name, value: ParameterType::Duration, default, live: true, doc }
}

/// Parameters of both blocks, without `force_version`.
pub(in crate::ip) const PARAMETERS: [Parameter; 5] = [
    number("robustness", 1, 7, "2", "how often a change is reported, until a querier says otherwise (Linux igmp_qrv, mld_qrv)"),
    time("unsolicited_interval", "\"1s\"", "longest time between two reports of one change (Linux …v3_/mldv2_unsolicited_report_interval)"),
    time(
        "unsolicited_interval_old",
        "\"10s\"",
        "the same beside a querier of an older version (Linux …v2_/mldv1_unsolicited_report_interval)",
    ),
    number("memberships_max", 1, 1_000_000, "16384", "groups times holders that are remembered"),
    number("sources_max", 0, 65_535, "1024", "sources of one holder's filter"),
];

/// Counters of both blocks.
pub(in crate::ip) const COUNTERS: [Counter; count::ALL] = [
    Counter { name: "InQueries", text: "queries received" },
    Counter { name: "InReports", text: "reports and leaves of others received" },
    Counter { name: "InErrors", text: "malformed messages, or with impossible addresses" },
    Counter { name: "OutReports", text: "reports sent" },
    Counter { name: "OutLeaves", text: "leaves sent (beside queriers of older versions)" },
    Counter { name: "Refused", text: "wishes beyond memberships_max or sources_max, for no group, or on an interface that does not exist" },
    Counter { name: "SourcesCut", text: "reports that named fewer excluded sources than there are, for want of room" },
];

/// Positions in [`COUNTERS`].
pub(in crate::ip) mod count {
    pub const IN_QUERIES: usize = 0;
    pub const IN_REPORTS: usize = 1;
    pub const IN_ERRORS: usize = 2;
    pub const OUT_REPORTS: usize = 3;
    pub const OUT_LEAVES: usize = 4;
    pub const REFUSED: usize = 5;
    pub const SOURCES_CUT: usize = 6;
    pub const ALL: usize = 7;
}

impl Settings {
    pub(super) fn new(config: &Config) -> Settings {
        Settings {
            robustness: config.u64("robustness") as u32,
            unsolicited_interval: config.duration("unsolicited_interval"),
            unsolicited_interval_old: config.duration("unsolicited_interval_old"),
            force_version: config.u64("force_version") as u8,
            memberships_max: config.u64("memberships_max") as usize,
            sources_max: config.u64("sources_max") as usize,
        }
    }

    pub(in crate::ip) fn get(&self, name: &str) -> Option<Value> {
        let nanos = |span: Duration| Some(Value::from(span.as_nanos() as u64));
        match name {
            "robustness" => Some(self.robustness.into()),
            "unsolicited_interval" => nanos(self.unsolicited_interval),
            "unsolicited_interval_old" => nanos(self.unsolicited_interval_old),
            "force_version" => Some(self.force_version.into()),
            "memberships_max" => Some(self.memberships_max.into()),
            "sources_max" => Some(self.sources_max.into()),
            _ => None,
        }
    }

    pub(in crate::ip) fn set(&mut self, name: &str, value: u64) {
        match name {
            "robustness" => self.robustness = value as u32,
            "unsolicited_interval" => self.unsolicited_interval = Duration::from_nanos(value),
            "unsolicited_interval_old" => self.unsolicited_interval_old = Duration::from_nanos(value),
            "force_version" => self.force_version = value as u8,
            "memberships_max" => self.memberships_max = value as usize,
            "sources_max" => self.sources_max = value as usize,
            _ => {}
        }
    }
}
