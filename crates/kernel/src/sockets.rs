//! Messages between weft and a kernel. Kernels write each in one piece and read what they are told, so nobody ever waits for the rest of a message, nor
//! for room: who sends half of one, or does not read, is broken.

use crate::Broken;
use rustix::net::{RecvFlags, SendFlags};
use std::os::fd::AsFd;

/// Sends a whole message.
pub(crate) fn say(socket: impl AsFd, message: &[u8]) -> Result<(), Broken> {
    loop {
        match rustix::net::send(&socket, message, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(sent) if sent == message.len() => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Ok(_) | Err(rustix::io::Errno::AGAIN) => return Err(Broken::new("it does not read what it is told")),
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Reads what is there already, all of it. False: the other side is gone.
pub(crate) fn hear(socket: impl AsFd, message: &mut [u8]) -> Result<bool, Broken> {
    let bytes = message.len();
    if bytes == 0 { Ok(true) } else { whole(receive(socket, message, RecvFlags::DONTWAIT), bytes) }
}

/// As [`hear`], and waits as long as the socket's own timeout says. None: nothing has come.
pub(crate) fn hear_later(socket: impl AsFd, message: &mut [u8]) -> Result<Option<bool>, Broken> {
    match receive(socket, message, RecvFlags::empty()) {
        Err(rustix::io::Errno::AGAIN) => Ok(None),
        other => whole(other, message.len()).map(Some),
    }
}

fn receive(socket: impl AsFd, message: &mut [u8], flags: RecvFlags) -> rustix::io::Result<usize> {
    loop {
        match rustix::net::recv(&socket, &mut *message, flags) {
            Err(rustix::io::Errno::INTR) => {}
            other => return other.map(|(_, got)| got),
        }
    }
}

/// A message that was read, of so many bytes. False: the other side is gone.
pub(crate) fn whole(got: rustix::io::Result<usize>, bytes: usize) -> Result<bool, Broken> {
    match got {
        Ok(0) | Err(rustix::io::Errno::CONNRESET) => Ok(false),
        Ok(got) if got == bytes => Ok(true),
        Ok(_) | Err(rustix::io::Errno::AGAIN) => Err(Broken::new("it sends half a message")),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    #[test]
    fn messages_are_whole_or_none() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut message = [0; 4];
        theirs.write_all(b"fourfo").unwrap();
        assert_eq!(hear(&ours, &mut message), Ok(true));
        assert_eq!(&message, b"four");
        assert!(hear(&ours, &mut message).unwrap_err().0.contains("half a message"));
        assert!(hear(&ours, &mut message).unwrap_err().0.contains("half a message"));
        assert_eq!(hear(&ours, &mut []), Ok(true));
        drop(theirs);
        assert_eq!(hear(&ours, &mut message), Ok(false));
        assert!(say(&ours, b"x").is_err());
    }

    #[test]
    fn nobody_waits_for_who_does_not_read() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let refused = (0..100_000).find_map(|_| say(&ours, &[0; 600]).err()).unwrap();
        assert!(refused.0.contains("does not read"), "{refused}");
        drop(theirs);
    }

    #[test]
    fn one_waits_as_long_as_the_socket_says() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let mut message = [0; 2];
        assert_eq!(hear_later(&ours, &mut message), Ok(None));
        theirs.write_all(b"now").unwrap();
        assert_eq!(hear_later(&ours, &mut message), Ok(Some(true)));
        assert!(hear_later(&ours, &mut message).is_err());
        drop(theirs);
        assert_eq!(hear_later(&ours, &mut message), Ok(Some(false)));
    }
}
