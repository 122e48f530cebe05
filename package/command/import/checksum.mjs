// The checksum of an export: CRC-32 as in gzip, over all bytes before the last line.

const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let rest = byte;
  for (let bit = 0; bit < 8; bit += 1) rest = rest & 1 ? 0xedb88320 ^ (rest >>> 1) : rest >>> 1;
  return rest;
});

/** Bytes are added as they come; `text()` is the checksum in the form of the last line. */
export class Checksum {
  #sum = 0xffffffff;

  add(bytes) {
    let sum = this.#sum;
    for (const byte of bytes) sum = TABLE[(sum ^ byte) & 0xff] ^ (sum >>> 8);
    this.#sum = sum;
  }

  text() {
    return `crc32:${((this.#sum ^ 0xffffffff) >>> 0).toString(16).padStart(8, "0")}`;
  }
}
