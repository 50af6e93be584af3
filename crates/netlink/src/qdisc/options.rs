//! TCA_OPTIONS: what tc says of a queue and what it is told, against the parameters of the blocks `fifo`, `tbf` and `netem`.

use crate::errno::{EINVAL, Refusal};
use crate::message::{Attributes, put, word};
use serde_json::{Value, json};
use weft_core::parameter::{parse_duration, parse_rate};
use weft_core::table::InterfaceRow;

/// PSCHED_SHIFT: the kernel's ticks are so many nanoseconds, as a power of two.
const TICK_SHIFT: u32 = 6;
/// The largest of netem's probabilities.
const CERTAIN: f64 = u32::MAX as f64;
/// Bytes of an Ethernet header, which psched_mtu adds.
const HEADER_BYTES: u64 = 14;

const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;
/// Of peak rates: TCA_TBF_PTAB, TCA_TBF_PRATE64, TCA_TBF_PBURST.
const TCA_TBF_PEAK: [u16; 3] = [3, 5, 7];
/// struct tc_tbf_qopt: two struct tc_ratespec of 12 bytes, limit, buffer, mtu.
const TBF_BYTES: usize = 36;

const TCA_NETEM_CORR: u16 = 1;
const TCA_NETEM_REORDER: u16 = 3;
const TCA_NETEM_CORRUPT: u16 = 4;
const TCA_NETEM_LOSS: u16 = 5;
const TCA_NETEM_RATE: u16 = 6;
const TCA_NETEM_RATE64: u16 = 8;
const TCA_NETEM_LATENCY64: u16 = 10;
const TCA_NETEM_JITTER64: u16 = 11;
const NETEM_LOSS_GE: u16 = 2;
/// struct tc_netem_qopt: latency, limit, loss, gap, duplicate, jitter.
const NETEM_BYTES: usize = 24;
/// What netem has and the block has not.
const NETEM_LACKING: [(u16, &str); 4] = [
    (2, "has no distributions of delay: its jitter is uniform"),
    (7, "has no netem that marks with ECN instead of losing"),
    (12, "has no slots of netem"),
    (13, "draws from the node's own randomness: set the seed of the world"),
];

/// Is it the kind of a block that is a queue?
pub(super) fn is_queue(kind: &str) -> bool {
    matches!(kind, "fifo" | "tbf" | "netem")
}

/// The block that is tc's queue of this name.
pub(super) fn block(name: &str) -> Option<&'static str> {
    match name {
        "pfifo" | "bfifo" => Some("fifo"),
        "tbf" => Some("tbf"),
        "netem" => Some("netem"),
        _ => None,
    }
}

/// tc's name of a block's kind.
pub(super) fn name(kind: &str, parameters: &Value) -> &'static str {
    match kind {
        "tbf" => "tbf",
        "netem" => "netem",
        _ if parameters["unit"] == "bytes" => "bfifo",
        _ => "pfifo",
    }
}

/// The parameters that options are.
///
/// # Errors
/// The kernel's; what is not here.
pub(super) fn read(name: &str, options: &[u8]) -> Result<Value, Refusal> {
    match name {
        "tbf" => read_tbf(options),
        "netem" => read_netem(options),
        // fifo_init: "if (nla_len(opt) < sizeof(*ctl)) return -EINVAL;"
        _ if options.len() < 4 => Err(Refusal::plain(EINVAL)),
        _ => Ok(json!({"limit": word(options, 0)})),
    }
}

/// The parameters of a queue of which nothing is said.
///
/// # Errors
/// There is no such queue: EINVAL, as tbf_init and netem_init have it.
pub(super) fn without(name: &str, row: &InterfaceRow) -> Result<Value, Refusal> {
    // fifo_init: "u32 limit = qdisc_dev(sch)->tx_queue_len; if (is_bfifo) limit *= psched_mtu(qdisc_dev(sch));"
    let packets = u64::from(row.settings.tx_queue_packets);
    match name {
        "pfifo" => Ok(json!({"limit": packets})),
        "bfifo" => Ok(json!({"limit": u32::try_from(packets * (u64::from(row.interface.mtu) + HEADER_BYTES)).unwrap_or(u32::MAX)})),
        _ => Err(Refusal::plain(EINVAL)),
    }
}

/// The options of a queue.
pub(super) fn write(kind: &str, parameters: &Value) -> Option<Vec<u8>> {
    match kind {
        "tbf" => Some(write_tbf(parameters)),
        "netem" => Some(write_netem(parameters)),
        _ => Some(number(parameters, "limit").to_ne_bytes()[..4].to_vec()),
    }
}

