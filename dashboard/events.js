// Server-sent events out of a stream that may break anywhere. Source: HTML standard, 9.2.6.

/** Takes text in any pieces and returns the events that are complete: `{ type, data, id }`. */
export class EventParser {
  #rest = "";
  #data = [];
  #type = "";
  #id = "";
  #began = false;

  /** The id of the newest event that had one: what `Last-Event-ID` resumes from. */
  get lastId() {
    return this.#id;
  }

  push(text) {
    let input = this.#rest + text;
    if (!this.#began && input.length > 0) {
      this.#began = true;
      if (input.startsWith("\uFEFF")) input = input.slice(1);
    }
    const events = [];
    for (;;) {
      const end = input.search(/[\r\n]/);
      if (end === -1) break;
      // A line feed may follow in the next piece.
      if (input[end] === "\r" && end + 1 === input.length) break;
      const width = input.startsWith("\r\n", end) ? 2 : 1;
      const event = this.#line(input.slice(0, end));
      if (event !== undefined) events.push(event);
      input = input.slice(end + width);
    }
    this.#rest = input;
    return events;
  }

  #line(line) {
    if (line === "") return this.#dispatch();
    if (line.startsWith(":")) return undefined;
    const colon = line.indexOf(":");
    const field = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") this.#data.push(value);
    else if (field === "event") this.#type = value;
    else if (field === "id" && !value.includes("\0")) this.#id = value;
    return undefined;
  }

  #dispatch() {
    const data = this.#data.join("\n");
    const type = this.#type || "message";
    const isEmpty = this.#data.length === 0;
    this.#data = [];
    this.#type = "";
    return isEmpty ? undefined : { type, data, id: this.#id };
  }
}
