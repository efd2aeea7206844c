// Explains one pod: the filters one after the other, then the scores as stacked bars, then the runner-up.

import {make} from "./elements.js";
import {decisionOf} from "./objects.js";

const COLOURS = 8; // style.css has classes plugin-0 to plugin-7
const MAX_BARS = 12;
const SVG = "http://www.w3.org/2000/svg";

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const numbers = (scores) => Object.entries(isObject(scores) ? scores : {}).filter(([, each]) => Number.isFinite(each));
const listed = (names) => (names.length > 5 ? `${names.slice(0, 5).join(", ")} and ${names.length - 5} more` : names.join(", "));

/** The explanation of a pod, as an array of elements. */
export function explain(pod) {
  const found = [make("h3", {}, pod.title), make("p", {}, where(pod))];
  if (pod.lane && pod.why) found.push(make("p", {class: "why"}, pod.why));
  if (pod.gates.length) found.push(make("p", {}, `Its scheduling gates: ${pod.gates.join(", ")}.`));
  if (pod.nominated && !pod.node) found.push(make("p", {}, `Room is being made for it on ${pod.nominated}.`));
  const decision = decisionOf(pod);
  if (!decision) {
    if (pod.node) found.push(make("p", {class: "hint"}, "It has no annotation poller/decision, so nothing says why."));
    return found;
  }
  const nodes = isObject(decision.nodes) ? decision.nodes : null;
  if (nodes) found.push(...filters(nodes));
  else if (typeof decision.feasible === "string") found.push(make("p", {}, `Nodes that fit, of all: ${decision.feasible}.`));
  const scored = nodes
    ? Object.entries(nodes).filter(([, each]) => numbers(each?.scores).length).map(([name, each]) => [name, each.scores])
    : [[pod.node, decision.scores]].filter(([, scores]) => numbers(scores).length);
  if (scored.length) found.push(...bars(pod.node, scored));
  else if (nodes && pod.node) found.push(make("p", {}, "It is the only node that fits: nothing is scored."));
  const [[other, total] = []] = numbers(decision.runnerUp);
  if (other) found.push(make("p", {class: "runner-up"}, `The runner-up is ${other}, with ${total} points; the pick has ${decision.total}.`));
  return found;
}

function where(pod) {
  if (pod.node) return `It is on ${pod.node}.`;
  const words = {active: "is to be tried now", backoff: "is tried again after a short wait",
    unschedulable: "fits on no node", gated: "is held back by a scheduling gate"};
  return `It ${words[pod.lane]}. Its scheduler is ${pod.scheduler}.`;
}

/** A step for each plugin that rejected nodes; each step says how many are left. */
function filters(nodes) {
  const byPlugin = new Map();
  for (const [name, each] of Object.entries(nodes)) {
    if (!isObject(each) || !each.rejected_by) continue;
    const reasons = Array.isArray(each.reasons) ? each.reasons.join(", ") : "";
    const key = `${each.rejected_by}: ${reasons}`;
    byPlugin.set(key, [...(byPlugin.get(key) || []), name]);
  }
  let left = Object.keys(nodes).length;
  const steps = [make("li", {}, `${left} nodes`)];
  for (const [why, names] of byPlugin) {
    left -= names.length;
    steps.push(make("li", {}, make("s", {}, listed(names)), ` ${why}; ${left} left`));
  }
  return [make("h4", {}, "Filter"), make("ol", {class: "filters"}, ...steps)];
}

function bars(picked, scored) {
  const totals = scored.map(([name, scores]) => [name, scores, numbers(scores).reduce((sum, [, each]) => sum + each, 0)]);
  totals.sort((a, b) => (b[0] === picked) - (a[0] === picked) || b[2] - a[2] || (a[0] < b[0] ? -1 : 1));
  const plugins = [...new Set(totals.flatMap(([, scores]) => numbers(scores).map(([name]) => name)))];
  const longest = Math.max(1, ...totals.map(([, , total]) => total));
  const rows = totals.slice(0, MAX_BARS).map(([name, scores, total]) => {
    const words = numbers(scores).map(([plugin, score]) => `${plugin} ${score}`).join(", ");
    return make("li", {class: name === picked ? "picked" : ""},
      make("span", {class: "bar-name"}, name === picked ? `${name} (picked)` : name),
      stack(plugins, scores, longest, `${total} points: ${words}`), make("span", {class: "amount"}, String(total)));
  });
  const key = plugins.map((plugin, i) => make("li", {}, make("span", {class: `swatch plugin-${i % COLOURS}`}), plugin));
  const rest = totals.length - rows.length;
  return [make("h4", {}, "Score"), make("ul", {class: "bars"}, ...rows),
    rest > 0 ? make("p", {class: "hint"}, `${rest} nodes with lower scores are not shown.`) : null,
    make("ul", {class: "key", "aria-label": "Plugins"}, ...key)].filter(Boolean);
}

function stack(plugins, scores, longest, words) {
  const bar = document.createElementNS(SVG, "svg");
  bar.setAttribute("class", "bar");
  bar.setAttribute("role", "img");
  bar.setAttribute("aria-label", words);
  bar.setAttribute("viewBox", "0 0 100 8");
  bar.setAttribute("preserveAspectRatio", "none");
  let x = 0;
  for (const [plugin, score] of numbers(scores)) {
    const part = document.createElementNS(SVG, "rect");
    const width = (100 * score) / longest;
    const title = document.createElementNS(SVG, "title");
    title.textContent = `${plugin} ${score}`;
    part.setAttribute("class", `plugin-${plugins.indexOf(plugin) % COLOURS}`);
    for (const [name, value] of [["x", x], ["width", width], ["height", 8]]) part.setAttribute(name, String(value));
    part.append(title);
    bar.append(part);
    x += width;
  }
  return bar;
}
