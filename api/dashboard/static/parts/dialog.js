// Questions that need an answer before anything is done, and what went wrong when it was.

import { h } from "../dom.js";

/** Ask; resolves to whether `action` was chosen. Escape and the other button decline. */
export function confirmed(title, message, action, decline = "Cancel") {
  return opened(title, message, [
    h("button", { type: "submit", value: "" }, decline), h("button", { type: "submit", value: "yes", class: "button-danger" }, action),
  ]);
}

/** Tell something that somebody has to have read. */
export function told(title, message) {
  return opened(title, message, [h("button", { type: "submit", value: "" }, "Close")]);
}

function opened(title, message, buttons) {
  const dialog = h("dialog", { "aria-labelledby": "dialog-title", "aria-describedby": "dialog-text" },
    h("form", { method: "dialog", class: "stack" }, h("h2", { id: "dialog-title" }, title), h("p", { id: "dialog-text" }, message), h("div", { class: "row row-end" }, buttons)));
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    }, { once: true });
  });
}
