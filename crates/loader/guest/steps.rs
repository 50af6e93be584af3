//! Steps that prepare a node's files, in a list that the controller writes and that holds what came of each.

use crate::abi;
use crate::calls::number as nr;
use crate::sys;

const DESCRIPTORS: usize = abi::ORDER_DESCRIPTORS;
const MNT_DETACH: usize = 2;

/// Makes the namespaces and does the steps of an order. What failed stands in the list; the result is an errno, or 0.
pub fn do_steps(namespaces: u32, bytes: usize, descriptors: &[i32; DESCRIPTORS]) -> isize {
    let [_, control, _, steps, mount, _] = *descriptors;
    // PROT_READ|PROT_WRITE, MAP_SHARED
    let at = sys::call(nr::MMAP, &[0, bytes, 3, 1, steps as usize, 0]);
    if at <= 0 {
        return at;
    }
    // SAFETY: mapped, of this size; the controller wrote it, and reads results only.
    let list = unsafe { List::new(at as usize) };
    let made = sys::call(nr::UNSHARE, &[namespaces as usize]);
    list.set_result(0, made);
    let done = made == 0 && list.perform([control as usize, mount as usize]);
    sys::unmap(at as usize, bytes);
    if done { 0 } else { sys::EINVAL }
}

/// Does a list without making namespaces. What came of it stands in the list.
pub fn do_list(steps: i32) {
    const SEEK_END: usize = 2;
    let bytes = sys::call(nr::LSEEK, &[steps as usize, 0, SEEK_END]);
    if bytes > 0 {
        do_steps(0, bytes as usize, &[steps; DESCRIPTORS]);
    }
}

/// What is to be done, see [`abi::Step`].
struct List {
    at: usize,
    count: usize,
}

impl List {
    unsafe fn new(at: usize) -> List {
        // SAFETY: the list begins with the number of its steps.
        List { at, count: unsafe { *(at as *const u32) } as usize }
    }

    /// 0 is that of the namespaces, 1 that of the first step: an errno.
    fn set_result(&self, index: usize, result: isize) {
        // SAFETY: results follow the number; there is one more than steps.
        unsafe { *(self.at as *mut u32).add(1 + index) = if result < 0 { -result as u32 } else { 0 } };
    }

    /// Does it all, with the controller's socket and the mount that came with the order. False: something failed that must not.
    fn perform(&self, handed: [usize; 2]) -> bool {
        sys::call(nr::UMASK, &[0]);
        let mut at = self.at + abi::steps_at(self.count);
        let mut leave_out = 0;
        for index in 0..self.count {
            // SAFETY: as many records as the list says, each as long as it says.
            let step = unsafe { &*(at as *const abi::Step) };
            let texts = at + size_of::<abi::Step>();
            at += step.bytes as usize;
            if leave_out > 0 {
                leave_out -= 1;
                continue;
            }
            let result = perform(step, texts, handed);
            self.set_result(1 + index, result);
            match (result < 0, step.otherwise) {
                (true, abi::OTHERWISE_FAIL) => return false,
                (true, _) | (false, abi::OTHERWISE_FAIL | abi::OTHERWISE_GO_ON) => {}
                (false, instead) => leave_out = instead - abi::OTHERWISE_INSTEAD,
            }
        }
        sys::call(nr::UMASK, &[0o022]);
        true
    }
}

