"""Loading models of unknown origin: nothing that a model brings is imported or executed.

One loader for all ways to a model: `load_untrusted`, `dynamask_mlflow.load_model(..., untrusted=True)`, and audits.
MLflow's own loaders are not called: they import what a model's requirements, loader or pickles name.

Of an exported network (pt2) every record is checked, and torch is given a copy of what passed. `torch.export.load`
unpickles records, imports modules that the graph's tree names, evaluates its size expressions and guards, calls
whatever function of the torch module its nodes name, and writes the names of its values into Python code. Here records
are JSON or raw numbers, expressions are arithmetic, nodes call tensor operators, and names are names.
"""

from __future__ import annotations

import ast
import io
import json
import os
import re
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dynamask_mlflow._npz import max_size
from dynamask_mlflow._settings import shown
from dynamask_mlflow.evaluation.model_settings import SETTINGS_FILE, load_reference
from dynamask_mlflow.evaluation.sequence_model import SequenceModel
from dynamask_mlflow.tracking.errors import UntrustedModelError

if TYPE_CHECKING:
    import torch

LOADERS = ("dynamask_mlflow", "mlflow.pytorch")
TRUST_VARIABLE = "DYNAMASK_TRUST"
ALL = "all"
SIGNED = "signed"
_FLAVORS = ("dynamask", "python_function", "pytorch")
_FILES = {
    "MLmodel", "conda.yaml", "python_env.yaml", "requirements.txt", "dynamask.json", "input_example.json",
    "serving_input_example.json", "registered_model_meta", "reference.npz", "data/model.pt2",
}  # fmt: skip
_LARGEST_TEXT = 1 << 22

_TEXTS = re.compile(r"archive_format|archive_version|byteorder|version|\.data/version|\.data/serialization_id")
_TEXT = re.compile(rb"[A-Za-z0-9._-]{1,64}\n?")
_TENSORS = re.compile(r"data/weights/weight_\d+|data/constants/tensor_\d+")
_CONFIGS = ("data/weights/model_weights_config.json", "data/constants/model_constants_config.json")
_GRAPH, _EXAMPLE = "models/model.json", "data/sample_inputs/model.pt"

_NAME = re.compile(r"[A-Za-z0-9_.+\- ]{0,1000}")
_PLAIN = re.compile(r"[A-Za-z0-9_.,+\->()\[\]:;/ ]{0,1000}")  # arguments, which reach torch as quoted text
_OPERATOR = re.compile(
    r"torch\.ops\.(aten|prims)\.(\w+)(\.\w+)?"
    r"|torch\.ops\.higher_order\.(wrap_with_set_grad_enabled|wrap_with_autocast|cond|while_loop|scan|associative_scan"
    r"|map_impl)"
    r"|torch\.sym_(int|float|not|max|min|ite|sqrt)"
    r"|math\.(ceil|floor|trunc|sqrt|pow)|round"
    r"|_operator\.(getitem|add|sub|mul|truediv|floordiv|mod|pow|neg|pos|eq|ne|lt|le|gt|ge|and_|or_|not_)"
)
_FILE_OPERATORS = ("from_file", "save", "load")  # operators that touch files
_FUNCTIONS = re.compile(r"[A-Z]\w*")
_SYMBOL = re.compile(r"[a-z]{1,5}\d*")
_TREES = ("builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict", None)
_ALLOWED_SYNTAX = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.Call, ast.Name, ast.Constant, ast.keyword,
    ast.operator, ast.unaryop, ast.cmpop, ast.boolop, ast.expr_context,
)  # fmt: skip


def load_untrusted(
    model_uri: str, dst_path: str | None = None, device: str = "auto"
) -> SequenceModel | torch.nn.Module:
    """Download a model, refuse it if it could run code, load its network: a model for `evaluate`.

    Allowed are pt2 networks under MLflow's pytorch loader or ours, without a `code` folder.

    Returns:
        A `SequenceModel` if the model is of our flavor, else the network alone.

    Raises:
        UntrustedModelError: before anything is loaded.
    """
    from dynamask_mlflow.tracking.mlflow_client import download

    return load_folder(download(str(model_uri), dst_path=dst_path), device)


