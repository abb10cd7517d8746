// The front of trade-offs: any two quantities, a third as colour, SLO limits as lines to drag.

import { get, studyPath } from "../api.js";
import { chartPlace, colourBar, draw, MOST_BARS, narrow, palette } from "../charts.js";
import { fill, h, table } from "../dom.js";
import { percent, quantity, reading } from "../format.js";
import { failureWords, infeasibleGroups } from "./failures.js";
import { AXES, LOWER_IS_BETTER, label } from "./quantities.js";

const NONE = "none";

/**
 * A card with the front of `reference`. `marks()` gives {baseline, incumbent, recommended};
 * `trials()` all trial lines; `onSlo({ttft_ms, tpot_ms})` hears of dragged limits.
 */
export function frontCard(reference, { trials, marks, slo, onSlo }) {
  const choice = { x: "ttft_p95_ms", y: "output_tokens_per_s", colour: "tpot_p95_ms", log: true };
  const place = chartPlace("Front of trade-offs between the chosen quantities; the table below holds the same points", "chart-tall chart-facets");
  const list = h("div", {});
  const limits = { ...slo };
  const setSlo = (changed) => { Object.assign(limits, { ttft_ms: null, tpot_ms: null }, changed); if (points.length) show(); };
  let points = [];
  let edge = new Set();

  /** The front of all shown quantities, and for the line that of the two axes alone. */
  async function load() {
    const front = (...names) => get(`${studyPath(reference, "pareto")}?axes=${[...new Set(names)].join(",")}`);
    const plane = choice.x === choice.y ? null : front(choice.x, choice.y);
    const found = choice.colour === NONE ? await plane : await front(choice.x, choice.y, choice.colour);
    points = found?.points ?? [];
    edge = new Set(((await plane)?.points ?? []).filter((point) => point.on_front).map((point) => point.trial));
    await show();
  }

  async function show() {
    if (whole.open) tell();
    const element = await draw(place, () => figure(points, edge, choice, trials(), marks(), limits, narrow(place)));
    element.removeAllListeners?.("plotly_relayout");
    element.on?.("plotly_relayout", (change) => dragged(change, choice, limits, onSlo));
    element.removeAllListeners?.("plotly_click");
    element.on?.("plotly_click", (click) => {
      const trial = click.points[0]?.customdata;
      if (trial !== undefined) location.assign(`/studies/${encodeURIComponent(reference)}/trials/${trial}`);
    });
  }

  /** A table of a thousand points is made for those who open it. */
  const tell = () => fill(list, pointsTable(points, choice, trials(), marks()));
  const whole = h("details", { ontoggle: () => { if (whole.open) tell(); } }, h("summary", {}, "The same as a table"), list);
  const pick = (name, words, options) => {
    const select = h("select", { id: `front-${name}`, onchange: () => { choice[name] = select.value; load(); } },
      options.map((option) => h("option", { value: option, selected: option === choice[name] }, option === NONE ? "nothing" : label(option))));
    return h("div", { class: "field" }, h("label", { for: `front-${name}` }, words), select);
  };
  const log = h("input", { type: "checkbox", checked: true, onchange: () => { choice.log = log.checked; show(); } });
  const card = h("section", { class: "card stack", "aria-labelledby": "front-title" },
    h("h2", { id: "front-title" }, "Trade-offs"),
    h("div", { class: "fields" }, pick("x", "Across", AXES), pick("y", "Up", AXES), pick("colour", "Colour", [NONE, ...AXES])),
    h("div", { class: "row" }, h("label", { class: "inline" }, log, "Logarithmic axes"),
      h("span", { class: "muted small" }, "Bars are 90 % intervals (of many points, those on the front); throughput is that of the saturated engine. Drag a dashed line to move an SLO limit, or type it beside the weights.")),
    place, whole);
  return { card, load, show, setSlo };
}

