// The objects now and in the last minutes: each change keeps the object as it was before.

const KEEP_MILLISECONDS = 10 * 60 * 1000;
const KEEP_CHANGES = 20000;

export class History {
  constructor() {
    this.now = new Map(); // by uid
    this.last = 0; // the number of the last change
    this.changes = []; // {number, when, uid, before}, the oldest first
  }

  /** The number of the oldest state that can be shown: the one before the first kept change. */
  get first() {
    return this.last - this.changes.length;
  }

  /** Sets one object, or removes it with null. Returns whether the page must show something else. */
  set(uid, after, when = Date.now()) {
    const before = this.now.get(uid) || null;
    if (JSON.stringify(before) === JSON.stringify(after)) return false;
    if (after) this.now.set(uid, after);
    else this.now.delete(uid);
    this.changes.push({number: ++this.last, when, uid, before});
    while (this.changes.length > KEEP_CHANGES || this.changes[0].when < when - KEEP_MILLISECONDS) {
      this.changes.shift();
    }
    return true;
  }

  /** An object that was there at some time, as it was last; null if it isn't remembered. */
  remembered(uid) {
    return this.now.get(uid) || this.changes.findLast((each) => each.uid === uid && each.before)?.before || null;
  }

  /** Adds objects that existed before the page was opened; they don't count as changes. */
  begin(objects) {
    for (const each of objects) this.now.set(each.uid, each);
  }

  /** The objects after the change of this number. */
  at(number) {
    if (number >= this.last) return this.now;
    const then = new Map(this.now);
    for (let i = this.changes.length - 1; i >= 0 && this.changes[i].number > number; i--) {
      const {uid, before} = this.changes[i];
      if (before) then.set(uid, before);
      else then.delete(uid);
    }
    return then;
  }

  /** When the change of this number happened, in milliseconds; null before the first kept change. */
  timeOf(number) {
    return this.changes[number - this.first - 1]?.when ?? null;
  }
}