/// A number, or what is shown of one with a unit.
fn number(parameters: &Value, name: &str) -> u64 {
    match &parameters[name] {
        Value::String(text) => {
            let nanos = parse_duration(text).ok().and_then(|span| u64::try_from(span.as_nanos()).ok());
            nanos.or_else(|| parse_rate(text).ok()).unwrap_or(0)
        }
        value => value.as_u64().unwrap_or(0),
    }
}

fn long(attributes: &Attributes<'_>, kind: u16) -> Option<u64> {
    attributes.get(kind)?.get(..8)?.try_into().ok().map(u64::from_ne_bytes)
}

/// psched_l2t_ns.
fn nanos(bytes: u64, rate: u64) -> u64 {
    u64::try_from(u128::from(bytes) * 8_000_000_000 / u128::from(rate.max(1))).unwrap_or(u64::MAX)
}

/// tbf_change.
fn read_tbf(options: &[u8]) -> Result<Value, Refusal> {
    let attributes = Attributes::of(options, 0);
    // "if (tb[TCA_TBF_PARMS] == NULL) goto done;" with err = -EINVAL.
    let parms = attributes.get(TCA_TBF_PARMS).filter(|parms| parms.len() >= TBF_BYTES).ok_or(Refusal::plain(EINVAL))?;
    if word(parms, 20) != 0 || TCA_TBF_PEAK.iter().any(|kind| attributes.has(*kind)) {
        return Err(Refusal::lacking("has no peak rate of tbf: a second bucket"));
    }
    // struct tc_ratespec: cell_log, linklayer, overhead, cell_align, mpu, rate. "linklayer ethernet" is 1, atm 2.
    if parms[1] & 0xf > 1 {
        return Err(Refusal::lacking("knows no link layer of tbf but Ethernet"));
    }
    let short = |at: usize| u16::from_ne_bytes([parms[at], parms[at + 1]]);
    let bytes_per_second = long(&attributes, TCA_TBF_RATE64).unwrap_or(0).max(word(parms, 8).into());
    let rate = bytes_per_second.saturating_mul(8);
    if rate == 0 {
        return Err(Refusal::plain(EINVAL));
    }
    let (overhead, mpu) = (short(2), short(6));
    // psched_ns_t2l, where nobody says in bytes what the bucket holds: "if (len > r->overhead) len -= r->overhead; else len = 0;"
    let of_time = u128::from(word(parms, 28)) * (1 << TICK_SHIFT) * u128::from(bytes_per_second) / 1_000_000_000;
    let of_buffer = || of_time.saturating_sub(overhead.into());
    let burst = attributes.u32(TCA_TBF_BURST).unwrap_or_else(|| u32::try_from(of_buffer()).unwrap_or(u32::MAX));
    if burst == 0 {
        return Err(Refusal::plain(EINVAL));
    }
    Ok(json!({"rate": rate, "burst_bytes": burst, "limit_bytes": word(parms, 24), "overhead_bytes": overhead, "frame_bytes_min": mpu}))
}

/// tbf_dump.
fn write_tbf(parameters: &Value) -> Vec<u8> {
    let of = |name| number(parameters, name);
    let rate = of("rate");
    let (overhead, mpu) = ((of("overhead_bytes") as u16).to_ne_bytes(), (of("frame_bytes_min") as u16).to_ne_bytes());
    let ticks = nanos((of("burst_bytes") + of("overhead_bytes")).max(of("frame_bytes_min")), rate) >> TICK_SHIFT;
    let bytes_per_second = rate / 8;
    let mut parms = vec![0, 1];
    parms.extend(overhead);
    parms.extend([0, 0]);
    parms.extend(mpu);
    parms.extend(u32::try_from(bytes_per_second).unwrap_or(u32::MAX).to_ne_bytes());
    parms.resize(24, 0);
    parms.extend((of("limit_bytes") as u32).to_ne_bytes());
    parms.extend(u32::try_from(ticks).unwrap_or(u32::MAX).to_ne_bytes());
    parms.resize(TBF_BYTES, 0);
    let mut out = Vec::new();
    put(&mut out, TCA_TBF_PARMS, &parms);
    if bytes_per_second > u64::from(u32::MAX) {
        put(&mut out, TCA_TBF_RATE64, &bytes_per_second.to_ne_bytes());
    }
    out
}

