//! TCP options as they lie in a header, and which segments a box looks at.

use super::connections::{Connections, DIRECTION, Direction};
use super::segment::{Segment, Step, put_u32, u32_at};
use std::ops::Range;
use weft_core::state::{Damage, Field, Reader, Writer};
use weft_core::{Config, Instant, Parameter, ParameterType, Value};
use weft_wire::tcp::{Seq, kind};

const SACK_BLOCK_BYTES: usize = 8;

/// Names of kinds, beside their numbers.
const NAMES: &[(&str, u8)] = &[
    ("mss", kind::MSS),
    ("window_scale", kind::WINDOW_SCALE),
    ("sack_permitted", kind::SACK_PERMITTED),
    ("sack", kind::SACK),
    ("timestamps", kind::TIMESTAMPS),
    ("md5", kind::MD5),
    ("user_timeout", kind::USER_TIMEOUT),
    ("authentication", kind::AUTHENTICATION),
    ("mptcp", kind::MPTCP),
    ("fast_open", kind::FAST_OPEN),
    ("experimental", kind::EXPERIMENTAL),
];

/// Where each option is in a header's options, and its kind; padding is left out. The last one is an error when its length is not possible.
pub(super) fn walk(bytes: &[u8]) -> impl Iterator<Item = Result<(Range<usize>, u8), ()>> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        while bytes.get(at) == Some(&kind::NOP) {
            at += 1;
        }
        let kind = *bytes.get(at).filter(|kind| **kind != kind::END)?;
        let start = at;
        match bytes.get(at + 1).map(|length| usize::from(*length)) {
            Some(length) if length >= 2 && at + length <= bytes.len() => {
                at += length;
                Some(Ok((start..at, kind)))
            }
            _ => {
                at = bytes.len();
                Some(Err(()))
            }
        }
    })
}

/// Changes both numbers of each SACK block.
pub(super) fn change_sack(options: &mut [u8], first: impl Fn(Seq) -> Seq, next: impl Fn(Seq) -> Seq) {
    let found: Vec<_> = walk(options).map_while(Result::ok).filter(|(_, kind)| *kind == kind::SACK).map(|(place, _)| place).collect();
    for block in
        found.into_iter().flat_map(|place| (place.start + 2..(place.end + 1).saturating_sub(SACK_BLOCK_BYTES)).step_by(SACK_BLOCK_BYTES))
    {
        for (at, change) in [(block, &first as &dyn Fn(Seq) -> Seq), (block + 4, &next)] {
            let number = Seq(u32_at(options, at).unwrap_or(0));
            put_u32(options, at, change(number).0);
        }
    }
}

/// A set of kinds of option.
#[derive(Clone, Debug, Default)]
pub(super) struct Kinds {
    /// As it was written.
    text: String,
    kinds: Vec<u8>,
}

impl Kinds {
    /// Reads numbers and names with commas between them.
    pub fn parse(text: &str) -> Result<Kinds, String> {
        let mut kinds = Vec::new();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let named = NAMES.iter().find(|(name, _)| *name == word).map(|(_, kind)| *kind);
            match named.or_else(|| word.parse().ok()) {
                Some(kind @ (kind::END | kind::NOP)) => return Err(format!("{kind} is padding, and no option")),
                Some(kind) => kinds.push(kind),
                None => {
                    let names = NAMES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
                    return Err(format!("'{word}' is no kind of option: a number from 2 to 255, or one of {names}"));
                }
            }
        }
        Ok(Kinds { text: text.to_owned(), kinds })
    }

    pub fn has(&self, kind: u8) -> bool {
        self.kinds.contains(&kind)
    }
}

/// What a box that looks at options declares of which, and in which segments.
pub(super) const OPTIONS: Parameter = Parameter {
    name: "options",
    value: ParameterType::Text,
    default: "\"\"",
    live: true,
    doc: "kinds of option, numbers or names with commas between them: \"30\", \"mptcp, timestamps\"; names are mss, window_scale, sack_permitted, sack, \
          timestamps, md5, user_timeout, authentication, mptcp, fast_open, experimental",
};
pub(super) const SYN: Parameter =
    Parameter { name: "syn", value: ParameterType::Bool, default: "true", live: true, doc: "in segments with SYN and without ACK" };
pub(super) const SYN_ACK: Parameter =
    Parameter { name: "syn_ack", value: ParameterType::Bool, default: "true", live: true, doc: "in segments with SYN and ACK" };
pub(super) const OTHERS: Parameter =
    Parameter { name: "others", value: ParameterType::Bool, default: "true", live: true, doc: "in all other segments" };

/// Of a connection only its direction is of interest.
#[derive(Debug)]
pub(super) struct Known;

impl Field for Known {
    fn write(&self, _out: &mut Writer) {}
    fn read(_from: &mut Reader<'_>) -> Result<Known, Damage> {
        Ok(Known)
    }
}

/// Which options a box is after, and in which segments.
#[derive(Debug)]
pub(super) struct Selection {
    pub kinds: Kinds,
    syn: bool,
    syn_ack: bool,
    others: bool,
    direction: Direction,
    connections: Connections<Known>,
}

/// Whether a segment is one of those that a box looks at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Chosen {
    Yes,
    No,
    /// Its direction is not known: the table of connections is full.
    NoPlace,
}

