// The best score so far over the GPU minutes it cost.

import { get, studyPath } from "../api.js";
import { chartPlace, draw, palette } from "../charts.js";
import { fill, h } from "../dom.js";
import { gain } from "../format.js";

export function historyCard(reference) {
  const place = chartPlace("Best score so far over GPU minutes spent");
  const words = h("p", { class: "muted small" });
  async function load() {
    const { points } = await get(studyPath(reference, "trajectory"));
    fill(words, sentence(points));
    await draw(place, () => figure(points));
  }
  return { card: h("section", { class: "card", "aria-labelledby": "history-title" }, h("h2", { id: "history-title" }, "Best so far"), place, words), load };
}

function sentence(points) {
  const last = points.findLast((point) => point.best_score !== null);
  if (!last) return "Nothing has been scored yet.";
  return `After ${last.gpu_minutes.toFixed(1)} GPU minutes the best trial is ${last.best_trial}, measured ${gain(last.best_score)} against the baseline. One measurement of the luckiest trial flatters it: confirmation decides.`;
}

function figure(points) {
  const colours = palette();
  const percent = (score) => score === null ? null : 100 * Math.expm1(score);
  return {
    traces: [
      { type: "scatter", mode: "markers", name: "trial", x: points.map((p) => p.gpu_minutes), y: points.map((p) => percent(p.score)), marker: { color: colours.faint, size: 8 }, text: points.map((p) => `Trial ${p.trial}: ${gain(p.score)}`), hovertemplate: "%{text}<extra></extra>" },
      { type: "scatter", mode: "lines", name: "best so far", line: { shape: "hv", color: colours.accent, width: 2.5 }, x: points.map((p) => p.gpu_minutes), y: points.map((p) => percent(p.best_score)), hovertemplate: "%{y:.1f} %<extra>best so far</extra>" },
    ],
    layout: { xaxis: { title: "GPU minutes", rangemode: "tozero" }, yaxis: { title: "Against the baseline (%)", zeroline: true } },
  };
}
