"""An audit is of a version, a site, its stays, a window and a configuration; nothing is mixed, also not at once."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import mlflow
import numpy as np
import pytest
from audit_hospital import hospital

from dynamask_mlflow.audit import AuditConfig, AuditError, audit_history, build_reference, prepare_audit, run_audit
from dynamask_mlflow.audit.explained_window import ExplainedWindow
from dynamask_mlflow.audit.runs import DatasetInput, describe_run
from dynamask_mlflow.cli import main

MODEL = "models:/icu@champion"


@pytest.fixture
def faulty(tmp_path: Path) -> str:
    """The same stays, with lactate out of order in February, too."""
    data = hospital()
    data.x[data.windows == "2026-02", :, 1] -= 4.0
    return str(data.save(tmp_path / "faulty"))


def run_of(run_id: str):
    return mlflow.MlflowClient().get_run(run_id)


def test_other_data_for_a_window_are_another_audit_that_supersedes_the_first(place, faulty):
    first = run_audit(MODEL, faulty, "2026-02", **place.options())
    second = run_audit(MODEL, place.data, "2026-02", **place.options())
    assert (first.state, second.state) == ("drift", "ok")
    old, new = sorted(audit_history("dynamask-audits", "icu"), key=lambda entry: entry.audited_at)
    assert old.run_id != new.run_id
    assert (old.superseded, new.superseded) == (True, False)
    assert run_of(new.run_id).data.tags["dynamask.supersedes"] == old.run_id
    assert run_of(old.run_id).data.tags["dynamask.superseded_by"] == new.run_id
    for entry, verdict in ((old, first), (new, second)):
        assert entry.metrics["p_value"] == pytest.approx(verdict.metrics["p_value"])
        assert entry.metrics["moved_channels"] == pytest.approx(verdict.metrics["moved_channels"])
        for name in entry.metrics:
            history = mlflow.MlflowClient().get_metric_history(entry.run_id, f"dynamask/audit/{name}")
            assert len(history) == 1, name
    assert [entry.run_id for entry in audit_history("dynamask-audits", "icu", superseded=False)] == [new.run_id]


def test_data_that_come_back_are_current_again(place, faulty):
    for data in (place.data, faulty, place.data):
        run_audit(MODEL, data, "2026-02", **place.options())
    entries = audit_history("dynamask-audits", "icu")
    assert len(entries) == 2
    (current,) = [entry for entry in entries if not entry.superseded]
    assert current.verdict == "ok"
    tags = run_of(current.run_id).data.tags
    assert "dynamask.superseded_by" not in tags
    assert mlflow.MlflowClient().get_model_version("icu", "1").tags["dynamask.verdict"] == "ok"


def test_a_month_that_is_appended_leaves_the_audits_before_it_alone(place, tmp_path):
    first = prepare_audit(place.source(place.data, "2026-02"), place.config)
    longer = hospital()
    shorter = str(longer.select(longer.windows != "2026-06").save(tmp_path / "shorter"))
    assert prepare_audit(place.source(shorter, "2026-02"), place.config).run_id == first.run_id


def test_sites_have_references_verdicts_and_histories_of_their_own(place, faulty):
    with pytest.raises(AuditError, match="at the site ward-3, but there is none"):
        run_audit(MODEL, place.data, "2026-02", site="ward-3", **place.options())
    build_reference(MODEL, place.data, "2026-01", site="ward-3", **place.options())
    here = run_audit(MODEL, place.data, "2026-02", **place.options())
    there = run_audit(MODEL, faulty, "2026-02", site="ward-3", **place.options())
    assert (here.state, there.state) == ("ok", "drift")
    assert here.reference_run_id != there.reference_run_id
    version = mlflow.MlflowClient().get_model_version("icu", "1")
    assert version.tags["dynamask.verdict.default"] == "ok"
    assert version.tags["dynamask.verdict.ward-3"] == "drift"
    assert version.tags["dynamask.verdict"] == "drift"
    assert "**ward-3**: drift" in version.description
    (entry,) = audit_history("dynamask-audits", "icu", site="ward-3")
    assert run_of(entry.run_id).data.tags["dynamask.site"] == "ward-3"
    with pytest.raises(AuditError, match="Expected a site"):
        run_audit(MODEL, place.data, "2026-02", site="no such/site", **place.options())


def test_a_run_says_dataset_model_parameters_and_source(place):
    request = prepare_audit(place.source(place.data, "2026-02"), place.config)
    run = run_of(request.run_id)
    (dataset,) = run.inputs.dataset_inputs
    assert dataset.dataset.digest == request.content[:36]
    assert dataset.dataset.name == "icu"
    (model,) = run.inputs.model_inputs
    assert request.model.source == f"models:/{model.model_id}"
    assert run.data.params["site"] == "default"
    assert run.data.params["window"] == "2026-02"
    assert run.data.params["alpha"] == "0.05"
    assert run.data.tags["mlflow.source.name"].startswith("dynamask-mlflow audit run")
    assert run.data.tags["dynamask.version"] == "1"
    again = prepare_audit(place.source(place.data, "2026-02"), place.config)
    assert len(run_of(again.run_id).inputs.dataset_inputs) == 1


RACE = """
import os, sys, time, warnings
warnings.filterwarnings("ignore")
import mlflow
from dynamask_mlflow.audit.runs import find_or_create_run