fn probability(of: u32) -> f64 {
    f64::from(of) / CERTAIN
}

/// netem_change.
fn read_netem(options: &[u8]) -> Result<Value, Refusal> {
    if options.len() < NETEM_BYTES {
        return Err(Refusal::plain(EINVAL));
    }
    let attributes = Attributes::of(options, NETEM_BYTES);
    if let Some(what) = attributes.any(&NETEM_LACKING).filter(|_| !ecn_is_off(&attributes)) {
        return Err(Refusal::lacking(what));
    }
    let correlated = attributes.get(TCA_NETEM_CORR).is_some_and(|corr| corr.iter().any(|byte| *byte != 0));
    let ticks = |at: usize| u64::from(word(options, at)) << TICK_SHIFT;
    // s64; what is below zero, clamp_t(s64, …, 0, …) makes zero.
    let time = |kind, at| long(&attributes, kind).map_or_else(|| ticks(at), |nanos| if nanos > i64::MAX as u64 { 0 } else { nanos });
    let gap = word(options, 12);
    let mut parameters = json!({
        "delay": time(TCA_NETEM_LATENCY64, 0), "limit": word(options, 4).min(10_000_000), "loss": probability(word(options, 8)),
        "gap": gap, "duplicate": probability(word(options, 16)), "jitter": time(TCA_NETEM_JITTER64, 20), "loss_model": "random",
    });
    // "for compatibility with earlier versions. if gap is set, need to assume 100% probability"
    if gap > 0 {
        parameters["reorder"] = 1.0.into();
    }
    // struct tc_netem_reorder, tc_netem_corrupt: probability, correlation.
    let mut second = 0;
    for (kind, name) in [(TCA_NETEM_REORDER, "reorder"), (TCA_NETEM_CORRUPT, "corrupt")] {
        if let Some(value) = attributes.get(kind) {
            let value = value.get(..8).ok_or(Refusal::plain(EINVAL))?;
            parameters[name] = probability(word(value, 0)).into();
            second |= word(value, 4);
        }
    }
    if correlated || second != 0 {
        return Err(Refusal::lacking("has no correlation of netem's draws: for bursts of losses see gemodel"));
    }
    if let Some(rate) = attributes.get(TCA_NETEM_RATE) {
        // struct tc_netem_rate: rate, packet_overhead, cell_size, cell_overhead.
        let rate = rate.get(..16).ok_or(Refusal::plain(EINVAL))?;
        let overhead = word(rate, 4);
        if word(rate, 8) != 0 || word(rate, 12) != 0 || overhead > 65_535 {
            return Err(Refusal::lacking("has no cells at netem's rate, and no overhead below zero"));
        }
        let bytes_per_second = long(&attributes, TCA_NETEM_RATE64).unwrap_or(0).max(word(rate, 0).into());
        (parameters["rate"], parameters["overhead_bytes"]) = (bytes_per_second.saturating_mul(8).into(), overhead.into());
    }
    if let Some(model) = attributes.nested(TCA_NETEM_LOSS) {
        let Some(gilbert) = model.get(NETEM_LOSS_GE) else {
            return Err(Refusal::lacking("has the loss model gemodel, and none of four states"));
        };
        // struct tc_netem_gemodel: p, r, h, k1; of h what is not lost in the bad state.
        let gilbert = gilbert.get(..16).ok_or(Refusal::plain(EINVAL))?;
        let of = |at| probability(word(gilbert, at));
        parameters["loss_model"] = "gilbert".into();
        (parameters["p"], parameters["r"]) = (of(0).into(), of(4).into());
        (parameters["loss_bad"], parameters["loss_good"]) = (probability(u32::MAX - word(gilbert, 8)).into(), of(12).into());
    }
    Ok(parameters)
}

/// tc says of ECN only that it is wanted; TCA_NETEM_ECN with 0 says nothing.
fn ecn_is_off(attributes: &Attributes<'_>) -> bool {
    let others = NETEM_LACKING.iter().any(|(kind, _)| *kind != 7 && attributes.has(*kind));
    !others && attributes.u32(7) == Some(0)
}

