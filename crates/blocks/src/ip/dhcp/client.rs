//! The client of one interface: RFC 2131 §4.4 as a state machine. It says what to send and what has become of the lease; the block does it.
//!
//! ```text
//! Down ─► Waiting ─► Selecting ─► Requesting ─► Bound ─► Renewing ─► Rebinding ─► Waiting
//!   └──────────────────────────► Rebooting ─────► ▲ ◄───────┴───────────┘
//! ```

use super::lease::Lease;
use super::message::{Outgoing, Received};
use std::net::Ipv4Addr;
use weft_core::{Duration, Instant, Rng};
use weft_wire::dhcp::MessageType;

/// RFC 2131 §4.1: "the delay before the first retransmission SHOULD be 4 seconds", doubled "up to a maximum of 64 seconds".
const BACKOFF: Duration = Duration::from_secs(4);
const DOUBLINGS_MAX: u32 = 4;
/// "randomized by the value of a uniform random number chosen from the range -1 to +1" seconds.
const SPREAD: Duration = Duration::from_secs(1);
/// §3.1: "a client retransmitting as described in section 4.1 might retransmit the DHCPREQUEST message four times", and begins again then.
const REQUESTS_MAX: u32 = 4;
/// So often a lease that still runs is asked about before it is taken to be good, as nobody says otherwise (§3.2).
const CONFIRMATIONS_MAX: u32 = 3;
/// §4.4.5: "down to a minimum of 60 seconds".
const RENEWAL_INTERVAL_MIN: Duration = Duration::from_secs(60);

/// The states of RFC 2131 figure 5; `Waiting` is INIT, and `Rebooting` INIT-REBOOT with what follows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// The interface is down.
    Down,
    /// The lease was given back: nothing is asked until somebody says so.
    Released,
    Waiting,
    Selecting,
    Requesting,
    Rebooting,
    Bound,
    Renewing,
    Rebinding,
}

weft_core::fields!(
    enum Phase {
        Down = 0,
        Released = 1,
        Waiting = 2,
        Selecting = 3,
        Requesting = 4,
        Rebooting = 5,
        Bound = 6,
        Renewing = 7,
        Rebinding = 8,
    }
);

impl Phase {
    /// In the RFC's words.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Phase::Down => "DOWN",
            Phase::Released => "RELEASED",
            Phase::Waiting => "INIT",
            Phase::Selecting => "SELECTING",
            Phase::Requesting => "REQUESTING",
            Phase::Rebooting => "REBOOTING",
            Phase::Bound => "BOUND",
            Phase::Renewing => "RENEWING",
            Phase::Rebinding => "REBINDING",
        }
    }
}

/// An offer that was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Offer {
    address: Ipv4Addr,
    server: Ipv4Addr,
}

/// The client of one interface.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Client {
    pub phase: Phase,
    pub lease: Option<Lease>,
    offer: Option<Offer>,
    xid: u32,
    /// When it began to ask.
    since: Instant,
    /// When it asked first for what it waits for: a lease counts from there (§4.4.1).
    asked: Instant,
    /// What the last discovery said of the time since it began; a request says the same (§4.4.1).
    secs: u16,
    /// Messages sent in this phase.
    sent: u32,
    /// Refusals since the last lease.
    refusals: u32,
    due: Option<Instant>,
}

weft_core::fields!(struct Offer { address, server });
weft_core::fields!(struct Client { phase, lease, offer, xid, since, asked, secs, sent, refusals, due });

/// What follows from time or a message.
#[derive(Debug)]
pub(super) enum Step {
    /// Nothing.
    Nothing,
    /// The message is none that is waited for.
    Ignored,
    /// The server grants what cannot be, or something else than was asked for.
    Refused,
    /// Send this.
    Send(Outgoing),
    /// There is a lease, or the one that there was is renewed; what it was before.
    Bound(Option<Lease>),
    /// The lease is over; why.
    Lost(Lease, &'static str),
}

impl Default for Client {
    fn default() -> Client {
        Client {
            phase: Phase::Down,
            lease: None,
            offer: None,
            xid: 0,
            since: Instant::ZERO,
            asked: Instant::ZERO,
            secs: 0,
            sent: 0,
            refusals: 0,
            due: None,
        }
    }
}

impl Client {
    pub(super) const fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Is the state one that this client can be in?
    pub(super) fn is_sound(&self) -> bool {
        let leased = matches!(self.phase, Phase::Rebooting | Phase::Bound | Phase::Renewing | Phase::Rebinding);
        let offered = self.phase == Phase::Requesting;
        self.lease.as_ref().map_or(!leased, Lease::is_sound) && (self.offer.is_some() || !offered)
    }