impl Selection {
    /// As configured.
    ///
    /// # Errors
    /// Why `options` cannot be read.
    pub fn new(config: &Config) -> Result<Selection, String> {
        Ok(Selection {
            kinds: Kinds::parse(&config.text(OPTIONS.name))?,
            syn: config.bool(SYN.name),
            syn_ack: config.bool(SYN_ACK.name),
            others: config.bool(OTHERS.name),
            direction: Direction::read(&config.text(DIRECTION.name)),
            connections: Connections::new(config.u64("connections_max")),
        })
    }

    /// Looks at a segment. Connections are remembered only while the direction matters.
    pub fn chooses(&mut self, now: Instant, segment: &Segment) -> Chosen {
        let step = segment.step();
        let wanted = match step {
            Step::Syn => self.syn,
            Step::SynAck => self.syn_ack,
            Step::Other => self.others,
        };
        if self.direction == Direction::Both {
            return if wanted { Chosen::Yes } else { Chosen::No };
        }
        let begins = step != Step::Other;
        match self.connections.follow(now, segment, || begins.then_some(Known)) {
            Some(found) if wanted && self.direction.has(found.by_opener) => Chosen::Yes,
            None if begins => Chosen::NoPlace,
            _ => Chosen::No,
        }
    }

    pub fn get(&self, name: &str) -> Option<Value> {
        Some(match name {
            "options" => self.kinds.text.clone().into(),
            "syn" => self.syn.into(),
            "syn_ack" => self.syn_ack.into(),
            "others" => self.others.into(),
            "direction" => self.direction.word().into(),
            "connections_max" => self.connections.most().into(),
            "connections" => self.connections.len().into(),
            _ => return None,
        })
    }

    /// Would this value do?
    ///
    /// # Errors
    /// Why not.
    pub fn check(name: &str, value: &Value) -> Result<(), String> {
        match (name, value.as_str()) {
            ("options", Some(text)) => Kinds::parse(text).map(|_| ()),
            _ => Ok(()),
        }
    }

    /// Sets a value that was checked.
    pub fn set(&mut self, name: &str, value: &Value) {
        match (name, value.as_str(), value.as_bool(), value.as_u64()) {
            ("options", Some(text), ..) => self.kinds = Kinds::parse(text).unwrap_or_default(),
            ("syn", _, Some(wanted), _) => self.syn = wanted,
            ("syn_ack", _, Some(wanted), _) => self.syn_ack = wanted,
            ("others", _, Some(wanted), _) => self.others = wanted,
            ("direction", Some(word), ..) => {
                self.direction = Direction::read(word);
                if self.direction == Direction::Both {
                    self.connections.clear();
                }
            }
            ("connections_max", _, _, Some(most)) => self.connections.set_most(most),
            _ => {}
        }
    }

    pub fn export(&self, out: &mut Writer) {
        self.connections.export(out);
    }

    /// Reads the connections that another has written.
    ///
    /// # Errors
    /// Damage, or more of them than this one may remember.
    pub fn import(&self, from: &mut Reader<'_>) -> Result<Connections<Known>, Damage> {
        Connections::import(self.connections.most(), from)
    }

    /// Takes over what [`Selection::import`] has read.
    pub fn take_over(&mut self, connections: Connections<Known>) {
        self.connections = connections;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_walked_up_to_the_first_that_cannot_be() {
        let all = |bytes: &[u8]| walk(bytes).collect::<Vec<_>>();
        assert_eq!(all(&[2, 4, 5, 180, 1, 3, 3, 7, 0, 30, 4]), [Ok((0..4, 2)), Ok((5..8, 3))], "END ends");
        assert_eq!(all(&[1, 1, 30, 3, 9, 8]), [Ok((2..5, 30)), Err(())], "a kind without a length");
        for broken in [[30, 0, 1, 1], [30, 1, 1, 1], [30, 5, 1, 1]] {
            assert_eq!(all(&broken), [Err(())]);
        }
        assert_eq!(all(&[]), []);
    }

    #[test]
    fn whole_blocks_of_sack_are_changed() {
        let one = |number: u32| number.to_be_bytes();
        let blocks = |numbers: &[u32]| numbers.iter().flat_map(|number| one(*number)).collect::<Vec<u8>>();
        let mut options = [&[1, 1, 5, 18][..], &blocks(&[10, 20, u32::MAX, 3])].concat();
        change_sack(&mut options, |seq| Seq(seq.0.wrapping_add(1)), |seq| Seq(seq.0.wrapping_sub(5)));
        assert_eq!(options[4..], blocks(&[11, 15, 0, u32::MAX - 1]));
        for odd in [&[5, 2][..], &[5, 3, 9], &[5, 9, 1, 1, 1, 1, 1, 1, 1], &[5, 200, 1]] {
            let mut options = odd.to_vec();
            change_sack(&mut options, |seq| Seq(seq.0 + 1), |seq| seq);
            assert_eq!(options, odd);
        }
    }

    #[test]
    fn kinds_are_numbers_and_names() {
        let kinds = Kinds::parse(" mptcp,  8,254 ").unwrap();
        let has: Vec<u8> = (0..=255).filter(|kind| kinds.has(*kind)).collect();
        assert_eq!(has, [8, 30, 254]);
        for (text, part) in [("256", "is no kind"), ("mtcp", "is no kind"), ("2,1", "padding"), ("0", "padding")] {
            let refused = Kinds::parse(text).unwrap_err();
            assert!(refused.contains(part), "{refused}");
        }
    }
}
