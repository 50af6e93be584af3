//! The stack that the kernel gave to the loader, and the one that the program gets.

use crate::block::Thread;
use crate::calls::number as nr;
use crate::elf::Loaded;
use crate::program_name;
use crate::random;
use crate::sys;

/// What execve(2) left on the stack.
pub struct Kernel {
    stack: usize,
    pub arguments: *const usize,
    pub argument_count: usize,
    pub environment: *const usize,
    environment_count: usize,
    auxiliary: *const [usize; 2],
}

const AT_PHDR: usize = 3;
const AT_PHENT: usize = 4;
const AT_PHNUM: usize = 5;
const AT_BASE: usize = 7;
const AT_ENTRY: usize = 9;
const AT_UID: usize = 11;
const AT_EGID: usize = 14;
const AT_SECURE: usize = 23;
const AT_RANDOM: usize = 25;
const AT_RSEQ_FEATURE_SIZE: usize = 27;
const AT_RSEQ_ALIGN: usize = 28;
const AT_EXECFN: usize = 31;
const AT_SYSINFO_EHDR: usize = 33;

impl Kernel {
    pub unsafe fn parse(stack: *const usize) -> Kernel {
        // SAFETY: the layout of the psABI.
        unsafe {
            let argument_count = *stack;
            let arguments = stack.add(1);
            let environment = arguments.add(argument_count + 1);
            let mut environment_count = 0;
            while *environment.add(environment_count) != 0 {
                environment_count += 1;
            }
            let auxiliary = environment.add(environment_count + 1).cast();
            Kernel { stack: stack as usize, arguments, argument_count, environment, environment_count, auxiliary }
        }
    }
}

impl Kernel {
    /// Where the kernel has put its vDSO; 0: nowhere.
    pub fn vdso(&self) -> usize {
        self.auxiliary(AT_SYSINFO_EHDR)
    }

    /// What the auxiliary vector says; 0: nothing.
    fn auxiliary(&self, what: usize) -> usize {
        // SAFETY: the list ends with a zero.
        let entries = (0..).map(|index| unsafe { *self.auxiliary.add(index) }).take_while(|entry| entry[0] != 0);
        entries.filter(|entry| entry[0] == what).map(|entry| entry[1]).next().unwrap_or(0)
    }

    /// The stack holds code from now on, all of it, and what it grows by.
    fn let_execute(&self) {
        const PROT_ALL: usize = 7;
        const PROT_GROWSDOWN: usize = 0x0100_0000;
        let page = self.stack & !4095;
        let name = self.auxiliary(AT_EXECFN);
        // fs/exec.c, bprm_mm_init: "bprm->p = vma->vm_end - sizeof(void *);", and what is put there first is the name of the file.
        let mut end = name;
        // SAFETY: the kernel's text, with a zero at its end.
        while name != 0 && unsafe { *(end as *const u8) } != 0 {
            end += 1;
        }
        let top = (end + 1 + size_of::<usize>()).next_multiple_of(4096);
        let all = |to: usize| sys::call(nr::MPROTECT, &[page, to - page, PROT_ALL | PROT_GROWSDOWN]);
        if (top <= page || all(top) != 0) && all(page + 4096) != 0 {
            sys::die("the stack of the program cannot hold code", 0);
        }
    }
}

/// Builds the program's stack below the kernel's; returns where it begins. Arguments and environment are where the kernel put them.
pub unsafe fn build(t: &mut Thread, kernel: &Kernel, image: &Loaded, vdso: usize) -> usize {
    let real = t.strict.on;
    let mut random = [0_u8; 16];
    if !real {
        random::bytes(t, &mut random);
    }
    // SAFETY: the stack grows down to its limit by itself; the kernel's pointers are good.
    unsafe {
        let mut count = 0;
        while (*kernel.auxiliary.add(count))[0] != 0 {
            count += 1;
        }
        let file_name = ((kernel.stack & !4095) - 4096) as *mut u8;
        let length = program_name::file_name(t, core::slice::from_raw_parts_mut(file_name, 4000));
        file_name.add(length).write(0);
        let random_at = file_name.sub(16);
        random_at.copy_from(random.as_ptr(), 16);
        let words = 1 + kernel.argument_count + 1 + kernel.environment_count + 1 + 2 * (count + 2);
        let begin = (random_at as usize - words * 8) & !15;
        let mut at = begin as *mut usize;
        let mut put = |word: usize| {
            at.write(word);
            at = at.add(1);
        };
        put(kernel.argument_count);
        for index in 0..=kernel.argument_count {
            put(*kernel.arguments.add(index));
        }
        for index in 0..=kernel.environment_count {
            put(*kernel.environment.add(index));
        }
        for index in 0..count {
            let [what, value] = *kernel.auxiliary.add(index);
            let value = match what {
                AT_RSEQ_FEATURE_SIZE | AT_RSEQ_ALIGN | AT_SYSINFO_EHDR | AT_UID..=AT_EGID | AT_RANDOM if real => value,
                AT_RSEQ_FEATURE_SIZE | AT_RSEQ_ALIGN => continue,
                AT_SYSINFO_EHDR => vdso,
                AT_PHDR => image.program.headers,
                AT_PHENT => 56,
                AT_PHNUM => image.program.header_count,
                AT_BASE => image.interpreter,
                AT_ENTRY => image.program.entry,
                AT_UID..=AT_EGID => crate::identity::of_image(t, what),
                AT_SECURE => 0,
                AT_RANDOM => random_at as usize,
                AT_EXECFN => file_name as usize,
                _ => value,
            };
            put(what);
            put(value);
        }
        put(0);
        put(0);
        if begin > kernel.stack {
            sys::die("the stack is too small", 0);
        }
        if image.executable_stack {
            kernel.let_execute();
        }
        begin
    }
}
