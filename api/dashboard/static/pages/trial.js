// One trial: what differed, what was measured and how surely, what bound it, and what the engine said.

import { get, studyPath, text } from "../api.js";
import { chartPlace, draw, palette } from "../charts.js";
import { facts, fill, h, table } from "../dom.js";
import { DASH, duration, flagValue, gain, moment, percent, quantity, reading } from "../format.js";
import { trialBadge } from "../parts/badges.js";
import { distributionCard } from "../parts/distribution.js";
import { failureWords } from "../parts/failures.js";
import { notice } from "../parts/notices.js";
import { applied, flagNames } from "../parts/quantities.js";

const LOG_LINES = 400;
const FEWEST_LETTERS = 8;

export async function show(main, context) {
  const path = studyPath(context.study, "trials", context.trial);
  const [study, trial, baseline, measured] = await Promise.all([
    get(studyPath(context.study)), get(path), get(studyPath(context.study, "trials", 0)), get(`${path}/measurement`),
  ]);
  context.simulated(study.simulated);
  document.title = `Trial ${trial.number} · ${study.reference} · ServeTune`;
  const scored = measured.items.find((item) => item.valid && item.purpose === "search") ?? null;
  const measurement = scored?.measurement ?? null;
  const curves = h("div", {});
  const tails = h("div", {});
  const log = h("div", {});
  fill(main, h("div", { class: "stack" }, head(study, trial), failure(trial), score(trial),
    h("div", { class: "grid" },
      h("div", { class: "span-5 stack" }, configuration(trial, baseline), measurement ? validity(measurement) : null),
      h("div", { class: "span-7" }, measurement ? quantities(scored) : nothingMeasured(trial)),
      measurement ? h("div", { class: "span-7" }, tails) : null,
      measurement ? h("div", { class: "span-5" }, classes(measurement)) : null,
      measurement ? h("div", { class: "span-12" }, curves) : null,
      h("div", { class: "span-12" }, attempts(trial))),
    log));
  const read = engineLog(log, path, trial, scored?.ordinal).catch(() => fill(log));
  if (measurement) {
    const before = trial.number === 0 ? null : { path: studyPath(context.study, "trials", 0), attempt: scoredAttempt(baseline) };
    const slo = study.document.objective?.slo ?? {};
    await distributionCard(tails, { own: { path, attempt: scored.ordinal }, baseline: before, latency: measurement.latency, slo }).catch(() => fill(tails));
    await series(curves, `${path}/series?attempt=${scored.ordinal}`).catch(() => fill(curves, noCurves()));
  }
  await read;
}

function head(study, trial) {
  const to = `/studies/${encodeURIComponent(study.reference)}`;
  return h("div", { class: "row row-spread" },
    h("div", {}, h("div", { class: "crumbs" }, h("a", { href: "/" }, "Studies"), " / ", h("a", { href: to }, study.reference), " / "),
      h("div", { class: "row" }, h("h1", {}, trial.number === 0 ? "Baseline (trial 0)" : `Trial ${trial.number}`), trialBadge(trial.state, study.state), h("span", { class: "muted" }, `proposed by ${trial.origin.replaceAll("_", " ")}${trial.requested_by ? `, asked for by ${trial.requested_by}` : ""}`))),
    h("div", { class: "row" }, trial.number === 0 ? null : h("a", { class: "button", href: `${to}/compare?trials=0,${trial.number}` }, "Compare with the baseline")));
}

function failure(trial) {
  const found = trial.diagnosis;
  if (!found) return null;
  return notice(trial.state === "infeasible" ? "warn" : "bad", found.summary, h("p", {}, `${failureWords(found.class)} (`, h("code", {}, found.class), `), in phase ${found.phase.replaceAll("_", " ")}.`),
    found.evidence?.length ? h("pre", { class: "log" }, found.evidence.join("\n")) : null,
    found.remedies?.length ? h("div", {}, h("strong", {}, "What to change"), h("ul", {}, found.remedies.map((remedy) => h("li", {}, `${remedy.knob}: ${remedy.direction}${remedy.value ? ` (${remedy.value})` : ""}`)))) : null);
}

