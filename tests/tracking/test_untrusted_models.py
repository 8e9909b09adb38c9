"""Models that try to run code when they are loaded or used: each attack works on MLflow's loader and fails on ours."""

from __future__ import annotations

import contextlib
import io
import json
import pickle
import shutil
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pytest
import torch
from small_networks import CHANNELS, STEPS, GRUClassifier, sequences
from torch import Tensor, nn

import dynamask_mlflow
from dynamask_mlflow.audit import AuditConfig
from dynamask_mlflow.audit.errors import AuditError
from dynamask_mlflow.audit.models import load_network, resolve_model
from dynamask_mlflow.evaluation.sequences import as_sequences
from dynamask_mlflow.tracking.mlflow_client import download
from dynamask_mlflow.tracking.signatures import TAG as SIGNATURE
from dynamask_mlflow.tracking.signatures import sign_version, signed_folder
from dynamask_mlflow.tracking.untrusted import UntrustedModelError, accepts_signed, is_trusted, load_untrusted

X, _ = sequences(6)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(CHANNELS, 2, 8, batch_first=True)
        self.body, self.head = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False), nn.Linear(CHANNELS, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x).mean(dim=1))


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv1d(CHANNELS, 6, 3, padding=1), nn.BatchNorm1d(6), nn.GELU())
        self.head = nn.Linear(6, 2)
        self.register_buffer("scale", torch.arange(1.0, CHANNELS + 1))

    def forward(self, x: Tensor) -> Tensor:
        y = torch.einsum("btc,c->btc", x, self.scale)
        return self.head(self.body(y.transpose(1, 2)).transpose(1, 2))


class Cells(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.lstm = nn.GRUCell(CHANNELS, 5), nn.LSTM(CHANNELS, 5, bidirectional=True, batch_first=True)
        self.head = nn.Linear(15, 2)

    def forward(self, x: Tensor) -> Tensor:
        state = x.new_zeros(len(x), 5)
        for t in range(STEPS):
            state = self.cell(x[:, t], state)
        return torch.softmax(self.head(torch.cat([state, self.lstm(x)[0].amax(dim=1)], dim=-1)), dim=-1)


@pytest.mark.parametrize("make", [GRUClassifier, Attention, Convolutions, Cells])
def test_honest_networks_are_loaded_with_their_gradients(make: Callable[[], nn.Module], tmp_path: Path) -> None:
    network = make().eval()
    dynamask_mlflow.save_model(network, tmp_path / "m", task="classification", input_example=X)
    loaded = load_untrusted(str(tmp_path / "m"))
    assert isinstance(loaded, dynamask_mlflow.evaluation.sequence_model.SequenceModel)
    a, b = (torch.tensor(X, requires_grad=True) for _ in range(2))
    network(a).square().sum().backward()
    loaded.network(b).square().sum().backward()
    torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-6)


def test_a_model_of_mlflows_own_flavor_is_loaded_and_evaluated(tmp_path: Path, store: Path) -> None:
    network = GRUClassifier().eval()
    mlflow.pytorch.save_model(network, tmp_path / "m", input_example=X, serialization_format="pt2")
    loaded = load_untrusted(str(tmp_path / "m"))
    assert isinstance(loaded, nn.Module)
    with pytest.raises(UntrustedModelError, match="dynamask flavor"):
        dynamask_mlflow.load_model(str(tmp_path / "m"), untrusted=True)
    result = mlflow.models.evaluate(
        loaded,
        mlflow.data.from_sequences(X, targets=[0, 1] * 3),
        model_type="classifier",
        evaluators="dynamask",
        evaluator_config={"instances": 2, "steps": 5, "images": 0},
    )
    assert result.metrics["dynamask/instances"] == 2


def rewrite(folder: Path, change: Callable[[dict[str, bytes]], None]) -> None:
    archive = folder / "data" / "model.pt2"
    with zipfile.ZipFile(archive) as before:
        records = {name: before.read(name) for name in before.namelist()}
    change(records)
    with zipfile.ZipFile(archive, "w") as after:
        for name, content in records.items():
            after.writestr(name, content)


