"""The page in the browser, in a real Chromium: what people see, and that text from the API stays text."""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from cluster import ONE_SERVER, Cluster
from conftest import embedded
from page import IN_CHROMIUM, page_of
from playwright.sync_api import Browser, ConsoleMessage, Page, expect

ON_ONE_SERVER = True

pytestmark = IN_CHROMIUM

expect.set_options(timeout=30_000)


@pytest.fixture(scope="module")
def address(servers: Cluster) -> Iterator[str]:
    with page_of(servers) as address:
        yield address


@pytest.fixture
def page(browser: Browser, address: str, cluster: Cluster) -> Iterator[Page]:
    with open_page(browser, address) as page:
        yield page


@contextmanager
def open_page(browser: Browser, address: str) -> Iterator[Page]:
    """The page, open and connected; a console error fails the test."""
    with browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce") as context:
        page = context.new_page()
        page.set_default_timeout(30_000)
        complaints: list[str] = []

        def hear(message: ConsoleMessage) -> None:
            if message.type in ("error", "warning"):
                complaints.append(message.text)

        page.on("console", hear)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(address)
        expect(page.locator("#connection")).to_have_text("connected")
        yield page
        assert complaints == []


def chip(page: Page, name: str, within: str = "") -> Any:
    return page.locator(f"{within} [data-pod='default/{name}'] button")


def test_a_pod_waits_moves_to_its_node_and_explains_itself(page: Page, cluster: Cluster) -> None:
    for name, cpu in (("n1", "1"), ("n2", "8"), ("n3", "4")):
        cluster.add_node(name, cpu=cpu)
    cluster.kubectl("cordon", "n3")
    cluster.add_pod("web")
    cluster.add_pod("huge", requests={"cpu": "64"})
    cluster.add_pod("later", schedulingGates=[{"name": "example.com/later"}])
    expect(chip(page, "web", "[data-lane=active]")).to_be_visible()
    expect(chip(page, "later", "[data-lane=gated]")).to_be_visible()
    assert cluster.poller().returncode == 3
    expect(chip(page, "web", "#node-list")).to_be_visible()
    expect(chip(page, "huge", "[data-lane=unschedulable]")).to_be_visible()
    node = str(cluster.pod("web")["spec"]["nodeName"])
    expect(chip(page, "web", f"[data-node={node}]")).to_be_visible()
    expect(page.locator("#event-list")).to_contain_text(f"Successfully assigned default/web to {node}")
    expect(page.locator("[data-node=n3] .hint")).to_contain_text("cordoned")

    chip(page, "web").click()
    body = page.locator("#decision-body")
    expect(body).to_contain_text(f"It is on {node}.")
    expect(body.locator(".bars .picked")).to_contain_text(node)
    expect(body.locator(".runner-up")).to_contain_text("The runner-up is")
    chip(page, "huge").click()
    expect(body.locator(".why")).to_contain_text("2 Insufficient cpu")
    expect(body.locator(".reasons li").first).to_have_text(
        "n1 NodeResourcesFit: Insufficient cpu; needs cpu 64, the node has 1 in all"
    )
    expect(body).to_contain_text("n3 NodeUnschedulable: node(s) were unschedulable")
    expect(body).to_contain_text("at cpu 7900m in place of 64: then n2")

    cluster.api.delete("/api/v1/namespaces/default/pods/web", params={"gracePeriodSeconds": "0"})
    expect(chip(page, "web")).to_have_count(0)


