// The form of a rate limit policy: what it says now, and what it is to say.
import { el, setText } from "./dom.js";

const CONCURRENCY = "concurrency";
const WORDS = { datacenter: "each datacenter", open: "allow", closed: "refuse (503)" };
const LABELS = {
  limit: "Limit",
  seconds: "Window, seconds; of concurrency the longest time of a hold",
  algorithm: "Algorithm",
  scope: "Scope",
  on_error: "If the limiter is unreachable",
  shadow: "Shadow: refuses nobody",
};

/** Returns the policy that is stored where a form has these values. What the form does not show stays as it is. */
export function policyOf({ policy: _, window_seconds: _window, ttl_seconds: _ttl, ...kept }, { seconds, ...shown }) {
  const name = shown.algorithm === CONCURRENCY ? "ttl_seconds" : "window_seconds";
  return { ...kept, ...shown, [name]: seconds };
}

/**
 * Returns the form of a policy. `schema` is the API's description of a policy: it has the words of each field.
 * `save(policy)` resolves once the policy is stored, and rejects with why not.
 */
export function policyForm(policy, { properties }, save) {
  const note = el("p", { class: "sub", role: "status" });
  const field = (name, node) => el("div", {}, el("label", { for: `policy-${name}` }, LABELS[name]), node);
  const number = (name, max, value = policy[name]) =>
    el("input", {
      id: `policy-${name}`, name, type: "number", min: "1", max, required: true, value: String(value),
    });
  const choice = (name) => {
    const known = [...new Set([policy[name], ...properties[name].enum])];
    return el(
      "select", { id: `policy-${name}`, name },
      known.map((value) => el("option", { value, selected: value === policy[name] }, WORDS[value] ?? value)),
    );
  };
  const shadow = el("input", { id: "policy-shadow", name: "shadow", type: "checkbox", checked: policy.shadow });
  const onSubmit = async (event) => {
    event.preventDefault();
    const { elements } = form;
    const wanted = policyOf(policy, {
      limit: Number(elements.limit.value),
      seconds: Number(elements.seconds.value),
      algorithm: elements.algorithm.value,
      scope: elements.scope.value,
      on_error: elements.on_error.value,
      shadow: elements.shadow.checked,
    });
    try {
      await save(wanted);
      setText(note, "Stored. Other isolates follow within seconds.");
    } catch (error) {
      setText(note, `It was not stored: ${error.message}.`);
    }
  };
  const form = el(
    "form",
    { class: "fields", on: { submit: onSubmit } },
    field("limit", number("limit", "1000000000")),
    field("seconds", number("seconds", "2592000", policy.window_seconds ?? policy.ttl_seconds)),
    field("algorithm", choice("algorithm")),
    field("scope", choice("scope")),
    field("on_error", choice("on_error")),
    field("shadow", shadow),
    el("button", { type: "submit" }, "Store"),
    note,
  );
  return form;
}
