// The verdict and what it rests on.

import { h, table } from "../dom.js";
import { flagValue, gain, quantity, signed } from "../format.js";
import { verdictBadge } from "./badges.js";
import { notice } from "./notices.js";

export function recommendationCard(study, { withLink = true, withChanges = true } = {}) {
  const found = study.recommendation;
  if (!found) return null;
  const to = `/studies/${encodeURIComponent(study.reference)}/export`;
  return h("section", { class: "card stack", "aria-labelledby": "verdict-title" },
    h("div", { class: "row row-spread" }, h("h2", { id: "verdict-title" }, "Recommendation"), verdictBadge(found.verdict)),
    h("p", { class: "figure-value" }, found.headline), h("p", {}, found.reason),
    evidence(found), withChanges ? changes(found) : null, metrics(found), finalists(study, found), picks(study, found),
    withLink && found.flags ? h("div", { class: "row" }, h("a", { class: "button button-main", href: to }, found.verdict === "keep_baseline" ? "Today's command, with the evidence" : "Take the launch command")) : null);
}

function evidence({ gain: found }) {
  if (!found) return null;
  const interval = found.score_low === null ? "" : ` (${Math.round(100 * found.level)} % interval ${gain(found.score_low)} to ${gain(found.score_high)})`;
  return notice(found.score_low > 0 ? "good" : "warn", null, `Confirmed on fresh starts in ${found.rounds} paired rounds: ${gain(found.score_mean)}${interval}.`);
}

function changes(found) {
  if (!found.changes?.length) return null;
  return table("Changed flags", [
    { label: "Flag", render: (change) => h("code", {}, change.flag.startsWith("--") ? change.flag : `--${change.flag}`) },
    { label: "Today", number: true, render: (change) => flagValue(change.before) + (change.before_is_default ? " (default)" : "") },
    { label: "Recommended", number: true, render: (change) => flagValue(change.after) + (change.after_is_default ? " (default)" : "") },
  ], found.changes);
}

function metrics(found) {
  if (!found.metrics?.length) return null;
  const interval = (metric) => metric.change_low_percent === null || metric.change_low_percent === undefined ? "–" : `${signed(metric.change_low_percent)} to ${signed(metric.change_high_percent)}`;
  return table("What changed in confirmation", [
    { label: "Quantity", render: (metric) => metric.name },
    { label: "Baseline", number: true, render: (metric) => quantity(metric.before, metric.unit) },
    { label: "Recommended", number: true, render: (metric) => quantity(metric.after, metric.unit) },
    { label: "Change", number: true, render: (metric) => signed(metric.change_percent) },
    { label: "90 % interval", number: true, render: interval },
  ], found.metrics);
}

function finalists(study, found) {
  if (!found.finalists?.length) return null;
  return h("details", {}, h("summary", {}, "How the finalists fared"), table("Finalists", [
    { label: "Trial", render: (one) => h("a", { href: `/studies/${encodeURIComponent(study.reference)}/trials/${one.trial}` }, String(one.trial)) },
    { label: "Confirmed", number: true, render: (one) => one.gain ? `${gain(one.gain.score_mean)} (${gain(one.gain.score_low)} to ${gain(one.gain.score_high)})` : "–" },
    { label: "Rounds", number: true, render: (one) => one.gain ? String(one.gain.rounds) : "–" },
    { label: "Against it", render: (one) => [one.failure, ...one.weaknesses].filter(Boolean).join(" ") || "nothing" },
  ], found.finalists));
}

function picks(study, found) {
  if (!found.picks?.length) return null;
  return h("details", {}, h("summary", {}, "Others on the front, for other wishes (measured once, not confirmed)"), table("Picks", [
    { label: "Wish", render: (pick) => pick.name },
    { label: "Trial", render: (pick) => h("a", { href: `/studies/${encodeURIComponent(study.reference)}/trials/${pick.trial_number}` }, String(pick.trial_number)) },
    { label: "TTFT (ms)", number: true, render: (pick) => quantity(pick.ttft_ms) },
    { label: "TPOT (ms)", number: true, render: (pick) => quantity(pick.tpot_ms) },
    { label: "Tokens/s", number: true, render: (pick) => quantity(pick.output_tokens_per_s) },
  ], found.picks));
}