def test_poller_serves_the_page_and_tells_it_of_each_node(browser: Browser, cluster: Cluster) -> None:
    cluster.add_node("n1", cpu="1")
    cluster.add_node("n2")
    cluster.add_node("n3", memory="99Gi")
    cluster.add_node("n4")
    cluster.kubectl("cordon", "n4")
    with page_of(cluster, "--interval=0.1") as address, open_page(browser, address) as page:
        expect(page.locator("[data-node=n3]")).to_be_visible()
        cluster.add_pod("web", requests={"cpu": "2"})
        expect(chip(page, "web", "#node-list")).to_be_visible()
        node = str(cluster.pod("web")["spec"]["nodeName"])
        (other,) = {"n2", "n3"} - {node}
        chip(page, "web").click()
        expect(page.locator(".filters li").first).to_have_text("4 nodes")
        steps = page.locator(".filters")
        expect(steps).to_contain_text("n4 NodeUnschedulable: node(s) were unschedulable; ")
        expect(steps).to_contain_text("n1 NodeResourcesFit: Insufficient cpu; ")
        expect(steps).to_contain_text("; 2 left")
        expect(page.locator(".bars li")).to_have_text(
            [re.compile(f"^{node} \\(picked\\)"), re.compile(f"^{other}")]
        )
        expect(page.locator(".bars li").first).to_contain_text("NodeResourcesFit")
        expect(page.locator(".runner-up")).to_contain_text(f"The runner-up is {other}, with ")
        cluster.add_pod("tight", requests={"cpu": "3"})
        expect(chip(page, "tight", f"[data-node={other}]")).to_be_visible()
        chip(page, "tight").click()
        expect(page.locator("#decision-body")).to_contain_text(
            "It is the only node that fits: nothing is scored."
        )


def test_a_decision_in_full_shows_nodes_falling_away_and_stacked_scores(page: Page, cluster: Cluster) -> None:
    cluster.add_node("n1")
    decision = {
        "feasible": "2/4",
        "total": 30,
        "scores": {"NodeResourcesFit": 20, "ImageLocality": 10},
        "runnerUp": {"n2": 25},
        "nodes": {
            "n1": {"scores": {"NodeResourcesFit": 20, "ImageLocality": 10}, "total": 30},
            "n2": {"scores": {"NodeResourcesFit": 25}, "total": 25},
            "n3": {"rejected_by": "NodeUnschedulable", "reasons": ["node(s) were unschedulable"]},
            "n4": {"rejected_by": "NodeResourcesFit", "reasons": ["Insufficient cpu"]},
        },
    }
    annotations = {"poller/decision": json.dumps(decision)}
    cluster.add_pod("web", metadata={"annotations": annotations}, nodeName="n1")
    chip(page, "web").click()
    steps = page.locator(".filters li")
    expect(steps).to_have_text(
        [
            "4 nodes",
            "n3 NodeUnschedulable: node(s) were unschedulable; 3 left",
            "n4 NodeResourcesFit: Insufficient cpu; 2 left",
        ]
    )
    rows = page.locator(".bars li")
    expect(rows).to_have_text(
        ["n1 (picked)NodeResourcesFit 20ImageLocality 103020 + 10", "n2NodeResourcesFit 252525"]
    )


def test_text_from_the_api_stays_text(page: Page, cluster: Cluster) -> None:
    evil = "<img src=x onerror=\"document.title='run'\"><script>document.title='run'</script>"
    cluster.add_node("n1")
    hostile = json.dumps(
        {"feasible": evil, "nodes": {evil: {"rejected_by": evil, "reasons": [evil]}, "n": None}}
    )
    cluster.add_pod("a", metadata={"annotations": {"poller/decision": hostile}}, nodeName="n1")
    for number, nonsense in enumerate(("[]", "{", "null", '{"nodes": 7, "scores": [1], "runnerUp": "x"}')):
        cluster.add_pod(
            f"odd{number}", metadata={"annotations": {"poller/decision": nonsense}}, nodeName="n1"
        )
    waiting = cluster.add_pod("b")
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": evil}
    cluster.api.patch(
        "/api/v1/namespaces/default/pods/b/status",
        json={"status": {"conditions": [condition]}},
        headers={"Content-Type": "application/merge-patch+json"},
    ).raise_for_status()
    about = {"kind": "Pod", "namespace": "default", "name": "b", "uid": waiting["metadata"]["uid"]}
    cluster.post(
        "/api/v1/namespaces/default/events",
        {
            "metadata": {"name": "b.1"},
            "involvedObject": about,
            "reason": "Failed",
            "message": evil,
            "type": "Warning",
            "lastTimestamp": "2026-01-01T00:00:00Z",
        },
    )
    expect(page.locator("#event-list")).to_contain_text(evil)
    for name in ("a", "odd0", "odd1", "odd2", "odd3", "b"):
        chip(page, name).click()
        expect(page.locator("#decision-body h3")).to_have_text(f"default/{name}")
    expect(page.locator("#decision-body .why")).to_have_text(evil)
    assert page.title() == "poller: pods and nodes, live"
    assert page.locator("main img, main script").count() == 0


