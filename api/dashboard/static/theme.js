// Runs before the first paint, so that no page flashes in the other theme.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("servetune-theme");
  } catch {
    // Storage can be forbidden; the system's wish still holds.
  }
  const dark = window.matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = chosen ?? (dark ? "dark" : "light");
})();
