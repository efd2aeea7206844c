// Puts the page together: objects that are read go into the history, and the history is drawn.

import {follow, why} from "./api.js";
import {Board} from "./board.js";
import {explain} from "./decision.js";
import {byId, make, say} from "./elements.js";
import {History} from "./history.js";
import {slimEvent, slimNode, slimPod} from "./objects.js";
import {Predict} from "./predict.js";

const MAX_EVENTS = 100;
const RESOURCES = [
  {kind: "Node", path: "api/v1/nodes", slim: slimNode, called: "Nodes", parts: ["nodes"]},
  {kind: "Pod", path: "api/v1/pods", slim: slimPod, called: "Pods", parts: ["queue", "nodes", "decision"]},
  {kind: "Event", path: "api/v1/events", slim: slimEvent, called: "Events", parts: ["stream"]},
];

const history = new History();
const problems = new Map(); // by kind: what can't be read, and the error's message
const lost = new Map(); // by kind: when it was last read, in milliseconds
const asked = new Map(); // by a waiting pod's uid: {of, answer} or {of, error}; `of` is the state it was asked in
const listed = new Set(); // kinds that were read once
const slider = byId("slider");
let isLive = true;
let selected = "";
let due = false;

const predict = new Predict({changed: redraw, reveal: select});
const board = new Board({choose: select, chooseNode: (name) => predict.guess(name)});

const shownNumber = () => (isLive ? history.last : Number(slider.value));

function select(uid) {
  selected = uid;
  asked.delete(uid);
  document.body.classList.toggle("chosen", Boolean(uid));
  board.select(uid);
  drawDecision(history.at(shownNumber()));
  byId("decision").scrollTop = 0;
  board.show(uid);
}

/** Asks poller why a pod waits, once for each of its states. */
async function ask(pod) {
  const of = `${pod.lane} ${pod.why}`;
  if (asked.get(pod.uid)?.of === of) return;
  asked.set(pod.uid, {of, pending: true});
  let found;
  try {
    found = {of, answer: await why(pod.title)};
  } catch (error) {
    found = {of, error: `Poller can't say why node by node: ${error.message}`};
  }
  if (asked.get(pod.uid)?.of === of) asked.set(pod.uid, found);
  redraw();
}

/** What events say of a preemption: who was evicted for this pod, and why it is evicted itself. */
function preemptionOf(pod, objects) {
  const events = [...objects.values()].filter((each) => each.kind === "Event" && each.reason === "Preempted");
  const victims = events.filter((each) => each.relatedUid === pod.uid)
    .map((each) => ({title: each.about, priority: history.remembered(each.aboutUid)?.priority}));
  return {victims, preemption: events.find((each) => each.aboutUid === pod.uid) || null};
}

/** Draws once at the next frame, whatever the number of changes until then. */
function redraw() {
  if (due) return;
  due = true;
  requestAnimationFrame(draw);
}

function draw() {
  due = false;
  drawSlider();
  const objects = history.at(shownNumber());
  const pods = [];
  const nodes = [];
  const events = [];
  for (const each of objects.values()) {
    if (each.kind === "Pod" && !each.finished) pods.push(each);
    else if (each.kind === "Node") nodes.push(each);
    else if (each.kind === "Event") events.push(each);
  }
  nodes.sort((a, b) => a.name.localeCompare(b.name, "en", {numeric: true}));
  const asks = predict.on && isLive;
  board.draw(pods, nodes, (pod) => (asks && predict.hides(pod.uid) ? {lane: "active"} : pod.node ? {node: pod.node} : {lane: pod.lane}));
  if (asks) predict.show(history.now, nodes);
  board.offerNodes(asks && Boolean(predict.asking) && !predict.answered);
  drawDecision(objects);
  drawEvents(events, asks);
}

function drawSlider() {
  if (isLive) slider.value = slider.max = String(Math.max(history.last, 1));
  slider.min = String(history.first);
  slider.max = String(Math.max(history.last, 1));
  if (isLive) slider.value = slider.max;
  const when = history.timeOf(shownNumber());
  const words = isLive ? "live" : when === null ? "the start of what this page has seen" : new Date(when).toLocaleTimeString();
  say(byId("slider-time"), words);
  slider.setAttribute("aria-valuetext", words);
  byId("live").disabled = isLive;
  document.body.classList.toggle("replaying", !isLive);
}