/// netem_dump.
fn write_netem(parameters: &Value) -> Vec<u8> {
    let of = |name| number(parameters, name);
    let short = |number: u64| u32::try_from(number).unwrap_or(u32::MAX).to_ne_bytes();
    let chance = |name: &str| (parameters[name].as_f64().unwrap_or(0.0) * CERTAIN).round() as u32;
    let random = parameters["loss_model"] != "gilbert";
    let loss = if random { chance("loss") } else { 0 };
    let mut out = Vec::new();
    out.extend(short(of("delay") >> TICK_SHIFT));
    out.extend(short(of("limit")));
    out.extend(loss.to_ne_bytes());
    out.extend(short(of("gap")));
    out.extend(chance("duplicate").to_ne_bytes());
    out.extend(short(of("jitter") >> TICK_SHIFT));
    put(&mut out, TCA_NETEM_LATENCY64, &of("delay").to_ne_bytes());
    put(&mut out, TCA_NETEM_JITTER64, &of("jitter").to_ne_bytes());
    put(&mut out, TCA_NETEM_CORR, &[0; 12]);
    for (kind, name) in [(TCA_NETEM_REORDER, "reorder"), (TCA_NETEM_CORRUPT, "corrupt")] {
        put(&mut out, kind, &[chance(name).to_ne_bytes(), [0; 4]].concat());
    }
    let bytes_per_second = of("rate") / 8;
    if bytes_per_second > u64::from(u32::MAX) {
        put(&mut out, TCA_NETEM_RATE64, &bytes_per_second.to_ne_bytes());
    }
    put(&mut out, TCA_NETEM_RATE, &[short(bytes_per_second), short(of("overhead_bytes")), [0; 4], [0; 4]].concat());
    if !random {
        let words = [chance("p"), chance("r"), u32::MAX - chance("loss_bad"), chance("loss_good")];
        let mut model = Vec::new();
        put(&mut model, NETEM_LOSS_GE, &words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<_>>());
        put(&mut out, TCA_NETEM_LOSS, &model);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_is_written_again() {
        let tbf = json!({"rate": "1mbit", "burst_bytes": 10_240, "limit_bytes": 16_490, "overhead_bytes": 24, "frame_bytes_min": 64});
        let read = read("tbf", &write("tbf", &tbf).unwrap()).unwrap();
        assert_eq!(
            read,
            json!({"rate": 1_000_000, "burst_bytes": 10_240, "limit_bytes": 16_490, "overhead_bytes": 24, "frame_bytes_min": 64})
        );
        let netem = json!({
            "limit": 7, "delay": "20ms", "jitter": "5ms", "loss": 0.01, "loss_model": "random", "p": 0.0, "r": 1.0, "loss_good": 0.0, "loss_bad": 1.0,
            "duplicate": 0.02, "corrupt": 0.03, "reorder": 0.25, "gap": 5, "rate": "100gbit", "overhead_bytes": 9,
        });
        let options = write("netem", &netem).unwrap();
        let again = super::read("netem", &options).unwrap();
        assert_eq!(
            (again["delay"].as_u64(), again["jitter"].as_u64(), again["rate"].as_u64()),
            (Some(20_000_000), Some(5_000_000), Some(100_000_000_000))
        );
        assert_eq!(write("netem", &again).unwrap(), options);
        let mut bursts = netem.clone();
        (bursts["loss_model"], bursts["loss"], bursts["p"], bursts["loss_bad"]) = ("gilbert".into(), 0.0.into(), 0.1.into(), 0.9.into());
        let options = write("netem", &bursts).unwrap();
        assert_eq!(write("netem", &super::read("netem", &options).unwrap()).unwrap(), options);
    }

    #[test]
    fn whatever_stands_in_options_is_read_or_refused() {
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u8
        };
        let (mut good, mut bad) = (0, 0);
        for round in 0..20_000 {
            for name in ["tbf", "netem", "pfifo"] {
                let length = usize::from(next()) % 120;
                let mut options: Vec<u8> = (0..length).map(|_| next()).collect();
                // Half of them are what tc could have said, with some of it exchanged.
                if round % 2 == 0 {
                    options =
                        write(block(name).unwrap(), &json!({"rate": 8_000_000, "burst_bytes": 9999, "loss_model": "gilbert"})).unwrap();
                    for _ in 0..next() % 4 {
                        let at = usize::from(next()) % options.len();
                        options[at] = next();
                    }
                    options.truncate(options.len().saturating_sub(usize::from(next()) % 8));
                }
                match read(name, &options) {
                    Ok(parameters) => {
                        good += 1;
                        assert!(parameters.is_object() && write(block(name).unwrap(), &parameters).is_some());
                    }
                    Err(_) => bad += 1,
                }
            }
        }
        assert!(good > 1000 && bad > 1000, "{good} {bad}");
    }
}
