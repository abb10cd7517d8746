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

/** Show that the live connection is lost, or hide that it was. */
export function connection(state) {
  const banner = document.getElementById("connection");
  banner.hidden = state !== "lost";
  banner.textContent = state === "lost" ? "Connection lost. The page shows the last known state and reconnects by itself." : "";
}

async function show() {
  try {
    const [page, writer] = await Promise.all([import(`./pages/${place.page}.js`), place.page === "login" ? false : mayWrite()]);
    document.getElementById("new-study").hidden = !writer && place.page !== "login";
    await page.show(main, { mayWrite: writer, study: place.study || null, trial: place.trial === "" ? null : Number(place.trial), query: new URLSearchParams(location.search), connection, simulated: (yes) => { document.getElementById("simulated").hidden = !yes; } });
  } catch (error) {
    if (error instanceof Problem && error.status === 401 && place.page !== "login") {
      location.assign(`/login?next=${encodeURIComponent(location.pathname + location.search)}`);
      return;
    }
    fill(main, failure(error, show));
  }
}

setUpTheme();
setUpClock(show);
setUpSession();
await show();
