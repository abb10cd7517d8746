// What the engine is doing at this moment, with its curves as they arrive.

import { get, studyPath } from "../api.js";
import { chartPlace, draw, palette } from "../charts.js";
import { fill, h } from "../dom.js";
import { duration, flagValue } from "../format.js";
import { stateBadge } from "./badges.js";

const EVERY_MS = 2000;

export function liveCard(reference) {
  const card = h("section", { class: "card stack", "aria-labelledby": "live-title", hidden: true });
  const facts = h("div", { class: "row" });
  const kv = chartPlace("KV cache usage, running and waiting requests over the last minutes", "chart-small");
  const latency = chartPlace("Time to first token as requests complete", "chart-small");
  fill(card, h("h2", { id: "live-title" }, "Running now"), facts, h("div", { class: "grid" }, h("div", { class: "span-6" }, kv), h("div", { class: "span-6" }, latency)));
  let timer = null;

  async function load() {
    clearTimeout(timer);
    let found = null;
    try {
      found = await get(studyPath(reference, "live"));
    } catch {
      // The connection banner tells; the next turn asks again.
    }
    card.hidden = !found?.trial_state;
    if (!card.hidden) await show(found);
    if (card.isConnected) timer = setTimeout(load, EVERY_MS);
  }

  async function show(found) {
    const load = found.load;
    fill(facts, h("strong", {}, `Trial ${found.trial_number}`), stateBadge(found.trial_state),
      ...Object.entries(found.flags ?? {}).map(([name, value]) => h("code", { class: "small" }, `--${name} ${flagValue(value)}`)),
      load ? h("span", { class: "muted" }, `${load.segment}: ${duration(load.elapsed_s)} of ${duration(load.total_s)}, ${load.completed} done, ${load.in_flight} in flight${load.failed ? `, ${load.failed} failed` : ""}`) : null);
    await Promise.all([draw(kv, () => usage(found.series ?? [])), draw(latency, () => firstTokens(found.series ?? []))]);
  }

  return { card, load };
}

function usage(series) {
  const colours = palette();
  const at = series.map((point) => point.at_s);
  return {
    traces: [
      { type: "scatter", mode: "lines", name: "KV cache used (%)", x: at, y: series.map((p) => p.kv_usage === null ? null : 100 * p.kv_usage), line: { color: colours.series[0], width: 2 } },
      { type: "scatter", mode: "lines", name: "running", yaxis: "y2", x: at, y: series.map((p) => p.running), line: { color: colours.series[2], width: 1.5 } },
      { type: "scatter", mode: "lines", name: "waiting", yaxis: "y2", x: at, y: series.map((p) => p.waiting), line: { color: colours.series[1], width: 1.5, dash: "dot" } },
    ],
    layout: { xaxis: { title: "engine seconds" }, yaxis: { title: "KV cache (%)", range: [0, 105] }, yaxis2: { title: "requests", overlaying: "y", side: "right", rangemode: "tozero", showgrid: false }, margin: { l: 54, r: 54, t: 8, b: 44 } },
  };
}

function firstTokens(series) {
  const colours = palette();
  const known = series.filter((point) => point.ttft_mean_ms !== null && point.ttft_mean_ms !== undefined);
  return {
    traces: [{ type: "scatter", mode: "lines+markers", name: "TTFT (mean since the last look)", x: known.map((p) => p.at_s), y: known.map((p) => p.ttft_mean_ms), line: { color: colours.accent, width: 2 }, marker: { size: 5 } }],
    layout: { xaxis: { title: "engine seconds" }, yaxis: { title: "TTFT (ms)", rangemode: "tozero" }, margin: { l: 60, r: 10, t: 8, b: 44 }, annotations: known.length ? [] : [{ text: "no first token yet", showarrow: false, xref: "paper", yref: "paper", x: 0.5, y: 0.5, font: { color: colours.muted } }] },
  };
}

