// The quantities trials are compared in: names as the API gives them, words for people.

export const QUANTITIES = {
  ttft_p50_ms: ["TTFT p50", "ms"], ttft_p95_ms: ["TTFT p95", "ms"], ttft_p99_ms: ["TTFT p99", "ms"],
  tpot_p50_ms: ["TPOT p50", "ms"], tpot_p95_ms: ["TPOT p95", "ms"], tpot_p99_ms: ["TPOT p99", "ms"],
  itl_p50_ms: ["ITL p50", "ms"], itl_p95_ms: ["ITL p95", "ms"], itl_p99_ms: ["ITL p99", "ms"],
  e2e_p50_ms: ["End to end p50", "ms"], e2e_p95_ms: ["End to end p95", "ms"], e2e_p99_ms: ["End to end p99", "ms"],
  output_tokens_per_s: ["Throughput", "tokens/s"], goodput_per_s: ["Goodput", "requests/s"],
  max_rate_per_s: ["Highest rate within the SLO", "requests/s"],
  slo_attainment: ["SLO attainment", ""], gpu_hours_per_million_tokens: ["GPU hours per 10⁶ output tokens", "h"],
};

export const LOWER_IS_BETTER = (name) => !["output_tokens_per_s", "goodput_per_s", "max_rate_per_s", "slo_attainment"].includes(name);

export const AXES = ["ttft_p95_ms", "tpot_p95_ms", "output_tokens_per_s", "goodput_per_s", "gpu_hours_per_million_tokens", "itl_p99_ms", "ttft_p50_ms", "e2e_p95_ms"];

export function label(name) {
  const [words, unit] = QUANTITIES[name] ?? [name, ""];
  return unit ? `${words} (${unit})` : words;
}

/** The searched flags in the order people think of them, then any other. */
const FLAG_ORDER = ["max-num-seqs", "max-num-batched-tokens", "enable-chunked-prefill", "gpu-memory-utilization"];

export function flagNames(trials) {
  const names = new Set(trials.flatMap((trial) => Object.keys(trial.flags)));
  return [...FLAG_ORDER.filter((name) => names.has(name) || trials.some((trial) => trial.summary?.applied?.[name] !== undefined)), ...[...names].filter((name) => !FLAG_ORDER.includes(name)).sort()];
}

const SHORT_FLAGS = { "max-num-seqs": "Sequences", "max-num-batched-tokens": "Token budget", "enable-chunked-prefill": "Chunked", "gpu-memory-utilization": "Memory" };

/** A flag's name for a narrow column; the whole one belongs into the column's title. */
export function shortFlag(name) {
  return SHORT_FLAGS[name] ?? name;
}

/** Of those, the ones in which the trials differ. */
export function varyingFlags(trials) {
  const values = (name) => new Set(trials.map((trial) => String(applied(trial, name))));
  return flagNames(trials).filter((name) => FLAG_ORDER.includes(name) || values(name).size > 1);
}

/** What ran: the flag, else what the engine reported it applied by itself. */
export function applied(trial, name) {
  return trial.flags[name] ?? trial.summary?.applied?.[name] ?? null;
}
