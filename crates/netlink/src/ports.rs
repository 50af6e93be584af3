//! The numbers of a node's netlink sockets (nl_pid): who has which, and which one a socket gets that asks for none.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// The first number of whoever finds his process's taken: netlink_autobind goes down from a drawn one below -4096, here from the first.
const FIRST: i32 = -4097;

#[derive(Debug)]
struct Taken {
    numbers: BTreeSet<(i32, u32)>,
    next: i32,
    /// Sockets that were made.
    made: u64,
}

/// What the sockets of one node share. A number is as long taken as its socket lives, so there are never more than sockets.
#[derive(Clone, Debug)]
pub struct Ports(Arc<Mutex<Taken>>);

impl Default for Ports {
    fn default() -> Ports {
        Ports(Arc::new(Mutex::new(Taken { numbers: BTreeSet::new(), next: FIRST, made: 0 })))
    }
}

impl Ports {
    fn with<T>(&self, act: impl FnOnce(&mut Taken) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
    /// What tells a socket from all others of the node (SO_COOKIE). Those of the model count from 1.
    pub fn next_cookie(&self) -> u64 {
        self.with(|taken| {
            taken.made += 1;
            1 << 63 | taken.made
        })
    }
    /// Has anybody this number of a protocol?
    pub fn has(&self, protocol: i32, number: u32) -> bool {
        self.with(|taken| taken.numbers.contains(&(protocol, number)))
    }
    /// Takes this number of a protocol; false: somebody has it.
    pub(crate) fn take(&self, protocol: i32, number: u32) -> bool {
        self.with(|taken| taken.numbers.insert((protocol, number)))
    }
    /// The process's own number, or one that nobody has.
    pub(crate) fn take_any(&self, protocol: i32, process: u32) -> u32 {
        self.with(|taken| {
            let mut number = process;
            while !taken.numbers.insert((protocol, number)) {
                number = taken.next as u32;
                // Below the smallest number comes the first one again.
                taken.next = taken.next.checked_sub(1).unwrap_or(FIRST);
            }
            number
        })
    }
    pub(crate) fn release(&self, protocol: i32, number: u32) {
        self.with(|taken| taken.numbers.remove(&(protocol, number)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_number_goes_to_the_first_and_others_get_negative_ones() {
        let ports = Ports::default();
        let taken: Vec<u32> = [7, 7, 7, 8].into_iter().map(|process| ports.take_any(0, process)).collect();
        assert_eq!(taken, [7, -4097_i32 as u32, -4098_i32 as u32, 8]);
        assert!(!ports.take(0, 8) && ports.take(4, 8), "each protocol has its own");
        ports.release(0, 7);
        assert_eq!(ports.take_any(0, 7), 7);
    }
}
