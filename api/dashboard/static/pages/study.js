// One study: the trade-off, what was tried, what is happening, and the verdict.

import { all, get, isRefusal, post, remove, studyPath } from "../api.js";
import { prepareCharts } from "../charts.js";
import { fill, h, refill } from "../dom.js";
import { duration, gain, minutes, moment, parts, reading } from "../format.js";
import { follow } from "../live.js";
import { simulatedBadge, stateBadge } from "../parts/badges.js";
import { confirmed, told } from "../parts/dialog.js";
import { eventLog } from "../parts/event_log.js";
import { frontCard } from "../parts/front.js";
import { historyCard } from "../parts/history.js";
import { importanceCard } from "../parts/importance.js";
import { liveCard } from "../parts/live_trial.js";
import { notice } from "../parts/notices.js";
import { recommendationCard } from "../parts/recommendation.js";
import { spaceMapCard } from "../parts/space_map.js";
import { trialsCard } from "../parts/trials_table.js";
import { weightsCard } from "../parts/weights.js";

const SETTLE_MS = 400;
const AGAIN_MS = 3000;
const FRAME_MS = 20;
const PAST_EVENTS = 200;
const CHANGES_TRIALS = ["trial_state", "trial_scored", "trial_proposed"];

export async function show(main, context) {
  const state = { study: await get(studyPath(context.study)), trials: [] };
  context.simulated(state.study.simulated);
  document.title = `${state.study.reference} · ServeTune`;
  const view = layout(main, context, state);
  view.head();
  prepareCharts();
  state.trials = await all(studyPath(context.study, "trials"));
  view.everything();
  listen(context, state, view);
}

function layout(main, { study: reference, mayWrite }, state) {
  const trials = () => state.trials;
  const marks = () => ({ baseline: state.study.baseline ? 0 : null, incumbent: state.study.incumbent?.trial ?? null, recommended: state.study.recommendation?.trial ?? null });
  const objective = state.study.document.objective ?? {};
  const headPlace = h("div", { class: "stack" });
  const verdictPlace = h("div", {});
  const front = frontCard(reference, { trials, marks, slo: objective.slo ?? {}, onSlo: (slo) => weights.setSlo(slo) });
  const weights = weightsCard(reference, objective, (slo) => front.setSlo(slo));
  const history = historyCard(reference);
  const space = spaceMapCard(reference, trials);
  const importance = importanceCard(reference, trials);
  const table = trialsCard(reference, trials, marks, () => state.study.state);
  const live = liveCard(reference);
  const log = eventLog();
  fill(main, h("div", { class: "stack" }, headPlace, live.card, verdictPlace,
    h("div", { class: "grid" },
      h("div", { class: "span-8" }, front.card), h("div", { class: "span-4" }, weights.card),
      h("div", { class: "span-6" }, history.card), h("div", { class: "span-6" }, space.card),
      h("div", { class: "span-7" }, importance.card), h("div", { class: "span-5" }, log.card)),
    table.card));
  /** One after the other, what matters most first: each blocks the page while it is drawn. */
  async function charts() {
    for (const part of [front.load, space.show, history.load, importance.load]) {
      await guarded(part());
      await new Promise((shown) => setTimeout(shown, FRAME_MS));
    }
  }
  const guarded = (work) => work.catch((error) => console.warn("a part of the page could not be drawn", error));
  return {
    log,
    head() {
      refill(headPlace, header(state.study, mayWrite), figures(state.study), notices(state.study));
      refill(verdictPlace, recommendationCard(state.study));
      if (state.trials.length) table.show();
    },
    everything() {
      this.head();
      charts();
      guarded(live.load());
    },
    trialsChanged() {
      charts();
    },
  };
}

/** Follow the study; reload what an event changed, once the burst it came in is over. */
function listen(context, state, view) {
  const touched = { study: false, trials: false };
  let timer = null;
  async function settle() {
    const trials = touched.trials;
    touched.study = touched.trials = false;
    try {
      state.study = await get(studyPath(context.study));
      if (trials) state.trials = await all(studyPath(context.study, "trials"));
    } catch (error) {
      if (isRefusal(error)) return context.refused(error);
      touched.trials ||= trials;
      context.connection("lost");
      return soon(AGAIN_MS);
    }
    context.connection("live");
    view.head();
    if (trials) view.trialsChanged();
  }
  const soon = (after) => {
    clearTimeout(timer);
    timer = setTimeout(settle, after);
  };
  const from = Math.max(0, state.study.last_event_seq - PAST_EVENTS);
  const known = state.study.last_event_seq;
  const end = follow(context.study, from, (event) => {
    view.log.add(event);
    if (event.seq <= known) return;
    touched.study = true;
    touched.trials ||= CHANGES_TRIALS.includes(event.kind);
    soon(SETTLE_MS);
  }, (now) => context.connection(now, "events"), context.refused);
  context.onLeave(() => {
    clearTimeout(timer);
    end();
  });
}

