"""`config.check`: what a text would be worth as one of the user's files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import trio

from mcpd import roster
from mcpd.api.config import Checked, CheckText, Finding
from mcpd.config import check as checks
from mcpd.config import load
from mcpd.config.toml import Draft
from mcpd.control.operator import Operator
from mcpd.errors import Failure
from mcpd.policy.patterns import Known


async def check(operator: Operator, params: CheckText) -> Checked:
    """Nothing is changed by it, and the file that is named is not read."""
    broker = operator.broker
    config_dir = Path(broker.config_dir)
    place = checks.meant(Path(params.file), config_dir, Path(broker.config.settings.servers_dir))
    draft = Draft(Path(place), params.text.encode("utf-8", "surrogatepass"))
    found = await trio.to_thread.run_sync(
        _findings, config_dir, broker.environ, draft, params.text.removeprefix("\ufeff"), roster.known(broker)
    )
    shown = [
        Finding(
            params.file if each.file == str(place) else each.file,
            each.line,
            each.place,
            each.message,
            each.certain,
        )
        for each in found
    ]
    return Checked(taken_for=str(place), findings=tuple(shown))


def _findings(
    config_dir: Path, environ: Mapping[str, str], draft: Draft, text: str, known: Known
) -> tuple[checks.Finding, ...]:
    try:
        found = load.reload(config_dir, environ, draft=draft)
    except Failure as failure:
        return (checks.unusable(failure.data["file"], failure.data["place"], failure.data["reason"]),)
    before = load.load(config_dir, environ).problems
    return checks.findings(str(draft.file), text, found, before, known)
