// Reads objects from the API server, through the server of this page: lists, then watches. It never writes.
// Paths are relative to the page's address, which has the token.

const PAGE = 500;
const FIRST_PAUSE = 1000;
const LONGEST_PAUSE = 15000;

/** The API server's answer was not 2xx. `status` is its code; the message is the server's own. */
export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function get(path, parameters, signal) {
  const answer = await fetch(`${path}?${new URLSearchParams(parameters)}`, {signal, cache: "no-store"});
  if (answer.ok) return answer;
  const text = await answer.text();
  let message = text.trim() || `${answer.status} ${answer.statusText}`;
  try {
    message = JSON.parse(text).message || message;
  } catch { /* not JSON: it is a sentence */ }
  throw new ApiError(answer.status, message);
}

/** All objects of a resource, page by page. Returns {items, resourceVersion}. */
export async function list(path) {
  const items = [];
  let token = "";
  let resourceVersion = "";
  do {
    const parameters = {limit: PAGE, ...(token && {continue: token})};
    const page = await (await get(path, parameters)).json();
    items.push(...(page.items || []));
    token = page.metadata.continue || "";
    resourceVersion = page.metadata.resourceVersion;
  } while (token);
  return {items, resourceVersion};
}

/** What `poller.py why` answers about a pod, NAMESPACE/NAME. ApiError when it can't. */
export async function why(pod) {
  return (await get("why", {pod})).json();
}

/** Calls `change(type, object)` for each event of a watch, until the server ends it. */
async function watch(path, resourceVersion, change) {
  const answer = await get(path, {watch: 1, resourceVersion, allowWatchBookmarks: true, timeoutSeconds: 300});
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return resourceVersion;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (!line) continue;
      const {type, object} = JSON.parse(line);
      if (type === "ERROR") throw new ApiError(object.code, object.message);
      resourceVersion = object.metadata.resourceVersion;
      if (type !== "BOOKMARK") change(type, object);
    }
  }
}

const pause = (milliseconds) => new Promise((resume) => setTimeout(resume, milliseconds));

/**
 * Follows a resource for as long as the page is open.
 * `replace(items)`: the whole list. `change(type, object)`: one change.
 * `status(error)`: null after a success, else the error; then it is tried again.
 */
export async function follow(path, {replace, change, status}) {
  let wait = FIRST_PAUSE;
  for (;;) {
    try {
      let {items, resourceVersion} = await list(path);
      replace(items);
      status(null);
      for (;;) {
        resourceVersion = await watch(path, resourceVersion, change);
        wait = FIRST_PAUSE;
      }
    } catch (error) {
      if (error.status !== 410) status(error); // 410: the version is too old, so list again
    }
    await pause(wait);
    wait = Math.min(2 * wait, LONGEST_PAUSE);
  }
}
