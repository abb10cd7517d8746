// States in words, with a sign and a colour beside them.

import { h } from "../dom.js";

const KINDS = {
  complete: ["good", "✓", "complete"], running: ["live", "●", "running"], queued: ["", "○", "queued"],
  paused: ["warn", "‖", "paused"], failed: ["bad", "✕", "failed"], cancelled: ["", "–", "cancelled"],
  infeasible: ["warn", "△", "infeasible"], pruned: ["", "↯", "cut short"], launching: ["live", "●", "launching"],
  warming_up: ["live", "●", "warming up"], measuring: ["live", "●", "measuring"], stopping: ["live", "●", "stopping"],
};

export function stateBadge(state, requested = null) {
  const [kind, sign, word] = KINDS[state] ?? ["", "•", state];
  const live = kind === "live";
  const wish = requested === "pause" ? ", pausing" : requested === "cancel" ? ", cancelling" : "";
  return h("span", { class: `badge ${kind ? `badge-${kind}` : ""}` },
    h("span", { class: live ? "pulse" : null, "aria-hidden": "true" }, sign), word + wish);
}

const RUNNING = ["launching", "warming_up", "measuring", "stopping"];

/** A trial's state; one that a study which does not run has left midway says so. */
export function trialBadge(state, studyState) {
  if (studyState === "running" || !RUNNING.includes(state)) return stateBadge(state);
  return h("span", { class: "badge" }, h("span", { "aria-hidden": "true" }, "–"), "unfinished");
}

export function simulatedBadge() {
  return h("span", { class: "badge badge-simulated", title: "Measured on the embedded engine model, not on a GPU" }, "simulated");
}

export function verdictBadge(verdict) {
  const kinds = { better: ["good", "✓", "better"], better_but_fragile: ["warn", "△", "better, but fragile"], keep_baseline: ["", "=", "keep the baseline"], no_feasible: ["bad", "✕", "nothing feasible"] };
  const [kind, sign, word] = kinds[verdict] ?? ["", "•", verdict];
  return h("span", { class: `badge ${kind ? `badge-${kind}` : ""}` }, h("span", { "aria-hidden": "true" }, sign), word);
}
