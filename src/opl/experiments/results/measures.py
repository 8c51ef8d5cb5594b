"""Numbers of `opl evaluate` count in a table only if they were measured with the table's settings."""

from typing import Any

from ..differences import describe_changes
from ..item import Item
from .runs import Run


def measured_result(run: Run, item: Item, scale: str) -> tuple[dict[str, Any], list[str]]:
    """The result of a run without numbers that were measured with other settings than the item's, and what differed."""
    result, faults = dict(run.result), []
    for measure in item.measures:
        for name, wanted in zip(measure.names, measure.settings, strict=False):
            content = run.measure(name) if scale in measure.scales else {}
            if content and content.get("settings") != wanted:
                faults.append(f"{name} was measured {_how(content.get('settings'), wanted)}")
                for number in content.get("numbers", {}):
                    result.pop(number, None)
    return result, faults


def _how(settings: Any, wanted: dict[str, Any]) -> str:
    if not isinstance(settings, dict):
        return "with settings that it does not tell"
    return f"with {', '.join(describe_changes(settings, wanted)).replace('recipe:', 'table:')}"
