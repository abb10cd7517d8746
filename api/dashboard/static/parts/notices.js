// What a page shows when there is nothing, not yet something, or something went wrong.

import { h } from "../dom.js";
import { Problem, Unreachable } from "../api.js";

export function notice(kind, title, ...content) {
  return h("div", { class: `notice notice-${kind}`, role: kind === "bad" ? "alert" : "note" },
    title ? h("h3", {}, title) : null, content.map((part) => typeof part === "string" ? h("p", {}, part) : part));
}

export function empty(title, message, action = null) {
  return h("div", { class: "card empty" }, h("h2", {}, title), h("p", {}, message), action);
}

/** The page in place of one that could not be read. `retry` tries again. */
export function failure(error, retry) {
  const again = h("button", { type: "button", onclick: retry }, "Try again");
  if (error instanceof Unreachable) {
    return h("div", { class: "card empty", role: "alert" }, h("h2", {}, "The server cannot be reached"),
      h("p", {}, "Studies go on without this page. It will work again when the server answers."), again);
  }
  if (error instanceof Problem && error.status === 403) {
    return h("div", { class: "card empty", role: "alert" }, h("h2", {}, "Your key does not allow this"),
      h("p", {}, `${error.message} Ask the operator for a key with the scope it needs.`),
      h("a", { class: "button", href: "/login" }, "Sign in with another key"));
  }
  if (error instanceof Problem && error.status === 404) {
    return h("div", { class: "card empty", role: "alert" }, h("h2", {}, "There is no such thing here"),
      h("p", {}, error.message), h("a", { class: "button", href: "/" }, "All studies"));
  }
  return h("div", { class: "card empty", role: "alert" }, h("h2", {}, "Something went wrong"),
    h("p", {}, error.message), error.hint ? h("p", { class: "muted" }, error.hint) : null, again);
}

/** Faults of a document or request, each with its place. */
export function faultList(faults) {
  return h("ul", {}, faults.map((fault) => h("li", {}, h("code", {}, fault.path || "(document)"), ": ", fault.message, fault.hint ? h("span", { class: "muted" }, ` (${fault.hint})`) : null)));
}
