//! Classic BPF: programs of a packet filter, checked and run (S. McCanne, V. Jacobson, "The BSD Packet Filter", 1993; Linux
//! Documentation/networking/filter.rst).
//!
//! A program is checked once ([`Program::new`]) and then cannot fail, loop or look outside of the frame: jumps lead forward, a load beyond the end
//! rejects the frame, as in the kernel. Loads at offsets from 0xffe00000 on are of what lies before the frame, or of what is known beside it ([`About`]).

mod ancillary;

pub use ancillary::About;

use crate::frame::Frame;
use ancillary::{Ask, Bytes, asks, load_anywhere};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Most instructions of a program (BPF_MAXINSNS).
pub const INSTRUCTIONS_MAX: usize = 4096;
/// Words of scratch memory (BPF_MEMWORDS).
const MEMORY_WORDS: usize = 16;

/// One instruction, as in `struct sock_filter` and in the four numbers of a line of `tcpdump -ddd`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Instruction {
    /// Operation.
    pub code: u16,
    /// Instructions to skip when the comparison holds.
    pub jt: u8,
    /// Instructions to skip when it does not.
    pub jf: u8,
    /// Operand.
    pub k: u32,
}

/// What is wrong with a program.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BpfError {
    /// None, or more than [`INSTRUCTIONS_MAX`].
    #[error("a filter has 1 to {INSTRUCTIONS_MAX} instructions, this one {0}")]
    Length(usize),
    /// No such operation.
    #[error("instruction {at}: there is no operation {code:#06x}")]
    Operation {
        /// Which instruction, from 0.
        at: usize,
        /// Its code.
        code: u16,
    },
    /// A jump out of the program.
    #[error("instruction {0}: jumps beyond the end")]
    Jump(usize),
    /// Scratch memory has 16 words.
    #[error("instruction {0}: there are only 16 words of memory")]
    Memory(usize),
    /// A constant division by zero, or shift by 32 or more.
    #[error("instruction {0}: divides by zero or shifts by more than 31")]
    Arithmetic(usize),
    /// Ancillary data that Linux does not know either.
    #[error("instruction {0}: asks for ancillary data that there is none of")]
    Ancillary(usize),
    /// The last instruction does not return.
    #[error("the last instruction must return")]
    NoReturn,
    /// Text that is no program.
    #[error("'{0}' is no filter: write four numbers an instruction (code jt jf k), as `tcpdump -ddd` prints them")]
    Text(String),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Source {
    K,
    X,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Alu {
    Add,
    Sub,
    Mul,
    Div,
    Or,
    And,
    Shl,
    Shr,
    Mod,
    Xor,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Compare {
    Equal,
    Greater,
    GreaterOrEqual,
    AnyBit,
}

/// A checked instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    LoadAbsolute {
        bytes: u8,
        at: u32,
    },
    LoadIndirect {
        bytes: u8,
        at: u32,
    },
    Ask(Ask),
    LoadConstant(u32),
    LoadLength,
    LoadMemory(u8),
    IndexConstant(u32),
    IndexLength,
    IndexMemory(u8),
    /// 4 * (byte & 15): the length of an IP header.
    IndexHeader(u32),
    Store(u8),
    StoreIndex(u8),
    Arithmetic(Alu, Source, u32),
    Negate,
    Jump(u32),
    Branch {
        how: Compare,
        source: Source,
        k: u32,
        yes: u8,
        no: u8,
    },
    ReturnConstant(u32),
    ReturnAccumulator,
    ToIndex,
    FromIndex,
}

/// A program that passed its check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    steps: Vec<Step>,
    instructions: Vec<Instruction>,
}

/// A program that several share: an option of a socket and of what it accepts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "Vec<Instruction>", into = "Vec<Instruction>")]
pub struct Shared(Arc<Program>);

impl std::ops::Deref for Shared {
    type Target = Program;
    fn deref(&self) -> &Program {
        &self.0
    }
}

impl From<Program> for Shared {
    fn from(program: Program) -> Shared {
        Shared(Arc::new(program))
    }
}

