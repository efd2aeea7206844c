// Predict mode: a pod that gets a node is hidden from the nodes until the reader has said where it will go.

import {why} from "./api.js";
import {nodesOf, tied, whyNotOn} from "./decision.js";
import {byId, make, say} from "./elements.js";

const MAX_BUTTONS = 12; // with more nodes, there are no buttons beside the question: each node's box has one

export class Predict {
  /** `changed()`: the board must be drawn anew. `reveal(uid)`: show this pod's decision. */
  constructor({changed, reveal}) {
    this.changed = changed;
    this.reveal = reveal;
    this.on = false;
    this.waiting = []; // uids of pods to be asked about, in order
    this.right = this.asked = 0;
    this.answered = false;
    byId("question-next").addEventListener("click", () => this.next());
    byId("question-skip").addEventListener("click", () => this.next());
  }

  switch(on) {
    this.on = on;
    if (!on) this.waiting = [];
    this.answered = false;
    this.show();
    this.changed();
  }

  /** The pod that is asked about now; "" if there is none. */
  get asking() {
    return this.on ? this.waiting[0] || "" : "";
  }

  /** Whether this pod's node is hidden. */
  hides(uid) {
    return this.on && this.waiting.includes(uid) && !(this.answered && uid === this.waiting[0]);
  }

  /** Handles a pod that got a node, or was deleted: {uid, title, node} as it is now, or null. */
  heard(before, after) {
    if (!this.on) return;
    if (after && before && !before.node && after.node) this.waiting.push(after.uid);
    if (!after && this.waiting.includes(before?.uid)) {
      const asked = this.asking === before.uid;
      this.waiting = this.waiting.filter((each) => each !== before.uid);
      if (asked) this.answered = false;
    }
  }

  /** Shows the question, with the current pods and nodes. */
  show(pods = this.pods, nodes = this.nodes) {
    this.pods = pods;
    this.nodes = nodes;
    const pod = pods?.get(this.asking);
    byId("question").hidden = !this.on;
    byId("score").hidden = !this.on;
    say(byId("score"), `${this.right} of ${this.asked} right`);
    byId("question-next").hidden = !this.answered;
    byId("question-skip").hidden = this.answered || !pod;
    byId("question-nodes").hidden = this.answered || !pod;
    if (!pod) {
      say(byId("question-text"), "Make a pod. When the scheduler has picked a node for it, you are asked which.");
      if (!this.answered) say(byId("question-answer"), "");
      this.drawn = "";
      return;
    }
    if (this.answered) return;
    const {cpu, memory} = pod.requests;
    say(byId("question-text"), `${pod.title} has got a node. It requests cpu ${cpu} and ${Math.round(memory / 2 ** 20)} MiB of memory. Which node is it?`);
    say(byId("question-answer"), "");
    const drawn = [pod.uid, ...nodes.map((each) => each.name)].join();
    if (this.drawn === drawn) return; // the buttons stay, and so does the focus
    this.drawn = drawn;
    const few = nodes.length <= MAX_BUTTONS ? nodes : [];
    byId("question-nodes").replaceChildren(
      ...few.map(({name}) => make("button", {type: "button", onclick: () => this.guess(name)}, name)),
      ...(few.length ? [] : [make("p", {class: "hint"}, "Choose it in the list of nodes.")]));
  }

  guess(node) {
    const pod = this.pods.get(this.asking);
    if (!pod || this.answered) return;
    this.asked += 1;
    this.answered = true;
    const isTied = tied(pod).includes(node);
    if (node === pod.node || isTied) this.right += 1;
    const words = node === pod.node ? `Right: ${pod.title} is on ${pod.node}.`
      : isTied ? `As good: ${node} has as many points as ${pod.node}, which was picked at random.`
        : `No: ${pod.title} is on ${pod.node}, not on ${node}.`;
    this.show();
    say(byId("question-answer"), words);
    this.changed();
    this.reveal(pod.uid);
    byId("question-next").focus();
    if (node !== pod.node && !isTied) this.explain(pod, node, words);
  }

  /** Says why the guessed node was worse: by the pod's annotation or, if that is short, as poller would decide now. */
  async explain(pod, node, words) {
    let nodes = nodesOf(pod);
    let when = "";
    if (!nodes) {
      when = "As things are now, ";
      try {
        nodes = (await why(pod.title)).nodes;
      } catch (error) {
        when = `Poller can't say why: ${error.message}`;
      }
    }
    if (this.asking !== pod.uid) return;
    say(byId("question-answer"), `${words} ${when}${nodes ? whyNotOn(node, pod, nodes) : ""}`);
  }

  next() {
    const uid = this.waiting.shift();
    const skipped = !this.answered;
    this.answered = false;
    this.changed();
    this.show();
    if (skipped && uid) this.reveal(uid);
    byId("question-title").focus();
  }
}
