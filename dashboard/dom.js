// Making elements. Invariant: text from outside becomes text, never markup: nothing here or elsewhere in the
// dashboard parses HTML.

const SVG = "http://www.w3.org/2000/svg";

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") for (const [type, listener] of Object.entries(value)) node.addEventListener(type, listener);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== undefined && child !== null));
  return node;
}

/** Returns an HTML element; `on` among the attributes holds listeners; strings among the children are text. */
export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** Returns an SVG element, likewise. */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/** Returns the name of a counter as it is shown: its direction is its own and turns nothing around it. */
export function nameOf(id) {
  return el("bdi", { class: "id" }, id);
}

/** Sets text only where it differs, so that a selection and a screen reader are left alone. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Shows a standing on a chip. */
export function setChip(node, { tone, text }) {
  if (node.dataset.tone !== tone) node.dataset.tone = tone;
  setText(node, text);
}

/**
 * Returns a panel under a heading, whose id is `id`-title; `heading` is its text, or that and what stands beside it.
 */
export function panel(id, heading, ...nodes) {
  const [text, ...beside] = [heading].flat();
  const title = el("h2", { id: `${id}-title`, class: "label" }, text);
  return el(
    "section", { class: "panel wide", "aria-labelledby": `${id}-title` },
    beside.length === 0 ? title : el("div", { class: "head" }, title, beside), ...nodes,
  );
}

/** Marks the row that an address names, by its `data-id`, among the rows of a list. */
export function markRow(list, id) {
  const row = [...list.querySelectorAll("tr")].find((one) => one.dataset.id === id);
  if (id === undefined || row === undefined) return;
  row.setAttribute("aria-current", "true");
  row.scrollIntoView({ block: "nearest" });
}

/**
 * Returns a form of one field for a name, in which nothing is completed or corrected, and a button; `submit` gets the
 * name. What is left of the options are attributes of the field.
 */
export function nameForm({ id, label, button, submit, ...attributes }, ...more) {
  const field = el("input", {
    id, type: "search", autocomplete: "off", autocapitalize: "off", spellcheck: "false", ...attributes,
  });
  const onSubmit = (event) => {
    event.preventDefault();
    submit(field.value);
  };
  return el(
    "form", { class: "prefix", on: { submit: onSubmit } }, el("label", { for: id }, label), field,
    el("button", { type: "submit", class: "quiet" }, button), ...more,
  );
}

/** Returns what to tell instead of numbers: a heading, a sentence, and what to do. */
export function notice(title, ...more) {
  return el(
    "section",
    { class: "notice" },
    el("h2", {}, title),
    more.map((part) => (typeof part === "string" ? el("p", {}, part) : part)),
  );
}
