// Two or more trials side by side.

import { get, studyPath } from "../api.js";
import { fill, h, table } from "../dom.js";
import { flagValue, gain, percent, reading } from "../format.js";
import { trialBadge } from "../parts/badges.js";
import { failureWords } from "../parts/failures.js";
import { empty } from "../parts/notices.js";
import { applied, flagNames, LOWER_IS_BETTER, QUANTITIES } from "../parts/quantities.js";

const MOST = 6;

export async function show(main, context) {
  const numbers = [...new Set((context.query.get("trials") ?? "").split(",").filter((part) => /^\d+$/.test(part)).map(Number))].slice(0, MOST);
  const to = `/studies/${encodeURIComponent(context.study)}`;
  if (numbers.length < 2) {
    fill(main, empty("Choose at least two trials", "Mark them in the study's list of trials.", h("a", { class: "button", href: to }, "To the study")));
    return;
  }
  const [study, ...trials] = await Promise.all([get(studyPath(context.study)), ...numbers.map((number) => get(studyPath(context.study, "trials", number)))]);
  context.simulated(study.simulated);
  document.title = `Compare · ${study.reference} · ServeTune`;
  const column = (render) => trials.map((trial) => ({ label: trial.number === 0 ? "Baseline" : `Trial ${trial.number}`, number: true, render: (row) => render(trial, row) }));
  fill(main, h("div", { class: "stack compare" },
    h("div", { class: "crumbs" }, h("a", { href: "/" }, "Studies"), " / ", h("a", { href: to }, study.reference), " / "), h("h1", {}, "Trials side by side"),
    h("section", { class: "card" }, h("h2", {}, "Outcome"), table("Outcome", [{ label: "", render: (row) => row[0] }, ...column((trial, row) => row[1](trial))], [
      ["State", (trial) => trialBadge(trial.state, study.state)],
      ["Against the baseline", (trial) => trial.score ? gain(trial.score.value) : "–"],
      ["90 % interval", (trial) => trial.score && trial.score.low !== null && trial.score.low !== undefined ? `${gain(trial.score.low)} to ${gain(trial.score.high)}` : "–"],
      ["Why not", (trial) => trial.failure_class ? failureWords(trial.failure_class) : "–"],
    ])),
    h("section", { class: "card" }, h("h2", {}, "Configuration"), table("Configuration", [{ label: "Flag", render: (name) => h("code", {}, `--${name}`) }, ...column((trial, name) => flagValue(applied(trial, name)))], flagNames(trials))),
    h("section", { class: "card stack" }, h("h2", {}, "Measured"), h("p", { class: "muted small" }, "With 90 % intervals. The best of each row is marked ▲; where intervals overlap, the mark may be chance."),
      table("Measured", [{ label: "Quantity", render: (name) => `${QUANTITIES[name][0]}${QUANTITIES[name][1] ? ` (${QUANTITIES[name][1]})` : ""}` }, ...column((trial, name) => marked(trials, trial, name))], Object.keys(QUANTITIES).filter((name) => trials.some((trial) => trial.summary?.quantities?.[name]))),
      table("Resources", [{ label: "Resource", render: (row) => row[0] }, ...column((trial, row) => row[1](trial.summary))], [
        ["GPU busy at the rate", (found) => percent(found?.gpu_utilization)], ["GPU busy, saturated", (found) => percent(found?.gpu_utilization_saturated)],
        ["KV cache, peak", (found) => percent(found?.kv_usage_peak)], ["Preemptions per request", (found) => found?.preemptions_per_request?.toFixed(2) ?? "–"],
        ["KV cache tokens", (found) => found?.kv_cache_tokens?.toLocaleString("en") ?? "–"],
      ]))));
}

function marked(trials, trial, name) {
  const own = trial.summary?.quantities?.[name];
  if (!own) return "–";
  const values = trials.map((other) => other.summary?.quantities?.[name]?.value).filter((value) => value !== undefined);
  const best = LOWER_IS_BETTER(name) ? Math.min(...values) : Math.max(...values);
  return [own.value === best && values.some((value) => value !== best) ? h("span", { title: "best of the row" }, "▲ ") : null, reading(own)];
}
