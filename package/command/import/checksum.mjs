import { crc32 } from "node:zlib";

/** The checksum of an export. Bytes are added as they come; `text()` is it in the form of the last line. */
export class Checksum {
  #sum = 0;

  add(bytes) {
    this.#sum = crc32(bytes, this.#sum);
  }

  text() {
    return `crc32:${this.#sum.toString(16).padStart(8, "0")}`;
  }
}