uri, count, shared, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "shared", sys.argv[4]
start = time.time() + 1.0
children = []
for number in range(count):
    child = os.fork()
    if child == 0:
        mlflow.set_tracking_uri(uri)
        time.sleep(max(0, start - time.time()))
        store = folder if shared else os.path.join(folder, str(number))
        run = find_or_create_run("dynamask-audits", "one-key", "audit", {"number": str(number)}, store)
        with open(os.path.join(folder, f"got-{number}"), "w") as file:
            file.write(run)
        os._exit(0)
    children.append(child)
sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))
"""


@pytest.mark.slow
@pytest.mark.parametrize("stores", ["shared", "apart"])
def test_fifteen_processes_at_once_get_one_run(place, tmp_path, stores):
    folder = tmp_path / "race"
    folder.mkdir()
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", RACE, place.uri, "15", stores, str(folder)], check=True, timeout=900
    )
    got = {path.read_text() for path in folder.glob("got-*")}
    assert len(list(folder.glob("got-*"))) == 15
    assert len(got) == 1
    client = mlflow.MlflowClient()
    home = client.get_experiment_by_name("dynamask-audits").experiment_id
    assert [run.info.run_id for run in client.search_runs([home], "tags.`dynamask.audit_key` = 'one-key'")] == [*got]


def test_parameters_that_another_process_logged_meanwhile_are_no_error(place, monkeypatch):
    mlflow.set_tracking_uri(place.uri)
    client = mlflow.MlflowClient()
    run = client.create_run(client.create_experiment("race")).info.run_id
    whole = mlflow.MlflowClient.log_batch

    def late(self, run_id, **values):
        monkeypatch.undo()
        whole(self, run_id, **values)
        raise mlflow.exceptions.MlflowException("UNIQUE constraint failed: params.key, params.run_uuid")

    monkeypatch.setattr(mlflow.MlflowClient, "log_batch", late)
    describe_run(run, DatasetInput("ward", "0" * 36, place.data, 3, "audit"), {"window": "2026-02", "seed": 7}, None)
    logged = client.get_run(run)
    assert logged.data.params == {"window": "2026-02", "seed": "7"}
    assert len(logged.inputs.dataset_inputs) == 1


@pytest.mark.slow
def test_whole_audits_at_the_same_time_end_in_one_run_with_one_value_each(place):
    script = textwrap.dedent(f"""
        import json, mlflow, sys, torch, warnings
        warnings.filterwarnings("ignore")
        torch.set_num_threads(1)
        mlflow.set_tracking_uri({place.uri!r})
        from dynamask_mlflow.audit import AuditConfig, run_audit
        config = AuditConfig.from_mapping(json.loads(sys.argv[1]))
        verdict = run_audit({MODEL!r}, {place.data!r}, "2026-02", config=config, store={place.shards!r})
        print(json.dumps(dict(verdict.metrics)))
    """)
    settings = json.dumps(place.config.to_dict())
    processes = [
        subprocess.Popen([sys.executable, "-c", script, settings], stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    metrics = [json.loads(process.communicate(timeout=300)[0].strip().splitlines()[-1]) for process in processes]
    assert metrics[0] == metrics[1] == metrics[2]
    (entry,) = audit_history("dynamask-audits", "icu")
    client = mlflow.MlflowClient()
    for name in entry.metrics:
        assert len(client.get_metric_history(entry.run_id, f"dynamask/audit/{name}")) == 1, name


def test_a_model_with_a_quotation_mark_in_its_name_can_be_audited(place):
    from audit_hospital import Lactate, register

    register(place.folder, Lactate(), name="it's")
    build_reference("models:/it's/1", place.data, "2026-01", **place.options(anchors=0))
    assert run_audit("models:/it's/1", place.data, "2026-02", **place.options(anchors=0)).state == "ok"


def test_the_commands_take_a_site_and_show_what_was_superseded(place, faulty):
    from click.testing import CliRunner

    run = CliRunner().invoke
    assert run(main, place.command("reference", "--model", MODEL, "--window", "2026-01", "--site", "b")).exit_code == 0
    assert run(main, place.command("run", "--model", MODEL, "--window", "2026-02", "--site", "b")).exit_code == 0
    options = [faulty if part == place.data else part for part in place.command("run", "--model", MODEL)]
    assert run(main, [*options, "--window", "2026-02", "--site", "b"]).exit_code == 1
    shown = run(main, ["audit", "show", "--model", "icu"]).output
    assert shown.count("2026-02") == 1
    everything = run(main, ["audit", "show", "--model", "icu", "--all", "--site", "b"]).output
    assert everything.count("2026-02") == 2
    assert everything.count("superseded") == 1


def files_of(run_id: str, name: str) -> ExplainedWindow:
    return ExplainedWindow.load(mlflow.artifacts.download_artifacts(run_id=run_id, artifact_path=f"dynamask/{name}"))


def test_no_mean_input_leaves_the_store(place):
    verdict = run_audit(MODEL, place.data, "2026-02", **place.options())
    (entry,) = audit_history("dynamask-audits", "icu")
    for run_id, name in (
        (entry.run_id, "measured.npz"),
        (verdict.reference_run_id, "reference.npz"),
        (verdict.reference_run_id, "anchors.npz"),
    ):
        stored = files_of(run_id, name)
        assert stored.values.size == stored.missing.size == 0
        assert stored.codes.dtype == np.int8
        assert set(np.unique(stored.codes)) <= set(range(-1, 19))


def test_a_reference_rebuilt_without_anchors_holds_no_inputs(place):
    before = mlflow.MlflowClient().get_model_version("icu", "1").tags["dynamask.reference_run_id"]
    done = build_reference(MODEL, place.data, "2026-01", **place.options(anchors=0))
    assert done.run_id != before
    names = {file.path for file in mlflow.MlflowClient().list_artifacts(done.run_id, "dynamask")}
    assert names == {"dynamask/reference.npz", "dynamask/reference.json"}
    verdict = run_audit(MODEL, place.data, "2026-02", **place.options(anchors=0))
    assert verdict.state == "ok"
    assert verdict.reference_run_id == done.run_id


def test_windows_without_admission_times_are_found_by_their_labels(place, tmp_path):
    from dynamask_mlflow.audit.windows import find_rows, parse_window

    data = hospital()
    data.admitted[:] = np.datetime64("NaT")
    folder = str(data.save(tmp_path / "timeless"))
    for text, months in (("2026", 6), ("2026-02..2026-03", 2), ("2026-02", 1), ("2025-12..2026-01", 1)):
        rows = find_rows(folder, parse_window(text))
        assert len(set(data.windows[rows])) == months, text
    with pytest.raises(AuditError, match="there are none"):
        find_rows(folder, parse_window("2026-02-03"))


def test_settings_of_the_prediction_arm_are_checked():
    assert AuditConfig(thresholds=[0.5, 0.3]).thresholds == (0.3, 0.5)
    with pytest.raises(ValueError, match="Expected thresholds"):
        AuditConfig(thresholds=0.5)
    with pytest.raises(ValueError, match="Expected risk_effect"):
        AuditConfig(risk_effect=2)
