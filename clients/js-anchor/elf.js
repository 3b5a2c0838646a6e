// A program for the VM, out of its instructions: no compiler for it is needed on the machine that runs the tests.
//
// `program` takes a function that is called with an assembler and returns the bytes of an ELF as Solana's loader
// takes it: sBPF version 3, read-only data and code, no sections. Clusters that refuse to deploy older versions
// take this one, and so do those that do not.
// Bounds: what the instruction set has and counter.js uses, no more.

const HEADER = 64;
const PROGRAM_HEADER = 56;
const EM_BPF = 247;
const ET_DYN = 3;
const VERSION = 3;
const PT_LOAD = 1;
const [EXECUTABLE, READABLE] = [1, 4];
// Where the loader maps the two parts.
const [DATA_AT, CODE_AT] = [0n, 1n << 32n];

// A syscall's number is the 32-bit MurmurHash3 of its name.
const SYSCALLS = { sol_log_: 0x207559bd, sol_log_data: 0x7317b434, sol_set_return_data: 0xa226d3eb };

export function program(write) {
  const assembler = new Assembler();
  write(assembler);
  return container(assembler.data(), assembler.code());
}

class Assembler {
  constructor() {
    this.instructions = [];
    this.labels = new Map();
    this.jumps = [];
    this.texts = '';
  }

  #emit(opcode, { to = 0, from = 0, offset = 0, imm = 0 } = {}) {
    const bytes = Buffer.alloc(8);
    bytes.writeUInt8(opcode, 0);
    bytes.writeUInt8((from << 4) | to, 1);
    bytes.writeInt16LE(offset, 2);
    bytes.writeInt32LE(imm | 0, 4);
    this.instructions.push(bytes);
  }

  // to = a 64-bit value; two slots.
  constant(to, value) {
    const bits = BigInt.asUintN(64, BigInt(value));
    this.#emit(0x18, { to, imm: Number(bits & 0xffff_ffffn) });
    this.#emit(0x00, { imm: Number(bits >> 32n) });
  }

  // to = the address of this text in the read-only data.
  text(to, text) {
    this.constant(to, DATA_AT + BigInt(this.texts.length));
    this.texts += text;
  }

  load(to, from, offset) { this.#emit(0x79, { to, from, offset }); }
  store(to, offset, from) { this.#emit(0x7b, { to, from, offset }); }
  move(to, from) { this.#emit(0xbf, { to, from }); }
  add(to, from) { this.#emit(0x0f, { to, from }); }
  addConstant(to, imm) { this.#emit(0x07, { to, imm }); }
  call(syscall) { this.#emit(0x85, { imm: SYSCALLS[syscall] }); }

  // Returns from the program: 0 is success, 1 to 2^32 - 1 an error of its own, above that one of Solana's.
  leave(result) {
    this.constant(0, result);
    this.#emit(0x95);
  }

  label(name) { this.labels.set(name, this.instructions.length); }
  ifEqual(to, from, label) { this.#jump(0x1d, { to, from }, label); }
  ifEqualConstant(to, imm, label) { this.#jump(0x15, { to, imm }, label); }
  ifNotEqualConstant(to, imm, label) { this.#jump(0x55, { to, imm }, label); }
  ifAboveConstant(to, imm, label) { this.#jump(0x25, { to, imm }, label); }

  #jump(opcode, operands, label) {
    this.jumps.push({ at: this.instructions.length, label });
    this.#emit(opcode, operands);
  }

  code() {
    for (const { at, label } of this.jumps) {
      this.instructions[at].writeInt16LE(this.labels.get(label) - at - 1, 2);
    }
    return Buffer.concat(this.instructions);
  }

  data() {
    const bytes = Buffer.alloc(Math.ceil(this.texts.length / 8) * 8);
    bytes.write(this.texts);
    return bytes;
  }
}

function container(data, code) {
  const dataOffset = HEADER + 2 * PROGRAM_HEADER;
  return Buffer.concat([
    elfHeader(),
    programHeader(READABLE, dataOffset, DATA_AT, data),
    programHeader(EXECUTABLE, dataOffset + data.length, CODE_AT, code),
    data,
    code,
  ]);
}

function elfHeader() {
  const header = Buffer.alloc(HEADER);
  Buffer.from([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1]).copy(header);
  header.writeUInt16LE(ET_DYN, 16);
  header.writeUInt16LE(EM_BPF, 18);
  header.writeUInt32LE(1, 20);
  header.writeBigUInt64LE(CODE_AT, 24);
  header.writeBigUInt64LE(BigInt(HEADER), 32);
  header.writeUInt32LE(VERSION, 48);
  [HEADER, PROGRAM_HEADER, 2].forEach((value, at) => header.writeUInt16LE(value, 52 + at * 2));
  return header;
}

function programHeader(flags, offset, address, bytes) {
  const header = Buffer.alloc(PROGRAM_HEADER);
  header.writeUInt32LE(PT_LOAD, 0);
  header.writeUInt32LE(flags, 4);
  const fields = [BigInt(offset), address, address, BigInt(bytes.length), BigInt(bytes.length)];
  fields.forEach((value, at) => header.writeBigUInt64LE(value, 8 + at * 8));
  return header;
}
