// The command to run, in every form, with what it rests on.

import { get, Problem, studyPath, text } from "../api.js";
import { facts, fill, h } from "../dom.js";
import { notice, empty } from "../parts/notices.js";
import { recommendationCard } from "../parts/recommendation.js";
import { moment } from "../format.js";

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
  const shown = h("pre", { class: "command", tabindex: "0", "aria-label": "Launch command" });
  const said = h("span", { class: "muted small", role: "status" });
  const tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "Form" });
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
    for (const tab of tabs.children) tab.setAttribute("aria-selected", String(tab.dataset.form === form));
    said.textContent = "";
    try {
      shown.textContent = await text(`/api/v1/${studyPath(study.reference, "export")}?form=${form}`);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      shown.textContent = error.message;
    }
  }

  fill(tabs, FORMS.map(([form, words]) => h("button", { type: "button", role: "tab", data: { form }, onclick: () => choose(form) }, words)));
  fill(main, h("div", { class: "stack" }, crumbs, h("h1", {}, "Launch command"),
    study.recommendation.verdict === "keep_baseline" ? notice("warn", "Keep the baseline", "No configuration was confirmed to be better. This is today's command.") : null,
    study.simulated ? notice("warn", "Found on a simulated engine", "Run the study on your GPU before you change production.") : null,
    h("section", { class: "card stack" }, h("div", { class: "row row-spread" }, tabs, h("div", { class: "row" }, said, copy)), shown),
    recommendationCard(study, { withLink: false }),
    h("section", { class: "card" }, h("h2", {}, "Where it comes from"), facts([["Study", study.reference], ["Document", h("code", {}, study.digest)], ["Trial", String(study.recommendation.trial)], ["Ended", moment(study.ended_at)], ["Measured on", study.simulated ? "the embedded engine model (simulated)" : "a vLLM engine"]]))));
  await choose("vllm");
}
