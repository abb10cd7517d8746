// What a study would do: starts, memory and time, all of it predicted.

import { h, table } from "../dom.js";
import { DASH, duration, flagValue, minutes, quantity } from "../format.js";
import { notice } from "./notices.js";
import { shortFlag } from "./quantities.js";

export function forecastView(plan) {
  const names = [...new Set(plan.starts.flatMap((start) => Object.keys(start.flags)))];
  const gib = (start, name) => start.memory ? quantity(start.memory[name]) : DASH;
  return h("div", { class: "stack" },
    plan.simulated ? notice("info", null, "On the embedded engine: the study is a simulation.") : null,
    h("p", {}, h("strong", {}, `About ${plan.restarts} engine starts, ${duration(plan.duration_s)}, ${minutes(plan.gpu_minutes)} of GPU time.`), ` ${plan.confirmation_restarts} of the starts confirm the finalists. Load: ${plan.workload}${rateOf(plan)}.`),
    plan.notices.map((one) => notice("warn", null, typeof one === "string" ? one : one.message)),
    table("First configurations and their predicted memory, GiB per GPU", [
      { label: "Start", render: (start) => start.origin.replaceAll("_", " ") },
      ...names.map((name) => ({ label: shortFlag(name), title: `--${name}`, number: true, render: (start) => flagValue(start.flags[name]) })),
      { label: "Weights", number: true, render: (start) => gib(start, "weights_gib") }, { label: "Activations", number: true, render: (start) => gib(start, "activation_gib") },
      { label: "KV cache", number: true, render: (start) => gib(start, "kv_cache_gib") }, { label: "KV tokens", number: true, render: (start) => gib(start, "kv_cache_tokens") },
      { label: "p95 requests at once", number: true, render: (start) => gib(start, "requests_p95_at_once") },
      { label: "Speaks against it", render: (start) => start.rejected ?? start.memory?.problem ?? "nothing" },
    ], plan.starts),
    h("details", {}, h("summary", {}, "Exact commands"), plan.starts.map((start) => h("pre", { class: "command" }, start.argv.map(quoted).join(" ")))));
}

function rateOf(plan) {
  if (plan.users) return `; ${plan.users} users in a closed loop`;
  return plan.rate_per_s === null ? "; the rate is calibrated on the baseline" : ` at ${plan.rate_per_s} requests/s`;
}

function quoted(word) {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