def test_predict_mode_asks_first_and_then_reveals(page: Page, cluster: Cluster) -> None:
    cluster.add_node("n1")
    cluster.add_node("n2")
    cluster.kubectl("taint", "node", "n2", "spot=true:PreferNoSchedule")
    page.get_by_label("Predict mode").check()
    for name, selector in (("first", "n1"), ("second", "n1"), ("third", "")):
        cluster.add_pod(name, nodeSelector={"kubernetes.io/hostname": selector} if selector else {})
        expect(chip(page, name, "[data-lane=active]")).to_be_visible()
    assert cluster.poller("--bind-workers=1").returncode == 0  # one binding after the other
    question = page.locator("#question")
    expect(question).to_contain_text("default/first has got a node")
    expect(chip(page, "first", "[data-lane=active]")).to_be_visible()  # still a secret
    expect(page.locator("#event-list")).not_to_contain_text("default/first")
    chip(page, "first").click()
    expect(page.locator("#decision-body")).to_have_text("default/first: say first where it will go.")

    question.get_by_role("button", name="n2", exact=True).click()
    expect(page.locator("#question-answer")).to_have_text(
        "No: default/first is on n1, not on n2. As things are now, NodeAffinity rejects n2: node(s) didn't"
        " match Pod's node affinity/selector."
    )
    expect(chip(page, "first", "[data-node=n1]")).to_be_visible()
    expect(page.locator("#decision-body")).to_contain_text("It is on n1.")
    question.get_by_role("button", name="Next").click()
    expect(question).to_contain_text("default/second has got a node")
    page.get_by_role("button", name="Choose n1").click()
    expect(page.locator("#question-answer")).to_have_text("Right: default/second is on n1.")
    expect(page.locator("#score")).to_have_text("1 of 2 right")
    question.get_by_role("button", name="Next").click()
    question.get_by_role("button", name="n2", exact=True).click()
    expect(page.locator("#question-answer")).to_have_text(
        re.compile(
            r"No: .* is on n1, not on n2. As things are now, n2 has \d+ points, and n1 has \d+: there"
            r" TaintToleration gives 0, not 300\b"
        )
    )


def test_the_slider_shows_what_was(page: Page, cluster: Cluster) -> None:
    cluster.add_node("n1")
    cluster.add_pod("web")
    expect(chip(page, "web", "[data-lane=active]")).to_be_visible()
    assert cluster.poller().returncode == 0
    expect(chip(page, "web", "[data-node=n1]")).to_be_visible()
    slider = page.get_by_label("Time")
    slider.focus()
    page.keyboard.press("Home")
    expect(chip(page, "web")).to_have_count(0)
    expect(page.locator("#slider-time")).to_have_text("the start of what this page has seen")
    seen = set()
    for _ in range(int(slider.get_attribute("max") or 0)):
        page.keyboard.press("ArrowRight")
        page.evaluate("new Promise(requestAnimationFrame)")  # what the key changes is drawn by then
        seen |= {
            where for where in ("[data-lane=active]", "[data-node=n1]") if chip(page, "web", where).count()
        }
    assert seen == {"[data-lane=active]", "[data-node=n1]"}
    page.keyboard.press("Home")
    cluster.add_pod("new")  # what happens now doesn't move the slider
    expect(page.locator("#slider-time")).to_have_text("the start of what this page has seen")
    expect(chip(page, "new")).to_have_count(0)
    page.get_by_role("button", name="Back to live").click()
    expect(chip(page, "new", "[data-lane=active]")).to_be_visible()


