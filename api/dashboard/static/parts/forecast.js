// What a study would do: starts, memory and time, all of it predicted.

import { h, table } from "../dom.js";
import { DASH, duration, flagValue, minutes, quantity } from "../format.js";
import { notice } from "./notices.js";
import { flagNames } from "./quantities.js";

export function forecastView(plan) {
  const names = flagNames(plan.starts);
  const memory = (name, unit = "") => (start) => start.memory ? quantity(start.memory[name], unit) : DASH;
  const rows = [
    ...names.map((name) => [h("code", {}, `--${name}`), (start) => flagValue(start.flags[name])]),
    ["Weights", memory("weights_gib", "GiB")], ["Activations", memory("activation_gib", "GiB")], ["CUDA graphs", memory("graph_gib", "GiB")],
    ["KV cache", memory("kv_cache_gib", "GiB")], ["KV cache tokens", memory("kv_cache_tokens")],
    ["p95 requests at once", memory("requests_p95_at_once")], ["Speaks against it", (start) => h("span", { class: "wrap" }, start.rejected ?? start.memory?.problem ?? "nothing")],
  ];
  return h("div", { class: "stack" },
    plan.simulated ? notice("info", null, "On the embedded engine: the study is a simulation.") : null,
    h("p", {}, h("strong", {}, `About ${plan.restarts} engine starts, ${duration(plan.duration_s)}, ${minutes(plan.gpu_minutes)} of GPU time.`), ` ${plan.confirmation_restarts} of the starts confirm the finalists. Load: ${plan.workload}${rateOf(plan)}.`),
    plan.notices.map((one) => notice("warn", null, typeof one === "string" ? one : one.message)),
    table("First configurations and their predicted memory per GPU", [
      { label: "", render: ([words]) => words },
      ...plan.starts.map((start) => ({ label: start.origin.replaceAll("_", " "), number: true, render: ([, value]) => value(start) })),
    ], rows),
    h("details", {}, h("summary", {}, "Exact commands"), plan.starts.map((start) => h("pre", { class: "command" }, start.argv.map(quoted).join(" ")))));
}

function rateOf(plan) {
  if (plan.users) return `; ${plan.users} users in a closed loop`;
  return plan.users ? `; ${plan.users} users in a closed loop` : plan.rate_per_s === null ? "; the rate is calibrated on the baseline" : ` at ${plan.rate_per_s} requests/s`;
}

function quoted(word) {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