impl TryFrom<Vec<Instruction>> for Shared {
    type Error = BpfError;
    fn try_from(instructions: Vec<Instruction>) -> Result<Shared, BpfError> {
        Program::new(&instructions).map(Shared::from)
    }
}

impl From<Shared> for Vec<Instruction> {
    fn from(shared: Shared) -> Vec<Instruction> {
        shared.0.instructions.clone()
    }
}

impl Program {
    /// Reads an array of `struct sock_filter` (8 bytes each, in the machine's byte order) and checks it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Program, BpfError> {
        let (instructions, rest) = bytes.as_chunks::<8>();
        if !rest.is_empty() {
            return Err(BpfError::Length(0));
        }
        let instruction = |&[c0, c1, jt, jf, k0, k1, k2, k3]: &[u8; 8]| Instruction {
            code: u16::from_ne_bytes([c0, c1]),
            jt,
            jf,
            k: u32::from_ne_bytes([k0, k1, k2, k3]),
        };
        Program::new(&instructions.iter().map(instruction).collect::<Vec<_>>())
    }

    /// The opposite.
    pub fn to_bytes(&self) -> Vec<u8> {
        let bytes = |one: &Instruction| {
            let ([c0, c1], [k0, k1, k2, k3]) = (one.code.to_ne_bytes(), one.k.to_ne_bytes());
            [c0, c1, one.jt, one.jf, k0, k1, k2, k3]
        };
        self.instructions.iter().flat_map(bytes).collect()
    }

    /// Checks a program (Linux bpf_check_classic).
    pub fn new(instructions: &[Instruction]) -> Result<Program, BpfError> {
        if instructions.is_empty() || instructions.len() > INSTRUCTIONS_MAX {
            return Err(BpfError::Length(instructions.len()));
        }
        let steps = instructions
            .iter()
            .enumerate()
            .map(|(at, instruction)| check(at, instruction, instructions.len()))
            .collect::<Result<Vec<Step>, BpfError>>()?;
        match steps.last() {
            Some(Step::ReturnConstant(_) | Step::ReturnAccumulator) => Ok(Program { steps, instructions: instructions.to_vec() }),
            _ => Err(BpfError::NoReturn),
        }
    }

    /// Reads the output of `tcpdump -ddd`: four numbers an instruction, between white space, commas or semicolons; a first number alone on its line
    /// is their count.
    pub fn parse(text: &str) -> Result<Program, BpfError> {
        let bad = || BpfError::Text(text.chars().take(40).collect());
        let mut lines: Vec<Vec<u32>> = Vec::new();
        for line in text.split(['\n', ',', ';']).map(str::trim).filter(|line| !line.is_empty()) {
            lines.push(line.split_whitespace().map(str::parse).collect::<Result<_, _>>().map_err(|_| bad())?);
        }
        if let Some([count]) = lines.first().map(Vec::as_slice)
            && *count as usize == lines.len() - 1
        {
            lines.remove(0);
        }
        let instruction = |line: &Vec<u32>| match line[..] {
            [code, jt, jf, k] => {
                let small = |value: u32| u8::try_from(value).map_err(|_| bad());
                Ok(Instruction { code: u16::try_from(code).map_err(|_| bad())?, jt: small(jt)?, jf: small(jf)?, k })
            }
            _ => Err(bad()),
        };
        Program::new(&lines.iter().map(instruction).collect::<Result<Vec<_>, _>>()?)
    }

    /// As `tcpdump -ddd` prints it, with commas in place of line ends.
    pub fn to_text(&self) -> String {
        let line = |one: &Instruction| format!("{} {} {} {}", one.code, one.jt, one.jf, one.k);
        self.instructions.iter().map(line).collect::<Vec<_>>().join(",")
    }

    /// Runs it over a frame: how many bytes of it are wanted; 0: it is rejected.
    pub fn run(&self, frame: &Frame) -> u32 {
        self.run_about(frame, &About::of(frame))
    }

    /// The same of a frame of which more is known.
    pub fn run_about(&self, frame: &Frame, about: &About) -> u32 {
        let mut drawn = 0;
        let (mut a, mut x, mut memory, mut at) = (0u32, 0u32, [0u32; MEMORY_WORDS], 0usize);
        // Jumps lead forward and the last step returns, so this ends; an absent step cannot be reached.
        while let Some(step) = self.steps.get(at) {
            at += 1;
            match *step {
                Step::LoadAbsolute { bytes, at } => match load_anywhere(frame, at, bytes, about) {
                    Some(value) => a = value,
                    None => return 0,
                },
                // The sum wraps, as the kernel's does: an index may count backwards.
                Step::LoadIndirect { bytes, at } => match load_anywhere(frame, at.wrapping_add(x), bytes, about) {
                    Some(value) => a = value,
                    None => return 0,
                },
                Step::Ask(ask) => a = ask.value(frame, about, (a, x), &mut drawn),
                Step::LoadConstant(k) => a = k,
                Step::LoadLength => a = frame.len() as u32,
                Step::LoadMemory(word) => a = memory[usize::from(word)],
                Step::IndexConstant(k) => x = k,
                Step::IndexLength => x = frame.len() as u32,
                Step::IndexMemory(word) => x = memory[usize::from(word)],
                Step::IndexHeader(at) => match load_anywhere(frame, at, 1, about) {
                    Some(value) => x = (value & 0xf) << 2,
                    None => return 0,
                },
                Step::Store(word) => memory[usize::from(word)] = a,
                Step::StoreIndex(word) => memory[usize::from(word)] = x,
                Step::Arithmetic(alu, source, k) => match calculate(alu, a, if source == Source::K { k } else { x }) {
                    Some(value) => a = value,
                    None => return 0,
                },
                Step::Negate => a = a.wrapping_neg(),
                Step::Jump(k) => at += k as usize,
                Step::Branch { how, source, k, yes, no } => {
                    let with = if source == Source::K { k } else { x };
                    at += usize::from(if holds(how, a, with) { yes } else { no });
                }
                Step::ReturnConstant(k) => return k,
                Step::ReturnAccumulator => return a,
                Step::ToIndex => x = a,
                Step::FromIndex => a = x,
            }
        }
        0
    }
}

