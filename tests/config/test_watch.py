"""What a Watch reports, with real files; the clock jumps over the quiet time."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
import trio.testing

from mcpd.config.watch import QUIET, Watch


def write(path: Path, text: str = "x") -> None:
    path.write_text(text)


def replace_whole(path: Path) -> None:
    new = path.with_name(".new")
    new.write_text("y")
    new.rename(path)


@pytest.mark.parametrize(
    "act",
    [
        write,
        replace_whole,
        Path.unlink,
        lambda path: path.chmod(0o640),
        lambda path: path.rename(path.parent / "z"),
    ],
    ids=["write", "replace", "remove", "chmod", "rename"],
)
async def test_every_way_to_change_a_file_is_seen(tmp_path: Path, act: Callable[[Path], object]) -> None:
    file = tmp_path / "a.toml"
    write(file)
    with Watch([tmp_path]) as watch:
        act(file)
        assert file in await watch.changed()


async def test_reading_is_no_change(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    write(file)
    with Watch([tmp_path]) as watch:
        file.read_text()
        os.listdir(tmp_path)
        with trio.move_on_after(60) as scope:
            await watch.changed()
        assert scope.cancelled_caught


async def test_changes_are_merged_until_it_is_quiet(tmp_path: Path) -> None:
    with Watch([tmp_path]) as watch:
        seen: list[frozenset[Path]] = []

        async def collect() -> None:
            seen.append(await watch.changed())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(collect)
            for name in "abc":
                write(tmp_path / name)
                await trio.sleep(QUIET / 2)
        assert seen == [frozenset({tmp_path / name for name in "abc"})]


async def test_endless_changes_are_reported_all_the_same(tmp_path: Path) -> None:
    with Watch([tmp_path]) as watch, trio.fail_after(10):
        async with trio.open_nursery() as nursery:

            async def keep_writing() -> None:
                while True:
                    write(tmp_path / "a")
                    await trio.sleep(QUIET / 2)

            nursery.start_soon(keep_writing)
            assert await watch.changed() == {tmp_path / "a"}
            nursery.cancel_scope.cancel()


async def test_a_cancelled_wait_forgets_nothing(tmp_path: Path) -> None:
    with Watch([tmp_path]) as watch:
        write(tmp_path / "a")
        with trio.move_on_after(QUIET / 2):
            await watch.changed()
        assert tmp_path / "a" in await watch.changed()


async def test_a_folder_that_appears_later_is_watched_from_then_on(tmp_path: Path) -> None:
    folder = tmp_path / "one" / "two"
    with Watch([folder]) as watch:
        folder.mkdir(parents=True)
        write(folder / "early")
        assert folder in await watch.changed()
        write(folder / "late")
        assert folder / "late" in await watch.changed()


async def test_what_happens_beside_a_missing_folder_is_not_reported(tmp_path: Path) -> None:
    with Watch([tmp_path / "missing"]) as watch:
        write(tmp_path / "beside")
        (tmp_path / "other").mkdir()
        with trio.move_on_after(60) as scope:
            await watch.changed()
        assert scope.cancelled_caught


async def test_a_folder_that_is_removed_and_made_again_is_watched_again(tmp_path: Path) -> None:
    folder = tmp_path / "servers.d"
    folder.mkdir()
    with Watch([folder]) as watch:
        folder.rmdir()
        assert folder in await watch.changed()
        folder.mkdir()
        assert folder in await watch.changed()
        write(folder / "a")
        assert folder / "a" in await watch.changed()


async def test_a_folder_that_is_exchanged_is_watched_in_its_new_form(tmp_path: Path) -> None:
    folder, aside = tmp_path / "servers.d", tmp_path / "aside"
    folder.mkdir()
    with Watch([folder]) as watch:
        folder.rename(aside)
        folder.mkdir()
        assert folder in await watch.changed()
        write(aside / "old")
        write(folder / "new")
        assert await watch.changed() == {folder / "new"}


async def test_a_folder_within_a_watched_one(tmp_path: Path) -> None:
    inner = tmp_path / "servers.d"
    with Watch([tmp_path, inner]) as watch:
        inner.mkdir()
        assert inner in await watch.changed()
        write(inner / "a")
        write(tmp_path / "config.toml")
        assert {inner / "a", tmp_path / "config.toml"} <= await watch.changed()


async def test_a_removed_socket_is_seen(home: object, tmp_path: Path) -> None:
    folder = Path(os.environ["XDG_RUNTIME_DIR"])
    path = folder / "s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        with Watch([folder]) as watch:
            path.unlink()
            assert await watch.changed() == {path}


async def test_a_file_in_place_of_the_folder_does_no_harm(tmp_path: Path) -> None:
    folder = tmp_path / "servers.d"
    write(folder)
    with Watch([folder]) as watch:
        folder.unlink()
        folder.mkdir()
        assert folder in await watch.changed()


def test_the_descriptor_is_given_back(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with Watch([tmp_path]) as watch:
        assert len(os.listdir("/proc/self/fd")) == before + 1
    watch.close()
    assert len(os.listdir("/proc/self/fd")) == before
