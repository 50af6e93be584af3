//! What a box remembers of TCP connections, in a table with a bound.
//!
//! A connection that has ended goes when it is still silent after a minute and its place is needed, one that has not after two hours and four minutes
//! (RFC 5382 REQ-5). As long as there is room all stay. Where there is none, a connection that begins finds no place.

use super::aging::Aging;
use super::segment::{Segment, Step};
use std::net::SocketAddr;
use weft_core::state::{Damage, Field, Reader, Writer};
use weft_core::{Duration, Instant, Parameter, ParameterType};
use weft_wire::tcp::Flags;

/// How long one that has ended may be silent: as long as Linux's TIME-WAIT.
const ENDED_KEPT: Duration = Duration::from_secs(60);
/// RFC 5382 REQ-5: "the value of the 'established connection idle-timeout' MUST NOT be less than 2 hours 4 minutes".
const SILENT_KEPT: Duration = Duration::from_secs(7440);

/// What every box with such a table declares.
pub(super) const CONNECTIONS_MAX: Parameter = Parameter {
    name: "connections_max",
    value: ParameterType::Unsigned { min: 1, max: 1_000_000 },
    default: "4096",
    live: true,
    doc: "most connections that are remembered",
};

/// What every box that acts in one direction only declares.
pub(super) const DIRECTION: Parameter = Parameter {
    name: "direction",
    value: ParameterType::Choice(&["both", "from_opener", "to_opener"]),
    default: "\"both\"",
    live: true,
    doc: "segments from whoever sent the first SYN, or towards it, or both",
};

/// In which direction a box acts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Direction {
    Both,
    FromOpener,
    ToOpener,
}

impl Direction {
    /// A value that was checked.
    pub fn read(word: &str) -> Direction {
        match word {
            "from_opener" => Direction::FromOpener,
            "to_opener" => Direction::ToOpener,
            _ => Direction::Both,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Direction::Both => "both",
            Direction::FromOpener => "from_opener",
            Direction::ToOpener => "to_opener",
        }
    }

    /// Is a segment in it? `by_opener`: its sender opened the connection; nobody knows of one whose SYN was not seen.
    pub fn has(self, by_opener: Option<bool>) -> bool {
        match self {
            Direction::Both => true,
            Direction::FromOpener => by_opener == Some(true),
            Direction::ToOpener => by_opener == Some(false),
        }
    }
}

/// Both ends, the smaller first: the same for both directions.
type Key = (SocketAddr, SocketAddr);

#[derive(Debug)]
struct Entry<T> {
    /// Which end opened it, as an index into the key.
    opener: Option<u8>,
    /// Which ends have said that they send nothing more.
    ended: [bool; 2],
    rest: T,
}

/// A segment's connection.
#[derive(Debug)]
pub(super) struct Found<'a, T> {
    /// Which end sent it: 0 or 1.
    pub side: usize,
    /// Whether that end opened the connection, if its SYN was seen.
    pub by_opener: Option<bool>,
    /// What the box keeps of it.
    pub rest: &'a mut T,
}

/// The table.
#[derive(Debug)]
pub(super) struct Connections<T>(Aging<Key, Entry<T>>);

/// Where a segment belongs, and which end sent it.
fn key(segment: &Segment) -> (Key, usize) {
    match segment.source <= segment.destination {
        true => ((segment.source, segment.destination), 0),
        false => ((segment.destination, segment.source), 1),
    }
}

impl<T> Connections<T> {
    pub fn new(most: u64) -> Connections<T> {
        Connections(Aging::new(most))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn most(&self) -> u64 {
        self.0.most()
    }

    /// Those that are there stay.
    pub fn set_most(&mut self, most: u64) {
        self.0.set_most(most);
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The connection of a segment, which tells how it goes on. One that is not known, or has ended and begins anew with this SYN, gets what `make` makes; `None`
    /// when it makes nothing, or there is no place.
    pub fn follow(&mut self, now: Instant, segment: &Segment, make: impl FnOnce() -> Option<T>) -> Option<Found<'_, T>> {
        let (key, side) = key(segment);
        if segment.step() == Step::Syn && self.0.get(&key).is_some_and(Entry::has_ended) {
            self.0.remove(&key);
        }
        if !self.0.has(&key) {
            if !self.0.has_room(now, |_, _| ()) {
                return None;
            }
            self.0.insert(key, Entry { opener: None, ended: [false; 2], rest: make()? }, now);
        }
        let entry = self.0.get_mut(&key)?;
        match segment.step() {
            Step::Syn => entry.opener = entry.opener.or(Some(side as u8)),
            Step::SynAck => entry.opener = entry.opener.or(Some(1 - side as u8)),
            Step::Other => {}
        }
        entry.ended[side] |= segment.flags.contains(Flags::FIN);
        if segment.flags.contains(Flags::RST) {
            entry.ended = [true; 2];
        }
        let kept = if entry.has_ended() { ENDED_KEPT } else { SILENT_KEPT };
        self.0.keep(&key, now + kept);
        let entry = self.0.get_mut(&key)?;
        let by_opener = entry.opener.map(|opener| usize::from(opener) == side);
        Some(Found { side, by_opener, rest: &mut entry.rest })
    }
}

impl<T> Entry<T> {
    fn has_ended(&self) -> bool {
        self.ended == [true; 2]
    }
}

impl<T: Field> Field for Entry<T> {
    fn write(&self, out: &mut Writer) {
        out.put(&self.opener);
        out.put(&self.ended);
        out.put(&self.rest);
    }
    fn read(from: &mut Reader<'_>) -> Result<Entry<T>, Damage> {
        let (opener, ended): (Option<u8>, _) = (from.take()?, from.take()?);
        if opener.is_some_and(|opener| opener > 1) {
            return Err(Damage::new("a connection has two ends"));
        }
        Ok(Entry { opener, ended, rest: from.take()? })
    }
}

impl<T: Field> Connections<T> {
    /// Writes them.
    pub fn export(&self, out: &mut Writer) {
        self.0.export(out);
    }

