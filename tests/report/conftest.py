"""A real browser for the pages, where there is one."""

from pages import browser, watch  # noqa: F401  (fixtures)
