// Explains one pod: the filters one after the other, then the scores as stacked bars, then ties and the runner-up.

import {make} from "./elements.js";
import {decisionOf} from "./objects.js";

const COLOURS = 8; // style.css has classes plugin-0 to plugin-7
const MAX_BARS = 12;
const MAX_REASONS = 60; // nodes whose reasons are listed
const SVG = "http://www.w3.org/2000/svg";

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const numbers = (scores) => Object.entries(isObject(scores) ? scores : {}).filter(([, each]) => Number.isFinite(each));
const sum = (scores) => numbers(scores).reduce((total, [, each]) => total + each, 0);
const texts = (value) => (Array.isArray(value) ? value.filter((each) => typeof each === "string") : []);
const listed = (names) => (names.length > 5 ? `${names.slice(0, 5).join(", ")} and ${names.length - 5} more` : names.join(", "));

/** The nodes that were as good as the picked one; empty if it was the best, or nothing says so. */
export function tied(pod) {
  const decision = decisionOf(pod);
  if (!decision || !pod.node) return [];
  if (isObject(decision.nodes)) {
    const totals = Object.entries(decision.nodes).filter(([, each]) => numbers(each?.scores).length)
      .map(([name, each]) => [name, sum(each.scores)]);
    const best = totals.find(([name]) => name === pod.node)?.[1];
    return totals.filter(([name, total]) => total === best && name !== pod.node).map(([name]) => name);
  }
  return numbers(decision.runnerUp).filter(([, total]) => total === decision.total).map(([name]) => name);
}

/** What each node was given, by name: {scores} or {rejected_by, reasons}; null if the annotation doesn't say. */
export function nodesOf(pod) {
  const nodes = decisionOf(pod)?.nodes;
  return isObject(nodes) ? nodes : null;
}

/** Why a pod isn't on this node but on its own, with the numbers: one sentence. */
export function whyNotOn(node, pod, nodes) {
  const [other, own] = [nodes[node], nodes[pod.node]];
  if (!isObject(other)) return `${node} was not looked at, as enough nodes fit.`;
  if (other.rejected_by) return `${other.rejected_by} rejects ${node}: ${texts(other.reasons).join("; ")}.`;
  const points = `${node} has ${sum(other.scores)} points, and ${pod.node} has ${sum(own?.scores)}`;
  const less = numbers(own?.scores).map(([plugin, score]) => [plugin, other.scores?.[plugin] ?? 0, score])
    .filter(([, mine, score]) => mine < score).sort((a, b) => b[2] - b[1] - a[2] + a[1]);
  const parts = less.map(([plugin, mine, score]) => `${plugin} gives ${mine}, not ${score}`);
  return `${points}${parts.length ? `: there ${listed(parts)}` : ""}.`;
}

/**
 * The explanation of a pod, as an array of elements.
 * `preempted`: events about pods that were evicted for it, or about its own eviction: {title, message, priority}.
 * `asked`: what `poller.py why` has answered about a pod without a node: {answer} or {error}; null before.
 */
export function explain(pod, {victims = [], preemption = null, asked = null} = {}) {
  const found = [make("h3", {}, pod.title), make("p", {}, where(pod))];
  if (pod.priority) found.push(make("p", {}, `Its priority is ${pod.priority}.`));
  if (pod.deleting) found.push(make("p", {class: "why"}, preemption ? `It must go. ${preemption.message}.` : "It is being deleted."));
  if (victims.length) found.push(...places(pod, victims));
  if (pod.lane && pod.why) found.push(make("p", {class: "why"}, pod.why));
  if (pod.gates.length) found.push(make("p", {}, `Its scheduling gates: ${pod.gates.join(", ")}.`));
  if (pod.nominated && !pod.node) found.push(make("p", {}, `Room is being made for it on ${pod.nominated}.`));
  if (!pod.node) return [...found, ...whyNot(pod, asked)];
  const decision = decisionOf(pod);
  if (!decision) {
    found.push(make("p", {class: "hint"}, "It has no annotation poller/decision, so nothing says why."));
    return found;
  }
  const nodes = nodesOf(pod);
  if (nodes) found.push(...filters(nodes));
  else if (typeof decision.feasible === "string") found.push(make("p", {}, `Nodes that fit, of all: ${decision.feasible}.`));
  const scored = nodes ? scoresOf(nodes) : [[pod.node, decision.scores]].filter(([, scores]) => numbers(scores).length);
  if (scored.length) found.push(...bars(pod.node, scored, Boolean(nodes)));
  else if (nodes) found.push(make("p", {}, "It is the only node that fits: nothing is scored."));
  const equal = tied(pod);
  const [[other, total] = []] = numbers(decision.runnerUp);
  if (equal.length) found.push(make("p", {class: "tie"}, `Tie: one of ${listed([pod.node, ...equal])}${nodes ? "" : ", and maybe others,"} at random.`));
  else if (other) found.push(make("p", {class: "runner-up"}, `The runner-up is ${other}, with ${total} points; the pick has ${decision.total}.`));
  return found;
}

function where(pod) {
  if (pod.node) return `It is on ${pod.node}.`;
  const words = {active: "is to be tried now", backoff: "is tried again after a short wait",
    unschedulable: "fits on no node", gated: "is held back by a scheduling gate"};
  return `It ${words[pod.lane]}. Its scheduler is ${pod.scheduler}.`;
}

/** Who had to go, or must go, so that a pod fits. */
function places(pod, victims) {
  const whose = victims.map((each) => make("li", {}, `${each.title}, priority ${each.priority ?? "unknown"}`));
  const words = pod.node
    ? `It took the place of these pods on ${pod.node}: no node had room, and its own priority, ${pod.priority}, is higher.`
    : `These pods must go, so that it fits: its own priority, ${pod.priority}, is higher.`;
  return [make("h4", {}, "Preemption"), make("p", {}, words), make("ul", {class: "victims"}, ...whose)];
}

