// The command to run, in every form, with what it rests on.

import { get, Problem, studyPath, text } from "../api.js";
import { facts, fill, h } from "../dom.js";
import { flagValue, moment } from "../format.js";
import { notice, empty } from "../parts/notices.js";
import { recommendationCard } from "../parts/recommendation.js";
import { flagNames } from "../parts/quantities.js";

const FORMS = [["vllm", "vllm serve"], ["python-module", "python -m"], ["docker", "docker run"], ["compose", "Compose"], ["kubernetes", "Kubernetes"], ["systemd", "systemd"], ["config-yaml", "--config YAML"], ["json", "JSON"]];

export async function show(main, context) {
  const study = await get(studyPath(context.study));
  const to = `/studies/${encodeURIComponent(study.reference)}`;
  context.simulated(study.simulated);
  document.title = `Export · ${study.reference} · ServeTune`;
  const crumbs = h("div", { class: "crumbs" }, h("a", { href: "/" }, "Studies"), " / ", h("a", { href: to }, study.reference), " / ");
  if (!study.recommendation?.flags) {
    fill(main, h("div", { class: "stack" }, crumbs, study.recommendation ? recommendationCard(study, { withLink: false }) : empty("No recommendation yet", "It comes when the finalists are confirmed on fresh starts.", h("a", { class: "button", href: to }, "To the study"))));
    return;
  }
  const shown = h("pre", { class: "command", id: "launch-command", role: "tabpanel", tabindex: "0", "aria-label": "Launch command" });
  const said = h("span", { class: "muted small", role: "status" });
  const tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "Form", onkeydown: (event) => step(event, tabs, choose) });
  const copy = h("button", { type: "button", onclick: async () => {
    try {
      await navigator.clipboard.writeText(shown.textContent);
      said.textContent = "Copied.";
    } catch {
      getSelection().selectAllChildren(shown);
      said.textContent = "Marked: copy it with the keyboard.";
    }
  } }, "Copy");

  async function choose(form) {
    for (const tab of tabs.children) {
      tab.setAttribute("aria-selected", String(tab.dataset.form === form));
      tab.tabIndex = tab.dataset.form === form ? 0 : -1;
    }
    said.textContent = "";
    try {
      shown.textContent = await text(`/api/v1/${studyPath(study.reference, "export")}?form=${form}`);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      shown.textContent = error.message;
    }
  }

  fill(tabs, FORMS.map(([form, words]) => h("button", { type: "button", role: "tab", "aria-controls": "launch-command", data: { form }, onclick: () => choose(form) }, words)));
  fill(main, h("div", { class: "stack" }, crumbs, h("h1", {}, "Launch command"),
    study.recommendation.verdict === "keep_baseline" ? notice("warn", "Keep the baseline", "No configuration was confirmed to be better. This is today's command.") : null,
    study.simulated ? notice("warn", "Found on a simulated engine", "Run the study on your GPU before you change production.") : null,
    h("section", { class: "card stack" }, h("div", { class: "row row-spread" }, tabs, h("div", { class: "row" }, said, copy)), shown),
    againstToday(study), recommendationCard(study, { withLink: false, withChanges: false }),
    h("section", { class: "card" }, h("h2", {}, "Where it comes from"), facts([["Study", study.reference], ["Document", h("code", {}, study.digest)], ["Trial", String(study.recommendation.trial)], ["Ended", moment(study.ended_at)], ["Measured on", study.simulated ? "the embedded engine model (simulated)" : "a vLLM engine"]]))));
  await choose("vllm");
}

/** The arrow keys go from form to form, as in every list of tabs. */
function step(event, tabs, choose) {
  const all = [...tabs.children];
  const now = all.findIndex((tab) => tab === document.activeElement);
  const next = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: all.length - 1 }[event.key];
  if (next === undefined || now < 0) return;
  event.preventDefault();
  const tab = all[(next + all.length) % all.length];
  tab.focus();
  choose(tab.dataset.form);
}

/** Flag by flag, as a diff of today's command; what stays is there too. */
function againstToday({ baseline, recommendation }) {
  if (!baseline) return null;
  const before = baseline.flags;
  const after = recommendation.flags;
  const defaults = new Map((recommendation.changes ?? []).map((change) => [change.flag.replace(/^--/, ""), change]));
  const names = [...new Set([...flagNames([{ flags: before }, { flags: after }])])];
  const line = (kind, sign, name, value, note) => h("div", { class: kind ? `diff-${kind}` : "muted" }, `${sign} --${name} ${flagValue(value)}${note}`);
  const own = (value, name, side) => value ?? defaults.get(name)?.[side] ?? null;
  const note = (value) => (value === undefined || value === null ? "   (the engine's default)" : "");
  const rows = names.flatMap((name) => {
    const [old, now] = [own(before[name], name, "before"), own(after[name], name, "after")];
    if (String(old) === String(now)) return [line(null, " ", name, old, note(before[name]))];
    return [old === null ? null : line("remove", "-", name, old, note(before[name])), now === null ? null : line("add", "+", name, now, note(after[name]))];
  });
  const same = names.every((name) => String(own(before[name], name, "before")) === String(own(after[name], name, "after")));
  return h("section", { class: "card stack", "aria-labelledby": "diff-title" }, h("h2", { id: "diff-title" }, "Against today's command"),
    same ? h("p", {}, "Nothing changes: this is today's configuration.") : h("p", { class: "muted small" }, "Lines with - are today's, lines with + are recommended; the rest stays."),
    names.length ? h("div", { class: "command mono", role: "region", tabindex: "0", "aria-label": "Difference from today's command" }, rows) : h("p", { class: "muted" }, "Today's command sets none of the searched flags."));
}
