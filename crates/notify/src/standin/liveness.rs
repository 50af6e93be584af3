//! Finding the last close of stand-ins that have no other end.
//!
//! An unconnected or listening unix socket tells nobody that it is gone, and a duplicate of ours would keep it alive. What is left is the
//! kernel's own list: /proc/net/unix of our network namespace names every unix socket that was made in it, by inode, whoever holds it and
//! whatever namespace the holder is in. It is read when it matters (a bind that finds its port taken, a hang-up with two meanings) and
//! every [`PERIOD`] while such stand-ins exist, less often where reading takes long ([`period_after`]).

use std::collections::HashSet;
use std::time::Duration;

/// How often to look while there is something to look for.
pub const PERIOD: Duration = Duration::from_millis(200);

/// The longest time between two looks.
pub const PERIOD_MAX: Duration = Duration::from_secs(2);

/// A look may take a fiftieth of the time: ten thousand connections are ten thousand lines in the kernel's list.
const SHARE: u32 = 50;

/// Even when there is something to find, the next look waits so many times as long as the last one took.
pub const PAUSE: u32 = 9;

/// When to look again after a look that took so long.
pub fn period_after(look: Duration) -> Duration {
    (look * SHARE).clamp(PERIOD, PERIOD_MAX)
}

/// The inode numbers of all unix sockets that were made in our network namespace.
///
/// # Errors
/// When /proc is not mounted.
pub fn living() -> std::io::Result<HashSet<u64>> {
    Ok(parse(&std::fs::read_to_string("/proc/thread-self/net/unix")?))
}

/// Columns: Num RefCount Protocol Flags Type St Inode Path.
fn parse(table: &str) -> HashSet<u64> {
    table.lines().skip(1).filter_map(|line| line.split_ascii_whitespace().nth(6)?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys;
    use std::os::fd::AsFd;

    #[test]
    fn looks_that_take_long_are_rare() {
        assert_eq!(period_after(Duration::from_micros(300)), PERIOD);
        assert_eq!(period_after(Duration::from_millis(20)), Duration::from_secs(1));
        assert_eq!(period_after(Duration::from_secs(9)), PERIOD_MAX);
    }

    #[test]
    fn an_unconnected_socket_is_listed_until_its_last_close() {
        let socket = sys::unix_socket(libc::SOCK_STREAM).unwrap();
        let inode = sys::inode(socket.as_fd()).unwrap();
        let second = socket.try_clone().unwrap();
        drop(socket);
        assert!(living().unwrap().contains(&inode));
        drop(second);
        assert!(!living().unwrap().contains(&inode));
    }

    #[test]
    fn a_listening_socket_is_listed_too() {
        let socket = sys::unix_socket(libc::SOCK_STREAM).unwrap();
        sys::autobind(socket.as_fd()).unwrap();
        sys::listen(socket.as_fd(), 1).unwrap();
        assert!(living().unwrap().contains(&sys::inode(socket.as_fd()).unwrap()));
    }
}
