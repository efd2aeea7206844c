// Draws the queue's lanes and the nodes with their pods. A pod is one button that moves between them.

import {arrange, byId, make, meter, say} from "./elements.js";

const COMPACT_FROM = 40; // nodes
const MAX_CHIPS = 30; // pods of one node or lane that are drawn; the others are counted

const still = matchMedia("(prefers-reduced-motion: reduce)");
const round = (amount) => Number(amount.toFixed(amount < 10 ? 1 : 0)).toString();
const gibibytes = (bytes) => `${round(bytes / 2 ** 30)} GiB`;

export class Board {
  /** `choose(uid)`: a pod was clicked. `chooseNode(name)`: a node was clicked. */
  constructor({choose, chooseNode}) {
    this.choose = choose;
    this.chooseNode = chooseNode;
    this.chips = new Map(); // by the pod's uid
    this.boxes = new Map(); // by the node's name
    this.selected = "";
    this.wanted = ""; // what is searched for
    this.lanes = new Map([...document.querySelectorAll(".lane")].map((each) => [each.dataset.lane, each]));
  }

  /** Draws the pods and nodes. `lanesOf(pod)`: where to show a pod: {lane} or {node}. */
  draw(pods, nodes, placeOf) {
    const before = this.positions();
    const inLane = new Map([...this.lanes.keys()].map((name) => [name, []]));
    const onNode = new Map(nodes.map((each) => [each.name, []]));
    for (const pod of pods) {
      const {lane, node} = placeOf(pod);
      if (node) onNode.get(node)?.push(pod);
      else if (lane) inLane.get(lane)?.push(pod);
    }
    for (const [name, lane] of this.lanes) this.drawPods(lane, inLane.get(name));
    byId("node-list").classList.toggle("compact", nodes.length > COMPACT_FROM);
    say(byId("node-count"), String(nodes.length));
    const boxes = nodes.map((node) => this.drawNode(node, onNode.get(node.name)));
    arrange(byId("node-list"), boxes);
    const names = new Set(nodes.map((each) => each.name));
    for (const name of [...this.boxes.keys()]) if (!names.has(name)) this.boxes.delete(name);
    const uids = new Set(pods.map((each) => each.uid));
    for (const uid of [...this.chips.keys()]) if (!uids.has(uid)) this.chips.delete(uid);
    this.animate(before);
  }

  drawPods(box, pods) {
    say(box.querySelector(".count"), String(pods.length));
    const some = pods.slice(0, MAX_CHIPS);
    const chosen = pods.find((pod) => pod.uid === this.selected || (this.wanted && this.isFound(pod.title)));
    if (chosen && !some.includes(chosen)) some[MAX_CHIPS - 1] = chosen;
    const shown = some.map((pod) => this.chip(pod));
    const list = box.querySelector("ul");
    let more = list.querySelector(".more");
    if (pods.length > shown.length) {
      more ||= make("li", {class: "more"});
      say(more, `and ${pods.length - shown.length} more`);
      shown.push(more);
    }
    arrange(list, shown);
  }

  chip(pod) {
    let item = this.chips.get(pod.uid);
    if (!item) {
      const button = make("button", {type: "button", onclick: () => this.choose(pod.uid)}, pod.name);
      item = make("li", {class: "pod", "data-uid": pod.uid, "data-pod": pod.title}, button);
      this.chips.set(pod.uid, item);
    }
    const button = item.firstElementChild;
    const words = [pod.title, pod.deleting && "is being deleted", pod.lane && pod.why].filter(Boolean).join(": ");
    if (button.title !== words) button.title = words;
    button.setAttribute("aria-pressed", String(pod.uid === this.selected));
    item.classList.toggle("deleting", pod.deleting);
    item.classList.toggle("not-found", !this.isFound(pod.title));
    return item;
  }

  drawNode(node, pods) {
    let box = this.boxes.get(node.name);
    if (!box) {
      const cpu = meter("cpu");
      const memory = meter("memory");
      const pick = make("button", {type: "button", class: "pick", hidden: true, onclick: () => this.chooseNode(node.name)},
        `Choose ${node.name}`);
      box = make("li", {class: "node", "data-node": node.name},
        make("h3", {}, `${node.name} `, make("span", {class: "count"})), make("p", {class: "hint"}),
        cpu.element, memory.element, pick, make("ul"));
      Object.assign(box, {cpu, memory, pick});
      this.boxes.set(node.name, box);
    }
    const used = {cpu: 0, memory: 0};
    for (const pod of pods) for (const name of ["cpu", "memory"]) used[name] += pod.requests[name];
    const {allocatable} = node;
    box.cpu.set(allocatable.cpu ? used.cpu / allocatable.cpu : 0, `${round(used.cpu)} of ${round(allocatable.cpu)}`);
    box.memory.set(allocatable.memory ? used.memory / allocatable.memory : 0,
      `${gibibytes(used.memory)} of ${gibibytes(allocatable.memory)}`);
    say(box.querySelector(".hint"), [node.cordoned && "cordoned", ...node.taints].filter(Boolean).join(", "));
    box.classList.toggle("cordoned", node.cordoned);
    this.drawPods(box, pods);
    const isFound = this.isFound(node.name) || pods.some((pod) => this.isFound(pod.title));
    box.classList.toggle("not-found", !isFound);
    return box;
  }

  isFound(name) {
    return !this.wanted || name.toLowerCase().includes(this.wanted);
  }

  /** Dims the pods and nodes whose names don't have this text, and shows the first one that has it. */
  find(wanted) {
    this.wanted = wanted;
    for (const item of this.chips.values()) item.classList.toggle("not-found", !this.isFound(item.dataset.pod));
    for (const [name, box] of this.boxes) {
      box.classList.toggle("not-found", !this.isFound(name) && !box.querySelector(".pod:not(.not-found)"));
    }
    const first = wanted && document.querySelector(".pod:not(.not-found), .node:not(.not-found)");
    if (first) first.scrollIntoView({block: "center"});
  }

  /** The uid of the first pod that is found; empty if nothing is searched for, or none is found. */
  firstFound() {
    return (this.wanted && document.querySelector(".pod:not(.not-found)")?.dataset.uid) || "";
  }

  /** Scrolls so that a pod is seen. */
  show(uid) {
    this.chips.get(uid)?.scrollIntoView({block: "nearest", inline: "nearest"});
  }

  /** Marks the pod whose decision is shown, and its node. */
  select(uid) {
    this.chips.get(this.selected)?.firstElementChild.setAttribute("aria-pressed", "false");
    this.selected = uid;
    this.chips.get(uid)?.firstElementChild.setAttribute("aria-pressed", "true");
  }

  /** Shows or hides each node's button for choosing it. */
  offerNodes(offered) {
    for (const box of this.boxes.values()) box.pick.hidden = !offered;
  }

  positions() {
    const found = new Map();
    if (still.matches) return found;
    for (const [uid, item] of this.chips) {
      if (item.parentElement) found.set(uid, [item.parentElement, item.getBoundingClientRect()]);
    }
    return found;
  }

  /** Animates each pod that has moved to another list. */
  animate(before) {
    for (const [uid, [list, from]] of before) {
      const item = this.chips.get(uid);
      if (!item?.isConnected || item.parentElement === list) continue;
      const to = item.getBoundingClientRect();
      const move = `translate(${from.left - to.left}px, ${from.top - to.top}px)`;
      item.animate([{transform: move, zIndex: 2}, {transform: "none", zIndex: 2}], {duration: 600, easing: "ease-in-out"});
    }
  }
}
