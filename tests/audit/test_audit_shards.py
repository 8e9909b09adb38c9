"""Shards: named by their content, whole or absent, never fitted twice."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from audit_hospital import hospital

from dynamask_mlflow.audit import AuditError, ShardGroup, StaySource, fit_shard, gather, plan_shards
from dynamask_mlflow.audit.errors import NoDataError
from dynamask_mlflow.audit.explained_window import ExplainedWindow
from dynamask_mlflow.audit.models import resolve_model
from dynamask_mlflow.audit.windows import draw, find_rows, parse_window


def plan(place, rows=range(200, 224), config=None, **options):
    group = ShardGroup(
        model=resolve_model("models:/icu/1"),
        source=StaySource(stays=options.pop("data", place.data), rows=tuple(rows)),
        config=config or place.config,
        salt=options.pop("salt", ""),
    )
    return plan_shards(group, place.shards, **options)


def test_a_shard_is_fitted_once(place):
    (uri,) = plan(place)
    first, second = fit_shard(uri), fit_shard(uri)
    assert (first.skipped, second.skipped) == (False, True)
    assert first.instances == 24
    assert plan(place) == [uri]


def test_the_name_depends_on_all_that_determines_the_content(place, tmp_path):
    changed = hospital()
    changed.x[200, 0, 0] += 1
    data = str(changed.save(tmp_path / "changed"))
    base = plan(place)
    others = [
        plan(place, config=place.config.with_options(seed=1)),
        plan(place, config=place.config.with_options(attention_area=0.3)),
        plan(place, rows=range(201, 225)),
        plan(place, salt="again"),
        plan(place, data=data),
    ]
    assert len({uris[0] for uris in [base, *others]}) == 6
    assert plan(place, config=place.config.with_options(alpha=0.05)) == base  # how it is judged is not what it is


def test_shards_cover_all_stays_in_order_and_join_to_the_same(place):
    uris = plan(place, shards=3)
    assert len(uris) == 3
    for uri in uris:
        fit_shard(uri)
    joined = gather(uris)
    assert joined.ids.tolist() == [str(i) for i in range(200, 224)]
    (whole,) = plan(place)
    fit_shard(whole)
    np.testing.assert_allclose(joined.by_channel, gather([whole]).by_channel, atol=1e-6)


def test_few_fat_shards_by_estimated_seconds(place):
    assert len(plan(place, rows=range(400))) == 1
    many = place.config.with_options(shard_seconds=0.01)
    assert len(plan(place, rows=range(400), config=many)) > 10


def test_a_damaged_result_is_fitted_again(place):
    (uri,) = plan(place)
    result = Path(fit_shard(uri).result)
    whole = ExplainedWindow.load(result)
    result.write_bytes(result.read_bytes()[:100])
    assert fit_shard(uri).skipped is False
    np.testing.assert_array_equal(ExplainedWindow.load(result).by_channel, whole.by_channel)


@pytest.mark.slow
def test_another_process_gives_the_same_bits(place):
    (uri,) = plan(place)
    here = ExplainedWindow.load(fit_shard(uri).result)
    Path(json.loads(Path(uri).read_text())["result"]).unlink()
    script = (
        f"import mlflow, torch, sys; torch.set_num_threads(1); mlflow.set_tracking_uri({place.uri!r})\n"
        f"from dynamask_mlflow.audit import fit_shard; print(fit_shard({uri!r}).result)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    there = ExplainedWindow.load(done.stdout.strip().splitlines()[-1])
    np.testing.assert_array_equal(here.by_channel, there.by_channel)


def test_unfitted_shards_and_changed_stays_are_errors(place, tmp_path):
    uris = plan(place, rows=range(300, 310), salt="never fitted")
    with pytest.raises(AuditError, match="1 fitted shards, but 1 are not"):
        gather(uris)
    spec = json.loads(Path(uris[0]).read_text())
    spec["content"] = "something else"
    Path(uris[0]).write_text(json.dumps(spec))
    with pytest.raises(AuditError, match="changed since"):
        fit_shard(uris[0])


@pytest.mark.parametrize(
    ("text", "start", "stop"),
    [
        ("2026", "2026-01-01T00:00:00", "2027-01-01T00:00:00"),
        ("2026-02", "2026-02-01T00:00:00", "2026-03-01T00:00:00"),
        ("2026-02-28", "2026-02-28T00:00:00", "2026-03-01T00:00:00"),
        ("2025-12..2026-02", "2025-12-01T00:00:00", "2026-03-01T00:00:00"),
        ("all", None, None),
    ],
)
def test_windows_are_half_open(text, start, stop):
    window = parse_window(text)
    assert (window.start, window.stop) == (start, stop)


@pytest.mark.parametrize("text", ["", "2026-13", "2026-02-30", "2026-03..2026-01", "yesterday", "2026-1"])
def test_other_windows_are_refused(text):
    with pytest.raises(AuditError, match="Expected a window"):
        parse_window(text)


def test_stays_of_a_window_are_drawn_by_seed(place):
    rows = find_rows(place.data, parse_window("2026-02"))
    assert len(rows) == 90
    few = draw(rows, 30, 0, "2026-02")
    np.testing.assert_array_equal(few, draw(rows, 30, 0, "2026-02"))
    assert set(few) <= set(rows)
    assert draw(rows, 30, 1, "2026-02").tolist() != few.tolist()
    with pytest.raises(NoDataError, match="split 'train'"):
        find_rows(place.data, parse_window("2026-02"), "train")


def test_a_second_plan_has_the_shards_of_the_first_though_the_speed_is_known_by_then(place):
    from dynamask_mlflow.audit import shards

    config = place.config.with_options(shard_seconds=10.0)
    shards._note_speed(Path(place.shards), resolve_model("models:/icu/1"), config, 0.5)
    first = plan(place, rows=range(60), config=config)
    assert len(first) == 3
    shards._note_speed(Path(place.shards), resolve_model("models:/icu/1"), config, 0.001)
    assert plan(place, rows=range(60), config=config) == first
    assert len(plan(place, rows=range(61), config=config)) == 1


@pytest.mark.slow
def test_two_processes_fit_what_one_would(place):
    from dynamask_mlflow.audit.workers import Workers

    alone = plan(place, rows=range(200, 300), shards=4, salt="alone")
    together = plan(place, rows=range(200, 300), shards=4, salt="together")
    done = []
    with Workers(1) as workers:
        workers.fit(alone)
    with Workers(2) as workers:
        assert workers.least_shards > 1
        workers.fit(together, done.append)
    assert [entry.uri for entry in done] == together
    np.testing.assert_array_equal(gather(alone).by_channel, gather(together).by_channel)


def test_more_processes_need_more_to_do(place):
    from dynamask_mlflow.audit.workers import Workers, default_processes

    assert default_processes(50, place.config) == 1
    assert default_processes(100_000, place.config) >= 1
    with pytest.raises(ValueError, match="at least 1 process"):
        Workers(0)