function header(study, mayWrite) {
  const act = (name) => () => post(studyPath(study.reference, name)).catch((error) => told("It could not be done", error.message));
  const button = (label, name, kind = "") => h("button", { type: "button", class: kind, onclick: act(name) }, label);
  const buttons = {
    queued: [button("Pause", "pause"), cancelButton(study, act)],
    running: [button("Pause", "pause"), cancelButton(study, act)],
    paused: [button("Resume", "resume", "button-main"), cancelButton(study, act), deleteButton(study)],
    failed: [button("Try again", "resume"), deleteButton(study)], cancelled: [button("Resume", "resume"), deleteButton(study)], complete: [deleteButton(study)],
  };
  return h("div", { class: "row row-spread" },
    h("div", {}, h("div", { class: "crumbs" }, h("a", { href: "/" }, "Studies"), " / "),
      h("div", { class: "row" }, h("h1", {}, study.reference), stateBadge(study.state, study.requested), study.simulated ? simulatedBadge() : null)),
    h("div", { class: "row" }, study.requested || !mayWrite ? null : buttons[study.state]));
}

function cancelButton(study, act) {
  return h("button", { type: "button", class: "button-danger", onclick: async () => {
    if (await confirmed(`Cancel ${study.reference}?`, "The engine is stopped and the study ends. What was measured is kept, and the study can be resumed.", "Cancel the study", "Keep it running")) await act("cancel")();
  } }, "Cancel");
}

function deleteButton(study) {
  return h("button", { type: "button", class: "button-danger", onclick: async () => {
    if (!await confirmed(`Delete ${study.reference}?`, "Everything measured in it goes with it. This cannot be undone.", "Delete")) return;
    await remove(studyPath(study.reference)).then(() => location.assign("/"), (error) => told("It could not be deleted", error.message));
  } }, "Delete");
}

function figures(study) {
  const { progress, incumbent } = study;
  const best = incumbent && incumbent.trial !== 0 ? incumbent : null;
  const figure = (label, value, more) => h("div", { class: "card span-3" }, h("div", { class: "figure-label" }, label), h("div", { class: "figure-value" }, value), more ? h("div", { class: "muted small" }, more) : null);
  const left = study.state === "running" && progress.time_left_s !== null ? `about ${duration(progress.time_left_s)} left` : study.ended_at ? `ended ${moment(study.ended_at)}` : study.state;
  return h("div", { class: "stack" },
    h("div", { class: "grid figures" },
      figure("Best trial against the baseline", best ? gain(best.score?.value) : "–", best ? `trial ${best.trial}, measured once; confirmation decides` : "nothing better was measured yet"),
      figure("Baseline TTFT p95", ...baselineFigure(study.baseline?.summary?.quantities)),
      figure("GPU minutes", minutes(progress.gpu_minutes_used), progress.gpu_minutes_left === null ? "no limit set" : `${minutes(progress.gpu_minutes_left)} left`),
      figure("Time", duration(progress.elapsed_s), left)),
    h("div", { class: "card" }, h("div", { class: "row row-spread small" }, h("span", {}, `${phase(study)} · ${progress.trials_done} of ${progress.trials_total} trials`), h("span", { class: "muted" }, `${progress.starts_done} of about ${progress.starts_total} engine starts`)),
      h("progress", { max: Math.max(progress.starts_total, 1), value: progress.starts_done, "aria-label": "Engine starts" })));
}

function baselineFigure(quantities) {
  const [value, interval] = parts(quantities?.ttft_p95_ms, "ms");
  const throughput = `throughput ${reading(quantities?.output_tokens_per_s ?? null, "tokens/s")}`;
  return [value, interval ? `90 % interval ${interval}; ${throughput}` : throughput];
}

function phase(study) {
  const words = { baseline: "Measuring the baseline", search: "Searching", confirmation: "Confirming the finalists", recommendation: "Deciding", done: "Done" };
  return study.state === "queued" ? "Waiting for a worker" : words[study.phase] ?? study.phase;
}

function notices(study) {
  const found = study.failure;
  const parts = study.notices.map((one) => notice(one.kind === "noise" ? "info" : "warn", null, one.message));
  return [
    found ? notice("bad", "The study stopped", found.message ?? String(found), found.hint ?? "") : null,
    parts.length ? h("details", {}, h("summary", {}, `${parts.length} ${parts.length === 1 ? "notice" : "notices"}`), h("div", { class: "stack" }, parts)) : null,
  ];
}
