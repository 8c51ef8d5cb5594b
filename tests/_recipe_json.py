"""A change to the recipe that a run folder holds, for the tests that read runs."""

import json

from _vouched import vouch


def rewrite(path, **changes):
    """Change `recipe.json`: `batch_size`, `model` and `optimizer` of the recipe, everything else beside it."""
    about = json.loads((path / "recipe.json").read_text())
    about["recipe"] |= {name: changes.pop(name) for name in ("batch_size", "model", "optimizer") if name in changes}
    (path / "recipe.json").write_text(json.dumps(about | changes))
    vouch(path, done=(path / "done").exists())