    /// The interface is up: a lease that still runs is asked about (§3.2), else a new one is looked for.
    pub(super) fn begin(&mut self, now: Instant, rng: &mut Rng) {
        match self.lease {
            Some(_) => self.enter(Phase::Rebooting, now, rng),
            None => self.wait(now),
        }
    }

    /// The interface is down. A lease runs on.
    pub(super) fn stop(&mut self) {
        self.phase = Phase::Down;
        self.due = self.lease.as_ref().and_then(|lease| lease.until);
    }

    /// Somebody asks for more time, or for a lease.
    pub(super) fn renew(&mut self, now: Instant, rng: &mut Rng) {
        match (self.phase, &self.lease) {
            (Phase::Bound | Phase::Renewing | Phase::Rebinding, Some(_)) => self.enter(Phase::Renewing, now, rng),
            (Phase::Down, _) => {}
            _ => self.wait(now),
        }
    }

    /// Gives the lease back; what there was, and what tells the server.
    pub(super) fn release(&mut self, rng: &mut Rng) -> Option<(Lease, Outgoing)> {
        let lease = self.lease.take();
        if self.phase != Phase::Down {
            (self.phase, self.due) = (Phase::Released, None);
        }
        let lease = lease?;
        self.xid = rng.u32();
        let (own, server) = (Some(lease.address), Some(lease.server));
        let told = Outgoing { kind: MessageType::Release, xid: self.xid, secs: 0, own, wanted: None, server, to: server };
        Some((lease, told))
    }

    fn wait(&mut self, at: Instant) {
        (self.phase, self.due, self.offer) = (Phase::Waiting, Some(at), None);
    }

    /// Begins to ask, at once.
    fn enter(&mut self, phase: Phase, now: Instant, rng: &mut Rng) {
        (self.phase, self.xid, self.since, self.sent, self.due) = (phase, rng.u32(), now, 0, Some(now));
    }

    /// Does one thing that is due.
    pub(super) fn run(&mut self, now: Instant, rng: &mut Rng) -> Step {
        if let Some(lease) = self.lease.take_if(|lease| lease.until.is_some_and(|until| until <= now)) {
            match self.phase {
                Phase::Down | Phase::Released => self.due = None,
                _ => self.wait(now),
            }
            return Step::Lost(lease, "nobody renewed it");
        }
        match self.phase {
            Phase::Down | Phase::Released => {
                self.due = None;
                Step::Nothing
            }
            Phase::Waiting => {
                self.enter(Phase::Selecting, now, rng);
                self.discover(now, rng)
            }
            Phase::Selecting => self.discover(now, rng),
            Phase::Requesting if self.sent >= REQUESTS_MAX => {
                self.wait(now);
                Step::Nothing
            }
            Phase::Rebooting if self.sent >= CONFIRMATIONS_MAX => {
                self.bound(now);
                Step::Nothing
            }
            Phase::Bound => {
                self.enter(Phase::Renewing, now, rng);
                self.request(now, rng)
            }
            Phase::Requesting | Phase::Rebooting | Phase::Renewing | Phase::Rebinding => self.request(now, rng),
        }
    }

    fn discover(&mut self, now: Instant, rng: &mut Rng) -> Step {
        self.sent += 1;
        self.secs = seconds_since(self.since, now);
        self.due = Some(now + backoff(self.sent, rng));
        let (xid, kind, secs) = (self.xid, MessageType::Discover, self.secs);
        Step::Send(Outgoing { kind, xid, secs, own: None, wanted: None, server: None, to: None })
    }

    /// Table 4: which address stands where, by phase.
    fn request(&mut self, now: Instant, rng: &mut Rng) -> Step {
        if self.phase == Phase::Renewing && self.lease.as_ref().is_some_and(|lease| lease.rebind_at.is_some_and(|at| at <= now)) {
            (self.phase, self.sent) = (Phase::Rebinding, 0);
        }
        self.sent += 1;
        if self.sent == 1 {
            self.asked = now;
        }
        self.due = Some(now + backoff(self.sent, rng));
        let (xid, kind, secs) = (self.xid, MessageType::Request, seconds_since(self.since, now));
        let silent = Outgoing { kind, xid, secs, own: None, wanted: None, server: None, to: None };
        let outgoing = match (self.phase, &self.lease, self.offer) {
            (Phase::Requesting, _, Some(Offer { address, server })) => {
                Outgoing { secs: self.secs, wanted: Some(address), server: Some(server), ..silent }
            }
            (Phase::Rebooting, Some(lease), _) => Outgoing { wanted: Some(lease.address), ..silent },
            (Phase::Renewing, Some(lease), _) => {
                self.due = next_renewal(now, lease.rebind_at.or(lease.until)).or(self.due);
                Outgoing { own: Some(lease.address), to: Some(lease.server), ..silent }
            }
            (_, Some(lease), _) => {
                self.due = next_renewal(now, lease.until).or(self.due);
                Outgoing { own: Some(lease.address), ..silent }
            }
            // Without a lease there is nothing to ask for.
            (_, None, _) => {
                self.wait(now);
                return Step::Nothing;
            }
        };
        if let Some(until) = self.lease.as_ref().and_then(|lease| lease.until) {
            self.due = self.due.map(|due| due.min(until));
        }
        Step::Send(outgoing)
    }

