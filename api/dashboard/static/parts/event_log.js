// A study's history in sentences, newest first.

import { fill, h } from "../dom.js";
import { gain, timeOfDay } from "../format.js";

const KEPT = 300;

export function eventLog() {
  const list = h("ol", { class: "events", tabindex: "0", "aria-label": "Events, newest first" });
  const kept = [];
  const row = (event) => h("li", {}, h("time", { datetime: event.at, class: "muted number" }, timeOfDay(event.at)), h("span", {}, sentence(event)));
  return {
    card: h("section", { class: "card", "aria-labelledby": "events-title" }, h("h2", { id: "events-title" }, "Events"), list),
    add(event) {
      kept.unshift(event);
      list.prepend(row(event));
      if (kept.length > KEPT) {
        kept.pop();
        list.lastElementChild.remove();
      }
    },
    show: () => fill(list, kept.map(row)),
  };
}

function sentence({ kind, trial_number: trial, payload }) {
  const of = trial === null || trial === undefined ? "" : `Trial ${trial}: `;
  switch (kind) {
    case "study_created": return "The study was created.";
    case "study_state": return `The study went from ${payload.from} to ${payload.to}${payload.failure?.message ? `: ${payload.failure.message}` : ""}.`;
    case "study_claimed": return "A worker took the study up.";
    case "study_requested": return `${payload.by ?? "Somebody"} asked to ${payload.request} the study.`;
    case "phase": return `Phase ${payload.to} begins.`;
    case "load_calibrated": return `The load was calibrated${payload.users ? `: ${payload.users} users in a closed loop` : payload.rate_per_s ? ` to ${Number(payload.rate_per_s).toPrecision(3)} requests/s` : ""}.`;
    case "trial_proposed": return `${of}proposed (${String(payload.origin).replaceAll("_", " ")}).`;
    case "trial_state": return `${of}${String(payload.to).replaceAll("_", " ")}.`;
    case "trial_skipped": return `A proposal was not launched: ${payload.reason}`;
    case "attempt_started": return `${of}engine start ${payload.ordinal} (${String(payload.purpose).replaceAll("_", " ")}).`;
    case "attempt_state": return `${of}${String(payload.to).replaceAll("_", " ")}.`;
    case "attempt_read_back": return `${of}the engine told what it applied.`;
    case "attempt_ended": return `${of}start ${payload.ordinal} ended: ${payload.outcome}${payload.summary ? ` (${payload.summary})` : ""}.`;
    case "trial_scored": return payload.score?.value === null ? `${of}could not be scored.` : `${of}${gain(payload.score.value)} against the baseline.`;
    case "notice": return payload.message ?? "Notice.";
    case "recommendation": return payload.headline ?? "The recommendation is there.";
    default: return `${of}${kind.replaceAll("_", " ")}`;
  }
}
