//! Assembles small programs for tests: ELF files of version 3 of the instruction set.
//!
//! Such a program has only code: no sections, no symbols. It names a syscall by a hash.

use solana_program_runtime::solana_sbpf::ebpf::{self, Insn};

/// The address region of code.
const CODE_ADDRESS: u64 = ebpf::MM_BYTECODE_START;
const HEADER_BYTES: u64 = 64;
const SEGMENT_HEADER_BYTES: u64 = 56;
const MACHINE_BPF: u16 = 247;
const VERSION_3: u32 = 3;
const LOADED: u32 = 1;
const EXECUTABLE: u32 = 1;

/// One instruction.
pub(crate) fn insn(opc: u8, dst: u8, src: u8, off: i16, imm: i64) -> Insn {
    Insn { ptr: 0, opc, dst, src, off, imm }
}

pub(crate) fn syscall(name: &str) -> Insn {
    insn(ebpf::CALL_IMM, 0, 0, 0, i64::from(ebpf::hash_symbol_name(name.as_bytes()) as i32))
}

/// Loads the address of the heap into a register.
pub(crate) fn heap_into(register: u8) -> [Insn; 2] {
    let region = (ebpf::MM_HEAP_START >> 32) as i64;
    [insn(ebpf::MOV64_IMM, register, 0, 0, region), insn(ebpf::LSH64_IMM, register, 0, 0, 32)]
}

/// Ends a program. Register 0 is its result.
pub(crate) fn exit() -> Insn {
    insn(ebpf::EXIT, 0, 0, 0, 0)
}

/// The file of a program whose entry point is its first instruction.
pub(crate) fn file(code: &[Insn]) -> Vec<u8> {
    let code: Vec<u8> = code.iter().flat_map(|insn| insn.to_array()).collect();
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let mut put = |bytes: &[u8]| file.extend_from_slice(bytes);
    put(&3u16.to_le_bytes());
    put(&MACHINE_BPF.to_le_bytes());
    put(&1u32.to_le_bytes());
    put(&CODE_ADDRESS.to_le_bytes());
    put(&HEADER_BYTES.to_le_bytes());
    put(&0u64.to_le_bytes());
    put(&VERSION_3.to_le_bytes());
    for short in [HEADER_BYTES as u16, SEGMENT_HEADER_BYTES as u16, 1, 0, 0, 0] {
        put(&short.to_le_bytes());
    }
    put(&LOADED.to_le_bytes());
    put(&EXECUTABLE.to_le_bytes());
    let start = HEADER_BYTES + SEGMENT_HEADER_BYTES;
    let len = code.len() as u64;
    for long in [start, CODE_ADDRESS, CODE_ADDRESS, len, len, 8] {
        put(&long.to_le_bytes());
    }
    put(&code);
    file
}
