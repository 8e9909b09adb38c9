"""The page of benchmarks: what was not run again stays."""

from __future__ import annotations

from benchmarks.__main__ import machine, page

MACHINE = {"machine": machine()}


def test_other_sections_stay_and_the_one_that_was_run_is_replaced() -> None:
    first = page({**MACHINE, "engine": {"rare": {"times": 2.0}}, "import_cost": {"growth": {"median ms": 9.0}}})
    second = page({**MACHINE, "import_cost": {"growth": {"median ms": 3.0}}}, first)
    assert "| rare | 2 |" in second
    assert "| growth | 3 |" in second
    assert "| growth | 9 |" not in second
    assert second.count("## engine") == second.count("## import_cost") == 1
    assert page(MACHINE, second) == second
