// A study in a form; beside it the same as YAML and curl, its faults, and what it would cost.

import { get, post, Problem } from "../api.js";
import { fill, h } from "../dom.js";
import { forecastView } from "../parts/forecast.js";
import { empty, faultList, notice } from "../parts/notices.js";
import { choice, documentOf, field, number, showFaults, text } from "../parts/study_form.js";
import { traceUpload } from "../parts/trace_upload.js";
import { toYaml } from "../parts/yaml.js";

const WAIT_MS = 500;
const PRESETS = [["chat", "chat: short questions, medium answers"], ["long-context-qa", "long-context-qa: long documents, short answers"], ["mixed", "mixed: chat with some long documents"]];
const FEWEST_SEQS = 32;
const MOST_SEQS = 1024;
const GPU_GIB = { L4: 22, A10G: 22, L40S: 44, "A100-40": 39, "A100-80": 79, H100: 79, H200: 139, B200: 178 };

export async function show(main, { mayWrite }) {
  if (!mayWrite) {
    fill(main, h("h1", { class: "quiet" }, "New study"), empty("Your key may only read", "To start a study, sign in with a key that has the scope write.", h("a", { class: "button", href: "/login?next=/studies/new" }, "Sign in with another key")));
    return;
  }
  const [profiles, models] = await Promise.all([get("profiles"), get("models")]);
  const form = new StudyForm(profiles, models);
  fill(main, form.element);
  form.changed();
}

class StudyForm {
  constructor(profiles, models) {
    this.models = models;
    this.profiles = profiles.items;
    this.typed = new Set();
    this.upload = null;
    this.asked = 0;
    this.engine = this.engineField(profiles);
    this.model = choice("model.id", "Model", []);
    this.fields = [];
    this.space = {};
    this.said = h("div", { "aria-live": "polite", class: "stack" });
    this.forecast = h("div", {}, h("p", { class: "muted" }, "The forecast comes with the first valid document."));
    this.yaml = h("pre", { class: "command", tabindex: "0", "aria-label": "The study as YAML" });
    this.curl = h("pre", { class: "command", tabindex: "0", "aria-label": "The same as a curl command" });
    this.start = h("button", { class: "button-main", type: "submit" }, "Start the study");
    this.element = this.layout();
    this.showModels();
    this.suggestSpace();
  }

  engineField(profiles) {
    const pairs = [...profiles.items.map((one) => [`profile:${one.name}`, `${one.name}: vLLM${one.gpu ? ` on ${one.gpu}` : ""}${one.description ? `, ${one.description}` : ""}`]),
      ...profiles.simulated_gpus.map((gpu) => [`simulated:${gpu}`, `${gpu}, simulated (no GPU needed)`])];
    const made = choice("engine", "Engine", pairs);
    made.read = () => {
      const [kind, name] = made.control.value.split(/:(.*)/s);
      return kind === "profile" ? { kind: "vllm", profile: name } : { kind: "simulated", gpu: name };
    };
    made.control.addEventListener("change", () => { this.showModels(); this.suggestSpace(); });
    return made;
  }

  /** Real engines serve the operator's models, the embedded one those it knows. */
  showModels() {
    const engine = this.engine.read();
    const known = engine.kind === "simulated" ? this.models.simulated_models : this.models.items.filter((one) => one.profiles === null || one.profiles.includes(engine.profile)).map((one) => one.id);
    fill(this.model.control, known.map((id) => h("option", { value: id }, id)));
    this.engine.fault(known.length ? null : "the operator's configuration allows no model for this engine");
  }

  /** A bigger GPU holds more sequences and a bigger step; what somebody typed stays. */
  suggestSpace() {
    const gib = GPU_GIB[this.gpu()] ?? 80;
    this.suggest("max_num_seqs", gib < 30 ? 256 : gib < 60 ? 512 : 1024);
    this.suggest("max_num_batched_tokens", gib < 30 ? 8192 : gib < 60 ? 16384 : 32768);
  }

  gpu() {
    const engine = this.engine.read();
    return engine.gpu ?? this.profiles.find((one) => one.name === engine.profile)?.gpu ?? null;
  }

  /** More sequences than this model's KV cache holds typical requests of can never run together. */
  suggestSequences(plan) {
    const together = plan.starts[0]?.memory?.requests_p50_at_once;
    if (!together) return;
    const most = Math.min(MOST_SEQS, Math.max(FEWEST_SEQS, 2 ** Math.ceil(Math.log2(together))));
    if (this.suggest("max_num_seqs", most)) this.changed();
  }