function figure(points, edge, choice, trials, marks, limits, small) {
  const colours = palette();
  const busy = new Map(trials.filter((trial) => typeof trial.summary?.gpu_utilization === "number").map((trial) => [trial.number, trial.summary.gpu_utilization]));
  const known = points.filter((point) => point.values[choice.x] && point.values[choice.y]);
  const best = known.filter((point) => point.on_front);
  const rest = known.filter((point) => !point.on_front);
  const special = [[marks.baseline, "baseline", "square", colours.text], [marks.incumbent, "best so far", "diamond", colours.accent], [marks.recommended, "recommended", "star", colours.good]];
  const traces = [
    markers(rest, choice, "dominated", { color: colours.faint, size: 8, symbol: "circle-open" }, colours, busy, rest.length <= MOST_BARS),
    line(known.filter((point) => edge.has(point.trial)), choice, colours),
    markers(best, choice, "on the front", colourOf(best, choice, colours), colours, busy),
    ...special.filter(([number]) => number !== null && number !== undefined).map(([number, name, symbol, colour]) =>
      markers(known.filter((point) => point.trial === number), choice, name, { color: colour, size: 19, symbol: `${symbol}-open`, line: { width: 2.5, color: colour } }, colours, busy, false)),
    ...infeasible(known, trials, choice, colours),
  ].filter((trace) => trace !== null && trace.x.length > 0);
  return { traces, layout: layout(choice, limits, colours, small), config: { edits: { shapePosition: true } } };
}

function layout(choice, limits, colours, small) {
  const type = choice.log ? "log" : "linear";
  const shapes = [];
  const annotations = [];
  for (const [axis, name] of [["x", choice.x], ["y", choice.y]]) {
    const limit = name.startsWith("ttft_") ? limits.ttft_ms : name.startsWith("tpot_") ? limits.tpot_ms : null;
    if (!limit) continue;
    const across = axis === "x";
    shapes.push({ name, type: "line", xref: across ? "x" : "paper", yref: across ? "paper" : "y", x0: across ? limit : 0, x1: across ? limit : 1, y0: across ? 0 : limit, y1: across ? 1 : limit, line: { color: colours.warn, width: 2, dash: "dash" } });
    const at = choice.log ? Math.log10(limit) : limit;
    annotations.push({ xref: across ? "x" : "paper", yref: across ? "paper" : "y", x: across ? at : 1, y: across ? 1 : at, text: `SLO ${quantity(limit)} ms`, showarrow: false, font: { color: colours.warn }, xanchor: "right", yanchor: "bottom" });
  }
  const legend = { orientation: "h", y: small ? -0.42 : -0.22, font: { color: colours.muted } };
  return { legend, xaxis: { type, title: label(choice.x), nticks: small ? 4 : undefined }, yaxis: { type, title: label(choice.y) }, shapes, annotations, hovermode: "closest" };
}

function markers(points, choice, name, marker, colours, busy, bars = true) {
  return {
    type: "scatter", mode: "markers", name, marker,
    x: points.map((point) => point.values[choice.x].value), y: points.map((point) => point.values[choice.y].value),
    error_x: bars ? errors(points, choice.x, colours) : undefined, error_y: bars ? errors(points, choice.y, colours) : undefined,
    customdata: points.map((point) => point.trial),
    text: points.map((point) => hover(point, choice, busy.get(point.trial))), hovertemplate: "%{text}<extra></extra>",
  };
}

function hover(point, choice, busy) {
  const names = [...new Set([choice.x, choice.y, ...(choice.colour === NONE ? [] : [choice.colour])])];
  return [`Trial ${point.trial}`, ...names.map((name) => `${label(name)}: ${reading(point.values[name])}`), ...(busy === undefined ? [] : [`GPU busy: ${percent(busy)}`])].join("<br>");
}

