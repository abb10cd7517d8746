// A trace of real requests: uploaded, described, and drawn before anything is measured with it.

import { post } from "../api.js";
import { chartPlace, draw, palette } from "../charts.js";
import { facts, fill, h } from "../dom.js";
import { duration, quantity } from "../format.js";
import { faultList, notice } from "./notices.js";

/** A chooser; `onUploaded(upload | null)` hears of the trace that stands. */
export function traceUpload(onUploaded) {
  const said = h("div", { "aria-live": "polite", class: "stack" });
  const input = h("input", { type: "file", id: "trace-file", accept: ".csv,.jsonl,.json", onchange: upload });

  async function upload() {
    const file = input.files[0];
    if (!file) return;
    fill(said, h("p", { class: "muted" }, `Uploading ${file.name} …`));
    try {
      const stored = await post(`uploads?name=${encodeURIComponent(file.name)}`, file.slice(0, file.size, "text/csv"));
      fill(said, described(stored));
      onUploaded(stored);
    } catch (error) {
      onUploaded(null);
      fill(said, notice("bad", "The trace cannot be used", error.message, error.faults?.length ? faultList(error.faults) : ""));
    }
  }

  return h("div", { class: "stack" }, h("div", { class: "field" }, h("label", { for: "trace-file" }, "Trace of requests"), input, h("p", { class: "hint" }, "Azure, BurstGPT or Vidur CSV, Mooncake or ServeTune JSONL, ShareGPT JSON; told apart by their beginning. Lengths and times are enough: no prompt is needed, and none is sent to the engine.")), said);
}

function described(stored) {
  const found = stored.description;
  const lengths = chartPlace("Histogram of prompt and output lengths", "chart-small");
  const arrivals = chartPlace("Requests over time", "chart-small");
  if (found.histograms) {
    draw(lengths, () => lengthFigure(found.histograms));
    if (found.histograms.arrivals) draw(arrivals, () => arrivalFigure(found.histograms));
  }
  return h("div", { class: "stack" }, notice("good", stored.name, spanOf(found), ...(found.notes ?? []).map((note) => h("p", {}, note))),
    facts([["Prompt tokens, p50 / p90 / p99", spread(found.prompt_tokens)], ["Output tokens, p50 / p90 / p99", spread(found.output_tokens)], ["Burstiness", found.rate_per_s ? `${quantity(found.gap_variation)} (1 is a Poisson process, more is burstier)` : "no times were recorded"],
      ["Prompt tokens that begin as an earlier prompt", `${quantity(100 * (found.prefix_share ?? 0))} %`], ...conversationFacts(found.conversations)]),
    found.histograms ? h("div", { class: "grid" }, h("div", { class: "span-6" }, lengths), found.histograms.arrivals ? h("div", { class: "span-6" }, arrivals) : null) : null);
}

function spanOf(found) {
  const requests = `${quantity(found.requests)} requests`;
  return found.rate_per_s ? `${requests} over ${duration(found.duration_s)}, ${quantity(found.rate_per_s)} per second on average.` : `${requests}, lengths only.`;
}

function conversationFacts(found) {
  return found ? [["Conversations", `${quantity(found.count)}, of ${quantity(found.turns_mean)} turns on average`]] : [];
}

function spread(found) {
  return `${quantity(found.p50)} / ${quantity(found.p90)} / ${quantity(found.p99)}, longest ${quantity(found.max)}`;
}

function lengthFigure(histograms) {
  const colours = palette();
  const bars = (found, name, i) => ({ type: "bar", name, x: found.edges.slice(0, -1).map((edge, k) => Math.sqrt(Math.max(edge, 1) * found.edges[k + 1])), width: found.edges.slice(0, -1).map((edge, k) => found.edges[k + 1] - edge), y: found.counts, opacity: 0.65, marker: { color: colours.series[i] } });
  return { traces: [bars(histograms.prompt_tokens, "prompt tokens", 0), bars(histograms.output_tokens, "output tokens", 1)], layout: { barmode: "overlay", xaxis: { type: "log", title: "tokens" }, yaxis: { title: "requests" }, margin: { l: 56, r: 10, t: 8, b: 44 } } };
}

function arrivalFigure(histograms) {
  const colours = palette();
  const found = histograms.arrivals;
  return { traces: [{ type: "scatter", mode: "lines", line: { shape: "hv", color: colours.accent }, x: found.edges.slice(0, -1), y: found.counts }], layout: { xaxis: { title: "seconds from the first request" }, yaxis: { title: "requests", rangemode: "tozero" }, margin: { l: 56, r: 10, t: 8, b: 44 } } };
}
