// Where in the space trials were made, and how they fared: sequences against token budget.

import { chartPlace, draw, palette } from "../charts.js";
import { h } from "../dom.js";
import { gain } from "../format.js";
import { applied } from "./quantities.js";

const X = "max-num-seqs";
const Y = "max-num-batched-tokens";
const POWERS = [1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144];
const FACET = "enable-chunked-prefill";

const BASELINE = (trial) => trial.number === 0;
const SYMBOLS = { complete: "circle", infeasible: "x", pruned: "triangle-up" };
const KINDS = [
  ["circle", 15, BASELINE],
  ...Object.entries(SYMBOLS).map(([state, symbol]) => [symbol, 11, (trial) => !BASELINE(trial) && trial.state === state]),
  ["circle-open", 11, (trial) => !BASELINE(trial) && !(trial.state in SYMBOLS)],
];

export function spaceMapCard(reference, trials) {
  const place = chartPlace("Configurations tried: max-num-seqs against max-num-batched-tokens, coloured by score; the list of trials holds the same");
  async function show() {
    const element = await draw(place, () => figure(trials()));
    element.removeAllListeners?.("plotly_click");
    element.on?.("plotly_click", (click) => location.assign(`/studies/${encodeURIComponent(reference)}/trials/${click.points[0].customdata}`));
  }
  return { card: h("section", { class: "card", "aria-labelledby": "space-title" }, h("h2", { id: "space-title" }, "Configuration space"), place,
    h("p", { class: "muted small" }, "Circles ran; crosses could not; triangles were cut short.")), show };
}

function figure(all) {
  const colours = palette();
  const placed = all.filter((trial) => applied(trial, X) !== null && applied(trial, Y) !== null);
  const facets = [true, false].map((chunked) => placed.filter((trial) => (applied(trial, FACET) ?? true) === chunked));
  const used = facets.map((rows, i) => [rows, i === 0 ? "chunked prefill on" : "chunked prefill off"]).filter(([rows]) => rows.length);
  const scores = placed.map((trial) => trial.score?.value ?? null).filter((value) => value !== null);
  const reach = scores.length ? Math.max(...scores.map(Math.abs), 0.01) : 1;
  const traces = [];
  const annotations = [];
  const layout = { showlegend: false, grid: { rows: 1, columns: Math.max(used.length, 1), pattern: "independent" } };
  used.forEach(([rows, title], i) => {
    const suffix = i === 0 ? "" : String(i + 1);
    const clouds = KINDS.map(([symbol, size, holds]) => rows.filter(holds).length ? cloud(rows.filter(holds), symbol, size, suffix, reach, colours) : null).filter(Boolean);
    if (i === used.length - 1 && clouds.length) clouds[0].marker.showscale = true;
    traces.push(...clouds);
    layout[`xaxis${suffix}`] = { type: "log", title: X, tickvals: POWERS, range: span(placed, X) };
    layout[`yaxis${suffix}`] = { type: "log", title: i === 0 ? Y : "", tickvals: POWERS, range: span(placed, Y), showticklabels: i === 0 };
    annotations.push({ text: title, xref: `x${suffix} domain`, yref: `y${suffix} domain`, x: 0.5, y: 1.02, showarrow: false, yanchor: "bottom", font: { color: colours.muted } });
  });
  return { traces, layout: { ...layout, annotations, margin: { t: 34, l: 66, r: 20, b: 48 } } };
}

/** Both facets show the same range, as exponents of ten, with a little room. */
function span(trials, name) {
  const values = trials.map((trial) => Math.log10(applied(trial, name)));
  return values.length ? [Math.min(...values) - 0.15, Math.max(...values) + 0.15] : undefined;
}

/** One trace draws one symbol: a thousand points with a symbol each take Plotly a second. */
function cloud(rows, symbol, size, suffix, reach, colours) {
  return {
    type: "scatter", mode: "markers", xaxis: `x${suffix}`, yaxis: `y${suffix}`,
    x: rows.map((trial) => applied(trial, X)), y: rows.map((trial) => applied(trial, Y)), customdata: rows.map((trial) => trial.number),
    text: rows.map((trial) => `Trial ${trial.number}: ${trial.state === "infeasible" ? trial.failure_class ?? "infeasible" : trial.score ? gain(trial.score.value) : trial.state}`), hovertemplate: "%{text}<br>%{x} sequences, %{y} tokens<extra></extra>",
    marker: {
      size, symbol, color: rows.map((trial) => trial.state === "infeasible" ? -reach : trial.score?.value ?? 0), cmin: -reach, cmax: reach,
      colorscale: [[0, colours.bad], [0.5, colours.faint], [1, colours.good]],
      colorbar: { title: { text: "score (ln)", side: "right" }, thickness: 12, outlinewidth: 0 }, line: { width: 1, color: colours.surface },
    },
  };
}