    /// A message of a server for this station, whose transaction is looked at here.
    pub(super) fn received(&mut self, message: &Received<'_>, now: Instant, rng: &mut Rng) -> Step {
        if message.header.xid != self.xid {
            return Step::Ignored;
        }
        match (self.phase, message.kind) {
            (Phase::Selecting, MessageType::Offer) => {
                let Some(lease) = Lease::read(message, now) else { return Step::Refused };
                self.offer = Some(Offer { address: lease.address, server: lease.server });
                (self.phase, self.sent) = (Phase::Requesting, 0);
                self.request(now, rng)
            }
            (Phase::Requesting | Phase::Rebooting | Phase::Renewing | Phase::Rebinding, MessageType::Ack) => {
                let fits = |lease: &Lease| self.expected() == Some(lease.address) && self.is_from_asked(message);
                match Lease::read(message, self.asked).filter(fits) {
                    Some(lease) => self.granted(lease, now),
                    None => Step::Refused,
                }
            }
            (Phase::Requesting | Phase::Rebooting | Phase::Renewing | Phase::Rebinding, MessageType::Nak) => {
                if !self.is_from_asked(message) {
                    return Step::Refused;
                }
                // A server that refuses what it has just offered is not asked again and again without a pause.
                let pause = if self.refusals == 0 { Duration::ZERO } else { backoff(self.refusals, rng) };
                self.refusals = self.refusals.saturating_add(1);
                self.wait(now + pause);
                self.lease.take().map_or(Step::Nothing, |lease| Step::Lost(lease, "the server refused it"))
            }
            _ => Step::Ignored,
        }
    }

    /// The address that it asked for.
    fn expected(&self) -> Option<Ipv4Addr> {
        match self.phase {
            Phase::Requesting => self.offer.map(|offer| offer.address),
            _ => self.lease.as_ref().map(|lease| lease.address),
        }
    }

    /// Is the message from a server that was asked? Rebooting and rebinding ask all of them.
    fn is_from_asked(&self, message: &Received<'_>) -> bool {
        match self.phase {
            Phase::Requesting => self.offer.map(|offer| offer.server) == message.server,
            Phase::Renewing => self.lease.as_ref().map(|lease| lease.server) == message.server,
            _ => message.server.is_some(),
        }
    }

    fn granted(&mut self, lease: Lease, now: Instant) -> Step {
        let before = self.lease.replace(lease);
        (self.offer, self.refusals) = (None, 0);
        self.bound(now);
        Step::Bound(before)
    }

    fn bound(&mut self, now: Instant) {
        self.phase = Phase::Bound;
        // One that was not renewed in time, as the interface was down, is asked for at once.
        self.due = self.lease.as_ref().and_then(|lease| lease.renew_at.or(lease.until)).map(|at| at.max(now));
    }
}

fn seconds_since(since: Instant, now: Instant) -> u16 {
    u16::try_from(now.since(since).as_secs()).unwrap_or(u16::MAX)
}

/// How long is waited after so many messages.
fn backoff(sent: u32, rng: &mut Rng) -> Duration {
    let usual = BACKOFF * 2u32.pow(sent.saturating_sub(1).min(DOUBLINGS_MAX));
    usual - SPREAD + (2 * SPREAD).mul_f64(rng.unit())
}

/// §4.4.5: "the client SHOULD wait for one-half of the remaining time until T2 (in RENEWING state) and one-half of the remaining lease time (in REBINDING
/// state), down to a minimum of 60 seconds".
fn next_renewal(now: Instant, end: Option<Instant>) -> Option<Instant> {
    end.map(|end| (now + (end.since(now) / 2).max(RENEWAL_INTERVAL_MIN)).min(end))
}