function drawDecision(objects) {
  const pod = objects.get(selected);
  const body = byId("decision-body");
  const hidden = isLive && predict.hides(selected);
  const waits = pod && isLive && !hidden && !pod.node;
  if (waits) ask(pod);
  const found = waits ? asked.get(pod.uid) : {error: "This is how it was then; go back to live to ask poller why."};
  const more = pod ? {...preemptionOf(pod, objects), asked: found?.pending ? null : found} : {};
  const drawn = JSON.stringify([pod ?? selected, hidden, more]);
  if (body.dataset.drawn === drawn) return;
  body.dataset.drawn = drawn;
  if (hidden) body.replaceChildren(make("p", {}, `${pod.title}: say first where it will go.`));
  else if (pod) body.replaceChildren(...explain(pod, more));
  else body.replaceChildren(make("p", {}, selected ? "This pod isn't there at this time." : "Choose a pod to see why it is where it is."));
}

function drawEvents(events, asks) {
  events.sort((a, b) => (a.when < b.when ? 1 : a.when > b.when ? -1 : 0));
  const hidden = new Set(asks ? predict.waiting.filter((uid) => predict.hides(uid)).map((uid) => history.now.get(uid)?.title) : []);
  const list = byId("event-list");
  const shown = events.filter((each) => !hidden.has(each.about)).slice(0, MAX_EVENTS);
  const drawn = shown.map((each) => `${each.uid}/${each.count}`).join();
  if (list.dataset.drawn === drawn) return;
  list.dataset.drawn = drawn;
  list.replaceChildren(...shown.map((each) => make("li", {class: each.type === "Warning" ? "warning" : ""},
    make("time", {datetime: each.when || ""}, each.when ? new Date(each.when).toLocaleTimeString() : ""),
    make("b", {}, ` ${each.reason} `), make("span", {class: "about"}, each.about), `: ${each.message}`,
    each.count > 1 ? ` (${each.count} times)` : null)));
}

function drawProblems() {
  const broken = [...problems.values()];
  const isDown = broken.length === RESOURCES.length;
  const since = Math.min(...[...lost.values()]);
  const words = isDown && lost.size ? `not connected since ${new Date(since).toLocaleTimeString()}`
    : broken.length ? "some of it can't be read" : listed.size === RESOURCES.length ? "connected" : "connecting…";
  say(byId("connection"), words);
  const age = isDown && lost.size ? ` What you see is as old as ${new Date(since).toLocaleTimeString()}.` : "";
  const notes = [...new Set(broken.map((each) => each.message))].map((message) => {
    const kinds = RESOURCES.map((each) => each.called).filter((name) => broken.some((each) => each.called === name && each.message === message));
    return `${kinds.join(" and ")} can't be read: ${message}. The page tries again.`;
  });
  say(byId("notes"), notes.join(" ") + age);
  const old = new Set(RESOURCES.filter(({kind}) => lost.has(kind)).flatMap(({parts}) => parts));
  for (const part of RESOURCES.flatMap(({parts}) => parts)) byId(part).classList.toggle("old", old.has(part));
}

/** Passes one change on to the history, to predict mode, and to screen readers. */
function apply(uid, after) {
  const before = history.now.get(uid) || null;
  if (!history.set(uid, after)) return;
  if ((after || before).kind !== "Pod") return;
  predict.heard(before, after);
  if (isLive && after?.node && before && !before.node && !predict.hides(uid)) {
    say(byId("spoken"), `${after.title} was bound to ${after.node}`);
  }
}

for (const {kind, path, slim, called} of RESOURCES) {
  follow(path, {
    replace(items) {
      const objects = items.map(slim);
      if (!listed.has(kind)) history.begin(objects);
      else {
        const there = new Set(objects.map((each) => each.uid));
        for (const each of [...history.now.values()]) if (each.kind === kind && !there.has(each.uid)) apply(each.uid, null);
        for (const each of objects) apply(each.uid, each);
      }
      listed.add(kind);
      redraw();
    },
    change(type, object) {
      apply(object.metadata.uid, type === "DELETED" ? null : slim(object));
      redraw();
    },
    status(error) {
      if (error) {
        problems.set(kind, {called, message: error.message});
        if (listed.has(kind) && !lost.has(kind)) lost.set(kind, Date.now());
      } else {
        problems.delete(kind);
        lost.delete(kind);
      }
      drawProblems();
    },
  });
}

const search = byId("search");
search.addEventListener("input", () => board.find(search.value.trim().toLowerCase()));
search.addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  const uid = board.firstFound();
  if (uid) select(uid);
});
byId("close").addEventListener("click", () => {
  const chip = board.chips.get(selected)?.firstElementChild;
  select("");
  chip?.focus();
});

slider.addEventListener("input", () => {
  isLive = Number(slider.value) >= history.last;
  redraw();
});
byId("live").addEventListener("click", () => {
  isLive = true;
  redraw();
  slider.focus();
});
byId("predict").addEventListener("change", (event) => {
  isLive = true;
  predict.switch(event.target.checked);
});
