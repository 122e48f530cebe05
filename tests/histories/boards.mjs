// Members of boards that keep the best score, or the last.
//
// The contract of an exact answer: the best score is at least as good as each that was acknowledged before its call
// began, and somebody sent it. The last score is one that no later write replaced before the call began.
const NEVER = { index: Infinity, ms: Infinity };
const isBefore = (one, other) => one.index < other.index;
const KEPT = { set: "last", best: "best" };

/** One member, with the scores that were sent. */
class Member {
  scores = [];
  views = [];
  hasEnds = false;

  constructor(name, board) {
    Object.assign(this, { name, board });
  }

  violations() {
    return this.views.map((view) => this.#judge(view)).filter((found) => found !== undefined);
  }

  #judge(view) {
    const sent = this.scores.filter(({ type, begun }) => type !== "fail" && isBefore(begun, view.ended));
    const wrong = (why) => ({ line: view.ended.index + 1, why: `${this.name} shows ${view.score}: ${why}` });
    const same = sent.filter(({ score }) => score === view.score);
    if (view.score === undefined) {
      const isDue = !this.hasEnds && sent.some(({ known }) => isBefore(known, view.begun));
      return isDue ? wrong("an acknowledged score is missing") : undefined;
    }
    if (same.length === 0) return wrong("nobody sent it");
    if (!view.isExact || this.hasEnds) return undefined;
    const past = sent.filter(({ known }) => isBefore(known, view.begun));
    if (this.board.keep === "best") {
      const better = past.find(({ score }) => (this.board.isLowest ? score < view.score : score > view.score));
      return better === undefined ? undefined : wrong(`${better.score} was acknowledged and is better`);
    }
    const isOver = ({ known }) => past.some((later) => isBefore(known, later.begun));
    return same.every(isOver) ? wrong("a later score was acknowledged") : undefined;
  }
}

/** All boards of a history that keep the best or the last score. */
export class Boards {
  #boards = new Map();
  #members = new Map();
  #keyed = new Map();

  /** Notes a call. Returns whether the contract of these boards says anything of it. */
  add(call) {
    const [noun, id, verb, member] = call.path;
    if (noun !== "boards") return false;
    if (call.method === "PUT" && verb === undefined) return this.#onBoard(call, id);
    const board = this.#boards.get(id);
    if (board === undefined || verb !== "members" || member === undefined) return false;
    const known = this.#member(`${id}/${member}`, board);
    if (call.method === "DELETE") known.hasEnds = true;
    if (call.method === "POST") this.#onScore(call, known);
    if (call.method === "GET") this.#onRead(call, known);
    return true;
  }

  #onBoard({ body }, id) {
    const keep = KEPT[body?.keep];
    if (keep !== undefined) this.#boards.set(id, { keep, isLowest: body.order === "asc" });
    return keep !== undefined;
  }

  #member(name, board) {
    if (!this.#members.has(name)) this.#members.set(name, new Member(`score ${name}`, board));
    return this.#members.get(name);
  }

  #onScore(call, member) {
    const { score } = call.body ?? {};
    const name = call.key === undefined ? undefined : `${member.name} ${call.key} ${score}`;
    let sent = this.#keyed.get(name);
    if (sent === undefined) {
      sent = { score, begun: call.begun, known: NEVER, type: "fail" };
      member.scores.push(sent);
      if (name !== undefined) this.#keyed.set(name, sent);
    }
    if (call.type !== "fail") sent.type = "info";
    if (call.type !== "ok") return;
    if (isBefore(call.ended, sent.known)) sent.known = call.ended;
    // The answer to a repeat is that of then.
    if (call.key === undefined) this.#onRead(call, member);
  }

  #onRead(call, member) {
    const { begun, ended, type, answer } = call;
    const isMissing = type === "fail" && ["member-not-found", "board-not-found"].includes(answer?.code);
    if (type !== "ok" && !isMissing) return;
    if (isMissing && call.query.get("consistency") !== "strong") return;
    member.views.push({ score: isMissing ? undefined : answer.score, isExact: answer.exact === true, begun, ended });
  }

  violations() {
    return [...this.#members.values()].flatMap((member) => member.violations());
  }

  get judged() {
    return [...this.#members.values()].reduce((sum, { views }) => sum + views.length, 0);
  }
}