function score(trial) {
  const found = trial.score;
  if (!found) return null;
  const interval = found.low === null || found.low === undefined ? "" : ` (90 % interval ${gain(found.low)} to ${gain(found.high)})`;
  return h("section", { class: "card stack", "aria-labelledby": "score-title" }, h("h2", { id: "score-title" }, "Score"),
    h("p", { class: "figure-value" }, found.value === null ? "Could not be scored" : `${gain(found.value)} against the baseline${interval}`),
    found.missing?.length ? notice("warn", null, `Not measured: ${found.missing.join(", ")}.`) : null,
    found.terms?.length ? table("Terms of the score", [
      { label: "Metric", render: (term) => term.metric.replace(/^([a-z0-9]+)_(p\d+)$/, (_, name, at) => `${name.toUpperCase()} ${at} (ms)`) },
      { label: "Weight", number: true, render: (term) => percent(term.weight) },
      { label: "Baseline", number: true, render: (term) => quantity(term.baseline) },
      { label: "This trial", number: true, render: (term) => quantity(term.value) },
      { label: "Improvement", number: true, render: (term) => `× ${quantity(term.improvement)}` },
      { label: "Adds", number: true, render: (term) => quantity(term.contribution) },
    ], found.terms) : null,
    found.penalty ? h("p", { class: "muted" }, `Preemptions take ${quantity(found.penalty)} off.`) : null);
}

function configuration(trial, baseline) {
  const names = flagNames([trial, baseline]);
  return h("section", { class: "card", "aria-labelledby": "config-title" }, h("h2", { id: "config-title" }, trial.number === 0 ? "Configuration" : "Configuration against the baseline"),
    table("Flags", [
      { label: "Flag", render: (name) => h("code", {}, `--${name}`) },
      trial.number === 0 ? null : { label: "Baseline", number: true, render: (name) => flagValue(applied(baseline, name)) },
      { label: trial.number === 0 ? "Value" : "This trial", number: true, render: (name) => {
        const differs = trial.number !== 0 && String(applied(trial, name)) !== String(applied(baseline, name));
        return h("span", { class: differs ? "diff-change" : null }, differs ? "≠ " : "", flagValue(applied(trial, name)));
      } },
    ].filter(Boolean), names),
    trial.summary?.kv_cache_tokens ? h("p", { class: "muted small" }, `KV cache of ${quantity(trial.summary.kv_cache_tokens)} tokens, as the engine reported.`) : null);
}

function nothingMeasured(trial) {
  return h("section", { class: "card empty" }, h("h2", {}, "Nothing was measured"), h("p", {}, trial.infeasibility?.reason ?? trial.score?.abort?.reason ?? `The trial is ${trial.state}.`));
}

function quantities(scored) {
  const { latency, capacity } = scored.measurement;
  const rows = [["TTFT", latency.ttft_ms], ["TPOT", latency.tpot_ms], ["ITL", latency.itl_ms], ["End to end", latency.e2e_ms]].filter(([, found]) => found);
  const cell = (name) => ({ label: name, number: true, render: ([, found]) => [quantity(found[name].value), found[name].low === null ? null : h("div", { class: "small muted" }, `${quantity(found[name].low)}–${quantity(found[name].high)}`)] });
  return h("section", { class: "card stack", "aria-labelledby": "measured-title" }, h("h2", { id: "measured-title" }, "Measured"),
    table(`Latency at ${quantity(latency.offered_per_s)} requests/s, milliseconds with 90 % intervals`, [
      { label: "", render: ([name]) => name }, cell("mean"), cell("p50"), cell("p90"), cell("p95"), cell("p99"),
      { label: "n", number: true, render: ([, found]) => `${found.p50.n}${found.censored ? `, ${found.censored} cut` : ""}` },
    ], rows),
    facts([
      ["Throughput, saturated", `${reading(capacity.output_tokens_per_s, "tokens/s")} at concurrency ${capacity.concurrency}`],
      ["SLO attainment", latency.slo_attainment ? `${percent(latency.slo_attainment.value, 1)} (${percent(latency.slo_attainment.low, 1)}–${percent(latency.slo_attainment.high, 1)})` : "no SLO given"],
      ["Goodput", latency.goodput_per_s ? reading(latency.goodput_per_s, "requests/s") : "no SLO given"],
      ["GPU busy", `${percent(latency.gpu_utilization)} at the rate, ${percent(capacity.gpu_utilization)} saturated`],
      ["KV cache, peak", `${percent(latency.kv_usage_peak)} at the rate, ${percent(capacity.kv_usage_peak)} saturated`],
      ["Preemptions", `${latency.preemptions ?? DASH} at the rate, ${capacity.preemptions ?? DASH} saturated`],
      ["Requests", `${latency.requests.scheduled} due, ${latency.requests.completed} completed, ${latency.requests.failed} failed, ${latency.requests.unfinished} unfinished`],
    ]), bound(scored));
}

