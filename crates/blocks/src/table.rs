//! The block table: one row a block.

use weft_core::BlockRow;

/// Every block of this crate.
pub fn rows() -> Vec<BlockRow> {
    vec![
        crate::link::interfaces::ROW,
        crate::link::ether::ROW,
        crate::link::loopback::ROW,
        crate::ip::arp::ROW,
        crate::ip::dhcp::ROW,
        crate::ip::nd::ROW,
        crate::ip::igmp::ROW,
        crate::ip::mld::ROW,
        crate::ip::ip4::ROW,
        crate::ip::icmp4::ROW,
        crate::ip::ip6::ROW,
        crate::ip::icmp6::ROW,
        crate::transport::udp::ROW,
        crate::qdisc::fifo::ROW,
        crate::qdisc::tbf::ROW,
        crate::qdisc::netem::ROW,
        crate::tool::forward::ROW,
        crate::tool::tee::ROW,
        crate::tool::filter::ROW,
        crate::tool::classify::ROW,
        crate::tool::counter::ROW,
        crate::tool::logger::ROW,
        crate::tool::loss::ROW,
        crate::tool::gilbert::ROW,
        crate::tool::drop::ROW,
        crate::tool::duplicate::ROW,
        crate::tool::corrupt::ROW,
        crate::tool::reorder::ROW,
        crate::tool::blackhole::ROW,
        crate::tool::delay::ROW,
        crate::tool::rate::ROW,
        crate::tool::alternate::ROW,
        crate::tool::compress::ROW,
        crate::tool::seal::ROW,
        crate::tool::trigger::ROW,
        crate::middlebox::strip_options::ROW,
        crate::middlebox::drop_options::ROW,
        crate::middlebox::shift_sequence::ROW,
        crate::middlebox::split::ROW,
        crate::middlebox::coalesce::ROW,
        crate::middlebox::alter_payload::ROW,
        crate::middlebox::inject_reset::ROW,
        crate::middlebox::nat::ROW,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_core::{Rng, parameter};

    #[test]
    fn every_kind_is_documented_complete_and_can_be_made_with_its_defaults() {
        let rows = rows();
        for row in &rows {
            let kind = row.kind;
            assert_eq!(rows.iter().filter(|other| other.kind.name == kind.name).count(), 1, "{}", kind.name);
            assert!(!kind.summary.is_empty() && kind.doc.contains("Example:"), "{} needs a contract with an example", kind.name);
            assert!(kind.inputs.iter().chain(kind.outputs).all(|port| !port.doc.is_empty()), "{}", kind.name);
            let mut config = parameter::complete(kind.name, kind, &Default::default(), Rng::for_name(1, kind.name)).unwrap();
            let block = (row.make)(&mut config).unwrap();
            assert_eq!(block.counters().len(), kind.counters.len(), "{}: a value for every counter", kind.name);
            for parameter in kind.parameters {
                let value = block.get(parameter.name, weft_core::Instant::ZERO);
                assert_eq!(value, Some(config.value(parameter.name)), "{}.{}", kind.name, parameter.name);
            }
        }
    }
}
