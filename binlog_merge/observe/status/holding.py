"""Which node holds the others back, and why: the one with the least watermark, if others are further or wait.

Where the merge stays below the watermarks of all nodes, no node holds back: it waits for a marker, or stops before a
statement.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from binlog_merge.observe.status.values import MergedStatus, NodeStatus

_NODE_AT: Final = 48
"""Where the node's number begins in the text of an order key."""


def with_holders(nodes: Mapping[str, NodeStatus], merged: MergedStatus) -> dict[str, NodeStatus]:
    """Return the nodes with `holds_back` filled in. After --end-of-input nobody holds anything back."""
    counting = {name: node for name, node in nodes.items() if not node.gone}
    if merged.end_of_input or merged.run == 0 or below_all(nodes, merged):
        return dict(nodes)
    keys = {name: "" if node.watermark is None else node.watermark.key for name, node in counting.items()}
    least = min(keys.values(), default="")
    apart = any(key[:19] > least[:19] for key in keys.values())
    if not apart and not merged.held:
        return dict(nodes)
    holders = {name for name, key in keys.items() if key == least}
    return {
        name: replace(node, holds_back=_why(node, merged.began_at)) if name in holders else node
        for name, node in nodes.items()
    }


def below_all(nodes: Mapping[str, NodeStatus], merged: MergedStatus) -> bool:
    """Return whether the global watermark is below those of all nodes."""
    keys = [node.watermark.key if node.watermark is not None else "" for node in nodes.values() if not node.gone]
    return merged.watermark is not None and bool(keys) and merged.watermark.key[:_NODE_AT] < min(keys)[:_NODE_AT]


def _why(node: NodeStatus, began_at: float) -> str:
    """Return why a node's watermark is no further, in words."""
    capture = node.capture
    if not node.files:
        return "it has no binlog files"
    if capture is not None and capture.state == "full" and not capture.silent:
        return f"its capture waits for room: {capture.text}"
    if capture is not None and (capture.silent or capture.state in ("failed", "lost")):
        return f"its capture {'is silent' if capture.silent else f'{capture.state}: {capture.text}'}"
    if news := node.news(began_at):
        return f"{news:,} bytes after {node.read or 'its beginning'} are captured and not merged yet"
    if node.open_branches:
        branches = "branch is" if node.open_branches == 1 else "branches are"
        return f"{node.open_branches} {branches} prepared, and neither committed nor rolled back"
    if node.watermark is None:
        return "it has shown no commit TSO yet"
    if capture is not None and capture.state == "stopped":
        return "its capture was stopped: nothing newer comes"
    if capture is not None and capture.state == "connecting":
        return f"its capture is connecting to {capture.server}"
    return "it is idle: nothing newer is captured"