/// A big-endian number of the frame; `None`: beyond its end.
#[inline]
pub(crate) fn load(frame: &Frame, at: u32, bytes: u8) -> Option<u32> {
    let (at, bytes) = (at as usize, usize::from(bytes));
    let value = |bytes: &[u8]| bytes.iter().fold(0u32, |value, byte| value << 8 | u32::from(*byte));
    if let Some(found) = at.checked_add(bytes).and_then(|end| frame.head().get(at..end)) {
        return Some(value(found));
    }
    if at.checked_add(bytes)? > frame.len() {
        return None;
    }
    let mut skip = at;
    let mut found = [0u8; 4];
    let mut have = 0;
    for chunk in frame.chunks() {
        if skip >= chunk.len() {
            skip -= chunk.len();
            continue;
        }
        for byte in &chunk[skip..] {
            if have < bytes {
                found[have] = *byte;
                have += 1;
            }
        }
        skip = 0;
        if have == bytes {
            break;
        }
    }
    Some(value(&found[..bytes]))
}

impl Bytes for Frame {
    fn bytes(&self) -> usize {
        self.len()
    }
    fn begins_at(&self) -> u16 {
        self.position()
    }
    #[inline]
    fn load(&self, at: u32, bytes: u8) -> Option<u32> {
        load(self, at, bytes)
    }
    fn before(&self, at: u16) -> Option<u8> {
        self.pulled(at).first().copied()
    }
}

impl About {
    /// As much as a frame tells of itself.
    pub fn of(frame: &Frame) -> About {
        let meta = frame.meta();
        let network_at = Some(meta.network_at).filter(|at| *at > 0);
        let protocol = if meta.ether_type.0 == 0 { About::protocol_of(meta.dst.is_ipv6()) } else { meta.ether_type.0 };
        About { protocol, interface: meta.interface.0, mark: meta.mark, network_at, ..About::default() }
    }
}