/** The reasons of each node, as `poller.py why` says them, and what would help. */
function whyNot(pod, asked) {
  if (!asked) return [make("p", {class: "hint", role: "status"}, "Asking poller why …")];
  if (asked.error) return [make("p", {class: "hint"}, asked.error)];
  const {answer} = asked;
  const nodes = isObject(answer.nodes) ? Object.entries(answer.nodes) : [];
  const found = [];
  const rows = nodes.filter(([, each]) => each?.rejected_by).map(([name, each]) => make("li", {},
    make("b", {}, name), ` ${each.rejected_by}: ${[...texts(each.reasons), ...texts(each.details)].join("; ")}`));
  if (rows.length) {
    found.push(make("h4", {}, "Why not, node by node"), make("ul", {class: "reasons"}, ...rows.slice(0, MAX_REASONS)));
    if (rows.length > MAX_REASONS) found.push(make("p", {class: "hint"}, `And ${rows.length - MAX_REASONS} more nodes.`));
  }
  const fits = scoresOf(Object.fromEntries(nodes));
  if (answer.outcome === "scheduled") {
    found.push(make("p", {}, pod.lane === "unschedulable" ? "With poller's own plugins it would fit now." : "It would fit now."));
    if (fits.length) found.push(...bars("", fits, true));
  }
  const helps = (Array.isArray(answer.suggestions) ? answer.suggestions : [])
    .map((each) => make("li", {}, `${texts(each.changes).join(", ")}: then ${listed(texts(each.nodes))}`));
  if (helps.length) found.push(make("h4", {}, "What would help"), make("ul", {class: "reasons"}, ...helps));
  return found;
}

/** The nodes with scores: [name, scores]. */
function scoresOf(nodes) {
  return Object.entries(nodes).filter(([, each]) => numbers(each?.scores).length).map(([name, each]) => [name, each.scores]);
}

/** A step for each plugin that rejected nodes; each step says how many are left. */
function filters(nodes) {
  const byPlugin = new Map();
  for (const [name, each] of Object.entries(nodes)) {
    if (!isObject(each) || !each.rejected_by) continue;
    const key = `${each.rejected_by}: ${texts(each.reasons).join(", ")}`;
    byPlugin.set(key, [...(byPlugin.get(key) || []), name]);
  }
  let left = Object.keys(nodes).length;
  const steps = [make("li", {}, left === 1 ? "1 node" : `${left} nodes`)];
  for (const [why, names] of byPlugin) {
    left -= names.length;
    steps.push(make("li", {}, make("s", {}, listed(names)), ` ${why}; ${left} left`));
  }
  return [make("h4", {}, "Filter"), make("ol", {class: "filters"}, ...steps)];
}

/** A bar for each node. Plugins whose score is the same for all nodes decide nothing: they are named below. */
function bars(picked, scored, all) {
  const totals = scored.map(([name, scores]) => [name, scores, sum(scores)]);
  totals.sort((a, b) => (b[0] === picked) - (a[0] === picked) || b[2] - a[2] || (a[0] < b[0] ? -1 : 1));
  const plugins = [...new Set(totals.flatMap(([, scores]) => numbers(scores).map(([name]) => name)))];
  const isSame = (plugin) => all && scored.length > 1 && scored.every(([, scores]) => scores[plugin] === scored[0][1][plugin]);
  const same = plugins.filter(isSame);
  const differ = plugins.filter((plugin) => !isSame(plugin));
  const drawn = (scores) => numbers(scores).filter(([plugin]) => differ.includes(plugin));
  const longest = Math.max(1, ...scored.map(([, scores]) => drawn(scores).reduce((total, [, each]) => total + each, 0)));
  const rows = totals.slice(0, MAX_BARS).map(([name, scores, total]) => {
    const words = drawn(scores).map(([plugin, score]) => `${plugin} ${score}`).join(", ");
    return make("li", {class: name === picked ? "picked" : ""},
      make("span", {class: "bar-name"}, name === picked ? `${name} (picked)` : name),
      all ? stack(differ, drawn(scores), longest, `${total} points: ${words}`) : make("span", {}, words),
      make("span", {class: "amount"}, String(total)),
      all ? make("span", {class: "parts"}, drawn(scores).map(([, score]) => score).join(" + ")) : null);
  });
  const key = (all ? differ : []).map((plugin, i) => make("li", {}, make("span", {class: `swatch plugin-${i % COLOURS}`}), plugin));
  const rest = totals.length - rows.length;
  const constant = same.map((plugin) => `${plugin} ${scored[0][1][plugin]}`).join(", ");
  return [make("h4", {}, "Score"), make("ul", {class: "bars"}, ...rows),
    rest > 0 ? make("p", {class: "hint"}, `${rest} nodes with lower scores are not shown.`) : null,
    make("ul", {class: "key", "aria-label": "Plugins"}, ...key),
    same.length ? make("p", {class: "hint same"}, `The same for all nodes, and in each total: ${constant}.`) : null].filter(Boolean);
}

function stack(plugins, scores, longest, words) {
  const bar = document.createElementNS(SVG, "svg");
  bar.setAttribute("class", "bar");
  bar.setAttribute("role", "img");
  bar.setAttribute("aria-label", words);
  bar.setAttribute("viewBox", "0 0 100 8");
  bar.setAttribute("preserveAspectRatio", "none");
  let x = 0;
  for (const [plugin, score] of scores) {
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
