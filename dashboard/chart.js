// A chart of a history that can be zoomed by mouse, by buttons and by keys.
//
// Invariant: what is drawn is counts per step, joined over whole steps of the clock, never smoothed; a gap is where
// nothing is known. The zoom belongs to the chart: new points change what is drawn, not what is looked at.
import { el, setText } from "./dom.js";
import { count, drawn, short } from "./numbers.js";
import { factorFor, filled, firstStep, isShownTwice, joined, stretchStart, summary } from "./series.js";

const DAY = 86_400;
// Ranges of this length and more read best by days.
const BY_DAYS_SECONDS = 20 * DAY;

// As many bars as can be told apart: one for each seven pixels.
const BAR_PIXELS = 7;
const BARS_MIN = 24;
const BARS_MAX = 120;
const HEIGHT = 232;
// What the labels of counts take, and one letter of a label, at most.
const AXIS_PIXELS = 52;
const LETTER_PIXELS = 7;
// Less than this many steps is no history to look at.
const STEPS_MIN = 12;
const TABLE_ROWS_MAX = 120;

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const twoDigits = (number) => String(number).padStart(2, "0");

/** Returns a date: of this place, or of UTC, where a year may be another than this one. */
function dateWords(date, isUtc) {
  const isOld = Math.abs(Date.now() - date.getTime()) > 300 * DAY * 1000;
  const timeZone = isUtc ? "UTC" : undefined;
  return date.toLocaleDateString("en-GB", {
    day: "numeric", month: "short", year: isOld ? "numeric" : undefined, timeZone,
  });
}

/** Returns the zone of a date, "GMT+2" or "BST", after a space; "" where the clock shows its time once. */
function zoneWords(date) {
  if (!isShownTwice(date.getTime() / 1000)) return "";
  const parts = new Intl.DateTimeFormat("en-GB", { timeZoneName: "short" }).formatToParts(date);
  return ` ${parts.find(({ type }) => type === "timeZoneName").value}`;
}

/**
 * Returns a moment in the time of this place: "14:05", with seconds or the day where the width asks for it, and with
 * the zone where a clock that is set back shows it twice.
 */
export function moment(second, width_seconds, isUtc) {
  const date = new Date(second * 1000);
  if (width_seconds >= DAY) return dateWords(date, isUtc);
  const clock = `${twoDigits(date.getHours())}:${twoDigits(date.getMinutes())}`;
  const zone = zoneWords(date);
  if (width_seconds < 60) return `${clock}:${twoDigits(date.getSeconds())}${zone}`;
  if (width_seconds < 3_600) return `${clock}${zone}`;
  return `${dateWords(date, isUtc)}, ${clock}${zone}`;
}

/** Returns the label of a tick: the clock, and the day where it is another than that of the tick before. */
function tick(second, step_seconds, before, isUtc) {
  const date = new Date(second * 1000);
  const day = dateWords(date, isUtc);
  if (isUtc || step_seconds >= DAY) return day.replace(/ (?=\d{4}$)/, "\n");
  const clock = moment(second, Math.min(step_seconds, 60)).slice(0, step_seconds < 60 ? 8 : 5);
  const isNewDay = before === undefined || new Date(before * 1000).getDate() !== date.getDate();
  return isNewDay ? `${clock}\n${day}` : clock;
}

/** Returns the label, or nothing where the edge of the chart would cut it off. */
function uncut(plot, second, label) {
  const half = (Math.max(...label.split("\n").map((line) => line.length)) * LETTER_PIXELS) / 2;
  const middle = AXIS_PIXELS + plot.valToPos(second, "x");
  return middle + half > plot.width ? "" : label;
}

/** How wide a bar is, in words. */
function widthWords(seconds) {
  if (seconds < 60) return seconds === 1 ? "second" : `${seconds} seconds`;
  if (seconds < 3_600) return seconds === 60 ? "minute" : `${seconds / 60} minutes`;
  if (seconds < DAY) return seconds === 3_600 ? "hour" : `${seconds / 3_600} hours`;
  if (seconds < 7 * DAY) return "day";
  return seconds === 7 * DAY ? "week" : `${seconds / (7 * DAY)} weeks`;
}