function errors(points, name, colours) {
  const readings = points.map((point) => point.values[name]);
  if (!readings.some((found) => found.high !== null)) return undefined;
  return { type: "data", symmetric: false, array: readings.map((found) => (found.high ?? found.value) - found.value), arrayminus: readings.map((found) => found.value - (found.low ?? found.value)), color: colours.faint, thickness: 1, width: 3 };
}

function line(points, choice, colours) {
  const sorted = [...points].sort((a, b) => a.values[choice.x].value - b.values[choice.x].value);
  return { type: "scatter", mode: "lines", name: "front of the two axes", hoverinfo: "skip", line: { color: colours.accent, width: 1.5, dash: "dot" }, x: sorted.map((point) => point.values[choice.x].value), y: sorted.map((point) => point.values[choice.y].value) };
}

function colourOf(points, choice, colours) {
  const values = choice.colour === NONE ? null : points.map((point) => point.values[choice.colour]?.value ?? null);
  if (!values || !values.some((value) => value !== null)) return { color: colours.accent, size: 10 };
  return { color: values, size: 11, colorscale: colours.scale, reversescale: !LOWER_IS_BETTER(choice.colour), showscale: true, line: { width: 1, color: colours.surface }, colorbar: colourBar(label(choice.colour)) };
}

/** Trials that could not run have no place on these axes: they stand along the lower edge, by class. */
function infeasible(known, trials, choice, colours) {
  const groups = infeasibleGroups(trials);
  if (!groups.length || !known.length) return [];
  const count = groups.reduce((sum, group) => sum + group.trials.length, 0);
  const xs = known.map((point) => point.values[choice.x].value);
  const bottom = Math.min(...known.map((point) => point.values[choice.y].value));
  const [low, high] = [Math.min(...xs), Math.max(...xs)];
  const place = (i) => choice.log ? low * (high / low || 1) ** ((i + 0.5) / count) : low + (high - low) * (i + 0.5) / count;
  let next = 0;
  return groups.map((group) => ({
    type: "scatter", mode: "markers", name: group.name, marker: { symbol: group.symbol, size: 9, color: colours.bad },
    x: group.trials.map(() => place(next++)), y: group.trials.map(() => bottom * (choice.log ? 0.92 : 0.96)), customdata: group.trials.map((trial) => trial.number),
    text: group.trials.map((trial) => `Trial ${trial.number} could not run: ${group.words}<br>Its place means nothing: it has no latency.`), hovertemplate: "%{text}<extra></extra>",
  }));
}

/** A dragged line tells its new place under keys such as `shapes[0].x0`. */
function dragged(change, choice, limits, onSlo) {
  for (const [key, value] of Object.entries(change)) {
    const match = /^shapes\[(\d+)\]\.([xy])0$/.exec(key);
    if (!match || !(value > 0)) continue;
    const name = match[2] === "x" ? choice.x : choice.y;
    if (name.startsWith("ttft_")) limits.ttft_ms = value;
    else if (name.startsWith("tpot_")) limits.tpot_ms = value;
    else continue;
    onSlo({ ...limits });
    return;
  }
}

function pointsTable(points, choice, trials, marks) {
  const names = [...new Set([choice.x, choice.y, ...(choice.colour === NONE ? [] : [choice.colour])])];
  const role = (number) => [number === marks.recommended ? "recommended" : null, number === marks.incumbent ? "best so far" : null, number === marks.baseline ? "baseline" : null].filter(Boolean).join(", ");
  const failed = trials.filter((trial) => trial.state === "infeasible").map((trial) => ({ trial: trial.number, values: {}, on_front: false, failure: `could not run: ${failureWords(trial.failure_class)}` }));
  return table("Points of the chart", [
    { label: "Trial", render: (point) => String(point.trial) },
    { label: "", render: (point) => point.failure ?? [point.on_front ? "on the front" : "dominated", role(point.trial) ? `, ${role(point.trial)}` : ""].join("") },
    ...names.map((name) => ({ label: label(name), number: true, render: (point) => reading(point.values[name]) })),
  ], [...points, ...failed]);
}
