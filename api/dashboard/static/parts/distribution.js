// How the requests of one measurement were spread over TTFT and TPOT, beside the baseline's.

import { get } from "../api.js";
import { chartPlace, draw, palette } from "../charts.js";
import { fill, h } from "../dom.js";
import { quantity } from "../format.js";

const KINDS = [["ttft_ms", "TTFT"], ["tpot_ms", "TPOT"]];

/** Fills `place` from the records of `own` and, where given, `baseline`: {path, attempt}. */
export async function distributionCard(place, { own, baseline, latency, slo }) {
  const asked = (one) => (one ? get(`${one.path}/distribution${one.attempt === null ? "" : `?attempt=${one.attempt}`}`).catch(() => null) : null);
  const [found, before] = await Promise.all([asked(own), asked(baseline)]);
  const charts = KINDS.map(([name, words]) => ({ name, words, element: chartPlace(`Requests by ${words}, in shares of a hundred; percentiles stand in the table above`, "chart-small") }));
  const known = KINDS.some(([name]) => found?.[name]?.counts.length);
  fill(place, h("section", { class: "card stack", "aria-labelledby": "spread-title" }, h("h2", { id: "spread-title" }, "How requests were spread"),
    known ? h("div", { class: "grid" }, charts.map(({ element }) => h("div", { class: "span-6" }, element))) : charts.map(({ element }) => element).slice(0, 1),
    h("p", { class: "muted small" }, known ? words(found, before) : "The requests' records are not kept for this trial; these are the stored percentiles.")));
  if (!known) return draw(charts[0].element, () => percentiles(latency));
  return Promise.all(charts.map(({ name, words: title, element }) => draw(element, () => figure(title, found[name], before?.[name], latency[name], slo[name]))));
}

function words(found, before) {
  const silent = found.ttft_ms?.without ?? 0;
  return `Of the requests that were due in the measured window${before ? ", the baseline's as a dashed line" : ""}. ${silent ? `${silent} had no first token. ` : ""}The dotted line is the 95th percentile.`;
}

/** Shares rather than counts: the two may have had different numbers of requests. */
function steps(histogram) {
  const total = histogram.counts.reduce((sum, count) => sum + count, 0) + histogram.without;
  return { x: histogram.edges_ms, y: [...histogram.counts.map((count) => 100 * count / total), 0] };
}

function figure(title, own, before, summary, limit) {
  const colours = palette();
  const traces = [];
  if (own?.counts.length) traces.push({ type: "scatter", mode: "lines", name: "this trial", ...steps(own), fill: "tozeroy", line: { shape: "hv", color: colours.accent, width: 1.5 }, hovertemplate: "%{y:.1f} % from %{x:.3g} ms<extra>this trial</extra>" });
  if (before?.counts.length) traces.push({ type: "scatter", mode: "lines", name: "baseline", ...steps(before), line: { shape: "hv", color: colours.muted, width: 1.5, dash: "dash" }, hovertemplate: "%{y:.1f} % from %{x:.3g} ms<extra>baseline</extra>" });
  const lines = [[summary?.p95.value, "p95", colours.text, "dot"], [limit, "SLO", colours.warn, "dash"]].filter(([at]) => at);
  return {
    traces,
    layout: {
      xaxis: { type: "log", title: `${title} (ms)`, dtick: 1, minor: { ticks: "outside", ticklen: 3, tickcolor: colours.line } }, yaxis: { title: "requests (%)", rangemode: "tozero" }, showlegend: traces.length > 1,
      shapes: lines.map(([at, , color, dash]) => ({ type: "line", xref: "x", yref: "paper", x0: at, x1: at, y0: 0, y1: 1, line: { color, width: 1.5, dash } })),
      annotations: lines.map(([at, name, color], i) => ({ xref: "x", yref: "paper", x: Math.log10(at), y: 1 - 0.12 * i, text: `${name} ${quantity(at, "ms")}`, showarrow: false, xanchor: "left", xshift: 4, yanchor: "top", font: { color, size: 12 }, bgcolor: colours.surface })),
      margin: { l: 52, r: 12, t: 8, b: 44 }, legend: { orientation: "h", y: -0.32, font: { color: colours.muted, size: 12 } },
    },
  };
}

function percentiles(latency) {
  const colours = palette();
  const names = ["p50", "p90", "p95", "p99", "max"];
  const trace = (found, name, i, yaxis) => found ? [{ type: "scatter", mode: "lines+markers", name, yaxis, x: names, y: names.map((key) => found[key].value), line: { color: colours.series[i], width: 2, dash: i ? "dot" : "solid" }, marker: { symbol: i ? "diamond" : "circle", size: 8 } }] : [];
  return { traces: [...trace(latency.ttft_ms, "TTFT", 0, "y"), ...trace(latency.tpot_ms, "TPOT (right axis)", 1, "y2")], layout: { xaxis: { type: "category" }, yaxis: { title: "TTFT (ms)", rangemode: "tozero" }, yaxis2: { title: "TPOT (ms)", overlaying: "y", side: "right", rangemode: "tozero", showgrid: false }, margin: { l: 60, r: 60, t: 8, b: 40 } } };
}
