"""Every code block of README and docs is run, or says in the page's source why it is not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import mlflow
import pytest
import world
from blocks import ROOT, SHELLS, Block, blocks_of, commands_of, pages, run_block

from dynamask_mlflow.cli import main

# Written by commands that take minutes to hours; what they show is checked against the command line, not run.
GENERATED = ("docs/results.md", "docs/arena.md", "docs/ablation.md", "docs/benchmarks.md")
RUN = ("python", *SHELLS, "yaml")
# Names that a page takes for granted beside those of `world`, as code.
SETUP = {
    "docs/mlflow.md": """
from mlflow.data import from_sequences
with mlflow.start_run() as _run:
    mlflow.log_input(from_sequences(x, channel_names=channels).save("stays.npz"))
run_id, champion = _run.info.run_id, None
data = from_sequences(x, targets=y, channel_names=channels)
""",
    "docs/data.md": """
import shutil
from dynamask_mlflow.data.hospital import HospitalConfig, synthesize
synthesize("mimic-iii-1.4", HospitalConfig(stays=240, months=2, seed=1))
shutil.rmtree("icu")
""",
    "docs/glossary.md": "inputs = torch.tensor(x[:4])",
    "docs/change.md": """
x, hours, ids = np.random.default_rng(0).normal(size=(4, 48, 4)).astype("float32"), list(range(48)), list(range(4))


class model(torch.nn.Module):
    def forward(self, x):
        return x[:, 20:, 1].mean(1) + x[:, -1, 0]


model = model()
""",
    "docs/audits.md": """
from pathlib import Path
Path("gate.yaml").write_text("channel: 0.1")
Path("deaths.csv").write_text("stay,died\\n" + "\\n".join(f"{stay},{stay % 2}" for stay in range(400, 500)))
""",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, Any]]]:
    before = mlflow.get_tracking_uri(), mlflow.get_registry_uri()
    folder = tmp_path_factory.mktemp("docs")
    yield folder, world.make(folder)
    mlflow.set_tracking_uri(before[0])
    mlflow.set_registry_uri(before[1])


def _runnable(page: str) -> list[Block]:
    return [block for block in blocks_of(page) if block.language in RUN and block.not_run is None]


# The page that trains a model moves the alias: it comes last.
PAGES = sorted((page for page in pages() if page not in GENERATED and _runnable(page)), key="docs/data.md".__eq__)


@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_a_page_run_in_order(
    page: str, made: tuple[Path, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, names = made
    (tmp_path / "icu").symlink_to(folder / "icu") if page != "docs/data.md" else (tmp_path / "icu").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DYNAMASK_STORE", str(folder / "shards"))
    mlflow.set_tracking_uri(f"sqlite:///{folder / 'mlflow.db'}")
    mlflow.set_experiment("dynamask")
    own = {**names, "__name__": "page"}
    exec(SETUP.get(page, ""), own)
    for block in _runnable(page):
        run_block(block, own, monkeypatch.setenv)


@pytest.mark.parametrize("page", pages())
def test_a_block_that_is_not_run_says_why(page: str) -> None:
    for block in blocks_of(page):
        assert block.not_run is None or len(block.not_run) > 10, f"{page}:{block.line} gives no reason"
        assert block.language or block.not_run is None, f"{page}:{block.line}: only code can be marked"


def _command(words: list[str]) -> click.Command:
    command: click.Command = main
    for word in words:
        if not isinstance(command, click.Group):
            break
        found = command.get_command(click.Context(command), word)
        assert found is not None, f"no command {word!r} in {words}"
        command = found
    return command


@pytest.mark.parametrize("page", pages())
def test_commands_and_options_of_a_page_exist(page: str) -> None:
    for block in (block for block in blocks_of(page) if block.language in SHELLS):
        for words in commands_of(block):
            if words[0] != "dynamask-mlflow" or len(words) == 1 or words[1].startswith("-"):
                continue
            known = {name for option in _command(words[1:]).params for name in (*option.opts, *option.secondary_opts)}
            unknown = [word for word in words if word.startswith("--") and word.split("=")[0] not in known | {"--help"}]
            assert not unknown, f"{page}:{block.line}: {unknown} of {' '.join(words)}"


def test_the_page_of_generated_results_is_there() -> None:
    for page in GENERATED:
        assert (ROOT / page).is_file()