/** The service's verdicts, with the numbers they rest on; nothing is judged here. */
function bound({ bottleneck }) {
  const told = [["At the study's rate", bottleneck.latency], ["Saturated", bottleneck.capacity]];
  if (told.every(([, found]) => found.bound === "unknown")) return null;
  return notice("info", "What bound it", h("dl", { class: "facts" }, told.map(([when, found]) => [h("dt", {}, when), h("dd", {}, found.summary)])));
}

function classes({ latency }) {
  const rows = latency.by_prompt_length ?? [];
  return h("section", { class: "card" }, h("h2", {}, "By prompt length"), rows.length ? table("Latency by prompt length, milliseconds", [
    { label: "Prompts", render: (row) => `${row.name}, ${row.low_tokens}–${row.high_tokens} tokens` },
    { label: "n", number: true, render: (row) => String(row.requests) },
    { label: "TTFT p50", number: true, render: (row) => reading(row.ttft_ms?.p50) }, { label: "TTFT p95", number: true, render: (row) => reading(row.ttft_ms?.p95) },
    { label: "TPOT p95", number: true, render: (row) => reading(row.tpot_ms?.p95) },
  ], rows) : h("p", { class: "muted" }, "The prompts of this workload are too alike to be told apart."));
}

/** The start that the trial's score rests on; null where none was measured. */
function scoredAttempt(trial) {
  return trial.attempts.find((one) => one.purpose === "search" && one.valid)?.ordinal ?? null;
}

async function series(place, path) {
  const { points } = await get(path);
  if (!points.length) return fill(place, noCurves());
  const chart = chartPlace("KV cache usage, running and waiting requests and preemptions over the measurement");
  fill(place, h("section", { class: "card" }, h("h2", {}, "Over time"), chart));
  return draw(chart, () => {
    const colours = palette();
    const x = points.map((point) => point.at_s);
    return {
      traces: [
        { type: "scatter", mode: "lines", name: "KV cache (%)", x, y: points.map((p) => p.kv_usage === null ? null : 100 * p.kv_usage), line: { color: colours.series[0], width: 2 } },
        { type: "scatter", mode: "lines", name: "running", yaxis: "y2", x, y: points.map((p) => p.running), line: { color: colours.series[2] } },
        { type: "scatter", mode: "lines", name: "waiting", yaxis: "y2", x, y: points.map((p) => p.waiting), line: { color: colours.series[1], dash: "dot" } },
        { type: "scatter", mode: "lines", name: "preemptions so far", yaxis: "y2", x, y: points.map((p) => p.preemptions), line: { color: colours.series[4], shape: "hv" } },
      ],
      layout: { xaxis: { title: "seconds since the first look" }, yaxis: { title: "KV cache (%)", range: [0, 105] }, yaxis2: { title: "requests", overlaying: "y", side: "right", rangemode: "tozero", showgrid: false }, margin: { l: 56, r: 60, t: 8, b: 44 } },
    };
  });
}

function noCurves() {
  return h("section", { class: "card empty" }, h("h2", {}, "No curves"), h("p", {}, "The engine's metrics over time are not kept for this trial."));
}

