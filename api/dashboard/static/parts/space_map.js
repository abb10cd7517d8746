// Where in the space trials were made, and how they fared: sequences against token budget.

import { chartPlace, colourBar, draw, narrow, palette } from "../charts.js";
import { h } from "../dom.js";
import { gain } from "../format.js";
import { infeasibleGroups } from "./failures.js";
import { applied } from "./quantities.js";

const X = "max-num-seqs";
const Y = "max-num-batched-tokens";
const POWERS = [1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144];
const FACET = "enable-chunked-prefill";

const BASELINE = (trial) => trial.number === 0;
const OTHERS = ["complete", "pruned", "infeasible"];
const RAN = [
  ["baseline", "square", 14, BASELINE],
  ["measured", "circle", 11, (trial) => !BASELINE(trial) && trial.state === "complete"],
  ["cut short", "triangle-up", 11, (trial) => !BASELINE(trial) && trial.state === "pruned"],
  ["not measured", "circle-open", 11, (trial) => !BASELINE(trial) && !OTHERS.includes(trial.state)],
];

export function spaceMapCard(reference, trials) {
  const place = chartPlace("Configurations tried: max-num-seqs against max-num-batched-tokens, by outcome and score; the list of trials holds the same", "chart-tall chart-facets");
  async function show() {
    const element = await draw(place, () => figure(trials(), narrow(place)));
    element.removeAllListeners?.("plotly_click");
    element.on?.("plotly_click", (click) => location.assign(`/studies/${encodeURIComponent(reference)}/trials/${click.points[0].customdata}`));
  }
  return { card: h("section", { class: "card", "aria-labelledby": "space-title" }, h("h2", { id: "space-title" }, "Configuration space"), place,
    h("p", { class: "muted small" }, "Each mark is a configuration that was tried; its shape says what became of it, its colour how it compares with the baseline.")), show };
}

function figure(all, stacked) {
  const colours = palette();
  const shown = all.filter((trial) => applied(trial, X) !== null && applied(trial, Y) !== null);
  const facets = [true, false].map((chunked) => shown.filter((trial) => (applied(trial, FACET) ?? true) === chunked));
  const used = facets.map((rows, i) => [rows, i === 0 ? "chunked prefill on" : "chunked prefill off"]).filter(([rows]) => rows.length);
  const scores = shown.map(gained).filter((value) => value !== null);
  const reach = scores.length ? Math.max(...scores.map(Math.abs), 1) : 1;
  const failures = infeasibleGroups(shown);
  const traces = [];
  const annotations = [];
  const count = Math.max(used.length, 1);
  const grid = stacked ? { rows: count, columns: 1, ygap: 0.3 } : { rows: 1, columns: count };
  const layout = { grid: { ...grid, pattern: "independent" }, legend: { orientation: "h", y: -0.18, font: { color: colours.muted, size: 12 } } };
  used.forEach(([rows, title], i) => {
    const suffix = i === 0 ? "" : String(i + 1);
    const ran = RAN.map(([name, symbol, size, holds]) => cloud(rows.filter(holds), name, symbol, size, suffix, reach, colours));
    const failed = failures.map((group) => crosses(rows.filter((trial) => trial.state === "infeasible" && group.trials.includes(trial)), group, suffix, colours));
    const clouds = [...ran, ...failed].filter((trace) => trace.x.length);
    const scored = ran.find((trace) => trace.x.length);
    if (i === used.length - 1 && scored) scored.marker.showscale = true;
    for (const trace of clouds) trace.showlegend = !traces.some((other) => other.name === trace.name);
    traces.push(...clouds);
    layout[`xaxis${suffix}`] = { type: "log", title: stacked && i < used.length - 1 ? "" : X, tickvals: POWERS, tickformat: "d", range: span(shown, X) };
    layout[`yaxis${suffix}`] = { type: "log", title: stacked || i === 0 ? Y : "", tickvals: POWERS, tickformat: "d", range: span(shown, Y), showticklabels: stacked || i === 0 };
    annotations.push({ text: title, xref: `x${suffix} domain`, yref: `y${suffix} domain`, x: 0.5, y: 1.02, showarrow: false, yanchor: "bottom", font: { color: colours.muted } });
  });
  return { traces, layout: { ...layout, annotations, margin: { t: 34, l: 66, r: 20, b: 48 } } };
}

/** Percent against the baseline; null where there is no score. */
function gained(trial) {
  const value = trial.score?.value ?? null;
  return value === null ? null : 100 * Math.expm1(value);
}

/** Both facets show the same range, as exponents of ten, with a little room. */
function span(trials, name) {
  const values = trials.map((trial) => Math.log10(applied(trial, name)));
  return values.length ? [Math.min(...values) - 0.15, Math.max(...values) + 0.15] : undefined;
}

/** One trace draws one symbol: a thousand points with a symbol each take Plotly a second. */
function cloud(rows, name, symbol, size, suffix, reach, colours) {
  return {
    ...placed(rows, name, suffix), text: rows.map((trial) => `Trial ${trial.number}: ${trial.score ? gain(trial.score.value) : trial.state}`),
    marker: {
      size, symbol, color: rows.map((trial) => gained(trial) ?? 0), cmin: -reach, cmax: reach,
      colorscale: [[0, colours.bad], [0.5, colours.faint], [1, colours.good]],
      colorbar: colourBar("against the baseline (%)"), line: { width: 1, color: colours.surface },
    },
  };
}

function crosses(rows, group, suffix, colours) {
  return { ...placed(rows, group.name, suffix), text: rows.map((trial) => `Trial ${trial.number} could not run: ${group.words}`), marker: { size: 10, symbol: group.symbol, color: colours.bad, line: { width: 1, color: colours.surface } } };
}

function placed(rows, name, suffix) {
  return {
    type: "scatter", mode: "markers", name, legendgroup: name, xaxis: `x${suffix}`, yaxis: `y${suffix}`,
    x: rows.map((trial) => applied(trial, X)), y: rows.map((trial) => applied(trial, Y)), customdata: rows.map((trial) => trial.number),
    hovertemplate: "%{text}<br>%{x} sequences, %{y} tokens<extra></extra>",
  };
}