def load_folder(folder: str | os.PathLike[str], device: str = "auto") -> SequenceModel | torch.nn.Module:
    """The model in a local folder, as `load_untrusted` does it."""
    from dynamask_mlflow.evaluation.model_settings import ModelSettings

    described = refuse_code(folder)
    root = Path(folder)
    settings = ModelSettings.load(root) if "dynamask" in described["flavors"] else None
    network = _load_exported(root / "data" / "model.pt2")
    if settings is None:
        return network
    model_id = described.get("model_id")
    identity = model_id if isinstance(model_id, str) else None
    return SequenceModel(network, settings, device, identity, load_reference(root))


def is_trusted(name: str, trust: str | list[str] | tuple[str, ...] | None = None) -> bool:
    """Whether a registered model may bring code.

    Args:
        name: of the registered model.
        trust: names, "signed" (versions with a right signature, see `signatures`), or "all"; by default the
            environment variable DYNAMASK_TRUST (names with commas between them).
    """
    names = _trusted_names(trust)
    return ALL in names or (name in names and name != SIGNED)


def accepts_signed(trust: str | list[str] | tuple[str, ...] | None = None) -> bool:
    """Whether versions with a right signature may bring code."""
    return SIGNED in _trusted_names(trust)


def _trusted_names(trust: str | list[str] | tuple[str, ...] | None) -> list[str]:
    given = os.environ.get(TRUST_VARIABLE, "") if trust is None else trust
    return [part.strip() for part in given.split(",")] if isinstance(given, str) else list(given)


