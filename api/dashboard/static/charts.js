// Plotly, loaded after the page is readable. SVG traces only: the Content Security Policy has no eval.

import { h } from "./dom.js";

let loading = null;

function plotly() {
  loading ??= new Promise((resolve, reject) => {
    const script = h("script", { src: document.body.dataset.plotly });
    script.onload = () => resolve(window.Plotly);
    script.onerror = () => reject(new Error("Plotly could not be loaded."));
    document.head.append(script);
  });
  return loading;
}

/** Begin to load Plotly, once the page can be read. */
export function prepareCharts() {
  plotly().catch(() => null);
}

/** Above so many points intervals are drawn for those that matter only; hovering shows every one. */
export const MOST_BARS = 200;

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** The theme's colours, read when a chart is drawn. */
export function palette() {
  const dark = document.documentElement.dataset.theme === "dark";
  return {
    text: colour("text"), muted: colour("muted"), line: colour("line"), surface: colour("surface"),
    accent: colour("accent"), good: colour("good"), warn: colour("warn"), bad: colour("bad"),
    faint: dark ? "#5d6a77" : "#aab4bf",
    series: dark ? ["#7db3ff", "#f0c06a", "#7ad39b", "#c4aefc", "#ff9a9f"] : ["#1d5fbf", "#b4690e", "#17693a", "#5b3b9e", "#a3242b"],
    scale: "Viridis",
  };
}

/** Whether a chart has no room for two side by side. */
export const narrow = (element) => element.clientWidth < 480;

/** A colour bar with its title beside it, as small as the axes' titles. */
export function colourBar(title) {
  const muted = colour("muted");
  // The line break keeps the title clear of the numbers.
  return { title: { text: `<br>${title}`, side: "right", font: { size: 12, color: muted } }, tickfont: { size: 12, color: muted }, thickness: 12, outlinewidth: 0 };
}

function layoutOf(layout) {
  const colours = palette();
  const axis = { gridcolor: colours.line, zerolinecolor: colours.line, linecolor: colours.line, automargin: true, tickfont: { color: colours.muted }, title: { font: { color: colours.muted, size: 13 }, standoff: 8 } };
  const merged = {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", autosize: true,
    font: { family: getComputedStyle(document.body).fontFamily, color: colours.text, size: 13 },
    margin: { l: 60, r: 20, t: 16, b: 48 }, hoverlabel: { align: "left" },
    legend: { orientation: "h", y: -0.22, font: { color: colours.muted } },
    ...layout,
  };
  for (const key of Object.keys(merged).filter((name) => /^[xy]axis\d*$/.test(name)).concat(["xaxis", "yaxis"])) {
    const given = merged[key] ?? {};
    if (given.overlaying) Object.assign(given, { tickmode: "auto", nticks: 6 });
    merged[key] = { ...axis, ...given, title: { ...axis.title, ...(typeof given.title === "string" ? { text: given.title } : given.title) } };
  }
  return merged;
}

const drawn = new Map();

/**
 * Draw into `element`, or draw anew. `make()` gives {traces, layout, config?}; it is called again
 * when the theme changes. Resolves to Plotly's element.
 */
export async function draw(element, make) {
  drawn.set(element, make);
  const library = await plotly();
  if (drawn.get(element) !== make) return element;
  const { traces, layout, config = {} } = make();
  await library.react(element, traces, layoutOf(layout), {
    displaylogo: false, responsive: true, modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"], ...config,
  });
  return element;
}

export function redrawAll() {
  for (const [element, make] of drawn) {
    if (element.isConnected) draw(element, make);
    else drawn.delete(element);
  }
}

/** A chart's place with its name and a text alternative for those who cannot see it. */
export function chartPlace(label, size = "") {
  return h("div", { class: `chart ${size}`, role: "group", "aria-label": label });
}