  suggest(name, value) {
    const { control } = this.space[name];
    if (this.typed.has(control) || control.value === String(value)) return false;
    control.value = value;
    return true;
  }

  layout() {
    const range = (path, label, low, high, options) => {
      const end = (key, words, value) => {
        const made = number(`${path}.${key}`, words, { value, ...options });
        made.control.setAttribute("aria-label", `${label}, ${words}`);
        made.control.addEventListener("input", () => this.typed.add(made.control));
        return made;
      };
      return Object.assign([end("low", "from", low), end("high", "to", high)], { label });
    };
    const pair = (ends) => h("div", { class: "pair", role: "group", "aria-label": ends.label }, h("span", { class: "pair-title" }, ends.label), ends.map((one) => one.element));
    const seqs = range("search_space.max_num_seqs", "max-num-seqs", 8, 1024, { step: 1, min: 1 });
    const tokens = range("search_space.max_num_batched_tokens", "max-num-batched-tokens", 256, 32768, { step: 1, min: 1 });
    const memory = range("search_space.gpu_memory_utilization", "gpu-memory-utilization", 0.5, 0.97, { step: 0.01, min: 0.05, max: 1 });
    this.space = { max_num_seqs: seqs[1], max_num_batched_tokens: tokens[1] };
    const chunked = choice("search_space.enable_chunked_prefill.choices", "enable-chunked-prefill", [["both", "try on and off"], ["on", "always on"], ["off", "always off"]]);
    chunked.read = () => ({ both: [true, false], on: [true], off: [false] })[chunked.control.value];
    const name = text("name", "Name", { placeholder: "chosen from model and engine", hint: "Letters, digits, dots and dashes." });
    const length = number("engine.flags.max-model-len", "max-model-len", { step: 1, min: 1, hint: "Longest prompt plus answer; the model's own when empty." });
    const slo = [number("objective.slo.ttft_ms", "SLO: TTFT (ms)", { min: 1 }), number("objective.slo.tpot_ms", "SLO: TPOT (ms)", { min: 1 })];
    const mode = choice("objective.mode", "Goal", [["weighted", "one weighted score"], ["goodput", "goodput: most good requests per second (needs an SLO)"], ["pareto", "a front of trade-offs"]]);
    const budget = [number("budget.trials", "Trials", { value: 20, step: 1, min: 1, max: 1000 }), number("budget.gpu_minutes", "GPU minutes, at most", { min: 1, placeholder: "no limit" })];
    const rate = number("workload.arrival.rate", "Requests per second", { placeholder: "calibrated", hint: "Empty: the rate at which configurations can be told apart is found on the baseline." });
    const workload = this.workloadField();
    const today = this.baselineFields();
    const measuring = this.measuringFields();
    const weights = this.weightFields();
    this.fields = [name, this.engine, this.model, length, workload, rate, ...seqs, ...tokens, chunked, ...memory, ...today, ...weights.fields, mode, ...slo, ...budget, ...measuring];
    const group = (title, ...content) => h("fieldset", { class: "stack" }, h("legend", {}, title), content);
    const elements = (list) => h("div", { class: "fields" }, list.map((one) => one.element));
    const formElement = h("form", { class: "stack", novalidate: true, oninput: () => this.changed(), onchange: () => this.changed(), onsubmit: (event) => this.submit(event) },
      group("What is tuned", h("div", { class: "fields fields-wide" }, [this.engine, this.model, name, length].map((one) => one.element))),
      group("Load", elements([workload, rate]), this.tracePlace),
      group("Search space", h("p", { class: "hint" }, "Suggested for this GPU, and for what its memory holds of this model; what you type stays."), h("div", { class: "fields fields-wide" }, [seqs, tokens, memory].map(pair), chunked.element)),
      group("What runs today", h("p", { class: "hint" }, "Whatever is found must beat this. Empty: the engine's own defaults."), elements(today)),
      group("What matters", weights.element, elements([mode, ...slo])),
      group("Budget", elements(budget)),
      h("details", { class: "card" }, h("summary", {}, "Measurement and confirmation"), elements(measuring)), this.said, h("div", {}, this.start));
    return h("div", { class: "stack" }, h("h1", {}, "New study"), h("div", { class: "grid" },
      h("div", { class: "span-7" }, formElement),
      h("aside", { class: "span-5 stack", "aria-label": "The same study as a document" },
        h("section", { class: "card" }, h("h2", {}, "Forecast"), this.forecast),
        h("section", { class: "card" }, h("h2", {}, "As YAML"), this.yaml),
        h("section", { class: "card" }, h("h2", {}, "As curl"), this.curl))));
  }