fn perform(step: &abi::Step, texts: usize, [control, mount]: [usize; 2]) -> isize {
    let mut at = texts;
    let text = step.lengths.map(|length| {
        at += length as usize;
        at - length as usize
    });
    let number = step.number as usize;
    match step.kind {
        abi::STEP_FOLDER => match sys::call(nr::MKDIR, &[text[0], number]) {
            sys::EEXIST => 0,
            other => other,
        },
        abi::STEP_FILE => {
            // O_WRONLY|O_CREAT|O_TRUNC|O_CLOEXEC
            let fd = sys::call(nr::OPEN, &[text[0], 0x8_0241, number]);
            if fd < 0 {
                return fd;
            }
            let result = write_all(fd as usize, text[1], step.lengths[1] as usize);
            sys::call(nr::CLOSE, &[fd as usize]);
            result
        }
        abi::STEP_LINK => sys::call(nr::SYMLINK, &[text[0], text[1]]),
        abi::STEP_MOUNT => sys::call(nr::MOUNT, &[text[0], text[1], text[2], number, text[3]]),
        abi::STEP_READ_ONLY => {
            // struct mount_attr: MOUNT_ATTR_RDONLY; AT_RECURSIVE
            let attributes = [1_u64, 0, 0, 0];
            let size = size_of_val(&attributes);
            sys::call(nr::MOUNT_SETATTR, &[sys::AT_FDCWD, text[0], 0x8000, attributes.as_ptr() as usize, size])
        }
        abi::STEP_ENTER => enter(text[0]),
        abi::STEP_UNMOUNT => sys::call(nr::UMOUNT2, &[text[0], MNT_DETACH]),
        abi::STEP_COVER => cover(text[0]),
        abi::STEP_ATTACH => {
            const MOVE_MOUNT_F_EMPTY_PATH: usize = 4;
            sys::call(nr::MOVE_MOUNT, &[mount, c"".as_ptr() as usize, sys::AT_FDCWD, text[0], MOVE_MOUNT_F_EMPTY_PATH])
        }
        abi::STEP_KEEP => keep(control, text[0]),
        abi::STEP_OPAQUE => sys::call(nr::SETXATTR, &[text[0], c"user.overlay.opaque".as_ptr() as usize, c"y".as_ptr() as usize, 1, 0]),
        _ => sys::EINVAL,
    }
}

/// Sends the controller a mount that nobody sees, of what is mounted here.
fn keep(control: usize, path: usize) -> isize {
    // OPEN_TREE_CLONE|OPEN_TREE_CLOEXEC
    let tree = sys::call(nr::OPEN_TREE, &[sys::AT_FDCWD, path, 0x8_0001]);
    if tree < 0 {
        return tree;
    }
    let byte = [2_u8];
    let vector = [byte.as_ptr() as usize, 1];
    // struct cmsghdr (length; SOL_SOCKET, SCM_RIGHTS) and the descriptor.
    let rights = [20_u64, 1 | 1 << 32, tree as u64];
    let message = [0, 0, vector.as_ptr() as usize, 1, rights.as_ptr() as usize, size_of_val(&rights), 0];
    let sent = sys::call(nr::SENDMSG, &[control, message.as_ptr() as usize, 0]);
    sys::call(nr::CLOSE, &[tree as usize]);
    sent.min(0)
}

fn write_all(fd: usize, mut from: usize, mut bytes: usize) -> isize {
    const ENOSPC: isize = -28;
    while bytes > 0 {
        let written = sys::call(nr::WRITE, &[fd, from, bytes]);
        if written <= 0 {
            return if written == 0 { ENOSPC } else { written };
        }
        (from, bytes) = (from + written as usize, bytes - written as usize);
    }
    0
}

/// pivot_root(".", ".") puts the old root over the new one (pivot_root(2), NOTES).
fn enter(path: usize) -> isize {
    let (here, root) = (c".".as_ptr() as usize, c"/".as_ptr() as usize);
    all(&[(nr::CHDIR, &[path]), (nr::PIVOT_ROOT, &[here, here]), (nr::UMOUNT2, &[here, MNT_DETACH]), (nr::CHDIR, &[root])])
}

/// As switch_root(8) does it: pivot_root(2) would look at every process of the host.
fn cover(path: usize) -> isize {
    const MS_MOVE: usize = 0x2000;
    let (here, root) = (c".".as_ptr() as usize, c"/".as_ptr() as usize);
    all(&[(nr::CHDIR, &[path]), (nr::MOUNT, &[here, root, 0, MS_MOVE, 0]), (nr::CHROOT, &[here]), (nr::CHDIR, &[root])])
}

fn all(calls: &[(usize, &[usize])]) -> isize {
    calls.iter().map(|(number, arguments)| sys::call(*number, arguments)).find(|result| *result < 0).unwrap_or(0)
}
