//! Places for those who wait for their time: so many at once, and nobody for ever.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// How many programs wait for their time.
#[derive(Debug, Default)]
pub(crate) struct Room {
    waiting: Mutex<(usize, bool)>,
    changed: Condvar,
}

impl Room {
    fn state(&self) -> MutexGuard<'_, (usize, bool)> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
    pub fn close(&self) {
        self.state().1 = true;
        self.changed.notify_all();
    }
}

/// One place among those that wait.
#[derive(Debug)]
pub(crate) struct Ticket(Arc<Room>);

impl Ticket {
    /// Waits for a place. None: nobody is wanted any more.
    pub fn take(room: &Arc<Room>, places: usize) -> Option<Ticket> {
        let waiting = room.state();
        let full = |(count, closed): &mut (usize, bool)| *count >= places && !*closed;
        let mut waiting = room.changed.wait_while(waiting, full).unwrap_or_else(PoisonError::into_inner);
        waiting.0 += 1;
        // Dropped only after the lock.
        let ticket = Ticket(Arc::clone(room));
        let closed = waiting.1;
        drop(waiting);
        (!closed).then_some(ticket)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.0.state().0 -= 1;
        self.0.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_without_a_place() {
        let room = Arc::new(Room::default());
        let mut tickets: Vec<Ticket> = (0..3).map(|_| Ticket::take(&room, 3).unwrap()).collect();
        let taker = |room: &Arc<Room>| {
            let room = Arc::clone(room);
            std::thread::spawn(move || Ticket::take(&room, 3).map(|ticket| ticket.0.state().0))
        };
        let other = taker(&room);
        tickets.pop();
        assert_eq!(other.join().unwrap(), Some(3));
        tickets.push(Ticket::take(&room, 3).unwrap());
        // Full again, and then nobody is wanted any more.
        let other = taker(&room);
        room.close();
        assert_eq!(other.join().unwrap(), None);
        drop(tickets);
        assert_eq!(room.state().0, 0);
    }
}
