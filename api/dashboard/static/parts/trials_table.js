// All trials of a study, sortable, with what can be done with them.

import { h, refill, table } from "../dom.js";
import { DASH, flagValue, gain, parts, percent } from "../format.js";
import { trialBadge } from "./badges.js";
import { failureWords } from "./failures.js";
import { applied, shortFlag, varyingFlags } from "./quantities.js";

const SHOWN = 200;

export function trialsCard(reference, trials, marks, studyState) {
  const sort = { key: "number", down: false };
  const chosen = new Set();
  const place = h("div", {});
  const compare = h("button", { type: "button", disabled: true, onclick: () => location.assign(`/studies/${encodeURIComponent(reference)}/compare?trials=${[...chosen].sort((a, b) => a - b).join(",")}`) }, "Compare chosen trials");

  function choose(number, on) {
    if (on) chosen.add(number);
    else chosen.delete(number);
    compare.disabled = chosen.size < 2;
  }

  function show() {
    const names = varyingFlags(trials());
    const rows = sorted(trials(), sort);
    refill(place, table("Trials", columns(names), rows.slice(0, SHOWN), (trial) => ({ class: trial.number === marks().recommended ? "is-recommended" : trial.number === 0 ? "is-baseline" : null })),
      rows.length > SHOWN ? h("p", { class: "muted small" }, `The first ${SHOWN} of ${rows.length} in this order; the charts hold all.`) : null);
  }

  const header = (label, key) => h("button", { type: "button", "aria-label": `Sort by ${label}`, onclick: () => { sort.down = sort.key === key ? !sort.down : key === "score"; sort.key = key; show(); } }, label, sort.key === key ? (sort.down ? " ↓" : " ↑") : "");
  const columns = (names) => [
    { label: h("span", { class: "quiet" }, "Choose"), render: (trial) => h("input", { type: "checkbox", "aria-label": `Choose trial ${trial.number}`, checked: chosen.has(trial.number), onchange: (event) => choose(trial.number, event.target.checked) }) },
    { label: header("Trial", "number"), number: true, render: (trial) => h("a", { href: `/studies/${encodeURIComponent(reference)}/trials/${trial.number}` }, String(trial.number)) },
    { label: "State", render: (trial) => [trialBadge(trial.state, studyState()), h("div", { class: "small muted", title: trial.failure_class }, trial.failure_class ? failureWords(trial.failure_class) : `${trial.origin.replaceAll("_", " ")}${trial.number === marks().recommended ? ", recommended" : ""}`)] },
    { label: header("Score", "score"), number: true, title: "Against the baseline, with its 90 % interval", render: (trial) => score(trial) },
    ...names.map((name) => ({ label: shortFlag(name), title: `--${name}`, number: true, render: (trial) => flagValue(applied(trial, name)) })),
    { label: "TTFT p95 (ms)", number: true, render: (trial) => stacked(trial.summary?.quantities?.ttft_p95_ms) },
    { label: "TPOT p95 (ms)", number: true, render: (trial) => stacked(trial.summary?.quantities?.tpot_p95_ms) },
    { label: "Tokens/s", number: true, render: (trial) => stacked(trial.summary?.quantities?.output_tokens_per_s) },
    { label: "GPU busy", number: true, title: "At the study's rate, and saturated; a dash where it cannot be measured", render: (trial) => trial.summary ? `${percent(trial.summary.gpu_utilization)} / ${percent(trial.summary.gpu_utilization_saturated)}` : DASH },
    { label: "Preempted", number: true, title: "Preemptions per request", render: (trial) => trial.summary?.preemptions_per_request === null || !trial.summary ? DASH : trial.summary.preemptions_per_request.toFixed(2) },
  ];
  return { card: h("section", { class: "card stack", "aria-labelledby": "trials-title" }, h("div", { class: "row row-spread" }, h("h2", { id: "trials-title" }, "Trials"), compare), place), show };
}

function stacked(found) {
  const [value, interval] = parts(found);
  return [value, interval ? h("div", { class: "small muted" }, interval) : null];
}

function score(trial) {
  if (!trial.score) return DASH;
  const { value, low, high } = trial.score;
  if (low === null || low === undefined) return gain(value);
  return [gain(value), h("div", { class: "small muted" }, `${gain(low).replace(" %", "")} to ${gain(high)}`)];
}

function sorted(trials, { key, down }) {
  const value = (trial) => key === "score" ? trial.score?.value ?? -Infinity : trial.number;
  return [...trials].sort((a, b) => (down ? value(b) - value(a) : value(a) - value(b)) || a.number - b.number);
}