  workloadField() {
    const made = choice("workload", "Requests", [...PRESETS.map(([value, words]) => [`preset:${value}`, words]), ["upload", "an uploaded trace"]]);
    this.tracePlace = h("div", { hidden: true }, traceUpload((stored) => { this.upload = stored; this.changed(); }));
    made.control.addEventListener("change", () => { this.tracePlace.hidden = made.control.value !== "upload"; });
    made.read = () => made.control.value === "upload" ? { upload: this.upload?.id ?? "" } : { preset: made.control.value.slice("preset:".length) };
    return made;
  }

  baselineFields() {
    return [["max-num-seqs", 1], ["max-num-batched-tokens", 1], ["gpu-memory-utilization", 0.01]].map(([flag, step]) => number(`baseline.flags.${flag}`, flag, { step, placeholder: "default" }));
  }

  /** What has good defaults; a study on a small machine or a quick look may want others. */
  measuringFields() {
    const scale = number("engine.time_scale", "Time scale", { value: 10, min: 1, max: 100, hint: "Engine seconds per second; only the simulated engine can be faster than time." });
    const readScale = scale.read;
    scale.read = () => this.engine.read().kind === "simulated" ? readScale() : undefined;
    return [
      number("workload.warmup_s", "Warm-up (s)", { placeholder: "10", min: 0 }), number("workload.latency_window_s", "Latency window (s)", { placeholder: "60", min: 1 }),
      number("workload.capacity_window_s", "Capacity window (s)", { placeholder: "30", min: 1 }), number("confirmation.finalists", "Finalists", { placeholder: "2", step: 1, min: 1 }),
      number("confirmation.rounds", "Confirmation rounds, at least", { placeholder: "3", step: 1, min: 1 }),
      number("confirmation.max_rounds", "at most", { step: 1, min: 1, placeholder: "default" }), scale,
    ];
  }

  weightFields() {
    const rows = [["ttft_p95", "TTFT", 1], ["tpot_p95", "TPOT", 1], ["throughput", "Throughput", 1], ["itl_p99", "ITL", 0]].map(([name, words, start]) => {
      const control = h("input", { type: "range", min: 0, max: 3, step: 0.1, value: start, "aria-label": `Weight of ${words}` });
      const shown = h("output", { class: "number" }, String(start));
      control.addEventListener("input", () => { shown.textContent = control.value; });
      const made = field(`objective.weights.${name}`, words, control, { read: () => Number(control.value) });
      return { made, cells: [h("span", {}, words), control, shown] };
    });
    return { fields: rows.map((row) => row.made), element: h("div", { class: "weights" }, rows.map((row) => row.cells)) };
  }

  document() {
    const made = documentOf(this.fields);
    if (made.engine && made.engine.flags && Object.keys(made.engine.flags).length === 0) delete made.engine.flags;
    return made;
  }

  changed() {
    const document = this.document();
    this.yaml.textContent = toYaml(document);
    this.curl.textContent = `curl -sS -X POST ${location.origin}/api/v1/studies \\\n  -H "Authorization: Bearer $SERVETUNE_API_KEY" \\\n  -H 'Content-Type: application/yaml' \\\n  --data-binary @- <<'YAML'\n${toYaml(document)}\nYAML`;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.validate(), WAIT_MS);
  }

  async validate() {
    const mine = ++this.asked;
    let found;
    try {
      found = await post("studies/validate", this.document());
    } catch (error) {
      found = error instanceof Problem && error.faults.length ? { valid: false, errors: error.faults } : null;
      if (found === null && mine === this.asked) fill(this.said, notice("bad", null, error.message));
    }
    if (mine !== this.asked || found === null) return;
    const homeless = showFaults(this.fields, found.errors);
    fill(this.said, homeless.length ? notice("bad", "The document has faults", faultList(homeless)) : null);
    if (found.plan) this.suggestSequences(found.plan);
    fill(this.forecast, found.plan ? forecastView(found.plan) : h("p", { class: "muted" }, "The forecast comes when the faults are gone."));
  }

  async submit(event) {
    event.preventDefault();
    this.start.disabled = true;
    try {
      const study = await post("studies", this.document(), { "Idempotency-Key": crypto.randomUUID() });
      location.assign(`/studies/${encodeURIComponent(study.reference)}`);
    } catch (error) {
      const homeless = showFaults(this.fields, error.faults ?? []);
      fill(this.said, notice("bad", "The study was not started", error.message, error.hint ?? "", homeless.length ? faultList(homeless) : ""));
      this.element.querySelector("[aria-invalid='true']")?.focus();
    } finally {
      this.start.disabled = false;
    }
  }
}
