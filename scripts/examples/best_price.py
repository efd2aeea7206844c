"""The cheapest node first: a node's annotation `example.com/price` says what an hour of it costs.

    .venv/bin/python poller.py --plugin scripts/examples/best_price.py
    kubectl annotate node NAME example.com/price=0.05

A price of 0 scores 100. A price of DEAREST or more scores 0, and so does a node without a price.
"""

PRICE = "example.com/price"
DEAREST = 1.00
WEIGHT = 5  # as much as TaintToleration and NodeAffinity together


def score(pod, node):
    try:
        price = float(node.annotations.get(PRICE, DEAREST))
    except ValueError:  # a price that is no number is as good as none
        price = DEAREST
    return round(100 * (1 - min(max(price / DEAREST, 0), 1)))
