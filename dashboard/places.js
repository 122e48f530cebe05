// Where a counter was counted: its datacenters as bars, and on a map where they are known places.
//
// Invariant: the map tells nothing that the bars do not, so who does not see it misses nothing.
import { el, setText, svg } from "./dom.js";
import { count, drawn, duration, share, short, whole } from "./numbers.js";
import { LAND, landCells, placeOf, project } from "./world.js";

// A longer number leaves no room for its bar on a phone.
const DIGITS_MAX = 16;
// The others are opened by a button: a counter may have 300.
const FIRST = 12;
// Of the map, in its cells: the largest datacenter, and one that is only just to be seen.
const RADIUS_MAX = 4.2;
const RADIUS_MIN = 0.9;

const valueOf = ({ value }) => whole(value ?? 0);

/** Returns datacenters, the largest first, equals by name. */
export function largestFirst(datacenters) {
  return [...datacenters].sort((a, b) =>
    valueOf(a) < valueOf(b) ? 1 : valueOf(a) > valueOf(b) ? -1 : a.id < b.id ? -1 : 1,
  );
}

/** The datacenters of a counter. `node` goes on the page. */
export class Places {
  #list = el("ul", { class: "bars" });
  #empty = el("p", { class: "sub" }, "–");
  #more = el("button", { type: "button", class: "quiet small more", hidden: true, on: { click: () => this.#open() } });
  #map;
  #isOpen = false;
  #datacenters = [];

  constructor() {
    const column = el("div", { class: "column" }, this.#empty, this.#list, this.#more);
    this.node = el(
      "section",
      { class: "panel places", "aria-labelledby": "places-title" },
      el("h2", { id: "places-title", class: "label" }, "By datacenter"),
      column,
    );
  }

  show(datacenters) {
    this.#datacenters = largestFirst(datacenters);
    const all = this.#datacenters.reduce((sum, datacenter) => sum + valueOf(datacenter), 0n);
    const largest = this.#datacenters.length === 0 ? 0n : valueOf(this.#datacenters[0]);
    setText(this.#empty, this.#datacenters.length === 0 ? "No datacenter has counted it yet." : "");
    const rows = new Map([...this.#list.children].map((row) => [row.dataset.id, row]));
    const shown = this.#isOpen ? this.#datacenters : this.#datacenters.slice(0, FIRST);
    const kept = shown.map((datacenter) =>
      showRow(rows.get(datacenter.id) ?? rowOf(datacenter.id), datacenter, all, largest),
    );
    const isSame =
      kept.length === this.#list.children.length && kept.every((row, index) => this.#list.children[index] === row);
    if (!isSame) this.#list.replaceChildren(...kept);
    this.#more.hidden = shown.length === this.#datacenters.length;
    setText(this.#more, `All ${this.#datacenters.length} datacenters`);
    this.#draw(largest);
  }

  #open() {
    this.#isOpen = true;
    this.show(this.#datacenters);
  }

  #draw(largest) {
    const known = this.#datacenters.flatMap((datacenter) => {
      const place = placeOf(datacenter.id);
      return place === undefined ? [] : [{ datacenter, ...project(place) }];
    });
    if (known.length === 0) return;
    if (this.#map === undefined) {
      this.#map = emptyMap();
      this.node.append(this.#map);
      this.node.classList.add("wide");
    }
    // Small ones last: they lie on top.
    const dots = known.map(({ datacenter, x, y }) => {
      const part = largest > 0n && valueOf(datacenter) > 0n ? drawn(valueOf(datacenter)) / Number(largest) : 0;
      const radius = RADIUS_MIN + (RADIUS_MAX - RADIUS_MIN) * Math.sqrt(part);
      const title = svg("title", {}, `${datacenter.id}: ${count(datacenter.value ?? 0)}`);
      return svg(
        "circle",
        { class: datacenter.reachable === false ? "away" : undefined, cx: x.toFixed(1), cy: y.toFixed(1), r: radius.toFixed(2) },
        title,
      );
    });
    this.#map.querySelector("g").replaceChildren(...dots);
  }
}

/** Returns a map of the land, with a group for what lies on it. */
export function emptyMap() {
  const width = 360 / LAND.step;
  const land = landCells()
    .map(([x, y]) => `M${x + 0.5} ${y + 0.5}h0`)
    .join("");
  return svg(
    "svg",
    { class: "map", viewBox: `0 -1 ${width} ${LAND.rows.length + 2}`, "aria-hidden": "true" },
    svg("path", { class: "land", d: land }),
    svg("g"),
  );
}

function rowOf(id) {
  const bar = svg("svg", { class: "bar", "aria-hidden": "true" }, svg("rect", { height: "100%" }));
  return el(
    "li",
    { "data-id": id },
    el("span", { class: "place" }, id),
    bar,
    el("span", { class: "number" }),
    el("span", { class: "share" }),
    el("span", { class: "sub" }),
  );
}

function showRow(row, datacenter, all, largest) {
  const isAway = datacenter.reachable === false;
  row.classList.toggle("away", isAway);
  const text = count(datacenter.value ?? 0);
  setText(row.querySelector(".number"), text.length > DIGITS_MAX ? short(datacenter.value) : text);
  setText(row.querySelector(".share"), share(datacenter.value ?? 0, all));
  setText(row.querySelector(".sub"), isAway ? `unreachable, as of ${duration(datacenter.staleness_ms ?? 0)} ago` : "");
  const part = largest > 0n && valueOf(datacenter) > 0n ? (drawn(valueOf(datacenter)) / Number(largest)) * 100 : 0;
  row.querySelector("rect").setAttribute("width", `${part}%`);
  return row;
}
