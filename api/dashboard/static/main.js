// Starts the page that the shell names, and what all pages share: theme, clock, session.

import { csrfToken, mayWrite, Problem, remove } from "./api.js";
import { redrawAll } from "./charts.js";
import { fill } from "./dom.js";
import { clockMode, setClockMode } from "./format.js";
import { failure } from "./parts/notices.js";

const main = document.getElementById("main");
const place = document.body.dataset;

function setUpTheme() {
  const button = document.getElementById("theme-toggle");
  const label = () => { button.textContent = document.documentElement.dataset.theme === "dark" ? "Light" : "Dark"; };
  button.addEventListener("click", () => {
    const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    try {
      localStorage.setItem("servetune-theme", theme);
    } catch {
      // The choice then lasts as long as the page.
    }
    label();
    redrawAll();
  });
  label();
}

function setUpClock(show) {
  const button = document.getElementById("clock-toggle");
  const label = () => {
    button.textContent = clockMode() === "utc" ? "UTC" : "Local time";
    button.setAttribute("aria-pressed", String(clockMode() === "local"));
  };
  button.addEventListener("click", () => {
    setClockMode(clockMode() === "utc" ? "local" : "utc");
    label();
    show();
  });
  label();
}

function setUpSession() {
  const button = document.getElementById("sign-out");
  button.hidden = csrfToken() === null;
  button.addEventListener("click", async () => {
    await remove("session").catch(() => null);
    location.assign("/login");
  });
}

const lost = new Set();

/** Show that a source of the page, its stream or its requests, is lost, or hide that all are back. */
function connection(state, source = "requests") {
  if (state === "lost") lost.add(source);
  else lost.delete(source);
  const banner = document.getElementById("connection");
  banner.hidden = lost.size === 0;
  banner.textContent = lost.size ? "Connection lost. The page shows the last known state and reconnects by itself." : "";
}

const leaving = [];

/** End what the page before had begun: streams and timers. */
function leave() {
  for (const end of leaving.splice(0)) end();
  lost.clear();
  connection("live");
}

function refused(error) {
  if (error instanceof Problem && error.status === 401 && place.page !== "login") {
    location.assign(`/login?next=${encodeURIComponent(location.pathname + location.search)}`);
    return;
  }
  leave();
  fill(main, failure(error, show));
}

async function show() {
  leave();
  try {
    const [page, writer] = await Promise.all([import(`./pages/${place.page}.js`), place.page === "login" ? false : mayWrite()]);
    document.getElementById("new-study").hidden = !writer && place.page !== "login";
    await page.show(main, {
      mayWrite: writer, study: place.study || null, trial: place.trial === "" ? null : Number(place.trial), query: new URLSearchParams(location.search),
      connection, refused, onLeave: (end) => leaving.push(end), simulated: (yes) => { document.getElementById("simulated").hidden = !yes; },
    });
  } catch (error) {
    refused(error);
  }
}

addEventListener("pagehide", leave);
addEventListener("pageshow", (event) => { if (event.persisted) show(); });
setUpTheme();
setUpClock(show);
setUpSession();
await show();
