//! Fast Open (RFC 7413): what one connection knows of it.

use weft_core::Bytes;
use weft_wire::tcp;

/// What an active opening does beyond the plain one.
#[derive(Debug, Default)]
pub struct Start {
    /// Goes into the first SYN: a cookie, or an empty one to ask for one.
    pub option: Option<tcp::FastOpen>,
    /// The first bytes of the stream.
    pub data: Bytes,
    /// How many of them go with the SYN.
    pub in_syn: u32,
}

/// What the answer to a SYN has taught about the peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Learned {
    /// The cookie it gave.
    pub cookie: Option<tcp::FastOpen>,
    /// Its MSS; 0: it said none.
    pub mss: u16,
    /// A SYN with data was not answered, one without was.
    pub syn_lost: bool,
    /// It was asked for a cookie and gave none.
    pub refused: bool,
}
weft_core::fields!(struct Learned { cookie, mss, syn_lost, refused });

/// Of one connection.
#[derive(Debug, Default)]
pub(super) struct FastOpen {
    /// For the first SYN or SYN|ACK.
    pub option: Option<tcp::FastOpen>,
    /// The SYN asked for a cookie, or brought one or data.
    asked: bool,
    requested: bool,
    pub in_syn: u32,
    learned: Option<Learned>,
    /// A passive one: data flows, the final acknowledgment of the handshake has not come.
    pub early: bool,
    /// It was reset in that state.
    pub reset: bool,
    /// The peer has taken data with the SYN (syn_data_acked).
    pub acknowledged: bool,
    /// A router did not let the SYN pass with its data: it goes without, and without a cookie.
    pub bare: bool,
}
weft_core::fields!(struct FastOpen { option, asked, requested, in_syn, learned, early, reset, acknowledged, bare });

impl FastOpen {
    /// Of an active opening: `in_syn` of the `held` bytes go with the SYN.
    pub(super) fn opens(option: Option<tcp::FastOpen>, in_syn: u32, held: u64) -> FastOpen {
        FastOpen {
            asked: option.is_some() || in_syn > 0,
            requested: option.as_ref().is_some_and(|option| option.cookie.is_empty()),
            option,
            in_syn: in_syn.min(held as u32),
            ..FastOpen::default()
        }
    }

    /// Of a connection whose SYN brought a good cookie, and data or not; `option` goes into the SYN|ACK.
    pub(super) fn accepts(option: Option<tcp::FastOpen>, data: bool) -> FastOpen {
        FastOpen { early: true, option, acknowledged: data, ..FastOpen::default() }
    }

    /// Some of the stream went with the SYN.
    pub(super) fn has_syn_data(&self) -> bool {
        self.in_syn > 0
    }

    /// The SYN|ACK takes `accepted` bytes, and answers a SYN that was repeated or not (`again`). Some: whether data that went with the SYN was taken.
    pub(super) fn learn(&mut self, segment: &tcp::Segment, accepted: u64, again: bool) -> Option<bool> {
        if !self.asked {
            return None;
        }
        let in_syn = self.in_syn > 0;
        self.acknowledged = in_syn && accepted > 0;
        let cookie = segment.options.fast_open.clone().filter(|option| !option.cookie.is_empty());
        self.learned = Some(Learned {
            mss: segment.options.mss.unwrap_or(0),
            syn_lost: again && in_syn && accepted == 0 && cookie.is_none(),
            refused: !again && self.requested && cookie.is_none(),
            cookie,
        });
        in_syn.then_some(accepted > 0)
    }

    /// What the answer to the SYN has taught, once.
    pub(super) fn take_learned(&mut self) -> Option<Learned> {
        self.learned.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(cookie: &[u8]) -> tcp::Segment {
        let mut option = tcp::FastOpen::default();
        option.cookie.extend(cookie.iter().copied());
        let options = tcp::Options { fast_open: Some(option), mss: Some(1460), ..tcp::Options::default() };
        tcp::Segment { options, ..tcp::Segment::default() }
    }

    #[test]
    fn the_answer_to_a_request_is_learned_once() {
        let mut opening = FastOpen::opens(Some(tcp::FastOpen::default()), 0, 100);
        assert_eq!(opening.learn(&answer(&[1; 8]), 0, false), None, "nothing went with the SYN");
        let learned = opening.take_learned().expect("an answer");
        assert_eq!((learned.cookie.is_some(), learned.mss, learned.refused, learned.syn_lost), (true, 1460, false, false));
        assert_eq!(opening.take_learned(), None);
        opening.learn(&answer(&[]), 0, false);
        assert!(opening.take_learned().expect("an answer").refused);
    }

    #[test]
    fn a_syn_whose_data_was_taken_only_when_it_was_sent_bare_is_lost_with_data() {
        let mut opening = FastOpen::opens(Some(tcp::FastOpen::default()), 500, 100);
        assert_eq!(opening.in_syn, 100, "no more than there is");
        assert_eq!(opening.learn(&answer(&[]), 0, true), Some(false));
        assert!(opening.take_learned().expect("an answer").syn_lost);
        assert_eq!((opening.learn(&answer(&[]), 100, false), opening.acknowledged), (Some(true), true));
    }
}