/** How wide a bar is, with its article. */
function each(seconds) {
  const words = widthWords(seconds);
  return words === "hour" ? "an hour" : /^\d/.test(words) ? `${words}` : `a ${words}`;
}

/** A chart with its buttons. `node` goes on the page; `show` gives it points; `close` when it leaves. */
export class Chart {
  #points = [];
  #before = [];
  #drawnPoints = [];
  #range;
  #zoom;
  #pointed;
  #width_seconds = 60;
  #plot;
  #box = el("div", { class: "plot" });
  #readout = el("p", { class: "readout" }, "\u00A0");
  #rows = el("tbody");
  #caption = el("caption", { class: "unseen" });
  #buttons;
  #observer;
  #scheme = matchMedia("(prefers-color-scheme: dark)");
  #redraw = () => this.#draw(true);

  constructor() {
    const button = (label, text, act) =>
      el(
        "button", { type: "button", class: "quiet small", "aria-label": label, title: label, on: { click: act } }, text,
      );
    this.#buttons = {
      earlier: button("Earlier", "←", () => this.#shift(-1)),
      later: button("Later", "→", () => this.#shift(1)),
      closer: button("Zoom in", "+", () => this.#scale(0.5)),
      wider: button("Zoom out", "−", () => this.#scale(2)),
      whole: button("Show all", "All", () => this.#look(undefined)),
    };
    this.#box.addEventListener("keydown", (event) => this.#onKey(event));
    for (const [name, value] of [
      ["tabindex", "0"],
      ["role", "group"],
    ])
      this.#box.setAttribute(name, value);
    const head = el("tr", {}, el("th", { scope: "col" }, "From"), el("th", { scope: "col" }, "Count"));
    this.node = el(
      "div",
      { class: "chart" },
      this.#box,
      el(
        "div",
        { class: "under" },
        this.#readout,
        el("div", { class: "buttons", role: "group", "aria-label": "Zoom" }, Object.values(this.#buttons)),
      ),
      el(
        "details",
        { class: "numbers" },
        el("summary", {}, "The same as a table"),
        el(
          "div",
          { class: "scrolls", tabindex: "0", role: "group", "aria-label": "Counts" },
          el("table", {}, this.#caption, el("thead", {}, head), this.#rows),
        ),
      ),
    );
    this.#observer = new ResizeObserver(() => this.#draw());
    this.#observer.observe(this.#box);
    this.#scheme.addEventListener("change", this.#redraw);
  }

  /**
   * Shows points of a range, as `rangeOf` returns it, and those of the range before. Another range begins with all of
   * it in sight.
   */
  show(points, range, before = []) {
    if (this.#range?.step !== range.step || this.#range?.name !== range.name) this.#zoom = undefined;
    const { from, until, step, step_seconds, previous } = range;
    // The range before goes on where this one has not come yet.
    const to = before.length > 0 && range.step !== "1s" ? range.to : until;
    this.#range = { ...range, from, to, isUtc: step === "1d", seconds: to - from };
    this.#points = filled(points, firstStep(from, step_seconds), until, step_seconds);
    // What was asked for before midnight may be compared with nothing after it.
    this.#before = previous === undefined ? [] : before.map(([second, value]) => [second + previous.shift, value]);
    this.#draw();
  }

  /** What is in sight, joined as it is drawn: `[[unix second, count]]`. */
  get drawnPoints() {
    return this.#drawnPoints;
  }

  close() {
    this.#observer.disconnect();
    this.#scheme.removeEventListener("change", this.#redraw);
    this.#plot?.destroy();
  }

  get #seen() {
    return this.#zoom ?? this.#range;
  }

  #look(zoom) {
    this.#zoom = zoom;
    this.#draw();
  }

  /** Looks at a part of the range, kept inside it and wide enough. */
  #lookAt(from, to) {
    const { from: first, to: last, step_seconds, seconds } = this.#range;
    const width = Math.min(seconds, Math.max(step_seconds * STEPS_MIN, to - from));
    const middle = (from + to) / 2;
    const start = Math.min(Math.max(middle - width / 2, first), last - width);
    this.#look(width >= seconds ? undefined : { from: start, to: start + width });
  }

  #shift(direction) {
    if (this.#range === undefined || this.#zoom === undefined) return;
    const { from, to } = this.#zoom;
    const by = ((to - from) / 2) * direction;
    this.#lookAt(from + by, to + by);
  }

  #scale(factor) {
    if (this.#range === undefined) return;
    const { from, to } = this.#seen;
    const middle = (from + to) / 2;
    const half = ((to - from) / 2) * factor;
    this.#lookAt(middle - half, middle + half);
  }

  #onKey(event) {
    const acts = {
      ArrowLeft: () => this.#shift(-1),
      ArrowRight: () => this.#shift(1),
      "+": () => this.#scale(0.5),
      "=": () => this.#scale(0.5),
      "-": () => this.#scale(2),
      0: () => this.#look(undefined),
      Escape: () => this.#look(undefined),
    };
    const act = acts[event.key];
    if (act === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  }

  #draw(anew = false) {
    const width = Math.floor(this.#box.clientWidth);
    if (this.#range === undefined || width === 0) return;
    const { from, to } = this.#seen;
    const { step_seconds } = this.#range;
    const most = Math.min(BARS_MAX, Math.max(BARS_MIN, Math.floor(width / BAR_PIXELS)));
    const isByDays = this.#zoom === undefined && to - from >= BY_DAYS_SECONDS;
    const factor = Math.max(factorFor(to - from, step_seconds, most), isByDays ? DAY / step_seconds : 1);
    this.#width_seconds = factor * step_seconds;
    const seen = (points) => points.filter(([second]) => second + this.#width_seconds > from && second < to);
    this.#drawnPoints = seen(joined(this.#points, factor, step_seconds, this.#range.isUtc));
    const data = this.#columns(seen);
    // Whole bars at both ends.
    const first = data[0][0] ?? from;
    const last = (data[0].at(-1) ?? to) + this.#width_seconds;
    if (anew || this.#plot === undefined) {
      this.#plot?.destroy();
      this.#plot = new globalThis.uPlot(this.#options(width), data, this.#box);
    } else {
      if (this.#plot.width !== width) this.#plot.setSize({ width, height: HEIGHT });
      this.#plot.setData(data, false);
    }
    this.#plot.batch(() => {
      this.#plot.setScale("x", { min: first, max: last });
      const top = Math.max(1, ...data.slice(1).flatMap((values) => values.map((value) => value ?? 0)));
      this.#plot.setScale("y", { min: 0, max: top * 1.08 });
    });
    this.#tell();
  }

  /** The columns that are drawn: when, what was counted, and what was in the range before. */
  #columns(seen) {
    const width = this.#width_seconds;
    const { isUtc, previous } = this.#range;
    const now = new Map(this.#drawnPoints.map(([second, value]) => [second, drawn(value)]));
    // Its steps may be wider than these.
    const isFine =
      previous !== undefined && (previous.step === "1d" ? DAY : previous.step === "1h" ? 3_600 : 60) <= width;
    const before = new Map();
    const hasSome = this.#before.some(([, value]) => value !== null && drawn(value) !== 0);
    for (const [second, value] of isFine && hasSome ? this.#before : []) {
      const start = stretchStart(second, width, isUtc);
      before.set(start, value === null ? (before.get(start) ?? null) : (before.get(start) ?? 0) + drawn(value));
    }
    const starts = new Map(seen([...before]));
    const seconds = [...new Set([...now.keys(), ...starts.keys()])].sort((a, b) => a - b);
    return [
      seconds, seconds.map((second) => now.get(second) ?? null), seconds.map((second) => starts.get(second) ?? null),
    ];
  }

  #options(width) {
    const [line, muted, grid] = [color("--accent"), color("--muted"), color("--line")];
    const axis = {
      stroke: muted,
      grid: { stroke: grid, width: 1 },
      ticks: { stroke: grid, width: 1, size: 4 },
      font: "12px system-ui, sans-serif",
    };
    return {
      width,
      height: HEIGHT,
      legend: { show: false },
      padding: [8, 8, 0, 0],
      cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false, dist: 6 } },
      tzDate: (second) =>
        this.#range.isUtc ? globalThis.uPlot.tzDate(new Date(second * 1000), "Etc/UTC") : new Date(second * 1000),
      scales: { x: { time: true, auto: false }, y: { auto: false } },
      axes: [
        {
          ...axis,
          space: 64,
          values: (plot, splits, _, __, step) =>
            splits.map((second, index) =>
              uncut(plot, second, tick(second, step, splits[index - 1], this.#range.isUtc)),
            ),
        },
        {
          ...axis, size: AXIS_PIXELS,
          values: (_, splits) => splits.map((value) => (Number.isInteger(value) ? short(value) : "")),
        },
      ],
      series: [
        {},
        {
          stroke: line,
          fill: `${line}66`,
          width: 1,
          points: { show: false },
          paths: globalThis.uPlot.paths.bars({ size: [0.82, 28, 1], align: 1 }),
        },
        {
          stroke: muted,
          width: 1.5,
          dash: [4, 4],
          points: { show: false },
          paths: globalThis.uPlot.paths.stepped({ align: 1 }),
        },
      ],
      hooks: {
        setCursor: [(plot) => this.#readAt(plot.cursor.left >= 0 ? plot.posToVal(plot.cursor.left, "x") : undefined)],
        setSelect: [(plot) => this.#onSelect(plot)],
        ready: [(plot) => plot.over.addEventListener("dblclick", () => this.#look(undefined))],
      },
    };
  }

  #onSelect(plot) {
    const { left, width } = plot.select;
    if (width < 6) return;
    const [from, to] = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.#lookAt(from, to);
  }

  /** Says what the bar under the pointer is; without one, what is in sight together. */
  #readAt(second) {
    this.#pointed = second;
    const width = this.#width_seconds;
    const point =
      second === undefined ? undefined : this.#drawnPoints.find(([start]) => second >= start && second < start + width);
    if (point === undefined) return setText(this.#readout, this.#words());
    const [start, value] = point;
    const isOpen = start + width > this.#range.until;
    const amount = value === null ? "not kept" : `${count(value)}${isOpen ? " so far" : ""}`;
    const { isUtc } = this.#range;
    const end = width >= DAY ? start + width - DAY : start + width;
    const until = width === DAY ? "" : ` to ${moment(end, width, isUtc)}`;
    return setText(this.#readout, `${moment(start, width, isUtc)}${until}: ${amount}`);
  }

  #words() {
    const { sum, peak, peak_at, known } = summary(this.#drawnPoints);
    if (known === 0) return "nothing is kept of this time";
    if (sum === 0n) return "nothing was counted in this time";
    return `${count(sum)} counted, at most ${count(peak)} in ${each(this.#width_seconds)}, ${this.#width_seconds >= DAY ? "on" : "from"} ${moment(peak_at, this.#width_seconds, this.#range.isUtc)}${this.#range.isUtc ? "; days are of UTC" : ""}`;
  }

  #tell() {
    const words = this.#words();
    // New points do not take away what somebody reads.
    this.#readAt(this.#pointed);
    this.#box.setAttribute(
      "aria-label",
      `Chart of counts per ${widthWords(this.#width_seconds)}: ${words}. Keys: plus, minus, arrows, 0 for all.`,
    );
    setText(this.#caption, `Counts per ${widthWords(this.#width_seconds)}`);
    const isZoomed = this.#zoom !== undefined;
    this.#buttons.whole.disabled = !isZoomed;
    this.#buttons.wider.disabled = !isZoomed;
    this.#buttons.earlier.disabled = !isZoomed || this.#zoom.from <= this.#range.from;
    this.#buttons.later.disabled = !isZoomed || this.#zoom.to >= this.#range.to;
    const rows = this.#drawnPoints.slice(-TABLE_ROWS_MAX).reverse();
    this.#rows.replaceChildren(
      ...rows.map(([second, value]) =>
        el(
          "tr",
          {},
          el("td", {}, moment(second, this.#width_seconds, this.#range.isUtc)),
          el("td", { class: "number" }, value === null ? "not kept" : count(value)),
        ),
      ),
    );
  }
}
