// Exchanges an API key for a session cookie that scripts cannot read.

import { post } from "../api.js";
import { fill, h } from "../dom.js";
import { notice } from "../parts/notices.js";

export async function show(main, { query }) {
  const said = h("div", { "aria-live": "polite" });
  const key = h("input", { id: "key", name: "key", type: "password", autocomplete: "current-password", required: true, spellcheck: "false" });
  const form = h("form", { class: "card stack", onsubmit: submit },
    h("h1", {}, "Sign in"),
    h("p", { class: "muted" }, "With an API key of this server. Operators make one with ", h("code", {}, "servetune key create"), "."),
    h("div", { class: "field" }, h("label", { for: "key" }, "API key"), key),
    said, h("div", {}, h("button", { class: "button-main", type: "submit" }, "Sign in")));

  async function submit(event) {
    event.preventDefault();
    try {
      await post("session", { key: key.value });
      location.assign(localTarget(query.get("next")));
    } catch (error) {
      fill(said, notice("bad", null, error.message));
      key.value = "";
      key.focus();
    }
  }

  fill(main, h("div", { class: "grid" }, h("div", { class: "span-4" }), h("div", { class: "span-4" }, form)));
  key.focus();
}

/** Only a path of this server: `next` comes from the address and may be anybody's. */
function localTarget(next) {
  if (!next) return "/";
  const target = new URL(next, location.origin);
  return target.origin === location.origin && next.startsWith("/") && !next.startsWith("//") ? target.pathname + target.search : "/";
}
