// Elements from data. Text is only ever set as text, so nothing a user or an engine wrote is markup.

/** An element; `attributes` may hold `class`, `on<Event>` listeners, `data` and any attribute. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2).toLowerCase(), value);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Put `children` in the place of what `element` holds. */
export function fill(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const REACHABLE = "a, button, input, select, summary, [tabindex]";

/** Fill anew what somebody may be reading: focus, opened details and scrolled tables stay as they are. */
export function refill(element, ...children) {
  const focused = element.contains(document.activeElement) ? signature(document.activeElement) : null;
  const open = new Map([...element.querySelectorAll("details")].map((one) => [signature(one.querySelector("summary")), one.open]));
  const scrolled = [...element.querySelectorAll(".table-wrap")].map((one) => one.scrollLeft);
  fill(element, ...children);
  for (const one of element.querySelectorAll("details")) one.open = open.get(signature(one.querySelector("summary"))) ?? one.open;
  element.querySelectorAll(".table-wrap").forEach((one, i) => { if (scrolled[i]) one.scrollLeft = scrolled[i]; });
  if (focused) [...element.querySelectorAll(REACHABLE)].find((one) => signature(one) === focused)?.focus({ preventScroll: true });
  return element;
}

function signature(element) {
  return [element.tagName, element.id, element.getAttribute("href"), element.getAttribute("aria-label") ?? element.textContent].join("|");
}

/** A table: `columns` are {label, number?, render(row), class?}; `attributes(row)` for each row. */
export function table(caption, columns, rows, attributes = () => ({})) {
  return h("div", { class: "table-wrap", tabindex: "0", role: "region", "aria-label": caption },
    h("table", {},
      h("caption", { class: "quiet" }, caption),
      h("thead", {}, h("tr", {}, columns.map((column) =>
        h("th", { scope: "col", class: column.number ? "number" : null, title: column.title }, column.label)))),
      h("tbody", {}, rows.map((row) => h("tr", attributes(row), columns.map((column) =>
        h("td", { class: column.number ? "number" : null }, column.render(row))))))));
}

/** Name and value pairs; a pair whose value is null says what is not known. */
export function facts(pairs) {
  return h("dl", { class: "facts" }, pairs.map(([name, value]) => [
    h("dt", {}, name), h("dd", {}, value ?? "not known")]));
}
