//! Types of arguments: what a word of a call is. A value keeps its word as the program gave it, with the upper half that the kernel leaves out.

use core::marker::PhantomData;

/// How an argument is shown in logs of calls, in strace's manner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// A number.
    Number,
    /// Flags without names here, a pointer: in hexadecimal.
    Hexadecimal,
    /// Permissions, in octal.
    Mode,
    /// A descriptor.
    Descriptor,
    /// A folder's descriptor, or AT_FDCWD.
    Folder,
    /// A path.
    Path,
    /// Data, of so many bytes as the next argument says.
    Data,
    /// Data, of so many bytes as the call returned.
    Returned,
    /// Flags of open(2).
    OpenFlags,
    /// Flags: their names, and the bits of each.
    Flags(&'static [(&'static str, u64)]),
    /// A struct sockaddr.
    SockAddr,
    /// A struct timespec.
    Timespec,
    /// A signal.
    Signal,
    /// A family of sockets.
    Family,
    /// A type of sockets.
    SocketType,
}

/// What of the program's memory goes along with a call to the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Nothing: the argument is no pointer, or the controller reads where it leads to itself.
    None,
    /// So many bytes.
    Bytes(u16),
    /// As many bytes as the next argument says, but at most so many.
    Counted(u16),
    /// As many bytes as the next argument says, and as there is room for behind all other pieces.
    Data,
}

/// Which way data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The call reads it.
    In,
    /// The call writes it.
    Out,
    /// Both.
    InOut,
}

/// An argument of a call.
pub trait Argument: Copy {
    /// How it is shown.
    const SHOWN: Shown;
    /// Is it a descriptor, or may be one? The loader's own are none to programs.
    const IS_DESCRIPTOR: bool = false;
    /// What goes along.
    const PIECE: Piece = Piece::None;
    /// Which way what it leads to goes; none: it is no pointer, or leads to what has no type here.
    const DIRECTION: Option<Direction> = None;
    /// As in C, for documentation; of a pointer, what it leads to.
    const NAME: &'static str;
    /// From the word.
    fn of(word: usize) -> Self;
    /// The word.
    fn word(self) -> usize;
}

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident($as:ty) $shown:ident $text:literal $(, $key:ident = $value:expr)*;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(transparent)]
        pub struct $name(pub usize);

        impl $name {
            /// Its value, as the kernel takes it.
            pub fn get(self) -> $as {
                self.0 as $as
            }
        }

        impl Argument for $name {
            const SHOWN: Shown = Shown::$shown;
            const NAME: &'static str = $text;
            $(const $key: words!(@$key) = $value;)*
            fn of(word: usize) -> Self {
                Self(word)
            }
            fn word(self) -> usize {
                self.0
            }
        }
    )* };
    (@IS_DESCRIPTOR) => { bool };
    (@PIECE) => { Piece };
    (@DIRECTION) => { Option<Direction> };
}

words! {
    /// A descriptor.
    Fd(i32) Descriptor "int", IS_DESCRIPTOR = true;
    /// A descriptor, or -1 for none.
    FdOrNone(i32) Descriptor "int", IS_DESCRIPTOR = true;
    /// The descriptor of a folder, or AT_FDCWD.
    Dir(i32) Folder "int", IS_DESCRIPTOR = true;
    /// An int.
    Int(i32) Number "int";
    /// An unsigned int.
    Uint(u32) Number "unsigned int";
    /// A user or a group.
    Id(u32) Number "id_t";
    /// A long, or a place in a file.
    Long(isize) Number "long";
    /// A length or a count.
    Size(usize) Number "size_t";
    /// Flags that have no names here.
    Flags(usize) Hexadecimal "int";
    /// Flags of open(2).
    OpenFlags(i32) OpenFlags "int";
    /// Permissions.
    Mode(u32) Mode "mode_t";
    /// A signal.
    Signal(i32) Signal "int";
    /// A family of sockets.
    Family(i32) Family "int";
    /// A type of sockets, with SOCK_CLOEXEC and SOCK_NONBLOCK.
    SocketType(i32) SocketType "int";
    /// A path, or another text with a zero at its end.
    Path(usize) Path "char", DIRECTION = Some(Direction::In);
    /// An address, or a pointer to what has no type here.
    Address(usize) Hexadecimal "void *";
    /// Data that the call reads; the next argument is its length.
    InBytes(usize) Data "void", PIECE = Piece::Data, DIRECTION = Some(Direction::In);
    /// Room for data; the next argument is how much.
    OutBytes(usize) Returned "void", DIRECTION = Some(Direction::Out);
}