/// `None`: division by zero, which rejects the frame. Shifts by X take its lowest five bits, as Linux's do.
fn calculate(alu: Alu, a: u32, with: u32) -> Option<u32> {
    Some(match alu {
        Alu::Add => a.wrapping_add(with),
        Alu::Sub => a.wrapping_sub(with),
        Alu::Mul => a.wrapping_mul(with),
        Alu::Div => a.checked_div(with)?,
        Alu::Mod => a.checked_rem(with)?,
        Alu::Or => a | with,
        Alu::And => a & with,
        Alu::Shl => a.wrapping_shl(with),
        Alu::Shr => a.wrapping_shr(with),
        Alu::Xor => a ^ with,
    })
}

fn holds(how: Compare, a: u32, with: u32) -> bool {
    match how {
        Compare::Equal => a == with,
        Compare::Greater => a > with,
        Compare::GreaterOrEqual => a >= with,
        Compare::AnyBit => a & with != 0,
    }
}

/// Codes: linux/include/uapi/linux/bpf_common.h. Class in the lowest three bits.
fn check(at: usize, instruction: &Instruction, length: usize) -> Result<Step, BpfError> {
    let Instruction { code, jt, jf, k } = *instruction;
    let unknown = || BpfError::Operation { at, code };
    let memory = || if (k as usize) < MEMORY_WORDS { Ok(k as u8) } else { Err(BpfError::Memory(at)) };
    let absolute = |bytes| match asks(k) {
        Ok(None) => Ok(Step::LoadAbsolute { bytes, at: k }),
        Ok(Some(ask)) => Ok(Step::Ask(ask)),
        Err(()) => Err(BpfError::Ancillary(at)),
    };
    let source = if code & 0x08 == 0 { Source::K } else { Source::X };
    Ok(match code {
        0x20 => absolute(4)?,
        0x28 => absolute(2)?,
        0x30 => absolute(1)?,
        0x40 => Step::LoadIndirect { bytes: 4, at: k },
        0x48 => Step::LoadIndirect { bytes: 2, at: k },
        0x50 => Step::LoadIndirect { bytes: 1, at: k },
        0x00 => Step::LoadConstant(k),
        0x80 => Step::LoadLength,
        0x60 => Step::LoadMemory(memory()?),
        0x01 => Step::IndexConstant(k),
        0x81 => Step::IndexLength,
        0x61 => Step::IndexMemory(memory()?),
        0xb1 => Step::IndexHeader(k),
        0x02 => Step::Store(memory()?),
        0x03 => Step::StoreIndex(memory()?),
        0x84 => Step::Negate,
        0x05 => match (k as usize).checked_add(at + 1) {
            Some(to) if to < length => Step::Jump(k),
            _ => return Err(BpfError::Jump(at)),
        },
        0x06 => Step::ReturnConstant(k),
        0x16 => Step::ReturnAccumulator,
        0x07 => Step::ToIndex,
        0x87 => Step::FromIndex,
        code if code & 0x07 == 0x04 && code & !0xff == 0 => {
            let alu = match code & 0xf0 {
                0x00 => Alu::Add,
                0x10 => Alu::Sub,
                0x20 => Alu::Mul,
                0x30 => Alu::Div,
                0x40 => Alu::Or,
                0x50 => Alu::And,
                0x60 => Alu::Shl,
                0x70 => Alu::Shr,
                0x90 => Alu::Mod,
                0xa0 => Alu::Xor,
                _ => return Err(unknown()),
            };
            let constant = source == Source::K;
            if constant && (matches!(alu, Alu::Div | Alu::Mod) && k == 0 || matches!(alu, Alu::Shl | Alu::Shr) && k >= 32) {
                return Err(BpfError::Arithmetic(at));
            }
            Step::Arithmetic(alu, source, k)
        }
        code if code & 0x07 == 0x05 && code & !0xff == 0 => {
            let how = match code & 0xf0 {
                0x10 => Compare::Equal,
                0x20 => Compare::Greater,
                0x30 => Compare::GreaterOrEqual,
                0x40 => Compare::AnyBit,
                _ => return Err(unknown()),
            };
            if [jt, jf].iter().any(|skip| at + 1 + usize::from(*skip) >= length) {
                return Err(BpfError::Jump(at));
            }
            Step::Branch { how, source, k, yes: jt, no: jf }
        }
        _ => return Err(unknown()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `ip and tcp dst port 80` for Ethernet, as `tcpdump -ddd` prints it.
    const PORT_80: &str = "11\n40 0 0 12\n21 0 8 2048\n48 0 0 23\n21 0 6 6\n40 0 0 20\n69 4 0 8191\n177 0 0 14\n72 0 0 16\n21 0 1 80\n6 0 0 262144\n6 0 0 0\n";

    #[test]
    fn a_program_of_tcpdump_is_read_and_written() {
        let program = Program::parse(PORT_80).unwrap();
        assert_eq!(Program::parse(&program.to_text()).unwrap(), program);
        let packet = |port: u16, fragment: u16| {
            let mut bytes = vec![0u8; 60];
            bytes[12..14].copy_from_slice(&[8, 0]);
            bytes[14] = 0x46;
            bytes[20..22].copy_from_slice(&fragment.to_be_bytes());
            bytes[23] = 6;
            bytes[14 + 24 + 2..14 + 24 + 4].copy_from_slice(&port.to_be_bytes());
            bytes
        };
        assert_eq!(program.run(&Frame::ingress(&packet(80, 0))), 262_144);
        assert_eq!(program.run(&Frame::ingress(&packet(81, 0))), 0);
        assert_eq!(program.run(&Frame::ingress(&packet(80, 5))), 0, "a later fragment has no ports");
        assert_eq!(program.run(&Frame::ingress(&packet(80, 0)[..30])), 0, "a load beyond the end rejects");
    }

    #[test]
    fn loads_cross_from_the_head_into_the_tail() {
        let mut frame = Frame::egress();
        frame.append(bytes::Bytes::from_static(&[1, 2]));
        frame.append(bytes::Bytes::from_static(&[3]));
        frame.append(bytes::Bytes::from_static(&[4, 5]));
        frame.push(1)[0] = 9;
        assert_eq!(load(&frame, 0, 4), Some(0x0901_0203));
        assert_eq!(load(&frame, 2, 4), Some(0x0203_0405));
        assert_eq!((load(&frame, 3, 4), load(&frame, u32::MAX, 4), load(&frame, 5, 1)), (None, None, Some(5)));
    }

    #[test]
    fn bad_programs_are_refused_with_their_place() {
        let ret = "6 0 0 1";
        let error = |text: &str| Program::parse(text).unwrap_err();
        assert_eq!(error(""), BpfError::Length(0));
        assert_eq!(error("0 0 0 1"), BpfError::NoReturn);
        assert_eq!(error(&format!("5 0 0 1,{ret}")), BpfError::Jump(0));
        assert_eq!(error(&format!("5 0 0 4294967295,{ret}")), BpfError::Jump(0));
        assert_eq!(error(&format!("{ret},21 1 0 0,{ret}")), BpfError::Jump(1));
        assert_eq!(error(&format!("96 0 0 16,{ret}")), BpfError::Memory(0));
        assert_eq!(error(&format!("52 0 0 0,{ret}")), BpfError::Arithmetic(0));
        assert_eq!(error(&format!("100 0 0 32,{ret}")), BpfError::Arithmetic(0));
        assert_eq!(error(&format!("48 0 0 4294963201,{ret}")), BpfError::Ancillary(0));
        assert_eq!(error(&format!("255 0 0 0,{ret}")), BpfError::Operation { at: 0, code: 255 });
        for text in ["tcp port 80", "1 2 3", "70000 0 0 0", "6 256 0 0"] {
            assert!(matches!(error(text), BpfError::Text(_)), "{text}");
        }
        let long = vec![Instruction { code: 6, jt: 0, jf: 0, k: 0 }; INSTRUCTIONS_MAX + 1];
        assert_eq!(Program::new(&long), Err(BpfError::Length(INSTRUCTIONS_MAX + 1)));
    }
}