def graph(change: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, bytes], Path], None]:
    def edit(records: dict[str, bytes], _: Path) -> None:
        (name,) = [name for name in records if name.endswith("models/model.json")]
        described = json.loads(records[name])
        change(described)
        records[name] = json.dumps(described).encode()

    return edit


def system_call(records: dict[str, bytes], proof: Path) -> None:
    def change(described: dict[str, Any]) -> None:
        node = {
            "target": "torch.os.system",
            "inputs": [{"name": "command", "arg": {"as_string": f"touch {proof}"}, "kind": 1}],
            "outputs": [],
            "metadata": {},
            "is_hop_single_tensor_return": None,
            "name": "call",
        }
        described["graph_module"]["graph"]["nodes"].insert(0, node)

    graph(change)(records, proof)


def expression(records: dict[str, bytes], proof: Path) -> None:
    def change(described: dict[str, Any]) -> None:
        text = json.dumps(described)
        assert "Symbol('s" in text
        poisoned = text.replace('"expr_str": "Symbol(', f"\"expr_str\": \"open('{proof}', 'w') and Symbol(", 1)
        described.clear()
        described.update(json.loads(poisoned))

    graph(change)(records, proof)


def guard(records: dict[str, bytes], proof: Path) -> None:
    graph(lambda d: d.update(guards_code=[f"__import__('pathlib').Path('{proof}').touch() is None"]))(records, proof)


def tree(records: dict[str, bytes], proof: Path) -> None:
    (proof.parent / "evil_tree.py").write_text(f"open({str(proof)!r}, 'w')\n")

    def change(described: dict[str, Any]) -> None:
        signature = described["graph_module"]["module_call_graph"][0]["signature"]
        spec = json.loads(signature["in_spec"])
        spec[1]["context"] = json.dumps({"__enum__": True, "fqn": "evil_tree:X", "name": "X"})
        signature["in_spec"] = json.dumps(spec)

    graph(change)(records, proof)


class Bomb:
    def __init__(self, proof: Path) -> None:
        self.proof = proof

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.proof,))


def pickled_weight(records: dict[str, bytes], proof: Path) -> None:
    (name,) = [name for name in records if name.endswith("model_weights_config.json")]
    config = json.loads(records[name])
    entry = next(iter(config["config"].values()))
    entry["use_pickle"] = True
    records[name] = json.dumps(config).encode()
    buffer = io.BytesIO()
    torch.save(Bomb(proof), buffer)
    records[f"model/data/weights/{entry['path_name']}"] = buffer.getvalue()


def opaque_constant(records: dict[str, bytes], proof: Path) -> None:
    (name,) = [name for name in records if name.endswith("model_constants_config.json")]
    meta = {"path_name": "opaque_obj_0", "is_param": False, "use_pickle": True, "tensor_meta": None}
    records[name] = json.dumps({"config": {"x": meta}}).encode()
    records["model/data/constants/opaque_obj_0"] = pickle.dumps(Bomb(proof))


def sample_inputs(records: dict[str, bytes], proof: Path) -> None:
    buffer = io.BytesIO()
    torch.save(Bomb(proof), buffer)
    records["model/data/sample_inputs/model.pt"] = buffer.getvalue()


def evil_name(records: dict[str, bytes], proof: Path) -> None:
    (name,) = [name for name in records if name.endswith("models/model.json")]
    evil = f"x=open('{proof}','w')"
    records[name] = records[name].replace(b'"name": "x"', f'"name": "{evil}"'.encode())


ATTACKS = [system_call, expression, guard, tree, pickled_weight, opaque_constant, sample_inputs, evil_name]


