"""Wrong settings of audits and gates: one kind of error, short, and what is taken survives JSON."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dynamask_mlflow._settings import ConfigError, Settings
from dynamask_mlflow.audit import AuditConfig, GateLimits

WRONG: list[Any] = [
    "false", "5", "", 5, -1, 0, 1.5, -0.5, 1e308, 1e-320, 10**19, 10**400, math.nan, math.inf, -math.inf, True, None,
    [], {}, {"a": 1}, {1: 2}, [1, 2], ["a"], [None], [[0.1]], {0.1}, b"x", object(), 1j, np.array([0.1]), np.array("x"),
    np.zeros((2, 2)), lambda: 1, int, range(3), "\0", "é" * 5000, ["a"] * 10_000, np.datetime64("NaT"), "<script>",
]  # fmt: skip


@pytest.mark.parametrize("kind", [AuditConfig, GateLimits])
def test_every_field_is_taken_and_kept_or_refused_in_a_few_words(kind: type[Settings]) -> None:
    for name in kind.model_fields:
        for value in WRONG:
            said = ""
            try:
                made = kind.from_mapping({name: value})
            except ConfigError as error:
                said = str(error)
            else:
                assert kind.from_mapping(json.loads(json.dumps(made.to_dict()))) == made, (name, value)
            assert not said or ("Expected" in said and len(said) < 1000), (name, said)


@pytest.mark.parametrize("kind", [AuditConfig, GateLimits])
def test_a_long_unknown_key_makes_no_long_message(kind: type[Settings]) -> None:
    with pytest.raises(ConfigError, match="Unknown key") as raised:
        kind.from_mapping({"x" * 10_000: 1})
    assert len(str(raised.value)) < 2500


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 1e-320}, "Expected an alpha for which 100,000,000 permutations are enough, but got 1e-320"),
        ({"alpha": 1e-12}, "Expected an alpha for which"),
        ({"quality_effect": -0.5}, "Expected quality_effect >= 0, but got -0.5"),
        ({"important": -1.0}, "Expected important >= 0, but got -1.0"),
        ({"permutations": 10**12}, r"Expected permutations in \[1, 1e\+08\], but got 1000000000000"),
        ({"target": lambda output: output}, "Expected the target of an audit as text or a number, but got <function"),
    ],
)
def test_what_an_audit_cannot_work_with_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        AuditConfig(**options)


@given(st.sampled_from(sorted(AuditConfig.model_fields)),
       st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
                    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
                    max_leaves=4))  # fmt: skip
@settings(max_examples=300, deadline=None)
def test_whatever_json_holds_is_a_setting_or_refused(name: str, value: Any) -> None:
    try:
        made = AuditConfig.from_mapping({name: value})
    except ConfigError:
        return
    assert AuditConfig.from_mapping(json.loads(json.dumps(made.to_dict()))) == made
    assert len(made.audit_digest) == len(made.explainer_digest) > 0