impl Fd {
    /// Its number, as an index.
    pub fn index(self) -> usize {
        self.0 as u32 as usize
    }
}

/// What a pointer leads to.
pub trait Pointee: Copy {
    /// Name in C.
    const NAME: &'static str;
    /// How a pointer to it is shown.
    const SHOWN: Shown = Shown::Hexadecimal;
    /// What goes along when a call reads it.
    const PIECE: Piece = Piece::None;
}

impl Pointee for u32 {
    const NAME: &'static str = "unsigned int";
}

/// The kernel's structures, as marks: what a pointer leads to. Sizes are those of 64-bit processors.
pub mod kernel {
    use super::{Piece, Pointee, Shown};

    macro_rules! structs {
        ($($name:ident $text:literal $(, $key:ident = $value:expr)*;)*) => { $(
            #[doc = $text]
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub struct $name;
            impl Pointee for $name {
                const NAME: &'static str = $text;
                $(const $key: structs!(@$key) = $value;)*
            }
        )* };
        (@SHOWN) => { Shown };
        (@PIECE) => { Piece };
    }

    structs! {
        CapHeader "struct __user_cap_header_struct";
        EpollEvent "struct epoll_event", PIECE = Piece::Bytes(12);
        EpollEvents "struct epoll_event[]";
        FdPair "int[2]";
        FdSet "fd_set";
        FutexWaiters "struct futex_waitv[]";
        IoVecs "struct iovec[]";
        Itimerspec "struct itimerspec", PIECE = Piece::Bytes(32);
        Itimerval "struct itimerval", PIECE = Piece::Bytes(32);
        MMsgHdrs "struct mmsghdr[]";
        MsgHdr "struct msghdr", PIECE = Piece::Bytes(56);
        Offset "off_t";
        OpenHow "struct open_how";
        OptVal "void", PIECE = Piece::Counted(256);
        PollFds "struct pollfd[]";
        Rlimit "struct rlimit";
        Rusage "struct rusage";
        SigAction "struct sigaction";
        SigEvent "struct sigevent";
        SigInfo "siginfo_t";
        SigSet "sigset_t";
        SigStack "stack_t";
        SockAddr "struct sockaddr", SHOWN = Shown::SockAddr, PIECE = Piece::Counted(128);
        SockLen "socklen_t", PIECE = Piece::Bytes(4);
        Stat "struct stat";
        Statfs "struct statfs";
        Statx "struct statx";
        Sysinfo "struct sysinfo";
        Timespec "struct timespec", SHOWN = Shown::Timespec, PIECE = Piece::Bytes(16);
        Timeval "struct timeval";
        Tms "struct tms";
        Utsname "struct utsname";
    }
}

macro_rules! pointers {
    ($($(#[$doc:meta])* $name:ident $piece:expr;)*) => { $(
        $(#[$doc])*
        #[repr(transparent)]
        pub struct $name<T>(pub usize, PhantomData<T>);

        impl<T> Clone for $name<T> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<T> Copy for $name<T> {}

        impl<T: Pointee> Argument for $name<T> {
            const SHOWN: Shown = T::SHOWN;
            const PIECE: Piece = $piece;
            const DIRECTION: Option<Direction> = Some(Direction::$name);
            const NAME: &'static str = T::NAME;
            fn of(word: usize) -> Self {
                Self(word, PhantomData)
            }
            fn word(self) -> usize {
                self.0
            }
        }
    )* };
}

pointers! {
    /// A pointer to what the call reads.
    In T::PIECE;
    /// A pointer to where the call writes.
    Out Piece::None;
    /// A pointer to what the call reads and writes.
    InOut T::PIECE;
}
