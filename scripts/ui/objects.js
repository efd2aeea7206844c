// The parts of the API's objects that the page keeps: few fields, with amounts as numbers.

const FACTORS = {
  n: 1e-9, u: 1e-6, m: 1e-3, "": 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18,
  Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50, Ei: 2 ** 60,
};

/** A Kubernetes quantity as a number: "100m" is 0.1, "1Ki" is 1024. */
export function quantity(text) {
  const match = /^([+-]?[\d.]+(?:[eE][+-]?\d+)?)([a-zA-Z]*)$/.exec(String(text ?? 0));
  return match && match[2] in FACTORS ? Number(match[1]) * FACTORS[match[2]] : 0;
}

const NAMES = ["cpu", "memory"];

/** What a pod requests of cpu (cores) and memory (bytes), as the scheduler counts it. */
export function requests(spec) {
  const total = {cpu: 0, memory: 0};
  const of = (container, name) => quantity(container.resources?.requests?.[name]);
  for (const name of NAMES) {
    const containers = (spec.containers || []).reduce((sum, each) => sum + of(each, name), 0);
    let sidecars = 0;
    let highest = 0;
    for (const each of spec.initContainers || []) {
      if (each.restartPolicy === "Always") sidecars += of(each, name);
      highest = Math.max(highest, sidecars + (each.restartPolicy === "Always" ? 0 : of(each, name)));
    }
    total[name] = Math.max(containers + sidecars, highest) + quantity(spec.overhead?.[name]);
  }
  return total;
}

/** The lane of the queue for a pod without a node, judged by what the API server has. */
function laneOf(pod, condition) {
  if (pod.spec.schedulingGates?.length) return "gated";
  if (condition?.reason === "SchedulerError") return "backoff";
  return condition?.reason === "Unschedulable" ? "unschedulable" : "active";
}

export function slimPod(pod) {
  const condition = pod.status?.conditions?.find((each) => each.type === "PodScheduled");
  const finished = ["Succeeded", "Failed"].includes(pod.status?.phase);
  const node = pod.spec.nodeName || "";
  return {
    kind: "Pod", uid: pod.metadata.uid, namespace: pod.metadata.namespace, name: pod.metadata.name,
    title: `${pod.metadata.namespace}/${pod.metadata.name}`,
    node, finished, lane: node ? "" : laneOf(pod, condition),
    why: condition?.status === "False" ? condition.message || condition.reason || "" : "",
    gates: (pod.spec.schedulingGates || []).map((each) => each.name),
    nominated: pod.status?.nominatedNodeName || "",
    deleting: Boolean(pod.metadata.deletionTimestamp),
    scheduler: pod.spec.schedulerName || "", priority: pod.spec.priority ?? 0,
    requests: requests(pod.spec),
    decision: pod.metadata.annotations?.["poller/decision"] || "",
  };
}

export function slimNode(node) {
  const has = node.status?.allocatable || {};
  return {
    kind: "Node", uid: node.metadata.uid, name: node.metadata.name,
    allocatable: {cpu: quantity(has.cpu), memory: quantity(has.memory), pods: quantity(has.pods)},
    cordoned: Boolean(node.spec?.unschedulable),
    taints: (node.spec?.taints || []).map((each) => `${each.key}${each.value ? `=${each.value}` : ""}:${each.effect}`),
  };
}

export function slimEvent(event) {
  const about = event.involvedObject || {};
  return {
    kind: "Event", uid: event.metadata.uid,
    when: event.lastTimestamp || event.eventTime || event.firstTimestamp || event.metadata.creationTimestamp,
    count: event.series?.count || event.count || 1, type: event.type || "", reason: event.reason || "",
    message: event.message || "", aboutUid: about.uid || "", relatedUid: event.related?.uid || "",
    about: [about.namespace, about.name].filter(Boolean).join("/"),
  };
}

/** The content of the annotation poller/decision; null if there is none, or it can't be read. */
export function decisionOf(pod) {
  try {
    const found = JSON.parse(pod.decision);
    return found && typeof found === "object" && !Array.isArray(found) ? found : null;
  } catch {
    return null;
  }
}
