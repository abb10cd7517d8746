// The form's fields: each knows its path in the study document, so that a fault finds its field.

import { h } from "../dom.js";

let serial = 0;

/** A labelled control at `path`; `read()` gives its value, undefined for one left to the default. */
export function field(path, label, control, { hint = null, read = () => control.value || undefined } = {}) {
  const id = `field-${++serial}`;
  const said = h("p", { class: "fault", id: `${id}-fault`, hidden: true });
  control.id = id;
  if (hint) control.setAttribute("aria-describedby", `${id}-hint ${id}-fault`);
  else control.setAttribute("aria-describedby", `${id}-fault`);
  const element = h("div", { class: "field" }, h("label", { for: id }, label), control, hint ? h("p", { class: "hint", id: `${id}-hint` }, hint) : null, said);
  return {
    path, element, control, read,
    fault(message) {
      control.setAttribute("aria-invalid", message ? "true" : "false");
      said.hidden = !message;
      said.textContent = message ?? "";
    },
  };
}

export function text(path, label, options = {}) {
  return field(path, label, h("input", { type: "text", placeholder: options.placeholder, value: options.value ?? "", spellcheck: "false" }), options);
}

export function number(path, label, options = {}) {
  const control = h("input", { type: "number", step: options.step ?? "any", min: options.min, max: options.max, placeholder: options.placeholder, value: options.value ?? "" });
  return field(path, label, control, { ...options, read: () => control.value === "" ? undefined : Number(control.value) });
}

export function choice(path, label, pairs, options = {}) {
  const control = h("select", {}, pairs.map(([value, words]) => h("option", { value, selected: value === options.value }, words)));
  return field(path, label, control, options);
}

/** Put what the fields say into a document; undefined values leave no trace. */
export function documentOf(fields) {
  const document = {};
  for (const one of fields) {
    const value = one.read();
    if (value === undefined) continue;
    const keys = one.path.split(".");
    let place = document;
    for (const key of keys.slice(0, -1)) place = place[key] ??= {};
    place[keys.at(-1)] = value;
  }
  return document;
}

/** Show each fault at its field, or at the nearest one; returns those that have no field at all. */
export function showFaults(fields, faults) {
  const byPath = new Map(fields.map((one) => [one.path, []]));
  const homeless = [];
  for (const fault of faults) {
    let path = fault.path;
    while (path && !byPath.has(path)) path = path.includes(".") ? path.slice(0, path.lastIndexOf(".")) : "";
    const below = path ? null : fields.find((one) => fault.path && one.path.startsWith(`${fault.path}.`));
    if (path) byPath.get(path).push(fault);
    else if (below) byPath.get(below.path).push(fault);
    else homeless.push(fault);
  }
  for (const one of fields) {
    const own = byPath.get(one.path);
    one.fault(own.length ? own.map((fault) => `${fault.message}${fault.hint ? ` (${fault.hint})` : ""}`).join("; ") : null);
  }
  return homeless;
}
