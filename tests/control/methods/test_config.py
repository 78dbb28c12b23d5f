"""`config.check`."""

from __future__ import annotations

from tests.conftest import Home
from tests.control.world import running, tiny, write_config, write_server


async def test_a_draft_is_checked_and_changes_nothing(home: Home, real_clock: None) -> None:
    write_server(home, "notes", **tiny())
    config = write_config(home, "[agents.coder]\nopen = true\n")
    async with running(home) as world:
        operator = await world.operator()
        await operator.call("servers.test", server="notes")
        text = '[tool_policies]\n"notes__ehco" = { approval = "never" }\n[agents.coder]\nmax_risk = "lo"\n'
        checked = await operator.call("config.check", file="/tmp/draft.toml", text=text)
        assert checked["taken_for"] == str(config)
        wrong, odd = checked["findings"]
        assert (wrong["file"], wrong["line"], wrong["certain"]) == ("/tmp/draft.toml", 4, True)
        assert 'did you mean "low"?' in wrong["message"]
        assert (odd["line"], odd["place"], odd["certain"]) == (2, "tool_policies.notes__ehco", False)
        assert 'did you mean "echo"?' in odd["message"]
        assert world.broker.config.agents["coder"].open
        assert config.read_text() == "[agents.coder]\nopen = true\n"

        broken = await operator.call("config.check", file=str(config), text="[tool_policies\n")
        [finding] = broken["findings"]
        assert (finding["file"], finding["line"], finding["place"]) == (str(config), 1, "")
        assert "not TOML" in finding["message"]
        good = await operator.call("config.check", file=str(config), text=config.read_text())
        assert good["findings"] == []
        long = await operator.refusal("config.check", file="/x", text="#" * ((1 << 20) + 1))
        assert long.kind == "invalid_params"