function validity({ instrument, notes }) {
  return h("section", { class: "card stack" }, h("h2", {}, "Can the measurement be trusted?"),
    instrument.valid ? notice("good", null, "Valid: the instrument stayed within its limits.") : notice("bad", "Invalid, and not scored", ...instrument.reasons),
    facts([["Send lag p50 / p99", `${quantity(instrument.send_lag_p50_ms, "ms")} / ${quantity(instrument.send_lag_p99_ms, "ms")}`], ["Client's CPU", percent(instrument.client_cpu_share)], ["Longest stall of the client", quantity(instrument.loop_stall_max_ms, "ms")], ["Clock", instrument.clock],
      ["Tokens, client / server", `${quantity(instrument.client_output_tokens)} / ${quantity(instrument.server_output_tokens)}`], ["Prefix cache hits", percent(instrument.prefix_hit_rate, 1)]]),
    (notes ?? []).map((note) => h("p", { class: "muted" }, note)));
}

function attempts(trial) {
  return h("section", { class: "card" }, h("h2", {}, "Engine starts"), trial.attempts.length ? table("Engine starts of this trial", [
    { label: "Start", number: true, render: (one) => String(one.ordinal) }, { label: "Why", render: (one) => `${one.purpose.replaceAll("_", " ")}${one.round === null || one.round === undefined ? "" : `, round ${one.round + 1}`}` },
    { label: "Outcome", render: (one) => one.outcome }, { label: "Began", render: (one) => moment(one.started_at) },
    { label: "Took", number: true, render: (one) => one.ended_at ? duration((new Date(one.ended_at) - new Date(one.started_at)) / 1000) : DASH },
  ], trial.attempts) : h("p", { class: "muted" }, "The engine was not started for this trial."));
}

async function engineLog(place, path, trial, wanted) {
  const shownAttempt = trial.attempts.find((one) => one.ordinal === wanted) ?? trial.attempts.at(-1);
  const downloads = rawFiles(path, trial);
  if (!shownAttempt?.artifacts.includes("engine.log")) return fill(place, downloads ? h("section", { class: "card" }, downloads) : null);
  const lines = (await text(`${fileAddress(path, "engine.log", shownAttempt)}`)).split("\n");
  const deciding = (trial.diagnosis?.evidence ?? []).map(plain).filter((line) => line.length >= FEWEST_LETTERS);
  const marked = (line) => deciding.some((evidence) => plain(line).includes(evidence));
  const shown = lines.slice(-LOG_LINES);
  const found = shown.some(marked);
  const log = h("pre", { class: "log", tabindex: "0", "aria-label": "Engine log" }, shown.map((line) => [marked(line) ? h("mark", {}, `▶ ${line}`) : line, "\n"]));
  fill(place, h("section", { class: "card stack", "aria-labelledby": "log-title" }, h("h2", { id: "log-title" }, `Engine log of start ${shownAttempt.ordinal}`),
    found ? h("p", { class: "muted small" }, "The lines that decided are marked with ▶.") : null, log,
    lines.length > LOG_LINES ? h("p", { class: "muted small" }, `The last ${LOG_LINES} of ${lines.length} lines; the whole log is among the raw files.`) : null, downloads));
  const first = log.querySelector("mark");
  if (first) log.scrollTop = first.offsetTop - log.offsetTop - log.clientHeight / 2;
}

/** What two copies of a line have in common, whatever became of bytes that are no text. */
function plain(line) {
  return line.replaceAll(/[^ ->@-~]+/g, " ").trim();
}

/** The address of a file that an engine start left; what is in a folder keeps its path. */
function fileAddress(path, name, attempt) {
  return `/api/v1/${path}/artifacts/${name.split("/").map(encodeURIComponent).join("/")}?attempt=${attempt.ordinal}`;
}

function rawFiles(path, trial) {
  const starts = trial.attempts.filter((one) => one.artifacts.length);
  if (!starts.length) return null;
  return h("details", {}, h("summary", {}, "Raw files: logs, request records, metric series"), starts.map((one) => h("div", {}, h("h3", {}, `Start ${one.ordinal}, ${one.purpose.replaceAll("_", " ")}`),
    h("ul", { class: "files" }, one.artifacts.map((name) => h("li", {}, h("a", { href: fileAddress(path, name, one), download: "" }, name)))))));
}
