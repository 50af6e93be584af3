//! BLEST (Ferlin, Alay, Mehani, Boreli, "BLEST: Blocking Estimation-based MPTCP Scheduler for Heterogeneous Networks", IFIP Networking 2016): as lowest
//! round trip, but a slow subflow gets data only if it would be through before the fast one needs the connection's window that it takes.

use super::interface::{Asked, Choice, Memory, Scheduler, View};

/// Where the estimate's factor begins, by how much it changes, and its bounds: thousandths. The paper adapts it once a round trip; its authors' code has
/// these bounds.
const LAMBDA_FIRST: u64 = 1200;
const LAMBDA_STEP: u64 = 10;
const LAMBDA_MIN: u64 = 1000;
const LAMBDA_MAX: u64 = 1300;

/// It. Its memory: the factor, the distance at which it is looked at next, and whether the window was exhausted meanwhile.
#[derive(Debug)]
pub struct Blest;

/// Bytes that the fast subflow sends in a round trip of the slow one, while its window grows by a segment each of its own.
fn needed_bytes(fast: &View, slow: &View) -> f64 {
    let round_trips = (slow.rtt_s() / fast.rtt_s().max(1e-6)).max(1.0);
    let mss = f64::from(fast.mss_bytes.max(1));
    (f64::from(fast.cwnd_bytes) + mss * (round_trips - 1.0) / 2.0) * round_trips
}

impl Blest {
    /// The factor follows what became of the last estimates: larger after the window was exhausted, smaller after it was not.
    fn adapt(asked: &Asked<'_>, Memory([lambda, look_at, blocked, _]): &mut Memory) {
        if *lambda == 0 {
            (*lambda, *look_at) = (LAMBDA_FIRST, asked.next);
        }
        *blocked |= u64::from(asked.next >= asked.edge);
        if asked.una >= *look_at {
            *lambda = if *blocked == 1 { *lambda + LAMBDA_STEP } else { *lambda - LAMBDA_STEP }.clamp(LAMBDA_MIN, LAMBDA_MAX);
            (*look_at, *blocked) = (asked.next + 1, 0);
        }
    }
}

impl Scheduler for Blest {
    fn choose(&self, asked: &Asked<'_>, memory: &mut Memory) -> Option<Choice> {
        Blest::adapt(asked, memory);
        let by_rtt = |(_, a): &&(usize, View), (_, b): &&(usize, View)| a.rtt_s().total_cmp(&b.rtt_s());
        let (fast_index, fast) = asked.usable().min_by(by_rtt)?;
        let free = asked.usable().filter(|(_, path)| path.room_bytes() > 0);
        let (index, path) = free.min_by(by_rtt)?;
        if index == fast_index || asked.again {
            return asked.give(*index, path.room_bytes());
        }
        // All of the window: in a round trip of the slow one the fast one's flight of now is through, and another in its place.
        let window = asked.edge.saturating_sub(asked.una) as f64;
        // A segment at a time: each of them makes the next less likely.
        let segment = path.bytes_of(1);
        let left = window - (path.queued_bytes + segment) as f64;
        let needed = needed_bytes(fast, path) * memory.0[0] as f64 / 1000.0;
        if needed > left { None } else { asked.give(*index, segment) }
    }
}