def test_a_tie_is_named_and_is_not_a_wrong_prediction(page: Page, cluster: Cluster) -> None:
    for name in ("n1", "n2", "n3"):
        cluster.add_node(name)
    cluster.kubectl("taint", "node", "n3", "spot=true:PreferNoSchedule")
    totals = {"n1": 97, "n2": 97, "n3": 50}
    nodes = {
        name: {"scores": {"NodeResourcesFit": fit, "TaintToleration": 300}, "total": 300 + fit}
        for name, fit in totals.items()
    }
    said = json.dumps({"feasible": "3/3", "total": 397, "runnerUp": {"n2": 397}, "nodes": nodes})
    cluster.add_pod("web", metadata={"annotations": {"poller/decision": said}})
    page.get_by_label("Predict mode").check()
    expect(chip(page, "web", "[data-lane=active]")).to_be_visible()
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "web"}}
    target = {"target": {"apiVersion": "v1", "kind": "Node", "name": "n1"}}
    cluster.post("/api/v1/namespaces/default/pods/web/binding", binding | target)
    page.locator("#question").get_by_role("button", name="n2", exact=True).click()
    expect(page.locator("#question-answer")).to_have_text(
        "As good: n2 has as many points as n1, which was picked at random."
    )
    expect(page.locator("#score")).to_have_text("1 of 1 right")
    expect(page.locator(".tie")).to_have_text("Tie: one of n1, n2 at random.")
    expect(page.locator(".same")).to_contain_text(
        "The same for all nodes, and in each total: TaintToleration 300."
    )
    widths = page.locator(".bars rect").evaluate_all("all => all.map(each => each.getAttribute('width'))")
    assert [round(float(width)) for width in widths] == [100, 100, 52]


def test_a_preemption_says_who_must_go_and_why(page: Page, cluster: Cluster) -> None:
    cluster.add_node("n1", cpu="4")
    held = {"finalizers": ["example.com/slow"]}
    cluster.add_pod("batch", nodeName="n1", requests={"cpu": "3"}, metadata=held)
    cluster.kubectl("create", "priorityclass", "page-high", "--value=1000")
    cluster.add_pod("urgent", requests={"cpu": "3"}, priorityClassName="page-high")
    assert cluster.poller().returncode == 3
    body = page.locator("#decision-body")
    chip(page, "urgent").click()
    expect(body).to_contain_text("These pods must go, so that it fits: its own priority, 1000, is higher.")
    expect(body.locator(".victims")).to_have_text("default/batch, priority 0")
    chip(page, "batch").click()
    expect(body).to_contain_text("It must go. Preempted by pod ")
    path = "/api/v1/namespaces/default/pods/batch"
    cluster.patch(path, {"metadata": {"finalizers": None}})
    cluster.api.delete(path, params={"gracePeriodSeconds": "0"})
    assert cluster.poller().returncode == 0
    chip(page, "urgent", "[data-node=n1]").click()
    expect(body).to_contain_text("It took the place of these pods on n1")
    cluster.kubectl("delete", "priorityclass", "page-high")


