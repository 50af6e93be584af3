//! What CPUID tells the programs of a node: what the host's processor says, without chance, real time, and on which processor somebody runs.

use std::arch::x86_64::__cpuid_count;
use std::sync::OnceLock;
use weft_loader::abi::{LEAVES_MAX, Processor, has_subleaves};

/// Subleaves of a leaf that are looked at; a few leaves have gaps.
const SUBLEAVES_MAX: u32 = 32;

/// EAX, ECX, and what is told.
type Answer = ([u32; 2], [u32; 4]);

/// Tells a node's programs.
pub fn tell_processor(to: &Processor) {
    static ANSWERS: OnceLock<Vec<Answer>> = OnceLock::new();
    let answers = ANSWERS.get_or_init(|| answers(&ask_processor));
    answers.iter().for_each(|(asked, told)| {
        to.add(*asked, *told);
    });
}

/// CPUID: EAX, EBX, ECX and EDX.
pub fn ask_processor(leaf: u32, sub: u32) -> [u32; 4] {
    let told = __cpuid_count(leaf, sub);
    [told.eax, told.ebx, told.ecx, told.edx]
}

/// All that is not zero, as far as there is room: the basic leaves, then the extended ones. A hypervisor's are not told.
fn answers(ask: &dyn Fn(u32, u32) -> [u32; 4]) -> Vec<Answer> {
    let leaves = [0, 0x8000_0000].into_iter().flat_map(|first| {
        let last = ask(first, 0)[0];
        // A processor that has no extended leaves says anything.
        let count = if last >= first { (last - first).min(0x40) } else { 0 };
        first..=first + count
    });
    let asked = leaves.flat_map(|leaf| (0..if has_subleaves(leaf) { SUBLEAVES_MAX } else { 1 }).map(move |sub| [leaf, sub]));
    // Who has leaf 2 is of Intel's kind.
    let has_descriptors = ask(0, 0)[0] >= 4 && ask(2, 0) != [0; 4];
    let told = asked.map(|[leaf, sub]| {
        let told = match leaf {
            2 if has_descriptors => descriptors(),
            4 if has_descriptors => cache(sub),
            _ => without_chance([leaf, sub], ask(leaf, sub)),
        };
        ([leaf, sub], told)
    });
    told.filter(|(_, told)| *told != [0; 4]).take(LEAVES_MAX).collect()
}

/// Caches, as leaf 2 and leaf 4 have them: 32 KiB of data, 32 KiB of instructions, 1 MiB, 8 MiB; lines of 64 bytes. A processor of today says in leaf 2 that
/// leaf 4 has it all, and glibc then asks a hundred times, in every program; descriptors that it knows it asks about once.
const CACHES: [Cache; 4] = [
    Cache { descriptor: 0x2c, kind: 1, level: 1, ways: 8, sets: 64 },
    Cache { descriptor: 0x30, kind: 2, level: 1, ways: 8, sets: 64 },
    Cache { descriptor: 0x7c, kind: 3, level: 2, ways: 8, sets: 2048 },
    Cache { descriptor: 0xe4, kind: 3, level: 3, ways: 16, sets: 8192 },
];
const LINE_BYTES: u32 = 64;

struct Cache {
    /// In leaf 2.
    descriptor: u32,
    /// Data, instructions, both.
    kind: u32,
    level: u32,
    ways: u32,
    sets: u32,
}

/// Leaf 2: one byte a cache; the lowest says that once is enough.
fn descriptors() -> [u32; 4] {
    let [data, instructions, second, third] = CACHES.map(|cache| cache.descriptor);
    [1 | data << 8 | instructions << 16 | second << 24, third, 0, 0]
}

/// Leaf 4, a subleaf each.
fn cache(number: u32) -> [u32; 4] {
    let Some(Cache { kind, level, ways, sets, .. }) = CACHES.get(number as usize) else { return [0; 4] };
    // Nobody shares it; it needs no start; what is in a cache below need not be in it.
    [kind | level << 5 | 1 << 8, (LINE_BYTES - 1) | (ways - 1) << 22, sets - 1, 0]
}

/// Hides what would make two runs differ, or a program on one processor from one on another.
fn without_chance([leaf, sub]: [u32; 2], [mut a, mut b, mut c, mut d]: [u32; 4]) -> [u32; 4] {
    let hide = |word: &mut u32, bits: &[u32]| bits.iter().for_each(|bit| *word &= !(1 << bit));
    match (leaf, sub) {
        (1, _) => {
            // RDRAND; that there is a hypervisor.
            hide(&mut c, &[30, 31]);
            // The number of the processor, and how many there are: one.
            b = b & 0xffff | 1 << 16;
        }
        (7, 0) => {
            // HLE, RTM (whether a transaction is aborted is chance), RDSEED.
            hide(&mut b, &[4, 11, 18]);
            // WAITPKG (waits in real time), RDPID.
            hide(&mut c, &[5, 22]);
        }
        // Of a level that is not there, only its own number and that of the processor; of the others, the latter.
        (0xb | 0x1f, _) if c >> 8 & 0xff == 0 => (a, b, c, d) = (0, 0, 0, 0),
        (0xb | 0x1f, _) => d = 0,
        (0x8000_001e, _) => a = 0,
        // The real time stamp counter's frequency, and the processor's.
        (0x15 | 0x16, _) => (a, b, c, d) = (0, 0, 0, 0),
        // MONITORX.
        (0x8000_0001, _) => hide(&mut c, &[29]),
        _ => {}
    }
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_tells_chance_or_a_processor_from_another() {
        // A processor that has everything, and numbers itself.
        let found = answers(&|leaf, sub| match leaf {
            0 => [0x20, 1, 2, 3],
            0x8000_0000 => [0x8000_0020, 0, 0, 0],
            0x8000_0001.. | 1..=0x20 if sub < 3 => [u32::MAX; 4],
            _ => [0; 4],
        });
        let of = |leaf, sub| found.iter().find(|(asked, _)| *asked == [leaf, sub]).map(|(_, told)| *told);
        assert_eq!(of(0, 0), Some([0x20, 1, 2, 3]));
        let [_, b, c, _] = of(1, 0).unwrap();
        assert_eq!((b >> 16, c >> 30), (1, 0));
        let [_, b, c, _] = of(7, 0).unwrap();
        assert_eq!((b & (1 << 4 | 1 << 11 | 1 << 18), c & (1 << 5 | 1 << 22)), (0, 0));
        assert_eq!(of(0xb, 1).unwrap()[3], 0);
        assert_eq!((of(0x15, 0), of(0x16, 0), of(4, 4)), (None, None, None));
        assert_eq!(of(3, 0), Some([u32::MAX; 4]));
        // Bytes: ways, lines of 64 bytes, sets.
        let bytes = |[_, b, c, _]: [u32; 4]| ((b >> 22) + 1) * ((b & 0xfff) + 1) * (c + 1);
        assert_eq!([0, 1, 2, 3].map(|sub| bytes(of(4, sub).unwrap()) >> 10), [32, 32, 1024, 8192]);
        assert_eq!(of(2, 0), Some([0x7c30_2c01, 0xe4, 0, 0]));
        assert!(found.len() <= LEAVES_MAX);
    }

    #[test]
    fn this_processor_fits() {
        let found = answers(&|leaf, sub| {
            let told = __cpuid_count(leaf, sub);
            [told.eax, told.ebx, told.ecx, told.edx]
        });
        assert!(found.len() < LEAVES_MAX, "{}", found.len());
        assert_eq!(found.first().map(|(asked, _)| *asked), Some([0, 0]));
    }
}
