// Other wishes, the same measurements: the server scores stored trials anew, no formula is here.

import { post, studyPath } from "../api.js";
import { fill, h, table } from "../dom.js";
import { gain } from "../format.js";
import { notice } from "./notices.js";

const METRICS = [["ttft_p95", "TTFT"], ["tpot_p95", "TPOT"], ["throughput", "Throughput"], ["itl_p99", "ITL"]];
const LIMITS = [["ttft_ms", "SLO: TTFT (ms)"], ["tpot_ms", "SLO: TPOT (ms)"]];
const WAIT_MS = 150;

/** A card of sliders and limits. `objective` is the study's; `onSlo(slo)` hears of changed limits. */
export function weightsCard(reference, objective, onSlo) {
  const wish = { weights: { ttft_p95: 1, tpot_p95: 1, throughput: 1, itl_p99: 0, ...objective.weights }, slo: objective.slo ?? null, mode: objective.mode ?? "weighted" };
  const original = structuredClone(wish);
  const said = h("div", { "aria-live": "polite" });
  const ranking = h("div", {});
  let timer = null;
  let asked = 0;

  async function ask() {
    const mine = ++asked;
    try {
      const found = await post(studyPath(reference, "rescore"), { ...objective, ...wish });
      if (mine !== asked) return;
      fill(said);
      fill(ranking, rankingTable(found));
    } catch (error) {
      if (mine === asked) fill(said, notice("bad", null, error.message));
    }
  }

  const later = () => {
    clearTimeout(timer);
    timer = setTimeout(ask, WAIT_MS);
  };
  const rows = METRICS.map(([name, words]) => {
    const shown = h("output", { for: `weight-${name}`, class: "number" }, String(wish.weights[name]));
    const slider = h("input", { id: `weight-${name}`, type: "range", min: 0, max: 3, step: 0.1, value: wish.weights[name], oninput: () => { wish.weights[name] = Number(slider.value); shown.textContent = slider.value; later(); } });
    return { name, slider, shown, cells: [h("label", { for: `weight-${name}` }, words), slider, shown] };
  });
  const limits = LIMITS.map(([name, words]) => {
    const input = h("input", { id: `slo-${name}`, type: "number", min: 1, step: "any", placeholder: "none", value: wish.slo?.[name] ?? "", onchange: () => {
      wish.slo = { ...(wish.slo ?? {}), [name]: Number(input.value) > 0 ? Number(input.value) : null };
      onSlo({ ...wish.slo });
      later();
    } });
    return { name, input, element: h("div", { class: "field" }, h("label", { for: `slo-${name}` }, words), input) };
  });
  const showSlo = () => { for (const { name, input } of limits) input.value = wish.slo?.[name] ? Number(wish.slo[name].toPrecision(4)) : ""; };
  const reset = h("button", { type: "button", onclick: () => {
    Object.assign(wish, structuredClone(original));
    for (const row of rows) { row.slider.value = wish.weights[row.name]; row.shown.textContent = String(wish.weights[row.name]); }
    showSlo();
    onSlo({ ...(wish.slo ?? {}) });
    fill(ranking);
    fill(said);
  } }, "As in the study");
  const card = h("section", { class: "card stack", "aria-labelledby": "weights-title" },
    h("h2", { id: "weights-title" }, "What if other things mattered?"),
    h("p", { class: "muted small" }, "Ranks the trials that were measured under other weights. Nothing is measured again, and the study's recommendation stays what was confirmed."),
    h("div", { class: "weights" }, rows.map((row) => row.cells)),
    h("div", { class: "fields" }, limits.map((limit) => limit.element)), h("div", {}, reset), said, ranking);
  return { card, setSlo(slo) { wish.slo = { ...(wish.slo ?? {}), ...slo }; showSlo(); later(); } };
}

function rankingTable(found) {
  const scored = found.trials.filter((trial) => trial.score.value !== null).slice(0, 5);
  if (!scored.length) return notice("warn", null, "No trial can be scored under these wishes.");
  return table("Best trials under these weights", [
    { label: "Rank", number: true, render: (trial) => String(scored.indexOf(trial) + 1) },
    { label: "Trial", render: (trial) => trial.trial_number === found.reference_trial ? `${trial.trial_number} (baseline)` : String(trial.trial_number) },
    { label: "Against the baseline", number: true, render: (trial) => trial.score.low !== null && trial.score.low !== undefined ? `${gain(trial.score.value)} (${gain(trial.score.low)} to ${gain(trial.score.high)})` : gain(trial.score.value) },
  ], scored);
}