def refuse_code(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Raise `UntrustedModelError` unless the model folder holds data alone; returns its description."""
    root = Path(folder)
    described = _description(root)
    flavors = described["flavors"]
    for name, conf in flavors.items():
        if name not in _FLAVORS or not isinstance(conf, dict):
            raise UntrustedModelError(f"Expected only the flavors {_FLAVORS}, but the model has {_shown(name)}.")
        _check_flavor(name, conf)
    loader = flavors.get("python_function", {}).get("loader_module")
    if loader not in LOADERS:
        raise UntrustedModelError(f"Expected one of the loaders {LOADERS}, but the model names {_shown(loader)}.")
    for path in root.rglob("*"):
        name = path.relative_to(root).as_posix()
        if path.is_symlink():
            raise UntrustedModelError(f"Expected plain files, but the model holds the link {_shown(name)}.")
        if path.suffix in (".pth", ".pkl", ".pt", ".pickle", ".joblib"):
            raise UntrustedModelError(f"Expected a network in pt2 format, but the model holds pickles: {_shown(name)}.")
        if name == SETTINGS_FILE and path.stat().st_size > _LARGEST_TEXT:
            raise UntrustedModelError(f"Expected {name} of at most {_LARGEST_TEXT:,} bytes, but it has more.")
        if path.is_file() and name not in _FILES:
            raise UntrustedModelError(f"Expected a model without code, but it brings the file {_shown(name)}.")
    if not (root / "data" / "model.pt2").is_file():
        raise UntrustedModelError("Expected a network in pt2 format at data/model.pt2, but there is none.")
    return described


def _description(root: Path) -> dict[str, Any]:
    import yaml

    path = root / "MLmodel"
    try:
        if path.stat().st_size > _LARGEST_TEXT:
            raise UntrustedModelError(f"Expected an MLmodel file of at most {_LARGEST_TEXT:,} bytes, but got more.")
        text = path.read_text(encoding="utf-8")
        # References to what was written before let a few lines stand for billions of values.
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text, yaml.SafeLoader)):
            raise UntrustedModelError(f"Expected an MLmodel file without references in {root}, but it has some.")
        described = yaml.safe_load(text)
        if not isinstance(described, dict) or not isinstance(described.get("flavors"), dict):
            raise UntrustedModelError(f"Expected the model's flavors in {path}, but there are none.")
        return described
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        if isinstance(error, UntrustedModelError):
            raise
        raise UntrustedModelError(f"Expected a readable MLmodel file in {root}, but got {error!r}.") from error


def _check_flavor(name: str, conf: dict[str, Any]) -> None:
    if conf.get("code"):
        raise UntrustedModelError(f"Expected a model without code, but flavor {name!r} brings {_shown(conf['code'])}.")
    wanted = {"model_data": "data", "data": {"dynamask": "dynamask.json"}.get(name, "data")}
    for key, value in wanted.items():
        if conf.get(key) not in (None, value):
            got = _shown(conf[key])
            raise UntrustedModelError(f"Expected {key} inside the model's folder, at {value!r}, but got {got}.")


def _load_exported(path: Path) -> torch.nn.Module:
    """The network in a pt2 file, if it holds nothing but numbers and a graph of tensor operators.

    Raises:
        UntrustedModelError: before anything of the file is given to torch.
    """
    import torch

    checked = io.BytesIO()
    with _open_archive(path) as archive, zipfile.ZipFile(checked, "w") as copy:
        records = _records(archive)
        # Each record is read once: the file may change between a check and a second look.
        configs = {name: archive.read(records.pop(name)) for name in _CONFIGS}
        tensors = {tensor for name, content in configs.items() for tensor in _check_config(content, name)}
        for name, content in configs.items():
            copy.writestr(f"model/{name}", content)
        for name, info in records.items():
            if _TENSORS.fullmatch(name):
                if name in tensors:
                    copy.writestr(f"model/{name}", archive.read(info))
            elif name == _GRAPH:
                copy.writestr(f"model/{name}", _checked_graph(archive.read(info)))
            elif name == _EXAMPLE:
                copy.writestr(f"model/{name}", b"")  # a pickle, and a patient's values; not needed
            else:
                copy.writestr(f"model/{name}", _checked_word(archive.read(info), name))
    checked.seek(0)
    try:
        return torch.export.load(checked).module()
    except Exception as error:
        raise UntrustedModelError(
            f"Expected an exported network in {path}, but torch cannot read it: {type(error).__name__}."
        ) from error


def _open_archive(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise UntrustedModelError(f"Expected a network in pt2 format at {path}, but got {error}.") from error


def _records(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The records by name, without the archive's own folder; all of them known, each once."""
    infos = [info for info in archive.infolist() if not info.is_dir()]
    total, limit = sum(info.file_size for info in infos), max_size()
    if total > limit or len(infos) > 100_000:
        raise UntrustedModelError(f"Expected a network of at most {limit:,} bytes, but the archive claims {total:,}.")
    records: dict[str, zipfile.ZipInfo] = {}
    folders = {info.filename.partition("/")[0] for info in infos}
    for info in infos:
        name = info.filename.partition("/")[2]
        known = name in (_GRAPH, _EXAMPLE, *_CONFIGS) or _TENSORS.fullmatch(name) or _TEXTS.fullmatch(name)
        if not known or name in records or len(folders) > 1 or info.compress_type != zipfile.ZIP_STORED:
            raise UntrustedModelError(
                f"Expected the records that torch.export.save writes, but the archive holds {_shown(info.filename)}: "
                "code, pickled objects, or an archive of another version of torch (2.10 or later is needed)."
            )
        records[name] = info
    missing = [name for name in (_GRAPH, _EXAMPLE, *_CONFIGS) if name not in records]
    if missing:
        raise UntrustedModelError(f"Expected the record {missing[0]!r} in a network in pt2 format, but it is missing.")
    return records


def _checked_word(content: bytes, name: str) -> bytes:
    if not _TEXT.fullmatch(content):
        raise UntrustedModelError(f"Expected a word in the record {name!r}, but it holds more.")
    return content


def _check_config(content: bytes, name: str) -> list[str]:
    """The tensor records that a config names; objects that would be unpickled are refused."""
    config = _json(content, name)
    entries = config.get("config") if isinstance(config, dict) else None
    if not isinstance(entries, dict):
        raise UntrustedModelError(f"Expected a list of tensors in the record {name!r}, but got something else.")
    _check(config)
    named = []
    for entry in entries.values():
        path = f"{name.rpartition('/')[0]}/{entry.get('path_name') if isinstance(entry, dict) else ''}"
        if not isinstance(entry, dict) or entry.get("use_pickle") is not False or not _TENSORS.fullmatch(path):
            raise UntrustedModelError(f"Expected raw tensors in the record {name!r}, but it names a pickled object.")
        named.append(path)
    return named


def _checked_graph(content: bytes) -> bytes:
    """The graph without its notes and guards, which are code."""
    graph = _json(content, _GRAPH)
    if not isinstance(graph, dict):
        raise UntrustedModelError("Expected a graph in the network's archive, but got something else.")
    graph = _without_notes(graph)
    graph["guards_code"] = []
    _check(graph)
    return json.dumps(graph).encode()


def _without_notes(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: {} if key == "metadata" else _without_notes(inner) for key, inner in value.items()}
    return [_without_notes(inner) for inner in value] if isinstance(value, list) else value


def _check(value: Any, key: str = "") -> None:
    """Raise for any text in the value that could be more than a name, a tensor operator or arithmetic."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if not _NAME.fullmatch(name):
                raise UntrustedModelError(f"Expected names in the network's graph, but got {name[:80]!r}.")
            _check(inner, name)
    elif isinstance(value, list):
        for inner in value:
            _check(inner, key)
    elif isinstance(value, str):
        _check_text(value, key)


def _check_text(text: str, key: str) -> None:
    if key == "target":
        found = _OPERATOR.fullmatch(text)
        if not found or found.group(2) in _FILE_OPERATORS:
            raise UntrustedModelError(f"Expected tensor operators in the network's graph, but it calls {text[:80]!r}.")
    elif key == "expr_str":
        _check_expression(text)
    elif key in ("in_spec", "out_spec"):
        _check_tree(_json(text.encode(), key))
    elif not (_PLAIN if key in ("as_string", "as_strings") else _NAME).fullmatch(text):
        raise UntrustedModelError(f"Expected names in the network's graph, but {key!r} holds {text[:80]!r}.")


def _check_expression(text: str) -> None:
    """Sizes are evaluated as Python: numbers, symbols and functions of sympy are all there may be."""
    try:
        tree = ast.parse(text, mode="eval") if len(text) < 10_000 else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        tree = None
    fine = tree is not None
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Call):
            fine &= isinstance(node.func, ast.Name) and bool(_FUNCTIONS.fullmatch(node.func.id))
        elif isinstance(node, ast.Name):
            fine &= bool(_SYMBOL.fullmatch(node.id) or _FUNCTIONS.fullmatch(node.id))
        elif isinstance(node, ast.Constant):
            plain = isinstance(node.value, int | float)
            fine &= plain or (isinstance(node.value, str) and bool(_SYMBOL.fullmatch(node.value)))
        fine &= isinstance(node, _ALLOWED_SYNTAX)
    if not fine:
        raise UntrustedModelError(f"Expected arithmetic for a size in the network's graph, but got {text[:80]!r}.")


def _check_tree(value: Any) -> None:
    """The shape of arguments: nested tuples, lists and dictionaries; other types would be imported."""
    if isinstance(value, dict):
        context = value.get("context")
        plain = context is None or (isinstance(context, str) and re.fullmatch(r"null|\[[\w\", ]*\]", context))
        if set(value) != {"type", "context", "children_spec"} or value["type"] not in _TREES or not plain:
            raise UntrustedModelError(
                "Expected tuples, lists and dictionaries of tensors, but the network takes others."
            )
        _check_tree(value["children_spec"])
    elif isinstance(value, list):
        for inner in value:
            _check_tree(inner)
    elif not isinstance(value, int):
        raise UntrustedModelError("Expected tuples, lists and dictionaries of tensors, but the network takes others.")


def _shown(value: object) -> str:
    return shown(value, kind=False)


def _json(content: bytes, name: str) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UntrustedModelError(f"Expected JSON in the record {name!r}, but it cannot be read.") from error


__all__ = ["UntrustedModelError", "accepts_signed", "is_trusted", "load_folder", "load_untrusted", "refuse_code"]
