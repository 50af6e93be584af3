//! What CPUID tells the programs of a node.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

/// Most leaves and subleaves of which programs learn something but zeros; those of a Xeon with AMX are ninety.
pub const LEAVES_MAX: usize = 104;

/// One answer of CPUID.
#[repr(C)]
pub struct Leaf {
    /// EAX and ECX that ask for it.
    pub asked: [AtomicU32; 2],
    /// EAX, EBX, ECX, EDX.
    pub told: [AtomicU32; 4],
}

/// What CPUID tells, the same on whichever of the host's processors a program runs. Asking the processor itself would cost a program under a hypervisor,
/// which every CPUID goes to, as much as a hundred calls.
#[repr(C)]
pub struct Processor {
    /// How many leaves there are.
    pub count: AtomicU32,
    /// The leaves.
    pub leaves: [Leaf; LEAVES_MAX],
}

impl Processor {
    /// EAX, EBX, ECX, EDX: zeros for what is not there.
    pub fn tell(&self, leaf: u32, sub: u32) -> [u32; 4] {
        let count = (self.count.load(Relaxed) as usize).min(LEAVES_MAX);
        let sub = if has_subleaves(leaf) { sub } else { 0 };
        let asked = |candidate: &&Leaf| candidate.asked[0].load(Relaxed) == leaf && candidate.asked[1].load(Relaxed) == sub;
        let found = self.leaves[..count].iter().find(asked);
        found.map_or([0; 4], |found| [0, 1, 2, 3].map(|register| found.told[register].load(Relaxed)))
    }

    /// Adds an answer, where there is room for one more.
    pub fn add(&self, [leaf, sub]: [u32; 2], told: [u32; 4]) -> bool {
        let count = self.count.load(Relaxed) as usize;
        let Some(free) = self.leaves.get(count) else { return false };
        let words = free.asked.iter().chain(&free.told);
        words.zip([leaf, sub].into_iter().chain(told)).for_each(|(word, value)| word.store(value, Relaxed));
        self.count.store(count as u32 + 1, Relaxed);
        true
    }
}

/// Does ECX choose among several answers? (Intel's manual, volume 2, CPUID; AMD's, volume 3, appendix E.)
pub const fn has_subleaves(leaf: u32) -> bool {
    matches!(
        leaf,
        4 | 7
            | 0xb
            | 0xd
            | 0xf
            | 0x10
            | 0x12
            | 0x14
            | 0x17
            | 0x18
            | 0x1b
            | 0x1d
            | 0x1e
            | 0x1f
            | 0x20
            | 0x23
            | 0x24
            | 0x8000_001d
            | 0x8000_0020
            | 0x8000_0026
    )
}