def test_five_hundred_nodes_and_a_phone(browser: Browser, tmp_path: Path) -> None:
    """Who searches sees the pod that is found, and long names and all nodes have room."""
    with ExitStack() as stack:
        cluster = stack.enter_context(embedded(tmp_path, nodes=500))
        for number in range(120):
            cluster.add_pod(f"web-{number}", nodeName=f"node{1 + number % 60}")
        page = stack.enter_context(open_page(browser, stack.enter_context(page_of(cluster))))
        cluster.add_pod("web", nodeSelector={"kubernetes.io/hostname": "node499"})
        long_name = "checkout-frontend-canary-with-a-very-long-name-6d8f7c9b5d-x2x9p"
        cluster.add_pod(long_name, "another-scheduler")
        expect(page.locator("#node-count")).to_have_text("500")
        assert cluster.poller().returncode == 0
        expect(chip(page, "web", "#node-list")).to_be_attached()
        for width, height in ((1440, 900), (390, 844)):
            page.set_viewport_size({"width": width, "height": height})
            search = page.get_by_label("Find a pod or node")
            search.fill("web-107")
            expect(page.locator(".pod:not(.not-found)")).to_have_count(1)
            search.press("Enter")
            expect(page.locator("#decision-body h3")).to_have_text("default/web-107")
            box = chip(page, "web-107").bounding_box()
            above = page.locator("#decision").bounding_box()
            assert box
            assert above
            bottom = height if width > 800 else above["y"]
            assert 0 <= box["y"] <= bottom - box["height"]
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            search.fill("")
        assert chip(page, long_name).evaluate("each => each.scrollWidth <= each.clientWidth")
        chip(page, "web").click()
        expect(page.locator("#decision-body")).to_contain_text("It is on node499.")
        assert page.evaluate("document.documentElement.scrollWidth <= 390")


def test_axe_finds_nothing(page: Page, cluster: Cluster) -> None:
    from axe_playwright_python.sync_playwright import Axe

    schemes: list[Literal["light", "dark"]] = ["light", "dark"]

    def look() -> None:
        for scheme in schemes:
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            found = Axe().run(page)
            assert found.violations_count == 0, (scheme, found.generate_report())

    cluster.add_node("n1")
    cluster.add_node("n2")
    cluster.add_pod("web")
    cluster.add_pod("huge", requests={"cpu": "64"})
    expect(chip(page, "web")).to_be_visible()
    page.get_by_label("Predict mode").check()
    assert cluster.poller().returncode == 3
    expect(page.locator("#question")).to_contain_text("default/web has got a node")
    look()
    page.locator("#question").get_by_role("button", name="n1", exact=True).click()
    expect(page.locator(".bars")).to_be_visible()
    look()


@pytest.mark.parametrize("servers", [ONE_SERVER], indirect=True)
def test_what_may_not_be_read_is_named_and_the_rest_is_shown(
    browser: Browser, servers: Cluster, cluster: Cluster
) -> None:
    if not servers.kubeconfig_for:
        pytest.skip("the embedded API server has no users")
    cluster.add_node("n1")
    cluster.kubectl("create", "clusterrole", "page", "--verb=get,list,watch", "--resource=nodes,pods")
    cluster.kubectl("create", "clusterrolebinding", "page", "--clusterrole=page", "--user=reader")
    reader = replace(cluster, kubeconfig=servers.kubeconfig_for("reader"))
    with page_of(reader) as address, browser.new_context() as context:
        page = context.new_page()
        page.goto(address)
        expect(page.locator("#notes")).to_contain_text(
            'Events can\'t be read: events is forbidden: User "reader"'
        )
        expect(page.locator("[data-node=n1]")).to_be_visible()


def test_an_outage_dims_what_is_old_and_says_since_when(browser: Browser, tmp_path: Path) -> None:
    with embedded(tmp_path, nodes=2) as cluster, browser.new_context() as context:
        page = context.new_page()
        with page_of(cluster) as address:
            page.goto(address)
            expect(page.locator("#connection")).to_have_text("connected")
            expect(page.locator(".old")).to_have_count(0)
        expect(page.locator("#connection")).to_contain_text("not connected since ")
        expect(page.locator("#notes")).to_contain_text("What you see is as old as ")
        for part in ("nodes", "queue", "decision", "stream"):
            expect(page.locator(f"#{part}")).to_have_class("old")