@pytest.mark.parametrize("attack", ATTACKS)
def test_poisoned_archives_run_nothing(
    attack: Callable[[dict[str, bytes], Path], None], saved: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proof = tmp_path / "it-ran"
    monkeypatch.syspath_prepend(str(tmp_path))
    shutil.copytree(saved, tmp_path / "m")
    rewrite(tmp_path / "m", lambda records: attack(records, proof))
    with contextlib.suppress(UntrustedModelError):  # refused, or loaded without what was planted
        loaded = load_untrusted(str(tmp_path / "m"))
        loaded.predict(X)  # type: ignore[operator]
        assert attack in (guard, sample_inputs)
    assert not proof.exists()
    if attack in (expression, guard, tree):  # these run even where pickles are forbidden
        monkeypatch.setenv("MLFLOW_ALLOW_PICKLE_DESERIALIZATION", "false")
    with contextlib.suppress(Exception):  # as a trusted model it does run: the test can fail
        mlflow.pyfunc.load_model(str(tmp_path / "m")).predict(X)
    assert proof.exists() or attack in (system_call, evil_name)  # which torch's own checks stop, too


def test_a_requirement_does_not_choose_a_module_to_import(
    saved: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proof = tmp_path / "it-ran"
    (tmp_path / "evil_requirement.py").write_text(f"open({str(proof)!r}, 'w')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    shutil.copytree(saved, tmp_path / "m")
    (tmp_path / "m" / "requirements.txt").write_text("evil_requirement==1.0\n")
    load_untrusted(str(tmp_path / "m"))
    dynamask_mlflow.load_model(str(tmp_path / "m"), untrusted=True)
    assert not proof.exists()
    assert "evil_requirement" not in sys.modules
    mlflow.pyfunc.load_model(str(tmp_path / "m"))
    assert proof.exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("code/evil.py", "brings the file 'code/evil.py'"),
        ("data/model.pth", "holds pickles"),
        ("data/pickle_module_info.txt", "brings the file"),
        ("data/extra.so", "brings the file"),
        ("sitecustomize.py", "brings the file"),
    ],
)
def test_files_that_a_network_does_not_need_are_refused(saved: str, tmp_path: Path, name: str, message: str) -> None:
    shutil.copytree(saved, tmp_path / "m")
    (tmp_path / "m" / name).parent.mkdir(exist_ok=True)
    (tmp_path / "m" / name).write_text("x")
    with pytest.raises(UntrustedModelError, match=message):
        load_untrusted(str(tmp_path / "m"))


def test_links_and_damaged_descriptions_are_refused(saved: str, tmp_path: Path) -> None:
    shutil.copytree(saved, tmp_path / "m")
    model, secret = tmp_path / "m" / "data" / "model.pt2", tmp_path / "elsewhere"
    model.rename(secret)
    model.symlink_to(secret)
    with pytest.raises(UntrustedModelError, match="link"):
        load_untrusted(str(tmp_path / "m"))
    for text in ("", "[]", "flavors: 5", "flavors: {python_function: 5}", "!!python/object/apply:os.system [ls]", "{"):
        (tmp_path / "m" / "MLmodel").write_text(text)
        with pytest.raises(UntrustedModelError, match="Expected"):
            load_untrusted(str(tmp_path / "m"))


def test_a_record_is_read_once(saved: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever can write to the store could change the file between a check and a second look."""
    shutil.copytree(saved, tmp_path / "m")
    read: list[str] = []
    original = zipfile.ZipFile.read

    def counted(self: zipfile.ZipFile, name: Any, pwd: bytes | None = None) -> bytes:
        read.extend([name.filename] if self.filename and self.filename.endswith("model.pt2") else [])
        return original(self, name, pwd)

    monkeypatch.setattr(zipfile.ZipFile, "read", counted)
    load_untrusted(str(tmp_path / "m"))
    assert len(read) > 3
    assert len(set(read)) == len(read)


@pytest.mark.parametrize("content", [b"", b"no zip", None])
def test_archives_that_are_none_are_refused(saved: str, tmp_path: Path, content: bytes | None) -> None:
    shutil.copytree(saved, tmp_path / "m")
    path = tmp_path / "m" / "data" / "model.pt2"
    path.write_bytes(path.read_bytes()[:-300] if content is None else content)
    with pytest.raises(UntrustedModelError, match="Expected"):
        load_untrusted(str(tmp_path / "m"))


def test_a_network_beyond_the_limit_is_refused(saved: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DYNAMASK_MAX_BYTES", "1000")
    with pytest.raises(UntrustedModelError, match="at most 1,000 bytes"):
        load_untrusted(saved)


def test_names_that_are_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DYNAMASK_TRUST", raising=False)
    assert not is_trusted("icu")
    assert is_trusted("icu", ["icu"])
    assert is_trusted("icu", "all")
    assert not is_trusted("icu", [])
    monkeypatch.setenv("DYNAMASK_TRUST", "other, icu")
    assert is_trusted("icu")
    assert not is_trusted("icu", [])


class Planted(GRUClassifier):
    proof: str = ""

    def __reduce__(self) -> tuple[Any, ...]:
        return (_planted, (self.proof,))


def _planted(proof: str) -> GRUClassifier:
    Path(proof).touch()
    return GRUClassifier()


def test_an_audit_runs_no_code_of_a_model_unless_it_is_trusted(store: Path, tmp_path: Path) -> None:
    network = Planted().eval()
    network.proof = str(tmp_path / "it-ran")
    with mlflow.start_run():
        dynamask_mlflow.log_model(
            network,
            "gru",
            task="classification",
            input_example=X,
            serialization_format="pickle",
            registered_model_name="it's planted",
        )
    (tmp_path / "it-ran").unlink(missing_ok=True)
    ref = resolve_model("models:/it's planted")
    with pytest.raises(AuditError, match=r"holds pickles: .* If you trust .*, say so with --trust"):
        load_network(ref, None)
    assert not (tmp_path / "it-ran").exists()
    model = load_network(ref, None, trust=["it's planted"])
    loaded, _ = model.network(as_sequences(X), AuditConfig())
    assert (tmp_path / "it-ran").exists()
    assert model.task == "classification"
    assert np.isfinite(loaded(torch.tensor(X)).detach().numpy()).all()


def test_an_audit_runs_the_code_of_signed_versions(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = Planted().eval()
    network.proof = str(tmp_path / "it-ran")
    for _ in range(2):
        with mlflow.start_run():
            dynamask_mlflow.log_model(
                network, "gru", task="classification", input_example=X, serialization_format="pickle",
                registered_model_name="icu",
            )  # fmt: skip
    (tmp_path / "it-ran").unlink(missing_ok=True)
    ours, others = resolve_model("models:/icu/1"), resolve_model("models:/icu/2")
    with pytest.raises(UntrustedModelError, match=r"DYNAMASK_SIGNING_KEY to hold a secret .* but it has 0"):
        sign_version("icu", "1")
    monkeypatch.setenv("DYNAMASK_SIGNING_KEY", "sixteen letters and more")
    sign_version("icu", "1")
    with pytest.raises(AuditError, match=r"Expected a signed model, .* dynamask-mlflow sign models:/icu/2"):
        load_network(others, None, trust="signed")
    # A signature of other files is none.
    signature = mlflow.MlflowClient().get_model_version("icu", "1").tags[SIGNATURE]
    mlflow.MlflowClient().set_model_version_tag("icu", "2", SIGNATURE, signature)
    with pytest.raises(AuditError, match="Expected the files that were signed"):
        load_network(others, None, trust="signed")
    assert not (tmp_path / "it-ran").exists()
    assert load_network(ours, None, trust="signed").task == "classification"
    assert (tmp_path / "it-ran").exists()
    # What is checked and loaded is a copy: the registry's own folder may change in between.
    assert not Path(signed_folder("icu", "1"), "MLmodel").samefile(download("models:/icu/1") / "MLmodel")
    monkeypatch.setenv("DYNAMASK_SIGNING_KEY", "another key of somebody else")
    with pytest.raises(AuditError, match="Expected the files that were signed"):
        load_network(ours, None, trust="signed")


def test_a_model_that_is_called_signed_is_not_trusted_by_its_name() -> None:
    assert not is_trusted("signed", "signed")
    assert accepts_signed(["signed"])
    assert not accepts_signed("icu")


def test_the_command_line_passes_trust_on_to_the_processes_that_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    from dynamask_mlflow.cli.audit import open_settings

    monkeypatch.setenv("DYNAMASK_TRUST", "")
    open_settings(None, None, (), 1, ("it's planted", "icu"))
    assert is_trusted("icu")
    assert is_trusted("it's planted")
    assert not is_trusted("other")
