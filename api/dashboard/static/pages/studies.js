// Every study: where it stands, and how its best compares with its baseline.

import { get, isRefusal } from "../api.js";
import { fill, h, refill, table } from "../dom.js";
import { duration, gain, minutes, moment } from "../format.js";
import { simulatedBadge, stateBadge, verdictBadge } from "../parts/badges.js";
import { empty, notice } from "../parts/notices.js";

const REFRESH_MS = 5000;
const PAGE = 25;

export async function show(main, { query, connection, refused, onLeave, mayWrite }) {
  const cursor = query.get("cursor");
  const states = query.getAll("state");
  const path = `studies?limit=${PAGE}${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}${states.map((state) => `&state=${encodeURIComponent(state)}`).join("")}`;
  const content = h("div", { class: "card" });
  fill(main, h("div", { class: "stack" },
    h("div", { class: "row row-spread" }, h("h1", {}, "Studies"), h("div", { class: "row" }, filter(states), mayWrite ? h("a", { class: "button button-main", href: "/studies/new" }, "New study") : null)),
    await workerNotice(), content));

  let timer = null;
  async function refresh() {
    const page = await get(path);
    const rows = page.items;
    refill(content, rows.length ? studiesTable(rows) : nothing(states, mayWrite),
      page.next_cursor ? h("p", {}, h("a", { href: `/?cursor=${encodeURIComponent(page.next_cursor)}${states.map((state) => `&state=${state}`).join("")}` }, "Older studies")) : null);
  }

  await refresh();
  const again = async () => {
    try {
      if (document.visibilityState === "visible") await refresh();
      connection("live");
    } catch (error) {
      if (isRefusal(error)) return refused(error);
      connection("lost");
    }
    if (content.isConnected) timer = setTimeout(again, REFRESH_MS);
  };
  timer = setTimeout(again, REFRESH_MS);
  onLeave(() => clearTimeout(timer));
}

async function workerNotice() {
  const workers = await get("workers").catch(() => null);
  if (workers === null || workers.items.some((worker) => worker.living)) return null;
  return notice("warn", "No worker is running", h("p", {}, "Studies wait until one does: ", h("code", {}, "servetune serve"), " brings one along, ", h("code", {}, "servetune worker"), " starts one on its own."));
}

function filter(chosen) {
  const states = ["", "queued", "running", "paused", "complete", "failed", "cancelled"];
  const select = h("select", { id: "state-filter", "aria-label": "State", onchange: () => location.assign(select.value ? `/?state=${select.value}` : "/") },
    states.map((state) => h("option", { value: state, selected: chosen[0] === state || (!chosen.length && state === "") }, state || "every state")));
  return h("div", {}, select);
}

function nothing(states, mayWrite) {
  if (states.length) return empty("No study is in this state", "Choose another state above.");
  return empty("No study yet", "A study finds the launch parameters that serve your workload best, and shows whether they beat what runs today.",
    mayWrite ? h("a", { class: "button button-main", href: "/studies/new" }, "Start the first one") : h("p", {}, "Your key may read; a key that may write starts one."));
}

function studiesTable(rows) {
  return table("Studies", [
    { label: "Study", render: (row) => [h("a", { href: `/studies/${encodeURIComponent(row.reference)}` }, row.reference), row.simulated ? [" ", simulatedBadge()] : null] },
    { label: "State", render: (row) => [stateBadge(row.state, row.requested), row.state === "running" ? h("div", { class: "small muted" }, row.phase) : null] },
    { label: "Progress", render: (row) => progress(row) },
    { label: "Best against baseline", number: true, render: (row) => row.best_trial ? [gain(row.best_score), h("div", { class: "small muted" }, "measured once")] : "–" },
    { label: "Verdict", render: (row) => row.verdict ? [verdictBadge(row.verdict), confirmed(row.confirmed)] : "–" },
    { label: "GPU minutes", number: true, render: (row) => [minutes(row.progress.gpu_minutes_used), row.progress.gpu_minutes_left !== null ? h("div", { class: "small muted" }, `${minutes(row.progress.gpu_minutes_left)} left`) : null] },
    { label: "Time", number: true, render: (row) => [duration(row.progress.elapsed_s), row.state === "running" ? h("div", { class: "small muted" }, row.progress.time_left_s === null ? "time left not known yet" : `about ${duration(row.progress.time_left_s)} left`) : null] },
    { label: "Started", render: (row) => moment(row.started_at ?? row.created_at) },
  ], rows);
}

function confirmed(found) {
  if (!found) return null;
  const interval = found.score_low === null ? "" : ` (${gain(found.score_low)} to ${gain(found.score_high)})`;
  return h("div", { class: "small muted number" }, `confirmed ${gain(found.score_mean)}${interval}`);
}

function progress(row) {
  const { starts_done: done, starts_total: total } = row.progress;
  return [h("progress", { max: Math.max(total, 1), value: done, "aria-label": `${done} of ${total} engine starts` }), h("div", { class: "small muted" }, `${row.progress.trials_done} of ${row.progress.trials_total} trials`)];
}
