// Which parameter decided, and how the score went along each.

import { get, studyPath } from "../api.js";
import { chartPlace, draw, MOST_BARS, palette } from "../charts.js";
import { fill, h } from "../dom.js";
import { gain } from "../format.js";
import { applied, flagNames } from "./quantities.js";

const POWERS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144];
const NAMES = { log2_max_num_seqs: "max-num-seqs", token_budget: "max-num-batched-tokens", enable_chunked_prefill: "enable-chunked-prefill", memory_headroom: "gpu-memory-utilization (headroom)" };

export function importanceCard(reference, trials) {
  const place = chartPlace("Importance of each parameter", "chart-small");
  const slices = chartPlace("Score along one parameter", "chart-small");
  const words = h("p", { class: "muted small" });
  const select = h("select", { id: "slice-flag", onchange: () => draw(slices, () => slice(trials(), select.value)) });
  async function load() {
    const found = await get(studyPath(reference, "importance"));
    const names = flagNames(trials());
    const chosen = select.value || names[0];
    fill(select, names.map((name) => h("option", { value: name, selected: name === chosen }, name)));
    place.hidden = found.shares === null;
    fill(words, found.shares === null
      ? `Importance needs at least ${found.needed} scored trials; there are ${found.trials}.`
      : `PED-ANOVA over ${found.trials} scored trials: how much a parameter decides whether a trial is among the best quarter. With few trials it is a hint.`);
    if (found.shares !== null) await draw(place, () => bars(found.shares));
    if (chosen) await draw(slices, () => slice(trials(), chosen));
  }
  return { card: h("section", { class: "card stack", "aria-labelledby": "importance-title" }, h("h2", { id: "importance-title" }, "What mattered"), place, words,
    h("div", { class: "field" }, h("label", { for: "slice-flag" }, "Score along"), select), slices), load };
}

function bars(shares) {
  const colours = palette();
  const rows = Object.entries(shares).sort((a, b) => a[1] - b[1]);
  return {
    traces: [{ type: "bar", orientation: "h", y: rows.map(([name]) => NAMES[name] ?? name), x: rows.map(([, share]) => 100 * share), marker: { color: colours.accent }, text: rows.map(([, share]) => `${Math.round(100 * share)} %`), hovertemplate: "%{y}: %{x:.0f} %<extra></extra>" }],
    layout: { xaxis: { title: "Share (%)", range: [0, 100] }, yaxis: {}, margin: { l: 10, r: 10, t: 6, b: 44 } },
  };
}

function slice(trials, name) {
  const colours = palette();
  const rows = trials.filter((trial) => trial.score && trial.score.value !== null && applied(trial, name) !== null);
  const number = rows.every((trial) => typeof applied(trial, name) === "number");
  return {
    traces: [{
      type: "scatter", mode: "markers", marker: { color: colours.accent, size: 9 }, x: rows.map((trial) => number ? applied(trial, name) : String(applied(trial, name))), y: rows.map((trial) => 100 * Math.expm1(trial.score.value)),
      error_y: rows.length > MOST_BARS ? undefined : { type: "data", symmetric: false, color: colours.faint, thickness: 1, width: 3, array: rows.map((t) => 100 * (Math.exp(t.score.high ?? t.score.value) - Math.exp(t.score.value))), arrayminus: rows.map((t) => 100 * (Math.exp(t.score.value) - Math.exp(t.score.low ?? t.score.value))) },
      text: rows.map((trial) => `Trial ${trial.number}: ${gain(trial.score.value)}`), hovertemplate: "%{text}<extra></extra>",
    }],
    layout: { xaxis: { title: name, ...(number && name.startsWith("max-") ? { type: "log", tickvals: POWERS, tickformat: "d" } : { type: number ? "linear" : "category" }) }, yaxis: { title: "Against the baseline (%)" }, margin: { l: 60, r: 10, t: 6, b: 44 } },
  };
}