    /// Reads what another table has written, for one of this size.
    ///
    /// # Errors
    /// Damage, or more connections than it may hold.
    pub fn import(most: u64, from: &mut Reader<'_>) -> Result<Connections<T>, Damage> {
        let table: Aging<Key, Entry<T>> = Aging::import(most, from)?;
        if table.iter().any(|((one, other), _)| one > other) {
            return Err(Damage::new("the ends of a connection are in another order"));
        }
        Ok(Connections(table))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Tcp;
    use super::*;

    fn segment(port: u16, flags: Flags) -> Segment {
        Segment::find(&mut Tcp { src_port: port, flags, ..Tcp::default() }.frame()).unwrap()
    }

    #[test]
    fn an_ended_connection_gives_its_place_up_after_a_minute_and_a_silent_one_after_two_hours() {
        let mut table = Connections::new(2);
        let open = |table: &mut Connections<u32>, secs: u64, port| {
            let now = Instant::from_millis(secs * 1000);
            table.follow(now, &segment(port, Flags::SYN), || Some(7)).map(|found| (found.by_opener, *found.rest))
        };
        assert_eq!(open(&mut table, 0, 1), Some((Some(true), 7)));
        assert_eq!(open(&mut table, 0, 2), Some((Some(true), 7)));
        assert_eq!((open(&mut table, 59, 3), table.len()), (None, 2));
        table.follow(Instant::from_millis(60_000), &segment(1, Flags::RST), || None).unwrap();
        assert_eq!(open(&mut table, 119, 3), None);
        assert_eq!(open(&mut table, 120, 3), Some((Some(true), 7)), "the first has gone");
        assert_eq!(open(&mut table, 7439, 4), None);
        assert_eq!(open(&mut table, 7440, 4), Some((Some(true), 7)), "the second was silent since it began");
        table.set_most(1);
        assert_eq!((open(&mut table, 7441, 3), open(&mut table, 7441, 5), table.len()), (Some((Some(true), 7)), None, 2));
        table.clear();
        assert_eq!((table.len(), table.most()), (0, 1));
    }

    #[test]
    fn both_directions_are_one_connection_and_the_opener_is_known_by_its_syn() {
        let mut table = Connections::new(9);
        let there = segment(40_000, Flags::SYN);
        let back = Segment { source: there.destination, destination: there.source, flags: Flags::SYN | Flags::ACK, ..there };
        let found = table.follow(Instant::ZERO, &back, || Some(())).unwrap();
        assert_eq!((found.side, found.by_opener), (1, Some(false)), "a SYN|ACK tells it, too");
        let found = table.follow(Instant::ZERO, &there, || None).unwrap();
        assert_eq!((found.side, found.by_opener), (0, Some(true)));
        let unknown = segment(9, Flags::ACK);
        assert!(table.follow(Instant::ZERO, &unknown, || None).is_none());
        assert_eq!(table.follow(Instant::ZERO, &unknown, || Some(())).unwrap().by_opener, None);
        assert!(Direction::Both.has(None) && !Direction::FromOpener.has(None) && !Direction::ToOpener.has(None));
    }

    #[test]
    fn a_connection_that_begins_anew_gets_something_new() {
        let mut table = Connections::new(9);
        let mut next = 0;
        let mut see = |flags| {
            *table
                .follow(Instant::ZERO, &segment(1, flags), || {
                    next += 1;
                    Some(next)
                })
                .unwrap()
                .rest
        };
        assert_eq!([Flags::SYN, Flags::SYN, Flags::FIN, Flags::SYN].map(&mut see), [1; 4], "a SYN that is sent again is of the same");
        assert_eq!([Flags::RST, Flags::SYN].map(see), [1, 2]);
    }
}
