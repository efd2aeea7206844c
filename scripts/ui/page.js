// Puts the page together: objects that are read go into the history, and the history is drawn.

import {follow} from "./api.js";
import {Board} from "./board.js";
import {explain} from "./decision.js";
import {byId, make, say} from "./elements.js";
import {History} from "./history.js";
import {slimEvent, slimNode, slimPod} from "./objects.js";
import {Predict} from "./predict.js";

const MAX_EVENTS = 100;
const RESOURCES = [
  {kind: "Node", path: "api/v1/nodes", slim: slimNode, without: "Nodes can't be read"},
  {kind: "Pod", path: "api/v1/pods", slim: slimPod, without: "Pods can't be read"},
  {kind: "Event", path: "api/v1/events", slim: slimEvent, without: "Events can't be read"},
];

const history = new History();
const problems = new Map(); // by kind: what went wrong
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
  board.select(uid);
  drawDecision(history.at(shownNumber()));
  byId("decision").scrollIntoView({block: "nearest"});
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
  const drawn = JSON.stringify([pod ?? selected, hidden]);
  if (body.dataset.drawn === drawn) return;
  body.dataset.drawn = drawn;
  if (hidden) body.replaceChildren(make("p", {}, `${pod.title}: say first where it will go.`));
  else if (pod) body.replaceChildren(...explain(pod));
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
  const broken = [...problems.entries()];
  say(byId("connection"), broken.length ? "some of it can't be read" : listed.size === RESOURCES.length ? "connected" : "connecting…");
  say(byId("notes"), broken.map(([, words]) => words).join(" "));
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

for (const {kind, path, slim, without} of RESOURCES) {
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
      if (error) problems.set(kind, `${without}: ${error.message}. The page tries again.`);
      else problems.delete(kind);
      drawProblems();
    },
  });
}

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
