"""The cheaper the node, the better; and that counts for more than all that speaks for spreading."""

WEIGHT = 100


def score(pod, node):
    price = float(node.annotations.get("example.com/price", 1))
    return round(100 * max(0.0, 1 - price))
